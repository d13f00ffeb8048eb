// The Python class AttentionProblem: the checks of every attention call, whichever kernel runs it.
#include "attention_checks.h"
#include "attention_problem.h"
#include "bind_attention.h"
#include "hip_runtime.h"
#include "registration.h"
#include "tensor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace waveattn::python {
namespace {

// Runs `check`, whose texts give shapes in (batch, head, token, dim) order, and says so where the caller's order
// differs.
template <class Check> auto in_callers_order(const AttentionProblem& problem, Check&& check) {
    try {
        return check();
    } catch (const InvalidArgument& error) {
        if (!problem.bshd) throw;
        throw InvalidArgument(std::string(error.what()) + " (shapes in the order batch, heads, tokens, head_dim)");
    }
}

void make_problem(AttentionProblem* self, const Tensor& q, const Tensor& k, const Tensor& v,
    const std::optional<std::string>& causal, std::optional<double> scale, const std::string& layout) {
    AttentionProblem problem;
    require(layout == "bhsd" || layout == "bshd", "layout must be 'bhsd' or 'bshd', got '", layout, "'");
    problem.bshd = layout == "bshd";
    problem.q = q, problem.k = k, problem.v = v;
    problem.causal = causal_from(causal);
    problem.scale = scale_from(scale);
    require(q.rank == 4 && k.rank == 4 && v.rank == 4, "q, k and v must have 4 dimensions (",
        problem.bshd ? "batch, tokens, heads, head_dim" : "batch, heads, tokens, head_dim", "), got shapes ",
        shape_text(q), ", ", shape_text(k), " and ", shape_text(v));
    require<TypeMismatch>(q.dtype == k.dtype && q.dtype == v.dtype, "q, k and v must have the same dtype, got ",
        dtype_name(q.dtype), ", ", dtype_name(k.dtype), " and ", dtype_name(v.dtype));
    require(q.device == k.device && q.device == v.device, "q, k and v must be on the same device, got ",
        device_text(q.device), ", ", device_text(k.device), " and ", device_text(v.device));
    if (problem.bshd)
        for (TensorDesc* tensor : {&problem.q, &problem.k, &problem.v}) swap_head_and_token(*tensor);

    problem.shape =
        in_callers_order(problem, [&] { return check_inputs(problem.q, problem.k, problem.v, problem.scale); });
    new (self) AttentionProblem(problem);
}

void set_out(AttentionProblem& self, const Tensor& out) {
    require(out.rank == 4, "out must have 4 dimensions, got shape ", shape_text(out));
    require<TypeMismatch>(out.dtype == self.q.dtype, "out must have the dtype of q, ", dtype_name(self.q.dtype),
        ", got ", dtype_name(out.dtype));
    require(out.device == self.q.device, "out must be on the device of q, ", device_text(self.q.device), ", got ",
        device_text(out.device));
    TensorDesc logical = out;
    if (self.bshd) swap_head_and_token(logical);
    in_callers_order(self, [&] { check_out(logical, self.shape); });
    check_apart(logical, "q", self.q);
    check_apart(logical, "k", self.k);
    check_apart(logical, "v", self.v);
    self.out = logical;
}
void set_lse(AttentionProblem& self, const Tensor& lse) {
    (void)view<float, 3>("lse", lse);
    require(lse.shape[0] == self.shape.batch && lse.shape[1] == self.shape.heads_q && lse.shape[2] == self.shape.q_len,
        "lse must be (", self.shape.batch, ", ", self.shape.heads_q, ", ", self.shape.q_len, "), got ",
        shape_text(lse));
    self.lse = lse;
}

} // namespace

AttentionProblem stage(Call& call, const AttentionProblem& problem) {
    AttentionProblem staged = problem;
    staged.q = call.input("q", problem.q);
    staged.k = call.input("k", problem.k);
    staged.v = call.input("v", problem.v);
    staged.out = call.output("out", problem.out);
    if (problem.lse.rank) staged.lse = call.output("lse", problem.lse);
    return staged;
}

static const Registration registration("attention_problem", [](nb::module_& module) {
    nb::class_<AttentionProblem>(module, "AttentionProblem", "A checked attention call.")
        .def("__init__", &make_problem, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("causal").none(),
            nb::arg("scale").none(), nb::arg("layout"))
        .def("set_out", &set_out, nb::arg("out"))
        .def("set_lse", &set_lse, nb::arg("lse"))
        .def_prop_ro("dtype", [](const AttentionProblem& p) { return dtype_name(p.q.dtype); })
        .def_prop_ro("device", [](const AttentionProblem& p) { return p.q.device; })
        .def_prop_ro("batch", [](const AttentionProblem& p) { return p.shape.batch; })
        .def_prop_ro("heads_q", [](const AttentionProblem& p) { return p.shape.heads_q; })
        .def_prop_ro("heads_kv", [](const AttentionProblem& p) { return p.shape.heads_kv; })
        .def_prop_ro("q_len", [](const AttentionProblem& p) { return p.shape.q_len; })
        .def_prop_ro("kv_len", [](const AttentionProblem& p) { return p.shape.kv_len; })
        .def_prop_ro("head_dim", [](const AttentionProblem& p) { return p.shape.head_dim; })
        .def_prop_ro("head_dim_v", [](const AttentionProblem& p) { return p.shape.head_dim_v; })
        .def_prop_ro("scale",
            [](const AttentionProblem& p) {
                AttentionOptions options;
                options.scale = p.scale;
                return score_scale(options, p.shape);
            })
        .def_prop_ro("causal",
            [](const AttentionProblem& p) -> std::optional<std::string> {
                if (p.causal == Causal::none) return std::nullopt;
                return p.causal == Causal::top_left ? "top_left" : "bottom_right";
            })
        .def_prop_ro("alignment", [](const AttentionProblem& p) {
            // The largest power of two, up to 16, that every row of q, k and v starts on.
            int bytes = 16;
            for (const TensorDesc* tensor : {&p.q, &p.k, &p.v}) {
                if (tensor->empty()) continue;
                while (bytes > 1 && reinterpret_cast<std::uintptr_t>(tensor->data) % std::uintptr_t(bytes)) bytes /= 2;
                for (int i = 0; i < 3; ++i)
                    while (bytes > 1 && tensor->shape[i] > 1 && tensor->stride[i] * dtype_bytes(tensor->dtype) % bytes)
                        bytes /= 2;
            }
            return bytes;
        });
});

} // namespace waveattn::python
