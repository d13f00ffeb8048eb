// Device intrinsics. The intrinsics*.h files of this folder are the only ones with compiler builtins of the target, so
// kernels need no device library and compile alike with a full ROCm and with a bare clang.
//
// This file holds what every target has; intrinsics_gfx1030.h, intrinsics_gfx12.h and intrinsics_cdna.h the rest.
// A function whose instruction a target lacks may be declared for all of them: clang checks when it is emitted, and
// only kernels behind `if constexpr (compiled_for<...>)` call it.
#pragma once

#include "waveattn/arch/arch.h"
#include "waveattn/core/numeric.h"

#ifdef __HIP__

#    define WAVEATTN_DEVICE __device__ __forceinline__

namespace waveattn::arch {

// ---- vectors of registers ----
template <class T, int N> using Vector = T __attribute__((ext_vector_type(N)));
using float2v = Vector<float, 2>;
using float4v = Vector<float, 4>;
using float8v = Vector<float, 8>;
using float16v = Vector<float, 16>;
using int2v = Vector<int, 2>;
using int4v = Vector<int, 4>;
using int8v = Vector<int, 8>;
using int16v = Vector<int, 16>;
using uint4v = Vector<unsigned, 4>;
using short4v = Vector<short, 4>;
using short8v = Vector<short, 8>;
using half2v = Vector<_Float16, 2>;
using half4v = Vector<_Float16, 4>;
using half8v = Vector<_Float16, 8>;

// ---- where am I ----
// The first argument of the running kernel, in place. A parameter taken by value is copied when the kernel starts,
// which keeps all of a large structure in scalar registers; through this reference each member is loaded where it is
// used.
template <class Arguments> WAVEATTN_DEVICE const Arguments& kernel_arguments() {
    return *(const Arguments*)__builtin_amdgcn_kernarg_segment_ptr();
}
WAVEATTN_DEVICE unsigned thread_x() { return __builtin_amdgcn_workitem_id_x(); }
WAVEATTN_DEVICE unsigned block_x() { return __builtin_amdgcn_workgroup_id_x(); }
WAVEATTN_DEVICE unsigned block_y() { return __builtin_amdgcn_workgroup_id_y(); }
WAVEATTN_DEVICE unsigned block_z() { return __builtin_amdgcn_workgroup_id_z(); }
// The lane within a wave of the present pass.
WAVEATTN_DEVICE unsigned lane_id() {
    if constexpr (wave_size(this_pass) == 64)
        return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    else
        return __builtin_amdgcn_mbcnt_lo(~0u, 0u);
}
// The value of the first active lane, in a scalar register: tells the compiler that it is the same in the whole wave.
WAVEATTN_DEVICE int uniform(int value) { return __builtin_amdgcn_readfirstlane(value); }
WAVEATTN_DEVICE float uniform(float value) {
    return __builtin_bit_cast(float, __builtin_amdgcn_readfirstlane(__builtin_bit_cast(int, value)));
}
WAVEATTN_DEVICE std::int64_t uniform(std::int64_t value) {
    const int low = uniform(int(value)), high = uniform(int(value >> 32));
    return std::int64_t(std::uint64_t(std::uint32_t(high)) << 32 | std::uint32_t(low));
}

// ---- arithmetic ----
WAVEATTN_DEVICE float exp2(float x) { return __builtin_amdgcn_exp2f(x); } // v_exp_f32: 1 ulp, denormal results are 0
WAVEATTN_DEVICE float log2(float x) { return __builtin_amdgcn_logf(x); }  // v_log_f32: 1 ulp, denormal inputs are 0
WAVEATTN_DEVICE float reciprocal(float x) { return __builtin_amdgcn_rcpf(x); } // v_rcp_f32: 1 ulp
WAVEATTN_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// Two at once: one packed instruction on CDNA, two elsewhere.
WAVEATTN_DEVICE float2v fma(float2v a, float2v b, float2v c) { return __builtin_elementwise_fma(a, b, c); }
WAVEATTN_DEVICE float max(float a, float b) { return __builtin_fmaxf(a, b); } // the other operand where one is NaN
WAVEATTN_DEVICE float min(float a, float b) { return __builtin_fminf(a, b); }
WAVEATTN_DEVICE float abs(float x) { return __builtin_fabsf(x); }
inline constexpr float log2e = 1.44269504088896340736f;
inline constexpr float ln2 = 0.693147180559945309417f;
inline constexpr float infinity = __builtin_inff();

// ---- conversions ----
// Whether the target converts e4m3 in the OCP form, or in the FNUZ form.
inline constexpr bool has_fp8_ocp_conversion = this_pass == Target::gfx1200 || this_pass == Target::gfx950;
inline constexpr bool has_fp8_fnuz_conversion = this_pass == Target::gfx942;
WAVEATTN_DEVICE float fp8_to_float(unsigned code) { return __builtin_amdgcn_cvt_f32_fp8(int(code), 0); }

// ---- lanes ----
// The value of lane (lane ^ mask), through the LDS crossbar: any mask below the wave size.
WAVEATTN_DEVICE int shuffle_xor(int value, int mask) {
    return __builtin_amdgcn_ds_bpermute(int(lane_id() ^ unsigned(mask)) * 4, value);
}
WAVEATTN_DEVICE float shuffle_xor(float value, int mask) {
    return __builtin_bit_cast(float, shuffle_xor(__builtin_bit_cast(int, value), mask));
}

// The value of another lane of the same row of 16, in registers (DPP). Controls that every target has: quad_perm,
// row_half_mirror, row_mirror. All lanes must be active.
inline constexpr int dpp_quad_perm(int a, int b, int c, int d) { return a | b << 2 | c << 4 | d << 6; }
inline constexpr int dpp_row_mirror = 0x140, dpp_row_half_mirror = 0x141;
template <int Control> WAVEATTN_DEVICE float dpp(float value) {
    return __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, value), Control, 0xf, 0xf, true));
}

