// The steps of Sage quantisation on the host, with the roundings and the order of sums of the device passes
// (attention/sage_quantize.h): bit for bit the same results. For tests, tools and offline packing; plain loops.
//
// Tensors are contiguous (batch, head, token, dim) fp32 values, already rounded to the input's type.
#pragma once

#include "waveattn/attention/sage_format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace waveattn::sage {

// ---- what host and device share ----

inline constexpr int stat_lanes = 64; // rows that a statistics workgroup adds at once
inline constexpr int quantize_threads = 256;
inline constexpr int lane_channels = 8; // a lane of the quantising passes holds 8 channels of a row

// ---- magnitudes: any finite fp32 value, denormals included, is quantised by its block's largest ----

WAVEATTN_HOST_DEVICE constexpr bool is_finite(float x) { return __builtin_fabsf(x) <= 3.40282347e38f; }
// NaN and infinity take part in no mean and no largest value.
WAVEATTN_HOST_DEVICE constexpr float finite_or_zero(float x) { return is_finite(x) ? x : 0.f; }
// |x| as bits, in the order of the values: infinity above all finite ones, NaN above infinity.
WAVEATTN_HOST_DEVICE constexpr std::int32_t magnitude(float x) {
    return __builtin_bit_cast(std::int32_t, x) & 0x7fffffff;
}
WAVEATTN_HOST_DEVICE constexpr float power_of_two(int exponent) { // -126 to 127
    return __builtin_bit_cast(float, (exponent + 127) << 23);
}

// x becomes the code x * lift * inverse, rounded, which stands for code * scale. `lift`, 1 or 2^64, keeps the inverse
// of tiny scales finite.
struct CodeScale {
    float scale, lift, inverse;
};
WAVEATTN_HOST_DEVICE constexpr float code_lift(float amax) { return amax < 0x1p-64f ? 0x1p64f : 1.f; }
// Of a block whose largest magnitude is amax: 127 steps. Where it is NaN or infinite the scale is NaN. Zero blocks get
// a tiny positive one.
WAVEATTN_HOST_DEVICE constexpr CodeScale int8_scale(float amax) {
    if (!is_finite(amax)) return {__builtin_nanf(""), 1.f, 0.f};
    const float largest = amax < 0x1p-126f ? 0x1p-126f : amax;
    return {largest / 127.f, code_lift(largest), 127.f / (largest * code_lift(largest))};
}
// Of a channel of v. A scale that would be denormal is a power of two, and so exact; fp8 codes do not need their range.
WAVEATTN_HOST_DEVICE constexpr CodeScale fp8_scale(float amax, float largest) {
    if (amax >= 0x1p-118f) return {amax / largest, code_lift(amax), largest / (amax * code_lift(amax))};
    int exponent = (magnitude(amax * 0x1p64f) >> 23) - 127 - 6; // codes below 2^7, after the lift
    if (exponent < 64 - 149) exponent = 64 - 149;
    return {power_of_two(exponent) * 0x1p-64f, 0x1p64f, power_of_two(-exponent)};
}

// With this guard |delta_s| <= 127 * l1(q_mean) * k_scale <= 127 * 2^14 units of q_scale * k_scale, below max_bias.
// delta_s as fp32 only needs a quotient that fp32 holds.
static_assert(127 * (1 << 14) + 1 < max_bias);
WAVEATTN_HOST_DEVICE constexpr float delta_guard(QScaleRows rows) {
    return rows == QScaleRows::block ? 127.f * 0x1p-14f : 127.f * 0x1p-37f;
}
// The l1 norm is summed in units of 128, the most channels there are, so that it is finite where the mean is.
inline constexpr float l1_unit = 128.f;
WAVEATTN_HOST_DEVICE constexpr float delta_inverse(float q_scale, float k_scale) {
    const float product = q_scale * k_scale;
    return 1.f / (product > least_score_scale ? product : least_score_scale);
}
WAVEATTN_HOST_DEVICE inline std::int32_t delta_units(float delta, float inverse) {
    const float units = __builtin_rintf(delta * inverse), most = float(max_bias);
    return bias_zero + (units > most ? max_bias : units < -most ? -max_bias : units == units ? int(units) : 0);
}

