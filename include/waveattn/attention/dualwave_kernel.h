// The dual-wave kernel: a workgroup of 8 waves computes blocks of 256 queries of one head.
//
//   o[b, h, i, :] = sum_j softmax_j(scale q[b, h, i, :] . k[b, h', j, :]) v[b, h', j, :]     (or a split's share of j)
//
// Waves 0..3 are the first group, 4..7 the second; wave w and w + 4 share a SIMD. The main loop is in dualwave_wave.h.
// Straight to LDS, the last tiles of a block are there before they are wanted, and the waves end it without meeting
// again: those that see more keys are not held up by those that have finished.
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
    using Result = detail::DualwaveResult<Wave, T, HeadDim, Basis, ExactSum, Staging>;
    using Turn = detail::DualwaveTurn;
    using Seen = detail::DualwaveSeen<T, HeadDim>;
    using Lds = typename Wave::Lds;
    using Slots = detail::DualwaveSlots;
    using Slot = arch::LdsPointer<char>;
    static constexpr int ring = Wave::Tile::ring;
    static constexpr bool direct = Staging::direct;

    // The kernel's only argument is `p`.
    WAVEATTN_DEVICE static void exec(const detail::DualwaveParams<T>& p, unsigned workgroup) {
        alignas(16) __shared__ char k0[Lds::k_bytes], k1[Lds::k_bytes], k2[Lds::k_bytes], k_last[Lds::k_bytes];
        alignas(16) __shared__ char v0[Lds::v_bytes], v1[Lds::v_bytes], v2[Lds::v_bytes];
        alignas(16) __shared__ char v_late[Lds::v_bytes], v_last[Lds::v_bytes];

        // What the first loads need is read in one go with what the choice of the block needs.
        const auto need = [](const auto& view) {
            arch::need(view.data);
            for (int axis : {0, 1, 2}) arch::need(view.stride[axis]);
        };
        if constexpr (direct) need(p.k), need(p.q);
        detail::DualwaveWalk walk(p.grid, workgroup);
        if (p.repair && !Rows::flagged(p, walk.item)) return;
        const int wave = arch::uniform(int(arch::thread_x() / 64)), lane = int(arch::lane_id());
        const bool second = Wave::Tile::staggered && wave >= 4;
        Job job(p, walk.item, wave);

        Wave w;
        Staging staging; // apart from the registers' arrays, which the compiler takes apart later
        const Tiles tiles{slots(k0, k1, k2), slots(v0, v1, v2), (Slot)k_last, (Slot)v_late, (Slot)v_last};
        w.k_lane = unsigned(Lds::k_lane(lane)), w.v_lane = unsigned(Lds::v_lane(lane));
        w.scale = p.scale_log2;

        // Start the loads: the first tile of K is wanted first, then q.
        job.open(p, staging);
        staging.prepare(wave, lane, p.head_dim, p.head_dim_v);
        staging.fill_k(tiles.k.template at<0>());
        arch::schedule_barrier();
        Rows::load_q(w, p, job, lane);
        arch::schedule_barrier();
        const auto fill_others = [&] {
            staging.fill_k(tiles.k.template at<1>());
            if constexpr (ring == 3) {
                staging.fill_v(tiles.v.template at<0>());
                if constexpr (!direct) staging.fill_k(tiles.k.template at<2>());
            }
            staging.start();
        };
        const auto begin = [&](const detail::DualwaveParams<T>& args) {
#    pragma unroll
            for (int i = 0; i < Shape::mfmas; ++i) w.read_k(tiles.k.template at<0>(), i);
            arch::schedule_barrier();
            if constexpr (direct) fill_others();
            Rows::finish_q(w, args.q_keep, args.q_flip);
            arch::schedule_barrier();
            if (second) w.template arrive<2>(); // a phase behind from here on
        };
        // Straight to LDS, the other tiles queue up behind every wave's q and first tile; through registers, this is
        // the one barrier before their first reader.
        if constexpr (!direct) fill_others();
        w.template arrive_behind<Shape::k_steps>();
        begin(p);

#    pragma unroll 1
        for (;;) {
            compute(w, staging, job, second, tiles);

            // Waves with tiles go first, then the second group: where keys are hidden, its rows see more.
            if (!second) arch::set_priority<0>();
            // Arguments are read anew, for in the main loop they would hold too many scalar registers.
            const auto& again = arch::kernel_argument_again<detail::DualwaveParams<T>>();
            const Slot source = tiles.any_v(job.wave_tiles - 1, job);
            Result result(again, job, wave, arch::lane_id_again());
            last_scores(w, source);
            const int wave_tiles = job.wave_tiles, all_tiles = job.tiles;
            const bool another = direct && walk.advance(again.grid);
            if (another) {
                job = Job(again, walk.item, wave);
                job.open(again, staging);
                Rows::load_q(w, again, job, arch::lane_id_again());
            } else
                arch::wait<0, 15>(); // when the workgroup ends, no load may be on its way to LDS
            arch::wait_lds<0>();
            arch::schedule_barrier();
            last_products(w, result);
            result.store_rest(w, again);
            if constexpr (!direct) {
                for (int j = wave_tiles; j < all_tiles; ++j) stand_in(w, staging, tiles, j, [] {});
                // The groups' barriers must pair up.
                if (Wave::Tile::staggered && !second) arch::bare_barrier();
            }
            if (!another) break;
            // Every wave is done with the ring, and nothing but q and stores is on its way.
            w.template arrive_behind<2 * Shape::k_steps>();
            staging.fill_k(tiles.k.template at<0>());
            w.template arrive<0>();
            begin(again);
        }
    }

