// Every instruction by itself: runs the cases of instruction_cases.h on random and extreme inputs.
//   gfxemu_instruction_test TARGET [NAME | --mutate]      GFXEMU_CLANG: the compiler; GFXEMU_TESTED=DIR: notes what ran
// --mutate: every expectation slightly wrong; each case must fail.
#include "instruction_cases.h"
#include "test_support.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>

using namespace gfxemu;
using namespace instruction_test;

namespace {

std::string replaced(std::string s, const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = s.find(from, at)) != s.npos; at += to.size()) s.replace(at, from.size(), to);
    return s;
}

bool has_target(const Case& c, const std::string& target) {
    if (c.targets == "*") return true;
    std::string family = target == "gfx1200" ? "gfx12" : target == "gfx1030" ? "gfx10" : "gfx9";
    for (auto& t : {target, family})
        if ((" " + c.targets + " ").find(" " + t + " ") != std::string::npos) return true;
    return false;
}

// The inline assembly of a case for a target.
std::string assembly(const Case& c, const std::string& target) {
    std::vector<std::string> texts;
    for (size_t at = 0; at <= c.text.size();) {
        size_t end = std::min(c.text.find(" / ", at), c.text.size());
        texts.push_back(c.text.substr(at, end - at));
        at = end + 3;
    }
    bool wave32 = target == "gfx1030" || target == "gfx1200";
    size_t family = target == "gfx1200" ? 2 : target == "gfx1030" ? 1 : 0;
    const std::string& s = texts.size() == 1 ? texts[0] : texts.at(family);
    std::string out;
    // Operands are single capital letters.
    for (size_t k = 0; k < s.size(); ++k) {
        bool alone =
            (k == 0 || !isalnum((unsigned char)s[k - 1])) && (k + 1 == s.size() || !isalnum((unsigned char)s[k + 1]));
        size_t operand = std::string("DFABC").find(s[k]);
        if (alone && operand != std::string::npos)
            out += "%" + std::to_string(operand);
        else if (s[k] == '\n')
            out += "\\n";
        else
            out += s[k];
    }
    return replaced(out, "VCC", wave32 ? "vcc_lo" : "vcc");
}

// d, flag: in and out. The carry comes as VCC or SCC and goes back the same way.
std::string kernel(const Case& c, const std::string& target, size_t index) {
    auto type = [&](size_t k) { return k < c.types.size() && c.types[k] == 'U' ? "u64" : "u32"; };
    std::string reg = c.scalar ? "s" : "v", vcc = target == "gfx1030" || target == "gfx1200" ? "vcc_lo" : "vcc";
    std::string n = std::to_string(index), body = assembly(c, target);
    std::string item = c.scalar ? "BX" : "GID";
    std::string s = "KERNEL k" + n + "(const u64* in, u64* out) { int t = " + item + ";\n";
    s += "  u64 A = in[5 * t], B = in[5 * t + 1], C = in[5 * t + 2], D = in[5 * t + 3]; u32 f = (u32)in[5 * t + 4];\n";
    for (size_t k = 1; k < 4; ++k)
        s += std::string("  ") + type(k) + " " + char('a' + k - 1) + " = (" + type(k) + ")" + char('A' + k - 1) + ";";
    s += std::string(" ") + type(0) + " d = (" + type(0) + ")D;\n";
    std::string before = c.scalar ? "s_cmp_lg_u32 %1, 0" : "v_cmp_ne_u32 " + vcc + ", 0, %1";
    std::string after = c.scalar ? "s_cselect_b32 %1, 1, 0" : "v_cndmask_b32 %1, 0, 1, " + vcc;
    s += "  asm volatile(\"" + before + "\\n " + body + "\\n " + after + "\" : \"+&" + reg + "\"(d), \"+&" + reg +
         "\"(f) : ";
    for (const char* v : {"a", "b", "c"}) s += std::string(v[0] == 'a' ? "" : ", ") + "\"" + reg + "\"(" + v + ")";
    s += " : \"vcc\", \"scc\", \"s30\", \"s31\"" +
         std::string(target == "gfx942" || target == "gfx950" ? ", \"a0\"" : "") + ");\n";
    return s + "  if (" + (c.scalar ? "TX == 0" : "true") + ") { out[2 * t] = d; out[2 * t + 1] = f; } }\n";
}

// Extreme values in every combination that fits, then random ones; some small, some floats of ordinary size.
std::vector<In> make_inputs(size_t count, bool ordinary) {
    static const u64 extreme[] = {0, 1, 2, 31, 0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000, 0xbf800000, 0x7f800000,
        0xff800000, 0x7fc00000, 0x00000001, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3c003c00, 0x8000000000000000,
        0xffffffffffffffff, 0x7fffffffffffffff, 0x3ff0000000000000, 0x100000000};
    std::mt19937_64 rng(7);
    std::vector<In> out;
    for (size_t k = 0; k < count; ++k) {
        auto value = [&]() -> u64 {
            u64 kind = rng() % 4;
            if (ordinary) { // normal floats, and halves of one sign
                float f = std::ldexp(1.0f + float(rng() % 8388608) / 8388608.0f, int(rng() % 12) - 6);
                return bits(f) & 0x7fff7fff;
            }
            if (kind == 0) return extreme[rng() % std::size(extreme)];
            if (kind == 1) return rng() % 64;
            if (kind == 2) return bits(float(i64(rng() % 2000001) - 1000000) / 1024.0f) | u64(rng()) << 32;
            return rng();
        };
        In x;
        x.a = value(), x.b = value(), x.c = value(), x.d = value();
        x.carry = rng() & 1;
        out.push_back(x);
    }
    return out;
}

