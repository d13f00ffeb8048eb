#include "core/listing.h"
#include "core/compression.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>

namespace gfxemu {
namespace {

constexpr char magic[8] = {'G', 'F', 'X', 'L', 'S', 'T', '0', '1'};

// In a file: magic, number of entries, entries, then the listings.
struct Entry {
    char arch[8] = {};
    u64 size = 0, hash[2] = {0, 0}, offset = 0, length = 0;
};

// A listing: header, words of each entry, lines joined by newlines. `distinct`: one entry for each distinct encoding,
// else one for each instruction.
struct Header {
    u32 entries = 0, distinct = 0;
    u64 payload = 0; // bytes before compression, without this header
};

std::string_view encoding(std::span<const u8> text, size_t word, size_t words) {
    return {(const char*)text.data() + word * 4, words * 4};
}
using Known = std::unordered_map<std::string_view, u32>; // encoding to line

// The line of a known encoding that begins at `word`. No encoding is a prefix of another one.
const std::pair<const std::string_view, u32>* match(const Known& known, std::span<const u8> text, size_t word) {
    size_t left = text.size() / 4 - word;
    for (size_t words = 1; words <= std::min<size_t>(left, 8); words++)
        if (auto it = known.find(encoding(text, word, words)); it != known.end()) return &*it;
    return nullptr;
}

Bytes pack(const Disassembly& d, std::span<const u8> text, bool distinct) {
    std::string words, lines;
    Known known;
    for (size_t at = 0; at < d.line_of.size(); at += std::max<size_t>(d.words_of[at], 1)) {
        size_t n = std::max<size_t>(d.words_of[at], 1);
        if (distinct && !known.emplace(encoding(text, at, n), 0).second) continue;
        words += char(n);
        if (d.line_of[at]) lines += d.lines[d.line_of[at] - 1];
        lines += '\n';
    }
    Header h{(u32)words.size(), distinct, words.size() + lines.size()};
    std::string payload = words + lines;
    Bytes packed = zlib_compress(payload.data(), payload.size());
    Bytes out(sizeof h + packed.size());
    std::memcpy(out.data(), &h, sizeof h);
    std::copy(packed.begin(), packed.end(), out.begin() + sizeof h);
    return out;
}

bool same(const Disassembly& a, const Disassembly& b) {
    if (a.words_of != b.words_of) return false;
    for (size_t k = 0; k < a.line_of.size(); k++) {
        if (!a.line_of[k] != !b.line_of[k]) return false;
        if (a.line_of[k] && a.lines[a.line_of[k] - 1] != b.lines[b.line_of[k] - 1]) return false;
    }
    return true;
}

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

std::vector<u8> encode_listing(const Disassembly& d, std::span<const u8> text) {
    for (bool distinct : {true, false}) {
        Bytes out = pack(d, text, distinct);
        try {
            if (same(d, decode_listing(out, text))) return out;
        } catch (const std::runtime_error&) { // not prefix-free: name every instruction
        }
    }
    throw std::runtime_error("gfxemu: a listing does not reproduce the disassembly");
}

Disassembly decode_listing(std::span<const u8> listing, std::span<const u8> text) {
    auto corrupt = [] { throw std::runtime_error("gfxemu: corrupt listing"); };
    Header h;
    if (listing.size() < sizeof h) corrupt();
    std::memcpy(&h, listing.data(), sizeof h);
    Bytes payload = zlib_decompress(listing.data() + sizeof h, listing.size() - sizeof h, h.payload);
    if (payload.size() < h.entries) corrupt();
    Disassembly d(text.size() / 4);
    const u8* words = payload.data();
    const char* line = (const char*)payload.data() + h.entries;
    const char* end = (const char*)payload.data() + payload.size();
    Known known;
    u32 next = 0;
    for (size_t at = 0; at < d.line_of.size();) {
        auto* old = h.distinct ? match(known, text, at) : nullptr;
        size_t n = old ? old->first.size() / 4 : 0;
        u32 index = old ? old->second : (u32)d.lines.size();
        if (!old) {
            if (next == h.entries) corrupt();
            n = words[next++];
            const char* stop = std::find(line, end, '\n');
            if (!n || at + n > d.line_of.size() || stop == end) corrupt();
            d.lines.emplace_back(line, stop);
            line = stop + 1;
            if (h.distinct) known.emplace(encoding(text, at, n), index);
        }
        if (!d.lines[index].empty()) d.put(at, n, index);
        at += n;
    }
    if (next != h.entries) corrupt();
    return d;
}

void write_listings(const std::string& path, const std::map<ListingKey, std::vector<u8>>& listings) {
    std::string temporary = path + ".part";
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
