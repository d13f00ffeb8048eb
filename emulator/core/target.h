// The targets that are emulated: names, ELF machine numbers, and the instruction set that executes them.
#pragma once
#include "core/gfxemu.h"

namespace gfxemu {

struct Target {
    const char* name;      // as LLVM and gcnArchName spell it
    unsigned mach;         // EF_AMDGPU_MACH of its code objects
    Arch isa;              // the instruction set that runs them
    unsigned generic_mach; // the generic target whose code objects it runs too; 0: it is a generic target itself
};

// Every target, generic ones included.
const std::vector<Target>& targets();
const Target* target_of_mach(unsigned mach);         // nullptr where unknown
const Target* target_of_name(std::string_view name); // "gfx942:sramecc+:xnack-" is accepted; nullptr where unknown

} // namespace gfxemu
