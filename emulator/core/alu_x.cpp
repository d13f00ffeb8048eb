// Packed math, dot products, cross-lane moves, 8/6/4-bit float conversions, register indexing.
#include "core/alu.h"

namespace gfxemu {
namespace {
// ---------------------------------------------------------------- packed
// Words of a packed source; an inline float constant sits in the low half only.
inline const u32* pk_src(Wave& w, const Inst& i, int k, u32* t, u64& m, bool bf = false) {
    const Opnd& o = i.op[k];
    return raw32<false>(w, i, o, t, m, o.inline_float ? (bf ? o.immbf : o.imm16) : o.imm32);
}
struct Half {
    int lo, hi;
    u32 nlo, nhi;
};
inline Half pk_sel(const Inst& i, int s) { // source number s: shifts and sign flips
    u8 hi = i.has_op_sel_hi ? i.op_sel_hi : 7;
    return {i.op_sel >> s & 1 ? 16 : 0, hi >> s & 1 ? 16 : 0, i.neg_lo >> s & 1 ? 0x8000u : 0,
        i.neg_hi >> s & 1 ? 0x8000u : 0};
}
template <int N, bool ACC, bool BF, auto F> void pk_f(Wave& w, const Inst& i) { // F on floats
    alignas(64) u32 t[3][64];
    alignas(64) u32 r[64];
    u64 m = w.exec();
    const u32* p[3] = {};
    Half h[3];
    for (int k = 0; k < N; k++) {
        bool acc = ACC && k == N - 1;
        p[k] = pk_src(w, i, acc ? 0 : 1 + k, t[k], m, BF);
        h[k] = acc ? Half{0, 16, 0, 0} : pk_sel(i, k);
    }
    auto cv = [](u32 x) {
        if constexpr (BF)
            return b2f((u16)x);
        else
            return h2f((u16)x);
    };
    auto un = [](float x) -> u32 {
        if constexpr (BF)
            return f2b(x);
        else
            return f2h(x);
    };
    bool cl = i.clamp;
    auto go = [&](int l, bool hi) -> u32 {
        float x[3] = {};
        for (int k = 0; k < N; k++) x[k] = cv((p[k][l] >> (hi ? h[k].hi : h[k].lo)) ^ (hi ? h[k].nhi : h[k].nlo));
        float y;
        if constexpr (N == 1)
            y = F(x[0]);
        else if constexpr (N == 2)
            y = F(x[0], x[1]);
        else
            y = F(x[0], x[1], x[2]);
        return un(cl ? fclamp(y) : y);
    };
    for (int l = 0; l < w.lanes; l++) r[l] = go(l, false) | go(l, true) << 16;
    store32(w, i, i.op[0], r, m);
}
// Vectorised f16 path for the common two- and three-operand forms.
template <int N, auto F> void pk_h(Wave& w, const Inst& i) {
    alignas(64) u32 t[3][64];
    alignas(64) u32 r[64];
    alignas(64) float x[3][2][64];
    u64 m = w.exec();
    for (int k = 0; k < N; k++) {
        const u32* p = pk_src(w, i, 1 + k, t[k], m);
        Half h = pk_sel(i, k);
        for (int l = 0; l < w.lanes; l += 8) {
            __m256i v = _mm256_loadu_si256((const __m256i*)(p + l));
            auto cv = [&](int sh, u32 ng) {
                __m256i y = _mm256_and_si256(
                    _mm256_xor_si256(_mm256_srl_epi32(v, _mm_cvtsi32_si128(sh)), _mm256_set1_epi32((int)ng)),
                    _mm256_set1_epi32(0xffff));
                return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1)));
            };
            _mm256_store_ps(&x[k][0][l], cv(h.lo, h.nlo));
            _mm256_store_ps(&x[k][1][l], cv(h.hi, h.nhi));
        }
    }
    alignas(64) float y[2][64];
    for (int q = 0; q < 2; q++) {
        if constexpr (N == 2)
            GFX_LANES(w, l, y[q][l] = F(x[0][q][l], x[1][q][l]));
        else
            GFX_LANES(w, l, y[q][l] = F(x[0][q][l], x[1][q][l], x[2][q][l]));
    }
    if (i.clamp)
        for (int q = 0; q < 2; q++) GFX_LANES(w, l, y[q][l] = fclamp(y[q][l]));
    for (int l = 0; l < w.lanes; l += 8) {
        __m256i a = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(_mm256_load_ps(&y[0][l]), _MM_FROUND_TO_NEAREST_INT)),
                b = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(_mm256_load_ps(&y[1][l]), _MM_FROUND_TO_NEAREST_INT));
        _mm256_store_si256((__m256i*)(r + l), _mm256_or_si256(a, _mm256_slli_epi32(b, 16)));
    }
    store32(w, i, i.op[0], r, m);
}
template <int N, bool SIGNED, auto F, auto SAT> void pk_i(Wave& w, const Inst& i) { // F on i32, SAT clamps
    alignas(64) u32 t[3][64];
    alignas(64) u32 r[64];
    u64 m = w.exec();
    const u32* p[3] = {};
    Half h[3];
    for (int k = 0; k < N; k++) {
        p[k] = pk_src(w, i, 1 + k, t[k], m);
        h[k] = pk_sel(i, k);
    }
    auto cv = [](u32 x) -> i32 { return SIGNED ? (i32)(i16)x : (i32)(x & 0xffff); };
    for (int l = 0; l < w.lanes; l++) {
        u32 o[2];
        for (int q = 0; q < 2; q++) {
            i32 x[3] = {};
            for (int k = 0; k < N; k++) x[k] = cv(p[k][l] >> (q ? h[k].hi : h[k].lo));
            i64 y;
            if constexpr (N == 2)
                y = F(x[0], x[1]);
            else
                y = F(x[0], x[1], x[2]);
            if (i.clamp) y = SAT(y);
            o[q] = (u32)y & 0xffff;
        }
        r[l] = o[0] | o[1] << 16;
    }
    store32(w, i, i.op[0], r, m);
}
i64 sat_i16(i64 v) { return v < -32768 ? -32768 : v > 32767 ? 32767 : v; }
i64 sat_u16(i64 v) { return v < 0 ? 0 : v > 65535 ? 65535 : v; }
// One half (`high`: the second result's) of source k of a packed single-precision instruction.
const float* packed_source(Wave& w, const Inst& i, int k, bool high, u32* tmp) {
    const Opnd& o = i.op[1 + k];
    int word = (high ? (i.has_op_sel_hi ? i.op_sel_hi : 7) : i.op_sel) >> k & 1;
    u32 sign = ((high ? i.neg_hi : i.neg_lo) >> k & 1) ? 0x80000000u : 0;
    if (o.kind == Opnd::V) {
        const u32* row = w.row(o.reg + word);
        if (!sign && !w.flush32) return (const float*)row;
        GFX_LANES(w, l, tmp[l] = row[l] ^ sign);
    } else {
        u32 v = (o.kind == Opnd::S ? w.s[o.reg + (o.n > 1 ? word : 0)] : rd32(w, o)) ^ sign;
        GFX_LANES(w, l, tmp[l] = v);
    }
    if (w.flush32) GFX_LANES(w, l, tmp[l] = fbits(flush(bitsf(tmp[l]))));
    return (const float*)tmp;
}
template <int N, auto F> void pk_f32(Wave& w, const Inst& i) {
    alignas(64) u32 tmp[3][64];
    alignas(64) float r[2][64];
    const u64 m = w.exec();
    for (int high = 0; high < 2; high++) { // both results before either is written
        const float* x[3];
        for (int k = 0; k < N; k++) x[k] = packed_source(w, i, k, high, tmp[k]);
        float* out = r[high];
        if constexpr (N == 2)
            GFX_LANES(w, l, out[l] = F(x[0][l], x[1][l]));
        else
            GFX_LANES(w, l, out[l] = F(x[0][l], x[1][l], x[2][l]));
        if (i.clamp) GFX_LANES(w, l, out[l] = fclamp(out[l]));
        if (w.flush32) GFX_LANES(w, l, out[l] = flush(out[l]));
    }
    for (int high = 0; high < 2; high++) blend32(w, w.row(i.op[0].reg + high), (u32*)r[high], m);
}
void pk_mov(Wave& w, const Inst& i) {
    alignas(64) u32 r[2][64];
    u64 m = w.exec();
    for (int q = 0; q < 2; q++) {
        const Opnd& o = i.op[1 + q];
        int s = i.op_sel >> q & 1;
        if (o.kind == Opnd::V)
            std::memcpy(r[q], w.row(o.reg + s), 256);
        else {
            u32 v = o.kind == Opnd::S ? w.s[o.reg + (o.n > 1 ? s : 0)] : rd32(w, o);
            GFX_LANES(w, l, r[q][l] = v);
        }
    }
    for (int q = 0; q < 2; q++) blend32(w, w.row(i.op[0].reg + q), r[q], m);
}
float hmin(float a, float b) { return a < b ? a : b < a ? b : a != a ? b : b != b ? a : std::signbit(a) ? a : b; }
float hmax(float a, float b) { return a > b ? a : b > a ? b : a != a ? b : b != b ? a : std::signbit(a) ? b : a; }
float nmin(float a, float b) { return a != a ? a : b != b ? b : hmin(a, b); }
float nmax(float a, float b) { return a != a ? a : b != b ? b : hmax(a, b); }

