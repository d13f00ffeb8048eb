// The HIP functions that the extension's own host code calls: each forwards to the calling thread's runtime. They are
// invisible outside (exports.map), so a process that also holds the real functions keeps them apart.
#include "hip_runtime.h"

#include <cstring>

namespace python = waveattn::python;

// Entry points that are passed on as they are: result, name, parameters, arguments.
#define WAVEATTN_FORWARDED(X)                                                                                          \
    X(hipDeviceSynchronize, (), ())                                                                                    \
    X(hipGetLastError, (), ())                                                                                         \
    X(hipPeekAtLastError, (), ())                                                                                      \
    X(hipMalloc, (void** pointer, std::size_t bytes), (pointer, bytes))                                                \
    X(hipFree, (void* pointer), (pointer))                                                                             \
    X(hipMemcpy, (void* target, const void* source, std::size_t bytes, hipMemcpyKind kind),                            \
        (target, source, bytes, kind))                                                                                 \
    X(hipMemcpyAsync, (void* target, const void* source, std::size_t bytes, hipMemcpyKind kind, hipStream_t stream),   \
        (target, source, bytes, kind, stream))                                                                         \
    X(hipMemset, (void* target, int value, std::size_t bytes), (target, value, bytes))                                 \
    X(hipMemsetAsync, (void* target, int value, std::size_t bytes, hipStream_t stream),                                \
        (target, value, bytes, stream))                                                                                \
    X(hipStreamCreate, (hipStream_t * stream), (stream))                                                               \
    X(hipStreamDestroy, (hipStream_t stream), (stream))                                                                \
    X(hipStreamSynchronize, (hipStream_t stream), (stream))                                                            \
    X(hipLaunchKernel,                                                                                                 \
        (const void* function, dim3 grid, dim3 block, void** arguments, std::size_t lds, hipStream_t stream),          \
        (function, grid, block, arguments, lds, stream))

// Those that take or give a device ordinal or a text are written out below. Slots number both.
enum Slot {
#define WAVEATTN_SLOT(name, parameters, arguments) slot_##name,
    WAVEATTN_FORWARDED(WAVEATTN_SLOT)
#undef WAVEATTN_SLOT
        slot_hipGetDeviceCount,
    slot_hipGetDevice,
    slot_hipSetDevice,
    slot_hipGetDevicePropertiesR0600,
    slot_hipDeviceGetAttribute,
    slot_hipGetErrorString,
    slot_hipGetErrorName,
};
const char* const python::entry_point_names[] = {
#define WAVEATTN_NAME(name, parameters, arguments) #name,
    WAVEATTN_FORWARDED(WAVEATTN_NAME)
#undef WAVEATTN_NAME
        "hipGetDeviceCount",
    "hipGetDevice",
    "hipSetDevice",
    "hipGetDevicePropertiesR0600",
    "hipDeviceGetAttribute",
    "hipGetErrorString",
    "hipGetErrorName",
    nullptr,
};

namespace {

template <class Function> Function* entry(int slot) { return reinterpret_cast<Function*>(python::entry_point(slot)); }

// The runtime's own ordinal of a device, after making that runtime the thread's.
int select(int ordinal) {
    const bool emulated = ordinal >= python::first_emulated;
    python::select_runtime(emulated);
    return emulated ? ordinal - python::first_emulated : ordinal;
}
// Runs `call` with the runtime of that device, then goes back to the thread's.
template <class Call> hipError_t with_runtime_of(int ordinal, Call&& call) {
    const bool before = python::thread_is_emulated();
    const hipError_t code = call(select(ordinal));
    python::select_runtime(before);
    return code;
}

struct Configuration {
    dim3 grid, block;
    std::size_t lds;
    hipStream_t stream;
};
thread_local Configuration pushed;

} // namespace

extern "C" {

#define WAVEATTN_DEFINE(name, parameters, arguments)                                                                   \
    hipError_t name parameters {                                                                                       \
        using Function = hipError_t parameters;                                                                        \
        auto* forward = entry<Function>(slot_##name);                                                                  \
        return forward ? forward arguments : hipErrorNoDevice;                                                         \
    }
WAVEATTN_FORWARDED(WAVEATTN_DEFINE)

hipError_t hipGetDeviceCount(int* count) {
    *count = 0;
    auto* function = entry<hipError_t(int*)>(slot_hipGetDeviceCount);
    return function ? function(count) : hipErrorNoDevice;
}
hipError_t hipGetDevice(int* device) {
    auto* function = entry<hipError_t(int*)>(slot_hipGetDevice);
    if (!function) return hipErrorNoDevice;
    const hipError_t code = function(device);
    if (code == hipSuccess && python::thread_is_emulated()) *device += python::first_emulated;
    return code;
}
hipError_t hipSetDevice(int device) {
    const int own = select(device);
    auto* function = entry<hipError_t(int)>(slot_hipSetDevice);
    return function ? function(own) : hipErrorNoDevice;
}
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int device) {
    return with_runtime_of(device, [&](int own) {
        auto* function = entry<hipError_t(hipDeviceProp_tR0600*, int)>(slot_hipGetDevicePropertiesR0600);
        return function ? function(properties, own) : hipErrorNoDevice;
    });
}
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
    return with_runtime_of(device, [&](int own) {
        auto* function = entry<hipError_t(int*, hipDeviceAttribute_t, int)>(slot_hipDeviceGetAttribute);
        return function ? function(value, attribute, own) : hipErrorNoDevice;
    });
}
const char* hipGetErrorString(hipError_t error) {
    auto* function = entry<const char*(hipError_t)>(slot_hipGetErrorString);
    return function ? function(error) : "no HIP runtime is loaded";
}
const char* hipGetErrorName(hipError_t error) {
    auto* function = entry<const char*(hipError_t)>(slot_hipGetErrorName);
    return function ? function(error) : "hipErrorNoDevice";
}

// ---- what the compiler's own code calls ----

hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, std::size_t lds, hipStream_t stream) {
    pushed = {grid, block, lds, stream};
    return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, std::size_t* lds, hipStream_t* stream) {
    *grid = pushed.grid, *block = pushed.block, *lds = pushed.lds, *stream = pushed.stream;
    return hipSuccess;
}

void** __hipRegisterFatBinary(const void* wrapper) {
    return reinterpret_cast<void**>(python::record_fat_binary(wrapper));
}
void __hipRegisterFunction(void** handle, const void* host, char* device, const char* name, unsigned thread_limit,
    void*, void*, void*, void*, int*) {
    reinterpret_cast<python::FatBinary*>(handle)->functions.push_back({host, device, name, thread_limit});
}
void __hipRegisterVar(
    void** handle, void* host, char* device, char* name, int external, std::size_t bytes, int constant, int global) {
    reinterpret_cast<python::FatBinary*>(handle)->variables.push_back(
        {host, device, name, external, bytes, constant, global});
}
// At exit the runtimes, which were loaded later, may be gone already; the process ends anyway.
void __hipUnregisterFatBinary(void**) {}
}
