// FlashAttentionDualwaveSwp: bf16 / float16 attention on the matrix units of gfx950 and gfx942.
//
//   o[b, h, i, :] = sum_j softmax_j(scale q[b, h, i, :] . k[b, h', j, :]) v[b, h', j, :],   h' = h / (Hq / Hkv)
//   lse[b, h, i]  = log(sum_j exp(scale q . k)),  j over the keys that row i sees
//
// q (B, Hq, Sq, D), k (B, Hkv, Sk, D), v (B, Hkv, Sk, Dv), o (B, Hq, Sq, Dv), one element type for all four; D and Dv
// from 1 to 128 (64 and 128 natively, others padded in registers and LDS), any lengths and strides. Scores and sums are
// fp32; the weights are narrowed to the element type for the second product. Rows on 16 bytes with D and Dv multiples
// of 8 take the fast path of gfx950, others go through registers.
//
// Rows without a visible key have o = 0 and lse = -infinity. A NaN or infinity in v of a key reaches all rows of the
// waves (32 rows each) that compute its tile of 64 keys, also those that it is hidden from, as 0 * NaN does in a dense
// product; what lies outside the tensors is never read.
//
// A call allocates nothing, does not synchronise and can be captured in a graph.
#pragma once

#include "waveattn/arch/capability.h"
#include "waveattn/attention/dualwave_kernel.h"
#include "waveattn/attention/dualwave_merge.h"
#include "waveattn/attention/dualwave_params.h"
#include "waveattn/attention/problem.h"
#include "waveattn/core/divide.h"
#include "waveattn/core/launch.h"

#include <algorithm>
#include <cstddef>

