// A kernel with a known loop, for the tests of isa_report; compiled for the device only, without any header.
#define __global__ __attribute__((global))
#define THREADS(n) __attribute__((amdgpu_flat_work_group_size(1, n)))

namespace probes {

enum class Kind { plain, other };

// A loop with Count multiply-adds and one exp2 a trip.
template <int Count, Kind kind> __global__ THREADS(256) void fma_loop(float* p, int n) {
    float sum[Count];
    const int thread = int(__builtin_amdgcn_workitem_id_x());
    for (int i = 0; i < Count; i++) sum[i] = p[thread + i * 256];
#pragma clang loop unroll(disable) vectorize(disable)
    for (int j = 0; j < n; j++) {
        const float x = p[j];
        for (int i = 0; i < Count; i++) sum[i] = __builtin_fmaf(sum[i], x, sum[i]);
        sum[0] = __builtin_amdgcn_exp2f(sum[0]);
    }
    for (int i = 0; i < Count; i++) p[thread + i * 256] = sum[i];
}
template __global__ void fma_loop<5, Kind::other>(float*, int);

} // namespace probes
