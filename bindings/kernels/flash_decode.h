// Flash decode (waveattn/attention/flash_decode.h) over caches of fp32, bf16, f16, int8 and fp8 tokens.
#pragma once

#include "tensor_desc.h"

#include "waveattn/attention/problem.h"

namespace waveattn::python {

struct DecodeProblem {
    TensorDesc q, out;           // (B, Hq, Sq, D) and (B, Hq, Sq, Dv), of one dtype: fp32, bf16 or f16
    TensorDesc k, v;             // (B, Hkv, Sk, D) and (B, Hkv, Sk, Dv): q's dtype, or 8-bit codes
    TensorDesc k_scale, v_scale; // (B, Hkv, Sk) fp32, for 8-bit codes
    TensorDesc lse;              // (B, Hq, Sq) fp32, without data where it is not wanted
    TensorDesc kv_lens;          // (B) int32, without data where every batch entry has Sk tokens
    TensorDesc workspace;        // fp32, for several splits
    AttentionShape shape;
    Causal causal = Causal::none;
    std::optional<float> scale;
    int splits = 0; // 0: as many as the workspace allows
};

void flash_decode(const DecodeProblem& problem, hipStream_t stream);

// Splits that fill the current device, and the floats of workspace that they need.
int flash_decode_split_count(const AttentionShape& shape);
std::int64_t flash_decode_workspace_floats(const AttentionShape& shape, int splits);

} // namespace waveattn::python
