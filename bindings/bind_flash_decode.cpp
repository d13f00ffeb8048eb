// module.flash_decode(...): the checks of a decode call, and the call.
#include "attention_checks.h"
#include "decode_call.h"
#include "registration.h"
#include "tensor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace waveattn::python {
namespace {

bool is_code(DType dtype) {
    return dtype == DType::int8 || dtype == DType::float8_e4m3fn || dtype == DType::float8_e4m3fnuz;
}

void check_scales(const char* name, const TensorDesc& scales, const TensorDesc& codes) {
    (void)view<float, 3>(name, scales);
    for (int i = 0; i < 3; ++i)
        require(scales.shape[i] == codes.shape[i], name, " must be ", "(batch, heads, tokens) as its codes ",
            shape_text(codes), ", got ", shape_text(scales));
}

void make_call(DecodeCall* self, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* k_scale,
    const Tensor* v_scale, const Tensor* kv_lens, const std::optional<std::string>& causal,
    std::optional<double> scale) {
    DecodeCall call;
    call.q = q, call.k = k, call.v = v;
    call.causal = causal_from(causal);
    call.scale = scale_from(scale);
    require(q.rank == 4 && k.rank == 4 && v.rank == 4,
        "q, k and v must have 4 dimensions (batch, heads, tokens, head_dim), got shapes ", shape_text(q), ", ",
        shape_text(k), " and ", shape_text(v));
    require<Unsupported>(q.dtype == DType::float32 || q.dtype == DType::bfloat16 || q.dtype == DType::float16,
        "decode supports q of float32, bfloat16 and float16, got ", dtype_name(q.dtype));
    require<TypeMismatch>(k.dtype == v.dtype && (is_code(k.dtype) || k.dtype == q.dtype),
        "k and v must both have the dtype of q, or both be int8 or fp8 codes, got ", dtype_name(q.dtype), ", ",
        dtype_name(k.dtype), " and ", dtype_name(v.dtype));
    require(is_code(k.dtype) == (k_scale != nullptr) && is_code(k.dtype) == (v_scale != nullptr),
        "k_scale and v_scale belong to int8 and fp8 caches, and only to them; k is ", dtype_name(k.dtype));
    call.shape = check_inputs(call.q, call.k, call.v, call.scale);
    if (k_scale) {
        check_scales("k_scale", *k_scale, k);
        check_scales("v_scale", *v_scale, v);
        call.k_scale = *k_scale, call.v_scale = *v_scale;
    }
    if (kv_lens) {
        (void)view<std::int32_t, 1>("kv_lens", *kv_lens);
        require(kv_lens->shape[0] == q.shape[0] && (kv_lens->stride[0] == 1 || q.shape[0] <= 1),
            "kv_lens must be a contiguous int32 tensor with one length for each of the ", q.shape[0],
            " batch entries, got ", shape_text(*kv_lens));
        call.kv_lens = *kv_lens;
    }
    for (const TensorDesc* tensor : {&call.k, &call.v, &call.k_scale, &call.v_scale, &call.kv_lens})
        require(tensor->rank == 0 || tensor->device == q.device, "all tensors must be on the same device, got ",
            device_text(q.device), " and ", device_text(tensor->device));
    new (self) DecodeCall(call);
}

void set_outputs(DecodeCall& self, const Tensor& out, const Tensor* lse, const Tensor* workspace, int splits) {
    require<TypeMismatch>(out.dtype == self.q.dtype, "out must have the dtype of q, ", dtype_name(self.q.dtype),
        ", got ", dtype_name(out.dtype));
    require(out.device == self.q.device, "out must be on the device of q, ", device_text(self.q.device), ", got ",
        device_text(out.device));
    require(out.rank == 4, "out must have 4 dimensions, got shape ", shape_text(out));
    check_out(out, self.shape);
    check_apart(out, "q", self.q);
    check_apart(out, "k", self.k);
    check_apart(out, "v", self.v);
    self.out = out;
    if (lse) self.lse = *lse;
    if (workspace) self.workspace = *workspace;
    self.splits = splits;
}

void run(const DecodeCall& self, int device, std::uintptr_t stream) {
    Call call(device, stream);
    flash_decode(stage(call, self), call.stream());
    call.finish();
}

} // namespace

static const Registration registration("flash_decode", [](nb::module_& module) {
    nb::class_<DecodeCall>(module, "DecodeCall", "A checked decode call.")
        .def("__init__", &make_call, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("k_scale").none(),
            nb::arg("v_scale").none(), nb::arg("kv_lens").none(), nb::arg("causal").none(), nb::arg("scale").none())
        .def("set_outputs", &set_outputs, nb::arg("out"), nb::arg("lse").none(), nb::arg("workspace").none(),
            nb::arg("splits"))
        .def("run", &run, nb::arg("device"), nb::arg("stream"))
        // (splits that fill the device, floats of workspace for `wanted` splits or, for 0, for those)
        .def(
            "workspace",
            [](const DecodeCall& self, int wanted, int device) {
                DeviceScope scope(device);
                const int splits = wanted > 0 ? wanted : flash_decode_split_count(self.shape);
                return std::pair(splits, flash_decode_workspace_floats(self.shape, splits));
            },
            nb::arg("wanted"), nb::arg("device"))
        .def_prop_ro("device", [](const DecodeCall& self) { return self.q.device; });
});

} // namespace waveattn::python
