// Loading a code object: segments, symbols, relocations, the kernels of the metadata note.
#include "core/internal.h"
#include "core/msgpack.h"
#include "core/target.h"

#include <algorithm>
#include <elf.h>
#include <sys/mman.h>

namespace gfxemu {

std::string hex(u64 v) {
    char b[32];
    snprintf(b, sizeof b, "0x%llx", (unsigned long long)v);
    return b;
}

CodeObject::CodeObject() : impl(new Impl) {}
CodeObject::~CodeObject() {
    if (impl && impl->block) {
        unregister_range(impl->base);
        munmap(impl->block, impl->span);
    }
}
Arch CodeObject::arch() const { return impl->arch; }
const std::map<std::string, KernelInfo>& CodeObject::kernels() const { return impl->kernels; }
std::pair<void*, size_t> CodeObject::symbol(const std::string& name) const {
    auto it = impl->symbols.find(name);
    if (it == impl->symbols.end()) return {nullptr, 0};
    return {impl->base + it->second.first, it->second.second};
}

namespace {

[[noreturn]] void bad(const std::string& what) { throw std::runtime_error("gfxemu: " + what); }

class Loader {
public:
    Loader(CodeObject::Impl& image_, const u8* file_, size_t size_) : image(image_), file(file_), size(size_) {}

    void load(std::optional<Arch> device) {
        if (size < sizeof header || std::memcmp(file, ELFMAG, 4) || file[EI_CLASS] != ELFCLASS64)
            bad("not a 64-bit ELF file");
        std::memcpy(&header, file, sizeof header);
        if (header.e_machine != 224 /* EM_AMDGPU */) bad("not an AMDGPU ELF file");
        auto* target = target_of_mach(header.e_flags & 0xff);
        if (!target)
            bad("code object for an architecture that is not emulated (EF_AMDGPU_MACH " + hex(header.e_flags & 0xff) +
                ")");
        image.arch = device.value_or(target->isa);
        image.elf.assign(file, file + size);
        table(segments, header.e_phoff, header.e_phnum);
        table(sections, header.e_shoff, header.e_shnum);
        map_segments();
        read_sections();
        relocate();
        for (auto& s : segments)
            if (s.p_type == PT_NOTE) read_notes(s);
    }

private:
    CodeObject::Impl& image;
    const u8* file;
    size_t size;
    Elf64_Ehdr header{};
    std::vector<Elf64_Phdr> segments;
    std::vector<Elf64_Shdr> sections;
    std::vector<Elf64_Sym> dynamic_symbols;

    void need(u64 offset, u64 n) const {
        if (offset > size || n > size - offset) bad("truncated ELF file");
    }
    template <class T> void table(std::vector<T>& out, u64 offset, u64 count) {
        need(offset, count * sizeof(T));
        out.resize(count);
        std::memcpy(out.data(), file + offset, count * sizeof(T));
    }

