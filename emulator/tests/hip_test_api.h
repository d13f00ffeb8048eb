// What a HIP program needs of a HIP header, so that the tests compile with a bare clang (-nogpuinc -nogpulib).
#pragma once
#include "hip/hip_abi.h"

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
#define __managed__ __attribute__((managed))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define HIP_SYMBOL(x) (&(x))
#define hipGetDeviceProperties hipGetDevicePropertiesR0600

template <class T> hipError_t hipMalloc(T** p, size_t n) { return hipMalloc(reinterpret_cast<void**>(p), n); }
template <class T> hipError_t hipMallocManaged(T** p, size_t n) {
    return hipMallocManaged(reinterpret_cast<void**>(p), n, hipMemAttachGlobal);
}
template <class T> hipError_t hipHostMalloc(T** p, size_t n) {
    return hipHostMalloc(reinterpret_cast<void**>(p), n, 0);
}
template <class F> hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* n, F* kernel, int block, size_t lds) {
    return hipOccupancyMaxActiveBlocksPerMultiprocessor(n, reinterpret_cast<const void*>(kernel), block, lds);
}
template <class F>
hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, F* kernel, size_t lds, int limit) {
    return hipOccupancyMaxPotentialBlockSize(grid, block, reinterpret_cast<const void*>(kernel), lds, limit);
}
