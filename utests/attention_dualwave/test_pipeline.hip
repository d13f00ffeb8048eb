// One variant of the kernel, small enough to be compiled for each mutation of the pipeline.
#include <doctest/doctest.h>

#include "reference.h"

#include "waveattn/attention/flash_attention_dualwave.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {
std::vector<bfloat16> run(const AttentionShape& shape, Causal causal, double scale, const std::vector<float>& q,
    const std::vector<float>& k, const std::vector<float>& v) {
    DeviceArray<bfloat16> dq(encode<bfloat16>(q)), dk(encode<bfloat16>(k)), dv(encode<bfloat16>(v)), o(q.size());
    detail::DualwaveParams<bfloat16> p{};
    p.q = make_contiguous(dq.data(), 1, 2, shape.q_len, 128), p.o = make_contiguous(o.data(), 1, 2, shape.q_len, 128);
    p.k = make_contiguous(dk.data(), 1, 1, shape.kv_len, 128),
    p.v = make_contiguous(dv.data(), 1, 1, shape.kv_len, 128);
    p.grid.group = 2, p.grid.q_blocks = std::int32_t((shape.q_len + 255) / 256);
    p.masked = causal != Causal::none;
    if (p.masked) p.grid.longest_first = p.grid.paired = 1, p.grid.limit = 1; // one workgroup computes all
    p.grid.finish();
    p.q_len = std::int32_t(shape.q_len), p.kv_len = std::int32_t(shape.kv_len), p.head_dim = p.head_dim_v = 128;
    p.split_tiles = 1 << 20, p.scale_log2 = float(1.4426950408889634 * scale), p.q_keep = ~0u;
    detail::launch_dualwave_kernel<bfloat16, arch::gfx950, 128, SoftmaxBasis::online, false,
        detail::DualwaveDirect<bfloat16, 128>>(p, nullptr);
    const hipError_t error = hipDeviceSynchronize();
    REQUIRE(error == hipSuccess); // the emulator's checks of races, waits and bounds
    CHECK(o.guards_intact());
    return o.host();
}
void check(const AttentionShape& shape, Causal causal, unsigned seed) {
    const auto q = rounded<bfloat16>(make_values(Data::gaussian, 1, 2, shape.q_len, 128, seed));
    const auto k = rounded<bfloat16>(make_values(Data::gaussian, 1, 1, shape.kv_len, 128, seed + 10));
    const auto v = rounded<bfloat16>(make_values(Data::gaussian, 1, 1, shape.kv_len, 128, seed + 20));
    const double scale = 1 / std::sqrt(128.0);
    const Oracle want = attention_oracle(q, k, v, shape, causal, scale);
    CHECK(compare(run(shape, causal, scale, q, k, v), want.o).relative_l2 <= 2.4e-3);
}
} // namespace

TEST_CASE("the pipeline of gfx950") {
    const AttentionShape shape{1, 2, 1, 256, 64 * 9 + 17, 128, 128};
    for (unsigned seed : {1, 2}) check(shape, Causal::none, seed);
}
TEST_CASE("the pipeline of gfx950 across blocks") { check({1, 2, 1, 512, 512, 128, 128}, Causal::top_left, 3); }
TEST_CASE("a score beyond fp32, in the tile that sets the basis and in a later one") {
    for (std::size_t key : {3, 150}) {
        const AttentionShape shape{1, 2, 1, 32, 200, 128, 128};
        std::vector<float> q(2 * 32 * 128, 1.f), k(200 * 128, 0.f), v(200 * 128, 1.f);
        k[key * 128] = 8.f;
        for (bfloat16 value : run(shape, Causal::none, 1e38, q, k, v)) CHECK(std::isnan(to_float(value)));
    }
}
