// One format of the cache; each has its own .hip file, so that they compile side by side. q and the result are read and
// written once, so their dtype is looked at at run time and does not multiply the kernels.
#pragma once

#include "kernels/flash_decode.h"

#ifdef __HIP__
#    include "waveattn/attention/flash_decode.h"
#endif

namespace waveattn::python {

template <class Element> void flash_decode_typed(const DecodeProblem& problem, hipStream_t stream);
extern template void flash_decode_typed<float>(const DecodeProblem&, hipStream_t);
extern template void flash_decode_typed<bfloat16>(const DecodeProblem&, hipStream_t);
extern template void flash_decode_typed<float16>(const DecodeProblem&, hipStream_t);
extern template void flash_decode_typed<std::int8_t>(const DecodeProblem&, hipStream_t);
extern template void flash_decode_typed<float8_e4m3fn>(const DecodeProblem&, hipStream_t);
extern template void flash_decode_typed<float8_e4m3fnuz>(const DecodeProblem&, hipStream_t);

#ifdef __HIP__

// Elements of fp32, bf16 or f16, whichever the tag says.
struct AnyElements {
    void* data;
    std::int64_t stride[3]; // of batch, head, token; that of dim is 1
    DType dtype;

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
        for (int i = 0; i < N; ++i, ++where.dim) values[i] = read(where);
    }
    WAVEATTN_HOST_DEVICE void write(iop::Point where, float value) const {
        const std::int64_t at = offset(where);
        if (dtype == DType::float32)
            static_cast<float*>(data)[at] = value;
        else if (dtype == DType::bfloat16)
            static_cast<bfloat16*>(data)[at] = iop::encode<bfloat16>(value);
        else
            static_cast<float16*>(data)[at] = iop::encode<float16>(value);
    }
};
inline AnyElements any_elements(const TensorDesc& tensor) {
    return {tensor.data, {tensor.stride[0], tensor.stride[1], tensor.stride[2]}, tensor.dtype};
}

template <class Element> void flash_decode_typed(const DecodeProblem& problem, hipStream_t stream) {
    DecodeOptions options;
    options.causal = problem.causal;
    options.scale = problem.scale;
    options.stream = stream;
    if (problem.lse.data) options.lse = view<float, 3>("lse", problem.lse);
    options.kv_lens = static_cast<const std::int32_t*>(problem.kv_lens.data);
    options.splits = problem.splits;
    options.workspace = problem.workspace.data;
    options.workspace_bytes = std::size_t(problem.workspace.span_bytes());
    const auto read = [](const char* name, const TensorDesc& tensor, const TensorDesc& scales) {
        const auto elements = view<const Element, 4>(name, tensor);
        if constexpr (sizeof(Element) == 1)
            return make_cache_read(elements, view<const float, 3>("scales", scales));
        else
            return make_attention_read(elements);
    };
    const auto run = [&](auto head_dim) {
        executeFlashDecode<head_dim.value>(any_elements(problem.q), read("k", problem.k, problem.k_scale),
            read("v", problem.v, problem.v_scale), any_elements(problem.out), problem.shape, options);
    };
    // Three layouts, for each is compiled for six formats of the cache; other dims use the next larger one.
    const std::int64_t dim = std::max(problem.shape.head_dim, problem.shape.head_dim_v);
    if (dim <= 64) return run(std::integral_constant<int, 64>{});
    if (dim <= 128) return run(std::integral_constant<int, 128>{});
    run(std::integral_constant<int, 256>{});
}

#endif

} // namespace waveattn::python
