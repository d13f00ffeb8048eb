// Facts of the HIP ABI as the declarations in scope give them: sizes, offsets, values, and the shapes of functions. Two
// translation units include this file, one with the bundled declarations and one with real headers.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <type_traits>

namespace hip_abi {

using Facts = std::map<std::string, std::string>;
Facts bundled_facts();
Facts real_facts();

// How a value of type T is passed: what the calling convention sees.
template <class T> std::string passed_as() {
    if constexpr (std::is_void_v<T>)
        return "void";
    else if constexpr (std::is_pointer_v<T>)
        return "pointer";
    else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>)
        return "integer" + std::to_string(sizeof(T));
    else if constexpr (std::is_floating_point_v<T>)
        return "float" + std::to_string(sizeof(T));
    else
        return std::string(std::is_trivially_copyable_v<T> ? "struct" : "object") + std::to_string(sizeof(T));
}
template <class Return, class... Argument> std::string shape_of(Return (*)(Argument...)) {
    std::string text = passed_as<Return>() + "(";
    ((text += passed_as<Argument>() + " "), ...);
    return text + ")";
}

} // namespace hip_abi

#define HIP_ABI_VALUE(name) facts["value " #name] = std::to_string((long long)(name));
#define HIP_ABI_SIZE(type) facts["size " #type] = std::to_string(sizeof(type));
#define HIP_ABI_OFFSET(member)                                                                                         \
    facts["offset " #member] = std::to_string(offsetof(hipDeviceProp_t, member)) + " size " +                          \
                               std::to_string(sizeof(hipDeviceProp_t::member));
#define HIP_ABI_FUNCTION(name, ...)                                                                                    \
    facts["function " #name] = hip_abi::shape_of(static_cast<hipError_t (*)(__VA_ARGS__)>(name));

#define HIP_ABI_FACTS                                                                                                  \
    HIP_ABI_VALUE(hipSuccess)                                                                                          \
    HIP_ABI_VALUE(hipErrorInvalidValue)                                                                                \
    HIP_ABI_VALUE(hipErrorOutOfMemory)                                                                                 \
    HIP_ABI_VALUE(hipErrorInvalidDeviceFunction)                                                                       \
    HIP_ABI_VALUE(hipErrorNoDevice)                                                                                    \
    HIP_ABI_VALUE(hipErrorInvalidDevice)                                                                               \
    HIP_ABI_VALUE(hipErrorNoBinaryForGpu)                                                                              \
    HIP_ABI_VALUE(hipErrorIllegalAddress)                                                                              \
    HIP_ABI_VALUE(hipErrorLaunchFailure)                                                                               \
    HIP_ABI_VALUE(hipErrorNotSupported)                                                                                \
    HIP_ABI_VALUE(hipErrorStreamCaptureUnsupported)                                                                    \
    HIP_ABI_VALUE(hipMemcpyHostToHost)                                                                                 \
    HIP_ABI_VALUE(hipMemcpyHostToDevice)                                                                               \
    HIP_ABI_VALUE(hipMemcpyDeviceToHost)                                                                               \
    HIP_ABI_VALUE(hipMemcpyDeviceToDevice)                                                                             \
    HIP_ABI_VALUE(hipMemcpyDefault)                                                                                    \
    HIP_ABI_VALUE(hipStreamCaptureModeGlobal)                                                                          \
    HIP_ABI_VALUE(hipStreamCaptureModeThreadLocal)                                                                     \
    HIP_ABI_VALUE(hipStreamCaptureModeRelaxed)                                                                         \
    HIP_ABI_VALUE(hipDeviceAttributeMaxSharedMemoryPerBlock)                                                           \
    HIP_ABI_VALUE(hipDeviceAttributeMultiprocessorCount)                                                               \
    HIP_ABI_VALUE(hipDeviceAttributeWarpSize)                                                                          \
    HIP_ABI_SIZE(hipError_t)                                                                                           \
    HIP_ABI_SIZE(hipMemcpyKind)                                                                                        \
    HIP_ABI_SIZE(hipStreamCaptureMode)                                                                                 \
    HIP_ABI_SIZE(hipDeviceAttribute_t)                                                                                 \
    HIP_ABI_SIZE(dim3)                                                                                                 \
    HIP_ABI_SIZE(hipStream_t)                                                                                          \
    HIP_ABI_SIZE(hipDeviceProp_t)                                                                                      \
    HIP_ABI_OFFSET(name)                                                                                               \
    HIP_ABI_OFFSET(totalGlobalMem)                                                                                     \
    HIP_ABI_OFFSET(sharedMemPerBlock)                                                                                  \
    HIP_ABI_OFFSET(regsPerBlock)                                                                                       \
    HIP_ABI_OFFSET(warpSize)                                                                                           \
    HIP_ABI_OFFSET(multiProcessorCount)                                                                                \
    HIP_ABI_OFFSET(gcnArchName)                                                                                        \
    HIP_ABI_FUNCTION(hipGetDeviceCount, int*)                                                                          \
    HIP_ABI_FUNCTION(hipGetDevice, int*)                                                                               \
    HIP_ABI_FUNCTION(hipSetDevice, int)                                                                                \
    HIP_ABI_FUNCTION(hipGetDeviceProperties, hipDeviceProp_t*, int)                                                    \
    HIP_ABI_FUNCTION(hipDeviceGetAttribute, int*, hipDeviceAttribute_t, int)                                           \
    HIP_ABI_FUNCTION(hipDeviceSynchronize, )                                                                           \
    HIP_ABI_FUNCTION(hipGetLastError, )                                                                                \
    HIP_ABI_FUNCTION(hipPeekAtLastError, )                                                                             \
    HIP_ABI_FUNCTION(hipMalloc, void**, std::size_t)                                                                   \
    HIP_ABI_FUNCTION(hipFree, void*)                                                                                   \
    HIP_ABI_FUNCTION(hipMemcpy, void*, const void*, std::size_t, hipMemcpyKind)                                        \
    HIP_ABI_FUNCTION(hipMemcpyAsync, void*, const void*, std::size_t, hipMemcpyKind, hipStream_t)                      \
    HIP_ABI_FUNCTION(hipMemset, void*, int, std::size_t)                                                               \
    HIP_ABI_FUNCTION(hipMemsetAsync, void*, int, std::size_t, hipStream_t)                                             \
    HIP_ABI_FUNCTION(hipStreamCreate, hipStream_t*)                                                                    \
    HIP_ABI_FUNCTION(hipStreamDestroy, hipStream_t)                                                                    \
    HIP_ABI_FUNCTION(hipStreamSynchronize, hipStream_t)                                                                \
    HIP_ABI_FUNCTION(hipStreamBeginCapture, hipStream_t, hipStreamCaptureMode)                                         \
    HIP_ABI_FUNCTION(hipStreamEndCapture, hipStream_t, hipGraph_t*)                                                    \
    HIP_ABI_FUNCTION(hipGraphInstantiate, hipGraphExec_t*, hipGraph_t, hipGraphNode_t*, char*, std::size_t)            \
    HIP_ABI_FUNCTION(hipGraphLaunch, hipGraphExec_t, hipStream_t)                                                      \
    HIP_ABI_FUNCTION(hipGraphExecDestroy, hipGraphExec_t)                                                              \
    HIP_ABI_FUNCTION(hipGraphDestroy, hipGraph_t)                                                                      \
    HIP_ABI_FUNCTION(hipEventCreate, hipEvent_t*)                                                                      \
    HIP_ABI_FUNCTION(hipEventDestroy, hipEvent_t)                                                                      \
    HIP_ABI_FUNCTION(hipEventRecord, hipEvent_t, hipStream_t)                                                          \
    HIP_ABI_FUNCTION(hipEventSynchronize, hipEvent_t)                                                                  \
    HIP_ABI_FUNCTION(hipEventElapsedTime, float*, hipEvent_t, hipEvent_t)                                              \
    HIP_ABI_FUNCTION(hipLaunchKernel, const void*, dim3, dim3, void**, std::size_t, hipStream_t)
