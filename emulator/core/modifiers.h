// The modifiers behind an instruction's operands.
#pragma once
#include "core/operands.h"

namespace gfxemu {

// Sets the fields of `i` that the modifiers name, with DPP and SDWA controls; `sdwa`: the mnemonic says SDWA.
// Returns the SDWA selects of the two sources. Throws Unsupported.
struct SourceSelects {
    u8 src0 = 6, src1 = 6;
};
SourceSelects apply_modifiers(Arch arch, Inst& i, const std::vector<std::string_view>& modifiers, bool sdwa);

} // namespace gfxemu