// Means are sums of value * mean_weight, a power of two, over count * mean_weight: no sum overflows.
WAVEATTN_HOST_DEVICE constexpr float mean_weight(std::int64_t count) {
    int log = 0;
    while ((std::int64_t(1) << log) < count) ++log;
    return power_of_two(-log);
}

// The sequence is summed in this many chunks, and each by stat_lanes strided sums that are then added as a tree.
WAVEATTN_HOST_DEVICE constexpr int stat_chunks(std::int64_t tokens) { return tokens > 512 ? 2 : 1; }
WAVEATTN_HOST_DEVICE constexpr std::int64_t stat_chunk_rows(std::int64_t tokens) {
    return stat_chunks(tokens) == 1 ? tokens : round_up<std::int64_t>(ceil_div<std::int64_t>(tokens, 2), stat_lanes);
}
// Rows that a quantising workgroup holds at once.
WAVEATTN_HOST_DEVICE constexpr int rows_at_once(int padded) { return quantize_threads * lane_channels / padded; }
WAVEATTN_HOST_DEVICE constexpr float rotation_scale(int padded) { return padded == 64 ? 0.125f : 0.08838834764831845f; }
WAVEATTN_HOST_DEVICE constexpr float fp8_largest(Fp8Format format) { return format == Fp8Format::fnuz ? 240.f : 448.f; }

} // namespace waveattn::sage

