// Floating-point vector ALU: arithmetic, transcendental functions, conversions.
#include "core/alu.h"

namespace gfxemu {

namespace {
template <class T> inline T qmin(T a, T b) {
    return a < b ? a : b < a ? b : a != a ? b : b != b ? a : std::signbit(a) ? a : b;
}
template <class T> inline T qmax(T a, T b) {
    return a > b ? a : b > a ? b : a != a ? b : b != b ? a : std::signbit(a) ? b : a;
}
template <class T> inline T pmin(T a, T b) { return a != a ? a : b != b ? b : qmin(a, b); } // propagates NaN
template <class T> inline T pmax(T a, T b) { return a != a ? a : b != b ? b : qmax(a, b); }
template <class T> inline T med3(T a, T b, T c) {
    if (a != a || b != b || c != c) return qmin(qmin(a, b), c);
    return qmax(qmin(a, b), qmin(qmax(a, b), c));
}
inline float legacy_mul(float a, float b) { return a == 0 || b == 0 ? 0.f : a * b; }
inline float legacy_fma(float a, float b, float c) { return a == 0 || b == 0 ? c : std::fma(a, b, c); }
inline float fract32(float a) {
    float f = a - std::floor(a);
    return f >= 1.f ? 0x1.fffffep-1f : f;
}
inline double fract64(double a) {
    double f = a - std::floor(a);
    return f >= 1.0 ? 0x1.fffffffffffffp-1 : f;
}
inline float fract16(float a) {
    float f = a - std::floor(a);
    return f >= 1.f ? 0x1.ffcp-1f : f;
}

// 2^x with a relative error near 1e-15; vectorisable.
inline double exp2d(double x) {
    double n = std::nearbyint(x), f = (x - n) * 0.693147180559945309417;
    double p = 1.0 / 479001600;
    p = p * f + 1.0 / 39916800;
    p = p * f + 1.0 / 3628800;
    p = p * f + 1.0 / 362880;
    p = p * f + 1.0 / 40320;
    p = p * f + 1.0 / 5040;
    p = p * f + 1.0 / 720;
    p = p * f + 1.0 / 120;
    p = p * f + 1.0 / 24;
    p = p * f + 1.0 / 6;
    p = p * f + 0.5;
    p = p * f + 1.0;
    p = p * f + 1.0;
    return p * std::bit_cast<double>((u64)((i64)n + 1023) << 52);
}
inline float exp2_f32(float x) {
    double c = x < -200.f ? -200.0 : x > 200.f ? 200.0 : (double)x; // NaN compares false and passes through
    float r = (float)exp2d(c == c ? c : 0.0);
    r = flush(r);
    return x == x ? r : x;
}
inline float log2_f32(float x) {
    x = flush(x);
    return (float)std::log2((double)x);
}
inline float rcp_f32(float x) { return flush((float)(1.0 / (double)flush(x))); }
inline float rsq_f32(float x) { return flush((float)(1.0 / std::sqrt((double)flush(x)))); }
inline float sqrt_f32(float x) { return (float)std::sqrt((double)x); }
inline double sin_t(double x) {
    if (!(std::fabs(x) <= 1e300)) return NAN;
    double r = x - std::floor(x);
    return std::sin(r * 6.283185307179586476925);
}
inline double cos_t(double x) {
    if (!(std::fabs(x) <= 1e300)) return NAN;
    double r = x - std::floor(x);
    return std::cos(r * 6.283185307179586476925);
}

template <class I, class T> inline I sat_cvt(T x) {
    if (x != x) return 0;
    constexpr double lo = (double)std::numeric_limits<I>::min(), hi = (double)std::numeric_limits<I>::max();
    if ((double)x <= lo) return std::numeric_limits<I>::min();
    if ((double)x >= hi) return std::numeric_limits<I>::max();
    return (I)x;
}
inline float frexp_mant(float x) {
    int e;
    return std::isfinite(x) ? std::frexp(x, &e) : x;
}
inline i32 frexp_exp(double x) {
    int e;
    if (!std::isfinite(x) || x == 0) return 0;
    std::frexp(x, &e);
    return e;
}
u16 f2h_rtz(float f) { return (u16)_cvtss_sh(f, _MM_FROUND_TO_ZERO); }

// Division helpers
void div_scale_f32(Wave& w, const Inst& i) {
    alignas(64) float ta[64], tb[64], tc[64], r[64];
    u64 m = w.exec(), vc = 0;
    const float* s0 = src<F32, false>(w, i, 2, ta, m);
    const float* s1 = src<F32, false>(w, i, 3, tb, m);
    const float* s2 = src<F32, false>(w, i, 4, tc, m);
    auto ex = [](float f) { return (int)(fbits(f) >> 23 & 255); };
    auto den = [](float f) { return !(fbits(f) & 0x7f800000) && (fbits(f) & 0x7fffff); };
    for (int l = 0; l < w.lanes; l++) {
        float a = s0[l], b = s1[l], c = s2[l];
        float q = a;
        bool v = false;
        if (c == 0 || b == 0)
            q = NAN;
        else if (ex(c) - ex(b) >= 96) {
            v = true;
            if (a == b) q = std::ldexp(a, 64);
        } else if (den(b))
            q = std::ldexp(a, 64);
        else if (den((float)(1.0 / (double)b)) && den((float)((double)c / (double)b))) {
            v = true;
            if (a == b) q = std::ldexp(a, -64);
        } // the manuals print +64, which would overflow
        else if (den((float)(1.0 / (double)b)))
            q = std::ldexp(a, -64);
        else if (den((float)((double)c / (double)b))) {
            v = true;
            if (a == c) q = std::ldexp(a, 64);
        } else if (ex(c) <= 23)
            q = std::ldexp(a, 64);
        r[l] = q;
        if (v && (m >> l & 1)) vc |= 1ull << l;
    }
    store32(w, i, i.op[0], (u32*)r, m);
    wr_mask(w, i.op[1], vc);
}
void div_scale_f64(Wave& w, const Inst& i) {
    alignas(64) double ta[64], tb[64], tc[64], r[64];
    u64 m = w.exec(), vc = 0;
    const double* s0 = src<F64, false>(w, i, 2, ta, m);
    const double* s1 = src<F64, false>(w, i, 3, tb, m);
    const double* s2 = src<F64, false>(w, i, 4, tc, m);
    auto ex = [](double f) { return (int)(std::bit_cast<u64>(f) >> 52 & 2047); };
    auto den = [&](double f) { return ex(f) == 0 && f != 0; };
    for (int l = 0; l < w.lanes; l++) {
        double a = s0[l], b = s1[l], c = s2[l];
        double q = a;
        bool v = false;
        if (c == 0 || b == 0)
            q = NAN;
        else if (ex(c) - ex(b) >= 768) {
            v = true;
            if (a == b) q = std::ldexp(a, 128);
        } else if (den(b))
            q = std::ldexp(a, 128);
        else if (den(1.0 / b) && den(c / b)) {
            v = true;
            if (a == b) q = std::ldexp(a, -128);
        } // likewise +128
        else if (den(1.0 / b))
            q = std::ldexp(a, -128);
        else if (den(c / b)) {
            v = true;
            if (a == c) q = std::ldexp(a, 128);
        } else if (ex(c) <= 53)
            q = std::ldexp(a, 128);
        r[l] = q;
        if (v && (m >> l & 1)) vc |= 1ull << l;
    }
    store64(w, i, i.op[0], (u64*)r, m);
    wr_mask(w, i.op[1], vc);
}
// Multiply-add and scaling with one rounding: a denormal quotient is rounded once, as division demands.
template <class T> inline T scaled_fma(T a, T b, T c, double scale) {
    __extension__ typedef __float128 q;
    return (T)(((q)a * (q)b + (q)c) * (q)scale);
}
void div_fmas_f32(Wave& w, const Inst& i) {
    alignas(64) float ta[64], tb[64], tc[64], r[64];
    u64 m = w.exec(), vc = w.vcc();
    const float* a = src<F32, true>(w, i, 1, ta, m);
    const float* b = src<F32, false>(w, i, 2, tb, m);
    const float* c = src<F32, false>(w, i, 3, tc, m);
    for (int l = 0; l < w.lanes; l++) {
        if (vc >> l & 1) {
            int e = (int)(fbits(c[l]) >> 23 & 255);
            r[l] = scaled_fma(a[l], b[l], c[l], e > 127 ? 0x1p64 : 0x1p-64);
        } else
            r[l] = std::fma(a[l], b[l], c[l]);
    }
    put<F32>(w, i, i.op[0], r, m);
}
void div_fmas_f64(Wave& w, const Inst& i) {
    alignas(64) double ta[64], tb[64], tc[64], r[64];
    u64 m = w.exec(), vc = w.vcc();
    const double* a = src<F64, true>(w, i, 1, ta, m);
    const double* b = src<F64, false>(w, i, 2, tb, m);
    const double* c = src<F64, false>(w, i, 3, tc, m);
    for (int l = 0; l < w.lanes; l++) {
        if (vc >> l & 1) {
            int e = (int)(std::bit_cast<u64>(c[l]) >> 52 & 2047);
            r[l] = scaled_fma(a[l], b[l], c[l], e > 1023 ? 0x1p128 : 0x1p-128);
        } else
            r[l] = std::fma(a[l], b[l], c[l]);
    }
    put<F64>(w, i, i.op[0], r, m);
}
template <class T> inline T div_fixup(T q, T b, T c) { // q, denominator, numerator
    bool neg = std::signbit(b) != std::signbit(c);
    auto s = [&](T v) { return neg ? -v : v; };
    if (b != b) return b;
    if (c != c) return c;
    if (b == 0 && c == 0) return (T)NAN;
    if (std::isinf(b) && std::isinf(c)) return (T)NAN;
    if (b == 0 || std::isinf(c)) return s((T)INFINITY);
    if (std::isinf(b) || c == 0) return s((T)0);
    // Exponent fields, not true exponents.
    if constexpr (sizeof(T) == 8) {
        auto f = [](T v) { return (int)(std::bit_cast<u64>(v) >> 52 & 2047); };
        if (f(c) - f(b) < -1075) return s((T)0);
    } else {
        auto f = [](T v) { return (int)(fbits(v) >> 23 & 255); };
        if (f(c) - f(b) < -150) return s((T)0);
    }
    if (q != q || std::ilogb(c) - std::ilogb(b) > std::numeric_limits<T>::max_exponent)
        return s((T)INFINITY); // overflowed on the way
    return s(std::fabs(q));
}
inline float div_fixup16(float q, float b, float c) { return div_fixup<float>(q, b, c); }

// v_fma_mix_f32 / v_fma_mixlo / v_fma_mixhi: op_sel_hi marks 16-bit sources, op_sel picks their half.
template <int MODE> void fma_mix(Wave& w, const Inst& i) {
    alignas(64) u32 t[3][64];
    alignas(64) float f[3][64], r[64];
    u64 m = w.exec();
    for (int k = 0; k < 3; k++) {
        const Opnd& o = i.op[1 + k];
        bool h = i.op_sel_hi >> k & 1;
        bool neg = o.neg != (i.neg_lo >> k & 1), abs = o.abs || (i.neg_hi >> k & 1);
        Opnd q = o;
        q.neg = q.abs = false;
        const u32* p = raw32<false>(w, i, q, t[k], m, h ? o.imm16 : o.imm32);
        int sh = (i.op_sel >> k & 1) && o.kind != Opnd::IMM ? 16 : 0;
        if (h)
            GFX_LANES(w, l, f[k][l] = h2f((u16)(p[l] >> sh)));
        else
            GFX_LANES(w, l, f[k][l] = bitsf(p[l]));
        if (abs) GFX_LANES(w, l, f[k][l] = std::fabs(f[k][l]));
        if (neg) GFX_LANES(w, l, f[k][l] = -f[k][l]);
    }
    GFX_LANES(w, l, r[l] = std::fma(f[0][l], f[1][l], f[2][l]));
    if (i.clamp) GFX_LANES(w, l, r[l] = fclamp(r[l]));
    if (MODE == 0) {
        store32(w, i, i.op[0], (u32*)r, m);
        return;
    }
    if (i.op[0].kind != Opnd::V) return;
    u32* d = w.row(i.op[0].reg);
    alignas(64) u32 o[64];
    bool hi = MODE == 2 || i.op[0].half == 2;
    GFX_LANES(w, l, u32 h = f2h(r[l]); o[l] = hi ? (d[l] & 0xffff) | h << 16 : (d[l] & 0xffff0000) | h);
    blend32(w, d, o, m);
}

void madk32(Wave& w, const Inst& i) { // v_fmamk: a * K + b
    alignas(64) float ta[64], tb[64], r[64];
    u64 m = w.exec();
    const float* a = src<F32, true>(w, i, 1, ta, m);
    float k = bitsf(i.op[2].imm32);
    const float* b = src<F32, false>(w, i, 3, tb, m);
    GFX_LANES(w, l, r[l] = std::fma(a[l], k, b[l]));
    put<F32>(w, i, i.op[0], r, m);
}
} // namespace

void register_float(OpTable& t) {
    // f32
    R2("v_add_f32", F32, F32, F32, a + b);
    R2("v_sub_f32", F32, F32, F32, a - b);
    R2("v_subrev_f32", F32, F32, F32, b - a);
    R2("v_mul_f32", F32, F32, F32, a * b);
    R2("v_mul_legacy_f32", F32, F32, F32, legacy_mul(a, b));
    R2("v_min_f32", F32, F32, F32, qmin(a, b));
    R2("v_max_f32", F32, F32, F32, qmax(a, b));
    R2("v_minimum_f32", F32, F32, F32, pmin(a, b));
    R2("v_maximum_f32", F32, F32, F32, pmax(a, b));
    R3("v_fma_f32", F32, F32, F32, F32, std::fma(a, b, c));
    RA("v_fmac_f32", F32, F32, F32, std::fma(a, b, c));
    R3("v_mad_f32", F32, F32, F32, F32, a * b + c);
    RA("v_mac_f32", F32, F32, F32, a * b + c);
    R3("v_mad_legacy_f32", F32, F32, F32, F32, legacy_mul(a, b) + c);
    RA("v_mac_legacy_f32", F32, F32, F32, legacy_mul(a, b) + c);
    R3("v_fma_legacy_f32", F32, F32, F32, F32, legacy_fma(a, b, c));
    RA("v_fmac_legacy_f32", F32, F32, F32, legacy_fma(a, b, c));
    t["v_fmamk_f32"] = {&madk32, Cls::valu};
    R3("v_fmaak_f32", F32, F32, F32, F32, std::fma(a, b, c));
    R3("v_fmamk_f32#mad", F32, F32, F32, F32, a * b + c);
    R3("v_fmaak_f32#mad", F32, F32, F32, F32, a * b + c);
    R3("v_min3_f32", F32, F32, F32, F32, qmin(qmin(a, b), c));
    R3("v_max3_f32", F32, F32, F32, F32, qmax(qmax(a, b), c));
    R3("v_med3_f32", F32, F32, F32, F32, med3(a, b, c));
    R3("v_minmax_f32", F32, F32, F32, F32, qmax(qmin(a, b), c));
    R3("v_maxmin_f32", F32, F32, F32, F32, qmin(qmax(a, b), c));
    R3("v_minimum3_f32", F32, F32, F32, F32, pmin(pmin(a, b), c));
    R3("v_maximum3_f32", F32, F32, F32, F32, pmax(pmax(a, b), c));
    R3("v_minimummaximum_f32", F32, F32, F32, F32, pmax(pmin(a, b), c));
    R3("v_maximumminimum_f32", F32, F32, F32, F32, pmin(pmax(a, b), c));
    R2("v_ldexp_f32", F32, F32, I32, std::ldexp(a, std::clamp(b, -400, 400)));
    R1("v_trunc_f32", F32, F32, std::trunc(a));
    R1("v_ceil_f32", F32, F32, std::ceil(a));
    R1("v_floor_f32", F32, F32, std::floor(a));
    R1("v_rndne_f32", F32, F32, std::nearbyint(a));
    R1("v_fract_f32", F32, F32, fract32(a));
    R1("v_frexp_mant_f32", F32, F32, frexp_mant(a));
    R1("v_frexp_exp_i32_f32", I32, F32, frexp_exp(a));
    RT("v_exp_f32", F32, F32, exp2_f32(flush(a)));
    RT("v_log_f32", F32, F32, log2_f32(a));
    RT("v_rcp_f32", F32, F32, rcp_f32(a));
    RT("v_rcp_iflag_f32", F32, F32, rcp_f32(a));
    RT("v_rsq_f32", F32, F32, rsq_f32(a));
    RT("v_sqrt_f32", F32, F32, sqrt_f32(a));
    RT("v_sin_f32", F32, F32, (float)sin_t(a));
    RT("v_cos_f32", F32, F32, (float)cos_t(a));
    RT("v_exp_legacy_f32", F32, F32, exp2_f32(flush(a)));
    RT("v_log_legacy_f32", F32, F32, log2_f32(a));
    RT("v_prng_b32", U32, U32, (a << 1) ^ (a >> 31 ? 0xc5u : 0u));
    t["v_div_scale_f32"] = {&div_scale_f32, Cls::valu};
    t["v_div_scale_f64"] = {&div_scale_f64, Cls::valu};
    t["v_div_fmas_f32"] = {&div_fmas_f32, Cls::valu};
    t["v_div_fmas_f64"] = {&div_fmas_f64, Cls::valu};
    R3("v_div_fixup_f32", F32, F32, F32, F32, div_fixup<float>(a, b, c));
    R3("v_div_fixup_f64", F64, F64, F64, F64, div_fixup<double>(a, b, c));
    R3("v_div_fixup_f16", F16, F16, F16, F16, div_fixup16(a, b, c));
    // f16
    R2("v_add_f16", F16, F16, F16, a + b);
    R2("v_sub_f16", F16, F16, F16, a - b);
    R2("v_subrev_f16", F16, F16, F16, b - a);
    R2("v_mul_f16", F16, F16, F16, a * b);
    R2("v_min_f16", F16, F16, F16, qmin(a, b));
    R2("v_max_f16", F16, F16, F16, qmax(a, b));
    R2("v_minimum_f16", F16, F16, F16, pmin(a, b));
    R2("v_maximum_f16", F16, F16, F16, pmax(a, b));
    R3("v_fma_f16", F16, F16, F16, F16, (double)a * b + (double)c);
    RA("v_fmac_f16", F16, F16, F16, (double)a * b + (double)c);
    R3("v_mad_f16", F16, F16, F16, F16, h2f(f2h(a * b)) + c);
    RA("v_mac_f16", F16, F16, F16, h2f(f2h(a * b)) + c);
    R3("v_fmamk_f16", F16, F16, F16, F16, (double)a * b + (double)c);
    R3("v_fmaak_f16", F16, F16, F16, F16, (double)a * b + (double)c);
    R3("v_min3_f16", F16, F16, F16, F16, qmin(qmin(a, b), c));
    R3("v_max3_f16", F16, F16, F16, F16, qmax(qmax(a, b), c));
    R3("v_med3_f16", F16, F16, F16, F16, med3(a, b, c));
    R3("v_minmax_f16", F16, F16, F16, F16, qmax(qmin(a, b), c));
    R3("v_maxmin_f16", F16, F16, F16, F16, qmin(qmax(a, b), c));
    R3("v_minimum3_f16", F16, F16, F16, F16, pmin(pmin(a, b), c));
    R3("v_maximum3_f16", F16, F16, F16, F16, pmax(pmax(a, b), c));
    R2("v_ldexp_f16", F16, F16, I16, std::ldexp(a, std::clamp(b, -100, 100)));
    R1("v_trunc_f16", F16, F16, std::trunc(a));
    R1("v_ceil_f16", F16, F16, std::ceil(a));
    R1("v_floor_f16", F16, F16, std::floor(a));
    R1("v_rndne_f16", F16, F16, std::nearbyint(a));
    R1("v_fract_f16", F16, F16, fract16(a));
    R1("v_frexp_mant_f16", F16, F16, frexp_mant(a));
    R1("v_frexp_exp_i16_f16", I16, F16, frexp_exp(a));
    RT("v_exp_f16", F16, F16,
        (float)exp2d(std::clamp((double)a == (double)a ? (double)a : 0.0, -100.0, 100.0)) + (a == a ? 0.f : a));
    RT("v_log_f16", F16, F16, (float)std::log2((double)a));
    RT("v_rcp_f16", F16, F16, 1.f / a);
    RT("v_rsq_f16", F16, F16, (float)(1.0 / std::sqrt((double)a)));
    RT("v_sqrt_f16", F16, F16, std::sqrt(a));
    RT("v_sin_f16", F16, F16, (float)sin_t(a));
    RT("v_cos_f16", F16, F16, (float)cos_t(a));
    // f64
    R2("v_add_f64", F64, F64, F64, a + b);
    R2("v_mul_f64", F64, F64, F64, a * b);
    R2("v_min_f64", F64, F64, F64, qmin(a, b));
    R2("v_max_f64", F64, F64, F64, qmax(a, b));
    R2("v_minimum_f64", F64, F64, F64, pmin(a, b));
    R2("v_maximum_f64", F64, F64, F64, pmax(a, b));
    R3("v_fma_f64", F64, F64, F64, F64, std::fma(a, b, c));
    RA("v_fmac_f64", F64, F64, F64, std::fma(a, b, c));
    R2("v_ldexp_f64", F64, F64, I32, std::ldexp(a, std::clamp(b, -3000, 3000)));
    R1("v_trunc_f64", F64, F64, std::trunc(a));
    R1("v_ceil_f64", F64, F64, std::ceil(a));
    R1("v_floor_f64", F64, F64, std::floor(a));
    R1("v_rndne_f64", F64, F64, std::nearbyint(a));
    R1("v_fract_f64", F64, F64, fract64(a));
    RT("v_rcp_f64", F64, F64, 1.0 / a);
    RT("v_rsq_f64", F64, F64, 1.0 / std::sqrt(a));
    RT("v_sqrt_f64", F64, F64, std::sqrt(a));
    R1("v_frexp_mant_f64", F64, F64,
        std::isfinite(a) ? [](double x) {
            int e;
            return std::frexp(x, &e);
        }(a)
                         : a);
    R1("v_frexp_exp_i32_f64", I32, F64, frexp_exp(a));
    // conversions
    R1("v_cvt_f32_f16", F32, F16, a);
    R1("v_cvt_f16_f32", F16, F32, a);
    R1("v_cvt_f64_f32", F64, F32, a);
    R1("v_cvt_f32_f64", F32, F64, a);
    R1("v_cvt_f32_i32", F32, I32, a);
    R1("v_cvt_f32_u32", F32, U32, a);
    R1("v_cvt_f64_i32", F64, I32, a);
    R1("v_cvt_f64_u32", F64, U32, a);
    R1("v_cvt_i32_f32", I32, F32, sat_cvt<i32>(a));
    R1("v_cvt_u32_f32", U32, F32, sat_cvt<u32>(a));
    R1("v_cvt_i32_f64", I32, F64, sat_cvt<i32>(a));
    R1("v_cvt_u32_f64", U32, F64, sat_cvt<u32>(a));
    R1("v_cvt_f16_u16", F16, U16, (float)a);
    R1("v_cvt_f16_i16", F16, I16, (float)a);
    R1("v_cvt_u16_f16", U16, F16, sat_cvt<u16>(a));
    R1("v_cvt_i16_f16", I16, F16, sat_cvt<i16>(a));
    R1("v_cvt_u32_u16", U32, U16, a);
    R1("v_cvt_i32_i16", I32, I16, a);
    R1("v_cvt_flr_i32_f32", I32, F32, sat_cvt<i32>(std::floor(a)));
    R1("v_cvt_rpi_i32_f32", I32, F32, sat_cvt<i32>(std::floor(a + 0.5f)));
    R1("v_cvt_f32_ubyte0", F32, U32, (float)(a & 255));
    R1("v_cvt_f32_ubyte1", F32, U32, (float)(a >> 8 & 255));
    R1("v_cvt_f32_ubyte2", F32, U32, (float)(a >> 16 & 255));
    R1("v_cvt_f32_ubyte3", F32, U32, (float)(a >> 24));
    R1("v_cvt_off_f32_i4", F32, U32, (float)((i32)(a << 28) >> 28) * 0.0625f);
    R1("v_cvt_f32_bf16", F32, BF16, a);
    R1("v_cvt_norm_i16_f16", I16, F16, sat_cvt<i16>(std::nearbyint(std::clamp(a, -1.f, 1.f) * 32767.f)));
    R1("v_cvt_norm_u16_f16", U16, F16, sat_cvt<u16>(std::nearbyint(std::clamp(a, 0.f, 1.f) * 65535.f)));
    R2("v_cvt_pkrtz_f16_f32", U32, F32, F32, (u32)f2h_rtz(a) | (u32)f2h_rtz(b) << 16);
    R2("v_cvt_pk_bf16_f32", U32, F32, F32, (u32)f2b(a) | (u32)f2b(b) << 16);
    R2("v_cvt_pk_f16_f32", U32, F32, F32, (u32)f2h(a) | (u32)f2h(b) << 16);
    R2("v_cvt_pk_norm_i16_f32", U32, F32, F32,
        (u32)(u16)sat_cvt<i16>(std::nearbyint(std::clamp(a, -1.f, 1.f) * 32767.f)) |
            (u32)(u16)sat_cvt<i16>(std::nearbyint(std::clamp(b, -1.f, 1.f) * 32767.f)) << 16);
    R2("v_cvt_pk_norm_u16_f32", U32, F32, F32,
        (u32)sat_cvt<u16>(std::nearbyint(std::clamp(a, 0.f, 1.f) * 65535.f)) |
            (u32)sat_cvt<u16>(std::nearbyint(std::clamp(b, 0.f, 1.f) * 65535.f)) << 16);
    R2("v_cvt_pk_i16_f32", U32, F32, F32, (u32)(u16)sat_cvt<i16>(a) | (u32)(u16)sat_cvt<i16>(b) << 16);
    R2("v_cvt_pk_u16_f32", U32, F32, F32, (u32)sat_cvt<u16>(a) | (u32)sat_cvt<u16>(b) << 16);
    R3("v_cvt_pk_u8_f32", U32, F32, U32, U32,
        (c & ~(255u << ((b & 3) * 8))) | (u32)sat_cvt<u8>(std::nearbyint(a)) << ((b & 3) * 8));
    t["v_fma_mix_f32"] = t["v_mad_mix_f32"] = {&fma_mix<0>, Cls::valu};
    t["v_fma_mixlo_f16"] = t["v_mad_mixlo_f16"] = {&fma_mix<1>, Cls::valu};
    t["v_fma_mixhi_f16"] = t["v_mad_mixhi_f16"] = {&fma_mix<2>, Cls::valu};
}
} // namespace gfxemu
