// The chunk kernel: one workgroup of 8 waves computes one chunk of 64 cells for one query and KV head.
//
//   scores    s[h][c] = scale * (q[h] . k[c])
//   softmax   m[h] = max s[h][.], p[c][h] = exp(s[h][c] - m[h]), l[h] = sum p[.][h]   within the chunk
//   values    acc[h][d] = sum over c of p[c][h] * v[c][d]
//
// m, l and the unnormalised acc go to the workspace; chunk_merge.h combines the chunks. All policies below compute the
// same bits: they follow one canonical order of arithmetic (docs/kernels/chunk.md), and differ in which lanes hold
// what, in how lanes exchange, and in what is read how often.
#pragma once

#include "waveattn/attention/chunk_policy.h"
#include "waveattn/attention/chunk_rows.h"
#include "waveattn/tile/lane_exchange.h"

namespace waveattn {

namespace detail {

inline constexpr int chunk_waves = 8, chunk_threads = 256, chunk_cells_per_wave = chunk_cells / chunk_waves;
inline constexpr float chunk_masked = -std::numeric_limits<float>::max(); // the score of a cell that is not there

// What a kernel is compiled for. GroupPad: the query heads of a KV head, or more (the rest is padding).
template <int HeadDim, KvFormat Format_, int GroupPad> struct ChunkTraits {
    static constexpr int head_dim = HeadDim, group_pad = GroupPad;
    static constexpr KvFormat format = Format_;
    static constexpr RowFormat keys = key_format(Format_), values = value_format(Format_);
    static_assert(HeadDim == 64 || HeadDim == 128 || HeadDim == 256);
    static_assert(GroupPad >= 1 && GroupPad <= 16);
    static constexpr int slice = HeadDim / 32; // dimensions that a lane takes of a row, in the canonical order

    // Values: a thread owns one dimension of `thread_heads` heads.
    static constexpr int head_blocks = chunk_threads / HeadDim;
    static constexpr int thread_heads = ceil_div(GroupPad, head_blocks);
    // Heads of a row of p that one LDS read takes, and the length of a row: an odd number of such reads, so that 8 or
    // more lanes which read neighbouring rows hit different banks.
    static constexpr int p_vector = thread_heads % 4 == 0 ? 4 : thread_heads % 2 == 0 ? 2 : 1;
    static constexpr int p_reads = head_blocks * thread_heads / p_vector;
    static constexpr int p_row = (p_reads + (p_reads % 2 == 0)) * p_vector;
};

} // namespace detail

#ifdef __HIP__
namespace detail {

// ---- LDS ----
// Where the cells of a chunk are.
struct alignas(16) ChunkCells {
    int rows[chunk_cells]; // pool row of each cell; where masked, of some other cell
    unsigned visible[2];   // bit c: cell c is there
};
// The tile of q is dead when the probabilities are written.
template <class Traits> struct ChunkLds {
    static constexpr int q_floats = Traits::group_pad * Traits::head_dim, p_floats = chunk_cells * Traits::p_row;
    alignas(16) float q_or_p[q_floats > p_floats ? q_floats : p_floats];
    alignas(16) float s[Traits::group_pad * chunk_cells]; // [head, cell]

    // Where 4 (or slice, if less) consecutive values of q from `dim` on lie.
    template <bool Planes> WAVEATTN_DEVICE float* q(int head, int dim) {
        constexpr int D = Traits::head_dim;
        if constexpr (Planes && Traits::slice == 8)
            return q_or_p + head * D + (dim % 8) / 4 * (D / 2) + dim / 8 * 4;
        else
            return q_or_p + head * D + dim;
    }
};

// The cells of one chunk of a query.
struct ChunkTask {
    int query, kv_head, first, count; // cells first .. first + count of the query's selection; count <= 0: none
    WAVEATTN_DEVICE ChunkTask(const ChunkParams& p, int chunk, int kv_head_, int query_)
        : query(query_), kv_head(kv_head_), first(chunk * chunk_cells) {
        const int rest = width(p, query) - first;
        count = rest < chunk_cells ? rest : chunk_cells;
    }
    WAVEATTN_DEVICE static int width(const ChunkParams& p, int query) {
        const int width = p.widths ? p.widths[query] : p.max_width;
        return width < p.max_width ? width : p.max_width;
    }
};

// ---- where the cells are ----
// One wave looks up the rows of all 64 cells. A masked cell gets the row of a visible one, so that the score phase
// needs no branches; its score is discarded.
WAVEATTN_DEVICE void find_rows(const ChunkParams& p, const ChunkTask& task, ChunkCells& cells) {
    const int lane = int(arch::lane_id());
    const int sequence = p.sequence_of ? p.sequence_of[task.query] : 0;
    const bool known = sequence >= 0 && sequence < p.sequences;
    int row[2];
    unsigned visible[2];
#    pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int place = lane + 32 * half;
        int cell = task.first + place;
        row[half] = -1;
        if (known && place < task.count) {
            if (p.ids) cell = p.ids[task.query * p.ids_stride + cell];
            if (cell >= 0 && cell < p.cells) {
                const int page_of_sequence = int((std::uint64_t(cell) * p.page_multiplier) >> p.page_shift);
                const int slot = cell - page_of_sequence * p.page_size;
                const int page = p.page_table ? p.page_table[sequence * p.table_stride + page_of_sequence] : sequence;
                if (page >= 0 && page < p.pages)
                    row[half] = page * p.page_rows + task.kv_head * p.head_rows + slot * p.slot_rows;
            }
        }
        visible[half] = arch::ballot32(row[half] >= 0);
    }
    const unsigned some = visible[0] ? visible[0] : visible[1];
    const int some_row = some ? arch::read_lane(visible[0] ? row[0] : row[1], __builtin_ctz(some)) : 0;
#    pragma unroll
    for (int half = 0; half < 2; ++half) cells.rows[lane + 32 * half] = row[half] >= 0 ? row[half] : some_row;
    if (lane < 2) cells.visible[lane] = lane ? visible[1] : visible[0];
}

template <class Traits, ChunkPolicy Policy>
WAVEATTN_DEVICE void load_q(const ChunkParams& p, const ChunkTask& task, ChunkLds<Traits>& lds) {
    using Unaligned = arch::float4v __attribute__((aligned(4)));
    constexpr int pieces = Traits::head_dim / 4, all = Traits::group_pad * pieces;
    const float* q = p.q + task.query * p.q_query_stride + task.kv_head * p.group * p.q_head_stride;
#    pragma unroll
    for (int i = 0; i < ceil_div(all, chunk_threads); ++i) {
        const int piece = i * chunk_threads + int(arch::thread_x());
        const int head = piece / pieces, dim = piece % pieces * 4;
        if (all % chunk_threads != 0 && piece >= all) continue;
        arch::float4v value = {0, 0, 0, 0};
        if (head < p.group) value = *reinterpret_cast<const Unaligned*>(q + head * p.q_head_stride + dim);
        *reinterpret_cast<arch::float4v*>(lds.template q<Policy.q_planes>(head, dim)) = value;
    }
}

// ---- scores ----
// Which lanes score what.
template <ChunkPolicy Policy> struct ScoreLanes {
    static constexpr int segments = Policy.half_wave ? 2 : 1;      // slices of a row in a lane = cells in a wave
    static constexpr int lanes = 32 / segments;                    // of a cell
    static constexpr int cells = Policy.cells_per_step / segments; // of a lane in a step
    static_assert(cells >= 1 && chunk_cells_per_wave % Policy.cells_per_step == 0);
    struct PerCell {
        float value[cells];
    };
};

// A lane's slices of the keys, and its part of each head's scores: in the canonical order.
template <class Traits, ChunkPolicy Policy> struct ExactSlices : ScoreLanes<Policy> {
    using Lanes = ScoreLanes<Policy>;
    using PerCell = typename Lanes::PerCell;
    static constexpr int width = Traits::slice, piece = width < 4 ? width : 4; // of one LDS read

    ChunkLds<Traits>& lds;
    int slice; // of the row, in units of `width` dimensions; the second segment's is `lanes` further
    KeySlice<Traits::keys, Traits::head_dim> k[Lanes::cells][Lanes::segments];

    WAVEATTN_DEVICE explicit ExactSlices(ChunkLds<Traits>& lds_)
        : lds(lds_), slice(int(arch::lane_id()) % Lanes::lanes) {}

    WAVEATTN_DEVICE void load(const ChunkParams& p, int cell, std::int64_t row) {
        k[cell][0].template load<0>(p, row, slice * width);
        if constexpr (Policy.half_wave) k[cell][1].template load<Traits::head_dim / 2>(p, row, slice * width);
    }
    WAVEATTN_DEVICE float score_scale(const ChunkParams& p, int) const { return p.scale; }

    // The canonical dot product of a slice: k1*q1, then fma with k0*q0, k2*q2, k3*q3, ...
    template <class Key, std::size_t... I>
    WAVEATTN_DEVICE static float dot(const Key& key, const float (&q)[width], std::index_sequence<I...>) {
        float sum = key.template get<1>() * q[1];
        sum = arch::fma(key.template get<0>(), q[0], sum);
        ((sum = arch::fma(key.template get<int(I) + 2>(), q[I + 2], sum)), ...);
        return sum;
    }
    template <int Head> WAVEATTN_DEVICE PerCell partial() const {
        PerCell result;
#    pragma unroll
        for (int segment = 0; segment < Lanes::segments; ++segment) {
            float q[width];
#    pragma unroll
            for (int e = 0; e < width; e += piece) {
                using Piece = arch::Vector<float, piece>;
                const Piece values = *reinterpret_cast<const Piece*>(
                    lds.template q<Policy.q_planes>(Head, (slice + segment * Lanes::lanes) * width + e));
#    pragma unroll
                for (int i = 0; i < piece; ++i) q[e + i] = values[i];
            }
#    pragma unroll
            for (int c = 0; c < Lanes::cells; ++c) {
                const float sum = dot(k[c][segment], q, std::make_index_sequence<width - 2>{});
                // Half a wave for a cell: lanes l and l + 16 of the canonical order are one lane.
                result.value[c] = segment == 0 ? sum : result.value[c] + sum;
            }
        }
        return result;
    }
};

// The sums over the lanes of a cell form a tree: level i + 1 has half as many nodes as level i (rounded up), node n of
// it the sums of nodes n and n + half of level i, by the lane's bit of mask[i]; the last ones may be alone.
template <class Traits, ChunkPolicy Policy, class Slices> struct ScoreTree : ScoreLanes<Policy> {
    using Lanes = ScoreLanes<Policy>;
    using PerCell = typename Lanes::PerCell;
    static constexpr int levels = Policy.half_wave ? 4 : 5;
    static constexpr auto exchange = Policy.dpp ? tile::Exchange::registers : tile::Exchange::crossbar;
    static constexpr int mask(int level) { return Lanes::lanes / 2 >> level; }
    static constexpr int nodes(int level) { return ceil_div(Traits::group_pad, 1 << level); }

    template <int Level, int Node> WAVEATTN_DEVICE static PerCell node(const Slices& slices) {
        PerCell result;
        if constexpr (Level == 0) {
            // One head's reads of q and its arithmetic after the other's: mixed, they would fill the registers.
            arch::schedule_barrier<0>();
            result = slices.template partial<Node>();
#    pragma unroll
            for (int c = 0; c < Lanes::cells; ++c) result.value[c] = arch::opaque(result.value[c]);
        } else {
            constexpr int partner = Node + nodes(Level);
            const PerCell a = node<Level - 1, Node>(slices);
            if constexpr (partner < nodes(Level - 1)) {
                const PerCell b = node<Level - 1, partner>(slices);
#    pragma unroll
                for (int c = 0; c < Lanes::cells; ++c)
                    result.value[c] =
                        tile::reduce_pair<mask(Level - 1), exchange, Policy.masked_adds>(a.value[c], b.value[c]);
            } else {
#    pragma unroll
                for (int c = 0; c < Lanes::cells; ++c)
                    result.value[c] = a.value[c] + tile::exchange_xor<mask(Level - 1), exchange>(a.value[c]);
            }
        }
        return result;
    }

    // Without the reduce-scatter: a butterfly for each head, of which lane h keeps the result.
    template <int... H>
    WAVEATTN_DEVICE static float butterflies(const Slices& slices, std::integer_sequence<int, H...>) {
        float mine = 0;
        (keep_in_lane<H>(mine, tile::sum_of_32_lanes<exchange>(node<0, H>(slices).value[0])), ...);
        return mine;
    }
    template <int Lane> WAVEATTN_DEVICE static void keep_in_lane(float& mine, float value) {
        mine = arch::lane_id() == unsigned(Lane) ? value : mine;
        if constexpr (Lane % 6 == 5) mine = arch::opaque(mine); // six butterflies at a time: more need more registers
    }

    // The head whose sums a lane ends with, or -1 where another lane has the same.
    WAVEATTN_DEVICE static int head_of(int lane) {
        int head = 0;
        bool first = true;
#    pragma unroll
        for (int level = levels; level > 0; --level) {
            const bool upper = (lane & mask(level - 1)) != 0, paired = head + nodes(level) < nodes(level - 1);
            head += upper && paired ? nodes(level) : 0;
            first = first && (!upper || paired);
        }
        return first ? head : -1;
    }
};

// A wave's 8 cells of the chunk, into scores[head][cell].
template <class Traits, ChunkPolicy Policy, class Slices>
WAVEATTN_DEVICE void score_cells(const ChunkParams& p, Slices slices, const int* rows, float* scores, int wave) {
    using Tree = ScoreTree<Traits, Policy, Slices>;
    const int lane = int(arch::lane_id()), segment = lane / Tree::lanes;
    const int head = Policy.reduce_scatter ? Tree::head_of(lane) : lane;
#    pragma unroll 1
    for (int step = 0; step < chunk_cells_per_wave; step += Policy.cells_per_step) {
        slices.slice =
            arch::opaque(slices.slice); // q is read anew in each step: kept in registers, it would take 96 of them
        const int first = wave * chunk_cells_per_wave + step + segment * Tree::cells; // the lane's first cell
#    pragma unroll
        for (int c = 0; c < Tree::cells; ++c)
            slices.load(p, c, Policy.half_wave ? rows[first + c] : arch::uniform(rows[first + c]));
        typename Tree::PerCell sums;
        if constexpr (Policy.reduce_scatter) {
            sums = Tree::template node<Tree::levels, 0>(slices);
        } else {
            static_assert(Policy.reduce_scatter || (Policy.cells_per_step == 1 && !Policy.half_wave));
            sums.value[0] = Tree::butterflies(slices, std::make_integer_sequence<int, Traits::group_pad>{});
        }
        if (head >= 0 && head < Traits::group_pad) {
            arch::Vector<float, Tree::cells> values;
            const float scale = slices.score_scale(p, head);
#    pragma unroll
            for (int c = 0; c < Tree::cells; ++c) values[c] = sums.value[c] * scale;
            *reinterpret_cast<arch::Vector<float, Tree::cells>*>(scores + head * chunk_cells + first) = values;
        }
    }
}

// ---- softmax of the chunk ----
// Wave w takes heads 2w and 2w + 1; a lane has cells `lane` and `lane + 32`.
template <class Traits, ChunkPolicy Policy>
WAVEATTN_DEVICE void chunk_softmax(const ChunkParams& p, const float* scores, float* probabilities, int wave,
    unsigned visible_low, unsigned visible_high, float* m, float* l) {
    constexpr auto exchange = Policy.dpp ? tile::Exchange::registers : tile::Exchange::crossbar;
    const int lane = int(arch::lane_id());
    const bool low_visible = arch::lane_bit32(visible_low), high_visible = arch::lane_bit32(visible_high);
#    pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int head = 2 * wave + i;
        if (head >= p.group) continue;
        const float low = low_visible ? scores[head * chunk_cells + lane] : chunk_masked;
        const float high = high_visible ? scores[head * chunk_cells + lane + 32] : chunk_masked;
        const float largest = tile::max_of_32_lanes<exchange>(arch::max(low, high));
        const float e_low = low_visible ? arch::exp2((low - largest) * arch::log2e) : 0.f;
        const float e_high = high_visible ? arch::exp2((high - largest) * arch::log2e) : 0.f;
        const float sum = tile::sum_of_32_lanes<exchange>(e_low + e_high);
        probabilities[lane * Traits::p_row + head] = e_low;
        probabilities[(lane + 32) * Traits::p_row + head] = e_high;
        if (lane == 0) m[head] = largest, l[head] = sum;
    }
}

