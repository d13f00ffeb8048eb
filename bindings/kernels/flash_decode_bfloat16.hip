#include "kernels/flash_decode_typed.h"

template void waveattn::python::flash_decode_typed<waveattn::bfloat16>(const DecodeProblem&, hipStream_t);
