// The matrix atom of bf16 and f16 attention on gfx942 and gfx950: D = A.B + C with 32 x 32 x 16, wave64.
//
// Eight consecutive k of a row (column) lie in a lane, 16 bytes. gfx950 has the instruction. gfx942 has 32x32x8 with
// four k a lane; two of them, on the lower and the upper half of each operand, give the same product: k is a label, and
// A and B are renamed alike. So both targets share the lane maps, the LDS layout of K and the order of keys in P.
//
// Chaining: with A = K and B = Q, register r of lane l of S^T belongs to query l % 32 and key d_row(l, r). Registers
// 8q..8q+7, narrowed in order, are B of step q of O^T = V^T.P^T if A holds V's keys in chained_key order.
#pragma once

#include "waveattn/arch/intrinsics_cdna.h"
#include "waveattn/core/numeric.h"

namespace waveattn::tile {

// A is 32 x 16 [row][k], B 16 x 32 [k][col], D 32 x 32 [row][col].
struct Mfma32x32x16Maps {
    static constexpr int rows = 32, cols = 32, depth = 16;
    static constexpr int elements = 8;   // of A (and B) in a lane
    static constexpr int registers = 16; // of C and D in a lane
    WAVEATTN_HOST_DEVICE static constexpr int a_row(int lane) { return lane % 32; }
    WAVEATTN_HOST_DEVICE static constexpr int a_k(int lane, int e) { return 8 * (lane / 32) + e; }
    WAVEATTN_HOST_DEVICE static constexpr int b_col(int lane) { return lane % 32; }
    WAVEATTN_HOST_DEVICE static constexpr int b_k(int lane, int e) { return a_k(lane, e); }
    WAVEATTN_HOST_DEVICE static constexpr int d_row(int lane, int r) { return 8 * (r / 4) + 4 * (lane / 32) + r % 4; }
    WAVEATTN_HOST_DEVICE static constexpr int d_col(int lane) { return lane % 32; }
    // The key (row of S^T) that element e of lane `lane` stands for in step `step` of the second product.
    WAVEATTN_HOST_DEVICE static constexpr int chained_key(int step, int lane, int e) {
        return 16 * step + 8 * (e / 4) + 4 * (lane / 32) + e % 4;
    }
};

template <class T, class Arch> struct Mfma32x32x16;

#ifdef __HIP__
namespace detail {
template <class T> struct MfmaElement;
template <> struct MfmaElement<bfloat16> {
    using Eight = arch::bf16x8;
    using Four = arch::short4v;
    using Pair = arch::bf16x2;
};
template <> struct MfmaElement<float16> {
    using Eight = arch::half8v;
    using Four = arch::half4v;
    using Pair = arch::half2v;
};
} // namespace detail
#endif

template <class T> struct Mfma32x32x16<T, arch::gfx950> : Mfma32x32x16Maps {
#ifdef __HIP__
    using Operand = typename detail::MfmaElement<T>::Eight;
    using Accumulator = arch::float16v;
    WAVEATTN_DEVICE static Accumulator mma(arch::uint4v a, arch::uint4v b, Accumulator c) {
        return arch::mfma_32x32x16(__builtin_bit_cast(Operand, a), __builtin_bit_cast(Operand, b), c);
    }
#endif
};

template <class T> struct Mfma32x32x16<T, arch::gfx942> : Mfma32x32x16Maps {
#ifdef __HIP__
    using Operand = typename detail::MfmaElement<T>::Four;
    using Accumulator = arch::float16v;
    WAVEATTN_DEVICE static Accumulator mma(arch::uint4v a, arch::uint4v b, Accumulator c) {
        // Copies, for clang takes the wrong half where __builtin_bit_cast is given a.lo itself.
        const arch::uint2v a_low = a.lo, a_high = a.hi, b_low = b.lo, b_high = b.hi;
        c = arch::mfma_32x32x8(__builtin_bit_cast(Operand, a_low), __builtin_bit_cast(Operand, b_low), c);
        return arch::mfma_32x32x8(__builtin_bit_cast(Operand, a_high), __builtin_bit_cast(Operand, b_high), c);
    }
#endif
};

} // namespace waveattn::tile
