#include "kernels/kv_cache.h"

#include "waveattn/arch/capability.h"
#include "waveattn/arch/intrinsics.h"
#include "waveattn/core/launch.h"

namespace waveattn::python {
namespace {

template <class Code> WAVEATTN_DEVICE Code quantized(float value) {
    if constexpr (std::is_same_v<Code, std::int8_t>)
        return std::int8_t(__builtin_rintf(value));
    else
        return from_float<Code>(value);
}

// One wave for each token of each head.
template <class Arch, class T, class Code>
__global__ __launch_bounds__(Arch::wave_size) void kv_quantize_kernel(
    TensorView<const T, 4> tokens, TensorView<Code, 4> codes, TensorView<float, 3> scales) {
    if constexpr (!arch::compiled_for<Arch>) {
        arch::trap_stub();
    } else {
        std::int64_t row = arch::block_x();
        const std::int64_t token = row % tokens.shape[2];
        row /= tokens.shape[2];
        const std::int64_t head = row % tokens.shape[1], batch = row / tokens.shape[1];
        const T* from = tokens.at(batch, head, token);
        Code* to = codes.at(batch, head, token);
        const int lane = int(arch::lane_id()), dims = int(tokens.shape[3]);

        float largest = 0.f;
        for (int d = lane; d < dims; d += Arch::wave_size) {
            const float magnitude = arch::abs(to_float(from[d]));
            // A NaN compares false and counts as an infinity, which no later maximum can hide.
            largest = arch::max(largest, magnitude < arch::infinity ? magnitude : arch::infinity);
        }
        for (int mask = 1; mask < Arch::wave_size; mask *= 2)
            largest = arch::max(largest, arch::shuffle_xor(largest, mask));

        const bool finite = largest < arch::infinity;
        const float scale = finite ? largest / NumericTraits<Code>::largest : __builtin_nanf("");
        for (int d = lane; d < dims; d += Arch::wave_size) {
            // With a denormal scale the quotient may round above the largest code.
            const float value = finite && scale > 0.f ? to_float(from[d]) / scale : 0.f;
            to[d] = quantized<Code>(
                arch::min(arch::max(value, -NumericTraits<Code>::largest), NumericTraits<Code>::largest));
        }
        if (lane == 0) *scales.at(batch, head, token) = scale;
    }
}

template <class Arch, class T, class Code>
void launch_quantize(const TensorDesc& tokens, const TensorDesc& codes, const TensorDesc& scales, hipStream_t stream) {
    const auto source = view<const T, 4>("tokens", tokens);
    const std::int64_t rows = source.shape[0] * source.shape[1] * source.shape[2];
    if (rows == 0 || source.shape[3] == 0) return;
    launch("kv_quantize", &kv_quantize_kernel<Arch, T, Code>, rows, Arch::wave_size, 0, stream, source,
        view<Code, 4>("codes", codes), view<float, 3>("scales", scales));
}

template <class T, class Code>
void choose_wave(const TensorDesc& tokens, const TensorDesc& codes, const TensorDesc& scales, hipStream_t stream) {
    const arch::Device& device = arch::current_device();
    if (device.target == arch::Target::unsupported) arch::refuse_device(device, "kv_quantize", arch::supported_targets);
    if (arch::wave_size(device.target) == 64)
        launch_quantize<arch::any_wave64, T, Code>(tokens, codes, scales, stream);
    else
        launch_quantize<arch::any_wave32, T, Code>(tokens, codes, scales, stream);
}

template <class T>
void choose_code(const TensorDesc& tokens, const TensorDesc& codes, const TensorDesc& scales, hipStream_t stream) {
    switch (codes.dtype) {
    case DType::int8: return choose_wave<T, std::int8_t>(tokens, codes, scales, stream);
    case DType::float8_e4m3fn: return choose_wave<T, float8_e4m3fn>(tokens, codes, scales, stream);
    case DType::float8_e4m3fnuz: return choose_wave<T, float8_e4m3fnuz>(tokens, codes, scales, stream);
    default:
        throw Unsupported(
            concat("codes must be int8, float8_e4m3fn or float8_e4m3fnuz, got ", dtype_name(codes.dtype)));
    }
}

} // namespace

void kv_quantize(const TensorDesc& tokens, const TensorDesc& codes, const TensorDesc& scales, hipStream_t stream) {
    for (const TensorDesc* tensor : {&tokens, &codes}) {
        require(tensor->rank == 4, "tokens and codes must have 4 dimensions (batch, heads, tokens, head_dim)");
        require(tensor->empty() || tensor->stride[3] == 1 || tensor->shape[3] == 1,
            "tokens and codes must have a last stride of 1");
    }
    require(scales.rank == 3, "scales must have 3 dimensions (batch, heads, tokens)");
    for (int i = 0; i < 4; ++i)
        require(tokens.shape[i] == codes.shape[i] && (i == 3 || tokens.shape[i] == scales.shape[i]),
            "tokens, codes and scales differ in axis ", i);
    switch (tokens.dtype) {
    case DType::float32: return choose_code<float>(tokens, codes, scales, stream);
    case DType::bfloat16: return choose_code<bfloat16>(tokens, codes, scales, stream);
    case DType::float16: return choose_code<float16>(tokens, codes, scales, stream);
    default: throw Unsupported(concat("tokens must be float32, bfloat16 or float16, got ", dtype_name(tokens.dtype)));
    }
}

} // namespace waveattn::python
