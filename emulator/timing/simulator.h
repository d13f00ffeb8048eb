// The simulator: replays recorded waves on one compute unit (CDNA) or one WGP (RDNA).
#pragma once
#include "timing/timing_model.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <queue>

namespace gfxemu::timing {

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
inline const char* const stall_name[S_N] = {"issue", "dependency", "matrix_result", "matrix_busy", "matrix_read_phase",
    "valu_busy", "packed_hazard", "lds_queue", "vmem_queue", "wait_lds", "wait_vmem", "wait_smem", "barrier",
    "nop_sleep", "branch", "issue_conflict", "launch"};
// The classes that public traces attribute stalls to.
enum IC : int { I_MATRIX, I_VALU, I_LDS, I_VMEM, I_WAIT, I_BARRIER, I_NOP, I_SCALAR, I_N };
inline const char* const ic_name[I_N] = {"matrix", "valu", "lds", "vmem", "waitcnt", "barrier", "nop", "scalar"};
inline IC ic_of(K k) {
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
    const TI& info(u32 idx);
    u64 base() const { return (u64)im.base; }

    // ---- the hot loop of a wave: innermost target of backward branches that covers most of the matrix work (or of the
    // instructions)
    Loop find_loop(const WaveTrace& w);

    // ---- placement
    void place(SGroup& g);

    // ---- readiness
    void head_changed(SWave& w);
    // Earliest reason why the wave cannot issue at t; S_ISSUE if it can.
    Stall blocked(SWave& w, const TI& x);
    void release(SGroup& g);
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
    void charge(SWave& w, Stall why, u32 idx, K k);
    void mark(SWave& w);

    void issue(SWave& w);

    // One issue turn of a SIMD.
    u64 turn_of(int si);

    void go();
};

// The JSON object of a finished replay; `text` receives the readable report.
std::string report(Sim& sim, std::string& text);

} // namespace gfxemu::timing
