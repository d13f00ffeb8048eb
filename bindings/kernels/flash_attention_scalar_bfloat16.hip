#include "kernels/flash_attention_scalar_typed.h"

template void waveattn::python::flash_attention_scalar_typed<waveattn::bfloat16>(const AttentionProblem&, hipStream_t);
