#include "kernels/flash_decode_typed.h"

namespace waveattn::python {

void flash_decode(const DecodeProblem& problem, hipStream_t stream) {
    switch (problem.k.dtype) {
    case DType::float32: return flash_decode_typed<float>(problem, stream);
    case DType::bfloat16: return flash_decode_typed<bfloat16>(problem, stream);
    case DType::float16: return flash_decode_typed<float16>(problem, stream);
    case DType::int8: return flash_decode_typed<std::int8_t>(problem, stream);
    case DType::float8_e4m3fn: return flash_decode_typed<float8_e4m3fn>(problem, stream);
    case DType::float8_e4m3fnuz: return flash_decode_typed<float8_e4m3fnuz>(problem, stream);
    default:
        throw Unsupported(concat("decode supports caches of float32, bfloat16, float16, int8, float8_e4m3fn and "
                                 "float8_e4m3fnuz, got ",
            dtype_name(problem.k.dtype)));
    }
}

int flash_decode_split_count(const AttentionShape& shape) { return flash_decode_splits(shape, arch::current_device()); }
std::int64_t flash_decode_workspace_floats(const AttentionShape& shape, int splits) {
    return std::int64_t(flash_decode_workspace_bytes(shape, splits) / sizeof(float));
}

} // namespace waveattn::python
