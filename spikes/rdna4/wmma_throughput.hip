// How many independent accumulators does a wave need to keep the matrix pipe busy, and what is the raw peak?
//
// A wave runs 1 to 16 chains of dependent WMMAs; the grid fills every CU of every WGP (HIP reports WGPs as compute
// units on RDNA, so a grid sized by that count alone fills half of the card).
#include "harness.h"

#include "waveattn/arch/capability.h"
#include "waveattn/core/launch.h"
#include "waveattn/tile/wmma_gfx12.h"

using namespace waveattn;

namespace {

constexpr int threads = 128, iterations = 64; // 4 waves: one for each SIMD of a WGP

template <class Atom, int Chains> __global__ __launch_bounds__(threads) void chains_kernel(float* out) {
    if constexpr (arch::compiled_for<arch::gfx1200>) {
        typename Atom::Operand a, b;
        for (int i = 0; i < int(sizeof(a)) / 4; ++i) a[i] = b[i] = int(arch::thread_x());
        typename Atom::Accumulator sum[Chains] = {};
#pragma unroll 1
        for (int i = 0; i < iterations; ++i)
#pragma unroll
            for (int c = 0; c < Chains; ++c) sum[c] = Atom::mma(a, b, sum[c]);
        float total = 0;
#pragma unroll
        for (int c = 0; c < Chains; ++c) total += float(sum[c][0]);
        out[arch::block_x() * threads + arch::thread_x()] = total;
    } else
        arch::trap_stub();
}

template <class Atom, int Chains> void run(const bench::Options& options, const char* name) {
    const std::int64_t blocks = arch::current_device().compute_units * std::int64_t(2) * 8; // 16 waves a SIMD
    const bench::DeviceBuffer<float> out(blocks * threads);
    const double flop = double(blocks) * (threads / 32) * iterations * Chains * 2 * 16 * 16 * 16;
    bench::run(concat(name, ", ", Chains, " chains"), options, flop, [&](hipStream_t stream) {
        launch("chains", chains_kernel<Atom, Chains>, blocks, threads, 0, stream, out.data());
    });
}

template <class Atom> void sweep(const bench::Options& options, const char* name) {
    run<Atom, 1>(options, name);
    run<Atom, 2>(options, name);
    run<Atom, 4>(options, name);
    run<Atom, 8>(options, name);
    run<Atom, 16>(options, name);
}

} // namespace

int main(int argc, char** argv) {
    return bench::main(argc, argv, [](const bench::Options& options) {
        arch::require_target<arch::gfx1200>(arch::current_device(), "this spike");
        sweep<tile::WmmaBf16>(options, "bf16");
        sweep<tile::WmmaE4m3>(options, "fp8");
    });
}
