// Where code objects come from: a bare ELF, an offload bundle (plain or compressed), a host object or shared library.
#pragma once
#include "core/target.h"

namespace gfxemu {

// One device image; `data` stays valid as long as `owner` and the memory it was found in.
struct Image {
    const uint8_t* data = nullptr;
    size_t size = 0;
    std::shared_ptr<std::vector<uint8_t>> owner; // decompressed bundle, if any
    const Target* target = nullptr;              // nullptr: not emulated
    unsigned xnack = 0, sramecc = 0;             // 0 unsupported, 1 any, 2 off, 3 on (the ELF header's flags)
    std::string triple;                          // as the bundle names it; the target's name for a bare ELF
};

// The AMDGPU images of a code object, bundle or compressed bundle at `data`; its size is found from its headers.
// Throws std::runtime_error where `data` is none of these.
std::vector<Image> images_at(const void* data);

// The AMDGPU images of a file's bytes: as above, or every bundle in the .hip_fatbin sections of a host ELF.
std::vector<Image> images_of_file(const std::vector<uint8_t>& bytes);

} // namespace gfxemu
