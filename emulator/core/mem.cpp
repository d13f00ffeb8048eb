// Memory instructions: scalar, global, flat, scratch, buffer, LDS; outstanding-operation counters; LDS race and bank
// models.
#include "core/alu.h"
#include <algorithm>

namespace gfxemu {
std::string describe_address(u64 a);
namespace {
bool starts(const std::string& s, const char* p) { return s.compare(0, std::strlen(p), p) == 0; }
bool ends(const std::string& s, const char* p) {
    size_t n = std::strlen(p);
    return s.size() >= n && s.compare(s.size() - n, n, p) == 0;
}

bool in_range(Wave& w, u64 a, u64 n) {
    if (a >= w.cached.lo && a + n <= w.cached.hi) return true;
    auto& v = w.wg->run->ranges;
    auto it = std::upper_bound(v.begin(), v.end(), a, [](u64 x, const Range& r) { return x < r.lo; });
    while (it != v.begin()) {
        --it;
        if (a >= it->lo && a + n <= it->hi && a + n >= a) {
            w.cached = *it;
            return true;
        }
        break;
    }
    return false;
}
inline void check_addr(Wave& w, const Inst& i, u64 a, u64 n, int lane) {
    if (!w.wg->run->chk.memory) return;
    if (!in_range(w, a, n)) [[unlikely]]
        fault(w, i, Fault::Kind::memory, std::to_string(n) + "-byte access at " + describe_address(a), lane);
}

// ---------------------------------------------------------------- queues
void mark(Wave& w, u32 first, u32 n, int d) {
    for (u32 k = 0; k < n; k++) w.pend[first + k] = (u8)(w.pend[first + k] + d);
}
void push(Wave& w, Queue q, Pending&& p) {
    mark(w, p.first, p.n, 1);
    w.pending_total++;
    w.q[q].push(std::move(p));
}

void land(Wave& w, Pending& p) {
    if (!p.dma) return;
    Dma& d = *p.dma;
    Workgroup& g = *w.wg;
    u64 m = d.mask;
    if (g.run->chk.race) {
        for (u64 b = m; b; b &= b - 1) {
            int l = std::countr_zero(b);
            for (u32 k = d.addr[l] / 4; k <= (d.addr[l] + d.bytes - 1) / 4; k++)
                if (g.shadow[k].dma) g.shadow[k].dma--;
        }
        lds_touch(
            w, *d.inst, d.addr, m, d.bytes, true, false,
            [](Wave&, const Inst&, const void* c, int l, u32 at) { return ((const Dma*)c)->data[l][at]; }, &d);
    }
    for (u64 b = m; b; b &= b - 1) {
        int l = std::countr_zero(b);
        std::memcpy(&g.lds[d.addr[l]], d.data[l], d.bytes);
    }
}
void retire_front(Wave& w, FifoQ& q) {
    Pending& p = q.at(0);
    mark(w, p.first, p.n, -1);
    w.pending_total--;
    if (p.dma) land(w, p);
    q.pop();
}
} // namespace

void retire_wait(Wave& w, int qi, int count) {
    FifoQ& q = w.q[qi];
    size_t n = q.size();
    if (n <= (size_t)count) return;
    size_t ooo = 0;
    for (size_t k = 0; k < n; k++) ooo += q.at(k).ooo;
    if (!ooo || count == 0) {
        while (q.size() > (size_t)count) retire_front(w, q);
        return;
    }
    // Scalar loads return in any order: only what must have finished retires.
    size_t done = n - (size_t)count;
    done = done > ooo ? done - ooo : 0;
    std::vector<Pending> keep;
    while (q.size()) {
        Pending& p = q.at(0);
        if (!p.ooo && done) {
            done--;
            retire_front(w, q);
            continue;
        }
        keep.push_back(std::move(p));
        q.pop();
    }
    for (auto& p : keep) q.push(std::move(p));
}
void retire_all(Wave& w) {
    for (auto& q : w.q)
        while (q.size()) retire_front(w, q);
}

void check_touch(Wave& w, const Inst& i) {
    if (!w.wg->run->chk.wait) return;
    for (int k = 0; k < i.ntouch; k++) {
        const Touch& t = i.touch[k];
        for (u32 r = t.reg; r < (u32)t.reg + t.n; r++)
            if (w.pend[r]) {
                const Pending* f = nullptr;
                bool other = false;
                const char* names[] = {
                    "vmcnt/loadcnt", "vscnt/storecnt", "lgkmcnt/dscnt", "kmcnt", "samplecnt", "bvhcnt"};
                const char* nm = "";
                bool vm = i.cls == Cls::vload || i.cls == Cls::vatomic || i.cls == Cls::vstore,
                     lds = i.cls == Cls::lds_read || i.cls == Cls::lds_permute || i.cls == Cls::lds_atomic;
                for (int q = 0; q < Q_N; q++)
                    for (size_t e = 0; e < w.q[q].size(); e++) {
                        Pending& p = w.q[q].at(e);
                        if (r < p.first || r >= p.first + p.n) continue;
                        bool same = (q == Q_VM && vm) || (q == Q_LGKM && lds && !p.ooo);
                        if (!(t.is_dst && same)) {
                            other = true;
                            f = &p;
                            nm = names[q];
                        }
                    }
                if (!other) continue;
                std::string reg = r >= 1024  ? "s" + std::to_string(r - 1024)
                                  : r >= 256 ? "a" + std::to_string(r - 256)
                                             : "v" + std::to_string(r);
                fault(w, i, Fault::Kind::wait_hazard,
                    reg + " is the destination of an outstanding load (" + nm + "): " +
                        (f && f->inst ? f->inst->text + " at pc " + hex(f->inst->pc - (u64)w.wg->run->code->impl->base)
                                      : "?"));
            }
    }
}

// ---------------------------------------------------------------- LDS model
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
                fault(w, i, s.flags == (W & 255) ? Fault::Kind::wait_hazard : Fault::Kind::lds_race,
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
static void bank_model(Wave& w, const u32* at, u64 mask, u32 bytes, bool write) {
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
static void count_segments(Wave& w, const u64* a, u64 mask, u32 bytes, bool store) {
    Counters& c = *w.wg->ctr;
    u64 seg[130];
    int n = 0;
    bool sorted = true;
    u64 act = 0;
    for (u64 b = mask; b; b &= b - 1) {
        u64 x = a[std::countr_zero(b)], s = x >> 6, e = (x + bytes - 1) >> 6;
        act++;
        if (!n || seg[n - 1] != s) {
            if (n && seg[n - 1] > s) sorted = false;
            seg[n++] = s;
        }
        if (e != s) seg[n++] = e;
    }
    if (!sorted) {
        std::sort(seg, seg + n);
        n = (int)(std::unique(seg, seg + n) - seg);
    }
    c.vmem_segments += (u64)n;
    (store ? c.vmem_store_bytes : c.vmem_load_bytes) += act * bytes;
}

namespace {
bool parse_size(const std::string& s, MemOp& m);
bool parse_atomic(const std::string& s, MemOp& m);
// ---------------------------------------------------------------- element transfers
void load_lanes(Wave& w, const MemOp& o, u8* const* p, u64 mask, u32 dst) {
    u32* d = w.row((int)dst);
    auto each = [&](auto f) {
        if (mask == w.full)
            for (int l = 0; l < w.lanes; l++) f(l);
        else
            for (u64 b = mask; b; b &= b - 1) f(std::countr_zero(b));
    };
    if (o.bytes >= 4) {
        switch (o.dwords) {
        case 1: each([&](int l) { std::memcpy(d + l, p[l], 4); }); break;
        case 2:
            each([&](int l) {
                u32 t[2];
                std::memcpy(t, p[l], 8);
                d[l] = t[0];
                d[64 + l] = t[1];
            });
            break;
        case 3:
            each([&](int l) {
                u32 t[3];
                std::memcpy(t, p[l], 12);
                d[l] = t[0];
                d[64 + l] = t[1];
                d[128 + l] = t[2];
            });
            break;
        default:
            each([&](int l) {
                u32 t[4];
                std::memcpy(t, p[l], 16);
                d[l] = t[0];
                d[64 + l] = t[1];
                d[128 + l] = t[2];
                d[192 + l] = t[3];
            });
        }
        return;
    }
    each([&](int l) {
        u32 v;
        if (o.bytes == 1)
            v = o.sx ? (u32)(i32)(i8)*p[l] : *p[l];
        else {
            u16 h;
            std::memcpy(&h, p[l], 2);
            v = o.sx ? (u32)(i32)(i16)h : h;
        }
        if (o.d16 == 1)
            v = (d[l] & 0xffff0000) | (v & 0xffff);
        else if (o.d16 == 2)
            v = (d[l] & 0xffff) | v << 16;
        d[l] = v;
    });
}
void zero_lane(Wave& w, const MemOp& o, int l, u32 dst, int dw) {
    u32* d = w.row((int)dst) + dw * 64 + l;
    if (o.d16 == 1)
        *d &= 0xffff0000;
    else if (o.d16 == 2)
        *d &= 0xffff;
    else
        *d = 0;
}
void store_lane(Wave& w, const Inst& i, const Opnd& data, u8* p, int l) {
    const MemOp& o = i.m;
    auto val = [&](int k) -> u32 { return data.kind == Opnd::V ? w.row(data.reg + k)[l] : rd32(w, data); };
    if (o.bytes >= 4) {
        for (int k = 0; k < o.dwords; k++) {
            u32 v = val(k);
            std::memcpy(p + 4 * k, &v, 4);
        }
        return;
    }
    u32 v = val(0);
    if (o.d16 == 2 || data.half == 2) v >>= 16;
    std::memcpy(p, &v, o.bytes);
}
u8 store_value(Wave& w, const Inst& i, const void* data, int l, u32 at) { // a StoreValue over a store's data operand
    const Opnd& d = *(const Opnd*)data;
    u32 x = d.kind == Opnd::V ? w.row(d.reg + (int)at / 4)[l] : rd32(w, d);
    if (i.m.bytes < 4 && (i.m.d16 == 2 || d.half == 2)) x >>= 16;
    return (u8)(x >> (at & 3) * 8);
}
template <class T> T at_apply(const Inst& i, T old, T x, T cmp) {
    using S = std::make_signed_t<T>;
    auto fl = [](T v) {
        if constexpr (sizeof(T) == 4)
            return std::bit_cast<float>(v);
        else
            return std::bit_cast<double>(v);
    };
    auto bits = [](auto v) { return std::bit_cast<T>(v); };
    switch (i.m.aop) {
    case AtOp::swap: return x;
    case AtOp::cmpswap: return old == cmp ? x : old;
    case AtOp::fcmpswap: return fl(old) == fl(cmp) ? x : old;
    case AtOp::add: return old + x;
    case AtOp::sub: return old - x;
    case AtOp::rsub: return x - old;
    case AtOp::smin: return (S)x < (S)old ? x : old;
    case AtOp::smax: return (S)x > (S)old ? x : old;
    case AtOp::umin: return std::min(x, old);
    case AtOp::umax: return std::max(x, old);
    case AtOp::and_: return old & x;
    case AtOp::or_: return old | x;
    case AtOp::xor_: return old ^ x;
    case AtOp::inc: return old >= x ? 0 : old + 1;
    case AtOp::dec: return old == 0 || old > x ? x : old - 1;
    case AtOp::fadd: return bits(fl(old) + fl(x));
    case AtOp::fmin: {
        auto a = fl(old), b = fl(x);
        return bits(b < a || a != a ? b : a);
    }
    case AtOp::fmax: {
        auto a = fl(old), b = fl(x);
        return bits(b > a || a != a ? b : a);
    }
    case AtOp::clamp_sub: return old < x ? 0 : old - x;
    case AtOp::cond_sub: return old >= x ? old - x : old;
    case AtOp::mskor: return (old & ~x) | cmp;
    case AtOp::pk_add_f16:
        return (T)(f2h(h2f((u16)old) + h2f((u16)x)) | (u32)f2h(h2f((u16)(old >> 16)) + h2f((u16)(x >> 16))) << 16);
    case AtOp::pk_add_bf16:
        return (T)(f2b(b2f((u16)old) + b2f((u16)x)) | (u32)f2b(b2f((u16)(old >> 16)) + b2f((u16)(x >> 16))) << 16);
    }
    return old;
}
template <class T> T at_mem(const Inst& i, u8* p, T x, T cmp) {
    T* q = (T*)p;
    T old = __atomic_load_n(q, __ATOMIC_RELAXED);
    while (true) {
        T n = at_apply<T>(i, old, x, cmp);
        if (__atomic_compare_exchange_n(q, &old, n, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) return old;
    }
}
// data: new value; for compare-and-swap the compare value sits at `cmp`.
void atomic_lane(Wave& w, const Inst& i, u8* p, int l, int data, int cmp, int dst, u32 imm) {
    const MemOp& o = i.m;
    auto v32 = [&](int r) { return r < 0 ? imm : w.row(r)[l]; };
    if (o.bytes == 4) {
        u32 r = at_mem<u32>(i, p, v32(data), cmp >= 0 ? v32(cmp) : 0);
        if (o.rtn && dst >= 0) w.row(dst)[l] = r;
    } else {
        auto v64 = [&](int r) { return r < 0 ? (u64)imm : w.row(r)[l] | (u64)w.row(r + 1)[l] << 32; };
        u64 r = at_mem<u64>(i, p, v64(data), cmp >= 0 ? v64(cmp) : 0);
        if (o.rtn && dst >= 0) {
            w.row(dst)[l] = (u32)r;
            w.row(dst + 1)[l] = (u32)(r >> 32);
        }
    }
}

// ---------------------------------------------------------------- scalar memory
void exec_smem(Wave& w, const Inst& i) {
    const Opnd& b = i.op[1];
    u64 base = b.kind == Opnd::S ? w.s64(b.reg) : 0;
    i64 off = i.offset;
    if (i.nop > 2 && i.op[2].kind == Opnd::IMM)
        off += (i64)(i.op[2].literal ? (i64)i.op[2].imm64i : (i64)i.op[2].imm64i);
    else if (i.nop > 2 && i.op[2].kind == Opnd::S)
        off += w.s[i.op[2].reg];
    u32 n = i.m.bytes >= 4 ? i.m.dwords * 4u : i.m.bytes;
    u32 buf[16] = {};
    if (i.imm == 1) { // s_buffer_load
        base &= 0xffffffffffffull;
        u32 stride = w.s[b.reg + 1] >> 16 & 0x3fff;
        u64 lim = (u64)w.s[b.reg + 2] * (stride ? stride : 1);
        for (u32 k = 0; k < n; k += 4) {
            u64 o = (u64)off + k;
            u32 e = std::min(4u, n - k);
            if (o + e <= lim) {
                check_addr(w, i, base + o, e, -1);
                std::memcpy((u8*)buf + k, (void*)(base + o), e);
            }
        }
    } else {
        u64 a = base + (u64)off;
        if (i.m.bytes >= 4) a &= ~3ull;
        check_addr(w, i, a, n, -1);
        std::memcpy(buf, (void*)a, n);
    }
    if (i.m.bytes == 1)
        buf[0] = i.m.sx ? (u32)(i32)(i8)buf[0] : buf[0] & 0xff;
    else if (i.m.bytes == 2)
        buf[0] = i.m.sx ? (u32)(i32)(i16)buf[0] : buf[0] & 0xffff;
    if (i.op[0].kind == Opnd::S) {
        for (u32 k = 0; k < i.op[0].n; k++) w.s[i.op[0].reg + k] = buf[k];
        Pending p;
        p.first = 1024 + i.op[0].reg;
        p.n = i.op[0].n;
        p.ooo = true;
        p.inst = &i;
        push(w, w.gfx12 ? Q_KM : Q_LGKM, std::move(p));
    }
}
void exec_sstore(Wave& w, const Inst& i) {
    const Opnd& b = i.op[1];
    u64 a = w.s64(b.reg) + (u64)i.offset;
    if (i.nop > 2 && i.op[2].kind == Opnd::IMM)
        a += i.op[2].imm64i;
    else if (i.nop > 2 && i.op[2].kind == Opnd::S)
        a += w.s[i.op[2].reg];
    a &= ~3ull;
    check_addr(w, i, a, i.m.dwords * 4u, -1);
    std::memcpy((void*)a, &w.s[i.op[0].reg], i.m.dwords * 4u);
    Pending p;
    p.ooo = true;
    p.inst = &i;
    push(w, Q_LGKM, std::move(p));
}
template <class T> T at_mem(const Inst& i, u8* p, T x, T cmp);
void exec_satomic(Wave& w, const Inst& i) {
    const Opnd& b = i.op[1];
    const Opnd& d = i.op[0];
    u64 a = w.s64(b.reg) + (u64)i.offset;
    bool cs = i.m.aop == AtOp::cmpswap;
    if (i.nop > 2 && i.op[2].kind == Opnd::IMM)
        a += i.op[2].imm64i;
    else if (i.nop > 2 && i.op[2].kind == Opnd::S)
        a += w.s[i.op[2].reg];
    check_addr(w, i, a, i.m.bytes, -1);
    Pending p;
    p.ooo = true;
    p.inst = &i;
    if (i.m.bytes == 4) {
        u32 r = at_mem<u32>(i, (u8*)a, w.s[d.reg], cs ? w.s[d.reg + 1] : 0);
        if (i.glc) w.s[d.reg] = r;
    } else {
        u64 r = at_mem<u64>(i, (u8*)a, w.s64(d.reg), cs ? w.s64(d.reg + 2) : 0);
        if (i.glc) w.set_s64(d.reg, r);
    }
    if (i.glc) {
        p.first = 1024 + d.reg;
        p.n = i.m.bytes / 4;
    }
    push(w, Q_LGKM, std::move(p));
}
void exec_nop(Wave&, const Inst&) {}

// ---------------------------------------------------------------- vector memory
enum { F_LOAD, F_STORE, F_ATOMIC };
void vm_pending(Wave& w, const Inst& i, bool flat, std::unique_ptr<Dma> dma = nullptr) {
    const MemOp& o = i.m;
    bool ret = !o.store && (!o.atomic || o.rtn);
    Pending p;
    p.inst = &i;
    p.flat = flat;
    if (ret && !o.lds_dma && i.op[0].kind == Opnd::V) {
        p.first = i.op[0].reg;
        p.n = i.op[0].n;
    }
    if (flat) {
        Pending q;
        q.first = p.first;
        q.n = p.n;
        q.inst = &i;
        q.flat = true;
        push(w, Q_LGKM, std::move(q));
    }
    p.dma = std::move(dma);
    push(w, w.gfx9 || ret ? Q_VM : Q_VS, std::move(p));
}
void transpose_store(Wave& w, const Inst& i, u8 (*data)[16], u64 mask);

void exec_vmem(Wave& w, const Inst& i) {
    const MemOp& o = i.m;
    u64 ex = w.exec(), mask = ex;
    int ka = o.store || (o.atomic && !o.rtn) ? 0 : 1, kd = o.store ? 1 : o.atomic ? (o.rtn ? 2 : 1) : -1;
    if (o.lds_dma) ka = 0;
    const u32 bytes = o.bytes >= 4 && !o.atomic ? o.dwords * 4u : o.bytes;
    u64 a[64];
    u8* p[64];
    bool is_lds[64];
    u64 lds_mask = 0, glob = mask;
    (void)is_lds;
    if (o.space == Space::global || o.space == Space::flat) {
        const Opnd& va = i.op[ka];
        int ks = o.space == Space::flat ? 99 : (o.store ? 2 : o.atomic ? kd + 1 : ka + 1);
        const Opnd* sa = ks < i.nop ? &i.op[ks] : nullptr;
        if (o.space == Space::flat && i.nop > (o.store ? 2 : o.atomic ? kd + 1 : ka + 1))
            sa = &i.op[o.store ? 2 : o.atomic ? kd + 1 : ka + 1];
        if (sa && sa->kind == Opnd::S) {
            u64 s = w.s64(sa->reg) + (u64)i.offset;
            if (va.kind == Opnd::V) {
                const u32* v = w.row(va.reg);
                GFX_LANES(w, l, a[l] = s + v[l]);
            } else
                GFX_LANES(w, l, a[l] = s);
        } else {
            const u32* lo = w.row(va.reg);
            const u32* hi = w.row(va.reg + 1);
            u64 f = (u64)i.offset;
            GFX_LANES(w, l, a[l] = (lo[l] | (u64)hi[l] << 32) + f);
        }
        GFX_LANES(w, l, p[l] = (u8*)a[l]);
        if (o.space == Space::flat) {
            for (u64 b = mask; b; b &= b - 1) {
                int l = std::countr_zero(b);
                u64 ap = a[l] >> 32;
                if (ap == SHARED_APERTURE >> 32) {
                    u32 x = (u32)a[l];
                    if ((u64)x + bytes > w.wg->lds_size)
                        fault(w, i, Fault::Kind::lds_bounds,
                            "flat access at LDS offset " + hex(x) + ", " + std::to_string(w.wg->lds_size) +
                                " bytes allocated",
                            l);
                    p[l] = &w.wg->lds[x];
                    lds_mask |= 1ull << l;
                    glob &= ~(1ull << l);
                } else if (ap == PRIVATE_APERTURE >> 32) {
                    u32 x = (u32)a[l];
                    if ((u64)x + bytes > w.scratch_lane)
                        fault(w, i, Fault::Kind::memory,
                            "flat access at scratch offset " + hex(x) + ", " + std::to_string(w.scratch_lane) +
                                " bytes a lane",
                            l);
                    p[l] = w.scratch + (size_t)l * w.scratch_lane + x;
                    glob &= ~(1ull << l);
                }
            }
            if (lds_mask && w.wg->run->chk.race) {
                u32 la[64];
                for (int l = 0; l < w.lanes; l++) la[l] = (u32)a[l];
                lds_touch(w, i, la, lds_mask, bytes, o.store || o.atomic, o.atomic, o.store ? store_value : nullptr,
                    kd >= 0 ? &i.op[kd] : nullptr);
            }
        }
    } else if (o.space == Space::scratch) {
        const Opnd& va = i.op[ka];
        const Opnd& sa = i.op[o.store ? 2 : ka + 1];
        u32 s = sa.kind == Opnd::S ? w.s[sa.reg] : 0;
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            i64 x = (i64)(va.kind == Opnd::V ? (i32)w.row(va.reg)[l] : 0) + (i32)s + i.offset;
            if (x < 0 || (u64)x + bytes > w.scratch_lane)
                fault(w, i, Fault::Kind::memory,
                    "scratch offset " + hex((u64)x) + ", " + std::to_string(w.scratch_lane) + " bytes a lane", l);
            p[l] = w.scratch + (size_t)l * w.scratch_lane + x;
            a[l] = (u64)p[l];
        }
        glob = 0;
    }
    if (glob && w.wg->run->chk.memory) {
        u64 lo = ~0ull, hi = 0;
        for (u64 b = glob; b; b &= b - 1) {
            u64 x = a[std::countr_zero(b)];
            lo = std::min(lo, x);
            hi = std::max(hi, x);
        }
        if (!(lo >= w.cached.lo && hi + bytes <= w.cached.hi && hi >= lo))
            for (u64 b = glob; b; b &= b - 1) {
                int l = std::countr_zero(b);
                check_addr(w, i, a[l], bytes, l);
            }
    }
    if (o.space != Space::scratch && mask) count_segments(w, a, mask, bytes, o.store || (o.atomic && !o.rtn));
    if (o.atomic) {
        const Opnd& d = i.op[kd];
        bool cs = o.aop == AtOp::cmpswap || o.aop == AtOp::fcmpswap;
        int dst = o.rtn ? i.op[0].reg : -1;
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            if ((u64)p[l] & (o.bytes - 1)) fault(w, i, Fault::Kind::memory, "misaligned atomic at " + hex(a[l]), l);
            atomic_lane(w, i, p[l], l, d.reg, cs ? d.reg + (o.bytes == 8 ? 2 : 1) : -1, dst, 0);
        }
    } else if (o.store) {
        const Opnd& d = i.op[kd];
        if (o.bytes >= 4 && d.kind == Opnd::V) {
            const u32* r = w.row(d.reg);
            for (u64 b = mask; b; b &= b - 1) {
                int l = std::countr_zero(b);
                for (int k = 0; k < o.dwords; k++) std::memcpy(p[l] + 4 * k, r + k * 64 + l, 4);
            }
        } else
            for (u64 b = mask; b; b &= b - 1) {
                int l = std::countr_zero(b);
                store_lane(w, i, d, p[l], l);
            }
    } else if (o.lds_dma) {
        auto dma = std::make_unique<Dma>();
        dma->mask = mask;
        dma->inst = &i;
        u32 st = std::max(4u, bytes);
        dma->bytes = (u8)st;
        u32 m0 = w.s[S_M0] & 0x3ffff;
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            u32 la = m0 + (u32)i.offset + (u32)l * st;
            dma->addr[l] = la;
            if (la + st > w.wg->lds_size)
                fault(w, i, Fault::Kind::lds_bounds,
                    "LDS-DMA write at offset " + hex(la) + ", " + std::to_string(w.wg->lds_size) + " bytes allocated",
                    l);
            std::memset(dma->data[l], 0, 16);
            std::memcpy(dma->data[l], p[l], bytes);
            if (o.bytes < 4 && o.sx) {
                i32 v = o.bytes == 1 ? (i8)dma->data[l][0] : (i16)(dma->data[l][0] | dma->data[l][1] << 8);
                std::memcpy(dma->data[l], &v, 4);
            }
            if (w.wg->run->chk.race)
                for (u32 k = la / 4; k * 4 < la + st; k++) {
                    w.wg->shadow[k].dma++;
                    w.wg->shadow[k].flags = (u8)w.id;
                }
        }
        w.wg->ctr->lds_dma_bytes += (u64)std::popcount(mask) * st;
        vm_pending(w, i, false, std::move(dma));
        return;
    } else if (o.tr) {
        u8 data[64][16];
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            std::memcpy(data[l], p[l], bytes);
        }
        transpose_store(w, i, data, mask);
    } else
        load_lanes(w, o, p, mask, i.op[0].reg + 0u);
    vm_pending(w, i, o.space == Space::flat);
}

void exec_buffer(Wave& w, const Inst& i) {
    const MemOp& o = i.m;
    u64 mask = w.exec();
    int kv = o.lds_dma ? -1 : 0, ka = o.lds_dma ? 0 : 1;
    // vdata, vaddr|off, srsrc, soffset; the LDS form has no vdata
    if (o.lds_dma && i.op[0].kind == Opnd::S && i.op[0].n == 4) ka = -1;
    const Opnd& rs = i.op[ka + 1];
    const Opnd& so = i.op[ka + 2];
    if (rs.kind != Opnd::S) fault(w, i, Fault::Kind::unsupported, "buffer resource operand");
    u32 d0 = w.s[rs.reg], d1 = w.s[rs.reg + 1], d2 = w.s[rs.reg + 2], d3 = w.s[rs.reg + 3];
    u64 base = d0 | (u64)(d1 & 0xffff) << 32;
    u32 stride = d1 >> 16 & 0x3fff;
    bool swz = w.gfx12 ? (d1 >> 30 & 3) != 0 : d1 >> 31;
    bool tid = d3 >> 23 & 1;
    u32 soff = so.kind == Opnd::NUL ? 0 : rd32(w, so);
    const u32 bytes = o.bytes >= 4 && !o.atomic ? o.dwords * 4u : o.bytes;
    const Opnd* va = ka >= 0 ? &i.op[ka] : nullptr;
    const u32* vidx = nullptr;
    const u32* voff = nullptr;
    if (va && va->kind == Opnd::V) {
        if (i.idxen && i.offen) {
            vidx = w.row(va->reg);
            voff = w.row(va->reg + 1);
        } else if (i.idxen)
            vidx = w.row(va->reg);
        else if (i.offen)
            voff = w.row(va->reg);
    }
    u8* p[64];
    u64 a[64];
    u64 ok = 0, part = 0;
    u8 okdw[64] = {};
    int kd = kv;
    int dst = kv >= 0 && i.op[kv].kind == Opnd::V ? i.op[kv].reg : -1;
    if (base == SCRATCH_SRD_BASE && swz) { // private segment: per-lane offsets, scalar offsets scaled by the wave size
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            u64 x = (u64)soff / (u32)w.lanes + (voff ? voff[l] : 0) + (u64)i.offset;
            if (x + bytes > w.scratch_lane)
                fault(w, i, Fault::Kind::memory,
                    "scratch offset " + hex(x) + ", " + std::to_string(w.scratch_lane) + " bytes a lane", l);
            p[l] = w.scratch + (size_t)l * w.scratch_lane + x;
            a[l] = (u64)p[l];
            ok |= 1ull << l;
        }
        w.wg->ctr->scratch++;
    } else {
        // Without an index the address is linear whatever the swizzle bit says (gfx9: production kernels set it next to
        // cache swizzling).
        if (swz && stride && (!w.gfx9 || vidx || tid))
            fault(w, i, Fault::Kind::unsupported, "swizzled buffer resource");
        u32 sel = d3 >> 28 & 3;
        bool g10 = !w.gfx9;
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            u64 idx = (vidx ? vidx[l] : 0) + (tid ? (u64)l : 0), off = (u64)(voff ? voff[l] : 0) + (u64)i.offset;
            a[l] = base + soff + idx * stride + off;
            p[l] = (u8*)a[l];
            u32 nd = bytes >= 4 ? bytes / 4 : 1, es = bytes >= 4 && !o.atomic ? 4 : bytes;
            if (o.atomic) nd = 1;
            bool structured =
                stride != 0 && (g10 ? sel != 3 : vidx || tid); // gfx9 counts records by stride where an index is used
            if (structured) {
                bool oob = !g10 ? idx >= d2 : sel == 2 ? d2 == 0 : idx >= d2 || (sel == 0 && off + bytes > stride);
                if (!oob) {
                    ok |= 1ull << l;
                    okdw[l] = (u8)((1u << nd) - 1);
                }
            } else {
                u64 o0 = idx * stride + off + soff;
                u8 q = 0;
                for (u32 k = 0; k < nd; k++)
                    if (o0 + k * es + es <= d2 && o0 <= 0xffffffffull + 0x100000000ull) q |= (u8)(1u << k);
                okdw[l] = q;
                if (q == (1u << nd) - 1)
                    ok |= 1ull << l;
                else if (q)
                    part |= 1ull << l;
            }
        }
        if (w.wg->run->chk.memory) {
            u64 lo = ~0ull, hi = 0;
            for (u64 b = ok; b; b &= b - 1) {
                u64 x = a[std::countr_zero(b)];
                lo = std::min(lo, x);
                hi = std::max(hi, x);
            }
            if (ok && !(lo >= w.cached.lo && hi + bytes <= w.cached.hi))
                for (u64 b = ok; b; b &= b - 1) {
                    int l = std::countr_zero(b);
                    check_addr(w, i, a[l], bytes, l);
                }
            for (u64 b = part; b; b &= b - 1) {
                int l = std::countr_zero(b);
                for (u32 k = 0; k < 4; k++)
                    if (okdw[l] >> k & 1) check_addr(w, i, a[l] + 4 * k, 4, l);
            }
        }
        if (ok) count_segments(w, a, ok, bytes, o.store || (o.atomic && !o.rtn));
    }
    if (o.atomic) {
        bool cs = o.aop == AtOp::cmpswap || o.aop == AtOp::fcmpswap;
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            if (ok >> l & 1)
                atomic_lane(w, i, p[l], l, i.op[kd].reg, cs ? i.op[kd].reg + (o.bytes == 8 ? 2 : 1) : -1, dst, 0);
            else if (o.rtn) {
                w.row(dst)[l] = 0;
                if (o.bytes == 8) w.row(dst + 1)[l] = 0;
            }
        }
    } else if (o.store) {
        for (u64 b = ok; b; b &= b - 1) {
            int l = std::countr_zero(b);
            store_lane(w, i, i.op[kd], p[l], l);
        }
        for (u64 b = part; b; b &= b - 1) {
            int l = std::countr_zero(b);
            for (int k = 0; k < o.dwords; k++)
                if (okdw[l] >> k & 1) std::memcpy(p[l] + 4 * k, &w.row(i.op[kd].reg + k)[l], 4);
        }
    } else if (o.lds_dma) {
        auto dma = std::make_unique<Dma>();
        dma->mask = mask;
        dma->inst = &i;
        u32 st = std::max(4u, bytes);
        dma->bytes = (u8)st;
        u32 m0 = w.s[S_M0] & 0x3ffff;
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            u32 la = m0 + (u32)i.offset + (u32)l * st;
            dma->addr[l] = la;
            if (la + st > w.wg->lds_size)
                fault(w, i, Fault::Kind::lds_bounds,
                    "LDS-DMA write at offset " + hex(la) + ", " + std::to_string(w.wg->lds_size) + " bytes allocated",
                    l);
            std::memset(dma->data[l], 0, 16);
            if (ok >> l & 1)
                std::memcpy(dma->data[l], p[l], bytes);
            else
                for (u32 k = 0; k < 4; k++)
                    if (okdw[l] >> k & 1) std::memcpy(dma->data[l] + 4 * k, p[l] + 4 * k, 4);
            if (o.bytes < 4 && o.sx) {
                i32 v = o.bytes == 1 ? (i8)dma->data[l][0] : (i16)(dma->data[l][0] | dma->data[l][1] << 8);
                std::memcpy(dma->data[l], &v, 4);
            }
            if (w.wg->run->chk.race)
                for (u32 k = la / 4; k * 4 < la + st; k++) {
                    w.wg->shadow[k].dma++;
                    w.wg->shadow[k].flags = (u8)w.id;
                }
        }
        w.wg->ctr->lds_dma_bytes += (u64)std::popcount(mask) * st;
        vm_pending(w, i, false, std::move(dma));
        return;
    } else {
        // Lanes are read whole before any is written: the address register may be the destination.
        load_lanes(w, o, p, ok, (u32)dst);
        u64 rest = mask & ~ok;
        for (u64 b = rest; b; b &= b - 1) {
            int l = std::countr_zero(b);
            for (int k = 0; k < (o.bytes >= 4 ? o.dwords : 1); k++)
                if (okdw[l] >> k & 1)
                    std::memcpy(&w.row(dst + k)[l], p[l] + 4 * k, 4);
                else
                    zero_lane(w, o, l, (u32)dst, k);
        }
    }
    vm_pending(w, i, false);
}

