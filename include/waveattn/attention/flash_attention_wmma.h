// FlashAttentionWmmaDPP: attention on the matrix instructions of gfx1200 and gfx1201 (RDNA4, wave32).
//
//   q (B, Hq, Sq, D)   k (B, Hkv, Sk, D)   v (B, Hkv, Sk, Dv)   o (B, Hq, Sq, Dv)   lse (B, Hq, Sq)
//   o = epilogue(softmax(scale q.k^T + mask).v); semantics in attention/problem.h
//
// A workgroup of NUM_WAVES waves owns 16 NUM_WAVES query rows of a head and walks over the keys in tiles of BLOCK_KV,
// each wave with 16 rows. Everything is transposed, S^T = K.Q^T and O^T += V^T.P^T, so a lane owns a query: maximum and
// sum are the lane's own up to one exchange, and the accumulator of S^T, made probabilities, is the B operand of P^T.
// K and V^T tiles are double-buffered in LDS with one barrier a tile; the online softmax is in wmma_softmax.h.
//
// Rows are queries of one head, or, where Sq is small and heads share k and v, all (query, head) pairs of a group.
// Computation is in bf16 or f16 with fp32 accumulation; with an fp8-token k, Q.K^T is in e4m3 with q quantised per row.
#pragma once

#include "waveattn/arch/capability.h"
#include "waveattn/attention/hidden_values.h"
#include "waveattn/attention/operations.h"
#include "waveattn/attention/tuning_gfx1200.h"
#include "waveattn/attention/wmma_config.h"
#include "waveattn/attention/wmma_softmax.h"
#include "waveattn/attention/wmma_staging.h"
#include "waveattn/core/launch.h"

#include <algorithm>
#include <limits>

