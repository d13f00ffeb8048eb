// Chunk attention in one kernel: a workgroup computes all chunks of a query and KV head, and merges them.
//
// The merge weighs every chunk by the maximum over all of them, so there are two passes. The first leaves the
// probabilities, m and l of each chunk in the workspace; then the weights are known, and the second adds up the values.
// Same bits as chunk_kernel and chunk_merge_kernel.
#pragma once

#include "waveattn/attention/chunk_kernel.h"

#ifdef __HIP__
namespace waveattn::detail {

// What the first pass leaves of a chunk, where chunk_kernel has the chunk's output.
template <class Traits> struct ChunkRecord {
    static constexpr int p_floats = chunk_cells * Traits::p_row;
    static constexpr int cells = p_floats, cell_words = chunk_cells + 2, floats = cells + cell_words;
    static constexpr bool fits(std::int64_t group) { return floats <= group * Traits::head_dim; }
};

template <class Traits> struct FusedLds {
    ChunkLds<Traits> chunk;
    struct Stage {
        alignas(16) float p[ChunkRecord<Traits>::p_floats];
        ChunkCells cells;
        float weight[16];
    } stage[2];
    float sum[16]; // L of each head
};

// One chunk's record on its way from memory to LDS: in registers while the chunk before is computed.
template <class Traits> struct StagedChunk {
    using Record = ChunkRecord<Traits>;
    using Unaligned = arch::float4v __attribute__((aligned(4)));
    static constexpr int pieces = Record::p_floats / 4, turns = ceil_div(pieces, chunk_threads);
    arch::float4v p[turns];
    int cell_word;
    float weight;

    WAVEATTN_DEVICE void load(const ChunkParams& params, std::int64_t slot) {
        const float* record = params.part_acc + slot * params.group * Traits::head_dim;
        const int thread = int(arch::thread_x());
#    pragma unroll
        for (int i = 0; i < turns; ++i)
            if (i * chunk_threads + thread < pieces)
                p[i] = *reinterpret_cast<const Unaligned*>(record + unsigned(i * chunk_threads + thread) * 4u);
        if (thread < Record::cell_words)
            cell_word = reinterpret_cast<const int*>(record + Record::cells)[unsigned(thread)];
        if (thread < params.group) weight = (params.part_m + slot * params.group)[unsigned(thread)];
    }
    WAVEATTN_DEVICE void store(const ChunkParams& params, typename FusedLds<Traits>::Stage& stage) const {
        const int thread = int(arch::thread_x());
#    pragma unroll
        for (int i = 0; i < turns; ++i)
            if (i * chunk_threads + thread < pieces)
                *reinterpret_cast<arch::float4v*>(stage.p + (i * chunk_threads + thread) * 4) = p[i];
        if (thread < Record::cell_words) stage.cells.rows[thread] = cell_word; // the masks follow the rows
        if (thread < params.group) stage.weight[thread] = weight;
    }
};

// The first pass over one chunk, whose cells are known; meanwhile one wave looks up those of the next chunk. Ends with
// a barrier, and with every wave's copy of the probabilities to memory after it.
template <class Traits, ChunkPolicy Policy>
WAVEATTN_DEVICE void record_chunk(const ChunkParams& p, const ChunkTask& next, std::int64_t slot, FusedLds<Traits>& lds,
    const ChunkCells& cells, ChunkCells& next_cells, int wave) {
    using Record = ChunkRecord<Traits>;
    using Staged = StagedChunk<Traits>;
    const int thread = int(arch::thread_x());
    float* record = p.part_acc + slot * p.group * Traits::head_dim;
    const unsigned visible_low = unsigned(arch::uniform(int(cells.visible[0])));
    const unsigned visible_high = unsigned(arch::uniform(int(cells.visible[1])));
    const bool any = (visible_low | visible_high) != 0;
    const unsigned mine = (wave < 4 ? visible_low : visible_high) >> wave % 4 * 8 & 0xffu;
    if (mine) score_cells<Traits, Policy>(p, ExactSlices<Traits, Policy>(lds.chunk), cells.rows, lds.chunk.s, wave);
    if (thread < Record::cell_words)
        reinterpret_cast<int*>(record + Record::cells)[unsigned(thread)] = cells.rows[thread];
    arch::barrier();
    if (wave == chunk_waves - 1 && next.count > 0) find_rows(p, next, next_cells);
    float* probabilities = lds.stage[0].p;
    if (any)
        chunk_softmax<Traits, Policy>(p, lds.chunk.s, probabilities, wave, visible_low, visible_high,
            p.part_m + slot * p.group, p.part_l + slot * p.group);
    else if (thread < p.group)
        p.part_m[slot * p.group + thread] = chunk_masked, p.part_l[slot * p.group + thread] = 0;
    arch::barrier();
    if (!any) return;
#    pragma unroll
    for (int i = 0; i < Staged::turns; ++i)
        if (i * chunk_threads + thread < Staged::pieces)
            *reinterpret_cast<typename Staged::Unaligned*>(record + unsigned(i * chunk_threads + thread) * 4u) =
                *reinterpret_cast<const arch::float4v*>(probabilities + (i * chunk_threads + thread) * 4);
}

// The chunks' weights, in place of their maxima, and L; a wave has two heads, a lane one of 32 chunks.
template <class Traits>
WAVEATTN_DEVICE void weigh_chunks(const ChunkParams& p, int query, int kv_head, std::int64_t first_slot, int chunks,
    FusedLds<Traits>& lds, int wave) {
    const int lane = int(arch::lane_id());
    for (int head = 2 * wave; head < 2 * wave + 2 && head < p.group; ++head) {
        float* part_m = p.part_m + first_slot * p.group + head;
        const float* part_l = p.part_l + first_slot * p.group + head;
        float largest = chunk_masked, sum = 0;
        for (int chunk = lane; chunk < chunks; chunk += 32)
            largest = arch::max(largest, part_m[std::int64_t(chunk) * p.group]);
        largest = tile::max_of_32_lanes<tile::Exchange::registers>(largest);
        for (int batch = 0; batch < chunks; batch += 32) {
            float weight = 0, l = 0;
            if (batch + lane < chunks) {
                const std::int64_t place = std::int64_t(batch + lane) * p.group;
                l = part_l[place];
                weight = arch::exp2((part_m[place] - largest) * arch::log2e);
                part_m[place] = weight;
            }
            for (unsigned present = arch::ballot32(l != 0); present; present &= present - 1) {
                const int i = __builtin_ctz(present);
                sum = arch::fma(arch::read_lane(l, i), arch::read_lane(weight, i), sum);
            }
        }
        if (lane == 0) {
            lds.sum[head] = sum;
            if (p.lse)
                p.lse[query * p.lse_query_stride + (kv_head * p.group + head) * p.lse_head_stride] =
                    sum == 0 ? -arch::infinity : arch::fma(arch::log2(sum), arch::ln2, largest);
        }
    }
}

// Grid (kv_heads, queries).
template <class Arch, class Traits, ChunkPolicy Policy>
__global__ __launch_bounds__(chunk_threads) void chunk_fused_kernel(ChunkParams arguments) {
    if constexpr (!arch::compiled_for<Arch>) {
        arch::trap_stub();
    } else {
        __shared__ FusedLds<Traits> lds;
        const int kv_head = int(arch::block_x()), query = int(arch::block_y());
        const int wave = arch::uniform(int(arch::thread_x() / 32u));
        const int width = ChunkTask::width(arguments, query), chunks = (width + chunk_cells - 1) / chunk_cells;
        const std::int64_t first_slot = (std::int64_t(query) * arguments.kv_heads + kv_head) * arguments.chunks;

        const ChunkTask first(arguments, 0, kv_head, query);
        if (wave == 0) find_rows(arguments, first, lds.stage[0].cells);
        load_q<Traits, Policy>(arguments, first, lds.chunk);
        arch::barrier();
#    pragma unroll 1
        for (int chunk = 0; chunk < chunks; ++chunk)
            record_chunk<Traits, Policy>(arguments, ChunkTask(arguments, chunk + 1, kv_head, query), first_slot + chunk,
                lds, lds.stage[chunk % 2].cells, lds.stage[(chunk + 1) % 2].cells, wave);
        arch::barrier();
        weigh_chunks(arguments, query, kv_head, first_slot, chunks, lds, wave);
        arch::barrier();

        const auto p = arch::reload_arguments<ChunkParams>();
        constexpr int heads = Traits::thread_heads;
        const int head_block = wave / (Traits::head_dim / 32), first_head = head_block * heads;
        int dim = int(arch::thread_x()) % Traits::head_dim;
        float o[heads] = {};
        StagedChunk<Traits> staged;
        if (chunks > 0) staged.load(p, first_slot);
#    pragma unroll 1
        for (int chunk = 0; chunk < chunks; ++chunk) {
            // The stage of two chunks ago: all waves have passed the barrier of the chunk after it.
            auto& stage = lds.stage[chunk % 2];
            staged.store(p, stage);
            arch::barrier();
            if (chunk + 1 < chunks) staged.load(p, first_slot + chunk + 1);
            const unsigned visible_low = unsigned(arch::uniform(int(stage.cells.visible[0])));
            const unsigned visible_high = unsigned(arch::uniform(int(stage.cells.visible[1])));
            if ((visible_low | visible_high) == 0) continue;
            ValuePhase<Traits, Policy> values{p, stage.p + first_head, dim, {}};
            values.run(stage.cells.rows, visible_low, visible_high);
#    pragma unroll
            for (int h = 0; h < heads; ++h) o[h] = arch::fma(values.acc[h], stage.weight[first_head + h], o[h]);
        }
        float* out = p.o + query * p.o_query_stride + (kv_head * p.group + first_head) * p.o_head_stride;
        dim = arch::opaque(dim);
#    pragma unroll
        for (int h = 0; h < heads; ++h)
            if (first_head + h < p.group) {
                const float sum = lds.sum[first_head + h];
                (out + h * p.o_head_stride)[unsigned(dim)] = sum == 0 ? 0.f : o[h] / sum;
            }
    }
}

} // namespace waveattn::detail
#endif
