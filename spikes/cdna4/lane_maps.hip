// Are the operands of 32x32x16 bf16 and float16, and of ds_read_b64_tr_b16, where tile/mfma_cdna.h says?
#include "harness.h"

#include "waveattn/core/launch.h"
#include "waveattn/tile/mfma_cdna.h"

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

using namespace waveattn;
using Maps = tile::Mfma32x32x16Maps;

namespace {

template <class T> __global__ void multiply(const arch::uint4v* a, const arch::uint4v* b, float* d) {
    if constexpr (arch::compiled_for<arch::gfx950>) {
        const unsigned lane = arch::lane_id();
        const auto result = tile::Mfma32x32x16<T, arch::gfx950>::mma(a[lane], b[lane], arch::float16v{});
        for (int r = 0; r < 16; ++r) d[16 * lane + unsigned(r)] = result[r];
    }
}
__global__ void transpose(const short* source, short* target) {
    if constexpr (arch::compiled_for<arch::gfx950>) {
        alignas(16) __shared__ short lds[256];
        const unsigned lane = arch::lane_id();
        for (unsigned i = 0; i < 4; ++i) lds[4 * lane + i] = source[4 * lane + i];
        arch::barrier();
        const auto got =
            arch::lds_read_transposed_16(arch::lds_pointer<arch::short4v>(arch::lds_offset(lds) + 8 * lane));
        for (int i = 0; i < 4; ++i) target[4 * lane + unsigned(i)] = got[i];
    }
}

// The largest error of 20 random products.
template <class T> double largest_error() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    double worst = 0;
    for (int round = 0; round < 20; ++round) {
        std::vector<T> a(512), b(512);
        float full_a[32][16], full_b[16][32];
        for (int lane = 0; lane < 64; ++lane)
            for (int e = 0; e < 8; ++e) {
                T &x = a[std::size_t(8 * lane + e)], &y = b[std::size_t(8 * lane + e)];
                x = from_float<T>(normal(random)), y = from_float<T>(normal(random));
                full_a[Maps::a_row(lane)][Maps::a_k(lane, e)] = to_float(x);
                full_b[Maps::b_k(lane, e)][Maps::b_col(lane)] = to_float(y);
            }
        const bench::DeviceBuffer<T> da(a), db(b);
        const bench::DeviceBuffer<float> dd(1024);
        launch("multiply", multiply<T>, 1, 64, 0, nullptr, reinterpret_cast<const arch::uint4v*>(da.data()),
            reinterpret_cast<const arch::uint4v*>(db.data()), dd.data());
        std::vector<float> d(1024);
        check_hip(hipMemcpy(d.data(), dd.data(), 4096, hipMemcpyDeviceToHost), "hipMemcpy");
        for (int lane = 0; lane < 64; ++lane)
            for (int r = 0; r < 16; ++r) {
                double want = 0;
                for (int k = 0; k < 16; ++k)
                    want += double(full_a[Maps::d_row(lane, r)][k]) * double(full_b[k][Maps::d_col(lane)]);
                worst = std::max(worst, std::abs(want - double(d[std::size_t(16 * lane + r)])));
            }
    }
    return worst;
}

} // namespace

int main() {
    std::printf("32x32x16, largest error of 20 products: bf16 %.2g, f16 %.2g\n", largest_error<bfloat16>(),
        largest_error<float16>());
    std::vector<float16> values(256);
    for (std::size_t i = 0; i < 256; ++i) values[i].bits = std::uint16_t(i);
    const bench::DeviceBuffer<float16> source(values), target(256);
    launch("transpose", transpose, 1, 64, 0, nullptr, reinterpret_cast<const short*>(source.data()),
        reinterpret_cast<short*>(target.data()));
    check_hip(hipMemcpy(values.data(), target.data(), 512, hipMemcpyDeviceToHost), "hipMemcpy");
    int right = 0;
    for (int lane = 0; lane < 64; ++lane)
        for (int j = 0; j < 4; ++j)
            right +=
                values[std::size_t(4 * lane + j)].bits == 4 * (16 * (lane / 16) + 4 * j + lane % 16 / 4) + lane % 4;
    std::printf("ds_read_b64_tr_b16: %d of 256 elements where expected\n", right);
    return right == 256 ? 0 : 1;
}
