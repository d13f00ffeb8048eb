// Attention by the kernel that suits the current device.
//
//   gfx1200, gfx1201   executeFlashAttentionWmma (bf16 or f16 matrix instructions)
//   gfx942, gfx950     executeFlashAttentionDualwave (the same), for views of one type, bf16 or f16, up to head_dim 128
//                      and without an epilogue
//   otherwise          executeFlashAttention (fp32)
//
// The device is looked up in every call, so with two different cards in a process each gets its own kernel.
#pragma once

#include "waveattn/attention/flash_attention.h"
#include "waveattn/attention/flash_attention_dualwave.h"
#include "waveattn/attention/flash_attention_wmma.h"

namespace waveattn {

#ifdef __HIP__

// Attention of read operations; arguments and errors as executeFlashAttention. HeadDim is the largest head_dim.
template <int HeadDim, iop::AnyReadOp Q, iop::AnyReadOp K, iop::AnyReadOp V, iop::WriteOp O>
void executeFlashAttentionAuto(
    const Q& q, const K& k, const V& v, const O& o, const AttentionShape& shape, const AttentionOptions& options = {}) {
    if (arch::current_device().target == arch::Target::gfx1200)
        executeFlashAttentionWmma<HeadDim>(q, k, v, o, shape, options);
    else
        executeFlashAttention<HeadDim>(q, k, v, o, shape, options);
}

// Attention of strided views (B, H, S, D) of fp32, bf16 or f16.
template <int HeadDim, class T, class K, class V, class O, iop::Epilogue E = iop::Chain<>>
void executeFlashAttentionAuto(const TensorView<T, 4>& q, const TensorView<K, 4>& k, const TensorView<V, 4>& v,
    const TensorView<O, 4>& o, const AttentionOptions& options = {}, E epilogue = {}) {
    if constexpr (HeadDim <= 128 && iop::one_of<O, bfloat16, float16> && std::is_same_v<E, iop::Chain<>> &&
                  std::is_same_v<const T, const O> && std::is_same_v<const K, const O> &&
                  std::is_same_v<const V, const O>) {
        const arch::Target target = arch::current_device().target;
        if (target == arch::Target::gfx942 || target == arch::Target::gfx950) {
            DualwaveOptions dualwave;
            static_cast<AttentionOptions&>(dualwave) = options;
            using View = TensorView<const O, 4>;
            return executeFlashAttentionDualwave<HeadDim <= 64 ? 64 : 128, O>(View(q), View(k), View(v), o, dualwave);
        }
    }
    executeFlashAttentionAuto<HeadDim>(make_attention_read(q), make_attention_read(k), make_attention_read(v),
        make_attention_write(o, epilogue), check_attention(q, k, v, o, options), options);
}

// Attention of read operations over `bh` planes, each with its own k and v; o is contiguous (bh, seqQ, HeadDim).
template <int HeadDim, iop::AnyReadOp Q, iop::AnyReadOp K, iop::AnyReadOp V, class O, iop::Epilogue E = iop::Chain<>>
void executeFlashAttentionAuto(const Q& q, const K& k, const V& v, O* o, std::int64_t bh, std::int64_t seqQ,
    std::int64_t seqK, Causal causal = Causal::none, hipStream_t stream = nullptr,
    std::optional<float> scale = std::nullopt, E epilogue = {}) {
    executeFlashAttentionAuto<HeadDim>(q, k, v, make_attention_write(o, bh, seqQ, HeadDim, epilogue),
        AttentionShape{1, bh, bh, seqQ, seqK, HeadDim, HeadDim},
        AttentionOptions{.causal = causal, .scale = scale, .stream = stream});
}

#endif

} // namespace waveattn
