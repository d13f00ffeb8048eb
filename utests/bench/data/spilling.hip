// A kernel that must spill, for the tests of isa_report; compiled for the device only, without any header.
#define __global__ __attribute__((global))

// More live values than a wave of 1024 threads has registers for, on every target.
__global__ __attribute__((amdgpu_flat_work_group_size(1, 1024))) void spilling(float* p, int n) {
    float values[220];
    const int thread = int(__builtin_amdgcn_workitem_id_x());
#pragma clang loop unroll(full)
    for (int i = 0; i < 220; i++) values[i] = p[thread + i * 1024];
    for (int j = 0; j < n; j++) {
#pragma clang loop unroll(full)
        for (int i = 0; i < 220; i++) values[i] = __builtin_fmaf(values[i], p[j], values[(i + 7) % 220]);
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < 220; i++) p[thread + i * 1024] = values[i];
}
