// Intrinsics of RDNA's 32-lane waves (gfx1030; gfx1200 has them too): lane exchanges in registers, by data-parallel
// primitives (DPP). A wave consists of two rows of 16 lanes, a row of four banks of 4 lanes. swap_rows exchanges the
// rows (intrinsics_gfx12.h). Included by intrinsics.h.
#pragma once

#include "waveattn/arch/intrinsics.h"

#ifdef __HIP__

namespace waveattn::arch {

// ---- exchanges within a row of 16 lanes ----
// The value of lane (lane ^ Mask), Mask < 16. An addition or maximum of the result folds into one instruction.
template <int Mask> WAVEATTN_DEVICE int row_xor(int value) {
    static_assert(Mask > 0 && Mask < 16);
    return __builtin_amdgcn_mov_dpp(value, 0x160 + Mask, 0xf, 0xf, true); // row_xmask:Mask
}
template <int Mask> WAVEATTN_DEVICE float row_xor(float value) {
    return __builtin_bit_cast(float, row_xor<Mask>(__builtin_bit_cast(int, value)));
}
// target = value + row_xor<Mask>(value) in the banks whose bit of Banks is set; the other lanes keep their target.
// No builtin reaches this form: an instruction that writes some lanes only saves the selects of a reduce-scatter.
template <int Mask, int Banks> WAVEATTN_DEVICE void add_row_xor_in_banks(float& target, float value) {
    asm("v_add_f32_dpp %0, %1, %1 row_xmask:%2 row_mask:0xf bank_mask:%3"
        : "+v"(target)
        : "v"(value), "n"(Mask), "n"(Banks));
}

// ---- broadcasts of lane Lane of each row ----
// sum = fma(value of lane Lane of `a`, b, sum)
template <int Lane> WAVEATTN_DEVICE void fma_row_share(float& sum, float a, float b) {
    asm("v_fmac_f32_dpp %0, %1, %2 row_share:%3 row_mask:0xf bank_mask:0xf" : "+v"(sum) : "v"(a), "v"(b), "n"(Lane));
}
// The value of lane Lane of each row; a multiplication of the result folds into one instruction.
template <int Lane> WAVEATTN_DEVICE float row_share(float value) {
    return __builtin_bit_cast(
        float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, value), 0x150 + Lane, 0xf, 0xf, true));
}

// ---- exchanges between the rows ----
// The value of lane (lane ^ 16), in registers (v_permlanex16). All lanes must be active.
WAVEATTN_DEVICE float swap_rows(float value) {
    const int bits = __builtin_bit_cast(int, value);
    return __builtin_bit_cast(
        float, __builtin_amdgcn_permlanex16(bits, bits, 0x76543210u, 0xfedcba98u, /*fetch_inactive=*/true, false));
}

// ---- 32-lane masks ----
// Bit l: whether `predicate` holds in lane l.
WAVEATTN_DEVICE unsigned ballot32(bool predicate) { return __builtin_amdgcn_ballot_w32(predicate); }
// Whether the lane's bit is set.
WAVEATTN_DEVICE bool lane_bit32(unsigned mask) { return __builtin_amdgcn_inverse_ballot_w32(mask); }
// The value of a lane that is the same for the whole wave.
WAVEATTN_DEVICE int read_lane(int value, int lane) { return __builtin_amdgcn_readlane(value, lane); }
WAVEATTN_DEVICE float read_lane(float value, int lane) {
    return __builtin_bit_cast(float, read_lane(__builtin_bit_cast(int, value), lane));
}

// The kernel's only argument, read from memory again: for a later phase, so that what it needs does not occupy scalar
// registers in the phases before.
template <class Arguments> WAVEATTN_DEVICE Arguments reload_arguments() {
    using Constant = const __attribute__((address_space(4))) Arguments*;
    auto place = (Constant)__builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(place));
    Arguments arguments;
    __builtin_memcpy(&arguments, place, sizeof arguments);
    return arguments;
}

// ---- dot products ----
// sum + the product of the four int8 of a and b.
WAVEATTN_DEVICE int dot4_i8(int a, int b, int sum) {
    if constexpr (this_pass == Target::gfx1200)
        return __builtin_amdgcn_sudot4(true, a, true, b, sum, false);
    else
        return __builtin_amdgcn_sdot4(a, b, sum, false);
}
// Two values as fp16, rounded toward zero, the first one in the low half.
WAVEATTN_DEVICE int pack_half2(float low, float high) {
    return __builtin_bit_cast(int, __builtin_amdgcn_cvt_pkrtz(low, high));
}
// sum += the product of the two fp16 of lane Lane of `a` in each row and of b, in fp32.
template <int Lane> WAVEATTN_DEVICE void dot2_row_share(float& sum, int a, int b) {
    if constexpr (this_pass == Target::gfx1200)
        asm("v_dot2_f32_f16_e64_dpp %0, %1, %2, %0 row_share:%3 row_mask:0xf bank_mask:0xf"
            : "+v"(sum)
            : "v"(a), "v"(b), "n"(Lane));
    else
        asm("v_dot2c_f32_f16_dpp %0, %1, %2 row_share:%3 row_mask:0xf bank_mask:0xf"
            : "+v"(sum)
            : "v"(a), "v"(b), "n"(Lane));
}

// ---- bytes ----
// Bytes 0..3 of the result chosen from {high, low} (7..4 are those of `high`, 3..0 those of `low`) by the bytes of
// `selector`; 12 selects 0x00.
WAVEATTN_DEVICE unsigned permute_bytes(unsigned high, unsigned low, unsigned selector) {
    return __builtin_amdgcn_perm(high, low, selector);
}

} // namespace waveattn::arch

#endif
