// The kernels of bfloat16, for every test of this folder.
#include "waveattn/attention/flash_attention_dualwave.h"

namespace waveattn {
template void executeFlashAttentionDualwave<0, bfloat16>(const TensorView<const bfloat16, 4>&,
    const TensorView<const bfloat16, 4>&, const TensorView<const bfloat16, 4>&, const TensorView<bfloat16, 4>&,
    const DualwaveOptions&);
} // namespace waveattn
