// FlashAttentionWmmaDPP: online softmax on the accumulators of S^T = K.Q^T.
//
// A lane holds, for the query of its column, 8 keys of each 16-key tile; lanes l and l ^ 16 share a query. The state of
// a query is a reference m (a score that its largest one exceeds by at most the lazy threshold) and, in each of its two
// lanes, the sum of that lane's probabilities 2^(c (s - m)), c = |scale| log2(e), as rounded for the second product;
// and, for lse, the sum of the same before rounding.
//
// The reference moves only when some score exceeds it by more than the threshold; probabilities up to 2^threshold are
// as exact in bf16 and f16 as those below 1. One comparison of the lane's own maximum decides, so the exchange
// between the two lanes happens only then.
#pragma once

#include "waveattn/attention/wmma_config.h"
#include "waveattn/tile/lane_exchange.h"
#include "waveattn/tile/wmma_gfx12.h"

#ifdef __HIP__

namespace waveattn::detail {

// 2^x for two x = x128 * 65535 / 128 - 127 as two bf16 in a word.
//
// The bits of a bf16, read as an integer, are 128 (log2 of the value + 127) wherever the mantissa is 0, and linear
// between. So the integer part of 128 (x + 127), from one saturating conversion of both values (scaled by 1/65535,
// because that conversion expects [0, 1]), needs only its low 7 bits f corrected from f to 128 (2^(f/128) - 1), which
// is f (0.662 + 0.338 f/128) to within 0.29%. An f16 denormal is an integer times 2^-24, so packed f16 arithmetic does
// this on the bits as they are, with the product rounded to the nearest integer. Exact at whole x; against 2^x the root
// mean square of the relative error is 0.29% (a rounding to bf16 alone: 0.17%), its mean 0.02%.
WAVEATTN_DEVICE unsigned exp2_bf16_pair(float x128, float y128) {
    constexpr unsigned mantissas = 0x007f007fu;
    constexpr float curvature = 0.338f;
    const unsigned line = arch::pack_unorm16(x128, y128);
    const auto fraction = __builtin_bit_cast(arch::half2v, line & mantissas);
    const _Float16 slope = _Float16(curvature / 128 * 16777216.f), start = _Float16(1.f - curvature);
    const arch::half2v factor =
        __builtin_elementwise_fma(fraction, arch::half2v{slope, slope}, arch::half2v{start, start});
    const unsigned curve = __builtin_bit_cast(unsigned, factor* fraction);
    return (curve & mantissas) | (line & ~mantissas);
}
inline constexpr float exp2_bf16_scale = 128.f / 65535.f, exp2_bf16_bias = 127.f * 128.f / 65535.f;

// The sum of both lanes of a query, and the maximum (NaN where either is).
WAVEATTN_DEVICE float other_half(float x) { return tile::exchange_xor<16, tile::Exchange::registers>(x); }

template <class Config> struct WmmaSoftmax {
    using Scores = arch::float8v[Config::key_tiles];          // [16-key tile][key]
    using Probabilities = tile::Operand16[Config::key_tiles]; // B operands of the PV product
    using Output = arch::float8v[Config::dim_tiles];          // [16-dim tile][dim]

    float c;         // of the lane's query: |scale| log2(e), times the query's quantisation scale
    float threshold; // of s - m, in units of s
    float sum = 0.f, lse_sum = 0.f;
    // The reference, negated: 8 times where accumulators start from it, else once.
    arch::Vector<float, Config::relative_scores ? 8 : 1> minus_m = {};

    WAVEATTN_DEVICE explicit WmmaSoftmax(float c_)
        : c(c_), threshold(float(Config::tuning.lazy_threshold) * arch::reciprocal(c_)) {}

    // What the accumulators of the scores start from.
    WAVEATTN_DEVICE arch::float8v start() const {
        if constexpr (Config::relative_scores)
            return minus_m;
        else
            return {0, 0, 0, 0, 0, 0, 0, 0};
    }

    // Hides the keys after `last`, counted from the lane's first key of the tile.
    WAVEATTN_DEVICE static void mask(Scores& s, int last) {
#    pragma unroll
        for (int t = 0; t < Config::key_tiles; ++t)
#    pragma unroll
            for (int r = 0; r < 8; ++r)
                if (16 * t + r > last) s[t][r] = -arch::infinity;
    }

    // Moves the reference where it must: then s (if relative), the sum and the output follow. `first`: the first tile
    // of the query, which always holds its first visible key if there is one.
    WAVEATTN_DEVICE void update_reference(Scores& s, Output& o, bool first) {
        float largest = s[0][0];
#    pragma unroll
        for (int i = 1; i < 8 * Config::key_tiles; ++i) largest = arch::maximum(largest, s[i / 8][i % 8]);
        const float excess = Config::relative_scores ? largest : largest + minus_m[0];
        if constexpr (Config::lazy)
            // A NaN is in excess, too.
            if (!first && arch::ballot32(!(excess <= threshold)) == 0) return;
        const float row = arch::maximum(excess, other_half(excess));
        const float delta = first ? (row == -arch::infinity ? 0.f : row) : arch::maximum(row, 0.f);
        const float alpha = first ? 0.f : arch::exp2(-c * delta);
        minus_m -= delta;
        sum = arch::fma(sum, alpha, delta - delta); // a NaN or infinite score makes the query NaN
        if constexpr (Config::separate_lse_sum) lse_sum = arch::fma(lse_sum, alpha, delta - delta);
        if constexpr (Config::relative_scores) {
#    pragma unroll
            for (int t = 0; t < Config::key_tiles; ++t) s[t] -= delta;
        }
#    pragma unroll
        for (int t = 0; t < Config::dim_tiles; ++t) o[t] *= alpha;
    }

    // Probabilities of full tiles by packed arithmetic. Overwrites s.
    WAVEATTN_DEVICE void exponentiate_packed(Scores& s, Probabilities& p) {
        if constexpr (Config::separate_lse_sum) {
            // By tiles, so that a sum of many keys has few roundings.
            float tile_sum = 0.f;
#    pragma unroll
            for (int i = 0; i < 8 * Config::key_tiles; ++i) tile_sum += arch::exp2(s[i / 8][i % 8] * c);
            lse_sum = arch::opaque(lse_sum + tile_sum); // now, or the products above would wait in registers
        }
        const float scale = c * exp2_bf16_scale;
        // All at once, in place: neighbouring registers pair up in dual-issue instructions.
#    pragma unroll
        for (int i = 0; i < 8 * Config::key_tiles; ++i)
            s[i / 8][i % 8] = arch::fma(s[i / 8][i % 8], scale, exp2_bf16_bias);
        arch::schedule_barrier();
#    pragma unroll
        for (int t = 0; t < Config::key_tiles; ++t)
#    pragma unroll
            for (int r = 0; r < 4; ++r) {
                const unsigned pair = exp2_bf16_pair(s[t][2 * r], s[t][2 * r + 1]);
                sum = arch::add_bf16_pair(pair, sum);
                p[t][r] = int(pair);
            }
    }

    // Probabilities by v_exp_f32. `v_scales`: of the lane's keys, folded into p after the sum. Split: as the sum of two
    // bf16, p and `rest`, exact to 16 bits.
    template <bool Split>
    WAVEATTN_DEVICE void exponentiate(const Scores& s, const Scores& v_scales, Probabilities& p, Probabilities& rest) {
        const float minus_mc = minus_m[0] * c;
        float tile_sum = 0.f;
#    pragma unroll
        for (int t = 0; t < Config::key_tiles; ++t)
#    pragma unroll
            for (int r = 0; r < 4; ++r) {
                float pair[2];
#    pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const float score = s[t][2 * r + i];
                    pair[i] = arch::exp2(Config::relative_scores ? score * c : arch::fma(score, c, minus_mc));
                    if constexpr (Config::separate_lse_sum) tile_sum += pair[i];
                    if constexpr (Config::v_scaled) {
                        sum += pair[i];
                        pair[i] *= v_scales[t][2 * r + i];
                    }
                }
                if constexpr (Split) {
                    p[t][r] = int(arch::pack_upper_halves(pair[0], pair[1]));
                    rest[t][r] = int(arch::pack_upper_halves(below_bf16(pair[0]), below_bf16(pair[1])));
                    sum += pair[0] + pair[1];
                } else
                    p[t][r] = int(pack(pair[0], pair[1]));
            }
        if constexpr (Config::separate_lse_sum) lse_sum += tile_sum;
    }

