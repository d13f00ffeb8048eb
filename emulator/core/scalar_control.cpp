// Program control, modes, hardware registers, waits.
#include "core/alu.h"

#include <chrono>

namespace gfxemu {
namespace {

// Hardware registers by their number; the rest read as zero.
u32 hw_read(Wave& w, u32 id) {
    switch (id) {
    case 1: return w.mode;
    case 4: return w.id & 0xf; // HW_ID
    case 15: return (u32)(SHARED_APERTURE >> 48) << 16 | (u32)(PRIVATE_APERTURE >> 48);
    case 20:
    case 21: return w.s[S_FLATSCR + (int)id - 20];
    case 29: return (u32)w.clock++ * 4; // SHADER_CYCLES
    default: return 0;
    }
}
void mode_changed(Wave& w, const Inst& i) {
    w.round32 = w.mode & 3;
    w.round64 = w.mode >> 2 & 3;
    w.flush32 = (w.mode >> 4 & 3) != 3;
    w.flush16 = (w.mode >> 6 & 3) != 3;
    if (w.round32 || w.round64) fault(w, i, Fault::Kind::unsupported, "rounding mode other than nearest-even");
}
void s_getreg(Wave& w, const Inst& i) {
    u32 h = (u32)i.imm, off = h >> 6 & 31, n = (h >> 11 & 31) + 1;
    u32 v = hw_read(w, h & 63) >> off;
    wr32(w, i.op[0], n == 32 ? v : v & ((1u << n) - 1));
}
void s_setreg(Wave& w, const Inst& i) {
    u32 h = (u32)i.imm, off = h >> 6 & 31, n = (h >> 11 & 31) + 1, id = h & 63,
        m = (n == 32 ? ~0u : (1u << n) - 1) << off, v = rd32(w, i.op[1]) << off;
    if (id == 1) {
        w.mode = (w.mode & ~m) | (v & m);
        mode_changed(w, i);
    } else if (id == 20 || id == 21)
        w.s[S_FLATSCR + (int)id - 20] = v;
}
void s_round_mode(Wave& w, const Inst& i) {
    w.mode = (w.mode & ~15u) | (rd32(w, i.op[0]) & 15);
    mode_changed(w, i);
}
void s_denorm_mode(Wave& w, const Inst& i) {
    w.mode = (w.mode & ~0xf0u) | (rd32(w, i.op[0]) & 15) << 4;
    mode_changed(w, i);
}
void s_nop(Wave&, const Inst&) {}
void s_trap(Wave& w, const Inst& i) {
    if (rd32(w, i.op[0]) == 3) return;
    fault(w, i, Fault::Kind::trap, "s_trap " + std::to_string(rd32(w, i.op[0])));
}
void s_sethalt(Wave& w, const Inst& i) {
    if (rd32(w, i.op[0]) & 1) fault(w, i, Fault::Kind::trap, "wave halted itself (s_sethalt)");
}
void s_waitcnt(Wave& w, const Inst& i) {
    if (!w.pending_total) return;
    if (i.w_vm >= 0) retire_wait(w, Q_VM, i.w_vm);
    if (i.w_vs >= 0) retire_wait(w, Q_VS, i.w_vs);
    if (i.w_lgkm >= 0) retire_wait(w, Q_LGKM, i.w_lgkm);
    if (i.w_km >= 0) retire_wait(w, Q_KM, i.w_km);
    if (i.w_sample >= 0) retire_wait(w, Q_SAMPLE, i.w_sample);
    if (i.w_bvh >= 0) retire_wait(w, Q_BVH, i.w_bvh);
}
void s_setvskip(Wave& w, const Inst& i) {
    w.vskip = rd32(w, i.op[0]) >> (rd32(w, i.op[1]) & 31) & 1;
    w.special = w.vskip || w.gpr_idx;
}
void gpr_idx_on(Wave& w, const Inst& i) {
    w.gpr_idx = (u8)(i.imm | 16);
    w.s[S_M0] = (w.s[S_M0] & ~0xf0ffu) | (rd32(w, i.op[0]) & 255) | (u32)i.imm << 12;
    w.special = true;
}
void gpr_idx_off(Wave& w, const Inst&) {
    w.gpr_idx = 0;
    w.special = w.vskip;
}
void gpr_idx_idx(Wave& w, const Inst& i) { w.s[S_M0] = (w.s[S_M0] & ~0xffu) | (rd32(w, i.op[0]) & 255); }
void gpr_idx_mode(Wave& w, const Inst& i) { w.gpr_idx = (u8)((w.gpr_idx & 16) | i.imm); }
template <auto F> void branch(Wave& w, const Inst& i) {
    if (F(w)) w.pc = i.target;
}
void s_setpc(Wave& w, const Inst& i) { w.pc = rd64(w, i.op[0]); }
void s_swappc(Wave& w, const Inst& i) {
    u64 t = rd64(w, i.op[1]);
    wr64(w, i.op[0], w.pc);
    w.pc = t;
}
void s_getpc(Wave& w, const Inst& i) { wr64(w, i.op[0], w.pc); }
void s_call(Wave& w, const Inst& i) {
    wr64(w, i.op[0], w.pc);
    w.pc = i.target;
}
void s_time(Wave& w, const Inst& i) {
    u64 v =
        (u64)std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count();
    if (i.mn != "s_memtime") v /= 10;
    wr64(w, i.op[0], v);
}
void s_sendmsg_rtn(Wave& w, const Inst& i) {
    if (i.op[0].n == 2)
        s_time(w, i);
    else
        wr32(w, i.op[0], 0);
}
void s_movrels(Wave& w, const Inst& i) {
    u32 m = w.s[S_M0];
    wr32(w, i.op[0], w.s[(i.op[1].reg + m) % 106]);
}
void s_movrels64(Wave& w, const Inst& i) {
    u32 m = w.s[S_M0];
    wr64(w, i.op[0], w.s64((int)((i.op[1].reg + m) % 105)));
}
void s_movreld(Wave& w, const Inst& i) {
    u32 m = w.s[S_M0];
    w.s[(i.op[0].reg + m) % 106] = rd32(w, i.op[1]);
}
void s_movreld64(Wave& w, const Inst& i) {
    u32 m = w.s[S_M0];
    w.set_s64((int)((i.op[0].reg + m) % 105), rd64(w, i.op[1]));
}

} // namespace

void register_control(OpTable& t) {
    auto S = [&](const std::string& n, Handler h) { t[n] = {h, Cls::salu}; };
    auto B = [&](const std::string& n, Handler h) { t[n] = {h, Cls::branch}; };
    auto O = [&](const std::string& n, Handler h, Cls c = Cls::other) { t[n] = {h, c}; };
    S("s_movrels_b32", &s_movrels);
    S("s_movrels_b64", &s_movrels64);
    S("s_movreld_b32", &s_movreld);
    S("s_movreld_b64", &s_movreld64);
    B("s_branch", &branch<[](Wave&) { return true; }>);
    B("s_cbranch_scc0", &branch<[](Wave& w) { return !w.scc; }>);
    B("s_cbranch_scc1", &branch<[](Wave& w) { return w.scc; }>);
    B("s_cbranch_vccz", &branch<[](Wave& w) { return w.vcc() == 0; }>);
    B("s_cbranch_vccnz", &branch<[](Wave& w) { return w.vcc() != 0; }>);
    B("s_cbranch_execz", &branch<[](Wave& w) { return w.exec() == 0; }>);
    B("s_cbranch_execnz", &branch<[](Wave& w) { return w.exec() != 0; }>);
    B("s_cbranch_cdbgsys", &s_nop);
    B("s_cbranch_cdbguser", &s_nop);
    B("s_cbranch_cdbgsys_or_user", &s_nop);
    B("s_cbranch_cdbgsys_and_user", &s_nop);
    B("s_setpc_b64", &s_setpc);
    B("s_swappc_b64", &s_swappc);
    S("s_getpc_b64", &s_getpc);
    B("s_call_b64", &s_call);
    S("s_getreg_b32", &s_getreg);
    S("s_setreg_b32", &s_setreg);
    S("s_setreg_imm32_b32", &s_setreg);
    S("s_round_mode", &s_round_mode);
    S("s_denorm_mode", &s_denorm_mode);
    S("s_setvskip", &s_setvskip);
    S("s_set_gpr_idx_on", &gpr_idx_on);
    S("s_set_gpr_idx_off", &gpr_idx_off);
    S("s_set_gpr_idx_idx", &gpr_idx_idx);
    S("s_set_gpr_idx_mode", &gpr_idx_mode);
    O("s_waitcnt", &s_waitcnt, Cls::waitcnt);
    O("s_trap", &s_trap);
    O("s_sethalt", &s_sethalt);
    for (const char* n : {"s_nop", "s_setprio", "s_icache_inv", "s_inst_prefetch", "s_set_inst_prefetch_distance",
             "s_code_end", "s_version", "s_ttracedata", "s_ttracedata_imm", "s_incperflevel", "s_decperflevel",
             "s_sendmsg", "s_sendmsghalt", "s_dcache_inv", "s_dcache_wb", "s_gl1_inv", "s_wakeup", "s_clause",
             "s_delay_alu", "s_barrier", "s_barrier_signal", "s_barrier_wait", "s_barrier_signal_isfirst",
             "s_barrier_leave", "s_endpgm", "s_endpgm_saved", "s_sleep", "s_sleep_var", "s_waitcnt_depctr",
             "s_setprio_inc_wg", "s_monitor_sleep"})
        O(n, &s_nop, std::strstr(n, "barrier") ? Cls::barrier : Cls::other);
    O("s_memtime", &s_time, Cls::smem);
    O("s_memrealtime", &s_time, Cls::smem);
    O("s_sendmsg_rtn_b32", &s_sendmsg_rtn);
    O("s_sendmsg_rtn_b64", &s_sendmsg_rtn);
    t["s_get_shader_cycles_u64"] = {&s_time, Cls::salu};
    t["v_readfirstlane_b32"] = {[](Wave& w, const Inst& i) {
                                    u64 e = w.exec();
                                    int l = e ? std::countr_zero(e) : 0;
                                    const Opnd& o = i.op[1];
                                    wr32(w, i.op[0], o.kind == Opnd::V ? w.row(o.reg)[l] : rd32(w, o));
                                },
        Cls::valu};
    t["v_readlane_b32"] = {[](Wave& w, const Inst& i) {
                               u32 l = rd32(w, i.op[2]) & (u32)(w.lanes - 1);
                               const Opnd& o = i.op[1];
                               wr32(w, i.op[0], o.kind == Opnd::V ? w.row(o.reg)[l] : rd32(w, o));
                           },
        Cls::valu};
    t["v_writelane_b32"] = {[](Wave& w, const Inst& i) {
                                u32 l = rd32(w, i.op[2]) & (u32)(w.lanes - 1);
                                w.row(i.op[0].reg)[l] = rd32(w, i.op[1]);
                            },
        Cls::valu};
}

} // namespace gfxemu