// ---------------------------------------------------------------- LDS
void lds_pending(
    Wave& w, const Inst& i, bool ret, const u32* addr, u64 mask, u32 bytes, bool write, const u32* addr2 = nullptr) {
    Pending p;
    p.inst = &i;
    if (ret && i.op[0].kind == Opnd::V) {
        p.first = i.op[0].reg;
        p.n = i.op[0].n;
    }
    Workgroup& g = *w.wg;
    if (addr && g.run->chk.race && g.waves.size() > 1) {
        p.lop = std::make_unique<LdsOp>();
        LdsOp& o = *p.lop;
        o.mask = mask;
        o.bytes = (u16)bytes;
        o.write = write;
        o.idx = i.idx;
        std::memcpy(o.addr, addr, (size_t)w.lanes * 4);
        if (addr2) {
            p.lop2 = std::make_unique<LdsOp>();
            *p.lop2 = o;
            std::memcpy(p.lop2->addr, addr2, (size_t)w.lanes * 4);
        }
    }
    push(w, Q_LGKM, std::move(p));
}
void lds_bounds(Wave& w, const Inst& i, const u32* a, u64 mask, u32 bytes) {
    u32 mx = 0;
    if (mask == w.full)
        GFX_LANES(w, l, mx = std::max(mx, a[l]));
    else
        for (u64 b = mask; b; b &= b - 1) mx = std::max(mx, a[std::countr_zero(b)]);
    if (mask && (u64)mx + bytes > w.wg->lds_size)
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            if ((u64)a[l] + bytes > w.wg->lds_size)
                fault(w, i, Fault::Kind::lds_bounds,
                    std::to_string(bytes) + "-byte access at LDS offset " + hex(a[l]) + ", " +
                        std::to_string(w.wg->lds_size) + " bytes allocated",
                    l);
        }
}
void exec_ds(Wave& w, const Inst& i) {
    const MemOp& o = i.m;
    u64 mask = w.exec();
    Workgroup& g = *w.wg;
    bool rc = g.run->chk.race;
    int ka = o.store || (o.atomic && !o.rtn) ? 0 : 1;
    const u32* v = w.row(i.op[ka].reg);
    const u32 bytes = o.bytes >= 4 && !o.atomic ? o.dwords * 4u : o.bytes;
    u32 a[64], a2[64];
    u8* p[64];
    u32 f0 = o.two ? i.offset0 * o.stride : (u32)i.offset;
    GFX_LANES(w, l, a[l] = v[l] + f0);
    lds_bounds(w, i, a, mask, bytes);
    if (o.two) {
        u32 f1 = i.offset1 * o.stride;
        GFX_LANES(w, l, a2[l] = v[l] + f1);
        lds_bounds(w, i, a2, mask, bytes);
    }
    u32 al = o.atomic ? o.bytes : 1;
    if (al > 1)
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            if (a[l] & (al - 1))
                fault(w, i, Fault::Kind::lds_bounds, "misaligned LDS atomic at offset " + hex(a[l]), l);
        }
    if (rc) {
        lds_touch(w, i, a, mask, bytes, o.store || o.atomic, o.atomic, o.store ? store_value : nullptr, &i.op[1]);
        if (o.two) lds_touch(w, i, a2, mask, bytes, o.store, false, o.store ? store_value : nullptr, &i.op[2]);
    }
    Counters& c = *g.ctr;
    u64 act = (u64)std::popcount(mask) * bytes * (o.two ? 2 : 1);
    (o.store ? c.lds_write_bytes : c.lds_read_bytes) += act;
    bank_model(w, a, mask, bytes, o.store);
    if (o.two) bank_model(w, a2, mask, bytes, o.store);
    u8* L = g.lds.data();
    if (o.atomic) {
        int d0 = i.op[ka + 1].kind == Opnd::V ? i.op[ka + 1].reg : -1,
            d1 = i.nop > ka + 2 && i.op[ka + 2].kind == Opnd::V ? i.op[ka + 2].reg : -1;
        bool cs = o.aop == AtOp::cmpswap || o.aop == AtOp::fcmpswap;
        int dat = d0, cmp = -1;
        if (cs) {
            if (i.imm == 1) {
                dat = d0;
                cmp = d1;
            } else {
                dat = d1;
                cmp = d0;
            }
        } else if (o.aop == AtOp::mskor)
            cmp = d1;
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            atomic_lane(w, i, L + a[l], l, dat, cmp, o.rtn ? i.op[0].reg : -1, 0);
        }
        lds_pending(w, i, o.rtn, a, mask, bytes, true);
        return;
    }
    if (o.store) {
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            store_lane(w, i, i.op[1], L + a[l], l);
        }
        if (o.two) {
            for (u64 b = mask; b; b &= b - 1) {
                int l = std::countr_zero(b);
                store_lane(w, i, i.op[2], L + a2[l], l);
            }
        }
        lds_pending(w, i, false, a, mask, bytes, true, o.two ? a2 : nullptr);
        return;
    }
    GFX_LANES(w, l, p[l] = L + a[l]);
    if (o.tr) {
        u8 data[64][16];
        for (u64 b = mask; b; b &= b - 1) {
            int l = std::countr_zero(b);
            std::memcpy(data[l], p[l], bytes);
        }
        transpose_store(w, i, data, mask);
    } else if (o.two) {
        u8* p2[64];
        GFX_LANES(w, l, p2[l] = L + a2[l]);
        load_lanes(w, o, p, mask, i.op[0].reg);
        load_lanes(w, o, p2, mask, i.op[0].reg + o.dwords);
    } else
        load_lanes(w, o, p, mask, i.op[0].reg);
    lds_pending(w, i, true, a, mask, bytes, false, o.two ? a2 : nullptr);
}
// Transposing loads.
// gfx950 LDS: in each group of 16 lanes, 64-bit rows (96-bit for 6-bit elements) of E elements are laid end to end into
// a block of rows 16 elements wide; lane x of the group receives column x. gfx12 global b128: in each group of 8 lanes,
// lane j receives element j of each of the group's lanes. gfx12 global b64: in each group of 16 lanes, lanes 0..3
// and 8..11 supply the left halves of 8 rows of 16 bytes, the others the right halves.
void transpose_store(Wave& w, const Inst& i, u8 (*data)[16], u64 mask) {
    const MemOp& o = i.m;
    u32 bits = o.tr, nb = o.dwords * 32u, E = nb / bits;
    if (o.bytes == 3 || nb == 96) E = 16;
    auto get = [&](int lane, u32 e) -> u32 {
        u64 pos = (u64)e * bits;
        u32 v = 0;
        for (u32 k = 0; k < bits; k++) v |= (u32)(data[lane][(pos + k) / 8] >> ((pos + k) % 8) & 1) << k;
        return v;
    };
    u8 out[64][16];
    std::memset(out, 0, sizeof out);
    for (int l = 0; l < w.lanes; l++) {
        for (u32 e = 0; e < E; e++) {
            u32 src, el;
            if (w.gfx12) {
                src = bits == 16 ? ((u32)l & ~7u) + e : ((u32)l & ~15u) + 8 * (e / 4) + 4 * ((u32)l / 8 % 2) + e % 4;
                el = (u32)l & 7;
            } else {
                u32 x = (u32)l & 15;
                src = ((u32)l & ~15u) + e * (16 / E) + x / E;
                el = x % E;
            }
            if (bits == 16) {
                std::memcpy(out[l] + 2 * e, data[src] + 2 * el, 2);
                continue;
            }
            if (bits == 8) {
                out[l][e] = data[src][el];
                continue;
            }
            u32 v = get((int)src, el);
            u64 pos = (u64)e * bits;
            for (u32 k = 0; k < bits; k++)
                if (v >> k & 1) out[l][(pos + k) / 8] |= (u8)(1u << ((pos + k) % 8));
        }
    }
    for (u64 b = mask; b; b &= b - 1) {
        int l = std::countr_zero(b);
        for (int k = 0; k < o.dwords; k++) std::memcpy(&w.row(i.op[0].reg + k)[l], out[l] + 4 * k, 4);
    }
}

