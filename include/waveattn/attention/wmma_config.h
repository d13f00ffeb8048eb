// FlashAttentionWmmaDPP: what a kernel is made of - its tuning, element types, tile geometry and parameters.
#pragma once

#include "waveattn/arch/arch.h"
#include "waveattn/attention/problem.h"
#include "waveattn/core/divide.h"
#include "waveattn/iop/read.h"
#include "waveattn/iop/write.h"

#include <cstdint>
#include <type_traits>

namespace waveattn {

// How V becomes the A operand of O^T += V^T.P^T, whose lanes hold 8 keys of one dim.
enum class WmmaV {
    transposed_lds,       // transposing loads, staged once for the workgroup in LDS as V^T
    transposed_registers, // transposing loads by every wave, straight to its registers
    scattered_lds,        // plain loads, staged as V^T by 16-bit LDS stores
};
// How a score becomes a probability of 16 bits.
enum class WmmaProbability {
    packed,        // bf16 in integer and packed f16 arithmetic, two scores at a time, without v_exp (full tiles only)
    hardware,      // v_exp_f32, rounded by an addition and a byte permutation
    hardware_cast, // v_exp_f32 and the compiler's conversion, which checks for NaN
};
// The elements of Q.K^T.
enum class WmmaQk {
    automatic, // e4m3 for an fp8-token K, else 16-bit
    element,   // 16-bit also for an fp8-token K, whose codes are exact in bf16 and f16
    int8,      // int8 for an int8-token K
};

struct WmmaTuning {
    WmmaV v = WmmaV::transposed_lds;
    WmmaProbability probability = WmmaProbability::packed;
    WmmaQk qk = WmmaQk::automatic;
    // Rescale only when a score exceeds the reference by more than so many powers of two; 0: in every tile.
    int lazy_threshold = 8;
    int waves_per_simd = 1; // that the register allocator must make room for
};

namespace detail {

// Whether a cache's codes go through the kernel as they are, with their scale applied elsewhere.
template <class R>
inline constexpr bool wmma_keeps_codes =
    std::is_same_v<iop::cache_code<R>, std::int8_t> || std::is_same_v<iop::cache_code<R>, float8_e4m3fn>;
template <class R> inline constexpr bool wmma_raw16 = iop::is_raw_of<R, bfloat16> || iop::is_raw_of<R, float16>;

// HeadDim: the head_dim of the tiles, at least that of q, k and v. Wide: head_dims are multiples of 8 and the rows of k
// and v are aligned, so that 8 elements are loaded at once; else, and for chains, elements. WithLse: lse may be asked
// for.
template <int HeadDim, int BlockKv, int Waves, WmmaTuning Tuning, bool Wide, bool WithLse, class Q, class K, class V,
    class W>
struct WmmaConfig {
    static_assert(HeadDim % 32 == 0 && HeadDim <= 256, "HEAD_DIM must be a multiple of 32 up to 256");
    static_assert(BlockKv % 16 == 0 && BlockKv <= 64, "BLOCK_KV must be 16, 32, 48 or 64");
    static_assert(Waves >= 1 && Waves <= 16, "NUM_WAVES must be 1 to 16");

    static constexpr int head_dim = HeadDim, block_kv = BlockKv, waves = Waves, threads = 32 * Waves;
    static constexpr int block_q = 16 * Waves;
    static constexpr WmmaTuning tuning = Tuning;
    static constexpr bool wide = Wide, with_lse = WithLse;
    static constexpr int key_tiles = BlockKv / 16, dim_tiles = HeadDim / 16;
    using Query = Q;
    using Key = K;
    using Value = V;
    using Output = W;

    // ---- element types ----
    static constexpr bool k_scaled = wmma_keeps_codes<K>, v_scaled = wmma_keeps_codes<V>;
    static constexpr bool fp8_qk = std::is_same_v<iop::cache_code<K>, float8_e4m3fn> && Tuning.qk == WmmaQk::automatic;
    static constexpr bool int8_qk = std::is_same_v<iop::cache_code<K>, std::int8_t> && Tuning.qk == WmmaQk::int8;
    static constexpr bool quantises_q = fp8_qk || int8_qk;
    // Codes of a cache are exact in f16 and bf16 alike, so q decides.
    using element16 =
        std::conditional_t<iop::is_raw_of<Q, float16> && (iop::is_raw_of<K, float16> || k_scaled), float16, bfloat16>;
    using qk_element = std::conditional_t<fp8_qk, float8_e4m3fn, std::conditional_t<int8_qk, std::int8_t, element16>>;
    using pv_element = std::conditional_t<iop::is_raw_of<V, float16>, float16, bfloat16>;

