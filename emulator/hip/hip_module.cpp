// Code objects and fat binaries, kernel launches, occupancy, the launch report.
#include "hip/hip_internal.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unordered_map>

namespace gfxemu::hip {

struct Module {
    int device = 0;
    std::shared_ptr<CodeObject> code;
    std::map<std::string, Function*> functions;
    std::map<std::string, void*> globals;           // noted as copy targets
    ~Module() {
        for (auto& [name, p] : globals) forget_module_range(p);
        for (auto& [name, f] : functions) f->code.reset();
    }
};

namespace {

// ---- images ----
struct Target { unsigned mach = 0, xnack = 0, sramecc = 0; };   // xnack, sramecc: 0 unsupported, 1 any, 2 off, 3 on (ELF e_flags)
bool is_elf(const void* p) { return std::memcmp(p, ELFMAG, SELFMAG) == 0; }
Target target_of(const void* elf) {
    unsigned f = static_cast<const Elf64_Ehdr*>(elf)->e_flags;
    return {f & 0xff, f >> 8 & 3, f >> 10 & 3};
}
size_t elf_size(const void* p) {
    auto* h = static_cast<const Elf64_Ehdr*>(p);
    auto* base = static_cast<const char*>(p);
    size_t n = h->e_shoff + size_t(h->e_shnum) * h->e_shentsize;
    n = std::max<size_t>(n, h->e_phoff + size_t(h->e_phnum) * h->e_phentsize);
    for (unsigned i = 0; i < h->e_phnum; ++i) {
        auto* ph = reinterpret_cast<const Elf64_Phdr*>(base + h->e_phoff + i * h->e_phentsize);
        n = std::max<size_t>(n, ph->p_offset + ph->p_filesz);
    }
    for (unsigned i = 0; i < h->e_shnum; ++i) {
        auto* sh = reinterpret_cast<const Elf64_Shdr*>(base + h->e_shoff + i * h->e_shentsize);
        if (sh->sh_type != SHT_NOBITS) n = std::max<size_t>(n, sh->sh_offset + sh->sh_size);
    }
    return n;
}

struct Mach { unsigned mach; const char* name; };
constexpr Mach machs[] = {{0x36, "gfx1030"}, {0x48, "gfx1200"}, {0x4c, "gfx942"}, {0x4f, "gfx950"},
                          {0x53, "gfx10-3-generic"}, {0x59, "gfx12-generic"}, {0x5f, "gfx9-4-generic"}};
unsigned mach_of(Arch a) {
    switch (a) { case Arch::gfx1030: return 0x36; case Arch::gfx1200: return 0x48; case Arch::gfx942: return 0x4c; case Arch::gfx950: return 0x4f; }
    return 0;
}
unsigned generic_of(Arch a) { return a == Arch::gfx1030 ? 0x53 : a == Arch::gfx1200 ? 0x59 : 0x5f; }

// How well an image suits a device: 0 not at all, higher is more specific.
int suits(const Target& t, const Device& d) {
    int score;
    if (t.mach == mach_of(d.arch)) score = 10;
    else if (t.mach == generic_of(d.arch)) score = 1;
    else return 0;
    std::string name = d.prop.gcnArchName;
    auto setting = [&](const char* feature) {
        size_t at = name.find(std::string(":") + feature);
        return at == std::string::npos ? 0u : name[at + 1 + std::strlen(feature)] == '+' ? 3u : 2u;
    };
    for (auto [want, have] : {std::pair{t.xnack, setting("xnack")}, std::pair{t.sramecc, setting("sramecc")}}) {
        if (want < 2 || !have) continue;
        if (want != have) return 0;
        ++score;
    }
    return score;
}

struct Image { const void* data = nullptr; size_t size = 0; std::shared_ptr<std::vector<char>> owner; };

constexpr char bundle_magic[] = "__CLANG_OFFLOAD_BUNDLE__";
bool is_bundle(const void* p) { return std::memcmp(p, bundle_magic, 24) == 0; }
bool is_compressed(const void* p) { return std::memcmp(p, "CCOB", 4) == 0; }
template <class T> T get(const char*& p) { T v; std::memcpy(&v, p, sizeof v); p += sizeof v; return v; }

// Compressed bundle: magic, version, method (0 zlib, 1 zstd), sizes, hash, data.
std::shared_ptr<std::vector<char>> decompress(const char* p) {
    const char* at = p + 4;
    unsigned version = get<uint16_t>(at), method = get<uint16_t>(at);
    uint64_t file = 0, size;
    if (version >= 3) { file = get<uint64_t>(at); size = get<uint64_t>(at); }
    else if (version == 2) { file = get<uint32_t>(at); size = get<uint32_t>(at); }
    else size = get<uint32_t>(at);
    at += 8;
    auto out = std::make_shared<std::vector<char>>(size);
    if (method == 1) {
        void* lib = dlopen("libzstd.so.1", RTLD_NOW);
        if (!lib) throw std::runtime_error("a zstd-compressed bundle needs libzstd.so.1");
        auto frame = reinterpret_cast<size_t (*)(const void*, size_t)>(dlsym(lib, "ZSTD_findFrameCompressedSize"));
        auto run = reinterpret_cast<size_t (*)(void*, size_t, const void*, size_t)>(dlsym(lib, "ZSTD_decompress"));
        size_t n = file ? file - size_t(at - p) : frame(at, size + (size >> 4) + 4096);
        if (!run || run(out->data(), size, at, n) != size) throw std::runtime_error("corrupt zstd-compressed bundle");
    } else if (method == 0) {
        void* lib = dlopen("libz.so.1", RTLD_NOW);
        if (!lib) throw std::runtime_error("a zlib-compressed bundle needs libz.so.1");
        auto run = reinterpret_cast<int (*)(unsigned char*, unsigned long*, const unsigned char*, unsigned long)>(dlsym(lib, "uncompress"));
        unsigned long n = size;
        if (!run || run(reinterpret_cast<unsigned char*>(out->data()), &n, reinterpret_cast<const unsigned char*>(at), file ? file - (at - p) : size + (size >> 4) + 4096) || n != size)
            throw std::runtime_error("corrupt zlib-compressed bundle");
    } else throw std::runtime_error("compressed bundle with an unknown method");
    return out;
}

// The image of a code object, bundle or compressed bundle that suits the device.
hipError_t choose_image(const void* data, const Device& d, Image& out, std::string& offered) {
    if (!data) return hipErrorInvalidValue;
    std::shared_ptr<std::vector<char>> owner;
    if (is_compressed(data)) {
        try { owner = decompress(static_cast<const char*>(data)); }
        catch (const std::exception& e) { message("%s", e.what()); return hipErrorInvalidImage; }
        data = owner->data();
    }
    if (is_elf(data)) {
        Target t = target_of(data);
        for (auto& m : machs) if (m.mach == t.mach) offered = m.name;
        if (static_cast<const Elf64_Ehdr*>(data)->e_machine != 224 /* EM_AMDGPU */) return hipErrorInvalidImage;
        if (!suits(t, d)) return hipErrorNoBinaryForGpu;
        out = {data, elf_size(data), owner};
        return hipSuccess;
    }
    if (!is_bundle(data)) return hipErrorInvalidImage;
    auto* base = static_cast<const char*>(data);
    const char* p = base + 24;
    uint64_t count = get<uint64_t>(p);
    int best = 0;
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t offset = get<uint64_t>(p), size = get<uint64_t>(p), length = get<uint64_t>(p);
        std::string triple(p, length);
        p += length;
        if (triple.rfind("hip", 0) != 0) continue;
        size_t dash = triple.find("--");
        offered += (offered.empty() ? "" : ", ") + (dash == std::string::npos ? triple : triple.substr(dash + 2));
        if (size < sizeof(Elf64_Ehdr) || !is_elf(base + offset)) continue;
        int score = suits(target_of(base + offset), d);
        if (score > best) { best = score; out = {base + offset, size_t(size), owner}; }
    }
    return best ? hipSuccess : hipErrorNoBinaryForGpu;
}

std::shared_ptr<CodeObject> load_image(const Image& image, const Device& d) {
    // The core reads the architecture from the ELF header: a generic image is loaded as the device's own.
    std::vector<char> copy(static_cast<const char*>(image.data), static_cast<const char*>(image.data) + image.size);
    auto* h = reinterpret_cast<Elf64_Ehdr*>(copy.data());
    h->e_flags = (h->e_flags & ~0xffu) | mach_of(d.arch);
    return CodeObject::load(copy.data(), copy.size());
}

// ---- registries ----
std::recursive_mutex& module_mutex() { static auto* m = new std::recursive_mutex; return *m; }
std::set<const void*>& live_functions() { static auto* s = new std::set<const void*>; return *s; }
std::unordered_map<const Module*, std::unique_ptr<Module>>& live_modules() { static auto* s = new std::unordered_map<const Module*, std::unique_ptr<Module>>; return *s; }

struct Managed { void* memory; std::string name; size_t size; };
struct FatBinary {
    const void* data = nullptr;
    std::map<int, std::unique_ptr<Module>> modules; // by device
    std::map<int, hipError_t> errors;
    std::vector<Managed> managed;
};
struct FatSymbol { FatBinary* binary = nullptr; std::string name; size_t size = 0; };
std::unordered_map<const void*, FatSymbol>& fat_functions() { static auto* s = new std::unordered_map<const void*, FatSymbol>; return *s; }
std::unordered_map<const void*, FatSymbol>& fat_variables() { static auto* s = new std::unordered_map<const void*, FatSymbol>; return *s; }
// Managed variables by their host pointer variable and by the address that it holds.
std::unordered_map<const void*, std::pair<void*, size_t>>& managed_variables() { static auto* s = new std::unordered_map<const void*, std::pair<void*, size_t>>; return *s; }

hipError_t load_module(const void* data, int id, std::unique_ptr<Module>& out, bool fat) {
    Device* d = device(id);
    if (!d) return hipErrorNoDevice;
    Image image;
    std::string offered;
    if (hipError_t e = choose_image(data, *d, image, offered)) {
        if (e == hipErrorNoBinaryForGpu) {
            std::fprintf(stderr, "hipErrorNoBinaryForGpu: Unable to find code object for all current devices! - 209\n");
            message("device %d is %s; the %s holds: %s", id, d->prop.gcnArchName, fat ? "fat binary" : "image", offered.empty() ? "no AMDGPU code object" : offered.c_str());
        }
        return e;
    }
    auto m = std::make_unique<Module>();
    m->device = id;
    try {
        m->code = load_image(image, *d);
    } catch (const std::exception& e) {
        message("cannot load the code object for device %d (%s): %s", id, d->prop.gcnArchName, e.what());
        return hipErrorInvalidImage;
    }
    for (auto& [name, info] : m->code->kernels()) {
        auto* f = new Function;
        f->code = m->code;
        f->info = info;
        if (f->info.name.empty()) f->info.name = name;
        f->device = id;
        int status = 0;
        char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
        f->demangled = status == 0 && text ? text : name;
        std::free(text);
        m->functions[name] = f;
        live_functions().insert(f);
    }
    out = std::move(m);
    return hipSuccess;
}

// The fat binary's module for a device, loaded at first use.
Module* fat_module(FatBinary& b, int id, hipError_t& error) {
    auto at = b.modules.find(id);
    if (at != b.modules.end()) return at->second.get();
    auto failed = b.errors.find(id);
    if (failed != b.errors.end()) { error = failed->second; return nullptr; }
    std::unique_ptr<Module> m;
    error = load_module(b.data, id, m, true);
    if (error != hipSuccess) { b.errors[id] = error; return nullptr; }
    for (auto& v : b.managed) {                     // the device variable holds the address of the managed memory
        auto [p, n] = m->code->symbol(v.name);
        if (p && n == sizeof(void*)) std::memcpy(p, &v.memory, sizeof(void*));
    }
    return (b.modules[id] = std::move(m)).get();
}

hipError_t module_global(Module& m, const std::string& name, void** p, size_t* n) {
    auto [at, size] = m.code->symbol(name);
    if (!at) return hipErrorNotFound;
    if (m.globals.emplace(name, at).second) note_module_range(at, size, m.device);
    if (p) *p = at;
    if (n) *n = size;
    return hipSuccess;
}
Module* module_of(hipModule_t h) {
    auto at = live_modules().find(reinterpret_cast<Module*>(h));
    return at == live_modules().end() ? nullptr : at->second.get();
}

// ---- occupancy ----
struct Occupancy { int blocks = 0; double waves_per_simd = 0; int register_limit = 0; };
Occupancy occupancy(const Device& d, const KernelInfo& k, unsigned threads, size_t dynamic_lds) {
    Occupancy o;
    bool gfx9 = d.arch == Arch::gfx942 || d.arch == Arch::gfx950;
    bool wide = !gfx9 && k.wave64;                  // a wave64 on a wave32 machine takes two registers for each
    unsigned wave = gfx9 || wide ? 64 : 32;
    int file = wide ? d.vgprs / 2 : d.vgprs, granule = wide ? d.vgpr_granule / 2 : d.vgpr_granule;
    int registers = (std::max<int>(int(k.vgprs), 1) + granule - 1) / granule * granule;
    int waves = std::min(d.waves_per_simd, file / registers);
    if (gfx9 && k.sgprs > 100) waves = std::min(waves, 7);
    o.register_limit = waves;
    if (!threads || threads > 1024) return o;
    int per_block = int((threads + wave - 1) / wave);
    int blocks = waves * d.simds / per_block;
    size_t lds = (k.static_lds + dynamic_lds + size_t(d.lds_granule) - 1) / size_t(d.lds_granule) * size_t(d.lds_granule);
    if (k.static_lds + dynamic_lds > d.prop.sharedMemPerBlock) blocks = 0;
    else if (lds) blocks = std::min(blocks, int(size_t(d.lds_total) / lds));
    if (per_block > 1) blocks = std::min(blocks, gfx9 ? 16 : 32);
    o.blocks = std::min(blocks, d.prop.maxThreadsPerMultiProcessor / int(threads));
    o.waves_per_simd = double(o.blocks * per_block) / d.simds;
    return o;
}

// ---- report ----
std::mutex report_mutex;
std::atomic<uint64_t> launches{0}, faults{0}, instructions{0};
std::atomic<double> busy{0};

std::string quote(const std::string& s) {
    std::string out = "\"";
    for (char c : s) {
        if (c == '"' || c == '\\') { out += '\\'; out += c; }
        else if ((unsigned char)c < 32) { char b[8]; std::snprintf(b, sizeof b, "\\u%04x", c); out += b; }
        else out += c;
    }
    return out + "\"";
}

void report(const Function& f, const Device& d, const Launch& l, const Counters& c, double seconds, const char* fault, const std::string& timing = {}) {
    if (settings().report.empty()) return;
    auto& k = f.info;
    auto o = occupancy(d, k, l.block.x * l.block.y * l.block.z, l.dynamic_lds);
    std::string line = "{\"kernel\":" + quote(k.name) + ",\"demangled\":" + quote(f.demangled) + ",\"arch\":" + quote(arch_name(d.arch));
    auto number = [&](const char* name, uint64_t v) { line += std::string(",\"") + name + "\":" + std::to_string(v); };
    auto dim = [&](const char* name, const Dim3& v) {
        line += std::string(",\"") + name + "\":[" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + "]";
    };
    number("device", uint64_t(d.id));
    dim("grid", l.grid);
    dim("block", l.block);
    number("lds", k.static_lds + l.dynamic_lds); number("static_lds", k.static_lds); number("dynamic_lds", l.dynamic_lds);
    number("vgprs", k.vgprs); number("agprs", k.agprs); number("sgprs", k.sgprs);
    number("vgpr_spills", k.vgpr_spills); number("sgpr_spills", k.sgpr_spills); number("scratch", k.scratch_per_lane);
    number("wave", k.wave64 || wave_size(d.arch) == 64 ? 64 : 32);
    number("blocks_per_unit", uint64_t(o.blocks)); number("register_waves_per_simd", uint64_t(o.register_limit));
    char text[64];
    std::snprintf(text, sizeof text, ",\"waves_per_simd\":%.2f", o.waves_per_simd);
    line += text;
    if (fault) line += ",\"fault\":" + quote(fault);
    line += ",\"counters\":{\"waves\":" + std::to_string(c.waves);
    number("instructions", c.instructions); number("valu", c.valu); number("trans", c.trans); number("salu", c.salu); number("smem", c.smem);
    number("branch", c.branch); number("barrier", c.barrier); number("waitcnt", c.waitcnt); number("other", c.other);
    number("matrix", c.matrix); number("matrix_flops", c.matrix_flops);
    number("vmem_load", c.vmem_load); number("vmem_store", c.vmem_store); number("vmem_load_bytes", c.vmem_load_bytes);
    number("vmem_store_bytes", c.vmem_store_bytes); number("vmem_segments", c.vmem_segments);
    number("lds_read", c.lds_read); number("lds_write", c.lds_write); number("lds_permute", c.lds_permute);
    number("lds_read_bytes", c.lds_read_bytes); number("lds_write_bytes", c.lds_write_bytes); number("lds_dma_bytes", c.lds_dma_bytes);
    number("lds_conflict_cycles", c.lds_conflict_cycles); number("scratch", c.scratch);
    line += ",\"by_mnemonic\":{";
    bool first = true;
    for (auto& [name, n] : c.by_mnemonic) { line += (first ? "" : ",") + quote(name) + ":" + std::to_string(n); first = false; }
    std::snprintf(text, sizeof text, "}},\"seconds\":%.6f", seconds);
    line += text;
    if (!timing.empty()) line += ",\"timing\":" + timing;
    line += "}\n";
    std::lock_guard lock(report_mutex);
    if (std::FILE* f = std::fopen(settings().report.c_str(), "a")) { std::fputs(line.c_str(), f); std::fclose(f); }
}

void run_kernel(const std::shared_ptr<CodeObject>& code, const Function& f, const Launch& l) {
    Device& d = *device(f.device);
    double start = now_seconds();
    ++launches;
    try {
        LaunchResult r = launch(*code, f.info.name, l);
        double seconds = now_seconds() - start;
        instructions += r.counters.instructions;
        busy = busy + seconds;
        report(f, d, l, r.counters, seconds, nullptr, r.timing);
    } catch (const std::exception& e) {
        ++faults;
        report(f, d, l, Counters{}, now_seconds() - start, e.what());
        exit_after_first_launch();
        throw;
    }
    exit_after_first_launch();
}
} // namespace

