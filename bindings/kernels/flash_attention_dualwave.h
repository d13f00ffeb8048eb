// FlashAttentionDualwaveSwp (waveattn/attention/flash_attention_dualwave.h) on bf16 and f16 tensors; head_dim up to
// 128. Each element type has its own .hip file, so that they compile side by side.
#pragma once

#include "attention_problem.h"

#include "waveattn/attention/dualwave_params.h"

#ifdef __HIP__
#    include "waveattn/attention/flash_attention_dualwave.h"
#endif

namespace waveattn::python {

struct DualwaveSettings {
    SoftmaxBasis basis = SoftmaxBasis::online;
    XcdSwizzle xcd_swizzle = XcdSwizzle::automatic;
    int splits = 1;
    TensorDesc workspace; // without data where none is needed
};

std::size_t flash_attention_dualwave_workspace(const AttentionShape& shape, const DualwaveSettings& settings);

template <class T>
void flash_attention_dualwave_typed(
    const AttentionProblem& problem, const DualwaveSettings& settings, hipStream_t stream);
extern template void flash_attention_dualwave_typed<bfloat16>(
    const AttentionProblem&, const DualwaveSettings&, hipStream_t);
extern template void flash_attention_dualwave_typed<float16>(
    const AttentionProblem&, const DualwaveSettings&, hipStream_t);

#ifdef __HIP__
template <class T>
void flash_attention_dualwave_typed(
    const AttentionProblem& problem, const DualwaveSettings& settings, hipStream_t stream) {
    DualwaveOptions options;
    static_cast<AttentionOptions&>(options) = problem.options(stream);
    options.basis = settings.basis, options.xcd_swizzle = settings.xcd_swizzle, options.splits = settings.splits;
    if (settings.workspace.data) {
        options.workspace = settings.workspace.data;
        options.workspace_bytes = std::size_t(settings.workspace.shape[0]) * sizeof(float);
    }
    executeFlashAttentionDualwave<0, T>(view<const T, 4>("q", problem.q), view<const T, 4>("k", problem.k),
        view<const T, 4>("v", problem.v), view<T, 4>("out", problem.out), options);
}
#endif

} // namespace waveattn::python
