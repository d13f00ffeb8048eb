// Sage quantisation on the device, in three passes, and attention from 16- or 32-bit tensors by way of it.
//
//   k8 = int8((k - k_mean) . R)                     k_mean: of each channel over the keys, with smooth_k
//   q8 = int8(scale * log2(e) * q . R - q_mean)     q_mean: of each channel over 128 rows, with smooth_q
//   delta_s = q_mean . ((k - k_mean) . R)           what smooth_q took away from the scores of 128 rows
//   lse_shift = scale * q . k_mean                  what smooth_k took away from the lse; it changes no weight
//   R = Walsh-Hadamard matrix / sqrt(P)             with hadamard: spreads outlying channels and changes no product
//
// int8 scales are amax / 127 of their rows. v becomes fp8 with a scale for each channel, blocked in tiles of 64 keys.
//
// Sources: SageAttention 1 and 2 (arXiv:2410.02367, arXiv:2411.10958); the formats are in attention/sage_format.h, host
// versions with the same results in attention/sage_host.h. Zero blocks, zero channels and constant keys are quantised
// with tiny positive scales. With smooth_q the scale of a block of q is at least |mean|_1 / 16384, which bounds delta_s
// in units of the scales to what the kernel's accumulators can carry, whatever the data.
//
// q, k, v are bfloat16, float16 or float, head_dim at most 128. Everything the passes write lies in one buffer, whose
// layout sage_storage() tells. Calls allocate nothing, do not synchronise, and can be captured in a graph. Errors are
// those of executeSageAttention, and InvalidArgument where the buffer is too small or not on 256 bytes.
#pragma once

#include "waveattn/attention/sage_attention.h"
#include "waveattn/attention/sage_quantize_kernels.h"

