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
    std::int32_t q_len, kv_len, heads_q, group, head_dim_v, q_blocks;
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

    // One step of the softmax of 8 registers from `From`: element e of a half tile's 16. Weights go to words of 4.
    struct Weights {
        float2v arguments, weights;
        int words[4]; // fp8, register r in byte r % 4 of word r / 4
    };
    template <int E> WAVEATTN_DEVICE static void weigh(const Scores& s, Weights& w, float2v& sum) {
        if constexpr (E % 2 == 0) {
            const float2v score{as_float(s.units[E]), as_float(s.units[E + 1])};
            w.arguments = arch::fma(score, float2v{s.scale, s.scale}, float2v{s.offset, s.offset});
            w.weights[0] = arch::exp2(w.arguments[0]);
        } else {
            w.weights[1] = arch::exp2(w.arguments[1]);
            sum += w.weights;
            w.words[E / 4] = arch::convert_pack_fp8<(E % 4 == 3)>(w.weights[0], w.weights[1], w.words[E / 4]);
        }
    }
    // The part of weigh<From> ... weigh<To - 1> that falls to product `Index` of `Count`.
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
            constexpr int step = Tile::threads / 4 * 64; // bytes between the chunks of a thread
            // The step keeps the operand order: it is a multiple of 32 rows, or of 16, which is 8 rows further.
            static_assert(step % 2048 == 0 || step == 1024);
            return *reinterpret_cast<const int4v*>(v + std::int64_t(tile) * v_tile + unsigned(v_offset + v_step(c)));
        }
        WAVEATTN_DEVICE static constexpr int v_step(int c) { return Tile::threads / 4 * 64 * c; }

        // Loads what belongs to slot `n`: V tile n, K tile n + 1. Tiles past the last one are read as the last one.
        WAVEATTN_DEVICE void load(int n) {
            const int v_at = tile_index(n), k_at = tile_index(n + 1);
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
        WAVEATTN_DEVICE float load_scale(int tile) const { return k_scale[tile_index(tile) + arch::lane_varying(0)]; }
        // Keys of V past the end are zeroed: a weight of 0 does not hide a NaN.
        WAVEATTN_DEVICE void clear_tail(int4v& chunk, int n) const {
            const int valid = kv_len - 64 * tile_index(n) - v_tail;
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
};

#endif
} // namespace waveattn
