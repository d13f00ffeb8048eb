// The Python class waveattn._core.Tensor: a description of somebody's memory that kernels take.
#pragma once

#include "tensor_desc.h"

#include <nanobind/nanobind.h>

namespace waveattn::python {

struct Tensor : TensorDesc {
    nanobind::object owner; // keeps the memory of a DLPack import alive; empty where the caller does
};

void bind_tensor(nanobind::module_& module);

} // namespace waveattn::python