// ---- values ----
template <class Traits, ChunkPolicy Policy> struct ValuePhase {
    using Element = ValueElement<Traits::values, Traits::head_dim>;
    static constexpr int heads = Traits::thread_heads;
    const ChunkParams& p;
    const float* probabilities; // of the thread's heads
    int dim;
    float acc[heads];

    WAVEATTN_DEVICE void load_p(float (&out)[heads], int cell) const {
        using Piece = arch::Vector<float, Traits::p_vector>;
#    pragma unroll
        for (int h = 0; h < heads; h += Traits::p_vector) {
            const Piece piece = *reinterpret_cast<const Piece*>(probabilities + cell * Traits::p_row + h);
#    pragma unroll
            for (int i = 0; i < Traits::p_vector; ++i) out[h + i] = piece[i];
        }
    }

    // One cell whose value is known, its probabilities read from LDS.
    WAVEATTN_DEVICE void add_cell(int cell, float value) {
        float probability[heads];
        load_p(probability, cell);
#    pragma unroll
        for (int h = 0; h < heads; ++h) acc[h] = arch::fma(probability[h], value, acc[h]);
    }
    WAVEATTN_DEVICE float value_of(const Element& element, int row) const {
        if constexpr (Element::separate_scale)
            return element.code(dim) * Element::scale(p, row, dim);
        else
            return element.code(dim);
    }

    // 16 visible cells whose rows lie in the lanes of a row of lanes.
    template <int... C> WAVEATTN_DEVICE void add_16_cells(int first, int row, std::integer_sequence<int, C...>) {
        Element element[16];
        ((element[C].load(p, arch::read_lane(row, C), dim)), ...);
        float probability[heads];
        load_p(probability, first + int(arch::lane_id() % 16u));
        float scale = 0;
        if constexpr (Element::separate_scale) scale = Element::scale(p, row, dim);
        (add_shared_cell<C>(probability, element[C].code(dim), scale), ...);
    }
    template <int C> WAVEATTN_DEVICE void add_shared_cell(const float (&probability)[heads], float value, float scale) {
        if constexpr (Element::separate_scale) value *= arch::row_share<C>(scale);
#    pragma unroll
        for (int h = 0; h < heads; ++h) arch::fma_row_share<C>(acc[h], probability[h], value);
    }

    // Cells first .. first + 15, all visible. `row` holds their rows in the lanes of each row of lanes.
    WAVEATTN_DEVICE void add_full_block(int first, int row) {
        if constexpr (Policy.row_share) {
            add_16_cells(first, row, std::make_integer_sequence<int, 16>{});
        } else {
            constexpr int batch = Policy.cells_per_step > 1 ? 4 : 1; // loads in flight
#    pragma unroll 1
            for (int c = 0; c < 16; c += batch) {
                Element element[batch];
                float value[batch];
#    pragma unroll
                for (int i = 0; i < batch; ++i) element[i].load(p, arch::read_lane(row, c + i), dim);
#    pragma unroll
                for (int i = 0; i < batch; ++i) value[i] = value_of(element[i], arch::read_lane(row, c + i));
#    pragma unroll
                for (int i = 0; i < batch; ++i) add_cell(first + c + i, value[i]);
            }
        }
    }

    WAVEATTN_DEVICE void add_one(int cell, const int* rows) {
        const int row = arch::uniform(rows[cell]);
        dim = arch::opaque(dim);
        Element element;
        element.load(p, row, dim);
        add_cell(cell, value_of(element, row));
    }

    WAVEATTN_DEVICE void run(const int* rows, unsigned visible_low, unsigned visible_high) {
#    pragma unroll
        for (int h = 0; h < heads; ++h) acc[h] = 0;
        const std::uint64_t visible = std::uint64_t(visible_high) << 32 | visible_low;
        int first = 0;
        while (first < chunk_cells) {
#    pragma unroll 1
            for (; first < chunk_cells && (visible >> first & 0xffffu) == 0xffffu; first += 16) {
                // Otherwise the pool's address plus `dim` would be computed once, in vector registers, and each row
                // added to it by vector instructions. A scalar row address and an offset in the load cost none.
                dim = arch::opaque(dim);
                add_full_block(first, rows[first + int(arch::lane_id() % 16u)]);
            }
            if (first >= chunk_cells) break;
            // Masked cells are skipped.
#    pragma unroll 1
            for (unsigned cells = unsigned(visible >> first) & 0xffffu; cells; cells &= cells - 1)
                add_one(first + __builtin_ctz(cells), rows);
            first += 16;
        }
    }
};

