// LDS layout of the Sage kernel, and the copies from memory to it.
//
// A slot holds a K tile and a V tile of 64 keys. A tile is planes of rows of 32 bytes: plane u of a K row are its bytes
// 32u ... 32u + 31, plane u of a V^T row its keys likewise. Rows lie in operand order (sage::natural_row). A row's
// halves, the shares of the two lane halves, change places in every second group of 4 rows, and odd planes shift by two
// rows, so that neither reads nor writes of 16 bytes meet a bank twice.
#pragma once

#include "waveattn/attention/hidden_values.h"
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
    std::int32_t q_len, kv_len, q_tokens, k_tokens, heads_q, group, head_dim_v, q_blocks, workgroups;
    Causal causal;
    QScaleRows q_scale_rows;
    OutputType output;
    bool wide_stores; // rows of o on 16 bytes and whole 16-channel groups
};

template <class Arch, int HeadDim, int Waves> struct SageTile {
    static_assert(HeadDim == 64 || HeadDim == 128);
    static constexpr int threads = 64 * Waves;
    static constexpr int block_q = 32 * Waves;
    static constexpr int planes = HeadDim / 32; // of a K tile
    static constexpr int blocks = HeadDim / 32; // of 32 rows of V^T
    // LDS: two slots of a K tile and a V tile.
    static constexpr int tile_bytes = 64 * HeadDim;
    static constexpr int slot_bytes = 2 * tile_bytes;
    // Chunks of 16 bytes that a thread copies to a slot, K's first.
    static constexpr int chunks = slot_bytes / 16 / threads;
    static_assert(chunks >= 1);
};

#ifdef __HIP__

// Compile-time loop: f(StaticIndex<From>) ... f(StaticIndex<To - 1>).
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

// ---- LDS ----
template <class T> WAVEATTN_DEVICE T& lds_at(char* lds, int offset) { return *reinterpret_cast<T*>(lds + offset); }
// The share of a lane half in a row of an even plane; in an odd plane it is at the same offset ^ 64.
WAVEATTN_DEVICE int sage_lds_row(int row, int half) { return row * 32 + (half ^ (row >> 2 & 1)) * 16; }
template <int Rows> WAVEATTN_DEVICE int sage_lds_chunk(int row, int plane, int half) {
    return plane * Rows * 32 + (sage_lds_row(row, half) ^ (plane & 1) * 64);
}
// Orders LDS between waves and leaves loads from memory in flight. The wait is explicit: a fence of LDS alone leaves
// reads outstanding, which the tiles' next writers would overtake.
WAVEATTN_DEVICE void sage_barrier() {
    arch::wait_lds<0>();
    arch::lds_barrier();
}

