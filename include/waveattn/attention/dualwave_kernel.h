// The dual-wave kernel: a workgroup of 8 waves computes blocks of 256 queries of one head.
//
//   o[b, h, i, :] = sum_j softmax_j(scale q[b, h, i, :] . k[b, h', j, :]) v[b, h', j, :]     (or a split's share of j)
//
// Waves 0..3 are the first group, 4..7 the second; wave w and w + 4 share a SIMD. The main loop is in dualwave_wave.h.
// A workgroup with several blocks computes them one after the other while the ring of K and V rolls on.
#pragma once

#include "waveattn/attention/dualwave_rows.h"

#ifdef __HIP__

namespace waveattn {

template <class T, class Arch, int HeadDim, SoftmaxBasis Basis, bool ExactSum, class Staging>
struct FlashAttentionDualwaveSwp {
    using Wave = detail::DualwaveWave<T, Arch, HeadDim, Basis, ExactSum, Staging>;
    using Rows = detail::DualwaveRows<Wave, T, HeadDim, Basis, ExactSum, Staging>;
    using Shape = detail::DualwaveShape<HeadDim>;
    using Job = detail::DualwaveJob<T, HeadDim>;
    using Lds = typename Wave::Lds;
    using Slots = detail::DualwaveSlots;
    using Slot = arch::LdsPointer<char>;
    static constexpr int ring = Wave::Tile::ring;
    static constexpr bool chained = Staging::direct; // a workgroup may have several blocks
    // Whether a wave that has finished keeps to the phases of the others; through registers, it has none left to hold
    // what it stages meanwhile.
    static constexpr bool phased = Staging::direct;

    // The kernel's only argument is `p`.
    WAVEATTN_DEVICE static void exec(const detail::DualwaveParams<T>& p, unsigned workgroup) {
        alignas(16) __shared__ char k0[Lds::k_bytes], k1[Lds::k_bytes], k2[Lds::k_bytes];
        alignas(16) __shared__ char v0[Lds::v_slot_bytes], v1[Lds::v_slot_bytes], v2[Lds::v_slot_bytes];

        detail::DualwaveWalk walk(p.grid, workgroup);
        if (p.repair && !Rows::flagged(p, walk.item)) return;
        const int wave = arch::uniform(int(arch::thread_x() / 64)), lane = int(arch::lane_id());
        const bool second = Wave::Tile::staggered && wave >= 4;
        Job job(p, walk.item, wave);

        Wave w;
        Staging staging; // apart from the registers' arrays, which the compiler takes apart later
        const Slots k_slots = slots(k0, k1, k2), v_slots = slots(v0, v1, v2);
        w.k_lane = unsigned(Lds::k_lane(lane)), w.v_lane = unsigned(Lds::v_lane(lane));
        w.scale = p.scale_log2;

        // Start the loads: q and the first tile of K are wanted first.
        Rows::load_q(w, p, job, lane);
        arch::schedule_barrier();
        job.open(p, staging);
        staging.prepare(wave, lane, p.head_dim, p.head_dim_v);
        staging.fill_k(k_slots.template at<0>());
        bool more = chained && walk.advance(p.grid); // walk is one item ahead of job
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
        w.template arrive<0>();
        read_first_k(w, k_slots);
        if constexpr (Staging::direct) fill_others();
        if (second) w.template arrive<3>();
        Rows::finish_q(w, p.q_keep, p.q_flip);

#    pragma unroll 1
        for (;;) {
            compute(w, staging, job, k_slots, v_slots);

            // The last tile's exponentials and products, then o: in phases as the other waves' tiles, so that no
            // barrier waits for a wave that has finished. With a block to follow every wave takes two places more; in
            // the first the ring, free by then, is filled anew.
            const auto& again = arch::kernel_argument_again<detail::DualwaveParams<T>>();
            const int places = more ? job.tiles + 2 : job.tiles;
            int place = job.wave_tiles;
            const auto v_turn = [&] {
                if (place >= places) return;
                w.template arrive<1>();
                if (place >= job.tiles) return;
                const auto slot = any_slot(v_slots, place + Wave::v_lead);
                staging.template load_v<0>(slot), staging.template load_v<1>(slot);
            };
            const auto k_turn = [&](const Job& next, bool stored = false) {
                if (place >= places) return;
                if constexpr (chained)
                    if (place == job.tiles) next.open(again, staging, job);
                if (place < job.tiles) {
                    stored ? w.template arrive<8>() : w.template arrive<1>();
                    const auto slot = any_slot(k_slots, place + Wave::k_lead);
                    staging.template load_k<0>(slot), staging.template load_k<1>(slot);
                } else if (place > job.tiles)
                    w.template arrive<8>(); // the fill has arrived by v_turn(); q and stores may be on their way
                else {
                    w.template arrive<0>();
                    staging.fill_k(k_slots.template at<0>());
                    fill_others();
                }
                ++place;
            };
            const auto source = any_slot(v_slots, place - 1);
#    pragma unroll
            for (int i = 0; i < Shape::mfmas; ++i) {
                w.read_v(source, i);
                w.score_work(i);
                arch::schedule_barrier();
            }
            arch::wait_lds<0>();
            if constexpr (phased) v_turn();
            Job next = job;
            if (more) next = Job(again, walk.item, wave);
#    pragma unroll
            for (int i = 0; i < Shape::mfmas; ++i) {
                w.value_step(i);
                w.value_work(i);
                arch::schedule_barrier();
            }
            if constexpr (phased) k_turn(next);
            arch::set_priority<0>(); // waves with tiles first
            // The next q: at once where no time is left, else when o is out of the way.
            const bool hurry = more && place > job.tiles;
            if (hurry) Rows::load_q(w, again, next, arch::lane_id_again());
            Rows::normalise(w, again, job, arch::lane_id_again());
            if constexpr (phased) v_turn();
            // No barrier shall wait for the stores, so the loads before them are waited for here. When the workgroup
            // ends, none may be on its way to LDS.
            place < places ? arch::wait<Staging::loads, 15>() : arch::wait<0, 15>();
            Rows::store(w, again, job, wave, arch::lane_id_again());
            if constexpr (phased) k_turn(next, true);
            if (more && !hurry) Rows::load_q(w, again, next, arch::lane_id_again());
            if (place < places) {
#    pragma unroll 1
                while (place < places) v_turn(), k_turn(next);
                if (!more) arch::wait<0, 15>();
            }
            if (!more) break;
            job = next;
            read_first_k(w, k_slots);
            Rows::finish_q(w, again.q_keep, again.q_flip);
            more = walk.advance(again.grid);
        }
        // The groups' barriers must pair up.
        if (Wave::Tile::staggered && !second) arch::bare_barrier();
    }

private:
    WAVEATTN_DEVICE static Slots slots(char* a, char* b, char* c) {
        return {(Slot)a, (Slot)b, ring == 3 ? (Slot)c : nullptr};
    }
    WAVEATTN_DEVICE static Slot any_slot(Slots slots, int tile) {
        const int slot = tile % ring;
        return slot == 0 ? slots.first : slot == 1 ? slots.second : slots.third;
    }
    WAVEATTN_DEVICE static void read_first_k(Wave& w, Slots k_slots) {
#    pragma unroll
        for (int i = 0; i < Shape::mfmas; ++i) w.read_k(k_slots.template at<0>(), i);
        arch::schedule_barrier();
    }

