// Graphs, modules, faults.
#pragma once
#include "hip_test.h"

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
