// Address checks and operations in flight: counters, waits, the targets of loads that have not returned.
#include "core/memory.h"

#include <algorithm>

namespace gfxemu {

// ---------------------------------------------------------------- addresses
static bool in_range(Wave& w, u64 address, u64 bytes) {
    auto& ranges = w.wg->run->ranges;
    auto it = std::upper_bound(ranges.begin(), ranges.end(), address, [](u64 x, const Range& r) { return x < r.lo; });
    if (it == ranges.begin()) return false;
    --it;
    if (address + bytes > it->hi || address + bytes < address) return false;
    w.cached = *it;
    return true;
}
void check_address(Wave& w, const Inst& i, u64 address, u64 bytes, int lane) {
    if (!w.wg->run->chk.memory || (address >= w.cached.lo && address + bytes <= w.cached.hi)) return;
    if (!in_range(w, address, bytes)) [[unlikely]]
        fault(w, i, Fault::Kind::memory, std::to_string(bytes) + "-byte access at " + describe_address(address), lane);
}
void check_addresses(Wave& w, const Inst& i, const u64* address, u64 mask, u32 bytes) {
    if (!mask || !w.wg->run->chk.memory) return;
    u64 lo = ~0ull, hi = 0;
    if (mask == w.full)
        GFX_LANES(w, l, lo = std::min(lo, address[l]); hi = std::max(hi, address[l]));
    else
        each_lane(mask, [&](int l) {
            lo = std::min(lo, address[l]);
            hi = std::max(hi, address[l]);
        });
    if (lo >= w.cached.lo && hi + bytes <= w.cached.hi && hi + bytes > hi) return;
    each_lane(mask, [&](int l) { check_address(w, i, address[l], bytes, l); });
}

// ---------------------------------------------------------------- operations in flight
static void mark(Wave& w, const Pending& p, bool begins) {
    for (u32 r = p.first; r < p.first + p.n; r++) {
        u32 block = RegisterBlocks::of(r);
        u8& n = w.pend[r];
        if (begins && n++ == 0) w.pend_in_block[block]++;
        if (!begins && --n == 0) w.pend_in_block[block]--;
        w.pend_blocks.set(block, w.pend_in_block[block] != 0);
    }
}
void push_pending(Wave& w, Queue q, Pending&& p) {
    mark(w, p, true);
    w.pending_total++;
    w.q[q].push(std::move(p));
}

// The data of an LDS-DMA load arrive.
static void land(Wave& w, const Dma& d) {
    Workgroup& g = *w.wg;
    if (g.run->chk.race) {
        each_lane(d.mask, [&](int l) {
            for (u32 k = d.addr[l] / 4; k <= (d.addr[l] + d.bytes - 1) / 4; k++)
                if (u32* n = g.shadow.at(LdsShadow::DMA, k); *n) --*n;
        });
        auto value = [](Wave&, const Inst&, const void* dma, int l, u32 at) { return ((const Dma*)dma)->data[l][at]; };
        lds_touch(w, *d.inst, d.addr, d.mask, d.bytes, true, false, value, &d);
    }
    each_lane(d.mask, [&](int l) { std::memcpy(&g.lds[d.addr[l]], d.data[l], d.bytes); });
}
static void retire_front(Wave& w, FifoQ& q) {
    Pending& p = q.at(0);
    mark(w, p, false);
    w.pending_total--;
    if (p.dma) land(w, *p.dma);
    for (auto* op : {&p.lop, &p.lop2})
        if (*op) w.spare_lds_ops.push_back(std::move(*op));
    q.pop();
}

void retire_wait(Wave& w, int queue, int count) {
    FifoQ& q = w.q[queue];
    size_t n = q.size();
    if (n <= (size_t)count) return;
    size_t unordered = 0;
    for (size_t k = 0; k < n; k++) unordered += q.at(k).ooo;
    if (!unordered || count == 0) {
        while (q.size() > (size_t)count) retire_front(w, q);
        return;
    }
    // Scalar loads return in any order: only what must have finished retires.
    size_t done = n - (size_t)count;
    done = done > unordered ? done - unordered : 0;
    std::vector<Pending> keep;
    while (q.size()) {
        Pending& p = q.at(0);
        if (!p.ooo && done) {
            done--;
            retire_front(w, q);
        } else {
            keep.push_back(std::move(p));
            q.pop();
        }
    }
    for (auto& p : keep) q.push(std::move(p));
}
void retire_all(Wave& w) {
    for (auto& q : w.q)
        while (q.size()) retire_front(w, q);
}

// ---------------------------------------------------------------- missing waits
static std::string register_name(u32 r) {
    return r >= 1024  ? "s" + std::to_string(r - 1024)
           : r >= 256 ? "a" + std::to_string(r - 256)
                      : "v" + std::to_string(r);
}

// An operation in flight whose result the instruction must not touch yet. Operations of one kind return in order, so
// one may overwrite the destination of an earlier one.
static const Pending* conflicting(Wave& w, const Inst& i, u32 reg, bool is_destination, const char*& counter) {
    static const char* names[] = {"vmcnt/loadcnt", "vscnt/storecnt", "lgkmcnt/dscnt", "kmcnt", "samplecnt", "bvhcnt"};
    bool vector_memory = i.cls == Cls::vload || i.cls == Cls::vatomic || i.cls == Cls::vstore;
    bool lds = i.cls == Cls::lds_read || i.cls == Cls::lds_permute || i.cls == Cls::lds_atomic;
    const Pending* found = nullptr;
    for (int q = 0; q < Q_N; q++) {
        for (size_t e = 0; e < w.q[q].size(); e++) {
            Pending& p = w.q[q].at(e);
            if (reg < p.first || reg >= p.first + p.n) continue;
            bool same_kind = (q == Q_VM && vector_memory) || (q == Q_LGKM && lds && !p.ooo);
            if (is_destination && same_kind) continue;
            found = &p;
            counter = names[q];
        }
    }
    return found;
}

void check_touch(Wave& w, const Inst& i) {
    if (!w.wg->run->chk.wait) return;
    for (int k = 0; k < i.ntouch; k++) {
        const Touch& t = i.touch[k];
        for (u32 r = t.reg; r < (u32)t.reg + t.n; r++) {
            if (!w.pend[r]) [[likely]]
                continue;
            const char* counter = "";
            const Pending* p = conflicting(w, i, r, t.is_dst, counter);
            if (!p) continue;
            std::string load =
                p->inst ? p->inst->text + " at pc " + hex(p->inst->pc - (u64)w.wg->run->code->impl->base) : "?";
            fault(w, i, Fault::Kind::wait_hazard,
                register_name(r) + " is the destination of an outstanding load (" + counter + "): " + load);
        }
    }
}

} // namespace gfxemu
