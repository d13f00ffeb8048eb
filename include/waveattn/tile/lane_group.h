// Sums over aligned groups of 4, 8 or 16 lanes, in registers on every target.
//
// Each step adds the value of another lane: xor 1 and xor 2 inside a quad, then the mirror image inside a row's half
// and inside the row. Once the lanes of a quad agree, a mirror image is as good as xor 4, and likewise for 8. All
// lanes end with the same bits, because every step adds the same two numbers on both sides.
#pragma once

#include "waveattn/arch/intrinsics.h"

#ifdef __HIP__

namespace waveattn::tile {

template <int Lanes> WAVEATTN_DEVICE float group_sum(float x) {
    static_assert(Lanes == 4 || Lanes == 8 || Lanes == 16);
    x += arch::dpp<arch::dpp_quad_perm(1, 0, 3, 2)>(x);
    x += arch::dpp<arch::dpp_quad_perm(2, 3, 0, 1)>(x);
    if constexpr (Lanes >= 8) x += arch::dpp<arch::dpp_row_half_mirror>(x);
    if constexpr (Lanes >= 16) x += arch::dpp<arch::dpp_row_mirror>(x);
    return x;
}

// Over the whole wave of the present pass, through the LDS crossbar.
template <class Combine> WAVEATTN_DEVICE float wave_reduce(float x, Combine combine) {
#    pragma unroll
    for (int mask = wave_size(arch::this_pass) / 2; mask > 0; mask /= 2) x = combine(x, arch::shuffle_xor(x, mask));
    return x;
}

} // namespace waveattn::tile

#endif
