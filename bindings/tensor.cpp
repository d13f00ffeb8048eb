#include "tensor.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace waveattn::python {
namespace {

void read_integers(nb::handle sequence, std::int64_t* values, int count) {
    for (int i = 0; i < count; ++i) values[i] = nb::cast<std::int64_t>(sequence[i]);
}

// From a pointer and its description: what a caller reads off a torch tensor or a numpy array without DLPack.
void make_raw(
    Tensor* self, std::uintptr_t data, nb::handle shape, nb::handle strides, int dtype, int device, bool read_only) {
    const std::size_t rank = nb::len(shape);
    require(rank <= std::size_t(max_rank), "tensors have at most ", max_rank, " dimensions, got ", rank);
    require(nb::len(strides) == rank, "shape and strides must have the same length");
    if (dtype < 0 || dtype > int(DType::other)) throw nb::value_error("unknown dtype code");
    new (self) Tensor;
    self->data = reinterpret_cast<void*>(data);
    self->rank = int(rank);
    read_integers(shape, self->shape, self->rank);
    read_integers(strides, self->stride, self->rank);
    self->dtype = DType(dtype);
    self->device = device;
    self->read_only = read_only;
}

DType dtype_from(nb::dlpack::dtype type) {
    using Code = nb::dlpack::dtype_code;
    if (type.lanes != 1) return DType::other;
    switch (Code(type.code)) {
    case Code::Float: return type.bits == 32 ? DType::float32 : type.bits == 16 ? DType::float16 : DType::other;
    case Code::Bfloat: return type.bits == 16 ? DType::bfloat16 : DType::other;
    case Code::Int:
        return type.bits == 8    ? DType::int8
               : type.bits == 32 ? DType::int32
               : type.bits == 64 ? DType::int64
                                 : DType::other;
    case Code::Float8_E4M3FN: return DType::float8_e4m3fn;
    case Code::Float8_E4M3FNUZ: return DType::float8_e4m3fnuz;
    default: return DType::other;
    }
}
std::string dlpack_dtype_text(nb::dlpack::dtype type) {
    using Code = nb::dlpack::dtype_code;
    const char* kind = "dtype code ";
    switch (Code(type.code)) {
    case Code::Float: kind = "float"; break;
    case Code::Bfloat: kind = "bfloat"; break;
    case Code::Int: kind = "int"; break;
    case Code::UInt: kind = "uint"; break;
    case Code::Complex: kind = "complex"; break;
    case Code::Bool: return "bool";
    default: return kind + std::to_string(int(type.code));
    }
    return kind + std::to_string(int(type.bits));
}

// From a DLPack capsule. The memory of a capsule is released when the Tensor is.
Tensor make_from_capsule(nb::object capsule, bool writable) {
    Tensor tensor;
    auto fill = [&](auto array) {
        require(array.ndim() <= std::size_t(max_rank), "tensors have at most ", max_rank, " dimensions, got ",
            array.ndim());
        tensor.data = const_cast<void*>(static_cast<const void*>(array.data()));
        tensor.rank = int(array.ndim());
        for (int i = 0; i < tensor.rank; ++i) {
            tensor.shape[i] = std::int64_t(array.shape(std::size_t(i)));
            tensor.stride[i] = array.stride(std::size_t(i));
        }
        tensor.dtype = dtype_from(array.dtype());
        if (tensor.dtype == DType::other)
            throw Unsupported("dtype " + dlpack_dtype_text(array.dtype()) + " is not supported by any kernel");
        const int kind = array.device_type();
        if (kind == nb::device::cpu::value || kind == nb::device::cuda_host::value ||
            kind == nb::device::rocm_host::value)
            tensor.device = host_memory;
        else if (kind == nb::device::rocm::value)
            tensor.device = array.device_id();
        else
            throw InvalidArgument(concat("memory of DLPack device type ", kind,
                " cannot be used; kernels take ROCm device memory (10) and, on the emulator, CPU memory (1)"));
        // The producer's deleter may be Python code, which must not run with an exception pending.
        tensor.owner = nb::capsule(new decltype(array)(array), [](void* held) noexcept {
            nb::error_scope pending;
            delete static_cast<decltype(array)*>(held);
        });
    };
    if (writable) {
        nb::ndarray<> array;
        if (!nb::try_cast(capsule, array, false)) throw nb::value_error("the array is read-only or not DLPack");
        fill(std::move(array));
    } else {
        nb::ndarray<nb::ro> array;
        if (!nb::try_cast(capsule, array, false)) throw nb::type_error("not a DLPack capsule");
        fill(std::move(array));
        tensor.read_only = true;
    }
    return tensor;
}

// The part [start, start + length) along one axis, of the same memory.
Tensor narrow(const Tensor& tensor, int axis, std::int64_t start, std::int64_t length) {
    require(axis >= 0 && axis < tensor.rank, "axis ", axis, " of a tensor with ", tensor.rank, " dimensions");
    require(start >= 0 && length >= 0 && start + length <= tensor.shape[axis], "the part from ", start, " of length ",
        length, " exceeds axis ", axis, " of size ", tensor.shape[axis]);
    Tensor part = tensor;
    part.shape[axis] = length;
    part.data = static_cast<char*>(tensor.data) + start * tensor.stride[axis] * dtype_bytes(tensor.dtype);
    return part;
}

nb::tuple integers(const std::int64_t* values, int count) {
    nb::list list;
    for (int i = 0; i < count; ++i) list.append(values[i]);
    return nb::tuple(list);
}

} // namespace

void bind_tensor(nb::module_& module) {
    nb::list names;
    for (int i = 0; i < dtype_count; ++i) names.append(dtype_name(DType(i)));
    module.attr("dtype_names") = nb::tuple(names);
    module.attr("host_memory") = host_memory;

    nb::class_<Tensor>(module, "Tensor", "Memory with a shape, strides in elements, a dtype and a device.")
        .def("__init__", &make_raw, nb::arg("data"), nb::arg("shape"), nb::arg("strides"), nb::arg("dtype"),
            nb::arg("device"), nb::arg("read_only") = false)
        .def_static("from_capsule", &make_from_capsule, nb::arg("capsule"), nb::arg("writable") = false)
        .def("narrow", &narrow, nb::arg("axis"), nb::arg("start"), nb::arg("length"))
        .def_prop_ro("data", [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data); })
        .def_prop_ro("shape", [](const Tensor& t) { return integers(t.shape, t.rank); })
        .def_prop_ro("strides", [](const Tensor& t) { return integers(t.stride, t.rank); })
        .def_prop_ro("ndim", [](const Tensor& t) { return t.rank; })
        .def_prop_ro("dtype", [](const Tensor& t) { return int(t.dtype); })
        .def_prop_ro("dtype_name", [](const Tensor& t) { return dtype_name(t.dtype); })
        .def_prop_ro("device", [](const Tensor& t) { return t.device; })
        .def_prop_ro("read_only", [](const Tensor& t) { return t.read_only; });
}

} // namespace waveattn::python
