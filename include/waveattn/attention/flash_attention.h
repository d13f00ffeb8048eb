// FlashAttentionDPP: FlashAttention-2 forward in fp32, on every target.
//
//   o[b, h, i, :] = epilogue( sum_j softmax_j(scale * q[b, h, i, :] . k[b, h', j, :]) * v[b, h', j, :] )
//   lse[b, h, i]  = log(sum_j exp(scale * q . k)),  h' = h / (Hq / Hkv),  j over the keys that row i sees
//
// Values are read through read operations (iop/read.h) as fp32, all arithmetic is fp32, and the result is rounded once
// when it is stored. Any head_dim from 1 to 256 (that of v may differ from that of q and k), any strides, any lengths.
//
// o must not overlap k or v. It may be the memory of q, whose rows are read by the workgroup that writes them.
//
// Errors: InvalidArgument for shapes, strides and pointers; UnsupportedDevice. Nothing is launched then, nor for an
// empty result. A launch allocates nothing, does not synchronise, and can be captured in a graph.
//
// Non-finite values behave as in an fp32 softmax over the visible keys: a NaN in a row of q stays in that row, a NaN in
// k or v reaches exactly the rows that see that key, a score of +infinity gives NaN. Two exceptions avoid 0/0: rows
// without a visible key, and rows whose every visible score is -infinity, have o = 0 and lse = -infinity.
//
// Formulas: Dao, FlashAttention-2 (arXiv:2307.08691), algorithm 1, with base-2 exponentials.
#pragma once

#include "waveattn/attention/operations.h"
#include "waveattn/attention/problem.h"
#include "waveattn/attention/scalar_rows.h"
#include "waveattn/attention/wave_dispatch.h"
#include "waveattn/core/launch.h"
#include "waveattn/iop/read.h"
#include "waveattn/iop/write.h"

