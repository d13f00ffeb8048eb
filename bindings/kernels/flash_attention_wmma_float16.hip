#include "kernels/flash_attention_wmma.h"

namespace waveattn::python {
template void flash_attention_wmma_typed<float16>(const AttentionProblem&, hipStream_t);
}
