// Hands the registers of a matrix instruction to the matrix unit.
#include "core/internal.h"

namespace gfxemu {

void exec_matrix(Wave& w, const Inst& i) {
    alignas(64) static thread_local u32 cbuf[64 * 64];
    MatrixMods mm;
    mm.cbsz = i.cbsz;
    mm.abid = i.abid;
    mm.blgp = i.blgp;
    mm.neg_lo = i.neg_lo;
    mm.neg_hi = i.neg_hi;
    mm.op_sel = i.op_sel;
    mm.op_sel_hi = i.op_sel_hi;
    mm.clamp = i.clamp;
    alignas(64) u32 sa[64], sb[64];
    auto src = [&](int k) -> const u32* {
        if (i.op[k].kind != Opnd::V) fault(w, i, Fault::Kind::unsupported, "matrix source is not a vector register");
        return w.row(i.op[k].reg);
    };
    const u32* a = src(1);
    const u32* b = src(2);
    const u32* c;
    const Opnd& oc = i.op[3];
    if (oc.kind == Opnd::V)
        c = w.row(oc.reg);
    else {
        bool f64 = i.mn.find("mfma_f64") != std::string::npos;
        u32 v = oc.imm32;
        int n = i.shape.c_regs ? i.shape.c_regs : oc.n;
        if (i.mn.find("wmma_f16") != std::string::npos) v = oc.imm16 * 0x10001u;
        if (i.mn.find("wmma_bf16") != std::string::npos) v = oc.immbf * 0x10001u;
        for (int r = 0; r < n; r++) {
            u32 x = f64 ? (r & 1 ? (u32)(oc.imm64f >> 32) : (u32)oc.imm64f) : v;
            for (int l = 0; l < 64; l++) cbuf[r * 64 + l] = x;
        }
        c = cbuf;
    }
    auto scale = [&](int k, u32* buf) -> const u32* {
        const Opnd& o = i.op[k];
        if (o.kind == Opnd::V) return w.row(o.reg);
        u32 v = rd32(w, o);
        for (int l = 0; l < 64; l++) buf[l] = v;
        return buf;
    };
    if (i.nop >= 6) {
        mm.scale_a = scale(4, sa);
        mm.scale_b = scale(5, sb);
    }
    if (i.op[0].kind != Opnd::V) fault(w, i, Fault::Kind::unsupported, "matrix destination");
    try {
        matrix_exec(w.arch, i.mn, a, b, c, w.row(i.op[0].reg), mm);
    } catch (const std::invalid_argument& e) {
        fault(w, i, Fault::Kind::unsupported, e.what());
    }
    w.wg->ctr->matrix_flops += i.shape.flops;
}

} // namespace gfxemu
