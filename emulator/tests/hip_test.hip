// Exercises the HIP runtime on every device that GFXEMU_DEVICES lists.
#include "hip_test_api.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

static void test_properties(int id) {
    hipDeviceProp_t p;
    OK(hipGetDeviceProperties(&p, id));
    int v = 0;
    OK(hipDeviceGetAttribute(&v, hipDeviceAttributeWarpSize, id));
    CHECK(v == p.warpSize && (v == 32 || v == 64));
    OK(hipDeviceGetAttribute(&v, hipDeviceAttributeMultiprocessorCount, id));
    CHECK(v == p.multiProcessorCount && v > 0);
    OK(hipDeviceGetAttribute(&v, hipDeviceAttributeMaxSharedMemoryPerBlock, id));
    CHECK(size_t(v) == p.sharedMemPerBlock);
    std::string arch = p.gcnArchName;
    CHECK(arch.rfind("gfx9", 0) == 0 ? p.warpSize == 64 && p.major == 9 : p.warpSize == 32);
    CHECK(p.sharedMemPerBlock == (arch.rfind("gfx950", 0) == 0 ? 163840u : 65536u));
    IS(hipGetDeviceProperties(&p, 99), hipErrorInvalidDevice);
    (void)hipGetLastError();
    char name[64], bus[32];
    OK(hipDeviceGetName(name, sizeof name, id));
    OK(hipDeviceGetPCIBusId(bus, sizeof bus, id));
    int found = -1;
    OK(hipDeviceGetByPCIBusId(&found, bus));
    CHECK(found == id);
    size_t total, free_, total2;
    OK(hipDeviceTotalMem(&total, id));
    OK(hipMemGetInfo(&free_, &total2));
    CHECK(total == total2 && free_ <= total);
    int version;
    OK(hipRuntimeGetVersion(&version));
    CHECK(version == 70125424);
    std::printf("device %d: %s, %s, %d units, warp %d\n", id, name, p.gcnArchName, p.multiProcessorCount, p.warpSize);
}

