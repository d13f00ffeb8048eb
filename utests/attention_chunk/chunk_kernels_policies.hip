#include "chunk_case.h"
#include "chunk_kernels.h"

namespace waveattn::test {
namespace {
template <ChunkPolicy Policy> NamedPolicy named(const char* name) {
    return {name, Policy, &chunk_attention_with<256, KvFormat::int8, 12, Policy>};
}
// The steps from the reference's best variant to ours, each alone.
constexpr ChunkPolicy with_selects{.cells_per_step = 8, .reduce_scatter = true, .dpp = true, .q_planes = true};
constexpr ChunkPolicy with_row_share{
    .cells_per_step = 8, .reduce_scatter = true, .dpp = true, .q_planes = true, .masked_adds = true, .row_share = true};
constexpr ChunkPolicy half_wave_of_4{.cells_per_step = 4,
    .reduce_scatter = true,
    .dpp = true,
    .q_planes = true,
    .masked_adds = true,
    .half_wave = true,
    .row_share = true};

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
    static const std::vector<NamedPolicy> all = {
        named<chunk_default>("default"),
        named<chunk_pre75<1, false>>("pre75 NC 1"),
        named<chunk_pre75<2, false>>("pre75 NC 2"),
        named<chunk_pre75<4, false>>("pre75 NC 4"),
        named<chunk_pre75<8, false>>("pre75 NC 8"),
        named<chunk_pre75<1, true>>("pre75 NC 1 DPP"),
        named<chunk_pre75<2, true>>("pre75 NC 2 DPP"),
        named<chunk_pre75<4, true>>("pre75 NC 4 DPP"),
        named<chunk_pre75<8, true>>("pre75 NC 8 DPP"),
        named<with_selects>("pre75 NC 8 DPP, selects"),
        named<with_row_share>("pre75 NC 8 DPP, row_share"),
        named<half_wave_of_4>("half wave NC 4"),
        named<chunk_half_wave>("half wave NC 8"),
    };
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
