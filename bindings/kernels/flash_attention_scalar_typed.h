// One element type of flash_attention_scalar; each has its own .hip file, so that they compile side by side.
#pragma once

#include "kernels/flash_attention_scalar.h"

#ifdef __HIP__
#    include "waveattn/attention/flash_attention.h"
#endif

namespace waveattn::python {

template <class T> void flash_attention_scalar_typed(const AttentionProblem& problem, hipStream_t stream);
extern template void flash_attention_scalar_typed<float>(const AttentionProblem&, hipStream_t);
extern template void flash_attention_scalar_typed<bfloat16>(const AttentionProblem&, hipStream_t);
extern template void flash_attention_scalar_typed<float16>(const AttentionProblem&, hipStream_t);

#ifdef __HIP__
template <class T> void flash_attention_scalar_typed(const AttentionProblem& problem, hipStream_t stream) {
    executeFlashAttention(view<const T, 4>("q", problem.q), view<const T, 4>("k", problem.k),
        view<const T, 4>("v", problem.v), view<T, 4>("out", problem.out), problem.options(stream));
}
#endif

} // namespace waveattn::python
