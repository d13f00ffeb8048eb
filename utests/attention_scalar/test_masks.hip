// Which keys a row sees: both causal rules over many lengths, rows that see none, empty results. Small to compile,
// because the mutation checks compile it once for each fault that they plant (CMakeLists.txt).
#include "support.h"

#include "waveattn/attention/flash_decode.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {
constexpr double fp32_tolerance = 1e-6, lse_tolerance = 4e-6; // see test_flash_attention.hip
constexpr Causal rules[] = {Causal::none, Causal::top_left, Causal::bottom_right};
} // namespace

TEST_CASE("causal rules at every relation of lengths and tiles") {
    for (int q_len : {1, 5, 31, 32, 33, 70, 129})
        for (int kv_len : {1, 7, 8, 32, 47, 130})
            for (Causal causal : rules) {
                Problem p{make_shape(1, 1, 1, q_len, kv_len, 64), causal};
                const auto in = make_inputs<float>(p);
                check_against_oracle(p, in, run_flash<float, float, 64>(p, in), fp32_tolerance, lse_tolerance);
            }
}

TEST_CASE("decode: causal rules, splits, groups of heads") {
    for (Causal causal : rules)
        for (int splits : {1, 3}) {
            Problem p{make_shape(1, 4, 2, 3, 200, 64), causal};
            const auto in = make_inputs<float>(p);
            const auto q = place<float>(in.q, 1, 4, 3, 64), k = place<float>(in.k, 1, 2, 200, 64),
                       v = place<float>(in.v, 1, 2, 200, 64), o = place<float>({}, 1, 4, 3, 64);
            const DeviceArray<float> workspace(flash_decode_workspace_bytes(p.shape, 3) / sizeof(float)), lse(12);
            DecodeOptions options;
            options.causal = causal, options.splits = splits, options.lse = make_contiguous(lse.data(), 1, 4, 3);
            options.workspace = workspace.data(), options.workspace_bytes = workspace.count() * sizeof(float);
            executeFlashDecode<64>(q.view, k.view, v.view, o.view, options);
            check_against_oracle(p, in, {o.values(), lse.host()}, fp32_tolerance, lse_tolerance);
        }
}

TEST_CASE("rows without a visible key are 0, with a logarithm of -infinity") {
    Problem p{make_shape(1, 2, 1, 40, 9, 32), Causal::bottom_right};
    const auto in = make_inputs<float>(p);
    const auto result = run_flash<float, float, 64>(p, in);
    check_against_oracle(p, in, result, fp32_tolerance, lse_tolerance); // the oracle has 0 and -infinity there
    CHECK(result.o[0] == 0.f);
    CHECK(result.lse[30] == -std::numeric_limits<float>::infinity());
    CHECK(std::isfinite(result.lse[31]));

    p = Problem{make_shape(2, 2, 1, 7, 0, 40)}; // no keys at all
    const auto empty = run_flash<float, float, 64>(p, make_inputs<float>(p));
    CHECK(std::all_of(empty.o.begin(), empty.o.end(), [](float x) { return x == 0.f; }));
    CHECK(std::all_of(
        empty.lse.begin(), empty.lse.end(), [](float x) { return x == -std::numeric_limits<float>::infinity(); }));
}

TEST_CASE("empty results launch nothing") {
    for (const auto& shape :
        {make_shape(0, 2, 1, 5, 5, 16), make_shape(2, 2, 1, 0, 5, 16), make_shape(2, 0, 0, 5, 5, 16)}) {
        Problem p{shape};
        CHECK(run_flash<float, float, 64>(p, make_inputs<float>(p)).o.empty());
    }
}
