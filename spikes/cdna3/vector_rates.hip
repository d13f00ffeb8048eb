// What do the vector instructions of the Sage softmax cost? One wave a SIMD, 4096 times 8 independent instructions;
// divide a card's time, or the model's clocks for a trip, by 8.
#include "harness.h"

#include "waveattn/arch/intrinsics_cdna_8bit.h"
#include "waveattn/core/launch.h"

using namespace waveattn;

namespace {

enum class Op { exp, pack_fp8, from_int, packed_fma };

template <Op Which> __global__ void loop(float* out, float seed) {
    if constexpr (arch::compiled_for<arch::any_wave64>) {
        float x[8];
        int words[8];
        arch::float2v pairs[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = seed + float(i), words[i] = i, pairs[i] = arch::float2v{seed, seed};
        for (int n = 0; n < 4096; ++n)
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if constexpr (Which == Op::exp) x[i] = arch::opaque(arch::exp2(x[i]));
                if constexpr (Which == Op::pack_fp8)
                    words[i] = arch::opaque(arch::convert_pack_fp8<false>(x[i], x[i], words[i]));
                if constexpr (Which == Op::from_int) x[i] = arch::opaque(float(__builtin_bit_cast(int, x[i])));
                if constexpr (Which == Op::packed_fma)
                    pairs[i] = arch::opaque(arch::fma(pairs[i], arch::float2v{seed, seed}, pairs[i]));
            }
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum += x[i] + float(words[i]) + pairs[i][0] + pairs[i][1];
        out[arch::block_x() * 256 + arch::thread_x()] = sum;
    }
}

template <Op Which> void run(const char* name, const bench::Options& options) {
    const bench::DeviceBuffer<float> out(256);
    bench::run(
        name, options, 0, [&](hipStream_t stream) { launch(name, loop<Which>, 1, 256, 0, stream, out.data(), 0.5f); });
}

} // namespace

int main(int argc, char** argv) {
    return bench::main(argc, argv, [](const bench::Options& options) {
        run<Op::exp>("v_exp_f32", options);
        run<Op::pack_fp8>("v_cvt_pk_fp8_f32", options);
        run<Op::from_int>("v_cvt_f32_i32", options);
        run<Op::packed_fma>("v_pk_fma_f32", options);
    });
}
