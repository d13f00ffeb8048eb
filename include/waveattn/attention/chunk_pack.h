// Packing keys and values into the rows of a KV cache: on the host, and on the device for appending tokens. Both give
// the same bytes. Inputs are expected to be finite.
//
//   f16    rounded to nearest, ties to even
//   int8   scale = float16(max |x| / 127) for each 64 values, code = clamp(rint(x / scale), -127, 127)
//   q4_0   d = x_max / -8 for each 32 values, x_max the first of the largest magnitude; code = min(15, int(x / d
//   + 8.5)),
//          with 1 / d rounded before the multiplication and d stored as float16 (ggml's block format and rule)
#pragma once

#include "waveattn/arch/capability.h"
#include "waveattn/attention/chunk_problem.h"
#include "waveattn/core/launch.h"
#include "waveattn/tile/lane_exchange.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace waveattn {

namespace detail {

// The parts that both sides compute alike.
WAVEATTN_HOST_DEVICE inline float int8_code(float x, float scale) {
    if (scale == 0) return 0;
    const float code = __builtin_rintf(x / scale);
    return code > 127 ? 127.f : code < -127 ? -127.f : code;
}
WAVEATTN_HOST_DEVICE inline int q4_code(float x, float inverse_d) {
#ifdef __clang__
#    pragma clang fp contract(off)
#endif
    const float scaled = x * inverse_d;
    const int code = int(scaled + 8.5f);
    return code > 15 ? 15 : code;
}

} // namespace detail

// One row of head_dim values; `scales` only for int8.
inline void pack_row(RowFormat format, const float* x, int head_dim, void* row, float16* scales) {
    if (format == RowFormat::f16) {
        auto* out = static_cast<float16*>(row);
        for (int i = 0; i < head_dim; ++i) out[i] = from_float<float16>(x[i]);
    } else if (format == RowFormat::int8) {
        auto* out = static_cast<std::int8_t*>(row);
        for (int group = 0; group < head_dim / 64; ++group) {
            float largest = 0;
            for (int i = 0; i < 64; ++i) largest = std::max(largest, std::abs(x[64 * group + i]));
            scales[group] = from_float<float16>(largest / 127.f);
            const float scale = to_float(scales[group]);
            for (int i = 0; i < 64; ++i) out[64 * group + i] = std::int8_t(detail::int8_code(x[64 * group + i], scale));
        }
    } else {
        auto* out = static_cast<std::uint8_t*>(row);
        for (int block = 0; block < head_dim / 32; ++block, out += 18, x += 32) {
            float largest = 0, signed_largest = 0;
            for (int i = 0; i < 32; ++i)
                if (std::abs(x[i]) > largest) largest = std::abs(x[i]), signed_largest = x[i];
            const float d = signed_largest / -8.f, inverse = d != 0 ? 1.f / d : 0.f;
            const float16 stored = from_float<float16>(d);
            std::memcpy(out, &stored, 2);
            for (int i = 0; i < 16; ++i)
                out[2 + i] = std::uint8_t(detail::q4_code(x[i], inverse) | detail::q4_code(x[i + 16], inverse) << 4);
        }
    }
}

// The values that a row stands for; exact.
inline void unpack_row(RowFormat format, const void* row, const float16* scales, int head_dim, float* x) {
    for (int i = 0; i < head_dim; ++i) {
        if (format == RowFormat::f16) {
            x[i] = to_float(static_cast<const float16*>(row)[i]);
        } else if (format == RowFormat::int8) {
            x[i] = float(static_cast<const std::int8_t*>(row)[i]) * to_float(scales[i / 64]);
        } else {
            const auto* block = static_cast<const std::uint8_t*>(row) + i / 32 * 18;
            float16 d;
            std::memcpy(&d, block, 2);
            const int byte = block[2 + i % 16];
            x[i] = float(i % 32 < 16 ? byte & 15 : byte >> 4) * to_float(d) - 8.f * to_float(d); // both exact
        }
    }
}

// Appending tokens on the device: token t of KV head h goes to the row of cell cells[t] of sequence sequence_of[t].
// Tokens whose cell or page does not exist are dropped. The cache's pools are written, although PagedKv is constant.
struct ChunkAppendArgs {
    TensorView<const float, 3> k, v; // (tokens, kv_heads, head_dim), last stride 1
    PagedKv kv;
    const std::int32_t* cells = nullptr;       // [tokens], on the device
    const std::int32_t* sequence_of = nullptr; // [tokens], on the device; null: sequence 0
    hipStream_t stream = nullptr;
};

inline void check_chunk_append(const ChunkAppendArgs& args, int head_dim, KvFormat format) {
    constexpr const char* name = "chunk_append";
    detail::check_view("k", args.k, true);
    detail::check_view("v", args.v, true);
    require(head_dim > 0 && head_dim % 64 == 0, name, ": head_dim must be a multiple of 64, got ", head_dim);
    for (const auto* view : {&args.k, &args.v})
        require(view->shape[0] == args.k.shape[0] && view->shape[1] == args.kv.kv_heads && view->shape[2] == head_dim,
            name, ": k and v must be (tokens, ", args.kv.kv_heads, ", ", head_dim, "), got ",
            detail::shape_text(*view));
    require(args.kv.page_size > 0 && args.kv.kv_heads > 0 && args.kv.sequences > 0, name,
        ": page_size, kv_heads and sequences of the cache must be positive");
    require<Unsupported>(args.k.shape[0] <= 65535, name, ": at most 65535 tokens in a call, got ", args.k.shape[0]);
    if (args.k.empty()) return;
    require(args.cells && args.kv.k && args.kv.v, name, ": cells and the pools must not be null pointers");
    require(key_format(format) != RowFormat::int8 || args.kv.k_scale, name, ": k_scale is a null pointer");
    require(value_format(format) != RowFormat::int8 || args.kv.v_scale, name, ": v_scale is a null pointer");
    require<Unsupported>(args.kv.cells() <= std::numeric_limits<std::int32_t>::max() &&
                             args.kv.pages * args.kv.page_rows <= std::numeric_limits<std::int32_t>::max(),
        name, ": pools of at most 2^31 - 1 rows are supported");
}

