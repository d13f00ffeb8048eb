#include "kernels/sage_attention.h"

namespace waveattn::python {
namespace {

SageOptions options_of(const SageCall& call, const SageTensors& tensors, hipStream_t stream) {
    SageOptions options = call.options;
    options.stream = stream;
    if (options.packed.count != 0) {
        options.packed.cu_q = view<const std::int32_t, 1>("cu_seqlens_q", tensors.cu_q).data;
        options.packed.cu_k = view<const std::int32_t, 1>("cu_seqlens_k", tensors.cu_k).data;
    }
    return options;
}

} // namespace

void sage_quantize(const SageCall& call, const SageTensors& t, hipStream_t stream) {
    const SageOptions options = options_of(call, t, stream);
    const auto run = [&](auto element) {
        using T = decltype(element);
        executeSageQuantize<T>(view<const T, 4>("q", t.q), view<const T, 4>("k", t.k), view<const T, 4>("v", t.v),
            options, t.buffer.data, std::size_t(t.buffer.shape[0]));
    };
    switch (t.q.dtype) {
    case DType::bfloat16: return run(bfloat16{});
    case DType::float16: return run(float16{});
    case DType::float32: return run(float{});
    default:
        throw Unsupported(concat("Sage attention supports bfloat16, float16 and float32, got ", dtype_name(t.q.dtype)));
    }
}

void sage_attention_quantized(const SageCall& call, const SageTensors& t, hipStream_t stream) {
    const SageOptions options = options_of(call, t, stream);
    const arch::Device& device = arch::current_device();
    const SageOperands operands = sage_operands(
        sage_storage(call.shape, options), call.shape, options, t.buffer.data, sage_fp8_format(device.target));
    AttentionOptions rest;
    rest.causal = options.causal, rest.stream = stream;
    if (t.lse.data) rest.lse = view<float, 3>("lse", t.lse);
    switch (t.out.dtype) {
    case DType::bfloat16: return executeSageAttention(operands, view<bfloat16, 4>("out", t.out), rest);
    case DType::float16: return executeSageAttention(operands, view<float16, 4>("out", t.out), rest);
    case DType::float32: return executeSageAttention(operands, view<float, 4>("out", t.out), rest);
    default:
        throw Unsupported(concat("Sage attention writes bfloat16, float16 and float32, got ", dtype_name(t.out.dtype)));
    }
}

} // namespace waveattn::python
