#include "timing/simulator.h"

#include <cstdlib>

namespace gfxemu::timing {

const TI& Sim::info(u32 idx) {
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

Loop Sim::find_loop(const WaveTrace& w) {
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

void Sim::place(SGroup& g) {
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

void Sim::head_changed(SWave& w) {
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

Stall Sim::blocked(SWave& w, const TI& x) {
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
        if (x.pk && P_[pk_wait] > 0 && t < s.mm_free + (s.mm_wave == (int)w.age ? P_.u(pk_wait) : 0)) return S_PACKED;
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

void Sim::release(SGroup& g) {
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

void Sim::charge(SWave& w, Stall why, u32 idx, K k) {
    account(w, why);
    w.acc_ic = ic_of(k);
    w.acc_idx = idx;
}

void Sim::mark(SWave& w) {
    Snap s{t, w.st, w.ic, w.icn, w.instr};
    w.head.push_back(s);
    if (&w == lead) {
        busy.t = t;
        marks.push_back(busy);
    }
}

void Sim::issue(SWave& w) {
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

u64 Sim::turn_of(int si) {
    Simd& s = sd[si];
    u64 wake = NEVER;
    if (s.w.empty()) return wake;
    // candidates in priority, then age order
    SWave* order[64];
    int n = 0;
    for (auto* w : s.w)
        if (n < 64) order[n++] = w;
    std::stable_sort(
        order, order + n, [](SWave* a, SWave* b) { return a->prio != b->prio ? a->prio > b->prio : a->age < b->age; });
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

void Sim::go() {
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

} // namespace gfxemu::timing
