// Sage attention on quantised operands: INT8 scores and FP8 values on the matrix cores of gfx942 and gfx950.
//
//   o[b, h, i, :] = v_scale * sum_j softmax2_j(x_ij) v_j,   x_ij = q_scale * k_scale * (q_i . k_j) + delta_s
//   lse[b, h, i]  = ln(sum_j 2^(x_ij)) + lse_shift
//
// softmax2 is the softmax to base 2 over the keys that row i sees; the operands, with the softmax's scale folded in,
// are those of attention/sage_format.h. attention/sage_quantize.h makes them. Weights are fp8, sums fp32; o is rounded
// once.
//
// Any lengths, zero included, below 2^30; head_dim at most 128; Hq a multiple of Hkv. A row that sees no key gets o = 0
// and lse = -infinity, and so does a packed token that belongs to no sequence. Padding of v may hold anything. Scores
// may have any size that fp32 has; NaN: attention/sage_format.h.
//
// Errors: InvalidArgument for shapes, strides, alignment and pointers; TypeMismatch where v has the other target's fp8
// format; Unsupported for head_dim above 128; UnsupportedDevice. Nothing is launched then. A call allocates nothing,
// does not synchronise, and can be captured in a graph. Two runs give the same bits.
#pragma once

#include "waveattn/arch/capability.h"
#include "waveattn/attention/sage_kernel.h"
#include "waveattn/attention/sage_packed.h"
#include "waveattn/core/launch.h"

#include <algorithm>

