// Sums over aligned groups of 4, 8 or 16 lanes, in registers on every target.
//
// Each step adds the value of another lane: xor 1 and xor 2 inside a quad, then the mirror image inside a row's half
// and inside the row. Once the lanes of a quad agree, a mirror image is as good as xor 4, and likewise for 8. All
// lanes end with the same bits, because every step adds the same two numbers on both sides.
#pragma once

#include "waveattn/arch/intrinsics.h"

#ifdef __HIP__

namespace waveattn::tile {

// Of several values at a time, level by level: on CDNA two instructions must lie between an addition and the exchange
// of its result, and the other values fill the gap.
template <int Lanes, int Count> WAVEATTN_DEVICE void group_sum(float (&x)[Count]) {
    static_assert(Lanes == 4 || Lanes == 8 || Lanes == 16);
#    pragma unroll
    for (int i = 0; i < Count; ++i) x[i] += arch::dpp<arch::dpp_quad_perm(1, 0, 3, 2)>(x[i]);
#    pragma unroll
    for (int i = 0; i < Count; ++i) x[i] += arch::dpp<arch::dpp_quad_perm(2, 3, 0, 1)>(x[i]);
    if constexpr (Lanes >= 8)
#    pragma unroll
        for (int i = 0; i < Count; ++i) x[i] += arch::dpp<arch::dpp_row_half_mirror>(x[i]);
    if constexpr (Lanes >= 16)
#    pragma unroll
        for (int i = 0; i < Count; ++i) x[i] += arch::dpp<arch::dpp_row_mirror>(x[i]);
}
template <int Lanes> WAVEATTN_DEVICE float group_sum(float x) {
    float one[1] = {x};
    group_sum<Lanes>(one);
    return one[0];
}

// Over the whole wave of the present pass, through the LDS crossbar.
template <class Combine> WAVEATTN_DEVICE float wave_reduce(float x, Combine combine) {
#    pragma unroll
    for (int mask = wave_size(arch::this_pass) / 2; mask > 0; mask /= 2) x = combine(x, arch::shuffle_xor(x, mask));
    return x;
}

} // namespace waveattn::tile

#endif
