// Which image of a binary a device runs, and the modules, functions and variables that come of it.
#include "core/bundle.h"
#include "core/listing.h"
#include "hip/modules.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>

namespace gfxemu::hip {

Module::~Module() {
    for (auto& [name, p] : globals) forget_module_range(p);
    for (auto& [name, f] : functions) f->code.reset();
}

// ---- registries ----
std::recursive_mutex& module_mutex() {
    static auto* m = new std::recursive_mutex;
    return *m;
}
std::unordered_map<const Module*, std::unique_ptr<Module>>& live_modules() {
    static auto* s = new std::unordered_map<const Module*, std::unique_ptr<Module>>;
    return *s;
}
std::unordered_map<const void*, FatSymbol>& fat_functions() {
    static auto* s = new std::unordered_map<const void*, FatSymbol>;
    return *s;
}
std::unordered_map<const void*, FatSymbol>& fat_variables() {
    static auto* s = new std::unordered_map<const void*, FatSymbol>;
    return *s;
}
// Managed variables by their host pointer variable and by the address that it holds.
std::unordered_map<const void*, std::pair<void*, size_t>>& managed_variables() {
    static auto* s = new std::unordered_map<const void*, std::pair<void*, size_t>>;
    return *s;
}
static std::set<const void*>& live_functions() {
    static auto* s = new std::set<const void*>;
    return *s;
}

// ---- images ----
namespace {

// How well an image suits a device: 0 not at all, higher is more specific.
int suits(const Image& image, const Device& d) {
    if (!image.target) return 0;
    int score = image.target->mach == d.target->mach ? 10 : image.target->mach == d.target->generic_mach ? 1 : 0;
    if (!score) return 0;
    std::string name = d.prop.gcnArchName;
    auto setting = [&](const char* feature) { // as Image::xnack
        size_t at = name.find(std::string(":") + feature);
        return at == std::string::npos ? 0u : name[at + 1 + std::strlen(feature)] == '+' ? 3u : 2u;
    };
    for (auto [want, have] : {std::pair{image.xnack, setting("xnack")}, std::pair{image.sramecc, setting("sramecc")}}) {
        if (want < 2 || !have) continue;
        if (want != have) return 0;
        ++score;
    }
    return score;
}

// The image that suits the device best; `offered` lists what there is.
hipError_t choose_image(const void* data, const Device& d, Image& out, std::string& offered) {
    if (!data) return hipErrorInvalidValue;
    int best = 0;
    try {
        for (auto& image : images_at(data)) {
            offered += (offered.empty() ? "" : ", ") + image.triple;
            if (int score = suits(image, d); score > best) {
                best = score;
                out = image;
            }
        }
    } catch (const std::exception& e) {
        message("%s", e.what());
        return hipErrorInvalidImage;
    }
    return best ? hipSuccess : hipErrorNoBinaryForGpu;
}

} // namespace

hipError_t load_module(const void* data, int id, std::unique_ptr<Module>& out, bool fat) {
    Device* d = device(id);
    if (!d) return hipErrorNoDevice;
    Image image;
    std::string offered;
    if (hipError_t e = choose_image(data, *d, image, offered)) {
        if (e == hipErrorNoBinaryForGpu) {
            std::fprintf(stderr, "hipErrorNoBinaryForGpu: Unable to find code object for all current devices! - 209\n");
            message("device %d is %s; the %s holds: %s", id, d->prop.gcnArchName, fat ? "fat binary" : "image",
                offered.empty() ? "no AMDGPU code object" : offered.c_str());
        }
        return e;
    }
    auto m = std::make_unique<Module>();
    m->device = id;
    try {
        m->code = CodeObject::load(image.data, image.size, d->arch);
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
static Module* fat_module(FatBinary& b, int id, hipError_t& error) {
    auto at = b.modules.find(id);
    if (at != b.modules.end()) return at->second.get();
    auto failed = b.errors.find(id);
    if (failed != b.errors.end()) {
        error = failed->second;
        return nullptr;
    }
    std::unique_ptr<Module> m;
    error = load_module(b.data, id, m, true);
    if (error != hipSuccess) {
        b.errors[id] = error;
        return nullptr;
    }
    for (auto& v : b.managed) { // the device variable holds the address of the managed memory
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

Function* function_ref(const void* h, hipError_t* error, int id) {
    hipError_t ignored, &e = error ? *error : ignored;
    std::lock_guard lock(module_mutex());
    if (live_functions().count(h)) {
        auto* f = static_cast<Function*>(const_cast<void*>(h));
        e = f->code ? hipSuccess : hipErrorInvalidHandle;
        return f->code ? f : nullptr;
    }
    auto at = fat_functions().find(h);
    if (at == fat_functions().end()) {
        e = hipErrorInvalidDeviceFunction;
        return nullptr;
    }
    e = hipSuccess;
    Module* m = fat_module(*at->second.binary, id < 0 ? current_device() : id, e);
    if (!m) return nullptr;
    auto f = m->functions.find(at->second.name);
    if (f == m->functions.end()) {
        e = hipErrorInvalidDeviceFunction;
        return nullptr;
    }
    return f->second;
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

// For an application that ships listings of its code (gfxemu-listing): a directory to search, before its first launch.
extern "C" __attribute__((visibility("default"))) void gfxemu_add_listings(const char* directory) {
    if (directory) gfxemu::add_listings(directory);
}