namespace waveattn {

struct SageHostOptions {
    float scale = 1;
    bool smooth_k = true, smooth_q = false, hadamard = false;
    QScaleRows q_scale_rows = QScaleRows::block;
    Fp8Format format = Fp8Format::fnuz;
};

// Everything the quantiser makes, contiguous, for one batch of equal lengths.
struct SageHostOperands {
    std::int64_t batch = 0, heads_q = 0, heads_kv = 0, q_len = 0, kv_len = 0;
    int head_dim = 0, padded = 0;
    std::vector<std::int8_t> q, k; // (B, Hq, Sq, P), (B, Hkv, Sk, P)
    std::vector<std::uint8_t> v;   // (B, Hkv, tiles, P, 64)
    std::vector<float> q_scale, k_scale, v_scale;
    std::vector<float> k_mean;  // (B, Hkv, P), not rotated
    std::vector<float> q_mean;  // (B, Hq, blocks, P), rotated like q
    std::vector<float> delta_s; // (B, Hq, blocks, Sk); empty without smooth_q
    std::vector<std::int32_t> delta_s_units;
    std::vector<float> lse_shift; // (B, Hq, Sq); empty without smooth_k
};

namespace sage {

inline std::uint8_t encode_fp8(float value, Fp8Format format) {
    return format == Fp8Format::fnuz ? from_float<float8_e4m3fnuz>(value).bits : from_float<float8_e4m3fn>(value).bits;
}
inline float decode_fp8(std::uint8_t bits, Fp8Format format) {
    return format == Fp8Format::fnuz ? to_float(float8_e4m3fnuz{bits}) : to_float(float8_e4m3fn{bits});
}

inline std::int64_t heads_per_kv_head(const SageHostOperands& operands) {
    return operands.heads_kv == 0 ? 1 : operands.heads_q / operands.heads_kv;
}

// Normalised Walsh-Hadamard transform of a row (Sylvester's order): orthogonal, and its own inverse.
inline void rotate(float* row, int padded) {
    for (int i = 0; i < padded; ++i) row[i] *= rotation_scale(padded);
    for (int stride = 1; stride < padded; stride *= 2)
        for (int i = 0; i < padded; ++i)
            if (!(i & stride)) {
                const float a = row[i], b = row[i + stride];
                row[i] = a + b, row[i + stride] = a - b;
            }
}

// Sums a power-of-two number of values as the device's tree does.
inline float tree_sum(std::vector<float> values) {
    for (std::size_t n = values.size() / 2; n > 0; n /= 2)
        for (std::size_t i = 0; i < n; ++i) values[i] += values[i + n];
    return values[0];
}

// Sums the lanes of a row, a power of two of them, as they add crosswise: neighbours first.
inline float crosswise_sum(std::vector<float> lanes) {
    for (std::size_t s = 1; s < lanes.size(); s *= 2)
        for (std::size_t i = 0; i < lanes.size(); i += 2 * s) lanes[i] += lanes[i + s];
    return lanes[0];
}

// The mean of each channel over the tokens of one head. A value that is not finite counts as 0.
inline std::vector<float> channel_mean(const float* head, std::int64_t tokens, int head_dim, int padded) {
    std::vector<float> mean(std::size_t(padded), 0.f);
    const std::int64_t rows = stat_chunk_rows(tokens);
    const float weight = mean_weight(tokens);
    for (int d = 0; d < head_dim && tokens > 0; ++d) {
        float total = 0;
        for (int chunk = 0; chunk < stat_chunks(tokens); ++chunk) {
            std::vector<float> lanes(stat_lanes, 0.f);
            const std::int64_t first = chunk * rows, end = std::min(tokens, first + rows);
            for (std::int64_t t = first; t < end; ++t) {
                float& lane = lanes[std::size_t((t - first) % stat_lanes)];
                lane = std::fma(finite_or_zero(head[t * head_dim + d]), weight, lane);
            }
            const float sum = tree_sum(lanes);
            total = chunk == 0 ? sum : total + sum;
        }
        mean[std::size_t(d)] = total / (float(tokens) * weight);
    }
    return mean;
}

// 127 for a NaN, whose scale is NaN too.
inline std::int8_t to_int8(float value, const CodeScale& scale) {
    const float code = std::nearbyint(value * scale.lift * scale.inverse);
    return std::int8_t(code == code ? std::clamp(code, -127.f, 127.f) : 127.f);
}
inline float as_magnitude(std::int32_t bits) { return __builtin_bit_cast(float, bits); }

inline void quantize_q(SageHostOperands& out, const std::vector<float>& q, const SageHostOptions& options) {
    const int P = out.padded, R = rows_at_once(P);
    const std::int64_t blocks = ceil_div<std::int64_t>(out.q_len, block_rows);
    const std::int64_t groups = scale_groups(options.q_scale_rows, out.q_len), group = heads_per_kv_head(out);
    out.q.assign(std::size_t(out.batch * out.heads_q * out.q_len * P), 0);
    out.q_scale.assign(std::size_t(out.batch * out.heads_q * groups), 0.f);
    out.q_mean.assign(options.smooth_q ? std::size_t(out.batch * out.heads_q * blocks * P) : 0, 0.f);
    out.lse_shift.assign(options.smooth_k ? std::size_t(out.batch * out.heads_q * out.q_len) : 0, 0.f);
    const float factor = score_scale_log2(AttentionOptions{.scale = options.scale}, {});
    for (std::int64_t plane = 0; plane < out.batch * out.heads_q; ++plane)
        for (std::int64_t block = 0; block < blocks; ++block) {
            const std::int64_t first = block * block_rows;
            const int count = int(std::min<std::int64_t>(block_rows, out.q_len - first));
            std::vector<float> x(std::size_t(block_rows * P), 0.f);
            const float* k_mean =
                &out.k_mean[std::size_t((plane / out.heads_q * out.heads_kv + plane % out.heads_q / group) * P)];
            for (int r = 0; r < count; ++r) {
                float* row = &x[std::size_t(r * P)];
                for (int d = 0; d < out.head_dim; ++d)
                    row[d] = q[std::size_t((plane * out.q_len + first + r) * out.head_dim + d)] * factor;
                if (options.smooth_k) {
                    std::vector<float> lanes(std::size_t(P / lane_channels), 0.f);
                    for (int d = 0; d < P; ++d) {
                        float& lane = lanes[std::size_t(d / lane_channels)];
                        lane = std::fma(row[d], k_mean[d], lane);
                    }
                    out.lse_shift[std::size_t(plane * out.q_len + first + r)] =
                        crosswise_sum(lanes) * 0.693147180559945309417f;
                }
                if (options.hadamard) rotate(row, P);
            }
            float l1 = 0;
            if (options.smooth_q) {
                float* mean = &out.q_mean[std::size_t((plane * blocks + block) * P)];
                std::vector<float> lanes(std::size_t(P / lane_channels), 0.f);
                for (int d = 0; d < P; ++d) {
                    std::vector<float> sums(std::size_t(R), 0.f);
                    for (int r = 0; r < block_rows; ++r) {
                        float& sum = sums[std::size_t(r % R)];
                        sum = std::fma(finite_or_zero(x[std::size_t(r * P + d)]), 1.f / block_rows, sum);
                    }
                    mean[d] = tree_sum(sums) / (float(count) / block_rows);
                    float& lane = lanes[std::size_t(d / lane_channels)];
                    lane = std::fma(std::abs(mean[d]), 1.f / l1_unit, lane);
                    for (int r = 0; r < count; ++r) x[std::size_t(r * P + d)] -= mean[d];
                }
                l1 = crosswise_sum(lanes);
            }
            std::vector<float> amax(std::size_t(block_rows), l1 * (delta_guard(options.q_scale_rows) * l1_unit));
            std::vector<bool> poisoned(std::size_t(block_rows), false);
            const auto local = [&](int r) { return std::size_t(scale_group(options.q_scale_rows, r, 0)); };
            for (int r = 0; r < count; ++r) {
                std::int32_t largest = 0;
                for (int d = 0; d < P; ++d) largest = std::max(largest, magnitude(x[std::size_t(r * P + d)]));
                poisoned[std::size_t(r)] = !is_finite(as_magnitude(largest));
                if (!poisoned[std::size_t(r)]) amax[local(r)] = std::max(amax[local(r)], as_magnitude(largest));
            }
            for (int r = 0; r < count; ++r) {
                const CodeScale scale = int8_scale(amax[local(r)]);
                for (int d = 0; d < P; ++d)
                    out.q[std::size_t((plane * out.q_len + first + r) * P + d)] =
                        poisoned[std::size_t(r)] ? std::int8_t(-128) : to_int8(x[std::size_t(r * P + d)], scale);
                out.q_scale[std::size_t(plane * groups + scale_group(options.q_scale_rows, first + r, 0))] =
                    scale.scale;
            }
            // Groups of the last block that no row belongs to.
            for (std::int64_t g = 0; g < groups; ++g)
                if (float& scale = out.q_scale[std::size_t(plane * groups + g)]; scale == 0 && block == blocks - 1)
                    scale = int8_scale(l1 * (delta_guard(options.q_scale_rows) * l1_unit)).scale;
        }
}

inline void quantize_k(SageHostOperands& out, const std::vector<float>& k, const SageHostOptions& options) {
    const int P = out.padded;
    const std::int64_t tiles = ceil_div<std::int64_t>(out.kv_len, tile_keys), group = heads_per_kv_head(out);
    const std::int64_t blocks = ceil_div<std::int64_t>(out.q_len, block_rows);
    out.k.assign(std::size_t(out.batch * out.heads_kv * out.kv_len * P), 0);
    out.k_scale.assign(std::size_t(out.batch * out.heads_kv * tiles), 0.f);
    out.delta_s.assign(options.smooth_q ? std::size_t(out.batch * out.heads_q * blocks * out.kv_len) : 0, 0.f);
    out.delta_s_units.assign(out.delta_s.size(), 0);
    for (std::int64_t plane = 0; plane < out.batch * out.heads_kv; ++plane)
        for (std::int64_t tile = 0; tile < tiles; ++tile) {
            const std::int64_t first = tile * tile_keys;
            const int count = int(std::min<std::int64_t>(tile_keys, out.kv_len - first));
            std::vector<float> x(std::size_t(tile_keys * P), 0.f);
            std::int32_t amax = 0;
            for (int r = 0; r < count; ++r) {
                float* row = &x[std::size_t(r * P)];
                for (int d = 0; d < out.head_dim; ++d)
                    row[d] = k[std::size_t((plane * out.kv_len + first + r) * out.head_dim + d)] -
                             (options.smooth_k ? out.k_mean[std::size_t(plane * P + d)] : 0.f);
                if (options.hadamard) rotate(row, P);
                for (int d = 0; d < P; ++d) amax = std::max(amax, magnitude(row[d]));
            }
            const CodeScale k_scale = int8_scale(as_magnitude(amax));
            out.k_scale[std::size_t(plane * tiles + tile)] = k_scale.scale;
            for (int r = 0; r < count; ++r)
                for (int d = 0; d < P; ++d)
                    out.k[std::size_t((plane * out.kv_len + first + r) * P + d)] =
                        to_int8(x[std::size_t(r * P + d)], k_scale);
            if (!options.smooth_q) continue;
            for (std::int64_t member = 0; member < group; ++member)
                for (std::int64_t block = 0; block < blocks; ++block) {
                    const std::int64_t head =
                        plane / out.heads_kv * out.heads_q + plane % out.heads_kv * group + member;
                    const float* mean = &out.q_mean[std::size_t((head * blocks + block) * P)];
                    float inverse = 0;
                    if (options.q_scale_rows == QScaleRows::block)
                        inverse = delta_inverse(out.q_scale[std::size_t(head * blocks + block)], k_scale.scale);
                    for (int r = 0; r < count; ++r) {
                        float delta = 0;
                        for (int d = 0; d < P; ++d) delta = std::fma(mean[d], x[std::size_t(r * P + d)], delta);
                        const std::size_t at = std::size_t((head * blocks + block) * out.kv_len + first + r);
                        out.delta_s[at] = delta;
                        out.delta_s_units[at] = delta_units(delta, inverse);
                    }
                }
        }
}

inline void quantize_v(SageHostOperands& out, const std::vector<float>& v, const SageHostOptions& options) {
    const int P = out.padded;
    const std::int64_t tiles = ceil_div<std::int64_t>(out.kv_len, tile_keys);
    const float largest = fp8_largest(options.format);
    out.v.assign(std::size_t(out.batch * out.heads_kv * tiles * P * tile_keys), 0);
    out.v_scale.assign(std::size_t(out.batch * out.heads_kv * P), 0.f);
    for (std::int64_t plane = 0; plane < out.batch * out.heads_kv; ++plane)
        for (int d = 0; d < P; ++d) {
            float amax = 0;
            for (std::int64_t t = 0; t < out.kv_len && d < out.head_dim; ++t)
                amax = std::max(
                    amax, std::abs(finite_or_zero(v[std::size_t((plane * out.kv_len + t) * out.head_dim + d)])));
            const CodeScale scale = fp8_scale(amax, largest);
            out.v_scale[std::size_t(plane * P + d)] = scale.scale;
            for (std::int64_t t = 0; t < out.kv_len && d < out.head_dim; ++t) {
                const float value = v[std::size_t((plane * out.kv_len + t) * out.head_dim + d)];
                const float code = is_finite(value) ? std::clamp(value * scale.lift * scale.inverse, -largest, largest)
                                                    : std::numeric_limits<float>::quiet_NaN();
                out.v[std::size_t(((plane * tiles + t / tile_keys) * P + d) * tile_keys + t % tile_keys)] =
                    encode_fp8(code, options.format);
            }
        }
}

} // namespace sage

// All steps. Throws InvalidArgument for sizes that do not fit the shape, and Unsupported for head_dim above 128.
inline SageHostOperands sage_quantize_host(const std::vector<float>& q, const std::vector<float>& k,
    const std::vector<float>& v, const AttentionShape& shape, const SageHostOptions& options) {
    detail::check_sage_shape(shape, options.scale);
    const auto check_size = [&](const char* name, const std::vector<float>& values, std::int64_t rows) {
        require(std::int64_t(values.size()) == shape.batch * rows * shape.head_dim, name, " must have ",
            shape.batch * rows * shape.head_dim, " values, got ", values.size());
    };
    check_size("q", q, shape.heads_q * shape.q_len);
    check_size("k", k, shape.heads_kv * shape.kv_len);
    check_size("v", v, shape.heads_kv * shape.kv_len);
    SageHostOperands out;
    out.batch = shape.batch, out.heads_q = shape.heads_q, out.heads_kv = shape.heads_kv;
    out.q_len = shape.q_len, out.kv_len = shape.kv_len;
    out.head_dim = int(shape.head_dim), out.padded = sage::padded_head_dim(out.head_dim);
    for (std::int64_t plane = 0; plane < shape.batch * shape.heads_kv; ++plane) {
        const auto mean = sage::channel_mean(
            k.data() + plane * shape.kv_len * shape.head_dim, shape.kv_len, out.head_dim, out.padded);
        out.k_mean.insert(out.k_mean.end(), mean.begin(), mean.end());
    }
    sage::quantize_q(out, q, options);
    sage::quantize_k(out, k, options);
    sage::quantize_v(out, v, options);
    return out;
}

} // namespace waveattn
