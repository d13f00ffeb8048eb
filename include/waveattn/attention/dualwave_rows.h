// What a wave of the dual-wave kernel has to do with its 32 rows outside the main loop: which keys they see, q from
// memory, o, LSE and overflow flags to memory.
#pragma once

#include "waveattn/attention/dualwave_wave.h"

#ifdef __HIP__

namespace waveattn::detail {

// The 32 rows of a wave within the block. The two waves of a SIMD take rows from the two ends of the block, so that
// under a causal mask every SIMD has the same work.
WAVEATTN_DEVICE int dualwave_chunk(int wave) { return wave < 4 ? wave : 11 - wave; }

// One item of the work list, as a wave sees it.
template <class T, int HeadDim> struct DualwaveJob {
    using Shape = DualwaveShape<HeadDim>;
    static constexpr int no_mask = 1 << 30;
    DualwaveItem item;
    int number;          // of the item
    int wave_row, rows;  // the wave's first row, and how many there are
    int first_key, keys; // of this split
    int ahead;           // row r sees keys 0 <= j < r + ahead of them
    // Tiles that the workgroup stages, that this wave computes, and of those the ones without a hidden key. A wave
    // computes one tile at least; its keys are hidden where it sees none.
    int tiles, wave_tiles, full_tiles;

    WAVEATTN_DEVICE DualwaveJob(const DualwaveParams<T>& p, const DualwaveItem& work, int wave)
        : item(work), number(dualwave_number(p.grid, work)) {
        const int block_row = item.q_block * Shape::block_q;
        wave_row = block_row + Shape::wave_q * dualwave_chunk(wave);
        rows = arch::uniform(arch::max(0, arch::min(p.q_len - wave_row, Shape::wave_q))); // else a vector register
        first_key = item.split * p.split_tiles * 64;
        keys = arch::min(p.kv_len - first_key, p.split_tiles * 64);
        ahead = p.masked ? p.causal_offset + 1 - first_key : no_mask;
        const auto tiles_of = [&](int row) { return arch::max(1, (seen_by(row) + 63) / 64); };
        tiles = tiles_of(arch::min(block_row + Shape::block_q, p.q_len) - 1);
        wave_tiles = tiles_of(arch::min(wave_row + Shape::wave_q, p.q_len) - 1);
        full_tiles = seen_by(wave_row) / 64;
    }
    // Keys of the split that row r sees.
    WAVEATTN_DEVICE int seen_by(int r) const { return arch::max(0, arch::min(keys, r + ahead)); }
    // Tiles in whose phases the waves meet at barriers. Straight to LDS and with a mask, waves end their blocks apart:
    // then the last three tiles are not among them.
    template <class Staging> WAVEATTN_DEVICE bool ends_apart() const { return Staging::direct && ahead != no_mask; }
    template <class Staging> WAVEATTN_DEVICE int shared_tiles() const {
        return ends_apart<Staging>() ? arch::max(1, tiles - 3) : tiles;
    }
    WAVEATTN_DEVICE int staged_keys() const { return arch::min(keys, tiles * 64); }
    template <class Staging> WAVEATTN_DEVICE void open(const DualwaveParams<T>& p, Staging& staging) const {
        staging.k.open(p.k.at(item.batch, item.kv_head, first_key), p.k.stride[2], staged_keys());
        staging.v.open(p.v.at(item.batch, item.kv_head, first_key), p.v.stride[2], staged_keys());
    }
};

inline constexpr unsigned dualwave_outside = 0x80000000u; // an offset beyond every bound
// Rows of q or o. uniform(): or the compiler would loop over the lanes' resources.
template <class T> WAVEATTN_DEVICE arch::BufferResource dualwave_rows_resource(const T* base, int bytes) {
    const auto address = arch::uniform(std::int64_t(reinterpret_cast<std::uintptr_t>(base)));
    return arch::buffer_resource(reinterpret_cast<const void*>(address), unsigned(arch::uniform(bytes)));
}

// Keys of a tile that a wave's rows see.
template <class T, int HeadDim> struct DualwaveSeen {
    const DualwaveJob<T, HeadDim>& job;
    int tile;
    WAVEATTN_DEVICE int least() const { return job.seen_by(job.wave_row) - 64 * tile; }
    WAVEATTN_DEVICE int most() const { return job.seen_by(job.wave_row + 31) - 64 * tile; }
    // The lane's row, less the lane's offset in a run of eight keys; computed anew each time, for it is rare and would
    // hold a register in the main loop.
    WAVEATTN_DEVICE int lane() const {
        const int now = arch::lane_id_again();
        return job.seen_by(job.wave_row + now % 32) - 4 * (now / 32) - 64 * tile;
    }
};

// `ExactSum`: whether the LSE may be wanted, or the shares of splits.
template <class Wave, class T, int HeadDim, SoftmaxBasis Basis, bool ExactSum, class Staging> struct DualwaveRows {
    using Shape = DualwaveShape<HeadDim>;
    using Lds = typename Wave::Lds;
    using Job = DualwaveJob<T, HeadDim>;

    // Whether one of the item's waves has a row that overflowed the pinned basis.
    WAVEATTN_DEVICE static bool flagged(const DualwaveParams<T>& p, const DualwaveItem& item) {
        int any = 0;
#    pragma unroll
        for (int i = 0; i < Shape::waves; ++i)
            any |= p.overflow[std::int64_t(dualwave_number(p.grid, item)) * Shape::waves + i];
        return arch::uniform(any) != 0;
    }

    // B fragments of q: for step `step` the lane's query and chunk k_chunk(step, lane / 32). Rows and dims outside are
    // 0. On gfx950's fast path 16 lanes first hold neighbouring rows of one chunk; finish_q() exchanges them.
    WAVEATTN_DEVICE static void load_q(Wave& w, const DualwaveParams<T>& p, const Job& job, int lane) {
        const int rows = job.rows;
        const T* const base = p.q.at(job.item.batch, job.item.head, job.wave_row);
        if constexpr (Staging::aligned) {
            const int row_bytes = int(p.q.stride[2]) * 2;
            const arch::BufferResource resource = dualwave_rows_resource(base, rows * row_bytes);
#    pragma unroll
            for (int step = 0; step < Shape::k_steps; ++step) {
                const int row = Staging::direct ? lane % 16 + 16 * (step % 2) : lane % 32;
                const int chunk = Staging::direct ? step / 2 * 4 + lane / 16 : Lds::k_chunk(step, lane / 32);
                const unsigned lane_bytes = unsigned(row * row_bytes + 16 * chunk);
                w.q[step] = arch::buffer_load_16(resource, 8 * chunk < p.head_dim ? lane_bytes : dualwave_outside, 0);
            }
        } else {
#    pragma unroll
            for (int step = 0; step < Shape::k_steps; ++step) {
                unsigned pairs[4] = {};
#    pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const int dim = 8 * Lds::k_chunk(step, lane / 32) + i;
                    if (lane % 32 < rows && dim < p.head_dim)
                        pairs[i / 2] |= unsigned(base[lane % 32 * p.q.stride[2] + dim].bits) << 16 * (i % 2);
                }
                w.q[step] = arch::uint4v{pairs[0], pairs[1], pairs[2], pairs[3]};
            }
        }
    }
    WAVEATTN_DEVICE static void finish_q(Wave& w, unsigned keep, unsigned flip) {
        if constexpr (Staging::direct) {
#    pragma unroll
            for (int step = 0; step < Shape::k_steps; step += 2)
#    pragma unroll
                for (int i = 0; i < 4; ++i) {
                    unsigned even = w.q[step][i], odd = w.q[step + 1][i];
                    arch::swap_rows_of_16(even, odd);
                    w.q[step][i] = even, w.q[step + 1][i] = odd;
                }
        }
        if (keep == ~0u && flip == 0) return;
#    pragma unroll
        for (int step = 0; step < Shape::k_steps; ++step) w.q[step] = (w.q[step] & keep) ^ flip;
    }
};

