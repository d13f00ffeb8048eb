// Epilogue of the Sage kernel: O^T in registers becomes rows of the output, and the rows' lse.
//
//   o    = v_scale * acc / sum               (float32, or rounded to nearest even)
//   lse  = ln 2 * (log2 sum - shift) + lse_shift
#pragma once

#include "waveattn/attention/sage_staging.h"

#ifdef __HIP__

namespace waveattn::detail {

// Of a wave's 32 queries. A lane has 16 channels of each of the `Blocks` blocks of 32; its mirror lane ^ 32 the others.
template <int Blocks> struct SageOutput {
    // v_scale of the lane's channels, to be loaded before write(): they come while the last products run.
    using Scales = float[Blocks][16];
    WAVEATTN_DEVICE static void load_scales(
        Scales& scales, const SageParams& p, const sage::Sequence& s, int kv_head, int half) {
        const float* v_scale = p.v_scale + s.sequence * p.v_scale_batch + kv_head * p.v_scale_head + 16 * half;
        static_for<0, Blocks>([&](auto n) {
            static_for<0, 16>([&](auto r) { scales[n.value][r.value] = v_scale[32 * n.value + r.value]; });
        });
    }
    // o = acc / sum * v_scale, rounded to nearest even, and the row's lse.
    WAVEATTN_DEVICE static void write(const SageParams& p, const sage::Sequence& s, const arch::float16v (&o)[Blocks],
        const Scales& scales, float sum, float shift, char* lds, int head, int row, bool stored, int wave, int lane) {
        const int half = lane >> 5;
        sum += arch::shuffle_xor(sum, 32);
        const float inverse = sum > 0.f || sum != sum ? arch::reciprocal(sum) : 0.f;
        const std::int64_t token = s.q_start + row;
        if (p.lse && stored && half == 0) {
            float lse = -arch::infinity;
            if (sum > 0.f || sum != sum) {
                lse = (arch::log2(sum) - shift) * arch::ln2;
                if (p.lse_shift)
                    lse += p.lse_shift[s.batch * p.shift_batch + head * p.shift_head + token * p.shift_row];
            }
            p.lse[s.batch * p.lse_batch + head * p.lse_head + token * p.lse_row] = lse;
        }
        const std::int64_t o_row = s.batch * p.o_batch + head * p.o_head + token * p.o_row;
        if (!p.wide_stores) sage_barrier(); // the tiles are not needed any more
        static_for<0, Blocks>([&](auto n) {
            float values[16];
            static_for<0, 16>([&](auto r) {
                const float value = o[n.value][r.value] * inverse * scales[n.value][r.value];
                values[r.value] = sum == 0.f ? 0.f : value; // without keys v_scale may be anything
            });
            const int channel = 32 * n.value + 16 * half;
            if (p.wide_stores) {
                if (stored && channel < p.head_dim_v) store_wide(p, o_row + channel, values);
            } else
                store_narrow(p, s, values, lds + wave * 4096, o_row - std::int64_t(row) * p.o_row, row, n.value, lane);
        });
    }

    // 16 channels of a row.
    WAVEATTN_DEVICE static void store_wide(const SageParams& p, std::int64_t offset, const float (&values)[16]) {
        if (p.output == OutputType::float32) {
            static_for<0, 4>([&](auto n) {
                constexpr int e = 4 * n.value;
                *reinterpret_cast<arch::float4v*>(static_cast<float*>(p.o) + offset + e) =
                    arch::float4v{values[e], values[e + 1], values[e + 2], values[e + 3]};
            });
            return;
        }
        int words[8];
        if (p.output == OutputType::bfloat16)
            static_for<0, 8>([&](auto n) {
                words[n.value] =
                    __builtin_bit_cast(int, arch::to_bf16_pair(values[2 * n.value], values[2 * n.value + 1]));
            });
        else
            static_for<0, 8>([&](auto n) {
                words[n.value] = half_bits(values[2 * n.value]) | half_bits(values[2 * n.value + 1]) << 16;
            });
        static_for<0, 2>([&](auto n) {
            constexpr int e = 4 * n.value;
            *reinterpret_cast<arch::int4v*>(static_cast<std::uint16_t*>(p.o) + offset + 2 * e) =
                arch::int4v{words[e], words[e + 1], words[e + 2], words[e + 3]};
        });
    }
    WAVEATTN_DEVICE static int half_bits(float value) {
        return __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(value));
    }

    // 32 channels of the wave's rows through LDS, element by element: any alignment, any number of channels.
    WAVEATTN_DEVICE static void store_narrow(const SageParams& p, const sage::Sequence& s, const float (&values)[16],
        char* lds, std::int64_t o_first, int row, int block, int lane) {
        static_for<0, 16>([&](auto r) {
            lds_at<float>(lds, (lane & 31) * 128 + ((lane >> 5) * 64 + r.value * 4)) = values[r.value];
        });
        sage_barrier();
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
        sage_barrier();
    }
};

} // namespace waveattn::detail

#endif
