// Conversions between stored elements and fp32 inside operations: those of core/numeric.h, by instructions on a device
// where it has one. Both sides give the same bits.
#pragma once

#include "waveattn/core/numeric.h"

#ifdef __HIP__
#    include "waveattn/arch/intrinsics.h"
#endif

#include <cmath>
#include <type_traits>

namespace waveattn::iop {

// Types of the elements of tensors: 16 and 32 bits, and codes of 8 bits.
template <class T, class... Of> inline constexpr bool one_of = (std::is_same_v<T, Of> || ...);
template <class T> inline constexpr bool is_code = one_of<T, std::int8_t, float8_e4m3fn, float8_e4m3fnuz>;
template <class T> inline constexpr bool is_element = is_code<T> || one_of<T, float, bfloat16, float16>;

template <class T> WAVEATTN_HOST_DEVICE constexpr float decode(T code) { return to_float(code); }
template <class T> WAVEATTN_HOST_DEVICE constexpr T encode(float value) { return from_float<T>(value); }

// Host versions of what the device has versions of: a call then finds the one of its side.
inline float decode(float16 code) { return to_float(code); }
inline float decode(float8_e4m3fn code) { return to_float(code); }
inline float decode(float8_e4m3fnuz code) { return to_float(code); }

// exp(x) in fp32; on a device 2^(x log2 e), whose relative error grows with |x| to about |x| * 6e-8.
inline float exponential(float x) { return std::exp(x); }

#ifdef __HIP__
WAVEATTN_DEVICE float decode(float16 code) { return float(__builtin_bit_cast(_Float16, code.bits)); }
// By way of f16, whose exponent has the room and whose denormals are never flushed.
WAVEATTN_DEVICE float decode(float8_e4m3fn code) {
    if constexpr (arch::has_fp8_ocp_conversion) {
        return arch::fp8_to_float(code.bits);
    } else {
        const unsigned half = (code.bits & 0x80u) << 8 | (code.bits & 0x7fu) << 7;
        const float value = float(__builtin_bit_cast(_Float16, std::uint16_t(half))) * 256.f;
        return (code.bits & 0x7fu) == 0x7fu ? __builtin_nanf("") : value;
    }
}
WAVEATTN_DEVICE float decode(float8_e4m3fnuz code) {
    if constexpr (arch::has_fp8_fnuz_conversion) {
        return arch::fp8_to_float(code.bits);
    } else {
        const unsigned half = (code.bits & 0x80u) << 8 | (code.bits & 0x7fu) << 7;
        const float value = float(__builtin_bit_cast(_Float16, std::uint16_t(half))) * 128.f;
        return code.bits == 0x80u ? __builtin_nanf("") : value;
    }
}
WAVEATTN_DEVICE float exponential(float x) { return arch::exp2(x * arch::log2e); }
#endif

} // namespace waveattn::iop
