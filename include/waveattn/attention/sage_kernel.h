// SageAttentionMfma: attention on quantised operands, gfx942 and gfx950.
//
//   x    = q_scale * k_scale * (k . q) + delta_s                      int8 MFMA, S^T: [key, query]
//   o    = v_scale * (sum_j 2^(x_j - m) fp8(v_j)) / sum_j 2^(x_j - m)  fp8 MFMA,  O^T: [channel, query]
//   lse  = ln 2 * (m + log2(sum_j 2^(x_j - m))) + lse_shift
//
// A wave owns 32 queries, one a lane and its mirror lane ^ 32; a workgroup's waves share K and V tiles of 64 keys in
// LDS. The operands are those of attention/sage_format.h; how the pieces fit is told in docs/kernels/sage.md.
#pragma once

#include "waveattn/attention/sage_format.h"
#include "waveattn/tile/mfma_cdna_8bit.h"

#include <type_traits>

namespace waveattn {

enum class SageBias { none, units, plain }; // no delta_s; int32 as the C operand; fp32 in base-2 units

namespace detail {

struct SageParams {
    const std::int8_t *q, *k;
    const std::uint8_t* v;
    const float *q_scale, *k_scale, *v_scale, *lse_shift;
    const void* bias; // int32 or fp32
    void* o;
    float* lse;
    const std::int32_t *cu_q, *cu_k;
    std::int64_t q_batch, q_head, q_row, k_batch, k_head, k_row; // strides, in elements
    std::int64_t v_batch, v_head, v_tile;
    std::int64_t q_scale_batch, q_scale_head, k_scale_batch, k_scale_head, v_scale_batch, v_scale_head;
    std::int64_t bias_batch, bias_head, bias_block, shift_batch, shift_head, shift_row;
    std::int64_t o_batch, o_head, o_row, lse_batch, lse_head, lse_row;
    std::int32_t q_len, kv_len, heads_q, group, head_dim_v, q_blocks, workgroups;
    Causal causal;
    QScaleRows q_scale_rows;
    OutputType output;
    bool wide_stores; // rows of o on 16 bytes and whole 16-channel groups
};

// log2 of the largest weight that a fp8 operand gets: 2^7 keeps 14 octaves above fp8's denormals, and 128 < 240. The
// row maximum may grow by sage_slack octaves above the pinned one before the accumulators are rescaled.
inline constexpr int sage_top = 7;
inline constexpr int sage_slack = 3;

template <class Arch, int HeadDim, int Waves> struct SageTile {
    static_assert(HeadDim == 64 || HeadDim == 128);
    static constexpr int threads = 64 * Waves;
    static constexpr int block_q = 32 * Waves;
    static constexpr int planes = HeadDim / 32;         // of 32 bytes of a K row
    static constexpr int channel_blocks = HeadDim / 32; // of 32 rows of V^T
    // LDS: two slots of a K tile and a V tile; then two slots of delta_s rows.
    static constexpr int tile_bytes = 64 * HeadDim;
    static constexpr int slot_bytes = 2 * tile_bytes;
    static constexpr int bias_rows = Waves > 4 ? Waves / 4 : 1;
    static constexpr int bias_bytes = bias_rows * 64 * 4;
    // Chunks of 16 bytes that a thread copies in a step, K's first.
    static constexpr int chunks = slot_bytes / 16 / threads;
    static_assert(chunks >= 1);
};

} // namespace detail

#ifdef __HIP__

namespace detail {

// The product of a 32-key half tile: steps over the head dimension of whatever depth the target has. A plane of 32
// bytes is a lane half's 16 bytes of it, so one 16-byte LDS read serves a whole plane whatever the depth.
template <class Arch> struct SageScoreSteps {
    using Atom = tile::MfmaI32_32x32x16_I8;
    static constexpr int per_plane = 2;
    template <int Step> WAVEATTN_DEVICE static std::int64_t operand(arch::int4v plane) {
        return __builtin_bit_cast(
            std::int64_t, Step == 0 ? arch::int2v{plane[0], plane[1]} : arch::int2v{plane[2], plane[3]});
    }
};
template <> struct SageScoreSteps<arch::gfx950> {
    using Atom = tile::MfmaI32_32x32x32_I8;
    static constexpr int per_plane = 1;
    template <int Step> WAVEATTN_DEVICE static arch::int4v operand(arch::int4v plane) { return plane; }
};

// Compile-time loop: f(integral_constant<0>) ... f(integral_constant<N - 1>).
template <int N> struct StaticIndex {
    static constexpr int value = N;
    WAVEATTN_HOST_DEVICE constexpr operator int() const { return N; }
};
template <int From, int To, class F> WAVEATTN_DEVICE void static_for(F&& f) {
    if constexpr (From < To) {
        f(StaticIndex<From>{});
        static_for<From + 1, To>(static_cast<F&&>(f));
    }
}

} // namespace detail

template <class Arch, int HeadDim, int Waves, SageBias Bias> struct SageAttentionMfma {
    using Params = detail::SageParams;
    using Tile = detail::SageTile<Arch, HeadDim, Waves>;
    using Steps = detail::SageScoreSteps<Arch>;
    using ScoreAtom = typename Steps::Atom;
    using ValueAtom = tile::MfmaF32_32x32x16_Fp8;
    using int4v = arch::int4v;
    using int16v = arch::int16v;
    using float2v = arch::float2v;
    using float16v = arch::float16v;

    static constexpr int planes = Tile::planes, blocks = Tile::channel_blocks;
    static constexpr int score_products = planes * Steps::per_plane; // MFMA of 32 keys
    static constexpr int value_products = 2 * blocks;
    static constexpr float masked_out = -__builtin_inff();
    static constexpr float no_maximum = -1e30f;

    // What a lane knows of its query.
    struct State {
        float16v o[blocks]; // register r of block n: channel 32n + 16h + r
        float2v sum;        // of weights, over the lane half's keys
        float basis;        // m: an integer, the same in both halves
        int4v q[planes];
        float q_scale;
        int last_key; // visible keys are below it
    };
    // Scores of 32 keys, and what turns them into weights: 2^(scale * score + offset).
    struct Scores {
        int16v units; // register r: key 16h + r; fp32 bits of 12582912 + score
        float scale, zero, offset;
    };

    WAVEATTN_DEVICE static float as_float(int bits) { return __builtin_bit_cast(float, bits); }

    // The weights of a half tile, one register at a time, as fp8: register r in byte r % 4 of word r / 4. Steps are
    // pinned where they stand (opaque): the compiler would move them out of the shadow of the matrix products. A pair
    // is packed one step after its second exponential, whose result takes longer.
    struct Weights {
        float2v arguments, fresh, pair;
        int words[4];
    };
    template <int E> WAVEATTN_DEVICE static void set_arguments(const Scores& s, Weights& w) {
        const float2v score{as_float(s.units[E]), as_float(s.units[E + 1])};
        w.arguments = arch::fma(score, float2v{s.scale, s.scale}, float2v{s.offset, s.offset});
    }
    template <int E> WAVEATTN_DEVICE static void pack(Weights& w, float2v& sum) {
        sum = arch::opaque(sum + w.pair);
        w.words[E / 4] = arch::opaque(arch::convert_pack_fp8<(E % 4 == 2)>(w.pair[0], w.pair[1], w.words[E / 4]));
    }
    template <int E> WAVEATTN_DEVICE static void weigh(const Scores& s, Weights& w, float2v& sum) {
        if constexpr (E % 2 == 0) {
            if constexpr (E == 0) set_arguments<0>(s, w);
            w.fresh[0] = arch::opaque(arch::exp2(w.arguments[0]));
            if constexpr (E % 8 > 0) pack<E - 2>(w, sum); // pair 6 is packed by the end of its block
        } else {
            w.fresh[1] = arch::opaque(arch::exp2(w.arguments[1]));
            w.pair = w.fresh;
            if constexpr (E < 15) set_arguments<E + 1>(s, w);
        }
    }
    // The part of weigh<From> ... weigh<To - 1> that falls to product Index of Count.
    template <int From, int To, int Index, int Count>
    WAVEATTN_DEVICE static void weigh_part(const Scores& s, Weights& w, float2v& sum) {
        constexpr int span = To - From;
        detail::static_for<From + span * Index / Count, From + span*(Index + 1) / Count>(
            [&](auto e) { weigh<e.value>(s, w, sum); });
    }

    // ---- LDS ----

    // A tile is planes of 64 (K) or HeadDim (V) rows of 32 bytes: plane u of a K row are its bytes 32u ... 32u + 31,
    // plane u of a V^T row its keys likewise. Rows lie in operand order. The halves of a row change places in every
    // second group of 4 rows, and odd planes shift by two rows, so that reads and writes meet no bank twice.
    WAVEATTN_DEVICE static int lds_row(int row, int half) { return row * 32 + (half ^ (row >> 2 & 1)) * 16; }
    template <int Rows> WAVEATTN_DEVICE static int lds_chunk(int row, int plane, int half) {
        return plane * Rows * 32 + (lds_row(row, half) ^ (plane & 1) * 64);
    }

    // Orders LDS between waves and leaves loads from memory in flight. The wait is explicit: a fence of LDS alone
    // leaves reads outstanding, which the tiles' next writers would overtake.
    WAVEATTN_DEVICE static void tile_barrier() {
        arch::wait_lds<0>();
        arch::lds_barrier();
    }
    template <class T> WAVEATTN_DEVICE static T& lds_at(char* lds, int offset) {
        return *reinterpret_cast<T*>(lds + offset);
    }

    // Copies K tile n + 1, V tile n and delta_s of tile n + 1 from memory to a slot, by way of registers.
    struct Stage {
        static constexpr int k_chunks = 4 * HeadDim; // of 16 bytes in a tile; then as many of V
        static constexpr bool split_waves =
            k_chunks < Tile::threads; // the first half of the waves copies K, the other V
        static constexpr int of_k = split_waves ? 1 : Tile::chunks / 2, of_v = split_waves ? 0 : Tile::chunks / 2;

        const std::int8_t* k;
        const std::uint8_t* v;
        const float* k_scale;
        const std::int32_t* bias; // the wave's row, at its lane's key
        std::int64_t v_tile;
        int k_row, kv_len, last_tile;
        bool copies_k, copies_bias;
        int key[of_k]; // byte offsets in a tile: the row's, the chunk's
        int k_column, v_offset;
        int k_target, v_target; // LDS, in slot 0
        int bias_lane, bias_target;
        int nothing = 0;
        int4v data[Tile::chunks];
        int bias_data;
        int v_tail; // keys of the lane's V chunks from the tile's first to its own

        WAVEATTN_DEVICE void init(
            const Params& p, const sage::Sequence& s, std::int64_t batch, std::int64_t kv_head, int wave, int lane) {
            const int thread = 64 * wave + lane;
            copies_k = !split_waves || wave < Waves / 2;
            k = p.k + batch * p.k_batch + kv_head * p.k_head + s.kv_start * p.k_row;
            v = p.v + batch * p.v_batch + kv_head * p.v_head + s.kv_tile * p.v_tile;
            k_scale = p.k_scale + batch * p.k_scale_batch + kv_head * p.k_scale_head + s.kv_tile;
            v_tile = p.v_tile, k_row = int(p.k_row), kv_len = s.kv_len;
            last_tile = ceil_div(kv_len, 64) - 1;
            // Four lanes read 64 contiguous bytes; the next four the next row.
            const int n = split_waves && !copies_k ? thread - k_chunks : thread, quad = n >> 2, chunk = n & 3;
            const int slot = HeadDim == 128 ? quad >> 2 << 1 | (quad & 1) : quad;
            const int wide = HeadDim == 128 ? (quad >> 1 & 1) * 4 + chunk : chunk; // of the row's 16-byte chunks
            k_column = wide * 16;
            detail::static_for<0, of_k>([&](auto c) {
                constexpr int step = Tile::threads / (HeadDim / 16); // rows between the chunks of a thread
                const int row = slot + c.value * step;
                key[c.value] = ((row & 32) + sage::natural_row(row & 31)) * k_row;
            });
            k_target = lds_chunk<64>(slot, wide >> 1, wide & 1);
            v_offset = ((quad & ~31) + sage::natural_row(quad & 31)) * 64 + chunk * 16;
            v_target = Tile::tile_bytes + lds_chunk<HeadDim>(quad, chunk >> 1, chunk & 1);
            if (split_waves && !copies_k) k_target = v_target;
            v_tail = chunk * 16;
            bias_lane = lane;
            copies_bias = Bias != SageBias::none && wave < Tile::bias_rows;
            bias_target = 2 * Tile::slot_bytes + wave * 256 + lane * 4;
        }
        WAVEATTN_DEVICE int tile_index(int tile) const { return tile < last_tile ? tile : last_tile; }

        WAVEATTN_DEVICE int4v load_k(int tile, int c) const {
            const int rows = kv_len - 1 - 64 * tile; // rows below the last one are read as it, and masked later
            const int limit = (rows < 63 ? rows : 63) * k_row;
            const int offset = (key[c] < limit ? key[c] : limit) + k_column;
            return *reinterpret_cast<const int4v*>(k + std::int64_t(tile) * 64 * k_row + unsigned(offset));
        }
        WAVEATTN_DEVICE int4v load_v(int tile, int c) const {
            constexpr int step =
                Tile::threads / 4 * 64; // bytes between the chunks of a thread: whole blocks of 32 rows
            static_assert(of_v <= 1 || step % 2048 == 0);
            return *reinterpret_cast<const int4v*>(
                v + std::int64_t(tile) * v_tile + unsigned(arch::opaque(v_offset) + c * step));
        }

        // Loads what belongs to slot `n`: V tile n, K tile n + 1. Tiles past the last one are read as the last one.
        WAVEATTN_DEVICE void load(int n) {
            const int v_at = n < 0 ? 0 : tile_index(n), k_at = tile_index(n + 1);
            if constexpr (split_waves) {
                if (copies_k)
                    data[0] = load_k(k_at, 0);
                else
                    data[0] = load_v(v_at, 0);
            } else {
                detail::static_for<0, of_k>([&](auto c) { data[c.value] = load_k(k_at, c.value); });
                detail::static_for<0, of_v>([&](auto c) { data[of_k + c.value] = load_v(v_at, c.value); });
            }
            if constexpr (Bias != SageBias::none)
                if (copies_bias) {
                    const int last = kv_len - 1 - 64 * k_at;
                    bias_data = bias[std::int64_t(k_at) * 64 + (bias_lane < last ? bias_lane : last)];
                }
        }
        // By a vector load, which comes back in order with the others: a scalar one would make every wait for LDS
        // total.
        WAVEATTN_DEVICE float load_scale(int tile) const {
            const char* at = reinterpret_cast<const char*>(k_scale + tile_index(tile));
            return *reinterpret_cast<const float*>(at + unsigned(arch::opaque(nothing)));
        }
        // Keys of V past the end are zeroed: a weight of 0 does not hide a NaN.
        WAVEATTN_DEVICE void clear_tail(int4v& chunk, int n) const {
            const int valid = arch::opaque(kv_len - 64 * tile_index(n) - v_tail); // opaque: kept behind its branch
            detail::static_for<0, 4>([&](auto w) {
                const int bytes = valid - 4 * w.value;
                const int mask = bytes >= 4 ? -1 : bytes <= 0 ? 0 : (1 << 8 * bytes) - 1;
                chunk[w.value] &= mask;
            });
        }
        // Stores what load(n) loaded.
        WAVEATTN_DEVICE void store(char* lds, int n) {
            const int slot = (n & 1) * Tile::slot_bytes;
            if (n >= last_tile && kv_len % 64 != 0) {
                if constexpr (split_waves) {
                    if (!copies_k) clear_tail(data[0], n);
                } else
                    detail::static_for<0, of_v>([&](auto c) { clear_tail(data[of_k + c.value], n); });
            }
            if constexpr (split_waves)
                lds_at<int4v>(lds, slot + k_target) = data[0];
            else {
                constexpr int k_step = Tile::threads / (HeadDim / 16) * 32, v_rows = Tile::threads / 4 * 32;
                detail::static_for<0, of_k>(
                    [&](auto c) { lds_at<int4v>(lds, slot + k_target + c.value * k_step) = data[c.value]; });
                detail::static_for<0, of_v>(
                    [&](auto c) { lds_at<int4v>(lds, slot + v_target + c.value * v_rows) = data[of_k + c.value]; });
            }
            if constexpr (Bias != SageBias::none)
                if (copies_bias) lds_at<int>(lds, bias_target + (n & 1) * Tile::bias_bytes) = bias_data;
        }
    };

    // ---- the four blocks of a tile: matrix products with the softmax in their shadow ----

    // Reads the C operand of a half tile from LDS.
    WAVEATTN_DEVICE static int16v read_bias(char* lds, int address) {
        int16v words;
        detail::static_for<0, 4>([&](auto n) {
            const int4v four = lds_at<int4v>(lds, address + 16 * n.value);
            detail::static_for<0, 4>([&](auto e) { words[4 * n.value + e.value] = four[e.value]; });
        });
        return words;
    }

    // next = K.q of a half tile; meanwhile the first 8 weights of `now`, and the fragments of V for it are read.
    // [key, query] += [key, plane] [plane, query]
    WAVEATTN_DEVICE static void score_block(Scores& next, const Scores& now, Weights& w, State& state,
        const int4v (&k)[planes], int4v (&v)[blocks], char* lds, int v_address) {
        constexpr int count = score_products;
        detail::static_for<0, count>([&](auto n) {
            constexpr int plane = n.value / Steps::per_plane, step = n.value % Steps::per_plane;
            detail::static_for<blocks * n.value / count, blocks*(n.value + 1) / count>(
                [&](auto b) { v[b.value] = lds_at<int4v>(lds, v_address + b.value * 1024); });
            next.units = ScoreAtom::mma(
                Steps::template operand<step>(k[plane]), Steps::template operand<step>(state.q[plane]), next.units);
            weigh_part<0, 8, n.value, count>(now, w, state.sum);
            if constexpr (n.value == count - 1) pack<6>(w, state.sum);
            arch::schedule_barrier();
        });
    }

    // O += V^T.P^T of a half tile; meanwhile its last 8 weights and the maximum of the next half tile, and the
    // fragments of K for the score product after that are read. [channel, query] += [channel, key] [key, query]
    template <class Max>
    WAVEATTN_DEVICE static void value_block(const Scores& now, const Scores& next, Weights& w, State& state,
        const int4v (&v)[blocks], int4v (&k)[planes], char* lds, const int (&k_address)[2], Max& largest) {
        detail::static_for<0, value_products>([&](auto n) {
            constexpr int block = n.value % blocks, step = n.value / blocks;
            detail::static_for<planes * n.value / value_products, planes*(n.value + 1) / value_products>(
                [&](auto u) { k[u.value] = lds_at<int4v>(lds, k_address[u.value & 1] + u.value * 2048); });
            const auto values =
                __builtin_bit_cast(std::int64_t, arch::int2v{v[block][2 * step], v[block][2 * step + 1]});
            const auto weights =
                __builtin_bit_cast(std::int64_t, arch::int2v{w.words[2 * step], w.words[2 * step + 1]});
            state.o[block] = ValueAtom::mma(values, weights, state.o[block]);
            if constexpr (step == 0) {
                weigh_part<8, 16, block, blocks>(now, w, state.sum);
                if constexpr (block == blocks - 1) pack<14>(w, state.sum);
            } else
                detail::static_for<16 / blocks * block, 16 / blocks*(block + 1)>(
                    [&](auto r) { largest.add(next.units[r.value]); });
            arch::schedule_barrier();
        });
    }

    // The largest of a lane's scores. Without a plain delta_s all are positive, or the negative that masks, so that
    // their bits compare as integers.
    struct MaxOfBits {
        int value = __builtin_bit_cast(int, masked_out);
        WAVEATTN_DEVICE void add(int bits) { value = bits > value ? bits : value; }
        WAVEATTN_DEVICE float get() const { return as_float(value); }
    };
    struct MaxOfFloats {
        float value = masked_out;
        WAVEATTN_DEVICE void add(int bits) { value = arch::max(value, as_float(bits)); }
        WAVEATTN_DEVICE float get() const { return value; }
    };
    using Max = std::conditional_t<Bias == SageBias::plain, MaxOfFloats, MaxOfBits>;

    // Sets what turns the scores of a tile with that k_scale into weights. The scale keeps 20 bits, so that 12582912
    // times it is exact and, as the basis is an integer, the offset too.
    WAVEATTN_DEVICE static void set_scale(Scores& s, const State& state, float k_scale) {
        const int bits = __builtin_bit_cast(int, k_scale), least = __builtin_bit_cast(int, 1e-18f);
        const float product = state.q_scale * as_float(bits > least ? bits : least);
        s.scale = as_float(__builtin_bit_cast(int, product) & ~0xf);
        s.zero = -sage::bias_zero_value * s.scale;
        s.offset = s.zero + (float(detail::sage_top - detail::sage_slack) - state.basis);
    }

    // Makes room where the largest score would give a weight above 2^sage_top. Seldom needed after the first tile.
    WAVEATTN_DEVICE static void keep_in_range(Scores& s, State& state, float largest) {
        const float top = arch::fma(largest, s.scale, s.offset);
        if (!arch::any_lane(top > float(detail::sage_top))) return;
        const float mine = arch::fma(largest, s.scale, s.zero);
        const float row = arch::max(mine, arch::shuffle_xor(mine, 32));
        const float basis = arch::max(state.basis, __builtin_ceilf(row));
        const float shrink = arch::exp2(state.basis - basis);
        state.basis = basis;
        state.sum *= shrink;
        detail::static_for<0, blocks>([&](auto n) { state.o[n.value] *= shrink; });
        s.offset = s.zero + (float(detail::sage_top - detail::sage_slack) - basis);
    }

    // Keys from `visible` on, counted from the lane half's first, get no weight.
    WAVEATTN_DEVICE static void mask(Scores& s, int visible) {
        detail::static_for<0, 16>([&](auto r) {
            if (r.value >= visible) s.units[r.value] = __builtin_bit_cast(int, masked_out);
        });
    }

    // A plain delta_s is added as fp32 in units of the scale: as exact as the scores' own units.
    WAVEATTN_DEVICE static void add_plain_bias(Scores& s, char* lds, int address) {
        const float inverse = arch::reciprocal(s.scale);
        const int16v bias = read_bias(lds, address);
        detail::static_for<0, 16>([&](auto r) {
            const float sum = arch::fma(as_float(bias[r.value]), inverse, as_float(s.units[r.value]));
            s.units[r.value] = __builtin_bit_cast(int, sum);
        });
    }

    WAVEATTN_DEVICE static void exec(const Params& p) {
        alignas(16) __shared__ char lds[2 * Tile::slot_bytes + (Bias == SageBias::none ? 0 : 2 * Tile::bias_bytes)];
        const int lane = int(arch::lane_id()), wave = arch::uniform(int(arch::thread_x())) / 64;
        const int half = lane >> 5;

        // Which rows. Neighbouring workgroups go to different dies; each die gets whole runs of a head's blocks.
        const unsigned total = unsigned(p.workgroups), die = arch::block_x() % 8, in_die = arch::block_x() / 8;
        const unsigned rank = die * (total / 8) + (die < total % 8 ? die : total % 8) + in_die;
        const int plane = int(rank / unsigned(p.q_blocks)), turn = int(rank % unsigned(p.q_blocks));
        const int block = p.causal == Causal::none ? turn : p.q_blocks - 1 - turn; // the longest first
        const int head = plane % p.heads_q, kv_head = head / p.group;
        const sage::Sequence s = sage::locate_sequence(plane / p.heads_q, p.cu_q, p.cu_k, p.q_len, p.kv_len);
        const int first_row = block * Tile::block_q;
        if (first_row >= s.q_len) return;
        const int wave_row = first_row + 32 * wave, row = wave_row + (lane & 31);
        const bool stored = row < s.q_len;
        const int safe_row = stored ? row : s.q_len - 1;

        // Which keys: row i sees those below i + 1 + offset.
        const int causal_end = p.causal == Causal::none       ? s.kv_len
                               : p.causal == Causal::top_left ? 1
                                                              : s.kv_len - s.q_len + 1;
        const auto keys_of = [&](int i) {
            const int end = p.causal == Causal::none ? s.kv_len : i + causal_end;
            return end < 0 ? 0 : end < s.kv_len ? end : s.kv_len;
        };
        const int last_row = first_row + Tile::block_q < s.q_len ? first_row + Tile::block_q - 1 : s.q_len - 1;
        const int tiles = (keys_of(last_row) + 63) / 64;
        const int first_masked = keys_of(wave_row) / 64;

        State state;
        state.sum = float2v{0.f, 0.f};
        state.basis = no_maximum;
        detail::static_for<0, blocks>([&](auto n) { state.o[n.value] = float16v(0.f); });

        if (tiles > 0) {
            const int visible = keys_of(safe_row) - 16 * half;
            const std::int8_t* q_row = p.q + s.batch * p.q_batch + head * p.q_head + (s.q_start + safe_row) * p.q_row;
            detail::static_for<0, planes>(
                [&](auto u) { state.q[u.value] = *reinterpret_cast<const int4v*>(q_row + 32 * u.value + 16 * half); });
            const std::int64_t group =
                sage::scale_group(p.q_scale_rows, safe_row, p.q_scale_rows == QScaleRows::block ? s.q_block : s.q_warp);
            state.q_scale = arch::max(p.q_scale[s.batch * p.q_scale_batch + head * p.q_scale_head + group], 1e-18f);

            Stage stage;
            stage.init(p, s, s.batch, kv_head, wave, lane);
            if constexpr (Bias != SageBias::none) {
                const int bias_block = (first_row + (wave < Tile::bias_rows ? 128 * wave : 0)) / sage::block_rows;
                const int last_block = (s.q_len - 1) / sage::block_rows;
                stage.bias = static_cast<const std::int32_t*>(p.bias) + s.batch * p.bias_batch + head * p.bias_head +
                             (s.q_block + (bias_block < last_block ? bias_block : last_block)) * p.bias_block;
            }
            const int near = lds_row(lane & 31, half); // the lane's row in even planes, and in odd ones
            int address[2] = {near, near ^ 64};
            [[maybe_unused]] const int bias_address = 2 * Tile::slot_bytes + (wave >> 2) * 256 + half * 64;

            int16v zero; // opaque, or the compiler would make it anew for each product
            detail::static_for<0, 16>([&](auto r) { zero[r.value] = arch::opaque(sage::bias_zero); });
            Scores s0, s1; // of the even and the odd half tile
            Weights w{};
            int4v k[planes], v[blocks];
            const auto begin = [&](Scores& to, int tile_slot, int half_tile) {
                if constexpr (Bias == SageBias::units)
                    to.units = read_bias(lds, bias_address + tile_slot * Tile::bias_bytes + half_tile * 128);
                else
                    to.units = zero;
            };
            const auto plain_bias = [&](Scores& to, int tile_slot, int half_tile) {
                if constexpr (Bias == SageBias::plain)
                    add_plain_bias(to, lds, bias_address + tile_slot * Tile::bias_bytes + half_tile * 128);
            };

            // Slot n & 1 holds V tile n and K tile n + 1. Before the loop: K tile 0, then slot 0, and the even half of
            // tile 0's scores.
            stage.load(-1);
            float k_scale = stage.load_scale(0), next_k_scale = stage.load_scale(1);
            stage.store(lds, -1);
            stage.load(0);
            stage.store(lds, 0);
            stage.load(1);
            tile_barrier();
            const auto read_k = [&](int base) {
                detail::static_for<0, planes>(
                    [&](auto u) { k[u.value] = lds_at<int4v>(lds, base + address[u.value & 1] + u.value * 2048); });
            };
            begin(s0, 1, 0);
            read_k(Tile::slot_bytes);
            detail::static_for<0, score_products>([&](auto n) {
                constexpr int u = n.value / Steps::per_plane, step = n.value % Steps::per_plane;
                s0.units = ScoreAtom::mma(
                    Steps::template operand<step>(k[u]), Steps::template operand<step>(state.q[u]), s0.units);
            });
            begin(s1, 1, 1);
            read_k(Tile::slot_bytes + 1024);
            set_scale(s0, state, k_scale);
            plain_bias(s0, 1, 0);
            if (first_masked == 0) mask(s0, visible);
            Max first;
            detail::static_for<0, 16>([&](auto r) { first.add(s0.units[r.value]); });
            keep_in_range(s0, state, first.get());

            for (int tile = 0; tile < tiles; ++tile) {
                const int slot = tile & 1, base = slot * Tile::slot_bytes, keys = 64 * tile;
                const int even_k[2] = {base + address[0], base + address[1]};
                const int odd_k[2] = {even_k[0] + 1024, even_k[1] + 1024};
                tile_barrier(); // slot `slot` is complete, and nobody reads the other one any more

                set_scale(s1, state, k_scale);
                score_block(s1, s0, w, state, k, v, lds, even_k[0] + Tile::tile_bytes);
                plain_bias(s1, slot ^ 1, 1);
                if (tile >= first_masked) mask(s1, visible - keys - 32);
                stage.store(lds, tile + 1);
                Max odd_max;
                value_block(s0, s1, w, state, v, k, lds, even_k, odd_max);
                keep_in_range(s1, state, odd_max.get());

                begin(s0, slot, 0);
                stage.load(tile + 2);
                k_scale = next_k_scale;
                next_k_scale = stage.load_scale(tile + 2);
                set_scale(s0, state, k_scale);
                score_block(s0, s1, w, state, k, v, lds, even_k[1] + Tile::tile_bytes + HeadDim * 32);
                plain_bias(s0, slot, 0);
                if (tile + 1 >= first_masked) mask(s0, visible - keys - 64);
                Max even_max;
                value_block(s1, s0, w, state, v, k, lds, odd_k, even_max);
                keep_in_range(s0, state, even_max.get());
                begin(s1, slot, 1);
            }
        }
        write(p, s, state, lds, head, kv_head, row, stored, wave, lane);
    }

    // ---- epilogue ----

    // o = acc / sum * v_scale, rounded to nearest even, and the row's lse.
    WAVEATTN_DEVICE static void write(const Params& p, const sage::Sequence& s, State& state, char* lds, int head,
        int kv_head, int row, bool stored, int wave, int lane) {
        const int half = lane >> 5;
        float sum = state.sum[0] + state.sum[1];
        sum += arch::shuffle_xor(sum, 32);
        const float inverse = sum > 0.f || sum != sum ? arch::reciprocal(sum) : 0.f;
        const std::int64_t token = s.q_start + row;
        if (p.lse && stored && half == 0) {
            float lse = -arch::infinity;
            if (sum > 0.f || sum != sum) {
                lse = (state.basis - float(detail::sage_top - detail::sage_slack) + arch::log2(sum)) * arch::ln2;
                if (p.lse_shift)
                    lse += p.lse_shift[s.batch * p.shift_batch + head * p.shift_head + token * p.shift_row];
            }
            p.lse[s.batch * p.lse_batch + head * p.lse_head + token * p.lse_row] = lse;
        }
        const float* v_scale = p.v_scale + s.sequence * p.v_scale_batch + kv_head * p.v_scale_head + 16 * half;
        const std::int64_t o_row = s.batch * p.o_batch + head * p.o_head + token * p.o_row;
        if (!p.wide_stores) tile_barrier(); // the tiles are not needed any more
        detail::static_for<0, blocks>([&](auto n) {
            float values[16];
            detail::static_for<0, 16>([&](auto r) {
                values[r.value] = state.o[n.value][r.value] * inverse * v_scale[32 * n.value + r.value];
            });
            const int channel = 32 * n.value + 16 * half;
            if (p.wide_stores) {
                if (stored && channel < p.head_dim_v) store_wide(p, o_row + channel, values);
            } else
                store_narrow(p, s, values, lds + wave * 4096, o_row - std::int64_t(row) * p.o_row, row, n.value, lane);
        });
    }

    // 16 channels of a row.
    WAVEATTN_DEVICE static void store_wide(const Params& p, std::int64_t offset, const float (&values)[16]) {
        if (p.output == OutputType::float32) {
            detail::static_for<0, 4>([&](auto n) {
                constexpr int e = 4 * n.value;
                *reinterpret_cast<arch::float4v*>(static_cast<float*>(p.o) + offset + e) =
                    arch::float4v{values[e], values[e + 1], values[e + 2], values[e + 3]};
            });
            return;
        }
        int words[8];
        detail::static_for<0, 8>([&](auto n) {
            const float low = values[2 * n.value], high = values[2 * n.value + 1];
            words[n.value] = p.output == OutputType::bfloat16
                                 ? from_float<bfloat16>(low).bits | from_float<bfloat16>(high).bits << 16
                                 : half_bits(low) | half_bits(high) << 16;
        });
        detail::static_for<0, 2>([&](auto n) {
            constexpr int e = 4 * n.value;
            *reinterpret_cast<int4v*>(static_cast<std::uint16_t*>(p.o) + offset + 2 * e) =
                int4v{words[e], words[e + 1], words[e + 2], words[e + 3]};
        });
    }
    WAVEATTN_DEVICE static int half_bits(float value) {
        return __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(value));
    }