namespace waveattn {

namespace detail {

template <class Q, class K, class V, class O> struct FlashAttentionParams {
    Q q;
    K k;
    V v;
    O o;
    TensorView<float, 3> lse; // not written where data is null
    std::int32_t q_len, kv_len, head_dim, head_dim_v, heads_q, heads_kv;
    std::int32_t causal_offset; // row i sees key j iff j <= i + causal_offset
    std::int32_t q_tiles;       // of block_q rows
    bool heavy_first;           // causal: start with the tiles that see the most keys
    float scale_log2;           // scale * log2(e)
};

// The tile of a workgroup, by wave size and head_dim. 4 queries for each group of lanes keep q and o in 128 registers.
template <class Arch, int HeadDim> struct FlashAttentionTile : RowLayout<HeadDim> {
    using Rows = RowLayout<HeadDim>;
    static constexpr int waves = 4;
    static constexpr int threads = waves * Arch::wave_size;
    static constexpr int groups = Arch::wave_size / Rows::lanes; // in a wave
    static constexpr int queries = 4;                            // of a group
    static constexpr int wave_q = groups * queries;
    static constexpr int block_q = waves * wave_q;
    static constexpr int slice = waves * groups; // rows of the workgroup with the same index in their group
    static constexpr int block_kv = Rows::row <= 128 ? 32 : 16;
    static constexpr int step = 8; // keys between two looks at the row maximum
    static constexpr int tile_floats = block_kv * Rows::row;
    static_assert(2 * tile_floats * 4 <= 32768 && slice * Rows::row <= 2 * tile_floats);
};

} // namespace detail

#ifdef __HIP__

// One workgroup computes block_q rows of one head. Its threads load K and V tiles into LDS as fp32; each wave owns
// wave_q rows, each group of lanes 4 of them, with q and o in registers.
template <class Arch, int HeadDim> struct FlashAttentionDPP {
    using Tile = detail::FlashAttentionTile<Arch, HeadDim>;
    static constexpr int pairs = Tile::dims_per_lane / 2;
    using Row = arch::float2v[pairs]; // the dims of a lane

    // What a group of lanes knows of its rows.
    struct State {
        Row q[Tile::queries], o[Tile::queries];
        float row_max[Tile::queries], row_sum[Tile::queries]; // of base-2 scores; of exponentials
        std::int32_t last_key[Tile::queries];                 // that the row sees
    };

    template <class Params> WAVEATTN_DEVICE static void exec(const Params& p) {
        alignas(16) __shared__ float lds[2 * Tile::tile_floats];
        float *const k_tile = lds, *const v_tile = lds + Tile::tile_floats; // [key, dim]

        // Which rows.
        const int tile = int(arch::block_x() % unsigned(p.q_tiles));
        const int plane = int(arch::block_x() / unsigned(p.q_tiles));
        const int first_row = (p.heavy_first ? p.q_tiles - 1 - tile : tile) * Tile::block_q;
        const int head = plane % p.heads_q, batch = plane / p.heads_q;
        const int kv_head = head / (p.heads_q / p.heads_kv);
        const int wave = arch::uniform(int(arch::thread_x()) / Arch::wave_size);
        const int lane = int(arch::lane_id()), lane_of_group = lane % Tile::lanes;
        constexpr int step_floats = Tile::step * Tile::row;
        const int wave_row = first_row + wave * Tile::wave_q;
        // A slice is one row of each group of the workgroup: slice r, row n.
        const auto slice_row = [&](int r, int n) {
            return first_row + n / Tile::groups * Tile::wave_q + r * Tile::groups + n % Tile::groups;
        };
        const int my_row = wave * Tile::groups + lane / Tile::lanes; // of each slice
        float* const my_lds = lds + my_row * Tile::row + 4 * lane_of_group;

        // Load q through LDS, scaled so that scores are base-2 logarithms.
        State s;
#    pragma unroll
        for (int r = 0; r < Tile::queries; ++r) {
            arch::barrier();
            load_rows<Tile::slice>(
                p.q, [&](int n) { return iop::Point{0, slice_row(r, n), head, batch, p.heads_q}; }, p.q_len, p.head_dim,
                lds);
            arch::barrier();
            read_row(my_lds, s.q[r]);
#    pragma unroll
            for (int i = 0; i < pairs; ++i) s.q[r][i] *= p.scale_log2, s.o[r][i] = 0.f;
            s.row_max[r] = -arch::infinity, s.row_sum[r] = 0.f;
            s.last_key[r] = min(slice_row(r, my_row) + p.causal_offset, p.kv_len - 1);
        }

        // Keys that the workgroup sees, and this wave's share of them.
        const int block_end = min(min(first_row + Tile::block_q, p.q_len) + p.causal_offset, p.kv_len);
        const int wave_first = min(wave_row + p.causal_offset, p.kv_len - 1); // the last key of the wave's first row
        const int wave_end = wave_row < p.q_len ? min(wave_row + Tile::wave_q + p.causal_offset, p.kv_len) : 0;
#    pragma unroll 1
        for (int tile_key = 0; tile_key < block_end; tile_key += Tile::block_kv) {
            const auto key_at = [&](int n) { return iop::Point{0, tile_key + n, kv_head, batch, p.heads_kv}; };
            arch::barrier();
            load_rows<Tile::block_kv>(p.k, key_at, p.kv_len, p.head_dim, k_tile);
            load_rows<Tile::block_kv>(p.v, key_at, p.kv_len, p.head_dim_v, v_tile);
            arch::barrier();
            const int tile_end = min(tile_key + Tile::block_kv, wave_end);
            // Steps whose keys every row of the wave sees, then the others.
            int key = tile_key, at = 4 * lane_of_group;
#    pragma unroll 1
            for (; key + Tile::step - 1 <= wave_first && key < tile_end; key += Tile::step, at += step_floats)
                attend<false>(s, k_tile + at, v_tile + at, key);
#    pragma unroll 1
            for (; key < tile_end; key += Tile::step, at += step_floats) attend<true>(s, k_tile + at, v_tile + at, key);
        }

        // Store the logarithm of the sum, and o / sum through LDS.
#    pragma unroll
        for (int r = 0; r < Tile::queries; ++r) {
            const int row = slice_row(r, my_row);
            if (p.lse.data && lane_of_group == 0 && row < p.q_len)
                *p.lse.at(batch, head, row) = (s.row_max[r] + arch::log2(s.row_sum[r])) * arch::ln2;
            const float inverse = s.row_sum[r] == 0.f ? 0.f : arch::reciprocal(s.row_sum[r]);
#    pragma unroll
            for (int i = 0; i < pairs; ++i) s.o[r][i] *= inverse;
            arch::barrier();
            write_row(my_lds, s.o[r]);
            arch::barrier();
            store_rows<Tile::slice>(
                p.o, [&](int n) { return iop::Point{0, slice_row(r, n), head, batch, p.heads_q}; }, p.q_len,
                p.head_dim_v, lds);
        }
    }

private:
    WAVEATTN_DEVICE static int min(int a, int b) { return a < b ? a : b; }

    // Count rows from memory into LDS [row, dim]; `where(n)` is the place of row n. Rows from `len` on and dims from
    // `head_dim` on become zero, and nothing outside the tensor is read.
    template <int Count, class Read, class Where>
    WAVEATTN_DEVICE static void load_rows(const Read& op, const Where& where, int len, int head_dim, float* lds) {
        constexpr int width = iop::load_width<Read>, per_row = Tile::row / width, pieces = Count * per_row;
        // Opaque: addresses are computed in each tile anew, for there are no registers to keep them.
        const int thread = arch::opaque(int(arch::thread_x()));
        if (head_dim % width == 0) {
#    pragma unroll
            for (int base = 0; base < pieces; base += Tile::threads) {
                const int index = base + thread;
                if (pieces % Tile::threads != 0 && index >= pieces) break;
                iop::Point at = where(index / per_row);
                at.dim = index % per_row * width;
                // Read at the nearest place inside and dropped, rather than skipped: then all loads are under way
                // together.
                const bool inside = at.token < len && at.dim < head_dim;
                at.token = min(at.token, len - 1), at.dim = min(at.dim, head_dim - width);
                float values[width];
                op.read(at, values);
#    pragma unroll
                for (int i = 0; i < width; ++i) values[i] = inside ? values[i] : 0.f;
                auto* const to = reinterpret_cast<arch::float4v*>(lds + index * width);
#    pragma unroll
                for (int i = 0; i < width / 4; ++i)
                    to[i] = {values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]};
            }
        } else {
#    pragma unroll 1
            for (int index = thread; index < Count * Tile::row; index += Tile::threads) {
                iop::Point at = where(index / Tile::row);
                at.dim = index % Tile::row;
                lds[index] = at.token < len && at.dim < head_dim ? float(op.read(at)) : 0.f;
            }
        }
    }
    // Count rows from LDS [row, dim] to memory.
    template <int Count, class Write, class Where>
    WAVEATTN_DEVICE static void store_rows(
        const Write& op, const Where& where, int len, int head_dim, const float* lds) {
        if constexpr (requires(iop::Point at, float (&values)[4]) { op.write(at, values); }) {
            if (head_dim % 4 == 0) {
                constexpr int per_row = Tile::row / 4;
#    pragma unroll 1
                for (int index = int(arch::thread_x()); index < Count * per_row; index += Tile::threads) {
                    iop::Point at = where(index / per_row);
                    at.dim = index % per_row * 4;
                    const auto from = *reinterpret_cast<const arch::float4v*>(lds + index * 4);
                    const float values[4] = {from.x, from.y, from.z, from.w};
                    if (at.token < len && at.dim < head_dim) op.write(at, values);
                }
                return;
            }
        }
#    pragma unroll 1
        for (int index = int(arch::thread_x()); index < Count * Tile::row; index += Tile::threads) {
            iop::Point at = where(index / Tile::row);
            at.dim = index % Tile::row;
            if (at.token < len && at.dim < head_dim) op.write(at, lds[index]);
        }
    }
    // This lane's dims of a row in LDS.
    WAVEATTN_DEVICE static void read_row(const float* lds, Row& row) {
#    pragma unroll
        for (int c = 0; c < Tile::pieces; ++c) {
            const auto piece = *reinterpret_cast<const arch::float4v*>(lds + 4 * Tile::lanes * c);
            row[2 * c] = piece.xy, row[2 * c + 1] = piece.zw;
        }
    }
    WAVEATTN_DEVICE static void write_row(float* lds, const Row& row) {
#    pragma unroll
        for (int c = 0; c < Tile::pieces; ++c)
            *reinterpret_cast<arch::float4v*>(lds + 4 * Tile::lanes * c) = {
                row[2 * c].x, row[2 * c].y, row[2 * c + 1].x, row[2 * c + 1].y};
    }

