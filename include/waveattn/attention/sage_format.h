// Quantised attention operands: their storage, and the constants that quantiser and kernel share.
//
// A score in base-2 units is  q_scale * k_scale * (q . k as integers) + delta_s,  with scale * log2(e) of the softmax
// already folded into q. Storage, for head_dim D padded with zeros to P = 64 or 128:
//
//   q        int8  (B, Hq, Sq, P)                strided, rows on 16 bytes
//   k        int8  (B, Hkv, Sk, P)               strided, rows on 16 bytes
//   v        fp8   (B, Hkv, ceil(Sk/64), P, 64)  blocked: each 64-key tile transposed, a channel's 64 keys contiguous
//   q_scale  fp32  (B, Hq, groups of rows)       by QScaleRows
//   k_scale  fp32  (B, Hkv, ceil(Sk/64))
//   v_scale  fp32  (B, Hkv, P)                   per channel; packed: (sequences, Hkv, P)
//   delta_s        (B, Hq, ceil(Sq/128), Sk)     optional: what smoothing q took away, per block of 128 rows. int32:
//                  the C operand of the score product, bias_zero + rint(delta_s / (q_scale * k_scale)); or fp32.
//                  Packed: (1, Hq, blocks, min(max_k, Sk))
//   lse_shift fp32 (B, Hq, Sq)                   optional: added to the lse; what smoothing k took away
//
// Scales are positive. Codes of q and k are in [-127, 127]; a row of q whose codes are all -128 stands for NaN, and so
// does a tile of k whose scale is NaN: rows that see one of its keys become NaN. A NaN in v is an fp8 NaN.
//
// Packed sequences of different lengths (varlen) hold all tokens of a batch along Sq and Sk, with B = 1. Sequence b
// starts at token cu[b], at row block cu_q[b] / 128 + b, at 32-row group cu_q[b] / 32 + b and at key tile
// cu_k[b] / 64 + b; since a sequence of n tokens has at most n / m + 1 blocks of m, they never overlap. Offsets are
// taken as if they were within the tokens and did not decrease, and no sequence is longer than max_q and max_k: others
// give wrong results, but touch nothing outside the tensors.
#pragma once

#include "waveattn/attention/problem.h"
#include "waveattn/core/divide.h"
#include "waveattn/core/numeric.h"

#include <cstdint>