void exec_bpermute(Wave& w, const Inst& i) {
    const u32* v = w.row(i.op[1].reg);
    const u32* d = w.row(i.op[2].reg);
    u64 m = w.exec();
    alignas(64) u32 r[64];
    bool fi = i.mn == "ds_bpermute_fi_b32";
    for (int l = 0; l < w.lanes; l++) {
        u32 s = (v[l] + (u32)i.offset) / 4 % (u32)w.lanes;
        r[l] = fi || (m >> s & 1) ? d[s] : 0;
    }
    if (w.arch == Arch::gfx1030 && w.lanes == 64)
        for (int l = 0; l < 64; l++) {
            u32 s = (u32)(l & 32) | ((v[l] + (u32)i.offset) / 4 & 31);
            r[l] = m >> s & 1 ? d[s] : 0;
        }
    blend32(w, w.row(i.op[0].reg), r, m);
    lds_pending(w, i, true, nullptr, 0, 0, false);
}
void exec_permute(Wave& w, const Inst& i) {
    const u32* v = w.row(i.op[1].reg);
    const u32* d = w.row(i.op[2].reg);
    u64 m = w.exec();
    alignas(64) u32 r[64] = {};
    for (int l = 0; l < w.lanes; l++)
        if (m >> l & 1) r[(v[l] + (u32)i.offset) / 4 % (u32)w.lanes] = d[l];
    blend32(w, w.row(i.op[0].reg), r, m);
    lds_pending(w, i, true, nullptr, 0, 0, false);
}
void exec_swizzle(Wave& w, const Inst& i) {
    const u32* d = w.row(i.op[1].reg);
    u64 m = w.exec();
    alignas(64) u32 r[64];
    u32 f = (u32)i.offset;
    for (int l = 0; l < w.lanes; l++) {
        u32 s;
        if (f >= 0xe000)
            fault(w, i, Fault::Kind::unsupported, "swizzle FFT mode");
        else if (f >= 0xc000) {
            u32 rot = f >> 5 & 31, k = f & 31;
            u32 x = (u32)l & 31;
            u32 y = f >> 10 & 1 ? (x - rot) & 31 : (x + rot) & 31;
            s = ((u32)l & 32) | (x & k) | (y & ~k & 31);
        } else if (f >= 0x8000)
            s = ((u32)l & ~3u) | (f >> (2 * (l & 3)) & 3);
        else {
            u32 x = (u32)l & 31;
            x = (((x & (f & 31)) | (f >> 5 & 31)) ^ (f >> 10 & 31));
            s = ((u32)l & 32) | x;
        }
        r[l] = m >> s & 1 ? d[s] : 0;
    }
    blend32(w, w.row(i.op[0].reg), r, m);
    lds_pending(w, i, true, nullptr, 0, 0, false);
}

