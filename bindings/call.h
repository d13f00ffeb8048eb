// One call of a kernel: makes the device current, gives kernels memory that the device can read, and puts results back.
//
//     Call call(device, stream);
//     kernels::run(call.input(q), call.output(out), call.stream());
//     call.finish();
//
// On a GPU tensors pass through as they are: nothing is copied, allocated or waited for. On an emulated device host
// tensors are copied to device memory with their strides, so that an access outside a tensor is a fault there too, and
// finish() waits and copies the outputs back. The GIL is free between construction and destruction.
#pragma once

#include "hip_runtime.h"
#include "tensor_desc.h"

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

namespace waveattn::python {

// Frees the GIL for a scope. A daemon thread whose scope ends while the interpreter shuts down sleeps until the process
// ends: Python before 3.14 would unwind it through destructors, which aborts the process.
class UnlockedInterpreter {
public:
    UnlockedInterpreter() : state_(PyEval_SaveThread()) {}
    ~UnlockedInterpreter();
    UnlockedInterpreter(const UnlockedInterpreter&) = delete;
    UnlockedInterpreter& operator=(const UnlockedInterpreter&) = delete;

private:
    PyThreadState* state_;
};

class Call {
public:
    Call(int device, std::uintptr_t stream);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    hipStream_t stream() const { return stream_; }

    // The tensor as the device sees it. Throws InvalidArgument where it lies on another device than the call's.
    TensorDesc input(const char* name, const TensorDesc& tensor);
    // As input(); elements that the kernel does not write keep their values.
    TensorDesc output(const char* name, const TensorDesc& tensor);

    // Emulated device: waits, reports a fault as HipFailure, copies the outputs back. GPU: nothing.
    void finish();

private:
    struct Staged {
        TensorDesc host;
        void* device;
        bool copy_back;
    };
    TensorDesc stage(const char* name, const TensorDesc& tensor, bool copy_back);

    int device_;
    hipStream_t stream_;
    UnlockedInterpreter unlocked_;
    DeviceScope scope_;
    std::vector<Staged> staged_;
};

} // namespace waveattn::python
