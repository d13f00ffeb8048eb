// Moving elements between registers and memory; atomics.
#include "core/memory.h"

#include <algorithm>

namespace gfxemu {

// ---------------------------------------------------------------- loads and stores
namespace {

template <int words> void load_words(u32* d, u8* const* from, u64 mask, const Wave& w) {
    auto one = [&](int l) {
        u32 t[words];
        std::memcpy(t, from[l], sizeof t);
        for (int k = 0; k < words; k++) d[k * 64 + l] = t[k];
    };
    if (mask == w.full)
        for (int l = 0; l < w.lanes; l++) one(l);
    else
        each_lane(mask, one);
}

u32 load_small(const MemOp& o, const u8* from) {
    if (o.bytes == 1) return o.sx ? (u32)(i32)(i8)*from : *from;
    u16 half;
    std::memcpy(&half, from, 2);
    return o.sx ? (u32)(i32)(i16)half : half;
}

u32 data_word(Wave& w, const Opnd& data, int word, int lane) {
    return data.kind == Opnd::V ? w.row(data.reg + word)[lane] : rd32(w, data);
}
bool from_high_half(const MemOp& o, const Opnd& data) { return o.bytes < 4 && (o.d16 == 2 || data.half == 2); }

} // namespace

void load_lanes(Wave& w, const MemOp& o, u8* const* from, u64 mask, u32 dst) {
    u32* d = w.row((int)dst);
    if (o.bytes >= 4) {
        switch (o.dwords) {
        case 1: return load_words<1>(d, from, mask, w);
        case 2: return load_words<2>(d, from, mask, w);
        case 3: return load_words<3>(d, from, mask, w);
        default: return load_words<4>(d, from, mask, w);
        }
    }
    each_lane(mask, [&](int l) {
        u32 v = load_small(o, from[l]);
        if (o.d16 == 1) v = (d[l] & 0xffff0000) | (v & 0xffff);
        if (o.d16 == 2) v = (d[l] & 0xffff) | v << 16;
        d[l] = v;
    });
}

void zero_lane(Wave& w, const MemOp& o, int lane, u32 dst, int word) {
    u32& d = w.row((int)dst)[word * 64 + lane];
    d = o.d16 == 1 ? d & 0xffff0000 : o.d16 == 2 ? d & 0xffff : 0;
}

void store_lane(Wave& w, const Inst& i, const Opnd& data, u8* to, int lane) {
    const MemOp& o = i.m;
    if (o.bytes < 4) {
        u32 v = data_word(w, data, 0, lane) >> (from_high_half(o, data) ? 16 : 0);
        std::memcpy(to, &v, o.bytes);
        return;
    }
    for (int k = 0; k < o.dwords; k++) {
        u32 v = data_word(w, data, k, lane);
        std::memcpy(to + 4 * k, &v, 4);
    }
}

u8 store_value(Wave& w, const Inst& i, const void* operand, int lane, u32 at) {
    const Opnd& data = *(const Opnd*)operand;
    u32 v = data_word(w, data, (int)at / 4, lane) >> (from_high_half(i.m, data) ? 16 : 0);
    return (u8)(v >> (at & 3) * 8);
}

// ---------------------------------------------------------------- atomics
template <class T> static T apply_atomic(const Inst& i, T old, T x, T cmp) {
    using S = std::make_signed_t<T>;
    auto fl = [](T v) {
        if constexpr (sizeof(T) == 4)
            return std::bit_cast<float>(v);
        else
            return std::bit_cast<double>(v);
    };
    auto bits = [](auto v) { return std::bit_cast<T>(v); };
    switch (i.m.aop) {
    case AtOp::swap: return x;
    case AtOp::cmpswap: return old == cmp ? x : old;
    case AtOp::fcmpswap: return fl(old) == fl(cmp) ? x : old;
    case AtOp::add: return old + x;
    case AtOp::sub: return old - x;
    case AtOp::rsub: return x - old;
    case AtOp::smin: return (S)x < (S)old ? x : old;
    case AtOp::smax: return (S)x > (S)old ? x : old;
    case AtOp::umin: return std::min(x, old);
    case AtOp::umax: return std::max(x, old);
    case AtOp::and_: return old & x;
    case AtOp::or_: return old | x;
    case AtOp::xor_: return old ^ x;
    case AtOp::inc: return old >= x ? 0 : old + 1;
    case AtOp::dec: return old == 0 || old > x ? x : old - 1;
    case AtOp::fadd: return bits(fl(old) + fl(x));
    case AtOp::fmin: {
        auto a = fl(old), b = fl(x);
        return bits(b < a || a != a ? b : a);
    }
    case AtOp::fmax: {
        auto a = fl(old), b = fl(x);
        return bits(b > a || a != a ? b : a);
    }
    case AtOp::clamp_sub: return old < x ? 0 : old - x;
    case AtOp::cond_sub: return old >= x ? old - x : old;
    case AtOp::mskor: return (old & ~x) | cmp;
    case AtOp::pk_add_f16:
        return (T)(f2h(h2f((u16)old) + h2f((u16)x)) | (u32)f2h(h2f((u16)(old >> 16)) + h2f((u16)(x >> 16))) << 16);
    case AtOp::pk_add_bf16:
        return (T)(f2b(b2f((u16)old) + b2f((u16)x)) | (u32)f2b(b2f((u16)(old >> 16)) + b2f((u16)(x >> 16))) << 16);
    }
    return old;
}
template <class T> static T exchange(const Inst& i, u8* at, T value, T compare) {
    T* target = (T*)at;
    T old = __atomic_load_n(target, __ATOMIC_RELAXED);
    for (;;) {
        T next = apply_atomic<T>(i, old, value, compare);
        if (__atomic_compare_exchange_n(target, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) return old;
    }
}
u32 atomic_memory(const Inst& i, u8* at, u32 value, u32 compare) { return exchange(i, at, value, compare); }
u64 atomic_memory(const Inst& i, u8* at, u64 value, u64 compare) { return exchange(i, at, value, compare); }

void atomic_lane(Wave& w, const Inst& i, u8* at, int lane, int data, int cmp, int dst) {
    auto word = [&](int r) { return r < 0 ? 0 : w.row(r)[lane]; };
    auto pair = [&](int r) { return r < 0 ? 0 : word(r) | (u64)word(r + 1) << 32; };
    bool wide = i.m.bytes == 8;
    u64 old = wide ? atomic_memory(i, at, pair(data), pair(cmp)) : atomic_memory(i, at, word(data), word(cmp));
    if (!i.m.rtn || dst < 0) return;
    w.row(dst)[lane] = (u32)old;
    if (wide) w.row(dst + 1)[lane] = (u32)(old >> 32);
}

// ---------------------------------------------------------------- transposing loads
// gfx950 LDS: in each group of 16 lanes, 64-bit rows (96-bit for 6-bit elements) of E elements are laid end to end into
// a block of rows 16 elements wide; lane x of the group receives column x. gfx12 global b128: in each group of 8 lanes,
// lane j receives element j of each of the group's lanes. gfx12 global b64: in each group of 16 lanes, lanes 0..3
// and 8..11 supply the left halves of 8 rows of 16 bytes, the others the right halves.
namespace {

u32 get_bits(const u8* bytes, u32 at, u32 count) {
    u32 v = 0;
    for (u32 k = 0; k < count; k++) v |= (u32)(bytes[(at + k) / 8] >> ((at + k) % 8) & 1) << k;
    return v;
}
void put_bits(u8* bytes, u32 at, u32 count, u32 v) {
    for (u32 k = 0; k < count; k++)
        if (v >> k & 1) bytes[(at + k) / 8] |= (u8)(1u << ((at + k) % 8));
}

// Which lane's which element becomes element e of lane l.
struct Source {
    u32 lane, element;
};
Source transposed_from(bool gfx12, u32 bits, u32 elements, u32 l, u32 e) {
    if (gfx12) return {bits == 16 ? (l & ~7u) + e : (l & ~15u) + 8 * (e / 4) + 4 * (l / 8 % 2) + e % 4, l & 7};
    u32 column = l & 15;
    return {(l & ~15u) + e * (16 / elements) + column / elements, column % elements};
}

} // namespace

void transpose_store(Wave& w, const Inst& i, u8 (*data)[16], u64 mask) {
    const MemOp& o = i.m;
    u32 bits = o.tr, elements = o.dwords == 3 ? 16 : o.dwords * 32u / bits;
    u8 out[64][16];
    std::memset(out, 0, sizeof out);
    for (u32 l = 0; l < (u32)w.lanes; l++) {
        for (u32 e = 0; e < elements; e++) {
            auto [from, x] = transposed_from(w.gfx12, bits, elements, l, e);
            if (bits == 16)
                std::memcpy(out[l] + 2 * e, data[from] + 2 * x, 2);
            else if (bits == 8)
                out[l][e] = data[from][x];
            else
                put_bits(out[l], e * bits, bits, get_bits(data[from], x * bits, bits));
        }
    }
    each_lane(mask, [&](int l) {
        for (int k = 0; k < o.dwords; k++) std::memcpy(&w.row(i.op[0].reg + k)[l], out[l] + 4 * k, 4);
    });
}

} // namespace gfxemu
