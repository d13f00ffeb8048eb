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
        base = reinterpret_cast<const char*>(first_row);
        row_bytes = unsigned(row_stride * std::int64_t(sizeof(T)));
        tile_bytes = row_bytes * 64;
        left = std::int64_t(row_bytes) * rows;
        at = below;
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
    static constexpr bool direct = true;
    static constexpr int loads = Lds::units / 8; // instructions of a wave for a tile
    Stream k, v;
    unsigned k_lane, v_lane; // lane offsets in the wave's first unit
    unsigned k_lds, v_lds;   // of that unit, within a slot

    WAVEATTN_DEVICE void prepare(int wave, int lane, int head_dim, int head_dim_v, bool) {
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

// Through registers, element by element where rows are not aligned to 16 bytes. What a phase puts into LDS was fetched
// in the phase before.
template <class T, class Arch, int HeadDim> struct DualwaveRegisters {
    using Shape = DualwaveShape<HeadDim>;
    using Lds = typename DualwaveTile<Arch, HeadDim>::Lds;
    static constexpr bool direct = false;
    static constexpr int loads = 0;
    static constexpr int pieces = 64 * Lds::chunks / Shape::threads; // chunks of a thread in a tile
    struct Stream {
        const T* base;
        std::int64_t row_stride;
        std::int32_t rows; // left
        WAVEATTN_DEVICE void open(const T* first_row, std::int64_t stride, std::int32_t count) {
            base = first_row, row_stride = stride, rows = count;
        }
        WAVEATTN_DEVICE void advance() { base += 64 * row_stride, rows -= 64; }
        WAVEATTN_DEVICE static int span_tiles(unsigned, unsigned) { return 1 << 30; }
        static constexpr unsigned tile_bytes = 0;
    };
    Stream k, v;
    int thread, head_dim, head_dim_v;
    bool aligned;
    arch::uint4v held[pieces]; // the tile on its way

    WAVEATTN_DEVICE void prepare(int wave, int lane, int k_dim, int v_dim, bool all_aligned) {
        thread = 64 * wave + lane, head_dim = k_dim, head_dim_v = v_dim, aligned = all_aligned;
    }
    WAVEATTN_DEVICE void renew() {}
    WAVEATTN_DEVICE void start() { fetch_v(); }
    WAVEATTN_DEVICE void fill_k(arch::LdsPointer<char> slot) { fetch_rows(k, head_dim), put_k(slot); }
    WAVEATTN_DEVICE void fill_v(arch::LdsPointer<char> slot) { fetch_v(), put_v(slot); }
    template <int I> WAVEATTN_DEVICE void load_k(arch::LdsPointer<char> slot) {
        if constexpr (I == 0) put_k(slot), fetch_v();
    }
    template <int I> WAVEATTN_DEVICE void load_v(arch::LdsPointer<char> slot) {
        if constexpr (I == 0) put_v(slot), fetch_rows(k, head_dim);
    }

    // Count elements of `row` from `dim` on, packed in pairs; those outside are 0 and not read.
    template <int Count>
    WAVEATTN_DEVICE static void read_piece(
        const T* row, int dim, int dims, bool inside, bool aligned, unsigned (&pairs)[Count / 2]) {
#    pragma unroll
        for (int i = 0; i < Count / 2; ++i) pairs[i] = 0;
        if (!inside || dim >= dims) return;
        if (aligned) {
            using Piece = arch::Vector<unsigned, Count / 2>;
            const Piece piece = *reinterpret_cast<const Piece*>(row + dim);
#    pragma unroll
            for (int i = 0; i < Count / 2; ++i) pairs[i] = piece[i];
        } else {
#    pragma unroll
            for (int i = 0; i < Count; ++i)
                if (dim + i < dims) pairs[i / 2] |= unsigned(row[dim + i].bits) << 16 * (i % 2);
        }
    }

private:
    WAVEATTN_DEVICE void fetch_rows(Stream& stream, int dims) {
#    pragma unroll
        for (int i = 0; i < pieces; ++i) {
            const int index = thread + i * Shape::threads, row = index / Lds::chunks, chunk = index % Lds::chunks;
            unsigned pairs[4];
            read_piece<8>(stream.base + row * stream.row_stride, 8 * chunk, dims, row < stream.rows, aligned, pairs);
            held[i] = arch::uint4v{pairs[0], pairs[1], pairs[2], pairs[3]};
        }
        stream.advance();
    }
    WAVEATTN_DEVICE void put_k(arch::LdsPointer<char> slot) {
#    pragma unroll
        for (int i = 0; i < pieces; ++i) {
            const int index = thread + i * Shape::threads;
            *(arch::LdsPointer<arch::uint4v>)(slot + Lds::k_offset(index / Lds::chunks, index % Lds::chunks)) = held[i];
        }
    }
    // V to be stored transposed: a thread holds 4 keys x 4 dims.
    static constexpr int dim_groups = HeadDim / 4;
    WAVEATTN_DEVICE bool has_block() const { return HeadDim == 128 || thread < 16 * dim_groups; }
    WAVEATTN_DEVICE void fetch_v() {
        if constexpr (Lds::v_transposing_read)
            fetch_rows(v, head_dim_v);
        else {
            const int key = 4 * (thread / dim_groups), dim = 4 * (thread % dim_groups);
            unsigned pairs[4][2];
#    pragma unroll
            for (int i = 0; i < 4; ++i)
                read_piece<4>(v.base + (key + i) * v.row_stride, dim, head_dim_v, has_block() && key + i < v.rows,
                    aligned, pairs[i]);
            // Pairs of keys for each of the four dims: [dim][pair of keys].
            unsigned columns[4][2];
#    pragma unroll
            for (int d = 0; d < 4; ++d)
#    pragma unroll
                for (int n = 0; n < 2; ++n)
                    columns[d][n] = arch::permute_bytes(
                        pairs[2 * n + 1][d / 2], pairs[2 * n][d / 2], d % 2 ? 0x07060302u : 0x05040100u);
            if constexpr (pieces == 2) {
                held[0] = arch::uint4v{columns[0][0], columns[0][1], columns[1][0], columns[1][1]};
                held[1] = arch::uint4v{columns[2][0], columns[2][1], columns[3][0], columns[3][1]};
            } else {
                held[0] = arch::uint4v{columns[0][0], columns[0][1], columns[1][0], columns[1][1]};
                rest = arch::uint4v{columns[2][0], columns[2][1], columns[3][0], columns[3][1]};
            }
            v.advance();
        }
    }
    WAVEATTN_DEVICE void put_v(arch::LdsPointer<char> slot) {
        if constexpr (Lds::v_transposing_read) {
#    pragma unroll
            for (int i = 0; i < pieces; ++i) {
                const int index = thread + i * Shape::threads;
                *(arch::LdsPointer<arch::uint4v>)(slot + Lds::v_offset(index / Lds::chunks, index % Lds::chunks)) =
                    held[i];
            }
        } else {
            const int key = 4 * (thread / dim_groups), dim = 4 * (thread % dim_groups);
            const arch::uint4v upper = pieces == 2 ? held[pieces - 1] : rest;
            if (!has_block()) return;
            const arch::uint2v columns[4] = {held[0].lo, held[0].hi, upper.lo, upper.hi};
#    pragma unroll
            for (int d = 0; d < 4; ++d)
                *(arch::LdsPointer<arch::uint2v>)(slot + Lds::v_offset(key, dim + d)) = columns[d];
        }
    }
    arch::uint4v rest; // the second half of a 4 x 4 block where K takes one chunk only
};

} // namespace waveattn::detail

#endif