namespace waveattn {

struct DualwaveOptions : AttentionOptions {
    // `pinned` costs less for each tile and needs a workspace. Rows that overflow it are found on the device and their
    // blocks computed again with the online basis in the same call. Inputs off the fast path, and gfx942, use the
    // online basis, but want the workspace all the same: what a call needs shall not depend on addresses or strides.
    SoftmaxBasis basis = SoftmaxBasis::online;
    XcdSwizzle xcd_swizzle = XcdSwizzle::automatic;
    int splits = 1; // shares of the keys, computed by different workgroups and merged; more than 1 needs a workspace
    // Compute units that a causal call is spread over, 0 for all of the device; the result does not depend on it.
    int compute_units = 0;
    void* workspace = nullptr; // device memory, aligned to 16 bytes, of dualwave_workspace_bytes()
    std::size_t workspace_bytes = 0;
};

namespace detail {

constexpr int dualwave_block_q = DualwaveShape<128>::block_q, dualwave_block_kv = DualwaveShape<128>::block_kv;

struct DualwaveWorkspace {
    std::size_t overflow = 0, partial_lse = 0, partial_o = 0, bytes = 0; // offsets, and all
};
inline DualwaveWorkspace dualwave_workspace(const AttentionShape& shape, SoftmaxBasis basis, int splits) {
    const auto rows = std::size_t(shape.batch * shape.heads_q * shape.q_len) * std::size_t(splits);
    const auto items =
        std::size_t(shape.batch * shape.heads_q * ceil_div<std::int64_t>(shape.q_len, dualwave_block_q)) *
        std::size_t(splits);
    DualwaveWorkspace space;
    const auto take = [&](std::size_t bytes) {
        const std::size_t offset = space.bytes;
        space.bytes += round_up<std::size_t>(bytes, 16);
        return offset;
    };
    if (basis == SoftmaxBasis::pinned) space.overflow = take(items * 8 * sizeof(std::int32_t));
    if (splits > 1) {
        space.partial_lse = take(rows * sizeof(float));
        space.partial_o = take(rows * std::size_t(shape.head_dim_v) * sizeof(float));
    }
    return space;
}

} // namespace detail

// Bytes of device memory that a call with these options needs; 0 for the defaults.
inline std::size_t dualwave_workspace_bytes(const AttentionShape& shape, SoftmaxBasis basis, int splits) {
    return detail::dualwave_workspace(shape, basis, splits).bytes;
}

// Shares of the keys with which a grid too small for the device fills it: at least 8 tiles of 64 keys each, 16 at most.
inline int dualwave_splits(const AttentionShape& shape, int compute_units) {
    const std::int64_t blocks =
        shape.batch * shape.heads_q * ceil_div<std::int64_t>(shape.q_len, detail::dualwave_block_q);
    const std::int64_t tiles = ceil_div<std::int64_t>(shape.kv_len, detail::dualwave_block_kv);
    if (blocks == 0) return 1;
    return int(std::max<std::int64_t>(1, std::min({compute_units / blocks, tiles / 8, std::int64_t(16)})));
}

#ifdef __HIP__

namespace detail {

template <class T, class Arch, int HeadDim, SoftmaxBasis Basis, bool ExactSum, class Staging>
__global__ __launch_bounds__(512, 2) void flash_attention_dualwave_kernel(DualwaveParams<T> p) {
    if constexpr (arch::compiled_for<Arch>)
        FlashAttentionDualwaveSwp<T, Arch, HeadDim, Basis, ExactSum, Staging>::exec(p, arch::block_x());
    else
        arch::trap_stub();
}

template <class T, class Arch, int HeadDim, SoftmaxBasis Basis, bool ExactSum, class Staging>
void launch_dualwave_kernel(const DualwaveParams<T>& p, hipStream_t stream) {
    launch("flash_attention_dualwave", flash_attention_dualwave_kernel<T, Arch, HeadDim, Basis, ExactSum, Staging>,
        p.grid.workgroups, DualwaveShape<HeadDim>::threads, 0, stream, p);
}

// The kernels of one call on one target.
template <class Arch, int HeadDim, class T>
void launch_dualwave(DualwaveParams<T> p, bool aligned, SoftmaxBasis basis, hipStream_t stream) {
    constexpr auto online = SoftmaxBasis::online, pinned = SoftmaxBasis::pinned;
    if (!aligned)
        return launch_dualwave_kernel<T, Arch, HeadDim, online, true, DualwaveRegisters<T, Arch, HeadDim, false>>(
            p, stream);
    if constexpr (std::is_same_v<Arch, arch::gfx942>)
        launch_dualwave_kernel<T, Arch, HeadDim, online, true, DualwaveRegisters<T, Arch, HeadDim, true>>(p, stream);
    else {
        using Direct = DualwaveDirect<T, HeadDim>;
        const auto run = [&](auto exact_sum) {
            if (basis == pinned) {
                launch_dualwave_kernel<T, Arch, HeadDim, pinned, exact_sum, Direct>(p, stream);
                p.repair = 1;
                p.grid.paired = 0, p.grid.limit = 0x7fffffff;
                p.grid.finish();
            }
            launch_dualwave_kernel<T, Arch, HeadDim, online, exact_sum, Direct>(p, stream);
        };
        // The logarithm of the sum wants the sum before narrowing.
        if (p.lse.data || p.partial_lse)
            run(std::true_type{});
        else
            run(std::false_type{});
    }
}

// Whether loads of 16 bytes cover the tensor: whole chunks, offsets below 2^31 in the tiles that are on their way at
// once.
template <class T, int Rank> bool dualwave_rows(const TensorView<T, Rank>& view, std::int64_t dim) {
    return rows_aligned(view, 16) && dim % 8 == 0 &&
           (view.shape[2] <= 1 || (view.stride[2] >= dim && view.stride[2] <= (std::int64_t(1) << 20)));
}

} // namespace detail

// Runs the attention on options.stream. HEAD_DIM is 64 or 128, at least D and Dv, or 0: the smaller one that holds
// them. Throws InvalidArgument (shapes, pointers, a missing or small workspace), Unsupported (D or Dv above HEAD_DIM,
// more than 2^30 entries along an axis), UnsupportedDevice; nothing is launched then, nor for an empty o.
template <int HEAD_DIM = 0, class T>
void executeFlashAttentionDualwave(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
    const TensorView<const T, 4>& v, const TensorView<T, 4>& o, const DualwaveOptions& options = {}) {
    static_assert(std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, "bfloat16 or float16");
    static_assert(HEAD_DIM == 0 || HEAD_DIM == 64 || HEAD_DIM == 128);
    const AttentionShape shape = check_attention(q, k, v, o, options);
    const arch::Device& device = arch::current_device();
    if (device.target != arch::Target::gfx950 && device.target != arch::Target::gfx942)
        arch::refuse_device(device, "flash_attention_dualwave", "gfx950 or gfx942");
    const std::int64_t widest = std::max(shape.head_dim, shape.head_dim_v);
    require<Unsupported>(widest <= (HEAD_DIM ? HEAD_DIM : 128), "flash_attention_dualwave covers head_dim up to ",
        HEAD_DIM ? HEAD_DIM : 128, ", got ", shape.head_dim, " and ", shape.head_dim_v);
    for (std::int64_t count : {shape.batch, shape.heads_q, shape.heads_kv, shape.q_len, shape.kv_len})
        require<Unsupported>(count <= std::int64_t(1) << 30, "more than 2^30 entries along one axis: ", count);
    require(options.splits >= 1 && options.splits <= 1024, "splits must be from 1 to 1024, got ", options.splits);
    require(options.compute_units >= 0, "compute_units must not be negative, got ", options.compute_units);
    if (o.empty()) return;

    const bool aligned = detail::dualwave_rows(q, shape.head_dim) && detail::dualwave_rows(k, shape.head_dim) &&
                         detail::dualwave_rows(v, shape.head_dim_v) && detail::dualwave_rows(o, shape.head_dim_v);
    const SoftmaxBasis basis = aligned && device.target == arch::Target::gfx950 ? options.basis : SoftmaxBasis::online;
    const auto space = detail::dualwave_workspace(shape, options.basis, options.splits);
    require(space.bytes == 0 || (options.workspace && options.workspace_bytes >= space.bytes),
        "this basis and number of splits need a workspace of ", space.bytes, " bytes, got ",
        options.workspace ? options.workspace_bytes : 0);
    require(reinterpret_cast<std::uintptr_t>(options.workspace) % 16 == 0, "the workspace must be aligned to 16 bytes");

    detail::DualwaveParams<T> p{};
    p.q = q, p.k = k, p.v = v, p.o = o, p.lse = options.lse;
    // Bounds are computed from the strides of rows; that of a single row may be anything.
    const auto single_row = [](auto& view) {
        if (view.shape[2] == 1) view.stride[2] = round_up<std::int64_t>(view.shape[3], 8);
    };
    single_row(p.q), single_row(p.k), single_row(p.v), single_row(p.o);
    const bool causal = options.causal != Causal::none;
    p.grid.q_blocks = std::int32_t(ceil_div<std::int64_t>(shape.q_len, detail::dualwave_block_q));
    p.grid.group = std::int32_t(shape.group()), p.grid.heads_kv = std::int32_t(shape.heads_kv);
    p.grid.batch = std::int32_t(shape.batch), p.grid.splits = options.splits;
    p.grid.longest_first = causal;
    require<Unsupported>(p.grid.entries() < std::int64_t(1) << 31, "more than 2^31 workgroups: ", p.grid.entries());
    if (causal && aligned && device.target == arch::Target::gfx950)
        detail::dualwave_pair(p.grid, options.compute_units ? options.compute_units : device.compute_units);
    p.grid.remap = detail::dualwave_remap(
        options.xcd_swizzle, shape.batch * shape.heads_kv, p.grid.group_entries(), causal && !p.grid.paired);
    p.grid.finish();
    p.q_len = std::int32_t(shape.q_len), p.kv_len = std::int32_t(shape.kv_len);
    p.head_dim = std::int32_t(shape.head_dim), p.head_dim_v = std::int32_t(shape.head_dim_v);
    p.masked = causal;
    p.causal_offset = std::int32_t(causal_offset(options.causal, shape));
    const auto tiles = std::int32_t(ceil_div<std::int64_t>(shape.kv_len, detail::dualwave_block_kv));
    p.split_tiles = std::max(1, ceil_div(tiles, options.splits));
    // The kernel computes exponents with a positive factor; the sign of the scale goes into q, exactly.
    const float scale = score_scale(options, shape);
    p.scale_log2 = scale == 0 ? 1.f : std::abs(score_scale_log2(options, shape));
    p.q_keep = scale == 0 ? 0u : ~0u;
    p.q_flip = scale < 0 ? 0x80008000u : 0u;
    auto* const workspace = static_cast<char*>(options.workspace);
    if (basis == SoftmaxBasis::pinned) p.overflow = reinterpret_cast<std::int32_t*>(workspace + space.overflow);
    if (options.splits > 1) {
        p.partial_lse = reinterpret_cast<float*>(workspace + space.partial_lse);
        p.partial_o = reinterpret_cast<float*>(workspace + space.partial_o);
    }

    const auto run = [&](auto head_dim) {
        constexpr int value = decltype(head_dim)::value;
        if (device.target == arch::Target::gfx950)
            detail::launch_dualwave<arch::gfx950, value>(p, aligned, basis, options.stream);
        else
            detail::launch_dualwave<arch::gfx942, value>(p, aligned, basis, options.stream);
    };
    if constexpr (HEAD_DIM != 0)
        run(std::integral_constant<int, HEAD_DIM>{});
    else if (widest <= 64)
        run(std::integral_constant<int, 64>{});
    else
        run(std::integral_constant<int, 128>{});
    if (options.splits > 1) detail::launch_dualwave_merge(p, options.stream);
}

#endif

} // namespace waveattn
