#include "kernels/softmax.h"

#include "waveattn/attention/softmax.h"

namespace waveattn::python {
namespace {

template <class T> void run(const TensorDesc& in, const TensorDesc& out, hipStream_t stream) {
    executeSoftmax(
        make_attention_read(view<const T, 4>("x", in)), make_attention_write(view<T, 4>("out", out)), stream);
}

} // namespace

void softmax(const TensorDesc& in, const TensorDesc& out, hipStream_t stream) {
    switch (in.dtype) {
    case DType::float32: return run<float>(in, out, stream);
    case DType::bfloat16: return run<bfloat16>(in, out, stream);
    case DType::float16: return run<float16>(in, out, stream);
    default: throw Unsupported(concat("softmax supports float32, bfloat16 and float16, got ", dtype_name(in.dtype)));
    }
}

} // namespace waveattn::python