bool parse_atomic(const std::string& s, MemOp& m) { // name after "atomic_" (vector memory) or "ds_" without _rtn
    struct E {
        const char* n;
        AtOp op;
        u8 bytes;
    };
    static const E tab[] = {
        {"swap", AtOp::swap, 4},
        {"swap_b32", AtOp::swap, 4},
        {"swap_x2", AtOp::swap, 8},
        {"swap_b64", AtOp::swap, 8},
        {"cmpswap", AtOp::cmpswap, 4},
        {"cmpswap_b32", AtOp::cmpswap, 4},
        {"cmpswap_x2", AtOp::cmpswap, 8},
        {"cmpswap_b64", AtOp::cmpswap, 8},
        {"add", AtOp::add, 4},
        {"add_u32", AtOp::add, 4},
        {"add_x2", AtOp::add, 8},
        {"add_u64", AtOp::add, 8},
        {"sub", AtOp::sub, 4},
        {"sub_u32", AtOp::sub, 4},
        {"sub_x2", AtOp::sub, 8},
        {"sub_u64", AtOp::sub, 8},
        {"rsub_u32", AtOp::rsub, 4},
        {"rsub_u64", AtOp::rsub, 8},
        {"smin", AtOp::smin, 4},
        {"min_i32", AtOp::smin, 4},
        {"smin_x2", AtOp::smin, 8},
        {"min_i64", AtOp::smin, 8},
        {"umin", AtOp::umin, 4},
        {"min_u32", AtOp::umin, 4},
        {"umin_x2", AtOp::umin, 8},
        {"min_u64", AtOp::umin, 8},
        {"smax", AtOp::smax, 4},
        {"max_i32", AtOp::smax, 4},
        {"smax_x2", AtOp::smax, 8},
        {"max_i64", AtOp::smax, 8},
        {"umax", AtOp::umax, 4},
        {"max_u32", AtOp::umax, 4},
        {"umax_x2", AtOp::umax, 8},
        {"max_u64", AtOp::umax, 8},
        {"and", AtOp::and_, 4},
        {"and_b32", AtOp::and_, 4},
        {"and_x2", AtOp::and_, 8},
        {"and_b64", AtOp::and_, 8},
        {"or", AtOp::or_, 4},
        {"or_b32", AtOp::or_, 4},
        {"or_x2", AtOp::or_, 8},
        {"or_b64", AtOp::or_, 8},
        {"xor", AtOp::xor_, 4},
        {"xor_b32", AtOp::xor_, 4},
        {"xor_x2", AtOp::xor_, 8},
        {"xor_b64", AtOp::xor_, 8},
        {"inc", AtOp::inc, 4},
        {"inc_u32", AtOp::inc, 4},
        {"inc_x2", AtOp::inc, 8},
        {"inc_u64", AtOp::inc, 8},
        {"dec", AtOp::dec, 4},
        {"dec_u32", AtOp::dec, 4},
        {"dec_x2", AtOp::dec, 8},
        {"dec_u64", AtOp::dec, 8},
        {"add_f32", AtOp::fadd, 4},
        {"add_f64", AtOp::fadd, 8},
        {"pk_add_f16", AtOp::pk_add_f16, 4},
        {"pk_add_bf16", AtOp::pk_add_bf16, 4},
        {"fmin", AtOp::fmin, 4},
        {"min_f32", AtOp::fmin, 4},
        {"min_num_f32", AtOp::fmin, 4},
        {"fmin_x2", AtOp::fmin, 8},
        {"min_f64", AtOp::fmin, 8},
        {"min_num_f64", AtOp::fmin, 8},
        {"fmax", AtOp::fmax, 4},
        {"max_f32", AtOp::fmax, 4},
        {"max_num_f32", AtOp::fmax, 4},
        {"fmax_x2", AtOp::fmax, 8},
        {"max_f64", AtOp::fmax, 8},
        {"max_num_f64", AtOp::fmax, 8},
        {"csub", AtOp::clamp_sub, 4},
        {"csub_u32", AtOp::clamp_sub, 4},
        {"sub_clamp_u32", AtOp::clamp_sub, 4},
        {"cond_sub_u32", AtOp::cond_sub, 4},
        {"fcmpswap", AtOp::fcmpswap, 4},
        {"cmpswap_f32", AtOp::fcmpswap, 4},
        {"wrxchg_b32", AtOp::swap, 4},
        {"wrxchg_b64", AtOp::swap, 8},
        {"storexchg_b32", AtOp::swap, 4},
        {"storexchg_b64", AtOp::swap, 8},
        {"cmpst_b32", AtOp::cmpswap, 4},
        {"cmpst_b64", AtOp::cmpswap, 8},
        {"cmpstore_b32", AtOp::cmpswap, 4},
        {"cmpstore_b64", AtOp::cmpswap, 8},
        {"cmpst_f32", AtOp::fcmpswap, 4},
        {"cmpst_f64", AtOp::fcmpswap, 8},
        {"cmpstore_f32", AtOp::fcmpswap, 4},
        {"mskor_b32", AtOp::mskor, 4},
        {"mskor_b64", AtOp::mskor, 8},
    };
    for (auto& e : tab)
        if (s == e.n) {
            m.atomic = true;
            m.aop = e.op;
            m.bytes = e.bytes;
            m.dwords = e.bytes / 4;
            return true;
        }
    return false;
}
bool parse_size(const std::string& s, MemOp& m) { // name after load_ / store_ / read_ / write_
    struct E {
        const char* n;
        u8 bytes, dw;
        bool sx;
        u8 d16;
    };
    static const E tab[] = {
        {"dword", 4, 1, 0, 0},
        {"b32", 4, 1, 0, 0},
        {"dwordx2", 4, 2, 0, 0},
        {"b64", 4, 2, 0, 0},
        {"dwordx3", 4, 3, 0, 0},
        {"b96", 4, 3, 0, 0},
        {"dwordx4", 4, 4, 0, 0},
        {"b128", 4, 4, 0, 0},
        {"ubyte", 1, 1, 0, 0},
        {"u8", 1, 1, 0, 0},
        {"sbyte", 1, 1, 1, 0},
        {"i8", 1, 1, 1, 0},
        {"ushort", 2, 1, 0, 0},
        {"u16", 2, 1, 0, 0},
        {"sshort", 2, 1, 1, 0},
        {"i16", 2, 1, 1, 0},
        {"byte", 1, 1, 0, 0},
        {"b8", 1, 1, 0, 0},
        {"short", 2, 1, 0, 0},
        {"b16", 2, 1, 0, 0},
        {"short_d16", 2, 1, 0, 1},
        {"d16_b16", 2, 1, 0, 1},
        {"short_d16_hi", 2, 1, 0, 2},
        {"d16_hi_b16", 2, 1, 0, 2},
        {"ubyte_d16", 1, 1, 0, 1},
        {"d16_u8", 1, 1, 0, 1},
        {"ubyte_d16_hi", 1, 1, 0, 2},
        {"d16_hi_u8", 1, 1, 0, 2},
        {"sbyte_d16", 1, 1, 1, 1},
        {"d16_i8", 1, 1, 1, 1},
        {"sbyte_d16_hi", 1, 1, 1, 2},
        {"d16_hi_i8", 1, 1, 1, 2},
        {"byte_d16_hi", 1, 1, 0, 2},
        {"d16_hi_b8", 1, 1, 0, 2},
        {"u16_d16", 2, 1, 0, 1},
        {"u16_d16_hi", 2, 1, 0, 2},
        {"u8_d16", 1, 1, 0, 1},
        {"u8_d16_hi", 1, 1, 0, 2},
        {"i8_d16", 1, 1, 1, 1},
        {"i8_d16_hi", 1, 1, 1, 2},
        {"b16_d16_hi", 2, 1, 0, 2},
        {"b8_d16_hi", 1, 1, 0, 2},
    };
    for (auto& e : tab)
        if (s == e.n) {
            m.bytes = e.bytes;
            m.dwords = e.dw;
            m.sx = e.sx;
            m.d16 = e.d16;
            return true;
        }
    return false;
}
} // namespace

