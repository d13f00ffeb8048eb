// Scalar conversions between the formats that matrix instructions take.
#include "matrix/matrix.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace gfxemu {
namespace {

uint32_t bits_of(float v) {
    uint32_t b;
    std::memcpy(&b, &v, 4);
    return b;
}
float float_of(uint32_t b) {
    float v;
    std::memcpy(&v, &b, 4);
    return v;
}

// A small binary float: sign, `eb` exponent bits, `mb` mantissa bits, exponent bias `bias`.
struct Small {
    int eb, mb, bias;
};

double small_finite(uint32_t bits, Small f) { // finite interpretation only; NaN / infinity are the caller's
    const uint32_t man = bits & ((1u << f.mb) - 1), exp = (bits >> f.mb) & ((1u << f.eb) - 1);
    const bool neg = (bits >> (f.eb + f.mb)) & 1;
    const double mag = exp ? std::ldexp(double(man | (1u << f.mb)), int(exp) - f.bias - f.mb)
                           : std::ldexp(double(man), 1 - f.bias - f.mb);
    return neg ? -mag : mag;
}

// Rounds a finite |value| to the format's grid, ignoring the upper range: returns exponent:mantissa as an integer,
// which may exceed the format's largest code (the caller tests for overflow). `truncate`: toward zero instead of
// nearest even.
uint64_t small_encode(float value, Small f, bool truncate) {
    const uint32_t b = bits_of(value) & 0x7fffffffu;
    if (b == 0) return 0;
    int e;
    uint64_t man; // value = man * 2^(e - 23), man < 2^24
    if (b >> 23) {
        e = int(b >> 23) - 127;
        man = (b & 0x7fffffu) | 0x800000u;
    } else {
        e = -126;
        man = b;
    }
    // Quantum of the destination: 2^(max(e, 1 - bias) - mb), with e taken of the normalised value.
    while (man < 0x800000u) {
        man <<= 1;
        --e;
    }
    const int emin = 1 - f.bias, q = std::max(e, emin) - f.mb;
    const int shift = q - (e - 23); // man * 2^(e-23) = (man >> shift) * 2^q
    uint64_t kept;
    if (shift >= 63)
        kept = 0;
    else if (shift <= 0)
        kept = man << -shift;
    else {
        kept = man >> shift;
        if (!truncate) {
            const uint64_t rest = man & ((uint64_t(1) << shift) - 1), half = uint64_t(1) << (shift - 1);
            if (rest > half || (rest == half && (kept & 1))) ++kept;
        }
    }
    // kept counts quanta; a subnormal has exponent field 0, a normal's hidden bit raises the field by one.
    const int field = std::max(e, emin) + f.bias - 1; // exponent field minus the hidden bit's carry
    return (uint64_t(field) << f.mb) + kept;
}

constexpr Small kF16{5, 10, 15}, kE4M3{4, 3, 7}, kE5M2{5, 2, 15}, kE4M3Fnuz{4, 3, 8}, kE5M2Fnuz{5, 2, 16};
constexpr Small kE2M1{2, 1, 1}, kE2M3{2, 3, 1}, kE3M2{3, 2, 3};

bool fnuz(Arch arch) { return arch == Arch::gfx942; }

uint16_t f16_encode(float value, bool truncate) {
    const uint32_t b = bits_of(value);
    const uint16_t sign = uint16_t((b >> 16) & 0x8000u);
    if ((b & 0x7fffffffu) > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((b >> 13) & 0x1ffu)); // quiet NaN
    if ((b & 0x7fffffffu) == 0x7f800000u) return uint16_t(sign | 0x7c00u);
    const uint64_t code = small_encode(value, kF16, truncate);
    if (code >= 0x7c00u) return uint16_t(sign | (truncate ? 0x7bffu : 0x7c00u));
    return uint16_t(sign | code);
}

float fp8_decode(bool is_fnuz, uint8_t bits, bool e5m2) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    if (is_fnuz) {
        if (bits == 0x80) return nan;
        return float(small_finite(bits, e5m2 ? kE5M2Fnuz : kE4M3Fnuz));
    }
    if (e5m2) {
        if ((bits & 0x7f) > 0x7c) return nan;
        if ((bits & 0x7f) == 0x7c) return bits & 0x80 ? -inf : inf;
        return float(small_finite(bits, kE5M2));
    }
    if ((bits & 0x7f) == 0x7f) return nan;
    return float(small_finite(bits, kE4M3));
}

} // namespace

float bf16_to_f32(uint16_t bits) { return float_of(uint32_t(bits) << 16); }

uint16_t f32_to_bf16_rne(float value) {
    const uint32_t b = bits_of(value);
    if ((b & 0x7fffffffu) > 0x7f800000u) return uint16_t((b >> 16) | 0x40u); // quiet NaN
    return uint16_t((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16, exp = (bits >> 10) & 31u, man = bits & 0x3ffu;
    if (exp == 31) return float_of(sign | 0x7f800000u | (man << 13));
    if (exp) return float_of(sign | ((exp + 112u) << 23) | (man << 13));
    const float mag = float(man) * 0x1p-24f;
    return float_of(sign | bits_of(mag));
}

uint16_t f32_to_f16_rne(float value) { return f16_encode(value, false); }
uint16_t f32_to_f16_rtz(float value) { return f16_encode(value, true); }

const float* fp8_table(Arch arch, bool e5m2) {
    static const auto table = [] {
        std::array<std::array<float, 256>, 4> t{};
        for (int f = 0; f < 4; ++f)
            for (int i = 0; i < 256; ++i) t[size_t(f)][size_t(i)] = fp8_decode(f & 2, uint8_t(i), f & 1);
        return t;
    }();
    return table[(fnuz(arch) ? 2u : 0u) + (e5m2 ? 1u : 0u)].data();
}

float fp8_to_f32(Arch arch, uint8_t bits, bool e5m2) { return fp8_table(arch, e5m2)[bits]; }

uint8_t f32_to_fp8(Arch arch, float value, bool e5m2, bool saturate) {
    const bool nuz = fnuz(arch);
    const uint32_t b = bits_of(value), mag = b & 0x7fffffffu;
    const uint8_t sign = uint8_t((b >> 24) & 0x80u);
    const uint8_t nan = nuz ? 0x80 : uint8_t(sign | 0x7f);
    const uint8_t max = nuz ? 0x7f : e5m2 ? 0x7b : 0x7e; // largest finite code
    if (mag > 0x7f800000u) return nan;
    const uint8_t over = saturate ? uint8_t(sign | max) : nuz ? uint8_t(0x80) : e5m2 ? uint8_t(sign | 0x7c) : nan;
    if (mag == 0x7f800000u) return over;
    const uint64_t code = small_encode(value, nuz ? (e5m2 ? kE5M2Fnuz : kE4M3Fnuz) : (e5m2 ? kE5M2 : kE4M3), false);
    if (code > max) return over;
    if (code == 0) return nuz ? 0 : sign; // FNUZ has no negative zero
    return uint8_t(sign | code);
}

float fp4_e2m1_to_f32(uint8_t nibble) { return float(small_finite(nibble & 15u, kE2M1)); }
float fp6_e2m3_to_f32(uint8_t bits) { return float(small_finite(bits & 63u, kE2M3)); }
float bf6_e3m2_to_f32(uint8_t bits) { return float(small_finite(bits & 63u, kE3M2)); }

float e8m0_to_f32(uint8_t bits) {
    if (bits == 255) return std::numeric_limits<float>::quiet_NaN();
    return bits ? float_of(uint32_t(bits) << 23) : 0x1p-127f;
}

} // namespace gfxemu