// ---- results ----
WAVEATTN_DEVICE void write_empty_chunk(const ChunkParams& p, std::int64_t slot) {
    const int thread = int(arch::thread_x());
    if (thread < p.group) p.part_m[slot * p.group + thread] = chunk_masked, p.part_l[slot * p.group + thread] = 0;
}
template <class Traits>
WAVEATTN_DEVICE void write_chunk(
    const ChunkParams& p, std::int64_t slot, int first_head, const float (&acc)[Traits::thread_heads], int dim) {
    float* out = p.part_acc + (slot * p.group + first_head) * Traits::head_dim;
    dim = arch::opaque(dim);
#    pragma unroll
    for (int h = 0; h < Traits::thread_heads; ++h)
        if (first_head + h < p.group) (out + h * Traits::head_dim)[unsigned(dim)] = acc[h];
}

// Grid (chunks, kv_heads, queries).
template <class Arch, class Traits, ChunkPolicy Policy>
__global__ __launch_bounds__(chunk_threads) void chunk_kernel(ChunkParams p) {
    if constexpr (!arch::compiled_for<Arch>) {
        arch::trap_stub();
    } else {
        __shared__ ChunkLds<Traits> lds;
        __shared__ ChunkCells cells;
        const int chunk = int(arch::block_x()), wave = arch::uniform(int(arch::thread_x() / 32u));
        const ChunkTask task(p, chunk, int(arch::block_y()), int(arch::block_z()));
        if (task.count <= 0) return; // the merge knows the width, too
        const std::int64_t slot = (std::int64_t(task.query) * p.kv_heads + task.kv_head) * p.chunks + chunk;

        if (wave == 0) find_rows(p, task, cells);
        load_q<Traits, Policy>(p, task, lds);
        arch::barrier();
        const unsigned visible_low = unsigned(arch::uniform(int(cells.visible[0])));
        const unsigned visible_high = unsigned(arch::uniform(int(cells.visible[1])));
        if ((visible_low | visible_high) == 0) return write_empty_chunk(p, slot);

        const unsigned mine = (wave < 4 ? visible_low : visible_high) >> wave % 4 * 8 & 0xffu;
        if (mine) score_cells<Traits, Policy>(p, ExactSlices<Traits, Policy>(lds), cells.rows, lds.s, wave);
        arch::barrier();
        chunk_softmax<Traits, Policy>(p, lds.s, lds.q_or_p, wave, visible_low, visible_high, p.part_m + slot * p.group,
            p.part_l + slot * p.group);
        arch::barrier();

        const int head_block = wave / (Traits::head_dim / 32), first_head = head_block * Traits::thread_heads;
        if (first_head >= p.group) return;
        ValuePhase<Traits, Policy> values{p, lds.q_or_p + first_head, int(arch::thread_x()) % Traits::head_dim, {}};
        values.run(cells.rows, visible_low, visible_high);
        write_chunk<Traits>(p, slot, first_head, values.acc, values.dim);
    }
}

} // namespace detail
#endif

} // namespace waveattn