bool decode_mem(Arch arch, Inst& i, const std::string& mn) {
    MemOp& m = i.m;
    bool gfx9 = arch == Arch::gfx942 || arch == Arch::gfx950;
    (void)gfx9;
    if (mn[0] == 's') {
        if (starts(mn, "scratch_")) {
            m.space = Space::scratch;
        } else {
            if (starts(mn, "s_dcache") || starts(mn, "s_prefetch")) {
                i.fn = exec_nop;
                i.cls = Cls::other;
                i.nop = 0;
                return true;
            }
            std::string t;
            bool buf = false;
            if (starts(mn, "s_store_")) {
                i.cls = Cls::smem;
                i.fn = exec_sstore;
                return parse_size(mn.substr(8), m);
            }
            if (starts(mn, "s_atomic_")) {
                i.cls = Cls::smem;
                i.fn = exec_satomic;
                return parse_atomic(mn.substr(9), m);
            }
            if (starts(mn, "s_load_"))
                t = mn.substr(7);
            else if (starts(mn, "s_buffer_load_")) {
                t = mn.substr(14);
                buf = true;
            } else
                return false;
            i.cls = Cls::smem;
            i.fn = exec_smem;
            i.imm = buf;
            if (t == "dwordx8" || t == "b256") {
                m.dwords = 8;
                return true;
            }
            if (t == "dwordx16" || t == "b512") {
                m.dwords = 16;
                return true;
            }
            return parse_size(t, m);
        }
    }
    std::string t;
    if (starts(mn, "ds_")) {
        m.space = Space::lds;
        t = mn.substr(3);
        if (t == "bpermute_b32" || t == "bpermute_fi_b32") {
            i.fn = exec_bpermute;
            i.cls = Cls::lds_permute;
            return true;
        }
        if (t == "permute_b32") {
            i.fn = exec_permute;
            i.cls = Cls::lds_permute;
            return true;
        }
        if (t == "swizzle_b32") {
            i.fn = exec_swizzle;
            i.cls = Cls::lds_permute;
            return true;
        }
        if (t == "nop") {
            i.fn = exec_nop;
            i.cls = Cls::other;
            i.nop = 0;
            return true;
        }
        i.fn = exec_ds;
        auto load = [&](const std::string& q) {
            i.cls = Cls::lds_read;
            return parse_size(q, m);
        };
        auto store = [&](const std::string& q) {
            i.cls = Cls::lds_write;
            m.store = true;
            return parse_size(q, m);
        };
        auto two = [&](u32 st64) {
            m.two = true;
            m.stride = (u32)m.dwords * 4 * st64;
            return true;
        };
        if (t == "read_b64_tr_b16") {
            m.dwords = 2;
            m.tr = 16;
            i.cls = Cls::lds_read;
            return true;
        }
        if (t == "read_b64_tr_b8") {
            m.dwords = 2;
            m.tr = 8;
            i.cls = Cls::lds_read;
            return true;
        }
        if (t == "read_b64_tr_b4") {
            m.dwords = 2;
            m.tr = 4;
            i.cls = Cls::lds_read;
            return true;
        }
        if (t == "read_b96_tr_b6") {
            m.dwords = 3;
            m.tr = 6;
            i.cls = Cls::lds_read;
            return true;
        }
        if (starts(t, "read2st64_")) return load(t.substr(10)) && two(64);
        if (starts(t, "read2_")) return load(t.substr(6)) && two(1);
        if (starts(t, "load_2addr_stride64_")) return load(t.substr(20)) && two(64);
        if (starts(t, "load_2addr_")) return load(t.substr(11)) && two(1);
        if (starts(t, "write2st64_")) return store(t.substr(11)) && two(64);
        if (starts(t, "write2_")) return store(t.substr(7)) && two(1);
        if (starts(t, "store_2addr_stride64_")) return store(t.substr(21)) && two(64);
        if (starts(t, "store_2addr_")) return store(t.substr(12)) && two(1);
        if (starts(t, "read_")) return load(t.substr(5));
        if (starts(t, "load_")) return load(t.substr(5));
        if (starts(t, "write_")) return store(t.substr(6));
        if (starts(t, "store_")) return store(t.substr(6));
        std::string q = t;
        if (size_t p = q.find("_rtn"); p != q.npos) {
            q.erase(p, 4);
            m.rtn = true;
        }
        i.cls = Cls::lds_atomic;
        i.imm = starts(q, "cmpstore");
        return parse_atomic(q, m);
    }
    if (starts(mn, "global_")) {
        m.space = Space::global;
        t = mn.substr(7);
    } else if (starts(mn, "flat_")) {
        m.space = Space::flat;
        t = mn.substr(5);
    } else if (starts(mn, "scratch_")) {
        m.space = Space::scratch;
        t = mn.substr(8);
    } else if (starts(mn, "buffer_")) {
        m.space = Space::buffer;
        t = mn.substr(7);
    } else
        return false;
    if (t == "inv" || t == "wb" || t == "wbinv" || t == "gl0_inv" || t == "gl1_inv" || t == "wbl2" || t == "invl2" ||
        t == "wbinvl1" || t == "wbinvl1_vol" || starts(t, "prefetch")) {
        i.fn = exec_nop;
        i.cls = Cls::other;
        i.nop = 0;
        return true;
    }
    i.fn = m.space == Space::buffer ? exec_buffer : exec_vmem;
    if (starts(t, "atomic_")) {
        i.cls = Cls::vatomic;
        m.rtn = i.glc;
        // The returning form of flat/global instructions names a destination first.
        return parse_atomic(t.substr(7), m);
    }
    if (starts(t, "load_lds_")) {
        m.lds_dma = true;
        i.cls = Cls::vload;
        return parse_size(t.substr(9), m);
    }
    if (starts(t, "load_tr_b128") || starts(t, "load_tr_b64")) {
        m.tr = starts(t, "load_tr_b128") ? 16 : 8;
        m.dwords = m.tr == 16 ? 4 : 2;
        i.cls = Cls::vload;
        return true;
    }
    if (starts(t, "load_")) {
        m.lds_dma = i.lds;
        i.cls = Cls::vload;
        return parse_size(t.substr(5), m);
    }
    if (starts(t, "store_")) {
        m.store = true;
        i.cls = Cls::vstore;
        return parse_size(t.substr(6), m);
    }
    return false;
}
} // namespace gfxemu
