// Shapes of the dual-wave kernel and where its K and V tiles lie in LDS, as constexpr data for kernel and tests.
//
//   DualwaveShape<HeadDim>        block_q 256 = 8 waves x 32 queries, block_kv 64, matrix instructions of a tile
//   DualwaveTile<Arch, HeadDim>   LDS layout, slots of the ring, whether the groups of waves run a phase apart
//   DualwaveLdsGfx950             K padded, V row-major and padded, read by transposing loads
//   DualwaveLdsGfx942             K swizzled, V stored transposed and swizzled
//
// A "chunk" is 16 bytes, eight elements of a row. All offsets are in bytes within one tile's slot.
#pragma once

#include "waveattn/arch/arch.h"
#include "waveattn/tile/mfma_cdna.h"

namespace waveattn::detail {

// gfx950. A unit of 1024 bytes is what one wave writes by one load straight to LDS: 64 lanes x 16 bytes, contiguous.
// The pad behind each unit spreads the rows that one read touches over the 64 banks:
//   K: the 16 rows that a ds_read_b128 phase reads lie in units whose starts differ by 16 bytes modulo 256;
//   V: the 4 keys that 16 lanes of a transposing read touch lie in units that differ by 64 bytes modulo 256.
template <int HeadDim> struct DualwaveLdsGfx950 {
    static constexpr int tokens = 64, row_bytes = 2 * HeadDim, chunks = HeadDim / 8;
    static constexpr int unit_rows = 1024 / row_bytes, units = tokens / unit_rows;
    static constexpr int k_unit = 1024 + 16, v_unit = 1024 + 64;
    static constexpr int k_bytes = units * k_unit, v_bytes = units * v_unit;
    static constexpr bool v_transposing_read = true;

    // The row at place `place` of unit `unit`, and back.
    WAVEATTN_HOST_DEVICE static constexpr int k_row(int unit, int place) { return place * units + unit; }
    WAVEATTN_HOST_DEVICE static constexpr int v_row(int unit, int place) {
        return unit / 4 * (4 * unit_rows) + place * 4 + unit % 4;
    }
    WAVEATTN_HOST_DEVICE static constexpr int k_offset(int row, int chunk) {
        return row % units * k_unit + row / units * row_bytes + 16 * chunk;
    }
    WAVEATTN_HOST_DEVICE static constexpr int v_offset(int row, int chunk) {
        return (row % 4 + row / (4 * unit_rows) * 4) * v_unit + row / 4 % unit_rows * row_bytes + 16 * chunk;
    }

    // The chunk of a row of q and k that half `half` of a wave holds for step `step` of the first product. Two steps
    // take 64 bytes of a row: q can then be loaded in whole segments, and exchanged between neighbouring rows of 16
    // lanes.
    WAVEATTN_HOST_DEVICE static constexpr int k_chunk(int step, int half) { return step / 2 * 4 + 2 * half + step % 2; }
    // Reads of the matrix fragments: an address of the lane plus a constant. K fragment (block, step): keys
    // 32 block + lane % 32, chunk k_chunk(step, lane / 32), one read of 16 bytes.
    WAVEATTN_HOST_DEVICE static constexpr int k_lane(int lane) { return k_offset(lane % 32, k_chunk(0, lane / 32)); }
    WAVEATTN_HOST_DEVICE static constexpr int k_fragment(int lane_offset, int block, int step) {
        return lane_offset + k_offset(32 * block, k_chunk(step, 0));
    }
    // V fragment (step, dim block), half i: 8 bytes of keys 16 step + 8 i + 4 (lane / 32) + (lane % 16) / 4, which the
    // transposing read turns into the four keys of dim 32 dim_block + lane % 32.
    WAVEATTN_HOST_DEVICE static constexpr int v_lane(int lane) {
        return v_offset(4 * (lane / 32) + lane % 16 / 4, 2 * (lane / 16 % 2)) + 8 * (lane % 4);
    }
    WAVEATTN_HOST_DEVICE static constexpr int v_fragment(int lane_offset, int step, int dim_block, int half) {
        return lane_offset + v_offset(16 * step + 8 * half, 4 * dim_block);
    }
};

// gfx942: 64 KiB of LDS hold two slots of each without pads, so chunks are swizzled by their row. V is transposed while
// it is staged: row = dim, and the 16 keys of a step lie so that the eight of a fragment are one chunk.
template <int HeadDim> struct DualwaveLdsGfx942 {
    static constexpr int tokens = 64, row_bytes = 2 * HeadDim, chunks = HeadDim / 8;
    static constexpr int k_bytes = tokens * row_bytes, v_bytes = HeadDim * 2 * tokens;
    static constexpr bool v_transposing_read = false;

    WAVEATTN_HOST_DEVICE static constexpr int k_offset(int row, int chunk) {
        return row * row_bytes + 16 * (chunk ^ row % chunks);
    }
    // Four keys from `key` (a multiple of 4) of one dim: 8 bytes. A read takes neighbouring dims, a write every fourth.
    WAVEATTN_HOST_DEVICE static constexpr int v_offset(int key, int dim) {
        return dim * 2 * tokens + 16 * ((2 * (key / 16) + key / 4 % 2) ^ dim % 8 ^ dim / 8 % 4) + 8 * (key / 8 % 2);
    }
    // v_offset(key, dim + d) from offset = v_offset(key, dim), for dim a multiple of 4 and d < 4.
    WAVEATTN_HOST_DEVICE static constexpr int v_next_dim(int offset, int d) {
        return (offset ^ 16 * d) + d * 2 * tokens;
    }
    WAVEATTN_HOST_DEVICE static constexpr int k_chunk(int step, int half) { return 2 * step + half; }
    WAVEATTN_HOST_DEVICE static constexpr int k_lane(int lane) { return k_offset(lane % 32, k_chunk(0, lane / 32)); }
    WAVEATTN_HOST_DEVICE static constexpr int k_fragment(int lane_offset, int block, int step) {
        return (lane_offset ^ 32 * step) + 32 * block * row_bytes;
    }
    WAVEATTN_HOST_DEVICE static constexpr int v_lane(int lane) { return v_offset(4 * (lane / 32), lane % 32); }
    WAVEATTN_HOST_DEVICE static constexpr int v_fragment(int lane_offset, int step, int dim_block, int) {
        return (lane_offset ^ 32 * step) + 32 * dim_block * 2 * tokens;
    }
};

// What a target makes of a tile.
template <class Arch, int HeadDim> struct DualwaveTile;

template <int HeadDim> struct DualwaveTile<arch::gfx950, HeadDim> {
    using Lds = DualwaveLdsGfx950<HeadDim>;
    static constexpr int ring = 3;          // slots of K and of V
    static constexpr bool staggered = true; // the second group of waves runs one phase behind the first
};
template <int HeadDim> struct DualwaveTile<arch::gfx942, HeadDim> {
    using Lds = DualwaveLdsGfx942<HeadDim>;
    static constexpr int ring = 2;
    static constexpr bool staggered = false;
};

// What is the same on both targets.
template <int HeadDim> struct DualwaveShape {
    static_assert(HeadDim == 64 || HeadDim == 128);
    static constexpr int waves = 8, threads = 512, wave_q = 32, block_q = waves * wave_q, block_kv = 64;
    static constexpr int k_steps = HeadDim / 16, dim_blocks = HeadDim / 32, v_steps = block_kv / 16;
    static constexpr int mfmas = 2 * k_steps; // of either product in a tile
    static_assert(mfmas == v_steps * dim_blocks);
};

} // namespace waveattn::detail
