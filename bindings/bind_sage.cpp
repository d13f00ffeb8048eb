// Sage attention: module.SageCall, module.sage_quantize, module.sage_attention_quantized.
#include "attention_checks.h"
#include "call.h"
#include "kernels/sage_attention.h"
#include "registration.h"
#include "tensor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

namespace nb = nanobind;

namespace waveattn::python {
namespace {

QScaleRows rows_from(const std::string& name) {
    if (name == "block") return QScaleRows::block;
    if (name == "warp") return QScaleRows::warp;
    require(name == "thread", "q_scales must be 'block', 'warp' or 'thread', got '", name, "'");
    return QScaleRows::thread;
}

// (batch, head, token, dim) order, whatever the caller's. Packed tensors are (token, head, dim).
TensorDesc logical(const char* name, const TensorDesc& tensor, bool bshd, bool packed) {
    require(tensor.rank == (packed ? 3 : 4), name, " must have ", packed ? 3 : 4, " dimensions, got shape ",
        shape_text(tensor));
    TensorDesc result = tensor;
    if (packed) {
        result.rank = 4;
        for (int i = 0; i < 3; ++i) result.shape[i + 1] = tensor.shape[i], result.stride[i + 1] = tensor.stride[i];
        result.shape[0] = 1, result.stride[0] = 0;
    }
    if (bshd || packed) swap_head_and_token(result);
    return result;
}

using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

// sequences: 0 unless packed.
void make_call(SageCall* self, const Shape& shape, const std::optional<std::string>& causal,
    std::optional<double> scale, bool smooth_k, bool smooth_q, bool hadamard, const std::string& q_scales,
    bool lse_shift, std::int64_t sequences, std::int64_t max_q, std::int64_t max_k) {
    SageCall call;
    AttentionShape& s = call.shape;
    std::tie(s.batch, s.heads_q, s.heads_kv, s.q_len, s.kv_len, s.head_dim) = shape;
    s.head_dim_v = s.head_dim;
    SageOptions& o = call.options;
    o.smooth_k = smooth_k, o.smooth_q = smooth_q, o.hadamard = hadamard, o.lse_shift = lse_shift;
    o.q_scale_rows = rows_from(q_scales), o.causal = causal_from(causal);
    if (scale) o.scale = float(*scale);
    o.packed.count = sequences, o.packed.max_q = max_q, o.packed.max_k = max_k;
    require<Unsupported>(
        s.head_dim <= sage::max_head_dim, "Sage attention supports head_dim 1 to 128, got ", s.head_dim);
    require(s.head_dim > 0, "head_dim must be positive, got ", s.head_dim);
    require(s.heads_q == 0 || (s.heads_kv > 0 && s.heads_q % s.heads_kv == 0), "the heads of q (", s.heads_q,
        ") must be a multiple of the heads of k and v (", s.heads_kv, ")");
    new (self) SageCall(call);
}

void check_packed(const SageCall& call, const std::optional<Tensor>& cu_q, const std::optional<Tensor>& cu_k) {
    if (call.options.packed.count == 0) return;
    for (const auto* cu : {&cu_q, &cu_k}) {
        require(cu->has_value(), "packed sequences need cu_seqlens_q and cu_seqlens_k");
        require<TypeMismatch>(
            (*cu)->dtype == DType::int32, "cu_seqlens must have dtype int32, got ", dtype_name((*cu)->dtype));
        require((*cu)->rank == 1 && (*cu)->shape[0] == call.options.packed.count + 1 && (*cu)->stride[0] == 1,
            "cu_seqlens must be contiguous, one more than there are sequences, and as many for q as for k");
        if ((*cu)->device != host_memory) continue; // on a GPU they are the caller's word
        const auto* offsets = static_cast<const std::int32_t*>((*cu)->data);
        const std::int64_t tokens = cu == &cu_q ? call.shape.q_len : call.shape.kv_len;
        for (std::int64_t i = 0; i <= call.options.packed.count; ++i)
            require(offsets[i] >= (i ? offsets[i - 1] : 0) && offsets[i] <= tokens,
                "cu_seqlens must not decrease and stay within the ", tokens, " tokens, got ", offsets[i], " at index ",
                i);
    }
}
void check_buffer(const SageCall& call, const Tensor& buffer) {
    require(buffer.dtype == DType::int8 && buffer.rank == 1 && buffer.stride[0] == 1 &&
                buffer.shape[0] >= call.buffer_bytes(),
        "the buffer must be int8 with ", call.buffer_bytes(), " elements, got shape ", shape_text(buffer));
}
void check_device(const char* name, const TensorDesc& tensor, const TensorDesc& other) {
    require(tensor.device == other.device, name, " must be on the device of the other tensors");
}

void quantize(const SageCall& self, const Tensor& q, const Tensor& k, const Tensor& v, bool bshd, const Tensor& buffer,
    const std::optional<Tensor>& cu_q, const std::optional<Tensor>& cu_k, int device, std::uintptr_t stream) {
    const bool packed = self.options.packed.count != 0;
    require<TypeMismatch>(q.dtype == k.dtype && q.dtype == v.dtype, "q, k and v must have the same dtype, got ",
        dtype_name(q.dtype), ", ", dtype_name(k.dtype), " and ", dtype_name(v.dtype));
    check_device("k", k, q);
    check_device("v", v, q);
    check_device("buffer", buffer, q);
    check_buffer(self, buffer);
    check_packed(self, cu_q, cu_k);
    SageTensors t;
    t.q = logical("q", q, bshd, packed), t.k = logical("k", k, bshd, packed), t.v = logical("v", v, bshd, packed);
    check_inputs(t.q, t.k, t.v, self.options.scale);
    Call call(device, stream);
    t.q = call.input("q", t.q), t.k = call.input("k", t.k), t.v = call.input("v", t.v);
    t.buffer = call.output("buffer", buffer);
    if (packed) t.cu_q = call.input("cu_seqlens_q", *cu_q), t.cu_k = call.input("cu_seqlens_k", *cu_k);
    sage_quantize(self, t, call.stream());
    call.finish();
}

void attend(const SageCall& self, const Tensor& buffer, const Tensor& out, bool bshd, const std::optional<Tensor>& lse,
    const std::optional<Tensor>& cu_q, const std::optional<Tensor>& cu_k, int device, std::uintptr_t stream) {
    const bool packed = self.options.packed.count != 0;
    check_buffer(self, buffer);
    check_packed(self, cu_q, cu_k);
    check_device("out", out, buffer);
    check_writable(out);
    SageTensors t;
    t.out = logical("out", out, bshd, packed);
    const AttentionShape& s = self.shape;
    require(t.out.shape[0] == s.batch && t.out.shape[1] == s.heads_q && t.out.shape[2] == s.q_len &&
                t.out.shape[3] == s.head_dim,
        "out must have the shape of q, got ", shape_text(out));
    Call call(device, stream);
    t.buffer = call.input("buffer", buffer), t.out = call.output("out", t.out);
    if (lse) t.lse = call.output("lse", *lse);
    if (packed) t.cu_q = call.input("cu_seqlens_q", *cu_q), t.cu_k = call.input("cu_seqlens_k", *cu_k);
    sage_attention_quantized(self, t, call.stream());
    call.finish();
}

// Byte offset of each operand in the buffer, -1 where the options do not make it; and the sizes that are not obvious.
nb::dict layout(const SageCall& self) {
    const SageStorage s = sage_storage(self.shape, self.options);
    nb::dict result;
    result["bytes"] = s.bytes, result["head_dim"] = s.padded;
    result["q"] = s.q, result["k"] = s.k, result["v"] = s.v;
    result["q_scale"] = s.q_scale, result["k_scale"] = s.k_scale, result["v_scale"] = s.v_scale;
    result["delta_s"] = s.delta_s, result["lse_shift"] = s.lse_shift;
    result["q_groups"] = s.q_groups, result["k_tiles"] = s.k_tiles, result["q_blocks"] = s.q_blocks;
    result["keys"] = s.keys, result["sequences"] = s.sequences, result["delta_s_in_units"] = s.delta_s_in_units;
    return result;
}

} // namespace

static const Registration registration("sage_attention", [](nb::module_& module) {
    nb::class_<SageCall>(module, "SageCall")
        .def("__init__", &make_call, nb::arg("shape"), nb::arg("causal").none(), nb::arg("scale").none(),
            nb::arg("smooth_k"), nb::arg("smooth_q"), nb::arg("hadamard"), nb::arg("q_scales"), nb::arg("lse_shift"),
            nb::arg("sequences"), nb::arg("max_q"), nb::arg("max_k"))
        .def_prop_ro("buffer_bytes", &SageCall::buffer_bytes)
        .def_prop_ro("layout", &layout);
    module.def("sage_quantize", &quantize, nb::arg("call"), nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("bshd"),
        nb::arg("buffer"), nb::arg("cu_q").none(), nb::arg("cu_k").none(), nb::arg("device"), nb::arg("stream"));
    module.def("sage_attention_quantized", &attend, nb::arg("call"), nb::arg("buffer"), nb::arg("out"), nb::arg("bshd"),
        nb::arg("lse").none(), nb::arg("cu_q").none(), nb::arg("cu_k").none(), nb::arg("device"), nb::arg("stream"));
});

} // namespace waveattn::python
