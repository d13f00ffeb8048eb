// Conversions from and to the 8-, 6- and 4-bit formats.
#include "core/alu.h"

namespace gfxemu {
namespace {

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
    int n = e == E_FP4 ? 8 : 32;
    u32 s = std::signbit(x) ? (u32)n : 0;
    float a = std::fabs(x);
    u32 best = 0;
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

} // namespace

void register_narrow(OpTable& t) {
    auto V = [&](const std::string& n, Handler h, Cls c = Cls::valu) { t[n] = {h, c}; };
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
}

} // namespace gfxemu
