// Paged chunk attention (waveattn/attention/chunk_attention.h) and appending to its cache. Each format of the cache has
// its own .hip file, so that they compile side by side. head_dim 64, 128 or 256; 1 to 16 query heads for a KV head.
#pragma once

#include "waveattn/attention/chunk_attention.h"
#include "waveattn/attention/chunk_pack.h"

namespace waveattn::python {

template <KvFormat Format> struct ChunkKernels {
    static void attention(const ChunkAttentionArgs& args, int head_dim, ChunkVariant variant);
    static void append(const ChunkAppendArgs& args, int head_dim);
};
extern template struct ChunkKernels<KvFormat::f16>;
extern template struct ChunkKernels<KvFormat::int8>;
extern template struct ChunkKernels<KvFormat::q4_0>;
extern template struct ChunkKernels<KvFormat::int8_q4_0>;

#ifdef __HIP__

// Fewer instantiations than the header's dispatch has: groups run padded to 4, 8, 12 (for head_dim 256) or 16 heads,
// the default kernel to 4 or 16, and the fused kernel exists where it gains most.
template <KvFormat Format, int HeadDim> struct ChunkDispatch {
    template <int GroupPad> static void reorganised(const ChunkAttentionArgs& args) {
        if constexpr (GroupPad >= 8 && HeadDim >= 128)
            if (prefer_fused_chunks<HeadDim, Format, GroupPad>(args, arch::current_device()))
                return chunk_attention_with<HeadDim, Format, GroupPad, chunk_fused>(args);
        chunk_attention_with<HeadDim, Format, GroupPad, chunk_half_wave>(args);
    }
    static void fast(const ChunkAttentionArgs& args, std::int64_t group) {
        if constexpr (Format == KvFormat::int8) {
            if (group <= 4) return chunk_attention_fast<HeadDim, 4>(args);
            if (HeadDim == 256 && group <= 12) return chunk_attention_fast<HeadDim, 12>(args);
            return chunk_attention_fast<HeadDim, 16>(args);
        }
        throw Unsupported(concat("the fast variant supports int8 caches, this one is ", kv_format_name(Format)));
    }
    static void run(const ChunkAttentionArgs& args, ChunkVariant variant) {
        check_chunk_attention(args, HeadDim, Format);
        const std::int64_t group = args.q.shape[1] / args.kv.kv_heads;
        if (variant == ChunkVariant::automatic) variant = choose_chunk_variant(arch::current_device());
        if (variant == ChunkVariant::fast) return fast(args, group);
        if (variant == ChunkVariant::butterfly)
            return group <= 4 ? chunk_attention_with<HeadDim, Format, 4, chunk_default>(args)
                              : chunk_attention_with<HeadDim, Format, 16, chunk_default>(args);
        if constexpr (HeadDim < 256)
            if (group == 1) return reorganised<1>(args);
        if (group <= 4) return reorganised<4>(args);
        if (group <= 8) return reorganised<8>(args);
        if constexpr (HeadDim == 256)
            if (group <= 12) return reorganised<12>(args);
        reorganised<16>(args);
    }
};

template <KvFormat Format>
void ChunkKernels<Format>::attention(const ChunkAttentionArgs& args, int head_dim, ChunkVariant variant) {
    switch (head_dim) {
    case 64: return ChunkDispatch<Format, 64>::run(args, variant);
    case 128: return ChunkDispatch<Format, 128>::run(args, variant);
    case 256: return ChunkDispatch<Format, 256>::run(args, variant);
    }
    throw Unsupported(concat("chunk_attention supports head_dim 64, 128 and 256, got ", head_dim));
}
template <KvFormat Format> void ChunkKernels<Format>::append(const ChunkAppendArgs& args, int head_dim) {
    waveattn::chunk_append<Format>(args, head_dim);
}

#endif

} // namespace waveattn::python
