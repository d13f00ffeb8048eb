// Sage attention: module.SageCall, module.sage_run.
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
    (void)call.buffer_bytes(); // checks the shape and the options
    new (self) SageCall(call);
}

// Offsets in host memory are looked at; on a GPU they are the caller's word.
void check_offsets(const SageCall& call, const char* name, const std::optional<Tensor>& offsets, std::int64_t tokens,
    std::int64_t longest) {
    require(offsets.has_value(), "packed sequences need ", name);
    const std::int64_t count = call.options.packed.count;
    require<TypeMismatch>(
        offsets->dtype == DType::int32, name, " must have dtype int32, got ", dtype_name(offsets->dtype));
    require(offsets->rank == 1 && offsets->shape[0] == count + 1, name, " must be as long as cu_seqlens_q, ", count + 1,
        ", got shape ", shape_text(*offsets));
    require(offsets->stride[0] == 1, name, " must be contiguous, got a stride of ", offsets->stride[0]);
    if (offsets->device != host_memory) return;
    const auto* values = static_cast<const std::int32_t*>(offsets->data);
    for (std::int64_t i = 0; i <= count; ++i) {
        require(values[i] >= (i ? values[i - 1] : 0) && values[i] <= tokens, name,
            " must not decrease and stay within the ", tokens, " tokens, got ", values[i], " at index ", i);
        require(i == 0 || longest == 0 || values[i] - values[i - 1] <= longest, name, ": sequence ", i - 1, " has ",
            values[i] - values[i - 1], " tokens, more than its max_seqlen, ", longest);
    }
}

void check_device(const char* name, const TensorDesc& tensor, const TensorDesc& other) {
    require(tensor.device == other.device, name, " is on ", device_text(tensor.device),
        ", but must be on the device of the other tensors, ", device_text(other.device));
}

// Quantises q, k and v into the buffer where they are given, and attends on it where `out` is. All is checked first.
void run(const SageCall& self, const std::optional<Tensor>& q, const std::optional<Tensor>& k,
    const std::optional<Tensor>& v, bool bshd, const Tensor& buffer, const std::optional<Tensor>& out,
    const std::optional<Tensor>& lse, const std::optional<Tensor>& cu_q, const std::optional<Tensor>& cu_k, int device,
    std::uintptr_t stream) {
    const PackedSequences& lengths = self.options.packed;
    const bool packed = lengths.count != 0;
    SageTensors t;
    require(buffer.dtype == DType::int8 && buffer.rank == 1 && buffer.stride[0] == 1 &&
                buffer.shape[0] >= self.buffer_bytes(),
        "the buffer must be contiguous int8 with ", self.buffer_bytes(), " elements, got ", dtype_name(buffer.dtype),
        " of shape ", shape_text(buffer));
    require(reinterpret_cast<std::uintptr_t>(buffer.data) % 16 == 0, "the buffer must start on a multiple of 16 bytes");
    if (q) {
        require<TypeMismatch>(q->dtype == k->dtype && q->dtype == v->dtype, "q, k and v must have the same dtype, got ",
            dtype_name(q->dtype), ", ", dtype_name(k->dtype), " and ", dtype_name(v->dtype));
        check_device("k", *k, *q);
        check_device("v", *v, *q);
        check_device("the buffer", buffer, *q);
        t.q = logical("q", *q, bshd, packed), t.k = logical("k", *k, bshd, packed);
        t.v = logical("v", *v, bshd, packed);
        check_inputs(t.q, t.k, t.v, self.options.scale);
        require(t.v.shape[3] == t.q.shape[3], "v must have the head_dim of q and k, ", t.q.shape[3], ", got ",
            t.v.shape[3]);
    }
    if (packed) {
        check_offsets(self, "cu_seqlens_q", cu_q, self.shape.q_len, lengths.max_q);
        check_offsets(self, "cu_seqlens_k", cu_k, self.shape.kv_len, lengths.max_k);
        check_device("cu_seqlens_q", *cu_q, buffer);
        check_device("cu_seqlens_k", *cu_k, buffer);
    }
    if (out) {
        check_device("out", *out, buffer);
        t.out = logical("out", *out, bshd, packed);
        check_out(t.out, self.shape);
        if (q) check_apart(*out, "q", *q), check_apart(*out, "k", *k), check_apart(*out, "v", *v);
        if (packed) check_apart(*out, "cu_seqlens_q", *cu_q), check_apart(*out, "cu_seqlens_k", *cu_k);
        check_apart(*out, "the quantised operands", buffer);
    }
    Call call(device, stream);
    if (q) t.q = call.input("q", t.q), t.k = call.input("k", t.k), t.v = call.input("v", t.v);
    t.buffer = q ? call.output("buffer", buffer) : call.input("buffer", buffer);
    if (out) t.out = call.output("out", t.out);
    if (lse) t.lse = call.output("lse", *lse);
    if (packed) t.cu_q = call.input("cu_seqlens_q", *cu_q), t.cu_k = call.input("cu_seqlens_k", *cu_k);
    if (q) sage_quantize(self, t, call.stream());
    if (out) sage_attention_quantized(self, t, call.stream());
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
    module.def("sage_run", &run, nb::arg("call"), nb::arg("q").none(), nb::arg("k").none(), nb::arg("v").none(),
        nb::arg("bshd"), nb::arg("buffer"), nb::arg("out").none(), nb::arg("lse").none(), nb::arg("cu_q").none(),
        nb::arg("cu_k").none(), nb::arg("device"), nb::arg("stream"));
});

} // namespace waveattn::python
