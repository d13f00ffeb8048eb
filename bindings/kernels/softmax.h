// Softmax along the last axis (waveattn/attention/softmax.h) of fp32, bf16 and f16 tensors.
#pragma once

#include "tensor_desc.h"

namespace waveattn::python {

// in and out: the same shape (B, H, rows, columns) and dtype, last stride 1.
void softmax(const TensorDesc& in, const TensorDesc& out, hipStream_t stream);

} // namespace waveattn::python
