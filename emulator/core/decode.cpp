// Code-object loading and decoding: ELF segments, metadata note, and LLVM's disassembly parsed into Inst records.
#include "core/internal.h"
#include <charconv>
#include <cstdlib>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gfxemu {

std::string hex(u64 v) { char b[32]; snprintf(b, sizeof b, "0x%llx", (unsigned long long)v); return b; }

Arch arch_from_name(std::string_view name) {
    if (auto c = name.rfind("--"); c != std::string_view::npos) name = name.substr(c + 2);
    name = name.substr(0, name.find(':'));
    if (name == "gfx1030") return Arch::gfx1030;
    if (name == "gfx1200") return Arch::gfx1200;
    if (name == "gfx942") return Arch::gfx942;
    if (name == "gfx950") return Arch::gfx950;
    throw std::invalid_argument("gfxemu: unknown architecture " + std::string(name));
}
const char* arch_name(Arch a) {
    switch (a) { case Arch::gfx1030: return "gfx1030"; case Arch::gfx1200: return "gfx1200"; case Arch::gfx942: return "gfx942"; default: return "gfx950"; }
}

// ---------------------------------------------------------------- msgpack
namespace {
struct Msg {
    enum T { nil, boolean, integer, string, array, map } t = nil;
    i64 i = 0; std::string s; std::vector<Msg> a; std::vector<std::pair<std::string, Msg>> m;
    const Msg* get(const char* k) const { for (auto& [n, v] : m) if (n == k) return &v; return nullptr; }
    i64 num(const char* k, i64 d = 0) const { auto* p = get(k); return p ? p->i : d; }
    std::string str(const char* k) const { auto* p = get(k); return p ? p->s : std::string(); }
};
struct MsgReader {
    const u8* p; const u8* e;
    u64 be(int n) { if (e - p < n) throw std::runtime_error("gfxemu: truncated metadata"); u64 v = 0; while (n--) v = v << 8 | *p++; return v; }
    Msg read(int depth = 0) {
        if (depth > 32) throw std::runtime_error("gfxemu: metadata too deep");
        Msg r; u8 b = (u8)be(1);
        auto str = [&](u64 n) { if ((u64)(e - p) < n) throw std::runtime_error("gfxemu: truncated metadata"); r.t = Msg::string; r.s.assign((const char*)p, n); p += n; };
        auto arr = [&](u64 n) { r.t = Msg::array; while (n--) r.a.push_back(read(depth + 1)); };
        auto map = [&](u64 n) { r.t = Msg::map; while (n--) { Msg k = read(depth + 1); r.m.emplace_back(k.s, read(depth + 1)); } };
        auto num = [&](i64 v) { r.t = Msg::integer; r.i = v; };
        if (b < 0x80) num(b);
        else if (b < 0x90) map(b & 15);
        else if (b < 0xa0) arr(b & 15);
        else if (b < 0xc0) str(b & 31);
        else if (b >= 0xe0) num((i8)b);
        else switch (b) {
            case 0xc0: break;
            case 0xc2: case 0xc3: r.t = Msg::boolean; r.i = b & 1; break;
            case 0xc4: str(be(1)); break; case 0xc5: str(be(2)); break; case 0xc6: str(be(4)); break;
            case 0xca: be(4); break; case 0xcb: be(8); break;
            case 0xcc: num((i64)be(1)); break; case 0xcd: num((i64)be(2)); break; case 0xce: num((i64)be(4)); break; case 0xcf: num((i64)be(8)); break;
            case 0xd0: num((i8)be(1)); break; case 0xd1: num((i16)be(2)); break; case 0xd2: num((i32)be(4)); break; case 0xd3: num((i64)be(8)); break;
            case 0xd9: str(be(1)); break; case 0xda: str(be(2)); break; case 0xdb: str(be(4)); break;
            case 0xdc: arr(be(2)); break; case 0xdd: arr(be(4)); break;
            case 0xde: map(be(2)); break; case 0xdf: map(be(4)); break;
            default: throw std::runtime_error("gfxemu: metadata type not understood");
        }
        return r;
    }
};
} // namespace

// ---------------------------------------------------------------- load
CodeObject::CodeObject() : impl(new Impl) {}
CodeObject::~CodeObject() {
    if (impl && impl->block) { unregister_range(impl->base); munmap(impl->block, impl->span); }
}
Arch CodeObject::arch() const { return impl->arch; }
const std::map<std::string, KernelInfo>& CodeObject::kernels() const { return impl->kernels; }
std::pair<void*, size_t> CodeObject::symbol(const std::string& name) const {
    auto it = impl->symbols.find(name);
    if (it == impl->symbols.end()) return {nullptr, 0};
    return {impl->base + it->second.first, it->second.second};
}

