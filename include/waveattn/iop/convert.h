// Conversions between stored elements and fp32 inside operations: those of core/numeric.h, by instructions on a device
// where it has one. Both sides give the same bits.
#pragma once

#include "waveattn/core/numeric.h"

#ifdef __HIP__
#    include "waveattn/arch/intrinsics.h"
#endif

#include <cmath>

namespace waveattn::iop {

template <class T> WAVEATTN_HOST_DEVICE constexpr float decode(T code) { return to_float(code); }
template <class T> WAVEATTN_HOST_DEVICE constexpr T encode(float value) { return from_float<T>(value); }

// exp(x) in fp32; on a device 2^(x log2 e), whose relative error grows with |x| to about |x| * 6e-8.
inline float exponential(float x) { return std::exp(x); }

#ifdef __HIP__
WAVEATTN_DEVICE float decode(float16 code) { return float(__builtin_bit_cast(_Float16, code.bits)); }
WAVEATTN_DEVICE float exponential(float x) { return arch::exp2(x * arch::log2e); }
#endif

} // namespace waveattn::iop
