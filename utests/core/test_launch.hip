// Launches: arguments converted to the kernel's types, the limit of a grid, errors of the runtime.
#include "reference.h"

#include <doctest/doctest.h>

#include "waveattn/arch/intrinsics.h"
#include "waveattn/core/launch.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {
struct Pair {
    std::int64_t a;
    float b;
};
__global__ __launch_bounds__(64) void store_arguments(double* out, Pair pair, std::int64_t wide, float narrow) {
    if (arch::thread_x() == 0) {
        out[4 * arch::block_x()] = double(pair.a), out[4 * arch::block_x() + 1] = pair.b;
        out[4 * arch::block_x() + 2] = double(wide), out[4 * arch::block_x() + 3] = narrow;
    }
}
} // namespace

TEST_CASE("arguments arrive as the kernel's types, in every workgroup") {
    const DeviceArray<double> out(std::size_t(12));
    launch("store", store_arguments, 3, 64, 0, nullptr, out.data(), Pair{std::int64_t(1) << 40, 0.5f}, 7, 2.25);
    const auto values = out.host();
    for (int block = 0; block < 3; ++block) {
        CHECK(values[4 * block] == double(std::int64_t(1) << 40));
        CHECK(values[4 * block + 1] == 0.5);
        CHECK(values[4 * block + 2] == 7);
        CHECK(values[4 * block + 3] == 2.25);
    }
}

TEST_CASE("a grid beyond HIP's limit, or empty, is refused") {
    const DeviceArray<double> out(std::size_t(4));
    for (std::int64_t blocks : {std::int64_t(0), std::int64_t(-1), std::int64_t(67108864), std::int64_t(1) << 40})
        CHECK_THROWS_WITH_AS(launch("store", store_arguments, blocks, 64, 0, nullptr, out.data(), Pair{}, 0, 0.f),
            doctest::Contains("store"), Unsupported);
}

TEST_CASE("an error of the runtime names the kernel") {
    const DeviceArray<double> out(std::size_t(4));
    CHECK_THROWS_WITH_AS(
        launch("store", store_arguments, 1, 64, std::size_t(1) << 24, nullptr, out.data(), Pair{}, 0, 0.f),
        doctest::Contains("store: hip"), HipFailure);
    (void)hipGetLastError();
}

TEST_CASE("a program that was not compiled for the device says so") {
    int ordinal = 0;
    hipDeviceProp_t properties;
    check_hip(hipGetDevice(&ordinal), "hipGetDevice");
    check_hip(hipGetDeviceProperties(&properties, ordinal), "hipGetDeviceProperties");
    for (hipError_t code : {hipErrorNoBinaryForGpu, hipErrorInvalidDeviceFunction})
        CHECK_THROWS_WITH_AS(detail::check_launch(code, "store"),
            doctest::Contains(concat("store: this program has no code for ", properties.gcnArchName).c_str()),
            HipFailure);
    CHECK_NOTHROW(detail::check_launch(hipSuccess, "store"));
}
