// An attention call as Python gives it: checked tensors in (batch, head, token, dim) order and the options.
#pragma once

#include "tensor_desc.h"

#include "waveattn/attention/problem.h"

namespace waveattn::python {

struct AttentionProblem {
    TensorDesc q, k, v; // (B, Hq, Sq, D), (B, Hkv, Sk, D), (B, Hkv, Sk, Dv)
    TensorDesc out;     // (B, Hq, Sq, Dv)
    TensorDesc lse;     // (B, Hq, Sq) fp32, without data where it is not wanted
    AttentionShape shape;
    Causal causal = Causal::none;
    std::optional<float> scale;
    bool bshd = false; // the tensors came as (batch, token, head, dim)

    // The options of a kernel's C++ interface, with the lse view.
    AttentionOptions options(hipStream_t stream) const {
        AttentionOptions result;
        result.causal = causal;
        result.scale = scale;
        result.stream = stream;
        if (lse.data) result.lse = view<float, 3>("lse", lse);
        return result;
    }
};

// A kernel: launches on the current device.
using AttentionKernel = void (*)(const AttentionProblem&, hipStream_t);

} // namespace waveattn::python
