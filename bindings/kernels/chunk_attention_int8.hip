#include "kernels/chunk_attention.h"

template struct waveattn::python::ChunkKernels<waveattn::KvFormat::int8>;
