// Placement, repeats, empty problems, errors, capture.
#include "support.h"

using namespace waveattn;
using namespace waveattn::test;

TEST_CASE("bits do not depend on the XCD remap, nor on the run") {
    for (auto [heads_q, heads_kv] : {std::pair{8, 8}, {16, 16}, {32, 8}, {64, 64}, {6, 3}, {5, 5}})
        for (Causal causal : {Causal::none, Causal::top_left}) {
            if (!full() && heads_q > 16 && causal != Causal::none) continue;
            Case c{.shape = {1, heads_q, heads_kv, heads_q > 16 ? 40 : 300, 70, 64, 64},
                .causal = causal,
                .xcd = XcdSwizzle::off};
            INFO(text(c));
            const Inputs in = make_inputs<bfloat16>(c);
            const auto off = run<bfloat16>(c, in);
            for (XcdSwizzle xcd : {XcdSwizzle::on, XcdSwizzle::automatic, XcdSwizzle::off}) {
                c.xcd = xcd;
                const auto got = run<bfloat16>(c, in);
                CHECK(same_bits(got.o, off.o));
                CHECK(same_bits(got.lse, off.lse));
            }
        }
}
TEST_CASE("bits do not depend on how many compute units share causal blocks") {
    for (SoftmaxBasis basis : {SoftmaxBasis::online, SoftmaxBasis::pinned})
        for (auto [q_len, kv_len] : {std::pair{770, 770}, {1030, 450}}) {
            Case c{.shape = {1, 4, 2, q_len, kv_len, 64, 64}, .causal = Causal::bottom_right, .basis = basis};
            INFO(text(c));
            const Inputs in = make_inputs<bfloat16>(c);
            const auto single = run<bfloat16>(c, in);
            for (int compute_units : {1, 2, 8})
                for (XcdSwizzle xcd : {XcdSwizzle::on, XcdSwizzle::off}) {
                    c.compute_units = compute_units, c.xcd = xcd;
                    const auto got = run<bfloat16>(c, in);
                    CHECK(got.intact);
                    CHECK(same_bits(got.o, single.o));
                    CHECK(same_bits(got.lse, single.lse));
                    CHECK(got.overflow == single.overflow);
                }
        }
}
TEST_CASE("the stride of a single row means nothing") {
    const Case c{.shape = {1, 2, 2, 1, 1, 64, 64}};
    const Inputs in = make_inputs<bfloat16>(c);
    const auto want = run<bfloat16>(c, in);
    auto q = place<bfloat16>(in.q, 1, 2, 1, 64, Layout::bhsd), k = place<bfloat16>(in.k, 1, 2, 1, 64, Layout::bhsd);
    auto v = place<bfloat16>(in.v, 1, 2, 1, 64, Layout::bhsd), o = place<bfloat16>({}, 1, 2, 1, 64, Layout::bhsd);
    for (std::int64_t stride : {0, -8}) {
        q.view.stride[2] = k.view.stride[2] = v.view.stride[2] = o.view.stride[2] = stride;
        executeFlashAttentionDualwave<0, bfloat16>(q.view, k.view, v.view, o.view);
        check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
        CHECK(same_bits(o.values(), want.o));
    }
}
TEST_CASE("no keys, no queries") {
    const Case none{.shape = {1, 2, 1, 70, 0, 64, 64}};
    const auto got = run<bfloat16>(none, {std::vector<float>(2 * 70 * 64, 1.f), {}, {}});
    CHECK(std::all_of(got.o.begin(), got.o.end(), [](bfloat16 value) { return value.bits == 0; }));
    CHECK(std::all_of(got.lse.begin(), got.lse.end(), [](float value) { return value == -INFINITY; }));
    const Case empty{.shape = {1, 2, 1, 0, 10, 64, 64}};
    CHECK_NOTHROW(run<bfloat16>(empty, {{}, std::vector<float>(640, 1.f), std::vector<float>(640, 1.f)}));
}
TEST_CASE("what no kernel can compute is refused before a launch") {
    DeviceArray<bfloat16> memory(2 * 64 * 256);
    const auto view = [&](std::int64_t heads, std::int64_t tokens, std::int64_t dim) {
        return make_contiguous(memory.data(), std::int64_t(1), heads, tokens, dim);
    };
    const auto call = [&](TensorView<bfloat16, 4> q, TensorView<bfloat16, 4> k, TensorView<bfloat16, 4> v,
                          TensorView<bfloat16, 4> o, DualwaveOptions options = {}) {
        executeFlashAttentionDualwave<0, bfloat16>(q, k, v, o, options);
    };
    CHECK_THROWS_AS(call(view(2, 64, 64), view(2, 64, 32), view(2, 64, 64), view(2, 64, 64)), InvalidArgument);
    CHECK_THROWS_AS(call(view(2, 64, 136), view(2, 64, 136), view(2, 64, 64), view(2, 64, 64)), Unsupported);
    DualwaveOptions pinned;
    pinned.basis = SoftmaxBasis::pinned;
    CHECK_THROWS_AS(call(view(2, 64, 64), view(2, 64, 64), view(2, 64, 64), view(2, 64, 64), pinned), InvalidArgument);
    DualwaveOptions splits;
    splits.splits = 0;
    CHECK_THROWS_AS(call(view(2, 64, 64), view(2, 64, 64), view(2, 64, 64), view(2, 64, 64), splits), InvalidArgument);
    DualwaveOptions units;
    units.compute_units = -1;
    CHECK_THROWS_AS(call(view(2, 64, 64), view(2, 64, 64), view(2, 64, 64), view(2, 64, 64), units), InvalidArgument);
    splits.splits = 2;
    splits.workspace = memory.data(), splits.workspace_bytes = 64;
    CHECK_THROWS_AS(call(view(2, 64, 64), view(2, 64, 64), view(2, 64, 64), view(2, 64, 64), splits), InvalidArgument);
}
TEST_CASE("a call can be captured in a graph") {
    const Case c{.shape = {1, 1, 1, 64, 128, 64, 64}};
    const Inputs in = make_inputs<bfloat16>(c);
    const auto direct = run<bfloat16>(c, in);
    auto q = place<bfloat16>(in.q, 1, 1, 64, 64, Layout::bhsd), k = place<bfloat16>(in.k, 1, 1, 128, 64, Layout::bhsd);
    auto v = place<bfloat16>(in.v, 1, 1, 128, 64, Layout::bhsd), o = place<bfloat16>({}, 1, 1, 64, 64, Layout::bhsd);
    DeviceArray<float> lse(64);
    DeviceArray<char> workspace(dualwave_workspace_bytes(c.shape, SoftmaxBasis::pinned, 1));
    DualwaveOptions options;
    options.basis = SoftmaxBasis::pinned;
    options.workspace = workspace.data(), options.workspace_bytes = workspace.count();
    options.lse = make_contiguous(lse.data(), 1, 1, 64);
    check_hip(hipStreamCreate(&options.stream), "hipStreamCreate");
    check_hip(hipStreamBeginCapture(options.stream, hipStreamCaptureModeGlobal), "capture");
    executeFlashAttentionDualwave<0, bfloat16>(q.view, k.view, v.view, o.view, options);
    hipGraph_t graph;
    hipGraphExec_t exec;
    check_hip(hipStreamEndCapture(options.stream, &graph), "end of capture");
    check_hip(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0), "hipGraphInstantiate");
    check_hip(hipGraphLaunch(exec, options.stream), "hipGraphLaunch");
    check_hip(hipStreamSynchronize(options.stream), "hipStreamSynchronize");
    const Oracle want = attention_oracle(in.q, in.k, in.v, c.shape, c.causal, 1 / 8.0);
    CHECK(compare(o.values(), want.o).relative_l2 <= l2_bound<bfloat16>);
    check_hip(hipGraphExecDestroy(exec), "hipGraphExecDestroy");
    check_hip(hipGraphDestroy(graph), "hipGraphDestroy");
    check_hip(hipStreamDestroy(options.stream), "hipStreamDestroy");
}
