#include "core/bundle.h"
#include "core/compression.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace gfxemu {
namespace {

constexpr unsigned EM_AMDGPU_ = 224;
constexpr char bundle_magic[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr char compressed_magic[] = "CCOB";

bool is_elf(const uint8_t* p) { return std::memcmp(p, ELFMAG, SELFMAG) == 0; }
bool is_bundle(const uint8_t* p) { return std::memcmp(p, bundle_magic, 24) == 0; }
bool is_compressed(const uint8_t* p) { return std::memcmp(p, compressed_magic, 4) == 0; }

template <class T> T take(const uint8_t*& p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    p += sizeof v;
    return v;
}

size_t elf_size(const uint8_t* p) {
    auto* header = reinterpret_cast<const Elf64_Ehdr*>(p);
    size_t n = header->e_shoff + size_t(header->e_shnum) * header->e_shentsize;
    n = std::max<size_t>(n, header->e_phoff + size_t(header->e_phnum) * header->e_phentsize);
    for (unsigned i = 0; i < header->e_phnum; ++i) {
        auto* segment = reinterpret_cast<const Elf64_Phdr*>(p + header->e_phoff + i * header->e_phentsize);
        n = std::max<size_t>(n, segment->p_offset + segment->p_filesz);
    }
    for (unsigned i = 0; i < header->e_shnum; ++i) {
        auto* section = reinterpret_cast<const Elf64_Shdr*>(p + header->e_shoff + i * header->e_shentsize);
        if (section->sh_type != SHT_NOBITS) n = std::max<size_t>(n, section->sh_offset + section->sh_size);
    }
    return n;
}

bool is_amdgpu(const uint8_t* elf) { return reinterpret_cast<const Elf64_Ehdr*>(elf)->e_machine == EM_AMDGPU_; }

Image elf_image(const uint8_t* elf, size_t size, std::string triple) {
    unsigned flags = reinterpret_cast<const Elf64_Ehdr*>(elf)->e_flags;
    Image image;
    image.data = elf;
    image.size = size;
    image.target = target_of_mach(flags & 0xff);
    image.xnack = flags >> 8 & 3;
    image.sramecc = flags >> 10 & 3;
    image.triple = !triple.empty() ? triple : image.target ? image.target->name : "an unknown target";
    return image;
}

// Compressed bundle: magic, version, method (0 zlib, 1 zstd), sizes (of the file since version 2), hash, data.
struct CompressedHeader {
    unsigned version, method;
    uint64_t file_size = 0, size;
    const uint8_t* payload;
};
CompressedHeader compressed_header(const uint8_t* p) {
    const uint8_t* at = p + 4;
    CompressedHeader h;
    h.version = take<uint16_t>(at);
    h.method = take<uint16_t>(at);
    if (h.version >= 3) {
        h.file_size = take<uint64_t>(at);
        h.size = take<uint64_t>(at);
    } else if (h.version == 2) {
        h.file_size = take<uint32_t>(at);
        h.size = take<uint32_t>(at);
    } else {
        h.size = take<uint32_t>(at);
    }
    h.payload = at + 8; // the hash
    return h;
}
std::shared_ptr<Bytes> decompress(const uint8_t* p) {
    CompressedHeader h = compressed_header(p);
    size_t header = size_t(h.payload - p), limit = h.size + (h.size >> 4) + 4096;
    if (h.method == 1)
        return std::make_shared<Bytes>(
            zstd_decompress(h.payload, h.file_size ? h.file_size - header : 0, limit, h.size));
    if (h.method == 0)
        return std::make_shared<Bytes>(zlib_decompress(h.payload, h.file_size ? h.file_size - header : limit, h.size));
    throw std::runtime_error("gfxemu: compressed bundle with an unknown method");
}

// Entries of a plain bundle; `end` receives the end of the last one.
std::vector<Image> bundle_images(const uint8_t* base, const std::shared_ptr<Bytes>& owner, uint64_t* end = nullptr) {
    std::vector<Image> out;
    const uint8_t* p = base + 24;
    uint64_t last = 0;
    for (uint64_t count = take<uint64_t>(p); count--;) {
        uint64_t offset = take<uint64_t>(p), size = take<uint64_t>(p), length = take<uint64_t>(p);
        std::string triple(reinterpret_cast<const char*>(p), length);
        p += length;
        last = std::max(last, offset + size);
        if (triple.rfind("hip", 0) != 0) continue;
        if (size < sizeof(Elf64_Ehdr) || !is_elf(base + offset) || !is_amdgpu(base + offset)) continue;
        size_t dash = triple.find("--");
        out.push_back(elf_image(base + offset, size, dash == std::string::npos ? triple : triple.substr(dash + 2)));
        out.back().owner = owner;
    }
    if (end) *end = last;
    return out;
}

} // namespace

std::vector<Image> images_at(const void* data) {
    auto* p = static_cast<const uint8_t*>(data);
    if (is_compressed(p)) {
        auto owner = decompress(p);
        if (owner->size() < 32 || !is_bundle(owner->data())) throw std::runtime_error("gfxemu: not an offload bundle");
        return bundle_images(owner->data(), owner);
    }
    if (is_bundle(p)) return bundle_images(p, nullptr);
    if (!is_elf(p) || !is_amdgpu(p)) throw std::runtime_error("gfxemu: not an AMDGPU code object");
    return {elf_image(p, elf_size(p), "")};
}

std::vector<Image> images_of_file(const std::vector<uint8_t>& bytes) {
    if (bytes.size() < 64) throw std::runtime_error("gfxemu: not a code object");
    if (!is_elf(bytes.data()) || is_amdgpu(bytes.data())) return images_at(bytes.data());
    auto* header = reinterpret_cast<const Elf64_Ehdr*>(bytes.data());
    auto section = [&](unsigned i) {
        return reinterpret_cast<const Elf64_Shdr*>(bytes.data() + header->e_shoff + i * header->e_shentsize);
    };
    std::vector<Image> out;
    const char* names = reinterpret_cast<const char*>(bytes.data()) + section(header->e_shstrndx)->sh_offset;
    for (unsigned i = 0; i < header->e_shnum; ++i) {
        if (std::strcmp(names + section(i)->sh_name, ".hip_fatbin") != 0) continue;
        // A linked program holds a bundle for each translation unit, padded to pages.
        const uint8_t* p = bytes.data() + section(i)->sh_offset;
        const uint8_t* end = p + section(i)->sh_size;
        while (end - p > 32) {
            uint64_t size = 0;
            std::vector<Image> found;
            if (is_compressed(p)) {
                found = images_at(p);
                size = compressed_header(p).file_size;
            } else if (is_bundle(p)) {
                found = bundle_images(p, nullptr, &size);
            }
            out.insert(out.end(), found.begin(), found.end());
            p += std::max<uint64_t>(size & ~7ull, 8);
        }
    }
    if (out.empty()) throw std::runtime_error("gfxemu: no .hip_fatbin section with AMDGPU code");
    return out;
}

} // namespace gfxemu
