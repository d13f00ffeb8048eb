// A benchmark program in small, for the tests of bench/: the harness, and one kernel with a known loop.
#include "harness.h"

// y[i] += sum over j < n of x[j] * y[i], four at a time; a trip holds four multiply-adds.
__global__ __launch_bounds__(64) void probe_kernel(const float* x, float* y, int n) {
    const int i = int(__builtin_amdgcn_workgroup_id_x()) * 64 + int(__builtin_amdgcn_workitem_id_x());
    const float own = y[i];
    float sum = own;
#pragma clang loop unroll(disable) vectorize(disable)
    for (int j = 0; j < n; j += 4) {
        sum = __builtin_fmaf(x[j], own, sum);
        sum = __builtin_fmaf(x[j + 1], own, sum);
        sum = __builtin_fmaf(x[j + 2], own, sum);
        sum = __builtin_fmaf(x[j + 3], own, sum);
    }
    y[i] = sum;
}

int main(int argc, char** argv) {
    waveattn::bench::Options defaults;
    defaults.sk = 64;
    defaults.extra = {{"groups", "2"}};
    return waveattn::bench::main(
        argc, argv,
        [](const waveattn::bench::Options& options) {
            auto x = options.tensor<float>(1, options.sk, 1, 1);
            auto y = options.tensor<float>(1, 64 * options.number("groups"), 1, 2);
            const float* in = x.data();
            float* out = y.data();
            int n = int(options.sk);
            waveattn::bench::run("probe", options, 0, [&](hipStream_t stream) {
                probe_kernel<<<dim3(unsigned(options.number("groups"))), dim3(64), 0, stream>>>(in, out, n);
            });
        },
        defaults);
}
