// FlashAttentionDualwaveSwp on bf16: head_dim 64 and 128, basis, placement, dense and causal.
#include "harness.h"

#include "waveattn/attention/flash_attention_dualwave.h"

using namespace waveattn;

namespace {

template <int HeadDim> void run(const bench::Options& options) {
    using T = bfloat16;
    const auto q = options.tensor<T>(options.bh, options.sq, HeadDim, 1);
    const auto k = options.tensor<T>(options.planes_kv(), options.sk, HeadDim, 2);
    const auto v = options.tensor<T>(options.planes_kv(), options.sk, HeadDim, 3);
    const bench::DeviceBuffer<T> o(q.count());
    const AttentionShape shape{1, options.bh, options.planes_kv(), options.sq, options.sk, HeadDim, HeadDim};
    const std::string &basis = options.text("basis"), &swizzle = options.text("xcd_swizzle");
    require(basis == "online" || basis == "pinned", "--basis is online or pinned, not ", basis);
    require(
        swizzle == "auto" || swizzle == "on" || swizzle == "off", "--xcd_swizzle is auto, on or off, not ", swizzle);
    DualwaveOptions call;
    call.causal = options.causal_rule();
    call.basis = basis == "pinned" ? SoftmaxBasis::pinned : SoftmaxBasis::online;
    call.xcd_swizzle = swizzle == "auto" ? XcdSwizzle::automatic : swizzle == "on" ? XcdSwizzle::on : XcdSwizzle::off;
    const bench::DeviceBuffer<float> workspace(dualwave_workspace_bytes(shape, call.basis, call.splits) / 4 + 1);
    call.workspace = workspace.data(), call.workspace_bytes = workspace.count() * sizeof(float);
    bench::run("flash attention, dual wave", options, options.attention_flop(), [&](hipStream_t stream) {
        call.stream = stream;
        executeFlashAttentionDualwave<HeadDim, T>(
            make_contiguous<const T, 4>(q.data(), {1, shape.heads_q, shape.q_len, HeadDim}),
            make_contiguous<const T, 4>(k.data(), {1, shape.heads_kv, shape.kv_len, HeadDim}),
            make_contiguous<const T, 4>(v.data(), {1, shape.heads_kv, shape.kv_len, HeadDim}),
            make_contiguous<T, 4>(o.data(), {1, shape.heads_q, shape.q_len, HeadDim}), call);
    });
}

} // namespace

int main(int argc, char** argv) {
    bench::Options defaults;
    defaults.sq = defaults.sk = 4096;
    defaults.extra = {{"basis", "online"}, {"xcd_swizzle", "auto"}};
    return bench::main(
        argc, argv,
        [](const bench::Options& options) {
            require(options.dtype == "bf16", "--dtype is bf16, not ", options.dtype);
            require(options.dim == 64 || options.dim == 128, "--dim is 64 or 128, not ", options.dim);
            options.dim == 64 ? run<64>(options) : run<128>(options);
        },
        defaults);
}