    // ---- how k and v are read ----
    static constexpr bool k_wide_raw = Wide && iop::is_raw_of<K, qk_element>;
    static constexpr bool k_wide_code = Wide && k_scaled;
    static constexpr bool v_wide_raw = Wide && iop::is_raw_of<V, pv_element>;
    static constexpr bool v_wide_code = Wide && v_scaled;
    static constexpr bool v_in_registers = v_wide_raw && Tuning.v == WmmaV::transposed_registers;
    static constexpr bool v_scattered = v_wide_raw && Tuning.v == WmmaV::scattered_lds;

    // The demand on the register allocator is for 16-bit tensors; conversions and reads by elements need more.
    static constexpr int waves_per_simd = k_wide_raw && v_wide_raw && BlockKv <= 32 ? Tuning.waves_per_simd : 1;

    // ---- scores ----
    static constexpr bool lazy = Tuning.lazy_threshold > 0;
    // The accumulators of the scores start at minus the reference, so that they come out relative to it.
    static constexpr bool relative_scores = lazy && !k_scaled;
    static constexpr bool packed_probability = Tuning.probability == WmmaProbability::packed &&
                                               std::is_same_v<pv_element, bfloat16> && !v_scaled && relative_scores;

    // fp32 values and chains, already rounded to bf16, get weights of 16 bits in the tiles of the diagonal: where a
    // query sees few keys, the roundings of its weights do not average out.
    static constexpr bool split_probability = std::is_same_v<pv_element, bfloat16> && !wmma_raw16<V> && !v_scaled &&
                                              Tuning.probability != WmmaProbability::hardware_cast;

    // o is divided by the sum of the weights as rounded. lse needs that of the unrounded ones: another sum, unless they
    // are the same anyway. o has the same bits with and without it.
    static constexpr bool sums_rounded =
        !v_scaled && (std::is_same_v<pv_element, float16> || Tuning.probability != WmmaProbability::hardware_cast);
    static constexpr bool separate_lse_sum = WithLse && sums_rounded;

    // ---- LDS: two buffers of (K tile, V^T tile, scales); rows padded by 16 bytes, so that the 8 lanes which read 16
    // bytes at a time fall on all 32 banks ----
    static constexpr int k_row_bytes = HeadDim * int(sizeof(qk_element)) + 16;
    static constexpr int v_row_bytes = BlockKv * 2 + 16;
    static constexpr int k_bytes = BlockKv * k_row_bytes;
    static constexpr int v_bytes = v_in_registers ? 0 : HeadDim * v_row_bytes;
    static constexpr int k_scale_bytes = k_scaled ? BlockKv * 4 : 0, v_scale_bytes = v_scaled ? BlockKv * 4 : 0;
    static constexpr int v_at = k_bytes, k_scale_at = v_at + v_bytes, v_scale_at = k_scale_at + k_scale_bytes;
    static constexpr int buffer_bytes = v_scale_at + v_scale_bytes;
    // The padding of a row of K holds a wave's flag, that of a row of V^T the first keys of its dim (hidden_values.h).
    static constexpr int flag_at(int wave) { return wave * k_row_bytes + k_row_bytes - 16; }
    static constexpr int first_keys_at(int dim) {
        return v_in_registers ? 2 * buffer_bytes + dim * 16 : v_at + dim * v_row_bytes + v_row_bytes - 16;
    }
    static constexpr int lds_bytes = 2 * buffer_bytes + (v_in_registers ? HeadDim * 16 : 0);
    static_assert(lds_bytes <= arch::gfx1200::lds_bytes,
        "two buffers of this tile exceed 64 KiB of LDS: use a smaller BLOCK_KV or WmmaV::transposed_registers");

    // ---- shares of a thread in staging a tile ----
    static constexpr int chunks_per_row = HeadDim / 8; // a chunk: 8 dims of a key
    static constexpr int k_chunks = BlockKv * chunks_per_row, k_per_thread = ceil_div(k_chunks, threads);
    // 16 lanes stage 8 keys of 16 dims of V, a dim each.
    static constexpr int v_blocks = BlockKv / 8 * dim_tiles, v_per_thread = ceil_div(v_blocks, threads / 16);

    struct Params {
        Q q;
        K k;
        V v;
        W out;
        TensorView<float, 3> lse;
        float scale_log2; // |scale| log2(e), at least the smallest normal number
        unsigned sign;    // 1 where the scale is negative: q is negated instead
        std::int32_t q_len, kv_len, head_dim, head_dim_v, heads_q, heads_kv;
        std::int32_t causal_offset;   // key j is visible to query i iff j <= i + causal_offset
        std::int32_t rows, row_heads; // rows of a plane; heads that share one: row r is token r / row_heads
        std::int32_t row_tiles;
    };
};

} // namespace detail
} // namespace waveattn
