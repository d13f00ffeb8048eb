// The dual-wave kernel: one workgroup of 8 waves computes 256 queries of one head.
//
//   o[b, h, i, :] = sum_j softmax_j(scale q[b, h, i, :] . k[b, h', j, :]) v[b, h', j, :]     (or a split's share of j)
//
// Waves 0..3 are the first group, 4..7 the second; wave w and w + 4 share a SIMD. The main loop is in dualwave_wave.h.
#pragma once

#include "waveattn/attention/dualwave_wave.h"

#ifdef __HIP__

namespace waveattn {
namespace detail {

// The 32 rows of a wave within the block. The two waves of a SIMD take rows from the two ends of the block, so that
// under a causal mask every SIMD has the same work.
WAVEATTN_DEVICE int dualwave_chunk(int wave) { return wave < 4 ? wave : 11 - wave; }

} // namespace detail

template <class T, class Arch, int HeadDim, SoftmaxBasis Basis, bool ExactSum, class Staging>
struct FlashAttentionDualwaveSwp {
    using Wave = detail::DualwaveWave<T, Arch, HeadDim, Basis, ExactSum, Staging>;
    using Shape = detail::DualwaveShape<HeadDim>;
    using Lds = typename Wave::Lds;
    static constexpr int ring = Wave::Tile::ring;

