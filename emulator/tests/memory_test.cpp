// Every load and store by itself, in every address space: the bytes that it moves, the half that it leaves alone.
//   gfxemu_memory_test TARGET      GFXEMU_CLANG: the compiler; GFXEMU_TESTED=DIR: notes what ran
#include "test_support.h"

#include <algorithm>
#include <array>
#include <random>

using namespace gfxemu;
using u8 = uint8_t;
using u32 = uint32_t;
using u64 = uint64_t;

namespace {

// An element size under its names: up to gfx10 (global, LDS), and on gfx12.
struct Size {
    const char *old_name, *old_lds, *new_name;
    unsigned bytes;
    bool sign = false;
    int half = 0; // d16: 1 low, 2 high half of the register; the other one stays
};
const Size loads[] = {
    {"ubyte", "u8", "u8", 1},
    {"sbyte", "i8", "i8", 1, true},
    {"ushort", "u16", "u16", 2},
    {"sshort", "i16", "i16", 2, true},
    {"dword", "b32", "b32", 4},
    {"dwordx2", "b64", "b64", 8},
    {"dwordx3", "b96", "b96", 12},
    {"dwordx4", "b128", "b128", 16},
    {"ubyte_d16", "u8_d16", "d16_u8", 1, false, 1},
    {"ubyte_d16_hi", "u8_d16_hi", "d16_hi_u8", 1, false, 2},
    {"sbyte_d16", "i8_d16", "d16_i8", 1, true, 1},
    {"sbyte_d16_hi", "i8_d16_hi", "d16_hi_i8", 1, true, 2},
    {"short_d16", "u16_d16", "d16_b16", 2, false, 1},
    {"short_d16_hi", "u16_d16_hi", "d16_hi_b16", 2, false, 2},
};
const Size stores[] = {
    {"byte", "b8", "b8", 1},
    {"short", "b16", "b16", 2},
    {"dword", "b32", "b32", 4},
    {"dwordx2", "b64", "b64", 8},
    {"dwordx3", "b96", "b96", 12},
    {"dwordx4", "b128", "b128", 16},
    {"byte_d16_hi", "b8_d16_hi", "d16_hi_b8", 1, false, 2},
    {"short_d16_hi", "b16_d16_hi", "d16_hi_b16", 2, false, 2},
};

enum class Space { global, flat, buffer, lds };

struct Test {
    std::string name, kernel;
    Size size;
    bool store;
};

bool gfx12(const std::string& target) { return target == "gfx1200"; }
std::string wait(const std::string& target) {
    if (gfx12(target)) return "s_wait_loadcnt_dscnt 0\\n s_wait_storecnt 0";
    return target == "gfx1030" ? "s_waitcnt vmcnt(0) lgkmcnt(0)\\n s_waitcnt_vscnt null, 0"
                               : "s_waitcnt vmcnt(0) lgkmcnt(0)";
}

std::string mnemonic(const std::string& target, Space space, const Size& size, bool store) {
    std::string name = gfx12(target) ? size.new_name : space == Space::lds ? size.old_lds : size.old_name;
    if (space != Space::lds)
        return std::string(space == Space::flat     ? "flat"
                           : space == Space::buffer ? "buffer"
                                                    : "global") +
               (store ? "_store_" : "_load_") + name;
    if (gfx12(target) && size.half && !store) // ds_load_u8_d16_hi, as before
        name = size.old_lds;
    if (gfx12(target) && size.half && store) name = size.old_lds;
    return std::string("ds_") + (gfx12(target) ? store ? "store_" : "load_" : store ? "write_" : "read_") + name;
}

// Lane t: 16 bytes of `in` at 16 t go through the instruction to 16 bytes of `out`; `d` is what the register held.
Test make_test(const std::string& target, Space space, const Size& size, bool store, size_t index) {
    std::string name = mnemonic(target, space, size, store), words = std::to_string((size.bytes + 3) / 4);
    std::string data =
        size.bytes > 4 ? "typedef u32 V __attribute__((ext_vector_type(" + words + ")));" : "typedef u32 V;";
    std::string off = space == Space::global   ? ", off"
                      : space == Space::buffer ? gfx12(target) ? ", %2, null offen" : ", %2, 0 offen"
                                               : "";
    std::string text = name + " %0, %1" + off + " offset:16";
    std::string s = "KERNEL k" + std::to_string(index) + "(const u32* in, u32* out) { " + data + " int t = TX;\n";
    s += "  V d; __builtin_memcpy(&d, " + std::string(store ? "in + 4 * t" : "out + 4 * t") + ", sizeof d);\n";
    if (space == Space::lds) {
        s += "  LDS static u32 lds[64 * 4 + 4]; u32 a = (u32)(unsigned long)(__attribute__((address_space(3))) "
             "u32*)lds + 16 * t;\n";
        s += "  for (int k = 0; k < 4; ++k) lds[4 * t + 4 + k] = " + std::string(store ? "out" : "in") +
             "[4 * t + k];\n  SYNC();\n";
    } else if (space == Space::buffer) { // raw buffers: bounds in bytes
        const char* flags = target == "gfx942" || target == "gfx950" ? "0x00027000" : "0x31014000";
        s += std::string("  u64 base = (u64)") + (store ? "out" : "in") + " - 16; u32 a = 16 * t;\n";
        s += std::string("  u32x4 r = {(u32)base, (u32)(base >> 32) & 0xffff, 16 + 1024, ") + flags + "};\n";
    } else {
        s += std::string("  u64 a = (u64)(") + (store ? "out" : "in") + " + 4 * t) - 16;\n";
    }
    std::string resource = space == Space::buffer ? ", \"s\"(r)" : "";
    // A store names the address first, but to a buffer the data.
    std::string operands = store ? " : : \"v\"(a), \"v\"(d)" : " : \"+&v\"(d) : \"v\"(a)";
    if (store && space == Space::buffer) operands = " : : \"v\"(d), \"v\"(a)";
    operands += resource + " : \"memory\"";
    s += "  asm volatile(\"" + text + "\\n " + wait(target) + "\"" + operands + ");\n";
    if (store && space == Space::lds)
        s += "  for (int k = 0; k < 4; ++k) out[4 * t + k] = ((volatile LDS u32*)lds)[4 * t + 4 + k];\n";
    if (!store) s += "  __builtin_memcpy(out + 4 * t, &d, sizeof d);\n";
    return {name, s + "}\n", size, store};
}

// The same on the host: `data` is loaded or stored over `old`.
void expect(const Test& t, const u8* data, u8* old) {
    const Size& z = t.size;
    if (t.store) {
        std::memcpy(old, data + (z.half == 2 ? 2 : 0), z.bytes);
        return;
    }
    if (z.bytes >= 4) {
        std::memcpy(old, data, z.bytes);
        return;
    }
    u32 v = z.bytes == 1 ? data[0] : u32(data[0] | data[1] << 8), before;
    if (z.sign) v = z.bytes == 1 ? u32(int32_t(int8_t(v))) : u32(int32_t(int16_t(v)));
    std::memcpy(&before, old, 4);
    if (z.half == 1) v = (before & 0xffff0000) | (v & 0xffff);
    if (z.half == 2) v = (before & 0xffff) | v << 16;
    std::memcpy(old, &v, 4);
}

bool run_test(CodeObject& code, const Test& t, size_t index) {
    std::mt19937 rng(unsigned(index) + 1);
    Buf<u8> in(64 * 16), out(64 * 16);
    for (auto* b : {&in, &out})
        for (auto& x : b->v) x = u8(rng());
    auto want = out.v;
    for (int lane = 0; lane < 64; ++lane) expect(t, in.p() + 16 * lane, want.data() + 16 * lane);
    Args args;
    args << in.p() << out.p();
    Counters c = run_kernel(code, "k" + std::to_string(index), {1, 1, 1}, {64, 1, 1}, args);
    if (out.v == want && c.by_mnemonic.count(t.name)) return true;
    size_t at = size_t(std::mismatch(out.v.begin(), out.v.end(), want.begin()).first - out.v.begin());
    std::printf("%s: FAILED: %s\n", t.name.c_str(),
        at < want.size() ? ("byte " + std::to_string(at % 16) + " of lane " + std::to_string(at / 16)).c_str()
                         : "another instruction ran");
    return false;
}

// In units of the instruction; lanes must not meet.
std::array<unsigned, 2> store_offsets(unsigned stride) {
    return stride == 1 ? std::array{16u, 40u} : std::array{1u, 3u};
}

// The two-address forms of the LDS: words at a and b units from the lane's place, units of an element or of 64.
std::string two_address(
    const std::string& target, size_t index, const std::string& name, unsigned words, unsigned stride, bool store) {
    std::string s =
        "KERNEL k" + std::to_string(index) + "(const u32* in, u32* out) { int t = TX; LDS static u32 lds[1024];\n";
    s += "  u32 a = (u32)(unsigned long)(__attribute__((address_space(3))) u32*)lds + " + std::to_string(4 * words) +
         " * (t & 15);\n";
    s += "  for (int k = t; k < 1024; k += 64) lds[k] = in[k]; SYNC();\n";
    std::string type = words == 2 ? "u64" : "u32";
    if (store) {
        s += "  " + type + " x = (" + type + ")in[t] * 7, y = (" + type + ")in[t] * 11; asm volatile(\"" + name +
             " %0, %1, %2 offset0:" + std::to_string(store_offsets(stride)[0]) +
             " offset1:" + std::to_string(store_offsets(stride)[1]) + "\\n " + wait(target) +
             "\" : : \"v\"(a), \"v\"(x), \"v\"(y) : \"memory\"); SYNC();\n";
        s += "  for (int k = t; k < 1024; k += 64) out[k] = ((volatile LDS u32*)lds)[k]; }\n";
    } else {
        s += "  typedef u32 V __attribute__((ext_vector_type(" + std::to_string(2 * words) +
             "))); V d; asm volatile(\"" + name + " %0, %1 offset0:2 offset1:3\\n " + wait(target) +
             "\" : \"=&v\"(d) : \"v\"(a) : \"memory\");\n";
        s += "  for (int k = 0; k < " + std::to_string(2 * words) + "; ++k) out[t * " + std::to_string(2 * words) +
             " + k] = d[k]; }\n";
    }
    return s;
}

bool run_two_address(
    CodeObject& code, size_t index, const std::string& name, unsigned words, unsigned stride, bool store) {
    std::mt19937 rng(5);
    Buf<u32> in(1024), out(1024);
    for (auto& x : in.v) x = u32(rng());
    std::vector<u32> want(1024, 0);
    if (store) {
        // Four lanes write each place: equal values.
        for (int t = 16; t < 64; ++t) in[size_t(t)] = in[size_t(t & 15)];
        want = in.v;
        for (unsigned pass = 0; pass < 2; ++pass)
            for (unsigned t = 0; t < 16; ++t) {
                u64 v = words == 2 ? u64(in[t]) * (pass ? 11 : 7) : u32(in[t] * (pass ? 11 : 7));
                std::memcpy(&want[words * t + store_offsets(stride)[pass] * words * stride], &v, 4 * words);
            }
    } else {
        for (unsigned t = 0; t < 64; ++t)
            for (unsigned k = 0; k < 2 * words; ++k)
                want[t * 2 * words + k] = in[words * (t & 15) + (k < words ? 2 : 3) * words * stride + k % words];
    }
    Args args;
    args << in.p() << out.p();
    Counters c = run_kernel(code, "k" + std::to_string(index), {1, 1, 1}, {64, 1, 1}, args);
    bool ok = out.v == want && c.by_mnemonic.count(name);
    if (!ok) std::printf("%s: FAILED\n", name.c_str());
    return ok;
}

// Scalar loads of 1 to 16 dwords.
std::string scalar_load(const std::string& target, size_t index, const std::string& name, unsigned words) {
    std::string s = "KERNEL k" + std::to_string(index) + "(const u32* in, u32* out) { ";
    s += words == 1 ? "typedef u32 V;"
                    : "typedef u32 V __attribute__((ext_vector_type(" + std::to_string(words) + ")));";
    s += " V d; asm volatile(\"" + name + " %0, %1, 0x14\\n " +
         (gfx12(target) ? "s_wait_kmcnt 0" : "s_waitcnt lgkmcnt(0)") + "\" : \"=&s\"(d) : \"s\"(in) : \"memory\");\n";
    return s + "  if (TX == 0) __builtin_memcpy(out, &d, sizeof d); }\n";
}
bool run_scalar_load(CodeObject& code, size_t index, const std::string& name, unsigned words) {
    Buf<u32> in(64), out(64);
    for (size_t k = 0; k < 64; ++k) in[k] = u32(k * 0x01030507 + 9);
    Args args;
    args << in.p() << out.p();
    Counters c = run_kernel(code, "k" + std::to_string(index), {1, 1, 1}, {32, 1, 1}, args);
    bool ok = c.by_mnemonic.count(name) && std::equal(out.p(), out.p() + words, in.p() + 5);
    if (!ok) std::printf("%s: FAILED\n", name.c_str());
    return ok;
}

} // namespace

