// SageAttentionMfma: attention on quantised operands, gfx942 and gfx950.
//
//   x    = q_scale * k_scale * (k . q) + delta_s                      int8 MFMA, S^T: [key, query]
//   o    = v_scale * (sum_j 2^(x_j - m) fp8(v_j)) / sum_j 2^(x_j - m)  fp8 MFMA,  O^T: [channel, query]
//   lse  = ln 2 * (m + log2(sum_j 2^(x_j - m))) + lse_shift
//
// A wave owns 32 queries, one a lane and its mirror lane ^ 32; a workgroup's waves share K and V tiles of 64 keys in
// LDS. A tile is worked off in halves of 32 keys, in blocks of matrix products of one kind. In the shadow of each
// product stand one exponential and two to four more instructions of the softmax of the half tile before, so that two
// waves of a SIMD can take turns at the matrix pipe:
//
//   products (tile, half)  softmax meanwhile       LDS reads meanwhile
//   O += V P (t-1, 1)      weights 8..15 of (t, 0)    K (t+1, 0)
//   S = K Q  (t+1, 0)      weights 0..7 of (t, 1)     V (t, 0)
//   O += V P (t, 0)        weights 8..15 of (t, 1)    K (t+1, 1)
//   S = K Q  (t+1, 1)      weights 0..7 of (t+1, 0)   V (t, 1)
//
// All of K tile t + 1 and V tile t is read between two barriers: one barrier a tile, two slots.
// The operands are those of attention/sage_format.h; docs/kernels/sage.md tells how the pieces fit.
#pragma once

#include "waveattn/attention/sage_output.h"
#include "waveattn/attention/sage_scores.h"

#include <type_traits>