// ---------------------------------------------------------------- dot products
enum { D_F16, D_BF16, D_I16, D_U16, D_I8, D_U8, D_IU8, D_I4, D_U4, D_IU4, D_FF, D_FB, D_BF, D_BB };
template <int K, bool ACC> void dot(Wave& w, const Inst& i) {
    alignas(64) u32 ta[64], tb[64], tc[64], r[64];
    u64 m = w.exec();
    const Opnd& oa = i.op[1];
    const Opnd& ob = i.op[2];
    constexpr bool h = K == D_F16, b = K == D_BF16;
    auto im = [&](const Opnd& o) { return o.inline_float && (h || b) ? (h ? (u32)o.imm16 : (u32)o.immbf) : o.imm32; };
    const u32* A = raw32<true>(w, i, oa, ta, m, im(oa));
    const u32* B = raw32<false>(w, i, ob, tb, m, im(ob));
    const Opnd& oc = ACC ? i.op[0] : i.op[3];
    const u32* C = raw32<false>(w, i, oc, tc, m, oc.imm32);
    Half sa = pk_sel(i, 0), sb = pk_sel(i, 1);
    u32 nc = (i.neg_lo >> 2 & 1) || oc.neg ? 0x80000000u : 0;
    bool as = i.neg_lo & 1, bs = i.neg_lo >> 1 & 1;
    for (int l = 0; l < w.lanes; l++) {
        u32 x = A[l], y = B[l], c = C[l];
        if constexpr (K == D_F16 || K == D_BF16) {
            auto cv = [](u32 v) { return K == D_F16 ? h2f((u16)v) : b2f((u16)v); };
            float a0 = cv((x >> sa.lo) ^ sa.nlo), a1 = cv((x >> sa.hi) ^ sa.nhi), b0 = cv((y >> sb.lo) ^ sb.nlo),
                  b1 = cv((y >> sb.hi) ^ sb.nhi);
            double d = (double)a0 * b0 + (double)a1 * b1 + (double)bitsf(c ^ nc);
            float f = (float)d;
            if (i.clamp) f = fclamp(f);
            r[l] = fbits(f);
        } else if constexpr (K == D_I16 || K == D_U16) {
            auto cv = [](u32 v) -> i64 { return K == D_I16 ? (i64)(i16)v : (i64)(v & 0xffff); };
            i64 s =
                cv(x >> sa.lo) * cv(y >> sb.lo) + cv(x >> sa.hi) * cv(y >> sb.hi) + (K == D_I16 ? (i64)(i32)c : (i64)c);
            if (i.clamp) s = K == D_I16 ? std::clamp<i64>(s, INT32_MIN, INT32_MAX) : std::min<i64>(s, 0xffffffff);
            r[l] = (u32)s;
        } else if constexpr (K == D_I8 || K == D_U8 || K == D_IU8 || K == D_I4 || K == D_U4 || K == D_IU4) {
            constexpr int bits = K >= D_I4 ? 4 : 8;
            bool sga = K == D_I8 || K == D_I4 || ((K == D_IU8 || K == D_IU4) && as),
                 sgb = K == D_I8 || K == D_I4 || ((K == D_IU8 || K == D_IU4) && bs);
            bool uns = K == D_U8 || K == D_U4;
            i64 s = uns ? (i64)c : (i64)(i32)c;
            for (int k = 0; k < 32; k += bits) {
                u32 p = x >> k & ((1u << bits) - 1), q = y >> k & ((1u << bits) - 1);
                i32 pi = sga ? (i32)(p << (32 - bits)) >> (32 - bits) : (i32)p,
                    qi = sgb ? (i32)(q << (32 - bits)) >> (32 - bits) : (i32)q;
                s += (i64)pi * qi;
            }
            if (i.clamp) s = uns ? std::min<i64>(s, 0xffffffff) : std::clamp<i64>(s, INT32_MIN, INT32_MAX);
            r[l] = (u32)s;
        } else {
            double d = bitsf(c ^ nc);
            for (int k = 0; k < 32; k += 8)
                d += (double)fp8_to_f32(w.arch, (u8)(x >> k), K == D_BF || K == D_BB) *
                     fp8_to_f32(w.arch, (u8)(y >> k), K == D_FB || K == D_BB);
            r[l] = fbits((float)d);
        }
    }
    store32(w, i, i.op[0], r, m);
}
template <bool BF> void dot2_16(Wave& w, const Inst& i) { // 16-bit result
    alignas(64) u32 ta[64], tb[64], tc[64], r[64];
    u64 m = w.exec();
    const u32* A = pk_src(w, i, 1, ta, m, BF);
    const u32* B = pk_src(w, i, 2, tb, m, BF);
    const Opnd& oc = i.op[3];
    const u32* C = raw32<false>(w, i, oc, tc, m, BF ? oc.immbf : oc.imm16);
    int sc = oc.half == 2 || (i.op_sel >> 2 & 1) ? 16 : 0;
    auto cv = [](u32 v) { return BF ? b2f((u16)v) : h2f((u16)v); };
    for (int l = 0; l < w.lanes; l++) {
        double d = (double)cv(A[l]) * cv(B[l]) + (double)cv(A[l] >> 16) * cv(B[l] >> 16) + (double)cv(C[l] >> sc);
        r[l] = BF ? f2b((float)d) : f2h((float)d);
    }
    store16(w, i, i.op[0], r, m);
}

