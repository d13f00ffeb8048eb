// gfxemu-coverage: which instructions of the given files the emulator executes, and which of them a test exercises.
//   gfxemu-coverage [--tested DIRECTORY] [--require-tested] FILE...
// FILE: an object or shared library with device code, an offload bundle, or a bare code object. DIRECTORY: what the
// emulator's tests wrote with GFXEMU_TESTED=DIRECTORY (PROGRAM.TARGET.txt, one mnemonic a line).
// Fails where an instruction is not implemented; with --require-tested also where no test exercises it.
#include "core/bundle.h"
#include "core/internal.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

using namespace gfxemu;

namespace {

struct Use {
    u64 count = 0;
    bool implemented = true;
    std::string example;
};
using Uses = std::map<Arch, std::map<std::string, Use>>; // by instruction set and mnemonic

// What the emulator may meet without executing anything that a test could compare: padding, the wave's end, scheduling
// and waiting.
bool needs_no_test(const Inst& i) { return i.cls == Cls::waitcnt || i.cls == Cls::other || i.mn == "s_endpgm"; }
bool is_padding(const std::string& mnemonic) {
    return mnemonic == "v_illegal" || mnemonic == ".long" || mnemonic == "s_code_end";
}

void read_code(CodeObject& code, Uses& uses, std::set<std::string>& no_test) {
    CodeObject::Impl& image = *code.impl;
    image.disassemble();
    for (size_t word = 0; word < image.line_of.size(); word++) {
        if (!image.line_of[word]) continue;
        const Inst* whole = image.decode((u64)image.base + image.text_lo + word * 4);
        for (const Inst* i = whole; i; i = i->dual.get()) {
            std::string name = i->mn == "?" ? i->text.substr(0, i->text.find(' ')) : i->mn;
            if (is_padding(name)) continue;
            Use& use = uses[image.arch][name];
            use.count++;
            if (whole->unsupported) use.implemented = false;
            if (use.example.empty()) use.example = whole->text;
            if (needs_no_test(*i)) no_test.insert(name);
        }
    }
}

void read_file(const std::string& path, Uses& uses, std::set<std::string>& no_test) {
    std::ifstream f(path, std::ios::binary);
    if (!f) throw std::runtime_error("cannot read it");
    std::vector<u8> bytes((std::istreambuf_iterator<char>(f)), {});
    for (auto& image : images_of_file(bytes))
        if (image.target) read_code(*CodeObject::load(image.data, image.size), uses, no_test);
}

// The mnemonics that tests exercised on a target.
std::set<std::string> tested_on(const std::string& directory, const std::string& target) {
    std::set<std::string> out;
    std::error_code ignored;
    for (auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
        std::string name = entry.path().filename().string(), suffix = "." + target + ".txt";
        if (name.size() <= suffix.size() || name.compare(name.size() - suffix.size(), suffix.size(), suffix)) continue;
        std::ifstream f(entry.path());
        for (std::string line; std::getline(f, line);) out.insert(line);
    }
    return out;
}

void print_list(const char* title, const std::vector<std::string>& names) {
    if (names.empty()) return;
    std::printf("  %s:", title);
    size_t column = 200;
    for (auto& n : names) {
        if (column + n.size() > 116) {
            std::printf("\n   ");
            column = 3;
        }
        std::printf(" %s", n.c_str());
        column += n.size() + 1;
    }
    std::printf("\n");
}

} // namespace

int main(int argc, char** argv) {
    std::string directory;
    bool require_tested = false, failed = false;
    Uses uses;
    std::set<std::string> no_test;
    for (int k = 1; k < argc; k++) {
        std::string a = argv[k];
        if (a == "--tested" && k + 1 < argc) {
            directory = argv[++k];
        } else if (a == "--require-tested") {
            require_tested = true;
        } else {
            try {
                read_file(a, uses, no_test);
            } catch (const std::exception& e) {
                std::fprintf(stderr, "gfxemu-coverage: %s: %s\n", a.c_str(), e.what());
                failed = true;
            }
        }
    }
    if (uses.empty()) {
        std::fprintf(stderr, "usage: gfxemu-coverage [--tested DIRECTORY] [--require-tested] FILE...\n");
        return 2;
    }
    for (auto& [arch, mnemonics] : uses) {
        auto known = directory.empty() ? std::set<std::string>() : tested_on(directory, arch_name(arch));
        if (require_tested && known.empty()) {
            std::printf("%s: no list of tested instructions in '%s'\n", arch_name(arch), directory.c_str());
            failed = true;
        }
        u64 instructions = 0;
        std::vector<std::string> missing, tested, untested;
        for (auto& [name, use] : mnemonics) {
            instructions += use.count;
            if (!use.implemented)
                missing.push_back(name + " (" + use.example + ")");
            else if (known.count(name) || no_test.count(name))
                tested.push_back(name);
            else
                untested.push_back(name);
        }
        std::printf("%s: %llu instructions, %zu mnemonics: %zu tested, %zu untested, %zu not implemented\n",
            arch_name(arch), (unsigned long long)instructions, mnemonics.size(), tested.size(), untested.size(),
            missing.size());
        print_list("not implemented", missing);
        print_list("untested", untested);
        failed |= !missing.empty() || (require_tested && !untested.empty());
    }
    return failed;
}
