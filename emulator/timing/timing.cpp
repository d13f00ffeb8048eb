// Timing model: the compute-unit simulator and its report. docs/timing.md explains both.
#include "timing/timing_model.h"
#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <queue>

namespace gfxemu {
namespace {
using namespace timing;

// ---------------------------------------------------------------- simulator
enum Stall : int {
    S_ISSUE,
    S_DEP,
    S_MDEP,
    S_MBUSY,
    S_READ,
    S_VBUSY,
    S_PACKED,
    S_LDSQ,
    S_VMQ,
    S_WLDS,
    S_WVM,
    S_WSM,
    S_BAR,
    S_NOP,
    S_BRANCH,
    S_CONFLICT,
    S_START,
    S_N
};
const char* stall_name[S_N] = {"issue", "dependency", "matrix_result", "matrix_busy", "matrix_read_phase", "valu_busy",
    "packed_hazard", "lds_queue", "vmem_queue", "wait_lds", "wait_vmem", "wait_smem", "barrier", "nop_sleep", "branch",
    "issue_conflict", "launch"};
enum IC : int {
    I_MATRIX,
    I_VALU,
    I_LDS,
    I_VMEM,
    I_WAIT,
    I_BARRIER,
    I_NOP,
    I_SCALAR,
    I_N
}; // the classes public traces attribute stalls to
const char* ic_name[I_N] = {"matrix", "valu", "lds", "vmem", "waitcnt", "barrier", "nop", "scalar"};
IC ic_of(K k) {
    switch (k) {
    case K::matrix: return I_MATRIX;
    case K::valu:
    case K::trans: return I_VALU;
    case K::lds: return I_LDS;
    case K::vmem: return I_VMEM;
    case K::waitcnt: return I_WAIT;
    case K::barrier:
    case K::signal:
    case K::bwait: return I_BARRIER;
    case K::nop:
    case K::sleep: return I_NOP;
    default: return I_SCALAR;
    }
}
constexpr u64 NEVER = ~0ull;
enum class By : u8 { none, valu, matrix, salu }; // who wrote a register last

struct Out {
    u64 done;
    Stall why;
};
struct Fifo { // an outstanding-operation counter; completion is in order
    std::vector<Out> q;
    size_t head = 0;
    void push(u64 done, Stall why) {
        if (q.size() > head) done = std::max(done, q.back().done);
        q.push_back({done, why});
    }
    void drain(u64 t) {
        while (head < q.size() && q[head].done <= t) head++;
        if (head > 256 && head * 2 > q.size()) {
            q.erase(q.begin(), q.begin() + (long)head);
            head = 0;
        }
    }
    u64 until(int n, Stall& why) const {
        size_t s = q.size() - head;
        if (n < 0 || s <= (size_t)n) return 0;
        const Out& o = q[q.size() - (size_t)n - 1];
        why = o.why;
        return o.done;
    }
};

struct Snap {
    u64 t;
    std::array<u64, S_N> st;
    std::array<u64, I_N> ic, icn;
    u64 instr;
};
struct Busy {
    std::array<double, 8> matrix{}, valu{}, trans{}, lds{}, vmem{};
    double flops = 0, l2_bytes = 0;
    u64 t = 0;
};

struct Loop {
    u64 head = 0, last = 0, trips = 0;
    double weight = 0;
};
struct SWave {
    const WaveTrace* tr = nullptr;
    size_t pos = 0;
    int simd = 0, wg = 0;
    u32 id = 0;
    int prio = 0;
    u64 age = 0;
    u64 next = 0;
    Stall next_why = S_START;
    u64 dep = 0;
    Stall dep_why = S_DEP;
    bool fresh = true;
    u64 ready[R_N];
    By by[R_N];
    Rng mblock[R_N]; // mblock: the whole destination of the matrix instruction that wrote the register
    Fifo vm, vs, lgkm, km;
    bool waiting = false, done = false, signalled = false;
    u32 seen = 0;
    u64 end = 0, begin = 0, last = 0;
    u64 acc_t = 0;
    Stall acc_why = S_START;
    IC acc_ic = I_SCALAR;
    u32 acc_idx = 0;
    std::array<u64, S_N> st{};
    std::array<u64, I_N> ic{}, icn{};
    u64 instr = 0;
    Loop loop;
    std::vector<Snap> head;
};
struct SGroup {
    const GroupTrace* g = nullptr;
    u64 index = 0;
    std::vector<SWave*> w;
    u32 live = 0, arrived = 0, gen = 0;
    u64 begin = 0, end = 0;
    std::vector<int> simd_of;
};
struct Simd {
    std::vector<SWave*> w;
    u64 valu_free = 0, mm_free = 0, mm_block = 0;
    int mm_wave = -1;
    std::vector<u64> lds_start;
    size_t nlds = 0;
    u64 ret_free = 0;
    u64 lds_ret_until = 0;
};
struct Unit {
    u64 lds_free = 0, vm_free = 0, l2_free = 0;
};
struct DmaEv {
    u64 t;
    int unit;
    u32 clocks;
    bool operator<(const DmaEv& o) const { return t > o.t; }
};

struct Sim {
    Arch arch;
    Params P_;
    const CodeObject::Impl& im;
    const RunCtx& run;
    TimingRun& T;
    std::vector<TI> ti;
    std::vector<u8> known;
    bool wave64 = true, gfx9 = true;
    std::vector<std::unique_ptr<SWave>> waves;
    std::vector<SGroup> groups;
    std::vector<Simd> sd;
    std::vector<Unit> un;
    std::priority_queue<DmaEv> dma;
    std::vector<Busy> marks;
    Busy busy;
    SWave* lead = nullptr;
    u64 t = 0, age = 0, last_issue = 0;
    std::vector<u64> ist, ihit;
    FILE* trace = nullptr;

