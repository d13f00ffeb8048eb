// Runs kernels of a fat binary on every device of GFXEMU_DEVICES. The test runs it without any disassembler, so the
// instructions must come from the listings made when it was linked.
#include "hip_test_api.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// Tells which image of the fat binary ran.
#if defined(__gfx1201__)
#define IMAGE 1201
#elif defined(__gfx1200__)
#define IMAGE 1200
#elif defined(__gfx1030__)
#define IMAGE 1030
#elif defined(__gfx942__)
#define IMAGE 942
#elif defined(__gfx950__)
#define IMAGE 950
#else
#define IMAGE 0
#endif

__global__ void scale(const float* in, float* out, int* image) {
    int i = int(__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x());
    out[i] = in[i] * 3.0f + 1.0f;
    if (i == 0) *image = IMAGE;
}

int main() {
    int count = 0, failures = 0;
    if (hipGetDeviceCount(&count) != hipSuccess) return 2;
    for (int id = 0; id < count; ++id) {
        hipDeviceProp_t p;
        float *in, *out;
        int *image, got = 0;
        std::vector<float> x(128), y(128);
        for (int i = 0; i < 128; ++i) x[i] = float(i);
        bool ok = hipSetDevice(id) == hipSuccess && hipGetDeviceProperties(&p, id) == hipSuccess &&
                  hipMalloc(&in, 512) == hipSuccess && hipMalloc(&out, 512) == hipSuccess &&
                  hipMalloc(&image, 4) == hipSuccess &&
                  hipMemcpy(in, x.data(), 512, hipMemcpyHostToDevice) == hipSuccess;
        if (ok) scale<<<2, 64>>>(in, out, image);
        hipError_t e = hipGetLastError();
        ok = ok && e == hipSuccess && hipMemcpy(y.data(), out, 512, hipMemcpyDeviceToHost) == hipSuccess &&
             hipMemcpy(&got, image, 4, hipMemcpyDeviceToHost) == hipSuccess;
        for (int i = 0; ok && i < 128; ++i) ok = y[i] == x[i] * 3.0f + 1.0f;
        int want = std::atoi(p.gcnArchName + 3);
        if (want == 1031 || want == 1032) want = got; // no image of their own here: the generic target's
        std::printf("device %d: %s ran the image of gfx%d: %s\n", id, p.gcnArchName, got, ok && got == want ? "ok" : hipGetErrorName(e));
        failures += !ok || got != want;
    }
    return failures != 0;
}
