// Timing model: the parameter table, and the decoding of instructions into what the simulator needs.
#include "timing/timing_model.h"
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace gfxemu::timing {
namespace {
// ---------------------------------------------------------------- parameters
// One row per parameter; columns in the order of Arch. Units are clocks unless said otherwise.
// Sources: [D] vendor document; [LLVM] LLVM 22 scheduling model or hazard recogniser; [ATT] public instruction traces
// of MI355X (ROCm/gfx950-gluon-tutorials, kernels/attention); [HK] HipKittens' measured LDS phases
// (analysis/paper_experiments/phases); [IC] AMD matrix instruction calculator; [GA] gcnasm's gfx1201 measurements; [ST]
// fit to Strata's published gfx1030 steps; [mem] from memory; [A] assumption.
struct Row {
    const char* name;
    double v[4];
    const char* what;
    const char* source;
};
const Row rows[P_N] = {
    {"simds", {4, 4, 4, 4}, "SIMDs simulated: a CU (CDNA), a WGP of two CUs (RDNA)", "[mem]"},
    {"turn", {1, 1, 4, 4}, "a SIMD may issue every so many clocks; a wave issues at most one instruction per turn",
        "[mem] GCN cadence; [ATT] s_nop N stalls 4(N+1) clocks, every instruction costs 4"},
    {"cluster", {2, 2, 4, 4}, "SIMDs that share one LDS pipe and one vector-memory pipe", "[mem]"},
    {"valu_issue", {1, 1, 4, 4}, "VALU port per plain instruction (twice that for wave64 on RDNA)", "[D] [ATT] 4"},
    {"valu_lat", {5, 5, 4, 4}, "dependent VALU after VALU", "[LLVM] 5 / 1 pass"},
    {"trans_issue", {4, 4, 16, 8}, "VALU port per exp, log, rcp, sqrt, sin",
        "[GA] quarter rate; gfx942 [LLVM] 4 passes; gfx950 [ATT] 8"},
    {"trans_lat", {10, 10, 20, 12}, "dependent VALU after a transcendental",
        "[LLVM] 10; CDNA: issue + one wait state (trans forwarding hazard)"},
    {"quarter_issue", {4, 4, 16, 16}, "VALU port per 32x32 integer multiply", "[LLVM] latency class; rate [mem]"},
    {"cvt_issue", {1, 1, 4, 4}, "VALU port per conversion",
        "[A] full rate, as AITER's gfx942 interleave implies; [LLVM] says 4 passes"},
    {"pk_issue", {1, 1, 4, 4}, "VALU port per packed fp32 instruction", "[D] 256 FLOP/clk/CU"},
    {"f64_issue", {16, 16, 4, 4}, "VALU port per fp64 instruction", "[mem]"},
    {"perm_issue", {1, 1, 4, 8}, "VALU port per v_permlane*_swap", "[LLVM] 2 micro-ops"},
    {"ports3", {0, 0, 0, 0}, "extra VALU clocks of a 3-source instruction while LDS returns data to the SIMD",
        "off; effect known [ATT], size not"},
    {"mm_block", {0, 0, 4, 8},
        "clocks after an MFMA in which no VALU instruction issues on the SIMD (WMMA: the whole instruction)",
        "[IC] 4; [ATT] 8"},
    {"mm_valu", {5, 5, 16, 16}, "matrix result to VALU, memory or another matrix operand A/B, after the pipe time",
        "[LLVM] passes + 4; WMMA [A] VALU latency"},
    {"mm_c", {5, 5, 8, 12}, "matrix result to a matrix C operand that is not the same register block (same block: 0)",
        "[LLVM] hazard tables; WMMA [A]"},
    {"pk_wait", {0, 0, 0, 12},
        "a packed fp32 instruction waits so long after the pipe is free (gfx950: never during an MFMA)",
        "[ATT] 44 = 32 + 12"},
    {"salu_lat", {2, 2, 4, 4}, "dependent SALU after SALU", "[LLVM]"},
    {"valu_salu", {6, 6, 8, 8}, "scalar register written by VALU to SALU or branch",
        "[LLVM] 5 / 1 pass, plus a slot [A]"},
    {"branch_taken", {16, 16, 16, 16}, "taken branch to the next instruction",
        "[A]; [ATT] scalar stalls are at most 16 a trip"},
    {"branch_not", {4, 4, 4, 4}, "branch not taken", "[A]"},
    {"smem_lat", {120, 120, 160, 160}, "scalar load that hits", "[mem]"},
    {"lds_bw", {128, 128, 128, 256}, "LDS bytes a clock of a pipe",
        "[D], RDNA [mem]; gfx950 [HK] 64 banks, b128 in 4 phases; [ATT] read stalls (668 a trip) fit 256, 128 would "
        "give 1664"},
    {"lds_wbw", {128, 128, 128, 128}, "LDS write and DMA bytes a clock", "[D]; gfx950 [HK] writes: 32 banks"},
    {"lds_simd_bw", {128, 128, 64, 64}, "bytes a clock returned to one SIMD's registers", "[A] register write width"},
    {"lds_min", {1, 1, 2, 2}, "LDS pipe per instruction, at least", "[A] 32 addresses a clock"},
    {"lds_perm", {4, 4, 4, 4}, "LDS pipe per bpermute, permute, swizzle", "[ST] 3.7 on gfx1030"},
    {"lds_lat", {48, 48, 64, 64}, "LDS instruction to first data",
        "[mem] GCN 64, [ATT] wait stall about 70 after the last read; RDNA [A]"},
    {"lds_queue", {4, 4, 1, 1}, "LDS instructions of a SIMD that wait in front of the pipe before issue stalls",
        "tuned to the split of stalls in [ATT]; RDNA [A]"},
    {"vm_min", {1, 1, 4, 4}, "vector-memory pipe per instruction, at least",
        "[A] 16 (CDNA) or 32 (RDNA) addresses a clock"},
    {"l1_bw", {128, 128, 64, 64}, "vector L0/L1 bytes a clock", "[mem]"},
    {"l2_bw", {64, 64, 64, 64}, "L2 bytes a clock to a cluster", "[mem]"},
    {"vm_queue", {64, 64, 16, 16}, "clocks of work the vector-memory pipe accepts in advance",
        "tuned to the split of stalls in [ATT]; RDNA [A]"},
    {"l1_hit", {0, 0, 0, 0}, "share of vector-memory requests that hit L0/L1", "input; 0 = streaming"},
    {"l2_hit", {1, 1, 1, 1}, "share of the rest that hits L2 (or the memory-side cache)", "input"},
    {"l1_lat", {90, 90, 120, 120}, "L0/L1 hit", "[mem]"},
    {"l2_lat", {250, 250, 500, 500}, "L2 hit under load", "[mem]; LLVM's VMEM latency is 320 on RDNA"},
    {"mem_lat", {700, 700, 1200, 1200}, "miss", "[mem]"},
    {"store_lat", {250, 250, 500, 500}, "store acknowledged", "[A] as L2"},
    {"barrier_lat", {4, 4, 16, 16}, "last arrival to release", "[A]"},
    {"sleep_unit", {64, 64, 64, 64}, "s_sleep unit", "[mem] ISA documents"},
    {"wg_launch", {200, 200, 200, 200}, "between launches of workgroups on the unit", "[A]"},
};
} // namespace

const char* env(const char* name) {
    const char* e = std::getenv(name);
    return e && *e ? e : nullptr;
}
Params load_params(Arch a) {
    Params r;
    for (int i = 0; i < P_N; i++) r.p[i] = rows[i].v[(int)a];
    if (const char* e = env("GFXEMU_TIMING_SET")) {
        std::string s = std::string(e) + ",";
        size_t i = 0, j;
        while ((j = s.find(',', i)) != s.npos) {
            std::string t = s.substr(i, j - i);
            i = j + 1;
            size_t q = t.find('=');
            if (t.empty()) continue;
            int k = 0;
            while (k < P_N && t.substr(0, q) != rows[k].name) k++;
            if (k == P_N || q == t.npos)
                throw std::invalid_argument("gfxemu: GFXEMU_TIMING_SET: unknown parameter " + t);
            r.p[k] = std::strtod(t.c_str() + q + 1, nullptr);
        }
    }
    return r;
}

// ---------------------------------------------------------------- decoding
namespace {
bool has(const std::string& s, const char* p) { return s.find(p) != s.npos; }
bool pre(const std::string& s, const char* p) { return s.compare(0, std::strlen(p), p) == 0; }

u32 matrix_clocks(Arch a, const Inst& i) {
    const std::string& m = i.mn;
    if (a == Arch::gfx1200) return has(m, "fp8") || has(m, "bf8") || has(m, "iu8") || has(m, "iu4") ? 8 : 16;
    const MatrixShape& s = i.shape;
    bool big = s.m == 32;
    if (s.m == 4) return has(m, "f64") ? 16 : 8;
    if (has(m, "_f64")) return a == Arch::gfx950 ? 64 : 32;
    if (has(m, "f8f6f4")) {
        bool byte = i.cbsz < 2 || i.blgp < 2;
        return (big ? 32u : 16u) << byte;
    }
    if (has(m, "xf32")) return big ? 32 : 16;
    if (s.blocks > 1) return big ? 64 : 32; // 32x32 two blocks, 16x16 four blocks
    if (has(m, "x2_f32") || has(m, "x2f32") || has(m, "x4_f32") || has(m, "x4f32")) return big ? 64 : 32;
    return big ? 32 : 16;
}

u64 num_of(const std::string& text) {
    size_t p = text.find(' ');
    return p == text.npos ? 0 : (u64)std::strtoull(text.c_str() + p, nullptr, 0);
}

} // namespace

TI decode(Arch a, const Params& p, const Inst& i, bool wave64) {
    TI t;
    const std::string& m = i.mn;
    bool gfx9 = a == Arch::gfx942 || a == Arch::gfx950;
    t.pc = i.pc;
    t.size = i.size;
    u32 x2 = !gfx9 && wave64 ? 2 : 1;
    auto rng = [&](const Opnd& o) -> Rng {
        return {(u16)(o.kind == Opnd::V ? o.reg : R_S + o.reg), o.n ? o.n : (u8)1};
    };
    auto isreg = [](const Opnd& o) { return o.kind == Opnd::V || (o.kind == Opnd::S && o.reg < S_COUNT); };
    auto R = [&](Rng r) {
        if (t.nrd < 12) t.rd[t.nrd++] = r;
    };
    auto W = [&](Rng r) {
        if (t.nwr < 6) t.wr[t.nwr++] = r;
    };
    auto operands = [&](const Inst& q, int ndst, bool rmw) {
        for (int k = 0; k < q.nop; k++) {
            const Opnd& o = q.op[k];
            if (o.kind == Opnd::SCC) {
                R({R_SCC, 1});
                continue;
            }
            if (!isreg(o)) continue;
            if (k < ndst) {
                W(rng(o));
                if (rmw) R(rng(o));
            } else
                R(rng(o));
        }
    };
    t.issue = p.u(turn);
    t.lat = (u32)p.u(salu_lat);
    switch (i.cls) {
    case Cls::valu:
    case Cls::trans: {
        t.k = i.cls == Cls::trans ? K::trans : K::valu;
        auto one = [&](const Inst& q) {
            const std::string& n = q.mn;
            int nd = 1;
            if (pre(n, "v_cmpx") && !gfx9) nd = 0;
            if (q.nop > 1 && (has(n, "_co_") || pre(n, "v_div_scale") || pre(n, "v_mad_u64") || pre(n, "v_mad_i64")))
                nd = 2;
            if (has(n, "swap")) nd = 2;
            if (n == "v_nop") nd = 0;
            bool rmw = has(n, "swap") || has(n, "fmac") || has(n, "_mac_") || (pre(n, "v_dot") && q.nop == 3) ||
                       has(n, "writelane") || (q.dpp && !q.dpp->bound_zero) || (q.sdwa && q.sdwa->dst_unused == 2) ||
                       has(n, "cvt_pk_fp8") || has(n, "cvt_pk_bf8") || has(n, "cvt_sr");
            operands(q, nd, rmw);
            if (pre(n, "v_cmpx")) W({(u16)(R_S + S_EXEC), 2});
        };
        one(i);
        if (i.dual) one(*i.dual);
        R({(u16)(R_S + S_EXEC), 2});
        t.three = i.nop >= 4 && i.op[1].kind == Opnd::V && i.op[2].kind == Opnd::V && i.op[3].kind == Opnd::V;
        t.pk = pre(m, "v_pk_") && has(m, "_f32");
        bool f64 = has(m, "_f64") && !pre(m, "v_cvt") && !pre(m, "v_mov");
        if (t.k == K::trans) {
            t.issue = (u32)p.u(trans_issue);
            t.lat = (u32)p.u(trans_lat);
            if (f64) {
                t.issue *= 2;
                t.lat *= 2;
            }
        } else {
            t.issue = (u32)p.u(valu_issue);
            t.lat = (u32)p.u(valu_lat);
            if (t.pk)
                t.issue = (u32)p.u(pk_issue);
            else if (f64)
                t.issue = (u32)p.u(f64_issue);
            else if (pre(m, "v_mul_lo_u32") || pre(m, "v_mul_hi_") || pre(m, "v_mad_u64") || pre(m, "v_mad_i64") ||
                     m == "v_mul_lo_i32")
                t.issue = (u32)p.u(quarter_issue);
            else if (pre(m, "v_cvt_") && !has(m, "pk_bf16") && !has(m, "pkrtz"))
                t.issue = (u32)p.u(cvt_issue);
            else if (pre(m, "v_permlane") && has(m, "swap"))
                t.issue = (u32)p.u(perm_issue);
            if (t.issue > p.u(valu_issue)) t.lat = std::max(t.lat, (u32)(t.issue + p.u(valu_lat) - p.u(valu_issue)));
        }
        t.issue *= x2;
        if (x2 == 2) t.lat += t.issue / 2;
        break;
    }
    case Cls::matrix: {
        t.k = K::matrix;
        t.occ = matrix_clocks(a, i) * x2;
        t.flops = i.shape.flops;
        t.lat = t.occ + (u32)p.u(mm_valu);
        t.issue = gfx9 ? (u32)p.u(valu_issue) : t.occ;
        for (int k = 0; k < i.nop; k++)
            if (isreg(i.op[k])) {
                if (k == 0)
                    W(rng(i.op[k]));
                else if (k == 3)
                    t.c = rng(i.op[k]);
                else
                    R(rng(i.op[k]));
            }
        break;
    }
    case Cls::salu: {
        t.k = K::salu;
        bool nodst = pre(m, "s_cmp") || pre(m, "s_bitcmp") || pre(m, "s_setreg") || pre(m, "s_set_gpr") || i.nop == 0;
        bool rmw =
            m == "s_cmovk_i32" || m == "s_addk_i32" || m == "s_mulk_i32" || pre(m, "s_cmov") || pre(m, "s_bitset");
        operands(i, nodst ? 0 : 1, rmw);
        if (has(m, "saveexec") || has(m, "wrexec")) {
            W({(u16)(R_S + S_EXEC), 2});
            R({(u16)(R_S + S_EXEC), 2});
        }
        if (pre(m, "s_cselect") || pre(m, "s_cmov") || has(m, "addc") || has(m, "subb") || pre(m, "s_cmov"))
            R({R_SCC, 1});
        if (!pre(m, "s_mov") && !pre(m, "s_cselect") && !pre(m, "s_cmov") && !pre(m, "s_sext") && !pre(m, "s_getpc") &&
            !pre(m, "s_mul") && !pre(m, "s_pack") && !pre(m, "s_brev") && !pre(m, "s_ff"))
            W({R_SCC, 1});
        break;
    }
    case Cls::smem:
        t.k = K::smem;
        t.lat = (u32)p.u(smem_lat);
        operands(i, i.m.store ? 0 : 1, false);
        if (a == Arch::gfx1200)
            t.q_km = true;
        else
            t.q_lgkm = true;
        break;
    case Cls::branch:
        t.k = K::branch;
        operands(i, 0, false);
        if (has(m, "scc")) R({R_SCC, 1});
        if (has(m, "vcc")) R({(u16)(R_S + S_VCC), 2});
        if (has(m, "exec")) R({(u16)(R_S + S_EXEC), 2});
        break;
    case Cls::barrier:
        t.k = m == "s_barrier_wait"        ? K::bwait
              : pre(m, "s_barrier_signal") ? K::signal
              : m == "s_barrier"           ? K::barrier
                                           : K::other;
        break;
    case Cls::waitcnt:
        t.k = K::waitcnt;
        t.vm = i.w_vm;
        t.lgkm = i.w_lgkm;
        t.vs = i.w_vs;
        t.km = i.w_km;
        break;
    case Cls::vload:
    case Cls::vstore:
    case Cls::vatomic:
        t.k = K::vmem;
        t.load = i.cls != Cls::vstore;
        t.store = i.cls != Cls::vload;
        t.dma = i.m.lds_dma;
        t.scratch = i.m.space == Space::scratch;
        t.dwords = i.m.dwords;
        operands(i, t.load && !t.dma && (i.cls == Cls::vload || i.m.rtn) ? 1 : 0, false);
        if (t.dma) R({(u16)(R_S + S_M0), 1});
        if (gfx9)
            t.q_vm = true;
        else if (i.cls == Cls::vload || i.m.rtn)
            t.q_vm = true;
        else
            t.q_vs = true;
        if (i.m.space == Space::flat) t.q_lgkm = true;
        break;
    case Cls::lds_read:
    case Cls::lds_write:
    case Cls::lds_atomic:
    case Cls::lds_permute: {
        t.k = K::lds;
        t.perm = i.cls == Cls::lds_permute;
        t.ldsw = i.cls == Cls::lds_write;
        t.load = i.cls != Cls::lds_write && (i.cls != Cls::lds_atomic || i.m.rtn);
        t.wide96 = i.cls == Cls::lds_read && i.m.dwords == 3; // 96-bit reads: 8 lanes a clock
        operands(i, t.load ? 1 : 0, false);
        t.q_lgkm = true;
        break;
    }
    default:
        t.k = K::other;
        if (m == "s_nop") {
            t.k = K::nop;
            t.imm = num_of(i.text);
        } else if (m == "s_endpgm" || m == "s_endpgm_saved")
            t.k = K::end;
        else if (m == "s_sleep") {
            t.k = K::sleep;
            t.imm = num_of(i.text) & 127;
        } else if (m == "s_sleep_var") {
            t.k = K::sleep;
            t.imm = 1;
        } else if (m == "s_setprio") {
            t.k = K::prio;
            t.imm = num_of(i.text) & 3;
        } else if (m == "s_barrier")
            t.k = K::barrier;
        else if (m == "s_barrier_wait")
            t.k = K::bwait;
        else if (pre(m, "s_barrier_signal"))
            t.k = K::signal;
        else if (m == "v_nop") {
            t.k = K::valu;
            t.issue = (u32)p.u(valu_issue);
        } else
            t.free = m == "s_delay_alu"; // costs no issue slot of its own
    }
    return t;
}

} // namespace gfxemu::timing

namespace gfxemu {
std::string timing_parameters(Arch a) {
    timing::Params p = timing::load_params(a);
    std::string s;
    char line[512];
    for (int i = 0; i < timing::P_N; i++) {
        snprintf(line, sizeof line, "%-14s %8g  %s  %s\n", timing::rows[i].name, p.p[i], timing::rows[i].what,
            timing::rows[i].source);
        s += line;
    }
    return s;
}
} // namespace gfxemu
