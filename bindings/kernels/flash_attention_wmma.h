// FlashAttentionWmmaDPP (waveattn/attention/flash_attention_wmma.h) on bf16 and f16 tensors, and over caches of int8
// and fp8 tokens; head_dim up to 256. Each element type has its own .hip file, so that they compile side by side.
#pragma once

#include "attention_problem.h"
#include "kernels/flash_decode.h"

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

// Elements of fp32, bf16 or f16, whichever the tag says: q and the result are read and written once, so their dtype
// does not multiply the kernels.
struct TaggedElements {
    void* data;
    std::int64_t stride[3]; // of batch, head, token; that of dim is 1
    DType dtype;

    explicit TaggedElements(const TensorDesc& tensor)
        : data(tensor.data), stride{tensor.stride[0], tensor.stride[1], tensor.stride[2]}, dtype(tensor.dtype) {}
    WAVEATTN_HOST_DEVICE std::int64_t offset(iop::Point where) const {
        return where.batch * stride[0] + where.head * stride[1] + where.token * stride[2] + where.dim;
    }
    WAVEATTN_HOST_DEVICE float read(iop::Point where) const {
        const std::int64_t at = offset(where);
        if (dtype == DType::float32) return static_cast<const float*>(data)[at];
        if (dtype == DType::bfloat16) return iop::decode(static_cast<const bfloat16*>(data)[at]);
        return iop::decode(static_cast<const float16*>(data)[at]);
    }
    template <int N> WAVEATTN_HOST_DEVICE void read(iop::Point where, float (&values)[N]) const {
        if (dtype == DType::float32)
            read_row<float>(where, values);
        else if (dtype == DType::bfloat16)
            read_row<bfloat16>(where, values);
        else
            read_row<float16>(where, values);
    }
    WAVEATTN_HOST_DEVICE void write(iop::Point where, float value) const { write_as(where, value); }
    template <int N> WAVEATTN_HOST_DEVICE void write(iop::Point where, const float (&values)[N]) const {
        if (dtype == DType::float32)
            write_row<float>(where, values);
        else if (dtype == DType::bfloat16)
            write_row<bfloat16>(where, values);
        else
            write_row<float16>(where, values);
    }

private:
    template <class T, int N> WAVEATTN_HOST_DEVICE void read_row(iop::Point where, float (&values)[N]) const {
        T elements[N];
        __builtin_memcpy(elements, static_cast<const T*>(data) + offset(where), sizeof(elements));
        for (int i = 0; i < N; ++i) values[i] = iop::decode(elements[i]);
    }
    WAVEATTN_HOST_DEVICE void write_as(iop::Point where, float value) const {
        const float one[1] = {value};
        write(where, one);
    }
    template <class T, int N> WAVEATTN_HOST_DEVICE void write_row(iop::Point where, const float (&values)[N]) const {
        T elements[N];
        for (int i = 0; i < N; ++i) elements[i] = iop::encode<T>(values[i]);
        __builtin_memcpy(static_cast<T*>(data) + offset(where), elements, sizeof(elements));
    }
};

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
