// Lists the instructions of code objects that the core cannot execute: coverage FILE... (counts by mnemonic).
#include "core/internal.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
using namespace gfxemu;
int main(int argc, char** argv) {
    std::map<std::string, std::pair<u64, std::string>> bad;
    u64 total = 0, nbad = 0;
    for (int k = 1; k < argc; k++) {
        std::ifstream f(argv[k], std::ios::binary);
        std::vector<char> b((std::istreambuf_iterator<char>(f)), {});
        std::shared_ptr<CodeObject> c;
        try {
            c = CodeObject::load(b.data(), b.size());
            c->impl->disassemble();
        } catch (const std::exception& e) {
            fprintf(stderr, "%s: %s\n", argv[k], e.what());
            continue;
        }
        auto& im = *c->impl;
        for (size_t w = 0; w < im.line_of.size(); w++)
            if (im.line_of[w]) {
                const Inst* i = im.decode((u64)im.base + im.text_lo + w * 4);
                total++;
                if (i->text.size() && i->text.back() == ']' && i->text.find("   [") != std::string::npos) {
                    nbad++;
                    auto& e = bad[std::string(arch_name(im.arch)) + " " + i->text.substr(0, i->text.find(' '))];
                    e.first++;
                    e.second = i->text;
                }
            }
    }
    std::vector<std::pair<u64, std::string>> v;
    for (auto& [m, e] : bad) v.push_back({e.first, m + "  e.g. " + e.second});
    std::sort(v.rbegin(), v.rend());
    for (auto& [n, s] : v) printf("%8lu %s\n", (unsigned long)n, s.c_str());
    printf("%lu instructions, %lu not executable\n", (unsigned long)total, (unsigned long)nbad);
}
