// The three passes of Sage quantisation, gfx942 and gfx950.
//
//   sage_statistics    sums of K and largest |V| of each channel, over chunks of the sequence
//   sage_quantize_q    128 rows of one head: scale, lse shift, rotation, mean, int8
//   sage_quantize_kv   64 keys of one head: K smoothed, rotated, int8, with its rows of delta_s; or V as blocked fp8
//
// Roundings and the order of sums are those of attention/sage_host.h, so that both give the same bits. A lane holds 8
// channels of a row; P / 8 neighbouring lanes hold a row.
#pragma once

#include "waveattn/attention/sage_format.h"
#include "waveattn/attention/sage_host.h"
#include "waveattn/attention/sage_staging.h"

namespace waveattn::detail {

enum class SageInput { bfloat16, float16, float32 };
template <class T> inline constexpr SageInput sage_input = SageInput::float32;
template <> inline constexpr SageInput sage_input<bfloat16> = SageInput::bfloat16;
template <> inline constexpr SageInput sage_input<float16> = SageInput::float16;

struct SageSource {
    const void* data;
    std::int64_t batch, head, row; // strides, in elements
    bool wide;                     // rows on 16 bytes, and head_dim a multiple of 8
};

struct SageQuantizeParams {
    SageSource q, k, v;
    SageInput input;
    std::int8_t *q8, *k8;
    std::uint8_t* v8;
    float *q_scale, *k_scale, *v_scale, *q_mean, *lse_shift; // the last two may be null
    float *k_sums, *v_amax;                                  // [sequence, head, chunk, P]
    std::int32_t* delta_s_units;                             // one of the two where q is smoothed
    float* delta_s;
    const std::int32_t *cu_q, *cu_k;
    // Sizes of the outputs' axes: rows and groups of q, rows and tiles of k, blocks and keys of delta_s.
    std::int64_t q_rows, q_groups, k_rows, k_tiles, blocks, keys;
    std::int32_t sequences, heads_q, heads_kv, group, q_len, kv_len, q_tokens, k_tokens, head_dim;
    std::int32_t launch_blocks, launch_tiles; // for the longest sequence
    float factor;                             // scale * log2(e)
    float fp8_largest;
    bool smooth_k, hadamard;
    QScaleRows q_scale_rows;
};

#ifdef __HIP__

WAVEATTN_DEVICE sage::Sequence sage_sequence(const SageQuantizeParams& p, int index) {
    return sage::locate_sequence(index, p.cu_q, p.cu_k, p.q_len, p.kv_len, p.q_tokens, p.k_tokens);
}

// 8 channels of a row as fp32; zeros from channel `head_dim` on.
struct SageRow {
    float x[8];
    WAVEATTN_DEVICE void clear() {
        static_for<0, 8>([&](auto e) { x[e.value] = 0.f; });
    }
    WAVEATTN_DEVICE void load(
        const SageSource& from, SageInput input, std::int64_t row_offset, int channel, int head_dim) {
        clear();
        if (from.wide) {
            if (channel >= head_dim) return;
            if (input == SageInput::float32) {
                const float* at = static_cast<const float*>(from.data) + row_offset + channel;
                const auto low = *reinterpret_cast<const arch::float4v*>(at);
                const auto high = *reinterpret_cast<const arch::float4v*>(at + 4);
                static_for<0, 4>([&](auto e) { x[e.value] = low[e.value], x[4 + e.value] = high[e.value]; });
                return;
            }
            const auto words = *reinterpret_cast<const arch::int4v*>(
                static_cast<const std::uint16_t*>(from.data) + row_offset + channel);
            static_for<0, 8>([&](auto e) {
                const auto bits = std::uint16_t(unsigned(words[e.value / 2]) >> (e.value % 2 * 16));
                x[e.value] = decode(input, bits);
            });
            return;
        }
        static_for<0, 8>([&](auto e) {
            if (channel + e.value < head_dim) {
                const std::int64_t at = row_offset + channel + e.value;
                x[e.value] = input == SageInput::float32
                                 ? static_cast<const float*>(from.data)[at]
                                 : decode(input, static_cast<const std::uint16_t*>(from.data)[at]);
            }
        });
    }
    WAVEATTN_DEVICE static float decode(SageInput input, std::uint16_t bits) {
        return input == SageInput::bfloat16 ? __builtin_bit_cast(float, unsigned(bits) << 16)
                                            : float(__builtin_bit_cast(_Float16, bits));
    }