static void test_memory() {
    const int n = 1000;
    std::vector<int> h(n), back(n);
    for (int i = 0; i < n; ++i) h[i] = i * 3;
    int *d, *d2;
    OK(hipMalloc(&d, n * 4));
    OK(hipMalloc(&d2, n * 4));
    OK(hipMemcpy(back.data(), d, 16, hipMemcpyDeviceToHost));
    CHECK(back[0] == int(0xA5A5A5A5));
    OK(hipMemcpy(d, h.data(), n * 4, hipMemcpyHostToDevice));
    OK(hipMemcpy(d2, d, n * 4, hipMemcpyDeviceToDevice));
    OK(hipMemcpy(back.data(), d2, n * 4, hipMemcpyDefault));
    CHECK(h == back);
    IS(hipMemcpy(d, h.data(), n * 4 + 4, hipMemcpyHostToDevice), hipErrorInvalidValue);
    IS(hipMemcpy(back.data(), d + 1, n * 4, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    IS(hipMemcpy(h.data(), back.data(), 4, hipMemcpyHostToDevice), hipErrorInvalidValue);
    IS(hipMemcpy(h.data(), back.data(), 4, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    OK(hipMemcpy(h.data(), back.data(), 4, hipMemcpyHostToHost));
    IS(hipMemcpy(nullptr, d, 4, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    IS(hipMemset(h.data(), 0, 4), hipErrorInvalidValue);
    IS(hipGetLastError(), hipErrorInvalidValue);
    IS(hipGetLastError(), hipSuccess);
    OK(hipMemset(d, 0x11, n * 4));
    OK(hipMemsetD32(d + 4, 0x01020304, 4));
    OK(hipMemsetD16(d + 8, 0x0506, 4));
    OK(hipMemcpy(back.data(), d, 64, hipMemcpyDeviceToHost));
    CHECK(back[0] == 0x11111111 && back[4] == 0x01020304 && back[7] == 0x01020304 && back[8] == 0x05060506 &&
          back[10] == 0x11111111);
    hipPointerAttribute_t a;
    OK(hipPointerGetAttributes(&a, d + 3));
    CHECK(a.type == hipMemoryTypeDevice && a.devicePointer == d + 3 && a.hostPointer == nullptr);
    OK(hipPointerGetAttributes(&a, h.data()));
    CHECK(a.type == hipMemoryTypeUnregistered);
    hipDeviceptr_t base;
    size_t size;
    OK(hipMemGetAddressRange(&base, &size, d + 5));
    CHECK(base == d && size == n * 4);
    // 2D
    void* pitched;
    size_t pitch;
    OK(hipMallocPitch(&pitched, &pitch, 40, 10));
    CHECK(pitch >= 40 && pitch % 256 == 0);
    for (int i = 0; i < n; ++i) h[i] = i;
    OK(hipMemcpy2D(pitched, pitch, h.data(), 40, 40, 10, hipMemcpyHostToDevice));
    std::fill(back.begin(), back.end(), 0);
    OK(hipMemcpy2D(back.data(), 40, pitched, pitch, 40, 10, hipMemcpyDeviceToHost));
    CHECK(std::equal(h.begin(), h.begin() + 100, back.begin()));
    IS(hipMemcpy2D(pitched, 32, h.data(), 40, 40, 10, hipMemcpyHostToDevice), hipErrorInvalidPitchValue);
    OK(hipFree(pitched));
    // host memory
    int* pinned;
    OK(hipHostMalloc(&pinned, 4096));
    OK(hipPointerGetAttributes(&a, pinned));
    CHECK(a.type == hipMemoryTypeHost);
    void* mapped;
    OK(hipHostGetDevicePointer(&mapped, pinned, 0));
    fill<<<4, 64>>>(static_cast<int*>(mapped), 9, 256);
    OK(hipDeviceSynchronize());
    CHECK(pinned[0] == 9 && pinned[255] == 9);
    OK(hipHostFree(pinned));
    std::vector<int> plain(256);
    OK(hipHostRegister(plain.data(), 1024, 0));
    fill<<<4, 64>>>(plain.data(), 8, 256);
    OK(hipDeviceSynchronize());
    CHECK(plain[0] == 8 && plain[255] == 8);
    OK(hipHostUnregister(plain.data()));
    int* managed;
    OK(hipMallocManaged(&managed, 1024));
    managed[0] = 1;
    fill<<<4, 64>>>(managed, 4, 256);
    OK(hipDeviceSynchronize());
    CHECK(managed[0] == 4);
    OK(hipFree(managed));
    // sizes
    size_t free0, free1, total;
    void* big;
    OK(hipMemGetInfo(&free0, &total));
    OK(hipMalloc(&big, size_t(2) << 30));
    OK(hipMemGetInfo(&free1, &total));
    CHECK(free0 - free1 == size_t(2) << 30);
    unsigned last;
    OK(hipMemcpy(&last, static_cast<char*>(big) + (size_t(2) << 30) - 4, 4, hipMemcpyDeviceToHost));
    CHECK(last == 0xA5A5A5A5u);
    OK(hipFree(big));
    IS(hipMalloc(&big, total + 1), hipErrorOutOfMemory);
    OK(hipMalloc(&big, 0));
    CHECK(big == nullptr);
    OK(hipFree(nullptr));
    IS(hipFree(h.data()), hipErrorInvalidValue);
    IS(hipFree(d + 1), hipErrorInvalidValue);
    OK(hipFree(d2));
    IS(hipFree(d2), hipErrorInvalidValue);
    IS(hipMemcpy(back.data(), d2, 4, hipMemcpyDefault), hipErrorInvalidValue);
    OK(hipFree(d));
    // stream-ordered
    hipStream_t s;
    OK(hipStreamCreate(&s));
    OK(hipMallocAsync(reinterpret_cast<void**>(&d), 1024, s));
    fill<<<4, 64, 0, s>>>(d, 3, 256);
    OK(hipMemcpyAsync(back.data(), d, 1024, hipMemcpyDeviceToHost, s));
    OK(hipFreeAsync(d, s));
    OK(hipStreamSynchronize(s));
    CHECK(back[0] == 3 && back[255] == 3);
    IS(hipMemcpy(back.data(), d, 4, hipMemcpyDeviceToHost), hipErrorInvalidValue);
    OK(hipStreamDestroy(s));
    (void)hipGetLastError();
}

static void test_launch(int id) {
    const int n = 1000;
    std::vector<float> a(n), b(n), c(n);
    for (int i = 0; i < n; ++i) {
        a[i] = float(i);
        b[i] = float(2 * i);
    }
    float *da, *db, *dc;
    OK(hipMalloc(&da, n * 4));
    OK(hipMalloc(&db, n * 4));
    OK(hipMalloc(&dc, n * 4));
    OK(hipMemcpy(da, a.data(), n * 4, hipMemcpyHostToDevice));
    OK(hipMemcpy(db, b.data(), n * 4, hipMemcpyHostToDevice));
    vec_add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
    OK(hipGetLastError());
    OK(hipMemcpy(c.data(), dc, n * 4, hipMemcpyDeviceToHost));
    bool good = true;
    for (int i = 0; i < n; ++i) good &= c[i] == 3.0f * float(i);
    CHECK(good);
    // dynamic LDS, mixed arguments, dimensions
    int* p = reinterpret_cast<int*>(dc);
    std::vector<int> v(128);
    for (int i = 0; i < 128; ++i) v[i] = i;
    OK(hipMemcpy(p, v.data(), 512, hipMemcpyHostToDevice));
    reverse_block<<<1, 128, 512>>>(p);
    OK(hipMemcpy(v.data(), p, 512, hipMemcpyDeviceToHost));
    CHECK(v[0] == 127 && v[127] == 0);
    mixed<<<1, 1>>>('\1', 2.5, short(3), p, Three{4, 5, 6});
    OK(hipMemcpy(v.data(), p, 4, hipMemcpyDeviceToHost));
    CHECK(v[0] == 1 + 2 + 3 + 456);
    dims<<<dim3(3, 1, 1), dim3(8, 4, 2)>>>(p);
    OK(hipMemcpy(v.data(), p, 20, hipMemcpyDeviceToHost));
    hipDeviceProp_t prop;
    OK(hipGetDeviceProperties(&prop, id));
    CHECK(v[0] == 8 && v[1] == 4 && v[2] == 2 && v[3] == 24 && v[4] == prop.warpSize);
    // globals
    int* where = nullptr;
    size_t size = 0;
    OK(hipGetSymbolAddress(reinterpret_cast<void**>(&where), HIP_SYMBOL(device_counter)));
    OK(hipGetSymbolSize(&size, HIP_SYMBOL(table)));
    CHECK(size == 16);
    int ten = 10, got = 0, managed_before = managed_value;
    OK(hipMemcpyToSymbol(HIP_SYMBOL(device_counter), &ten, 4, 0, hipMemcpyHostToDevice));
    float row[4] = {0, 0, 2.5f, 0}, out = 0;
    OK(hipMemcpyToSymbol(HIP_SYMBOL(table), row, 16, 0, hipMemcpyHostToDevice));
    use_globals<<<1, 1>>>(da);
    OK(hipMemcpy(&out, da, 4, hipMemcpyDeviceToHost));
    CHECK(out == 2.5f * 10 + float(managed_before));
    OK(hipMemcpyFromSymbol(&got, HIP_SYMBOL(device_counter), 4, 0, hipMemcpyDeviceToHost));
    CHECK(got == 11);
    OK(hipMemcpy(&got, where, 4, hipMemcpyDeviceToHost));
    CHECK(got == 11);
    CHECK(managed_value == managed_before + 1);
    OK(hipMemcpyToSymbol(HIP_SYMBOL(managed_value), &ten, 4, 0, hipMemcpyHostToDevice));
    CHECK(managed_value == 10);
    IS(hipMemcpyToSymbol(HIP_SYMBOL(device_counter), &ten, 8, 0, hipMemcpyHostToDevice), hipErrorInvalidValue);
    IS(hipGetSymbolAddress(reinterpret_cast<void**>(&where), &ten), hipErrorInvalidSymbol);
    (void)hipGetLastError();
    // limits
    bounded<<<1, 128>>>(p);
    IS(hipGetLastError(), hipErrorLaunchFailure);
    bounded<<<1, 2048>>>(p);
    IS(hipGetLastError(), hipErrorInvalidConfiguration);
    bounded<<<0, 64>>>(p);
    IS(hipGetLastError(), hipErrorInvalidConfiguration);
    reverse_block<<<1, 64, 200 * 1024>>>(p);
    IS(hipGetLastError(), hipErrorInvalidValue);
    OK(hipDeviceSynchronize());
    hipFuncAttributes fa;
    OK(hipFuncGetAttributes(&fa, reinterpret_cast<const void*>(bounded)));
    CHECK(fa.maxThreadsPerBlock == 64 && fa.numRegs > 0 && fa.sharedSizeBytes == 0);
    OK(hipFuncSetAttribute(
        reinterpret_cast<const void*>(reverse_block), hipFuncAttributeMaxDynamicSharedMemorySize, 65536));
    IS(hipFuncSetAttribute(
           reinterpret_cast<const void*>(reverse_block), hipFuncAttributeMaxDynamicSharedMemorySize, 1 << 20),
        hipErrorInvalidValue);
    (void)hipGetLastError();
    int blocks = 0, grid = 0, block = 0;
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, vec_add, 256, 0));
    CHECK(blocks >= 8);
    OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse_block, 256, 40000));
    CHECK(blocks >= 1 && blocks <= 4);
    OK(hipOccupancyMaxPotentialBlockSize(&grid, &block, vec_add, 0, 0));
    CHECK(grid > 0 && block >= prop.warpSize && block <= 1024);
    hipFunction_t f;
    OK(hipGetFuncBySymbol(&f, reinterpret_cast<const void*>(vec_add)));
    CHECK(std::strstr(hipKernelNameRef(f), "vec_add"));
    void* args[] = {&da, &db, &dc, const_cast<int*>(&n)};
    OK(hipModuleLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, nullptr, args, nullptr));
    OK(hipLaunchCooperativeKernel(reinterpret_cast<const void*>(vec_add), dim3(4), dim3(256), args, 0, nullptr));
    IS(hipLaunchCooperativeKernel(reinterpret_cast<const void*>(vec_add), dim3(1 << 20), dim3(256), args, 0, nullptr),
        hipErrorCooperativeLaunchTooLarge);
    int *count = p, *seen = p + 1, eight = 8;
    void* barrier_args[] = {&count, &seen, &eight};
    OK(hipMemset(p, 0, 64));
    OK(hipLaunchCooperativeKernel(
        reinterpret_cast<const void*>(grid_barrier), dim3(8), dim3(64), barrier_args, 0, nullptr));
    OK(hipMemcpy(v.data(), p, 64, hipMemcpyDeviceToHost));
    for (int i = 0; i <= 8; ++i) CHECK(v[i] == 8);
    hipEvent_t start, stop;
    OK(hipEventCreate(&start));
    OK(hipEventCreate(&stop));
    OK(hipExtLaunchKernel(
        reinterpret_cast<const void*>(vec_add), dim3(4), dim3(256), args, 0, nullptr, start, stop, 0));
    OK(hipExtModuleLaunchKernel(f, 1024, 1, 1, 256, 1, 1, 0, nullptr, args, nullptr, start, stop, 0));
    OK(hipEventSynchronize(stop));
    float ms = -1;
    OK(hipEventElapsedTime(&ms, start, stop));
    CHECK(ms >= 0);
    OK(hipEventDestroy(start));
    OK(hipEventDestroy(stop));
    hipLaunchConfig_t config{};
    config.gridDim = dim3(4);
    config.blockDim = dim3(256);
    OK(hipLaunchKernelExC(&config, reinterpret_cast<const void*>(vec_add), args));
    OK(hipDeviceSynchronize());
    (void)hipGetLastError();
    OK(hipFree(da));
    OK(hipFree(db));
    OK(hipFree(dc));
}

static void test_streams() {
    const int n = 256;
    int *d, *e;
    std::vector<int> h(n);
    OK(hipMalloc(&d, n * 4));
    OK(hipMalloc(&e, n * 4));
    hipStream_t s, t, nb;
    OK(hipStreamCreate(&s));
    OK(hipStreamCreate(&t));
    OK(hipStreamCreateWithFlags(&nb, hipStreamNonBlocking));
    // order within a stream
    fill<<<1, n, 0, s>>>(d, 1, n);
    for (int i = 0; i < 5; ++i) add1<<<1, n, 0, s>>>(d, n);
    OK(hipStreamSynchronize(s));
    OK(hipMemcpy(h.data(), d, n * 4, hipMemcpyDeviceToHost));
    CHECK(h[0] == 63 && h[n - 1] == 63);
    // across streams by an event
    hipEvent_t ev, ev2;
    OK(hipEventCreate(&ev));
    OK(hipEventCreateWithFlags(&ev2, hipEventDisableTiming));
    slow_copy<<<1, n, 0, s>>>(d, e, n, 20000);
    OK(hipEventRecord(ev, s));
    IS(hipEventQuery(ev2), hipSuccess);
    OK(hipStreamWaitEvent(nb, ev, 0));
    add1<<<1, n, 0, nb>>>(e, n);
    OK(hipEventRecord(ev2, nb));
    OK(hipEventSynchronize(ev2));
    OK(hipMemcpyAsync(h.data(), e, n * 4, hipMemcpyDeviceToHost, nb));
    CHECK(h[0] == 127);
    float ms;
    IS(hipEventElapsedTime(&ms, ev, ev2), hipErrorInvalidHandle);
    // the null stream waits for blocking streams, and they for it
    OK(hipMemset(e, 0, n * 4));
    slow_copy<<<1, n, 0, s>>>(d, e, n, 20000);
    add1<<<1, n>>>(e, n);
    add1<<<1, n, 0, t>>>(e, n);
    OK(hipStreamSynchronize(t));
    OK(hipMemcpy(h.data(), e, n * 4, hipMemcpyDeviceToHost));
    CHECK(h[5] == 255);
    // callbacks and host functions keep their place
    static std::atomic<int> step{0};
    step = 0;
    slow_copy<<<1, n, 0, s>>>(d, e, n, 2000);
    OK(hipStreamAddCallback(
        s,
        [](hipStream_t, hipError_t status, void* p) {
            if (status == hipSuccess) static_cast<std::atomic<int>*>(p)->fetch_add(1);
        },
        &step, 0));
    OK(hipLaunchHostFunc(s, [](void* p) { static_cast<std::atomic<int>*>(p)->fetch_add(10); }, &step));
    OK(hipStreamSynchronize(s));
    CHECK(step == 11);
    // per-thread stream
    fill<<<1, n, 0, hipStreamPerThread>>>(d, 5, n);
    OK(hipStreamSynchronize(hipStreamPerThread));
    while (hipStreamQuery(s) == hipErrorNotReady) std::this_thread::yield();
    OK(hipStreamQuery(s));
    // values in memory (with GFXEMU_SYNC the wait would never end)
    bool sync = std::getenv("GFXEMU_SYNC") != nullptr;
    unsigned* flag;
    OK(hipHostMalloc(&flag, 8));
    *flag = 0;
    if (!sync) OK(hipStreamWaitValue32(s, flag, 3, hipStreamWaitValueEq, 0xffffffff));
    fill<<<1, n, 0, s>>>(d, 6, n);
    OK(hipStreamWriteValue32(nb, flag, 3, 0));
    OK(hipStreamSynchronize(nb));
    OK(hipStreamSynchronize(s));
    OK(hipHostFree(flag));
    // a stream destroyed with work pending
    fill<<<1, n, 0, t>>>(d, 77, n);
    OK(hipStreamDestroy(t));
    OK(hipDeviceSynchronize());
    OK(hipMemcpy(h.data(), d, n * 4, hipMemcpyDeviceToHost));
    CHECK(h[9] == 77);
    IS(hipStreamSynchronize(t), hipErrorInvalidHandle);
    (void)hipGetLastError();
    OK(hipStreamDestroy(s));
    OK(hipStreamDestroy(nb));
    OK(hipEventDestroy(ev));
    OK(hipEventDestroy(ev2));
    OK(hipFree(d));
    OK(hipFree(e));
}

// With GFXEMU_LAZY nothing runs before it is waited for, and only what the wait needs.
static void test_lazy() {
    const int n = 64, poison = int(0xA5A5A5A5);
    int *d, *pinned, got[64];
    OK(hipMalloc(&d, n * 4));
    OK(hipHostMalloc(&pinned, n * 4));
    hipStream_t s, t;
    OK(hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
    OK(hipStreamCreateWithFlags(&t, hipStreamNonBlocking));
    fill<<<1, n, 0, s>>>(pinned, 1, n);
    fill<<<1, n, 0, s>>>(d, 2, n);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(pinned[0] == poison); // no synchronisation
    OK(hipMemcpyAsync(got, d, n * 4, hipMemcpyDeviceToHost, t));
    CHECK(got[0] == poison); // the wrong stream
    OK(hipStreamSynchronize(s));
    CHECK(pinned[0] == 1);
    OK(hipMemcpyAsync(got, d, n * 4, hipMemcpyDeviceToHost, t));
    CHECK(got[0] == 2);
    OK(hipStreamDestroy(s));
    OK(hipStreamDestroy(t));
    OK(hipFree(d));
    OK(hipHostFree(pinned));
}

// Host threads with a stream each, beside launches on the null stream.
static void test_threads(int id) {
    std::vector<std::thread> threads;
    std::atomic<int> bad{0};
    for (int k = 0; k < 4; ++k)
        threads.emplace_back([&, k] {
            const int n = 100;
            int *d, *e;
            std::vector<int> h(n);
            bad += hipSetDevice(id) != hipSuccess;
            hipStream_t s = nullptr;
            if (k == 1)
                s = hipStreamPerThread;
            else if (k > 1)
                bad += hipStreamCreateWithFlags(&s, k == 2 ? hipStreamDefault : hipStreamNonBlocking) != hipSuccess;
            hipEvent_t ev;
            bad += hipEventCreate(&ev) != hipSuccess;
            for (int i = 0; i < 20; ++i) {
                bad += hipMalloc(&d, n * 4) != hipSuccess ||
                       hipMallocAsync(reinterpret_cast<void**>(&e), n * 4, s) != hipSuccess;
                fill<<<2, 64, 0, s>>>(d, k * 100 + i, n);
                add1<<<2, 64, 0, s>>>(d, n);
                slow_copy<<<2, 64, 0, s>>>(d, e, n, 10);
                bad += hipEventRecord(ev, s) != hipSuccess || hipStreamWaitEvent(s, ev, 0) != hipSuccess;
                bad += hipMemcpyAsync(h.data(), e, n * 4, hipMemcpyDeviceToHost, s) != hipSuccess;
                bad += hipFreeAsync(e, s) != hipSuccess || hipStreamSynchronize(s) != hipSuccess;
                for (int x : h) bad += x != (k * 100 + i) * 2 + 1;
                bad += hipFree(d) != hipSuccess;
            }
            bad += hipEventDestroy(ev) != hipSuccess;
            if (k > 1) bad += hipStreamDestroy(s) != hipSuccess;
        });
    for (auto& t : threads) t.join();
    CHECK(bad == 0);
    OK(hipDeviceSynchronize());
}

static void test_graph() {
    const int n = 64;
    int* d;
    std::vector<int> h(n);
    OK(hipMalloc(&d, n * 4));
    hipStream_t s, t;
    OK(hipStreamCreate(&s));
    OK(hipStreamCreate(&t));
    hipEvent_t fork, join;
    OK(hipEventCreate(&fork));
    OK(hipEventCreate(&join));
    OK(hipMemset(d, 0, n * 4));
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
    OK(hipMemsetAsync(d, 0, n * 4, s));
    add1<<<1, n, 0, s>>>(d, n);
    OK(hipEventRecord(fork, s));
    OK(hipStreamWaitEvent(t, fork, 0));
    add1<<<1, n, 0, t>>>(d, n);
    OK(hipEventRecord(join, t));
    OK(hipStreamWaitEvent(s, join, 0));
    add1<<<1, n, 0, s>>>(d, n);
    hipStreamCaptureStatus st;
    OK(hipStreamIsCapturing(t, &st));
    CHECK(st == hipStreamCaptureStatusActive);
    hipGraph_t g;
    OK(hipStreamEndCapture(s, &g));
    OK(hipMemcpy(h.data(), d, n * 4, hipMemcpyDeviceToHost));
    CHECK(h[0] == 0); // nothing ran
    size_t nodes = 0;
    OK(hipGraphGetNodes(g, nullptr, &nodes));
    CHECK(nodes == 4);
    hipGraphExec_t x;
    OK(hipGraphInstantiate(&x, g, nullptr, nullptr, 0));
    for (int i = 0; i < 3; ++i) OK(hipGraphLaunch(x, s));
    OK(hipStreamSynchronize(s));
    OK(hipMemcpy(h.data(), d, n * 4, hipMemcpyDeviceToHost));
    CHECK(h[0] == 7 && h[n - 1] == 7);
    hipGraphNode_t all[4];
    OK(hipGraphGetNodes(g, all, &nodes));
    for (auto* one : all) {
        hipGraphNodeType type;
        OK(hipGraphNodeGetType(one, &type));
        hipKernelNodeParams k{};
        if (type != hipGraphNodeTypeKernel) continue;
        OK(hipGraphKernelNodeGetParams(one, &k));
        CHECK(k.blockDim.x == unsigned(n) && *static_cast<int**>(k.kernelParams[0]) == d &&
              *static_cast<int*>(k.kernelParams[1]) == n);
    }
    OK(hipGraphExecDestroy(x));
    OK(hipGraphDestroy(g));
    // a synchronising call invalidates the capture
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
    IS(hipStreamSynchronize(s), hipErrorStreamCaptureUnsupported);
    IS(hipStreamEndCapture(s, &g), hipErrorStreamCaptureInvalidated);
    (void)hipGetLastError();
    // explicit nodes
    OK(hipGraphCreate(&g, 0));
    hipGraphNode_t set, run, copy;
    hipMemsetParams m{};
    m.dst = d;
    m.elementSize = 4;
    m.value = 20;
    m.width = n;
    m.height = 1;
    OK(hipGraphAddMemsetNode(&set, g, nullptr, 0, &m));
    hipKernelNodeParams k{};
    int count = n;
    void* args[] = {&d, &count};
    k.func = reinterpret_cast<void*>(add1);
    k.gridDim = dim3(1);
    k.blockDim = dim3(n);
    k.kernelParams = args;
    OK(hipGraphAddKernelNode(&run, g, &set, 1, &k));
    OK(hipGraphAddMemcpyNode1D(&copy, g, &run, 1, h.data(), d, n * 4, hipMemcpyDeviceToHost));
    OK(hipGraphInstantiate(&x, g, nullptr, nullptr, 0));
    OK(hipGraphLaunch(x, s));
    OK(hipStreamSynchronize(s));
    CHECK(h[0] == 41 && h[n - 1] == 41);
    m.value = 1;
    OK(hipGraphExecMemsetNodeSetParams(x, set, &m));
    OK(hipGraphLaunch(x, s));
    OK(hipStreamSynchronize(s));
    CHECK(h[0] == 3);
    OK(hipGraphExecDestroy(x));
    OK(hipGraphDestroy(g));
    OK(hipEventDestroy(fork));
    OK(hipEventDestroy(join));
    OK(hipStreamDestroy(s));
    OK(hipStreamDestroy(t));
    OK(hipFree(d));
}

static void test_module(const char* path) {
    hipModule_t m;
    if (!path) return;
    OK(hipModuleLoad(&m, path));
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    hipModule_t m2;
    OK(hipModuleLoadData(&m2, bytes.data()));
    hipFunction_t f, none;
    OK(hipModuleGetFunction(&f, m, "_Z4fillPiii"));
    IS(hipModuleGetFunction(&none, m, "nothing"), hipErrorNotFound);
    (void)hipGetLastError();
    int *d, n = 100, value = 12;
    std::vector<int> h(n);
    OK(hipMalloc(&d, n * 4));
    struct {
        int* p;
        int v, n;
    } packed{d, value, n};
    size_t size = sizeof packed;
    void* extra[] = {
        HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
    OK(hipModuleLaunchKernel(f, 2, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra));
    OK(hipMemcpy(h.data(), d, n * 4, hipMemcpyDeviceToHost));
    CHECK(h[0] == 12 && h[99] == 12);
    hipDeviceptr_t p;
    OK(hipModuleGetGlobal(&p, &size, m2, "device_counter"));
    CHECK(size == 4);
    OK(hipMemcpy(h.data(), p, 4, hipMemcpyDeviceToHost));
    CHECK(h[0] == 5); // a copy of its own
    IS(hipModuleLaunchKernel(f, 0, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra), hipErrorInvalidValue);
    IS(hipModuleLaunchKernel(f, 1, 1, 1, 64, 32, 1, 0, nullptr, nullptr, extra), hipErrorInvalidValue);
    IS(hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr), hipErrorInvalidValue);
    OK(hipModuleUnload(m));
    OK(hipModuleUnload(m2));
    IS(hipModuleLaunchKernel(f, 2, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra), hipErrorInvalidHandle);
    IS(hipModuleUnload(m), hipErrorInvalidHandle);
    char junk[256] = "junk";
    IS(hipModuleLoadData(&m, junk), hipErrorInvalidImage);
    IS(hipModuleLoad(&m, "/no/such/file"), hipErrorFileNotFound);
    (void)hipGetLastError();
    OK(hipFree(d));
}

static void test_faults() {
    int* d;
    OK(hipMalloc(&d, 64));
    poke<<<1, 1>>>(d, 16); // one past the end
    IS(hipDeviceSynchronize(), hipErrorIllegalAddress);
    IS(hipDeviceSynchronize(), hipErrorIllegalAddress);
    IS(hipGetLastError(), hipErrorIllegalAddress);
    fill<<<1, 1>>>(d, 1, 1);
    IS(hipGetLastError(), hipErrorIllegalAddress); // sticky
    OK(hipDeviceReset());
    int host = 0;
    poke<<<1, 1>>>(&host, 0); // host memory
    IS(hipStreamSynchronize(nullptr), hipErrorIllegalAddress);
    CHECK(host == 0);
    OK(hipDeviceReset());
    OK(hipFree(d));
    poke<<<1, 1>>>(d, 0); // after free
    IS(hipDeviceSynchronize(), hipErrorIllegalAddress);
    OK(hipDeviceReset());
    trap<<<1, 1>>>();
    IS(hipDeviceSynchronize(), hipErrorLaunchFailure);
    OK(hipDeviceReset());
    (void)hipGetLastError();
    OK(hipDeviceSynchronize());
}

static void test_multi(int count) {
    std::vector<int*> p(count);
    std::vector<hipStream_t> s(count);
    std::vector<int> h(64);
    for (int i = 0; i < count; ++i) {
        OK(hipSetDevice(i));
        OK(hipMalloc(&p[i], 256));
        OK(hipStreamCreate(&s[i]));
        fill<<<1, 64, 0, s[i]>>>(p[i], 10 + i, 64);
        OK(hipGetLastError());
    }
    for (int i = 0; i < count; ++i) { // streams know their device
        OK(hipStreamSynchronize(s[i]));
        OK(hipMemcpy(h.data(), p[i], 256, hipMemcpyDeviceToHost));
        CHECK(h[0] == 10 + i);
    }
    if (count > 1) {
        int can = 0;
        OK(hipDeviceCanAccessPeer(&can, 0, 1));
        CHECK(can == 1);
        OK(hipMemcpyPeer(p[1], 1, p[0], 0, 256));
        OK(hipMemcpy(h.data(), p[1], 256, hipMemcpyDeviceToHost));
        CHECK(h[63] == 10);
        OK(hipSetDevice(0));
        fill<<<1, 64, 0, s[1]>>>(p[1], 1, 64);
        IS(hipGetLastError(), hipErrorInvalidHandle); // the stream is not the current device's
        int here = -1;
        std::thread([&] { (void)hipGetDevice(&here); }).join();
        CHECK(here == 0); // the current device is the thread's
    }
    for (int i = 0; i < count; ++i) {
        OK(hipSetDevice(i));
        OK(hipFree(p[i]));
        OK(hipStreamDestroy(s[i]));
    }
    IS(hipSetDevice(count), hipErrorInvalidDevice);
    (void)hipGetLastError();
    OK(hipSetDevice(0));
}

int main(int argc, char** argv) {
    const char* module = nullptr;
    bool faults = true;
    for (int i = 1; i < argc; ++i) {
        if (!std::strcmp(argv[i], "--no-faults"))
            faults = false;
        else if (!std::strcmp(argv[i], "--expect-no-binary")) {
            int* d;
            OK(hipMalloc(&d, 256));
            fill<<<1, 64>>>(d, 1, 64);
            IS(hipGetLastError(), hipErrorNoBinaryForGpu);
            std::printf("%d checks, %d failures\n", checks, failures);
            return failures != 0;
        } else
            module = argv[i];
    }
    int count = 0;
    OK(hipGetDeviceCount(&count));
    for (int id = 0; id < count; ++id) {
        OK(hipSetDevice(id));
        test_properties(id);
        test_memory();
        test_launch(id);
        test_streams();
        if (std::getenv("GFXEMU_LAZY")) test_lazy();
        test_threads(id);
        test_graph();
        test_module(module);
        if (faults) test_faults();
    }
    test_multi(count);
    std::printf("%d checks, %d failures\n", checks, failures);
    return failures != 0;
}
