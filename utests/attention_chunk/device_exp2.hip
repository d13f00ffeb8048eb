#include "chunk_case.h"

namespace waveattn::test {
namespace {

template <class Arch> __global__ void exp2_kernel(const float* in, float* out, int count) {
    if constexpr (arch::compiled_for<Arch>) {
        const int i = int(arch::block_x() * 256u + arch::thread_x());
        if (i < count) out[i] = arch::exp2(in[i]);
    } else {
        arch::trap_stub();
    }
}

} // namespace

std::vector<float> device_exp2(const std::vector<float>& values) {
    if (values.empty()) return {};
    DeviceArray<float> in(values), out(values.size());
    launch("exp2", &exp2_kernel<arch::any_wave32>, ceil_div<std::int64_t>(std::int64_t(values.size()), 256), 256, 0,
        nullptr, in.data(), out.data(), int(values.size()));
    return out.host();
}

} // namespace waveattn::test