    // `item` is the place in the work list.
    WAVEATTN_DEVICE static void exec(const detail::DualwaveParams<T>& p, unsigned item_index) {
        alignas(16) __shared__ char k0[Lds::k_bytes], k1[Lds::k_bytes], k2[Lds::k_bytes];
        alignas(16) __shared__ char v0[Lds::v_slot_bytes], v1[Lds::v_slot_bytes], v2[Lds::v_slot_bytes];

        if (p.repair) {
            int flags = 0;
#    pragma unroll
            for (int i = 0; i < 8; ++i) flags |= p.overflow[std::int64_t(item_index) * 8 + i];
            if (arch::uniform(flags) == 0) return;
        }
        // Which rows, which keys.
        const detail::DualwaveItem item = detail::dualwave_item(p.grid, item_index);
        const int wave = arch::uniform(int(arch::thread_x() / 64)), lane = int(arch::lane_id());
        const bool second = Wave::Tile::staggered && wave >= 4;
        const int block_row = item.q_block * Shape::block_q, wave_row = block_row + 32 * detail::dualwave_chunk(wave);
        const int first_key = item.split * p.split_tiles * 64;
        const int keys = arch::min(p.kv_len - first_key, p.split_tiles * 64); // of this split
        // Keys of it that a row sees.
        const auto seen_by = [&](int r) {
            const int last = p.masked ? r + p.causal_offset : p.kv_len - 1;
            return arch::max(0, arch::min(keys, last + 1 - first_key));
        };
        // Tiles that the workgroup stages, that this wave computes, and of those the ones without a hidden key. A wave
        // computes one tile at least; its keys are hidden where it sees none.
        const int block_keys = seen_by(arch::min(block_row + Shape::block_q, p.q_len) - 1);
        const int tiles = arch::max(1, (block_keys + 63) / 64);
        const int wave_tiles = arch::max(1, (seen_by(arch::min(wave_row + 31, p.q_len - 1)) + 63) / 64);
        const int full_tiles = seen_by(wave_row) / 64;

        Wave w;
        Staging staging; // apart from the registers' arrays, which the compiler takes apart later
        const detail::DualwaveSlots k_slots = slots(k0, k1, k2), v_slots = slots(v0, v1, v2);
        w.k_lane = unsigned(Lds::k_lane(lane)), w.v_lane = unsigned(Lds::v_lane(lane));
        w.scale = p.scale_log2;

        // Keys of tile j that this lane's query sees, less the lane's offset in a run of eight keys; computed anew each
        // time, for it is rare and would hold a register in the main loop.
        const auto visible = [&](int j) {
            const int now = arch::lane_id_again();
            return seen_by(wave_row + now % 32) - 4 * (now / 32) - 64 * j;
        };

        // Start the loads: q and the first tile of K are wanted first.
        load_q(w, p, item, wave_row, lane);
        arch::schedule_barrier();
        const int staged_keys = arch::min(keys, tiles * 64);
        staging.k.open(p.k.at(item.batch, item.kv_head, first_key), p.k.stride[2], staged_keys);
        staging.v.open(p.v.at(item.batch, item.kv_head, first_key), p.v.stride[2], staged_keys);
        staging.prepare(wave, lane, p.head_dim, p.head_dim_v);
        staging.fill_k(k_slots.template at<0>());
        const auto fill_others = [&] {
            staging.fill_k(k_slots.template at<1>());
            if constexpr (ring == 3) {
                staging.fill_v(v_slots.template at<0>());
                staging.fill_k(k_slots.template at<2>());
            }
            staging.start();
        };
        // Straight to LDS, the other tiles queue up behind every wave's q and first tile; through registers, this is
        // the one barrier before their first reader.
        if constexpr (!Staging::direct) fill_others();

        // Prologue: scores of tile 0 and the basis.
        w.template arrive<0>();
#    pragma unroll
        for (int i = 0; i < Shape::mfmas; ++i) w.read_k(k_slots.template at<0>(), i);
        arch::schedule_barrier();
        if constexpr (Staging::direct) fill_others();
        if (second) w.template arrive<3>();
        finish_q(w, p);
#    pragma unroll
        for (int d = 0; d < Shape::dim_blocks; ++d) w.o[d] = arch::float16v{};
        w.sum[0] = w.sum[1] = 0.f;
        w.template score_phase<true>(
            staging, k_slots.template at<0>(), v_slots.template at<0>(), v_slots.template at<Wave::v_lead>());
        w.first_phase(
            staging, full_tiles == 0, visible(0), k_slots.template at<1>(), k_slots.template at<Wave::k_lead % ring>());

        // Main loop: a round of the ring each trip (slots are constants) while no key is hidden, then tile by tile with
        // masks.
        const int full_end = arch::min(full_tiles, wave_tiles);
        const int span = Staging::Stream::span_tiles(staging.k.tile_bytes, staging.v.tile_bytes);
        const auto tile = [&](auto slot, auto masked, int j) {
            constexpr int i = slot; // j modulo ring
            body<masked>(w, staging, k_slots.template at<i>(), v_slots.template at<(i + ring - 1) % ring>(),
                v_slots.template at<(i + Wave::v_lead) % ring>(), k_slots.template at<(i + 1) % ring>(),
                k_slots.template at<(i + Wave::k_lead) % ring>(), [&] { return visible(j); });
        };
        using Slot1 = std::integral_constant<int, 1>;
        using Slot2 = std::integral_constant<int, 2>;
        using Slot0 = std::integral_constant<int, 0>;
        int j = 1;
        while (j + ring <= full_end) {
            const int end = arch::min(full_end, j + span);
            staging.renew();
#    pragma unroll 1
            for (; j + ring <= end; j += ring) {
                tile(Slot1{}, std::false_type{}, j);
                if constexpr (ring == 3) tile(Slot2{}, std::false_type{}, j);
                tile(Slot0{}, std::false_type{}, j);
            }
        }
        if constexpr (Staging::direct) {
#    pragma unroll 1
            while (j < wave_tiles) {
                staging.renew();
                tile(Slot1{}, std::true_type{}, j);
                if (++j == wave_tiles) break;
                if constexpr (ring == 3) {
                    tile(Slot2{}, std::true_type{}, j);
                    if (++j == wave_tiles) break;
                }
                tile(Slot0{}, std::true_type{}, j);
                ++j;
            }
        } else {
            // Nothing here depends on the compiler telling the slots apart.
#    pragma unroll 1
            for (; j < wave_tiles; ++j) {
                staging.renew();
                body<true>(w, staging, any_slot(k_slots, j), any_slot(v_slots, j - 1),
                    any_slot(v_slots, j + Wave::v_lead), any_slot(k_slots, j + 1), any_slot(k_slots, j + Wave::k_lead),
                    [&] { return visible(j); });
            }
        }

        // Epilogue: the last tile's exponentials and products.
        {
            const auto source = any_slot(v_slots, wave_tiles - 1);
#    pragma unroll
            for (int i = 0; i < Shape::mfmas; ++i) w.read_v(source, i);
#    pragma unroll
            for (int i = 0; i < Shape::mfmas; ++i) {
                w.score_work(i);
                arch::schedule_barrier();
            }
            arch::wait_lds<0>();
#    pragma unroll
            for (int i = 0; i < Shape::mfmas; ++i) {
                w.value_step(i);
                w.value_work(i);
                arch::schedule_barrier();
            }
        }
        store(w, p, item, item_index, wave, wave_row, arch::lane_id_again());
        // Loads and barriers of tiles that only later rows see.
#    pragma unroll 1
        for (int i = wave_tiles; i < tiles; ++i) {
            w.template arrive<1>();
            const auto v_target = any_slot(v_slots, i + Wave::v_lead);
            staging.template load_v<0>(v_target), staging.template load_v<1>(v_target);
            w.template arrive<1>();
            const auto k_target = any_slot(k_slots, i + Wave::k_lead);
            staging.template load_k<0>(k_target), staging.template load_k<1>(k_target);
        }
        // Nothing may still be on its way to LDS when the workgroup ends; and the groups' barriers must pair up.
        arch::wait<0, 0>();
        if (Wave::Tile::staggered && !second) arch::bare_barrier();
    }

private:
    using Slots = detail::DualwaveSlots;
    using Slot = arch::LdsPointer<char>;
    WAVEATTN_DEVICE static Slots slots(char* a, char* b, char* c) {
        return {(arch::LdsPointer<char>)a, (arch::LdsPointer<char>)b, ring == 3 ? (arch::LdsPointer<char>)c : nullptr};
    }
    WAVEATTN_DEVICE static arch::LdsPointer<char> any_slot(Slots slots, int tile) {
        const int slot = tile % ring;
        return slot == 0 ? slots.first : slot == 1 ? slots.second : slots.third;
    }

