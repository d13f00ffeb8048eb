// Choosing an instantiation of a scalar kernel on the host: wave size of the device, head_dim, and the limits of both.
#pragma once

#include "waveattn/arch/capability.h"
#include "waveattn/attention/problem.h"

#include <type_traits>

namespace waveattn {

// The head_dim of an entry point where it is known only at run time.
inline constexpr int any_head_dim = 0;

namespace detail {

// The scalar kernels count in 32 bits and address in 64: fewer than 2^30 tokens, heads, batch entries.
inline constexpr std::int64_t max_count = std::int64_t(1) << 30;

inline void check_counts(const AttentionShape& shape) {
    for (std::int64_t count : {shape.batch, shape.heads_q, shape.heads_kv, shape.q_len, shape.kv_len})
        require<Unsupported>(count < max_count, "more than 2^30 entries along one axis: ", count);
    require<Unsupported>(shape.batch * shape.heads_q < max_count, "more than 2^30 heads in the batch");
}

// Calls f with the smallest instantiated head_dim that holds `head_dim`.
template <int HeadDim, class F> void with_head_dim(std::int64_t head_dim, F&& f) {
    if constexpr (HeadDim != any_head_dim) {
        require<Unsupported>(
            head_dim <= HeadDim, "this instantiation covers head_dim up to ", HeadDim, ", got ", head_dim);
        f(std::integral_constant<int, HeadDim>{});
    } else {
        require<Unsupported>(head_dim <= 256, "the scalar kernels cover head_dim 1 to 256, got ", head_dim);
        if (head_dim <= 32) return f(std::integral_constant<int, 32>{});
        if (head_dim <= 64) return f(std::integral_constant<int, 64>{});
        if (head_dim <= 96) return f(std::integral_constant<int, 96>{});
        if (head_dim <= 128) return f(std::integral_constant<int, 128>{});
        if (head_dim <= 192) return f(std::integral_constant<int, 192>{});
        f(std::integral_constant<int, 256>{});
    }
}

// Calls f with the tag of the device's wave size. Throws UnsupportedDevice where no kernel covers its target.
template <class F> void with_wave_size(const arch::Device& device, const char* kernel, F&& f) {
    if (device.target == arch::Target::unsupported) arch::refuse_device(device, kernel, arch::supported_targets);
    if (device.wave_size == 64)
        f(arch::any_wave64{});
    else
        f(arch::any_wave32{});
}

} // namespace detail
} // namespace waveattn
