// The kernels of float16, for every test of this folder.
#include "waveattn/attention/flash_attention_dualwave.h"

namespace waveattn {
template void executeFlashAttentionDualwave<0, float16>(const TensorView<const float16, 4>&,
    const TensorView<const float16, 4>&, const TensorView<const float16, 4>&, const TensorView<float16, 4>&,
    const DualwaveOptions&);
} // namespace waveattn
