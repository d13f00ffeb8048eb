// The HIP runtime declarations that waveattn uses.
//
// CMake chooses the flavour: with a ROCm installation the user's <hip/hip_runtime.h>; without one
// (WAVEATTN_BUNDLED_HIP defined) the declarations below, which follow the ABI of HIP 6 and 7 and are compared with the
// real headers by utests/core/test_hip_abi.cpp wherever those are at hand. It is a define and not __has_include,
// because a stray header of an old release would win that test.
#pragma once

#ifndef WAVEATTN_BUNDLED_HIP

#    ifndef __HIP_PLATFORM_AMD__
#        define __HIP_PLATFORM_AMD__ 1
#    endif
#    ifdef __HIP__
#        include <hip/hip_runtime.h>
#    else
#        include <hip/hip_runtime_api.h>
#    endif

#else

#    include <cstddef>
#    include <cstdint>

#    ifdef __HIP__
#        define __global__ __attribute__((global))
#        define __device__ __attribute__((device))
#        define __host__ __attribute__((host))
#        define __shared__ __attribute__((shared))
#        define __constant__ __attribute__((constant))
#        define __forceinline__ inline __attribute__((always_inline))
#        define __launch_bounds__(...)                                                                                 \
            WAVEATTN_LAUNCH_BOUNDS_N(__VA_ARGS__, WAVEATTN_LAUNCH_BOUNDS_2, WAVEATTN_LAUNCH_BOUNDS_1)(__VA_ARGS__)
#        define WAVEATTN_LAUNCH_BOUNDS_N(a, b, name, ...) name
// The second argument is HIP's: waves per execution unit (SIMD), at least.
#        define WAVEATTN_LAUNCH_BOUNDS_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#        define WAVEATTN_LAUNCH_BOUNDS_2(threads, waves)                                                               \
            __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
#    endif

enum hipError_t : unsigned {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorOutOfMemory = 2,
    hipErrorInvalidDeviceFunction = 98,
    hipErrorNoDevice = 100,
    hipErrorInvalidDevice = 101,
    hipErrorNoBinaryForGpu = 209,
    hipErrorIllegalAddress = 700,
    hipErrorLaunchFailure = 719,
    hipErrorNotSupported = 801,
    hipErrorStreamCaptureUnsupported = 900,
};
enum hipMemcpyKind : unsigned {
    hipMemcpyHostToHost = 0,
    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,
    hipMemcpyDeviceToDevice = 3,
    hipMemcpyDefault = 4,
};
enum hipStreamCaptureMode : unsigned {
    hipStreamCaptureModeGlobal = 0,
    hipStreamCaptureModeThreadLocal = 1,
    hipStreamCaptureModeRelaxed = 2,
};
enum hipDeviceAttribute_t : unsigned {
    hipDeviceAttributeMaxSharedMemoryPerBlock = 74,
    hipDeviceAttributeMultiprocessorCount = 63,
    hipDeviceAttributeWarpSize = 87,
};

struct dim3 {
    std::uint32_t x, y, z;
#    ifdef __HIP__
    __host__ __device__
#    endif
        constexpr dim3(std::uint32_t x_ = 1, std::uint32_t y_ = 1, std::uint32_t z_ = 1)
        : x(x_), y(y_), z(z_) {
    }
};

using hipStream_t = struct ihipStream_t*;
using hipEvent_t = struct ihipEvent_t*;
using hipGraph_t = struct ihipGraph*;
using hipGraphExec_t = struct hipGraphExec*;
using hipGraphNode_t = struct hipGraphNode*;

// Layout of HIP 6 and 7 (the "R0600" structure); only the members that waveattn reads have a name.
struct hipDeviceProp_tR0600 {
    char name[256];
    unsigned char reserved0[32];
    std::size_t totalGlobalMem;
    std::size_t sharedMemPerBlock;
    int regsPerBlock;
    int warpSize;
    unsigned char reserved1[76];
    int multiProcessorCount;
    unsigned char reserved2[768];
    char gcnArchName[256];
    unsigned char reserved3[56];
};
#    define hipDeviceProp_t hipDeviceProp_tR0600
#    define hipGetDeviceProperties hipGetDevicePropertiesR0600

extern "C" {
hipError_t hipGetDeviceCount(int* count);
hipError_t hipGetDevice(int* device);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int device);
hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device);
hipError_t hipDeviceSynchronize();
const char* hipGetErrorString(hipError_t error);
const char* hipGetErrorName(hipError_t error);
hipError_t hipGetLastError();
hipError_t hipPeekAtLastError();
hipError_t hipMalloc(void** pointer, std::size_t bytes);
hipError_t hipFree(void* pointer);
hipError_t hipMemcpy(void* target, const void* source, std::size_t bytes, hipMemcpyKind kind);
hipError_t hipMemcpyAsync(void* target, const void* source, std::size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemset(void* target, int value, std::size_t bytes);
hipError_t hipMemsetAsync(void* target, int value, std::size_t bytes, hipStream_t stream);
hipError_t hipStreamCreate(hipStream_t* stream);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph);
hipError_t hipGraphInstantiate(
    hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t* error_node, char* log, std::size_t log_bytes);
hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipGraphExecDestroy(hipGraphExec_t exec);
hipError_t hipGraphDestroy(hipGraph_t graph);
hipError_t hipEventCreate(hipEvent_t* event);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop);
hipError_t hipLaunchKernel(
    const void* function, dim3 grid, dim3 block, void** arguments, std::size_t dynamic_lds, hipStream_t stream);
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, std::size_t dynamic_lds, hipStream_t stream);
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, std::size_t* dynamic_lds, hipStream_t* stream);
}

template <class T> hipError_t hipMalloc(T** pointer, std::size_t bytes) {
    return hipMalloc(reinterpret_cast<void**>(pointer), bytes);
}

#endif

// WAVEATTN_HOST_DEVICE marks functions that both sides may call; empty for a plain C++ compiler.
#ifdef __HIP__
#    define WAVEATTN_HOST_DEVICE __host__ __device__
#else
#    define WAVEATTN_HOST_DEVICE
#endif
