// Modules and libraries that a program loads itself.
#include "hip/modules.h"

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace gfxemu::hip;

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
HIP_API hipError_t hipModuleLoadData(hipModule_t* m, const void* image) {
    return api([&] { return module_load(m, image); });
}
HIP_API hipError_t hipModuleLoadDataEx(hipModule_t* m, const void* image, unsigned, hipJitOption*, void**) {
    return api([&] { return module_load(m, image); });
}
HIP_API hipError_t hipModuleLoadFatBinary(hipModule_t* m, const void* image) {
    return api([&] { return module_load(m, image); });
}
static hipError_t module_load_file(hipModule_t* m, const char* path) {
    if (!m || !path) return hipErrorInvalidValue;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return hipErrorFileNotFound;
    struct stat st;
    if (fstat(fd, &st) || st.st_size < 64) {
        close(fd);
        return hipErrorInvalidImage;
    }
    void* p = mmap(nullptr, size_t(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return hipErrorInvalidImage;
    hipError_t e = module_load(m, p);
    munmap(p, size_t(st.st_size));
    return e;
}
HIP_API hipError_t hipModuleLoad(hipModule_t* m, const char* path) {
    return api([&] { return module_load_file(m, path); });
}
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
HIP_API hipError_t hipModuleGetFunction(hipFunction_t* f, hipModule_t h, const char* name) {
    return api([&] { return module_function(reinterpret_cast<void**>(f), h, name); });
}
HIP_API hipError_t hipModuleGetFunctionCount(unsigned* n, hipModule_t h) {
    return api([&] {
        std::lock_guard lock(module_mutex());
        Module* m = module_of(h);
        if (!n) return hipErrorInvalidValue;
        if (!m) return hipErrorInvalidHandle;
        *n = unsigned(m->functions.size());
        return hipSuccess;
    });
}
HIP_API hipError_t hipModuleGetGlobal(hipDeviceptr_t* p, size_t* n, hipModule_t h, const char* name) {
    return api([&] {
        if (!name) return hipErrorInvalidValue;
        std::lock_guard lock(module_mutex());
        Module* m = module_of(h);
        return m ? module_global(*m, name, p, n) : hipErrorInvalidHandle;
    });
}
HIP_API hipError_t hipGetSymbolAddress(void** p, const void* var) {
    return api([&] { return p ? symbol_address(var, p, nullptr) : hipErrorInvalidValue; });
}
HIP_API hipError_t hipGetSymbolSize(size_t* n, const void* var) {
    return api([&] { return n ? symbol_address(var, nullptr, n) : hipErrorInvalidValue; });
}
HIP_API hipError_t hipLibraryLoadData(
    hipLibrary_t* l, const void* image, hipJitOption**, void**, unsigned, hipLibraryOption**, void**, unsigned) {
    return api([&] { return module_load(reinterpret_cast<hipModule_t*>(l), image); });
}
HIP_API hipError_t hipLibraryLoadFromFile(
    hipLibrary_t* l, const char* path, hipJitOption**, void**, unsigned, hipLibraryOption**, void**, unsigned) {
    return api([&] { return module_load_file(reinterpret_cast<hipModule_t*>(l), path); });
}
HIP_API hipError_t hipLibraryUnload(hipLibrary_t l) { return hipModuleUnload(reinterpret_cast<hipModule_t>(l)); }
HIP_API hipError_t hipLibraryGetKernel(hipKernel_t* k, hipLibrary_t l, const char* name) {
    return api([&] { return module_function(reinterpret_cast<void**>(k), reinterpret_cast<hipModule_t>(l), name); });
}
HIP_API hipError_t hipLibraryGetKernelCount(unsigned* n, hipLibrary_t l) {
    return hipModuleGetFunctionCount(n, reinterpret_cast<hipModule_t>(l));
}
HIP_API hipError_t hipKernelGetFunction(hipFunction_t* f, hipKernel_t k) {
    return api([&] {
        hipError_t e;
        auto* p = function_ref(k, &e);
        if (!f) return hipErrorInvalidValue;
        if (p) *f = reinterpret_cast<hipFunction_t>(p);
        return p ? hipSuccess : e;
    });
}
