// FlashAttentionDPP (waveattn/attention/flash_attention.h) on fp32, bf16 and f16 tensors, any head_dim up to 256.
#pragma once

#include "attention_problem.h"

namespace waveattn::python {

void flash_attention_scalar(const AttentionProblem& problem, hipStream_t stream);

} // namespace waveattn::python
