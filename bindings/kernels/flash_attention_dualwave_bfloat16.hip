#include "kernels/flash_attention_dualwave.h"

namespace waveattn::python {
template void flash_attention_dualwave_typed<bfloat16>(const AttentionProblem&, const DualwaveSettings&, hipStream_t);

std::size_t flash_attention_dualwave_workspace(const AttentionShape& shape, const DualwaveSettings& settings) {
    return dualwave_workspace_bytes(shape, settings.basis, settings.splits);
}
} // namespace waveattn::python
