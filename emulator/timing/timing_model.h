// Private to the timing model: its parameters and what it keeps of a decoded instruction.
#pragma once
#include "timing/timing.h"

namespace gfxemu::timing {

enum P : int {
    simds,
    turn,
    cluster,
    valu_issue,
    valu_lat,
    trans_issue,
    trans_lat,
    quarter_issue,
    cvt_issue,
    pk_issue,
    f64_issue,
    perm_issue,
    ports3,
    mm_block,
    mm_valu,
    mm_c,
    pk_wait,
    salu_lat,
    valu_salu,
    branch_taken,
    branch_not,
    smem_lat,
    lds_bw,
    lds_wbw,
    lds_simd_bw,
    lds_min,
    lds_perm,
    lds_lat,
    lds_queue,
    vm_min,
    l1_bw,
    l2_bw,
    vm_queue,
    l1_hit,
    l2_hit,
    l1_lat,
    l2_lat,
    mem_lat,
    store_lat,
    barrier_lat,
    sleep_unit,
    wg_launch,
    P_N
};

struct Params { // one architecture's column of the table, with GFXEMU_TIMING_SET applied
    double p[P_N];
    double operator[](P i) const { return p[i]; }
    u64 u(P i) const { return (u64)p[i]; }
};
Params load_params(Arch a);
const char* env(const char* name); // null where unset or empty

enum class K : u8 {
    valu,
    trans,
    matrix,
    salu,
    smem,
    branch,
    lds,
    vmem,
    barrier,
    signal,
    bwait,
    waitcnt,
    nop,
    sleep,
    prio,
    other,
    end
};
constexpr int R_S = 512, R_SCC = R_S + S_COUNT, R_N = R_SCC + 1; // register numbers: vector rows, scalars, SCC
struct Rng {
    u16 reg;
    u8 n;
};

struct TI { // what the simulator needs to know of an instruction
    K k = K::other;
    bool pk = false, three = false, load = false, store = false, dma = false, perm = false, ldsw = false,
         wide96 = false, scratch = false, free = false;
    u8 nrd = 0, nwr = 0;
    u32 issue = 1, lat = 1, occ = 0;                               // port clocks, result latency, matrix-pipe clocks
    Rng rd[12], wr[6], c{0, 0};                                    // c: matrix accumulator input
    i32 vm = -1, lgkm = -1, vs = -1, km = -1;                      // wait thresholds
    bool q_vm = false, q_vs = false, q_lgkm = false, q_km = false; // counters it occupies
    u64 flops = 0, imm = 0, pc = 0;
    u32 size = 0, dwords = 1;
};
TI decode(Arch a, const Params& p, const Inst& i, bool wave64);

} // namespace gfxemu::timing
