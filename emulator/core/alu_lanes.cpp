// Moves between lanes (DPP, permlane), sub-dword selects (SDWA), registers indexed by M0.
#include "core/alu.h"

namespace gfxemu {

void dpp_row(Wave& w, const Inst& i, const u32* in, u32* out, u64& m) {
    const Dpp& d = *i.dpp;
    u64 ex = w.exec(), wm = d.write_mask;
    alignas(64) u32 t[64];
    for (int l = 0; l < w.lanes; l++) {
        u8 s = d.map[l];
        bool ok = s != 0xff && (d.fi || (ex >> s & 1));
        t[l] = ok ? in[s] : 0;
        if (!ok && !d.bound_zero) wm &= ~(1ull << l);
    }
    std::memcpy(out, t, (size_t)w.lanes * 4);
    m &= wm;
}

void sdwa_store(Wave& w, const Inst& i, u32* d, const u32* r, u64 m) {
    const Sdwa& s = *i.sdwa;
    for (int l = 0; l < w.lanes; l++)
        if (m >> l & 1) {
            if (s.dst_sel == 6) {
                d[l] = r[l];
                continue;
            }
            u32 sh = s.dst_sel >= 4 ? (s.dst_sel - 4u) * 16 : s.dst_sel * 8u, bits = s.dst_sel >= 4 ? 16 : 8;
            u32 mask = ((1u << bits) - 1) << sh, v = r[l] << sh & mask;
            if (s.dst_unused == 2)
                v |= d[l] & ~mask;
            else if (s.dst_unused == 1 && (v >> (sh + bits - 1) & 1))
                v |= sh + bits < 32 ? ~0u << (sh + bits) : 0;
            d[l] = v;
        }
}

namespace {

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

void register_lanes(OpTable& t) {
    auto V = [&](const std::string& n, Handler h, Cls c = Cls::valu) { t[n] = {h, c}; };
    V("v_permlane16_b32", &permlane16<false, false>);
    V("v_permlanex16_b32", &permlane16<true, false>);
    V("v_permlane16_var_b32", &permlane16<false, true>);
    V("v_permlanex16_var_b32", &permlane16<true, true>);
    V("v_permlane64_b32", &permlane64);
    V("v_permlane16_swap_b32", &permlane_swap<16>);
    V("v_permlane32_swap_b32", &permlane_swap<32>);
    V("v_movrels_b32", &movrels);
    V("v_movreld_b32", &movreld);
    V("v_movrelsd_b32", &movrelsd);
    V("v_mov_b64", &mov64_dpp);
}

} // namespace gfxemu