// ---------------------------------------------------------------- cross-lane
template <bool X, bool VAR> void permlane16(Wave& w, const Inst& i) {
    alignas(64) u32 in[64], r[64];
    u64 ex = w.exec(), m = ex;
    std::memcpy(in, w.row(i.op[1].reg), 256);
    bool fi = i.op_sel & 1, bc = i.op_sel >> 1 & 1;
    u64 sel = VAR ? 0 : rd32(w, i.op[2]) | (u64)rd32(w, i.op[3]) << 32;
    for (int l = 0; l < w.lanes; l++) {
        int row = l & ~15;
        if (X) row ^= 16;
        u32 q = VAR ? w.row(i.op[2].reg)[l] & 15 : (u32)(sel >> (4 * (l & 15))) & 15;
        int s = row + (int)q;
        if (fi || (ex >> s & 1))
            r[l] = in[s];
        else if (bc)
            r[l] = 0;
        else {
            r[l] = 0;
            m &= ~(1ull << l);
        }
    }
    blend32(w, w.row(i.op[0].reg), r, m);
}
void permlane64(Wave& w, const Inst& i) {
    if (w.lanes == 32) return;
    alignas(64) u32 r[64];
    const u32* in = w.row(i.op[1].reg);
    for (int l = 0; l < 64; l++) r[l] = in[l ^ 32];
    blend32(w, w.row(i.op[0].reg), r, w.exec());
}
template <int N> void permlane_swap(Wave& w, const Inst& i) {
    u32* d = w.row(i.op[0].reg);
    u32* s = w.row(i.op[1].reg);
    u64 ex = w.exec();
    for (int b = 0; b < 64; b += 2 * N)
        for (int l = 0; l < N; l++) {
            int lo = b + l, hi = lo + N;
            u32 x = s[lo], y = d[hi];
            if (ex >> lo & 1) s[lo] = y;
            if (ex >> hi & 1) d[hi] = x;
        }
}

