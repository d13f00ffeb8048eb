#include "kernels/flash_attention_scalar_typed.h"

template void waveattn::python::flash_attention_scalar_typed<float>(const AttentionProblem&, hipStream_t);
