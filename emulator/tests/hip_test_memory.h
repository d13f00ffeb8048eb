// Properties of devices, memory, copies, fills.
#pragma once
#include "hip_test.h"

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
