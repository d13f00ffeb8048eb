#include "call.h"
#include "dynamic_loading.h"

#include "waveattn/core/status.h"

#include <cstring>
#include <unistd.h>

namespace waveattn::python {
namespace {

// Copies the elements of `tensor`, and nothing between them, from a copy of its span.
void copy_elements(const TensorDesc& tensor, const char* source, int axis, std::int64_t offset) {
    const std::int64_t bytes = dtype_bytes(tensor.dtype);
    char* target = static_cast<char*>(tensor.data);
    if (axis == tensor.rank) {
        std::memcpy(target + offset * bytes, source + offset * bytes, std::size_t(bytes));
    } else if (axis == tensor.rank - 1 && tensor.stride[axis] == 1) {
        std::memcpy(target + offset * bytes, source + offset * bytes, std::size_t(tensor.shape[axis] * bytes));
    } else {
        for (std::int64_t i = 0; i < tensor.shape[axis]; ++i)
            copy_elements(tensor, source, axis + 1, offset + i * tensor.stride[axis]);
    }
}

// Public since Python 3.13, under another name before.
bool interpreter_ends() {
    using Function = int();
    static Function* const ends = [] {
        void* symbol = dlsym(RTLD_DEFAULT, "Py_IsFinalizing");
        return reinterpret_cast<Function*>(symbol ? symbol : dlsym(RTLD_DEFAULT, "_Py_IsFinalizing"));
    }();
    return ends && ends();
}

} // namespace

UnlockedInterpreter::~UnlockedInterpreter() {
    while (interpreter_ends()) pause();
    PyEval_RestoreThread(state_);
}

Call::Call(int device, std::uintptr_t stream)
    : device_(device), stream_(reinterpret_cast<hipStream_t>(stream)), scope_(device) {}

Call::~Call() {
    for (const Staged& entry : staged_) (void)hipFree(entry.device);
}

TensorDesc Call::stage(const char* name, const TensorDesc& tensor, bool copy_back) {
    if (tensor.device != host_memory) {
        require(
            tensor.device == device_, name, " is on device ", tensor.device, ", but the call is on device ", device_);
        return tensor;
    }
    require(device_ >= first_emulated, name, " is in host memory, but the call is on GPU ", device_);
    for (int i = 0; i < tensor.rank; ++i)
        require(tensor.stride[i] >= 0 || tensor.shape[i] <= 1, name, " has a negative stride along axis ", i);
    TensorDesc result = tensor;
    result.device = device_;
    result.data = nullptr;
    if (const std::int64_t bytes = tensor.span_bytes(); bytes > 0) {
        // An address as aligned as the original, so that kernels choose the loads that they would choose for it.
        const std::size_t shift = reinterpret_cast<std::uintptr_t>(tensor.data) % 16;
        void* memory = nullptr;
        check_hip(hipMalloc(&memory, std::size_t(bytes) + shift), "hipMalloc");
        staged_.push_back({tensor, memory, copy_back});
        result.data = static_cast<char*>(memory) + shift;
        check_hip(
            hipMemcpy(result.data, tensor.data, std::size_t(bytes), hipMemcpyHostToDevice), "hipMemcpy to the device");
    }
    return result;
}
TensorDesc Call::input(const char* name, const TensorDesc& tensor) { return stage(name, tensor, false); }
TensorDesc Call::output(const char* name, const TensorDesc& tensor) {
    require(!tensor.read_only, name, " is read-only");
    return stage(name, tensor, true);
}

void Call::finish() {
    if (device_ < first_emulated) return;
    const hipError_t code = hipDeviceSynchronize();
    if (code != hipSuccess) {
        const std::string text = concat("a kernel faulted on the emulated device: ", hipGetErrorName(code), " (",
            unsigned(code), "); the emulator's message on stderr names the instruction");
        (void)hipGetLastError();
        reset_emulated_device(device_);
        throw HipFailure(code, text);
    }
    for (const Staged& entry : staged_) {
        if (!entry.copy_back) continue;
        const std::size_t bytes = std::size_t(entry.host.span_bytes());
        const std::size_t shift = reinterpret_cast<std::uintptr_t>(entry.host.data) % 16;
        std::vector<char> copy(bytes);
        check_hip(hipMemcpy(copy.data(), static_cast<char*>(entry.device) + shift, bytes, hipMemcpyDeviceToHost),
            "hipMemcpy to the host");
        copy_elements(entry.host, copy.data(), 0, 0);
    }
}

} // namespace waveattn::python
