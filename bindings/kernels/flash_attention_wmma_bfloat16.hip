#include "kernels/flash_attention_wmma.h"

namespace waveattn::python {
template void flash_attention_wmma_typed<bfloat16>(const AttentionProblem&, hipStream_t);
}