void print_summary() {
    message("%llu launches, %llu faults, %llu wave-instructions, %.3f s in kernels", (unsigned long long)launches, (unsigned long long)faults,
            (unsigned long long)instructions, double(busy));
}

Function* function_ref(const void* h, hipError_t* error, int id) {
    hipError_t ignored, &e = error ? *error : ignored;
    std::lock_guard lock(module_mutex());
    if (live_functions().count(h)) {
        auto* f = static_cast<Function*>(const_cast<void*>(h));
        e = f->code ? hipSuccess : hipErrorInvalidHandle;
        return f->code ? f : nullptr;
    }
    auto at = fat_functions().find(h);
    if (at == fat_functions().end()) { e = hipErrorInvalidDeviceFunction; return nullptr; }
    e = hipSuccess;
    Module* m = fat_module(*at->second.binary, id < 0 ? current_device() : id, e);
    if (!m) return nullptr;
    auto f = m->functions.find(at->second.name);
    if (f == m->functions.end()) { e = hipErrorInvalidDeviceFunction; return nullptr; }
    return f->second;
}

hipError_t make_kernel_op(Function* f, const hipKernelNodeParams& p, bool cooperative, Op& op) {
    auto code = f->code;
    if (!code) return hipErrorInvalidHandle;
    Device& d = *device(f->device);
    auto& k = f->info;
    uint64_t threads = uint64_t(p.blockDim.x) * p.blockDim.y * p.blockDim.z;
    if (!threads || !p.gridDim.x || !p.gridDim.y || !p.gridDim.z) return hipErrorInvalidConfiguration;
    if (threads > uint64_t(d.prop.maxThreadsPerBlock)) return hipErrorInvalidConfiguration;
    if (p.gridDim.x > uint32_t(d.prop.maxGridSize[0]) || p.gridDim.y > uint32_t(d.prop.maxGridSize[1]) || p.gridDim.z > uint32_t(d.prop.maxGridSize[2]))
        return hipErrorInvalidConfiguration;
    if (uint64_t(p.gridDim.x) * p.blockDim.x > UINT32_MAX || uint64_t(p.gridDim.y) * p.blockDim.y > UINT32_MAX ||
        uint64_t(p.gridDim.z) * p.blockDim.z > UINT32_MAX) return hipErrorInvalidConfiguration;
    if (k.max_flat_workgroup_size && threads > k.max_flat_workgroup_size) {
        message("Launch params (%u, %u, %u) are larger than launch bounds (%u) for kernel %s", p.blockDim.x, p.blockDim.y, p.blockDim.z,
                k.max_flat_workgroup_size, f->demangled.c_str());
        return hipErrorLaunchFailure;
    }
    if (uint64_t(k.static_lds) + p.sharedMemBytes > d.prop.sharedMemPerBlock) {
        message("%u + %u bytes of LDS exceed the %zu of %s for kernel %s", k.static_lds, p.sharedMemBytes, d.prop.sharedMemPerBlock, arch_name(d.arch), f->demangled.c_str());
        return hipErrorInvalidValue;
    }
    if (cooperative) {
        uint64_t blocks = uint64_t(p.gridDim.x) * p.gridDim.y * p.gridDim.z;
        uint64_t room = uint64_t(occupancy(d, k, unsigned(threads), p.sharedMemBytes).blocks) * uint64_t(d.prop.multiProcessorCount);
        if (blocks > room) return hipErrorCooperativeLaunchTooLarge;
    }
    Launch l;
    l.grid = {p.gridDim.x, p.gridDim.y, p.gridDim.z};
    l.block = {p.blockDim.x, p.blockDim.y, p.blockDim.z};
    l.dynamic_lds = p.sharedMemBytes;
    l.cooperative = cooperative;
    size_t size = 0;
    std::vector<const KernelArgInfo*> args;
    for (auto& a : k.args)
        if (a.value_kind.rfind("hidden_", 0) != 0) { args.push_back(&a); size = std::max<size_t>(size, a.offset + a.size); }
    l.kernarg.assign(size, 0);
    if (p.extra) {
        if (p.kernelParams) return hipErrorInvalidValue;
        const void* buffer = nullptr;
        size_t given = 0;
        for (void** e = p.extra; *e != HIP_LAUNCH_PARAM_END; e += 2) {
            if (*e == HIP_LAUNCH_PARAM_BUFFER_POINTER) buffer = e[1];
            else if (*e == HIP_LAUNCH_PARAM_BUFFER_SIZE) given = *static_cast<size_t*>(e[1]);
            else return hipErrorInvalidValue;
        }
        if (!size && given) return hipErrorLaunchOutOfResources;
        if (size && (!buffer || given < size)) {
            if (buffer) message("the argument buffer has %zu bytes, kernel %s takes %zu", given, f->demangled.c_str(), size);
            return hipErrorInvalidValue;
        }
        if (size) std::memcpy(l.kernarg.data(), buffer, size);
    } else {
        if (!args.empty() && !p.kernelParams) return hipErrorInvalidValue;
        for (size_t i = 0; i < args.size(); ++i) {
            if (!p.kernelParams[i]) return hipErrorInvalidValue;
            std::memcpy(l.kernarg.data() + args[i]->offset, p.kernelParams[i], args[i]->size);
        }
    }
    op.type = hipGraphNodeTypeKernel;
    op.kernel = p;
    op.function = f;
    op.kernarg = l.kernarg;
    op.run = [code, f, l = std::move(l)] { run_kernel(code, *f, l); };
    return hipSuccess;
}

