// What the scalar kernels share: how a row of head_dim values lies in the lanes of a wave, and dot products of rows.
//
// A group of `lanes` neighbouring lanes holds a row. Lane g of the group owns `dims_per_lane` of its dims, in pieces of
// 4 where the row comes from LDS: piece c starts at dim 4 * (g + lanes * c). So a group reads 16 * lanes consecutive
// bytes at a time, and a dot product is dims_per_lane FMAs and a sum over the group (tile/lane_group.h).
#pragma once

#include "waveattn/core/divide.h"
#include "waveattn/tile/lane_group.h"

namespace waveattn::detail {

// Rows of up to HeadDim values; those above the head_dim at hand are zero.
template <int HeadDim> struct RowLayout {
    static_assert(HeadDim >= 1 && HeadDim <= 256, "the scalar kernels cover head_dim 1 to 256");
    static constexpr int lanes = HeadDim <= 64 ? 4 : HeadDim <= 128 ? 8 : 16;
    static constexpr int pieces = ceil_div(HeadDim, lanes * 4);
    static constexpr int dims_per_lane = pieces * 4;
    static constexpr int row = lanes * dims_per_lane; // HeadDim rounded up
};

#ifdef __HIP__

// Sum over i of a[i] * b[i] for the dims of a lane, even and odd ones apart: packed FMAs on CDNA.
template <int N> WAVEATTN_DEVICE float lane_dot(const arch::float2v (&a)[N], const arch::float2v (&b)[N]) {
    arch::float2v sum = a[0] * b[0];
#    pragma unroll
    for (int i = 1; i < N; ++i) sum = arch::fma(a[i], b[i], sum);
    return sum.x + sum.y;
}

#endif

} // namespace waveattn::detail