    Sim(const RunCtx& r, TimingRun& tr) : arch(r.arch), P_(load_params(r.arch)), im(*r.code->impl), run(r), T(tr) {
        gfx9 = arch == Arch::gfx942 || arch == Arch::gfx950;
    }
    const TI& info(u32 idx) {
        if (idx >= ti.size()) {
            ti.resize(idx + 1);
            known.resize(idx + 1);
            ist.resize(idx + 1);
            ihit.resize(idx + 1);
        }
        if (!known[idx]) {
            ti[idx] = decode(arch, P_, *im.insts[idx], wave64);
            known[idx] = 1;
        }
        return ti[idx];
    }
    u64 base() const { return (u64)im.base; }

    // ---- the hot loop of a wave: innermost target of backward branches that covers most of the matrix work (or of the
    // instructions)
    Loop find_loop(const WaveTrace& w) {
        struct C {
            u64 last = 0;
        };
        std::map<u64, C> cand;
        std::map<u64, u64> hits, mat;
        Loop loop;
        for (size_t k = 0; k < w.rec.size(); k++) {
            const TI& x = info(w.rec[k].idx);
            hits[x.pc]++;
            if (x.k == K::matrix) mat[x.pc] += x.occ;
            if (x.k == K::branch && k + 1 < w.rec.size()) {
                const TI& y = info(w.rec[k + 1].idx);
                if (y.pc <= x.pc) {
                    C& c = cand[y.pc];
                    c.last = std::max(c.last, x.pc);
                }
            }
        }
        if (const char* e = env("GFXEMU_TIMING_LOOP")) {
            loop.head = loop.last = base() + std::strtoull(e, nullptr, 0);
            loop.trips = hits.count(loop.head) ? hits[loop.head] : 0;
            return loop;
        }
        auto& wt = mat.empty() ? hits : mat;
        std::vector<Loop> ls;
        double mx = 0;
        for (auto& [h, c] : cand) {
            Loop l;
            l.head = h;
            l.last = c.last;
            l.trips = hits[h];
            for (auto it = wt.lower_bound(h); it != wt.end() && it->first <= c.last; ++it)
                if (hits[it->first] * 2 > l.trips) l.weight += (double)it->second;
            mx = std::max(mx, l.weight);
            ls.push_back(l);
        }
        for (auto& l : ls)
            if (l.weight >= 0.7 * mx && mx > 0 && (!loop.trips || l.last - l.head < loop.last - loop.head)) loop = l;
        // A loop with cold blocks out of line has several heads: take the first one that runs as often.
        for (auto& l : ls)
            if (l.weight >= 0.7 * mx && l.head < loop.head && l.last >= loop.head && l.trips >= loop.trips) {
                loop = l;
                break;
            }
        return loop;
    }

    // ---- placement
    void place(SGroup& g) {
        bool wgp = gfx9;
        u32 rsrc1;
        std::memcpy(&rsrc1, im.base + run.kernel->descriptor + 48, 4);
        if (!gfx9) wgp = rsrc1 >> 29 & 1;
        int lo = 0, n = (int)P_.u(simds);
        if (!wgp) {
            n /= 2;
            size_t a = 0, b = 0;
            for (int s = 0; s < n; s++) {
                a += sd[s].w.size();
                b += sd[s + n].w.size();
            }
            lo = b < a ? n : 0;
        }
        int s = lo;
        for (int k = lo; k < lo + n; k++)
            if (sd[k].w.size() < sd[s].w.size()) s = k;
        u32 id = 0;
        for (auto& wt : g.g->waves) {
            waves.push_back(std::make_unique<SWave>());
            SWave& w = *waves.back();
            std::memset(w.ready, 0, sizeof w.ready);
            std::memset(w.by, 0, sizeof w.by);
            std::memset(w.mblock, 0, sizeof w.mblock);
            w.tr = wt.get();
            w.simd = s;
            w.wg = (int)(&g - groups.data());
            w.id = id++;
            w.age = age++;
            w.next = t;
            w.acc_t = w.begin = w.last = t;
            w.loop = find_loop(*w.tr);
            if (w.tr->rec.empty()) {
                w.done = true;
                w.end = t;
            } else {
                sd[s].w.push_back(&w);
                g.live++;
            }
            g.w.push_back(&w);
            s = lo + (s - lo + 1) % n;
        }
        g.begin = t;
        if (!lead) lead = g.w[0];
    }

