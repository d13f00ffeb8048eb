// Flash decode: attention of a few queries over a long cache, in fp32 on every target.
//
// The formula is that of flash_attention.h. A workgroup takes one KV head and a part ("split") of its tokens, and all
// queries that share the head: the Sq positions times the Hq / Hkv heads of the group are `rows` of one problem, in
// tiles of 1, 2 or 4. Every group of lanes walks tokens of its own with a softmax of its own; the groups are merged
// through LDS, the splits through a workspace by a second kernel. Elements are read from memory once for a tile of
// rows, without LDS, 16 bytes at a time whatever the format: fp32, bf16, f16, or 8-bit codes with a scale for each
// token.
//
// The cache may be longer than what is in use: views give its capacity by their strides, AttentionShape::kv_len the
// tokens in use, and DecodeOptions::kv_lens, in device memory, a length for each batch entry (at most kv_len).
//
// Errors: InvalidArgument for shapes, strides, pointers and the workspace; UnsupportedDevice. Nothing is allocated or
// synchronised, the workspace needs no initialisation, and calls can be captured in a graph. Two calls may share a
// workspace only on one stream.
#pragma once

#include "waveattn/attention/operations.h"
#include "waveattn/attention/scalar_rows.h"
#include "waveattn/attention/wave_dispatch.h"
#include "waveattn/core/launch.h"
#include "waveattn/iop/read.h"
#include "waveattn/iop/write.h"

#include <algorithm>

