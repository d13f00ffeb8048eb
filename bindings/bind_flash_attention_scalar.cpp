#include "bind_attention.h"
#include "kernels/flash_attention_scalar_typed.h"
#include "registration.h"

namespace waveattn::python {

void flash_attention_scalar(const AttentionProblem& problem, hipStream_t stream) {
    switch (problem.q.dtype) {
    case DType::float32: return flash_attention_scalar_typed<float>(problem, stream);
    case DType::bfloat16: return flash_attention_scalar_typed<bfloat16>(problem, stream);
    case DType::float16: return flash_attention_scalar_typed<float16>(problem, stream);
    default:
        throw Unsupported(
            concat("the scalar kernel supports float32, bfloat16 and float16, got ", dtype_name(problem.q.dtype)));
    }
}

static const Registration registration("flash_attention_scalar",
    [](nanobind::module_& module) { bind_attention(module, "flash_attention_scalar", &flash_attention_scalar); });

} // namespace waveattn::python
