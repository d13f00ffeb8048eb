#include "core/listing.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace gfxemu {
namespace {

constexpr char magic[8] = {'G', 'F', 'X', 'L', 'S', 'T', '0', '1'};

// In a file: magic, number of entries, entries, then the listings.
struct Entry {
    char arch[8] = {};
    u64 size = 0, hash[2] = {0, 0}, offset = 0, length = 0;
};

} // namespace

ListingKey listing_key(Arch arch, std::span<const u8> text) {
    ListingKey key{arch, text.size(), {0x243f6a8885a308d3ull, 0x13198a2e03707344ull}}; // digits of pi
    auto mix = [](u64 h, u64 v, u64 factor) {
        h = (h ^ v) * factor;
        return h ^ h >> 29;
    };
    for (size_t at = 0; at < text.size(); at += 8) {
        u64 v = 0;
        std::memcpy(&v, text.data() + at, std::min<size_t>(8, text.size() - at));
        key.hash[0] = mix(key.hash[0], v, 0x9e3779b97f4a7c15ull);
        key.hash[1] = mix(std::rotl(key.hash[1], 23), v, 0xd1342543de82ef95ull);
    }
    return key;
}

void write_listings(const std::string& path, const std::map<ListingKey, std::vector<u8>>& listings) {
    std::string temporary = path + "." + std::to_string(getpid());
    std::ofstream f(temporary, std::ios::binary);
    u64 count = listings.size(), offset = sizeof magic + 8 + count * sizeof(Entry);
    f.write(magic, sizeof magic).write((const char*)&count, 8);
    for (auto& [key, bytes] : listings) {
        Entry e;
        std::snprintf(e.arch, sizeof e.arch, "%s", arch_name(key.arch));
        e.size = key.size;
        std::copy(key.hash, key.hash + 2, e.hash);
        e.offset = offset;
        e.length = bytes.size();
        offset += bytes.size();
        f.write((const char*)&e, sizeof e);
    }
    for (auto& [key, bytes] : listings) f.write((const char*)bytes.data(), (std::streamsize)bytes.size());
    f.close();
    if (!f) throw std::runtime_error("gfxemu: cannot write " + temporary);
    std::filesystem::rename(temporary, path);
}

// ---------------------------------------------------------------- finding them
namespace {

std::string cache_directory() {
    const char* d = std::getenv("GFXEMU_CACHE");
    return d ? d : "";
}

struct Place {
    std::string file;
    u64 offset, length;
};

class Library {
public:
    void add(const std::string& directory) {
        std::lock_guard lock(mutex);
        read_directory(directory);
    }
    std::optional<Place> find(const ListingKey& key) {
        std::lock_guard lock(mutex);
        if (!searched) {
            searched = true;
            auto added = std::move(places); // the first directory to hold a listing wins
            places.clear();
            read_environment();
            places.merge(added);
        }
        auto it = places.find(key);
        return it == places.end() ? std::nullopt : std::optional(it->second);
    }

private:
    std::mutex mutex;
    std::map<ListingKey, Place> places;
    bool searched = false;

    void read_environment() {
        const char* list = std::getenv("GFXEMU_LISTINGS");
        std::string s = list ? list : "";
        for (size_t at = 0; at < s.size();) {
            size_t end = std::min(s.find(':', at), s.size());
            if (end > at) read_directory(s.substr(at, end - at));
            at = end + 1;
        }
        if (auto cache = cache_directory(); !cache.empty()) read_directory(cache);
        Dl_info info;
        if (dladdr((void*)&find_listing, &info) && info.dli_fname)
            read_directory(std::filesystem::path(info.dli_fname).parent_path() / "listings");
    }
    void read_directory(const std::filesystem::path& directory) {
        std::error_code ignored;
        std::vector<std::filesystem::path> files;
        for (auto& f : std::filesystem::directory_iterator(directory, ignored))
            if (f.path().extension() == ".gfxlst") files.push_back(f.path());
        std::sort(files.begin(), files.end());
        for (auto& f : files) read_index(f.string());
    }
    void read_index(const std::string& path) {
        std::ifstream f(path, std::ios::binary);
        char head[sizeof magic];
        u64 count = 0;
        if (!f.read(head, sizeof head) || std::memcmp(head, magic, sizeof magic) || !f.read((char*)&count, 8)) {
            std::fprintf(stderr, "gfxemu: %s is not a listing file of this version: ignored\n", path.c_str());
            return;
        }
        Entry e;
        for (u64 k = 0; k < count && f.read((char*)&e, sizeof e); k++) {
            ListingKey key{arch_from_name(std::string_view(e.arch, strnlen(e.arch, sizeof e.arch))), e.size,
                {e.hash[0], e.hash[1]}};
            places.emplace(key, Place{path, e.offset, e.length});
        }
    }
};

Library& library() {
    static auto* l = new Library;
    return *l;
}

} // namespace

void cache_listing(Arch arch, std::span<const u8> text, const Disassembly& d) {
    std::string directory = cache_directory();
    if (directory.empty()) return;
    try {
        ListingKey key = listing_key(arch, text);
        std::filesystem::create_directories(directory);
        std::string name = directory + "/" + arch_name(arch) + "-" + hex(key.hash[0]).substr(2) + ".gfxlst";
        write_listings(name, {{key, encode_listing(d, text)}});
    } catch (const std::exception& e) {
        std::fprintf(stderr, "gfxemu: GFXEMU_CACHE: %s\n", e.what());
    }
}

void add_listings(const std::string& directory) { library().add(directory); }

std::optional<Disassembly> find_listing(Arch arch, std::span<const u8> text) {
    auto place = library().find(listing_key(arch, text));
    if (!place) return std::nullopt;
    std::ifstream f(place->file, std::ios::binary);
    std::vector<u8> bytes(place->length);
    f.seekg((std::streamoff)place->offset).read((char*)bytes.data(), (std::streamsize)bytes.size());
    try {
        if (!f) throw std::runtime_error("gfxemu: cannot read it");
        return decode_listing(bytes, text);
    } catch (const std::runtime_error& e) {
        std::fprintf(stderr, "gfxemu: %s: %s: ignored\n", place->file.c_str(), e.what());
        return std::nullopt;
    }
}

} // namespace gfxemu