int main(int argc, char** argv) {
    std::string target = argc > 1 ? argv[1] : "gfx1030", source;
    std::vector<Test> tests;
    for (Space space : {Space::global, Space::flat, Space::buffer, Space::lds}) {
        for (auto& z : loads) tests.push_back(make_test(target, space, z, false, tests.size()));
        for (auto& z : stores) tests.push_back(make_test(target, space, z, true, tests.size()));
    }
    for (auto& t : tests) source += t.kernel;
    size_t next = tests.size();
    struct Extra {
        std::string name;
        size_t index;
        unsigned words, stride;
        int kind; // 0 two-address load, 1 two-address store, 2 scalar load
    };
    std::vector<Extra> extra;
    for (unsigned words : {1u, 2u})
        for (unsigned stride : {1u, 64u})
            for (int kind : {0, 1}) {
                std::string width = words == 2 ? "b64" : "b32", verb = gfx12(target)
                                                                           ? kind ? "store_2addr_" : "load_2addr_"
                                                                       : kind ? "write2"
                                                                              : "read2";
                std::string st = stride == 64 ? gfx12(target) ? "stride64_" : "st64_" : gfx12(target) ? "" : "_";
                extra.push_back({"ds_" + verb + st + width, next, words, stride, kind});
                source += two_address(target, next++, extra.back().name, words, stride, kind == 1);
            }
    for (unsigned words : {1u, 2u, 3u, 4u, 8u, 16u}) {
        if (words == 3 && !gfx12(target)) continue;
        std::string name = gfx12(target) ? "s_load_b" + std::to_string(32 * words)
                                         : "s_load_dword" + (words > 1 ? "x" + std::to_string(words) : "");
        extra.push_back({name, next, words, 0, 2});
        source += scalar_load(target, next++, name, words);
    }
    TestDirectory directory;
    auto code = build_kernels(directory.path, target, "memory", source);
    int failures = 0;
    std::set<std::string> names;
    auto guarded = [&](const std::string& name, auto&& body) {
        names.insert(name);
        try {
            failures += !body();
        } catch (const std::exception& e) {
            ++failures;
            std::printf("%s: FAILED: %s\n", name.c_str(), e.what());
        }
    };
    for (size_t k = 0; k < tests.size(); ++k) guarded(tests[k].name, [&] { return run_test(*code, tests[k], k); });
    for (auto& e : extra)
        guarded(e.name, [&] {
            return e.kind == 2 ? run_scalar_load(*code, e.index, e.name, e.words)
                               : run_two_address(*code, e.index, e.name, e.words, e.stride, e.kind == 1);
        });
    note_tested("memory", target, names);
    std::printf("%s: %zu loads and stores, %d failures\n", target.c_str(), names.size(), failures);
    return failures != 0;
}
