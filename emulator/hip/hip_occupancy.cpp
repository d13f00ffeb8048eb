// What a kernel needs and how much of it fits on a unit.
#include "hip/modules.h"

#include <algorithm>
#include <cstring>

namespace gfxemu::hip {

Occupancy occupancy(const Device& d, const KernelInfo& k, unsigned threads, size_t dynamic_lds) {
    Occupancy o;
    bool gfx9 = d.arch == Arch::gfx942 || d.arch == Arch::gfx950;
    bool wide = !gfx9 && k.wave64; // a wave64 on a wave32 machine takes two registers for each
    unsigned wave = gfx9 || wide ? 64 : 32;
    int file = wide ? d.vgprs / 2 : d.vgprs, granule = wide ? d.vgpr_granule / 2 : d.vgpr_granule;
    int registers = (std::max<int>(int(k.vgprs), 1) + granule - 1) / granule * granule;
    int waves = std::min(d.waves_per_simd, file / registers);
    if (gfx9 && k.sgprs > 100) waves = std::min(waves, 7);
    o.register_limit = waves;
    if (!threads || threads > 1024) return o;
    int per_block = int((threads + wave - 1) / wave);
    int blocks = waves * d.simds / per_block;
    size_t lds =
        (k.static_lds + dynamic_lds + size_t(d.lds_granule) - 1) / size_t(d.lds_granule) * size_t(d.lds_granule);
    if (k.static_lds + dynamic_lds > d.prop.sharedMemPerBlock)
        blocks = 0;
    else if (lds)
        blocks = std::min(blocks, int(size_t(d.lds_total) / lds));
    if (per_block > 1) blocks = std::min(blocks, gfx9 ? 16 : 32);
    o.blocks = std::min(blocks, d.prop.maxThreadsPerMultiProcessor / int(threads));
    o.waves_per_simd = double(o.blocks * per_block) / d.simds;
    return o;
}

} // namespace gfxemu::hip

using namespace gfxemu::hip;

// ---- functions ----
static hipError_t with_function(const void* h, hipError_t (*unused)() = nullptr) {
    (void)unused;
    hipError_t e = hipSuccess;
    function_ref(h, &e);
    return e;
}
HIP_API hipError_t hipGetFuncBySymbol(hipFunction_t* out, const void* stub) {
    return api([&] {
        hipError_t e = hipSuccess;
        auto* f = function_ref(stub, &e);
        if (!out) return hipErrorInvalidValue;
        if (f) *out = reinterpret_cast<hipFunction_t>(f);
        return e;
    });
}
HIP_API const char* hipKernelNameRef(hipFunction_t h) {
    auto* f = function_ref(h);
    return f ? f->info.name.c_str() : nullptr;
}
HIP_API const char* hipKernelNameRefByPtr(const void* stub, hipStream_t) {
    auto* f = function_ref(stub);
    return f ? f->info.name.c_str() : nullptr;
}
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
        case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
        case HIP_FUNC_ATTRIBUTE_BINARY_VERSION: *v = d.prop.major * 10 + d.prop.minor; break;
        case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA: *v = 0; break;
        case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *v = int(d.prop.sharedMemPerBlock - f->info.static_lds);
            break;
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
        if (attribute != hipFuncAttributeMaxDynamicSharedMemorySize &&
            attribute != hipFuncAttributePreferredSharedMemoryCarveout)
            return hipErrorInvalidValue;
        if (attribute == hipFuncAttributeMaxDynamicSharedMemorySize &&
            (value < 0 || size_t(value) + f->info.static_lds > device(f->device)->prop.sharedMemPerBlock))
            return hipErrorInvalidValue;
        return hipSuccess;
    });
}
HIP_API hipError_t hipFuncSetCacheConfig(const void* h, hipFuncCache_t) {
    return api([&] { return with_function(h); });
}
HIP_API hipError_t hipFuncSetSharedMemConfig(const void* h, hipSharedMemConfig) {
    return api([&] { return with_function(h); });
}

// ---- occupancy ----
static hipError_t active_blocks(int* n, const void* h, int block, size_t lds) {
    return api([&] {
        if (!n || block <= 0) return hipErrorInvalidValue;
        hipError_t e = hipSuccess;
        auto* f = function_ref(h, &e);
        if (!f) return e;
        *n = unsigned(block) > f->info.max_flat_workgroup_size
                 ? 0
                 : occupancy(*device(f->device), f->info, unsigned(block), lds).blocks;
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
            if (blocks * b > best) {
                best = blocks * b;
                *block = b;
                *grid = blocks * d.prop.multiProcessorCount;
            }
            if (b <= wave) break;
            b = (b - 1) / wave * wave;
        }
        return hipSuccess;
    });
}
HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int b, size_t lds) {
    return active_blocks(n, f, b, lds);
}
HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* n, const void* f, int b, size_t lds, unsigned) {
    return active_blocks(n, f, b, lds);
}
HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* n, hipFunction_t f, int b, size_t lds) {
    return active_blocks(n, f, b, lds);
}
HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* n, hipFunction_t f, int b, size_t lds, unsigned) {
    return active_blocks(n, f, b, lds);
}
HIP_API hipError_t hipOccupancyMaxPotentialBlockSize(int* g, int* b, const void* f, size_t lds, int limit) {
    return best_block(g, b, f, lds, limit);
}
HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* g, int* b, hipFunction_t f, size_t lds, int limit) {
    return best_block(g, b, f, lds, limit);
}
HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
    int* g, int* b, hipFunction_t f, size_t lds, int limit, unsigned) {
    return best_block(g, b, f, lds, limit);
}
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
