// WMMA (gfx12, wave32) and MFMA (gfx942, gfx950) as functions over register files. Layouts: docs/matrix_layouts.md.
#include "matrix/matrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_map>
#if defined(__FMA__) && defined(__AVX2__)
#    include <immintrin.h>
#endif

namespace gfxemu {

// ---------------------------------------------------------------------------------------------------------------------
// Scalar conversions
// ---------------------------------------------------------------------------------------------------------------------
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

namespace {
const float* fp8_table(Arch arch, bool e5m2) {
    static const auto table = [] {
        std::array<std::array<float, 256>, 4> t{};
        for (int f = 0; f < 4; ++f)
            for (int i = 0; i < 256; ++i) t[size_t(f)][size_t(i)] = fp8_decode(f & 2, uint8_t(i), f & 1);
        return t;
    }();
    return table[(fnuz(arch) ? 2u : 0u) + (e5m2 ? 1u : 0u)].data();
}
} // namespace

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

// ---------------------------------------------------------------------------------------------------------------------
// Instruction table
// ---------------------------------------------------------------------------------------------------------------------
namespace {

enum class T : uint8_t { f32, xf32, f64, f16, bf16, i8, iu8, iu4, fp8, bf8, any8, fp6, bf6, fp4, i32 };

int bits_per(T t) {
    switch (t) {
    case T::f64: return 64;
    case T::f32:
    case T::xf32:
    case T::i32: return 32;
    case T::f16:
    case T::bf16: return 16;
    case T::fp6:
    case T::bf6: return 6;
    case T::iu4:
    case T::fp4: return 4;
    default: return 8;
    }
}

enum : uint8_t { k1200 = 1, k942 = 2, k950 = 4, kCdna = 6 };
enum : uint8_t { mCbsz = 1, mBlgp = 2, mNeg64 = 4, mFormat = 8, mScale = 16, mNegAB = 32, mNegC = 64, mInt = 128 };

struct Desc {
    const char* name;
    uint8_t arches;
    int m, n, k, blocks;
    T a, b, cd;
    uint8_t mods;
};

constexpr Desc kTable[] = {
    {"v_wmma_f32_16x16x16_f16", k1200, 16, 16, 16, 1, T::f16, T::f16, T::f32, mNegAB | mNegC},
    {"v_wmma_f32_16x16x16_bf16", k1200, 16, 16, 16, 1, T::bf16, T::bf16, T::f32, mNegAB | mNegC},
    {"v_wmma_f16_16x16x16_f16", k1200, 16, 16, 16, 1, T::f16, T::f16, T::f16, mNegAB | mNegC},
    {"v_wmma_bf16_16x16x16_bf16", k1200, 16, 16, 16, 1, T::bf16, T::bf16, T::bf16, mNegAB | mNegC},
    {"v_wmma_f32_16x16x16_fp8_fp8", k1200, 16, 16, 16, 1, T::fp8, T::fp8, T::f32, mNegC},
    {"v_wmma_f32_16x16x16_fp8_bf8", k1200, 16, 16, 16, 1, T::fp8, T::bf8, T::f32, mNegC},
    {"v_wmma_f32_16x16x16_bf8_fp8", k1200, 16, 16, 16, 1, T::bf8, T::fp8, T::f32, mNegC},
    {"v_wmma_f32_16x16x16_bf8_bf8", k1200, 16, 16, 16, 1, T::bf8, T::bf8, T::f32, mNegC},
    {"v_wmma_i32_16x16x16_iu8", k1200, 16, 16, 16, 1, T::iu8, T::iu8, T::i32, mInt},
    {"v_wmma_i32_16x16x16_iu4", k1200, 16, 16, 16, 1, T::iu4, T::iu4, T::i32, mInt},
    {"v_wmma_i32_16x16x32_iu4", k1200, 16, 16, 32, 1, T::iu4, T::iu4, T::i32, mInt},

    {"v_mfma_f32_32x32x1_2b_f32", kCdna, 32, 32, 1, 2, T::f32, T::f32, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_16x16x1_4b_f32", kCdna, 16, 16, 1, 4, T::f32, T::f32, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_4x4x1_16b_f32", kCdna, 4, 4, 1, 16, T::f32, T::f32, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_32x32x2_f32", kCdna, 32, 32, 2, 1, T::f32, T::f32, T::f32, mBlgp},
    {"v_mfma_f32_16x16x4_f32", kCdna, 16, 16, 4, 1, T::f32, T::f32, T::f32, mBlgp},
    {"v_mfma_f32_16x16x8_xf32", k942, 16, 16, 8, 1, T::xf32, T::xf32, T::f32, 0},
    {"v_mfma_f32_32x32x4_xf32", k942, 32, 32, 4, 1, T::xf32, T::xf32, T::f32, 0},
    {"v_mfma_f32_32x32x4_2b_f16", kCdna, 32, 32, 4, 2, T::f16, T::f16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_16x16x4_4b_f16", kCdna, 16, 16, 4, 4, T::f16, T::f16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_4x4x4_16b_f16", kCdna, 4, 4, 4, 16, T::f16, T::f16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_32x32x8_f16", kCdna, 32, 32, 8, 1, T::f16, T::f16, T::f32, 0},
    {"v_mfma_f32_16x16x16_f16", kCdna, 16, 16, 16, 1, T::f16, T::f16, T::f32, 0},
    {"v_mfma_f32_32x32x4_2b_bf16", kCdna, 32, 32, 4, 2, T::bf16, T::bf16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_16x16x4_4b_bf16", kCdna, 16, 16, 4, 4, T::bf16, T::bf16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_4x4x4_16b_bf16", kCdna, 4, 4, 4, 16, T::bf16, T::bf16, T::f32, mCbsz | mBlgp},
    {"v_mfma_f32_32x32x8_bf16", kCdna, 32, 32, 8, 1, T::bf16, T::bf16, T::f32, 0},
    {"v_mfma_f32_16x16x16_bf16", kCdna, 16, 16, 16, 1, T::bf16, T::bf16, T::f32, 0},
    {"v_mfma_i32_32x32x4_2b_i8", kCdna, 32, 32, 4, 2, T::i8, T::i8, T::i32, mCbsz | mBlgp},
    {"v_mfma_i32_16x16x4_4b_i8", kCdna, 16, 16, 4, 4, T::i8, T::i8, T::i32, mCbsz | mBlgp},
    {"v_mfma_i32_4x4x4_16b_i8", kCdna, 4, 4, 4, 16, T::i8, T::i8, T::i32, mCbsz | mBlgp},
    {"v_mfma_i32_32x32x16_i8", kCdna, 32, 32, 16, 1, T::i8, T::i8, T::i32, 0},
    {"v_mfma_i32_16x16x32_i8", kCdna, 16, 16, 32, 1, T::i8, T::i8, T::i32, 0},
    {"v_mfma_f64_16x16x4_f64", kCdna, 16, 16, 4, 1, T::f64, T::f64, T::f64, mNeg64},
    {"v_mfma_f64_4x4x4_4b_f64", kCdna, 4, 4, 4, 4, T::f64, T::f64, T::f64, mNeg64},
    {"v_mfma_f32_16x16x32_fp8_fp8", kCdna, 16, 16, 32, 1, T::fp8, T::fp8, T::f32, 0},
    {"v_mfma_f32_16x16x32_fp8_bf8", kCdna, 16, 16, 32, 1, T::fp8, T::bf8, T::f32, 0},
    {"v_mfma_f32_16x16x32_bf8_fp8", kCdna, 16, 16, 32, 1, T::bf8, T::fp8, T::f32, 0},
    {"v_mfma_f32_16x16x32_bf8_bf8", kCdna, 16, 16, 32, 1, T::bf8, T::bf8, T::f32, 0},
    {"v_mfma_f32_32x32x16_fp8_fp8", kCdna, 32, 32, 16, 1, T::fp8, T::fp8, T::f32, 0},
    {"v_mfma_f32_32x32x16_fp8_bf8", kCdna, 32, 32, 16, 1, T::fp8, T::bf8, T::f32, 0},
    {"v_mfma_f32_32x32x16_bf8_fp8", kCdna, 32, 32, 16, 1, T::bf8, T::fp8, T::f32, 0},
    {"v_mfma_f32_32x32x16_bf8_bf8", kCdna, 32, 32, 16, 1, T::bf8, T::bf8, T::f32, 0},

    {"v_mfma_f32_16x16x32_f16", k950, 16, 16, 32, 1, T::f16, T::f16, T::f32, 0},
    {"v_mfma_f32_32x32x16_f16", k950, 32, 32, 16, 1, T::f16, T::f16, T::f32, 0},
    {"v_mfma_f32_16x16x32_bf16", k950, 16, 16, 32, 1, T::bf16, T::bf16, T::f32, 0},
    {"v_mfma_f32_32x32x16_bf16", k950, 32, 32, 16, 1, T::bf16, T::bf16, T::f32, 0},
    {"v_mfma_i32_16x16x64_i8", k950, 16, 16, 64, 1, T::i8, T::i8, T::i32, 0},
    {"v_mfma_i32_32x32x32_i8", k950, 32, 32, 32, 1, T::i8, T::i8, T::i32, 0},
    {"v_mfma_f32_16x16x128_f8f6f4", k950, 16, 16, 128, 1, T::any8, T::any8, T::f32, mFormat},
    {"v_mfma_f32_32x32x64_f8f6f4", k950, 32, 32, 64, 1, T::any8, T::any8, T::f32, mFormat},
    {"v_mfma_scale_f32_16x16x128_f8f6f4", k950, 16, 16, 128, 1, T::any8, T::any8, T::f32, mFormat | mScale},
    {"v_mfma_scale_f32_32x32x64_f8f6f4", k950, 32, 32, 64, 1, T::any8, T::any8, T::f32, mFormat | mScale},
};

// Input slot (lane, e), e counting elements upwards through the lane's registers -> (block, row or column, k).
struct Pos {
    int block, i, k;
};

Pos ab_pos(const Desc& d, T t, int lane, int e) {
    const int i = lane % d.m, group = lane / d.m; // m == n for every instruction of the table
    if (d.arches == k1200) {
        const int per = d.k / 2; // two lane halves
        // 16-bit inputs alternate halves every four k; narrower ones give each half a contiguous run.
        if (bits_per(t) == 16) return {0, i, 8 * (e / 4) + 4 * group + e % 4};
        return {0, i, per * group + e};
    }
    if (d.cd == T::f64) return d.m == 4 ? Pos{group % 4, i, group / 4} : Pos{0, i, group};
    if (d.blocks > 1) return {group, i, e};
    const int groups = 64 / d.m, per = d.k / groups;
    // An 8-bit operand of f8f6f4 fills two halves of four registers, each half covering half of K.
    if ((d.mods & mFormat) && bits_per(t) == 8) return {0, i, (d.k / 2) * (e / 16) + 16 * group + e % 16};
    return {0, i, per * group + e};
}

struct PosC {
    int block, i, j;
};

PosC cd_pos(const Desc& d, int lane, int e) {
    const int j = lane % d.n, group = lane / d.n;
    if (d.arches == k1200) return {0, 8 * group + e, j};
    if (d.cd == T::f64) return d.m == 4 ? PosC{group % 4, group / 4, j} : PosC{0, 4 * e + group, j};
    if (d.m == 4) return {group, e, j};
    const int groups = 64 / d.m, per_block = d.m / groups, r = e % per_block;
    return {e / per_block, 4 * groups * (r / 4) + 4 * group + r % 4, j};
}

// Row r of an operand array holds element (block, k) = (r / K, r % K) of all rows (A) or columns (B): [block][k][i].
// The lanes of a group (M consecutive lanes) hold consecutive i, so that one register element of a group is one stretch
// of one row.
struct Entry {
    const Desc* d = nullptr;
    int lanes = 64, groups = 0, a_elems = 0, c_elems = 0; // elements in a lane
    std::vector<uint16_t> ab_row[2];                      // [group][e]; [1]: an f8f6f4 operand narrower than 8 bits
    std::vector<uint16_t> cd_row;                         // [group][e] -> block * M + i
};

struct Registry {
    std::vector<Entry> entries;
    std::unordered_map<std::string, const Entry*> by_name[4];

    static int arch_bit(Arch a) {
        return a == Arch::gfx1200 ? k1200 : a == Arch::gfx942 ? k942 : a == Arch::gfx950 ? k950 : 0;
    }

    Registry() {
        entries.reserve(std::size(kTable));
        for (const Desc& d : kTable) {
            Entry e;
            e.d = &d;
            e.lanes = d.arches == k1200 ? 32 : 64;
            e.groups = e.lanes / d.m;
            e.a_elems = d.m * d.k * d.blocks / e.lanes;
            e.c_elems = d.m * d.n * d.blocks / e.lanes;
            for (int narrow = 0; narrow < (d.mods & mFormat ? 2 : 1); ++narrow)
                for (int g = 0; g < e.groups; ++g)
                    for (int x = 0; x < e.a_elems; ++x) {
                        const Pos p = ab_pos(d, narrow ? T::fp4 : d.a, g * d.m, x);
                        e.ab_row[narrow].push_back(uint16_t(p.block * d.k + p.k));
                    }
            for (int g = 0; g < e.groups; ++g)
                for (int x = 0; x < e.c_elems; ++x) {
                    const PosC p = cd_pos(d, g * d.m, x);
                    e.cd_row.push_back(uint16_t(p.block * d.m + p.i));
                }
            entries.push_back(std::move(e));
        }
        for (const Entry& e : entries)
            for (Arch a : {Arch::gfx1200, Arch::gfx942, Arch::gfx950})
                if (e.d->arches & arch_bit(a))
                    for (const std::string& n : spellings(*e.d)) by_name[int(a)].emplace(n, &e);
    }

    // The printed name, and the older spelling without block count and inner underscore ("32x32x8f16",
    // "32x32x8bf16_1k").
    static std::vector<std::string> spellings(const Desc& d) {
        std::vector<std::string> out{d.name};
        std::string s = d.name;
        for (const char* b : {"_2b_", "_4b_", "_16b_"})
            if (const size_t at = s.find(b); at != std::string::npos) s.erase(at, std::strlen(b) - 1);
        const bool mfma = s.compare(0, 7, "v_mfma_") == 0, one_k = mfma && d.a == T::bf16 && d.arches == kCdna;
        std::string joined = s;
        joined.erase(joined.find('_', joined.find('x')), 1);
        if (one_k) {
            s += "_1k";
            joined += "_1k";
        }
        out.push_back(s);
        if (mfma) out.push_back(joined);
        return out;
    }
};

const Registry& registry() {
    static const Registry r;
    return r;
}

const Entry* find(Arch arch, std::string_view name) {
    for (const char* suffix : {"_e32", "_e64"})
        if (name.size() > 4 && name.substr(name.size() - 4) == suffix) name.remove_suffix(4);
    const auto& map = registry().by_name[int(arch)];
    static thread_local std::string key;
    key.assign(name.data(), name.size());
    const auto it = map.find(key);
    return it == map.end() ? nullptr : it->second;
}

int regs_for(T t, int elems) { return (bits_per(t) * elems + 31) / 32; }

T format_of(uint32_t code) {
    static const T formats[] = {T::fp8, T::bf8, T::fp6, T::bf6, T::fp4};
    if (code > 4) throw std::invalid_argument("f8f6f4: format selector " + std::to_string(code) + " is not defined");
    return formats[code];
}

[[noreturn]] void unsupported(const Desc& d, const char* what) {
    throw std::invalid_argument(std::string(d.name) + ": " + what + " is not implemented");
}

// Source lane of B for a lane under the B-matrix lane group pattern.
inline int blgp_lane(uint32_t blgp, int lane) {
    switch (blgp) {
    case 0: return lane;
    case 1: return lane % 32;
    case 2: return 32 + lane % 32;
    case 3: return (lane + 16) % 64;
    default: return 16 * int(blgp - 4) + lane % 16;
    }
}

inline uint32_t canonical(float v) { return v != v ? 0x7fc00000u : bits_of(v); }

constexpr size_t kMaxAB = 32 * 64, kMaxCD = 32 * 32 * 2, kMaxRegs = 8;

struct Scratch {
    alignas(64) double da[kMaxAB], db[kMaxAB], dout[kMaxCD];
    alignas(64) float fa[kMaxAB], fb[kMaxAB], fout[kMaxCD];
    uint32_t b[kMaxRegs * 64];
};

Scratch& scratch() {
    static thread_local Scratch s;
    return s;
}

void check_mods(const Desc& d, const MatrixMods& m) {
    const bool wmma = d.arches == k1200;
    if (wmma) {
        if (m.cbsz || m.abid || m.blgp) unsupported(d, "cbsz/abid/blgp");
        if (m.op_sel) unsupported(d, "op_sel");
        if (d.mods & mInt) {
            if ((m.neg_lo & 4) || (m.neg_hi & 7)) unsupported(d, "neg of an integer accumulator");
        } else {
            if (m.clamp) unsupported(d, "clamp");
            if (!(d.mods & mNegAB) && ((m.neg_lo | m.neg_hi) & 3)) unsupported(d, "neg of an 8-bit operand");
        }
        return;
    }
    if (m.clamp) unsupported(d, "clamp");
    if (!(d.mods & mScale) && m.op_sel) unsupported(d, "op_sel");
    if (!(d.mods & mNeg64) && (m.neg_lo || m.neg_hi)) unsupported(d, "neg");
    if (d.mods & mFormat) {
        if (m.abid) unsupported(d, "abid");
        return;
    }
    if (!(d.mods & mCbsz) && (m.cbsz || m.abid)) unsupported(d, "cbsz/abid");
    if (!(d.mods & (mBlgp | mNeg64)) && m.blgp) unsupported(d, "blgp");
    if (m.blgp > 7) unsupported(d, "blgp");
    if (m.cbsz > 4 || (1 << m.cbsz) > d.blocks || m.abid >= (1u << m.cbsz)) unsupported(d, "cbsz/abid out of range");
}

// ---- operands into rows

template <class S, int Width, class F>
void fill(const Entry& e, const std::vector<uint16_t>& rows, const uint32_t* regs, S* dst, F&& value) {
    const int m = e.d->m;
    for (int g = 0; g < e.groups; ++g)
        for (int x = 0; x < e.a_elems; ++x) {
            const int bit = x * Width, off = bit & 31;
            const uint32_t* in = regs + (bit >> 5) * 64 + g * m;
            S* out = dst + rows[size_t(g * e.a_elems + x)] * m;
            if constexpr (Width == 32) {
                for (int t = 0; t < m; ++t) out[t] = value(in[t], x);
            } else {
                constexpr uint32_t mask = (1u << Width) - 1;
                if (off + Width > 32)
                    for (int t = 0; t < m; ++t) out[t] = value((in[t] >> off | in[t + 64] << (32 - off)) & mask, x);
                else
                    for (int t = 0; t < m; ++t) out[t] = value((in[t] >> off) & mask, x);
            }
        }
}

inline float f16_value(uint32_t h) { // branch-free f16_to_f32; NaN keeps being NaN
    const uint32_t mag = (h & 0x7fffu) << 13;
    const float v = float_of(mag) * 0x1p112f; // rebias, exact for subnormals too
    const uint32_t b = (h & 0x7c00u) == 0x7c00u ? mag | 0x7f800000u : bits_of(v);
    return float_of(b | (h & 0x8000u) << 16);
}

// Sign by parity of the element (WMMA neg_lo / neg_hi), then the value.
void load_narrow(const Entry& e, Arch arch, T t, const uint32_t* regs, double* dst, bool neg_even, bool neg_odd) {
    const std::vector<uint16_t>& rows = e.ab_row[(e.d->mods & mFormat) && bits_per(t) < 8];
    const uint32_t flip[2] = {neg_even ? 0x8000u : 0, neg_odd ? 0x8000u : 0};
    static const auto tables = [] {
        std::array<std::array<float, 64>, 3> v{};
        for (int i = 0; i < 64; ++i) {
            v[0][size_t(i)] = fp6_e2m3_to_f32(uint8_t(i));
            v[1][size_t(i)] = bf6_e3m2_to_f32(uint8_t(i));
            v[2][size_t(i)] = fp4_e2m1_to_f32(uint8_t(i & 15));
        }
        return v;
    }();
    switch (t) {
    case T::bf16:
        return fill<double, 16>(
            e, rows, regs, dst, [&](uint32_t w, int x) { return double(float_of((w ^ flip[x & 1]) << 16)); });
    case T::f16:
        return fill<double, 16>(
            e, rows, regs, dst, [&](uint32_t w, int x) { return double(f16_value(w ^ flip[x & 1])); });
    case T::fp8:
    case T::bf8: {
        const float* table = fp8_table(arch, t == T::bf8);
        return fill<double, 8>(e, rows, regs, dst, [=](uint32_t w, int) { return double(table[w]); });
    }
    case T::fp6: return fill<double, 6>(e, rows, regs, dst, [&](uint32_t w, int) { return double(tables[0][w]); });
    case T::bf6: return fill<double, 6>(e, rows, regs, dst, [&](uint32_t w, int) { return double(tables[1][w]); });
    default: return fill<double, 4>(e, rows, regs, dst, [&](uint32_t w, int) { return double(tables[2][w]); });
    }
}

void load_int(const Entry& e, T t, const uint32_t* regs, float* dst, bool is_signed) {
    if (t == T::iu4) {
        if (is_signed)
            return fill<float, 4>(e, e.ab_row[0], regs, dst, [](uint32_t w, int) { return float(int(w << 28) >> 28); });
        return fill<float, 4>(e, e.ab_row[0], regs, dst, [](uint32_t w, int) { return float(int(w)); });
    }
    if (is_signed)
        return fill<float, 8>(e, e.ab_row[0], regs, dst, [](uint32_t w, int) { return float(int(w << 24) >> 24); });
    fill<float, 8>(e, e.ab_row[0], regs, dst, [](uint32_t w, int) { return float(int(w)); });
}

// ---- out[i][j] += sum over k of a[k][i] * b[k][j], k ascending, each product fused into its sum

typedef double vd __attribute__((vector_size(32)));
typedef float vf __attribute__((vector_size(32)));

inline void fuse(vd& acc, const vd& a, const vd& b) {
#if defined(__FMA__) && defined(__AVX2__)
    acc = (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)acc);
#else
    acc = a * b + acc; // exact products: fused or not is the same
#endif
}
inline void fuse(vf& acc, const vf& a, const vf& b) {
#if defined(__FMA__) && defined(__AVX2__)
    acc = (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)acc);
#else
    for (int i = 0; i < 8; ++i) acc[i] = std::fma(a[i], b[i], acc[i]);
#endif
}

template <class S, class V> void product(const S* a, const S* b, S* out, int m, int n, int k) {
    constexpr int w = int(sizeof(V) / sizeof(S)), per = 16 / w; // 16 columns, two rows at a time
    if (n % 16) {                                               // the 4x4 shapes
        for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) {
                S acc = out[i * n + j];
                for (int x = 0; x < k; ++x) acc = std::fma(a[x * m + i], b[x * n + j], acc);
                out[i * n + j] = acc;
            }
        return;
    }
    for (int i = 0; i < m; i += 2)
        for (int j = 0; j < n; j += 16) {
            V acc[2][per];
            for (int r = 0; r < 2; ++r)
                for (int q = 0; q < per; ++q) std::memcpy(&acc[r][q], out + (i + r) * n + j + q * w, sizeof(V));
            for (int x = 0; x < k; ++x) {
                const S* pb = b + x * n + j;
                const S s0 = a[x * m + i], s1 = a[x * m + i + 1];
                const V a0 = s0 - V{}, a1 = s1 - V{};
                for (int q = 0; q < per; ++q) {
                    V bv;
                    std::memcpy(&bv, pb + q * w, sizeof(V));
                    fuse(acc[0][q], a0, bv);
                    fuse(acc[1][q], a1, bv);
                }
            }
            for (int r = 0; r < 2; ++r)
                for (int q = 0; q < per; ++q) std::memcpy(out + (i + r) * n + j + q * w, &acc[r][q], sizeof(V));
        }
}

template <class S, class V> void products(const Desc& d, const S* a, const S* b, S* out, uint32_t cbsz, uint32_t abid) {
    for (int blk = 0; blk < d.blocks; ++blk) {
        const int ablk = cbsz ? (blk >> cbsz << cbsz) + int(abid) : blk;
        product<S, V>(a + ablk * d.k * d.m, b + blk * d.k * d.n, out + blk * d.m * d.n, d.m, d.n, d.k);
    }
}

const uint32_t* permuted_b(const Entry& e, const uint32_t* b, uint32_t blgp) {
    if (!blgp) return b;
    uint32_t* out = scratch().b;
    const int regs = regs_for(e.d->b, e.a_elems);
    for (int r = 0; r < regs; ++r)
        for (int l = 0; l < 64; ++l) out[r * 64 + l] = b[r * 64 + blgp_lane(blgp, l)];
    return out;
}

// Calls f(register row offset, index of the first output) for every stretch of N lanes.
template <class F> void stretches(const Entry& e, F&& f) {
    for (int g = 0; g < e.groups; ++g)
        for (int x = 0; x < e.c_elems; ++x) f(x, g * e.d->n, e.cd_row[size_t(g * e.c_elems + x)] * e.d->n);
}

void exec_f64(const Entry& e, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* dst, uint32_t neg) {
    const Desc& d = *e.d;
    Scratch& s = scratch();
    auto get = [](const uint32_t* regs, int lane, int x, bool negate) {
        const uint64_t v = (regs[2 * x * 64 + lane] | uint64_t(regs[(2 * x + 1) * 64 + lane]) << 32) ^ uint64_t(negate)
                                                                                                           << 63;
        double r;
        std::memcpy(&r, &v, 8);
        return r;
    };
    for (int l = 0; l < 64; ++l) {
        const int at = e.ab_row[0][size_t(l / d.m)] * d.m + l % d.m;
        s.da[at] = get(a, l, 0, neg & 1);
        s.db[at] = get(b, l, 0, neg & 2);
    }
    stretches(e, [&](int x, int lane, int at) {
        for (int t = 0; t < d.n; ++t) s.dout[at + t] = get(c, lane + t, x, neg & 4);
    });
    for (int at = 0; at < d.blocks * d.m * d.n; ++at) {
        const int blk = at / (d.m * d.n), i = at / d.n % d.m, j = at % d.n;
        double acc = s.dout[at];
        for (int k = 0; k < d.k; ++k)
            acc = std::fma(s.da[(blk * d.k + k) * d.m + i], s.db[(blk * d.k + k) * d.n + j], acc);
        s.dout[at] = acc;
    }
    stretches(e, [&](int x, int lane, int at) {
        for (int t = 0; t < d.n; ++t) {
            uint64_t v;
            std::memcpy(&v, &s.dout[at + t], 8);
            dst[2 * x * 64 + lane + t] = uint32_t(v);
            dst[(2 * x + 1) * 64 + lane + t] = uint32_t(v >> 32);
        }
    });
}

// 8- and 4-bit integers: the dot over k stays below 2^24 in magnitude (64 * 128 * 128, 16 * 255 * 255), so f32 sums are
// exact.
void exec_int(
    const Entry& e, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* dst, const MatrixMods& m) {
    const Desc& d = *e.d;
    Scratch& s = scratch();
    const bool wmma = d.mods & mInt;
    load_int(e, d.a, a, s.fa, !wmma || (m.neg_lo & 1));
    load_int(e, d.b, permuted_b(e, b, wmma ? 0 : m.blgp), s.fb, !wmma || (m.neg_lo & 2));
    std::fill_n(s.fout, d.blocks * d.m * d.n, 0.f);
    products<float, vf>(d, s.fa, s.fb, s.fout, m.cbsz, m.abid);
    stretches(e, [&](int x, int lane, int at) {
        const uint32_t* in = c + x * 64 + lane;
        uint32_t* out = dst + x * 64 + lane;
        if (m.clamp)
            for (int t = 0; t < d.n; ++t)
                out[t] = uint32_t(
                    int32_t(std::clamp<int64_t>(int64_t(s.fout[at + t]) + int32_t(in[t]), INT32_MIN, INT32_MAX)));
        else
            for (int t = 0; t < d.n; ++t) out[t] = uint32_t(int32_t(s.fout[at + t])) + in[t];
    });
}

// f32 / xf32 inputs: one fused multiply-add per k onto the accumulator, in ascending k.
void exec_f32(
    const Entry& e, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* dst, const MatrixMods& m) {
    const Desc& d = *e.d;
    Scratch& s = scratch();
    const uint32_t mask = d.a == T::xf32 ? 0xffffe000u : 0xffffffffu; // 1-8-10: the low 13 mantissa bits are not read
    auto value = [=](uint32_t w, int) { return float_of(w & mask); };
    fill<float, 32>(e, e.ab_row[0], a, s.fa, value);
    fill<float, 32>(e, e.ab_row[0], permuted_b(e, b, m.blgp), s.fb, value);
    stretches(e, [&](int x, int lane, int at) {
        for (int t = 0; t < d.n; ++t) s.fout[at + t] = float_of(c[x * 64 + lane + t]);
    });
    products<float, vf>(d, s.fa, s.fb, s.fout, m.cbsz, m.abid);
    stretches(e, [&](int x, int lane, int at) {
        for (int t = 0; t < d.n; ++t) dst[x * 64 + lane + t] = canonical(s.fout[at + t]);
    });
}

// Narrow float inputs: exact products, dot over k and the accumulator in double, one rounding to the output type.
void exec_narrow(const Entry& e, Arch arch, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* dst,
    const MatrixMods& m) {
    const Desc& d = *e.d;
    Scratch& s = scratch();
    const bool formats = d.mods & mFormat, scaled = d.mods & mScale, neg_ab = d.mods & mNegAB, neg_c = d.mods & mNegC;
    const T ta = formats ? format_of(m.cbsz) : d.a, tb = formats ? format_of(m.blgp) : d.b;
    load_narrow(e, arch, ta, a, s.da, neg_ab && (m.neg_lo & 1), neg_ab && (m.neg_hi & 1));
    load_narrow(
        e, arch, tb, permuted_b(e, b, formats ? 0 : m.blgp), s.db, neg_ab && (m.neg_lo & 2), neg_ab && (m.neg_hi & 2));
    if (scaled) { // lane row + M * block: the scale of 32 consecutive k
        if (!m.scale_a || !m.scale_b) unsupported(d, "a missing scale operand");
        const uint32_t byte_a = (m.op_sel & 1) | (m.op_sel_hi & 1) << 1,
                       byte_b = ((m.op_sel >> 1) & 1) | ((m.op_sel_hi >> 1) & 1) << 1;
        for (int l = 0; l < 64; ++l) {
            const int row = l % d.m, k0 = l / d.m * 32;
            const double fa = e8m0_to_f32(uint8_t(m.scale_a[l] >> (8 * byte_a))),
                         fb = e8m0_to_f32(uint8_t(m.scale_b[l] >> (8 * byte_b)));
            if (fa != 1)
                for (int k = k0; k < k0 + 32; ++k) s.da[k * d.m + row] *= fa;
            if (fb != 1)
                for (int k = k0; k < k0 + 32; ++k) s.db[k * d.n + row] *= fb;
        }
    }
    std::fill_n(s.dout, d.blocks * d.m * d.n, 0.0);
    products<double, vd>(d, s.da, s.db, s.dout, formats ? 0 : m.cbsz, formats ? 0 : m.abid);
    const uint32_t clear = neg_c && (m.neg_hi & 4) ? 0x7fffffffu : 0xffffffffu,
                   flip = neg_c && (m.neg_lo & 4) ? 0x80000000u : 0;
    auto accumulator = [=](uint32_t bits) { return float_of((bits & clear) ^ flip); };
    if (d.cd == T::f32) {
        stretches(e, [&](int x, int lane, int at) {
            const uint32_t* in = c + x * 64 + lane;
            uint32_t* out = dst + x * 64 + lane;
            for (int t = 0; t < d.n; ++t) out[t] = canonical(float(s.dout[at + t] + accumulator(in[t])));
        });
        return;
    }
    stretches(e, [&](int x, int lane, int at) { // 16-bit accumulator, two to a register, even element first
        for (int t = 0; t < d.n; ++t) {
            const int r = (x / 2) * 64 + lane + t, shift = 16 * (x & 1);
            const uint16_t bits = uint16_t(c[r] >> shift);
            const float cv = accumulator(bits_of(d.cd == T::f16 ? f16_to_f32(bits) : bf16_to_f32(bits)));
            const float v = float_of(canonical(float(s.dout[at + t] + cv)));
            const uint32_t code = d.cd == T::f16 ? f32_to_f16_rne(v) : f32_to_bf16_rne(v);
            s.dout[at + t] = code;
        }
    });
    stretches(e, [&](int x, int lane, int at) {
        for (int t = 0; t < d.n; ++t) {
            uint32_t& w = dst[(x / 2) * 64 + lane + t];
            const uint32_t code = uint32_t(s.dout[at + t]);
            w = x & 1 ? (w & 0xffffu) | code << 16 : code; // x ascends: the even element first
        }
    });
}

} // namespace

