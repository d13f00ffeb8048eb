// Integer vector ALU.
#include "core/alu.h"

namespace gfxemu {
namespace {
inline u32 bfe_u(u32 a, u32 o, u32 n) {
    o &= 31;
    n &= 31;
    return n ? (a >> o) & ((1u << n) - 1) : 0;
}
inline i32 bfe_i(u32 a, u32 o, u32 n) {
    o &= 31;
    n &= 31;
    if (!n) return 0;
    if (o + n >= 32) return (i32)a >> o;
    return (i32)(a << (32 - o - n)) >> (32 - n);
}
inline i32 sx24(u32 a) { return (i32)(a << 8) >> 8; }
inline u32 perm(u32 a, u32 b, u32 s) {
    u64 d = (u64)a << 32 | b;
    u32 r = 0;
    for (int k = 0; k < 4; k++) {
        u32 q = s >> (8 * k) & 255, v;
        if (q >= 13)
            v = 0xff;
        else if (q == 12)
            v = 0;
        else if (q >= 8) {
            static const int bit[4] = {15, 31, 47, 63};
            v = d >> bit[q - 8] & 1 ? 0xff : 0;
        } else
            v = (u32)(d >> (8 * q)) & 255;
        r |= v << (8 * k);
    }
    return r;
}
template <class T> T sat(i64 v) {
    constexpr i64 lo = std::numeric_limits<T>::min(), hi = (i64)std::numeric_limits<T>::max();
    return (T)(v < lo ? lo : v > hi ? hi : v);
}
inline u32 absdiff(u32 a, u32 b) { return a > b ? a - b : b - a; }
inline u32 sad8(u32 a, u32 b, u32 c, bool masked) {
    for (int k = 0; k < 32; k += 8) {
        u32 x = a >> k & 255, y = b >> k & 255;
        if (!masked || y) c += absdiff(x, y);
    }
    return c;
}
inline u32 ffbh_u(u32 a) { return a ? (u32)std::countl_zero(a) : ~0u; }
inline u32 ffbh_i(u32 a) {
    u32 x = (i32)a < 0 ? ~a : a;
    return x ? (u32)std::countl_zero(x) : ~0u;
}
inline u32 brev(u32 x) {
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
template <class T> T med(T a, T b, T c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }

template <class S, bool B16> void bitop3(Wave& w, const Inst& i) {
    alignas(64) u32 ta[64], tb[64], tc[64], r[64];
    u64 m = w.exec();
    const u32* a = src<S, true>(w, i, 1, ta, m);
    const u32* b = src<S, false>(w, i, 2, tb, m);
    const u32* c = src<S, false>(w, i, 3, tc, m);
    u32 t = i.bitop;
    std::memset(r, 0, sizeof r);
    for (int k = 0; k < 8; k++)
        if (t >> k & 1) {
            u32 xa = k & 4 ? 0 : ~0u, xb = k & 2 ? 0 : ~0u, xc = k & 1 ? 0 : ~0u;
            GFX_LANES(w, l, r[l] |= (a[l] ^ xa) & (b[l] ^ xb) & (c[l] ^ xc));
        }
    if (B16) GFX_LANES(w, l, r[l] &= 0xffff);
    put<S>(w, i, i.op[0], r, m);
}

// Carry forms: dst, carry-out, src0, src1 [, carry-in].
template <int OP> void carry(Wave& w, const Inst& i) { // 0 add, 1 sub, 2 subrev
    alignas(64) u32 ta[64], tb[64], r[64];
    alignas(64) u8 c[64];
    u64 m = w.exec(), mm = m;
    const u32* a = src<U32, true>(w, i, 2, ta, mm);
    const u32* b = src<U32, false>(w, i, 3, tb, mm);
    u64 ci = i.nop > 4 ? rd_mask(w, i.op[4]) : 0;
    std::memset(c, 0, 64);
    GFX_LANES(w, l, u32 k = ci >> l & 1; u64 s = OP == 0   ? (u64)a[l] + b[l] + k
                                                 : OP == 1 ? (u64)a[l] - b[l] - k
                                                           : (u64)b[l] - a[l] - k;
        r[l] = (u32)s; c[l] = s >> 32 & 1);
    u64 co = pack_mask(c, w.lanes) & m;
    if (i.clamp) GFX_LANES(w, l, if (c[l]) r[l] = OP == 0 ? ~0u : 0u);
    store32(w, i, i.op[0], r, mm);
    u64 old = rd_mask(w, i.op[1]);
    wr_mask(w, i.op[1], i.dpp ? (co & mm) | (old & ~mm & m) : co);
}
template <bool SIGNED> void mad64(Wave& w, const Inst& i) {
    alignas(64) u32 ta[64], tb[64];
    alignas(64) u64 tc[64], r[64];
    u64 m = w.exec(), co = 0;
    const u32* a = src<U32, true>(w, i, 2, ta, m);
    const u32* b = src<U32, false>(w, i, 3, tb, m);
    const u64* c;
    if (SIGNED)
        c = (const u64*)src<I64, false>(w, i, 4, (i64*)tc, m);
    else
        c = src<U64, false>(w, i, 4, tc, m);
    for (int l = 0; l < w.lanes; l++) {
        if (SIGNED) {
            __int128 s = (__int128)((i64)(i32)a[l] * (i32)b[l]) + (i64)c[l];
            r[l] = (u64)s;
            if ((m >> l & 1) && (s >> 64 & 1)) co |= 1ull << l;
        } else {
            unsigned __int128 s = (unsigned __int128)((u64)a[l] * b[l]) + c[l];
            r[l] = (u64)s;
            if ((m >> l & 1) && (s >> 64)) co |= 1ull << l;
        }
    }
    store64(w, i, i.op[0], r, m);
    wr_mask(w, i.op[1], co);
}

template <class G> void cndmask(Wave& w, const Inst& i) {
    alignas(64) u32 ta[64], tb[64], r[64];
    u64 m = w.exec();
    const u32* a;
    const u32* b;
    if constexpr (is16<G>) {
        a = src<U16, true>(w, i, 1, ta, m);
        b = src<U16, false>(w, i, 2, tb, m);
    } else {
        a = raw32<true>(w, i, i.op[1], ta, m, i.op[1].imm32);
        b = raw32<false>(w, i, i.op[2], tb, m, i.op[2].imm32);
    }
    u64 c = i.nop > 3 ? rd_mask(w, i.op[3]) : w.vcc();
    auto md = [&](const u32*& p, u32* t, const Opnd& o) {
        u32 sg = is16<G> ? 0x8000u : 0x80000000u;
        if (o.neg || o.abs) {
            u32 am = o.abs ? ~sg : ~0u, xm = o.neg ? sg : 0;
            GFX_LANES(w, l, t[l] = (p[l] & am) ^ xm);
            p = t;
        }
    };
    md(a, ta, i.op[1]);
    md(b, tb, i.op[2]);
    u32 lo = (u32)c, hi = (u32)(c >> 32);
    for (int l = 0; l < 32; l++) r[l] = lo >> l & 1 ? b[l] : a[l];
    if (w.lanes == 64)
        for (int l = 0; l < 32; l++) r[32 + l] = hi >> l & 1 ? b[32 + l] : a[32 + l];
    if constexpr (is16<G>)
        store16(w, i, i.op[0], r, m);
    else
        store32(w, i, i.op[0], r, m);
}
void mov_plain(Wave& w, const Inst& i) {
    const Opnd& o = i.op[1];
    u32* d = w.row(i.op[0].reg);
    u64 m = w.exec();
    if (o.kind == Opnd::V) {
        blend32(w, d, w.row(o.reg), m);
        return;
    }
    u32 v = rd32(w, o);
    u32 lo = (u32)m, hi = (u32)(m >> 32);
    if (m == w.full) {
        GFX_LANES(w, l, d[l] = v);
        return;
    }
    for (int l = 0; l < 32; l++) d[l] = lo >> l & 1 ? v : d[l];
    if (w.lanes == 64)
        for (int l = 0; l < 32; l++) d[32 + l] = hi >> l & 1 ? v : d[32 + l];
}
void mbcnt(Wave& w, const Inst& i) {
    alignas(64) u32 ta[64], tb[64], r[64];
    u64 m = w.exec();
    bool hi = i.mn == "v_mbcnt_hi_u32_b32";
    const u32* a = src<U32, true>(w, i, 1, ta, m);
    const u32* b = src<U32, false>(w, i, 2, tb, m);
    for (int l = 0; l < w.lanes; l++) {
        u64 below = (1ull << l) - 1;
        u32 msk = hi ? (u32)(below >> 32) : (u32)below;
        r[l] = b[l] + (u32)std::popcount(a[l] & msk);
    }
    store32(w, i, i.op[0], r, m);
}
void v_nop(Wave&, const Inst&) {}
void v_swap(Wave& w, const Inst& i) {
    u32* a = w.row(i.op[0].reg);
    u32* b = w.row(i.op[1].reg);
    u64 m = w.exec();
    for (int l = 0; l < w.lanes; l++)
        if (m >> l & 1) std::swap(a[l], b[l]);
}
void v_swap16(Wave& w, const Inst& i) {
    u32* a = w.row(i.op[0].reg);
    u32* b = w.row(i.op[1].reg);
    u64 m = w.exec();
    int sa = i.op[0].half == 2 ? 16 : 0, sb = i.op[1].half == 2 ? 16 : 0;
    for (int l = 0; l < w.lanes; l++)
        if (m >> l & 1) {
            u32 x = a[l] >> sa & 0xffff, y = b[l] >> sb & 0xffff;
            a[l] = (a[l] & ~(0xffffu << sa)) | y << sa;
            b[l] = (b[l] & ~(0xffffu << sb)) | x << sb;
        }
}
} // namespace

void register_integer(OpTable& t) {
    t["v_nop"] = {&v_nop, Cls::valu};
    t["v_mov_b32#plain"] = {&mov_plain, Cls::valu};
    R1("v_mov_b32", U32, U32, a);
    R1("v_mov_b16", U16, U16, a);
    R1("v_mov_b64", U64, U64, a);
    R1("v_not_b32", U32, U32, ~a);
    R1("v_not_b16", U16, U16, ~a & 0xffff);
    R1("v_bfrev_b32", U32, U32, brev(a));
    t["v_accvgpr_read_b32"] = t["v_accvgpr_write_b32"] =
        t["v_accvgpr_mov_b32"] = {&op1<U32, U32, [](u32 a) { return a; }>, Cls::valu};
    t["v_swap_b32"] = {&v_swap, Cls::valu};
    t["v_swap_b16"] = {&v_swap16, Cls::valu};
    R1("v_ffbh_u32", U32, U32, ffbh_u(a));
    R1("v_ffbh_i32", U32, U32, ffbh_i(a));
    R1("v_ffbl_b32", U32, U32, a ? (u32)std::countr_zero(a) : ~0u);
    R1("v_sat_pk_u8_i16", U16, U32, (u32)sat<u8>((i16)a) | (u32)sat<u8>((i16)(a >> 16)) << 8);
    R2("v_and_b32", U32, U32, U32, a & b);
    R2("v_or_b32", U32, U32, U32, a | b);
    R2("v_xor_b32", U32, U32, U32, a ^ b);
    R2("v_xnor_b32", U32, U32, U32, ~(a ^ b));
    R2("v_and_b16", U16, U16, U16, a & b);
    R2("v_or_b16", U16, U16, U16, a | b);
    R2("v_xor_b16", U16, U16, U16, a ^ b);
    R2("v_lshlrev_b32", U32, U32, U32, b << (a & 31));
    R2("v_lshrrev_b32", U32, U32, U32, b >> (a & 31));
    R2("v_ashrrev_i32", I32, U32, I32, b >> (a & 31));
    R2("v_lshl_b32", U32, U32, U32, a << (b & 31));
    R2("v_lshr_b32", U32, U32, U32, a >> (b & 31));
    R2("v_ashr_i32", I32, I32, U32, a >> (b & 31));
    R2("v_lshlrev_b16", U16, U16, U16, (b << (a & 15)) & 0xffff);
    R2("v_lshrrev_b16", U16, U16, U16, b >> (a & 15));
    R2("v_ashrrev_i16", I16, U16, I16, b >> (a & 15));
    R2("v_lshlrev_b64", U64, U32, U64, b << (a & 63));
    R2("v_lshrrev_b64", U64, U32, U64, b >> (a & 63));
    R2("v_ashrrev_i64", I64, U32, I64, b >> (a & 63));
    R2("v_add_u32", U32, U32, U32, a + b);
    R2("v_sub_u32", U32, U32, U32, a - b);
    R2("v_subrev_u32", U32, U32, U32, b - a);
    R2("v_add_i32", U32, U32, U32, a + b);
    R2("v_sub_i32", U32, U32, U32, a - b);
    R2("v_add_u32#clamp", U32, U32, U32, sat<u32>((i64)a + b));
    R2("v_sub_u32#clamp", U32, U32, U32, sat<u32>((i64)a - b));
    R2("v_subrev_u32#clamp", U32, U32, U32, sat<u32>((i64)b - a));
    R2("v_add_i32#clamp", I32, I32, I32, sat<i32>((i64)a + b));
    R2("v_sub_i32#clamp", I32, I32, I32, sat<i32>((i64)a - b));
    R2("v_add_u16", U16, U16, U16, (a + b) & 0xffff);
    R2("v_sub_u16", U16, U16, U16, (a - b) & 0xffff);
    R2("v_subrev_u16", U16, U16, U16, (b - a) & 0xffff);
    R2("v_add_i16", I16, I16, I16, a + b);
    R2("v_sub_i16", I16, I16, I16, a - b);
    R2("v_add_u16#clamp", U16, U16, U16, sat<u16>((i64)a + b));
    R2("v_sub_u16#clamp", U16, U16, U16, sat<u16>((i64)a - b));
    R2("v_subrev_u16#clamp", U16, U16, U16, sat<u16>((i64)b - a));
    R2("v_add_i16#clamp", I16, I16, I16, sat<i16>((i64)a + b));
    R2("v_sub_i16#clamp", I16, I16, I16, sat<i16>((i64)a - b));
    R2("v_mul_lo_u16", U16, U16, U16, (a * b) & 0xffff);
    R3("v_mad_u16", U16, U16, U16, U16, (a * b + c) & 0xffff);
    R3("v_mad_i16", I16, I16, I16, I16, a * b + c);
    R2("v_mul_lo_u32", U32, U32, U32, a * b);
    R2("v_mul_lo_i32", U32, U32, U32, a * b);
    R2("v_mul_hi_u32", U32, U32, U32, (u32)((u64)a * b >> 32));
    R2("v_mul_hi_i32", I32, I32, I32, (i32)((i64)a * b >> 32));
    R2("v_mul_u32_u24", U32, U32, U32, (a & 0xffffff) * (b & 0xffffff));
    R2("v_mul_i32_i24", U32, U32, U32, (u32)sx24(a) * (u32)sx24(b));
    R2("v_mul_hi_u32_u24", U32, U32, U32, (u32)((u64)(a & 0xffffff) * (b & 0xffffff) >> 32));
    R2("v_mul_hi_i32_i24", U32, U32, U32, (u32)((i64)sx24(a) * sx24(b) >> 32));
    R3("v_mad_u32_u24", U32, U32, U32, U32, (a & 0xffffff) * (b & 0xffffff) + c);
    R3("v_mad_i32_i24", U32, U32, U32, U32, (u32)sx24(a) * (u32)sx24(b) + c);
    R3("v_mad_u32_u16", U32, U16, U16, U32, a * b + c);
    R3("v_mad_i32_i16", I32, I16, I16, I32, a * b + c);
    t["v_mad_u64_u32"] = {&mad64<false>, Cls::valu};
    t["v_mad_i64_i32"] = {&mad64<true>, Cls::valu};
    R2("v_min_i32", I32, I32, I32, std::min(a, b));
    R2("v_max_i32", I32, I32, I32, std::max(a, b));
    R2("v_min_u32", U32, U32, U32, std::min(a, b));
    R2("v_max_u32", U32, U32, U32, std::max(a, b));
    R2("v_min_i16", I16, I16, I16, std::min(a, b));
    R2("v_max_i16", I16, I16, I16, std::max(a, b));
    R2("v_min_u16", U16, U16, U16, std::min(a, b));
    R2("v_max_u16", U16, U16, U16, std::max(a, b));
    R3("v_min3_i32", I32, I32, I32, I32, std::min(std::min(a, b), c));
    R3("v_max3_i32", I32, I32, I32, I32, std::max(std::max(a, b), c));
    R3("v_med3_i32", I32, I32, I32, I32, med(a, b, c));
    R3("v_min3_u32", U32, U32, U32, U32, std::min(std::min(a, b), c));
    R3("v_max3_u32", U32, U32, U32, U32, std::max(std::max(a, b), c));
    R3("v_med3_u32", U32, U32, U32, U32, med(a, b, c));
    R3("v_min3_i16", I16, I16, I16, I16, std::min(std::min(a, b), c));
    R3("v_max3_i16", I16, I16, I16, I16, std::max(std::max(a, b), c));
    R3("v_med3_i16", I16, I16, I16, I16, med(a, b, c));
    R3("v_min3_u16", U16, U16, U16, U16, std::min(std::min(a, b), c));
    R3("v_max3_u16", U16, U16, U16, U16, std::max(std::max(a, b), c));
    R3("v_med3_u16", U16, U16, U16, U16, med(a, b, c));
    R3("v_minmax_i32", I32, I32, I32, I32, std::max(std::min(a, b), c));
    R3("v_maxmin_i32", I32, I32, I32, I32, std::min(std::max(a, b), c));
    R3("v_minmax_u32", U32, U32, U32, U32, std::max(std::min(a, b), c));
    R3("v_maxmin_u32", U32, U32, U32, U32, std::min(std::max(a, b), c));
    R3("v_bfe_u32", U32, U32, U32, U32, bfe_u(a, b, c));
    R3("v_bfe_i32", I32, U32, U32, U32, bfe_i(a, b, c));
    R3("v_bfi_b32", U32, U32, U32, U32, (a & b) | (~a & c));
    R2("v_bfm_b32", U32, U32, U32, ((1u << (a & 31)) - 1) << (b & 31));
    R3("v_alignbit_b32", U32, U32, U32, U32, (u32)(((u64)a << 32 | b) >> (c & 31)));
    R3("v_alignbyte_b32", U32, U32, U32, U32, (u32)(((u64)a << 32 | b) >> (8 * (c & 3))));
    R3("v_perm_b32", U32, U32, U32, U32, perm(a, b, c));
    R3("v_lshl_add_u32", U32, U32, U32, U32, (a << (b & 31)) + c);
    R3("v_add_lshl_u32", U32, U32, U32, U32, (a + b) << (c & 31));
    R3("v_lshl_or_b32", U32, U32, U32, U32, (a << (b & 31)) | c);
    R3("v_and_or_b32", U32, U32, U32, U32, (a & b) | c);
    R3("v_or3_b32", U32, U32, U32, U32, a | b | c);
    R3("v_xor3_b32", U32, U32, U32, U32, a ^ b ^ c);
    R3("v_xad_u32", U32, U32, U32, U32, (a ^ b) + c);
    R3("v_add3_u32", U32, U32, U32, U32, a + b + c);
    R3("v_lshl_add_u64", U64, U64, U32, U64, (a << (b & 7)) + c);
    R3("v_mul_lo_u64", U64, U64, U64, U64, a * b + 0 * c);
    R2("v_add_nc_u64", U64, U64, U64, a + b);
    R2("v_sub_nc_u64", U64, U64, U64, a - b);
    R3("v_sad_u32", U32, U32, U32, U32, absdiff(a, b) + c);
    R3("v_sad_u16", U32, U32, U32, U32, absdiff(a & 0xffff, b & 0xffff) + absdiff(a >> 16, b >> 16) + c);
    R3("v_sad_u8", U32, U32, U32, U32, sad8(a, b, c, false));
    R3("v_msad_u8", U32, U32, U32, U32, sad8(a, b, c, true));
    R3("v_sad_hi_u8", U32, U32, U32, U32, (sad8(a, b, 0, false) << 16) + c);
    R3("v_lerp_u8", U32, U32, U32, U32, [](u32 x, u32 y, u32 z) {
        u32 r = 0;
        for (int k = 0; k < 32; k += 8) r |= (((x >> k & 255) + (y >> k & 255) + (z >> k & 1)) >> 1 & 255) << k;
        return r;
    }(a, b, c));
    R2("v_bcnt_u32_b32", U32, U32, U32, (u32)std::popcount(a) + b);
    t["v_mbcnt_lo_u32_b32"] = t["v_mbcnt_hi_u32_b32"] = {&mbcnt, Cls::valu};
    t["v_cndmask_b32"] = {&cndmask<U32>, Cls::valu};
    t["v_cndmask_b16"] = {&cndmask<U16>, Cls::valu};
    t["v_add_co_u32"] = t["v_addc_co_u32"] = {&carry<0>, Cls::valu};
    t["v_sub_co_u32"] = t["v_subb_co_u32"] = {&carry<1>, Cls::valu};
    t["v_subrev_co_u32"] = t["v_subbrev_co_u32"] = {&carry<2>, Cls::valu};
    t["v_bitop3_b32"] = {&bitop3<U32, false>, Cls::valu};
    t["v_bitop3_b16"] = {&bitop3<U16, true>, Cls::valu};
    R2("v_cvt_pk_u16_u32", U32, U32, U32, std::min(a, 65535u) | std::min(b, 65535u) << 16);
    R2("v_cvt_pk_i16_i32", U32, I32, I32, (u32)(u16)sat<i16>(a) | (u32)(u16)sat<i16>(b) << 16);
    R2("v_pack_b32_f16", U32, U16, U16, a | b << 16);
    R3("v_ashr_pk_i8_i32", U16, I32, I32, U32, (u32)(u8)sat<i8>(a >> (c & 31)) | (u32)(u8)sat<i8>(b >> (c & 31)) << 8);
    R3("v_ashr_pk_u8_i32", U16, I32, I32, U32, (u32)sat<u8>(a >> (c & 31)) | (u32)sat<u8>(b >> (c & 31)) << 8);
}
} // namespace gfxemu
