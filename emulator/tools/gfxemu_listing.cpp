// gfxemu-listing: writes the disassembly listings of code objects, so that running them needs no disassembler.
//   gfxemu-listing OUTPUT_DIRECTORY NAME FILE...      writes OUTPUT_DIRECTORY/NAME.gfxlst
// FILE: an object or shared library with device code, an offload bundle (compressed or not), or a bare code object.
// Code for targets that are not emulated is left out.
#include "core/bundle.h"
#include "core/listing.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace gfxemu;

static void add_file(const char* path, std::map<ListingKey, std::vector<u8>>& listings, size_t& code_bytes) {
    std::ifstream f(path, std::ios::binary);
    if (!f) throw std::runtime_error("cannot read it");
    std::vector<u8> bytes((std::istreambuf_iterator<char>(f)), {});
    for (auto& image : images_of_file(bytes)) {
        if (!image.target) continue;
        // A code object of the generic target of gfx942 and gfx950 may run on either.
        std::vector<Arch> archs = {image.target->isa};
        for (auto& t : targets())
            if (t.generic_mach == image.target->mach && t.isa != archs[0]) archs.push_back(t.isa);
        for (Arch arch : archs) {
            auto code = CodeObject::load(image.data, image.size, arch);
            auto& impl = *code->impl;
            std::span<const u8> text(impl.elf.data() + impl.text_offset, impl.text_hi - impl.text_lo);
            if (text.empty()) continue;
            auto [it, added] = listings.try_emplace(listing_key(arch, text));
            if (!added) continue;
            it->second = encode_listing(run_objdump(arch, impl.elf, impl.text_lo, text.size()), text);
            code_bytes += text.size();
        }
    }
}

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: gfxemu-listing OUTPUT_DIRECTORY NAME FILE...\n");
        return 2;
    }
    std::map<ListingKey, std::vector<u8>> listings;
    size_t code_bytes = 0, listing_bytes = 0;
    for (int k = 3; k < argc; k++) {
        try {
            add_file(argv[k], listings, code_bytes);
        } catch (const std::exception& e) {
            std::fprintf(stderr, "gfxemu-listing: %s: %s\n", argv[k], e.what());
            return 1;
        }
    }
    std::string path = std::string(argv[1]) + "/" + argv[2] + ".gfxlst";
    try {
        std::filesystem::create_directories(argv[1]);
        write_listings(path, listings);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "gfxemu-listing: %s\n", e.what());
        return 1;
    }
    for (auto& [key, bytes] : listings) listing_bytes += bytes.size();
    std::printf("%s: %zu code objects, %.1f KB of code, %.1f KB of listings (%.0f KB per MB)\n", path.c_str(),
        listings.size(), double(code_bytes) / 1024, double(listing_bytes) / 1024,
        code_bytes ? double(listing_bytes) * 1024 / double(code_bytes) : 0.0);
}
