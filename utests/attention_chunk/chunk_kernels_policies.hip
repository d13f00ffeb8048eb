#include "chunk_case.h"
#include "chunk_kernels.h"

namespace waveattn::test {
namespace {
template <std::size_t... I> std::vector<NamedPolicy> instantiate(std::index_sequence<I...>) {
    return {{chunk_policies[I].name, chunk_policies[I].policy,
        &chunk_attention_with<256, KvFormat::int8, 12, chunk_policies[I].policy>}...};
}

template <class Arch> __global__ void exp2_kernel(const float* in, float* out, int count) {
    if constexpr (arch::compiled_for<Arch>) {
        const int i = int(arch::block_x() * 256u + arch::thread_x());
        if (i < count) out[i] = arch::exp2(in[i]);
    } else {
        arch::trap_stub();
    }
}
} // namespace

const std::vector<NamedPolicy>& all_policies() {
    static const auto all = instantiate(std::make_index_sequence<std::size(chunk_policies)>{});
    return all;
}

std::vector<float> device_exp2(const std::vector<float>& values) {
    if (values.empty()) return {};
    DeviceArray<float> in(values), out(values.size());
    launch("exp2", &exp2_kernel<arch::any_wave32>, ceil_div<std::int64_t>(std::int64_t(values.size()), 256), 256, 0,
        nullptr, in.data(), out.data(), int(values.size()));
    return out.host();
}

} // namespace waveattn::test
