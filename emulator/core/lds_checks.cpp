// LDS: bounds, races between waves, bank conflicts.
#include "core/memory.h"

#include <algorithm>

namespace gfxemu {

// ---------------------------------------------------------------- bounds
void lds_bounds(Wave& w, const Inst& i, const u32* address, u64 mask, u32 bytes) {
    u32 last = 0;
    if (mask == w.full)
        GFX_LANES(w, l, last = std::max(last, address[l]));
    else
        each_lane(mask, [&](int l) { last = std::max(last, address[l]); });
    if (!mask || (u64)last + bytes <= w.wg->lds_size) return;
    each_lane(mask, [&](int l) {
        if ((u64)address[l] + bytes > w.wg->lds_size)
            fault(w, i, Fault::Kind::lds_bounds,
                std::to_string(bytes) + "-byte access at LDS offset " + hex(address[l]) + ", " +
                    std::to_string(w.wg->lds_size) + " bytes allocated",
                l);
    });
}

// ---------------------------------------------------------------- races
static void race(Wave& w, const Inst& i, u32 dw, const char* what, u32 other_idx, u16 other_wave, int lane) {
    auto& im = *w.wg->run->code->impl;
    const Inst* o;
    {
        std::lock_guard<std::mutex> g(im.decode_mutex);
        o = im.insts[other_idx].get();
    }
    fault(w, i, Fault::Kind::lds_race,
        std::string(what) + " at LDS offset " + hex(dw * 4) + " conflicts with " +
            (other_wave >= 0xfffe ? "several waves" : "wave " + std::to_string(other_wave)) + " executing `" + o->text +
            "` at pc " + hex(o->pc - (u64)im.base) + " in the same barrier interval",
        lane);
}
static std::string dma_source(Workgroup& g, u32 at) {
    for (auto& p : g.waves)
        for (size_t e = 0; e < p->q[Q_VM].size(); e++)
            if (Dma* d = p->q[Q_VM].at(e).dma.get())
                for (u64 b = d->mask; b; b &= b - 1)
                    if (u32 a = d->addr[std::countr_zero(b)]; at + 4 > a && at < a + d->bytes)
                        return ": wave " + std::to_string(p->id) + ", `" + d->inst->text + "` at pc " +
                               hex(d->inst->pc - (u64)g.run->code->impl->base) + ", " +
                               std::to_string(p->q[Q_VM].size() - 1 - e) + " vector memory operations after it";
    return "";
}
// Waves that store the same value to the same place do not race: compilers let every holder of a replicated value store
// it.
void lds_touch(Wave& w, const Inst& i, const u32* addr, u64 mask, u32 bytes, bool write, bool atomic, StoreValue value,
    const void* ctx) {
    Workgroup& g = *w.wg;
    u32 E = w.epoch;
    u16 W = (u16)w.id;
    if (g.waves.size() < 2 && !w.q[Q_VM].size()) return;
    bool wr = write && !atomic;
    u32 last = ~0u, me = 1u << (W & 31);
    for (u64 b = mask; b; b &= b - 1) {
        int l = std::countr_zero(b);
        u32 a = addr[l], e = a + bytes;
        if (a == last) continue;
        last = a;
        for (u32 k = a / 4; k * 4 < e; k++) {
            Shadow& s = g.shadow[k];
            u32 lo = std::max(a, k * 4) & 3, hi = std::min(e, k * 4 + 4) - k * 4;
            u8 bm = (u8)(((1u << hi) - 1) & ~((1u << lo) - 1));
            if (s.dma) [[unlikely]]
                fault(w, i, s.dma_wave == (W & 255) ? Fault::Kind::wait_hazard : Fault::Kind::lds_race,
                    "LDS offset " + hex(k * 4) + " is the target of an LDS-DMA load that has not been waited for" +
                        dma_source(g, k * 4),
                    l);
            bool same = false;
            if (s.wepoch == E && (s.wset & ~me) && (s.wmask & bm)) [[unlikely]] {
                if (wr && value) {
                    same = true;
                    for (u32 x = lo; x < hi; x++)
                        if (g.lds[k * 4 + x] != value(w, i, ctx, l, k * 4 + x - a)) same = false;
                }
                if (wr ? !same : !(s.wset & me))
                    race(w, i, k, wr ? "write" : "read", s.winst, s.wwave == W ? 0xfffe : s.wwave, l);
            }
            if (wr) {
                if (s.repoch == E && (s.rset & ~me & ~(same ? s.wset : 0)) && (s.rmask & bm)) [[unlikely]]
                    race(w, i, k, "write", s.rinst, s.rwave, l);
                if (same) {
                    s.wmask |= bm;
                    s.wset |= me;
                } else {
                    s.wmask = s.wepoch == E && s.wwave == W ? s.wmask | bm : bm;
                    s.wset = me;
                }
                s.wepoch = E;
                s.wwave = W;
                s.winst = i.idx;
            } else {
                if (s.repoch == E && (s.rset == me || (s.rmask & bm))) {
                    if (s.rset != me) s.rwave = 0xfffe;
                    s.rset |= me;
                    s.rmask |= bm;
                } else {
                    s.repoch = E;
                    s.rwave = W;
                    s.rset = me;
                    s.rmask = bm;
                    s.rinst = i.idx;
                }
            }
        }
    }
}
// LDS operations still outstanding when their wave signals a barrier belong to the next interval as well.
void remark_outstanding(Wave& w) {
    Workgroup& g = *w.wg;
    if (!g.run->chk.race || g.waves.size() < 2) return;
    u32 E = w.epoch + 1;
    u16 W = (u16)w.id;
    FifoQ& q = w.q[Q_LGKM];
    for (size_t n = 0; n < q.size(); n++)
        for (LdsOp* p : {q.at(n).lop.get(), q.at(n).lop2.get()})
            if (p)
                for (u64 b = p->mask; b; b &= b - 1) {
                    u32 a = p->addr[std::countr_zero(b)];
                    for (u32 k = a / 4; k * 4 < a + p->bytes; k++) {
                        Shadow& s = g.shadow[k];
                        if (p->write) {
                            s.wset = (s.wepoch == E ? s.wset : 0) | 1u << (W & 31);
                            s.wepoch = E;
                            s.wwave = W;
                            s.wmask = 15;
                            s.winst = p->idx;
                        } else {
                            if (s.repoch != E) {
                                s.rset = 0;
                                s.rwave = W;
                            } else if (s.rset & ~(1u << (W & 31)))
                                s.rwave = 0xfffe;
                            s.repoch = E;
                            s.rset |= 1u << (W & 31);
                            s.rmask = 15;
                            s.rinst = p->idx;
                        }
                    }
                }
}
// Bank conflicts. Banks are 4 bytes wide: 32 of them; 64 for the 64- and 128-bit reads of gfx950. A pass serves as many
// lanes as fill the banks once (32 dwords: 32 lanes of b32, 16 of b64, 8 of b128; twice that with 64 banks). A pass
// takes as many cycles as the largest number of distinct dwords on one bank; the cycles above one are counted. Lanes
// pass in order, but for the 96- and 128-bit reads of gfx9: order measured on MI300X and MI355X (HipKittens,
// analysis/paper_experiments/phases).
void count_bank_conflicts(Wave& w, const u32* at, u64 mask, u32 bytes, bool write) {
    static const u8 wide[32] = {0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15, 24, 25, 26, 27, 4, 5, 6, 7, 16, 17, 18, 19,
        8, 9, 10, 11, 28, 29, 30, 31};
    u32 banks = w.arch == Arch::gfx950 && !write && (bytes == 8 || bytes == 16) ? 64 : 32, dw = std::max(1u, bytes / 4);
    if (dw == 3) dw = 4;
    u32 moved[64];
    const u32* addr = at;
    if (w.gfx9 && !write && bytes >= 12) {
        u64 m = 0;
        for (u32 l = 0; l < 64; l++) {
            u32 s = (l & 32) | wide[l & 31];
            moved[l] = at[s];
            m |= (mask >> s & 1) << l;
        }
        addr = moved;
        mask = m;
    }
    u32 group = std::max(1u, banks / dw), nd = std::max(1u, bytes / 4);
    u64 extra = 0;
    for (u32 g0 = 0; g0 < (u32)w.lanes; g0 += group) {
        u64 gm = group >= 64 ? ~0ull : ((1ull << group) - 1) << g0;
        u64 b = mask & gm;
        if (!b) continue;
        u32 lo = ~0u, hi = 0;
        if (b == gm) {
            for (u32 l = g0; l < g0 + group; l++) {
                lo = std::min(lo, addr[l]);
                hi = std::max(hi, addr[l]);
            }
        } else
            for (u64 c = b; c; c &= c - 1) {
                u32 x = addr[std::countr_zero(c)];
                lo = std::min(lo, x);
                hi = std::max(hi, x);
            }
        if (hi + bytes - (lo & ~3u) <= banks * 4) continue; // a window of one row: every dword has its own bank
        u32 cnt[64], tbl[64][8];
        std::memset(cnt, 0, banks * 4);
        u32 mx = 0;
        u32 prev = ~0u;
        for (; b; b &= b - 1) {
            u32 d0 = addr[std::countr_zero(b)] / 4;
            if (d0 == prev) continue;
            prev = d0;
            for (u32 k = 0; k < nd; k++) {
                u32 d = d0 + k, bk = d & (banks - 1), c = cnt[bk];
                bool seen = false;
                for (u32 j = 0; j < c && j < 8; j++)
                    if (tbl[bk][j] == d) {
                        seen = true;
                        break;
                    }
                if (!seen) {
                    if (c < 8) tbl[bk][c] = d;
                    cnt[bk] = ++c;
                    mx = std::max(mx, c);
                }
            }
        }
        if (mx > 1) extra += mx - 1;
    }
    w.wg->ctr->lds_conflict_cycles += extra;
}

} // namespace gfxemu