    // Rounded products: opaque, or a later addition would take them in unrounded.
    WAVEATTN_DEVICE void scale(float factor) {
        static_for<0, 8>([&](auto e) { x[e.value] = arch::opaque(x[e.value] * factor); });
    }

    // ---- across the Lanes lanes of a row ----
    template <int Lanes> WAVEATTN_DEVICE static float row_sum(float value) {
        static_for<0, 4>([&](auto bit) {
            constexpr int mask = 1 << bit.value;
            if constexpr (mask < Lanes) value += arch::shuffle_xor(value, mask);
        });
        return value;
    }
    // The largest magnitude of the row, as bits (sage::magnitude): of a NaN or an infinity, if there is one.
    template <int Lanes> WAVEATTN_DEVICE int row_magnitude() const {
        int largest = 0;
        static_for<0, 8>([&](auto e) { largest = larger(largest, sage::magnitude(x[e.value])); });
        static_for<0, 4>([&](auto bit) {
            constexpr int mask = 1 << bit.value;
            if constexpr (mask < Lanes) largest = larger(largest, arch::shuffle_xor(largest, mask));
        });
        return largest;
    }
    WAVEATTN_DEVICE static int larger(int a, int b) { return a > b ? a : b; }
    template <int P> WAVEATTN_DEVICE void rotate(int lane) {
        scale(sage::rotation_scale(P));
        static_for<0, 3>([&](auto bit) {
            constexpr int stride = 1 << bit.value;
            static_for<0, 8>([&](auto e) {
                if constexpr (!(e.value & stride)) {
                    const float a = x[e.value], b = x[e.value + stride];
                    x[e.value] = a + b, x[e.value + stride] = a - b;
                }
            });
        });
        static_for<0, 4>([&](auto bit) {
            constexpr int mask = 1 << bit.value;
            if constexpr (mask * 8 < P)
                static_for<0, 8>([&](auto e) {
                    const float other = arch::shuffle_xor(x[e.value], mask);
                    x[e.value] = lane & mask ? other - x[e.value] : x[e.value] + other;
                });
        });
    }
    // To int8, stored as 8 bytes. A NaN becomes 127.
    WAVEATTN_DEVICE void store_int8(std::int8_t* at, const sage::CodeScale& scale) const {
        int words[2] = {0, 0};
        static_for<0, 8>([&](auto e) {
            const float code = arch::round_even(x[e.value] * scale.lift * scale.inverse);
            words[e.value / 4] |= (int(arch::max(arch::min(code, 127.f), -127.f)) & 0xff) << 8 * (e.value % 4);
        });
        *reinterpret_cast<arch::int2v*>(at) = arch::int2v{words[0], words[1]};
    }
};

// Each lane's 8 channels of what the first P / 8 threads make of the chunks' statistics; the others read it from LDS.
template <int P, class Make> WAVEATTN_DEVICE void sage_shared_channels(float (&values)[8], Make&& make) {
    alignas(16) __shared__ float shared[P];
    const int thread = int(arch::thread_x()), channel = thread % (P / 8) * 8;
    if (thread < P / 8) static_for<0, 8>([&](auto e) { shared[channel + e.value] = make(channel + e.value); });
    arch::barrier();
    static_for<0, 8>([&](auto e) { values[e.value] = shared[channel + e.value]; });
}
// A lane's 8 channels of the mean of K, from the chunks' sums.
template <int P>
WAVEATTN_DEVICE void sage_k_mean(const SageQuantizeParams& p, const sage::Sequence& s, int kv_head, float (&mean)[8]) {
    static_for<0, 8>([&](auto e) { mean[e.value] = 0.f; });
    if (!p.smooth_k || s.kv_len == 0) return;
    const float* sums = p.k_sums + ((s.sequence * p.heads_kv + kv_head) * 2) * P;
    const bool two = sage::stat_chunks(s.kv_len) == 2;
    sage_shared_channels<P>(mean, [&](int channel) {
        const float total = two ? sums[channel] + sums[P + channel] : sums[channel];
        return total / (float(s.kv_len) * sage::mean_weight(s.kv_len));
    });
}

// ---- pass 1 ----
template <int P> WAVEATTN_DEVICE void sage_statistics(const SageQuantizeParams& p) {
    __shared__ float lanes[sage::stat_lanes][32];
    const int thread = int(arch::thread_x()), row_lane = thread / 4, first_channel = thread % 4 * 8;
    int index = int(arch::block_x());
    const int chunk = index % 2;
    index /= 2;
    const int slice = index % (P / 32);
    index /= P / 32;
    const int plane = index % (p.sequences * p.heads_kv);
    const bool of_k = p.smooth_k && index < p.sequences * p.heads_kv;
    const int kv_head = plane % p.heads_kv;
    const sage::Sequence s = sage_sequence(p, plane / p.heads_kv);
    if (chunk >= sage::stat_chunks(s.kv_len)) return;
    const SageSource& from = of_k ? p.k : p.v;
    const int channel = 32 * slice + first_channel;
    const std::int64_t base = s.batch * from.batch + kv_head * from.head + s.kv_start * from.row;
    const std::int64_t rows = sage::stat_chunk_rows(s.kv_len), first = chunk * rows;
    const std::int64_t end = first + rows < s.kv_len ? first + rows : s.kv_len;
    const float weight = sage::mean_weight(s.kv_len);
    SageRow total, row;
    total.clear();
#    pragma unroll 4
    for (std::int64_t t = first + row_lane; t < end; t += sage::stat_lanes) {
        row.load(from, p.input, base + t * from.row, channel, p.head_dim);
        static_for<0, 8>([&](auto e) {
            const float value = sage::finite_or_zero(row.x[e.value]);
            float& sum = total.x[e.value];
            sum = of_k ? arch::fma(value, weight, sum) : arch::max(sum, arch::abs(value));
        });
    }
    static_for<0, 8>([&](auto e) { lanes[row_lane][first_channel + e.value] = total.x[e.value]; });
    for (int n = sage::stat_lanes / 2; n > 0; n /= 2) {
        arch::barrier();
        if (row_lane < n)
            static_for<0, 8>([&](auto e) {
                float& mine = lanes[row_lane][first_channel + e.value];
                const float other = lanes[row_lane + n][first_channel + e.value];
                mine = of_k ? mine + other : arch::max(mine, other);
            });
    }
    if (row_lane == 0) {
        float* to = (of_k ? p.k_sums : p.v_amax) + (std::int64_t(plane) * 2 + chunk) * P + channel;
        static_for<0, 8>([&](auto e) { to[e.value] = lanes[0][first_channel + e.value]; });
    }
}

// ---- pass 2 ----
template <int P> WAVEATTN_DEVICE void sage_quantize_q(const SageQuantizeParams& p) {
    constexpr int lanes = P / 8, at_once = sage::rows_at_once(P), steps = sage::block_rows / at_once;
    __shared__ float sums[at_once][P];
    __shared__ float row_amax[sage::block_rows];
    const int thread = int(arch::thread_x()), lane = thread % lanes, row_lane = thread / lanes, channel = 8 * lane;
    const int block = int(arch::block_x()) % p.launch_blocks, plane = int(arch::block_x()) / p.launch_blocks;
    const int head = plane % p.heads_q, kv_head = head / p.group;
    const sage::Sequence s = sage_sequence(p, plane / p.heads_q);
    const int first = block * sage::block_rows;
    if (first >= s.q_len) return;
    const int count = s.q_len - first < sage::block_rows ? s.q_len - first : sage::block_rows;
    const std::int64_t out_plane = s.batch * p.heads_q + head; // of the outputs
    float k_mean[8];
    if (p.lse_shift) sage_k_mean<P>(p, s, kv_head, k_mean);

    SageRow x[steps]; // row at_once * step + row_lane
    static_for<0, steps>([&](auto step) {
        SageRow& row = x[step.value];
        const int r = at_once * step.value + row_lane;
        row.clear();
        if (r < count)
            row.load(p.q, p.input, s.batch * p.q.batch + head * p.q.head + (s.q_start + first + r) * p.q.row, channel,
                p.head_dim);
        row.scale(p.factor);
        if (p.lse_shift) {
            float dot = 0.f;
            static_for<0, 8>([&](auto e) { dot = arch::fma(row.x[e.value], k_mean[e.value], dot); });
            dot = SageRow::row_sum<lanes>(dot);
            if (lane == 0 && r < count) p.lse_shift[out_plane * p.q_rows + s.q_start + first + r] = dot * arch::ln2;
        }
        if (p.hadamard) row.template rotate<P>(lane);
    });

    float l1 = 0.f;
    if (p.q_mean) {
        static_for<0, 8>([&](auto e) {
            float sum = 0.f;
            static_for<0, steps>([&](auto step) {
                sum = arch::fma(sage::finite_or_zero(x[step.value].x[e.value]), 1.f / sage::block_rows, sum);
            });
            sums[row_lane][channel + e.value] = sum;
        });
        for (int n = at_once / 2; n > 0; n /= 2) {
            arch::barrier();
            if (row_lane < n)
                static_for<0, 8>(
                    [&](auto e) { sums[row_lane][channel + e.value] += sums[row_lane + n][channel + e.value]; });
        }
        arch::barrier();
        float mean[8];
        static_for<0, 8>([&](auto e) {
            mean[e.value] = sums[0][channel + e.value] / (float(count) / sage::block_rows);
            l1 = arch::fma(arch::abs(mean[e.value]), 1.f / sage::l1_unit, l1);
        });
        l1 = SageRow::row_sum<lanes>(l1);
        if (row_lane == 0)
            static_for<0, 8>([&](auto e) {
                p.q_mean[(out_plane * p.blocks + s.q_block + block) * P + channel + e.value] = mean[e.value];
            });
        static_for<0, steps>([&](auto step) {
            if (at_once * step.value + row_lane < count)
                static_for<0, 8>([&](auto e) { x[step.value].x[e.value] -= mean[e.value]; });
        });
    }

    unsigned poisoned = 0; // bit of each step: the row holds a NaN or an infinity
    static_for<0, steps>([&](auto step) {
        const float largest = __builtin_bit_cast(float, x[step.value].template row_magnitude<lanes>());
        poisoned |= unsigned(!sage::is_finite(largest)) << step.value;
        if (lane == 0) row_amax[at_once * step.value + row_lane] = sage::finite_or_zero(largest);
    });
    arch::barrier();
    const float guard = l1 * (sage::delta_guard(p.q_scale_rows) * sage::l1_unit);
    float* q_scale = p.q_scale + out_plane * p.q_groups;
    const std::int64_t first_group = p.q_scale_rows == QScaleRows::block ? s.q_block : s.q_warp;
    float block_amax = guard;
    if (p.q_scale_rows == QScaleRows::block)
        for (int r = 0; r < sage::block_rows; ++r) block_amax = arch::max(block_amax, row_amax[r]);
    static_for<0, steps>([&](auto step) {
        const int r = at_once * step.value + row_lane, warp = r & ~31;
        float largest = block_amax;
        if (p.q_scale_rows == QScaleRows::warp)
            for (int i = 0; i < 32; ++i) largest = arch::max(largest, row_amax[warp + i]);
        if (p.q_scale_rows == QScaleRows::thread)
            for (int i = r & 7; i < 32; i += 8) largest = arch::max(largest, row_amax[warp + i]);
        const int leader = p.q_scale_rows == QScaleRows::block ? 128 : p.q_scale_rows == QScaleRows::warp ? 32 : 8;
        const bool leads = leader == 8 ? (r & 31) < 8 : r % leader == 0;
        const sage::CodeScale scale = sage::int8_scale(largest);
        if (lane == 0 && leads && warp < count)
            q_scale[sage::scale_group(p.q_scale_rows, first + r, first_group)] = scale.scale;
        if (r >= count) return;
        std::int8_t* to = p.q8 + (out_plane * p.q_rows + s.q_start + first + r) * P + channel;
        if (poisoned >> step.value & 1)
            *reinterpret_cast<arch::int2v*>(to) = arch::int2v{sage::poisoned_codes, sage::poisoned_codes};
        else
            x[step.value].store_int8(to, scale);
    });
}

// ---- pass 3 ----

// delta_s of tiles of 64 keys for all blocks of rows, 16 at a time: [block, key] = [block, channel] [channel, key] in
// fp32, the sum over channels in ascending order. A wave has 16 keys of each tile, `keys[tile]` of a lane every fourth
// channel of one of them.
template <int P, int Tiles>
WAVEATTN_DEVICE void sage_delta(const SageQuantizeParams& p, const sage::Sequence& s, int kv_head, int first_tile,
    const float (&k_scales)[Tiles], const float (&keys)[Tiles][P / 4]) {
    __shared__ float means[16][P + 4], q_scales[16];
    const int thread = int(arch::thread_x()), lane = thread % 64, wave = thread / 64;
    const int first_key = 64 * first_tile + 16 * wave + lane % 16;
    const int blocks = (s.q_len + sage::block_rows - 1) / sage::block_rows;
    for (int member = 0; member < p.group; ++member) {
        const std::int64_t head = s.batch * p.heads_q + kv_head * p.group + member;
        const std::int64_t rows = head * p.blocks + s.q_block;
        for (int block = 0; block < blocks; block += 16) {
            arch::barrier();
            for (int i = thread; i < 16 * P; i += sage::quantize_threads)
                means[i / P][i % P] = block + i / P < blocks ? p.q_mean[(rows + block + i / P) * P + i % P] : 0.f;
            if (p.delta_s_units && thread < 16 && block + thread < blocks)
                q_scales[thread] = p.q_scale[head * p.q_groups + s.q_block + block + thread];
            arch::barrier();
            static_for<0, Tiles>([&](auto tile) {
                const int key = first_key + 64 * tile.value;
                arch::float4v delta{0.f, 0.f, 0.f, 0.f};
                static_for<0, P / 4>([&](auto n) {
                    delta = arch::mfma_f32_16x16x4_f32(
                        means[lane % 16][4 * n.value + lane / 16], keys[tile.value][n.value], delta);
                });
                static_for<0, 4>([&](auto r) {
                    const int row = block + 4 * (lane / 16) + r.value;
                    if (row >= blocks || key >= s.kv_len) return;
                    const std::int64_t at = (rows + row) * p.keys + key;
                    if (p.delta_s) {
                        p.delta_s[at] = delta[r.value];
                        return;
                    }
                    const float inverse = sage::delta_inverse(q_scales[row - block], k_scales[tile.value]);
                    p.delta_s_units[at] = sage::delta_units(delta[r.value], inverse);
                });
            });
        }
    }
}

// DeltaTiles: 0 without delta_s, else the tiles that a workgroup quantises before it reads the means of q.
template <int P, int DeltaTiles>
WAVEATTN_DEVICE void sage_quantize_k(
    const SageQuantizeParams& p, const sage::Sequence& s, int kv_head, int first_tile) {
    constexpr bool with_delta = DeltaTiles > 0;
    constexpr int tiles = with_delta ? DeltaTiles : 1;
    constexpr int lanes = P / 8, at_once = sage::rows_at_once(P), steps = 64 / at_once;
    __shared__ float keys[with_delta ? 64 : 1][P + 4];
    __shared__ int row_amax[64]; // bits of magnitudes
    const int thread = int(arch::thread_x()), lane = thread % lanes, row_lane = thread / lanes, channel = 8 * lane;
    const std::int64_t out_plane = s.batch * p.heads_kv + kv_head;
    float mean[8];
    sage_k_mean<P>(p, s, kv_head, mean);
    float k_scales[tiles], own_keys[tiles][with_delta ? P / 4 : 1];
    static_for<0, tiles>([&](auto t) {
        const int first = 64 * (first_tile + t.value), count = s.kv_len - first < 64 ? s.kv_len - first : 64;
        if (count <= 0) return;
        SageRow x[steps];
        if constexpr (t.value > 0) arch::barrier(); // the tile before has been read
        static_for<0, steps>([&](auto step) {
            SageRow& row = x[step.value];
            const int r = at_once * step.value + row_lane;
            row.clear();
            if (r < count) {
                row.load(p.k, p.input, s.batch * p.k.batch + kv_head * p.k.head + (s.kv_start + first + r) * p.k.row,
                    channel, p.head_dim);
                static_for<0, 8>([&](auto e) { row.x[e.value] -= mean[e.value]; });
            }
            if (p.hadamard) row.template rotate<P>(lane);
            const int largest = row.template row_magnitude<lanes>();
            if (lane == 0) row_amax[r] = largest;
            if constexpr (with_delta) static_for<0, 8>([&](auto e) { keys[r][channel + e.value] = row.x[e.value]; });
        });
        arch::barrier();
        int largest = 0;
        for (int r = 0; r < 64; ++r) largest = SageRow::larger(largest, row_amax[r]);
        const sage::CodeScale k_scale = sage::int8_scale(__builtin_bit_cast(float, largest));
        static_for<0, steps>([&](auto step) {
            const int r = at_once * step.value + row_lane;
            if (r < count)
                x[step.value].store_int8(p.k8 + (out_plane * p.k_rows + s.kv_start + first + r) * P + channel, k_scale);
        });
        if (thread == 0) p.k_scale[out_plane * p.k_tiles + s.kv_tile + first_tile + t.value] = k_scale.scale;
        k_scales[t.value] = k_scale.scale;
        if constexpr (with_delta)
            static_for<0, P / 4>([&](auto n) {
                own_keys[t.value][n.value] = keys[thread / 64 * 16 + thread % 16][4 * n.value + thread % 64 / 16];
            });
    });
    if constexpr (with_delta) sage_delta<P>(p, s, kv_head, first_tile, k_scales, own_keys);
}

template <int P>
WAVEATTN_DEVICE void sage_quantize_v(const SageQuantizeParams& p, const sage::Sequence& s, int kv_head, int tile) {
    constexpr int lanes = P / 8, at_once = sage::rows_at_once(P),
                  steps = 64 / at_once; // consecutive tokens of a thread
    alignas(16) __shared__ std::uint8_t out[P][64];
    const int thread = int(arch::thread_x()), lane = thread % lanes, token = thread / lanes * steps, channel = 8 * lane;
    const int first = 64 * tile;
    const std::int64_t scale_plane = s.sequence * p.heads_kv + kv_head;
    float largest[8];
    sage::CodeScale scale[8];
    const float* amax = p.v_amax + scale_plane * 2 * P;
    const bool two = sage::stat_chunks(s.kv_len) == 2;
    sage_shared_channels<P>(largest, [&](int c) {
        const float whole = two ? arch::max(amax[c], amax[P + c]) : amax[c];
        if (tile == 0) p.v_scale[scale_plane * P + c] = sage::fp8_scale(whole, p.fp8_largest).scale;
        return whole;
    });
    static_for<0, 8>([&](auto e) { scale[e.value] = sage::fp8_scale(largest[e.value], p.fp8_largest); });
    SageRow x[steps];
    static_for<0, steps>([&](auto step) {
        SageRow& row = x[step.value];
        row.clear();
        if (first + token + step.value < s.kv_len)
            row.load(p.v, p.input,
                s.batch * p.v.batch + kv_head * p.v.head + (s.kv_start + first + token + step.value) * p.v.row, channel,
                p.head_dim);
        static_for<0, 8>([&](auto e) {
            const float code = row.x[e.value] * scale[e.value].lift * scale[e.value].inverse;
            row.x[e.value] = sage::is_finite(row.x[e.value]) ? arch::max(arch::min(code, p.fp8_largest), -p.fp8_largest)
                                                             : __builtin_nanf("");
        });
    });
    static_for<0, 8>([&](auto e) {
        int codes = 0;
        static_for<0, steps / 2>([&](auto pair) {
            codes = arch::convert_pack_fp8<pair.value == 1>(
                x[2 * pair.value].x[e.value], x[2 * pair.value + 1].x[e.value], codes);
        });
        if constexpr (steps == 4)
            *reinterpret_cast<int*>(&out[channel + e.value][token]) = codes;
        else
            *reinterpret_cast<std::uint16_t*>(&out[channel + e.value][token]) = std::uint16_t(codes);
    });
    arch::barrier();
    std::uint8_t* to = p.v8 + ((s.batch * p.heads_kv + kv_head) * p.k_tiles + s.kv_tile + tile) * P * 64;
    for (int i = thread; i < P * 4; i += sage::quantize_threads)
        *reinterpret_cast<arch::int4v*>(to + 16 * i) = *reinterpret_cast<const arch::int4v*>(&out[i / 4][i % 4 * 16]);
}

// Workgroups of K come first.
template <int P, int DeltaTiles> WAVEATTN_DEVICE void sage_quantize_kv(const SageQuantizeParams& p) {
    constexpr int k_tiles = DeltaTiles > 0 ? DeltaTiles : 1;
    const int groups = (p.launch_tiles + k_tiles - 1) / k_tiles, of_k = p.sequences * p.heads_kv * groups;
    int index = int(arch::block_x());
    const bool is_k = index < of_k;
    if (!is_k) index -= of_k;
    const int each = is_k ? groups : p.launch_tiles, plane = index / each;
    const int tile = index % each * (is_k ? k_tiles : 1);
    const sage::Sequence s = sage_sequence(p, plane / p.heads_kv);
    if (64 * tile >= s.kv_len) return;
    if (is_k)
        sage_quantize_k<P, DeltaTiles>(p, s, plane % p.heads_kv, tile);
    else
        sage_quantize_v<P>(p, s, plane % p.heads_kv, tile);
}

template <class Arch, int P>
__global__ __launch_bounds__(sage::quantize_threads) void sage_statistics_kernel(SageQuantizeParams params) {
    if constexpr (arch::compiled_for<Arch>)
        sage_statistics<P>(params);
    else
        arch::trap_stub();
}
template <class Arch, int P>
__global__ __launch_bounds__(sage::quantize_threads) void sage_quantize_q_kernel(SageQuantizeParams params) {
    if constexpr (arch::compiled_for<Arch>)
        sage_quantize_q<P>(params);
    else
        arch::trap_stub();
}
template <class Arch, int P, int DeltaTiles>
__global__ __launch_bounds__(sage::quantize_threads) void sage_quantize_kv_kernel(SageQuantizeParams params) {
    if constexpr (arch::compiled_for<Arch>)
        sage_quantize_kv<P, DeltaTiles>(params);
    else
        arch::trap_stub();
}

#endif

} // namespace waveattn::detail