    // The reciprocal of the sum over both lanes; 0 for a query without visible keys.
    WAVEATTN_DEVICE float inverse_sum() const {
        const float total = sum + other_half(sum);
        return total == 0.f ? 0.f : arch::reciprocal(total);
    }
    WAVEATTN_DEVICE float log_sum_exp() const {
        const float own = Config::separate_lse_sum ? lse_sum : sum, total = own + other_half(own);
        return total == 0.f ? -arch::infinity : (arch::log2(total) - minus_m[0] * c) * arch::ln2;
    }

private:
    // What truncation to bf16 takes away.
    WAVEATTN_DEVICE static float below_bf16(float x) {
        return x - __builtin_bit_cast(float, __builtin_bit_cast(unsigned, x) & 0xffff0000u);
    }
    // To 16 bits each; without token scales of V the sum takes the rounded values, so that a bias of the rounding
    // cancels.
    WAVEATTN_DEVICE unsigned pack(float low, float high) {
        if constexpr (std::is_same_v<typename Config::pv_element, float16>) {
            const unsigned pair = arch::pack_f16_toward_zero(low, high);
            sum = arch::add_f16_pair(pair, sum);
            return pair;
        } else if constexpr (Config::tuning.probability == WmmaProbability::hardware_cast) {
            if constexpr (!Config::v_scaled) sum += low, sum += high;
            return __builtin_bit_cast(unsigned, arch::bfloat2v{__bf16(low), __bf16(high)});
        } else {
            auto rounded = [](float x) { return __builtin_bit_cast(float, __builtin_bit_cast(unsigned, x) + 0x8000u); };
            const unsigned pair = arch::pack_upper_halves(rounded(low), rounded(high));
            if constexpr (!Config::v_scaled) sum = arch::add_bf16_pair(pair, sum);
            return pair;
        }
    }
};

} // namespace waveattn::detail

#endif
