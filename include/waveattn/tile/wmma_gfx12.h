// Matrix atoms of gfx12 (wave32): D = A B + C on 16x16x16 tiles, with their lane maps.
//
//   operand       lane l holds       element e (register r)
//   A  (16 x k)   row l % 16         k = 8 (l / 16) + e
//   B  (k x 16)   column l % 16      k = 8 (l / 16) + e
//   C, D          column l % 16      row 8 (l / 16) + r
//
// 8 elements a lane for A and B: one load of 16 bytes (16-bit elements) or 8 bytes (8-bit). The row that register r of
// D stands for is the k that element r of B stands for, so the D of one product, converted in place, is the B of the
// next.
//
// Layouts: AMD's matrix instruction calculator. k is a label: A and B must agree on it and nothing else reveals it.
#pragma once

#include "waveattn/arch/intrinsics.h"

#include <cstdint>

namespace waveattn::tile {

struct Wmma16x16x16 {
    static constexpr int m = 16, n = 16, k = 16;
    static constexpr int elements = 8; // of A, B, C or D in a lane

    WAVEATTN_HOST_DEVICE static constexpr int a_row(int lane) { return lane % 16; }
    WAVEATTN_HOST_DEVICE static constexpr int a_k(int lane, int e) { return 8 * (lane / 16) + e; }
    WAVEATTN_HOST_DEVICE static constexpr int b_column(int lane) { return lane % 16; }
    WAVEATTN_HOST_DEVICE static constexpr int b_k(int lane, int e) { return 8 * (lane / 16) + e; }
    WAVEATTN_HOST_DEVICE static constexpr int c_column(int lane) { return lane % 16; }
    WAVEATTN_HOST_DEVICE static constexpr int c_row(int lane, int r) { return 8 * (lane / 16) + r; }
};

// The transposing loads, as the (row, column) of a row-major matrix that each lane addresses so that the wave receives
// the 16 x 16 transposed A operand: element e of lane l is matrix[8 (l / 16) + e][l % 16].
struct TransposedLoad {
    // 16-bit elements: the lane names 8 of them.
    WAVEATTN_HOST_DEVICE static constexpr int row_16bit(int lane) { return 8 * (lane / 16) + lane % 8; }
    WAVEATTN_HOST_DEVICE static constexpr int column_16bit(int lane) { return 8 * (lane / 8 % 2); }
    // 8-bit elements: the lane names 8 of them.
    WAVEATTN_HOST_DEVICE static constexpr int row_8bit(int lane) {
        return 8 * (lane / 16) + 4 * (lane / 8 % 2) + lane % 4;
    }
    WAVEATTN_HOST_DEVICE static constexpr int column_8bit(int lane) { return 8 * (lane / 4 % 2); }
};

#ifdef __HIP__

// Operand registers of 16-bit elements, two to a word, whatever the element type.
using Operand16 = arch::int4v;
using Operand8 = arch::int2v;

struct WmmaBf16 : Wmma16x16x16 {
    using element = bfloat16;
    using Operand = Operand16;
    using Accumulator = arch::float8v;
    WAVEATTN_DEVICE static Accumulator mma(Operand a, Operand b, Accumulator c) {
        return arch::wmma_f32_bf16(__builtin_bit_cast(arch::short8v, a), __builtin_bit_cast(arch::short8v, b), c);
    }
};
struct WmmaF16 : Wmma16x16x16 {
    using element = float16;
    using Operand = Operand16;
    using Accumulator = arch::float8v;
    WAVEATTN_DEVICE static Accumulator mma(Operand a, Operand b, Accumulator c) {
        return arch::wmma_f32_f16(__builtin_bit_cast(arch::half8v, a), __builtin_bit_cast(arch::half8v, b), c);
    }
};
struct WmmaE4m3 : Wmma16x16x16 {
    using element = float8_e4m3fn;
    using Operand = Operand8;
    using Accumulator = arch::float8v;
    WAVEATTN_DEVICE static Accumulator mma(Operand a, Operand b, Accumulator c) { return arch::wmma_f32_e4m3(a, b, c); }
};
struct WmmaI8 : Wmma16x16x16 {
    using element = std::int8_t;
    using Operand = Operand8;
    using Accumulator = arch::int8v;
    WAVEATTN_DEVICE static Accumulator mma(Operand a, Operand b, Accumulator c) { return arch::wmma_i32_i8(a, b, c); }
};

// The atom for operands of an element type.
template <class Element> struct WmmaOf;
template <> struct WmmaOf<bfloat16> {
    using type = WmmaBf16;
};
template <> struct WmmaOf<float16> {
    using type = WmmaF16;
};
template <> struct WmmaOf<float8_e4m3fn> {
    using type = WmmaE4m3;
};
template <> struct WmmaOf<std::int8_t> {
    using type = WmmaI8;
};
template <class Element> using wmma_of = typename WmmaOf<Element>::type;

#endif

} // namespace waveattn::tile