hipError_t symbol_address(const void* var, void** p, size_t* n) {
    std::lock_guard lock(module_mutex());
    if (auto m = managed_variables().find(var); m != managed_variables().end()) {
        if (p) *p = m->second.first;
        if (n) *n = m->second.second;
        return hipSuccess;
    }
    auto at = fat_variables().find(var);
    if (at == fat_variables().end()) return hipErrorInvalidSymbol;
    hipError_t e = hipSuccess;
    Module* m = fat_module(*at->second.binary, current_device(), e);
    if (!m) return e;
    return module_global(*m, at->second.name, p, n) == hipSuccess ? hipSuccess : hipErrorInvalidSymbol;
}

} // namespace gfxemu::hip

using namespace gfxemu::hip;

// ---- fat binaries, as the compiler's constructors register them ----
struct FatWrapper { uint32_t magic, version; const void* binary; void* unused; };
HIP_API void** __hipRegisterFatBinary(const void* data) {
    auto* w = static_cast<const FatWrapper*>(data);
    if (w->magic != 0x48495046 /* "HIPF" */ || w->version != 1) { message("fat binary with an unknown header"); return nullptr; }
    auto* b = new FatBinary;
    b->data = w->binary;
    return reinterpret_cast<void**>(b);
}
HIP_API void __hipRegisterFunction(void** modules, const void* stub, char*, const char* name, unsigned, void*, void*, void*, void*, int*) {
    std::lock_guard lock(module_mutex());
    if (modules) fat_functions()[stub] = {reinterpret_cast<FatBinary*>(modules), name, 0};
}
HIP_API void __hipRegisterVar(void** modules, void* var, char*, char* name, int, size_t size, int, int) {
    std::lock_guard lock(module_mutex());
    if (modules) fat_variables()[var] = {reinterpret_cast<FatBinary*>(modules), name, size};
}
HIP_API void __hipRegisterManagedVar(void** modules, void** pointer, void* init, const char* name, size_t size, unsigned) {
    if (!modules || !device(0)) return;
    (void)allocate(pointer, size, MemKind::managed, 0, 0);
    if (!*pointer) return;
    if (init) std::memcpy(*pointer, init, size); else std::memset(*pointer, 0, size);
    std::lock_guard lock(module_mutex());
    auto* b = reinterpret_cast<FatBinary*>(modules);
    b->managed.push_back({*pointer, name, size});
    managed_variables()[pointer] = managed_variables()[*pointer] = {*pointer, size};
}
HIP_API void __hipRegisterSurface(void**, void*, char*, char*, int, int) {}
HIP_API void __hipRegisterTexture(void**, void*, char*, char*, int, int, int) {}
HIP_API void __hipUnregisterFatBinary(void** modules) {
    if (!modules) return;
    std::lock_guard lock(module_mutex());
    auto* b = reinterpret_cast<FatBinary*>(modules);
    for (auto* table : {&fat_functions(), &fat_variables()})
        for (auto at = table->begin(); at != table->end();) at = at->second.binary == b ? table->erase(at) : std::next(at);
    // The modules stay: at exit, operations may still be in progress.
}

