// Binds an attention kernel as module.<name>(problem, device, stream).
#pragma once

#include "attention_problem.h"
#include "call.h"

namespace waveattn::python {

// The problem with its tensors where the device of the call can read them.
AttentionProblem stage(Call& call, const AttentionProblem& problem);

inline void bind_attention(nanobind::module_& module, const char* name, AttentionKernel kernel) {
    module.def(
        name,
        [kernel](const AttentionProblem& problem, int device, std::uintptr_t stream) {
            Call call(device, stream);
            kernel(stage(call, problem), call.stream());
            call.finish();
        },
        nanobind::arg("problem"), nanobind::arg("device"), nanobind::arg("stream"));
}

} // namespace waveattn::python