    void map_segments() {
        u64 top = 0;
        for (auto& s : segments)
            if (s.p_type == PT_LOAD) top = std::max(top, s.p_vaddr + s.p_memsz);
        if (!top) bad("no loadable segment");
        image.span = (top + 4095 + 4096) & ~4095ull; // a spare page: scalar loads may fetch past the end
        image.block = mmap(nullptr, image.span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (image.block == MAP_FAILED) {
            image.block = nullptr;
            bad("out of memory");
        }
        image.base = (u8*)image.block;
        for (auto& s : segments) {
            if (s.p_type != PT_LOAD) continue;
            need(s.p_offset, s.p_filesz);
            std::memcpy(image.base + s.p_vaddr, file + s.p_offset, s.p_filesz);
        }
    }

    void read_sections() {
        const char* names =
            header.e_shstrndx < sections.size() ? (const char*)file + sections[header.e_shstrndx].sh_offset : nullptr;
        for (auto& s : sections) {
            if (s.sh_type != SHT_NOBITS) need(s.sh_offset, s.sh_size);
            if (names && !std::strcmp(names + s.sh_name, ".text")) {
                image.text_lo = s.sh_addr;
                image.text_hi = s.sh_addr + s.sh_size;
                image.text_offset = s.sh_offset;
            }
            if (s.sh_type == SHT_DYNSYM || s.sh_type == SHT_SYMTAB) read_symbols(s);
        }
    }
    void read_symbols(const Elf64_Shdr& s) {
        if (s.sh_link >= sections.size()) return;
        const char* names = (const char*)file + sections[s.sh_link].sh_offset;
        std::vector<Elf64_Sym> symbols;
        table(symbols, s.sh_offset, s.sh_size / sizeof(Elf64_Sym));
        for (auto& y : symbols) {
            if (y.st_shndx == SHN_UNDEF || y.st_shndx == SHN_ABS) continue;
            int type = ELF64_ST_TYPE(y.st_info);
            if (type == STT_OBJECT || type == STT_FUNC)
                image.symbols.emplace(names + y.st_name, std::pair<u64, u64>{y.st_value, y.st_size});
        }
        if (s.sh_type == SHT_DYNSYM) dynamic_symbols = std::move(symbols);
    }

    void relocate() {
        for (auto& s : sections) {
            if (s.sh_type != SHT_RELA || !(s.sh_flags & SHF_ALLOC)) continue;
            std::vector<Elf64_Rela> list;
            table(list, s.sh_offset, s.sh_size / sizeof(Elf64_Rela));
            for (auto& r : list) relocate(r);
        }
    }
    void relocate(const Elf64_Rela& r) {
        if (r.r_offset + 8 > image.span) bad("relocation outside the image");
        u64 index = ELF64_R_SYM(r.r_info);
        u64 symbol = index && index < dynamic_symbols.size() ? (u64)image.base + dynamic_symbols[index].st_value : 0;
        u8* at = image.base + r.r_offset;
        u64 absolute = symbol + (u64)r.r_addend, relative = absolute - (u64)at;
        auto put32 = [&](u64 v) {
            u32 x = (u32)v;
            std::memcpy(at, &x, 4);
        };
        auto put64 = [&](u64 v) { std::memcpy(at, &v, 8); };
        switch (ELF64_R_TYPE(r.r_info)) { // R_AMDGPU_...
        case 0: break;
        case 1: put32(absolute); break;                           // ABS32_LO
        case 2: put32(absolute >> 32); break;                     // ABS32_HI
        case 3: put64(absolute); break;                           // ABS64
        case 4: put32(relative); break;                           // REL32
        case 5: put64(relative); break;                           // REL64
        case 6: put32(absolute); break;                           // ABS32
        case 10: put32(relative); break;                          // REL32_LO
        case 11: put32(relative >> 32); break;                    // REL32_HI
        case 13: put64((u64)image.base + (u64)r.r_addend); break; // RELATIVE64
        default: bad("relocation type " + std::to_string(ELF64_R_TYPE(r.r_info)) + " is not handled");
        }
    }

    void read_notes(const Elf64_Phdr& segment) {
        need(segment.p_offset, segment.p_filesz);
        const u8* at = file + segment.p_offset;
        const u8* end = at + segment.p_filesz;
        while (end - at >= 12) {
            u32 head[3]; // name size, description size, type
            std::memcpy(head, at, 12);
            const u8* name = at + 12;
            const u8* description = name + ((head[0] + 3) & ~3u);
            if (description + head[1] > end) break;
            if (head[2] == 32 /* NT_AMDGPU_METADATA */ && head[0] == 7 && !std::memcmp(name, "AMDGPU", 7)) {
                Msg metadata = parse_msgpack(description, description + head[1]);
                if (auto* kernels = metadata.get("amdhsa.kernels"))
                    for (auto& k : kernels->items) read_kernel(k);
            }
            at = description + ((head[1] + 3) & ~3u);
        }
    }
    void read_kernel(const Msg& k) {
        auto it = image.symbols.find(k.str(".symbol"));
        if (it == image.symbols.end()) return;
        KernelInfo info;
        info.name = k.str(".name");
        info.descriptor = it->second.first;
        i64 entry;
        std::memcpy(&entry, image.base + info.descriptor + 16, 8);
        info.entry = info.descriptor + (u64)entry;
        info.kernarg_size = (u32)k.num(".kernarg_segment_size");
        info.static_lds = (u32)k.num(".group_segment_fixed_size");
        info.scratch_per_lane = (u32)k.num(".private_segment_fixed_size");
        info.max_flat_workgroup_size = (u32)k.num(".max_flat_workgroup_size", 1024);
        info.vgprs = (u32)k.num(".vgpr_count");
        info.agprs = (u32)k.num(".agpr_count");
        info.sgprs = (u32)k.num(".sgpr_count");
        info.vgpr_spills = (u32)k.num(".vgpr_spill_count");
        info.sgpr_spills = (u32)k.num(".sgpr_spill_count");
        info.uses_dynamic_stack = k.num(".uses_dynamic_stack") != 0;
        info.wave64 = k.num(".wavefront_size", 64) == 64;
        if (auto* args = k.get(".args"))
            for (auto& a : args->items)
                info.args.push_back({a.str(".name"), a.str(".value_kind"), (u32)a.num(".offset"), (u32)a.num(".size")});
        image.kernels[info.name] = info;
    }
};

} // namespace

std::shared_ptr<CodeObject> CodeObject::load(const void* elf, size_t size, std::optional<Arch> device) {
    std::shared_ptr<CodeObject> code(new CodeObject);
    Loader(*code->impl, (const u8*)elf, size).load(device);
    register_range(code->impl->base, code->impl->span, "code object");
    return code;
}

} // namespace gfxemu
