// K and V on their way from memory into the LDS ring of the dual-wave kernel.
//
//   DualwaveDirect       gfx950: buffer loads of 16 bytes straight to LDS; rows and strides aligned to 16 bytes
//   DualwaveRegisters    through registers: gfx942, and on gfx950 whatever is not aligned
//
// Both move one tile of K or V a phase, all eight waves together, and fill what lies outside the tensor with zeros.
#pragma once

#include "waveattn/attention/dualwave_layout.h"
#include "waveattn/attention/dualwave_params.h"

#ifdef __HIP__

namespace waveattn::detail {

// A tensor's rows of one (batch, head), tile after tile, behind a buffer resource. All members are the same in the
// wave.
template <class T> struct DualwaveStream {
    // Offsets are counted from so far below the first row: an instruction's immediate, which moves both the memory and
    // the LDS address, can then be taken back without a negative offset.
    static constexpr unsigned below = 2048;

    const char* base;  // of the first row of the present span
    std::int64_t left; // bytes from base to the end of the last row that is wanted
    unsigned at, end;  // offset of the next tile in the span, and where nothing is left of it
    unsigned tile_bytes, row_bytes;

    WAVEATTN_DEVICE void open(const T* first_row, std::int64_t row_stride, std::int32_t rows) {
        row_bytes = unsigned(row_stride * std::int64_t(sizeof(T)));
        tile_bytes = row_bytes * 64;
        base = reinterpret_cast<const char*>(first_row), at = below;
        left = std::int64_t(row_bytes) * rows;
        renew();
    }
    // Starts a span at the next tile: resources bound at most 2 GiB.
    WAVEATTN_DEVICE void renew() {
        constexpr std::int64_t most = 0x7fffffff - 2 * below;
        base += at - below, left -= at - below, at = below;
        end = unsigned(left < 0 ? 0 : left < most ? left : most) + below;
    }
    // Not a member: a resource in memory keeps the compiler from taking the struct apart.
    WAVEATTN_DEVICE arch::BufferResource resource() const { return arch::buffer_resource(base - below, end); }
    // The offset of the next tile, `rows` further, less the immediate.
    template <int Immediate> WAVEATTN_DEVICE unsigned offset(unsigned rows) const {
        return at + (rows * row_bytes - unsigned(Immediate));
    }
    // Tiles that a span holds surely, of two streams side by side.
    WAVEATTN_DEVICE static int span_tiles(unsigned a, unsigned b) { return int(0x7fff0000u / (a > b ? a : b)); }
    // Past the end of the span every lane is out of bounds.
    WAVEATTN_DEVICE void advance() {
        at += tile_bytes;
        at = at < end ? at : end;
    }
};

// Straight to LDS. A wave fills `units / 8` units of a tile by one instruction each; its units are neighbours, and so
// are their rows.
template <class T, int HeadDim> struct DualwaveDirect {
    using Lds = DualwaveLdsGfx950<HeadDim>;
    using Stream = DualwaveStream<T>;
    static constexpr bool direct = true, aligned = true;
    static constexpr int loads = Lds::units / 8; // instructions of a wave for a tile
    Stream k, v;
    unsigned k_lane, v_lane; // lane offsets in the wave's first unit
    unsigned k_lds, v_lds;   // of that unit, within a slot

    WAVEATTN_DEVICE void prepare(int wave, int lane, int head_dim, int head_dim_v) {
        const int unit = wave * loads, place = lane / Lds::chunks, chunk = lane % Lds::chunks;
        constexpr unsigned outside = 0x80000000u; // beyond every bound: the chunk is filled with zeros
        k_lane = unsigned(Lds::k_row(unit, place)) * k.row_bytes + unsigned(16 * chunk);
        v_lane = unsigned(Lds::v_row(unit, place)) * v.row_bytes + unsigned(16 * chunk);
        if (8 * chunk >= head_dim) k_lane = outside;
        if (8 * chunk >= head_dim_v) v_lane = outside;
        k_lds = unsigned(unit * Lds::k_unit), v_lds = unsigned(unit * Lds::v_unit);
    }
    WAVEATTN_DEVICE void renew() { k.renew(), v.renew(); }
    WAVEATTN_DEVICE void start() {}
    // A tile at once, or instruction by instruction (0 and 1; one of them does nothing where a single one is enough).
    WAVEATTN_DEVICE void fill_k(arch::LdsPointer<char> slot) { load_k<0>(slot), load_k<1>(slot); }
    WAVEATTN_DEVICE void fill_v(arch::LdsPointer<char> slot) { load_v<0>(slot), load_v<1>(slot); }
    template <int I> WAVEATTN_DEVICE void load_k(arch::LdsPointer<char> slot) {
        constexpr int skip = I * Lds::k_unit;
        if constexpr (I < loads)
            arch::buffer_load_to_lds<skip>(k.resource(), slot + k_lds, k_lane, k.template offset<skip>(I));
        if constexpr (I == 1) k.advance();
    }
    template <int I> WAVEATTN_DEVICE void load_v(arch::LdsPointer<char> slot) {
        constexpr int skip = I * Lds::v_unit;
        if constexpr (I < loads)
            arch::buffer_load_to_lds<skip>(v.resource(), slot + v_lds, v_lane, v.template offset<skip>(I));
        if constexpr (I == 1) v.advance();
    }
};

// Through registers: what a phase puts into LDS was fetched in the phase before. Rows that are not aligned to 16 bytes
// (Aligned = false) go element by element, from memory to LDS within a phase.
template <class T, class Arch, int HeadDim, bool Aligned> struct DualwaveRegisters {
    using Shape = DualwaveShape<HeadDim>;
    using Lds = typename DualwaveTile<Arch, HeadDim>::Lds;
    using LdsChar = arch::LdsPointer<char>;
    static constexpr bool direct = false, aligned = Aligned;
    static constexpr int loads = 0;
    static constexpr int pieces = 64 * Lds::chunks / Shape::threads; // chunks of a thread in a tile
    struct PlainStream {
        const T* base;
        std::int64_t row_stride;
        std::int32_t rows; // left
        static constexpr unsigned tile_bytes = 64;
        WAVEATTN_DEVICE void open(const T* first_row, std::int64_t stride, std::int32_t count) {
            base = first_row, row_stride = stride, rows = count;
        }
        WAVEATTN_DEVICE void advance() { base += 64 * row_stride, rows -= 64; }
        WAVEATTN_DEVICE void renew() {}
        WAVEATTN_DEVICE static int span_tiles(unsigned, unsigned) { return 1 << 29; }
    };
    using Stream = std::conditional_t<Aligned, DualwaveStream<T>, PlainStream>;
    Stream k, v;
    int wave, head_dim, head_dim_v;
    unsigned k_lane, v_lane; // Aligned: the lane's offsets in memory, from the first row of a tile,
    int k_place, v_place;    // and in a slot
    // Of the tile on its way. No arrays: the compiler would take the struct apart too late.
    arch::uint4v first_held, second_held;

    WAVEATTN_DEVICE void prepare(int wave_index, int lane, int k_dim, int v_dim) {
        wave = wave_index, head_dim = k_dim, head_dim_v = v_dim;
        first_held = second_held = arch::uint4v{};
        if constexpr (Aligned) {
            constexpr unsigned outside = 0x80000000u; // beyond every bound: reads 0
            const int index = 64 * wave + lane, row = index / Lds::chunks, chunk = index % Lds::chunks;
            k_lane = 8 * chunk < k_dim ? unsigned(row) * k.row_bytes + unsigned(16 * chunk) : outside;
            k_place = Lds::k_offset(row, chunk);
            const int key = 4 * (index / dim_groups), dim = 4 * (index % dim_groups);
            v_lane = dim < v_dim && key < 64 ? unsigned(key) * v.row_bytes + unsigned(2 * dim) : outside;
            v_place = Lds::v_offset(key, dim);
        }
    }
    WAVEATTN_DEVICE void renew() { k.renew(), v.renew(); }
    WAVEATTN_DEVICE void start() { fetch_v(); }
    WAVEATTN_DEVICE void fill_k(LdsChar slot) { fetch_k(), put_k(slot); }
    WAVEATTN_DEVICE void fill_v(LdsChar slot) { fetch_v(), put_v(slot); }
    // Half of the work of a phase (0, then 1), for each takes many instructions.
    template <int I> WAVEATTN_DEVICE void load_k(LdsChar slot) {
        if constexpr (I == 0)
            put_k(slot);
        else
            fetch_v();
    }
    template <int I> WAVEATTN_DEVICE void load_v(LdsChar slot) {
        if constexpr (I == 0)
            put_v(slot);
        else
            fetch_k();
    }

private:
    // One tile, a thread an element at a time; `offset(row, dim)` is its place in the slot.
    template <class Offset>
    WAVEATTN_DEVICE void copy_elements(const Stream& stream, int dims, LdsChar slot, Offset offset) {
#    pragma unroll 1
        for (int index = 64 * wave + arch::lane_id_again(); index < 64 * HeadDim; index += Shape::threads) {
            const int row = index / HeadDim, dim = index % HeadDim;
            std::uint16_t bits = 0;
            if (row < stream.rows && dim < dims) bits = stream.base[row * stream.row_stride + dim].bits;
            *(arch::LdsPointer<std::uint16_t>)(slot + offset(row, dim)) = bits;
        }
    }

    // K: a thread's chunks of a tile; the second lies `apart` rows below the first, after which the layout repeats.
    static constexpr int apart = Shape::threads / Lds::chunks;
    WAVEATTN_DEVICE void fetch_k() {
        if constexpr (Aligned) {
            first_held = arch::buffer_load_16(k.resource(), k_lane, k.at);
            if constexpr (pieces == 2)
                second_held = arch::buffer_load_16(k.resource(), k_lane, k.template offset<0>(apart));
            k.advance();
        }
    }
    WAVEATTN_DEVICE void put_k(LdsChar slot) {
        if constexpr (Aligned) {
            using Chunk = arch::LdsPointer<arch::uint4v>;
            *(Chunk)(slot + k_place) = first_held;
            if constexpr (pieces == 2) *(Chunk)(slot + k_place + Lds::k_offset(apart, 0)) = second_held;
        } else {
            copy_elements(
                k, head_dim, slot, [](int row, int dim) { return Lds::k_offset(row, dim / 8) + dim % 8 * 2; });
            k.advance();
        }
    }

    // V, to be stored transposed: a thread holds 4 keys x 4 dims, key by key.
    static constexpr int dim_groups = HeadDim / 4;
    WAVEATTN_DEVICE void fetch_v() {
        if constexpr (Aligned) {
            const auto load = [&](unsigned key) {
                return arch::buffer_load_8(v.resource(), v_lane, v.template offset<0>(key));
            };
            const arch::uint2v a = load(0), b = load(1), c = load(2), d = load(3);
            first_held = arch::uint4v{a.x, a.y, b.x, b.y}, second_held = arch::uint4v{c.x, c.y, d.x, d.y};
            v.advance();
        }
    }
    WAVEATTN_DEVICE void put_v(LdsChar slot) {
        if constexpr (Aligned) {
            if (HeadDim == 64 && wave >= 4) return; // half of the threads hold all of V
#    pragma unroll
            for (int d = 0; d < 4; ++d) { // the four keys of dim + d
                const unsigned selector = d % 2 ? 0x07060302u : 0x05040100u;
                const arch::uint2v column = {arch::permute_bytes(first_held[2 + d / 2], first_held[d / 2], selector),
                    arch::permute_bytes(second_held[2 + d / 2], second_held[d / 2], selector)};
                *(arch::LdsPointer<arch::uint2v>)(slot + Lds::v_next_dim(v_place, d)) = column;
            }
        } else {
            copy_elements(v, head_dim_v, slot, [](int row, int dim) {
                if constexpr (Lds::v_transposing_read)
                    return Lds::v_offset(row, dim / 8) + dim % 8 * 2;
                else
                    return Lds::v_offset(row & ~3, dim) + row % 4 * 2;
            });
            v.advance();
        }
    }
};

} // namespace waveattn::detail

#endif
