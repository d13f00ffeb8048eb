// Intrinsics of gfx1200 and gfx1201 (RDNA4, wave32). Included by intrinsics.h.
//
// clang checks the target where a function is emitted, so all of them may be declared for every target; only kernels
// behind `if constexpr (compiled_for<gfx1200>)` call them.
#pragma once

#include "waveattn/arch/intrinsics.h"

#ifdef __HIP__

namespace waveattn::arch {

using bfloat2v = Vector<__bf16, 2>;
using ushort2v = Vector<unsigned short, 2>;

// ---- matrix products, D = A B + C on 16x16x16 tiles; layouts in tile/wmma_gfx12.h ----
WAVEATTN_DEVICE float8v wmma_f32_bf16(short8v a, short8v b, float8v c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c);
}
WAVEATTN_DEVICE float8v wmma_f32_f16(half8v a, half8v b, float8v c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c);
}
WAVEATTN_DEVICE float8v wmma_f32_e4m3(int2v a, int2v b, float8v c) {
    return __builtin_amdgcn_wmma_f32_16x16x16_fp8_fp8_w32_gfx12(a, b, c);
}
WAVEATTN_DEVICE int8v wmma_i32_i8(int2v a, int2v b, int8v c) {
    return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, c, false);
}

// ---- loads that transpose ----
// 16-bit elements: in each group of 8 lanes every lane names 8 elements (16 bytes); lane i of the group receives
// element i of all eight. 8-bit elements: every lane names 8 bytes; lane i of a group of 16 receives byte i % 8 of
// lanes (0..3 and 8..11) for i < 8, of lanes (4..7 and 12..15) else. Addresses are aligned to the access.
using GlobalPointer = __attribute__((address_space(1))) char*;
WAVEATTN_DEVICE short8v load_transposed_b128(GlobalPointer address) {
    using Global = __attribute__((address_space(1))) short8v*;
    return __builtin_amdgcn_global_load_tr_b128_v8i16((Global)address);
}
WAVEATTN_DEVICE int2v load_transposed_b64(GlobalPointer address) {
    using Global = __attribute__((address_space(1))) int2v*;
    return __builtin_amdgcn_global_load_tr_b64_v2i32((Global)address);
}

// ---- arithmetic ----
// The larger; NaN where either is NaN. Three of them in a row are one v_maximum3_f32.
WAVEATTN_DEVICE float maximum(float a, float b) { return __builtin_elementwise_maximum(a, b); }
// Two values of [0, 1] as 16-bit integers, x * 65535 rounded to nearest; values outside saturate, NaN gives 0.
WAVEATTN_DEVICE unsigned pack_unorm16(float low, float high) {
    return __builtin_bit_cast(unsigned, __builtin_amdgcn_cvt_pknorm_u16(low, high));
}
// The upper halves of two words: {high[31:16], low[31:16]}, which is two fp32 truncated to bf16.
WAVEATTN_DEVICE unsigned pack_upper_halves(float low, float high) {
    return __builtin_amdgcn_perm(__builtin_bit_cast(unsigned, high), __builtin_bit_cast(unsigned, low), 0x07060302u);
}
// Two fp32 as f16, rounded towards zero.
WAVEATTN_DEVICE unsigned pack_f16_toward_zero(float low, float high) {
    return __builtin_bit_cast(unsigned, __builtin_amdgcn_cvt_pkrtz(low, high));
}
// a.x + a.y + sum of two bf16 (f16) packed in a word.
WAVEATTN_DEVICE float add_bf16_pair(unsigned pair, float sum) {
    return __builtin_amdgcn_fdot2_f32_bf16(
        __builtin_bit_cast(bfloat2v, pair), __builtin_bit_cast(bfloat2v, 0x3f803f80u), sum, false);
}
WAVEATTN_DEVICE float add_f16_pair(unsigned pair, float sum) {
    return __builtin_amdgcn_fdot2(
        __builtin_bit_cast(half2v, pair), __builtin_bit_cast(half2v, 0x3c003c00u), sum, false);
}
// Four e4m3 codes (OCP) as fp32, exact.
WAVEATTN_DEVICE float4v decode_e4m3(int codes) {
    const float2v low = __builtin_amdgcn_cvt_pk_f32_fp8(codes, false),
                  high = __builtin_amdgcn_cvt_pk_f32_fp8(codes, true);
    return {low.x, low.y, high.x, high.y};
}
// Four fp32 of at most 448 in magnitude as e4m3, rounded to nearest even.
WAVEATTN_DEVICE int encode_e4m3(float a, float b, float c, float d) {
    return __builtin_amdgcn_cvt_pk_fp8_f32(c, d, __builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false), true);
}

// ---- lanes ----
// The lane of a wave, computed where it is asked for: no register keeps it, nor what follows from it.
WAVEATTN_DEVICE int fresh_lane() { return int(__builtin_amdgcn_mbcnt_lo(opaque_scalar(~0u), 0u)); }

// The first argument of the running kernel, loaded by each call: nothing of it stays in scalar registers from one to
// the next.
template <class Arguments> WAVEATTN_DEVICE Arguments fresh_arguments() {
    using Constant = __attribute__((address_space(4))) const Arguments*;
    return *(const Arguments*)opaque_scalar((Constant)__builtin_amdgcn_kernarg_segment_ptr());
}

// ---- synchronisation ----
// A workgroup barrier that orders LDS accesses only: global loads stay in flight across it.
WAVEATTN_DEVICE void lds_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

} // namespace waveattn::arch

#endif
