// Merging the splits of a dual-wave call: o = sum_s w_s o_s, w_s = exp(lse_s - lse), lse = log(sum_s exp(lse_s)).
#pragma once

#include "waveattn/arch/arch.h"
#include "waveattn/arch/intrinsics.h"
#include "waveattn/attention/dualwave_params.h"
#include "waveattn/core/divide.h"
#include "waveattn/core/launch.h"

#ifdef __HIP__

namespace waveattn::detail {

// A thread computes one (row, dim) of o; the threads of dim 0 the lse.
template <class T> struct DualwaveMerge {
    static constexpr int threads = 256;

    WAVEATTN_DEVICE static void exec(const DualwaveParams<T>& p) {
        const std::int64_t rows = std::int64_t(p.grid.batch) * p.grid.heads() * p.q_len;
        const std::int64_t index = std::int64_t(arch::block_x()) * threads + arch::thread_x();
        const std::int64_t row = index / p.head_dim_v;
        const std::int32_t dim = std::int32_t(index % p.head_dim_v);
        if (row >= rows) return;
        float top = -arch::infinity;
        for (int s = 0; s < p.grid.splits; ++s) top = arch::max(top, p.partial_lse[s * rows + row]);
        float sum = 0.f, value = 0.f;
        for (int s = 0; s < p.grid.splits && top != -arch::infinity; ++s) {
            const float weight = arch::exp2((p.partial_lse[s * rows + row] - top) * arch::log2e);
            sum += weight;
            value = arch::fma(weight, p.partial_o[(s * rows + row) * p.head_dim_v + dim], value);
        }
        const std::int32_t query = std::int32_t(row % p.q_len), head = std::int32_t(row / p.q_len % p.grid.heads());
        const std::int32_t batch = std::int32_t(row / p.q_len / p.grid.heads());
        *p.o.at(batch, head, query, dim) = from_float<T>(sum == 0.f ? 0.f : value / sum);
        if (dim == 0 && p.lse.data)
            *p.lse.at(batch, head, query) = sum == 0.f ? -arch::infinity : top + arch::log2(sum) * arch::ln2;
    }
};

template <class T> __global__ __launch_bounds__(256) void dualwave_merge_kernel(DualwaveParams<T> p) {
    if constexpr (arch::compiled_for<arch::any_wave64>)
        DualwaveMerge<T>::exec(p);
    else
        arch::trap_stub();
}

template <class T> void launch_dualwave_merge(const DualwaveParams<T>& p, hipStream_t stream) {
    const std::int64_t values = std::int64_t(p.grid.batch) * p.grid.heads() * p.q_len * p.head_dim_v;
    launch("dualwave_merge", dualwave_merge_kernel<T>, ceil_div<std::int64_t>(values, DualwaveMerge<T>::threads),
        DualwaveMerge<T>::threads, 0, stream, p);
}

} // namespace waveattn::detail

#endif
