// Reading the operands that LLVM's disassembler prints.
#pragma once
#include "core/internal.h"

namespace gfxemu {

// Thrown while an instruction is parsed; executing the instruction then reports it.
struct Unsupported {
    std::string what;
};

inline bool starts(std::string_view s, std::string_view prefix) { return s.substr(0, prefix.size()) == prefix; }
inline bool ends(std::string_view s, std::string_view suffix) {
    return s.size() >= suffix.size() && s.substr(s.size() - suffix.size()) == suffix;
}
inline std::string_view trim_blanks(std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
}
i64 to_int(std::string_view s); // decimal or 0x..., with a sign

void set_int(Opnd& o, i64 v);
// A register, a constant or a special scalar, with neg, abs and sext around it; false where `text` is none of these.
bool parse_operand(std::string_view text, Opnd& o);

std::vector<u32> bits_list(std::string_view list); // "[0,1,2]"
u8 mask_of(std::string_view list);                 // the same as a bit mask
u8 sdwa_select(std::string_view name);             // as Opnd::sel

} // namespace gfxemu
