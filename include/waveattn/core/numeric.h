// Number formats: storage types of 16 and 8 bits with exact conversions, in plain C++ for host and device alike.
//
//   bfloat16          1-8-7     the upper half of an fp32
//   float16           1-5-10    IEEE binary16
//   float8_e4m3fn     1-4-3     OCP: bias 7, largest 448, S.1111.111 is NaN, no infinity      (gfx950, gfx12)
//   float8_e4m3fnuz   1-4-3     bias 8, largest 240, 0x80 is the only NaN, no infinity, no -0 (gfx942)
//
// to_float is exact. from_float rounds to nearest, ties to even; formats without infinity saturate to the largest
// finite value (the behaviour of the hardware conversions with clamping, and of torch for casts within range); NaN
// stays NaN. Kernels convert by instructions (arch/intrinsics.h); these functions define what those must give.
#pragma once

#include "waveattn/core/hip_api.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace waveattn {

struct bfloat16 {
    std::uint16_t bits;
};
struct float16 {
    std::uint16_t bits;
};
struct float8_e4m3fn {
    std::uint8_t bits;
};
struct float8_e4m3fnuz {
    std::uint8_t bits;
};

namespace detail {

// A binary format of 1 + ExponentBits + MantissaBits bits. Specials: Ieee has infinities and NaNs in the top exponent,
// Fn spends only the all-ones pattern on NaN, Fnuz only the pattern of -0.
enum class Specials { ieee, fn, fnuz };
template <int ExponentBits, int MantissaBits, int Bias, Specials Kind> struct BinaryFormat {
    static constexpr int bits = 1 + ExponentBits + MantissaBits;
    static constexpr std::uint32_t sign_bit = 1u << (bits - 1);
    static constexpr std::uint32_t magnitude_mask = sign_bit - 1;
    static constexpr std::uint32_t top_exponent = ((1u << ExponentBits) - 1) << MantissaBits;
    static constexpr std::uint32_t nan = Kind == Specials::ieee ? top_exponent | 1u << (MantissaBits - 1)
                                         : Kind == Specials::fn ? magnitude_mask
                                                                : sign_bit;
    // The largest finite magnitude.
    static constexpr std::uint32_t largest = Kind == Specials::ieee ? top_exponent - 1
                                             : Kind == Specials::fn ? magnitude_mask - 1
                                                                    : magnitude_mask;

    WAVEATTN_HOST_DEVICE static constexpr float to_float(std::uint32_t code) {
        const std::uint32_t sign = (code & sign_bit) ? 0x80000000u : 0u;
        const std::uint32_t magnitude = code & magnitude_mask;
        if constexpr (Kind == Specials::fnuz)
            if (code == nan) return std::bit_cast<float>(0x7fc00000u);
        if constexpr (Kind == Specials::fn)
            if (magnitude == nan) return std::bit_cast<float>(sign | 0x7fc00000u);
        if constexpr (Kind == Specials::ieee)
            if (magnitude >= top_exponent)
                return std::bit_cast<float>(sign | 0x7f800000u | (magnitude - top_exponent) << (23 - MantissaBits));
        const int exponent = int(magnitude >> MantissaBits);
        const std::uint32_t mantissa = magnitude & ((1u << MantissaBits) - 1);
        if (exponent != 0)
            return std::bit_cast<float>(
                sign | std::uint32_t(exponent - Bias + 127) << 23 | mantissa << (23 - MantissaBits));
        // A denormal is an integer multiple of the smallest one, whose value is a power of two in fp32's normal range.
        const float unit = std::bit_cast<float>(std::uint32_t(1 - Bias - MantissaBits + 127) << 23);
        const float value = float(mantissa) * unit;
        return sign ? -value : value;
    }

    WAVEATTN_HOST_DEVICE static constexpr std::uint32_t from_float(float value) {
        const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t sign = (word >> 31) ? sign_bit : 0u;
        const std::uint32_t magnitude = word & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return Kind == Specials::fnuz ? nan : sign | nan;
        const int exponent = int(magnitude >> 23) - 127; // of the value 1.m * 2^exponent
        // Bits of the 24-bit significand below the target's last place; more of them where the result is denormal.
        int drop = 23 - MantissaBits;
        if (exponent < 1 - Bias) drop += 1 - Bias - exponent;
        std::uint32_t code = 0;
        if (drop <= 24) {
            const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
            const std::uint32_t kept = significand >> drop, rest = significand & ((1u << drop) - 1),
                                half = 1u << (drop - 1);
            const std::uint32_t rounded = kept + ((rest > half || (rest == half && (kept & 1))) ? 1u : 0u);
            // Adding the significand (with its leading one) to the exponent field carries over to the next binade.
            const std::uint32_t field = exponent < 1 - Bias ? 0u : std::uint32_t(exponent + Bias - 1);
            code = (field << MantissaBits) + rounded;
        }
        if (code > largest || magnitude == 0x7f800000u) code = Kind == Specials::ieee ? top_exponent : largest;
        if (Kind == Specials::fnuz && code == 0) return 0;
        return sign | code;
    }
};
using HalfFormat = BinaryFormat<5, 10, 15, Specials::ieee>;
using E4m3FnFormat = BinaryFormat<4, 3, 7, Specials::fn>;
using E4m3FnuzFormat = BinaryFormat<4, 3, 8, Specials::fnuz>;

} // namespace detail

