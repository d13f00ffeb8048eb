#include "kernels/flash_attention_wmma.h"

namespace waveattn::python {
template void flash_attention_wmma_cached<float8_e4m3fn>(const DecodeProblem&, bool, hipStream_t);
}