// ---- LDS ----
// A pointer into LDS; 32 bits wide, its value is the byte offset in the workgroup's LDS.
template <class T> using LdsPointer = __attribute__((address_space(3))) T*;
// *target = min(*target, value), by several lanes and waves at once.
WAVEATTN_DEVICE void lds_min(LdsPointer<int> target, int value) {
    __hip_atomic_fetch_min(target, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
}

// ---- synchronisation and scheduling ----
// A workgroup barrier that orders LDS accesses (and global ones of the workgroup) around it.
WAVEATTN_DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// Nothing moves across at compile time, except the classes of instructions in `mask` (LLVM's sched_barrier bits).
template <int Mask = 0> WAVEATTN_DEVICE void schedule_barrier() { __builtin_amdgcn_sched_barrier(Mask); }
// The same value, of which the optimiser no longer knows where it came from: it is computed before this point, and what
// depends on it stays behind, is not moved out of a loop, and is computed anew where it was computed before. Costs no
// instruction.
template <class T> WAVEATTN_DEVICE T opaque(T value) {
    asm volatile("" : "+v"(value));
    return value;
}
// The same for a value that all lanes share, in scalar registers: keeps `base + lane offset` an address of that form
// instead of a 64-bit pointer for each lane.
template <class T> WAVEATTN_DEVICE T opaque_scalar(T value) {
    asm volatile("" : "+s"(value));
    return value;
}
template <int Priority> WAVEATTN_DEVICE void set_priority() { __builtin_amdgcn_s_setprio(Priority); }

// The body of a kernel on a target that it was not written for.
WAVEATTN_DEVICE void trap_stub() { __builtin_trap(); }

} // namespace waveattn::arch

#    include "waveattn/arch/intrinsics_gfx1030.h"
#    include "waveattn/arch/intrinsics_gfx12.h"

#endif