namespace waveattn {

#ifdef __HIP__

template <class Arch, int HeadDim, int Waves, SageBias Bias> struct SageAttentionMfma {
    using Params = detail::SageParams;
    using Tile = detail::SageTile<Arch, HeadDim, Waves>;
    using Stage = detail::SageStage<Arch, HeadDim, Waves>;
    using Output = detail::SageOutput<Tile::blocks>;
    using Steps = detail::SageScoreSteps<Arch>;
    using ScoreAtom = typename Steps::Atom;
    using ValueAtom = tile::MfmaF32_32x32x16_Fp8;
    using int4v = arch::int4v;
    using int16v = arch::int16v;
    using float2v = arch::float2v;
    using float16v = arch::float16v;

    static constexpr int planes = Tile::planes, blocks = Tile::blocks;
    static constexpr int score_products = planes * Steps::per_plane; // MFMA of 32 keys
    static constexpr int value_products = 2 * blocks;
    static constexpr int first_steps = 9; // of the 16 weights, beside score products; the last value product gets none
    static constexpr float masked_out = -__builtin_inff();
    using Range = detail::SageRange<Arch>;
    static constexpr float no_shift = 3e38f;    // of a row without a score
    static constexpr float shift_steps = 256.f; // a shift is a multiple of its inverse, where scores are below 2^20

    // What a lane knows of its query.
    struct State {
        float16v o[blocks]; // register r of block n: channel 32n + 16h + r
        float2v sum;        // of weights, over the lane half's keys
        float shift;        // of scores, the same in both halves
        float late;         // factor that o still needs, where `is_late`
        float least_sum;    // a lane half's sum below this calls for raising its row
        int4v q[planes];
        float q_scale;
        // What scores start from, and the least product of scales. 0 and 1 where scores are fp32, and q_scale is 0
        // then.
        float zero, least_scale;
    };
    // Scores of 32 keys, and what turns them into weights: 2^(scale * score + offset).
    struct Scores {
        int16v units; // register r: key 16h + r; fp32 bits of 12582912 + score
        float scale, offset;
        float largest; // of the units, among the lane half's keys
    };
    // Weights of 32 keys as fp8: register r in byte r % 4 of word r / 4, the B operand of two products.
    struct Weights {
        int words[4];
    };
    // A pair of weights on its way, and the sum of those before it in the half tile.
    struct Pair {
        float2v arguments, fresh, done, sum;
    };

    WAVEATTN_DEVICE static float as_float(int bits) { return __builtin_bit_cast(float, bits); }

    // ---- softmax, one register at a time ----

    // gfx950 runs packed fp32 instructions beside no matrix product: two others do the work of one there, for sums and
    // for the arguments of the later exponentials. All of them would be more than 110 vector instructions a tile.
    static constexpr bool packed = !std::is_same_v<Arch, arch::gfx950>;
    static constexpr int first_single = packed ? 16 : Bias == SageBias::none ? 8 : 14;
    WAVEATTN_DEVICE static float2v add(float2v a, float2v b) {
        if constexpr (packed) return a + b;
        return float2v{arch::opaque(a[0] + b[0]), a[1] + b[1]}; // opaque, or the compiler packs them
    }
    template <int E> WAVEATTN_DEVICE static float2v multiply_add(float2v a, float b, float c) {
        if constexpr (E < first_single) return arch::fma(a, float2v{b, b}, float2v{c, c});
        return float2v{arch::fma(a[0], b, c), arch::fma(a[1], b, c)};
    }

    // Exponentials and finished words are pinned where they stand: the compiler would move them out of the shadow of
    // the products. A pair is packed one step after its second exponential, whose result takes longer, and its word
    // pinned another step later.
    template <int E> WAVEATTN_DEVICE static void set_arguments(const Scores& s, Pair& pair) {
        const float2v score{as_float(s.units[E]), as_float(s.units[E + 1])};
        pair.arguments = multiply_add<E>(score, s.scale, s.offset);
    }
    template <int E> WAVEATTN_DEVICE static void pack(Pair& pair, Weights& w) {
        w.words[E / 4] = arch::convert_pack_fp8<(E % 4 == 2)>(pair.done[0], pair.done[1], w.words[E / 4]);
        pair.sum = E == 0 ? pair.done : add(pair.sum, pair.done);
    }
    template <int E> WAVEATTN_DEVICE static void exponential(Pair& pair) {
        pair.fresh[E % 2] = arch::opaque(arch::exp2(pair.arguments[E % 2]));
    }
    template <int E> WAVEATTN_DEVICE static void after_exponential(const Scores& s, Pair& pair, Weights& w) {
        if constexpr (E % 2 == 0) {
            if constexpr (E > 0) pack<E - 2>(pair, w);
        } else {
            if constexpr (E > 2) {
                w.words[(E - 3) / 4] = arch::opaque(w.words[(E - 3) / 4]);
                pair.sum = arch::opaque(pair.sum);
            }
            pair.done = pair.fresh;
            if constexpr (E < 15) set_arguments<E + 1>(s, pair);
        }
    }
    // The steps From ... To - 1 that fall to product Index of Count. What `beside` issues, few vector instructions,
    // stands behind the first exponential, which holds the vector unit for four turns.
    template <int From, int To, int Index, int Count, class Beside>
    WAVEATTN_DEVICE static void weigh(const Scores& s, Pair& pair, Weights& w, Beside&& beside) {
        constexpr int first = From + (To - From) * Index / Count, end = From + (To - From) * (Index + 1) / Count;
        if constexpr (first < end) {
            exponential<first>(pair);
            arch::schedule_barrier();
        }
        beside();
        arch::schedule_barrier();
        if constexpr (first < end) after_exponential<first>(s, pair, w);
        detail::static_for<first + 1, end>([&](auto e) {
            exponential<e.value>(pair);
            after_exponential<e.value>(s, pair, w);
        });
    }

    // Sets what turns the scores of a tile with that k_scale into weights. The scale keeps 20 bits, so that 12582912
    // times it is exact and, as the shift has few bits, the offset too.
    WAVEATTN_DEVICE static float score_scale(const State& state, float k_scale) {
        const float product = arch::max(state.q_scale * k_scale, state.least_scale);
        return as_float(__builtin_bit_cast(int, product) & ~0xf);
    }
    WAVEATTN_DEVICE static void set_scale(Scores& s, const State& state, float k_scale) {
        s.scale = score_scale(state, k_scale);
        set_offset(s, state);
    }
    WAVEATTN_DEVICE static void set_offset(Scores& s, const State& state) {
        s.offset = arch::fma(s.scale, -state.zero, state.shift);
    }
    // Scores of units that 2^-8 steps do not resolve, as fp32: the folded constant would be off by powers of two. Also
    // where a scale is NaN, which reaches only the rows that see the tile then.
    WAVEATTN_DEVICE static void widen(Scores& s, float scale, [[maybe_unused]] const int16v& plain_bias) {
        detail::static_for<0, 16>([&](auto r) {
            float score = (as_float(s.units[r.value]) - sage::bias_zero_value) * scale;
            if constexpr (Bias == SageBias::plain) score += as_float(plain_bias[r.value]);
            s.units[r.value] = __builtin_bit_cast(int, score);
        });
    }

    // The largest score of a half tile among the lane half's keys: the share of product Index of Count. The first
    // product has none, for the scores are only just made.
    template <int Index, int Count> WAVEATTN_DEVICE static void compare(Scores& s) {
        if constexpr (Index > 0) {
            constexpr int steps = 8; // two scores an instruction
            constexpr int first = steps * (Index - 1) / (Count - 1), end = steps * Index / (Count - 1);
            detail::static_for<first, end>([&](auto n) {
                const float one = as_float(s.units[2 * n.value]), two = as_float(s.units[2 * n.value + 1]);
                s.largest = arch::max(arch::max(n.value == 0 ? -arch::infinity : s.largest, one), two);
            });
            s.largest = arch::opaque(s.largest);
        }
    }
    // Half of what a row's sum is to be at least after `tile` tiles: 2^pinned, and 64 steps of fp8 for each key, so
    // that the half step by which each weight may be rounded is less than 2^-7 of the sum.
    static constexpr float least_sum_of_tile = 0.5f * 64 * 64 * Range::step;
    WAVEATTN_DEVICE static float least_sum(int tile) {
        return arch::fma(least_sum_of_tile, float(tile), 0x2000 * Range::step);
    }
    // Where the row's largest weight of a half tile is above 2^from, shifts the row so that it becomes 2^pinned. Where
    // a row's sum `is_low`, raises the rows below four to eight times `least`. Returns the factor between the row's
    // weights before and after.
    WAVEATTN_DEVICE static float pin(Scores& s, State& state, float from, bool is_low, float least) {
        const float score = arch::fma(s.largest, s.scale, -state.zero * s.scale);
        const float rounded = arch::round_even(score * shift_steps) * (1.f / shift_steps);
        const bool coarse = arch::abs(score) >= 0x1p20f; // then 2^pinned is less than a step, and the weight 1
        const float mine = coarse ? score : rounded;
        const float top = arch::max(mine, arch::shuffle_xor(mine, 32)), old = state.shift;
        const float wanted = arch::abs(top) >= 0x1p20f ? 0.f : Range::pinned;
        state.shift = top + old > from ? wanted - top : old;
        state.least_sum = least;
        float factor = arch::exp2(state.shift - old);
        if (is_low) {
            const float half = factor * (state.sum[0] + state.sum[1]), other = arch::shuffle_xor(half, 32);
            const float sum = half + other;
            const float octaves = float(exponent(8.f * least) - exponent(sum));
            const float room = Range::highest - (top + state.shift);
            const bool can_rise = sum > 0.f && arch::abs(state.shift) < 0x1p20f;
            const float up = can_rise ? arch::max(arch::min(octaves, room), 0.f) : 0.f, times = arch::exp2(up);
            state.shift += up;
            factor *= times;
            // From here on, as if both halves had the same sum: else one without large weights would call all the time.
            state.least_sum += 0.5f * times * (half - other);
        }
        set_offset(s, state);
        return factor;
    }
    WAVEATTN_DEVICE static int exponent(float x) { return __builtin_bit_cast(int, x) >> 23; }
    // log2 of `share` of the sum, within 0.09: the bits of an fp32 number are its logarithm, the mantissa linear.
    WAVEATTN_DEVICE static float limit(float sum) {
        const int bits = __builtin_bit_cast(int, sum);
        return arch::clamp(arch::fma(float(bits), 0x1p-23f, Range::log_share - 127.f), Range::least, Range::largest);
    }
    // Sees to it that the weights of the next half tile, on which no work has begun, fit fp8 and, where `Raise`, do not
    // vanish in it, after the first half of tile `tile`. O needs another block of products with weights of before until
    // it can follow a new shift.
    template <bool Raise>
    WAVEATTN_DEVICE static void prepare(Scores& next, State& state, std::uint64_t& is_late, int tile) {
        const float sum = state.sum[0] + state.sum[1];
        const std::uint64_t beyond = arch::lanes_where(arch::fma(next.largest, next.scale, next.offset) > limit(sum));
        const std::uint64_t low = Raise ? arch::lanes_where(sum < state.least_sum) : 0;
        if ((beyond | low | is_late) != 0) {
            if (is_late) detail::static_for<0, blocks>([&](auto n) { state.o[n.value] *= state.late; });
            is_late = 0;
            if (beyond | low) {
                const float from = beyond ? Range::pinned_from : arch::infinity;
                state.late = pin(next, state, from, low != 0, least_sum(tile));
                state.sum *= state.late;
                is_late = arch::lanes_where(state.late != 1.f);
            }
        }
    }

    // Keys from `visible` on, counted from the lane half's first, get no weight.
    WAVEATTN_DEVICE static void mask(Scores& s, int visible) {
        detail::static_for<0, 16>([&](auto r) {
            visible = arch::opaque(visible); // one comparison at a time, or they fill the scalar registers
            s.units[r.value] =
                arch::opaque(r.value >= visible ? __builtin_bit_cast(int, -arch::infinity) : s.units[r.value]);
        });
    }

    // ---- delta_s ----

    // A plain delta_s is added as fp32 in units of the scale: as exact as the scores' own units.
    WAVEATTN_DEVICE static void add_plain_bias(Scores& s, const int16v& bias, float scale) {
        const float inverse = arch::reciprocal(scale);
        detail::static_for<0, 16>([&](auto r) {
            const float sum = arch::fma(as_float(bias[r.value]), inverse, as_float(s.units[r.value]));
            s.units[r.value] = __builtin_bit_cast(int, sum);
        });
    }

    // ---- matrix products ----

    template <int N>
    WAVEATTN_DEVICE static int16v score_product(const State& state, const int4v (&k)[planes], const int16v& c) {
        constexpr int plane = N / Steps::per_plane, step = N % Steps::per_plane;
        return ScoreAtom::mma(
            Steps::template operand<step>(k[plane]), Steps::template operand<step>(state.q[plane]), c);
    }
    template <int N> WAVEATTN_DEVICE static void add_value(State& state, const int4v (&v)[blocks], const Weights& w) {
        constexpr int block = N % blocks, step = N / blocks;
        const arch::int2v values{v[block][2 * step], v[block][2 * step + 1]};
        const arch::int2v weights{w.words[2 * step], w.words[2 * step + 1]};
        state.o[block] = ValueAtom::mma(
            __builtin_bit_cast(std::int64_t, values), __builtin_bit_cast(std::int64_t, weights), state.o[block]);
    }
    WAVEATTN_DEVICE static void read_v(int4v (&v)[blocks], char* lds, int address) {
        detail::static_for<0, blocks>(
            [&](auto b) { v[b.value] = detail::lds_at<int4v>(lds, address + b.value * 1024); });
    }
    // Even planes are at `near`, odd ones at near ^ 64.
    template <int U> WAVEATTN_DEVICE static int4v read_k(char* lds, int near, int far) {
        return detail::lds_at<int4v>(lds, (U % 2 ? far : near) + U * 2048);
    }

    // next = K.q of a half tile from `start`; meanwhile the first weights of `now`, and V is read for the products that
    // follow. `beside(n)` stands in the shadow of product n.   [key, query] = [key, plane] [plane, query]
    template <class Beside>
    WAVEATTN_DEVICE static void score_block(Scores& next, const Scores& now, Pair& pair, Weights& w, State& state,
        const int16v& start, const int4v (&k)[planes], int4v (&v)[blocks], char* lds, int v_address, Beside&& beside) {
        constexpr int count = score_products;
        set_arguments<0>(now, pair); // here, or the compiler unpacks it right behind the product
        arch::schedule_barrier();
        arch::wait_lds<0>();
        detail::static_for<0, count>([&](auto n) {
            next.units = score_product<n.value>(state, k, n.value == 0 ? start : next.units);
            weigh<0, first_steps, n.value, count>(now, pair, w, [&] {
                detail::static_for<blocks * n.value / count, blocks*(n.value + 1) / count>(
                    [&](auto b) { v[b.value] = detail::lds_at<int4v>(lds, v_address + b.value * 1024); });
                beside(n);
            });
            arch::schedule_barrier();
        });
    }

    // O += V^T.P^T of a half tile; meanwhile the last weights of `now`, all of which it adds to the row's sum, and K is
    // read for the products that follow.
    // `beside(n)` stands in the shadow of product n, of which the last has no exponential.
    // [channel, query] += [channel, key] [key, query]
    template <class Beside>
    WAVEATTN_DEVICE static void value_block(const Weights& ready, Scores& now, Pair& pair, Weights& w, State& state,
        const int4v (&v)[blocks], int4v (&k)[planes], char* lds, int near, int far, Beside&& beside) {
        constexpr int count = value_products;
        // Or pairs of the same two numbers are made before score_block, and kept.
        now.scale = arch::opaque(now.scale), now.offset = arch::opaque(now.offset);
        arch::wait_lds<0>();
        detail::static_for<0, count>([&](auto n) {
            constexpr bool last = n.value == count - 1;
            if constexpr (last) { // before the product, as in score_block
                pack<14>(pair, w);
                state.sum += pair.sum;
                arch::schedule_barrier();
            }
            add_value<n.value>(state, v, ready);
            weigh<first_steps, last ? first_steps : 16, n.value, count - 1>(now, pair, w, [&] {
                if constexpr (n.value < planes) k[n.value] = read_k<n.value>(lds, near, far);
                beside(n);
            });
            arch::schedule_barrier();
        });
    }

    // In scalar registers: offsets of packed sequences may come by vector loads.
    WAVEATTN_DEVICE static sage::Sequence uniform(const sage::Sequence& s) {
        return {arch::uniform(s.sequence), arch::uniform(s.batch), arch::uniform(s.q_start), arch::uniform(s.kv_start),
            arch::uniform(s.q_block), arch::uniform(s.q_warp), arch::uniform(s.kv_tile), arch::uniform(s.q_len),
            arch::uniform(s.kv_len)};
    }

    // ---- NaN in V (hidden_values.h) ----

    // Whether a wave of the workgroup has a NaN in O.
    WAVEATTN_DEVICE static bool any_nan(const State& state, char* lds, int wave) {
        float2v probe[4]{}; // chains
        detail::static_for<0, 8 * blocks>([&](auto i) {
            constexpr int n = i.value / 8, r = 2 * (i.value % 8);
            probe[i.value % 4] += float2v{state.o[n][r], state.o[n][r + 1]};
        });
        const float2v sums = probe[0] + probe[1] + (probe[2] + probe[3]);
        const float sum = sums[0] + sums[1];
        detail::sage_barrier(); // the tiles are not needed any more
        detail::lds_at<int>(lds, 4 * arch::opaque_scalar(wave)) = arch::vote_any(sum != sum);
        detail::sage_barrier();
        const bool any = arch::vote_any(detail::lds_at<int>(lds, arch::lane_id_again() % Waves * 4) != 0);
        if (any) detail::sage_barrier();
        return any;
    }
    // Makes NaN of what sees one: `v` is the first tile of V, `keys` are the first ones, which the row sees.
    WAVEATTN_DEVICE static void restore_nan(
        State& state, char* lds, const std::uint8_t* v, int step, int tiles, int keys, int wave) {
        const int lane = arch::lane_id_again();
        detail::sage_barrier();
        for (int channel = 64 * wave + lane; channel < HeadDim; channel += Tile::threads)
            detail::lds_at<int>(lds, 4 * channel) = Stage::first_nan(v + 64 * channel, step, tiles);
        detail::sage_barrier();
        detail::static_for<0, 16 * blocks>([&](auto i) {
            constexpr int n = i.value / 16, r = i.value % 16;
            keys = arch::opaque(keys); // one comparison at a time, or they fill the scalar registers
            const int first = detail::lds_at<int>(lds, 4 * (32 * n + 16 * (lane >> 5) + r));
            if (first < keys) state.o[n][r] = __builtin_nanf("");
            arch::schedule_barrier();
        });
    }

    // The kernel's only argument is a Params.
    WAVEATTN_DEVICE static void exec() {
        alignas(16) __shared__ char lds[2 * Tile::slot_bytes];
        const int wave = arch::uniform(int(arch::thread_x())) / 64;
        int careful = 0;
        while (!compute(arch::kernel_argument_again<Params>(), lds, wave, arch::opaque_scalar(careful))) careful = 1;
    }

    // The workgroup's rows. Not careful: false, and nothing written, where hidden NaN may have reached the output.
    WAVEATTN_DEVICE static bool compute(const Params& p, char* lds, int wave, int careful) {
        const int lane = arch::lane_id_again(), half = lane >> 5;
        wave = arch::opaque_scalar(wave); // or multiples of it would stay in registers

        // Which rows. Neighbouring workgroups go to different dies; each die gets whole runs of a head's blocks.
        const unsigned number = arch::opaque_scalar(arch::block_x()); // or parts of it would stay in registers
        const unsigned total = unsigned(p.workgroups), die = number % 8, in_die = number / 8;
        const unsigned rank = die * (total / 8) + (die < total % 8 ? die : total % 8) + in_die;
        const int plane = int(rank / unsigned(p.q_blocks)), turn = int(rank % unsigned(p.q_blocks));
        const int block = p.causal == Causal::none ? turn : p.q_blocks - 1 - turn; // the longest first
        const int head = plane % p.heads_q, kv_head = head / p.group;
        const sage::Sequence s = uniform(
            sage::locate_sequence(plane / p.heads_q, p.cu_q, p.cu_k, p.q_len, p.kv_len, p.q_tokens, p.k_tokens));
        const int first_row = block * Tile::block_q;
        if (first_row >= s.q_len) return true;
        const int wave_row = first_row + 32 * wave, row = wave_row + (lane & 31);
        const bool stored = row < s.q_len;
        const int safe_row = stored ? row : s.q_len - 1;

        // Which keys: row i sees those below i + causal_end.
        const int causal_end = p.causal == Causal::top_left ? 1 : s.kv_len - s.q_len + 1;
        const auto keys_of = [&](int i) {
            const int end = p.causal == Causal::none ? s.kv_len : i + causal_end;
            return end < 0 ? 0 : end < s.kv_len ? end : s.kv_len;
        };
        const int last_row = first_row + Tile::block_q < s.q_len ? first_row + Tile::block_q - 1 : s.q_len - 1;
        const int tiles = (keys_of(last_row) + 63) / 64;
        const int first_masked = keys_of(wave_row) / 64;

        // Whether keys are hidden from some row of the workgroup in tiles that it computes.
        const int hides = arch::uniform(int(keys_of(first_row) < s.kv_len && keys_of(first_row) < 64 * tiles));

        State state;
        state.sum = float2v{0.f, 0.f};
        state.shift = no_shift;
        detail::static_for<0, blocks>([&](auto n) { state.o[n.value] = float16v(0.f); });

        if (tiles > 0) {
            const int visible = keys_of(safe_row) - 16 * half;
            const std::int8_t* q_row = p.q + s.batch * p.q_batch + head * p.q_head + (s.q_start + safe_row) * p.q_row;
            detail::static_for<0, planes>(
                [&](auto u) { state.q[u.value] = *reinterpret_cast<const int4v*>(q_row + 32 * u.value + 16 * half); });
            const std::int64_t group =
                sage::scale_group(p.q_scale_rows, safe_row, p.q_scale_rows == QScaleRows::block ? s.q_block : s.q_warp);
            const float row_scale = p.q_scale[s.batch * p.q_scale_batch + head * p.q_scale_head + group];

            Stage stage;
            stage.init(p, s, kv_head, wave, lane);
            detail::SageKeyScales k_scales;
            k_scales.load(stage.k_scale, tiles, lane);
            bool wide = false;
            int first_special = first_masked; // -1: with care
            detail::SageBiasRow delta_s{nullptr, s.kv_len, half};
            if constexpr (Bias != SageBias::none) {
                const int safe = wave_row < s.q_len ? wave_row : s.q_len - 1;
                delta_s.row = static_cast<const std::int32_t*>(p.bias) + s.batch * p.bias_batch + head * p.bias_head +
                              (s.q_block + safe / sage::block_rows) * p.bias_block;
            }

            int16v start; // of a score product: 0, opaque, or the compiler would make it anew for each; or delta_s
            detail::static_for<0, 16>([&](auto r) { start[r.value] = arch::opaque(sage::bias_zero); });
            [[maybe_unused]] int16v plain;
            Scores s0, s1; // of the even and the odd half tile
            Weights w0{}, w1{};
            Pair pair{};
            int4v k[planes], v[blocks];
            // delta_s of half tile n. In the shadow of product `product` of that half tile's scores: what its scores
            // will need, or what the next ones start from.
            const auto load_delta = [&]([[maybe_unused]] int n, int product) {
                if (product != 1) return;
                if constexpr (Bias == SageBias::units) {
                    arch::keep(start); // until here, or C and D of the product share registers and `start` is copied
                    start = delta_s.load(n + 1);
                }
                if constexpr (Bias == SageBias::plain) plain = delta_s.load(n);
            };
            const auto finish = [&](Scores& scores, int tile, int half_tile, [[maybe_unused]] float tile_k_scale) {
                if constexpr (Bias == SageBias::plain)
                    if (!wide) add_plain_bias(scores, plain, score_scale(state, tile_k_scale));
                if (tile >= first_special) [[unlikely]] {
                    // The scale is read again: a register that holds it through the loop costs 300 clocks a tile.
                    if (wide) widen(scores, row_scale * stage.load_scale(tile), plain);
                    mask(scores, visible - 64 * arch::opaque_scalar(tile) - 32 * half_tile); // or it is counted along
                    if (half_tile == 0) {
                        stage.clear_tail(tile);
                        if (first_special < 0) stage.clear_nan();
                    }
                }
            };

            // Slot n & 1 holds V tile n and K tile n + 1. Before the loop: K tile 0 and zeros as V, then slot 0; the
            // scores of tile 0.
            stage.load(-1);
            [[maybe_unused]] float k_scale = stage.load_scale(0);
            Stage early = stage; // both loads are under way before either is waited for
            stage.prepare_tail(1);
            stage.load(0);
            float next_k_scale = stage.load_scale(1);
            wide = k_scales.wide(stage.k_scale, tiles, row_scale, lane);
            state.q_scale = wide ? 0.f : row_scale;
            state.zero = wide ? 0.f : sage::bias_zero_value;
            state.least_scale = wide ? 1.f : sage::least_score_scale;
            first_special = careful ? -1 : wide ? 0 : first_masked;
            if (careful) [[unlikely]]
                early.clear_nan(), stage.clear_nan();
            early.store(lds, -1);
            stage.clear_tail(0);
            stage.store(lds, 0);
            stage.prepare_tail(2);
            stage.load(1);
            detail::sage_barrier();
            int near = Tile::slot_bytes + detail::sage_lds_row(lane & 31, half), far = near ^ 64;
            load_delta(Bias == SageBias::units ? -1 : 0, 1);
            detail::static_for<0, planes>([&](auto u) { k[u.value] = read_k<u.value>(lds, near, far); });
            s0.units = start;
            detail::static_for<0, score_products>(
                [&](auto n) { s0.units = score_product<n.value>(state, k, s0.units); });
            set_scale(s0, state, k_scale);
            finish(s0, 0, 0, k_scale);
            detail::static_for<0, value_products>([&](auto n) { compare<n.value, value_products>(s0); });
            pin(s0, state, masked_out, false, least_sum(0));
            std::uint64_t is_late = 0; // lanes whose row has a new shift that o does not have yet
            detail::static_for<0, planes>([&](auto u) { k[u.value] = read_k<u.value>(lds, near + 1024, far + 1024); });
            load_delta(0, Bias == SageBias::units ? 1 : 0);
            s1.scale = s0.scale;
            score_block(s1, s0, pair, w0, state, start, k, v, lds, far + Tile::tile_bytes + HeadDim * 32,
                [&](auto n) { load_delta(1, n); });
            finish(s1, 0, 1, k_scale);

            near ^= Tile::slot_bytes, far = near ^ 64;
            for (int tile = 0; tile < tiles; ++tile) {
                const int v_even = near + Tile::tile_bytes, v_odd = far + Tile::tile_bytes + HeadDim * 32;
                detail::sage_barrier(); // the slot is complete, and nobody reads the other one any more
                // Of the two waves of a SIMD that wait for one another at each barrier the one behind goes first.
                // Waves of two workgroups had better drift apart.
                if constexpr (Waves >= 8) arch::set_priority<1>();

                value_block(w1, s0, pair, w0, state, v, k, lds, near, far, [&](auto n) {
                    compare<n.value, value_products>(s1);
                    if constexpr (n.value == value_products / 2)
                        s1.offset = arch::opaque(arch::fma(s0.scale, -state.zero, state.shift));
                    if constexpr (n.value == value_products - 1) s1.scale = arch::opaque(s0.scale);
                });
                prepare<true>(s1, state, is_late, tile);
                stage.prepare_tail(tile + 3);

                score_block(
                    s0, s1, pair, w1, state, start, k, v, lds, v_even, [&](auto n) { load_delta(2 * tile + 2, n); });
                finish(s0, tile + 1, 0, next_k_scale);
                k_scale = next_k_scale;

                value_block(w0, s1, pair, w1, state, v, k, lds, near + 1024, far + 1024, [&](auto n) {
                    compare<n.value, value_products>(s0);
                    if constexpr (n.value == value_products / 2) stage.store(lds, tile + 1);
                    if constexpr (n.value == value_products - 1) set_scale(s0, state, next_k_scale);
                });
                prepare<false>(s0, state, is_late, tile);
                stage.prepare_tail(tile + 3);

                if constexpr (Waves >= 8) arch::set_priority<0>();
                score_block(s1, s0, pair, w0, state, start, k, v, lds, v_odd, [&](auto n) {
                    load_delta(2 * tile + 3, n);
                    constexpr int steps = 4, first = n.value * steps / score_products;
                    detail::static_for<first, (n.value + 1) * steps / score_products>([&](auto step) {
                        if constexpr (step == 0) {
                            next_k_scale = stage.load_scale(tile + 2);
                            state.least_sum = arch::opaque(state.least_sum + least_sum_of_tile);
                        }
                        if constexpr (step == 1) stage.load_k();
                        if constexpr (step == 2) stage.load_v();
                        if constexpr (step == 3) {
                            stage.advance(tile + 2);
                            near = arch::opaque(near ^ Tile::slot_bytes), far = arch::opaque(near ^ 64);
                        }
                    });
                });
                finish(s1, tile + 1, 1, k_scale);
            }
            detail::static_for<0, value_products>([&](auto n) { add_value<n.value>(state, v, w1); });
            if (state.q[0][0] == sage::poisoned_codes && keys_of(safe_row) > 0) state.sum[0] = __builtin_nanf("");
        }
        // Before the look at O, which hides that they take their time.
        typename Output::Scales scales;
        Output::load_scales(scales, arch::kernel_argument_again<Params>(), s, kv_head, half);
        if (careful && tiles > 0) [[unlikely]] {
            const auto& again = arch::kernel_argument_again<Params>();
            restore_nan(state, lds,
                again.v + s.batch * again.v_batch + kv_head * again.v_head + s.kv_tile * again.v_tile,
                int(again.v_tile), tiles, keys_of(safe_row), wave);
        } else if (hides && any_nan(state, lds, wave)) [[unlikely]]
            return false;
        Output::write(arch::kernel_argument<Params>(), s, state.o, scales, state.sum[0] + state.sum[1], state.shift,
            lds, head, row, stored, wave, lane);
        return true;
    }
};

template <class Arch, int HeadDim, int Waves, SageBias Bias>
__global__ __launch_bounds__(64 * Waves, Waves >= 8 ? 2 : 1) void sage_attention_kernel(detail::SageParams) {
    if constexpr (arch::compiled_for<Arch>)
        SageAttentionMfma<Arch, HeadDim, Waves, Bias>::exec();
    else
        arch::trap_stub();
}

#endif
} // namespace waveattn
