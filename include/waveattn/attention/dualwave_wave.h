// What one wave of the dual-wave kernel does: 32 queries against tiles of 64 keys, software-pipelined.
//
// S^T = K.Q^T and O^T += V^T.P^T, so a lane owns a query; its two halves of a wave hold alternate runs of four keys.
// A tile takes two phases of `mfmas` matrix instructions each:
//
//   score_phase(j)   S(j) = K(j).Q^T           beside it: exponentials, row sum and narrowing of tile j-1;
//                                              V(j-1) is read from LDS into the registers that K(j) leaves
//   value_phase(j)   O += V(j-1).P(j-1)        beside it: maximum of S(j), exponents of its first half;
//                                              K(j+1) is read into the registers that V(j-1) leaves
//
// so no instruction waits for the one before it. Between the phases stands a wait for the fragments that come first;
// inside each a barrier, before which the wave waits for its remaining fragments and for its share of the loads to LDS.
// The order of instructions is ours: a scheduling barrier ends each step of one matrix instruction.
//
// LDS ring. Slot j % ring holds tile j. With time counted in phases of the first group, score_phase(j) at 2j and
// value_phase(j) at 2j+1, and the second group one phase late (staggered): K(j) is read in value_phase(j-1), V(j) in
// score_phase(j+1), and the last reader of either is done one barrier later. The loads that overwrite a slot are issued
// after that barrier: V(j+v_lead) in score_phase(j), K(j+k_lead) in value_phase(j). Each wave waits for a load two
// phases after it issued it, before the barrier behind which the first reader is.
//
// The end of a block, straight to LDS: the waves meet in the first `shared` tiles only, all but three. The last two
// tiles of V and the last one of K have slots of their own and are loaded in score_phase(shared - 1) and
// value_phase(shared - 2); all loads have arrived by the barrier of value_phase(shared - 1), which is the last one.
#pragma once

#include "waveattn/attention/dualwave_staging.h"

#ifdef __HIP__

