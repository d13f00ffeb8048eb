#include "kernels/flash_decode_typed.h"

template void waveattn::python::flash_decode_typed<float>(const DecodeProblem&, hipStream_t);
