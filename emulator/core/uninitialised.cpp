// The check for vector registers that are read before they are written. Not judged: lane-crossing moves, spills of
// saved registers, and the high half of a 64-bit multiply-add's addend (compilers leave it undefined where only the low
// result is used).
#include "core/operands.h"
#include "core/run.h"

namespace gfxemu {
namespace {

bool is_destination(const Inst& i, int operand) {
    if (operand != 0 || starts(i.mn, "v_cmp") || i.m.lds_dma) return false;
    if (i.cls == Cls::vatomic || i.cls == Cls::lds_atomic) return i.m.rtn;
    return i.cls != Cls::vstore && i.cls != Cls::lds_write;
}

// Whether source operand `k` reads its register number `n`. Packed 32-bit instructions name the half for each result.
bool reads(const Inst& i, int k, int n) {
    if (i.op[k].n != 2 || !starts(i.mn, "v_pk_")) return true;
    int low = i.op_sel >> (k - 1) & 1;
    if (i.mn == "v_pk_mov_b32") return n == low;
    int high = i.has_op_sel_hi ? i.op_sel_hi >> (k - 1) & 1 : 1;
    return n == low || n == high;
}

bool judged(const Inst& i, int k, int n) {
    if (i.cls == Cls::vstore && i.m.space != Space::global && i.m.space != Space::flat) return false;
    return !(k == 4 && n == 1 && starts(i.mn, "v_mad_"));
}

bool crosses_lanes(const Inst& i) { return i.mn.find("lane") != std::string::npos; }

void check_reads(Wave& w, const Inst& whole, const Inst& i) {
    if (crosses_lanes(whole)) return;
    for (int k = 0; k < i.nop; k++) {
        const Opnd& o = i.op[k];
        if (o.kind != Opnd::V || is_destination(i, k)) continue;
        for (int n = 0; n < o.n && o.reg + n < V_ROWS; n++) {
            u64 undefined = w.exec() & ~w.defined[(size_t)(o.reg + n)];
            if (!undefined || !reads(i, k, n) || !judged(i, k, n)) continue;
            int reg = o.reg + n;
            fault(w, whole, Fault::Kind::uninitialised,
                (reg >= A_BASE ? "a" : "v") + std::to_string(reg % A_BASE) + " was never written",
                std::countr_zero(undefined));
        }
    }
}

void note_writes(Wave& w, const Inst& whole, const Inst& i) {
    const Opnd& o = i.op[0];
    if (!i.nop || o.kind != Opnd::V || !is_destination(i, 0)) return;
    u64 lanes = crosses_lanes(whole) || whole.cls == Cls::matrix ? ~0ull : w.exec();
    for (int n = 0; n < o.n && o.reg + n < V_ROWS; n++) w.defined[(size_t)(o.reg + n)] |= lanes;
}

} // namespace

void check_uninitialised(Wave& w, const Inst& i) {
    check_reads(w, i, i);
    if (i.dual) check_reads(w, i, *i.dual);
    note_writes(w, i, i);
    if (i.dual) note_writes(w, i, *i.dual);
    if (i.mn == "v_swap_b32") w.defined[i.op[1].reg] |= w.exec();
}

} // namespace gfxemu