    // One step of the online softmax: keys key .. key + step - 1. k and v point at this lane's first dims of the first
    // key. Masked: some row does not see all of them. A key that a row does not see takes no part in any arithmetic
    // of that row, so whatever v holds there stays out of it.
    template <bool Masked> WAVEATTN_DEVICE static void attend(State& s, const float* k, const float* v, int key) {
        float p[Tile::queries][Tile::step]; // scores, then weights: [query, key]
#    pragma unroll
        for (int j = 0; j < Tile::step; ++j) {
            Row row;
            read_row(k + j * Tile::row, row);
            float scores[Tile::queries];
#    pragma unroll
            for (int r = 0; r < Tile::queries; ++r) scores[r] = detail::lane_dot(s.q[r], row);
            tile::group_sum<Tile::lanes>(scores);
#    pragma unroll
            for (int r = 0; r < Tile::queries; ++r) p[r][j] = scores[r];
            arch::schedule_barrier(); // or many rows of the tile would wait in registers
        }
        if constexpr (Masked) {
#    pragma unroll
            for (int r = 0; r < Tile::queries; ++r)
#    pragma unroll
                for (int j = 0; j < Tile::step; ++j)
                    if (key + j > s.last_key[r]) p[r][j] = -arch::infinity;
        }
#    pragma unroll
        for (int r = 0; r < Tile::queries; ++r) {
            float row_max = s.row_max[r];
#    pragma unroll
            for (int j = 0; j < Tile::step; ++j) row_max = arch::max(row_max, p[r][j]);
            // While every score is -infinity any finite base does; 0 keeps -infinity - base out of NaN.
            const float base = row_max == -arch::infinity ? 0.f : row_max;
            const float rescale = arch::exp2(s.row_max[r] - base);
            float sum = 0.f;
#    pragma unroll
            for (int j = 0; j < Tile::step; ++j) sum += p[r][j] = arch::exp2(p[r][j] - base);
            s.row_max[r] = row_max;
            s.row_sum[r] = arch::fma(s.row_sum[r], rescale, sum);
#    pragma unroll
            for (int i = 0; i < pairs; ++i) s.o[r][i] *= rescale;
            arch::schedule_barrier();
        }
#    pragma unroll
        for (int j = 0; j < Tile::step; ++j) {
            Row row;
            read_row(v + j * Tile::row, row);
#    pragma unroll
            for (int r = 0; r < Tile::queries; ++r) {
                // Opaque: compared anew, for step * queries masks would not fit in scalar registers.
                if (Masked && key + j > arch::opaque(s.last_key[r])) continue;
#    pragma unroll
                for (int i = 0; i < pairs; ++i) s.o[r][i] = arch::fma(row[i], arch::float2v(p[r][j]), s.o[r][i]);
            }
            arch::schedule_barrier();
        }
    }
};

