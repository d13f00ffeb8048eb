// Combines the chunks of a query: per query head, over its chunks in ascending order,
//
//   M = max m,  w = exp(m - M),  L = fma(l, w, L),  acc = fma(a, w, acc),  o = acc / L,  lse = M + log(L)
//
// Chunks without a visible cell (l = 0) are skipped; without any other, o = 0 and lse = -infinity.
#pragma once

#include "waveattn/attention/chunk_kernel.h"

#ifdef __HIP__
namespace waveattn::detail {

// Grid (query heads, queries), HeadDim threads: a thread owns one dimension.
template <class Arch, int HeadDim> __global__ __launch_bounds__(HeadDim) void chunk_merge_kernel(ChunkParams p) {
    if constexpr (!arch::compiled_for<Arch>) {
        arch::trap_stub();
    } else {
        const int head = int(arch::block_x()), query = int(arch::block_y()), dim = int(arch::thread_x());
        const int kv_head = head / p.group, head_of_group = head - kv_head * p.group;
        int width = p.max_width;
        if (p.widths) width = p.widths[query] < width ? p.widths[query] : width;
        const int chunks = (width + chunk_cells - 1) / chunk_cells;
        // [chunk] in steps of `group` values, and [chunk, dim] in steps of `group` rows
        const std::int64_t first = (std::int64_t(query) * p.kv_heads + kv_head) * p.chunks * p.group + head_of_group;
        const float *part_m = p.part_m + first, *part_l = p.part_l + first;
        const float* part_acc = p.part_acc + first * HeadDim + dim;

        float largest = chunk_masked;
        for (int chunk = 0; chunk < chunks; ++chunk)
            largest = arch::max(largest, part_m[std::int64_t(chunk) * p.group]);
        float sum = 0, acc = 0;
#    pragma unroll 4
        for (int chunk = 0; chunk < chunks; ++chunk) {
            const std::int64_t place = std::int64_t(chunk) * p.group;
            const float l = part_l[place];
            if (l == 0) continue; // otherwise l >= 1, or NaN where a score is
            const float weight = arch::exp2((part_m[place] - largest) * arch::log2e);
            sum = arch::fma(l, weight, sum);
            acc = arch::fma(part_acc[place * HeadDim], weight, acc);
        }
        p.o[query * p.o_query_stride + head * p.o_head_stride + dim] = sum == 0 ? 0.f : acc / sum;
        if (p.lse && dim == 0)
            p.lse[query * p.lse_query_stride + head * p.lse_head_stride] =
                sum == 0 ? -arch::infinity : arch::fma(arch::log2(sum), arch::ln2, largest);
    }
}

} // namespace waveattn::detail
#endif
