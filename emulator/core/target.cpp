#include "core/target.h"

namespace gfxemu {

const std::vector<Target>& targets() {
    // The RDNA2 chips differ in size only, as do those of RDNA4.
    static const std::vector<Target> list = {
        {"gfx1030", 0x36, Arch::gfx1030, 0x53},
        {"gfx1031", 0x37, Arch::gfx1030, 0x53},
        {"gfx1032", 0x38, Arch::gfx1030, 0x53},
        {"gfx1200", 0x48, Arch::gfx1200, 0x59},
        {"gfx1201", 0x4e, Arch::gfx1200, 0x59},
        {"gfx942", 0x4c, Arch::gfx942, 0x5f},
        {"gfx950", 0x4f, Arch::gfx950, 0x5f},
        {"gfx10-3-generic", 0x53, Arch::gfx1030, 0},
        {"gfx12-generic", 0x59, Arch::gfx1200, 0},
        {"gfx9-4-generic", 0x5f, Arch::gfx942, 0},
    };
    return list;
}

const Target* target_of_mach(unsigned mach) {
    for (auto& t : targets())
        if (t.mach == mach) return &t;
    return nullptr;
}

const Target* target_of_name(std::string_view name) {
    if (auto triple_end = name.rfind("--"); triple_end != std::string_view::npos) name = name.substr(triple_end + 2);
    name = name.substr(0, name.find(':'));
    for (auto& t : targets())
        if (name == t.name) return &t;
    return nullptr;
}

Arch arch_from_name(std::string_view name) {
    if (auto* t = target_of_name(name)) return t->isa;
    throw std::invalid_argument("gfxemu: unknown architecture " + std::string(name));
}

const char* arch_name(Arch arch) {
    switch (arch) {
    case Arch::gfx1030: return "gfx1030";
    case Arch::gfx1200: return "gfx1200";
    case Arch::gfx942: return "gfx942";
    default: return "gfx950";
    }
}

} // namespace gfxemu
