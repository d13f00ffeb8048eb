// KV caches: quantising appended tokens.
#include "call.h"
#include "kernels/kv_cache.h"
#include "registration.h"
#include "tensor.h"

namespace nb = nanobind;
using namespace waveattn::python;

static const Registration registration("kv_cache", [](nb::module_& module) {
    module.def(
        "kv_quantize",
        [](const Tensor& tokens, const Tensor& codes, const Tensor& scales, int device, std::uintptr_t stream) {
            Call call(device, stream);
            kv_quantize(call.input("tokens", tokens), call.output("codes", codes), call.output("scales", scales),
                call.stream());
            call.finish();
        },
        nb::arg("tokens"), nb::arg("codes"), nb::arg("scales"), nb::arg("device"), nb::arg("stream"));
});
