// Combines the chunks of a query: per query head, over its chunks in ascending order,
//
//   M = max m,  w = exp(m - M),  L = fma(l, w, L),  acc = fma(a, w, acc),  o = acc / L,  lse = M + log(L)
//
// Chunks without a visible cell (l = 0) are skipped; without any other, o = 0 and lse = -infinity.
#pragma once

#include "waveattn/attention/chunk_kernel.h"

#ifdef __HIP__
namespace waveattn::detail {

// Grid (heads of a group, kv_heads, queries), HeadDim threads: a thread owns one dimension. Every wave computes all
// weights, a lane one of 32 chunks.
template <class Arch, int HeadDim> __global__ __launch_bounds__(HeadDim) void chunk_merge_kernel(ChunkParams p) {
    if constexpr (!arch::compiled_for<Arch>) {
        arch::trap_stub();
    } else {
        const int head_of_group = int(arch::block_x()), kv_head = int(arch::block_y()), query = int(arch::block_z());
        const int head = kv_head * p.group + head_of_group;
        const int lane = int(arch::lane_id());
        int dim = int(arch::thread_x());
        const int chunks = (ChunkTask::width(p, query) + chunk_cells - 1) / chunk_cells;
        // [chunk] in steps of `group` values, and [chunk, dim] in steps of `group` rows
        const std::int64_t first = (std::int64_t(query) * p.kv_heads + kv_head) * p.chunks * p.group + head_of_group;
        const float *part_m = p.part_m + first, *part_l = p.part_l + first;
        const float* part_acc = p.part_acc + first * HeadDim;

        float largest = chunk_masked;
        for (int chunk = lane; chunk < chunks; chunk += 32)
            largest = arch::max(largest, part_m[std::int64_t(chunk) * p.group]);
        largest = tile::max_of_32_lanes<tile::Exchange::registers>(largest);

        float sum = 0, acc = 0;
        const auto add_chunk = [&](int chunk, float weight, float l, int i) {
            const float scalar_weight = arch::read_lane(weight, i);
            sum = arch::fma(arch::read_lane(l, i), scalar_weight, sum);
            const float* row = part_acc + std::int64_t(chunk) * p.group * HeadDim;
            acc = arch::fma(row[unsigned(dim)], scalar_weight, acc);
        };
        for (int batch = 0; batch < chunks; batch += 32) {
            float weight = 0, l = 0;
            if (batch + lane < chunks) {
                const std::int64_t place = std::int64_t(batch + lane) * p.group;
                l = part_l[place]; // at least 1, or NaN where a score is, or 0: nothing visible
                weight = arch::exp2((part_m[place] - largest) * arch::log2e);
            }
            unsigned present = arch::ballot32(l != 0);
            dim = arch::opaque(dim); // an offset in the load
            if (present == ~0u) {
#    pragma unroll 8
                for (int i = 0; i < 32; ++i) add_chunk(batch + i, weight, l, i);
            } else {
#    pragma unroll 1
                for (; present; present &= present - 1) {
                    const int i = __builtin_ctz(present);
                    add_chunk(batch + i, weight, l, i);
                }
            }
        }
        (p.o + query * p.o_query_stride + head * p.o_head_stride)[unsigned(dim)] = sum == 0 ? 0.f : acc / sum;
        if (p.lse && dim == 0)
            p.lse[query * p.lse_query_stride + head * p.lse_head_stride] =
                sum == 0 ? -arch::infinity : arch::fma(arch::log2(sum), arch::ln2, largest);
    }
}

} // namespace waveattn::detail
#endif
