#include "kernels/flash_decode_typed.h"

template void waveattn::python::flash_decode_typed<std::int8_t>(const DecodeProblem&, hipStream_t);
