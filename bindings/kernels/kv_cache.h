// Quantising tokens into a KV cache: one fp32 scale for each token of each head, int8 or fp8 codes.
#pragma once

#include "tensor_desc.h"

namespace waveattn::python {

//   tokens (B, H, T, D) fp32, bf16 or f16
//   codes  (B, H, T, D) int8, float8_e4m3fn or float8_e4m3fnuz
//   scales (B, H, T)    fp32
// scale = max |token| / largest code, code = round_to_nearest_even(token / scale). A token of zeros has scale 0. int8
// and fp8 have no infinity to keep, so a token with an infinity or a NaN gets the scale NaN and codes 0: it reads back
// as NaN.
void kv_quantize(const TensorDesc& tokens, const TensorDesc& codes, const TensorDesc& scales, hipStream_t stream);

} // namespace waveattn::python
