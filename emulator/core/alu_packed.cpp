// Packed arithmetic and dot products.
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

} // namespace

void register_packed(OpTable& t) {
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
}

} // namespace gfxemu
