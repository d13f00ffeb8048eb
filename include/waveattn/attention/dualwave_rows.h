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
        ahead = p.masked ? p.causal_offset + 1 - first_key : 1 << 30;
        const auto tiles_of = [&](int row) { return arch::max(1, (seen_by(row) + 63) / 64); };
        tiles = tiles_of(arch::min(block_row + Shape::block_q, p.q_len) - 1);
        wave_tiles = tiles_of(arch::min(wave_row + Shape::wave_q, p.q_len) - 1);
        full_tiles = seen_by(wave_row) / 64;
    }
    // Keys of the split that row r sees.
    WAVEATTN_DEVICE int seen_by(int r) const { return arch::max(0, arch::min(keys, r + ahead)); }
    WAVEATTN_DEVICE int staged_keys() const { return arch::min(keys, tiles * 64); }
    template <class Staging> WAVEATTN_DEVICE void open(const DualwaveParams<T>& p, Staging& staging) const {
        staging.k.open(p.k.at(item.batch, item.kv_head, first_key), p.k.stride[2], staged_keys());
        staging.v.open(p.v.at(item.batch, item.kv_head, first_key), p.v.stride[2], staged_keys());
    }
    // The same after `last`, whose keys they may share.
    template <class Staging>
    WAVEATTN_DEVICE void open(const DualwaveParams<T>& p, Staging& staging, const DualwaveJob& last) const {
        if (item.kv_head == last.item.kv_head && item.batch == last.item.batch && first_key == last.first_key)
            staging.k.restart(staged_keys()), staging.v.restart(staged_keys());
        else
            open(p, staging);
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
            const arch::BufferResource resource = rows_resource(base, rows * row_bytes);
#    pragma unroll
            for (int step = 0; step < Shape::k_steps; ++step) {
                const int row = Staging::direct ? lane % 16 + 16 * (step % 2) : lane % 32;
                const int chunk = Staging::direct ? step / 2 * 4 + lane / 16 : Lds::k_chunk(step, lane / 32);
                const unsigned lane_bytes = unsigned(row * row_bytes + 16 * chunk);
                w.q[step] = arch::buffer_load_16(resource, 8 * chunk < p.head_dim ? lane_bytes : outside, 0);
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
#    pragma unroll
        for (int step = 0; step < Shape::k_steps; ++step) w.q[step] = (w.q[step] & keep) ^ flip;
    }

    WAVEATTN_DEVICE static float row_sum(const Wave& w) {
        const arch::float2v sums = Wave::both_halves(w.sum[0] + w.sum[1]);
        return sums.x + sums.y;
    }
    // o divided by the sum; LSE.
    WAVEATTN_DEVICE static void normalise(Wave& w, const DualwaveParams<T>& p, const Job& job, int lane) {
        const DualwaveItem& item = job.item;
        const int row = job.wave_row + lane % 32;
        const bool inside = lane % 32 < job.rows;
        const float sum = row_sum(w);
        const float inverse = sum == 0.f ? 0.f : arch::reciprocal(sum);
#    pragma unroll
        for (int d = 0; d < Shape::dim_blocks; ++d) {
            w.o[d] *= inverse;
        }

        if constexpr (!ExactSum) return;
        float* const lse = p.partial_lse ? p.partial_lse + partial_row(p, item, row)
                           : p.lse.data  ? p.lse.at(item.batch, item.head, row)
                                         : nullptr;
        if (lse && lane < 32 && inside) {
            // The head room is taken out of the sum first, exactly: the logarithm then is of a number of moderate size.
            float basis = -w.lift, scaled = sum;
            if constexpr (Basis == SoftmaxBasis::pinned)
                if (basis > Wave::unseen) basis -= Wave::pinned_room, scaled *= __builtin_exp2f(Wave::pinned_room);
            *lse = sum == 0.f ? -arch::infinity : (basis + arch::log2(scaled)) * arch::ln2;
        }
    }
    // O^T holds, for the lane's query, dims 32 d + 8 n + 4 (lane / 32) + 0..3 in registers 4n..4n+3 of block d.
    WAVEATTN_DEVICE static void store(Wave& w, const DualwaveParams<T>& p, const Job& job, int wave, int lane) {
        const DualwaveItem& item = job.item;
        const int row = job.wave_row + lane % 32;
        const bool inside = lane % 32 < job.rows;
        unsigned packed[Shape::dim_blocks][8];
#    pragma unroll
        for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
            for (int n = 0; n < 8; ++n) packed[d][n] = narrow(w.o[d][2 * n], w.o[d][2 * n + 1]);

        if constexpr (Basis == SoftmaxBasis::pinned) {
            // A term beyond the head room made the sum huge, infinite or NaN; a product beyond the range made o so, and
            // 0 times that is NaN.
            using Pair = typename Wave::Pair;
            float probe = row_sum(w);
#    pragma unroll
            for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
                for (int n = 0; n < 8; ++n)
                    probe = arch::dot2(__builtin_bit_cast(Pair, packed[d][n]), Pair{0.f, 0.f}, probe);
            const bool any = arch::vote_any(inside && !(probe < Wave::largest_sum));
            if (lane == 0) p.overflow[std::int64_t(job.number) * Shape::waves + wave] = any;
        }

        if (ExactSum && p.partial_o) {
            if (!inside) return;
            float* const out = p.partial_o + partial_row(p, item, row) * p.head_dim_v;
#    pragma unroll
            for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
                for (int n = 0; n < 16; ++n) {
                    const int dim = 32 * d + Wave::Atom::d_row(lane, n);
                    if (dim < p.head_dim_v) out[dim] = w.o[d][n];
                }
            return;
        }
        if constexpr (Staging::direct) {
            const int row_bytes = int(p.o.stride[2]) * 2;
            const arch::BufferResource resource =
                rows_resource(p.o.at(item.batch, item.head, job.wave_row), job.rows * row_bytes);
            const unsigned lane_bytes = unsigned(lane % 32 * row_bytes + 16 * (lane / 32));
#    pragma unroll
            for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
                for (int n = 0; n < 4; n += 2) {
                    // Lower lanes get all eight dims of run n, upper lanes those of run n + 1.
                    unsigned* const run = packed[d] + 2 * n;
                    arch::swap_wave_halves(run[0], run[2]);
                    arch::swap_wave_halves(run[1], run[3]);
                    const int dim = 32 * d + 8 * n;
                    arch::buffer_store_16(arch::uint4v{run[0], run[1], run[2], run[3]}, resource,
                        dim + lane / 32 * 8 < p.head_dim_v ? lane_bytes + unsigned(2 * dim) : outside, 0);
                }
        } else if (inside) {
            T* const out = p.o.at(item.batch, item.head, row);
#    pragma unroll
            for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
                for (int n = 0; n < 4; ++n) {
                    const int dim = 32 * d + 8 * n + 4 * (lane / 32);
                    if constexpr (Staging::aligned) {
                        if (dim < p.head_dim_v)
                            *reinterpret_cast<arch::uint2v*>(out + dim) =
                                arch::uint2v{packed[d][2 * n], packed[d][2 * n + 1]};
                    } else {
#    pragma unroll
                        for (int i = 0; i < 4; ++i)
                            if (dim + i < p.head_dim_v)
                                out[dim + i].bits = std::uint16_t(packed[d][2 * n + i / 2] >> 16 * (i % 2));
                    }
                }
        }
    }
    WAVEATTN_DEVICE static unsigned narrow(float a, float b) {
        return __builtin_bit_cast(unsigned, Wave::narrow(a, b));
    }

private:
    WAVEATTN_DEVICE static std::int64_t partial_row(const DualwaveParams<T>& p, const DualwaveItem& item, int row) {
        return ((std::int64_t(item.split) * p.grid.batch + item.batch) * p.grid.heads() + item.head) * p.q_len + row;
    }
    static constexpr unsigned outside = 0x80000000u; // an offset beyond every bound
    // uniform(): or the compiler would loop over the lanes' resources.
    WAVEATTN_DEVICE static arch::BufferResource rows_resource(const T* base, int bytes) {
        const auto address = arch::uniform(std::int64_t(reinterpret_cast<std::uintptr_t>(base)));
        return arch::buffer_resource(reinterpret_cast<const void*>(address), unsigned(arch::uniform(bytes)));
    }
};

} // namespace waveattn::detail

#endif
