// Reading rows of a KV cache: loads of the raw codes, apart from their conversion, so that a kernel can have several in
// flight. Values are exact: a float16 scale times a code of at most 8 bits fits into fp32.
#pragma once

#include "waveattn/arch/intrinsics.h"
#include "waveattn/attention/chunk_problem.h"

#ifdef __HIP__

namespace waveattn::detail {

// The E = D / 32 values of a K row from dimension dim + Offset on: what one lane takes of a row. dim is a multiple of E
// below 32 * E / (D / Offset) and Offset 0 or D / 2, so that Offset is a constant of the load's address.
template <RowFormat Format, int D> struct KeySlice;
// One value of a V row.
template <RowFormat Format, int D> struct ValueElement;

template <int D> struct KeySlice<RowFormat::f16, D> {
    static constexpr int values = D / 32;
    arch::Vector<_Float16, values> raw;

    template <int Offset> WAVEATTN_DEVICE void load(const ChunkParams& p, std::int64_t row, int dim) {
        raw = *reinterpret_cast<const arch::Vector<_Float16, values>*>(
            static_cast<const char*>(p.k) + row * row_bytes(RowFormat::f16, D) + unsigned(2 * dim) + 2 * Offset);
    }
    template <int I> WAVEATTN_DEVICE float get() const { return float(raw[I]); }
};

template <int D> struct KeySlice<RowFormat::int8, D> {
    static constexpr int values = D / 32;
    arch::Vector<signed char, values> raw;
    _Float16 scale;

    template <int Offset> WAVEATTN_DEVICE void load(const ChunkParams& p, std::int64_t row, int dim) {
        raw = *reinterpret_cast<const arch::Vector<signed char, values>*>(
            static_cast<const char*>(p.k) + row * D + unsigned(dim) + Offset);
        scale = (reinterpret_cast<const _Float16*>(p.k_scale) + row * (D / 64) + unsigned(dim) / 64u)[Offset / 64];
    }
    template <int I> WAVEATTN_DEVICE float get() const { return float(raw[I]) * float(scale); }
};

template <int D> struct KeySlice<RowFormat::q4_0, D> {
    static constexpr int values = D / 32;
    using Word =
        std::conditional_t<values == 8, std::uint64_t, std::conditional_t<values == 4, std::uint32_t, std::uint16_t>>;
    Word raw; // a byte for each value
    _Float16 d;

    template <int Offset> WAVEATTN_DEVICE void load(const ChunkParams& p, std::int64_t row, int dim) {
        const unsigned place = unsigned(dim) % 32u;
        const char* block = static_cast<const char*>(p.k) + row * row_bytes(RowFormat::q4_0, D) +
                            unsigned(dim) / 32u * 18u + Offset / 32 * 18;
        d = *reinterpret_cast<const _Float16*>(block);
        // Blocks of 18 bytes leave their codes aligned to 2 bytes only.
        __builtin_memcpy(&raw, __builtin_assume_aligned(block + 2 + place % 16u, 2), sizeof raw);
        raw = Word(raw >> (place < 16u ? 0 : 4)) & Word(0x0f0f0f0f0f0f0f0f);
    }
    // (code - 8) * d without a subtraction of integers: exact, because codes have 4 bits and d has 11.
    template <int I> WAVEATTN_DEVICE float get() const {
        return arch::fma(float(static_cast<unsigned char>(raw >> (8 * I))), float(d), -8.f * float(d));
    }
};

template <int D> struct ValueElement<RowFormat::f16, D> {
    static constexpr bool separate_scale = false;
    _Float16 raw;

    WAVEATTN_DEVICE void load(const ChunkParams& p, std::int64_t row, int dim) {
        raw = *reinterpret_cast<const _Float16*>(
            static_cast<const char*>(p.v) + row * row_bytes(RowFormat::f16, D) + unsigned(2 * dim));
    }
    WAVEATTN_DEVICE float code(int) const { return float(raw); }
};

// The scale of an int8 or q4_0 value is the same for all lanes of a wave that hold neighbouring dimensions, so kernels
// load it for several cells at once: value = code(dim) * scale.
template <int D> struct ValueElement<RowFormat::int8, D> {
    static constexpr bool separate_scale = true;
    signed char raw;

    WAVEATTN_DEVICE void load(const ChunkParams& p, std::int64_t row, int dim) {
        raw = *(static_cast<const signed char*>(p.v) + row * D + unsigned(dim));
    }
    WAVEATTN_DEVICE float code(int) const { return float(raw); }
    WAVEATTN_DEVICE static float scale(const ChunkParams& p, std::int64_t row, int dim) {
        return float(reinterpret_cast<const _Float16*>(p.v_scale)[row * (D / 64) + unsigned(dim) / 64u]);
    }
};

template <int D> struct ValueElement<RowFormat::q4_0, D> {
    static constexpr bool separate_scale = true;
    unsigned char raw; // two values

    WAVEATTN_DEVICE void load(const ChunkParams& p, std::int64_t row, int dim) {
        const unsigned place = unsigned(dim) % 32u;
        raw = *(static_cast<const unsigned char*>(p.v) + row * row_bytes(RowFormat::q4_0, D) +
                unsigned(dim) / 32u * 18u + 2u + place % 16u);
    }
    WAVEATTN_DEVICE float code(int dim) const {
        return float(int(raw >> (unsigned(dim) % 32u < 16u ? 0 : 4) & 15) - 8);
    }
    WAVEATTN_DEVICE static float scale(const ChunkParams& p, std::int64_t row, int dim) {
        return float(*reinterpret_cast<const _Float16*>(
            static_cast<const char*>(p.v) + row * row_bytes(RowFormat::q4_0, D) + unsigned(dim) / 32u * 18u));
    }
};

} // namespace waveattn::detail

#endif
