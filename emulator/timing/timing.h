// Timing model. The core records the dynamic instruction stream of a few workgroups (GFXEMU_TIMING=1); after the launch
// timing.cpp replays it on a cycle-level model of one compute unit (CDNA) or one WGP (RDNA). See docs/timing.md.
#pragma once
#include "core/internal.h"

namespace gfxemu {

struct TraceRec {
    u32 idx, bytes;
    u16 seg, conflict;
}; // Inst::idx; bytes of active lanes; 64-byte segments; extra LDS cycles

struct WaveTrace {
    std::vector<TraceRec> rec;
    size_t limit = 0;
    bool open = false, cut = false;
    u64 bytes = 0, seg = 0, conflict = 0; // counters before the open record's instruction
    void begin(const Counters& c, u32 idx) {
        end(c);
        if (rec.size() >= limit) {
            cut = true;
            return;
        }
        rec.push_back({idx, 0, 0, 0});
        open = true;
        bytes = total(c);
        seg = c.vmem_segments;
        conflict = c.lds_conflict_cycles;
    }
    void end(const Counters& c) {
        if (!open) return;
        open = false;
        TraceRec& r = rec.back();
        r.bytes = (u32)(total(c) - bytes);
        r.seg = (u16)std::min<u64>(65535, c.vmem_segments - seg);
        r.conflict = (u16)std::min<u64>(65535, c.lds_conflict_cycles - conflict);
    }
    static u64 total(const Counters& c) {
        return c.vmem_load_bytes + c.vmem_store_bytes + c.lds_read_bytes + c.lds_write_bytes;
    }
};

struct GroupTrace {
    u32 id[3] = {0, 0, 0};
    std::vector<std::unique_ptr<WaveTrace>> waves;
};

struct TimingRun {
    u64 first = 0, count = 0;
    u32 resident = 1;
    size_t limit = 0;
    std::mutex mu;
    std::map<u64, GroupTrace> groups;
    void attach(Workgroup& g, u64 index); // gives the waves of a chosen workgroup their recorders
};

std::unique_ptr<TimingRun> timing_start(const RunCtx& r, u64 groups); // null unless GFXEMU_TIMING is set
std::string timing_finish(
    TimingRun& t, const RunCtx& r);       // JSON object; the readable text goes to GFXEMU_TIMING_OUT or stderr
std::string timing_parameters(Arch arch); // the parameter table, with sources

inline void trace_instruction(Wave& w, const Inst& i) { w.trace->begin(*w.wg->ctr, i.idx); }
inline void trace_pause(Wave& w) { w.trace->end(*w.wg->ctr); }

} // namespace gfxemu