// Copies V tile n and K tile n + 1 from memory to slot n & 1, by way of registers: load(n), later
// store(n). n counts up by one from -1, without a V tile. Past the last tile the last one is read again; rows of K past
// the last key are read as the last one.
template <class Arch, int HeadDim, int Waves> struct SageStage {
    using Tile = SageTile<Arch, HeadDim, Waves>;
    using int4v = arch::int4v;
    static constexpr int k_chunks = 4 * HeadDim; // of 16 bytes in a tile; then as many of V
    // With more threads than that, the first half of the waves copies K and the other V.
    static constexpr bool split_waves = k_chunks < Tile::threads;
    static constexpr bool fnuz = std::is_same_v<Arch, arch::gfx942>; // the format of V
    static constexpr int of_k = split_waves ? 1 : Tile::chunks / 2, of_v = split_waves ? 0 : Tile::chunks / 2;

    const std::int8_t* k_tile; // of the next load
    const std::uint8_t* v_tile;
    const float* k_scale;
    int v_step; // bytes from a V tile to the next
    int k_row, kv_len, last_tile, wave;
    bool copies_k;
    int k_key[of_k], k_column;         // of the lane's chunks
    unsigned k_offset[of_k], v_offset; // in a tile in memory
    int k_target, v_target;            // in slot 0
    int v_first;                       // key of the lane's V chunks
    int4v data[Tile::chunks];

    WAVEATTN_DEVICE void init(const SageParams& p, const sage::Sequence& s, int kv_head, int wave_, int lane) {
        wave = wave_;
        const int thread = 64 * wave + lane;
        copies_k = !split_waves || wave < Waves / 2;
        k_row = int(p.k_row), kv_len = s.kv_len, last_tile = (kv_len + 63) / 64 - 1;
        v_step = int(p.v_tile);
        k_tile = p.k + s.batch * p.k_batch + kv_head * p.k_head + s.kv_start * p.k_row;
        v_tile = p.v + s.batch * p.v_batch + kv_head * p.v_head + s.kv_tile * p.v_tile;
        k_scale = p.k_scale + s.batch * p.k_scale_batch + kv_head * p.k_scale_head + s.kv_tile;
        // Four lanes read 64 contiguous bytes, the next four the next row.
        const int n = split_waves && !copies_k ? thread - k_chunks : thread, quad = n >> 2, chunk = n & 3;
        const int slot = HeadDim == 128 ? quad >> 2 << 1 | (quad & 1) : quad; // row of K in operand order
        const int wide = HeadDim == 128 ? (quad >> 1 & 1) * 4 + chunk : chunk;
        k_column = wide * 16;
        static_for<0, of_k>([&](auto c) {
            const int row = slot + c.value * (Tile::threads / (HeadDim / 16));
            k_key[c.value] = (row & 32) + sage::natural_row(row & 31);
        });
        set_k_offsets(last_tile == 0 ? kv_len - 1 : 63);
        v_offset = unsigned(((quad & ~31) + sage::natural_row(quad & 31)) * 64 + chunk * 16);
        v_first = chunk * 16;
        v_target = Tile::tile_bytes + sage_lds_chunk<HeadDim>(quad, chunk >> 1, chunk & 1);
        k_target = split_waves && !copies_k ? v_target : sage_lds_chunk<64>(slot, wide >> 1, wide & 1);
    }
    WAVEATTN_DEVICE void set_k_offsets(int last_key) {
        static_for<0, of_k>([&](auto c) {
            const int key = k_key[c.value] < last_key ? k_key[c.value] : last_key;
            k_offset[c.value] = unsigned(key * k_row + k_column);
        });
    }

    // By buffer loads: they take a scalar address and a lane's offset as they are, whatever lies between them.
    WAVEATTN_DEVICE static int4v load_16(const void* tile, unsigned lane_bytes, unsigned wave_bytes = 0) {
        return __builtin_bit_cast(
            int4v, arch::buffer_load_16(arch::buffer_resource(tile, ~0u), lane_bytes, wave_bytes));
    }
    WAVEATTN_DEVICE void load_k() {
        static_for<0, of_k>(
            [&](auto c) { data[c.value] = copies_k ? load_16(k_tile, k_offset[c.value]) : load_16(v_tile, v_offset); });
    }
    WAVEATTN_DEVICE void load_v() {
        constexpr unsigned step = Tile::threads / 4 * 64; // whole blocks of 32 rows
        static_assert(of_v <= 1 || step % 2048 == 0);
        static_for<0, of_v>([&](auto c) { data[of_k + c.value] = load_16(v_tile, v_offset, c.value * step); });
    }
    // After load_k and load_v of n. Pinned where it stands, like the loads in the shadow of matrix products.
    WAVEATTN_DEVICE void advance(int n) {
        move(v_tile, n >= 0 && n < last_tile ? v_step : 0);
        move(k_tile, n + 1 < last_tile ? 64 * k_row : 0);
    }
    template <class T> WAVEATTN_DEVICE static void move(const T*& tile, int bytes) {
        tile = reinterpret_cast<const T*>(arch::opaque_scalar(reinterpret_cast<std::uint64_t>(tile + unsigned(bytes))));
    }
    WAVEATTN_DEVICE void load(int n) {
        load_k();
        load_v();
        advance(n);
    }
    // To be called before K tile `tile` is loaded.
    WAVEATTN_DEVICE void prepare_tail(int tile) {
        if (tile == last_tile) [[unlikely]]
            set_k_offsets(kv_len - 1 - 64 * last_tile);
    }
    // A vector load, which comes back in order with the others: a scalar one would make every wait for LDS a full one.
    WAVEATTN_DEVICE float load_scale(int tile) const {
        const auto all = arch::buffer_resource(k_scale, unsigned((last_tile + 1) * 4));
        return __builtin_bit_cast(
            float, arch::buffer_load_4(all, 0, unsigned((tile < last_tile ? tile : last_tile) * 4)));
    }

    // Zeroes the keys of V past the end, before store(tile): a weight of 0 does not hide a NaN.
    WAVEATTN_DEVICE void clear_tail(int tile) {
        if (tile < last_tile || kv_len % 64 == 0) return;
        const int valid = kv_len - 64 * last_tile - v_first;
        const auto clear = [&](int4v& chunk) {
            static_for<0, 4>([&](auto w) {
                const int bytes = valid - 4 * w.value;
                chunk[w.value] &= bytes >= 4 ? -1 : bytes <= 0 ? 0 : (1 << 8 * bytes) - 1;
            });
        };
        if constexpr (split_waves) {
            if (!copies_k) clear(data[0]);
        } else
            static_for<0, of_v>([&](auto c) { clear(data[of_k + c.value]); });
    }
    // Clears NaN in V, before store().
    WAVEATTN_DEVICE void clear_nan() {
        const auto clear = [&](int4v& chunk) {
            static_for<0, 4>([&](auto w) { chunk[w.value] = int(without_fp8_nan<fnuz>(unsigned(chunk[w.value]))); });
        };
        if constexpr (split_waves) {
            if (!copies_k) clear(data[0]);
        } else
            static_for<0, of_v>([&](auto c) { clear(data[of_k + c.value]); });
    }
    // The first key of a channel of V whose code is NaN, among the first `tiles` tiles; `first` is that of tile 0.
    WAVEATTN_DEVICE static int first_nan(const std::uint8_t* first, int step, int tiles) {
        for (int tile = 0; tile < tiles; ++tile, first += step)
            for (int word = 0; word < 16; ++word) {
                const unsigned found = fp8_nan<fnuz>(reinterpret_cast<const unsigned*>(first)[word]);
                if (found) return 64 * tile + 4 * word + __builtin_ctz(found) / 8;
            }
        return no_key;
    }
    WAVEATTN_DEVICE void store(char* lds, int n) {
        const int slot = (n & 1) * Tile::slot_bytes;
        if constexpr (split_waves)
            lds_at<int4v>(lds, slot + k_target) = data[0];
        else {
            constexpr int k_step = Tile::threads / (HeadDim / 16) * 32, v_step = Tile::threads / 4 * 32;
            static_for<0, of_k>(
                [&](auto c) { lds_at<int4v>(lds, slot + k_target + c.value * k_step) = data[c.value]; });
            static_for<0, of_v>(
                [&](auto c) { lds_at<int4v>(lds, slot + v_target + c.value * v_step) = data[of_k + c.value]; });
        }
    }
};

// A row of delta_s, int32 or fp32, from memory to registers: every wave needs it in the same order, 16 consecutive
// words for each lane half, so LDS would gain nothing and cost room.
struct SageBiasRow {
    const std::int32_t* row; // the same in a wave
    int kv_len, half;

    // Of half tile n: register r is key 32n + 16 half + r, or past the end the last key.
    WAVEATTN_DEVICE arch::int16v load(int n) const {
        arch::int16v words;
        if (32 * n + 32 <= kv_len) [[likely]] {
            const auto keys = arch::buffer_resource(row + 32 * n, 128);
            static_for<0, 4>([&](auto i) {
                const auto four = arch::buffer_load_16(keys, unsigned(64 * half) + 16 * i.value, 0);
                static_for<0, 4>([&](auto e) { words[4 * i.value + e.value] = int(four[e.value]); });
            });
        } else {
            static_for<0, 16>([&](auto r) {
                const int key = 32 * n + 16 * half + r.value;
                words[r.value] = row[key < kv_len ? key : kv_len - 1];
            });
        }
        return words;
    }
};

#endif

} // namespace detail
} // namespace waveattn
