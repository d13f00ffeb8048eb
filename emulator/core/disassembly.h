// The text of a code object's instructions: from a listing made at build time, else from LLVM's disassembler.
#pragma once
#include "core/internal.h"

#include <span>

namespace gfxemu {

// Instructions by their place in .text; lines are shared by equal encodings where they come from a listing.
struct Disassembly {
    std::vector<std::string> lines;
    std::vector<u32> line_of; // by 4-byte word of .text: index into `lines` plus one, 0 where no instruction begins
    std::vector<u8> words_of; // by word of .text: words of the instruction that begins there

    explicit Disassembly(size_t words = 0) : line_of(words), words_of(words) {}
    void put(size_t word, size_t words, u32 line) {
        line_of[word] = line + 1;
        words_of[word] = (u8)words;
    }
};

// Runs llvm-objdump (GFXEMU_OBJDUMP, else the newest one found). Throws std::runtime_error.
Disassembly run_objdump(Arch arch, const std::vector<u8>& elf, u64 text_address, size_t text_size);

} // namespace gfxemu
