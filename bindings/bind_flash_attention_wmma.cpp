#include "bind_attention.h"
#include "decode_call.h"
#include "kernels/flash_attention_wmma.h"
#include "registration.h"

namespace nb = nanobind;

namespace waveattn::python {
namespace {

void flash_attention_wmma(const AttentionProblem& problem, hipStream_t stream) {
    switch (problem.q.dtype) {
    case DType::bfloat16: return flash_attention_wmma_typed<bfloat16>(problem, stream);
    case DType::float16: return flash_attention_wmma_typed<float16>(problem, stream);
    default:
        throw Unsupported(concat("the WMMA kernel supports bfloat16 and float16, got ", dtype_name(problem.q.dtype)));
    }
}

void run_cached(const DecodeCall& self, bool quantised_scores, int device, std::uintptr_t stream) {
    require<Unsupported>(
        !self.kv_lens.rank, "attention over a cache on matrix instructions takes one length, not kv_lens");
    Call call(device, stream);
    const DecodeProblem staged = stage(call, self);
    switch (self.k.dtype) {
    case DType::int8: flash_attention_wmma_cached<std::int8_t>(staged, quantised_scores, call.stream()); break;
    case DType::float8_e4m3fn:
        flash_attention_wmma_cached<float8_e4m3fn>(staged, quantised_scores, call.stream());
        break;
    default:
        throw Unsupported(
            concat("attention over a cache on matrix instructions supports int8 and float8_e4m3fn codes, got ",
                dtype_name(self.k.dtype)));
    }
    call.finish();
}

} // namespace

static const Registration registration("flash_attention_wmma", [](nb::module_& module) {
    bind_attention(module, "flash_attention_wmma", &flash_attention_wmma);
    module.def("flash_attention_wmma_cached", &run_cached, nb::arg("call"), nb::arg("quantised_scores"),
        nb::arg("device"), nb::arg("stream"));
});

} // namespace waveattn::python