private:
    // Where tiles are in LDS: in the rings, but straight to LDS the last one of K and the last two of V in slots of
    // their own, for they come before their places in the ring are free.
    struct Tiles {
        Slots k, v;
        Slot k_last, v_late, v_last; // v_late: of the last tile but one

        WAVEATTN_DEVICE Slot any_k(int tile, const Job& job) const {
            return beyond(tile, job) >= 2 ? k_last : any(k, tile);
        }
        WAVEATTN_DEVICE Slot any_v(int tile, const Job& job) const {
            const int n = beyond(tile, job);
            return n <= 0 ? any(v, tile) : n == 1 ? v_late : v_last;
        }
        WAVEATTN_DEVICE static int beyond(int tile, const Job& job) {
            return job.template ends_apart<Staging>() ? tile - job.template shared_tiles<Staging>() : 0;
        }
        WAVEATTN_DEVICE static Slot any(Slots slots, int tile) {
            const int slot = tile % ring;
            return slot == 0 ? slots.first : slot == 1 ? slots.second : slots.third;
        }
    };
    WAVEATTN_DEVICE static Slots slots(char* a, char* b, char* c) {
        return {(Slot)a, (Slot)b, ring == 3 ? (Slot)c : nullptr};
    }

    // The tiles of a block, up to the scores of the wave's last one. The first tile's fragments of K are there.
    WAVEATTN_DEVICE static void compute(Wave& w, Staging& staging, const Job& job, bool second, const Tiles& tiles) {
        const Slots k = tiles.k, v = tiles.v;
        const int shared = job.template shared_tiles<Staging>();
        const int first_alone = job.template ends_apart<Staging>() ? shared : job.no_mask; // tile
        const auto nothing = [] {};
        const auto fill_last_v = [&] { staging.fill_v(tiles.v_late), staging.fill_v(tiles.v_last); };
        const auto fill_last_k = [&] { staging.fill_k(tiles.k_last); };
#    pragma unroll
        for (int d = 0; d < Shape::dim_blocks; ++d) w.o[d] = arch::float16v{};
        w.sum[0] = w.sum[1] = 0.f;

        // Scores of tile 0 and the basis.
        if constexpr (direct) staging.fill_k(k.template at<2>());
        w.template score_phase<Turn::first>(
            staging, k.template at<0>(), v.template at<0>(), v.template at<Wave::v_lead>(), [&] {
                if constexpr (direct)
                    if (first_alone == 1) fill_last_v(), fill_last_k();
            });
        w.first_phase(
            staging, Seen{job, 0}, k.template at<1>(), k.template at<Wave::k_lead % ring>(), first_alone == 1);
        if constexpr (direct)
            if (first_alone == 2) fill_last_k();

        int j = 1;
        // A round of the ring each trip (slots are constants) while no key is hidden, then tile by tile with masks,
        // at last without meeting the other waves.
        const auto tile = [&](auto slot, auto masked) {
            constexpr int i = slot; // j modulo ring
            w.template score_phase<Turn::shared>(staging, k.template at<i>(), v.template at<(i + ring - 1) % ring>(),
                v.template at<(i + Wave::v_lead) % ring>(), [&] {
                    if constexpr (direct && masked)
                        if (j == first_alone - 1) fill_last_v();
                });
            w.template value_phase<Turn::shared, masked>(
                staging, Seen{job, j}, v.template at<(i + ring - 1) % ring>(), k.template at<(i + 1) % ring>(),
                k.template at<(i + Wave::k_lead) % ring>(),
                [&] {
                    if constexpr (direct && masked)
                        if (j == first_alone - 2) fill_last_k();
                },
                masked && j == first_alone - 1);
            ++j;
        };
        using Slot0 = std::integral_constant<int, 0>;
        using Slot1 = std::integral_constant<int, 1>;
        using Slot2 = std::integral_constant<int, 2>;
        const int span = Staging::Stream::span_tiles(staging.k.tile_bytes, staging.v.tile_bytes);
        const int full_end = arch::min(arch::min(job.full_tiles, job.wave_tiles), first_alone - 2);
        while (j + ring <= full_end) {
            const int end = arch::min(full_end, j + span);
            staging.renew();
#    pragma unroll 1
            while (j + ring <= end) {
                tile(Slot1{}, std::false_type{});
                if constexpr (ring == 3) tile(Slot2{}, std::false_type{});
                tile(Slot0{}, std::false_type{});
            }
        }
        if constexpr (direct) {
            const int end = arch::min(job.wave_tiles, shared);
            staging.renew();
            // Four tiles at most: rows of a block differ by four, and the loop leaves two at most of those without a
            // hidden key. No loop repeats, for its head would wait for all loads.
            do {
                if (j == end) break;
                tile(Slot1{}, std::true_type{});
                if (j == end) break;
                tile(Slot2{}, std::true_type{});
                if (j == end) break;
                tile(Slot0{}, std::true_type{});
                if (j == end) break;
                tile(Slot1{}, std::true_type{});
            } while (false);
            if (j < shared) stand_in(w, staging, tiles, j++, fill_last_v);
            // The groups' barriers must pair up. All tiles are there now, and none is overwritten any more.
            if (!second)
                w.template arrive_behind<63>();
            else
                arch::compiler_fence();
#    pragma unroll 1
            for (; j < job.wave_tiles; ++j) {
                const Slot v_now = tiles.any_v(j - 1, job), next_k = tiles.any_k(j + 1, job);
                w.template score_phase<Turn::free>(staging, tiles.any_k(j, job), v_now, v_now, nothing);
                w.template value_phase<Turn::free, true>(staging, Seen{job, j}, v_now, next_k, next_k, nothing, false);
            }
        } else {
            // Nothing here depends on the compiler telling the slots apart.
#    pragma unroll 1
            for (; j < job.wave_tiles; ++j) {
                const Slot v_now = tiles.any_v(j - 1, job);
                staging.renew();
                w.template score_phase<Turn::shared>(
                    staging, tiles.any_k(j, job), v_now, Tiles::any(v, j + Wave::v_lead), nothing);
                w.template value_phase<Turn::shared, true>(staging, Seen{job, j}, v_now, tiles.any_k(j + 1, job),
                    Tiles::any(k, j + Wave::k_lead), nothing, false);
            }
        }
    }

    // A tile that the wave's rows do not see: its barriers, and the loads behind them.
    template <class MoreLoads>
    WAVEATTN_DEVICE static void stand_in(Wave& w, Staging& staging, const Tiles& tiles, int j, MoreLoads more_loads) {
        arch::wait_lds<0>(); // for fragments that nobody wants
        w.template arrive<1>();
        const Slot v_target = Tiles::any(tiles.v, j + Wave::v_lead), k_target = Tiles::any(tiles.k, j + Wave::k_lead);
        staging.template load_v<0>(v_target), staging.template load_v<1>(v_target);
        more_loads();
        w.template arrive<0>();
        staging.template load_k<0>(k_target), staging.template load_k<1>(k_target);
    }

    // Beside no products: exponentials of the wave's last tile, and its V.
    WAVEATTN_DEVICE static void last_scores(Wave& w, Slot v_source) {
#    pragma unroll
        for (int i = 0; i < Shape::mfmas; ++i) {
            w.read_v(v_source, i);
            w.score_work(i);
            arch::schedule_barrier();
        }
    }
    // Products of the last tile, one block of dims after the other: the first one beside the remaining exponentials,
    // the next ones beside the division and the stores of the block before.
    WAVEATTN_DEVICE static void last_products(Wave& w, Result& result) {
#    pragma unroll
        for (int i = 0; i < Shape::mfmas; ++i) {
            if (i % (Shape::mfmas / Shape::v_steps) == 0) w.product(i / (Shape::mfmas / Shape::v_steps), 0);
            w.value_work(i);
            arch::schedule_barrier();
        }
        w.late_sums();
        result.finish_sum(w);
        arch::schedule_barrier();
#    pragma unroll
        for (int d = 0; d < Shape::dim_blocks; ++d) {
#    pragma unroll
            for (int step = 0; step < Shape::v_steps; ++step) {
                if (d + 1 < Shape::dim_blocks) w.product(step, d + 1);
                arch::schedule_barrier();
                result.narrow_quarter(w, d, step);
                arch::schedule_barrier();
            }
            result.store(d);
            arch::schedule_barrier();
        }
    }
};

} // namespace waveattn

#endif