    // The tiles of a block, up to the scores of the last one. The first tile's fragments of K are there.
    WAVEATTN_DEVICE static void compute(Wave& w, Staging& staging, const Job& job, Slots k_slots, Slots v_slots) {
        // Keys of tile j that this lane's query sees, less the lane's offset in a run of eight keys; computed anew each
        // time, for it is rare and would hold a register in the main loop.
        const auto visible = [&](int j) {
            const int now = arch::lane_id_again();
            return job.seen_by(job.wave_row + now % 32) - 4 * (now / 32) - 64 * j;
        };
#    pragma unroll
        for (int d = 0; d < Shape::dim_blocks; ++d) w.o[d] = arch::float16v{};
        w.sum[0] = w.sum[1] = 0.f;

        // Scores of tile 0 and the basis.
        w.template score_phase<true>(
            staging, k_slots.template at<0>(), v_slots.template at<0>(), v_slots.template at<Wave::v_lead>());
        w.first_phase(staging, job.full_tiles == 0, visible(0), k_slots.template at<1>(),
            k_slots.template at<Wave::k_lead % ring>());

        // A round of the ring each trip (slots are constants) while no key is hidden, then tile by tile with masks.
        const int full_end = arch::min(job.full_tiles, job.wave_tiles);
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
            while (j < job.wave_tiles) {
                staging.renew();
                tile(Slot1{}, std::true_type{}, j);
                if (++j == job.wave_tiles) break;
                if constexpr (ring == 3) {
                    tile(Slot2{}, std::true_type{}, j);
                    if (++j == job.wave_tiles) break;
                }
                tile(Slot0{}, std::true_type{}, j);
                ++j;
            }
        } else {
            // Nothing here depends on the compiler telling the slots apart.
#    pragma unroll 1
            for (; j < job.wave_tiles; ++j) {
                staging.renew();
                body<true>(w, staging, any_slot(k_slots, j), any_slot(v_slots, j - 1),
                    any_slot(v_slots, j + Wave::v_lead), any_slot(k_slots, j + 1), any_slot(k_slots, j + Wave::k_lead),
                    [&] { return visible(j); });
            }
        }
    }

    template <bool Masked, class Visible>
    WAVEATTN_DEVICE static void body(Wave& w, Staging& staging, Slot k, Slot previous_v, Slot v_target, Slot next_k,
        Slot k_target, Visible visible) {
        w.template score_phase<false>(staging, k, previous_v, v_target);
        w.template value_phase<Masked>(staging, visible, previous_v, next_k, k_target);
    }
};

} // namespace waveattn

#endif