namespace detail {

template <class Arch, int HeadDim, class Params>
__global__ __launch_bounds__((FlashAttentionTile<Arch, HeadDim>::threads)) void flash_attention_kernel(Params params) {
    if constexpr (arch::compiled_for<Arch>)
        FlashAttentionDPP<Arch, HeadDim>::exec(params);
    else
        arch::trap_stub();
}

template <class Arch, int HeadDim, class Params>
void launch_flash_attention(Params params, std::int64_t planes, hipStream_t stream) {
    using Tile = FlashAttentionTile<Arch, HeadDim>;
    params.q_tiles = ceil_div(params.q_len, std::int32_t(Tile::block_q));
    launch("flash_attention", flash_attention_kernel<Arch, HeadDim, Params>, planes * params.q_tiles, Tile::threads, 0,
        stream, params);
}

} // namespace detail

// Attention of read operations; o is a write operation (iop/write.h) that covers (B, Hq, Sq, Dv). HeadDim is the
// largest head_dim to be handled, or any_head_dim, which instantiates a kernel for each of 32, 64, 96, 128, 192, 256.
template <int HeadDim = any_head_dim, iop::AnyReadOp Q, iop::AnyReadOp K, iop::AnyReadOp V, iop::WriteOp O>
void executeFlashAttention(
    const Q& q, const K& k, const V& v, const O& o, const AttentionShape& shape, const AttentionOptions& options = {}) {
    check_shape(shape, options);
    detail::check_counts(shape);
    detail::check_operations(q, k, v, o, shape);
    const auto& device = arch::current_device();
    const std::int64_t planes = shape.batch * shape.heads_q;
    if (planes * shape.q_len == 0) return;

    detail::FlashAttentionParams<iop::AsRead<Q>, iop::AsRead<K>, iop::AsRead<V>, O> params{
        .q = iop::as_read(q),
        .k = iop::as_read(k),
        .v = iop::as_read(v),
        .o = o,
        .lse = options.lse,
        .q_len = std::int32_t(shape.q_len),
        .kv_len = std::int32_t(shape.kv_len),
        .head_dim = std::int32_t(shape.head_dim),
        .head_dim_v = std::int32_t(shape.head_dim_v),
        .heads_q = std::int32_t(shape.heads_q),
        .heads_kv = std::int32_t(shape.heads_kv),
        .causal_offset = std::int32_t(causal_offset(options.causal, shape)),
        .q_tiles = 0,
        .heavy_first = options.causal != Causal::none,
        .scale_log2 = score_scale_log2(options, shape),
    };
    detail::with_wave_size(device, "flash_attention", [&](auto arch) {
        detail::with_head_dim<HeadDim>(std::max(shape.head_dim, shape.head_dim_v), [&](auto head_dim) {
            detail::launch_flash_attention<decltype(arch), head_dim.value>(params, planes, options.stream);
        });
    });
}