struct CallConfig { dim3 grid, block; size_t lds; hipStream_t stream; };
static thread_local std::vector<CallConfig> call_configs;
HIP_API hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
    call_configs.push_back({grid, block, lds, stream});
    return hipSuccess;
}
HIP_API hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds, hipStream_t* stream) {
    if (call_configs.empty()) return ret(hipErrorMissingConfiguration);
    auto& c = call_configs.back();
    *grid = c.grid; *block = c.block; *lds = c.lds; *stream = c.stream;
    call_configs.pop_back();
    return hipSuccess;
}

// ---- modules ----
static hipError_t module_load(hipModule_t* out, const void* image) {
    if (!out || !image) return hipErrorInvalidValue;
    std::lock_guard lock(module_mutex());
    std::unique_ptr<Module> m;
    if (hipError_t e = load_module(image, current().id, m, false)) return e;
    Module* p = m.get();
    live_modules()[p] = std::move(m);
    *out = reinterpret_cast<hipModule_t>(p);
    return hipSuccess;
}
HIP_API hipError_t hipModuleLoadData(hipModule_t* m, const void* image) { return api([&] { return module_load(m, image); }); }
HIP_API hipError_t hipModuleLoadDataEx(hipModule_t* m, const void* image, unsigned, hipJitOption*, void**) { return api([&] { return module_load(m, image); }); }
HIP_API hipError_t hipModuleLoadFatBinary(hipModule_t* m, const void* image) { return api([&] { return module_load(m, image); }); }
static hipError_t module_load_file(hipModule_t* m, const char* path) {
    if (!m || !path) return hipErrorInvalidValue;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return hipErrorFileNotFound;
    struct stat st;
    if (fstat(fd, &st) || st.st_size < 64) { close(fd); return hipErrorInvalidImage; }
    void* p = mmap(nullptr, size_t(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return hipErrorInvalidImage;
    hipError_t e = module_load(m, p);
    munmap(p, size_t(st.st_size));
    return e;
}
HIP_API hipError_t hipModuleLoad(hipModule_t* m, const char* path) { return api([&] { return module_load_file(m, path); }); }
HIP_API hipError_t hipModuleUnload(hipModule_t h) {
    return api([&] {
        std::lock_guard lock(module_mutex());
        return live_modules().erase(reinterpret_cast<Module*>(h)) ? hipSuccess : hipErrorInvalidHandle;
    });
}
static hipError_t module_function(void** out, hipModule_t h, const char* name) {
    if (!out || !name) return hipErrorInvalidValue;
    std::lock_guard lock(module_mutex());
    Module* m = module_of(h);
    if (!m) return hipErrorInvalidHandle;
    auto at = m->functions.find(name);
    if (at == m->functions.end()) return hipErrorNotFound;
    *out = at->second;
    return hipSuccess;
}
HIP_API hipError_t hipModuleGetFunction(hipFunction_t* f, hipModule_t h, const char* name) { return api([&] { return module_function(reinterpret_cast<void**>(f), h, name); }); }
HIP_API hipError_t hipModuleGetFunctionCount(unsigned* n, hipModule_t h) {
    return api([&] { std::lock_guard lock(module_mutex()); Module* m = module_of(h); if (!n) return hipErrorInvalidValue; if (!m) return hipErrorInvalidHandle; *n = unsigned(m->functions.size()); return hipSuccess; });
}
HIP_API hipError_t hipModuleGetGlobal(hipDeviceptr_t* p, size_t* n, hipModule_t h, const char* name) {
    return api([&] {
        if (!name) return hipErrorInvalidValue;
        std::lock_guard lock(module_mutex());
        Module* m = module_of(h);
        return m ? module_global(*m, name, p, n) : hipErrorInvalidHandle;
    });
}
HIP_API hipError_t hipGetSymbolAddress(void** p, const void* var) { return api([&] { return p ? symbol_address(var, p, nullptr) : hipErrorInvalidValue; }); }
HIP_API hipError_t hipGetSymbolSize(size_t* n, const void* var) { return api([&] { return n ? symbol_address(var, nullptr, n) : hipErrorInvalidValue; }); }
HIP_API hipError_t hipLibraryLoadData(hipLibrary_t* l, const void* image, hipJitOption**, void**, unsigned, hipLibraryOption**, void**, unsigned) { return api([&] { return module_load(reinterpret_cast<hipModule_t*>(l), image); }); }
HIP_API hipError_t hipLibraryLoadFromFile(hipLibrary_t* l, const char* path, hipJitOption**, void**, unsigned, hipLibraryOption**, void**, unsigned) { return api([&] { return module_load_file(reinterpret_cast<hipModule_t*>(l), path); }); }
HIP_API hipError_t hipLibraryUnload(hipLibrary_t l) { return hipModuleUnload(reinterpret_cast<hipModule_t>(l)); }
HIP_API hipError_t hipLibraryGetKernel(hipKernel_t* k, hipLibrary_t l, const char* name) { return api([&] { return module_function(reinterpret_cast<void**>(k), reinterpret_cast<hipModule_t>(l), name); }); }
HIP_API hipError_t hipLibraryGetKernelCount(unsigned* n, hipLibrary_t l) { return hipModuleGetFunctionCount(n, reinterpret_cast<hipModule_t>(l)); }
HIP_API hipError_t hipKernelGetFunction(hipFunction_t* f, hipKernel_t k) { return api([&] { hipError_t e; auto* p = function_ref(k, &e); if (!f) return hipErrorInvalidValue; if (p) *f = reinterpret_cast<hipFunction_t>(p); return p ? hipSuccess : e; }); }

// ---- launches ----
static hipError_t launch_on(const void* func, const hipKernelNodeParams& params, hipStream_t h, bool cooperative, hipEvent_t start = nullptr, hipEvent_t stop = nullptr) {
    StreamRef s = stream_ref(h);
    if (!s) return devices().empty() ? hipErrorNoDevice : hipErrorInvalidHandle;
    hipError_t e = hipErrorInvalidDeviceFunction;
    Function* f = function_ref(func, &e, s->device);
    if (!f) return e;
    if (s->device != current_device()) {
        message("kernel %s launched on a stream of device %d while device %d is current", f->demangled.c_str(), s->device, current_device());
        return hipErrorInvalidHandle;
    }
    if (f->device != s->device) {
        message("kernel %s was loaded for device %d and launched on a stream of device %d", f->demangled.c_str(), f->device, s->device);
        return hipErrorInvalidHandle;
    }
    Op op;
    if (hipError_t r = make_kernel_op(f, params, cooperative, op)) return r;
    auto a = start ? event_ref(start) : nullptr, b = stop ? event_ref(stop) : nullptr;
    if ((start && !a) || (stop && !b)) return hipErrorInvalidHandle;
    if (a) if (hipError_t r = record_event(a, *s)) return r;
    op.kernel.func = const_cast<void*>(func);
    if (hipError_t r = submit(*s, std::move(op))) return r;
    return b ? record_event(b, *s) : hipSuccess;
}
static hipKernelNodeParams node(dim3 grid, dim3 block, size_t lds, void** params, void** extra) {
    hipKernelNodeParams p{};
    p.gridDim = grid;
    p.blockDim = block;
    p.sharedMemBytes = unsigned(std::min<size_t>(lds, UINT32_MAX));
    p.kernelParams = params;
    p.extra = extra;
    return p;
}
HIP_API hipError_t hipLaunchKernel(const void* f, dim3 g, dim3 b, void** args, size_t lds, hipStream_t s) { return api([&] { return launch_on(f, node(g, b, lds, args, nullptr), s, false); }); }
HIP_API hipError_t hipLaunchKernel_spt(const void* f, dim3 g, dim3 b, void** args, size_t lds, hipStream_t s) { return hipLaunchKernel(f, g, b, args, lds, s ? s : hipStreamPerThread); }
HIP_API hipError_t hipLaunchCooperativeKernel(const void* f, dim3 g, dim3 b, void** args, unsigned lds, hipStream_t s) { return api([&] { return launch_on(f, node(g, b, lds, args, nullptr), s, true); }); }
HIP_API hipError_t hipLaunchCooperativeKernel_spt(const void* f, dim3 g, dim3 b, void** args, unsigned lds, hipStream_t s) { return hipLaunchCooperativeKernel(f, g, b, args, lds, s ? s : hipStreamPerThread); }
HIP_API hipError_t hipExtLaunchKernel(const void* f, dim3 g, dim3 b, void** args, size_t lds, hipStream_t s, hipEvent_t start, hipEvent_t stop, int) {
    return api([&] { return launch_on(f, node(g, b, lds, args, nullptr), s, false, start, stop); });
}
// The module forms report a bad shape as an invalid value.
static hipError_t as_value(hipError_t e) { return e == hipErrorInvalidConfiguration ? hipErrorInvalidValue : e; }
HIP_API hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds, hipStream_t s, void** params, void** extra) {
    return api([&] { return as_value(launch_on(f, node({gx, gy, gz}, {bx, by, bz}, lds, params, extra), s, false)); });
}
HIP_API hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned lds, hipStream_t s, void** params) {
    return api([&] { return as_value(launch_on(f, node({gx, gy, gz}, {bx, by, bz}, lds, params, nullptr), s, true)); });
}
static bool cooperative_attribute(const hipLaunchAttribute* a, unsigned n) {
    for (unsigned i = 0; i < n; ++i) if (a[i].id == hipLaunchAttributeCooperative && a[i].val.cooperative) return true;
    return false;
}
HIP_API hipError_t hipLaunchKernelExC(const hipLaunchConfig_t* c, const void* f, void** args) {
    return api([&] {
        if (!c || (c->numAttrs && !c->attrs)) return hipErrorInvalidConfiguration;
        return launch_on(f, node(c->gridDim, c->blockDim, c->dynamicSmemBytes, args, nullptr), c->stream, cooperative_attribute(c->attrs, c->numAttrs));
    });
}
HIP_API hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG* c, hipFunction_t f, void** params, void** extra) {
    return api([&] {
        if (!c || (c->numAttrs && !c->attrs)) return hipErrorInvalidConfiguration;
        return launch_on(f, node({c->gridDimX, c->gridDimY, c->gridDimZ}, {c->blockDimX, c->blockDimY, c->blockDimZ}, c->sharedMemBytes, params, extra), c->hStream,
                         cooperative_attribute(c->attrs, c->numAttrs));
    });
}
// Global sizes are in work-items here.
static hipError_t ext_module_launch(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, size_t lds, hipStream_t s,
                                    void** params, void** extra, hipEvent_t start, hipEvent_t stop) {
    return api([&] {
        if (!bx || !by || !bz) return hipErrorInvalidConfiguration;
        if (!gx || !gy || !gz) return hipErrorInvalidConfiguration;
        bx = std::min(bx, gx); by = std::min(by, gy); bz = std::min(bz, gz);
        if (gx % bx || gy % by || gz % bz) { message("hipExtModuleLaunchKernel: partial workgroups are not supported"); return hipErrorInvalidValue; }
        return launch_on(f, node({gx / bx, gy / by, gz / bz}, {bx, by, bz}, lds, params, extra), s, false, start, stop);
    });
}
HIP_API hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, size_t lds, hipStream_t s,
                                            void** params, void** extra, hipEvent_t start, hipEvent_t stop, uint32_t) {
    return ext_module_launch(f, gx, gy, gz, bx, by, bz, lds, s, params, extra, start, stop);
}
HIP_API hipError_t hipHccModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, size_t lds, hipStream_t s,
                                            void** params, void** extra, hipEvent_t start, hipEvent_t stop) {
    return ext_module_launch(f, gx, gy, gz, bx, by, bz, lds, s, params, extra, start, stop);
}
// hip_ext.h declares both with C++ linkage.
extern "C" __attribute__((visibility("default"), alias("hipExtModuleLaunchKernel"))) hipError_t
_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j(hipFunction_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
    size_t, hipStream_t, void**, void**, hipEvent_t, hipEvent_t, uint32_t);
