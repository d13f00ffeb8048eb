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
#pragma once

#include "waveattn/attention/dualwave_staging.h"

#ifdef __HIP__

namespace waveattn::detail {

template <class T, class Arch, int HeadDim, SoftmaxBasis Basis, bool ExactSum, class Staging> struct DualwaveWave {
    using Atom = tile::Mfma32x32x16<T, Arch>;
    using Tile = DualwaveTile<Arch, HeadDim>;
    using Shape = DualwaveShape<HeadDim>;
    using Lds = typename Tile::Lds;
    using Pair = typename tile::detail::MfmaElement<T>::Pair;
    static constexpr int mfmas = Shape::mfmas, steps = Shape::k_steps;
    static constexpr int reads_v = Lds::v_transposing_read ? 2 : 1; // LDS reads of a V fragment
    static constexpr int late = mfmas / 4;                          // fragments that may still be on their way
    static constexpr int score_barrier = mfmas / 4, value_barrier = 3 * mfmas / 4; // before which step they stand
    // Steps from the last use of a fragment's registers to the next read into them; the wait in between needs none.
    static constexpr int lag = mfmas / 8;
    static constexpr int v_lead = Tile::ring - 2, k_lead = Tile::ring;
    static constexpr float lazy = 8.f;      // base-2 units that a score may exceed the basis by before it moves
    static constexpr float unseen = -1e30f; // the basis of a row that has seen no key
    // Base-2 units between the first tile's maximum and a pinned basis. A bf16 P has the exponents of fp32, so the
    // head room goes where it is needed; a float16 P overflows at 2^16 and goes denormal below 2^-14.
    static constexpr float pinned_room = std::is_same_v<T, bfloat16> ? 32.f : 0.f;

    // A pinned sum from here on may come of a term that overflowed, or nearly: with bf16 it leaves 2^28 for |v| in o.
    static constexpr float largest_sum = std::is_same_v<T, bfloat16> ? 0x1p100f : arch::infinity;

    // ---- registers ----
    arch::uint4v q[steps];        // B fragments [dim, query]
    arch::uint4v fragment[mfmas]; // A fragments: of K [key, dim] or of V^T [dim, key], whichever the next phase needs
    arch::float16v s[2];          // S^T [key, query], blocks of 32 keys
    float t[16];                  // exponents of s[0]
    Pair p[16];                   // P^T, narrowed
    arch::float16v o[Shape::dim_blocks];
    float basis, sum[2], scale;
    Staging staging;
    arch::LdsPointer<char> k_slot[3], v_slot[3];
    unsigned k_lane, v_lane; // the lane's part of fragment addresses
    int limit;               // keys that the lane's query sees, less the lane's own offset in a run of keys

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
    // A barrier behind which the wave's loads to LDS are visible, all but those of the last `Newer` tiles.
    template <int Newer> WAVEATTN_DEVICE void arrive() {
        if constexpr (Staging::direct)
            arch::wait<Newer * Staging::loads, 15>();
        else
            arch::wait<63, 0>();
        arch::compiler_fence();
        arch::bare_barrier();
        arch::compiler_fence();
    }
    // The barrier of a phase, `reads` LDS reads after the last one that must have arrived, and the loads behind it.
    template <int Reads> WAVEATTN_DEVICE void meet() {
        constexpr int newer = Reads < 15 ? Reads : 15;
        if constexpr (Staging::direct)
            arch::wait<Staging::loads, newer>();
        else
            arch::wait<63, 0>();
        arch::compiler_fence();
        arch::bare_barrier();
        arch::compiler_fence();
    }

    // ---- softmax ----
    WAVEATTN_DEVICE float exponent(float score) const { return arch::fma(score, scale, -basis); }
    WAVEATTN_DEVICE static Pair narrow(float a, float b) {
        if constexpr (std::is_same_v<T, float16>)
            return arch::to_half_pair(a, b);
        else if constexpr (std::is_same_v<Arch, arch::gfx950>)
            return arch::to_bf16_pair(a, b);
        else
            return arch::to_bf16_pair_half_up(a, b);
    }
    // Keys 2i, 2i+1 of the lane's 32 of a tile, from their exponentials.
    WAVEATTN_DEVICE void add_pair(int i, float a, float b) {
        p[i] = narrow(a, b);
        if constexpr (ExactSum) {
            sum[0] += a, sum[1] += b;
            arch::pin(sum[0]), arch::pin(sum[1]);
        } else
            sum[i % 2] = arch::dot2(p[i], Pair{1.f, 1.f}, sum[i % 2]);
    }
    // Step `i` of `mfmas` of the work on the previous tile beside score_phase.
    WAVEATTN_DEVICE void finish_step(int i) {
        constexpr int pairs = 16 / mfmas; // in a step
#    pragma unroll
        for (int n = 0; n < pairs; ++n) {
            const int pair = i * pairs + n, e = 2 * (pair % 8);
            if (pair < 8) {
                const float a = arch::exp2(t[e]), b = arch::exp2(t[e + 1]);
                t[e] = exponent(s[1][e]), t[e + 1] = exponent(s[1][e + 1]);
                arch::pin(t[e]), arch::pin(t[e + 1]);
                add_pair(pair, a, b);
            } else
                add_pair(pair, arch::exp2(t[e]), arch::exp2(t[e + 1]));
        }
    }
    WAVEATTN_DEVICE void hide_keys(int tile) {
        const int visible = limit - 64 * tile;
#    pragma unroll
        for (int e = 0; e < 32; ++e)
            if (!(Atom::d_row(0, e % 16) + 32 * (e / 16) < visible)) s[e / 16][e % 16] = -arch::infinity;
    }
    WAVEATTN_DEVICE float both_halves_max(float value) const { return arch::max(value, arch::shuffle_xor(value, 32)); }
    WAVEATTN_DEVICE float tile_max() const {
        float top = s[0][0];
#    pragma unroll
        for (int e = 1; e < 32; ++e) top = arch::maximum_nan(top, s[e / 16][e % 16]);
        return top;
    }
    WAVEATTN_DEVICE void begin_exponents() {
#    pragma unroll
        for (int e = 0; e < 16; ++e) {
            t[e] = exponent(s[0][e]);
            arch::pin(t[e]); // keeps the compiler from packing pairs, which cannot run beside a matrix instruction
        }
    }
    // The tile that sets the basis.
    WAVEATTN_DEVICE void first_basis(int tile, bool masked) {
        if (masked) hide_keys(tile);
        const float top = both_halves_max(tile_max()) * scale;
        basis = arch::max(top, unseen);
        if constexpr (Basis == SoftmaxBasis::pinned)
            if (basis > unseen) basis += pinned_room;
        begin_exponents();
    }
    // Later tiles, where keys were hidden or a score may exceed the basis by too much.
    WAVEATTN_DEVICE void adjust() {
        if constexpr (Basis == SoftmaxBasis::online) {
            const float top = both_halves_max(tile_max()) * scale;
            if (arch::vote_any(top > basis + lazy)) {
                const float moved = arch::max(basis, top), factor = arch::exp2(basis - moved);
                basis = moved;
                sum[0] *= factor, sum[1] *= factor;
#    pragma unroll
                for (int d = 0; d < Shape::dim_blocks; ++d) o[d] *= factor;
            }
        }
    }

    // ---- the two phases ----
    template <bool First, class KSlot, class Load> WAVEATTN_DEVICE void score_phase(KSlot v_source, Load load) {
        arch::wait_lds<late>();
        arch::schedule_barrier();
#    pragma unroll
        for (int i = 0; i < mfmas; ++i) {
            if (i == score_barrier) {
                meet<First ? 0 : (score_barrier - lag) * reads_v>();
                load();
                arch::schedule_barrier();
            }
            const int block = i / steps, step = i % steps;
            s[block] = Atom::mma(fragment[i], q[step], step == 0 ? arch::float16v{} : s[block]);
            arch::schedule_barrier();
            if constexpr (!First) {
                if (i >= lag) read_v(v_source, i - lag);
                finish_step(i);
            }
            arch::schedule_barrier();
        }
        if constexpr (!First) {
#    pragma unroll
            for (int i = mfmas - lag; i < mfmas; ++i) read_v(v_source, i);
            arch::schedule_barrier();
        }
    }
    template <bool Masked, class Slot, class Load>
    WAVEATTN_DEVICE void value_phase(int tile, Slot k_source, Load load) {
        arch::wait_lds<late * reads_v>();
        arch::schedule_barrier();
        float top = -arch::infinity;
        arch::pin(top);
#    pragma unroll
        for (int i = 0; i < mfmas; ++i) {
            if (i == value_barrier) {
                meet<value_barrier - lag>();
                load();
                arch::schedule_barrier();
            }
            value_step(i);
            arch::schedule_barrier();
            if (i >= lag) read_k(k_source, i - lag);
            constexpr int pairs = 16 / mfmas;
#    pragma unroll
            for (int n = i * pairs; n < (i + 1) * pairs && !Masked; ++n) {
                if constexpr (Basis == SoftmaxBasis::online)
                    top = arch::maximum_nan(arch::maximum_nan(s[n / 8][2 * (n % 8)], s[n / 8][2 * (n % 8) + 1]), top);
            }
            arch::schedule_barrier();
        }
#    pragma unroll
        for (int i = mfmas - lag; i < mfmas; ++i) read_k(k_source, i);
        if constexpr (Masked) {
            hide_keys(tile);
            adjust();
        } else if constexpr (Basis == SoftmaxBasis::online) {
            if (arch::vote_any(arch::fma(top, scale, -basis) > lazy)) [[unlikely]]
                adjust();
        }
        begin_exponents();
        arch::schedule_barrier();
    }
    // value_phase of the prologue: no tile before, and the basis is set instead of adjusted.
    template <class Slot, class Load> WAVEATTN_DEVICE void first_phase(bool masked, Slot k_source, Load load) {
#    pragma unroll
        for (int i = 0; i < mfmas; ++i) read_k(k_source, i);
        meet<15>();
        load();
        first_basis(0, masked);
        arch::schedule_barrier();
    }
    WAVEATTN_DEVICE void value_step(int i) {
        const int step = i / Shape::dim_blocks, d = i % Shape::dim_blocks;
        const Pair four[4] = {p[4 * step], p[4 * step + 1], p[4 * step + 2], p[4 * step + 3]};
        o[d] = Atom::mma(fragment[i], __builtin_bit_cast(arch::uint4v, four), o[d]);
    }
};

} // namespace waveattn::detail

#endif
