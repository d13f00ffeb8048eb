// Packed tokens that belong to no sequence, or lie beyond its longest length: o = 0 and lse = -infinity, as for rows
// that see no key. The attention kernel does not visit them.
#pragma once

#include "waveattn/attention/sage_staging.h"
#include "waveattn/core/launch.h"

namespace waveattn {

#ifdef __HIP__

namespace detail {

inline constexpr int uncovered_threads = 256, uncovered_tokens = 64; // of a workgroup

WAVEATTN_DEVICE void sage_clear_uncovered(const SageParams& p, int sequences) {
    __shared__ int covered[uncovered_tokens];
    const int thread = int(arch::thread_x()), slot = thread % uncovered_tokens;
    const int first = int(arch::block_x()) * uncovered_tokens;
    const int count = p.q_tokens - first < uncovered_tokens ? p.q_tokens - first : uncovered_tokens;
    if (thread < uncovered_tokens) covered[thread] = 0;
    arch::barrier();
    for (int n = thread / uncovered_tokens; n < sequences; n += uncovered_threads / uncovered_tokens) {
        const sage::Span span = sage::packed_span(p.cu_q, n, p.q_len, p.q_tokens);
        const int token = first + slot - span.start;
        if (token >= 0 && token < span.length) covered[slot] = 1;
    }
    arch::barrier();
    const int values = p.heads_q * p.head_dim_v;
    for (int t = 0; t < count; ++t) {
        if (covered[t]) continue;
        const std::int64_t token = first + t;
        for (int i = thread; i < values; i += uncovered_threads) {
            const std::int64_t at = (i / p.head_dim_v) * p.o_head + token * p.o_row + i % p.head_dim_v;
            if (p.output == OutputType::float32)
                static_cast<float*>(p.o)[at] = 0.f;
            else
                static_cast<std::uint16_t*>(p.o)[at] = 0;
        }
        if (p.lse)
            for (int head = thread; head < p.heads_q; head += uncovered_threads)
                p.lse[head * p.lse_head + token * p.lse_row] = -arch::infinity;
    }
}

template <class Arch>
__global__ __launch_bounds__(uncovered_threads) void sage_uncovered_kernel(SageParams params, int sequences) {
    if constexpr (arch::compiled_for<Arch>)
        sage_clear_uncovered(params, sequences);
    else
        arch::trap_stub();
}

template <class Arch> void launch_sage_uncovered(const SageParams& p, std::int64_t sequences, hipStream_t stream) {
    launch("executeSageAttention (packed)", sage_uncovered_kernel<Arch>,
        ceil_div<std::int64_t>(p.q_tokens, uncovered_tokens), uncovered_threads, 0, stream, p, int(sequences));
}

} // namespace detail

#endif
} // namespace waveattn