namespace waveattn {

struct SageOptions {
    bool smooth_k = true, smooth_q = false, hadamard = false;
    QScaleRows q_scale_rows = QScaleRows::block;
    Causal causal = Causal::none;
    std::optional<float> scale; // of the scores; default 1/sqrt(D)
    TensorView<float, 3> lse;   // (B, Hq, Sq); not written where data is null
    bool lse_shift = false;     // sage_quantize alone: make lse_shift for a later call with an lse
    PackedSequences packed;
    hipStream_t stream = nullptr;
};

// Byte offsets of the quantised operands in one buffer; -1 for what the options do not need.
struct SageStorage : SageSizes {
    std::int64_t bytes = 0; // of the whole buffer
    std::int64_t q = -1, k = -1, v = -1, q_scale = -1, k_scale = -1, v_scale = -1, delta_s = -1, lse_shift = -1;
    std::int64_t q_mean = -1, k_sums = -1, v_amax = -1; // scratch of the passes
    std::int64_t padded = 0;                            // head_dim of the operands, 64 or 128
    bool delta_s_in_units = false;
};

// The layout for tensors of a shape: `batch`, `q_len` and `kv_len` are the axes of the tensors (1 and all tokens where
// sequences are packed). Throws InvalidArgument and Unsupported for shapes that executeSageQuantize refuses.
inline SageStorage sage_storage(const AttentionShape& shape, const SageOptions& options) {
    detail::check_sage_shape(shape, options.scale);
    // In double, so that nothing below overflows: with delta_s, which has most elements, and one byte or four of each.
    const auto size = [](std::int64_t x) { return double(std::max<std::int64_t>(x, 1)) + 128; };
    require<Unsupported>(
        size(shape.batch) * size(shape.heads_q) * size(shape.q_len) * (options.smooth_q ? size(shape.kv_len) : 128.0) <
                0x1p60 &&
            size(shape.batch) * size(shape.heads_kv) * size(shape.kv_len) * 128.0 < 0x1p60,
        "the operands are too large: batch ", shape.batch, ", heads ", shape.heads_q, " and ", shape.heads_kv,
        ", lengths ", shape.q_len, " and ", shape.kv_len);
    detail::check_sage_limits(shape.batch, shape.q_len, shape.kv_len, options.packed);
    SageStorage s{sage_sizes(options.q_scale_rows, shape.batch, shape.q_len, shape.kv_len, options.packed)};
    s.padded = sage::padded_head_dim(int(shape.head_dim));
    const std::int64_t q_planes = shape.batch * shape.heads_q, kv_planes = shape.batch * shape.heads_kv;
    const auto place = [&](std::int64_t bytes) {
        const std::int64_t at = s.bytes;
        s.bytes = round_up<std::int64_t>(at + bytes, 256);
        return at;
    };
    s.q = place(q_planes * shape.q_len * s.padded);
    s.k = place(kv_planes * shape.kv_len * s.padded);
    s.v = place(kv_planes * s.k_tiles * s.padded * 64);
    s.q_scale = place(q_planes * s.q_groups * 4);
    s.k_scale = place(kv_planes * s.k_tiles * 4);
    s.v_scale = place(s.sequences * shape.heads_kv * s.padded * 4);
    s.v_amax = place(s.sequences * shape.heads_kv * 2 * s.padded * 4);
    if (options.smooth_k) s.k_sums = place(s.sequences * shape.heads_kv * 2 * s.padded * 4);
    if (options.smooth_q) {
        s.q_mean = place(q_planes * s.q_blocks * s.padded * 4);
        s.delta_s = place(q_planes * s.q_blocks * s.keys * 4);
        s.delta_s_in_units = options.q_scale_rows == QScaleRows::block;
    }
    if (options.smooth_k && (options.lse_shift || options.lse.data)) s.lse_shift = place(q_planes * shape.q_len * 4);
    return s;
}

namespace detail {

template <class T>
AttentionShape check_sage_inputs(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
    const TensorView<const T, 4>& v, const SageOptions& options) {
    static_assert(std::is_same_v<T, bfloat16> || std::is_same_v<T, float16> || std::is_same_v<T, float>);
    // check_attention also wants an output; q has the shape of one where head_dim_v is head_dim.
    AttentionOptions rest;
    rest.scale = options.scale;
    require(v.shape[3] == k.shape[3], "v must have k's head_dim ", k.shape[3], ", got ", v.shape[3]);
    const AttentionShape shape = check_attention(q, k, v, q, rest);
    return shape;
}

template <class T> SageSource sage_source(const TensorView<const T, 4>& view) {
    return {
        view.data, view.stride[0], view.stride[1], view.stride[2], view.shape[3] % 8 == 0 && rows_aligned(view, 16)};
}

} // namespace detail

// The operands of sage_storage()'s layout in a buffer.
inline SageOperands sage_operands(
    const SageStorage& s, const AttentionShape& shape, const SageOptions& options, void* buffer, Fp8Format format) {
    char* base = static_cast<char*>(buffer);
    const std::int64_t B = shape.batch, P = s.padded;
    SageOperands in;
    in.q = make_contiguous(reinterpret_cast<const std::int8_t*>(base + s.q), B, shape.heads_q, shape.q_len, P);
    in.k = make_contiguous(reinterpret_cast<const std::int8_t*>(base + s.k), B, shape.heads_kv, shape.kv_len, P);
    in.v = make_contiguous(reinterpret_cast<const std::uint8_t*>(base + s.v), B, shape.heads_kv, s.k_tiles, P, 64);
    const auto floats = [&](std::int64_t at, auto... sizes) {
        return make_contiguous(reinterpret_cast<const float*>(base + at), sizes...);
    };
    in.q_scale = floats(s.q_scale, B, shape.heads_q, s.q_groups);
    in.k_scale = floats(s.k_scale, B, shape.heads_kv, s.k_tiles);
    in.v_scale = floats(s.v_scale, s.sequences, shape.heads_kv, P);
    if (s.lse_shift >= 0) in.lse_shift = floats(s.lse_shift, B, shape.heads_q, shape.q_len);
    if (s.delta_s >= 0 && s.delta_s_in_units)
        in.delta_s_units = make_contiguous(
            reinterpret_cast<const std::int32_t*>(base + s.delta_s), B, shape.heads_q, s.q_blocks, s.keys);
    if (s.delta_s >= 0 && !s.delta_s_in_units) in.delta_s = floats(s.delta_s, B, shape.heads_q, s.q_blocks, s.keys);
    in.q_scale_rows = options.q_scale_rows, in.v_format = format, in.packed = options.packed;
    return in;
}

#ifdef __HIP__

namespace detail {

template <class Arch, int P> void launch_sage_quantize(const SageQuantizeParams& p, bool smooth_q, hipStream_t stream) {
    const std::int64_t kv_planes = std::int64_t(p.sequences) * p.heads_kv,
                       q_planes = std::int64_t(p.sequences) * p.heads_q;
    const auto run = [&](const char* name, auto kernel, std::int64_t blocks) {
        require<Unsupported>(blocks <= 0x7fffffff / sage::quantize_threads, name, ": too many workgroups");
        if (blocks > 0) launch(name, kernel, blocks, sage::quantize_threads, 0, stream, p);
    };
    if (p.launch_tiles > 0)
        run("executeSageQuantize (statistics)", sage_statistics_kernel<Arch, P>,
            kv_planes * (p.smooth_k ? 2 : 1) * (P / 32) * 2);
    run("executeSageQuantize (q)", sage_quantize_q_kernel<Arch, P>, q_planes * p.launch_blocks);
    const auto run_kv = [&](auto kernel, int k_tiles) {
        run("executeSageQuantize (k, v)", kernel,
            kv_planes * (p.launch_tiles + ceil_div<std::int64_t>(p.launch_tiles, k_tiles)));
    };
    // Each workgroup of K reads all means of q: for several tiles at once, where there are enough of them.
    if (!smooth_q)
        run_kv(sage_quantize_kv_kernel<Arch, P, 0>, 1);
    else if (kv_planes * p.launch_tiles < 64)
        run_kv(sage_quantize_kv_kernel<Arch, P, 1>, 1);
    else if (kv_planes * p.launch_tiles < 256)
        run_kv(sage_quantize_kv_kernel<Arch, P, 2>, 2);
    else
        run_kv(sage_quantize_kv_kernel<Arch, P, 4>, 4);
}

} // namespace detail

// Quantises into `buffer` of `bytes` bytes on 256 bytes, laid out by sage_storage(), and returns the operands in it.
template <class T>
SageOperands executeSageQuantize(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
    const TensorView<const T, 4>& v, const SageOptions& options, void* buffer, std::size_t bytes) {
    const AttentionShape shape = detail::check_sage_inputs(q, k, v, options);
    const SageStorage storage = sage_storage(shape, options);
    detail::check_sage_offsets(options.packed);
    require(bytes >= std::size_t(storage.bytes), "the buffer must have ", storage.bytes, " bytes, got ", bytes);
    require(buffer != nullptr || storage.bytes == 0, "the buffer is a null pointer");
    require(reinterpret_cast<std::uintptr_t>(buffer) % 256 == 0, "the buffer must start on a multiple of 256 bytes");
    const arch::Device& device = arch::current_device();
    if (device.target != arch::Target::gfx942 && device.target != arch::Target::gfx950)
        arch::refuse_device(device, "executeSageQuantize", "gfx942 or gfx950");
    const Fp8Format format = sage_fp8_format(device.target);

    char* base = static_cast<char*>(buffer);
    detail::SageQuantizeParams p{};
    p.q = detail::sage_source(q), p.k = detail::sage_source(k), p.v = detail::sage_source(v);
    p.input = detail::sage_input<T>;
    p.q8 = reinterpret_cast<std::int8_t*>(base + storage.q), p.k8 = reinterpret_cast<std::int8_t*>(base + storage.k);
    p.v8 = reinterpret_cast<std::uint8_t*>(base + storage.v);
    const auto floats = [&](std::int64_t at) { return at < 0 ? nullptr : reinterpret_cast<float*>(base + at); };
    p.q_scale = floats(storage.q_scale), p.k_scale = floats(storage.k_scale), p.v_scale = floats(storage.v_scale);
    p.q_mean = floats(storage.q_mean), p.lse_shift = floats(storage.lse_shift);
    p.k_sums = floats(storage.k_sums), p.v_amax = floats(storage.v_amax);
    if (storage.delta_s_in_units)
        p.delta_s_units = reinterpret_cast<std::int32_t*>(base + storage.delta_s);
    else
        p.delta_s = floats(storage.delta_s);
    p.cu_q = options.packed.cu_q, p.cu_k = options.packed.cu_k;
    p.q_rows = shape.q_len, p.q_groups = storage.q_groups, p.k_rows = shape.kv_len, p.k_tiles = storage.k_tiles;
    p.blocks = storage.q_blocks, p.keys = storage.keys;
    p.sequences = int(storage.sequences), p.heads_q = int(shape.heads_q), p.heads_kv = int(shape.heads_kv);
    p.group = shape.heads_kv == 0 ? 1 : int(shape.group());
    const bool packed = options.packed.count != 0;
    p.q_tokens = int(shape.q_len), p.k_tokens = int(shape.kv_len);
    p.q_len = packed ? int(options.packed.longest_q(shape.q_len)) : p.q_tokens;
    p.kv_len = packed ? int(options.packed.longest_k(shape.kv_len)) : p.k_tokens;
    p.head_dim = int(shape.head_dim);
    p.launch_blocks = ceil_div(p.q_len, sage::block_rows), p.launch_tiles = ceil_div(p.kv_len, sage::tile_keys);
    p.factor = score_scale_log2(AttentionOptions{.scale = options.scale}, shape);
    p.fp8_largest = sage::fp8_largest(format);
    p.smooth_k = options.smooth_k, p.hadamard = options.hadamard, p.q_scale_rows = options.q_scale_rows;
    const auto run = [&](auto target) {
        using Arch = decltype(target);
        if (storage.padded == 64)
            detail::launch_sage_quantize<Arch, 64>(p, options.smooth_q, options.stream);
        else
            detail::launch_sage_quantize<Arch, 128>(p, options.smooth_q, options.stream);
    };
    device.target == arch::Target::gfx942 ? run(arch::gfx942{}) : run(arch::gfx950{});
    return sage_operands(storage, shape, options, buffer, format);
}

// Attention from unquantised tensors: quantises into `buffer`, then attends. `o` is bfloat16, float16 or float.
template <class T, class O>
void executeSageAttention(const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
    const TensorView<const T, 4>& v, const TensorView<O, 4>& o, const SageOptions& options, void* buffer,
    std::size_t bytes) {
    detail::check_sage_inputs(q, k, v, options);
    detail::check_view("o", o, true);
    for (int axis = 0; axis < 4; ++axis)
        require(o.shape[axis] == q.shape[axis], "o must have q's shape ", detail::shape_text(q), ", got ",
            detail::shape_text(o));
    if (options.lse.data) {
        detail::check_view("lse", options.lse, false);
        for (int axis = 0; axis < 3; ++axis)
            require(options.lse.shape[axis] == q.shape[axis], "lse must be (", q.shape[0], ", ", q.shape[1], ", ",
                q.shape[2], "), got ", detail::shape_text(options.lse));
    }
    const SageOperands operands = executeSageQuantize(q, k, v, options, buffer, bytes);
    AttentionOptions rest;
    rest.causal = options.causal, rest.lse = options.lse, rest.stream = options.stream;
    executeSageAttention(operands, o, rest);
}

#endif

} // namespace waveattn
