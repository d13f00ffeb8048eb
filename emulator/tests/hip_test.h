// Kernels and checks of hip_test.hip.
#pragma once
#include "hip_test_api.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#define TID (__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x())

__device__ int device_counter = 5;
__constant__ float table[4] = {1, 2, 3, 4};
__managed__ int managed_value = 7;

__global__ void vec_add(const float* a, const float* b, float* c, int n) {
    int i = TID;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void fill(int* p, int v, int n) {
    int i = TID;
    if (i < n) p[i] = v;
}
__global__ void add1(int* p, int n) {
    int i = TID;
    if (i < n) p[i] = p[i] * 2 + 1;
}
__global__ void slow_copy(const int* from, int* to, int n, int spins) {
    int i = TID;
    int x = 0;
    for (int k = 0; k < spins; ++k) {
        x += k;
        asm volatile("" : "+v"(x));
    }
    if (i < n) to[i] = from[i] + (x & 0);
}
__global__ void reverse_block(int* p) {
    extern __shared__ int lds[];
    int t = __builtin_amdgcn_workitem_id_x(), n = __builtin_amdgcn_workgroup_size_x();
    lds[t] = p[t];
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    p[t] = lds[n - 1 - t];
}
__global__ void poke(int* p, long i) { p[i] = 1; }
__global__ void trap() { __builtin_trap(); }
__global__ void use_globals(float* out) {
    out[0] = table[2] * float(device_counter) + float(managed_value);
    device_counter += 1;
    managed_value += 1;
}
struct Three {
    int x, y, z;
};
__global__ void mixed(char a, double b, short c, int* out, Three s) {
    out[0] = a + int(b) + c + s.x * 100 + s.y * 10 + s.z;
}
__global__ __launch_bounds__(64) void bounded(int* p) { p[__builtin_amdgcn_workitem_id_x()] = 1; }
__global__ void dims(int* p) {
    p[0] = __builtin_amdgcn_workgroup_size_x();
    p[1] = __builtin_amdgcn_workgroup_size_y();
    p[2] = __builtin_amdgcn_workgroup_size_z();
    p[3] = __builtin_amdgcn_grid_size_x();
    p[4] = __builtin_amdgcn_wavefrontsize();
}
// Every workgroup waits for all others.
__global__ void grid_barrier(int* count, int* seen, int blocks) {
    if (__builtin_amdgcn_workitem_id_x()) return;
    __hip_atomic_fetch_add(count, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
    while (__hip_atomic_load(count, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) < blocks) __builtin_amdgcn_s_sleep(1);
    seen[__builtin_amdgcn_workgroup_id_x()] = __hip_atomic_load(count, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

static int failures = 0, checks = 0;
#define CHECK(x)                                                                                                       \
    do {                                                                                                               \
        ++checks;                                                                                                      \
        if (!(x)) {                                                                                                    \
            ++failures;                                                                                                \
            std::printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #x);                                                   \
        }                                                                                                              \
    } while (0)
#define OK(x)                                                                                                          \
    do {                                                                                                               \
        ++checks;                                                                                                      \
        hipError_t e_ = (x);                                                                                           \
        if (e_ != hipSuccess) {                                                                                        \
            ++failures;                                                                                                \
            std::printf("FAIL %s:%d: %s -> %s\n", __FILE__, __LINE__, #x, hipGetErrorName(e_));                        \
        }                                                                                                              \
    } while (0)
#define IS(x, want)                                                                                                    \
    do {                                                                                                               \
        ++checks;                                                                                                      \
        hipError_t e_ = (x);                                                                                           \
        if (e_ != (want)) {                                                                                            \
            ++failures;                                                                                                \
            std::printf("FAIL %s:%d: %s -> %s, not %s\n", __FILE__, __LINE__, #x, hipGetErrorName(e_), #want);         \
        }                                                                                                              \
    } while (0)