    // ---- readiness
    void head_changed(SWave& w) {
        w.fresh = false;
        w.dep = 0;
        w.dep_why = S_DEP;
        const TI& x = info(w.tr->rec[w.pos].idx);
        bool scalar = x.k == K::salu || x.k == K::branch || x.k == K::smem;
        auto need = [&](u64 at, Stall why) {
            if (at > w.dep) {
                w.dep = at;
                w.dep_why = why;
            }
        };
        for (int k = 0; k < x.nrd; k++)
            for (u32 r = x.rd[k].reg, e = r + x.rd[k].n; r < e && r < R_N; r++) {
                u64 at = w.ready[r];
                if (!at) continue;
                if (w.by[r] == By::valu && r >= R_S && scalar)
                    at += P_.u(valu_salu) - std::min(P_.u(valu_salu), P_.u(valu_lat));
                need(at, w.by[r] == By::matrix ? S_MDEP : S_DEP);
            }
        if (x.c.n)
            for (u32 r = x.c.reg, e = r + x.c.n; r < e; r++) {
                u64 at = w.ready[r];
                if (!at) continue;
                if (w.by[r] == By::matrix) {
                    bool same = w.mblock[r].reg == x.c.reg && w.mblock[r].n == x.c.n;
                    at = at - P_.u(mm_valu) + (same ? 0 : P_.u(mm_c));
                }
                need(at, w.by[r] == By::matrix ? S_MDEP : S_DEP);
            }
    }
    // Earliest reason why the wave cannot issue at t; S_ISSUE if it can.
    Stall blocked(SWave& w, const TI& x) {
        if (t < w.next) return w.next_why;
        if (w.waiting) return S_BAR;
        if (w.fresh) head_changed(w);
        if (t < w.dep)
            return x.k == K::matrix && sd[w.simd].mm_free >= w.dep
                       ? S_MBUSY
                       : w.dep_why; // a chain on one block waits for the pipe only
        Simd& s = sd[w.simd];
        Unit& u = un[w.simd / (int)P_.u(cluster)];
        switch (x.k) {
        case K::valu:
        case K::trans:
            if (t < s.valu_free) return S_VBUSY;
            if (t < s.mm_block) return S_READ;
            if (x.pk && P_[pk_wait] > 0 && t < s.mm_free + (s.mm_wave == (int)w.age ? P_.u(pk_wait) : 0))
                return S_PACKED;
            return S_ISSUE;
        case K::matrix:
            if (t < s.mm_free) return S_MBUSY;
            if (t < s.valu_free) return S_VBUSY;
            return S_ISSUE;
        case K::lds: {
            size_t q = P_.u(lds_queue);
            if (s.nlds >= q && s.lds_start[s.nlds - q] > t) return S_LDSQ;
            return S_ISSUE;
        }
        case K::vmem: return u.vm_free > t + P_.u(vm_queue) ? S_VMQ : S_ISSUE;
        case K::waitcnt: {
            Stall why = S_ISSUE;
            u64 at = 0;
            auto q = [&](Fifo& f, int n) {
                Stall y = S_ISSUE;
                u64 d = f.until(n, y);
                if (d > t && d > at) {
                    at = d;
                    why = y;
                }
            };
            q(w.vm, x.vm);
            q(w.vs, x.vs);
            q(w.lgkm, x.lgkm);
            q(w.km, x.km);
            return why;
        }
        case K::bwait: {
            SGroup& g = groups[(size_t)w.wg];
            return g.gen > w.seen ? S_ISSUE : S_BAR;
        }
        default: return S_ISSUE;
        }
    }
    void release(SGroup& g) {
        g.arrived = 0;
        g.gen++;
        for (auto* w : g.w)
            if (w->waiting) {
                w->waiting = false;
                w->seen++;
                w->next = std::max(w->next, t + P_.u(barrier_lat));
                w->next_why = S_BAR;
            }
    }
    void account(SWave& w, Stall why) { // closes the interval since the last evaluation, opens one with `why`
        u64 d = t - w.acc_t;
        if (d) {
            w.st[w.acc_why] += d;
            w.ic[w.acc_ic] += d;
            ist[w.acc_idx] += d;
        }
        w.acc_t = t;
        w.acc_why = why;
    }
    void charge(SWave& w, Stall why, u32 idx, K k) {
        account(w, why);
        w.acc_ic = ic_of(k);
        w.acc_idx = idx;
    }
    void mark(SWave& w) {
        Snap s{t, w.st, w.ic, w.icn, w.instr};
        w.head.push_back(s);
        if (&w == lead) {
            busy.t = t;
            marks.push_back(busy);
        }
    }