    // 32 channels of the wave's rows through LDS, element by element: any alignment, any number of channels.
    WAVEATTN_DEVICE static void store_narrow(const Params& p, const sage::Sequence& s, const float (&values)[16],
        char* lds, std::int64_t o_first, int row, int block, int lane) {
        detail::static_for<0, 16>([&](auto r) {
            lds_at<float>(lds, (lane & 31) * 128 + ((lane >> 5) * 64 + r.value * 4)) = values[r.value];
        });
        tile_barrier();
        const int channel = 32 * block + (lane & 31), wave_row = row - (lane & 31);
        for (int n = lane >> 5; n < 32; n += 2) {
            const float value = lds_at<float>(lds, n * 128 + (lane & 31) * 4);
            if (channel >= p.head_dim_v || wave_row + n >= s.q_len) continue;
            const std::int64_t at = o_first + std::int64_t(wave_row + n) * p.o_row + channel;
            if (p.output == OutputType::float32)
                static_cast<float*>(p.o)[at] = value;
            else
                static_cast<std::uint16_t*>(p.o)[at] = p.output == OutputType::bfloat16
                                                           ? from_float<bfloat16>(value).bits
                                                           : std::uint16_t(half_bits(value));
        }
        tile_barrier();
    }
};

template <class Arch, int HeadDim, int Waves, SageBias Bias>
__global__ __launch_bounds__(64 * Waves, Waves >= 8 ? 2 : 1) void sage_attention_kernel(detail::SageParams params) {
    if constexpr (arch::compiled_for<Arch>)
        SageAttentionMfma<Arch, HeadDim, Waves, Bias>::exec(params);
    else
        arch::trap_stub();
}

#endif
} // namespace waveattn
