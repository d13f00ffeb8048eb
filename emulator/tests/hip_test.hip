// Exercises the HIP runtime on every device that GFXEMU_DEVICES lists.
#include "hip_test_graph.h"
#include "hip_test_memory.h"

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
    // hip_ext.h declares it with C++ linkage.
    CHECK(dlsym(RTLD_DEFAULT, "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j"));
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
