// Device intrinsics of CDNA3 (gfx942) and CDNA4 (gfx950): 16-bit MFMA, buffer loads also straight to LDS, transposing
// LDS reads, waits, order at compile time. Those of 8-bit data are in intrinsics_cdna_8bit.h.
//
// A function whose instruction gfx942 lacks says "gfx950"; call it behind `if constexpr`.
#pragma once

#include "waveattn/arch/intrinsics.h"

#ifdef __HIP__

namespace waveattn::arch {

// ---- types ----
using bf16x2 = Vector<__bf16, 2>;
using bf16x4 = Vector<__bf16, 4>;
using bf16x8 = Vector<__bf16, 8>;
using uint2v = Vector<unsigned, 2>;
template <class T> WAVEATTN_DEVICE LdsPointer<T> lds_pointer(unsigned byte_offset) {
    return (LdsPointer<T>)(byte_offset);
}
template <class T> WAVEATTN_DEVICE unsigned lds_offset(T* shared) { return (unsigned)(LdsPointer<T>)shared; }

// ---- buffer resources: a base address, bounds in bytes and hardware bound checks ----
using BufferResource = __amdgpu_buffer_rsrc_t;
// Loads at or beyond `bytes` return 0, stores there are dropped. Every argument is the same in the whole wave.
WAVEATTN_DEVICE BufferResource buffer_resource(const void* base, unsigned bytes) {
    // Word 3: raw 32-bit data format, no swizzling.
    return __builtin_amdgcn_make_buffer_rsrc(const_cast<void*>(base), 0, int(bytes), 0x27000);
}
// 16 bytes from resource + lane_bytes + wave_bytes.
WAVEATTN_DEVICE uint4v buffer_load_16(BufferResource resource, unsigned lane_bytes, unsigned wave_bytes) {
    return __builtin_bit_cast(
        uint4v, __builtin_amdgcn_raw_buffer_load_b128(resource, int(lane_bytes), int(wave_bytes), 0));
}
WAVEATTN_DEVICE uint2v buffer_load_8(BufferResource resource, unsigned lane_bytes, unsigned wave_bytes) {
    return __builtin_bit_cast(
        uint2v, __builtin_amdgcn_raw_buffer_load_b64(resource, int(lane_bytes), int(wave_bytes), 0));
}
WAVEATTN_DEVICE void buffer_store_16(uint4v value, BufferResource resource, unsigned lane_bytes, unsigned wave_bytes) {
    __builtin_amdgcn_raw_buffer_store_b128(value, resource, int(lane_bytes), int(wave_bytes), 0);
}
// Bytes a lane that a load straight to LDS moves: 16 on gfx950, elsewhere 4 at most.
inline constexpr int lds_load_bytes = this_pass == Target::gfx950 ? 16 : 4;
// lds_load_bytes for each lane straight to LDS: lane n's to target + n lds_load_bytes, `target` being the same in the
// wave; Immediate (below 4096) is added to both addresses. Counts as a vector memory operation (wait_vector_memory);
// lanes out of bounds write 0.
template <int Immediate = 0>
WAVEATTN_DEVICE void buffer_load_to_lds(
    BufferResource resource, LdsPointer<void> target, unsigned lane_bytes, unsigned wave_bytes) {
    __builtin_amdgcn_raw_ptr_buffer_load_lds(
        resource, target, lds_load_bytes, int(lane_bytes), int(wave_bytes), Immediate, 0);
}

// ---- LDS ----
// gfx950: transposing read of 16-bit elements. With S(l)[i] the element i of the 8 bytes at lane l's own address, lane
// l receives D(l)[j] = S(16(l/16) + 4j + (l%16)/4)[l%4], j < 4: sixteen lanes transpose a 4 x 16 tile. All lanes
// active.
WAVEATTN_DEVICE short4v lds_read_transposed_16(LdsPointer<short4v> source) {
    return __builtin_amdgcn_ds_read_tr16_b64_v4i16(source);
}

// ---- waits ----
// The immediate of s_waitcnt of gfx9: at most that many operations still outstanding; 63 and 15 do not wait.
constexpr int wait_counts(int vector_memory, int lds) {
    return (vector_memory & 15) | 7 << 4 | (lds & 15) << 8 | (vector_memory >> 4) << 14;
}
template <int VectorMemory, int Lds> WAVEATTN_DEVICE void wait() {
    __builtin_amdgcn_s_waitcnt(wait_counts(VectorMemory, Lds));
}
template <int Outstanding> WAVEATTN_DEVICE void wait_vector_memory() { wait<Outstanding, 15>(); }
template <int Outstanding> WAVEATTN_DEVICE void wait_lds() { wait<63, Outstanding>(); }
// The barrier alone, without the memory fences of barrier(): the caller has waited for what others shall see.
WAVEATTN_DEVICE void bare_barrier() { __builtin_amdgcn_s_barrier(); }

// ---- order at compile time; no instruction ----
// Memory accesses do not move across.
WAVEATTN_DEVICE void compiler_fence() { asm volatile("" ::: "memory"); }
// The value is computed before, and used after, this place in the order of other pins, fences and scheduling barriers.
template <class T> WAVEATTN_DEVICE void pin(T& value) { asm volatile("" : "+v"(value)); }
// A value that is the same in the wave is computed, or on its way from memory, by here.
template <class T> WAVEATTN_DEVICE void need(T value) { asm volatile("" ::"s"(value)); }
// lane_id(), computed anew: keeps no register alive in between.
WAVEATTN_DEVICE int lane_id_again() {
    unsigned zero = 0;
    pin(zero);
    return int(__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, zero)));
}
// The arguments of a kernel whose only parameter is a T, read anew from memory: nothing of it stays in registers.
template <class T> WAVEATTN_DEVICE const T& kernel_argument_again() {
    auto* address = (const __attribute__((address_space(4))) T*)__builtin_amdgcn_kernarg_segment_ptr();
    asm volatile("" : "+s"(address));
    return *(const T*)address;
}
template <int Mask, int Count, int Group> WAVEATTN_DEVICE void schedule_group() {
    __builtin_amdgcn_sched_group_barrier(Mask, Count, Group);
}

