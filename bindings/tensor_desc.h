// A tensor as the bindings and the kernels' plain C++ functions see it: memory, shape, strides, element type. No
// Python.
#pragma once

#include "waveattn/core/numeric.h"
#include "waveattn/core/status.h"
#include "waveattn/core/tensor_view.h"

#include <cstdint>
#include <string>
#include <type_traits>

namespace waveattn::python {

enum class DType : int {
    float32,
    bfloat16,
    float16,
    float8_e4m3fn,
    float8_e4m3fnuz,
    int8,
    int32,
    int64,
    other, // recognised by no kernel
};
inline constexpr int dtype_count = int(DType::other);
constexpr const char* dtype_name(DType dtype) {
    switch (dtype) {
    case DType::float32: return "float32";
    case DType::bfloat16: return "bfloat16";
    case DType::float16: return "float16";
    case DType::float8_e4m3fn: return "float8_e4m3fn";
    case DType::float8_e4m3fnuz: return "float8_e4m3fnuz";
    case DType::int8: return "int8";
    case DType::int32: return "int32";
    case DType::int64: return "int64";
    case DType::other: break;
    }
    return "unknown";
}
constexpr int dtype_bytes(DType dtype) {
    switch (dtype) {
    case DType::int64: return 8;
    case DType::float32:
    case DType::int32: return 4;
    case DType::bfloat16:
    case DType::float16: return 2;
    default: return 1;
    }
}

// The enumerator of a C++ element type.
template <class T> inline constexpr DType dtype_of = DType::other;
template <> inline constexpr DType dtype_of<float> = DType::float32;
template <> inline constexpr DType dtype_of<bfloat16> = DType::bfloat16;
template <> inline constexpr DType dtype_of<float16> = DType::float16;
template <> inline constexpr DType dtype_of<float8_e4m3fn> = DType::float8_e4m3fn;
template <> inline constexpr DType dtype_of<float8_e4m3fnuz> = DType::float8_e4m3fnuz;
template <> inline constexpr DType dtype_of<std::int8_t> = DType::int8;
template <> inline constexpr DType dtype_of<std::int32_t> = DType::int32;
template <> inline constexpr DType dtype_of<std::int64_t> = DType::int64;

inline constexpr int max_rank = 8;
inline constexpr int host_memory = -1;

struct TensorDesc {
    void* data = nullptr;
    int rank = 0;
    std::int64_t shape[max_rank] = {};
    std::int64_t stride[max_rank] = {}; // in elements
    DType dtype = DType::other;
    int device = host_memory; // a device ordinal (hip_runtime.h), or host_memory
    bool read_only = false;

    bool empty() const {
        for (int i = 0; i < rank; ++i)
            if (shape[i] == 0) return true;
        return false;
    }
    // Elements between the first and the last one, both included; strides are not negative.
    std::int64_t span() const {
        if (empty()) return 0;
        std::int64_t last = 0;
        for (int i = 0; i < rank; ++i) last += (shape[i] - 1) * stride[i];
        return last + 1;
    }
    std::int64_t span_bytes() const { return span() * dtype_bytes(dtype); }
};

// A typed view. Throws TypeMismatch or InvalidArgument naming the argument.
template <class T, int Rank> TensorView<T, Rank> view(const char* name, const TensorDesc& tensor) {
    require<TypeMismatch>(tensor.dtype == dtype_of<std::remove_const_t<T>>, name, " must have dtype ",
        dtype_name(dtype_of<std::remove_const_t<T>>), ", got ", dtype_name(tensor.dtype));
    require(tensor.rank == Rank, name, " must have ", Rank, Rank == 1 ? " dimension" : " dimensions", ", got ",
        tensor.rank);
    TensorView<T, Rank> result;
    result.data = static_cast<T*>(tensor.data);
    for (int i = 0; i < Rank; ++i) result.shape[i] = tensor.shape[i], result.stride[i] = tensor.stride[i];
    return result;
}

} // namespace waveattn::python
