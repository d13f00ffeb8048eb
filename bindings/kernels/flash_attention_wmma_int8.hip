#include "kernels/flash_attention_wmma.h"

namespace waveattn::python {
template void flash_attention_wmma_cached<std::int8_t>(const DecodeProblem&, bool, hipStream_t);
}
