// FlashAttentionDualwaveSwp: head_dim 64 and 128, bf16 and f16, basis, placement, LSE, dense and causal.
#include "harness.h"

#include "waveattn/attention/flash_attention_dualwave.h"

using namespace waveattn;

namespace {

template <int HeadDim, class T> void run(const bench::Options& options) {
    const auto q = options.tensor<T>(options.bh, options.sq, HeadDim, 1);
    const auto k = options.tensor<T>(options.planes_kv(), options.sk, HeadDim, 2);
    const auto v = options.tensor<T>(options.planes_kv(), options.sk, HeadDim, 3);
    const bench::DeviceBuffer<T> o(q.count());
    const bench::DeviceBuffer<float> lse(options.bh * options.sq);
    const AttentionShape shape{1, options.bh, options.planes_kv(), options.sq, options.sk, HeadDim, HeadDim};
    const auto choice = [&](const char* name, std::initializer_list<const char*> allowed) {
        const std::string& value = options.text(name);
        for (const char* other : allowed)
            if (value == other) return value;
        std::string list;
        for (const char* other : allowed) list += concat(list.empty() ? "" : ", ", other);
        throw InvalidArgument(concat("--", name, " is one of ", list, ", not ", value));
    };
    const std::string basis = choice("basis", {"online", "pinned"});
    const std::string swizzle = choice("xcd_swizzle", {"auto", "on", "off"});
    DualwaveOptions call;
    call.causal = options.causal_rule();
    call.basis = basis == "pinned" ? SoftmaxBasis::pinned : SoftmaxBasis::online;
    call.xcd_swizzle = swizzle == "auto" ? XcdSwizzle::automatic : swizzle == "on" ? XcdSwizzle::on : XcdSwizzle::off;
    if (choice("lse", {"off", "on"}) == "on")
        call.lse = make_contiguous(lse.data(), std::int64_t(1), shape.heads_q, shape.q_len);
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
template <class T> void run(const bench::Options& options) {
    require(options.dim == 64 || options.dim == 128, "--dim is 64 or 128, not ", options.dim);
    options.dim == 64 ? run<64, T>(options) : run<128, T>(options);
}

} // namespace

int main(int argc, char** argv) {
    bench::Options defaults;
    defaults.sq = defaults.sk = 4096;
    defaults.extra = {{"basis", "online"}, {"lse", "off"}, {"xcd_swizzle", "auto"}};
    return bench::main(
        argc, argv,
        [](const bench::Options& options) {
            require(options.dtype == "bf16" || options.dtype == "f16", "--dtype is bf16 or f16, not ", options.dtype);
            options.dtype == "bf16" ? run<bfloat16>(options) : run<float16>(options);
        },
        defaults);
}
