// Elements of fp32, bf16 or f16, whichever a tag says at run time: for q and results, which are read and written once,
// so that their dtype does not multiply the kernels.
#pragma once

#include "tensor_desc.h"

#ifdef __HIP__

#    include "waveattn/iop/convert.h"
#    include "waveattn/iop/point.h"

namespace waveattn::python {

// A read and a write operation.
struct TaggedElements {
    void* data;
    std::int64_t stride[3]; // of batch, head, token; that of dim is 1
    DType dtype;

    explicit TaggedElements(const TensorDesc& tensor)
        : data(tensor.data), stride{tensor.stride[0], tensor.stride[1], tensor.stride[2]}, dtype(tensor.dtype) {}
    WAVEATTN_HOST_DEVICE std::int64_t offset(iop::Point where) const {
        return where.batch * stride[0] + where.head * stride[1] + where.token * stride[2] + where.dim;
    }
    WAVEATTN_HOST_DEVICE float read(iop::Point where) const {
        const std::int64_t at = offset(where);
        if (dtype == DType::float32) return static_cast<const float*>(data)[at];
        if (dtype == DType::bfloat16) return iop::decode(static_cast<const bfloat16*>(data)[at]);
        return iop::decode(static_cast<const float16*>(data)[at]);
    }
    template <int N> WAVEATTN_HOST_DEVICE void read(iop::Point where, float (&values)[N]) const {
        if (dtype == DType::float32)
            read_row<float>(where, values);
        else if (dtype == DType::bfloat16)
            read_row<bfloat16>(where, values);
        else
            read_row<float16>(where, values);
    }
    WAVEATTN_HOST_DEVICE void write(iop::Point where, float value) const { write_as(where, value); }
    template <int N> WAVEATTN_HOST_DEVICE void write(iop::Point where, const float (&values)[N]) const {
        if (dtype == DType::float32)
            write_row<float>(where, values);
        else if (dtype == DType::bfloat16)
            write_row<bfloat16>(where, values);
        else
            write_row<float16>(where, values);
    }

private:
    template <class T, int N> WAVEATTN_HOST_DEVICE void read_row(iop::Point where, float (&values)[N]) const {
        T elements[N];
        __builtin_memcpy(elements, static_cast<const T*>(data) + offset(where), sizeof(elements));
        for (int i = 0; i < N; ++i) values[i] = iop::decode(elements[i]);
    }
    WAVEATTN_HOST_DEVICE void write_as(iop::Point where, float value) const {
        const float one[1] = {value};
        write(where, one);
    }
    template <class T, int N> WAVEATTN_HOST_DEVICE void write_row(iop::Point where, const float (&values)[N]) const {
        T elements[N];
        for (int i = 0; i < N; ++i) elements[i] = iop::encode<T>(values[i]);
        __builtin_memcpy(static_cast<T*>(data) + offset(where), elements, sizeof(elements));
    }
};

} // namespace waveattn::python

#endif
