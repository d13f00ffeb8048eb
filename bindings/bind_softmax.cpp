// module.softmax(x, out, device, stream)
#include "attention_checks.h"
#include "call.h"
#include "kernels/softmax.h"
#include "registration.h"
#include "tensor.h"

namespace nb = nanobind;

namespace waveattn::python {
namespace {

// The tensor with leading axes of size 1, so that it has 4 dimensions.
TensorDesc with_four_axes(const char* name, const TensorDesc& tensor) {
    require(tensor.rank >= 1 && tensor.rank <= 4, name, " must have 1 to 4 dimensions, got ", tensor.rank);
    TensorDesc result = tensor;
    result.rank = 4;
    const int missing = 4 - tensor.rank;
    for (int i = 0; i < 4; ++i) {
        result.shape[i] = i < missing ? 1 : tensor.shape[i - missing];
        result.stride[i] = i < missing ? 0 : tensor.stride[i - missing];
    }
    require(result.empty() || result.shape[3] == 1 || result.stride[3] == 1, name,
        " must have a last stride of 1, got ", result.stride[3]);
    return result;
}

void check_softmax(const TensorDesc& x, const TensorDesc& out) {
    require<TypeMismatch>(
        x.dtype == out.dtype, "out must have the dtype of x, ", dtype_name(x.dtype), ", got ", dtype_name(out.dtype));
    require(x.rank == out.rank, "out must have the shape of x");
    for (int i = 0; i < x.rank; ++i)
        require(x.shape[i] == out.shape[i], "out must have the shape of x, ", shape_text(x), ", got ", shape_text(out));
    check_writable(out);
    check_apart(out, "x", x);
}

} // namespace

static const Registration registration("softmax", [](nb::module_& module) {
    module.def(
        "softmax",
        [](const Tensor& x, const Tensor& out, int device, std::uintptr_t stream) {
            check_softmax(x, out);
            const TensorDesc source = with_four_axes("x", x), target = with_four_axes("out", out);
            Call call(device, stream);
            softmax(call.input("x", source), call.output("out", target), call.stream());
            call.finish();
        },
        nb::arg("x"), nb::arg("out"), nb::arg("device"), nb::arg("stream"));
});

} // namespace waveattn::python
