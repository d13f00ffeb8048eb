// Scalar loads, stores and atomics.
#include "core/memory.h"

#include <algorithm>

namespace gfxemu {
namespace {

u64 operand_offset(const Wave& w, const Inst& i) {
    if (i.nop <= 2) return 0;
    return i.op[2].kind == Opnd::IMM ? i.op[2].imm64i : i.op[2].kind == Opnd::S ? w.s[i.op[2].reg] : 0;
}
u64 operand_address(const Wave& w, const Inst& i) {
    u64 base = i.op[1].kind == Opnd::S ? w.s64(i.op[1].reg) : 0;
    return base + (u64)i.offset + operand_offset(w, i);
}

// Scalar operations complete in any order.
void scalar_pending(Wave& w, const Inst& i, Queue q, u32 first = 0, u8 count = 0) {
    Pending p;
    p.first = first;
    p.n = count;
    p.ooo = true;
    p.inst = &i;
    push_pending(w, q, std::move(p));
}

// s_buffer_load: dwords beyond the end read as zero.
void load_buffer(Wave& w, const Inst& i, u8* to, u32 bytes) {
    int resource = i.op[1].reg;
    u64 base = w.s64(resource) & 0xffffffffffffull, offset = (u64)i.offset + operand_offset(w, i);
    u32 stride = w.s[resource + 1] >> 16 & 0x3fff;
    u64 limit = (u64)w.s[resource + 2] * (stride ? stride : 1);
    for (u32 k = 0; k < bytes; k += 4) {
        u32 n = std::min(4u, bytes - k);
        if (offset + k + n > limit) continue;
        check_address(w, i, base + offset + k, n, -1);
        std::memcpy(to + k, (void*)(base + offset + k), n);
    }
}

} // namespace

void exec_smem(Wave& w, const Inst& i) {
    u32 bytes = i.m.bytes >= 4 ? i.m.dwords * 4u : i.m.bytes;
    u32 data[16] = {};
    if (i.imm == 1) {
        load_buffer(w, i, (u8*)data, bytes);
    } else {
        u64 address = operand_address(w, i);
        if (i.m.bytes >= 4) address &= ~3ull;
        check_address(w, i, address, bytes, -1);
        std::memcpy(data, (void*)address, bytes);
    }
    if (i.m.bytes == 1) data[0] = i.m.sx ? (u32)(i32)(i8)data[0] : data[0] & 0xff;
    if (i.m.bytes == 2) data[0] = i.m.sx ? (u32)(i32)(i16)data[0] : data[0] & 0xffff;
    const Opnd& d = i.op[0];
    if (d.kind != Opnd::S) return;
    for (u32 k = 0; k < d.n; k++) w.s[d.reg + k] = data[k];
    scalar_pending(w, i, w.gfx12 ? Q_KM : Q_LGKM, 1024u + d.reg, d.n);
}

void exec_sstore(Wave& w, const Inst& i) {
    u64 address = operand_address(w, i) & ~3ull;
    check_address(w, i, address, i.m.dwords * 4u, -1);
    std::memcpy((void*)address, &w.s[i.op[0].reg], i.m.dwords * 4u);
    scalar_pending(w, i, Q_LGKM);
}

void exec_satomic(Wave& w, const Inst& i) {
    int d = i.op[0].reg;
    bool compare = i.m.aop == AtOp::cmpswap;
    u64 address = operand_address(w, i);
    check_address(w, i, address, i.m.bytes, -1);
    if (i.m.bytes == 4) {
        u32 old = atomic_memory(i, (u8*)address, w.s[d], compare ? w.s[d + 1] : 0);
        if (i.glc) w.s[d] = old;
    } else {
        u64 old = atomic_memory(i, (u8*)address, w.s64(d), compare ? w.s64(d + 2) : 0);
        if (i.glc) w.set_s64(d, old);
    }
    scalar_pending(w, i, Q_LGKM, i.glc ? 1024u + (u32)d : 0, i.glc ? i.m.bytes / 4 : 0);
}

} // namespace gfxemu
