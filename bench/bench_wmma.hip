// FlashAttentionWmmaDPP on bf16: head_dim 64 and 128, the default kernel, with lse, and variants that leave out one
// lever or all.
#include "harness.h"

#include "waveattn/attention/flash_attention_wmma.h"

using namespace waveattn;

namespace {

// The tuning without one lever each; "plain" without any.
constexpr WmmaTuning tuning_of(std::string_view variant, int head_dim) {
    WmmaTuning tuning = wmma_tuning(head_dim);
    if (variant == "hardware_exp") tuning.probability = WmmaProbability::hardware;
    if (variant == "cast" || variant == "plain") tuning.probability = WmmaProbability::hardware_cast;
    if (variant == "eager" || variant == "plain") tuning.lazy_threshold = 0;
    if (variant == "scattered_v" || variant == "plain") tuning.v = WmmaV::scattered_lds;
    if (variant == "v_in_registers") tuning.v = WmmaV::transposed_registers;
    // Registers without spills.
    if (variant == "v_in_registers") tuning.waves_per_simd = head_dim == 64 ? 9 : 6;
    if ((tuning.v == WmmaV::scattered_lds || variant == "eager") && head_dim == 64) tuning.waves_per_simd = 10;
    return tuning;
}

template <int HeadDim, WmmaTuning Tuning> void run(const bench::Options& options) {
    using T = bfloat16;
    const auto q = options.tensor<T>(options.bh, options.sq, HeadDim, 1);
    const auto k = options.tensor<T>(options.planes_kv(), options.sk, HeadDim, 2);
    const auto v = options.tensor<T>(options.planes_kv(), options.sk, HeadDim, 3);
    const bench::DeviceBuffer<T> o(q.count());
    const bool with_lse = options.text("variant") == "lse";
    const bench::DeviceBuffer<float> lse(with_lse ? options.bh * options.sq : 0);
    const AttentionShape shape{1, options.bh, options.planes_kv(), options.sq, options.sk, HeadDim, HeadDim};
    bench::run("flash attention, WMMA", options, options.attention_flop(), [&](hipStream_t stream) {
        executeFlashAttentionWmma<HeadDim, wmma_block_kv(HeadDim), wmma_waves(HeadDim), Tuning>(
            make_contiguous<const T, 4>(q.data(), {1, shape.heads_q, shape.q_len, HeadDim}),
            make_contiguous<const T, 4>(k.data(), {1, shape.heads_kv, shape.kv_len, HeadDim}),
            make_contiguous<const T, 4>(v.data(), {1, shape.heads_kv, shape.kv_len, HeadDim}),
            make_contiguous<T, 4>(o.data(), {1, shape.heads_q, shape.q_len, HeadDim}),
            AttentionOptions{.causal = options.causal_rule(),
                .lse = with_lse ? make_contiguous(lse.data(), 1, shape.heads_q, shape.q_len) : TensorView<float, 3>{},
                .stream = stream});
    });
}

template <int HeadDim> void run_variant(const bench::Options& options) {
    const std::string& variant = options.text("variant");
    if (variant == "default" || variant == "lse") return run<HeadDim, tuning_of("default", HeadDim)>(options);
    if (variant == "hardware_exp") return run<HeadDim, tuning_of("hardware_exp", HeadDim)>(options);
    if (variant == "cast") return run<HeadDim, tuning_of("cast", HeadDim)>(options);
    if (variant == "eager") return run<HeadDim, tuning_of("eager", HeadDim)>(options);
    if (variant == "scattered_v") return run<HeadDim, tuning_of("scattered_v", HeadDim)>(options);
    if (variant == "v_in_registers") return run<HeadDim, tuning_of("v_in_registers", HeadDim)>(options);
    require(variant == "plain",
        "--variant is default, lse, hardware_exp, cast, eager, scattered_v, v_in_registers or plain, not ", variant);
    run<HeadDim, tuning_of("plain", HeadDim)>(options);
}

} // namespace

int main(int argc, char** argv) {
    bench::Options defaults;
    defaults.sq = defaults.sk = 1024;
    defaults.extra = {{"variant", "default"}};
    return bench::main(
        argc, argv,
        [](const bench::Options& options) {
            require(options.dtype == "bf16", "--dtype is bf16, not ", options.dtype);
            require(options.dim == 64 || options.dim == 128, "--dim is 64 or 128, not ", options.dim);
            options.dim == 64 ? run_variant<64>(options) : run_variant<128>(options);
        },
        defaults);
}