    template <bool Masked, class Visible>
    WAVEATTN_DEVICE static void body(Wave& w, Staging& staging, Slot k, Slot previous_v, Slot v_target, Slot next_k,
        Slot k_target, Visible visible) {
        w.template score_phase<false>(staging, k, previous_v, v_target);
        w.template value_phase<Masked>(staging, visible, previous_v, next_k, k_target);
    }

    // B fragments of q: for step `step` the lane's query and chunk k_chunk(step, lane / 32). Rows and dims outside are
    // 0. On gfx950's fast path 16 lanes first hold neighbouring rows of one chunk; finish_q() exchanges them.
    WAVEATTN_DEVICE static void load_q(
        Wave& w, const detail::DualwaveParams<T>& p, const detail::DualwaveItem& item, int wave_row, int lane) {
        const int rows = arch::max(0, arch::min(p.q_len - wave_row, 32));
        const T* const base = p.q.at(item.batch, item.head, wave_row);
        if constexpr (Staging::aligned) {
            const int row_bytes = int(p.q.stride[2]) * 2;
            // uniform(): or the compiler would loop over the lanes' resources.
            const auto address = arch::uniform(std::int64_t(reinterpret_cast<std::uintptr_t>(base)));
            const arch::BufferResource resource = arch::buffer_resource(
                reinterpret_cast<const void*>(address), unsigned(arch::uniform(rows * row_bytes)));
#    pragma unroll
            for (int step = 0; step < Shape::k_steps; ++step) {
                const int row = Staging::direct ? lane % 16 + 16 * (step % 2) : lane % 32;
                const int chunk = Staging::direct ? step / 2 * 4 + lane / 16 : Lds::k_chunk(step, lane / 32);
                const unsigned lane_bytes = unsigned(row * row_bytes + 16 * chunk);
                w.q[step] = arch::buffer_load_16(resource, 8 * chunk < p.head_dim ? lane_bytes : 0x80000000u, 0);
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
    WAVEATTN_DEVICE static void finish_q(Wave& w, const detail::DualwaveParams<T>& p) {
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
        for (int step = 0; step < Shape::k_steps; ++step) w.q[step] = (w.q[step] & p.q_keep) ^ p.q_flip;
    }

    // O^T holds, for the lane's query, dims 32 d + 8 n + 4 (lane / 32) + 0..3 in registers 4n..4n+3 of block d.
    WAVEATTN_DEVICE static void store(Wave& w, const detail::DualwaveParams<T>& p, const detail::DualwaveItem& item,
        unsigned item_index, int wave, int wave_row, int lane) {
        const int row = wave_row + lane % 32;
        const bool inside = row < p.q_len;
        float sum = w.sum[0] + w.sum[1];
        sum += arch::shuffle_xor(sum, 32);
        const float inverse = sum == 0.f ? 0.f : arch::reciprocal(sum);
#    pragma unroll
        for (int d = 0; d < Shape::dim_blocks; ++d) w.o[d] *= inverse;

        unsigned packed[Shape::dim_blocks][8];
#    pragma unroll
        for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
            for (int n = 0; n < 8; ++n) packed[d][n] = narrow(w.o[d][2 * n], w.o[d][2 * n + 1]);

        if constexpr (Basis == SoftmaxBasis::pinned) {
            // A term beyond the head room made the sum huge, infinite or NaN; a product beyond the range made o so, and
            // 0 times that is NaN.
            using Pair = typename Wave::Pair;
            float probe = sum;
#    pragma unroll
            for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
                for (int n = 0; n < 8; ++n)
                    probe = arch::dot2(__builtin_bit_cast(Pair, packed[d][n]), Pair{0.f, 0.f}, probe);
            const bool any = arch::vote_any(inside && !(probe < Wave::largest_sum));
            if (lane == 0) p.overflow[std::int64_t(item_index) * 8 + wave] = any;
        }

        const std::int64_t out_row =
            ((std::int64_t(item.split) * p.grid.batch + item.batch) * p.grid.heads() + item.head) * p.q_len + row;
        float* const lse = p.partial_lse ? p.partial_lse + out_row
                           : p.lse.data  ? p.lse.at(item.batch, item.head, row)
                                         : nullptr;
        if (lse && lane < 32 && inside) {
            // The head room is taken out of the sum first, exactly: the logarithm then is of a number of moderate size.
            float basis = -w.lift, scaled = sum;
            if constexpr (Basis == SoftmaxBasis::pinned)
                if (basis > Wave::unseen) basis -= Wave::pinned_room, scaled *= __builtin_exp2f(Wave::pinned_room);
            *lse = sum == 0.f ? -arch::infinity : (basis + arch::log2(scaled)) * arch::ln2;
        }
        if (p.partial_o) {
            if (!inside) return;
            float* const out = p.partial_o + out_row * p.head_dim_v;
#    pragma unroll
            for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
                for (int n = 0; n < 16; ++n) {
                    const int dim = 32 * d + Wave::Atom::d_row(lane, n);
                    if (dim < p.head_dim_v) out[dim] = w.o[d][n];
                }
            return;
        }
        T* const out = p.o.at(item.batch, item.head, row);
        if constexpr (Staging::direct) {
#    pragma unroll
            for (int d = 0; d < Shape::dim_blocks; ++d)
#    pragma unroll
                for (int n = 0; n < 4; n += 2) {
                    // Lower lanes get all eight dims of run n, upper lanes those of run n + 1.
                    unsigned* const run = packed[d] + 2 * n;
                    arch::swap_wave_halves(run[0], run[2]);
                    arch::swap_wave_halves(run[1], run[3]);
                    const int dim = 32 * d + 8 * (n + lane / 32);
                    if (inside && dim < p.head_dim_v)
                        *reinterpret_cast<arch::uint4v*>(out + dim) = arch::uint4v{run[0], run[1], run[2], run[3]};
                }
        } else if (inside) {
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
};

} // namespace waveattn

#endif