WAVEATTN_HOST_DEVICE constexpr float to_float(float value) { return value; }
WAVEATTN_HOST_DEVICE constexpr float to_float(bfloat16 value) {
    return std::bit_cast<float>(std::uint32_t(value.bits) << 16);
}
WAVEATTN_HOST_DEVICE constexpr float to_float(float16 value) { return detail::HalfFormat::to_float(value.bits); }
WAVEATTN_HOST_DEVICE constexpr float to_float(float8_e4m3fn value) {
    return detail::E4m3FnFormat::to_float(value.bits);
}
WAVEATTN_HOST_DEVICE constexpr float to_float(float8_e4m3fnuz value) {
    return detail::E4m3FnuzFormat::to_float(value.bits);
}
WAVEATTN_HOST_DEVICE constexpr float to_float(std::int8_t value) { return float(value); }

template <class T> WAVEATTN_HOST_DEVICE constexpr T from_float(float value);
template <> WAVEATTN_HOST_DEVICE constexpr float from_float<float>(float value) { return value; }
template <> WAVEATTN_HOST_DEVICE constexpr bfloat16 from_float<bfloat16>(float value) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) return {std::uint16_t(word >> 16 | 0x40u)};
    return {std::uint16_t((word + 0x7fffu + (word >> 16 & 1u)) >> 16)};
}
template <> WAVEATTN_HOST_DEVICE constexpr float16 from_float<float16>(float value) {
    return {std::uint16_t(detail::HalfFormat::from_float(value))};
}
template <> WAVEATTN_HOST_DEVICE constexpr float8_e4m3fn from_float<float8_e4m3fn>(float value) {
    return {std::uint8_t(detail::E4m3FnFormat::from_float(value))};
}
template <> WAVEATTN_HOST_DEVICE constexpr float8_e4m3fnuz from_float<float8_e4m3fnuz>(float value) {
    return {std::uint8_t(detail::E4m3FnuzFormat::from_float(value))};
}

// Name and largest finite value of a format.
template <class T> struct NumericTraits;
template <> struct NumericTraits<float> {
    static constexpr const char* name = "float32";
    static constexpr float largest = std::numeric_limits<float>::max();
};
template <> struct NumericTraits<bfloat16> {
    static constexpr const char* name = "bfloat16";
    static constexpr float largest = std::bit_cast<float>(0x7f7f0000u);
};
template <> struct NumericTraits<float16> {
    static constexpr const char* name = "float16";
    static constexpr float largest = 65504.0f;
};
template <> struct NumericTraits<float8_e4m3fn> {
    static constexpr const char* name = "float8_e4m3fn";
    static constexpr float largest = 448.0f;
};
template <> struct NumericTraits<float8_e4m3fnuz> {
    static constexpr const char* name = "float8_e4m3fnuz";
    static constexpr float largest = 240.0f;
};
template <> struct NumericTraits<std::int8_t> {
    static constexpr const char* name = "int8";
    static constexpr float largest = 127.0f;
};

} // namespace waveattn
