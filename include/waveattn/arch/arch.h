// Targets: one tag type per target with its constants, and which of them the present compiler pass builds for.
//
// HIP compiles a translation unit once for the host and once per --offload-arch. The host pass sees no target macro, so
// tile shapes and launch geometry hang on these tags, which all passes know. This file is the only one that reads the
// target macros. A kernel is a template on a tag; its body is
//
//     if constexpr (arch::compiled_for<Arch>) { ... } else { arch::trap_stub(); }
//
// so that every target of a fat binary holds every kernel's symbol, real where it can run and a trap elsewhere. The
// host refuses before it launches a stub (arch/capability.h).
#pragma once

#include "waveattn/core/hip_api.h"

#include <string_view>
#include <type_traits>

namespace waveattn::arch {

// ---- the tags ----

// Common to all targets: an attention kernel may use 64 KiB of LDS in a workgroup, and a workgroup has at most 1024
// threads.
struct gfx1030 { // RDNA2: RX 6800 / 6900. No matrix instructions.
    static constexpr const char* name = "gfx1030";
    static constexpr int wave_size = 32;
    static constexpr int lds_bytes = 65536;
};
struct gfx1200 { // RDNA4: RX 9060 / 9070. WMMA, OCP fp8.
    static constexpr const char* name = "gfx1200";
    static constexpr int wave_size = 32;
    static constexpr int lds_bytes = 65536;
};
struct gfx942 { // CDNA3: MI300X / MI308X. MFMA, FNUZ fp8.
    static constexpr const char* name = "gfx942";
    static constexpr int wave_size = 64;
    static constexpr int lds_bytes = 65536;
};
struct gfx950 { // CDNA4: MI350X / MI355X. Wider MFMA, OCP fp8, transposing LDS reads, 160 KiB LDS.
    static constexpr const char* name = "gfx950";
    static constexpr int wave_size = 64;
    static constexpr int lds_bytes = 163840;
};
// For kernels that need no more of a target than its wave size.
struct any_wave32 {
    static constexpr const char* name = "any wave32 target";
    static constexpr int wave_size = 32;
    static constexpr int lds_bytes = 65536;
};
struct any_wave64 {
    static constexpr const char* name = "any wave64 target";
    static constexpr int wave_size = 64;
    static constexpr int lds_bytes = 65536;
};

enum class Target { unsupported, gfx1030, gfx1200, gfx942, gfx950 };

// The matching enumerator of a tag (not for any_wave*).
template <class Arch> inline constexpr Target target_of = Target::unsupported;
template <> inline constexpr Target target_of<gfx1030> = Target::gfx1030;
template <> inline constexpr Target target_of<gfx1200> = Target::gfx1200;
template <> inline constexpr Target target_of<gfx942> = Target::gfx942;
template <> inline constexpr Target target_of<gfx950> = Target::gfx950;

constexpr const char* target_name(Target target) {
    switch (target) {
    case Target::gfx1030: return gfx1030::name;
    case Target::gfx1200: return gfx1200::name;
    case Target::gfx942: return gfx942::name;
    case Target::gfx950: return gfx950::name;
    case Target::unsupported: break;
    }
    return "unsupported";
}
constexpr int wave_size(Target target) { return target == Target::gfx942 || target == Target::gfx950 ? 64 : 32; }
inline constexpr const char* supported_targets =
    "gfx1030 (and gfx1031, gfx1032, gfx1034), gfx1200, gfx1201, gfx942, gfx950";

// The target of a device by its gcnArchName, for example "gfx942:sramecc+:xnack-". Members of a family that share the
// instruction set share the target.
constexpr Target target_from_name(std::string_view name) {
    name = name.substr(0, name.find(':'));
    if (name == "gfx1030" || name == "gfx1031" || name == "gfx1032" || name == "gfx1034") return Target::gfx1030;
    if (name == "gfx1200" || name == "gfx1201") return Target::gfx1200;
    if (name == "gfx942") return Target::gfx942;
    if (name == "gfx950") return Target::gfx950;
    return Target::unsupported;
}

// ---- the present pass ----

#if defined(__HIP_DEVICE_COMPILE__)
#    if defined(__gfx1030__) || defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1034__)
inline constexpr Target this_pass = Target::gfx1030;
#    elif defined(__gfx1200__) || defined(__gfx1201__)
inline constexpr Target this_pass = Target::gfx1200;
#    elif defined(__gfx942__)
inline constexpr Target this_pass = Target::gfx942;
#    elif defined(__gfx950__)
inline constexpr Target this_pass = Target::gfx950;
#    else
inline constexpr Target this_pass = Target::unsupported;
#    endif
#else
inline constexpr Target this_pass = Target::unsupported; // the host
#endif

// Whether the present pass generates real code for kernels of this tag.
template <class Arch>
inline constexpr bool compiled_for = target_of<Arch> == this_pass && this_pass != Target::unsupported;
template <>
inline constexpr bool compiled_for<any_wave32> = this_pass != Target::unsupported && wave_size(this_pass) == 32;
template <>
inline constexpr bool compiled_for<any_wave64> = this_pass != Target::unsupported && wave_size(this_pass) == 64;

} // namespace waveattn::arch
