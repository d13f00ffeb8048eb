#include "kernels/flash_attention_dualwave.h"

namespace waveattn::python {
template void flash_attention_dualwave_typed<float16>(const AttentionProblem&, const DualwaveSettings&, hipStream_t);
} // namespace waveattn::python