    void issue(SWave& w) {
        const TraceRec& rec = w.tr->rec[w.pos];
        const TI& x = info(rec.idx);
        Simd& s = sd[w.simd];
        int ui = w.simd / (int)P_.u(cluster);
        Unit& u = un[ui];
        SGroup& g = groups[(size_t)w.wg];
        const u64 T1 = P_.u(turn);
        if (trace)
            std::fprintf(trace, "%llu %d %u %d %llu %s 0x%llx %s\n", (unsigned long long)t, w.wg, w.id, w.simd,
                (unsigned long long)(t - w.last), w.acc_why == S_ISSUE ? "-" : stall_name[w.acc_why],
                (unsigned long long)(x.pc - base()), im.insts[rec.idx]->text.c_str());
        charge(w, S_ISSUE, rec.idx, x.k);
        w.last = last_issue = t;
        if (x.pc == w.loop.head && w.loop.trips) mark(w);
        w.instr++;
        w.icn[ic_of(x.k)]++;
        ihit[rec.idx]++;
        w.next = t + T1;
        w.next_why = S_ISSUE;
        auto write = [&](u64 at, By by) {
            for (int k = 0; k < x.nwr; k++)
                for (u32 r = x.wr[k].reg, e = r + x.wr[k].n; r < e && r < R_N; r++) {
                    w.ready[r] = at;
                    w.by[r] = by;
                    if (by == By::matrix) w.mblock[r] = x.wr[k];
                }
        };
        switch (x.k) {
        case K::valu:
        case K::trans: {
            u64 n = x.issue;
            if (x.three && P_[ports3] > 0 && t < s.lds_ret_until) n += P_.u(ports3);
            s.valu_free = t + n;
            busy.valu[w.simd] += (double)n;
            if (x.k == K::trans) busy.trans[w.simd] += (double)n;
            write(t + x.lat, By::valu);
            break;
        }
        case K::matrix:
            s.mm_free = t + x.occ;
            s.mm_wave = (int)w.age;
            s.mm_block = t + P_.u(mm_block);
            s.valu_free = t + x.issue;
            busy.matrix[w.simd] += x.occ;
            busy.flops += (double)x.flops;
            write(t + x.lat, By::matrix);
            break;
        case K::salu: write(t + P_.u(salu_lat), By::salu); break;
        case K::smem: {
            u64 d = t + P_.u(smem_lat);
            (x.q_km ? w.km : w.lgkm).push(d, S_WSM);
            break;
        }
        case K::branch: {
            bool taken = w.pos + 1 < w.tr->rec.size() && info(w.tr->rec[w.pos + 1].idx).pc != x.pc + x.size;
            w.next = t + std::max(T1, taken ? P_.u(branch_taken) : P_.u(branch_not));
            w.next_why = S_BRANCH;
            break;
        }
        case K::lds: {
            double bytes = rec.bytes,
                   bw = x.ldsw || x.wide96 ? std::min(P_[lds_wbw], P_[lds_bw]) * (x.wide96 ? 0.75 : 1) : P_[lds_bw];
            u64 occ;
            if (x.perm)
                occ = P_.u(lds_perm);
            else
                occ = (u64)std::ceil(bytes / bw) + rec.conflict;
            occ = std::max(occ, P_.u(lds_min));
            u64 start = std::max(t + T1, u.lds_free), back = 0;
            u.lds_free = start + occ;
            busy.lds[ui] += (double)occ;
            if (x.load) { // return bus to the SIMD's registers
                u64 rb = (u64)std::ceil((x.perm ? (gfx9 ? 256. : 128.) : bytes) / P_[lds_simd_bw]);
                u64 b0 = std::max(start, s.ret_free);
                s.ret_free = b0 + rb;
                back = b0 + rb;
                s.lds_ret_until = std::max(s.lds_ret_until, back + P_.u(lds_lat));
            }
            if (s.lds_start.size() <= s.nlds) s.lds_start.resize(s.nlds + 1024);
            s.lds_start[s.nlds++] = std::max(start, x.load ? back - (u64)std::ceil(bytes / P_[lds_simd_bw]) : start);
            u64 done = std::max(start + occ, back) + P_.u(lds_lat) - std::min(P_.u(lds_lat), P_.u(lds_min) + T1);
            w.lgkm.push(done, S_WLDS);
            break;
        }
        case K::vmem: {
            double bytes = rec.bytes, seg = rec.seg;
            if (x.scratch && !rec.bytes) {
                bytes = (wave64 ? 64 : 32) * 4.0 * x.dwords;
                seg = bytes / 64;
            } // lanes interleave by dword
            u64 occ = std::max<u64>(P_.u(vm_min), (u64)std::ceil(seg * 64 / P_[l1_bw]));
            u64 start = std::max(t + T1, u.vm_free);
            u.vm_free = start + occ;
            busy.vmem[ui] += (double)occ;
            double miss = (1 - P_[l1_hit]) * seg * 64;
            busy.l2_bytes += miss;
            u64 l2 = std::max(start, u.l2_free);
            u.l2_free = l2 + (u64)(miss / P_[l2_bw]);
            double lat =
                P_[l1_hit] * P_[l1_lat] + (1 - P_[l1_hit]) * (P_[l2_hit] * P_[l2_lat] + (1 - P_[l2_hit]) * P_[mem_lat]);
            u64 done = std::max(start + occ, u.l2_free) + (u64)(x.load ? lat : P_[store_lat]);
            if (!rec.bytes && !x.scratch) done = start + P_.u(l1_lat);
            if (x.dma && rec.bytes) {
                u32 c = (u32)std::ceil(bytes / P_[lds_wbw]);
                dma.push({done, ui, c});
                done += c;
            }
            if (x.q_vm) w.vm.push(done, S_WVM);
            if (x.q_vs) w.vs.push(done, S_WVM);
            if (x.q_lgkm) w.lgkm.push(done, S_WVM);
            break;
        }
        case K::barrier:
            if (++g.arrived >= g.live) {
                w.waiting = true;
                release(g);
            } else {
                w.waiting = true;
            }
            break;
        case K::signal:
            if (++g.arrived >= g.live) release(g);
            break;
        case K::bwait: w.seen++; break;
        case K::nop:
            w.next = t + T1 * (x.imm + 1);
            w.next_why = S_NOP;
            break;
        case K::sleep:
            w.next = t + std::max(T1, P_.u(sleep_unit) * x.imm);
            w.next_why = S_NOP;
            break;
        case K::prio: w.prio = (int)x.imm; break;
        case K::end: break;
        default: break;
        }
        if (x.q_vm || x.q_vs || x.q_lgkm || x.q_km || x.k == K::waitcnt) {
            w.vm.drain(t);
            w.vs.drain(t);
            w.lgkm.drain(t);
            w.km.drain(t);
        }
        w.pos++;
        w.fresh = true;
        if (w.pos >= w.tr->rec.size()) {
            w.done = true;
            w.end = w.next;
            g.live--;
            w.st[S_ISSUE] += T1;
            auto& v = s.w;
            v.erase(std::find(v.begin(), v.end(), &w));
            if (!g.live)
                g.end = w.end;
            else if (g.arrived >= g.live && g.arrived)
                release(g);
        }
    }

