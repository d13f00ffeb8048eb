// Intrinsics of gfx942 and gfx950 for 8-bit attention: int8 and fp8 MFMA, conversions to fp8.
//
// fp8 is FNUZ on gfx942 and OCP on gfx950; the same builtins mean the format of the target that is compiled for.
#pragma once

#include "waveattn/arch/arch.h"

#include <cstdint>

#ifdef __HIP__

#    include "waveattn/arch/intrinsics_cdna.h"

namespace waveattn::arch {

// ---- matrix products: D = A.B + C. Operands of 8 (or 16) bytes a lane, element 0 in the lowest byte ----
WAVEATTN_DEVICE int16v mfma_i32_32x32x16_i8(std::int64_t a, std::int64_t b, int16v c) {
    return __builtin_amdgcn_mfma_i32_32x32x16_i8(a, b, c, 0, 0, 0);
}
WAVEATTN_DEVICE int4v mfma_i32_16x16x32_i8(std::int64_t a, std::int64_t b, int4v c) {
    return __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, c, 0, 0, 0);
}
WAVEATTN_DEVICE float16v mfma_f32_32x32x16_fp8(std::int64_t a, std::int64_t b, float16v c) {
    return __builtin_amdgcn_mfma_f32_32x32x16_fp8_fp8(a, b, c, 0, 0, 0);
}
WAVEATTN_DEVICE float4v mfma_f32_16x16x32_fp8(std::int64_t a, std::int64_t b, float4v c) {
    return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, c, 0, 0, 0);
}
// gfx950 only.
WAVEATTN_DEVICE int16v mfma_i32_32x32x32_i8(int4v a, int4v b, int16v c) {
    return __builtin_amdgcn_mfma_i32_32x32x32_i8(a, b, c, 0, 0, 0);
}
// fp32 products, one element a lane: chained fused multiply-adds over k in ascending order.
WAVEATTN_DEVICE float4v mfma_f32_16x16x4_f32(float a, float b, float4v c) {
    return __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c, 0, 0, 0);
}

// ---- conversions, rounding to nearest, ties to even ----
// `old` with one half replaced by two fp8 numbers: bytes 0 and 1, or 2 and 3. Values out of range become NaN or the
// largest number by the mode of the wave: clamp before where that can happen.
template <bool High> WAVEATTN_DEVICE int convert_pack_fp8(float first, float second, int old) {
    return __builtin_amdgcn_cvt_pk_fp8_f32(first, second, old, High);
}
WAVEATTN_DEVICE float round_even(float x) { return __builtin_rintf(x); } // v_rndne_f32

// ---- memory ----
// 4 bytes from resource + lane_bytes + wave_bytes.
WAVEATTN_DEVICE int buffer_load_4(BufferResource resource, unsigned lane_bytes, unsigned wave_bytes) {
    return __builtin_bit_cast(int, __builtin_amdgcn_raw_buffer_load_b32(resource, int(lane_bytes), int(wave_bytes), 0));
}

// A kernel's first argument, read again: what is needed only at the end need not stay in registers until then.
template <class T> WAVEATTN_DEVICE T kernel_argument() {
    using Constant = const __attribute__((address_space(4))) char*;
    T value;
    __builtin_memcpy(
        &value, (Constant)opaque_scalar((std::uint64_t)(Constant)__builtin_amdgcn_kernarg_segment_ptr()), sizeof(T));
    return value;
}

// The value stays in its registers until this place in the order of pins and scheduling barriers.
template <class T> WAVEATTN_DEVICE void keep(const T& value) { asm volatile("" : : "v"(value)); }

// ---- arithmetic ----
// x between low and high; low where x is NaN.
WAVEATTN_DEVICE float clamp(float x, float low, float high) { return __builtin_amdgcn_fmed3f(x, low, high); }
} // namespace waveattn::arch

#endif