namespace waveattn {

struct DecodeOptions : AttentionOptions {
    const std::int32_t* kv_lens = nullptr; // (B), device memory; null: every batch entry has kv_len tokens
    int splits = 0;                        // of the tokens; 0: as many as fill the device and fit the workspace
    void* workspace = nullptr;             // device memory for splits > 1
    std::size_t workspace_bytes = 0;
};

// Bytes of workspace for that many splits.
inline std::size_t flash_decode_workspace_bytes(const AttentionShape& shape, int splits) {
    if (splits <= 1) return 0;
    return std::size_t(shape.batch * shape.heads_q * shape.q_len) * std::size_t(splits) *
           std::size_t(shape.head_dim_v + 2) * sizeof(float);
}

// The number of splits that fills a device: 4 workgroups for each compute unit that HIP reports, each with at least 256
// tokens, at most 128 splits.
inline int flash_decode_splits(const AttentionShape& shape, const arch::Device& device) {
    if (shape.heads_kv == 0 || shape.batch == 0 || shape.q_len == 0) return 1;
    const std::int64_t tiles = shape.batch * shape.heads_kv * ceil_div(shape.q_len * shape.group(), std::int64_t(4));
    const std::int64_t wanted = ceil_div(std::int64_t(4) * device.compute_units, tiles);
    return int(std::clamp<std::int64_t>(std::min(wanted, shape.kv_len / 256), 1, 128));
}

namespace detail {

template <class Q, class K, class V, class O> struct FlashDecodeParams {
    Q q;
    K k;
    V v;
    O o;
    TensorView<float, 3> lse;
    const std::int32_t* kv_lens;
    float* partials; // [row, split, head_dim_v + 2]: o before division, maximum, sum; null where splits == 1
    std::int32_t q_len, kv_len, head_dim, head_dim_v, heads_q, heads_kv;
    std::int32_t rows; // of a KV head: q_len * group, the heads of one position next to each other
    std::int32_t row_tiles, splits;
    Causal causal;
    float scale_log2;
};

template <class Arch, int HeadDim, int Rows, bool Full> struct FlashDecodeTile : RowLayout<HeadDim> {
    using Layout = RowLayout<HeadDim>;
    static constexpr int rows = Rows;
    static constexpr int waves = 4, threads = waves * Arch::wave_size;
    static constexpr int groups = threads / Layout::lanes;       // of the workgroup
    static constexpr int tokens = !Full ? 1 : Rows == 1 ? 4 : 2; // of a group at a time: loads in flight
    static_assert(groups * (Layout::row + 2) * 4 <= 65536 + 512);
};

} // namespace detail

#ifdef __HIP__

// Full: the head_dim of q, k and v is that of the layout. Then no dim needs a check, and a lane owns its dims in pieces
// of `width`, one load each: piece c at dim width * (lane of group + lanes * c). Otherwise pieces are single dims.
template <class Arch, int HeadDim, int Rows, bool Full> struct FlashDecodeDPP {
    using Tile = detail::FlashDecodeTile<Arch, HeadDim, Rows, Full>;
    static constexpr int dims = Tile::dims_per_lane;
    template <class Read>
    static constexpr int width = !Full                                        ? 1
                                 : dims % iop::load_width<Read> == 0          ? iop::load_width<Read>
                                 : dims % 8 == 0 && iop::load_width<Read> > 8 ? 8
                                                                              : 4;
    using Row = arch::float2v[dims / 2]; // the dims of a lane

    // What a group of lanes knows of the rows of the tile, from the tokens that it walked.
    struct State {
        Row q[Rows], o[Rows];
        float row_max[Rows], row_sum[Rows]; // of base-2 scores; of exponentials
        std::int32_t last_key[Rows];        // that the row sees
    };

    template <class Params> WAVEATTN_DEVICE static void exec(const Params& p) {
        alignas(16) __shared__ float o_lds[Tile::groups * Tile::row]; // [group, dim]
        __shared__ float max_lds[Tile::groups], sum_lds[Tile::groups];

        // Which rows, which tokens.
        const int split = int(arch::block_x() % unsigned(p.splits)), tile = int(arch::block_x() / unsigned(p.splits));
        const int first_row = tile % p.row_tiles * Rows, plane = tile / p.row_tiles;
        const int kv_head = plane % p.heads_kv, batch = plane / p.heads_kv, head_group = p.heads_q / p.heads_kv;
        const int group = int(arch::thread_x()) / Tile::lanes, lane_of_group = int(arch::thread_x()) % Tile::lanes;
        const int len = p.kv_lens ? max(min(p.kv_lens[batch], p.kv_len), 0) : p.kv_len;
        const int offset = p.causal == Causal::none ? len : p.causal == Causal::top_left ? 0 : len - p.q_len;
        const int part = ceil_div(len, p.splits), begin = split * part, end = min(begin + part, len);
        const auto place_of = [&](int r) { // of row r of the tile
            const int row = min(first_row + r, p.rows - 1);
            return iop::Point{0, row / head_group, kv_head * head_group + row % head_group, batch, p.heads_q};
        };

        // Load q, scaled so that scores are base-2 logarithms.
        State s;
#    pragma unroll
        for (int r = 0; r < Rows; ++r) {
            const bool exists = first_row + r < p.rows; // else the tile's last row is read once more, and not stored
            load_row<width<decltype(p.k)>>(p.q, place_of(r), p.head_dim, lane_of_group, s.q[r]);
#    pragma unroll
            for (int i = 0; i < dims / 2; ++i) s.q[r][i] *= p.scale_log2, s.o[r][i] = 0.f;
            s.row_max[r] = -arch::infinity, s.row_sum[r] = 0.f;
            s.last_key[r] = exists ? min(place_of(r).token + offset, end - 1) : -1;
        }

#    pragma unroll 1
        for (int base = begin + group; base - group < end; base += Tile::groups * Tile::tokens)
            attend(p, s, {0, base, kv_head, batch, p.heads_kv}, end, lane_of_group);

        // Merge the groups, one row after the other.
#    pragma unroll
        for (int r = 0; r < Rows; ++r) {
            if (first_row + r >= p.rows) break;
            arch::barrier();
            store_row<width<decltype(p.v)>>(o_lds + group * Tile::row, lane_of_group, s.o[r]);
            if (lane_of_group == 0) max_lds[group] = s.row_max[r], sum_lds[group] = s.row_sum[r];
            arch::barrier();
            float row_max = -arch::infinity;
            for (int g = 0; g < Tile::groups; ++g) row_max = arch::max(row_max, max_lds[g]);
            const float reference = row_max == -arch::infinity ? 0.f : row_max;
            for (int dim = int(arch::thread_x()); dim < p.head_dim_v; dim += Tile::threads) {
                float sum = 0.f, o = 0.f;
                for (int g = 0; g < Tile::groups; ++g) {
                    const float weight = arch::exp2(max_lds[g] - reference);
                    sum = arch::fma(sum_lds[g], weight, sum);
                    o = arch::fma(o_lds[g * Tile::row + dim], weight, o);
                }
                iop::Point at = place_of(r);
                at.dim = dim;
                if (!p.partials) {
                    finish(p, at, o, row_max, sum);
                } else {
                    const std::int64_t row = std::int64_t(plane) * p.rows + first_row + r;
                    float* const to = p.partials + (row * p.splits + split) * (p.head_dim_v + 2);
                    to[dim] = o;
                    if (dim == 0) to[p.head_dim_v] = row_max, to[p.head_dim_v + 1] = sum;
                }
            }
        }
    }

    // One wave merges the splits of one row.
    template <class Params> WAVEATTN_DEVICE static void merge(const Params& p) {
        const int row = int(arch::block_x()) % p.rows, plane = int(arch::block_x()) / p.rows;
        const int head_group = p.heads_q / p.heads_kv;
        const int head = plane % p.heads_kv * head_group + row % head_group;
        const int stride = p.head_dim_v + 2;
        const float* const from = p.partials + std::int64_t(arch::block_x()) * p.splits * stride;
        float row_max = -arch::infinity;
        for (int split = 0; split < p.splits; ++split)
            row_max = arch::max(row_max, from[split * stride + p.head_dim_v]);
        const float reference = row_max == -arch::infinity ? 0.f : row_max;
        for (int dim = int(arch::thread_x()); dim < p.head_dim_v; dim += Arch::wave_size) {
            float sum = 0.f, o = 0.f;
            for (int split = 0; split < p.splits; ++split) {
                const float* const part = from + split * stride;
                const float weight = arch::exp2(part[p.head_dim_v] - reference);
                sum = arch::fma(part[p.head_dim_v + 1], weight, sum);
                o = arch::fma(part[dim], weight, o);
            }
            finish(p, {dim, row / head_group, head, plane / p.heads_kv, p.heads_q}, o, row_max, sum);
        }
    }

private:
    WAVEATTN_DEVICE static int min(int a, int b) { return a < b ? a : b; }
    WAVEATTN_DEVICE static int max(int a, int b) { return a < b ? b : a; }

    // This lane's dims of one row in pieces of W; zero from `head_dim` on.
    template <int W, class Read>
    WAVEATTN_DEVICE static void load_row(const Read& op, iop::Point where, int head_dim, int lane_of_group, Row& row) {
#    pragma unroll
        for (int c = 0; c < dims / W; ++c) {
            float values[W];
            where.dim = W * (lane_of_group + Tile::lanes * c);
            if constexpr (Full) {
                op.read(where, values);
            } else {
                // All ones where the dim exists; as a bit mask, for conditions of 16 dims do not fit in scalar
                // registers.
                const int exists = arch::opaque((where.dim - head_dim) >> 31);
                where.dim = min(where.dim, head_dim - 1);
                values[0] = __builtin_bit_cast(float, __builtin_bit_cast(int, float(op.read(where))) & exists);
            }
#    pragma unroll
            for (int i = 0; i < W; ++i) {
                const int dim = c * W + i;
                if (dim % 2 == 0)
                    row[dim / 2].x = values[i];
                else
                    row[dim / 2].y = values[i];
            }
        }
    }
    template <int W> WAVEATTN_DEVICE static void store_row(float* lds, int lane_of_group, const Row& row) {
#    pragma unroll
        for (int c = 0; c < dims / W; ++c)
#    pragma unroll
            for (int i = 0; i < W; ++i) {
                const int dim = c * W + i;
                lds[W * (lane_of_group + Tile::lanes * c) + i] = dim % 2 == 0 ? row[dim / 2].x : row[dim / 2].y;
            }
    }

    // One step of the online softmax: `tokens` tokens from first.token on, `groups` apart. Tokens that a row does not
    // see, and those from `end` on, take no part in any arithmetic of that row.
    template <class Params>
    WAVEATTN_DEVICE static void attend(const Params& p, State& s, iop::Point first, int end, int lane_of_group) {
        Row k[Tile::tokens], v[Tile::tokens];
#    pragma unroll
        for (int t = 0; t < Tile::tokens; ++t) {
            iop::Point at = first;
            at.token = min(at.token + t * Tile::groups, end - 1); // the last one again, and not used
            load_row<width<decltype(p.k)>>(p.k, at, p.head_dim, lane_of_group, k[t]);
            load_row<width<decltype(p.v)>>(p.v, at, p.head_dim_v, lane_of_group, v[t]);
        }
#    pragma unroll
        for (int r = 0; r < Rows; ++r) {
            float weights[Tile::tokens], row_max = s.row_max[r];
#    pragma unroll
            for (int t = 0; t < Tile::tokens; ++t) {
                const float score = tile::group_sum<Tile::lanes>(detail::lane_dot(s.q[r], k[t]));
                weights[t] = first.token + t * Tile::groups <= s.last_key[r] ? score : -arch::infinity;
                row_max = arch::max(row_max, weights[t]);
            }
            // While every score is -infinity any finite base does; 0 keeps -infinity - base out of NaN.
            const float base = row_max == -arch::infinity ? 0.f : row_max;
            const float rescale = arch::exp2(s.row_max[r] - base);
            s.row_max[r] = row_max;
            s.row_sum[r] *= rescale;
#    pragma unroll
            for (int i = 0; i < dims / 2; ++i) s.o[r][i] *= rescale;
#    pragma unroll
            for (int t = 0; t < Tile::tokens; ++t) {
                // Opaque: compared anew, for the masks would not fit in scalar registers.
                if (first.token + t * Tile::groups > arch::opaque(s.last_key[r])) continue;
                const float weight = arch::exp2(weights[t] - base);
                s.row_sum[r] += weight;
#    pragma unroll
                for (int i = 0; i < dims / 2; ++i) s.o[r][i] = arch::fma(v[t][i], arch::float2v(weight), s.o[r][i]);
            }
        }
    }

    // Stores one element of the result, and with dim 0 the logarithm of the sum.
    template <class Params>
    WAVEATTN_DEVICE static void finish(const Params& p, iop::Point at, float o, float row_max, float sum) {
        p.o.write(at, sum == 0.f ? 0.f : o * arch::reciprocal(sum));
        if (p.lse.data && at.dim == 0) *p.lse.at(at.batch, at.head, at.token) = (row_max + arch::log2(sum)) * arch::ln2;
    }
};

namespace detail {

template <class Arch, int HeadDim, int Rows, bool Full, class Params>
__global__ __launch_bounds__((FlashDecodeTile<Arch, HeadDim, Rows, Full>::threads)) void flash_decode_kernel(Params) {
    if constexpr (arch::compiled_for<Arch>)
        FlashDecodeDPP<Arch, HeadDim, Rows, Full>::exec(arch::kernel_arguments<Params>());
    else
        arch::trap_stub();
}
template <class Arch, class Params>
__global__ __launch_bounds__((Arch::wave_size)) void flash_decode_merge_kernel(Params params) {
    if constexpr (arch::compiled_for<Arch>)
        FlashDecodeDPP<Arch, 32, 1, false>::merge(params); // does not depend on the tile
    else
        arch::trap_stub();
}

template <class Arch, int HeadDim, int Rows, bool Full, class Params>
void launch_flash_decode(Params params, std::int64_t planes, hipStream_t stream) {
    using Tile = FlashDecodeTile<Arch, HeadDim, Rows, Full>;
    params.row_tiles = ceil_div(params.rows, Rows);
    launch("flash_decode", flash_decode_kernel<Arch, HeadDim, Rows, Full, Params>,
        planes * params.row_tiles * params.splits, Tile::threads, 0, stream, params);
    if (params.partials)
        launch("flash_decode merge", flash_decode_merge_kernel<Arch, Params>, planes * params.rows, Arch::wave_size, 0,
            stream, params);
}

} // namespace detail

// Attention of read operations over `shape`; o is a write operation that covers (B, Hq, Sq, Dv). HeadDim as for
// executeFlashAttention.
template <int HeadDim = any_head_dim, iop::AnyReadOp Q, iop::AnyReadOp K, iop::AnyReadOp V, iop::WriteOp O>
void executeFlashDecode(
    const Q& q, const K& k, const V& v, const O& o, const AttentionShape& shape, const DecodeOptions& options = {}) {
    check_shape(shape, options);
    detail::check_counts(shape);
    detail::check_operations(q, k, v, o, shape);
    require(options.splits >= 0, "splits must not be negative, got ", options.splits);
    const auto& device = arch::current_device();
    int splits = options.splits;
    if (splits == 0) {
        const std::size_t one = flash_decode_workspace_bytes(shape, 2) / 2;
        splits = flash_decode_splits(shape, device);
        if (one > 0) splits = int(std::min<std::size_t>(splits, options.workspace ? options.workspace_bytes / one : 1));
        splits = std::max(splits, 1);
    }
    const std::size_t needed = flash_decode_workspace_bytes(shape, splits);
    require(needed == 0 || (options.workspace && options.workspace_bytes >= needed), splits,
        " splits need a workspace of ", needed, " bytes, got ", options.workspace ? options.workspace_bytes : 0);
    require(reinterpret_cast<std::uintptr_t>(options.workspace) % alignof(float) == 0, "the workspace is misaligned");
    if (shape.batch * shape.heads_q * shape.q_len == 0) return;
    require<Unsupported>(shape.q_len * shape.group() < detail::max_count,
        "flash_decode: more than 2^30 queries times heads that share k and v: ", shape.q_len * shape.group());

    detail::FlashDecodeParams<iop::AsRead<Q>, iop::AsRead<K>, iop::AsRead<V>, O> params{
        .q = iop::as_read(q),
        .k = iop::as_read(k),
        .v = iop::as_read(v),
        .o = o,
        .lse = options.lse,
        .kv_lens = options.kv_lens,
        .partials = splits > 1 ? static_cast<float*>(options.workspace) : nullptr,
        .q_len = std::int32_t(shape.q_len),
        .kv_len = std::int32_t(shape.kv_len),
        .head_dim = std::int32_t(shape.head_dim),
        .head_dim_v = std::int32_t(shape.head_dim_v),
        .heads_q = std::int32_t(shape.heads_q),
        .heads_kv = std::int32_t(shape.heads_kv),
        .rows = std::int32_t(shape.q_len * shape.group()),
        .row_tiles = 0,
        .splits = splits,
        .causal = options.causal,
        .scale_log2 = score_scale_log2(options, shape),
    };
    const std::int64_t planes = shape.batch * shape.heads_kv;
    detail::with_wave_size(device, "flash_decode", [&](auto arch) {
        detail::with_head_dim<HeadDim>(std::max(shape.head_dim, shape.head_dim_v), [&](auto head_dim) {
            using Arch = decltype(arch);
            constexpr int layout = head_dim.value, row = detail::RowLayout<layout>::row;
            const bool full = shape.head_dim == row && shape.head_dim_v == row;
            if (params.rows == 1 && full)
                detail::launch_flash_decode<Arch, layout, 1, true>(params, planes, options.stream);
            else if (params.rows == 1)
                detail::launch_flash_decode<Arch, layout, 1, false>(params, planes, options.stream);
            else if (full)
                detail::launch_flash_decode<Arch, layout, 4, true>(params, planes, options.stream);
            else
                detail::launch_flash_decode<Arch, layout, 2, false>(params, planes, options.stream);
        });
    });
}

// Attention of strided views (B, H, S, D) of fp32, bf16 or f16.
template <int HeadDim = any_head_dim, class T, class K, class V, class O, iop::Epilogue E = iop::Chain<>>
void executeFlashDecode(const TensorView<T, 4>& q, const TensorView<K, 4>& k, const TensorView<V, 4>& v,
    const TensorView<O, 4>& o, const DecodeOptions& options = {}, E epilogue = {}) {
    executeFlashDecode<HeadDim>(make_attention_read(q), make_attention_read(k), make_attention_read(v),
        make_attention_write(o, epilogue), check_attention(q, k, v, o, options), options);
}

#endif

} // namespace waveattn
