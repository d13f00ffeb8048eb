// Checks that the bindings of attention and decode share.
#pragma once

#include "tensor_desc.h"

#include "waveattn/attention/problem.h"

#include <string>

namespace waveattn::python {

// "cpu", "rocm:0" or "emulated:0".
std::string device_text(int device);
std::string shape_text(const TensorDesc& tensor);

// (batch, token, head, dim) as (batch, head, token, dim).
void swap_head_and_token(TensorDesc& tensor);
// For checks that do not look at elements: strides count elements whatever these are.
TensorView<const std::int8_t, 4> untyped(const TensorDesc& tensor);
// Throws InvalidArgument for a name that is none of the rules.
Causal causal_from(const std::optional<std::string>& text);
// Throws InvalidArgument, with the caller's number, where fp32 cannot hold it.
std::optional<float> scale_from(const std::optional<double>& scale);

// Throws InvalidArgument where `out` is read-only or has elements that share memory.
void check_writable(const TensorDesc& out);
// The same, and that `out`, of 4 dimensions, has the shape of the result and a last stride of 1.
void check_out(const TensorDesc& out, const AttentionShape& shape);
// Throws InvalidArgument where an output shares memory with another tensor. Parts of one packed tensor may interleave.
void check_apart(const TensorDesc& out, const char* name, const TensorDesc& other, const char* out_name = "out");
// The shape of the call by its inputs alone, whatever the output may be.
AttentionShape check_inputs(
    const TensorDesc& q, const TensorDesc& k, const TensorDesc& v, const std::optional<float>& scale);

} // namespace waveattn::python