namespace waveattn {

// The fp8 format of a target's matrix instructions.
inline Fp8Format sage_fp8_format(arch::Target target) {
    return target == arch::Target::gfx942 ? Fp8Format::fnuz : Fp8Format::ocp;
}

namespace detail {

// Time of the fullest compute unit, in units of a tile with up to four waves on it. Up to eight waves run together. One
// workgroup of 256 rows takes as long as two of 128 together within 2 %, but 5 to 7 % longer with a causal mask
// (modelled, docs/kernels/sage.md), so it must have more than that to offer.
inline double sage_launch_cost(std::int64_t heads, std::int64_t q_len, int waves, int compute_units) {
    const std::int64_t blocks = heads * ceil_div<std::int64_t>(q_len, 32 * waves);
    const std::int64_t groups = ceil_div<std::int64_t>(blocks, compute_units);
    const std::int64_t together = 8 / waves, rest = groups % together;
    const double full = waves == 8 ? 1.65 : 1.5;
    return full * double(groups / together) + (rest == 0 ? 0.0 : rest * waves <= 4 ? 1.0 : 1.5);
}

} // namespace detail

// Rows of q of a workgroup, 256, 128 or (without delta_s) 64: the largest that keeps the chip as busy as the others.
inline int sage_block_q(std::int64_t heads, std::int64_t q_len, int compute_units, bool with_delta_s = false) {
    const auto cost = [&](int waves) { return detail::sage_launch_cost(heads, q_len, waves, compute_units); };
    int best = 8;
    for (int waves : {4, 2})
        if ((waves == 4 || !with_delta_s) && cost(waves) < 0.95 * cost(best)) best = waves;
    return 32 * best;
}

namespace detail {

// Rows must start on 16 bytes where a kernel reads 16 at a time.
template <class T, int Rank> void check_rows(const char* name, const TensorView<T, Rank>& view) {
    check_view(name, view, true);
    require(view.empty() || rows_aligned(view, 16), name, " must have rows that start on multiples of 16 bytes");
}

// Checks everything and returns the shape; head_dim is the padded one, head_dim_v that of o. `batch` counts sequences.
template <class O>
AttentionShape check_sage(const SageOperands& in, const TensorView<O, 4>& o, const AttentionOptions& options) {
    check_rows("q", in.q);
    check_rows("k", in.k);
    check_view("o", o, true);
    const PackedSequences& packed = in.packed;
    AttentionShape shape{
        in.q.shape[0], in.q.shape[1], in.k.shape[1], in.q.shape[2], in.k.shape[2], in.q.shape[3], o.shape[3]};
    const std::int64_t padded = shape.head_dim, storage_batch = shape.batch;
    require<Unsupported>(padded == 64 || padded == 128,
        "quantised operands have head_dim 64 or 128 (smaller ones are "
        "padded with zeros), got ",
        padded);
    require(in.k.shape[0] == shape.batch && in.k.shape[3] == padded, "k must be (", shape.batch, ", Hkv, Sk, ", padded,
        "), got ", shape_text(in.k));
    require(shape.heads_kv > 0 || shape.heads_q == 0, "k and v have no heads, but q has ", shape.heads_q);
    require(shape.heads_q == 0 || shape.heads_q % shape.heads_kv == 0, "the heads of q (", shape.heads_q,
        ") must be a multiple of the heads of k and v (", shape.heads_kv, ")");
    require(o.shape[0] == shape.batch && o.shape[1] == shape.heads_q && o.shape[2] == shape.q_len &&
                shape.head_dim_v > 0 && shape.head_dim_v <= padded,
        "o must be (", shape.batch, ", ", shape.heads_q, ", ", shape.q_len, ", at most ", padded, "), got ",
        shape_text(o));
    check_sage_limits(shape.batch, shape.q_len, shape.kv_len, packed);
    check_sage_offsets(packed);
    require<Unsupported>(
        in.k.stride[2] < (1 << 24), "rows of k must be less than 2^24 bytes apart, got ", in.k.stride[2]);
    require(!options.scale, "scale is folded into the quantised q; it cannot be given again");

    const SageSizes sizes = sage_sizes(in.q_scale_rows, shape.batch, shape.q_len, shape.kv_len, packed);
    if (packed.count != 0) {
        shape.batch = packed.count, shape.q_len = packed.longest_q(shape.q_len);
        shape.kv_len = packed.longest_k(shape.kv_len);
    }
    check_view("v", in.v, true);
    require(in.v.shape[0] == storage_batch && in.v.shape[1] == shape.heads_kv && in.v.shape[2] == sizes.k_tiles &&
                in.v.shape[3] == padded && in.v.shape[4] == sage::tile_keys,
        "v must be (", storage_batch, ", ", shape.heads_kv, ", ", sizes.k_tiles, ", ", padded, ", 64), got ",
        shape_text(in.v));
    require(in.v.empty() || (in.v.stride[3] == sage::tile_keys && rows_aligned(in.v, 16)),
        "v must have contiguous tiles on multiples of 16 bytes");
    require<Unsupported>(in.v.stride[2] < (std::int64_t(1) << 31),
        "tiles of v must be less than 2^31 bytes apart, got ", in.v.stride[2]);
    const auto check_scale = [&](const char* name, const TensorView<const float, 3>& view, std::int64_t batch,
                                 std::int64_t heads, std::int64_t count) {
        check_view(name, view, true);
        require(view.shape[0] == batch && view.shape[1] == heads && view.shape[2] == count, name, " must be (", batch,
            ", ", heads, ", ", count, "), got ", shape_text(view));
    };
    check_scale("q_scale", in.q_scale, storage_batch, shape.heads_q, sizes.q_groups);
    check_scale("k_scale", in.k_scale, storage_batch, shape.heads_kv, sizes.k_tiles);
    check_scale("v_scale", in.v_scale, sizes.sequences, shape.heads_kv, padded);
    const auto check_delta = [&](const auto& view) {
        if (!view.data) return;
        check_view("delta_s", view, true);
        require(view.shape[0] == storage_batch && view.shape[1] == shape.heads_q && view.shape[2] == sizes.q_blocks &&
                    view.shape[3] == sizes.keys,
            "delta_s must be (", storage_batch, ", ", shape.heads_q, ", ", sizes.q_blocks, ", ", sizes.keys, "), got ",
            shape_text(view));
    };
    check_delta(in.delta_s);
    check_delta(in.delta_s_units);
    require(!in.delta_s.data || !in.delta_s_units.data, "delta_s is given twice, as fp32 and in units");
    require(!in.delta_s_units.data || in.q_scale_rows == QScaleRows::block,
        "delta_s in units needs one q_scale for each block of 128 rows");
    const auto check_rows_of_q = [&](const char* name, const auto& view) {
        if (!view.data) return;
        check_view(name, view, false);
        require(view.shape[0] == o.shape[0] && view.shape[1] == o.shape[1] && view.shape[2] == o.shape[2], name,
            " must be (", o.shape[0], ", ", o.shape[1], ", ", o.shape[2], "), got ", shape_text(view));
    };
    check_rows_of_q("lse", options.lse);
    check_rows_of_q("lse_shift", in.lse_shift);
    return shape;
}

inline SageParams sage_params(const SageOperands& in, const AttentionShape& shape, const AttentionOptions& options) {
    SageParams p{};
    p.q = in.q.data, p.k = in.k.data, p.v = in.v.data;
    p.q_scale = in.q_scale.data, p.k_scale = in.k_scale.data, p.v_scale = in.v_scale.data;
    p.lse_shift = in.lse_shift.data, p.lse = options.lse.data;
    p.cu_q = in.packed.cu_q, p.cu_k = in.packed.cu_k;
    p.q_batch = in.q.stride[0], p.q_head = in.q.stride[1], p.q_row = in.q.stride[2];
    p.k_batch = in.k.stride[0], p.k_head = in.k.stride[1], p.k_row = in.k.stride[2];
    p.v_batch = in.v.stride[0], p.v_head = in.v.stride[1], p.v_tile = in.v.stride[2];
    p.q_scale_batch = in.q_scale.stride[0], p.q_scale_head = in.q_scale.stride[1];
    p.k_scale_batch = in.k_scale.stride[0], p.k_scale_head = in.k_scale.stride[1];
    p.v_scale_batch = in.v_scale.stride[0], p.v_scale_head = in.v_scale.stride[1];
    const auto set_bias = [&](const auto& view) {
        p.bias = view.data;
        p.bias_batch = view.stride[0], p.bias_head = view.stride[1], p.bias_block = view.stride[2];
    };
    if (in.delta_s.data) set_bias(in.delta_s);
    if (in.delta_s_units.data) set_bias(in.delta_s_units);
    p.shift_batch = in.lse_shift.stride[0], p.shift_head = in.lse_shift.stride[1], p.shift_row = in.lse_shift.stride[2];
    p.lse_batch = options.lse.stride[0], p.lse_head = options.lse.stride[1], p.lse_row = options.lse.stride[2];
    p.q_tokens = int(in.q.shape[2]), p.k_tokens = int(in.k.shape[2]);
    p.q_len = int(shape.q_len), p.kv_len = int(shape.kv_len), p.heads_q = int(shape.heads_q);
    p.group = int(shape.group()), p.head_dim_v = int(shape.head_dim_v);
    p.causal = options.causal, p.q_scale_rows = in.q_scale_rows;
    return p;
}

#ifdef __HIP__

template <class Arch, int HeadDim, int Waves, SageBias Bias>
void launch_sage(SageParams p, const AttentionShape& shape, hipStream_t stream) {
    using Tile = SageTile<Arch, HeadDim, Waves>;
    const std::int64_t q_blocks = ceil_div<std::int64_t>(shape.q_len, Tile::block_q);
    const std::int64_t workgroups = shape.batch * shape.heads_q * q_blocks;
    require<Unsupported>(workgroups <= 0x7fffffff / Tile::threads, "executeSageAttention: too many workgroups");
    p.q_blocks = int(q_blocks), p.workgroups = int(workgroups);
    launch("executeSageAttention", sage_attention_kernel<Arch, HeadDim, Waves, Bias>, workgroups, Tile::threads, 0,
        stream, p);
}
template <class Arch, int HeadDim>
void launch_sage(
    const SageParams& p, const SageOperands& in, const AttentionShape& shape, int block_q, hipStream_t stream) {
    if (in.delta_s.data) return launch_sage<Arch, HeadDim, 4, SageBias::plain>(p, shape, stream);
    if (in.delta_s_units.data) {
        if (block_q == 256) return launch_sage<Arch, HeadDim, 8, SageBias::units>(p, shape, stream);
        return launch_sage<Arch, HeadDim, 4, SageBias::units>(p, shape, stream);
    }
    if (block_q == 256) return launch_sage<Arch, HeadDim, 8, SageBias::none>(p, shape, stream);
    if (block_q == 128) return launch_sage<Arch, HeadDim, 4, SageBias::none>(p, shape, stream);
    return launch_sage<Arch, HeadDim, 2, SageBias::none>(p, shape, stream);
}

#endif

} // namespace detail

#ifdef __HIP__

// Attention on quantised operands; `o` is bfloat16, float16 or float. `block_q`, the rows of a workgroup (256, 128 or
// 64), is chosen by the shape where it is 0. With delta_s 64 means 128, and with delta_s as fp32 it is always 128.
// With head_dim below 64, or rows of o that are not on 16 bytes, 256 means 128 where the operands' head_dim is 64.
template <class O>
void executeSageAttention(
    const SageOperands& in, const TensorView<O, 4>& o, const AttentionOptions& options = {}, int block_q = 0) {
    static_assert(std::is_same_v<O, bfloat16> || std::is_same_v<O, float16> || std::is_same_v<O, float>);
    const AttentionShape shape = detail::check_sage(in, o, options);
    require(block_q == 0 || block_q == 64 || block_q == 128 || block_q == 256,
        "block_q must be 0, 64, 128 or 256, got ", block_q);
    const arch::Device& device = arch::current_device();
    if (device.target != arch::Target::gfx942 && device.target != arch::Target::gfx950)
        arch::refuse_device(device, "executeSageAttention", "gfx942 or gfx950");
    require<TypeMismatch>(in.v_format == sage_fp8_format(device.target), "v must be ",
        in.v_format == Fp8Format::fnuz ? "float8_e4m3fn" : "float8_e4m3fnuz", " on ", arch::target_name(device.target));
    if (o.empty()) return;

    detail::SageParams p = detail::sage_params(in, shape, options);
    p.o = o.data, p.o_batch = o.stride[0], p.o_head = o.stride[1], p.o_row = o.stride[2];
    p.output = output_type<O>;
    p.wide_stores = shape.head_dim_v % 16 == 0 && rows_aligned(o, 16);
    if (block_q == 0)
        block_q = sage_block_q(
            shape.batch * shape.heads_q, shape.q_len, device.compute_units, in.delta_s_units.data != nullptr);
    // Without wide stores o goes through the tiles' LDS, 4 KiB a wave: at head_dim 64 there is room for four waves.
    if (!p.wide_stores && in.q.shape[3] == 64) block_q = std::min(block_q, 128);
    const auto run = [&](auto target) {
        using Arch = decltype(target);
        if (in.packed.count != 0) detail::launch_sage_uncovered<Arch>(p, in.packed.count, options.stream);
        if (shape.q_len == 0) return;
        if (in.q.shape[3] == 64)
            detail::launch_sage<Arch, 64>(p, in, shape, block_q, options.stream);
        else
            detail::launch_sage<Arch, 128>(p, in, shape, block_q, options.stream);
    };
    device.target == arch::Target::gfx942 ? run(arch::gfx942{}) : run(arch::gfx950{});
}

#endif

} // namespace waveattn