// ---- arithmetic on integers and 16-bit pairs ----
WAVEATTN_DEVICE int min(int a, int b) { return a < b ? a : b; }
WAVEATTN_DEVICE int max(int a, int b) { return a > b ? a : b; }
// The larger one, and where one is NaN: NaN on gfx950 (v_maximum3_f32), elsewhere either.
WAVEATTN_DEVICE float maximum_nan(float a, float b) {
    if constexpr (this_pass == Target::gfx950)
        return __builtin_elementwise_maximum(a, b);
    else
        return __builtin_fmaxf(a, b);
}
// Two fp32 to a pair of 16-bit elements, to nearest even. One instruction on gfx950; gfx942 has none for bf16.
WAVEATTN_DEVICE bf16x2 to_bf16_pair(float low, float high) {
    return __builtin_convertvector((float2v){low, high}, bf16x2);
}
// The same, ties away from zero: three instructions for a pair. The NaNs that arithmetic makes stay NaN.
WAVEATTN_DEVICE bf16x2 to_bf16_pair_half_up(float low, float high) {
    const unsigned a = __builtin_bit_cast(unsigned, low) + 0x8000u, b = __builtin_bit_cast(unsigned, high) + 0x8000u;
    return __builtin_bit_cast(bf16x2, permute_bytes(b, a, 0x07060302u));
}
WAVEATTN_DEVICE half2v to_half_pair(float low, float high) {
    return __builtin_convertvector((float2v){low, high}, half2v);
}
// a.x * b.x + a.y * b.y + c in fp32. The bf16 one: gfx950.
WAVEATTN_DEVICE float dot2(bf16x2 a, bf16x2 b, float c) { return __builtin_amdgcn_fdot2_f32_bf16(a, b, c, false); }
WAVEATTN_DEVICE float dot2(half2v a, half2v b, float c) { return __builtin_amdgcn_fdot2(a, b, c, false); }

// ---- lanes ----
// gfx950: lanes 32..63 of `a` trade with lanes 0..31 of `b`.
WAVEATTN_DEVICE void swap_wave_halves(unsigned& a, unsigned& b) {
    auto swapped = __builtin_amdgcn_permlane32_swap(a, b, false, false);
    a = swapped[0], b = swapped[1];
}
// gfx950: within each 32 lanes, lanes 16..31 of `a` trade with lanes 0..15 of `b`.
WAVEATTN_DEVICE void swap_rows_of_16(unsigned& a, unsigned& b) {
    auto swapped = __builtin_amdgcn_permlane16_swap(a, b, false, false);
    a = swapped[0], b = swapped[1];
}
// The active lanes where the condition holds, as a scalar, and back.
WAVEATTN_DEVICE std::uint64_t lanes_where(bool condition) { return __builtin_amdgcn_ballot_w64(condition); }
WAVEATTN_DEVICE bool lane_is_in(std::uint64_t lanes) { return __builtin_amdgcn_inverse_ballot_w64(lanes); }
// Whether the condition holds in any active lane; the same in the whole wave.
WAVEATTN_DEVICE bool vote_any(bool condition) { return __builtin_amdgcn_ballot_w64(condition) != 0; }

// ---- matrix instructions of 16-bit inputs: D = A.B + C, 32 x 32 ----
// K = 16, gfx950.
WAVEATTN_DEVICE float16v mfma_32x32x16(bf16x8 a, bf16x8 b, float16v c) {
    return __builtin_amdgcn_mfma_f32_32x32x16_bf16(a, b, c, 0, 0, 0);
}
WAVEATTN_DEVICE float16v mfma_32x32x16(half8v a, half8v b, float16v c) {
    return __builtin_amdgcn_mfma_f32_32x32x16_f16(a, b, c, 0, 0, 0);
}
// K = 8, gfx942 and gfx950.
WAVEATTN_DEVICE float16v mfma_32x32x8(short4v a, short4v b, float16v c) {
    return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0);
}
WAVEATTN_DEVICE float16v mfma_32x32x8(half4v a, half4v b, float16v c) {
    return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0);
}

} // namespace waveattn::arch

#endif
