#include "kernels/flash_decode_typed.h"

template void waveattn::python::flash_decode_typed<waveattn::float16>(const DecodeProblem&, hipStream_t);
