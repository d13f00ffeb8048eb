// One format of the cache; each has its own .hip file, so that they compile side by side. q and the result are read and
// written once, so their dtype is looked at at run time and does not multiply the kernels.
#pragma once

#include "kernels/flash_decode.h"
#include "kernels/tagged_elements.h"

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
        executeFlashDecode<head_dim.value>(TaggedElements(problem.q), read("k", problem.k, problem.k_scale),
            read("v", problem.v, problem.v_scale), TaggedElements(problem.out), problem.shape, options);
    };
    // Three layouts, for each is compiled for six formats of the cache; other dims use the next larger one.
    const std::int64_t dim = std::max(problem.shape.head_dim, problem.shape.head_dim_v);
    if (dim <= 64) return run(std::integral_constant<int, 64>{});
    if (dim <= 128) return run(std::integral_constant<int, 128>{});
    run(std::integral_constant<int, 256>{});
}

#endif

} // namespace waveattn::python
