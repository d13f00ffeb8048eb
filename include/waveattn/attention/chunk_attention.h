// Paged chunk attention on wave32 targets (gfx1030, gfx1200): launch and choice of the variant.
//
//   chunk_attention<256, KvFormat::int8, 12>(args);
//
// computes softmax(scale * q.k^T).v over the selected cells of a paged KV cache; chunk_problem.h describes the data.
// All variants but the fast one, which is never chosen by itself, give the same bits. A call launches one or two
// kernels, allocates nothing, never synchronises and can be captured in a graph; widths, ids and page tables are read
// on the device, so a captured graph replays with new ones.
//
// Errors: InvalidArgument / Unsupported (chunk_problem.h); UnsupportedDevice on wave64 targets (gfx942, gfx950), where
// flash_decode is the kernel for a KV cache.
#pragma once

#include "waveattn/arch/capability.h"
#include "waveattn/attention/chunk_fast.h"
#include "waveattn/attention/chunk_fused.h"
#include "waveattn/attention/chunk_merge.h"
#include "waveattn/core/launch.h"

#include <cstdlib>
#include <string_view>

namespace waveattn {

enum class ChunkVariant {
    automatic,   // by device and environment, see choose_chunk_variant
    butterfly,   // the default kernel
    reorganised, // the fastest for the call: chunk_fused for many queries, else chunk_half_wave
    fast,        // int8 caches only, and not the same bits: integer and half-precision dot products, chunk_fast.h
};

// gfx1030 (and gfx1031, gfx1032, gfx1034) use the reorganised kernel, other wave32 targets the default one. The
// environment variable WAVEATTN_PRE75 overrides this: 0 turns the reorganised kernel off, 1 on for every wave32 target.
// Decided for each device, at each call.
inline ChunkVariant choose_chunk_variant(const arch::Device& device) {
    if (device.wave_size != 32) return ChunkVariant::butterfly;
    const char* text = std::getenv("WAVEATTN_PRE75");
    const std::string_view setting = text ? text : "";
    require(setting.empty() || setting == "0" || setting == "1", "WAVEATTN_PRE75 must be 0 or 1, not '", setting, "'");
    const bool on = setting.empty() ? device.target == arch::Target::gfx1030 : setting == "1";
    return on ? ChunkVariant::reorganised : ChunkVariant::butterfly;
}

// The padded group sizes that are worth a kernel of their own; a group runs padded to the next of them.
inline constexpr int chunk_group_sizes[] = {1, 2, 4, 8, 12, 16};
constexpr int padded_chunk_group(std::int64_t group) {
    for (int size : chunk_group_sizes)
        if (group <= size) return size;
    return 0;
}

#ifdef __HIP__

namespace detail {

// Checks what all variants need; whether there is anything to compute.
inline bool check_chunk_call(const ChunkAttentionArgs& args, int head_dim, KvFormat format, int group_pad) {
    check_chunk_attention(args, head_dim, format);
    const arch::Device& device = arch::current_device();
    if (device.target == arch::Target::unsupported || device.wave_size != 32)
        arch::refuse_device(device, "chunk_attention", "a wave32 target (gfx1030, gfx1200); flash_decode runs on all");
    if (args.q.shape[0] == 0 || args.q.shape[1] == 0) return false;
    require<Unsupported>(args.q.shape[1] / args.kv.kv_heads <= group_pad,
        "chunk_attention: ", args.q.shape[1] / args.kv.kv_heads,
        " query heads for each KV head; this instantiation handles ", group_pad);
    return true;
}

template <int HeadDim>
void launch_chunks(void (*kernel)(ChunkParams), const ChunkParams& params, unsigned queries, hipStream_t stream) {
    const unsigned kv_heads = unsigned(params.kv_heads);
    if (params.chunks > 0)
        launch("chunk_attention", kernel, dim3(unsigned(params.chunks), kv_heads, queries), chunk_threads, 0, stream,
            params);
    launch("chunk_attention: merge", &chunk_merge_kernel<arch::any_wave32, HeadDim>,
        dim3(unsigned(params.group), kv_heads, queries), HeadDim, 0, stream, params);
}

} // namespace detail

// Runs one policy; GroupPad is at least the number of query heads of a KV head.
template <int HeadDim, KvFormat Format, int GroupPad, ChunkPolicy Policy>
void chunk_attention_with(const ChunkAttentionArgs& args) {
    if (!detail::check_chunk_call(args, HeadDim, Format, GroupPad)) return;
    const detail::ChunkParams params = detail::make_chunk_params(args, HeadDim);
    const unsigned queries = unsigned(args.q.shape[0]);
    using Traits = detail::ChunkTraits<HeadDim, Format, GroupPad>;
    if constexpr (Policy.fused) {
        require<Unsupported>(detail::ChunkRecord<Traits>::fits(params.group),
            "chunk_attention: the fused kernel needs ", "larger groups or head_dim than ", params.group, " and ",
            HeadDim);
        launch("chunk_attention", &detail::chunk_fused_kernel<arch::any_wave32, Traits, Policy>,
            dim3(unsigned(params.kv_heads), queries), detail::chunk_threads, 0, args.stream, params);
    } else {
        detail::launch_chunks<HeadDim>(
            &detail::chunk_kernel<arch::any_wave32, Traits, Policy>, params, queries, args.stream);
    }
}

// The fast mode of int8 caches (chunk_fast.h), which is not bit-exact.
template <int HeadDim, int GroupPad> void chunk_attention_fast(const ChunkAttentionArgs& args) {
    if (!detail::check_chunk_call(args, HeadDim, KvFormat::int8, GroupPad)) return;
    using Traits = detail::ChunkTraits<HeadDim, KvFormat::int8, GroupPad>;
    detail::launch_chunks<HeadDim>(&detail::chunk_fast_kernel<arch::any_wave32, Traits>,
        detail::make_chunk_params(args, HeadDim), unsigned(args.q.shape[0]), args.stream);
}

// Whether a call has enough queries for the fused kernel: four workgroups for each workgroup processor, as many as
// reside on one. Fewer leave the device idle, where the chunks of a query could fill it.
template <int HeadDim, KvFormat Format, int GroupPad>
bool prefer_fused_chunks(const ChunkAttentionArgs& args, const arch::Device& device) {
    const std::int64_t kv_heads = args.kv.kv_heads;
    return kv_heads > 0 && args.q.shape[0] * kv_heads >= 4 * std::int64_t(device.compute_units) &&
           args.max_width > chunk_cells &&
           detail::ChunkRecord<detail::ChunkTraits<HeadDim, Format, GroupPad>>::fits(args.q.shape[1] / kv_heads);
}

template <int HeadDim, KvFormat Format, int GroupPad>
void chunk_attention(const ChunkAttentionArgs& args, ChunkVariant variant = ChunkVariant::automatic) {
    const arch::Device& device = arch::current_device();
    if (variant == ChunkVariant::automatic) variant = choose_chunk_variant(device);
    if (variant == ChunkVariant::fast) {
        if constexpr (Format == KvFormat::int8)
            chunk_attention_fast<HeadDim, GroupPad>(args);
        else
            throw Unsupported("chunk_attention: the fast variant supports int8 caches");
    } else if (variant == ChunkVariant::reorganised && prefer_fused_chunks<HeadDim, Format, GroupPad>(args, device))
        chunk_attention_with<HeadDim, Format, GroupPad, chunk_fused>(args);
    else if (variant == ChunkVariant::reorganised)
        chunk_attention_with<HeadDim, Format, GroupPad, chunk_half_wave>(args);
    else
        chunk_attention_with<HeadDim, Format, GroupPad, chunk_default>(args);
}

#endif

} // namespace waveattn
