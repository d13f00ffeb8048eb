#include "core/disassembly.h"
#include "core/listing.h"

#include <charconv>
#include <cstdlib>
#include <unistd.h>

namespace gfxemu {
namespace {

std::vector<std::string> path_directories() {
    std::vector<std::string> out;
    const char* path = std::getenv("PATH");
    std::string s = path ? path : "";
    for (size_t at = 0; at < s.size();) {
        size_t end = std::min(s.find(':', at), s.size());
        if (end > at) out.push_back(s.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

std::string find_objdump() {
    const char* chosen = std::getenv("GFXEMU_OBJDUMP");
    std::vector<std::string> candidates;
    if (chosen && *chosen) {
        candidates.push_back(chosen);
    } else {
        auto dirs = path_directories();
        for (int version = 30; version >= 19; version--) {
            for (auto& d : dirs) candidates.push_back(d + "/llvm-objdump-" + std::to_string(version));
            candidates.push_back("/usr/lib/llvm-" + std::to_string(version) + "/bin/llvm-objdump");
        }
        for (auto& d : dirs) candidates.push_back(d + "/llvm-objdump");
        const char* rocm = std::getenv("ROCM_PATH");
        candidates.push_back(std::string(rocm && *rocm ? rocm : "/opt/rocm") + "/llvm/bin/llvm-objdump");
    }
    for (auto& c : candidates)
        if (access(c.c_str(), X_OK) == 0) return c;
    throw std::runtime_error(
        std::string("gfxemu: there is no disassembly listing for this code object (see GFXEMU_LISTINGS) and ") +
        (chosen && *chosen ? "GFXEMU_OBJDUMP=" + std::string(chosen) + " cannot be run"
                           : "no llvm-objdump (19 or newer) was found (set GFXEMU_OBJDUMP)"));
}

class TemporaryFile {
public:
    explicit TemporaryFile(const std::vector<u8>& bytes) {
        const char* dir = std::getenv("TMPDIR");
        path = std::string(dir && *dir ? dir : "/tmp") + "/gfxemu-XXXXXX";
        int fd = mkstemp(path.data());
        if (fd < 0) throw std::runtime_error("gfxemu: cannot create a temporary file");
        for (size_t done = 0; done < bytes.size();) {
            ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
            if (n <= 0) break;
            done += (size_t)n;
        }
        close(fd);
    }
    ~TemporaryFile() { unlink(path.c_str()); }
    std::string path;
};

std::string_view trim(std::string_view s) {
    size_t begin = s.find_first_not_of(" \t\n");
    if (begin == s.npos) return {};
    return s.substr(begin, s.find_last_not_of(" \t\n") - begin + 1);
}

// One line of objdump: "\tTEXT // ADDRESS: WORD WORD..."; a branch adds <symbol+offset>.
bool parse_line(std::string_view line, u64& address, size_t& words, std::string_view& text) {
    if (line.empty() || (line[0] != '\t' && line[0] != ' ')) return false;
    size_t comment = line.rfind("// ");
    if (comment == line.npos) return false;
    text = trim(line.substr(0, comment));
    std::string_view rest = line.substr(comment + 3);
    auto r = std::from_chars(rest.data(), rest.data() + rest.size(), address, 16);
    if (text.empty() || r.ec != std::errc() || *r.ptr != ':') return false;
    rest.remove_prefix((size_t)(r.ptr - rest.data()) + 1);
    words = 0;
    for (size_t k = 0; k < rest.size(); words++) {
        while (k < rest.size() && rest[k] == ' ') k++;
        size_t end = k;
        while (end < rest.size() && isxdigit((unsigned char)rest[end])) end++;
        if (end - k != 8) break;
        k = end;
    }
    return words > 0;
}

} // namespace

Disassembly run_objdump(Arch arch, const std::vector<u8>& elf, u64 text_address, size_t text_size) {
    std::string program = find_objdump();
    TemporaryFile file(elf);
    // Without real-true16 the disassembler rejects 16-bit operands in the high halves of registers, which some
    // compilers emit. Runs of zeroes are instructions too.
    std::string command = program +
                          " -d --disassemble-zeroes --no-show-raw-insn --section=.text --mcpu=" + arch_name(arch) +
                          (arch == Arch::gfx1200 ? " --mattr=+real-true16 " : " ") + file.path + " 2>/dev/null";
    FILE* pipe = popen(command.c_str(), "r");
    if (!pipe) throw std::runtime_error("gfxemu: cannot run " + command);
    Disassembly out(text_size / 4);
    char* line = nullptr;
    size_t capacity = 0;
    for (ssize_t n; (n = getline(&line, &capacity, pipe)) > 0;) {
        u64 address;
        size_t words;
        std::string_view text;
        if (!parse_line({line, (size_t)n}, address, words, text)) continue;
        if (address < text_address || address - text_address + words * 4 > text_size) continue;
        out.lines.emplace_back(text);
        out.put((address - text_address) / 4, words, (u32)out.lines.size() - 1);
    }
    free(line);
    if (pclose(pipe) != 0 || out.lines.empty()) throw std::runtime_error("gfxemu: disassembly failed: " + command);
    return out;
}

void CodeObject::Impl::disassemble() {
    std::span<const u8> text(elf.data() + text_offset, text_hi - text_lo);
    auto listed = find_listing(arch, text);
    Disassembly d = listed ? std::move(*listed) : run_objdump(arch, elf, text_lo, text.size());
    if (!listed) cache_listing(arch, text, d);
    lines = std::move(d.lines);
    line_of = std::move(d.line_of);
    words_of = std::move(d.words_of);
    code.reset(new std::atomic<Inst*>[line_of.size()]());
}

} // namespace gfxemu
