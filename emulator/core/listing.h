// Disassembly listings made at build time, so that running a code object needs no disassembler.
//
// A listing file (*.gfxlst) holds listings of any number of code objects. The key of a listing is the instruction set
// and a hash of the bytes of .text.
#pragma once
#include "core/disassembly.h"

#include <optional>

namespace gfxemu {

struct ListingKey {
    Arch arch = Arch::gfx1030;
    u64 size = 0, hash[2] = {0, 0}; // of .text
    auto operator<=>(const ListingKey&) const = default;
};
ListingKey listing_key(Arch arch, std::span<const u8> text);

// Compressed, and checked to reproduce `d`.
std::vector<u8> encode_listing(const Disassembly& d, std::span<const u8> text);
Disassembly decode_listing(std::span<const u8> listing, std::span<const u8> text); // throws std::runtime_error

void write_listings(const std::string& path, const std::map<ListingKey, std::vector<u8>>& listings);

// Searches the directories of GFXEMU_LISTINGS (colon list) and GFXEMU_CACHE, `listings` beside this library, and the
// added ones.
std::optional<Disassembly> find_listing(Arch arch, std::span<const u8> text);
void add_listings(const std::string& directory);

// Keeps what a disassembler printed in the directory of GFXEMU_CACHE, if set, where find_listing looks too.
void cache_listing(Arch arch, std::span<const u8> text, const Disassembly& d);

} // namespace gfxemu
