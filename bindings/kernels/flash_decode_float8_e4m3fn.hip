#include "kernels/flash_decode_typed.h"

template void waveattn::python::flash_decode_typed<waveattn::float8_e4m3fn>(const DecodeProblem&, hipStream_t);