// Attention of strided views (B, H, S, D) of fp32, bf16 or f16.
template <int HeadDim = any_head_dim, class T, class K, class V, class O, iop::Epilogue E = iop::Chain<>>
void executeFlashAttention(const TensorView<T, 4>& q, const TensorView<K, 4>& k, const TensorView<V, 4>& v,
    const TensorView<O, 4>& o, const AttentionOptions& options = {}, E epilogue = {}) {
    executeFlashAttention<HeadDim>(make_attention_read(q), make_attention_read(k), make_attention_read(v),
        make_attention_write(o, epilogue), check_attention(q, k, v, o, options), options);
}

// Attention of read operations over `bh` planes of HeadDim dims, without groups of heads: a plane is one head of one
// batch entry. o is contiguous (bh, seqQ, HeadDim).
template <int HeadDim, iop::AnyReadOp Q, iop::AnyReadOp K, iop::AnyReadOp V, class O, iop::Epilogue E = iop::Chain<>>
void executeFlashAttention(const Q& q, const K& k, const V& v, O* o, std::int64_t bh, std::int64_t seqQ,
    std::int64_t seqK, Causal causal = Causal::none, hipStream_t stream = nullptr,
    std::optional<float> scale = std::nullopt, E epilogue = {}) {
    executeFlashAttention<HeadDim>(q, k, v, make_attention_write(o, bh, seqQ, HeadDim, epilogue),
        AttentionShape{1, bh, bh, seqQ, seqK, HeadDim, HeadDim},
        AttentionOptions{.causal = causal, .scale = scale, .stream = stream});
}

// The same on contiguous tensors q (bh, seqQ, HeadDim), k and v (bh, seqK, HeadDim).
template <int HeadDim, class T, class O, iop::Epilogue E = iop::Chain<>>
void executeFlashAttention(const T* q, const T* k, const T* v, O* o, std::int64_t bh, std::int64_t seqQ,
    std::int64_t seqK, Causal causal = Causal::none, hipStream_t stream = nullptr,
    std::optional<float> scale = std::nullopt, E epilogue = {}) {
    executeFlashAttention<HeadDim>(make_attention_read(q, bh, seqQ, HeadDim), make_attention_read(k, bh, seqK, HeadDim),
        make_attention_read(v, bh, seqK, HeadDim), o, bh, seqQ, seqK, causal, stream, scale, epilogue);
}

#endif

} // namespace waveattn