bool matrix_lookup(Arch arch, std::string_view mnemonic, MatrixShape* shape) {
    const Entry* e = find(arch, mnemonic);
    if (!e) return false;
    if (shape) {
        const Desc& d = *e->d;
        const int ab = regs_for(d.a, e->a_elems), cd = regs_for(d.cd, e->c_elems);
        *shape = {d.m, d.n, d.k, d.blocks, ab, ab, cd, cd,
            2ull * uint64_t(d.m) * uint64_t(d.n) * uint64_t(d.k) * uint64_t(d.blocks)};
    }
    return true;
}

void matrix_exec(Arch arch, std::string_view mnemonic, const uint32_t* a, const uint32_t* b, const uint32_t* c,
    uint32_t* d, const MatrixMods& mods) {
    const Entry* e = find(arch, mnemonic);
    if (!e)
        throw std::invalid_argument(
            "matrix_exec: unknown instruction " + std::string(mnemonic) + " on this architecture");
    check_mods(*e->d, mods);
    const int rows = regs_for(e->d->cd, e->c_elems);
    if (c != d && c < d + rows * 64 && d < c + rows * 64) { // D over a part of C: the sources are read first
        alignas(64) static thread_local uint32_t copy[64 * 64];
        std::memcpy(copy, c, size_t(rows) * 256);
        c = copy;
    }
    switch (e->d->cd) {
    case T::f64: return exec_f64(*e, a, b, c, d, mods.blgp | mods.neg_lo);
    case T::i32: return exec_int(*e, a, b, c, d, mods);
    default:
        if (e->d->a == T::f32 || e->d->a == T::xf32) return exec_f32(*e, a, b, c, d, mods);
        return exec_narrow(*e, arch, a, b, c, d, mods);
    }
}

} // namespace gfxemu
