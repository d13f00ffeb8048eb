// Sage attention (waveattn/attention/sage_quantize.h) on bf16, f16 and fp32 tensors, by way of one buffer.
#pragma once

#include "tensor_desc.h"

#include "waveattn/attention/sage_quantize.h"

namespace waveattn::python {

// A call: the shape of the tensors, in (batch, head, token, dim) order, and the options. Packed sequences have a batch
// of 1, all tokens along the token axes, and cu_q and cu_k.
struct SageCall {
    AttentionShape shape;
    SageOptions options; // without lse, stream and cu_*

    std::int64_t buffer_bytes() const { return sage_storage(shape, options).bytes; }
};

struct SageTensors {
    TensorDesc q, k, v, out, lse; // lse without data where it is not wanted
    TensorDesc buffer;            // int8
    TensorDesc cu_q, cu_k;        // int32, without data unless packed
};

// Launch on the current device: q, k, v into the buffer; out and lse from the buffer.
void sage_quantize(const SageCall& call, const SageTensors& tensors, hipStream_t stream);
void sage_attention_quantized(const SageCall& call, const SageTensors& tensors, hipStream_t stream);

} // namespace waveattn::python