// ---------------------------------------------------------------- 8-bit floats
inline bool ovfl(Wave& w) { return w.mode >> 23 & 1; }
template <bool BF8> void cvt_f32_fp8(Wave& w, const Inst& i) {
    alignas(64) u32 t[64];
    alignas(64) float r[64];
    u64 m = w.exec();
    const u32* a = raw32<true>(w, i, i.op[1], t, m, i.op[1].imm32);
    int sh = 8 * i.byte_sel;
    if (!i.sdwa && w.gfx12 && !i.byte_sel && i.op_sel) {
        int o = i.op_sel & 3;
        sh = o == 2 ? 8 : o == 1 ? 16 : o == 3 ? 24 : 0;
    }
    for (int l = 0; l < w.lanes; l++) r[l] = fp8_to_f32(w.arch, (u8)(a[l] >> sh), BF8);
    put<F32>(w, i, i.op[0], r, m);
}
template <bool BF8> void cvt_pk_f32_fp8(Wave& w, const Inst& i) {
    alignas(64) u32 t[64], r[2][64];
    u64 m = w.exec();
    const u32* a = raw32<true>(w, i, i.op[1], t, m, i.op[1].imm32);
    int sh = i.op[1].half == 2 || (i.op_sel & 1) ? 16 : 0;
    for (int l = 0; l < w.lanes; l++) {
        r[0][l] = fbits(fp8_to_f32(w.arch, (u8)(a[l] >> sh), BF8));
        r[1][l] = fbits(fp8_to_f32(w.arch, (u8)(a[l] >> (sh + 8)), BF8));
    }
    for (int q = 0; q < 2; q++) blend32(w, w.row(i.op[0].reg + q), r[q], m);
}
void merge(
    Wave& w, const Inst& i, const u32* v, int sh, u32 bits, u64 m) { // writes `bits` bits at `sh`, keeps the rest
    u32* d = w.row(i.op[0].reg);
    alignas(64) u32 r[64];
    u32 mk = (bits == 32 ? ~0u : (1u << bits) - 1) << sh;
    GFX_LANES(w, l, r[l] = (d[l] & ~mk) | (v[l] << sh & mk));
    blend32(w, d, r, m);
}
template <bool BF8> void cvt_pk_fp8_f32(Wave& w, const Inst& i) {
    alignas(64) float ta[64], tb[64];
    alignas(64) u32 r[64];
    u64 m = w.exec();
    const float* a = src<F32, true>(w, i, 1, ta, m);
    const float* b = src<F32, false>(w, i, 2, tb, m);
    bool s = ovfl(w);
    for (int l = 0; l < w.lanes; l++)
        r[l] = (u32)f32_to_fp8(w.arch, a[l], BF8, s) | (u32)f32_to_fp8(w.arch, b[l], BF8, s) << 8;
    merge(w, i, r, i.op[0].half == 2 || (i.op_sel >> 2 & 1) ? 16 : 0, 16, m);
}
template <bool BF8> void cvt_sr_fp8_f32(Wave& w, const Inst& i) {
    alignas(64) float ta[64];
    alignas(64) u32 tb[64], r[64];
    u64 m = w.exec();
    const float* a = src<F32, true>(w, i, 1, ta, m);
    const u32* b = src<U32, false>(w, i, 2, tb, m);
    bool s = ovfl(w);
    int sh = 8 * (i.byte_sel ? i.byte_sel : i.op_sel >> 2 & 3);
    for (int l = 0; l < w.lanes;
        l++) { // the random bits enter below the kept mantissa bits, then the value is truncated
        u32 u = fbits(a[l]);
        int keep = BF8 ? 2 : 3;
        u32 drop = 23u - (u32)keep;
        if ((u & 0x7f800000) != 0x7f800000) {
            u += b[l] >> (32 - drop);
            u &= ~((1u << drop) - 1);
        }
        r[l] = f32_to_fp8(w.arch, bitsf(u), BF8, s);
    }
    merge(w, i, r, sh, 8, m);
}
// gfx950 scaled conversions. The scale is the exponent field of an f32.
inline double scale_of(u32 s) { return std::ldexp(1.0, (int)(s >> 23 & 255) - 127); }
enum { E_FP8, E_BF8, E_FP4, E_FP6, E_BF6 };
enum { T_F32, T_F16, T_BF16 };
float small_to_f32(Wave& w, int e, u32 v) {
    switch (e) {
    case E_FP8: return fp8_to_f32(w.arch, (u8)v, false);
    case E_BF8: return fp8_to_f32(w.arch, (u8)v, true);
    case E_FP4: return fp4_e2m1_to_f32((u8)(v & 15));
    case E_FP6: return fp6_e2m3_to_f32((u8)(v & 63));
    default: return bf6_e3m2_to_f32((u8)(v & 63));
    }
}
u32 nearest_code(Wave& w, int e, float x) { // round to nearest even, saturating; for the 4- and 6-bit formats
    int mb = e == E_FP4 ? 1 : e == E_FP6 ? 3 : 2, n = e == E_FP4 ? 8 : 32;
    u32 s = std::signbit(x) ? (u32)n : 0;
    float a = std::fabs(x);
    u32 best = 0;
    (void)mb;
    if (a != a) return (u32)n - 1;
    double bd = 1e300;
    for (int k = 0; k < n; k++) {
        double d = std::fabs((double)small_to_f32(w, e, (u32)k) - a);
        if (d < bd || (d == bd && !(k & 1))) {
            bd = d;
            best = (u32)k;
        }
    }
    return best | s;
}
u32 f32_to_small(Wave& w, int e, float x) {
    if (e == E_FP8 || e == E_BF8) return f32_to_fp8(w.arch, x, e == E_BF8, true);
    return nearest_code(w, e, x);
}
template <int E, int T> void sc_unpack2(Wave& w, const Inst& i) { // pk_{f32,f16,bf16}_{fp8,bf8,fp4}
    alignas(64) u32 t[64], ts[64], r[2][64];
    u64 m = w.exec();
    const u32* a = raw32<true>(w, i, i.op[1], t, m, i.op[1].imm32);
    const u32* s = raw32<false>(w, i, i.op[2], ts, m, i.op[2].imm32);
    int sh = E == E_FP4 ? 8 * (i.op_sel & 3) : 16 * (i.op_sel & 1), b = E == E_FP4 ? 4 : 8;
    for (int l = 0; l < w.lanes; l++) {
        double k = scale_of(s[l]);
        float x = (float)(small_to_f32(w, E, a[l] >> sh & ((1u << b) - 1)) * k),
              y = (float)(small_to_f32(w, E, a[l] >> (sh + b) & ((1u << b) - 1)) * k);
        if (T == T_F32) {
            r[0][l] = fbits(x);
            r[1][l] = fbits(y);
        } else
            r[0][l] = T == T_F16 ? f2h(x) | (u32)f2h(y) << 16 : f2b(x) | (u32)f2b(y) << 16;
    }
    blend32(w, w.row(i.op[0].reg), r[0], m);
    if (T == T_F32) blend32(w, w.row(i.op[0].reg + 1), r[1], m);
}
template <int E, int T> void sc_unpack1(Wave& w, const Inst& i) {
    alignas(64) u32 t[64], ts[64], r[64];
    u64 m = w.exec();
    const u32* a = raw32<true>(w, i, i.op[1], t, m, i.op[1].imm32);
    const u32* s = raw32<false>(w, i, i.op[2], ts, m, i.op[2].imm32);
    int sh = 8 * (i.byte_sel ? i.byte_sel : i.op_sel & 3);
    for (int l = 0; l < w.lanes; l++) {
        float x = (float)(small_to_f32(w, E, a[l] >> sh & 255) * scale_of(s[l]));
        r[l] = T == T_F32 ? fbits(x) : f2h(x);
    }
    if (T == T_F32)
        blend32(w, w.row(i.op[0].reg), r, m);
    else
        merge(w, i, r, i.op_sel >> 3 & 1 ? 16 : 0, 16, m);
}
template <int E, int T> void sc_pack2(Wave& w, const Inst& i) { // pk_{fp8,bf8,fp4}_{f32,f16,bf16}
    alignas(64) u32 ta[64], tb[64], ts[64], r[64];
    u64 m = w.exec();
    const u32* a = raw32<true>(w, i, i.op[1], ta, m, i.op[1].imm32);
    const u32* b = a;
    int ks = 2;
    if (T == T_F32) {
        b = raw32<false>(w, i, i.op[2], tb, m, i.op[2].imm32);
        ks = 3;
    }
    const u32* s = raw32<false>(w, i, i.op[ks], ts, m, i.op[ks].imm32);
    u32 na = i.op[1].neg ? 0x80000000 : 0, nb = T == T_F32 && i.op[2].neg ? 0x80000000 : 0,
        ma = i.op[1].abs ? 0x7fffffff : ~0u, mb = T == T_F32 && i.op[2].abs ? 0x7fffffff : ~0u;
    for (int l = 0; l < w.lanes; l++) {
        double k = 1.0 / scale_of(s[l]);
        float x, y;
        if (T == T_F32) {
            x = bitsf((a[l] & ma) ^ na);
            y = bitsf((b[l] & mb) ^ nb);
        } else if (T == T_F16) {
            x = h2f((u16)a[l]);
            y = h2f((u16)(a[l] >> 16));
        } else {
            x = b2f((u16)a[l]);
            y = b2f((u16)(a[l] >> 16));
        }
        u32 p = f32_to_small(w, E, (float)(x * k)), q = f32_to_small(w, E, (float)(y * k));
        r[l] = p | q << (E == E_FP4 ? 4 : 8);
    }
    if (E == E_FP4)
        merge(w, i, r, 8 * (T == T_F32 ? i.op_sel >> 2 & 3 : i.op_sel >> 2 & 3), 8, m);
    else
        merge(w, i, r,
            (i.op[0].half == 2 || i.op_sel >> 3 & 1) || (T != T_F32 && i.op_sel >> 2 & 1) ||
                    (T == T_F32 && i.op_sel >> 3 & 1)
                ? 16
                : 0,
            16, m);
}
template <int E, int T> void sc_unpack32(Wave& w, const Inst& i) { // pk32_{f32,f16,bf16}_{fp6,bf6}
    alignas(64) u32 ts[64], o[32][64];
    u64 m = w.exec();
    const u32* s = raw32<false>(w, i, i.op[2], ts, m, i.op[2].imm32);
    int regs = T == T_F32 ? 32 : 16;
    std::memset(o, 0, sizeof o);
    for (int l = 0; l < w.lanes; l++)
        for (int e = 0; e < 32; e++) {
            int p = e * 6;
            u64 x = w.row(i.op[1].reg + p / 32)[l];
            if (p % 32 > 26) x |= (u64)w.row(i.op[1].reg + p / 32 + 1)[l] << 32;
            float f = (float)(small_to_f32(w, E, (u32)(x >> (p % 32)) & 63) * scale_of(s[l]));
            if (T == T_F32)
                o[e][l] = fbits(f);
            else
                o[e / 2][l] |= (T == T_F16 ? (u32)f2h(f) : (u32)f2b(f)) << (16 * (e & 1));
        }
    for (int r = 0; r < regs; r++) blend32(w, w.row(i.op[0].reg + r), o[r], m);
}

