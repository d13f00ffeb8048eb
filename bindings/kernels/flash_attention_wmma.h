// FlashAttentionWmmaDPP (waveattn/attention/flash_attention_wmma.h) on bf16 and f16 tensors, and over caches of int8
// and fp8 tokens; head_dim up to 256. Each element type has its own .hip file, so that they compile side by side.
#pragma once

#include "attention_problem.h"
#include "kernels/flash_decode.h"
#include "kernels/tagged_elements.h"

#ifdef __HIP__
#    include "waveattn/attention/flash_attention_wmma.h"
#endif

namespace waveattn::python {

// ---- tensors ----

template <class T> void flash_attention_wmma_typed(const AttentionProblem& problem, hipStream_t stream);
extern template void flash_attention_wmma_typed<bfloat16>(const AttentionProblem&, hipStream_t);
extern template void flash_attention_wmma_typed<float16>(const AttentionProblem&, hipStream_t);

// ---- caches: int8 or e4m3 codes with a scale for each token; q and the result fp32, bf16 or f16 ----

// Quantised scores: Q.K^T in the format of the codes, with q quantised for each row; else in bf16.
template <class Code>
void flash_attention_wmma_cached(const DecodeProblem& problem, bool quantised_scores, hipStream_t stream);
extern template void flash_attention_wmma_cached<std::int8_t>(const DecodeProblem&, bool, hipStream_t);
extern template void flash_attention_wmma_cached<float8_e4m3fn>(const DecodeProblem&, bool, hipStream_t);

#ifdef __HIP__

// Calls f with the tile of the smallest of HeadDims that holds the head_dims.
template <int... HeadDims, class F> void with_wmma_head_dim(const AttentionShape& shape, F&& f) {
    const std::int64_t dim = std::max(shape.head_dim, shape.head_dim_v);
    bool done = false;
    ((!done && dim <= HeadDims ? (done = true, f(std::integral_constant<int, HeadDims>{})) : void()), ...);
    require<Unsupported>(done, "this WMMA kernel supports head_dim 1 to ", std::max({HeadDims...}), ", got ", dim);
}

template <class T> void flash_attention_wmma_typed(const AttentionProblem& problem, hipStream_t stream) {
    with_wmma_head_dim<32, 64, 96, 128, 256>(problem.shape, [&](auto head_dim) {
        executeFlashAttentionWmma<head_dim.value>(view<const T, 4>("q", problem.q), view<const T, 4>("k", problem.k),
            view<const T, 4>("v", problem.v), view<T, 4>("out", problem.out), problem.options(stream));
    });
}

template <class Code>
void flash_attention_wmma_cached(const DecodeProblem& problem, bool quantised_scores, hipStream_t stream) {
    AttentionOptions options;
    options.causal = problem.causal;
    options.scale = problem.scale;
    options.stream = stream;
    if (problem.lse.data) options.lse = view<float, 3>("lse", problem.lse);
    const auto codes = [](const char* name, const TensorDesc& tensor, const TensorDesc& scales) {
        return make_cache_read(view<const Code, 4>(name, tensor), view<const float, 3>("scales", scales));
    };
    const auto run = [&]<WmmaQk Qk>(std::integral_constant<WmmaQk, Qk>) {
        with_wmma_head_dim<64, 128>(problem.shape, [&](auto head_dim) {
            constexpr WmmaTuning tuning = [] {
                WmmaTuning result = wmma_tuning(decltype(head_dim)::value);
                result.qk = Qk;
                return result;
            }();
            executeFlashAttentionWmma<head_dim.value, wmma_block_kv(head_dim.value), wmma_waves(head_dim.value),
                tuning>(TaggedElements(problem.q), codes("k", problem.k, problem.k_scale),
                codes("v", problem.v, problem.v_scale), TaggedElements(problem.out), problem.shape, options);
        });
    };
    constexpr WmmaQk quantised = std::is_same_v<Code, std::int8_t> ? WmmaQk::int8 : WmmaQk::automatic;
    if (quantised_scores)
        run(std::integral_constant<WmmaQk, quantised>{});
    else
        run(std::integral_constant<WmmaQk, WmmaQk::element>{});
}

#endif

} // namespace waveattn::python
