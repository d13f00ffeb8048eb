// Global, flat, scratch and buffer instructions.
#include "core/memory.h"

#include <algorithm>

namespace gfxemu {
namespace {

// Where each lane's access goes. Lanes outside `ok` access nothing; of those, `words` holds the dwords that lie inside
// a buffer (a bit each).
struct Access {
    u64 address[64];
    u8* at[64];
    u64 ok = 0;
    u8 words[64];
    u64 partial = 0;
};

void count_segments(Wave& w, const u64* address, u64 mask, u32 bytes, bool store) {
    Counters& c = *w.wg->ctr;
    u64 segment[130];
    int n = 0;
    bool sorted = true;
    each_lane(mask, [&](int l) {
        u64 first = address[l] >> 6, last = (address[l] + bytes - 1) >> 6;
        if (!n || segment[n - 1] != first) {
            if (n && segment[n - 1] > first) sorted = false;
            segment[n++] = first;
        }
        if (last != first) segment[n++] = last;
    });
    if (!sorted) {
        std::sort(segment, segment + n);
        n = (int)(std::unique(segment, segment + n) - segment);
    }
    c.vmem_segments += (u64)n;
    (store ? c.vmem_store_bytes : c.vmem_load_bytes) += (u64)std::popcount(mask) * bytes;
}

bool returns_data(const MemOp& o) { return !o.store && (!o.atomic || o.rtn); }

void vector_pending(Wave& w, const Inst& i, std::unique_ptr<Dma> dma = nullptr) {
    const MemOp& o = i.m;
    Pending p;
    p.inst = &i;
    if (returns_data(o) && !o.lds_dma && i.op[0].kind == Opnd::V) {
        p.first = i.op[0].reg;
        p.n = i.op[0].n;
    }
    if (o.space == Space::flat && !dma) { // counted as an LDS operation too
        Pending q;
        q.first = p.first;
        q.n = p.n;
        q.inst = &i;
        push_pending(w, Q_LGKM, std::move(q));
    }
    p.dma = std::move(dma);
    push_pending(w, w.gfx9 || returns_data(o) ? Q_VM : Q_VS, std::move(p));
}

// A load whose data go to LDS: they are read now and land when a wait retires them.
void load_to_lds(Wave& w, const Inst& i, const Access& a, u64 mask, u32 bytes) {
    Workgroup& g = *w.wg;
    auto dma = std::make_unique<Dma>();
    dma->mask = mask;
    dma->inst = &i;
    u32 step = std::max(4u, bytes), base = (w.s[S_M0] & 0x3ffff) + (u32)i.offset;
    dma->bytes = (u8)step;
    each_lane(mask, [&](int l) {
        u32 to = dma->addr[l] = base + (u32)l * step;
        if (to + step > g.lds_size)
            fault(w, i, Fault::Kind::lds_bounds,
                "LDS-DMA write at offset " + hex(to) + ", " + std::to_string(g.lds_size) + " bytes allocated", l);
        u8* data = dma->data[l];
        std::memset(data, 0, 16);
        if (a.ok >> l & 1)
            std::memcpy(data, a.at[l], bytes);
        else
            for (u32 k = 0; k < 4; k++)
                if (a.words[l] >> k & 1) std::memcpy(data + 4 * k, a.at[l] + 4 * k, 4);
        if (i.m.bytes < 4 && i.m.sx) {
            i32 v = i.m.bytes == 1 ? (i8)data[0] : (i16)(data[0] | data[1] << 8);
            std::memcpy(data, &v, 4);
        }
        if (g.run->chk.race)
            for (u32 k = to / 4; k * 4 < to + step; k++) {
                ++*g.shadow.at(LdsShadow::DMA, k);
                *g.shadow.at(LdsShadow::DMA_WAVE, k) = w.id;
            }
    });
    g.ctr->lds_dma_bytes += (u64)std::popcount(mask) * step;
    vector_pending(w, i, std::move(dma));
}

void run_atomic(Wave& w, const Inst& i, u8* const* at, u64 mask, const Opnd& data) {
    int cmp = compares(i.m) ? data.reg + (i.m.bytes == 8 ? 2 : 1) : -1;
    int dst = i.m.rtn ? i.op[0].reg : -1;
    each_lane(mask, [&](int l) { atomic_lane(w, i, at[l], l, data.reg, cmp, dst); });
}

void run_store(Wave& w, const Inst& i, u8* const* at, u64 mask, const Opnd& data) {
    const MemOp& o = i.m;
    if (o.bytes < 4 || data.kind != Opnd::V) {
        each_lane(mask, [&](int l) { store_lane(w, i, data, at[l], l); });
        return;
    }
    const u32* rows = w.row(data.reg);
    each_lane(mask, [&](int l) {
        for (int k = 0; k < o.dwords; k++) std::memcpy(at[l] + 4 * k, rows + k * 64 + l, 4);
    });
}

// ---------------------------------------------------------------- global, flat, scratch
// Operands: a store names address, data, base; a load destination, address, base; an atomic [destination,] address,
// data, base.
struct Operands {
    int address, data, base;
};
Operands operand_order(const MemOp& o) {
    if (o.store) return {0, 1, 2};
    if (o.atomic) return o.rtn ? Operands{1, 2, 3} : Operands{0, 1, 2};
    return o.lds_dma ? Operands{0, -1, 1} : Operands{1, -1, 2};
}

void global_addresses(Wave& w, const Inst& i, const Operands& order, Access& a) {
    const Opnd& va = i.op[order.address];
    const Opnd* base = order.base < i.nop ? &i.op[order.base] : nullptr;
    if (base && base->kind == Opnd::S) {
        u64 start = w.s64(base->reg) + (u64)i.offset;
        if (va.kind == Opnd::V) {
            const u32* offset = w.row(va.reg);
            GFX_LANES(w, l, a.address[l] = start + offset[l]);
        } else {
            GFX_LANES(w, l, a.address[l] = start);
        }
    } else {
        const u32* lo = w.row(va.reg);
        const u32* hi = w.row(va.reg + 1);
        u64 offset = (u64)i.offset;
        GFX_LANES(w, l, a.address[l] = (lo[l] | (u64)hi[l] << 32) + offset);
    }
    GFX_LANES(w, l, a.at[l] = (u8*)a.address[l]);
}

// Lanes of a flat access whose address lies in the LDS or scratch aperture are taken out of the returned mask.
u64 resolve_apertures(Wave& w, const Inst& i, u64 mask, u32 bytes, const Opnd* data, Access& a) {
    Workgroup& g = *w.wg;
    u64 in_lds = 0, in_memory = mask;
    each_lane(mask, [&](int l) {
        u64 aperture = a.address[l] >> 32;
        u32 offset = (u32)a.address[l];
        if (aperture == SHARED_APERTURE >> 32) {
            if ((u64)offset + bytes > g.lds_size)
                fault(w, i, Fault::Kind::lds_bounds,
                    "flat access at LDS offset " + hex(offset) + ", " + std::to_string(g.lds_size) + " bytes allocated",
                    l);
            a.at[l] = &g.lds[offset];
            in_lds |= 1ull << l;
        } else if (aperture == PRIVATE_APERTURE >> 32) {
            if ((u64)offset + bytes > w.scratch_lane)
                fault(w, i, Fault::Kind::memory,
                    "flat access at scratch offset " + hex(offset) + ", " + std::to_string(w.scratch_lane) +
                        " bytes a lane",
                    l);
            a.at[l] = w.scratch + (size_t)l * w.scratch_lane + offset;
        } else {
            return;
        }
        in_memory &= ~(1ull << l);
    });
    if (in_lds && g.run->chk.race) {
        u32 offsets[64];
        GFX_LANES(w, l, offsets[l] = (u32)a.address[l]);
        lds_touch(
            w, i, offsets, in_lds, bytes, i.m.store || i.m.atomic, i.m.atomic, i.m.store ? store_value : nullptr, data);
    }
    return in_memory;
}

u8* scratch_at(Wave& w, const Inst& i, int lane, u64 offset, u32 bytes) {
    if (offset + bytes > w.scratch_lane || offset + bytes < offset)
        fault(w, i, Fault::Kind::memory,
            "scratch offset " + hex(offset) + ", " + std::to_string(w.scratch_lane) + " bytes a lane", lane);
    return w.scratch + (size_t)lane * w.scratch_lane + offset;
}

} // namespace

void exec_vmem(Wave& w, const Inst& i) {
    const MemOp& o = i.m;
    const u64 mask = w.exec();
    const u32 bytes = access_bytes(o);
    const Operands order = operand_order(o);
    const Opnd* data = order.data >= 0 ? &i.op[order.data] : nullptr;
    Access a;
    a.ok = mask;
    if (o.space == Space::scratch) {
        const Opnd& va = i.op[order.address];
        const Opnd& sa = i.op[order.base];
        i64 base = (sa.kind == Opnd::S ? (i32)w.s[sa.reg] : 0) + i.offset;
        each_lane(mask, [&](int l) {
            i64 offset = (va.kind == Opnd::V ? (i32)w.row(va.reg)[l] : 0) + base;
            a.at[l] = scratch_at(w, i, l, (u64)offset, bytes);
            a.address[l] = (u64)a.at[l];
        });
    } else {
        global_addresses(w, i, order, a);
        check_addresses(
            w, i, a.address, o.space == Space::flat ? resolve_apertures(w, i, mask, bytes, data, a) : mask, bytes);
        if (mask) count_segments(w, a.address, mask, bytes, !returns_data(o));
    }
    if (o.atomic) {
        each_lane(mask, [&](int l) {
            if ((u64)a.at[l] & (o.bytes - 1))
                fault(w, i, Fault::Kind::memory, "misaligned atomic at " + hex(a.address[l]), l);
        });
        run_atomic(w, i, a.at, mask, *data);
    } else if (o.store) {
        run_store(w, i, a.at, mask, *data);
    } else if (o.lds_dma) {
        load_to_lds(w, i, a, mask, bytes);
        return;
    } else if (o.tr) {
        u8 rows[64][16];
        each_lane(mask, [&](int l) { std::memcpy(rows[l], a.at[l], bytes); });
        transpose_store(w, i, rows, mask);
    } else {
        load_lanes(w, o, a.at, mask, i.op[0].reg);
    }
    vector_pending(w, i);
}

// ---------------------------------------------------------------- buffers
namespace {

struct Resource {
    u64 base;
    u32 stride, records, out_of_bounds; // out_of_bounds: how gfx10 and later check (OOB_SELECT)
    bool swizzled, add_lane;
};
Resource read_resource(const Wave& w, const Opnd& o) {
    const u32* d = &w.s[o.reg];
    return {d[0] | (u64)(d[1] & 0xffff) << 32, d[1] >> 16 & 0x3fff, d[2], d[3] >> 28 & 3,
        w.gfx12 ? (d[1] >> 30 & 3) != 0 : d[1] >> 31 != 0, (d[3] >> 23 & 1) != 0};
}

// Which dwords (or the one element) of an access at `index` and `offset` lie inside the buffer.
u8 words_inside(
    const Wave& w, const Resource& r, bool indexed, u64 index, u64 offset, u32 scalar_offset, u32 bytes, u32 words) {
    const u8 all = (u8)((1u << words) - 1);
    // gfx9 counts records by stride where an index is used.
    bool structured = r.stride != 0 && (w.gfx9 ? indexed || r.add_lane : r.out_of_bounds != 3);
    if (structured) {
        if (w.gfx9) return index < r.records ? all : 0;
        if (r.out_of_bounds == 2) return r.records ? all : 0;
        return index < r.records && !(r.out_of_bounds == 0 && offset + bytes > r.stride) ? all : 0;
    }
    u64 start = index * r.stride + offset + scalar_offset;
    u32 element = bytes / words;
    if (start > 0x1ffffffffull) return 0;
    u8 inside = 0;
    for (u32 k = 0; k < words; k++)
        if (start + (k + 1) * element <= r.records) inside |= (u8)(1u << k);
    return inside;
}

void buffer_addresses(
    Wave& w, const Inst& i, const Resource& r, const Opnd* va, u32 scalar_offset, u64 mask, u32 bytes, Access& a) {
    const u32 *index = nullptr, *offset = nullptr;
    if (va && va->kind == Opnd::V) {
        if (i.idxen) index = w.row(va->reg);
        if (i.offen) offset = w.row(va->reg + i.idxen);
    }
    if (r.base == SCRATCH_SRD_BASE && r.swizzled) { // private segment: the scalar offset is scaled by the wave size
        each_lane(mask, [&](int l) {
            u64 at = (u64)scalar_offset / (u32)w.lanes + (offset ? offset[l] : 0) + (u64)i.offset;
            a.at[l] = scratch_at(w, i, l, at, bytes);
            a.address[l] = (u64)a.at[l];
        });
        a.ok = mask;
        w.wg->ctr->scratch++;
        return;
    }
    // Without an index the address is linear whatever the swizzle bit says (gfx9: production kernels set it next to
    // cache swizzling).
    if (r.swizzled && r.stride && (!w.gfx9 || index || r.add_lane))
        fault(w, i, Fault::Kind::unsupported, "swizzled buffer resource");
    const u32 words = bytes >= 4 && !i.m.atomic ? bytes / 4 : 1;
    each_lane(mask, [&](int l) {
        u64 n = (index ? index[l] : 0) + (r.add_lane ? (u64)l : 0), at = (u64)(offset ? offset[l] : 0) + (u64)i.offset;
        a.address[l] = r.base + scalar_offset + n * r.stride + at;
        a.at[l] = (u8*)a.address[l];
        a.words[l] = words_inside(w, r, index != nullptr, n, at, scalar_offset, bytes, words);
        if (a.words[l] == (1u << words) - 1)
            a.ok |= 1ull << l;
        else if (a.words[l])
            a.partial |= 1ull << l;
    });
    check_addresses(w, i, a.address, a.ok, bytes);
    each_lane(a.partial, [&](int l) {
        for (u32 k = 0; k < 4; k++)
            if (a.words[l] >> k & 1) check_address(w, i, a.address[l] + 4 * k, 4, l);
    });
    if (a.ok) count_segments(w, a.address, a.ok, bytes, !returns_data(i.m));
}

} // namespace

void exec_buffer(Wave& w, const Inst& i) {
    const MemOp& o = i.m;
    const u64 mask = w.exec();
    const u32 bytes = access_bytes(o);
    // Operands: data, address or off, resource, scalar offset; the LDS form has no data, and may have no address.
    int address = o.lds_dma ? 0 : 1;
    if (o.lds_dma && i.op[0].kind == Opnd::S && i.op[0].n == 4) address = -1;
    const Opnd& resource = i.op[address + 1];
    const Opnd& scalar = i.op[address + 2];
    if (resource.kind != Opnd::S) fault(w, i, Fault::Kind::unsupported, "buffer resource operand");
    Access a;
    buffer_addresses(w, i, read_resource(w, resource), address >= 0 ? &i.op[address] : nullptr,
        scalar.kind == Opnd::NUL ? 0 : rd32(w, scalar), mask, bytes, a);
    const u64 outside = mask & ~a.ok;
    if (o.atomic) {
        run_atomic(w, i, a.at, a.ok, i.op[0]);
        if (o.rtn)
            each_lane(outside, [&](int l) {
                for (int k = 0; k < o.bytes / 4; k++) w.row(i.op[0].reg + k)[l] = 0;
            });
    } else if (o.store) {
        run_store(w, i, a.at, a.ok, i.op[0]);
        each_lane(a.partial, [&](int l) {
            for (int k = 0; k < o.dwords; k++)
                if (a.words[l] >> k & 1) std::memcpy(a.at[l] + 4 * k, &w.row(i.op[0].reg + k)[l], 4);
        });
    } else if (o.lds_dma) {
        load_to_lds(w, i, a, mask, bytes);
        return;
    } else {
        // Lanes are read whole before any is written: the address register may be the destination.
        u32 dst = i.op[0].reg;
        load_lanes(w, o, a.at, a.ok, dst);
        each_lane(outside, [&](int l) {
            for (int k = 0; k < (o.bytes >= 4 ? o.dwords : 1); k++) {
                if (a.words[l] >> k & 1)
                    std::memcpy(&w.row((int)dst + k)[l], a.at[l] + 4 * k, 4);
                else
                    zero_lane(w, o, l, dst, k);
            }
        });
    }
    vector_pending(w, i);
}

} // namespace gfxemu
