// Fat binaries and launch configurations, as the compiler's constructors and kernel stubs hand them over.
#include "hip/modules.h"

#include <cstring>
#include <iterator>

using namespace gfxemu::hip;

struct FatWrapper {
    uint32_t magic, version;
    const void* binary;
    void* unused;
};
HIP_API void** __hipRegisterFatBinary(const void* data) {
    auto* w = static_cast<const FatWrapper*>(data);
    if (w->magic != 0x48495046 /* "HIPF" */ || w->version != 1) {
        message("fat binary with an unknown header");
        return nullptr;
    }
    auto* b = new FatBinary;
    b->data = w->binary;
    return reinterpret_cast<void**>(b);
}
HIP_API void __hipRegisterFunction(
    void** modules, const void* stub, char*, const char* name, unsigned, void*, void*, void*, void*, int*) {
    std::lock_guard lock(module_mutex());
    if (modules) fat_functions()[stub] = {reinterpret_cast<FatBinary*>(modules), name, 0};
}
HIP_API void __hipRegisterVar(void** modules, void* var, char*, char* name, int, size_t size, int, int) {
    std::lock_guard lock(module_mutex());
    if (modules) fat_variables()[var] = {reinterpret_cast<FatBinary*>(modules), name, size};
}
HIP_API void __hipRegisterManagedVar(
    void** modules, void** pointer, void* init, const char* name, size_t size, unsigned) {
    if (!modules || !device(0)) return;
    (void)allocate(pointer, size, MemKind::managed, 0, 0);
    if (!*pointer) return;
    if (init)
        std::memcpy(*pointer, init, size);
    else
        std::memset(*pointer, 0, size);
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
        for (auto at = table->begin(); at != table->end();)
            at = at->second.binary == b ? table->erase(at) : std::next(at);
    // The modules stay: at exit, operations may still be in progress.
}

struct CallConfig {
    dim3 grid, block;
    size_t lds;
    hipStream_t stream;
};
static thread_local std::vector<CallConfig> call_configs;
HIP_API hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
    call_configs.push_back({grid, block, lds, stream});
    return hipSuccess;
}
HIP_API hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds, hipStream_t* stream) {
    if (call_configs.empty()) return ret(hipErrorMissingConfiguration);
    auto& c = call_configs.back();
    *grid = c.grid;
    *block = c.block;
    *lds = c.lds;
    *stream = c.stream;
    call_configs.pop_back();
    return hipSuccess;
}