extern "C" __attribute__((visibility("default"), alias("hipHccModuleLaunchKernel"))) hipError_t
_Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_(hipFunction_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
    size_t, hipStream_t, void**, void**, hipEvent_t, hipEvent_t);

// ---- functions ----
static hipError_t with_function(const void* h, hipError_t (*unused)() = nullptr) { (void)unused; hipError_t e = hipSuccess; function_ref(h, &e); return e; }
HIP_API hipError_t hipGetFuncBySymbol(hipFunction_t* out, const void* stub) {
    return api([&] { hipError_t e = hipSuccess; auto* f = function_ref(stub, &e); if (!out) return hipErrorInvalidValue; if (f) *out = reinterpret_cast<hipFunction_t>(f); return e; });
}
HIP_API const char* hipKernelNameRef(hipFunction_t h) { auto* f = function_ref(h); return f ? f->info.name.c_str() : nullptr; }
HIP_API const char* hipKernelNameRefByPtr(const void* stub, hipStream_t) { auto* f = function_ref(stub); return f ? f->info.name.c_str() : nullptr; }
HIP_API hipError_t hipFuncGetAttributes(hipFuncAttributes* a, const void* h) {
    return api([&] {
        if (!a) return hipErrorInvalidValue;
        hipError_t e = hipSuccess;
        auto* f = function_ref(h, &e);
        if (!f) return e;
        Device& d = *device(f->device);
        std::memset(a, 0, sizeof *a);
        a->binaryVersion = a->ptxVersion = d.prop.major * 10 + d.prop.minor;
        a->localSizeBytes = f->info.scratch_per_lane;
        a->sharedSizeBytes = f->info.static_lds;
        a->maxDynamicSharedSizeBytes = int(d.prop.sharedMemPerBlock - f->info.static_lds);
        a->maxThreadsPerBlock = int(f->info.max_flat_workgroup_size);
        a->numRegs = int(f->info.vgprs);
        return hipSuccess;
    });
}
HIP_API hipError_t hipFuncGetAttribute(int* v, hipFunction_attribute attribute, hipFunction_t h) {
    return api([&] {
        if (!v) return hipErrorInvalidValue;
        hipError_t e = hipSuccess;
        auto* f = function_ref(h, &e);
        if (!f) return e;
        Device& d = *device(f->device);
        switch (attribute) {
        case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *v = int(f->info.max_flat_workgroup_size); break;
        case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *v = int(f->info.static_lds); break;
        case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *v = 0; break;
        case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *v = int(f->info.scratch_per_lane); break;
        case HIP_FUNC_ATTRIBUTE_NUM_REGS: *v = int(f->info.vgprs); break;
        case HIP_FUNC_ATTRIBUTE_PTX_VERSION: case HIP_FUNC_ATTRIBUTE_BINARY_VERSION: *v = d.prop.major * 10 + d.prop.minor; break;
        case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA: *v = 0; break;
        case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *v = int(d.prop.sharedMemPerBlock - f->info.static_lds); break;
        case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *v = 0; break;
        default: return hipErrorInvalidValue;
        }
        return hipSuccess;
    });
}
HIP_API hipError_t hipFuncSetAttribute(const void* h, hipFuncAttribute attribute, int value) {
    return api([&] {
        hipError_t e = hipSuccess;
        auto* f = function_ref(h, &e);
        if (!f) return e;
        if (attribute != hipFuncAttributeMaxDynamicSharedMemorySize && attribute != hipFuncAttributePreferredSharedMemoryCarveout) return hipErrorInvalidValue;
        if (attribute == hipFuncAttributeMaxDynamicSharedMemorySize &&
            (value < 0 || size_t(value) + f->info.static_lds > device(f->device)->prop.sharedMemPerBlock)) return hipErrorInvalidValue;
        return hipSuccess;
    });
}
HIP_API hipError_t hipFuncSetCacheConfig(const void* h, hipFuncCache_t) { return api([&] { return with_function(h); }); }
HIP_API hipError_t hipFuncSetSharedMemConfig(const void* h, hipSharedMemConfig) { return api([&] { return with_function(h); }); }

