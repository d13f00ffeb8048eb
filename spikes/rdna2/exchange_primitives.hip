// Does each exchange in registers give what __shfl_xor gives, in all 32 lanes and for every bit pattern?
//
// The whole family of kernels stands on this: a wrong mask would move sums between heads. Run it on a card before
// trusting another compiler or another member of the RDNA family. Exit code 0: all agree.
#include "waveattn/arch/capability.h"
#include "waveattn/core/launch.h"
#include "waveattn/tile/lane_exchange.h"

#include <bit>
#include <cstdio>
#include <random>
#include <vector>

using namespace waveattn;

namespace {

struct Primitive {
    const char* name;
    int mask;
};
constexpr Primitive primitives[] = {{"row_xmask:1", 1}, {"row_xmask:2", 2}, {"row_xmask:4", 4}, {"row_xmask:8", 8},
    {"v_permlanex16 (16)", 16}, {"add, banks 0xc (8)", 8}, {"add, banks 0xa (4)", 4}, {"fmac row_share:5", 0}};
constexpr int count = int(std::size(primitives));

// out[primitive][0: in registers, 1: by ds_bpermute, which is __shfl_xor][lane]
template <class Arch> __global__ void compare_kernel(const float* in, float* out) {
    if constexpr (arch::compiled_for<Arch>) {
        const int lane = int(arch::lane_id());
        const float a = in[lane], b = in[lane + 32];
        float* line = out + lane;
        const auto put = [&](float mine, float reference) { line[0] = mine, line[32] = reference, line += 64; };
        put(arch::row_xor<1>(a), arch::shuffle_xor(a, 1));
        put(arch::row_xor<2>(a), arch::shuffle_xor(a, 2));
        put(arch::row_xor<4>(a), arch::shuffle_xor(a, 4));
        put(arch::row_xor<8>(a), arch::shuffle_xor(a, 8));
        put(arch::swap_rows(a), arch::shuffle_xor(a, 16));
        const float other_a8 = arch::shuffle_xor(a, 8), other_b8 = arch::shuffle_xor(b, 8);
        put(tile::reduce_pair<8, tile::Exchange::registers, true>(a, b), lane & 8 ? b + other_b8 : a + other_a8);
        const float other_a4 = arch::shuffle_xor(a, 4), other_b4 = arch::shuffle_xor(b, 4);
        put(tile::reduce_pair<4, tile::Exchange::registers, true>(a, b), lane & 4 ? b + other_b4 : a + other_a4);
        float sum = b;
        arch::fma_row_share<5>(sum, a, b);
        put(sum, arch::fma(lane < 16 ? arch::read_lane(a, 5) : arch::read_lane(a, 21), b, b));
    } else {
        arch::trap_stub();
    }
}

} // namespace

int main() {
    const arch::Device& device = arch::current_device();
    std::printf("%s\n", device.gcn_arch.c_str());
    float *in, *out;
    check_hip(hipMalloc(&in, 64 * sizeof(float)), "hipMalloc");
    check_hip(hipMalloc(&out, count * 64 * sizeof(float)), "hipMalloc");
    std::mt19937 random(1);
    int wrong[count] = {};
    constexpr int rounds = 200;
    for (int round = 0; round < rounds; ++round) {
        std::vector<float> values(64), results(count * 64);
        // Finite values of every magnitude, denormals included.
        for (float& value : values) {
            do value = std::bit_cast<float>(std::uint32_t(random()));
            while (!(value - value == 0));
        }
        check_hip(hipMemcpy(in, values.data(), 64 * sizeof(float), hipMemcpyHostToDevice), "hipMemcpy");
        launch("compare", &compare_kernel<arch::any_wave32>, std::int64_t(1), 32, 0, nullptr, in, out);
        check_hip(hipMemcpy(results.data(), out, results.size() * sizeof(float), hipMemcpyDeviceToHost), "hipMemcpy");
        for (int i = 0; i < count; ++i)
            for (int lane = 0; lane < 32; ++lane) {
                const float mine = results[std::size_t(i * 64 + lane)],
                            reference = results[std::size_t(i * 64 + 32 + lane)];
                const bool both_nan = mine != mine && reference != reference; // of infinities that met
                wrong[i] += !both_nan && std::bit_cast<std::uint32_t>(mine) != std::bit_cast<std::uint32_t>(reference);
            }
    }
    int failures = 0;
    for (int i = 0; i < count; ++i) {
        std::printf("%-20s %s\n", primitives[i].name, wrong[i] ? "WRONG" : "as __shfl_xor");
        failures += wrong[i] != 0;
    }
    (void)hipFree(in), (void)hipFree(out);
    return failures != 0;
}
