// What every attention entry point shares: options, shapes, and the checks that run before a launch.
//
//   q (B, Hq, Sq, D)   k (B, Hkv, Sk, D)   v (B, Hkv, Sk, Dv)   o (B, Hq, Sq, Dv)   lse (B, Hq, Sq) fp32
//
// given as strided views with a last stride of 1. Query head h uses KV head h / (Hq / Hkv).
//   o   = softmax(scale * q.k^T + mask).v
//   lse = log(sum(exp(scale * q.k^T + mask))), natural logarithm
// A row with no visible key has o = 0 and lse = -infinity.
#pragma once

#include "waveattn/core/status.h"
#include "waveattn/core/tensor_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace waveattn {

// Which keys j a query i sees. The two causal rules differ where Sq != Sk.
enum class Causal {
    none,         // all
    top_left,     // j <= i              (torch SDPA)
    bottom_right, // j <= i + Sk - Sq    (FlashAttention >= 2.1)
};

struct AttentionOptions {
    Causal causal = Causal::none;
    std::optional<float> scale = {}; // of the scores; default 1/sqrt(D); any finite value, zero and negative included
    TensorView<float, 3> lse = {};   // (B, Hq, Sq), any strides; not written where data is null
    hipStream_t stream = nullptr;
};

struct AttentionShape {
    std::int64_t batch = 0, heads_q = 0, heads_kv = 0, q_len = 0, kv_len = 0, head_dim = 0, head_dim_v = 0;
    std::int64_t group() const { return heads_q / heads_kv; }
};

// Key j is visible to query i iff j <= i + causal_offset. Without a causal mask the offset exceeds every key.
inline std::int64_t causal_offset(Causal causal, const AttentionShape& shape) {
    switch (causal) {
    case Causal::top_left: return 0;
    case Causal::bottom_right: return shape.kv_len - shape.q_len;
    case Causal::none: break;
    }
    return shape.kv_len;
}

namespace detail {
template <class T, int Rank> std::string shape_text(const TensorView<T, Rank>& view) {
    std::string text = "(";
    for (int i = 0; i < Rank; ++i) text += (i ? ", " : "") + std::to_string(view.shape[i]);
    return text + ")";
}
template <class T, int Rank> void check_view(const char* name, const TensorView<T, Rank>& view, bool unit_last_stride) {
    for (int i = 0; i < Rank; ++i) {
        require(view.shape[i] >= 0, name, " has a negative size: ", shape_text(view));
        require(view.stride[i] >= 0 || view.shape[i] <= 1, name, " has a negative stride along axis ", i);
    }
    if (view.empty()) return;
    require(view.data != nullptr, name, " is a null pointer, but its shape is ", shape_text(view));
    require(!unit_last_stride || view.stride[Rank - 1] == 1 || view.shape[Rank - 1] == 1, name,
        " must have a last stride of 1, got ", view.stride[Rank - 1]);
}
} // namespace detail

// Checks sizes and options that do not depend on views. Throws InvalidArgument.
inline void check_shape(const AttentionShape& shape, const AttentionOptions& options) {
    for (std::int64_t size : {shape.batch, shape.heads_q, shape.heads_kv, shape.q_len, shape.kv_len})
        require(size >= 0, "negative size: ", size);
    require(shape.head_dim > 0 && shape.head_dim_v > 0, "head_dim must be positive, got ", shape.head_dim, " and ",
        shape.head_dim_v);
    require(shape.heads_kv > 0 || shape.heads_q == 0, "k and v have no heads, but q has ", shape.heads_q);
    require(shape.heads_q == 0 || shape.heads_q % shape.heads_kv == 0, "the heads of q (", shape.heads_q,
        ") must be a multiple of the heads of k and v (", shape.heads_kv, ")");
    require(!options.scale || std::isfinite(*options.scale), "scale must be finite, got ", options.scale.value_or(0.f));
    if (options.lse.data) {
        detail::check_view("lse", options.lse, false);
        require(options.lse.shape[0] == shape.batch && options.lse.shape[1] == shape.heads_q &&
                    options.lse.shape[2] == shape.q_len,
            "lse must be (", shape.batch, ", ", shape.heads_q, ", ", shape.q_len, "), got ",
            detail::shape_text(options.lse));
    }
}

// Checks the views against one another and returns the shape. Throws InvalidArgument naming the argument and what was
// expected. Element types are the caller's business.
template <class Q, class K, class V, class O>
AttentionShape check_attention(const TensorView<Q, 4>& q, const TensorView<K, 4>& k, const TensorView<V, 4>& v,
    const TensorView<O, 4>& o, const AttentionOptions& options) {
    detail::check_view("q", q, true);
    detail::check_view("k", k, true);
    detail::check_view("v", v, true);
    detail::check_view("o", o, true);
    AttentionShape shape{q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]};
    require(k.shape[0] == shape.batch && v.shape[0] == shape.batch, "q, k and v must have the same batch size, got ",
        shape.batch, ", ", k.shape[0], " and ", v.shape[0]);
    require(v.shape[1] == shape.heads_kv && v.shape[2] == shape.kv_len,
        "k and v must have the same heads and length, got ", detail::shape_text(k), " and ", detail::shape_text(v));
    require(k.shape[3] == shape.head_dim, "k must have q's head_dim ", shape.head_dim, ", got ", k.shape[3]);
    check_shape(shape, options);
    require(o.shape[0] == shape.batch && o.shape[1] == shape.heads_q && o.shape[2] == shape.q_len &&
                o.shape[3] == shape.head_dim_v,
        "o must be (", shape.batch, ", ", shape.heads_q, ", ", shape.q_len, ", ", shape.head_dim_v, "), got ",
        detail::shape_text(o));
    return shape;
}

// The scale of the scores: the option, or 1/sqrt(D).
inline float score_scale(const AttentionOptions& options, const AttentionShape& shape) {
    return options.scale.value_or(float(1.0 / std::sqrt(double(shape.head_dim))));
}

// The same in units of a base-2 logarithm: scale * log2(e), the factor of 2^x kernels, within fp32's finite range.
inline float score_scale_log2(const AttentionOptions& options, const AttentionShape& shape) {
    const double largest = std::numeric_limits<float>::max();
    return float(std::clamp(double(score_scale(options, shape)) * 1.4426950408889634074, -largest, largest));
}

} // namespace waveattn
