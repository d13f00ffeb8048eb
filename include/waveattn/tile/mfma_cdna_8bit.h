// Matrix atoms of gfx942 and gfx950 with 8-bit operands: shape, lane maps, and the instruction.
//
// D[row][col] = sum_k A[row][k] * B[k][col] + C[row][col] in a wave64. `a_elements` bytes of A lie in a lane, byte e of
// lane l being A[a_row(l)][a_k(l, e)]; B alike with its column. Register r of lane l holds D[d_row(l, r)][d_col(l)].
// The maps are constexpr data for kernels, host packers and the tests that compare them with the instruction.
//
// Source: AMD matrix instruction calculator, CDNA3 and CDNA4.
#pragma once

#include "waveattn/arch/intrinsics_cdna_8bit.h"
#include "waveattn/core/hip_api.h"

#include <cstdint>

namespace waveattn::tile {

// What all square MFMA atoms share: Size rows and columns, 64 / Size groups of lanes that hold Elements of k each.
template <int Size, int Elements> struct MfmaMaps {
    static constexpr int rows = Size, cols = Size;
    static constexpr int elements = Elements;
    static constexpr int depth = 64 / Size * Elements; // K
    static constexpr int registers = Size * Size / 64; // of C and D
    WAVEATTN_HOST_DEVICE static constexpr int a_row(int lane) { return lane % Size; }
    WAVEATTN_HOST_DEVICE static constexpr int a_k(int lane, int e) { return Elements * (lane / Size) + e; }
    WAVEATTN_HOST_DEVICE static constexpr int b_col(int lane) { return lane % Size; }
    WAVEATTN_HOST_DEVICE static constexpr int b_k(int lane, int e) { return a_k(lane, e); }
    WAVEATTN_HOST_DEVICE static constexpr int d_col(int lane) { return lane % Size; }
    WAVEATTN_HOST_DEVICE static constexpr int d_row(int lane, int r) {
        return Size == 32 ? 8 * (r / 4) + 4 * (lane / 32) + r % 4 : 4 * (lane / 16) + r;
    }
};

// The atoms. `Operand` is a lane's share of A or B, `Accumulator` that of C and D.
struct MfmaI32_32x32x16_I8 : MfmaMaps<32, 8> {
#ifdef __HIP__
    using Operand = std::int64_t;
    using Accumulator = arch::int16v;
    WAVEATTN_DEVICE static Accumulator mma(Operand a, Operand b, Accumulator c) {
        return arch::mfma_i32_32x32x16_i8(a, b, c);
    }
#endif
};
struct MfmaI32_16x16x32_I8 : MfmaMaps<16, 8> {
#ifdef __HIP__
    using Operand = std::int64_t;
    using Accumulator = arch::int4v;
    WAVEATTN_DEVICE static Accumulator mma(Operand a, Operand b, Accumulator c) {
        return arch::mfma_i32_16x16x32_i8(a, b, c);
    }
#endif
};
struct MfmaF32_32x32x16_Fp8 : MfmaMaps<32, 8> {
#ifdef __HIP__
    using Operand = std::int64_t;
    using Accumulator = arch::float16v;
    WAVEATTN_DEVICE static Accumulator mma(Operand a, Operand b, Accumulator c) {
        return arch::mfma_f32_32x32x16_fp8(a, b, c);
    }
#endif
};
struct MfmaF32_16x16x32_Fp8 : MfmaMaps<16, 8> {
#ifdef __HIP__
    using Operand = std::int64_t;
    using Accumulator = arch::float4v;
    WAVEATTN_DEVICE static Accumulator mma(Operand a, Operand b, Accumulator c) {
        return arch::mfma_f32_16x16x32_fp8(a, b, c);
    }
#endif
};
// gfx950: twice the depth in the same time.
struct MfmaI32_32x32x32_I8 : MfmaMaps<32, 16> {
#ifdef __HIP__
    using Operand = arch::int4v;
    using Accumulator = arch::int16v;
    WAVEATTN_DEVICE static Accumulator mma(Operand a, Operand b, Accumulator c) {
        return arch::mfma_i32_32x32x32_i8(a, b, c);
    }
#endif
};

} // namespace waveattn::tile