#ifdef __HIP__
namespace detail {

struct ChunkAppendParams {
    const float *k, *v;
    std::int64_t k_token_stride, k_head_stride, v_token_stride, v_head_stride;
    PagedKv kv;
    const std::int32_t *cells, *sequence_of;
    int head_dim;
};

// One wave for the 64 values `x` of a row; a lane has values `lane` and `lane + 32`.
WAVEATTN_DEVICE void pack_64(RowFormat format, const float* x, void* row, float16* scale, int group) {
    const int lane = int(arch::lane_id());
    const float value[2] = {x[64 * group + lane], x[64 * group + lane + 32]};
    constexpr auto exchange = tile::Exchange::registers;
    if (format == RowFormat::f16) {
#    pragma unroll
        for (int i = 0; i < 2; ++i)
            static_cast<_Float16*>(row)[64 * group + lane + 32 * i] = static_cast<_Float16>(value[i]);
    } else if (format == RowFormat::int8) {
        const float largest = tile::max_of_32_lanes<exchange>(arch::max(arch::abs(value[0]), arch::abs(value[1])));
        const auto stored = static_cast<_Float16>(largest / 127.f);
        if (lane == 0) reinterpret_cast<_Float16*>(scale)[group] = stored;
#    pragma unroll
        for (int i = 0; i < 2; ++i)
            static_cast<signed char*>(row)[64 * group + lane + 32 * i] =
                static_cast<signed char>(int8_code(value[i], float(stored)));
    } else {
#    pragma unroll
        for (int i = 0; i < 2; ++i) {
            const float magnitude = arch::abs(value[i]), largest = tile::max_of_32_lanes<exchange>(magnitude);
            const unsigned candidates = arch::ballot32(magnitude == largest);
            const int bits = __builtin_bit_cast(int, value[i]);
            const float d =
                __builtin_bit_cast(float, arch::read_lane(bits, candidates ? __builtin_ctz(candidates) : 0)) / -8.f;
            const int code = q4_code(value[i], d != 0 ? 1.f / d : 0.f);
            const int upper = __builtin_bit_cast(int, arch::swap_rows(__builtin_bit_cast(float, code)));
            auto* block = static_cast<unsigned char*>(row) + (2 * group + i) * 18;
            if (lane < 16) block[2 + lane] = static_cast<unsigned char>(code | upper << 4);
            if (lane == 0) *reinterpret_cast<_Float16*>(block) = static_cast<_Float16>(largest > 0 ? d : -0.f);
        }
    }
}

// Grid (head_dim / 64, kv_heads, tokens), one wave: 64 values of a key and of a value.
template <class Arch, KvFormat Format> __global__ __launch_bounds__(32) void chunk_append_kernel(ChunkAppendParams p) {
    if constexpr (!arch::compiled_for<Arch>) {
        arch::trap_stub();
    } else {
        const int group = int(arch::block_x()), kv_head = int(arch::block_y()), token = int(arch::block_z());
        const PagedKv& kv = p.kv;
        const int cell = p.cells[token], sequence = p.sequence_of ? p.sequence_of[token] : 0;
        if (cell < 0 || cell >= kv.cells() || sequence < 0 || sequence >= kv.sequences) return;
        const int page_of_sequence = cell / int(kv.page_size), slot = cell - page_of_sequence * int(kv.page_size);
        const int page = kv.page_table ? kv.page_table[sequence * kv.table_stride + page_of_sequence] : sequence;
        if (page < 0 || page >= kv.pages) return;
        const std::int64_t row = page * kv.page_rows + kv_head * kv.head_rows + slot * kv.slot_rows;
        const auto store = [&](RowFormat format, const float* x, const void* pool, const float16* scales) {
            pack_64(format, x, const_cast<char*>(static_cast<const char*>(pool)) + row * row_bytes(format, p.head_dim),
                const_cast<float16*>(scales) + row * row_scales(format, p.head_dim), group);
        };
        store(key_format(Format), p.k + token * p.k_token_stride + kv_head * p.k_head_stride, kv.k, kv.k_scale);
        store(value_format(Format), p.v + token * p.v_token_stride + kv_head * p.v_head_stride, kv.v, kv.v_scale);
    }
}

} // namespace detail

template <KvFormat Format> void chunk_append(const ChunkAppendArgs& args, int head_dim) {
    check_chunk_append(args, head_dim, Format);
    const arch::Device& device = arch::current_device();
    if (device.target == arch::Target::unsupported || device.wave_size != 32)
        arch::refuse_device(device, "chunk_append", "a wave32 target (gfx1030, gfx1200)");
    if (args.k.empty()) return;
    detail::ChunkAppendParams p{args.k.data, args.v.data, args.k.stride[0], args.k.stride[1], args.v.stride[0],
        args.v.stride[1], args.kv, args.cells, args.sequence_of, head_dim};
    launch("chunk_append", &detail::chunk_append_kernel<arch::any_wave32, Format>,
        dim3(unsigned(head_dim / 64), unsigned(args.kv.kv_heads), unsigned(args.k.shape[0])), 32, 0, args.stream, p);
}

#endif

} // namespace waveattn
