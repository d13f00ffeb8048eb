// Cards of different targets in one process: each gets its own variant, and all give the same bits.
#include "chunk_case.h"
#include "chunk_kernels.h"

#include <doctest/doctest.h>

using namespace waveattn;
using namespace waveattn::test;

TEST_CASE("gfx1030, gfx1200 and gfx942 in one process") {
    int count = 0;
    check_hip(hipGetDeviceCount(&count), "hipGetDeviceCount");
    ChunkShape shape{.head_dim = 64, .group = 4, .kv_heads = 1, .format = KvFormat::int8_q4_0};
    const ChunkCase problem(shape);
    std::vector<float> first;
    int ran = 0, refused = 0;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        check_hip(hipSetDevice(ordinal), "hipSetDevice");
        const auto& device = arch::current_device();
        INFO(device.gcn_arch);
        const ChunkDevice memory(problem);
        const auto run = [](const ChunkAttentionArgs& args) { chunk_attention<64, KvFormat::int8_q4_0, 4>(args); };
        if (device.wave_size == 64) {
            CHECK_THROWS_AS(memory.run(run), UnsupportedDevice);
            ++refused;
            continue;
        }
        CHECK(choose_chunk_variant(device) ==
              (device.target == arch::Target::gfx1030 ? ChunkVariant::reorganised : ChunkVariant::butterfly));
        const auto result = memory.run(run);
        if (first.empty()) first = result.o;
        CHECK(different_bits(result.o, first) == 0);
        CHECK(different_bits(result.o, chunk_reference(problem)) == 0);
        ++ran;
    }
    check_hip(hipSetDevice(0), "hipSetDevice");
    CHECK(ran + refused == count);
    CHECK(ran >= 1);
}