std::shared_ptr<CodeObject> CodeObject::load(const void* data, size_t size) {
    auto bad = [](const std::string& s) { throw std::runtime_error("gfxemu: " + s); };
    const u8* d = (const u8*)data;
    if (size < sizeof(Elf64_Ehdr) || std::memcmp(d, ELFMAG, 4) || d[EI_CLASS] != ELFCLASS64) bad("not a 64-bit ELF file");
    std::shared_ptr<CodeObject> co(new CodeObject);
    Impl& I = *co->impl;
    I.elf.assign(d, d + size);
    Elf64_Ehdr eh; std::memcpy(&eh, d, sizeof eh);
    if (eh.e_machine != 224) bad("not an AMDGPU ELF file");
    switch (eh.e_flags & 0xff) {
        case 0x36: I.arch = Arch::gfx1030; break;
        case 0x48: I.arch = Arch::gfx1200; break;
        case 0x4c: I.arch = Arch::gfx942; break;
        case 0x4f: I.arch = Arch::gfx950; break;
        default: bad("code object for an architecture that is not emulated (EF_AMDGPU_MACH " + hex(eh.e_flags & 0xff) + ")");
    }
    auto need = [&](u64 off, u64 n) { if (off > size || n > size - off) bad("truncated ELF file"); };
    std::vector<Elf64_Phdr> ph(eh.e_phnum); need(eh.e_phoff, ph.size() * sizeof(Elf64_Phdr));
    std::memcpy(ph.data(), d + eh.e_phoff, ph.size() * sizeof(Elf64_Phdr));
    std::vector<Elf64_Shdr> sh(eh.e_shnum); need(eh.e_shoff, sh.size() * sizeof(Elf64_Shdr));
    std::memcpy(sh.data(), d + eh.e_shoff, sh.size() * sizeof(Elf64_Shdr));
    u64 top = 0;
    for (auto& p : ph) if (p.p_type == PT_LOAD) top = std::max(top, p.p_vaddr + p.p_memsz);
    if (!top) bad("no loadable segment");
    I.span = (top + 4095 + 4096) & ~4095ull;     // a spare page: scalar loads may fetch past the end
    I.block = mmap(nullptr, I.span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (I.block == MAP_FAILED) { I.block = nullptr; bad("out of memory"); }
    I.base = (u8*)I.block;
    for (auto& p : ph) if (p.p_type == PT_LOAD) { need(p.p_offset, p.p_filesz); std::memcpy(I.base + p.p_vaddr, d + p.p_offset, p.p_filesz); }

    const char* shstr = eh.e_shstrndx < sh.size() ? (const char*)d + sh[eh.e_shstrndx].sh_offset : nullptr;
    std::vector<Elf64_Sym> dyn;
    for (auto& s : sh) {
        if (s.sh_type != SHT_NOBITS) need(s.sh_offset, s.sh_size);
        if (shstr && !std::strcmp(shstr + s.sh_name, ".text")) { I.text_lo = s.sh_addr; I.text_hi = s.sh_addr + s.sh_size; }
        if (s.sh_type == SHT_DYNSYM || s.sh_type == SHT_SYMTAB) {
            if (s.sh_link >= sh.size()) continue;
            const char* str = (const char*)d + sh[s.sh_link].sh_offset;
            std::vector<Elf64_Sym> v(s.sh_size / sizeof(Elf64_Sym));
            std::memcpy(v.data(), d + s.sh_offset, v.size() * sizeof(Elf64_Sym));
            for (auto& y : v) {
                if (y.st_shndx == SHN_UNDEF || y.st_shndx == SHN_ABS) continue;
                int ty = ELF64_ST_TYPE(y.st_info);
                if (ty == STT_OBJECT || ty == STT_FUNC) I.symbols.emplace(str + y.st_name, std::pair<u64, u64>{y.st_value, y.st_size});
            }
            if (s.sh_type == SHT_DYNSYM) dyn = std::move(v);
        }
    }
    for (auto& s : sh) if (s.sh_type == SHT_RELA && (s.sh_flags & SHF_ALLOC)) {
        for (u64 k = 0; k < s.sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela r; std::memcpy(&r, d + s.sh_offset + k * sizeof r, sizeof r);
            u64 sym = ELF64_R_SYM(r.r_info), S = sym && sym < dyn.size() ? (u64)I.base + dyn[sym].st_value : 0;
            if (r.r_offset + 8 > I.span) bad("relocation outside the image");
            u8* at = I.base + r.r_offset; u64 P = (u64)at, A = (u64)r.r_addend;
            auto w32 = [&](u64 v) { u32 x = (u32)v; std::memcpy(at, &x, 4); };
            auto w64 = [&](u64 v) { std::memcpy(at, &v, 8); };
            switch (ELF64_R_TYPE(r.r_info)) {
                case 0: break;
                case 1: w32(S + A); break;                    // ABS32_LO
                case 2: w32((S + A) >> 32); break;            // ABS32_HI
                case 3: w64(S + A); break;                    // ABS64
                case 4: w32(S + A - P); break;                // REL32
                case 5: w64(S + A - P); break;                // REL64
                case 6: w32(S + A); break;                    // ABS32
                case 10: w32(S + A - P); break;               // REL32_LO
                case 11: w32((S + A - P) >> 32); break;       // REL32_HI
                case 13: w64((u64)I.base + A); break;         // RELATIVE64
                default: bad("relocation type " + std::to_string(ELF64_R_TYPE(r.r_info)) + " is not handled");
            }
        }
    }
    for (auto& p : ph) if (p.p_type == PT_NOTE) {
        need(p.p_offset, p.p_filesz);
        const u8* n = d + p.p_offset; const u8* e = n + p.p_filesz;
        while (e - n >= 12) {
            u32 h[3]; std::memcpy(h, n, 12);
            const u8* nm = n + 12; const u8* ds = nm + ((h[0] + 3) & ~3u);
            if (ds + h[1] > e) break;
            if (h[2] == 32 && h[0] == 7 && !std::memcmp(nm, "AMDGPU", 7)) {
                MsgReader rd{ds, ds + h[1]};
                Msg m = rd.read();
                if (auto* ks = m.get("amdhsa.kernels")) for (auto& k : ks->a) {
                    KernelInfo ki;
                    ki.name = k.str(".name");
                    std::string sym = k.str(".symbol");
                    auto it = I.symbols.find(sym);
                    if (it == I.symbols.end()) continue;
                    ki.descriptor = it->second.first;
                    i64 rel; std::memcpy(&rel, I.base + ki.descriptor + 16, 8);
                    ki.entry = ki.descriptor + (u64)rel;
                    ki.kernarg_size = (u32)k.num(".kernarg_segment_size");
                    ki.static_lds = (u32)k.num(".group_segment_fixed_size");
                    ki.scratch_per_lane = (u32)k.num(".private_segment_fixed_size");
                    ki.max_flat_workgroup_size = (u32)k.num(".max_flat_workgroup_size", 1024);
                    ki.vgprs = (u32)k.num(".vgpr_count"); ki.agprs = (u32)k.num(".agpr_count"); ki.sgprs = (u32)k.num(".sgpr_count");
                    ki.vgpr_spills = (u32)k.num(".vgpr_spill_count"); ki.sgpr_spills = (u32)k.num(".sgpr_spill_count");
                    ki.uses_dynamic_stack = k.num(".uses_dynamic_stack") != 0;
                    ki.wave64 = k.num(".wavefront_size", 64) == 64;
                    if (auto* as = k.get(".args")) for (auto& a : as->a)
                        ki.args.push_back({a.str(".name"), a.str(".value_kind"), (u32)a.num(".offset"), (u32)a.num(".size")});
                    I.kernels[ki.name] = ki;
                }
            }
            n = ds + ((h[1] + 3) & ~3u);
        }
    }
    register_range(I.base, I.span, "code object");
    return co;
}

// ---------------------------------------------------------------- disassembly
static std::string find_objdump() {
    static std::string path = [] {
        if (const char* e = std::getenv("GFXEMU_OBJDUMP"); e && *e) return std::string(e);
        std::vector<std::string> c;
        std::vector<std::string> dirs;
        if (const char* p = std::getenv("PATH")) { std::string s = p; size_t i = 0; while (i <= s.size()) { size_t j = s.find(':', i); if (j == s.npos) j = s.size(); dirs.push_back(s.substr(i, j - i)); i = j + 1; } }
        for (int v = 30; v >= 19; v--) { for (auto& d : dirs) c.push_back(d + "/llvm-objdump-" + std::to_string(v)); c.push_back("/usr/lib/llvm-" + std::to_string(v) + "/bin/llvm-objdump"); }
        for (auto& d : dirs) c.push_back(d + "/llvm-objdump");
        c.push_back("/opt/rocm/llvm/bin/llvm-objdump");
        for (auto& f : c) if (access(f.c_str(), X_OK) == 0) return f;
        throw std::runtime_error("gfxemu: no llvm-objdump found (set GFXEMU_OBJDUMP)");
    }();
    return path;
}

void CodeObject::Impl::disassemble() {
    char tmp[] = "/tmp/gfxemu-XXXXXX";
    int fd = mkstemp(tmp);
    if (fd < 0) throw std::runtime_error("gfxemu: cannot create a temporary file");
    for (size_t o = 0; o < elf.size();) { ssize_t n = write(fd, elf.data() + o, elf.size() - o); if (n <= 0) break; o += (size_t)n; }
    close(fd);
    // Without real-true16 the disassembler rejects 16-bit operands in the high halves of registers, which some compilers emit.
    std::string cmd = find_objdump() + " -d --no-show-raw-insn --section=.text --mcpu=" + arch_name(arch) + (arch == Arch::gfx1200 ? " --mattr=+real-true16 " : " ") + tmp + " 2>/dev/null";
    FILE* f = popen(cmd.c_str(), "r");
    if (!f) { unlink(tmp); throw std::runtime_error("gfxemu: cannot run " + cmd); }
    size_t words = (text_hi - text_lo) / 4;
    line_of.assign(words, 0); len_of.assign(words, 0); word_of.assign(words, 0);
    code.reset(new std::atomic<Inst*>[words]());
    char* line = nullptr; size_t cap = 0; ssize_t n;
    while ((n = getline(&line, &cap, f)) > 0) {
        if (line[0] != '\t' && line[0] != ' ') continue;
        std::string_view s(line, (size_t)n);
        while (!s.empty() && (s.back() == '\n' || s.back() == ' ')) s.remove_suffix(1);
        size_t c = s.rfind("// ");
        if (c == s.npos) continue;
        std::string_view rest = s.substr(c + 3), txt = s.substr(0, c);
        u64 addr = 0; auto r = std::from_chars(rest.data(), rest.data() + rest.size(), addr, 16);
        if (r.ec != std::errc() || *r.ptr != ':') continue;
        rest.remove_prefix((size_t)(r.ptr - rest.data()) + 1);
        u32 len = 0, word = 0;                        // 8-digit words follow; a branch adds <symbol+offset>
        for (size_t k = 0; k < rest.size();) {
            while (k < rest.size() && rest[k] == ' ') k++;
            size_t j = k; while (j < rest.size() && isxdigit((unsigned char)rest[j])) j++;
            if (j - k != 8) break;
            if (!len) std::from_chars(rest.data() + k, rest.data() + j, word, 16);
            len += 4; k = j;
        }
        size_t b = txt.find_first_not_of(" \t"); if (b == txt.npos) continue;
        txt = txt.substr(b); while (!txt.empty() && (txt.back() == ' ' || txt.back() == '\t')) txt.remove_suffix(1);
        if (addr < text_lo || addr >= text_hi || !len) continue;
        lines.emplace_back(txt);
        line_of[(addr - text_lo) / 4] = (u32)lines.size(); len_of[(addr - text_lo) / 4] = (u8)len; word_of[(addr - text_lo) / 4] = word;
    }
    free(line);
    int rc = pclose(f); unlink(tmp);
    if (rc != 0 || lines.empty()) throw std::runtime_error("gfxemu: disassembly failed: " + cmd);
}

// ---------------------------------------------------------------- operand parsing
namespace {
bool starts(std::string_view s, std::string_view p) { return s.substr(0, p.size()) == p; }
bool ends(std::string_view s, std::string_view p) { return s.size() >= p.size() && s.substr(s.size() - p.size()) == p; }
i64 to_int(std::string_view s) {
    bool neg = false; if (!s.empty() && (s[0] == '-' || s[0] == '+')) { neg = s[0] == '-'; s.remove_prefix(1); }
    u64 v = 0;
    if (starts(s, "0x")) std::from_chars(s.data() + 2, s.data() + s.size(), v, 16);
    else std::from_chars(s.data(), s.data() + s.size(), v, 10);
    return neg ? -(i64)v : (i64)v;
}
void set_int(Opnd& o, i64 v) { o.kind = Opnd::IMM; o.imm32 = (u32)v; o.imm16 = (u16)v; o.immbf = (u16)v; o.imm64f = o.imm64i = (u64)v; }
void set_f(Opnd& o, double v) {
    o.kind = Opnd::IMM; o.inline_float = true;
    o.imm32 = std::bit_cast<u32>((float)v); o.imm16 = f32_to_f16_rne((float)v); o.immbf = f32_to_bf16_rne((float)v);
    if (std::fabs(v - 0.15915494309189532) < 1e-4) { o.imm32 = 0x3e22f983; o.imm16 = 0x3118; o.immbf = 0x3e22; o.imm64f = o.imm64i = 0x3fc45f306dc9c882ull; }
    else o.imm64f = o.imm64i = std::bit_cast<u64>(v);
}
void set_lit(Opnd& o, u64 v) { o.kind = Opnd::IMM; o.literal = true; o.imm32 = (u32)v; o.imm16 = (u16)v; o.immbf = (u16)v; o.imm64f = v >> 32 ? v : v << 32; o.imm64i = v; }

bool parse_opnd(std::string_view t, Opnd& o) {
    auto reg = [&](std::string_view p, Opnd::Kind k, int base) -> bool {
        std::string_view r = t.substr(p.size());
        if (r.empty()) return false;
        if (r[0] == '[') {
            size_t c = r.find(':');
            i64 a, b;
            if (c == r.npos) { a = b = to_int(r.substr(1, r.size() - 2)); }
            else { a = to_int(r.substr(1, c - 1)); b = to_int(r.substr(c + 1, r.size() - c - 2)); }
            o.kind = k; o.reg = (u16)(a + base); o.n = (u8)(b - a + 1); return true;
        }
        if (!isdigit((unsigned char)r[0])) return false;
        if (ends(r, ".l")) { o.half = 1; r.remove_suffix(2); } else if (ends(r, ".h")) { o.half = 2; r.remove_suffix(2); }
        for (char c : r) if (!isdigit((unsigned char)c)) return false;
        o.kind = k; o.reg = (u16)(to_int(r) + base); o.n = 1; return true;
    };
    if (t.empty()) return false;
    if (t[0] == '-' && t.size() > 1 && !isdigit((unsigned char)t[1])) { if (!parse_opnd(t.substr(1), o)) return false; o.neg = true; return true; }
    if (t[0] == '|' && t.back() == '|') { if (!parse_opnd(t.substr(1, t.size() - 2), o)) return false; o.abs = true; return true; }
    auto wrap = [&](std::string_view p) { return starts(t, p) && t.back() == ')'; };
    if (wrap("neg(")) { if (!parse_opnd(t.substr(4, t.size() - 5), o)) return false; o.neg = true; return true; }
    if (wrap("abs(")) { if (!parse_opnd(t.substr(4, t.size() - 5), o)) return false; o.abs = true; return true; }
    if (wrap("sext(")) { if (!parse_opnd(t.substr(5, t.size() - 6), o)) return false; o.sext = true; return true; }
    if (wrap("lit(") || wrap("lit64(")) { size_t b = t.find('('); set_lit(o, (u64)to_int(t.substr(b + 1, t.size() - b - 2))); return true; }
    if (isdigit((unsigned char)t[0]) || t[0] == '-') {
        if (t.find("0x") != t.npos) { i64 v = to_int(t); set_lit(o, (u64)v); return true; }
        if (t.find('.') != t.npos || t.find('e') != t.npos) { set_f(o, std::strtod(std::string(t).c_str(), nullptr)); return true; }
        for (size_t k = t[0] == '-'; k < t.size(); k++) if (!isdigit((unsigned char)t[k])) return false;
        set_int(o, to_int(t)); return true;
    }
    auto S = [&](int r, int n) { o.kind = Opnd::S; o.reg = (u16)r; o.n = (u8)n; return true; };
    if (t == "vcc") return S(S_VCC, 2);
    if (t == "vcc_lo") return S(S_VCC, 1);
    if (t == "vcc_hi") return S(S_VCC + 1, 1);
    if (t == "exec") return S(S_EXEC, 2);
    if (t == "exec_lo") return S(S_EXEC, 1);
    if (t == "exec_hi") return S(S_EXEC + 1, 1);
    if (t == "m0") return S(S_M0, 1);
    if (t == "flat_scratch") return S(S_FLATSCR, 2);
    if (t == "flat_scratch_lo") return S(S_FLATSCR, 1);
    if (t == "flat_scratch_hi") return S(S_FLATSCR + 1, 1);
    if (t == "xnack_mask") return S(S_XNACK, 2);
    if (t == "xnack_mask_lo") return S(S_XNACK, 1);
    if (t == "xnack_mask_hi") return S(S_XNACK + 1, 1);
    if (t == "null" || t == "off") { o.kind = Opnd::NUL; return true; }
    if (t == "scc" || t == "src_scc") { o.kind = Opnd::SCC; return true; }
    if (t == "vccz" || t == "src_vccz") { o.kind = Opnd::VCCZ; return true; }
    if (t == "execz" || t == "src_execz") { o.kind = Opnd::EXECZ; return true; }
    if (t == "src_shared_base") { set_lit(o, SHARED_APERTURE); o.imm32 = (u32)(SHARED_APERTURE >> 32); return true; }
    if (t == "src_private_base") { set_lit(o, PRIVATE_APERTURE); o.imm32 = (u32)(PRIVATE_APERTURE >> 32); return true; }
    if (t == "src_shared_limit") { set_lit(o, SHARED_APERTURE | 0xffffffff); o.imm32 = (u32)(SHARED_APERTURE >> 32); return true; }
    if (t == "src_private_limit") { set_lit(o, PRIVATE_APERTURE | 0xffffffff); o.imm32 = (u32)(PRIVATE_APERTURE >> 32); return true; }
    if (t == "src_pops_exiting_wave_id") { set_int(o, 0); return true; }
    if (starts(t, "ttmp")) return reg("ttmp", Opnd::S, S_TTMP);
    if (t[0] == 'v') return reg("v", Opnd::V, 0);
    if (t[0] == 'a') return reg("a", Opnd::V, A_BASE);
    if (t[0] == 's') return reg("s", Opnd::S, 0);
    return false;
}

std::vector<u32> bits_list(std::string_view v) {   // [0,1,2]
    std::vector<u32> r; if (v.size() < 2) return r;
    v = v.substr(1, v.size() - 2);
    while (!v.empty()) { size_t c = v.find(','); r.push_back((u32)to_int(v.substr(0, c))); if (c == v.npos) break; v.remove_prefix(c + 1); }
    return r;
}
u8 mask_of(std::string_view v) { auto l = bits_list(v); u8 m = 0; for (size_t i = 0; i < l.size(); i++) m |= (u8)(l[i] << i); return m; }
u8 sel_of(std::string_view v) {
    if (starts(v, "BYTE_")) return (u8)(v[5] - '0');
    if (starts(v, "WORD_")) return (u8)(4 + v[5] - '0');
    return 6;
}

struct Unsupported { std::string what; };

void dpp_map(Dpp& d, std::string_view key, std::string_view val, int lanes, bool gfx9) {
    auto N = lanes; int n = val.empty() ? 0 : (int)to_int(val);
    for (int l = 0; l < 64; l++) {
        int row = l & ~15, x = l & 15, src = -1;
        if (key == "quad_perm") { auto q = bits_list(val); src = (l & ~3) | (int)q.at(l & 3); }
        else if (key == "row_shl") src = x + n < 16 ? row + x + n : -1;
        else if (key == "row_shr") src = x - n >= 0 ? row + x - n : -1;
        else if (key == "row_ror") src = row + ((x - n) & 15);
        else if (key == "row_mirror") src = row + 15 - x;
        else if (key == "row_half_mirror") src = (l & ~7) + 7 - (l & 7);
        else if (key == "row_share" || key == "row_newbcast") src = row + n;
        else if (key == "row_xmask") src = row + (x ^ n);
        else if (key == "row_bcast") { if (n == 15) { src = row ? row - 1 : -1; } else { src = l >= 32 ? 31 : -1; } }
        else if (key == "wave_shl") src = l + 1 < N ? l + 1 : -1;
        else if (key == "wave_shr") src = l - 1 >= 0 ? l - 1 : -1;
        else if (key == "wave_rol") src = (l + 1) % N;
        else if (key == "wave_ror") src = (l + N - 1) % N;
        else throw Unsupported{"dpp control " + std::string(key)};
        if (key == "row_bcast") { if (n == 15 && (l < 16)) src = -1; }
        d.map[l] = src < 0 || src >= N ? 0xff : (u8)src;
    }
    (void)gfx9;
}

const std::unordered_map<std::string, int> hwregs = {
    {"HW_REG_MODE", 1}, {"HW_REG_STATUS", 2}, {"HW_REG_TRAPSTS", 3}, {"HW_REG_HW_ID", 4}, {"HW_REG_HW_ID1", 4}, {"HW_REG_HW_ID2", 24},
    {"HW_REG_GPR_ALLOC", 5}, {"HW_REG_LDS_ALLOC", 6}, {"HW_REG_IB_STS", 7}, {"HW_REG_SH_MEM_BASES", 15}, {"HW_REG_FLAT_SCR_LO", 20}, {"HW_REG_FLAT_SCR_HI", 21},
    {"HW_REG_XCC_ID", 26}, {"HW_REG_SHADER_CYCLES", 29}, {"HW_REG_SHADER_CYCLES_LO", 29}, {"HW_REG_SHADER_CYCLES_HI", 30}, {"HW_REG_XNACK_MASK", 22},
    {"HW_REG_STATE_PRIV", 2}, {"HW_REG_WAVE_STATE_PRIV", 2}, {"HW_REG_WAVE_MODE", 1}, {"HW_REG_WAVE_STATUS", 2}, {"HW_REG_WAVE_HW_ID1", 4}, {"HW_REG_WAVE_HW_ID2", 24},
    {"HW_REG_WAVE_SCHED_MODE", 27}, {"HW_REG_SCHED_MODE", 27}, {"HW_REG_EXCP_FLAG_PRIV", 3}, {"HW_REG_EXCP_FLAG_USER", 3}, {"HW_REG_TRAP_CTRL", 3} };

void add_touch(Inst& i, const Opnd& o, bool dst) {
    if ((o.kind != Opnd::V && o.kind != Opnd::S) || i.ntouch >= 10) return;
    if (o.kind == Opnd::S && o.reg >= S_M0 && o.reg != S_M0) return;
    i.touch[i.ntouch++] = {(u16)(o.kind == Opnd::V ? o.reg : 1024 + o.reg), o.n, dst};
}

OpTable& table() {
    static OpTable t = [] { OpTable x; register_valu_f(x); register_valu_i(x); register_valu_x(x); register_salu(x); return x; }();
    return t;
}

void exec_unsupported(Wave& w, const Inst& i) { fault(w, i, Fault::Kind::unsupported, "instruction is not implemented"); }
void exec_matrix(Wave& w, const Inst& i);

bool scalar16_op(const std::string& mn) {     // op_sel selects register halves (not packed, mix or conversion-select forms)
    return !starts(mn, "v_pk_") && mn.find("_mix") == mn.npos && mn.find("fp8") == mn.npos && mn.find("bf8") == mn.npos && mn.find("scalef32") == mn.npos && !starts(mn, "v_dot") && !starts(mn, "v_mfma") && !starts(mn, "v_wmma")
        && mn.find("permlane") == mn.npos;
}

void parse_line(Arch arch, Inst& i, std::string_view line, bool dual_half) {
    bool gfx9 = arch == Arch::gfx942 || arch == Arch::gfx950;
    i.text = std::string(line);
    if (!dual_half) if (size_t p = line.find(" :: "); p != line.npos) {
        parse_line(arch, i, line.substr(0, p), true);
        i.dual = std::make_unique<Inst>(); i.dual->pc = i.pc;
        parse_line(arch, *i.dual, line.substr(p + 4), true);
        for (int k = 0; k < i.dual->ntouch && i.ntouch < 10; k++) i.touch[i.ntouch++] = i.dual->touch[k];
        i.text = std::string(line);
        return;
    }
    size_t sp = line.find(' ');
    std::string mn(line.substr(0, sp));
    std::string_view rest = sp == line.npos ? std::string_view() : line.substr(sp + 1);
    if (starts(mn, "v_dual_")) mn = "v_" + mn.substr(7);
    bool sdwa = false;
    if (starts(mn, "v_")) {
        for (bool more = true; more;) {
            more = false;
            for (const char* suf : {"_e32", "_e64", "_dpp", "_dpp8", "_sdwa", "_vi", "_gfx9"})
                if (ends(mn, suf)) { if (!std::strcmp(suf, "_sdwa")) sdwa = true; mn.resize(mn.size() - std::strlen(suf)); more = true; }
        }
    } else if (ends(mn, "_e32")) mn.resize(mn.size() - 4);
    if (gfx9) {   // on gfx9 these names mean the carry-less forms already
    }
    bool legacy16 = gfx9 && (ends(mn, "_legacy_u16") || ends(mn, "_legacy_i16") || ends(mn, "_legacy_f16"));     // the forms without op_sel
    if (legacy16) mn.erase(mn.size() - 11, 7);
    mn = alias_of(mn);
    i.mn = mn;

    // Instructions without ordinary operands
    if (mn == "s_delay_alu" || starts(mn, "s_sched") || mn == "s_clause" || mn == "s_wait_alu" || mn == "s_waitcnt_depctr" || mn == "s_wait_event" || mn == "s_set_gpr_idx_off_never") { auto it = table().find(mn == "s_wait_alu" || mn == "s_waitcnt_depctr" || mn == "s_wait_event" ? "s_nop" : mn); if (it == table().end()) it = table().find("s_nop"); i.fn = it->second.fn; i.cls = Cls::other; return; }
    if (mn == "s_waitcnt") {
        auto cnt = [&](const char* k) { size_t p = rest.find(k); if (p == rest.npos) return -1; p += std::strlen(k); if (p < rest.size() && rest[p] == '_') return -1; if (starts(rest.substr(p), "(")) return (int)to_int(rest.substr(p + 1, rest.find(')', p) - p - 1)); return -1; };
        i.w_vm = cnt("vmcnt"); i.w_lgkm = cnt("lgkmcnt"); i.w_exp = cnt("expcnt");
        if (!rest.empty() && (isdigit((unsigned char)rest[0]))) {
            u64 r = (u64)to_int(rest);
            i.w_vm = (int)((r & 15) | (r >> 14 & 3) << 4); i.w_lgkm = (int)(gfx9 ? r >> 8 & 15 : r >> 8 & 63); i.w_exp = (int)(r >> 4 & 7);
            if (i.w_vm == 63) i.w_vm = -1;
            if (i.w_lgkm == (gfx9 ? 15 : 63)) i.w_lgkm = -1;
        }
        i.fn = table().at("s_waitcnt").fn; i.cls = Cls::waitcnt; return;
    }
    // Split operands at top-level commas; modifiers follow the last operand after blanks.
    std::vector<std::string_view> ops, mods;
    {
        int depth = 0; size_t b = 0; bool in_mods = false; bool bar = false;
        auto flush = [&](size_t e) { std::string_view t = rest.substr(b, e - b); while (!t.empty() && t.front() == ' ') t.remove_prefix(1); while (!t.empty() && t.back() == ' ') t.remove_suffix(1); if (!t.empty()) (in_mods ? mods : ops).push_back(t); };
        for (size_t k = 0; k < rest.size(); k++) {
            char c = rest[k];
            if (c == '(' || c == '[') depth++;
            else if (c == ')' || c == ']') depth--;
            else if (c == '|') bar = !bar;
            else if (depth == 0 && c == ',') { flush(k); b = k + 1; }
            else if (depth == 0 && c == ' ' && !bar) {
                if (b < k && rest.substr(b, k - b).find_first_not_of(' ') != std::string_view::npos) { flush(k); b = k + 1; in_mods = true; }
            }
        }
        flush(rest.size());
    }
    bool is_smem = starts(mn, "s_load") || starts(mn, "s_buffer_load") || starts(mn, "s_store") || starts(mn, "s_atomic") || starts(mn, "s_dcache") || starts(mn, "s_scratch_load");
    // Operands that look like modifiers come first in a few instructions (waits, messages, hwreg, branch targets).
    for (auto t : ops) {
        if (i.nop >= 8) throw Unsupported{"too many operands"};
        Opnd o;
        if (starts(t, "hwreg(")) {
            std::string_view in = t.substr(6, t.size() - 7);
            size_t c1 = in.find(','); std::string nm(in.substr(0, c1)); u32 off = 0, w = 32;
            if (c1 != in.npos) { std::string_view r2 = in.substr(c1 + 1); size_t c2 = r2.find(','); auto trim = [](std::string_view q) { while (!q.empty() && q[0] == ' ') q.remove_prefix(1); return q; }; off = (u32)to_int(trim(r2.substr(0, c2))); if (c2 != r2.npos) w = (u32)to_int(trim(r2.substr(c2 + 1))); }
            auto it = hwregs.find(nm);
            int id = it != hwregs.end() ? it->second : isdigit((unsigned char)nm[0]) ? (int)to_int(nm) : -1;
            if (id < 0) throw Unsupported{"hardware register " + nm};
            i.imm = id | off << 6 | (w - 1) << 11; set_int(o, i.imm); i.op[i.nop++] = o; continue;
        }
        if (starts(t, "sendmsg(") || starts(t, "depctr")) { set_int(o, 0); if (t.find("DEALLOC_VGPRS") != t.npos) o.imm32 = 3; if (t.find("REALTIME") != t.npos) o.imm32 = 131; i.op[i.nop++] = o; continue; }
        if (parse_opnd(t, o)) { i.op[i.nop++] = o; continue; }
        if (starts(mn, "s_cbranch") || mn == "s_branch" || mn == "s_call_b64") continue;      // a label: the encoding holds the distance
        if (starts(t, "gpr_idx(")) { u32 g = 0; if (t.find("SRC0") != t.npos) g |= 1; if (t.find("SRC1") != t.npos) g |= 2; if (t.find("SRC2") != t.npos) g |= 4; if (t.find("DST") != t.npos) g |= 8; i.imm = g; continue; }
        mods.push_back(t);
    }
    int lanes = wave_size(arch);
    std::string_view dppkey, dppval; bool bank = false; u64 row_mask = 0xf, bank_mask = 0xf; bool bc = false, fi = false;
    std::unique_ptr<Sdwa> sw; u8 s0 = 6, s1 = 6; std::vector<u32> d8;
    for (auto t : mods) {
        size_t c = t.find(':'); std::string_view k = t.substr(0, c), v = c == t.npos ? std::string_view() : t.substr(c + 1);
        auto num = [&] { return to_int(v); };
        if (k == "offset") {
            if (starts(v, "swizzle(")) {
                std::string_view in = v.substr(8, v.size() - 9); std::vector<std::string> a;
                while (true) { size_t q = in.find(','); std::string x(in.substr(0, q)); while (!x.empty() && x[0] == ' ') x.erase(0, 1); a.push_back(x); if (q == in.npos) break; in.remove_prefix(q + 1); }
                u32 off = 0;
                if (a[0] == "QUAD_PERM") off = 0x8000 | (u32)(to_int(a[1]) | to_int(a[2]) << 2 | to_int(a[3]) << 4 | to_int(a[4]) << 6);
                else if (a[0] == "BROADCAST") { u32 g = (u32)to_int(a[1]); off = (32 - g) | (u32)to_int(a[2]) << 5; off &= 0x7fff; off = ((31 & ~(g - 1))) | (u32)to_int(a[2]) << 5; }
                else if (a[0] == "SWAP") off = 0x1f | (u32)to_int(a[1]) << 10;
                else if (a[0] == "REVERSE") off = 0x1f | (u32)(to_int(a[1]) - 1) << 10;
                else if (a[0] == "BITMASK_PERM") {
                    std::string m = a[1]; m.erase(std::remove(m.begin(), m.end(), '"'), m.end()); u32 an = 0, orr = 0, xr = 0;
                    for (int b2 = 0; b2 < 5; b2++) { char ch = m[(size_t)(4 - b2)]; if (ch == '1') orr |= 1u << b2; else if (ch == 'p') an |= 1u << b2; else if (ch == 'i') { an |= 1u << b2; xr |= 1u << b2; } }
                    off = an | orr << 5 | xr << 10;
                } else throw Unsupported{"swizzle " + a[0]};
                i.offset = off;
            } else i.offset = num();
        }
        else if (k == "offset0") i.offset0 = (u32)num();
        else if (k == "offset1") i.offset1 = (u32)num();
        else if (k == "op_sel") i.op_sel = mask_of(v);
        else if (k == "op_sel_hi") { i.op_sel_hi = mask_of(v); i.has_op_sel_hi = true; }
        else if (k == "neg_lo") i.neg_lo = mask_of(v);
        else if (k == "neg_hi") i.neg_hi = mask_of(v);
        else if (k == "clamp") i.clamp = true;
        else if (k == "mul") i.omod = num() == 2 ? 1 : 2;
        else if (k == "div") i.omod = 3;
        else if (k == "glc" || k == "sc0") i.glc = true;
        else if (k == "offen") i.offen = true;
        else if (k == "idxen") i.idxen = true;
        else if (k == "lds") i.lds = true;
        else if (k == "gds") throw Unsupported{"gds"};
        else if (k == "cbsz") i.cbsz = (u32)num();
        else if (k == "abid") i.abid = (u32)num();
        else if (k == "blgp") i.blgp = (u32)num();
        else if (k == "neg" && v.size()) i.blgp = mask_of(v);
        else if (k == "bitop3") i.bitop = (u32)num();
        else if (k == "byte_sel") i.byte_sel = (u8)num();
        else if (k == "th") { if (v.find("RETURN") != v.npos) i.glc = true; }
        else if (k == "row_mask") { row_mask = (u64)num(); bank = true; }
        else if (k == "bank_mask") { bank_mask = (u64)num(); bank = true; }
        else if (k == "bound_ctrl") bc = true;
        else if (k == "fi") fi = num() != 0;
        else if (k == "dst_sel") { if (!sw) sw.reset(new Sdwa); sw->dst_sel = sel_of(v); }
        else if (k == "dst_unused") { if (!sw) sw.reset(new Sdwa); sw->dst_unused = v == "UNUSED_SEXT" ? 1 : v == "UNUSED_PRESERVE" ? 2 : 0; }
        else if (k == "src0_sel") s0 = sel_of(v);
        else if (k == "src1_sel") s1 = sel_of(v);
        else if (k == "dpp8") d8 = bits_list(v);
        else if (starts(k, "quad_perm") || starts(k, "row_") || starts(k, "wave_")) { dppkey = k; dppval = v; }
        else if (k == "slc" || k == "dlc" || k == "nt" || k == "sc1" || k == "nv" || k == "scope" || k == "scc" || k == "matrix_a_reuse" || k == "matrix_b_reuse" || k == "nontemporal") {}
        else throw Unsupported{"modifier or operand '" + std::string(t) + "'"};
    }
    (void)bank;
    if (!dppkey.empty() || !d8.empty()) {
        i.dpp = std::make_unique<Dpp>();
        if (!d8.empty()) for (int l = 0; l < 64; l++) i.dpp->map[l] = (u8)((l & ~7) | (int)d8.at(l & 7));
        else dpp_map(*i.dpp, dppkey, dppval, lanes, gfx9);
        i.dpp->bound_zero = bc || !d8.empty(); i.dpp->fi = fi;
        u64 m = 0; for (int l = 0; l < 64; l++) if ((row_mask >> (l / 16 & 3) & 1) && (bank_mask >> (l / 4 & 3) & 1)) m |= 1ull << l;
        i.dpp->write_mask = m; i.has_mods = true;
    }
    if (sdwa || sw) { i.sdwa = sw ? std::move(sw) : std::make_unique<Sdwa>(); i.has_mods = true; }
    if (i.clamp || i.omod) i.has_mods = true;
    for (int k = 0; k < i.nop; k++) if (i.op[k].neg || i.op[k].abs || i.op[k].sext) i.has_mods = true;

    // Control flow
    if (starts(mn, "s_cbranch") || mn == "s_branch") {
        i.target = i.pc + 4 + (u64)((i64)(i16)(u16)i.word * 4);
    }
    if (mn == "s_call_b64") i.target = i.pc + 4 + (u64)((i64)(i16)(u16)i.word * 4);
    if (starts(mn, "s_wait_") || starts(mn, "s_waitcnt_")) {
        int n = i.nop ? (int)i.op[i.nop - 1].imm32 : 0;
        if (mn == "s_wait_loadcnt" || mn == "s_waitcnt_vmcnt") i.w_vm = n;
        else if (mn == "s_wait_storecnt" || mn == "s_waitcnt_vscnt") i.w_vs = n;
        else if (mn == "s_wait_dscnt" || mn == "s_waitcnt_lgkmcnt") i.w_lgkm = n;
        else if (mn == "s_wait_kmcnt") i.w_km = n;
        else if (mn == "s_wait_samplecnt") i.w_sample = n;
        else if (mn == "s_wait_bvhcnt") i.w_bvh = n;
        else if (mn == "s_wait_expcnt" || mn == "s_waitcnt_expcnt") i.w_exp = n;
        else if (mn == "s_wait_loadcnt_dscnt") { i.w_vm = n >> 8 & 63; i.w_lgkm = n & 63; }
        else if (mn == "s_wait_storecnt_dscnt") { i.w_vs = n >> 8 & 63; i.w_lgkm = n & 63; }
        else if (mn == "s_wait_idle") i.w_vm = i.w_vs = i.w_lgkm = i.w_km = i.w_sample = i.w_bvh = 0;
        else throw Unsupported{mn};
        i.fn = table().at("s_waitcnt").fn; i.cls = Cls::waitcnt; return;
    }
    if (mn == "s_barrier" || mn == "s_barrier_signal" || mn == "s_barrier_wait" || mn == "s_barrier_signal_isfirst" || mn == "s_endpgm" || mn == "s_sleep" || mn == "s_sleep_var" || mn == "s_endpgm_saved" || mn == "s_barrier_leave") i.ctl = true;

    if (is_smem || starts(mn, "global_") || starts(mn, "flat_") || starts(mn, "scratch_") || starts(mn, "buffer_") || starts(mn, "ds_") || starts(mn, "s_prefetch") || starts(mn, "tbuffer_")) {
        if (!decode_mem(arch, i, mn)) throw Unsupported{mn};
        // Loads may overwrite the destination of an earlier load of the same kind (returns are in order).
        bool has_dst = i.cls == Cls::smem || ((i.cls == Cls::vload || i.cls == Cls::lds_read || i.cls == Cls::lds_permute || i.m.rtn) && !i.m.lds_dma);
        for (int k = 0; k < i.nop; k++) add_touch(i, i.op[k], k == 0 && has_dst);
        return;
    }
    if (starts(mn, "v_mfma") || starts(mn, "v_wmma") || starts(mn, "v_smfmac") || starts(mn, "v_swmmac")) {
        if (!matrix_lookup(arch, mn, &i.shape)) throw Unsupported{mn};
        i.fn = exec_matrix; i.cls = Cls::matrix;
        for (int k = 0; k < i.nop; k++) add_touch(i, i.op[k], k == 0);
        return;
    }
    if (i.sdwa) {      // operand selects: the sources follow the destination(s)
        int first = 1; if (i.nop > 1 && (mn.find("_co_") != mn.npos)) first = 2;
        if (first < i.nop) i.op[first].sel = s0;
        if (first + 1 < i.nop) i.op[first + 1].sel = s1;
    }
    std::string key = mn;
    if (i.clamp && table().count(mn + "#clamp")) key = mn + "#clamp";
    if (mn == "v_mov_b32" && !i.has_mods && table().count("v_mov_b32#plain")) key = "v_mov_b32#plain";
    auto it = table().find(key);
    if (it == table().end()) throw Unsupported{mn};
    i.fn = it->second.fn; i.cls = it->second.cls;
    if (starts(mn, "v_") && scalar16_op(mn)) {
        int nd = 1;
        int nsrc = i.nop - nd;
        for (int k = 0; k < nsrc && k < 3; k++) if (i.op_sel >> k & 1) i.op[nd + k].half = 2;
        if (i.op_sel >> std::min(nsrc, 3) & 1) i.op[0].half = 2;
    }
    for (int k = 0; k < i.nop; k++) {
        Opnd& o = i.op[k];
        if (o.kind == Opnd::IMM && o.literal && o.imm64i >> 32 == 0 && ends(mn, "_i64")) o.imm64i = (u64)(i64)(i32)o.imm32;
    }
    // gfx9: the 16-bit forms that came with op_sel keep the other half of the destination, the older ones clear it; gfx10+: all keep it.
    if (gfx9) i.hi16_keep = mn == "v_mad_f16" || mn == "v_fma_f16" || mn == "v_mad_u16" || mn == "v_mad_i16" || mn == "v_div_fixup_f16" || mn == "v_add_i16" || mn == "v_sub_i16" || mn.find("_mixlo_") != mn.npos || mn.find("scalef32") != mn.npos || starts(mn, "v_ashr_pk_")
        || ((starts(mn, "v_med3_") || starts(mn, "v_min3_") || starts(mn, "v_max3_")) && ends(mn, "16"));
    else i.hi16_keep = true;
    if (legacy16) i.hi16_keep = false;
    for (int k = 0; k < i.nop; k++) add_touch(i, i.op[k], k == 0);
    if (starts(mn, "v_div_fmas")) { Opnd o; o.kind = Opnd::S; o.reg = S_VCC; o.n = 2; add_touch(i, o, false); }
}

void exec_matrix(Wave& w, const Inst& i) {
    alignas(64) static thread_local u32 cbuf[64 * 64];
    MatrixMods mm;
    mm.cbsz = i.cbsz; mm.abid = i.abid; mm.blgp = i.blgp; mm.neg_lo = i.neg_lo; mm.neg_hi = i.neg_hi;
    mm.op_sel = i.op_sel; mm.op_sel_hi = i.op_sel_hi; mm.clamp = i.clamp;
    alignas(64) u32 sa[64], sb[64];
    auto src = [&](int k) -> const u32* { if (i.op[k].kind != Opnd::V) fault(w, i, Fault::Kind::unsupported, "matrix source is not a vector register"); return w.row(i.op[k].reg); };
    const u32* a = src(1); const u32* b = src(2); const u32* c;
    const Opnd& oc = i.op[3];
    if (oc.kind == Opnd::V) c = w.row(oc.reg);
    else {
        bool f64 = i.mn.find("mfma_f64") != std::string::npos;
        u32 v = oc.imm32;
        int n = i.shape.c_regs ? i.shape.c_regs : oc.n;
        if (i.mn.find("wmma_f16") != std::string::npos) v = oc.imm16 * 0x10001u;
        if (i.mn.find("wmma_bf16") != std::string::npos) v = oc.immbf * 0x10001u;
        for (int r = 0; r < n; r++) { u32 x = f64 ? (r & 1 ? (u32)(oc.imm64f >> 32) : (u32)oc.imm64f) : v; for (int l = 0; l < 64; l++) cbuf[r * 64 + l] = x; }
        c = cbuf;
    }
    auto scale = [&](int k, u32* buf) -> const u32* {
        const Opnd& o = i.op[k];
        if (o.kind == Opnd::V) return w.row(o.reg);
        u32 v = rd32(w, o); for (int l = 0; l < 64; l++) buf[l] = v; return buf;
    };
    if (i.nop >= 6) { mm.scale_a = scale(4, sa); mm.scale_b = scale(5, sb); }
    if (i.op[0].kind != Opnd::V) fault(w, i, Fault::Kind::unsupported, "matrix destination");
    try { matrix_exec(w.arch, i.mn, a, b, c, w.row(i.op[0].reg), mm); }
    catch (const std::invalid_argument& e) { fault(w, i, Fault::Kind::unsupported, e.what()); }
    w.wg->ctr->matrix_flops += i.shape.flops;
}
} // namespace

const std::string& alias_of(const std::string& mn) {
    static const std::unordered_map<std::string, std::string> m = [] {
        std::unordered_map<std::string, std::string> a;
        auto A = [&](const char* from, const char* to) { a[from] = to; };
        for (const char* t : {"f32", "f16", "f64"}) {
            std::string s = t;
            a["v_min_num_" + s] = "v_min_" + s; a["v_max_num_" + s] = "v_max_" + s;
            a["v_min3_num_" + s] = "v_min3_" + s; a["v_max3_num_" + s] = "v_max3_" + s; a["v_med3_num_" + s] = "v_med3_" + s;
            a["v_minmax_num_" + s] = "v_minmax_" + s; a["v_maxmin_num_" + s] = "v_maxmin_" + s;
        }
        A("v_pk_min_num_f16", "v_pk_min_f16"); A("v_pk_max_num_f16", "v_pk_max_f16");
        A("v_add_nc_u32", "v_add_u32"); A("v_sub_nc_u32", "v_sub_u32"); A("v_subrev_nc_u32", "v_subrev_u32");
        A("v_add_nc_i32", "v_add_i32"); A("v_sub_nc_i32", "v_sub_i32");
        A("v_add_nc_u16", "v_add_u16"); A("v_sub_nc_u16", "v_sub_u16"); A("v_add_nc_i16", "v_add_i16"); A("v_sub_nc_i16", "v_sub_i16");
        A("v_add_co_ci_u32", "v_addc_co_u32"); A("v_sub_co_ci_u32", "v_subb_co_u32"); A("v_subrev_co_ci_u32", "v_subbrev_co_u32");
        A("v_mad_co_u64_u32", "v_mad_u64_u32"); A("v_mad_co_i64_i32", "v_mad_i64_i32");
        A("v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32"); A("v_cvt_pk_u16_u32", "v_cvt_pk_u16_u32");
        A("v_cvt_pknorm_i16_f32", "v_cvt_pk_norm_i16_f32"); A("v_cvt_pknorm_u16_f32", "v_cvt_pk_norm_u16_f32");
        A("v_clz_i32_u32", "v_ffbh_u32"); A("v_ctz_i32_b32", "v_ffbl_b32"); A("v_cls_i32", "v_ffbh_i32");
        A("v_cvt_floor_i32_f32", "v_cvt_flr_i32_f32"); A("v_cvt_nearest_i32_f32", "v_cvt_rpi_i32_f32");
        A("v_mul_dx9_zero_f32", "v_mul_legacy_f32"); A("v_fma_dx9_zero_f32", "v_fma_legacy_f32"); A("v_fmac_dx9_zero_f32", "v_fmac_legacy_f32");
        A("v_lshlrev_b16", "v_lshlrev_b16"); A("v_fmamk_f32", "v_fmamk_f32"); A("v_madmk_f32", "v_fmamk_f32#mad"); A("v_madak_f32", "v_fmaak_f32#mad");
        A("v_mov_b64", "v_mov_b64"); A("v_dot2c_f32_f16", "v_dot2c_f32_f16"); A("v_dot2acc_f32_f16", "v_dot2c_f32_f16");
        A("v_dot4_i32_iu8", "v_dot4_i32_iu8"); A("v_dot4c_i32_i8", "v_dot4c_i32_i8");
        A("v_readfirstlane_b32", "v_readfirstlane_b32"); A("v_accvgpr_read", "v_accvgpr_read_b32"); A("v_accvgpr_write", "v_accvgpr_write_b32");
        A("v_cvt_u32_u16", "v_cvt_u32_u16");
        A("v_lshlrev_b64", "v_lshlrev_b64"); A("v_lshrrev_b64", "v_lshrrev_b64"); A("v_ashrrev_i64", "v_ashrrev_i64");
        // scalar
        A("s_add_co_u32", "s_add_u32"); A("s_sub_co_u32", "s_sub_u32"); A("s_add_co_i32", "s_add_i32"); A("s_sub_co_i32", "s_sub_i32");
        A("s_add_co_ci_u32", "s_addc_u32"); A("s_sub_co_ci_u32", "s_subb_u32"); A("s_addk_co_i32", "s_addk_i32");
        A("s_ff1_i32_b32", "s_ff1_i32_b32"); A("s_ctz_i32_b32", "s_ff1_i32_b32"); A("s_ctz_i32_b64", "s_ff1_i32_b64");
        A("s_clz_i32_u32", "s_flbit_i32_b32"); A("s_clz_i32_u64", "s_flbit_i32_b64"); A("s_cls_i32", "s_flbit_i32"); A("s_cls_i32_i64", "s_flbit_i32_i64");
        A("s_and_not1_b32", "s_andn2_b32"); A("s_and_not1_b64", "s_andn2_b64"); A("s_or_not1_b32", "s_orn2_b32"); A("s_or_not1_b64", "s_orn2_b64");
        A("s_and_not1_saveexec_b32", "s_andn2_saveexec_b32"); A("s_and_not1_saveexec_b64", "s_andn2_saveexec_b64");
        A("s_or_not1_saveexec_b32", "s_orn2_saveexec_b32"); A("s_or_not1_saveexec_b64", "s_orn2_saveexec_b64");
        A("s_and_not0_saveexec_b32", "s_andn1_saveexec_b32"); A("s_and_not0_saveexec_b64", "s_andn1_saveexec_b64");
        A("s_or_not0_saveexec_b32", "s_orn1_saveexec_b32"); A("s_or_not0_saveexec_b64", "s_orn1_saveexec_b64");
        A("s_and_not1_wrexec_b32", "s_andn2_wrexec_b32"); A("s_and_not1_wrexec_b64", "s_andn2_wrexec_b64");
        A("s_and_not0_wrexec_b32", "s_andn1_wrexec_b32"); A("s_and_not0_wrexec_b64", "s_andn1_wrexec_b64");
        return a;
    }();
    auto it = m.find(mn);
    return it == m.end() ? mn : it->second;
}

const Inst* CodeObject::Impl::decode(u64 pc) {
    u64 o = pc - (u64)base - text_lo;
    std::lock_guard<std::mutex> g(decode_mutex);
    if (o >= text_hi - text_lo || (o & 3)) throw Fault(Fault::Kind::memory, "gfxemu: instruction fetch outside the code at pc " + hex(pc - (u64)base));
    if (Inst* i = code[o >> 2].load()) return i;
    auto i = std::make_unique<Inst>();
    i->pc = pc; i->idx = (u32)insts.size();
    u32 ln = line_of[o >> 2];
    if (!ln) throw Fault(Fault::Kind::unsupported, "gfxemu: nothing was disassembled at pc " + hex(pc - (u64)base));
    i->size = len_of[o >> 2]; i->word = word_of[o >> 2];
    try { parse_line(arch, *i, lines[ln - 1], false); }
    catch (const Unsupported& u) { i->fn = exec_unsupported; i->text = lines[ln - 1] + "   [" + u.what + "]"; i->dual.reset(); i->ctl = false; i->ntouch = 0; if (i->mn.empty()) i->mn = "?"; }
    Inst* p = i.get(); insts.push_back(std::move(i));
    code[o >> 2].store(p, std::memory_order_release);
    return p;
}

} // namespace gfxemu