bool same_float(float got, float want) { return (std::isnan(got) && std::isnan(want)) || got == want; }
bool same_half(u32 got, u32 want) {
    bool nan_got = (got & 0x7fff) > 0x7c00, nan_want = (want & 0x7fff) > 0x7c00;
    return got == want || (nan_got && nan_want) || ((got & 0x7fff) > 0x7f80 && (want & 0x7fff) > 0x7f80);
}
bool agrees(const Case& c, u64 got, u64 want) {
    switch (c.compare) {
    case Compare::exact: return c.types[0] == 'U' ? got == want : u32(got) == u32(want);
    case Compare::low16: return u16(got) == u16(want);
    case Compare::f32: return same_float(as_float(u32(got)), as_float(u32(want)));
    case Compare::f64:
        return (std::isnan(as_double(got)) && std::isnan(as_double(want))) || as_double(got) == as_double(want);
    case Compare::f32_pair:
        return same_float(as_float(u32(got)), as_float(u32(want))) &&
               same_float(as_float(u32(got >> 32)), as_float(u32(want >> 32)));
    case Compare::f16: {
        bool packed = c.name.find("pk") != std::string::npos;
        return same_half(got & 0xffff, want & 0xffff) &&
               (!packed || same_half(got >> 16 & 0xffff, want >> 16 & 0xffff));
    }
    case Compare::approx: {
        float g = as_float(u32(got)), w = as_float(u32(want));
        return same_float(g, w) || std::fabs(g - w) <= std::ldexp(std::fabs(w), -22);
    }
    }
    return false;
}

// The first disagreement, or nothing.
// `mutate`: expects something slightly wrong, to show that the case can fail.
std::string run_case(const Case& c, CodeObject& code, size_t index, bool mutate, Counters& total) {
    size_t count = c.scalar ? 96 : 512;
    auto inputs = make_inputs(count, c.compare == Compare::approx);
    Buf<u64> in(count * 5), out(count * 2);
    for (size_t t = 0; t < count; ++t) {
        const In& x = inputs[t];
        const u64 row[] = {x.a, x.b, x.c, x.d, x.carry};
        std::copy(row, row + 5, in.p() + 5 * t);
    }
    Args args;
    args << in.p() << out.p();
    total.add(run_kernel(code, "k" + std::to_string(index), {u32(c.scalar ? count : count / 64), 1, 1},
        {c.scalar ? 1u : 64u, 1, 1}, args));
    for (size_t t = 0; t < count; ++t) {
        Out want = c.expect(inputs[t]);
        if (mutate) want.value ^= c.compare == Compare::approx ? 1 << 20 : 1;
        u64 got = out[2 * t];
        int flag = int(out[2 * t + 1]);
        if (agrees(c, got, want.value) && (want.flag < 0 || flag == want.flag)) continue;
        char text[256];
        std::snprintf(text, sizeof text,
            "a %llx b %llx c %llx d %llx carry %d: got %llx flag %d, expected %llx flag %d",
            (unsigned long long)inputs[t].a, (unsigned long long)inputs[t].b, (unsigned long long)inputs[t].c,
            (unsigned long long)inputs[t].d, inputs[t].carry, (unsigned long long)got, flag,
            (unsigned long long)want.value, want.flag);
        return text;
    }
    return "";
}

} // namespace

int main(int argc, char** argv) {
    std::string target = argc > 1 ? argv[1] : "gfx1030", only = argc > 2 ? argv[2] : "";
    bool mutate = only == "--mutate";
    if (mutate) only.clear();
    std::vector<Case> cases, chosen;
    add_vector_integer(cases);
    add_vector_float(cases);
    add_vector_compare(cases);
    add_scalar(cases);
    for (auto& c : cases)
        if (has_target(c, target) && (only.empty() || c.name == only)) chosen.push_back(c);
    std::string source;
    for (size_t k = 0; k < chosen.size(); ++k) source += kernel(chosen[k], target, k);
    TestDirectory directory;
    auto code = build_kernels(directory.path, target, "instructions", source);
    Counters total;
    std::set<std::string> names;
    int failures = 0;
    for (size_t k = 0; k < chosen.size(); ++k) {
        std::string problem;
        try {
            problem = run_case(chosen[k], *code, k, mutate, total);
        } catch (const std::exception& e) {
            problem = e.what();
        }
        if (problem.empty() && !total.by_mnemonic.count(chosen[k].name)) problem = "another instruction ran";
        names.insert(chosen[k].name);
        if (mutate) problem = problem.empty() ? "a wrong expectation went unnoticed" : "";
        if (problem.empty()) continue;
        ++failures;
        std::printf("%s %s: FAILED: %s\n", target.c_str(), chosen[k].name.c_str(), problem.c_str());
    }
    if (!mutate) note_tested("instructions", target, names);
    std::printf(
        "%s: %zu instructions, %zu cases, %d failures\n", target.c_str(), names.size(), chosen.size(), failures);
    return failures != 0 || chosen.empty();
}
