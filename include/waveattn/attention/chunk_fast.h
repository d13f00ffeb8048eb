// Chunk attention of int8 caches by the integer and half-precision dot products: a fast mode, NOT bit-exact.
//
//   QK   q is rounded to int8, one scale for each head (max |q| / 127); v_dot4 of codes, exact in int32
//   PV   v_dot2 of pairs of cells: codes of v exact in fp16, p times the cell's scale rounded to fp16, sums in fp32
//
// Error budget, besides the fp32 rounding of the exact kernels. Rounding q moves a score by at most
// d = scale * max |q| / 254 * sum |k|, so each weight by a factor within e^(+-2d). Rounding p toward zero to 11 bits
// lowers a weight by at most 2^-10 of itself (and what is below 2^-24 of a block's largest becomes 0). So
//
//   |o - exact o| <= (2 d + 2^-10) * 2 max |v|    and    |lse - exact lse| <= d
//
// Everything else (cells, softmax, workspace, merge) is shared with the exact kernels.
#pragma once

#include "waveattn/attention/chunk_kernel.h"

#ifdef __HIP__
namespace waveattn::detail {

inline constexpr ChunkPolicy chunk_fast_policy = chunk_half_wave;

template <class Traits> struct FastLds {
    static constexpr int D = Traits::head_dim;
    alignas(16) unsigned q[Traits::group_pad * D / 4]; // int8 codes [head, dim]
    float q_scale[Traits::group_pad];
    alignas(16) float s[Traits::group_pad * chunk_cells]; // [head, cell]
    alignas(16) float p[chunk_cells * Traits::p_row];     // [cell, head]
};

// A wave quantises the heads wave, wave + 8 of q; a lane has D / 32 neighbouring dimensions.
template <class Traits>
WAVEATTN_DEVICE void quantize_q(const ChunkParams& p, const ChunkTask& task, FastLds<Traits>& lds, int wave) {
    constexpr int E = Traits::slice;
    const int lane = int(arch::lane_id());
    const float* q = p.q + task.query * p.q_query_stride + task.kv_head * p.group * p.q_head_stride;
    for (int head = wave; head < Traits::group_pad; head += chunk_waves) {
        float value[E] = {}, largest = 0;
        if (head < p.group) {
#    pragma unroll
            for (int e = 0; e < E; ++e) value[e] = (q + head * p.q_head_stride)[unsigned(lane * E + e)];
        }
        bool finite = true;
#    pragma unroll
        for (int e = 0; e < E; ++e) {
            largest = arch::max(largest, arch::abs(value[e]));
            finite = finite && value[e] - value[e] == 0;
        }
        largest = tile::max_of_32_lanes<tile::Exchange::registers>(largest);
        const float scale = largest / 127.f, inverse = largest > 0 ? 127.f / largest : 0.f;
        auto* codes = reinterpret_cast<signed char*>(lds.q) + head * Traits::head_dim + lane * E;
        arch::Vector<signed char, E> packed;
#    pragma unroll
        for (int e = 0; e < E; ++e) packed[e] = static_cast<signed char>(__builtin_rintf(value[e] * inverse));
        *reinterpret_cast<arch::Vector<signed char, E>*>(codes) = packed;
        // A head with a NaN or an infinity has no codes: its scores become NaN.
        const bool all_finite = arch::ballot32(!finite) == 0;
        if (lane == 0) lds.q_scale[head] = all_finite ? scale : __builtin_nanf("");
    }
}

// 16 lanes for a cell, D / 16 neighbouring dimensions for a lane, which share one scale of k.
template <class Traits> struct FastSlices : ScoreLanes<chunk_fast_policy> {
    using Lanes = ScoreLanes<chunk_fast_policy>;
    using PerCell = typename Lanes::PerCell;
    static constexpr int D = Traits::head_dim, words = D / 64; // of a lane
    using Words = arch::Vector<int, words>;

    const FastLds<Traits>& lds;
    int slice;
    Words k[Lanes::cells];
    float k_scale[Lanes::cells];

    WAVEATTN_DEVICE explicit FastSlices(const FastLds<Traits>& lds_)
        : lds(lds_), slice(int(arch::lane_id()) % Lanes::lanes) {}

    WAVEATTN_DEVICE void load(const ChunkParams& p, int cell, std::int64_t row) {
        k[cell] = *reinterpret_cast<const Words*>(static_cast<const char*>(p.k) + row * D + unsigned(slice * (D / 16)));
        k_scale[cell] =
            float(reinterpret_cast<const _Float16*>(p.k_scale)[row * (D / 64) + unsigned(slice * (D / 16)) / 64u]);
    }
    WAVEATTN_DEVICE float score_scale(const ChunkParams& p, int head) const { return p.scale * lds.q_scale[head]; }
    template <int Head> WAVEATTN_DEVICE PerCell partial() const {
        const Words q = reinterpret_cast<const Words*>(lds.q)[Head * 16 + slice];
        PerCell result;
#    pragma unroll
        for (int c = 0; c < Lanes::cells; ++c) {
            int sum = 0;
#    pragma unroll
            for (int word = 0; word < words; ++word) sum = arch::dot4_i8(k[c][word], q[word], sum);
            result.value[c] = float(sum) * k_scale[c];
        }
        return result;
    }
};

// 32 cells at a time: lane l % 16 of a row of lanes has the probabilities of cells 2l and 2l + 1.
template <class Traits> struct FastValues {
    using Exact = ValuePhase<Traits, chunk_fast_policy>;
    static constexpr int heads = Traits::thread_heads;
    Exact exact; // for blocks with masked cells, and the sums

    template <int... Pair>
    WAVEATTN_DEVICE void add_32_cells(int first, const int* rows, std::integer_sequence<int, Pair...>) {
        const ChunkParams& p = exact.p;
        const int lane = int(arch::lane_id());
        const int row = rows[first + lane];
        unsigned code[16];
        ((code[Pair] = load_pair(arch::read_lane(row, 2 * Pair), arch::read_lane(row, 2 * Pair + 1))), ...);
        const int own = first + lane % 16 * 2; // the lane's cells
        float low[heads], high[heads];
        exact.load_p(low, own);
        exact.load_p(high, own + 1);
        const float scale_low = ValueElement<RowFormat::int8, Traits::head_dim>::scale(p, rows[own], exact.dim);
        const float scale_high = ValueElement<RowFormat::int8, Traits::head_dim>::scale(p, rows[own + 1], exact.dim);
        // Relative to the block's largest scale, p * scale fits fp16 whatever the size of the values is.
        float largest = arch::max(arch::abs(scale_low), arch::abs(scale_high));
        largest = arch::max(largest, arch::row_xor<8>(largest));
        largest = arch::max(largest, arch::row_xor<4>(largest));
        largest = arch::max(largest, arch::row_xor<2>(largest));
        largest = arch::max(largest, arch::row_xor<1>(largest));
        const float inverse = largest > 0 ? arch::reciprocal(largest) : 0.f;
        int pair[heads];
        float sum[heads];
#    pragma unroll
        for (int h = 0; h < heads; ++h) {
            pair[h] = arch::pack_half2(low[h] * (scale_low * inverse), high[h] * (scale_high * inverse));
            sum[h] = 0;
        }
        (add_pair<Pair>(sum, pair, code[Pair]), ...);
#    pragma unroll
        for (int h = 0; h < heads; ++h) exact.acc[h] = arch::fma(sum[h], largest, exact.acc[h]);
    }
    WAVEATTN_DEVICE unsigned load_pair(std::int64_t row, std::int64_t next) const {
        const auto* pool = static_cast<const unsigned char*>(exact.p.v);
        const unsigned low = (pool + row * Traits::head_dim)[unsigned(exact.dim)];
        const unsigned high = (pool + next * Traits::head_dim)[unsigned(exact.dim)];
        return low | high << 16;
    }
    // An int8 code c as fp16: 0x6400 | (c + 128) is 1024 + 128 + c.
    template <int Pair>
    WAVEATTN_DEVICE static void add_pair(float (&sum)[heads], const int (&pair)[heads], unsigned code) {
        const auto biased = __builtin_bit_cast(arch::half2v, code ^ 0x64806480u);
        const auto exact_code = biased - arch::half2v{_Float16(1152), _Float16(1152)};
#    pragma unroll
        for (int h = 0; h < heads; ++h)
            arch::dot2_row_share<Pair>(sum[h], pair[h], __builtin_bit_cast(int, exact_code));
    }

    WAVEATTN_DEVICE void run(const int* rows, unsigned visible_low, unsigned visible_high) {
#    pragma unroll
        for (int h = 0; h < heads; ++h) exact.acc[h] = 0;
#    pragma unroll 1
        for (int first = 0; first < chunk_cells; first += 32) {
            const unsigned cells = first == 0 ? visible_low : visible_high;
            if (cells == ~0u) {
                exact.dim = arch::opaque(exact.dim);
                add_32_cells(first, rows, std::make_integer_sequence<int, 16>{});
            } else {
#    pragma unroll 1
                for (unsigned rest = cells; rest; rest &= rest - 1) exact.add_one(first + __builtin_ctz(rest), rows);
            }
        }
    }
};

// Grid (chunks, kv_heads, queries).
template <class Arch, class Traits> __global__ __launch_bounds__(chunk_threads) void chunk_fast_kernel(ChunkParams p) {
    static_assert(Traits::format == KvFormat::int8, "the fast mode exists for int8 caches");
    if constexpr (!arch::compiled_for<Arch>) {
        arch::trap_stub();
    } else {
        __shared__ FastLds<Traits> lds;
        __shared__ ChunkCells cells;
        const int chunk = int(arch::block_x()), wave = arch::uniform(int(arch::thread_x() / 32u));
        const ChunkTask task(p, chunk, int(arch::block_y()), int(arch::block_z()));
        if (task.count <= 0) return;
        const std::int64_t slot = (std::int64_t(task.query) * p.kv_heads + task.kv_head) * p.chunks + chunk;

        if (wave == chunk_waves - 1) find_rows(p, task, cells);
        quantize_q(p, task, lds, wave);
        arch::barrier();
        const unsigned visible_low = unsigned(arch::uniform(int(cells.visible[0])));
        const unsigned visible_high = unsigned(arch::uniform(int(cells.visible[1])));
        if ((visible_low | visible_high) == 0) return write_empty_chunk(p, slot);
        const unsigned mine = (wave < 4 ? visible_low : visible_high) >> wave % 4 * 8 & 0xffu;
        if (mine) score_cells<Traits, chunk_fast_policy>(p, FastSlices<Traits>(lds), cells.rows, lds.s, wave);
        arch::barrier();
        chunk_softmax<Traits, chunk_fast_policy>(
            p, lds.s, lds.p, wave, visible_low, visible_high, p.part_m + slot * p.group, p.part_l + slot * p.group);
        arch::barrier();
        const int first_head = wave / (Traits::head_dim / 32) * Traits::thread_heads;
        if (first_head >= p.group) return;
        FastValues<Traits> values{{p, lds.p + first_head, int(arch::thread_x()) % Traits::head_dim, {}}};
        values.run(cells.rows, visible_low, visible_high);
        write_chunk<Traits>(p, slot, first_head, values.exact.acc, values.exact.dim);
    }
}

} // namespace waveattn::detail
#endif