namespace waveattn {

#ifdef __HIP__

namespace detail {

// Keys [0, visible) are visible to the query.
template <class Params> WAVEATTN_DEVICE int visible_keys(const Params& p, int query) {
    const int end = query + p.causal_offset + 1;
    return end < 0 ? 0 : end < p.kv_len ? end : p.kv_len;
}

template <class Config> struct WmmaKernel {
    using Params = typename Config::Params;
    using Softmax = WmmaSoftmax<Config>;
    using QkAtom = tile::wmma_of<typename Config::qk_element>;
    using PvAtom = tile::wmma_of<typename Config::pv_element>;
    using QkOperand = typename QkAtom::Operand;
    static constexpr int block_kv = Config::block_kv, key_tiles = Config::key_tiles, dim_tiles = Config::dim_tiles;

    // The B operands of S^T = K.Q^T [dim, query], and the quantisation scale of the lane's query (else 1).
    WAVEATTN_DEVICE static float load_q(const Params& p, iop::Point where, int half, QkOperand (&q)[dim_tiles]) {
        if constexpr (Config::quantises_q) {
            float values[dim_tiles][8], largest = 0.f;
#    pragma unroll
            for (int t = 0; t < dim_tiles; ++t) {
                where.dim = 16 * t + 8 * half;
                read8<Config::wide>(p.q, where, p.head_dim, values[t]);
#    pragma unroll
                for (int e = 0; e < 8; ++e) largest = arch::maximum(largest, arch::abs(values[t][e]));
            }
            largest = arch::maximum(largest, other_half(largest));
            constexpr float top = NumericTraits<typename Config::qk_element>::largest;
            const float scale = largest > 0.f ? largest / top : 1.f;
            const float inverse = (p.sign ? -1.f : 1.f) / scale;
#    pragma unroll
            for (int t = 0; t < dim_tiles; ++t) {
#    pragma unroll
                for (int e = 0; e < 8; ++e) values[t][e] = arch::max(-top, arch::min(top, values[t][e] * inverse));
                q[t] = to_operand8<typename Config::qk_element>(values[t]);
            }
            return scale == scale && largest != arch::infinity ? scale : __builtin_nanf("");
        } else {
#    pragma unroll
            for (int t = 0; t < dim_tiles; ++t) {
                where.dim = 16 * t + 8 * half;
                q[t] = read_operand16<Config::wide, typename Config::qk_element>(p.q, where, p.head_dim) ^
                       int(p.sign ? 0x80008000u : 0u);
            }
            return 1.f;
        }
    }

    // S^T [key, query] of a tile, as the lane's 8 keys of each 16.
    WAVEATTN_DEVICE static void scores(LdsPointer buffer, int lane, const QkOperand (&q)[dim_tiles],
        const Softmax& softmax, typename Softmax::Scores& s) {
        constexpr int element = int(sizeof(typename Config::qk_element));
        const int row = arch::opaque(QkAtom::a_row(lane) * Config::k_row_bytes + QkAtom::a_k(lane, 0) * element);
        typename QkAtom::Accumulator sum[key_tiles];
#    pragma unroll
        for (int t = 0; t < key_tiles; ++t) {
            if constexpr (Config::int8_qk)
                sum[t] = arch::int8v{0, 0, 0, 0, 0, 0, 0, 0};
            else
                sum[t] = softmax.start();
#    pragma unroll
            for (int d = 0; d < dim_tiles; ++d) {
                const auto k = lds_load<QkOperand>(buffer, row + t * 16 * Config::k_row_bytes + 16 * d * element);
                sum[t] = QkAtom::mma(k, q[d], sum[t]);
            }
#    pragma unroll
            for (int r = 0; r < 8; ++r) s[t][r] = float(sum[t][r]);
            if constexpr (Config::k_scaled) s[t] *= token_scales(buffer, Config::k_scale_at, lane, t);
        }
    }

    WAVEATTN_DEVICE static arch::float8v token_scales(LdsPointer buffer, int at, int lane, int t) {
        return lds_load<arch::float8v>(buffer, at + (16 * t + QkAtom::c_row(lane, 0)) * 4);
    }

    // ---- values that are not finite (hidden_values.h) ----
    WAVEATTN_DEVICE static arch::LdsPointer<FirstKeys> first_keys(LdsPointer lds, int dim) {
        return (arch::LdsPointer<FirstKeys>)(lds + Config::first_keys_at(dim));
    }
    WAVEATTN_DEVICE static void forget_first_keys(LdsPointer lds, int thread) {
        const int none = arch::opaque(no_key);
        for (int dim = thread; dim < Config::head_dim; dim += Config::threads)
            *first_keys(lds, dim) = {none, none, none, none};
    }
    // Takes them out of V^T and its token scales (which count as NaN in all dims) of the tile from key `first` on.
    WAVEATTN_DEVICE static void take_from_tile(LdsPointer lds, LdsPointer tile, int first, int wave) {
        const int thread = 32 * wave + arch::fresh_lane();
        if constexpr (!Config::v_in_registers)
#    pragma unroll 1
            for (int chunk = thread; chunk < Config::head_dim * block_kv / 8; chunk += Config::threads) {
                const int dim = chunk / (block_kv / 8), key = chunk % (block_kv / 8) * 8;
                const int at = Config::v_at + dim * Config::v_row_bytes + 2 * key;
                lds_store(tile, at,
                    take_non_finite<typename Config::pv_element>(
                        lds_load<tile::Operand16>(tile, at), first + key, first_keys(lds, dim)));
            }
        if constexpr (Config::v_scaled)
            if (thread < block_kv)
                if (!(arch::abs(lds_load<float>(tile, Config::v_scale_at + 4 * thread)) < arch::infinity)) {
                    lds_store(tile, Config::v_scale_at + 4 * thread, 0.f);
                    arch::lds_min((arch::LdsPointer<int>)first_keys(lds, 0) + 3, first + thread);
                }
    }
    WAVEATTN_DEVICE static void take_from_operands(
        LdsPointer lds, int lane, int first, tile::Operand16 (&v)[dim_tiles][key_tiles]) {
#    pragma unroll
        for (int d = 0; d < dim_tiles; ++d)
#    pragma unroll
            for (int t = 0; t < key_tiles; ++t) {
                v[d][t] = take_non_finite<typename Config::pv_element>(
                    v[d][t], first + 16 * t + PvAtom::a_k(lane, 0), first_keys(lds, 16 * d + PvAtom::a_row(lane)));
                arch::schedule_barrier();
            }
    }
    // Whether any wave of the workgroup has an output that is not finite.
    WAVEATTN_DEVICE static bool any_not_finite(LdsPointer lds, int wave, const typename Softmax::Output& o) {
        float largest = 0.f;
#    pragma unroll
        for (int i = 0; i < 8 * dim_tiles; ++i) largest = arch::maximum(largest, arch::abs(o[i / 8][i % 8]));
        lds_store(lds, Config::flag_at(wave), int(arch::ballot32(!(largest < arch::infinity))));
        arch::lds_barrier();
        return arch::ballot32(lds_load<int>(lds, Config::flag_at(arch::fresh_lane() % Config::waves)) != 0) != 0;
    }

    // One tile of keys from `first` on. Masked: some query of the wave does not see the whole tile; `last` is the last
    // key that the lane's query sees, less the lane's first key of a tile.
    template <bool Masked>
    WAVEATTN_DEVICE static void tile_step(LdsPointer lds, LdsPointer buffer, const WmmaStaging<Config>& staging,
        int lane, int first, int last, int careful, const QkOperand (&q)[dim_tiles], Softmax& softmax,
        typename Softmax::Output& o) {
        tile::Operand16 v[dim_tiles][key_tiles];
        if constexpr (Config::v_in_registers) {
            staging.load_v_operands(first, v);
            if (careful) [[unlikely]]
                take_from_operands(lds, lane, first, v);
        }
        typename Softmax::Scores s;
        scores(buffer, lane, q, softmax, s);
        if constexpr (Masked) arch::schedule_barrier(); // or masks would wait in registers
        if constexpr (Masked) Softmax::mask(s, last - first);
        softmax.update_reference(s, o, first == 0);

        constexpr bool split = Masked && Config::split_probability;
        typename Softmax::Probabilities p, rest;
        if constexpr (Config::packed_probability && !Masked) {
            softmax.exponentiate_packed(s, p);
        } else {
            typename Softmax::Scores v_scales;
            if constexpr (Config::v_scaled)
#    pragma unroll
                for (int t = 0; t < key_tiles; ++t) v_scales[t] = token_scales(buffer, Config::v_scale_at, lane, t);
            softmax.template exponentiate<split>(s, v_scales, p, rest);
        }

        // O^T [dim, query] += V^T [dim, key] . P^T [key, query]
        const int row = arch::opaque(PvAtom::a_row(lane) * Config::v_row_bytes + PvAtom::a_k(lane, 0) * 2);
#    pragma unroll
        for (int d = 0; d < dim_tiles; ++d)
#    pragma unroll
            for (int t = 0; t < key_tiles; ++t) {
                if constexpr (!Config::v_in_registers)
                    v[d][t] =
                        lds_load<tile::Operand16>(buffer, row + Config::v_at + 16 * d * Config::v_row_bytes + 32 * t);
                o[d] = PvAtom::mma(v[d][t], p[t], o[d]);
                if constexpr (split) o[d] = PvAtom::mma(v[d][t], rest[t], o[d]);
            }
    }

    // The workgroup's rows. Not careful: false, and nothing written, where hidden values may have reached the output.
    WAVEATTN_DEVICE static bool compute(const Params p, LdsPointer lds, int wave, int careful) {
        const int lane = arch::fresh_lane(), thread = 32 * wave + lane, half = lane / 16;

        // ---- which rows: planes one after another, and the tiles of a plane from the heaviest (causal) down ----
        const int block = int(arch::block_x()), plane = block / p.row_tiles;
        const int row_tile = p.row_tiles - 1 - block % p.row_tiles;
        const int planes = p.heads_q / p.row_heads, plane_head = plane % planes, batch = plane / planes;
        const int block_first = row_tile * Config::block_q, wave_first = block_first + 16 * wave;
        const int kv_head = plane_head * p.row_heads / (p.heads_q / p.heads_kv);
        auto query_of = [&](int row) { return row / p.row_heads; };
        auto last_row = [&](int row) { return row < p.rows ? row : p.rows - 1; };
        auto place_of = [&](int row) {
            row = last_row(row);
            return iop::Point{0, query_of(row), plane_head * p.row_heads + row % p.row_heads, batch, p.heads_q};
        };
        const iop::Point where = place_of(wave_first + QkAtom::b_column(lane));

        // ---- how many keys: [0, full) for all rows of the wave, [0, end) for some; [0, block_full) and
        // [0, block_end) for the workgroup ----
        const int block_full = visible_keys(p, query_of(block_first));
        const int block_end = visible_keys(p, query_of(last_row(block_first + Config::block_q - 1)));
        const int full = wave_first < p.rows ? visible_keys(p, query_of(wave_first)) : 0;
        const int end = wave_first < p.rows ? visible_keys(p, query_of(last_row(wave_first + 15))) : 0;
        const int last = visible_keys(p, where.token) - 1 - QkAtom::c_row(lane, 0);

        // ---- q ----
        QkOperand q[dim_tiles];
        const float q_scale = load_q(p, where, half, q);
        Softmax softmax(arch::maximum(p.scale_log2 * q_scale, std::numeric_limits<float>::min()));
        typename Softmax::Output o = {};

        // ---- keys ----
        WmmaStaging<Config> staging(p, kv_head, batch, thread);
        if (careful) forget_first_keys(lds, thread);
        if (block_end > 0) {
            staging.load(0);
            staging.store(lds);
            if (Config::wide && block_end > block_kv) staging.load(block_kv);
        }
        int first = 0, buffer = 0;
        auto next_tile = [&] {
            arch::lds_barrier();
            if (first + block_kv < block_end) [[likely]] {
                // Elements are loaded late: what converts them has no registers to wait in.
                if constexpr (!Config::wide) staging.load(first + block_kv);
                staging.store(lds + (Config::buffer_bytes - buffer));
            }
            if (Config::wide && first + 2 * block_kv < block_end) [[likely]]
                staging.load(first + 2 * block_kv);
            if (careful) [[unlikely]] {
                take_from_tile(lds, lds + buffer, first, wave);
                arch::lds_barrier();
            }
        };
        // Tiles that the whole wave sees, then the others; the waves of a workgroup part at different tiles.
#    pragma unroll 1
        for (; first + block_kv <= full; first += block_kv, buffer = Config::buffer_bytes - buffer) {
            next_tile();
            tile_step<false>(lds, lds + buffer, staging, lane, first, last, careful, q, softmax, o);
        }
#    pragma unroll 1
        for (; first < block_end; first += block_kv, buffer = Config::buffer_bytes - buffer) {
            next_tile();
            if (first < end) tile_step<true>(lds, lds + buffer, staging, lane, first, last, careful, q, softmax, o);
        }
        // Keys that are hidden from some row of the workgroup, in tiles that it computed.
        const bool hidden = block_full < p.kv_len && block_full < round_up(block_end, block_kv);
        if (!careful && hidden && any_not_finite(lds, wave, o)) [[unlikely]]
            return false;

        // ---- o and lse ----
        const float inverse = softmax.inverse_sum();
        float lse = 0.f;
        if constexpr (Config::with_lse) lse = softmax.log_sum_exp();
        const int store_lane = arch::fresh_lane();
        const int row = wave_first + PvAtom::c_column(store_lane);
        if (row >= p.rows) return true;
        const iop::Point place = place_of(row);
        if (careful) [[unlikely]] {
            const int last_key = visible_keys(p, place.token) - 1;
            const bool bad_scale = Config::v_scaled && (*first_keys(lds, 0)).w <= last_key;
#    pragma unroll
            for (int i = 0; i < 8 * dim_tiles; ++i) {
                const FirstKeys first = *first_keys(lds, 16 * (i / 8) + PvAtom::c_row(store_lane, i % 8));
                o[i / 8][i % 8] = bad_scale ? __builtin_nanf("") : with_non_finite(o[i / 8][i % 8], first, last_key);
            }
        }
#    pragma unroll
        for (int d = 0; d < dim_tiles; ++d) {
            iop::Point to = place;
            to.dim = 16 * d + PvAtom::c_row(store_lane, 0);
            float values[8];
#    pragma unroll
            for (int r = 0; r < 8; ++r) values[r] = o[d][r] * inverse;
            write8<Config::wide>(p.out, to, p.head_dim_v, values);
        }
        if constexpr (Config::with_lse)
            if (p.lse.data && store_lane < 16) *p.lse.at(batch, place.head, place.token) = lse;
        return true;
    }

    // The kernel's only argument is a Params.
    WAVEATTN_DEVICE static void run(LdsPointer lds) {
        const int wave = arch::uniform(int(arch::thread_x()) / 32) & 31;
        int careful = 0;
        while (!compute(arch::fresh_arguments<Params>(), lds, wave, arch::opaque_scalar(careful))) careful = 1;
    }
};

template <class Arch, class Config>
__global__ __launch_bounds__(Config::threads, Config::waves_per_simd) void flash_attention_wmma_kernel(
    typename Config::Params) {
    if constexpr (arch::compiled_for<Arch>) {
        __shared__ __attribute__((aligned(16))) char lds[Config::lds_bytes];
        WmmaKernel<Config>::run((LdsPointer)lds);
    } else
        arch::trap_stub();
}

// Whether the rows of k or v allow the wide loads of a tile; an operation that has none does not mind.
template <class R> bool wmma_rows_wide(const R& op, std::int64_t dims) {
    if (dims % 8 != 0) return false;
    if constexpr (wmma_raw16<R> || wmma_keeps_codes<R>) {
        constexpr std::int64_t bytes = sizeof(*op.view.data);
        // Within a tile offsets have 31 bits.
        return rows_aligned(op.view, std::size_t(8 * bytes)) &&
               op.view.stride[2] < (std::int64_t(1) << 31) / (64 * bytes);
    } else
        return true;
}

template <int HeadDim, int BlockKv, int Waves, WmmaTuning Tuning, bool Wide, bool WithLse, class Q, class K, class V,
    class W>
void launch_flash_attention_wmma(
    const Q& q, const K& k, const V& v, const W& out, const AttentionShape& shape, const AttentionOptions& options) {
    using Config = WmmaConfig<HeadDim, BlockKv, Waves, Tuning, Wide, WithLse, Q, K, V, W>;
    const float scale = score_scale(options, shape);
    // Short sequences: one workgroup takes the rows of all heads that share k and v.
    const std::int64_t row_heads = shape.q_len < Config::block_q ? shape.group() : 1;
    const std::int64_t rows = shape.q_len * row_heads, tiles = ceil_div(rows, std::int64_t(Config::block_q));
    typename Config::Params params{
        .q = q,
        .k = k,
        .v = v,
        .out = out,
        .lse = options.lse,
        .scale_log2 = std::max(std::abs(score_scale_log2(options, shape)), std::numeric_limits<float>::min()),
        .sign = scale < 0.f,
        .q_len = std::int32_t(shape.q_len),
        .kv_len = std::int32_t(shape.kv_len),
        .head_dim = std::int32_t(shape.head_dim),
        .head_dim_v = std::int32_t(shape.head_dim_v),
        .heads_q = std::int32_t(shape.heads_q),
        .heads_kv = std::int32_t(shape.heads_kv),
        .causal_offset = std::int32_t(causal_offset(options.causal, shape)),
        .rows = std::int32_t(rows),
        .row_heads = std::int32_t(row_heads),
        .row_tiles = std::int32_t(tiles),
    };
    launch("flash_attention_wmma", flash_attention_wmma_kernel<arch::gfx1200, Config>,
        shape.batch * (shape.heads_q / row_heads) * tiles, Config::threads, 0, options.stream, params);
}

// With or without lse: two kernels where lse costs a sum of its own, else one.
template <int HeadDim, int BlockKv, int Waves, WmmaTuning Tuning, bool Wide, class Q, class K, class V, class W>
void choose_flash_attention_wmma(
    const Q& q, const K& k, const V& v, const W& out, const AttentionShape& shape, const AttentionOptions& options) {
    if constexpr (WmmaConfig<HeadDim, BlockKv, Waves, Tuning, Wide, true, Q, K, V, W>::separate_lse_sum)
        if (!options.lse.data)
            return launch_flash_attention_wmma<HeadDim, BlockKv, Waves, Tuning, Wide, false>(
                q, k, v, out, shape, options);
    launch_flash_attention_wmma<HeadDim, BlockKv, Waves, Tuning, Wide, true>(q, k, v, out, shape, options);
}

} // namespace detail

// Attention of read operations; o is a write operation (iop/write.h) that covers (B, Hq, Sq, Dv). HeadDim is the
// largest head_dim to be handled; smaller ones are padded in registers and LDS. Throws UnsupportedDevice unless the
// current device is gfx1200 or gfx1201.
template <int HeadDim, int BlockKv = wmma_block_kv(HeadDim), int NumWaves = wmma_waves(HeadDim),
    WmmaTuning Tuning = wmma_tuning(HeadDim), iop::AnyReadOp Q, iop::AnyReadOp K, iop::AnyReadOp V, iop::WriteOp O>
void executeFlashAttentionWmma(
    const Q& q, const K& k, const V& v, const O& o, const AttentionShape& shape, const AttentionOptions& options = {}) {
    check_shape(shape, options);
    for (std::int64_t count : {shape.batch * shape.heads_q, shape.heads_q * shape.q_len, shape.kv_len})
        require<Unsupported>(count < (std::int64_t(1) << 30), "more than 2^30 heads, rows or keys: ", count);
    require<Unsupported>(std::max(shape.head_dim, shape.head_dim_v) <= HeadDim,
        "this instantiation of flash_attention_wmma covers head_dim up to ", HeadDim, ", got ", shape.head_dim, " and ",
        shape.head_dim_v);
    detail::check_operations(q, k, v, o, shape);
    arch::require_target<arch::gfx1200>(arch::current_device(), "flash_attention_wmma");
    if (shape.batch * shape.heads_q * shape.q_len == 0) return;

    constexpr int head_dim = round_up(HeadDim, 32);
    const auto k_read = iop::as_read(k);
    const auto v_read = iop::as_read(v);
    using K_ = iop::AsRead<K>;
    using V_ = iop::AsRead<V>;
    constexpr bool has_wide = detail::wmma_raw16<K_> || detail::wmma_keeps_codes<K_> || detail::wmma_raw16<V_> ||
                              detail::wmma_keeps_codes<V_>;
    if constexpr (has_wide)
        if (detail::wmma_rows_wide(k_read, shape.head_dim) && detail::wmma_rows_wide(v_read, shape.head_dim_v))
            return detail::choose_flash_attention_wmma<head_dim, BlockKv, NumWaves, Tuning, true>(
                iop::as_read(q), k_read, v_read, o, shape, options);
    detail::choose_flash_attention_wmma<head_dim, BlockKv, NumWaves, Tuning, false>(
        iop::as_read(q), k_read, v_read, o, shape, options);
}

// Attention of strided views (B, H, S, D) of fp32, bf16 or f16.
template <int HeadDim, int BlockKv = wmma_block_kv(HeadDim), int NumWaves = wmma_waves(HeadDim),
    WmmaTuning Tuning = wmma_tuning(HeadDim), class T, class K, class V, class O, iop::Epilogue E = iop::Chain<>>
void executeFlashAttentionWmma(const TensorView<T, 4>& q, const TensorView<K, 4>& k, const TensorView<V, 4>& v,
    const TensorView<O, 4>& o, const AttentionOptions& options = {}, E epilogue = {}) {
    executeFlashAttentionWmma<HeadDim, BlockKv, NumWaves, Tuning>(make_attention_read(q), make_attention_read(k),
        make_attention_read(v), make_attention_write(o, epilogue), check_attention(q, k, v, o, options), options);
}

// Attention of read operations over `bh` planes of HeadDim dims, without groups of heads: a plane is one head of one
// batch entry. o is contiguous (bh, seqQ, HeadDim).
template <int HeadDim, int BlockKv = wmma_block_kv(HeadDim), int NumWaves = wmma_waves(HeadDim),
    WmmaTuning Tuning = wmma_tuning(HeadDim), iop::AnyReadOp Q, iop::AnyReadOp K, iop::AnyReadOp V, class O,
    iop::Epilogue E = iop::Chain<>>
void executeFlashAttentionWmma(const Q& q, const K& k, const V& v, O* o, std::int64_t bh, std::int64_t seqQ,
    std::int64_t seqK, Causal causal = Causal::none, hipStream_t stream = nullptr,
    std::optional<float> scale = std::nullopt, E epilogue = {}) {
    executeFlashAttentionWmma<HeadDim, BlockKv, NumWaves, Tuning>(q, k, v,
        make_attention_write(o, bh, seqQ, HeadDim, epilogue), AttentionShape{1, bh, bh, seqQ, seqK, HeadDim, HeadDim},
        AttentionOptions{.causal = causal, .scale = scale, .stream = stream});
}

#endif

} // namespace waveattn