namespace waveattn {

enum class Fp8Format { fnuz, ocp }; // float8_e4m3fnuz (gfx942), float8_e4m3fn (gfx950)

// Which rows of q share a scale.
enum class QScaleRows {
    block,  // 128 consecutive rows
    warp,   // 32 consecutive rows
    thread, // the rows of 32 consecutive ones that are equal mod 8
};

enum class OutputType { bfloat16, float16, float32 };
template <class T> inline constexpr OutputType output_type = OutputType::float32;
template <> inline constexpr OutputType output_type<bfloat16> = OutputType::bfloat16;
template <> inline constexpr OutputType output_type<float16> = OutputType::float16;

namespace sage {

inline constexpr int tile_keys = 64;   // keys that share a k_scale, and a tile of v
inline constexpr int block_rows = 128; // rows of q that share a mean and a row of delta_s
inline constexpr int max_head_dim = 128;

WAVEATTN_HOST_DEVICE constexpr int padded_head_dim(int head_dim) { return head_dim <= 64 ? 64 : 128; }

// The order in which rows are fed to a 32x32 product whose accumulator a lane is to hold in natural order: operand row
// i is row natural_row(i), so that register r of lane half h is row 16h + r. See docs/kernels/sage.md.
WAVEATTN_HOST_DEVICE constexpr int natural_row(int i) { return 16 * (i >> 2 & 1) + 4 * (i >> 3) + (i & 3); }

// An int32 accumulator that starts here, read as fp32, is 12582912 + the sum, exactly while |sum| < 2^22.
inline constexpr std::int32_t bias_zero = 0x4B400000;
inline constexpr float bias_zero_value = 12582912.0f;
// Hence the largest |delta_s| in integer units beside the largest dot product of 128 pairs of int8 in [-127, 127].
inline constexpr std::int32_t max_bias = (1 << 22) - 127 * 127 * max_head_dim - 1;
// A product of scales is at least this for the kernel: 2^22 units of it are still no score.
inline constexpr float least_score_scale = 0x1p-40f;
// Codes of a row of q that held a NaN or an infinity, of which the kernel makes a row of NaN.
inline constexpr std::int32_t poisoned_codes = std::int32_t(0x80808080u);

WAVEATTN_HOST_DEVICE constexpr std::int64_t scale_groups(QScaleRows rows, std::int64_t q_len) {
    return rows == QScaleRows::block  ? ceil_div<std::int64_t>(q_len, block_rows)
           : rows == QScaleRows::warp ? ceil_div<std::int64_t>(q_len, 32)
                                      : 8 * ceil_div<std::int64_t>(q_len, 32);
}
// The group of a row, where the first row of its sequence is in row block or 32-row group `first`.
WAVEATTN_HOST_DEVICE constexpr std::int64_t scale_group(QScaleRows rows, std::int64_t row, std::int64_t first) {
    return rows == QScaleRows::block  ? first + row / block_rows
           : rows == QScaleRows::warp ? first + row / 32
                                      : 8 * (first + row / 32) + row % 8;
}

} // namespace sage

// Sequence boundaries of packed sequences, on the device: (sequences + 1) token offsets each.
struct PackedSequences {
    const std::int32_t* cu_q = nullptr;
    const std::int32_t* cu_k = nullptr;
    std::int64_t count = 0;            // sequences; 0 where the batch is not packed
    std::int64_t max_q = 0, max_k = 0; // the largest lengths, or more
    std::int64_t longest_q(std::int64_t tokens) const { return max_q < tokens ? max_q : tokens; }
    std::int64_t longest_k(std::int64_t tokens) const { return max_k < tokens ? max_k : tokens; }
};

// Sizes of the operands' axes where q and k have q_len and kv_len tokens.
struct SageSizes {
    std::int64_t sequences = 0, q_groups = 0, q_blocks = 0, k_tiles = 0, keys = 0; // keys: of delta_s
};
inline SageSizes sage_sizes(
    QScaleRows rows, std::int64_t batch, std::int64_t q_len, std::int64_t kv_len, const PackedSequences& packed) {
    if (packed.count == 0)
        return {batch, sage::scale_groups(rows, q_len), ceil_div<std::int64_t>(q_len, sage::block_rows),
            ceil_div<std::int64_t>(kv_len, sage::tile_keys), kv_len};
    const std::int64_t blocks = q_len / sage::block_rows + packed.count, warps = q_len / 32 + packed.count;
    const std::int64_t groups = rows == QScaleRows::block ? blocks : rows == QScaleRows::warp ? warps : 8 * warps;
    return {packed.count, groups, blocks, kv_len / sage::tile_keys + packed.count, packed.longest_k(kv_len)};
}

namespace detail {

// The shape of q, k and v before quantisation; v has their head_dim. Throws InvalidArgument and Unsupported.
inline void check_sage_shape(AttentionShape shape, std::optional<float> scale) {
    shape.head_dim_v = shape.head_dim;
    check_shape(shape, AttentionOptions{.scale = scale});
    require<Unsupported>(
        shape.head_dim <= sage::max_head_dim, "Sage attention supports head_dim 1 to 128, got ", shape.head_dim);
}

// What quantisation and attention can count. Throws Unsupported and InvalidArgument.
inline void check_sage_limits(
    std::int64_t batch, std::int64_t q_len, std::int64_t kv_len, const PackedSequences& packed) {
    const std::int64_t longest = std::int64_t(1) << 30;
    require<Unsupported>(
        q_len < longest && kv_len < longest, "lengths must be below 2^30, got ", q_len, " and ", kv_len);
    if (packed.count == 0) return;
    require(packed.count > 0, "the number of packed sequences must not be negative, got ", packed.count);
    require<Unsupported>(packed.count < longest, "there must be less than 2^30 packed sequences, got ", packed.count);
    require(batch == 1, "packed sequences need a batch of 1, got ", batch);
    require(packed.max_q >= 0 && packed.max_k >= 0, "max_q and max_k must not be negative, got ", packed.max_q, " and ",
        packed.max_k);
}
inline void check_sage_offsets(const PackedSequences& packed) {
    require(
        packed.count == 0 || (packed.cu_q && packed.cu_k), "packed sequences need cu_q and cu_k, got a null pointer");
}

} // namespace detail

// Quantised operands in device memory.
struct SageOperands {
    TensorView<const std::int8_t, 4> q;
    TensorView<const std::int8_t, 4> k;
    TensorView<const std::uint8_t, 5> v;
    TensorView<const float, 3> q_scale, k_scale, v_scale;
    TensorView<const std::int32_t, 4> delta_s_units; // at most one of the two is given
    TensorView<const float, 4> delta_s;
    TensorView<const float, 3> lse_shift;
    QScaleRows q_scale_rows = QScaleRows::block;
    Fp8Format v_format = Fp8Format::fnuz;
    PackedSequences packed;
};

namespace sage {

// One sequence of a batch, as a kernel sees it.
struct Sequence {
    std::int64_t sequence = 0;                         // its number
    std::int64_t batch = 0;                            // index for the batch strides: 0 where packed
    std::int64_t q_start = 0, kv_start = 0;            // first token
    std::int64_t q_block = 0, q_warp = 0, kv_tile = 0; // first block of 128 rows, of 32 rows, of 64 keys
    std::int32_t q_len = 0, kv_len = 0;
};

// One of a batch's sequences along an axis: its first token and its length.
struct Span {
    std::int32_t start, length;
};
// `longest` limits the length; `tokens` are all there are.
WAVEATTN_HOST_DEVICE inline Span packed_span(
    const std::int32_t* cu, std::int64_t index, std::int32_t longest, std::int32_t tokens) {
    std::int32_t start = cu[index], end = cu[index + 1];
    start = start < 0 ? 0 : start < tokens ? start : tokens;
    end = end < start ? start : end < tokens ? end : tokens;
    return {start, end - start < longest ? end - start : longest};
}

// q_len and kv_len are the lengths, or the limits of them where sequences are packed.
WAVEATTN_HOST_DEVICE inline Sequence locate_sequence(std::int64_t index, const std::int32_t* cu_q,
    const std::int32_t* cu_k, std::int32_t q_len, std::int32_t kv_len, std::int32_t q_tokens, std::int32_t k_tokens) {
    if (!cu_q) return {index, index, 0, 0, 0, 0, 0, q_len, kv_len};
    const Span q = packed_span(cu_q, index, q_len, q_tokens), k = packed_span(cu_k, index, kv_len, k_tokens);
    Sequence s;
    s.sequence = index;
    s.q_start = q.start, s.kv_start = k.start, s.q_len = q.length, s.kv_len = k.length;
    s.q_block = s.q_start / block_rows + index, s.q_warp = s.q_start / 32 + index;
    s.kv_tile = s.kv_start / tile_keys + index;
    return s;
}

} // namespace sage
} // namespace waveattn
