// Scores and weights of the Sage kernel: how a target multiplies q and k, how large scores may be, and the range of
// weights that its fp8 holds.
#pragma once

#include "waveattn/attention/sage_staging.h"

namespace waveattn::detail {

// A weight is 2^(x + shift) as fp8. A row's shift makes the largest weight of its first 32 keys 2^pinned: a power of
// two is exact in fp8, and there is room for larger ones. Where a half tile has a weight that decides its row, of more
// than 2^log_share times the lane half's sum so far, or one that fp8 could not hold, the wave's rows are pinned anew:
// those whose largest weight of the half tile is above 2^pinned_from. Weights below 2^least never call for it, those
// above 2^largest always do.
//
// fp8 rounds small weights to multiples of `step`, the smallest to 0. What that takes from the row is a small share of
// its sum as long as the sum is large, so a row whose sum falls behind is raised: by whole octaves, until the sum is
// several times what is asked for (least_sum), as far as no weight of the half tile at hand exceeds 2^highest. Larger
// weights that are behind it do not matter: they are in O and the sum, which are fp32.
template <class Arch> struct SageRange {
    static constexpr float pinned = 4.f, pinned_from = 1.f, least = 4.5f, largest = 7.875f, log_share = -2.f;
    static constexpr float step = 0x1p-10f, highest = 7.f;
};
template <> struct SageRange<arch::gfx950> {
    static constexpr float pinned = 5.f, pinned_from = 2.f, least = 5.5f, largest = 8.75f, log_share = -2.f;
    static constexpr float step = 0x1p-9f, highest = 8.f;
};

#ifdef __HIP__

// How a target multiplies a plane of 32 bytes of the head dimension. A lane half has 16 contiguous bytes of it, so one
// 16-byte LDS read serves a plane whatever the depth of an instruction: the order of k is free.
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

// The largest scale of the keys, of which the first tiles' are read while the first tiles come.
struct SageKeyScales {
    // A wave whose units of the scores are larger takes scores as fp32, one by one: SageAttentionMfma::widen().
    static constexpr float widest_scale = 0.125f;
    int near[4]; // bits of the first 256 tiles' scales

    WAVEATTN_DEVICE void load(const float* k_scale, int tiles, int lane) {
        static_for<0, 4>([&](auto n) {
            const int tile = 64 * n.value + lane;
            near[n.value] = __builtin_bit_cast(int, k_scale[arch::opaque(tile < tiles ? tile : tiles - 1)]);
        });
    }
    // Whether the largest scale of the wave's rows and of the keys makes units too large for the folded constant, or a
    // scale is NaN. Compared as bits: NaN is above all numbers.
    WAVEATTN_DEVICE bool wide(const float* k_scale, int tiles, float row_scale, int lane) const {
        int largest = 0;
        const auto compare = [&](int bits) { largest = bits > largest ? bits : largest; };
        static_for<0, 4>([&](auto n) { compare(near[n.value]); });
        for (int tile = 256 + lane; tile < tiles; tile += 64) compare(__builtin_bit_cast(int, k_scale[tile]));
        float row_largest = row_scale; // of 8 rows, which have all the scales that a wave's rows have
        row_largest = arch::max(row_largest, arch::dpp<arch::dpp_quad_perm(1, 0, 3, 2)>(row_largest));
        row_largest = arch::max(row_largest, arch::dpp<arch::dpp_quad_perm(2, 3, 0, 1)>(row_largest));
        row_largest = arch::max(row_largest, arch::dpp<arch::dpp_row_half_mirror>(row_largest));
        return arch::vote_any(!(arch::uniform(row_largest) * __builtin_bit_cast(float, largest) <= widest_scale) ||
                              row_scale != row_scale);
    }
};

#endif

} // namespace waveattn::detail