namespace waveattn::detail {

// The slots of a ring. Separate members and separate LDS arrays: the compiler then sees that a read of one does not
// wait for loads into another.
struct DualwaveSlots {
    arch::LdsPointer<char> first, second, third;
    template <int I> WAVEATTN_DEVICE arch::LdsPointer<char> at() const {
        return I == 0 ? first : I == 1 ? second : third;
    }
};

// Calls f with the constants From .. To - 1. Nested loops of a long body would be unrolled too late for the compiler to
// keep arrays in registers.
template <int From, int To, class F> WAVEATTN_DEVICE void dualwave_unrolled(F f) {
    [&]<int... I>(std::integer_sequence<int, I...>) { (f(std::integral_constant<int, From + I>{}), ...); }(
        std::make_integer_sequence<int, To - From>{});
}

// How a wave computes a tile: the block's first one, with no tile before; one in whose phases the waves meet; one that
// is in LDS like all that follow, so that the wave neither meets others nor loads.
enum class DualwaveTurn { first, shared, free };

template <class T, class Arch, int HeadDim, SoftmaxBasis Basis, bool ExactSum, class Staging> struct DualwaveWave {
    using Atom = tile::Mfma32x32x16<T, Arch>;
    using Tile = DualwaveTile<Arch, HeadDim>;
    using Shape = DualwaveShape<HeadDim>;
    using Lds = typename Tile::Lds;
    using Pair = typename tile::detail::MfmaElement<T>::Pair;
    static constexpr int mfmas = Shape::mfmas, steps = Shape::k_steps;
    static constexpr int reads_v = Lds::v_transposing_read ? 2 : 1; // LDS reads of a V fragment
    static constexpr int late = mfmas / 2;                          // fragments that may still be on their way
    static constexpr int meeting = mfmas / 2; // the step before which the barrier of a phase stands
    // Steps from the last use of a fragment's registers to the next read into them; the wait in between needs none.
    static constexpr int lag = mfmas * 3 / 8;
    static constexpr int v_lead = Tile::ring - 2, k_lead = Tile::ring;
    // Exact sums take packed additions. gfx950 runs those beside no matrix instruction, so in its main loop a tile's
    // additions stand together, where the wave has just left a barrier and may go first.
    static constexpr bool sums_together = ExactSum && Staging::direct;
    static constexpr float lazy = 8.f;      // base-2 units that a score may exceed the basis by before it moves
    static constexpr float unseen = -1e30f; // the basis of a row that has seen no key
    // Base-2 units between the first tile's maximum and a pinned basis. A bf16 P has the exponents of fp32, so the
    // head room goes where it is needed; a float16 P overflows at 2^16 and goes denormal below 2^-14.
    static constexpr float pinned_room = std::is_same_v<T, bfloat16> ? 32.f : 0.f;

    // A pinned sum from here on may come of a term that overflowed, or nearly: with bf16 it leaves 2^33 for |v| in o,
    // and the room can be taken out of a smaller one for the LSE.
    static constexpr float largest_sum = std::is_same_v<T, bfloat16> ? 0x1p95f : arch::infinity;
    // No basis exceeds it, or a score beyond fp32 would hide its row's keys instead of giving NaN.
    static constexpr float largest_basis = 0x1.fp127f;

    // ---- registers ----
    arch::uint4v q[steps];        // B fragments [dim, query]
    arch::uint4v fragment[mfmas]; // A fragments: of K [key, dim] or of V^T [dim, key], whichever the next phase needs
    arch::float16v s[2];          // S^T [key, query], blocks of 32 keys
    float t[32];                  // exponents, then exponentials, of the lane's keys
    unsigned p[16];               // P^T, narrowed pairs
    arch::float16v o[Shape::dim_blocks];
    float lift;                 // minus the basis of the exponents, in base-2 units
    arch::float2v sum, odd_sum; // of exponentials, in two parts; of a tile's odd pairs, while they are added
    float scale;
    unsigned k_lane, v_lane; // the lane's part of fragment addresses

    // ---- LDS ----
    template <class Slot> WAVEATTN_DEVICE void read_k(Slot slot, int i) {
        fragment[i] = *(arch::LdsPointer<arch::uint4v>)(slot + Lds::k_fragment(int(k_lane), i / steps, i % steps));
    }
    template <class Slot> WAVEATTN_DEVICE void read_v(Slot slot, int i) {
        const int step = i / Shape::dim_blocks, dim_block = i % Shape::dim_blocks;
        if constexpr (Lds::v_transposing_read) {
            const auto half = [&](int n) {
                return __builtin_bit_cast(arch::uint2v,
                    arch::lds_read_transposed_16(
                        (arch::LdsPointer<arch::short4v>)(slot + Lds::v_fragment(int(v_lane), step, dim_block, n))));
            };
            fragment[i].lo = half(0), fragment[i].hi = half(1);
        } else
            fragment[i] = *(arch::LdsPointer<arch::uint4v>)(slot + Lds::v_fragment(int(v_lane), step, dim_block, 0));
    }
    // Swizzled addresses are computed where they are used; hoisted out of the main loop they would hold a register
    // each.
    WAVEATTN_DEVICE void fresh_addresses() {
        if constexpr (!Lds::v_transposing_read) arch::pin(k_lane), arch::pin(v_lane);
    }
    // A barrier behind which the wave's loads to LDS are visible, all but those of the last `Newer` tiles or, the
    // second one, but the last `Newer` vector memory operations.
    template <int Newer> WAVEATTN_DEVICE void arrive() { arrive_behind<Newer * Staging::loads>(); }
    template <int Newer> WAVEATTN_DEVICE void arrive_behind() {
        if constexpr (Staging::direct)
            arch::wait<Newer, 15>();
        else
            arch::wait<63, 0>();
        arch::compiler_fence();
        arch::bare_barrier();
        arch::compiler_fence();
    }
    // The middle of a phase, `Reads` LDS reads after the last one that must have arrived, with the barrier and `Rise`,
    // which is what the wave's priority rises by until the next phase has begun.
    template <DualwaveTurn Turn, int Reads, int Rise = 1> WAVEATTN_DEVICE void meet() {
        constexpr int newer = Reads < 15 ? Reads : 15;
        if constexpr (Turn == DualwaveTurn::free)
            arch::wait<63, newer>();
        else if constexpr (Staging::direct)
            arch::wait<Staging::loads, newer>();
        else
            arch::wait<63, 0>();
        arch::compiler_fence();
        if constexpr (Turn != DualwaveTurn::free) arch::bare_barrier();
        arch::set_priority<priority + Rise>();
        arch::compiler_fence();
    }
    // Waves that end their block have priority 0.
    static constexpr int priority = 1;

    // ---- softmax ----
    WAVEATTN_DEVICE float exponent(float score) const { return arch::fma(score, scale, lift); }
    WAVEATTN_DEVICE static Pair narrow(float a, float b) {
        if constexpr (std::is_same_v<T, float16>)
            return arch::to_half_pair(a, b);
        else if constexpr (std::is_same_v<Arch, arch::gfx950>)
            return arch::to_bf16_pair(a, b);
        else
            return arch::to_bf16_pair_half_up(a, b);
    }
    // Keys 2i, 2i+1 of the lane's 32 of a tile.
    WAVEATTN_DEVICE void narrow_pair(int i) {
        const Pair pair = narrow(t[2 * i], t[2 * i + 1]);
        p[i] = __builtin_bit_cast(unsigned, pair);
        if constexpr (!ExactSum) {
            sum[i % 2] = arch::dot2(pair, Pair{1.f, 1.f}, sum[i % 2]);
            float part = sum[i % 2];
            arch::pin(part);
            sum[i % 2] = part;
        } else {
            arch::pin(p[i]);
            if constexpr (!sums_together) add_pair(i);
        }
    }
    // A tile's exponentials into the sum, pair by pair: in two chains, for an addition that takes the result of the one
    // before it waits.
    WAVEATTN_DEVICE void add_pair(int i) {
        const arch::float2v pair = {t[2 * i], t[2 * i + 1]};
        if (i % 2 == 0)
            sum += pair;
        else
            odd_sum = i == 1 ? pair : odd_sum + pair;
        if (i == 15) sum += odd_sum;
        if constexpr (!sums_together) arch::pin(i % 2 == 0 ? sum : odd_sum);
    }
    // How the work on a tile spreads over the steps of a phase, so that each of them has about the same: what is done
    // when step `i` ends.
    static constexpr int share(int count, int i, int first, int last) { // evenly over steps first..last
        return i < first ? 0 : i >= last ? count : count * (i + 1 - first) / (last + 1 - first);
    }
    // Exponentials, of 32: the first half and `early` of the second in score_phase, the others in value_phase. They are
    // narrowed in pairs one step later, when their latency is over, in time for the product step that takes them.
    static constexpr int early = 7;
    static constexpr int score_exponentials(int i) {
        return share(16, i, 0, mfmas - 2) + share(early, i, mfmas / 2, mfmas - 2);
    }
    static constexpr int value_exponentials(int i) {
        return 16 + early + share(16 - early, i, 0, sums_together ? meeting - 1 : mfmas * 3 / 4 - 2);
    }
    // Scores in the running maximum, of 32, and exponents of the next tile's first half, of 16: in value_phase, where
    // the scores have just been computed.
    static constexpr int maximum_done(int i) { return 2 * share(16, i, mfmas / 4, mfmas - 1); }
    static constexpr int exponents_done(int i) { return share(16, i, mfmas * 5 / 8, mfmas - 1); }
    WAVEATTN_DEVICE void exponentials(int from, int to) {
#    pragma unroll
        for (int e = from; e < to; ++e) {
            t[e] = arch::exp2(t[e]);
            arch::pin(t[e]);
        }
    }
    WAVEATTN_DEVICE void narrow_pairs(int from, int to) {
#    pragma unroll
        for (int i = from; i < to; ++i) narrow_pair(i);
    }
    // Beside score_phase, on the previous tile: exponents of the second half before its registers take new scores, and
    // exponentials.
    WAVEATTN_DEVICE void score_work(int i) {
        exponentials(score_exponentials(i - 1), score_exponentials(i));
#    pragma unroll
        for (int e = 32 / mfmas * i; e < 32 / mfmas * (i + 1) && i < mfmas / 2; ++e) {
            t[16 + e] = exponent(s[1][e]);
            arch::pin(t[16 + e]);
        }
        narrow_pairs(score_exponentials(i - 2) / 2, score_exponentials(i - 1) / 2);
    }
    WAVEATTN_DEVICE void value_work(int i) {
        exponentials(value_exponentials(i - 1), value_exponentials(i));
        narrow_pairs(value_exponentials(i - 2) / 2, value_exponentials(i - 1) / 2);
    }
    // Hides what the rows do not see of a block of 32 keys, where that is anything.
    template <class Seen> WAVEATTN_DEVICE void hide_keys(int block, Seen seen) {
        if (seen.least() - 32 * block < 32) [[unlikely]] {
            const int keys = seen.most() - 32 * block <= 0 ? -32 : seen.lane() - 32 * block;
#    pragma unroll
            for (int e = 0; e < 16; e += 4) { // four at a time, for a select waits for its comparison
                std::uint64_t shown[4];
#    pragma unroll
                for (int n = 0; n < 4; ++n)
                    shown[n] = arch::opaque_scalar(arch::lanes_where(Atom::d_row(0, e + n) < keys));
#    pragma unroll
                for (int n = 0; n < 4; ++n) {
                    float score = arch::lane_is_in(shown[n]) ? s[block][e + n] : -arch::infinity;
                    arch::pin(score);
                    s[block][e + n] = score;
                }
            }
        }
        arch::schedule_barrier();
    }
    // The value of lane % 32 and that of lane % 32 + 32. On gfx950 without an address, which would hold a register.
    WAVEATTN_DEVICE static arch::float2v both_halves(float value) {
        if constexpr (std::is_same_v<Arch, arch::gfx950>) {
            unsigned low = __builtin_bit_cast(unsigned, value), high = low;
            arch::swap_wave_halves(low, high);
            return {__builtin_bit_cast(float, low), __builtin_bit_cast(float, high)};
        } else
            return {value, arch::shuffle_xor(value, 32)};
    }
    WAVEATTN_DEVICE static float both_halves_max(float value) {
        const arch::float2v both = both_halves(value);
        return arch::max(both.x, both.y);
    }
    WAVEATTN_DEVICE float tile_max() const {
        float top = s[0][0];
#    pragma unroll
        for (int e = 1; e < 32; ++e) {
            top = arch::maximum_nan(top, s[e / 16][e % 16]);
            if (e % 8 == 7) arch::schedule_barrier();
        }
        return top;
    }
    // Exponents of the first half's scores from `from` to `to`.
    WAVEATTN_DEVICE void begin_exponents(int from, int to) {
#    pragma unroll
        for (int e = from; e < to; ++e) {
            t[e] = exponent(s[0][e]);
            arch::pin(t[e]); // keeps the compiler from packing pairs, which cannot run beside a matrix instruction
        }
    }
    // The tile that sets the basis.
    template <class Seen> WAVEATTN_DEVICE void first_basis(Seen seen) {
        hide_keys(0, seen), hide_keys(1, seen);
        const float top = both_halves_max(tile_max()) * scale;
        float basis = arch::min(arch::max(top, unseen), largest_basis);
        if constexpr (Basis == SoftmaxBasis::pinned)
            if (basis > unseen) basis += pinned_room;
        lift = -basis;
        begin_exponents(0, 16);
    }
    // Later tiles, where a score may exceed the basis by too much.
    WAVEATTN_DEVICE void adjust() {
        if constexpr (Basis == SoftmaxBasis::online) {
            const float top = both_halves_max(tile_max()) * scale;
            if (arch::vote_any(top + lift > lazy)) {
                const float moved = arch::max(arch::min(lift, -top), -largest_basis), factor = arch::exp2(moved - lift);
                lift = moved;
                sum *= factor;
#    pragma unroll
                for (int d = 0; d < Shape::dim_blocks; ++d) {
                    o[d] *= factor;
                    arch::schedule_barrier();
                }
            }
        }
    }

    // ---- the two phases ----
    // The fragments that a step reads from LDS, `lag` steps behind the last use of their registers: those of the next
    // phase, and in the first steps the last ones of this phase.
    template <class Slot> WAVEATTN_DEVICE void score_reads(int i, Slot k_source, Slot v_source) {
        if (i < lag)
            read_k(k_source, mfmas - lag + i);
        else
            read_v(v_source, i - lag);
    }
    template <class Slot> WAVEATTN_DEVICE void value_reads(int i, Slot v_source, Slot k_source) {
        if (i < lag)
            read_v(v_source, mfmas - lag + i);
        else
            read_k(k_source, i - lag);
    }
    // `more_loads` adds to the tile's own.
    template <DualwaveTurn Turn, class Slot, class MoreLoads>
    WAVEATTN_DEVICE void score_phase(
        Staging& staging, Slot k_source, Slot v_source, Slot v_target, MoreLoads more_loads) {
        constexpr bool first = Turn == DualwaveTurn::first, free = Turn == DualwaveTurn::free;
        fresh_addresses();
        arch::wait_lds<first ? 0 : late - lag>();
        arch::schedule_barrier();
#    pragma unroll
        for (int i = 0; i < mfmas; ++i) {
            if (i == mfmas / 8) arch::set_priority<priority>();
            if (i == meeting) meet<Turn, first ? 0 : (meeting - lag) * reads_v>();
            const int block = i / steps, step = i % steps;
            s[block] = Atom::mma(fragment[i], q[step], step == 0 ? arch::float16v{} : s[block]);
            arch::schedule_barrier();
            if constexpr (!first) {
                score_reads(i, k_source, v_source);
                score_work(i);
            }
            if (i == meeting || i == meeting + mfmas / 4) arch::schedule_barrier();
            if (!free && i == meeting) staging.template load_v<0>(v_target);
            if (!free && i == meeting + mfmas / 4) staging.template load_v<1>(v_target), more_loads();
            arch::schedule_barrier();
        }
    }
    // `all`: all loads must have arrived by the barrier, for it is the last one before their readers.
    template <DualwaveTurn Turn, bool Masked, class Slot, class Seen, class MoreLoads>
    WAVEATTN_DEVICE void value_phase(
        Staging& staging, Seen seen, Slot v_source, Slot k_source, Slot k_target, MoreLoads more_loads, bool all) {
        constexpr bool free = Turn == DualwaveTurn::free;
        fresh_addresses();
        arch::wait_lds<(late - lag) * reads_v>();
        arch::schedule_barrier();
        float top = 0.f;
        const auto step = [&](auto number) {
            constexpr int i = number;
            if (i == mfmas / 8) arch::set_priority<priority>();
            product(i / Shape::dim_blocks, i % Shape::dim_blocks);
            arch::schedule_barrier();
            value_reads(i, v_source, k_source);
            value_work(i);
            if constexpr (Basis == SoftmaxBasis::online) {
#    pragma unroll
                for (int e = maximum_done(i - 1); e < maximum_done(i); e += 2)
                    top = e == 0 ? arch::maximum_nan(s[0][0], s[0][1])
                                 : arch::maximum_nan(arch::maximum_nan(s[e / 16][e % 16], s[e / 16][e % 16 + 1]), top);
                if (maximum_done(i) > 0) arch::pin(top);
            }
            begin_exponents(exponents_done(i - 1), exponents_done(i));
            if (i == meeting + mfmas / 8 || i == meeting + mfmas * 3 / 8) arch::schedule_barrier();
            if (!free && i == meeting + mfmas / 8) staging.template load_k<0>(k_target);
            if (!free && i == meeting + mfmas * 3 / 8) staging.template load_k<1>(k_target), more_loads();
            arch::schedule_barrier();
        };
        dualwave_unrolled<0, mfmas / 4>(step);
        if constexpr (Masked) hide_keys(0, seen);
        dualwave_unrolled<mfmas / 4, meeting>(step);
        if (all) arch::wait<0, 15>();
        meet<Turn, meeting - lag, sums_together ? 2 : 1>();
        late_sums();
        if constexpr (Masked) hide_keys(1, seen);
        dualwave_unrolled<meeting, mfmas>(step);
        if constexpr (Basis == SoftmaxBasis::online) {
            if (arch::vote_any(exponent(top) > lazy)) [[unlikely]] {
                adjust();
                arch::pin(lift); // or the exponents of before would be kept for the case that it stays
                begin_exponents(0, 16);
            }
        }
        arch::schedule_barrier();
    }
    // value_phase of the prologue: no tile before, and the basis is set instead of adjusted.
    template <class Slot, class Seen>
    WAVEATTN_DEVICE void first_phase(Staging& staging, Seen seen, Slot k_source, Slot k_target, bool all) {
        first_basis(seen);
        if (all) arch::wait<0, 15>();
        meet<DualwaveTurn::first, 15>();
        // Only behind this barrier is the second tile of K there for certain; later ones are two barriers early.
        staging.template load_k<0>(k_target);
        staging.template load_k<1>(k_target);
#    pragma unroll
        for (int i = 0; i < mfmas - lag; ++i) read_k(k_source, i);
        arch::schedule_barrier();
    }
    // The sums that do not run beside matrix instructions.
    WAVEATTN_DEVICE void late_sums() {
        if constexpr (sums_together) {
#    pragma unroll
            for (int pair = 0; pair < 16; ++pair) add_pair(pair);
            arch::schedule_barrier();
        }
    }
    WAVEATTN_DEVICE void product(int step, int d) {
        const arch::uint4v weights = {p[4 * step], p[4 * step + 1], p[4 * step + 2], p[4 * step + 3]};
        o[d] = Atom::mma(fragment[step * Shape::dim_blocks + d], weights, o[d]);
    }
};

} // namespace waveattn::detail

#endif
