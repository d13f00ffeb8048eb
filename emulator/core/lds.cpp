// LDS instructions and the lane exchanges that use its crossbar.
#include "core/memory.h"

#include <algorithm>

namespace gfxemu {
namespace {

// One of the (up to two) accesses of an instruction.
struct LdsAccess {
    u32 address[64];
    u8* at[64];
};

std::unique_ptr<LdsOp> remember(Wave& w, const Inst& i, const LdsAccess& a, u64 mask, u32 bytes, bool write) {
    std::unique_ptr<LdsOp> op;
    if (w.spare_lds_ops.empty()) {
        op = std::make_unique<LdsOp>();
    } else {
        op = std::move(w.spare_lds_ops.back());
        w.spare_lds_ops.pop_back();
    }
    op->mask = mask;
    op->bytes = (u16)bytes;
    op->write = write;
    op->idx = i.idx;
    std::memcpy(op->addr, a.address, (size_t)w.lanes * 4);
    return op;
}

void lds_pending(Wave& w, const Inst& i, bool returns, std::unique_ptr<LdsOp> first = nullptr,
    std::unique_ptr<LdsOp> second = nullptr) {
    Pending p;
    p.inst = &i;
    if (returns && i.op[0].kind == Opnd::V) {
        p.first = i.op[0].reg;
        p.n = i.op[0].n;
    }
    p.lop = std::move(first);
    p.lop2 = std::move(second);
    push_pending(w, Q_LGKM, std::move(p));
}

void lds_atomic(Wave& w, const Inst& i, const LdsAccess& a, u64 mask) {
    const MemOp& o = i.m;
    each_lane(mask, [&](int l) {
        if (a.address[l] & (o.bytes - 1))
            fault(w, i, Fault::Kind::lds_bounds, "misaligned LDS atomic at offset " + hex(a.address[l]), l);
    });
    int first = o.rtn ? 2 : 1; // after [destination,] address
    auto reg = [&](int k) { return k < i.nop && i.op[k].kind == Opnd::V ? (int)i.op[k].reg : -1; };
    int data = reg(first), cmp = -1;
    if (compares(o) || o.aop == AtOp::mskor) cmp = reg(first + 1);
    if (compares(o) && i.imm != 1) std::swap(data, cmp); // the older spelling names the compare value first
    each_lane(mask, [&](int l) { atomic_lane(w, i, a.at[l], l, data, cmp, i.op[0].reg); });
}

} // namespace

void exec_ds(Wave& w, const Inst& i) {
    const MemOp& o = i.m;
    Workgroup& g = *w.wg;
    const u64 mask = w.exec();
    const u32 bytes = access_bytes(o);
    const u32* base = w.row(i.op[o.store || (o.atomic && !o.rtn) ? 0 : 1].reg);
    const int count = o.two ? 2 : 1;
    const u32 offsets[2] = {o.two ? i.offset0 * o.stride : (u32)i.offset, i.offset1 * o.stride};
    LdsAccess access[2];
    for (int k = 0; k < count; k++) {
        LdsAccess& a = access[k];
        GFX_LANES(w, l, a.address[l] = base[l] + offsets[k]);
        lds_bounds(w, i, a.address, mask, bytes);
        if (g.run->chk.race)
            lds_touch(w, i, a.address, mask, bytes, o.store || o.atomic, o.atomic, o.store ? store_value : nullptr,
                &i.op[1 + k]);
        if (g.run->count_conflicts) count_bank_conflicts(w, a.address, mask, bytes, o.store);
        u8* lds = g.lds.data();
        GFX_LANES(w, l, a.at[l] = lds + a.address[l]);
    }
    (o.store ? g.ctr->lds_write_bytes : g.ctr->lds_read_bytes) += (u64)std::popcount(mask) * bytes * (u32)count;

    if (o.atomic) {
        lds_atomic(w, i, access[0], mask);
    } else if (o.store) {
        for (int k = 0; k < count; k++)
            each_lane(mask, [&](int l) { store_lane(w, i, i.op[1 + k], access[k].at[l], l); });
    } else if (o.tr) {
        u8 rows[64][16];
        each_lane(mask, [&](int l) { std::memcpy(rows[l], access[0].at[l], bytes); });
        transpose_store(w, i, rows, mask);
    } else {
        for (int k = 0; k < count; k++) load_lanes(w, o, access[k].at, mask, i.op[0].reg + (u32)k * o.dwords);
    }

    std::unique_ptr<LdsOp> first, second;
    if (g.run->chk.race && g.waves.size() > 1) {
        first = remember(w, i, access[0], mask, bytes, o.store || o.atomic);
        if (o.two) second = remember(w, i, access[1], mask, bytes, o.store);
    }
    lds_pending(w, i, o.atomic ? o.rtn : !o.store, std::move(first), std::move(second));
}

// ---------------------------------------------------------------- lane exchanges
void exec_bpermute(Wave& w, const Inst& i) {
    const u32* index = w.row(i.op[1].reg);
    const u32* data = w.row(i.op[2].reg);
    u64 mask = w.exec();
    bool fetch_inactive = i.mn == "ds_bpermute_fi_b32";
    bool halves = w.arch == Arch::gfx1030 && w.lanes == 64; // each half of a wave64 exchanges apart
    alignas(64) u32 result[64];
    for (int l = 0; l < w.lanes; l++) {
        u32 from = (index[l] + (u32)i.offset) / 4;
        from = halves ? (u32)(l & 32) | (from & 31) : from % (u32)w.lanes;
        result[l] = fetch_inactive || (mask >> from & 1) ? data[from] : 0;
    }
    blend32(w, w.row(i.op[0].reg), result, mask);
    lds_pending(w, i, true);
}

void exec_permute(Wave& w, const Inst& i) {
    const u32* index = w.row(i.op[1].reg);
    const u32* data = w.row(i.op[2].reg);
    u64 mask = w.exec();
    alignas(64) u32 result[64] = {};
    each_lane(mask, [&](int l) { result[(index[l] + (u32)i.offset) / 4 % (u32)w.lanes] = data[l]; });
    blend32(w, w.row(i.op[0].reg), result, mask);
    lds_pending(w, i, true);
}

// The lane that ds_swizzle_b32 reads.
static u32 swizzle_source(u32 pattern, u32 lane) {
    u32 group = lane & 32, x = lane & 31;
    if (pattern >= 0xc000) { // rotate; the bits of the mask stay
        u32 count = pattern >> 5 & 31, mask = pattern & 31;
        u32 rotated = (pattern >> 10 & 1 ? x - count : x + count) & 31;
        return group | (x & mask) | (rotated & ~mask & 31);
    }
    if (pattern >= 0x8000) return (lane & ~3u) | (pattern >> (2 * (lane & 3)) & 3);
    return group | (((x & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
}
void exec_swizzle(Wave& w, const Inst& i) {
    const u32* data = w.row(i.op[1].reg);
    u64 mask = w.exec();
    u32 pattern = (u32)i.offset;
    if (pattern >= 0xe000) fault(w, i, Fault::Kind::unsupported, "swizzle FFT mode");
    alignas(64) u32 result[64];
    for (int l = 0; l < w.lanes; l++) {
        u32 from = swizzle_source(pattern, (u32)l);
        result[l] = mask >> from & 1 ? data[from] : 0;
    }
    blend32(w, w.row(i.op[0].reg), result, mask);
    lds_pending(w, i, true);
}

} // namespace gfxemu