    // One issue turn of a SIMD.
    u64 turn_of(int si) {
        Simd& s = sd[si];
        u64 wake = NEVER;
        if (s.w.empty()) return wake;
        // candidates in priority, then age order
        SWave* order[64];
        int n = 0;
        for (auto* w : s.w)
            if (n < 64) order[n++] = w;
        std::stable_sort(order, order + n,
            [](SWave* a, SWave* b) { return a->prio != b->prio ? a->prio > b->prio : a->age < b->age; });
        bool valu = false, salu = false, mem = false, smem = false, br = false, vm = false;
        for (int k = 0; k < n; k++) {
            SWave& w = *order[k];
            if (w.done) continue;
            if (t < w.next) {
                wake = std::min(wake, w.next);
                if (w.acc_why != w.next_why) account(w, w.next_why);
                continue;
            }
            const TI* x = &info(w.tr->rec[w.pos].idx);
            while (x->free && !w.waiting) {
                account(w, S_ISSUE);
                w.pos++;
                w.fresh = true;
                w.instr++;
                x = &info(w.tr->rec[w.pos].idx);
            }
            Stall why = blocked(w, *x);
            if (why == S_ISSUE) {
                bool* port = nullptr;
                switch (x->k) {
                case K::valu:
                case K::trans:
                case K::matrix: port = &valu; break;
                case K::salu: port = &salu; break;
                case K::smem: port = &smem; break;
                case K::branch: port = &br; break;
                case K::lds: port = &mem; break;
                case K::vmem: port = gfx9 ? &mem : &vm; break;
                default: break;
                }
                if (port && *port)
                    why = S_CONFLICT;
                else {
                    if (port) *port = true;
                    issue(w);
                    wake = std::min(wake, w.done ? NEVER : w.next);
                    continue;
                }
            }
            u32 idx = w.tr->rec[w.pos].idx;
            if (w.waiting) {
                if (w.acc_why != S_BAR) account(w, S_BAR);
            } // still charged to the barrier
            else if (w.acc_why != why || w.acc_idx != idx)
                charge(w, why, idx, x->k);
            if (why == S_DEP || why == S_MDEP)
                wake = std::min(wake, w.dep);
            else if (why != S_BAR)
                wake = std::min(wake, t + P_.u(turn));
        }
        return wake;
    }

