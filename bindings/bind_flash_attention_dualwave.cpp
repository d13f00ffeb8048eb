// The dual-wave kernel: as a plain attention kernel, and with its own settings.
#include "bind_attention.h"
#include "kernels/flash_attention_dualwave.h"
#include "registration.h"
#include "tensor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace waveattn::python {
namespace {

void run(const AttentionProblem& problem, const DualwaveSettings& settings, hipStream_t stream) {
    switch (problem.q.dtype) {
    case DType::bfloat16: return flash_attention_dualwave_typed<bfloat16>(problem, settings, stream);
    case DType::float16: return flash_attention_dualwave_typed<float16>(problem, settings, stream);
    default:
        throw Unsupported(
            concat("the dual-wave kernel supports bfloat16 and float16, got ", dtype_name(problem.q.dtype)));
    }
}
void run_default(const AttentionProblem& problem, hipStream_t stream) { run(problem, {}, stream); }

DualwaveSettings settings_from(const std::string& basis, const std::string& xcd_swizzle, int splits) {
    require(basis == "online" || basis == "pinned", "basis must be 'online' or 'pinned', got '", basis, "'");
    require(xcd_swizzle == "auto" || xcd_swizzle == "on" || xcd_swizzle == "off",
        "xcd_swizzle must be 'auto', 'on' or 'off', got '", xcd_swizzle, "'");
    require(splits >= 1 && splits <= 1024, "splits must be from 1 to 1024, got ", splits);
    DualwaveSettings settings;
    settings.basis = basis == "online" ? SoftmaxBasis::online : SoftmaxBasis::pinned;
    settings.xcd_swizzle = xcd_swizzle == "auto" ? XcdSwizzle::automatic
                           : xcd_swizzle == "on" ? XcdSwizzle::on
                                                 : XcdSwizzle::off;
    settings.splits = splits;
    return settings;
}

} // namespace

static const Registration registration("flash_attention_dualwave", [](nb::module_& module) {
    bind_attention(module, "flash_attention_dualwave", &run_default);
    // The number of float32 elements of the workspace that those settings need.
    module.def(
        "flash_attention_dualwave_workspace",
        [](const AttentionProblem& problem, const std::string& basis, const std::string& xcd_swizzle, int splits) {
            return (flash_attention_dualwave_workspace(problem.shape, settings_from(basis, xcd_swizzle, splits)) + 3) /
                   4;
        },
        nb::arg("problem"), nb::arg("basis"), nb::arg("xcd_swizzle"), nb::arg("splits"));
    module.def(
        "flash_attention_dualwave_with",
        [](const AttentionProblem& problem, const std::string& basis, const std::string& xcd_swizzle, int splits,
            std::optional<Tensor> workspace, int device, std::uintptr_t stream) {
            DualwaveSettings settings = settings_from(basis, xcd_swizzle, splits);
            Call call(device, stream);
            if (workspace) settings.workspace = call.output("workspace", *workspace);
            run(stage(call, problem), settings, call.stream());
            call.finish();
        },
        nb::arg("problem"), nb::arg("basis"), nb::arg("xcd_swizzle"), nb::arg("splits"), nb::arg("workspace").none(),
        nb::arg("device"), nb::arg("stream"));
});

} // namespace waveattn::python