// ---------------------------------------------------------------- register indexing
void movrels(Wave& w, const Inst& i) {
    blend32(w, w.row(i.op[0].reg), w.row((int)((i.op[1].reg + w.s[S_M0]) & 255)), w.exec());
}
void movreld(Wave& w, const Inst& i) {
    u32* d = w.row((int)((i.op[0].reg + w.s[S_M0]) & 255));
    alignas(64) u32 t[64];
    u64 m = w.exec();
    blend32(w, d, raw32<false>(w, i, i.op[1], t, m, i.op[1].imm32), m);
}
void movrelsd(Wave& w, const Inst& i) {
    u32 k = w.s[S_M0];
    blend32(w, w.row((int)((i.op[0].reg + k) & 255)), w.row((int)((i.op[1].reg + k) & 255)), w.exec());
}
void mov64_dpp(Wave& w, const Inst& i) {
    alignas(64) u64 t[64];
    u64 m = w.exec();
    const u64* a = src<U64, true>(w, i, 1, t, m);
    store64(w, i, i.op[0], a, m);
}
} // namespace

void register_valu_x(OpTable& t) {
    auto V = [&](const std::string& n, Handler h, Cls c = Cls::valu) { t[n] = {h, c}; };
    V("v_pk_add_f16", &pk_h<2, [](float a, float b) { return a + b; }>);
    V("v_pk_mul_f16", &pk_h<2, [](float a, float b) { return a * b; }>);
    V("v_pk_min_f16", &pk_h<2, [](float a, float b) { return hmin(a, b); }>);
    V("v_pk_max_f16", &pk_h<2, [](float a, float b) { return hmax(a, b); }>);
    V("v_pk_minimum_f16", &pk_h<2, [](float a, float b) { return nmin(a, b); }>);
    V("v_pk_maximum_f16", &pk_h<2, [](float a, float b) { return nmax(a, b); }>);
    V("v_pk_fma_f16", &pk_h<3, [](float a, float b, float c) { return (float)((double)a * b + (double)c); }>);
    V("v_pk_fmac_f16",
        &pk_f<3, true, false, [](float a, float b, float c) { return (float)((double)a * b + (double)c); }>);
    V("v_pk_minimum3_f16", &pk_h<3, [](float a, float b, float c) { return nmin(nmin(a, b), c); }>);
    V("v_pk_maximum3_f16", &pk_h<3, [](float a, float b, float c) { return nmax(nmax(a, b), c); }>);
    V("v_pk_min3_num_f16", &pk_h<3, [](float a, float b, float c) { return hmin(hmin(a, b), c); }>);
    V("v_pk_max3_num_f16", &pk_h<3, [](float a, float b, float c) { return hmax(hmax(a, b), c); }>);
    V("v_pk_add_bf16", &pk_f<2, false, true, [](float a, float b) { return a + b; }>);
    V("v_pk_mul_bf16", &pk_f<2, false, true, [](float a, float b) { return a * b; }>);
    V("v_pk_fma_bf16", &pk_f<3, false, true, [](float a, float b, float c) { return std::fma(a, b, c); }>);
    V("v_pk_min_num_bf16", &pk_f<2, false, true, [](float a, float b) { return hmin(a, b); }>);
    V("v_pk_max_num_bf16", &pk_f<2, false, true, [](float a, float b) { return hmax(a, b); }>);
#define PKI(n, s, e)                                                                                                   \
    V(n, &pk_i<2, s, [](i32 a, i32 b) { return (i64)(e); }, [](i64 v) { return s ? sat_i16(v) : sat_u16(v); }>)
    PKI("v_pk_add_i16", true, (i64)a + b);
    PKI("v_pk_sub_i16", true, (i64)a - b);
    PKI("v_pk_add_u16", false, (i64)a + b);
    PKI("v_pk_sub_u16", false, (i64)a - b);
    PKI("v_pk_mul_lo_u16", false, (i64)a * b);
    PKI("v_pk_min_i16", true, std::min(a, b));
    PKI("v_pk_max_i16", true, std::max(a, b));
    PKI("v_pk_min_u16", false, std::min(a, b));
    PKI("v_pk_max_u16", false, std::max(a, b));
    PKI("v_pk_lshlrev_b16", false, ((u32)b << (a & 15)));
    PKI("v_pk_lshrrev_b16", false, (b >> (a & 15)));
    PKI("v_pk_ashrrev_i16", true, (b >> (a & 15)));
    V("v_pk_mad_i16",
        &pk_i<3, true, [](i32 a, i32 b, i32 c) { return (i64)a * b + c; }, [](i64 v) { return sat_i16(v); }>);
    V("v_pk_mad_u16",
        &pk_i<3, false, [](i32 a, i32 b, i32 c) { return (i64)a * b + c; }, [](i64 v) { return sat_u16(v); }>);
    V("v_pk_add_f32", &pk_f32<2, [](float a, float b) { return a + b; }>);
    V("v_pk_mul_f32", &pk_f32<2, [](float a, float b) { return a * b; }>);
    V("v_pk_fma_f32", &pk_f32<3, [](float a, float b, float c) { return std::fma(a, b, c); }>);
    V("v_pk_mov_b32", &pk_mov);
    V("v_dot2_f32_f16", &dot<D_F16, false>);
    V("v_dot2c_f32_f16", &dot<D_F16, true>);
    V("v_dot2_f32_bf16", &dot<D_BF16, false>);
    V("v_dot2c_f32_bf16", &dot<D_BF16, true>);
    V("v_dot2_i32_i16", &dot<D_I16, false>);
    V("v_dot2_u32_u16", &dot<D_U16, false>);
    V("v_dot2c_i32_i16", &dot<D_I16, true>);
    V("v_dot4_i32_i8", &dot<D_I8, false>);
    V("v_dot4_u32_u8", &dot<D_U8, false>);
    V("v_dot4_i32_iu8", &dot<D_IU8, false>);
    V("v_dot4c_i32_i8", &dot<D_I8, true>);
    V("v_dot8_i32_i4", &dot<D_I4, false>);
    V("v_dot8_u32_u4", &dot<D_U4, false>);
    V("v_dot8_i32_iu4", &dot<D_IU4, false>);
    V("v_dot8c_i32_i4", &dot<D_I4, true>);
    V("v_dot4_f32_fp8_fp8", &dot<D_FF, false>);
    V("v_dot4_f32_fp8_bf8", &dot<D_FB, false>);
    V("v_dot4_f32_bf8_fp8", &dot<D_BF, false>);
    V("v_dot4_f32_bf8_bf8", &dot<D_BB, false>);
    V("v_dot2_f16_f16", &dot2_16<false>);
    V("v_dot2_bf16_bf16", &dot2_16<true>);
    V("v_permlane16_b32", &permlane16<false, false>);
    V("v_permlanex16_b32", &permlane16<true, false>);
    V("v_permlane16_var_b32", &permlane16<false, true>);
    V("v_permlanex16_var_b32", &permlane16<true, true>);
    V("v_permlane64_b32", &permlane64);
    V("v_permlane16_swap_b32", &permlane_swap<16>);
    V("v_permlane32_swap_b32", &permlane_swap<32>);
    V("v_cvt_f32_fp8", &cvt_f32_fp8<false>);
    V("v_cvt_f32_bf8", &cvt_f32_fp8<true>);
    V("v_cvt_pk_f32_fp8", &cvt_pk_f32_fp8<false>);
    V("v_cvt_pk_f32_bf8", &cvt_pk_f32_fp8<true>);
    V("v_cvt_pk_fp8_f32", &cvt_pk_fp8_f32<false>);
    V("v_cvt_pk_bf8_f32", &cvt_pk_fp8_f32<true>);
    V("v_cvt_sr_fp8_f32", &cvt_sr_fp8_f32<false>);
    V("v_cvt_sr_bf8_f32", &cvt_sr_fp8_f32<true>);
#define SCU(n, e)                                                                                                      \
    V("v_cvt_scalef32_pk_f32_" n, &sc_unpack2<e, T_F32>);                                                              \
    V("v_cvt_scalef32_pk_f16_" n, &sc_unpack2<e, T_F16>);                                                              \
    V("v_cvt_scalef32_pk_bf16_" n, &sc_unpack2<e, T_BF16>);                                                            \
    V("v_cvt_scalef32_pk_" n "_f32", &sc_pack2<e, T_F32>);                                                             \
    V("v_cvt_scalef32_pk_" n "_f16", &sc_pack2<e, T_F16>);                                                             \
    V("v_cvt_scalef32_pk_" n "_bf16", &sc_pack2<e, T_BF16>)
    SCU("fp8", E_FP8);
    SCU("bf8", E_BF8);
    SCU("fp4", E_FP4);
    V("v_cvt_scalef32_f32_fp8", &sc_unpack1<E_FP8, T_F32>);
    V("v_cvt_scalef32_f32_bf8", &sc_unpack1<E_BF8, T_F32>);
    V("v_cvt_scalef32_f16_fp8", &sc_unpack1<E_FP8, T_F16>);
    V("v_cvt_scalef32_f16_bf8", &sc_unpack1<E_BF8, T_F16>);
    V("v_cvt_scalef32_pk32_f32_fp6", &sc_unpack32<E_FP6, T_F32>);
    V("v_cvt_scalef32_pk32_f16_fp6", &sc_unpack32<E_FP6, T_F16>);
    V("v_cvt_scalef32_pk32_bf16_fp6", &sc_unpack32<E_FP6, T_BF16>);
    V("v_cvt_scalef32_pk32_f32_bf6", &sc_unpack32<E_BF6, T_F32>);
    V("v_cvt_scalef32_pk32_f16_bf6", &sc_unpack32<E_BF6, T_F16>);
    V("v_cvt_scalef32_pk32_bf16_bf6", &sc_unpack32<E_BF6, T_BF16>);
    V("v_movrels_b32", &movrels);
    V("v_movreld_b32", &movreld);
    V("v_movrelsd_b32", &movrelsd);
    V("v_mov_b64", &mov64_dpp);
}
} // namespace gfxemu
