// The arguments of the dual-wave kernels.
#pragma once

#include "waveattn/attention/dualwave_schedule.h"
#include "waveattn/core/numeric.h"
#include "waveattn/core/tensor_view.h"

namespace waveattn {

// Where the exponents of the softmax are measured from.
enum class SoftmaxBasis {
    online, // the row maximum so far, moved only when a score exceeds it by 2^8: any input
    pinned, // the maximum of the first tile plus a head room; rows that overflow it are found and computed again
};

namespace detail {

template <class T> struct DualwaveParams {
    TensorView<const T, 4> q, k, v;
    TensorView<T, 4> o;
    TensorView<float, 3> lse; // not written where data is null
    DualwaveGrid grid;
    std::int32_t q_len, kv_len, head_dim, head_dim_v;
    std::int32_t causal_offset;   // masked: row i sees key j iff j <= i + causal_offset
    std::int32_t masked;          // not bool: whole words come by scalar loads
    std::int32_t split_tiles;     // tiles of 64 keys in a split
    float scale_log2;             // |scale| log2(e)
    std::uint32_t q_keep, q_flip; // applied to pairs of q: & and ^; the sign of the scale, or zero for scale 0
    std::int32_t repair;          // compute only the items whose flags are set
    std::int32_t* overflow;       // pinned and repair: [item][wave], 1 where a row of the wave overflowed, else 0
    float* partial_o;             // splits > 1: [split][batch, head, query][dim], normalised
    float* partial_lse;           // splits > 1: [split][batch, head, query]
};

} // namespace detail
} // namespace waveattn