// What a wave makes of its rows: o, LSE, whether they overflowed the pinned basis. It knows where they go before they
// are computed, so that the wave may take up its next block meanwhile.
template <class Wave, class T, int HeadDim, SoftmaxBasis Basis, bool ExactSum, class Staging> struct DualwaveResult {
    using Shape = DualwaveShape<HeadDim>;
    using Job = DualwaveJob<T, HeadDim>;
    using Pair = typename Wave::Pair;

    // Direct: the wave's rows, and in them the lane's 16 bytes of block 0 in the first of two stores, and how far on
    // those of the second are. Sixteen lanes store the same dims of neighbouring rows, for the 64 lanes then fill whole
    // segments of 64 bytes.
    arch::BufferResource rows;
    unsigned lane_bytes, next_bytes;
    T* out;                                     // else the lane's dims of its row
    int dims_left;                              // from the lane's first dim on
    bool inside;                                // the lane's row
    float *lse = nullptr, *partial_o = nullptr; // of the lane's row, or null
    std::int32_t* overflow;                     // of the wave
    float sum, inverse, probe;                  // of the lane's row
    unsigned packed[8];                         // a block of o, narrowed

    WAVEATTN_DEVICE DualwaveResult(const DualwaveParams<T>& p, const Job& job, int wave, int lane) {
        const DualwaveItem& item = job.item;
        const int row = job.wave_row + lane % 32;
        inside = lane % 32 < job.rows;
        if constexpr (ExactSum) {
            if (p.partial_o) {
                const auto place =
                    ((std::int64_t(item.split) * p.grid.batch + item.batch) * p.grid.heads() + item.head) * p.q_len +
                    row;
                lse = p.partial_lse + place, partial_o = p.partial_o + place * p.head_dim_v;
            } else if (p.lse.data)
                lse = p.lse.at(item.batch, item.head, row);
        }
        if constexpr (Basis == SoftmaxBasis::pinned)
            overflow = p.overflow + std::int64_t(job.number) * Shape::waves + wave;
        if constexpr (Staging::direct) {
            const int row_bytes = int(p.o.stride[2]) * 2, dim = lane / 16 % 2 * 16 + lane / 32 * 8;
            const bool written = !(ExactSum && p.partial_o);
            rows =
                dualwave_rows_resource(p.o.at(item.batch, item.head, job.wave_row), written ? job.rows * row_bytes : 0);
            lane_bytes = unsigned(lane % 16 * row_bytes + 2 * dim), next_bytes = unsigned(16 * row_bytes);
            dims_left = p.head_dim_v - dim;
            arch::pin(lane_bytes), arch::pin(dims_left); // here, not where a store waits for them
        } else {
            out = p.o.at(item.batch, item.head, row) + 4 * (lane / 32);
            dims_left = p.head_dim_v - 4 * (lane / 32);
        }
    }
    WAVEATTN_DEVICE void finish_sum(const Wave& w) {
        const arch::float2v sums = Wave::both_halves(w.sum[0] + w.sum[1]);
        sum = probe = sums.x + sums.y;
        inverse = sum == 0.f ? 0.f : arch::reciprocal(sum);
    }
    // Divides and narrows a quarter of block d. o^T holds, for the lane's query, dims 32 d + 8 n + 4 (lane / 32) + 0..3
    // in registers 4n..4n+3 of block d.
    WAVEATTN_DEVICE void narrow_quarter(Wave& w, int d, int quarter) {
#    pragma unroll
        for (int i = 4 * quarter; i < 4 * quarter + 4; ++i) {
            float value = w.o[d][i] * inverse;
            arch::pin(value); // keeps pairs from being packed, which could not run beside a matrix instruction
            w.o[d][i] = value;
        }
#    pragma unroll
        for (int i = 2 * quarter; i < 2 * quarter + 2; ++i) {
            const Pair pair = Wave::narrow(w.o[d][2 * i], w.o[d][2 * i + 1]);
            packed[i] = __builtin_bit_cast(unsigned, pair);
            // A term beyond the head room made the sum huge, infinite or NaN; a product beyond the range made o so, and
            // 0 times that is NaN.
            if constexpr (Basis == SoftmaxBasis::pinned) probe = arch::dot2(pair, Pair{0.f, 0.f}, probe);
        }
    }
    WAVEATTN_DEVICE void store(int d) {
        if constexpr (Staging::direct) {
            // Lower lanes get all eight dims of a run, upper lanes those of the next; then sixteen lanes those of the
            // next but one, for half of the rows.
#    pragma unroll
            for (int i : {0, 1, 4, 5}) arch::swap_wave_halves(packed[i], packed[i + 2]);
#    pragma unroll
            for (int i = 0; i < 4; ++i) arch::swap_rows_of_16(packed[i], packed[i + 4]);
            const unsigned offset = 32 * d < dims_left ? lane_bytes + unsigned(64 * d) : dualwave_outside;
            arch::buffer_store_16(arch::uint4v{packed[0], packed[1], packed[2], packed[3]}, rows, offset, 0);
            arch::buffer_store_16(arch::uint4v{packed[4], packed[5], packed[6], packed[7]}, rows, offset, next_bytes);
        } else if (inside && !partial_o) {
#    pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int dim = 32 * d + 8 * n;
                if constexpr (Staging::aligned) {
                    if (dim < dims_left)
                        *reinterpret_cast<arch::uint2v*>(out + dim) = arch::uint2v{packed[2 * n], packed[2 * n + 1]};
                } else {
#    pragma unroll
                    for (int i = 0; i < 4; ++i)
                        if (dim + i < dims_left)
                            out[dim + i].bits = std::uint16_t(packed[2 * n + i / 2] >> 16 * (i % 2));
                }
            }
        }
    }
    // All but o, and o of a share of the keys.
    WAVEATTN_DEVICE void store_rest(const Wave& w, const DualwaveParams<T>& p) {
        const int lane = arch::lane_id_again();
        if constexpr (Basis == SoftmaxBasis::pinned) {
            const bool any = arch::vote_any(inside && !(probe < Wave::largest_sum));
            if (lane == 0) *overflow = any;
        }
        if constexpr (!ExactSum) return;
        if (lse && lane < 32 && inside) {
            // The head room is taken out of the sum first, exactly: the logarithm then is of a number of moderate size.
            float basis = -w.lift, scaled = sum;
            if constexpr (Basis == SoftmaxBasis::pinned)
                if (basis > Wave::unseen) basis -= Wave::pinned_room, scaled *= __builtin_exp2f(Wave::pinned_room);
            *lse = sum == 0.f ? -arch::infinity : (basis + arch::log2(scaled)) * arch::ln2;
        }
        if (partial_o && inside) {
#    pragma unroll
            for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
                for (int n = 0; n < 16; ++n) {
                    const int dim = 32 * d + Wave::Atom::d_row(lane, n);
                    if (dim < p.head_dim_v) partial_o[dim] = w.o[d][n];
                }
        }
    }
};

} // namespace waveattn::detail

#endif
