// What the host knows of devices: with two of different targets in one process, from several threads at once. Runs on
// two emulated devices, gfx1030 and gfx942.
#include <doctest/doctest.h>

#include "waveattn/arch/capability.h"

#include <thread>
#include <vector>

using namespace waveattn;

TEST_CASE("two devices of different targets, each with its own properties, from many threads") {
    int count = 0;
    check_hip(hipGetDeviceCount(&count), "hipGetDeviceCount");
    REQUIRE(count == 2);
    std::vector<std::thread> threads;
    std::vector<int> failures(8, 0);
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 200; ++i) {
                const int ordinal = (t + i) % 2;
                check_hip(hipSetDevice(ordinal), "hipSetDevice"); // the current device is the thread's own
                const auto& device = arch::current_device();
                const bool right = device.ordinal == ordinal && &device == &arch::device(ordinal) &&
                                   device.target == (ordinal ? arch::Target::gfx942 : arch::Target::gfx1030) &&
                                   device.wave_size == (ordinal ? 64 : 32) && device.compute_units > 0;
                if (!right) ++failures[std::size_t(t)];
            }
        });
    for (auto& thread : threads) thread.join();
    for (int failed : failures) CHECK(failed == 0);
}

TEST_CASE("refusals name the device, what it is and what is needed") {
    CHECK_THROWS_WITH_AS(arch::require_target<arch::gfx1200>(arch::device(1), "flash_attention_wmma"),
        doctest::Contains("flash_attention_wmma needs gfx1200; device 1 (AMD Instinct MI300X) is gfx942"),
        UnsupportedDevice);
    CHECK_NOTHROW(arch::require_target<arch::gfx942>(arch::device(1), "sage"));
    CHECK_THROWS_AS(arch::device(2), HipFailure);
    CHECK_THROWS_AS(arch::device(-1), HipFailure);
}

TEST_CASE("targets by gcnArchName") {
    using arch::Target;
    using arch::target_from_name;
    CHECK(target_from_name("gfx942:sramecc+:xnack-") == Target::gfx942);
    CHECK(target_from_name("gfx1031") == Target::gfx1030);
    CHECK(target_from_name("gfx1201") == Target::gfx1200);
    CHECK(target_from_name("gfx950:sramecc+") == Target::gfx950);
    for (const char* other : {"gfx1100", "gfx90a:sramecc+:xnack-", "gfx9-generic", "gfx94", "gfx9422", "", ":"})
        CHECK(target_from_name(other) == Target::unsupported);
    CHECK(std::string(arch::target_name(Target::gfx1200)) == "gfx1200");
    CHECK(std::string(arch::target_name(Target::unsupported)) == "unsupported");
    CHECK(arch::wave_size(Target::gfx950) == 64);
    CHECK(arch::wave_size(Target::gfx1030) == 32);
    static_assert(arch::this_pass == Target::unsupported, "the host has no target");
    static_assert(!arch::compiled_for<arch::gfx942> && !arch::compiled_for<arch::any_wave32>);
}