// ---- occupancy ----
static hipError_t active_blocks(int* n, const void* h, int block, size_t lds) {
    return api([&] {
        if (!n || block <= 0) return hipErrorInvalidValue;
        hipError_t e = hipSuccess;
        auto* f = function_ref(h, &e);
        if (!f) return e;
        *n = unsigned(block) > f->info.max_flat_workgroup_size ? 0 : occupancy(*device(f->device), f->info, unsigned(block), lds).blocks;
        return hipSuccess;
    });
}
static hipError_t best_block(int* grid, int* block, const void* h, size_t lds, int limit) {
    return api([&] {
        if (!grid || !block || limit < 0) return hipErrorInvalidValue;
        hipError_t e = hipSuccess;
        auto* f = function_ref(h, &e);
        if (!f) return e;
        Device& d = *device(f->device);
        int top = int(std::min<unsigned>(f->info.max_flat_workgroup_size, 1024)), wave = d.prop.warpSize;
        if (limit) top = std::min(top, limit);
        int best = -1;
        for (int b = top;;) {
            int blocks = occupancy(d, f->info, unsigned(b), lds).blocks;
            if (blocks * b > best) { best = blocks * b; *block = b; *grid = blocks * d.prop.multiProcessorCount; }
            if (b <= wave) break;
            b = (b - 1) / wave * wave;
        }
        return hipSuccess;
    });
}
HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int b, size_t lds) { return active_blocks(n, f, b, lds); }
HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void* f, int b, size_t lds, unsigned) { return active_blocks(n, f, b, lds); }
HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* n, hipFunction_t f, int b, size_t lds) { return active_blocks(n, f, b, lds); }
HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, hipFunction_t f, int b, size_t lds, unsigned) { return active_blocks(n, f, b, lds); }
HIP_API hipError_t hipOccupancyMaxPotentialBlockSize(int* g, int* b, const void* f, size_t lds, int limit) { return best_block(g, b, f, lds, limit); }
HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* g, int* b, hipFunction_t f, size_t lds, int limit) { return best_block(g, b, f, lds, limit); }
HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* g, int* b, hipFunction_t f, size_t lds, int limit, unsigned) { return best_block(g, b, f, lds, limit); }
HIP_API hipError_t hipOccupancyAvailableDynamicSMemPerBlock(size_t* n, const void* h, int blocks, int threads) {
    return api([&] {
        if (!n || blocks <= 0 || threads <= 0) return hipErrorInvalidValue;
        hipError_t e = hipSuccess;
        auto* f = function_ref(h, &e);
        if (!f) return e;
        Device& d = *device(f->device);
        size_t each = size_t(d.lds_total) / size_t(blocks) / size_t(d.lds_granule) * size_t(d.lds_granule);
        each = std::min(each, size_t(d.prop.sharedMemPerBlock));
        *n = each > f->info.static_lds ? each - f->info.static_lds : 0;
        return hipSuccess;
    });
}
