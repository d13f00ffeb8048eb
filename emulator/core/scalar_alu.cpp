// Scalar arithmetic.
#include "core/alu.h"

namespace gfxemu {
namespace {
using H = Handler;
template <auto F, bool SCC> void s1_32(Wave& w, const Inst& i) {
    u32 r = F(rd32(w, i.op[1]));
    wr32(w, i.op[0], r);
    if (SCC) w.scc = r != 0;
}
template <auto F, bool SCC> void s1_64(Wave& w, const Inst& i) {
    u64 r = F(rd64(w, i.op[1]));
    wr64(w, i.op[0], r);
    if (SCC) w.scc = r != 0;
}
template <auto F> void s1_32_64(Wave& w, const Inst& i) {
    wr32(w, i.op[0], F(rd64(w, i.op[1])));
} // 32-bit result of a 64-bit source
template <auto F, bool SCC> void s2_32(Wave& w, const Inst& i) {
    u32 r = F(rd32(w, i.op[1]), rd32(w, i.op[2]));
    wr32(w, i.op[0], r);
    if (SCC) w.scc = r != 0;
}
template <auto F, bool SCC> void s2_64(Wave& w, const Inst& i) {
    u64 r = F(rd64(w, i.op[1]), rd64(w, i.op[2]));
    wr64(w, i.op[0], r);
    if (SCC) w.scc = r != 0;
}
template <auto F, bool SCC> void s2_64s(Wave& w, const Inst& i) {
    u64 r = F(rd64(w, i.op[1]), rd32(w, i.op[2]));
    wr64(w, i.op[0], r);
    if (SCC) w.scc = r != 0;
}
template <auto F> void scmp32(Wave& w, const Inst& i) { w.scc = F(rd32(w, i.op[0]), rd32(w, i.op[1])); }
template <auto F> void scmp64(Wave& w, const Inst& i) { w.scc = F(rd64(w, i.op[0]), rd64(w, i.op[1])); }
template <auto F> void scmpf(Wave& w, const Inst& i) { w.scc = F(bitsf(rd32(w, i.op[0])), bitsf(rd32(w, i.op[1]))); }
template <auto F> void scmph(Wave& w, const Inst& i) {
    auto h = [&](const Opnd& o) { return h2f(o.kind == Opnd::IMM ? o.imm16 : (u16)rd32(w, o)); };
    w.scc = F(h(i.op[0]), h(i.op[1]));
}
inline float rdf(Wave& w, const Opnd& o) {
    u32 u = rd32(w, o);
    if (o.abs) u &= 0x7fffffff;
    if (o.neg) u ^= 0x80000000;
    return bitsf(u);
}
inline float rdh(Wave& w, const Opnd& o) {
    u16 u = o.kind == Opnd::IMM ? o.imm16 : (u16)rd32(w, o);
    return h2f(u);
}
template <auto F> void sf2(Wave& w, const Inst& i) { wr32(w, i.op[0], fbits(F(rdf(w, i.op[1]), rdf(w, i.op[2])))); }
template <auto F> void sf1(Wave& w, const Inst& i) { wr32(w, i.op[0], fbits(F(rdf(w, i.op[1])))); }
template <auto F> void sh2(Wave& w, const Inst& i) { wr32(w, i.op[0], f2h(F(rdh(w, i.op[1]), rdh(w, i.op[2])))); }
template <auto F> void sh1(Wave& w, const Inst& i) { wr32(w, i.op[0], f2h(F(rdh(w, i.op[1])))); }

template <int OP> void s_addsub(Wave& w, const Inst& i) {
    u32 a = rd32(w, i.op[1]), b = rd32(w, i.op[2]);
    u64 r;
    bool c;
    switch (OP) {
    case 0:
        r = (u64)a + b;
        c = r >> 32;
        break; // add_u32
    case 1:
        r = (u64)a - b;
        c = b > a;
        break; // sub_u32
    case 2: {
        i64 s = (i64)(i32)a + (i32)b;
        r = (u32)s;
        c = s != (i32)s;
        break;
    }
    case 3: {
        i64 s = (i64)(i32)a - (i32)b;
        r = (u32)s;
        c = s != (i32)s;
        break;
    }
    case 4:
        r = (u64)a + b + w.scc;
        c = r >> 32;
        break; // addc
    default:
        r = (u64)a - b - w.scc;
        c = (u64)b + w.scc > a;
        break; // subb
    }
    wr32(w, i.op[0], (u32)r);
    w.scc = c;
}
template <int N> void s_lshl_add(Wave& w, const Inst& i) {
    u64 r = ((u64)rd32(w, i.op[1]) << N) + rd32(w, i.op[2]);
    wr32(w, i.op[0], (u32)r);
    w.scc = r >> 32 != 0;
}
template <int OP, bool SIGNED> void s_minmax(Wave& w, const Inst& i) {
    u32 a = rd32(w, i.op[1]), b = rd32(w, i.op[2]);
    bool first = OP == 0 ? (SIGNED ? (i32)a < (i32)b : a < b) : (SIGNED ? (i32)a >= (i32)b : a >= b);
    if (OP == 0) {
        first = SIGNED ? (i32)a < (i32)b : a < b;
    }
    wr32(w, i.op[0], first ? a : b);
    w.scc = first;
}
template <bool SIGNED> void s_bfe32(Wave& w, const Inst& i) {
    u32 a = rd32(w, i.op[1]), b = rd32(w, i.op[2]), o = b & 31, n = b >> 16 & 127;
    u32 r = 0;
    if (n) {
        if (SIGNED) {
            i64 s = (i64)(i32)a >> o;
            r = n >= 32 ? (u32)s : (u32)((i64)((u64)s << (64 - n)) >> (64 - n));
        } else
            r = n >= 32 ? a >> o : (a >> o) & ((1u << n) - 1);
    }
    wr32(w, i.op[0], r);
    w.scc = r != 0;
}
template <bool SIGNED> void s_bfe64(Wave& w, const Inst& i) {
    u64 a = rd64(w, i.op[1]);
    u32 b = rd32(w, i.op[2]), o = b & 63, n = b >> 16 & 127;
    u64 r = 0;
    if (n) {
        if (SIGNED) {
            i64 s = (i64)a >> o;
            r = n >= 64 ? (u64)s : (u64)((i64)((u64)s << (64 - n)) >> (64 - n));
        } else
            r = n >= 64 ? a >> o : (a >> o) & ((1ull << n) - 1);
    }
    wr64(w, i.op[0], r);
    w.scc = r != 0;
}
template <auto F, bool W64> void saveexec(Wave& w, const Inst& i) { // D = EXEC; EXEC = F(S0, EXEC)
    if (W64) {
        u64 s = rd64(w, i.op[1]), e;
        e = w.s64(S_EXEC);
        u64 r = F(s, e);
        wr64(w, i.op[0], e);
        w.set_s64(S_EXEC, r);
        w.scc = r != 0;
    } else {
        u32 s = rd32(w, i.op[1]), e = w.s[S_EXEC];
        u32 r = (u32)F((u64)s, (u64)e);
        wr32(w, i.op[0], e);
        w.s[S_EXEC] = r;
        w.scc = r != 0;
    }
}
template <auto F, bool W64> void wrexec(Wave& w, const Inst& i) {
    if (W64) {
        u64 r = F(rd64(w, i.op[1]), w.s64(S_EXEC));
        w.set_s64(S_EXEC, r);
        wr64(w, i.op[0], r);
        w.scc = r != 0;
    } else {
        u32 r = (u32)F((u64)rd32(w, i.op[1]), (u64)w.s[S_EXEC]);
        w.s[S_EXEC] = r;
        wr32(w, i.op[0], r);
        w.scc = r != 0;
    }
}
u32 wqm32(u32 a) {
    u32 r = 0;
    for (int k = 0; k < 32; k += 4)
        if (a >> k & 15) r |= 15u << k;
    return r;
}

void s_cmov32(Wave& w, const Inst& i) {
    if (w.scc) wr32(w, i.op[0], rd32(w, i.op[1]));
}
void s_cmov64(Wave& w, const Inst& i) {
    if (w.scc) wr64(w, i.op[0], rd64(w, i.op[1]));
}
void s_cmovk(Wave& w, const Inst& i) {
    if (w.scc) wr32(w, i.op[0], (u32)(i32)(i16)rd32(w, i.op[1]));
}
void s_csel32(Wave& w, const Inst& i) { wr32(w, i.op[0], rd32(w, i.op[w.scc ? 1 : 2])); }
void s_csel64(Wave& w, const Inst& i) { wr64(w, i.op[0], rd64(w, i.op[w.scc ? 1 : 2])); }
void s_movk(Wave& w, const Inst& i) { wr32(w, i.op[0], (u32)(i32)(i16)rd32(w, i.op[1])); }
void s_addk(Wave& w, const Inst& i) {
    i64 s = (i64)(i32)rd32(w, i.op[0]) + (i16)rd32(w, i.op[1]);
    wr32(w, i.op[0], (u32)s);
    w.scc = s != (i32)s;
}
void s_mulk(Wave& w, const Inst& i) { wr32(w, i.op[0], rd32(w, i.op[0]) * (u32)(i32)(i16)rd32(w, i.op[1])); }
template <auto F, bool SX> void s_cmpk(Wave& w, const Inst& i) {
    u32 k = rd32(w, i.op[1]);
    w.scc = F(rd32(w, i.op[0]), SX ? (u32)(i32)(i16)k : k & 0xffff);
}
template <int OP> void s_bitset(Wave& w, const Inst& i) {
    if (OP < 2) {
        u32 b = 1u << (rd32(w, i.op[1]) & 31), d = rd32(w, i.op[0]);
        wr32(w, i.op[0], OP ? d | b : d & ~b);
    } else {
        u64 b = 1ull << (rd32(w, i.op[1]) & 63), d = rd64(w, i.op[0]);
        wr64(w, i.op[0], OP == 3 ? d | b : d & ~b);
    }
}
template <int OP> void s_bitcmp(Wave& w, const Inst& i) {
    bool b = OP < 2 ? rd32(w, i.op[0]) >> (rd32(w, i.op[1]) & 31) & 1 : rd64(w, i.op[0]) >> (rd32(w, i.op[1]) & 63) & 1;
    w.scc = b == (OP & 1);
}
void s_absdiff(Wave& w, const Inst& i) {
    i64 d = (i64)(i32)rd32(w, i.op[1]) - (i32)rd32(w, i.op[2]);
    u32 r = (u32)d;
    if ((i32)r < 0) r = 0u - r;
    wr32(w, i.op[0], r);
    w.scc = r != 0;
}
void s_abs(Wave& w, const Inst& i) {
    u32 a = rd32(w, i.op[1]);
    u32 r = (i32)a < 0 ? 0u - a : a;
    wr32(w, i.op[0], r);
    w.scc = r != 0;
}
void s_bitrep(Wave& w, const Inst& i) {
    u32 a = rd32(w, i.op[1]);
    u64 r = 0;
    for (int k = 0; k < 32; k++)
        if (a >> k & 1) r |= 3ull << (2 * k);
    wr64(w, i.op[0], r);
}
void s_fmac(Wave& w, const Inst& i) {
    wr32(w, i.op[0], fbits(std::fma(rdf(w, i.op[1]), rdf(w, i.op[2]), rdf(w, i.op[0]))));
}
void s_fmak(Wave& w, const Inst& i) {
    wr32(w, i.op[0], fbits(std::fma(rdf(w, i.op[1]), rdf(w, i.op[2]), rdf(w, i.op[3]))));
}
void s_fmach(Wave& w, const Inst& i) {
    wr32(w, i.op[0], f2h((float)((double)rdh(w, i.op[1]) * rdh(w, i.op[2]) + (double)rdh(w, i.op[0]))));
}
template <class I> I satf(float x) {
    if (x != x) return 0;
    double d = x;
    if (d <= (double)std::numeric_limits<I>::min()) return std::numeric_limits<I>::min();
    if (d >= (double)std::numeric_limits<I>::max()) return std::numeric_limits<I>::max();
    return (I)x;
}
float fmin_(float a, float b) {
    return std::isnan(a) ? b : std::isnan(b) ? a : a < b ? a : b < a ? b : std::signbit(a) ? a : b;
}
float fmax_(float a, float b) {
    return std::isnan(a) ? b : std::isnan(b) ? a : a > b ? a : b > a ? b : std::signbit(a) ? b : a;
}
float pmin_(float a, float b) { return std::isnan(a) ? a : std::isnan(b) ? b : fmin_(a, b); }
float pmax_(float a, float b) { return std::isnan(a) ? a : std::isnan(b) ? b : fmax_(a, b); }
inline u32 flbit_i(u32 a) {
    u32 x = (i32)a < 0 ? ~a : a;
    return x ? (u32)std::countl_zero(x) : ~0u;
}
inline u32 flbit_i64(u64 a) {
    u64 x = (i64)a < 0 ? ~a : a;
    return x ? (u32)std::countl_zero(x) : ~0u;
}
} // namespace

void register_scalar(OpTable& t) {
    auto S = [&](const std::string& n, H h) { t[n] = {h, Cls::salu}; };
#define L1(...) [](u32 a) { return (u32)(__VA_ARGS__); }
#define L1D(...) [](u64 a) { return (u64)(__VA_ARGS__); }
#define L1Q(...) [](u64 a) { return (u32)(__VA_ARGS__); }
#define L2(...) [](u32 a, u32 b) { return (u32)(__VA_ARGS__); }
#define L2D(...) [](u64 a, u64 b) { return (u64)(__VA_ARGS__); }
#define L2S(...) [](u64 a, u32 b) { return (u64)(__VA_ARGS__); }
#define C2(...) [](u32 a, u32 b) { return (bool)(__VA_ARGS__); }
#define C2D(...) [](u64 a, u64 b) { return (bool)(__VA_ARGS__); }
#define F2(...) [](float a, float b) { return (__VA_ARGS__); }
#define F1(...) [](float a) { return (float)(__VA_ARGS__); }
    S("s_mov_b32", &s1_32<L1(a), false>);
    S("s_mov_b64", &s1_64<L1D(a), false>);
    S("s_not_b32", &s1_32<L1(~a), true>);
    S("s_not_b64", &s1_64<L1D(~a), true>);
    S("s_cmov_b32", &s_cmov32);
    S("s_cmov_b64", &s_cmov64);
    S("s_cmovk_i32", &s_cmovk);
    S("s_cselect_b32", &s_csel32);
    S("s_cselect_b64", &s_csel64);
    S("s_movk_i32", &s_movk);
    S("s_addk_i32", &s_addk);
    S("s_mulk_i32", &s_mulk);
    S("s_brev_b32", &s1_32<L1([](u32 x) {
        u32 r = 0;
        for (int k = 0; k < 32; k++) r |= (x >> k & 1) << (31 - k);
        return r;
    }(a)),
                        false>);
    S("s_brev_b64", &s1_64<L1D([](u64 x) {
        u64 r = 0;
        for (int k = 0; k < 64; k++) r |= (x >> k & 1) << (63 - k);
        return r;
    }(a)),
                        false>);
    S("s_bcnt1_i32_b32", &s1_32<L1(std::popcount(a)), true>);
    S("s_bcnt0_i32_b32", &s1_32<L1(32 - std::popcount(a)), true>);
    t["s_bcnt1_i32_b64"] = {[](Wave& w, const Inst& i) {
                                u32 r = (u32)std::popcount(rd64(w, i.op[1]));
                                wr32(w, i.op[0], r);
                                w.scc = r != 0;
                            },
        Cls::salu};
    t["s_bcnt0_i32_b64"] = {[](Wave& w, const Inst& i) {
                                u32 r = 64 - (u32)std::popcount(rd64(w, i.op[1]));
                                wr32(w, i.op[0], r);
                                w.scc = r != 0;
                            },
        Cls::salu};
    S("s_ff1_i32_b32", &s1_32<L1(a ? std::countr_zero(a) : -1), false>);
    S("s_ff1_i32_b64", &s1_32_64<L1Q(a ? std::countr_zero(a) : -1)>);
    S("s_ff0_i32_b32", &s1_32<L1(~a ? std::countr_zero(~a) : -1), false>);
    S("s_ff0_i32_b64", &s1_32_64<L1Q(~a ? std::countr_zero(~a) : -1)>);
    S("s_flbit_i32_b32", &s1_32<L1(a ? std::countl_zero(a) : -1), false>);
    S("s_flbit_i32_b64", &s1_32_64<L1Q(a ? std::countl_zero(a) : -1)>);
    S("s_flbit_i32", &s1_32<L1(flbit_i(a)), false>);
    S("s_flbit_i32_i64", &s1_32_64<L1Q(flbit_i64(a))>);
    S("s_sext_i32_i8", &s1_32<L1((i32)(i8)a), false>);
    S("s_sext_i32_i16", &s1_32<L1((i32)(i16)a), false>);
    S("s_abs_i32", &s_abs);
    S("s_absdiff_i32", &s_absdiff);
    S("s_bitset0_b32", &s_bitset<0>);
    S("s_bitset1_b32", &s_bitset<1>);
    S("s_bitset0_b64", &s_bitset<2>);
    S("s_bitset1_b64", &s_bitset<3>);
    S("s_bitcmp0_b32", &s_bitcmp<0>);
    S("s_bitcmp1_b32", &s_bitcmp<1>);
    S("s_bitcmp0_b64", &s_bitcmp<2>);
    S("s_bitcmp1_b64", &s_bitcmp<3>);
    S("s_bitreplicate_b64_b32", &s_bitrep);
    S("s_wqm_b32", &s1_32<L1(wqm32(a)), true>);
    S("s_wqm_b64", &s1_64<L1D(wqm32((u32)a) | (u64)wqm32((u32)(a >> 32)) << 32), true>);
    S("s_add_u32", &s_addsub<0>);
    S("s_sub_u32", &s_addsub<1>);
    S("s_add_i32", &s_addsub<2>);
    S("s_sub_i32", &s_addsub<3>);
    S("s_addc_u32", &s_addsub<4>);
    S("s_subb_u32", &s_addsub<5>);
    S("s_add_nc_u64", &s2_64<L2D(a + b), false>);
    S("s_sub_nc_u64", &s2_64<L2D(a - b), false>);
    S("s_mul_u64", &s2_64<L2D(a * b), false>);
    S("s_add_u64", &s2_64<L2D(a + b), false>);
    S("s_sub_u64", &s2_64<L2D(a - b), false>);
    S("s_lshl1_add_u32", &s_lshl_add<1>);
    S("s_lshl2_add_u32", &s_lshl_add<2>);
    S("s_lshl3_add_u32", &s_lshl_add<3>);
    S("s_lshl4_add_u32", &s_lshl_add<4>);
    S("s_min_i32", &s_minmax<0, true>);
    S("s_min_u32", &s_minmax<0, false>);
    S("s_max_i32", &s_minmax<1, true>);
    S("s_max_u32", &s_minmax<1, false>);
    S("s_mul_i32", &s2_32<L2(a * b), false>);
    S("s_mul_hi_u32", &s2_32<L2((u64)a * b >> 32), false>);
    S("s_mul_hi_i32", &s2_32<L2((i64)(i32)a * (i32)b >> 32), false>);
    S("s_pack_ll_b32_b16", &s2_32<L2((a & 0xffff) | b << 16), false>);
    S("s_pack_lh_b32_b16", &s2_32<L2((a & 0xffff) | (b & 0xffff0000)), false>);
    S("s_pack_hh_b32_b16", &s2_32<L2(a >> 16 | (b & 0xffff0000)), false>);
    S("s_pack_hl_b32_b16", &s2_32<L2(a >> 16 | b << 16), false>);
    S("s_lshl_b32", &s2_32<L2(a << (b & 31)), true>);
    S("s_lshr_b32", &s2_32<L2(a >> (b & 31)), true>);
    S("s_ashr_i32", &s2_32<L2((i32)a >> (b & 31)), true>);
    S("s_lshl_b64", &s2_64s<L2S(a << (b & 63)), true>);
    S("s_lshr_b64", &s2_64s<L2S(a >> (b & 63)), true>);
    S("s_ashr_i64", &s2_64s<L2S((i64)a >> (b & 63)), true>);
    S("s_bfm_b32", &s2_32<L2(((1u << (a & 31)) - 1) << (b & 31)), false>);
    t["s_bfm_b64"] = {[](Wave& w, const Inst& i) {
                          u32 a = rd32(w, i.op[1]), b = rd32(w, i.op[2]);
                          wr64(w, i.op[0], ((1ull << (a & 63)) - 1) << (b & 63));
                      },
        Cls::salu};
    S("s_bfe_u32", &s_bfe32<false>);
    S("s_bfe_i32", &s_bfe32<true>);
    S("s_bfe_u64", &s_bfe64<false>);
    S("s_bfe_i64", &s_bfe64<true>);
#define LOGIC(n, e)                                                                                                    \
    S("s_" n "_b32", &s2_32<L2(e), true>);                                                                             \
    S("s_" n "_b64", &s2_64<L2D(e), true>)
    LOGIC("and", a & b);
    LOGIC("or", a | b);
    LOGIC("xor", a ^ b);
    LOGIC("andn2", a & ~b);
    LOGIC("orn2", a | ~b);
    LOGIC("nand", ~(a & b));
    LOGIC("nor", ~(a | b));
    LOGIC("xnor", ~(a ^ b));
#define SAVE(n, e)                                                                                                     \
    S("s_" n "_saveexec_b64", &saveexec<L2D(e), true>);                                                                \
    S("s_" n "_saveexec_b32", &saveexec<L2D(e), false>)
    SAVE("and", a & b);
    SAVE("or", a | b);
    SAVE("xor", a ^ b);
    SAVE("andn2", a & ~b);
    SAVE("orn2", a | ~b);
    SAVE("andn1", ~a & b);
    SAVE("orn1", ~a | b);
    SAVE("nand", ~(a & b));
    SAVE("nor", ~(a | b));
    SAVE("xnor", ~(a ^ b));
#define WREX(n, e)                                                                                                     \
    S("s_" n "_wrexec_b64", &wrexec<L2D(e), true>);                                                                    \
    S("s_" n "_wrexec_b32", &wrexec<L2D(e), false>)
    WREX("andn2", a & ~b);
    WREX("andn1", ~a & b);
#define CMPS(n, e, es)                                                                                                 \
    S("s_cmp_" n "_u32", &scmp32<C2(e)>);                                                                              \
    S("s_cmp_" n "_i32", &scmp32<C2(es)>);                                                                             \
    S("s_cmpk_" n "_u32", &s_cmpk<C2(e), false>);                                                                      \
    S("s_cmpk_" n "_i32", &s_cmpk<C2(es), true>)
    CMPS("eq", a == b, a == b);
    CMPS("lg", a != b, a != b);
    CMPS("gt", a > b, (i32)a > (i32)b);
    CMPS("ge", a >= b, (i32)a >= (i32)b);
    CMPS("lt", a < b, (i32)a < (i32)b);
    CMPS("le", a <= b, (i32)a <= (i32)b);
    S("s_cmp_eq_u64", &scmp64<C2D(a == b)>);
    S("s_cmp_lg_u64", &scmp64<C2D(a != b)>);
    // scalar float (gfx12)
#define SFC(n, e)                                                                                                      \
    S("s_cmp_" n "_f32", &scmpf<F2((bool)(e))>);                                                                       \
    S("s_cmp_" n "_f16", &scmph<F2((bool)(e))>)
    SFC("lt", a < b);
    SFC("eq", a == b);
    SFC("le", a <= b);
    SFC("gt", a > b);
    SFC("lg", a < b || a > b);
    SFC("ge", a >= b);
    SFC("o", a == a && b == b);
    SFC("u", a != a || b != b);
    SFC("nge", !(a >= b));
    SFC("nlg", !(a < b || a > b));
    SFC("ngt", !(a > b));
    SFC("nle", !(a <= b));
    SFC("neq", !(a == b));
    SFC("nlt", !(a < b));
#define SF2(n, e)                                                                                                      \
    S("s_" n "_f32", &sf2<F2((float)(e))>);                                                                            \
    S("s_" n "_f16", &sh2<F2((float)(e))>)
    SF2("add", a + b);
    SF2("sub", a - b);
    SF2("mul", a * b);
    SF2("min_num", fmin_(a, b));
    SF2("max_num", fmax_(a, b));
    SF2("minimum", pmin_(a, b));
    SF2("maximum", pmax_(a, b));
    SF2("min", fmin_(a, b));
    SF2("max", fmax_(a, b));
#define SF1(n, e)                                                                                                      \
    S("s_" n "_f32", &sf1<F1(e)>);                                                                                     \
    S("s_" n "_f16", &sh1<F1(e)>)
    SF1("ceil", std::ceil(a));
    SF1("floor", std::floor(a));
    SF1("trunc", std::trunc(a));
    SF1("rndne", std::nearbyint(a));
    S("s_fmac_f32", &s_fmac);
    S("s_fmac_f16", &s_fmach);
    S("s_fmamk_f32", &s_fmak);
    S("s_fmaak_f32", &s_fmak);
    S("s_cvt_f32_i32", &s1_32<L1(fbits((float)(i32)a)), false>);
    S("s_cvt_f32_u32", &s1_32<L1(fbits((float)a)), false>);
    S("s_cvt_i32_f32", &s1_32<L1(satf<i32>(bitsf(a))), false>);
    S("s_cvt_u32_f32", &s1_32<L1(satf<u32>(bitsf(a))), false>);
    S("s_cvt_f16_f32", &s1_32<L1(f2h(bitsf(a))), false>);
    S("s_cvt_f32_f16", &s1_32<L1(fbits(h2f((u16)a))), false>);
    S("s_cvt_hi_f32_f16", &s1_32<L1(fbits(h2f((u16)(a >> 16)))), false>);
    S("s_cvt_pk_rtz_f16_f32", &s2_32<L2((u32)(u16)_cvtss_sh(bitsf(a), _MM_FROUND_TO_ZERO) |
                                         (u32)(u16)_cvtss_sh(bitsf(b), _MM_FROUND_TO_ZERO) << 16),
                                  false>);
    auto T = [&](const char* n, H h) { t[n] = {h, Cls::trans}; };
    T("v_s_exp_f32", &sf1<F1(flush((float)std::exp2((double)flush(a))))>);
    T("v_s_log_f32", &sf1<F1(std::log2((double)flush(a)))>);
    T("v_s_rcp_f32", &sf1<F1(flush((float)(1.0 / flush(a))))>);
    T("v_s_rsq_f32", &sf1<F1(flush((float)(1.0 / std::sqrt((double)flush(a)))))>);
    T("v_s_sqrt_f32", &sf1<F1(std::sqrt(a))>);
    T("v_s_exp_f16", &sh1<F1(std::exp2((double)a))>);
    T("v_s_log_f16", &sh1<F1(std::log2((double)a))>);
    T("v_s_rcp_f16", &sh1<F1(1.f / a)>);
    T("v_s_rsq_f16", &sh1<F1(1.0 / std::sqrt((double)a))>);
    T("v_s_sqrt_f16", &sh1<F1(std::sqrt(a))>);
}
} // namespace gfxemu
