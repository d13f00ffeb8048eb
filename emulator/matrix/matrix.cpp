// WMMA (gfx12, wave32) and MFMA (gfx942, gfx950) as functions over register files. Layouts: docs/matrix_layouts.md.
#include "matrix/instructions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <immintrin.h>
#include <limits>

namespace gfxemu {
namespace {

using namespace matrix;

inline uint32_t bits_of(float v) { return std::bit_cast<uint32_t>(v); }
inline float float_of(uint32_t b) { return std::bit_cast<float>(b); }

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
    acc = (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)acc);
}
inline void fuse(vf& acc, const vf& a, const vf& b) {
    acc = (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)acc);
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