    void go() {
        sd.resize(P_.u(simds));
        un.resize(P_.u(simds) / P_.u(cluster));
        size_t nextg = 0;
        std::vector<const GroupTrace*> list;
        std::vector<u64> idx;
        for (auto& [n, g] : T.groups) {
            list.push_back(&g);
            idx.push_back(n);
        }
        groups.resize(list.size());
        for (size_t k = 0; k < list.size(); k++) {
            groups[k].g = list[k];
            groups[k].index = idx[k];
        }
        wave64 = gfx9;
        {
            u16 props;
            std::memcpy(&props, im.base + run.kernel->descriptor + 56, 2);
            if (!gfx9 && !(props >> 10 & 1)) wave64 = true;
        }
        u32 running = 0;
        u64 next_launch = 0;
        const u64 T1 = P_.u(turn);
        while (true) {
            running = 0;
            for (auto& g : groups)
                if (g.live) running++;
            while (nextg < groups.size() && running < T.resident && t >= next_launch) {
                place(groups[nextg++]);
                running++;
                next_launch = t + P_.u(wg_launch);
                if (P_.u(wg_launch)) break;
            }
            if (!running && nextg >= groups.size()) break;
            while (!dma.empty() && dma.top().t <= t) {
                DmaEv e = dma.top();
                dma.pop();
                Unit& u = un[e.unit];
                u.lds_free = std::max(u.lds_free, t) + e.clocks;
                busy.lds[e.unit] += e.clocks;
            }
            u64 wake = NEVER;
            if (T1 == 1)
                for (int s = 0; s < (int)sd.size(); s++) wake = std::min(wake, turn_of(s));
            else {
                wake = turn_of((int)(t % T1 % sd.size()));
            }
            if (T1 == 1 && wake != NEVER && wake > t + 1) {
                u64 to = wake;
                if (!dma.empty()) to = std::min(to, dma.top().t);
                if (nextg < groups.size()) to = std::min(to, std::max(next_launch, t + 1));
                t = std::max(t + 1, to);
            } else
                t++;
            if (t - last_issue > 50000000)
                throw std::runtime_error("gfxemu: timing: the replayed waves wait for each other");
        }
        for (auto& w : waves)
            if (w->end > t) t = w->end;
        busy.t = t;
    }
};

// ---------------------------------------------------------------- report
std::string fmt(const char* f, ...) {
    char b[1024];
    va_list a;
    va_start(a, f);
    vsnprintf(b, sizeof b, f, a);
    va_end(a);
    return b;
}
double peak_flops(Arch a) { // dense 16-bit matrix FLOP per clock per CU
    switch (a) {
    case Arch::gfx1200: return 1024;
    case Arch::gfx942: return 2048;
    case Arch::gfx950: return 4096;
    default: return 256;
    }
}

std::string report(Sim& S, std::string& text) {
    const Params& P_ = S.P_;
    const KernelInfo& k = *S.run.kernel;
    const double clocks = (double)S.t;
    int ns = (int)S.sd.size(), nu = (int)S.un.size();
    double cus = S.gfx9 ? 1 : 2;
    std::string j = "{";
    auto num = [&](const char* n, double v, int d = 3) {
        if (j.back() != '{') j += ",";
        j += fmt("\"%s\":%.*f", n, v == std::floor(v) ? 0 : d, v);
    };
    auto raw = [&](const char* n, const std::string& v) {
        if (j.back() != '{') j += ",";
        j += fmt("\"%s\":", n) + v;
    };
    num("workgroups", (double)S.groups.size());
    num("resident", S.T.resident);
    num("waves", (double)S.waves.size());
    num("clocks", clocks);
    double wgc = 0;
    for (auto& g : S.groups) wgc += (double)(g.end - g.begin);
    wgc /= (double)std::max<size_t>(1, S.groups.size());
    num("clocks_per_workgroup", wgc, 1);
    text += fmt("gfxemu timing: %s (%s): %zu workgroup(s), %zu waves, %d resident on one %s\n", k.name.c_str(),
        arch_name(S.arch), S.groups.size(), S.waves.size(), (int)S.T.resident, S.gfx9 ? "CU" : "WGP");
    text += fmt("  clocks: %.0f in all, %.0f per workgroup, %.0f per workgroup and %s\n", clocks, wgc,
        clocks / (double)S.groups.size(), S.gfx9 ? "CU" : "WGP");
    auto share = [&](const char* name, const Busy& a, const Busy& b) {
        double c = (double)(b.t - a.t);
        if (c <= 0) return;
        std::string m = "[";
        double mm = 0, vv = 0, tt = 0, ll = 0, vm = 0;
        for (int s = 0; s < ns; s++) {
            double x = (b.matrix[s] - a.matrix[s]) / c;
            m += fmt("%s%.4f", s ? "," : "", x);
            mm += x / ns;
            vv += (b.valu[s] - a.valu[s]) / c / ns;
            tt += (b.trans[s] - a.trans[s]) / c / ns;
        }
        for (int u = 0; u < nu; u++) {
            ll += (b.lds[u] - a.lds[u]) / c / nu;
            vm += (b.vmem[u] - a.vmem[u]) / c / nu;
        }
        double fl = (b.flops - a.flops) / c / cus, l2 = (b.l2_bytes - a.l2_bytes) / c / cus;
        std::string o = "{\"clocks\":" + fmt("%.0f", c) + ",\"matrix_per_simd\":" + m + "]" +
                        fmt(",\"matrix\":%.4f,\"valu\":%.4f,\"trans\":%.4f,\"lds\":%.4f,\"vmem\":%.4f,\"l2_bytes_per_"
                            "clk_cu\":%.2f,\"flop_per_clk_cu\":%.1f,\"percent_of_16bit_peak\":%.2f}",
                            mm, vv, tt, ll, vm, l2, fl, 100 * fl / peak_flops(S.arch));
        raw(name, o);
        text += fmt("  %-8s busy: matrix %5.1f %%  valu %5.1f %% (trans %4.1f)  lds %5.1f %%  vmem %5.1f %%  L2 %.1f "
                    "B/clk/CU;  %.0f FLOP/clk/CU = %.1f %% of the 16-bit matrix peak\n",
            name, 100 * mm, 100 * vv, 100 * tt, 100 * ll, 100 * vm, l2, fl, 100 * fl / peak_flops(S.arch));
    };
    Busy zero;
    share("total", zero, S.busy);
    // Steady state of the hot loops (waves may run different code): trips after the first two, without the last.
    std::map<u64, std::vector<const SWave*>> loops;
    for (auto& w : S.waves)
        if (w->head.size() >= 3) loops[w->loop.head].push_back(w.get());
    auto window = [&](const SWave& w, size_t& a, size_t& b) {
        size_t n = w.head.size();
        a = n > 5 ? 2 : n > 3 ? 1 : 0;
        b = n > 6 ? n - 2 : n - 1;
    };
    std::string list;
    double pro = 0, epi = 0;
    size_t nw = 0;
    for (auto& [head, ws] : loops) {
        std::vector<double> trips;
        std::array<double, S_N> st{};
        std::array<double, I_N> ic{}, icn{};
        double instr = 0, nt = 0, mean = 0;
        for (auto* w : ws) {
            size_t a, b;
            window(*w, a, b);
            for (size_t q = a; q < b; q++) trips.push_back((double)(w->head[q + 1].t - w->head[q].t));
            const Snap &x = w->head[a], &y = w->head[b];
            nt += (double)(b - a);
            instr += (double)(y.instr - x.instr);
            for (int q = 0; q < S_N; q++) st[q] += (double)(y.st[q] - x.st[q]);
            for (int q = 0; q < I_N; q++) {
                ic[q] += (double)(y.ic[q] - x.ic[q]);
                icn[q] += (double)(y.icn[q] - x.icn[q]);
            }
        }
        for (double x : trips) mean += x;
        mean /= (double)trips.size();
        std::sort(trips.begin(), trips.end());
        for (auto* w : ws) {
            pro += (double)(w->head.front().t - w->begin);
            epi += std::max(0.0, (double)(w->end - w->head.back().t) - mean);
            nw++;
        }
        unsigned long long h = head - S.base();
        std::string o = fmt("{\"head\":\"0x%llx\",\"waves\":%zu,\"trips_per_wave\":%zu,\"clocks_per_trip\":%.1f,"
                            "\"median\":%.0f,\"min\":%.0f,\"max\":%.0f,\"instructions_per_trip\":%.1f",
            h, ws.size(), ws[0]->head.size(), mean, trips[trips.size() / 2], trips.front(), trips.back(), instr / nt);
        text += fmt("  hot loop at 0x%llx (%zu waves): %.1f clocks per trip (median %.0f, %.0f..%.0f, %zu trips a "
                    "wave), %.1f instructions\n",
            h, ws.size(), mean, trips[trips.size() / 2], trips.front(), trips.back(), ws[0]->head.size(), instr / nt);
        o += ",\"reasons\":{";
        text += "    clocks per trip and wave, by reason:";
        bool c1 = false;
        for (int q = 0; q < S_N; q++) {
            double v = st[q] / nt;
            if (v < 0.05) continue;
            o += fmt("%s\"%s\":%.1f", c1 ? "," : "", stall_name[q], v);
            text += fmt(" %s %.0f", stall_name[q], v);
            c1 = true;
        }
        o += "},\"by_class\":{";
        text += "\n    stall clocks per trip and wave, by the instruction that waits (number of instructions):";
        c1 = false;
        for (int q = 0; q < I_N; q++) {
            if (icn[q] == 0) continue;
            double v = ic[q] / nt, n = icn[q] / nt;
            o += fmt("%s\"%s\":{\"n\":%.1f,\"clocks\":%.1f,\"stall\":%.1f}", c1 ? "," : "", ic_name[q], n, v,
                v - n * P_[turn]);
            text += fmt(" %s (%.0f) %.0f", ic_name[q], n, v - n * P_[turn]);
            c1 = true;
        }
        o += "}}";
        text += "\n";
        list += (list.empty() ? "" : ",") + o;
    }
    if (!list.empty()) {
        std::string first = list.substr(0, list.find("}}}") == list.npos ? list.size() : list.find("}}}") + 3);
        raw("loop", first);
        if (loops.size() > 1) {
            std::string all = "[";
            all += list;
            all += "]";
            raw("loops", all);
        }
        num("prologue", pro / (double)nw, 1);
        num("epilogue", epi / (double)nw, 1);
        text +=
            fmt("  before the loop %.0f clocks, after it %.0f (mean over waves)\n", pro / (double)nw, epi / (double)nw);
    }
    if (S.lead && S.lead->head.size() >= 3) {
        size_t a, b;
        window(*S.lead, a, b);
        if (S.marks.size() > b) share("in_loop", S.marks[a], S.marks[b]);
    }
    std::array<u64, S_N> all{};
    u64 sum = 0;
    for (auto& w : S.waves)
        for (int q = 0; q < S_N; q++) {
            all[q] += w->st[q];
            sum += w->st[q];
        }
    std::string o = "{";
    text += "  whole run, share of wave time:";
    for (int q = 0; q < S_N; q++)
        if (all[q]) {
            double v = (double)all[q] / (double)sum;
            o += fmt("%s\"%s\":%.4f", o.size() > 1 ? "," : "", stall_name[q], v);
            if (v >= 0.005) text += fmt(" %s %.1f %%", stall_name[q], 100 * v);
        }
    o += "}";
    raw("wave_time", o);
    text += "\n";
    // the instructions that cost most
    std::vector<u32> top;
    for (u32 q = 0; q < S.ist.size(); q++)
        if (S.ihit[q]) top.push_back(q);
    size_t nt = 12;
    if (const char* e = env("GFXEMU_TIMING_TOP")) nt = std::strtoull(e, nullptr, 0);
    std::sort(top.begin(), top.end(), [&](u32 x, u32 y) { return S.ist[x] > S.ist[y]; });
    if (top.size() > nt) top.resize(nt);
    std::string l = "[";
    text += "  most expensive instructions (clocks over all waves, executions):\n";
    for (u32 q : top) {
        const Inst& i = *S.im.insts[q];
        l += fmt("%s[\"0x%llx\",%llu,%llu,\"%s\"]", l.size() > 1 ? "," : "", (unsigned long long)(i.pc - S.base()),
            (unsigned long long)S.ist[q], (unsigned long long)S.ihit[q], i.mn.c_str());
        text += fmt("    0x%05llx %9llu %8llu  %s\n", (unsigned long long)(i.pc - S.base()),
            (unsigned long long)S.ist[q], (unsigned long long)S.ihit[q], i.text.substr(0, 90).c_str());
    }
    l += "]";
    raw("top", l);
    for (auto& w : S.waves)
        if (w->tr->cut) {
            num("truncated", 1);
            text += "  (a trace was cut at GFXEMU_TIMING_MAX instructions)\n";
            break;
        }
    j += "}";
    return j;
}

// ---------------------------------------------------------------- occupancy
u32 resident_groups(const RunCtx& r) {
    const KernelInfo& k = *r.kernel;
    const Launch& L = *r.params;
    bool gfx9 = r.arch == Arch::gfx942 || r.arch == Arch::gfx950;
    u32 rsrc1;
    std::memcpy(&rsrc1, r.code->impl->base + k.descriptor + 48, 4);
    u16 props;
    std::memcpy(&props, r.code->impl->base + k.descriptor + 56, 2);
    u32 lanes = gfx9                ? 64
                : (props >> 10 & 1) ? 32
                                    : 64,
        threads = L.block.x * L.block.y * L.block.z, nw = (threads + lanes - 1) / lanes;
    u32 total, gran, maxw;
    if (gfx9) {
        total = 512;
        gran = 8;
        maxw = 8;
    } else if (r.arch == Arch::gfx1200) {
        total = lanes == 32 ? 1536 : 768;
        gran = lanes == 32 ? 24 : 12;
        maxw = 16;
    } else {
        total = lanes == 32 ? 1024 : 512;
        gran = lanes == 32 ? 16 : 8;
        maxw = 16;
    }
    u32 v = std::max<u32>(1, k.vgprs);
    v = (v + gran - 1) / gran * gran;
    u32 per_simd = std::max<u32>(1, std::min(maxw, total / v));
    u32 lds = k.static_lds + L.dynamic_lds, lg = gfx9 ? (r.arch == Arch::gfx950 ? 1280 : 512) : 1024,
        cap = r.arch == Arch::gfx950 ? 160 * 1024
              : gfx9                 ? 64 * 1024
                                     : 128 * 1024;
    bool wgp = gfx9 || (rsrc1 >> 29 & 1);
    u32 n;
    if (wgp) {
        n = per_simd * 4 / nw;
        if (lds) n = std::min(n, cap / ((lds + lg - 1) / lg * lg));
    } else {
        n = per_simd * 2 / nw;
        if (lds) n = std::min(n, (cap / 2) / ((lds + lg - 1) / lg * lg));
        n *= 2;
    }
    n = std::min<u32>(n, nw > 1 ? (gfx9 ? 16 : 32) : 64);
    return std::max<u32>(1, n);
}
} // namespace

void TimingRun::attach(Workgroup& g, u64 index) {
    if (index < first || index - first >= count) return;
    std::lock_guard<std::mutex> l(mu);
    GroupTrace& t = groups[index];
    std::memcpy(t.id, g.wgid, sizeof t.id);
    t.waves.clear();
    for (auto& w : g.waves) {
        t.waves.push_back(std::make_unique<WaveTrace>());
        t.waves.back()->limit = limit;
        w->trace = t.waves.back().get();
    }
}

std::unique_ptr<TimingRun> timing_start(const RunCtx& r, u64 groups) {
    const char* e = env("GFXEMU_TIMING");
    if (!e || !std::strcmp(e, "0")) return nullptr;
    if (const char* f = env("GFXEMU_TIMING_KERNEL"))
        if (r.kernel->name.find(f) == std::string::npos) return nullptr;
    auto t = std::make_unique<TimingRun>();
    t->resident = resident_groups(r);
    t->count = t->resident;
    if (const char* n = env("GFXEMU_TIMING_WG")) t->count = std::max<u64>(1, std::strtoull(n, nullptr, 0));
    if (const char* n = env("GFXEMU_TIMING_RESIDENT"))
        t->resident = (u32)std::max<u64>(1, std::strtoull(n, nullptr, 0));
    if (const char* n = env("GFXEMU_TIMING_FIRST")) t->first = std::strtoull(n, nullptr, 0);
    t->first = std::min(t->first, groups - 1);
    t->count = std::min(t->count, groups - t->first);
    t->limit = 1u << 20;
    if (const char* n = env("GFXEMU_TIMING_MAX")) t->limit = std::strtoull(n, nullptr, 0);
    return t;
}

std::string timing_finish(TimingRun& t, const RunCtx& r) {
    std::lock_guard<std::mutex> decoded(
        r.code->impl->decode_mutex); // other launches may decode more of this code object
    Sim s(r, t);
    std::string text, json;
    if (const char* f = env("GFXEMU_TIMING_TRACE")) s.trace = std::fopen(f, "w");
    s.go();
    json = report(s, text);
    if (s.trace) std::fclose(s.trace);
    if (const char* f = env("GFXEMU_TIMING_OUT")) {
        if (FILE* o = std::fopen(f, "a")) {
            std::fputs(text.c_str(), o);
            std::fclose(o);
        }
    } else
        std::fputs(text.c_str(), stderr);
    return json;
}

} // namespace gfxemu
