// Devices: the list from GFXEMU_DEVICES, properties, attributes, contexts, error names.
#include "hip/hip_internal.h"

#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#undef hipGetDeviceProperties
#undef hipChooseDevice

namespace gfxemu::hip {

static bool env_flag(const char* name) {
    const char* v = std::getenv(name);
    return v && *v && std::strcmp(v, "0") != 0;
}
static uint64_t env_number(const char* name, uint64_t fallback) {
    const char* v = std::getenv(name);
    return v && *v ? std::strtoull(v, nullptr, 0) : fallback;
}

const Settings& settings() {
    static const Settings* s = [] {
        auto* p = new Settings;
        p->sync = env_flag("GFXEMU_SYNC");
        p->lazy = !p->sync && env_flag("GFXEMU_LAZY");
        p->abort = env_flag("GFXEMU_ABORT");
        p->verbose = env_flag("GFXEMU_VERBOSE");
        p->delay_us = env_number("GFXEMU_DELAY_US", 0);
        p->poison_max = env_number("GFXEMU_POISON_MAX", uint64_t(64) << 20);
        if (const char* r = std::getenv("GFXEMU_REPORT")) p->report = r;
        if (p->verbose) std::atexit(print_summary);
        return p;
    }();
    return *s;
}

void message(const char* format, ...) {
    char text[4096];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    std::fprintf(stderr, "gfxemu: %s\n", text);
    std::fflush(stderr);
}

// ---- last error of the thread ----
static thread_local hipError_t last_error = hipSuccess, last_call = hipSuccess;
static thread_local int thread_device = 0;

hipError_t ret(hipError_t e) {
    last_call = e;
    if (e != hipSuccess && e != hipErrorNotReady) last_error = e;
    return e;
}

hipError_t current_exception_code() {
    try {
        throw;
    } catch (const Fault& f) {
        message("fault: %s", f.what());
        return f.kind == Fault::Kind::memory ? hipErrorIllegalAddress : hipErrorLaunchFailure;
    } catch (const std::bad_alloc&) {
        return hipErrorOutOfMemory;
    } catch (const std::exception& e) {
        message("error: %s", e.what());
        return hipErrorUnknown;
    }
}

// ---- devices ----
namespace {
struct Model {
    Arch arch;
    const char *name, *features;
    int major, minor, units, physical_cus, clock, mem_clock, bus, l2, chip, xccs;
    uint64_t memory;
    int lds, lds_total, threads_per_unit, simds, waves, vgprs, granule, lds_granule, wall_clock;
};
const Model models[] = {
    {Arch::gfx1030, "AMD Radeon RX 6900 XT", "", 10, 3, 40, 80, 2660000, 1000000, 256, 4 << 20, 0x73bf, 1, 17163091968ull,
     65536, 131072, 2048, 4, 16, 1024, 16, 1024, 100000},
    {Arch::gfx1200, "AMD Radeon RX 9060 XT", "", 12, 0, 16, 32, 3320000, 1258000, 128, 4 << 20, 0x7590, 1, 17095983104ull,
     65536, 131072, 2048, 4, 16, 1536, 24, 1024, 100000},
    {Arch::gfx942, "AMD Instinct MI300X", ":sramecc+:xnack-", 9, 4, 304, 304, 2100000, 1300000, 8192, 4 << 20, 0x74a1, 8, 206141652992ull,
     65536, 65536, 2048, 4, 8, 512, 8, 512, 100000},
    {Arch::gfx950, "AMD Instinct MI355X", ":sramecc+:xnack-", 9, 5, 256, 256, 2400000, 2000000, 8192, 4 << 20, 0x75a3, 8, 309220868096ull,
     163840, 163840, 2048, 4, 8, 512, 8, 1280, 100000},
};

std::unique_ptr<Device> make_device(int id, const std::string& spec) {
    // ARCH[:feature...][:key=value...], keys: cus, mem (GiB), name
    std::vector<std::string> parts;
    for (size_t at = 0; at <= spec.size();) {
        size_t end = std::min(spec.find(':', at), spec.size());
        parts.push_back(spec.substr(at, end - at));
        at = end + 1;
    }
    Arch arch = arch_from_name(parts[0]);
    const Model* m = nullptr;
    for (auto& x : models) if (x.arch == arch) m = &x;
    auto d = std::make_unique<Device>();
    d->id = id;
    d->arch = arch;
    d->simds = m->simds;
    d->waves_per_simd = m->waves;
    d->vgprs = m->vgprs;
    d->vgpr_granule = m->granule;
    d->lds_granule = m->lds_granule;
    d->lds_total = m->lds_total;
    d->physical_cus = m->physical_cus;
    auto& p = d->prop;
    std::snprintf(p.name, sizeof p.name, "%s", m->name);
    p.totalGlobalMem = m->memory;
    p.multiProcessorCount = m->units;
    std::string features;
    for (size_t i = 1; i < parts.size(); ++i) {
        size_t eq = parts[i].find('=');
        if (eq == std::string::npos) { if (!parts[i].empty()) features += ":" + parts[i]; continue; }
        std::string key = parts[i].substr(0, eq), value = parts[i].substr(eq + 1);
        if (key == "cus") { int n = std::atoi(value.c_str()); d->physical_cus = n * (m->physical_cus / m->units); p.multiProcessorCount = n; }
        else if (key == "mem") p.totalGlobalMem = size_t(std::atof(value.c_str()) * double(1 << 30));
        else if (key == "name") std::snprintf(p.name, sizeof p.name, "%s", value.c_str());
        else message("GFXEMU_DEVICES: unknown key '%s'", key.c_str());
    }
    std::snprintf(p.gcnArchName, sizeof p.gcnArchName, "%s%s", arch_name(arch), features.empty() ? m->features : features.c_str());
    std::snprintf(p.uuid.bytes, sizeof p.uuid.bytes, "gfxemu%02d%s", id, arch_name(arch));
    p.sharedMemPerBlock = p.sharedMemPerBlockOptin = size_t(m->lds);
    p.sharedMemPerMultiprocessor = p.maxSharedMemoryPerMultiProcessor = size_t(m->lds);   // as HIP reports it, also for a WGP
    p.regsPerBlock = 65536;
    p.regsPerMultiprocessor = m->simds * m->vgprs * wave_size(arch);
    p.warpSize = wave_size(arch);
    p.memPitch = 2147483647;
    p.maxThreadsPerBlock = 1024;
    for (int& x : p.maxThreadsDim) x = 1024;
    p.maxGridSize[0] = 2147483647;
    p.maxGridSize[1] = p.maxGridSize[2] = 65536;
    p.clockRate = m->clock;
    p.memoryClockRate = m->mem_clock;
    p.memoryBusWidth = m->bus;
    p.clockInstructionRate = m->wall_clock;
    p.totalConstMem = 2147483647;
    p.major = m->major;
    p.minor = m->minor;
    p.textureAlignment = 256;
    p.texturePitchAlignment = 256;
    p.surfaceAlignment = 256;
    p.deviceOverlap = 1;
    p.canMapHostMemory = 1;
    p.maxTexture1D = 16384;
    p.maxTexture1DLinear = 268435456;
    p.maxTexture1DMipmap = 16384;
    for (int& x : p.maxTexture2D) x = 16384;
    for (int& x : p.maxTexture2DMipmap) x = 16384;
    p.maxTexture3D[0] = p.maxTexture3D[1] = 16384;
    p.maxTexture3D[2] = 8192;
    p.concurrentKernels = 1;
    p.ECCEnabled = 0;
    p.pciDomainID = 0;
    p.pciBusID = 3 + 16 * id;
    p.pciDeviceID = 0;
    p.asyncEngineCount = 8;
    p.unifiedAddressing = 1;
    p.l2CacheSize = m->l2;
    p.maxThreadsPerMultiProcessor = m->threads_per_unit;
    p.maxBlocksPerMultiProcessor = 2 * m->simds * m->waves / 2;
    p.streamPrioritiesSupported = 1;
    p.globalL1CacheSupported = 1;
    p.localL1CacheSupported = 1;
    p.managedMemory = 1;
    p.concurrentManagedAccess = 0;
    p.hostNativeAtomicSupported = 0;
    p.pageableMemoryAccess = 0;
    p.canUseHostPointerForRegisteredMem = 1;
    p.hostRegisterSupported = 1;
    p.cooperativeLaunch = 1;
    p.cooperativeMultiDeviceLaunch = 0;
    p.memoryPoolsSupported = 1;
    p.unifiedFunctionPointers = 0;
    p.isLargeBar = 0;
    p.asicRevision = 1;
    auto& a = p.arch;
    a.hasGlobalInt32Atomics = a.hasGlobalFloatAtomicExch = a.hasSharedInt32Atomics = a.hasSharedFloatAtomicExch = a.hasFloatAtomicAdd = 1;
    a.hasGlobalInt64Atomics = a.hasSharedInt64Atomics = a.hasDoubles = 1;
    a.hasWarpVote = a.hasWarpBallot = a.hasWarpShuffle = 1;
    a.hasFunnelShift = 0;
    a.hasThreadFenceSystem = 1;
    a.hasSyncThreadsExt = 0;
    a.hasSurfaceFuncs = 0;
    a.has3dGrid = 1;
    a.hasDynamicParallelism = 0;
    return d;
}

int chip_id(const Device& d) { for (auto& x : models) if (x.arch == d.arch) return x.chip; return 0; }
int xccs(const Device& d) { for (auto& x : models) if (x.arch == d.arch) return x.xccs; return 1; }

std::vector<std::string> split(const char* text) {
    std::vector<std::string> out;
    std::string item;
    for (const char* c = text;; ++c) {
        if (*c == ',' || !*c) { if (!item.empty()) out.push_back(item); item.clear(); if (!*c) break; }
        else if (!std::isspace((unsigned char)*c)) item += *c;
    }
    return out;
}
} // namespace

std::vector<std::unique_ptr<Device>>& devices() {
    static auto* list = [] {
        settings();
        auto* v = new std::vector<std::unique_ptr<Device>>;
        const char* env = std::getenv("GFXEMU_DEVICES");
        std::vector<std::string> specs = split(env && *env ? env : "gfx942");
        for (const char* name : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}) {
            const char* mask = std::getenv(name);
            if (!mask) continue;
            std::vector<std::string> kept;
            for (auto& item : split(mask)) {
                char* end = nullptr;
                long i = std::strtol(item.c_str(), &end, 10);
                if (*end || i < 0 || size_t(i) >= specs.size()) break;
                kept.push_back(specs[size_t(i)]);
            }
            specs = kept;
        }
        for (auto& spec : specs) {
            try {
                v->push_back(make_device(int(v->size()), spec));
            } catch (const std::exception& e) {
                message("GFXEMU_DEVICES: %s: %s", spec.c_str(), e.what());
            }
        }
        return v;
    }();
    return *list;
}

Device* device(int id) {
    auto& all = devices();
    return id >= 0 && size_t(id) < all.size() ? all[size_t(id)].get() : nullptr;
}
int current_device() { return thread_device; }
Device& current() {
    Device* d = device(thread_device);
    if (!d) throw std::runtime_error("no device");
    return *d;
}
hipError_t sticky(int id) {
    Device* d = device(id);
    if (!d) return hipErrorNoDevice;
    std::lock_guard lock(d->m);
    return d->sticky;
}
void set_sticky(int id, hipError_t e) {
    if (Device* d = device(id)) {
        std::lock_guard lock(d->m);
        if (d->sticky == hipSuccess) d->sticky = e;
    }
}

} // namespace gfxemu::hip

using namespace gfxemu::hip;

// Layout of hipDeviceProp_t before HIP 6.
struct PropR0000 {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, memoryClockRate, memoryBusWidth;
    size_t totalConstMem;
    int major, minor, multiProcessorCount, l2CacheSize, maxThreadsPerMultiProcessor, computeMode, clockInstructionRate;
    hipDeviceArch_t arch;
    int concurrentKernels, pciDomainID, pciBusID, pciDeviceID;
    size_t maxSharedMemoryPerMultiProcessor;
    int isMultiGpuBoard, canMapHostMemory, gcnArch;
    char gcnArchName[256];
    int integrated, cooperativeLaunch, cooperativeMultiDeviceLaunch, maxTexture1DLinear, maxTexture1D, maxTexture2D[2], maxTexture3D[3];
    unsigned int *hdpMemFlushCntl, *hdpRegFlushCntl;
    size_t memPitch, textureAlignment, texturePitchAlignment;
    int kernelExecTimeoutEnabled, ECCEnabled, tccDriver;
    int cooperativeMultiDeviceUnmatchedFunc, cooperativeMultiDeviceUnmatchedGridDim, cooperativeMultiDeviceUnmatchedBlockDim,
        cooperativeMultiDeviceUnmatchedSharedMem;
    int isLargeBar, asicRevision, managedMemory, directManagedMemAccessFromHost, concurrentManagedAccess, pageableMemoryAccess,
        pageableMemoryAccessUsesHostPageTables;
};

// ---- initialisation, versions ----
HIP_API hipError_t hipInit(unsigned flags) {
    return api([&] { return flags ? hipErrorInvalidValue : devices().empty() ? hipErrorNoDevice : hipSuccess; });
}
HIP_API hipError_t hipDriverGetVersion(int* v) { return api([&] { if (!v) return hipErrorInvalidValue; *v = HIP_VERSION; return hipSuccess; }); }
HIP_API hipError_t hipRuntimeGetVersion(int* v) { return hipDriverGetVersion(v); }

// ---- device selection ----
HIP_API hipError_t hipGetDeviceCount(int* n) {
    return api([&] { if (!n) return hipErrorInvalidValue; *n = int(devices().size()); return *n ? hipSuccess : hipErrorNoDevice; });
}
HIP_API hipError_t hipSetDevice(int id) {
    return api([&] { if (!device(id)) return hipErrorInvalidDevice; thread_device = id; device(id)->primary_active = true; return hipSuccess; });
}
HIP_API hipError_t hipGetDevice(int* id) {
    return api([&] { if (!id) return hipErrorInvalidValue; if (devices().empty()) return hipErrorNoDevice; *id = thread_device; return hipSuccess; });
}
HIP_API hipError_t hipSetValidDevices(int* list, int n) {
    return api([&] {
        if (!list || n < 0) return hipErrorInvalidValue;
        for (int i = 0; i < n; ++i) if (!device(list[i])) return hipErrorInvalidDevice;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceGet(hipDevice_t* d, int ordinal) {
    return api([&] { if (!d) return hipErrorInvalidValue; if (!device(ordinal)) return hipErrorInvalidDevice; *d = ordinal; return hipSuccess; });
}

// ---- properties ----
HIP_API hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* p, int id) {
    return api([&] { if (!p) return hipErrorInvalidValue; if (!device(id)) return hipErrorInvalidDevice; *p = device(id)->prop; return hipSuccess; });
}
static hipError_t properties_r0000(PropR0000* q, int id) {
    return api([&] {
        if (!q) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        auto& p = device(id)->prop;
        std::memset(q, 0, sizeof *q);
        std::memcpy(q->name, p.name, sizeof q->name);
        std::memcpy(q->gcnArchName, p.gcnArchName, sizeof q->gcnArchName);
        q->totalGlobalMem = p.totalGlobalMem; q->sharedMemPerBlock = p.sharedMemPerBlock; q->regsPerBlock = p.regsPerBlock;
        q->warpSize = p.warpSize; q->maxThreadsPerBlock = p.maxThreadsPerBlock;
        std::memcpy(q->maxThreadsDim, p.maxThreadsDim, sizeof q->maxThreadsDim);
        std::memcpy(q->maxGridSize, p.maxGridSize, sizeof q->maxGridSize);
        q->clockRate = p.clockRate; q->memoryClockRate = p.memoryClockRate; q->memoryBusWidth = p.memoryBusWidth;
        q->totalConstMem = p.totalConstMem; q->major = p.major; q->minor = p.minor; q->multiProcessorCount = p.multiProcessorCount;
        q->l2CacheSize = p.l2CacheSize; q->maxThreadsPerMultiProcessor = p.maxThreadsPerMultiProcessor;
        q->clockInstructionRate = p.clockInstructionRate; q->arch = p.arch; q->concurrentKernels = p.concurrentKernels;
        q->pciDomainID = p.pciDomainID; q->pciBusID = p.pciBusID; q->pciDeviceID = p.pciDeviceID;
        q->maxSharedMemoryPerMultiProcessor = p.maxSharedMemoryPerMultiProcessor; q->canMapHostMemory = p.canMapHostMemory;
        q->gcnArch = std::atoi(gfxemu::arch_name(device(id)->arch) + 3);
        q->cooperativeLaunch = p.cooperativeLaunch;
        q->maxTexture1DLinear = p.maxTexture1DLinear; q->maxTexture1D = p.maxTexture1D;
        std::memcpy(q->maxTexture2D, p.maxTexture2D, sizeof q->maxTexture2D);
        std::memcpy(q->maxTexture3D, p.maxTexture3D, sizeof q->maxTexture3D);
        q->memPitch = p.memPitch; q->textureAlignment = p.textureAlignment; q->texturePitchAlignment = p.texturePitchAlignment;
        q->managedMemory = p.managedMemory; q->asicRevision = p.asicRevision;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGetDeviceProperties(PropR0000* p, int id) { return properties_r0000(p, id); }
HIP_API hipError_t hipGetDevicePropertiesR0000(PropR0000* p, int id) { return properties_r0000(p, id); }

// The device that matches most of the fields that the caller set.
HIP_API hipError_t hipChooseDeviceR0600(int* id, const hipDeviceProp_tR0600* want) {
    return api([&] {
        if (!id || !want) return hipErrorInvalidValue;
        int best = -1;
        for (auto& d : devices()) {
            int score = 0;
            auto& p = d->prop;
            score += want->major && p.major == want->major;
            score += want->minor && p.minor == want->minor;
            score += want->totalGlobalMem && p.totalGlobalMem >= want->totalGlobalMem;
            score += want->sharedMemPerBlock && p.sharedMemPerBlock >= want->sharedMemPerBlock;
            score += want->multiProcessorCount && p.multiProcessorCount >= want->multiProcessorCount;
            score += want->maxThreadsPerBlock && p.maxThreadsPerBlock >= want->maxThreadsPerBlock;
            score += want->warpSize && p.warpSize == want->warpSize;
            score += want->gcnArchName[0] && !std::strcmp(p.gcnArchName, want->gcnArchName);
            if (score > best) { best = score; *id = d->id; }
        }
        return best < 0 ? hipErrorNoDevice : hipSuccess;
    });
}
static hipError_t choose_r0000(int* id, const PropR0000* want) {
    if (!id || !want) return ret(hipErrorInvalidValue);
    hipDeviceProp_tR0600 p{};
    p.major = want->major; p.minor = want->minor; p.totalGlobalMem = want->totalGlobalMem; p.sharedMemPerBlock = want->sharedMemPerBlock;
    p.multiProcessorCount = want->multiProcessorCount; p.maxThreadsPerBlock = want->maxThreadsPerBlock; p.warpSize = want->warpSize;
    std::memcpy(p.gcnArchName, want->gcnArchName, sizeof p.gcnArchName);
    return hipChooseDeviceR0600(id, &p);
}
HIP_API hipError_t hipChooseDevice(int* id, const PropR0000* p) { return choose_r0000(id, p); }
HIP_API hipError_t hipChooseDeviceR0000(int* id, const PropR0000* p) { return choose_r0000(id, p); }

HIP_API hipError_t hipDeviceGetAttribute(int* v, hipDeviceAttribute_t attribute, int id) {
    return api([&] {
        if (!v) return hipErrorInvalidValue;
        Device* d = device(id);
        if (!d) return hipErrorInvalidDevice;
        auto& p = d->prop;
        auto clamp = [](size_t n) { return int(std::min<size_t>(n, 2147483647)); };
        switch (int(attribute)) {
        case hipDeviceAttributeEccEnabled: *v = p.ECCEnabled; break;
        case hipDeviceAttributeAsyncEngineCount: *v = p.asyncEngineCount; break;
        case hipDeviceAttributeCanMapHostMemory: *v = 1; break;
        case hipDeviceAttributeCanUseHostPointerForRegisteredMem: *v = 1; break;
        case hipDeviceAttributeClockRate: *v = p.clockRate; break;
        case hipDeviceAttributeComputeMode: *v = 0; break;
        case hipDeviceAttributeConcurrentKernels: *v = 1; break;
        case hipDeviceAttributeConcurrentManagedAccess: *v = p.concurrentManagedAccess; break;
        case hipDeviceAttributeCooperativeLaunch: *v = p.cooperativeLaunch; break;
        case hipDeviceAttributeDeviceOverlap: *v = 1; break;
        case hipDeviceAttributeGlobalL1CacheSupported: *v = 1; break;
        case hipDeviceAttributeLocalL1CacheSupported: *v = 1; break;
        case hipDeviceAttributeL2CacheSize: *v = p.l2CacheSize; break;
        case hipDeviceAttributeComputeCapabilityMajor: *v = p.major; break;
        case hipDeviceAttributeComputeCapabilityMinor: *v = p.minor; break;
        case hipDeviceAttributeManagedMemory: *v = 1; break;
        case hipDeviceAttributeMaxBlocksPerMultiProcessor: *v = p.maxBlocksPerMultiProcessor; break;
        case hipDeviceAttributeMaxBlockDimX: *v = p.maxThreadsDim[0]; break;
        case hipDeviceAttributeMaxBlockDimY: *v = p.maxThreadsDim[1]; break;
        case hipDeviceAttributeMaxBlockDimZ: *v = p.maxThreadsDim[2]; break;
        case hipDeviceAttributeMaxGridDimX: *v = p.maxGridSize[0]; break;
        case hipDeviceAttributeMaxGridDimY: *v = p.maxGridSize[1]; break;
        case hipDeviceAttributeMaxGridDimZ: *v = p.maxGridSize[2]; break;
        case hipDeviceAttributeMaxTexture1DWidth: *v = p.maxTexture1D; break;
        case hipDeviceAttributeMaxTexture1DLinear: *v = p.maxTexture1DLinear; break;
        case hipDeviceAttributeMaxTexture2DWidth: *v = p.maxTexture2D[0]; break;
        case hipDeviceAttributeMaxTexture2DHeight: *v = p.maxTexture2D[1]; break;
        case hipDeviceAttributeMaxTexture3DWidth: *v = p.maxTexture3D[0]; break;
        case hipDeviceAttributeMaxTexture3DHeight: *v = p.maxTexture3D[1]; break;
        case hipDeviceAttributeMaxTexture3DDepth: *v = p.maxTexture3D[2]; break;
        case hipDeviceAttributeMaxThreadsDim: *v = p.maxThreadsDim[0]; break;
        case hipDeviceAttributeMaxThreadsPerBlock: *v = p.maxThreadsPerBlock; break;
        case hipDeviceAttributeMaxThreadsPerMultiProcessor: *v = p.maxThreadsPerMultiProcessor; break;
        case hipDeviceAttributeMaxPitch: *v = clamp(p.memPitch); break;
        case hipDeviceAttributeMemoryBusWidth: *v = p.memoryBusWidth; break;
        case hipDeviceAttributeMemoryClockRate: *v = p.memoryClockRate; break;
        case hipDeviceAttributeMultiprocessorCount: *v = p.multiProcessorCount; break;
        case hipDeviceAttributePciBusId: *v = p.pciBusID; break;
        case hipDeviceAttributePciDeviceId: *v = p.pciDeviceID; break;
        case hipDeviceAttributePciDomainId: *v = p.pciDomainID; break;
        case hipDeviceAttributeMaxRegistersPerBlock: *v = p.regsPerBlock; break;
        case hipDeviceAttributeMaxRegistersPerMultiprocessor: *v = p.regsPerMultiprocessor; break;
        case hipDeviceAttributeMaxSharedMemoryPerBlock: *v = clamp(p.sharedMemPerBlock); break;
        case hipDeviceAttributeSharedMemPerBlockOptin: *v = clamp(p.sharedMemPerBlockOptin); break;
        case hipDeviceAttributeSharedMemPerMultiprocessor: *v = clamp(p.sharedMemPerMultiprocessor); break;
        case hipDeviceAttributeStreamPrioritiesSupported: *v = 1; break;
        case hipDeviceAttributeSurfaceAlignment: *v = clamp(p.surfaceAlignment); break;
        case hipDeviceAttributeTextureAlignment: *v = clamp(p.textureAlignment); break;
        case hipDeviceAttributeTexturePitchAlignment: *v = clamp(p.texturePitchAlignment); break;
        case hipDeviceAttributeTotalConstantMemory: *v = clamp(p.totalConstMem); break;
        case hipDeviceAttributeTotalGlobalMem: *v = clamp(p.totalGlobalMem); break;
        case hipDeviceAttributeUnifiedAddressing: *v = 1; break;
        case hipDeviceAttributeWarpSize: *v = p.warpSize; break;
        case hipDeviceAttributeMemoryPoolsSupported: *v = 1; break;
        case hipDeviceAttributeHostRegisterSupported: *v = 1; break;
        case hipDeviceAttributeClockInstructionRate: *v = p.clockInstructionRate; break;
        case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: *v = clamp(p.maxSharedMemoryPerMultiProcessor); break;
        case hipDeviceAttributeAsicRevision: *v = p.asicRevision; break;
        case hipDeviceAttributeCanUseStreamWaitValue: *v = 1; break;
        case hipDeviceAttributePhysicalMultiProcessorCount: *v = d->physical_cus; break;
        case hipDeviceAttributeFineGrainSupport: *v = 1; break;
        case hipDeviceAttributeWallClockRate: *v = p.clockInstructionRate; break;
        case hipDeviceAttributeNumberOfXccs: *v = xccs(*d); break;
        case hipDeviceAttributeMaxAvailableVgprsPerThread: *v = d->vgprs > 512 ? 256 : 512; break;
        case hipDeviceAttributePciChipId: *v = chip_id(*d); break;
        // No such feature here: zero.
        case hipDeviceAttributeAccessPolicyMaxWindowSize: case hipDeviceAttributeComputePreemptionSupported:
        case hipDeviceAttributeCooperativeMultiDeviceLaunch: case hipDeviceAttributeDirectManagedMemAccessFromHost:
        case hipDeviceAttributeHostNativeAtomicSupported: case hipDeviceAttributeIntegrated: case hipDeviceAttributeIsMultiGpuBoard:
        case hipDeviceAttributeKernelExecTimeout: case hipDeviceAttributeLuid: case hipDeviceAttributeLuidDeviceNodeMask:
        case hipDeviceAttributeMaxSurface1D: case hipDeviceAttributeMaxSurface1DLayered: case hipDeviceAttributeMaxSurface2D:
        case hipDeviceAttributeMaxSurface2DLayered: case hipDeviceAttributeMaxSurface3D: case hipDeviceAttributeMaxSurfaceCubemap:
        case hipDeviceAttributeMaxSurfaceCubemapLayered: case hipDeviceAttributeMaxTexture1DLayered: case hipDeviceAttributeMaxTexture1DMipmap:
        case hipDeviceAttributeMaxTexture2DGather: case hipDeviceAttributeMaxTexture2DLayered: case hipDeviceAttributeMaxTexture2DLinear:
        case hipDeviceAttributeMaxTexture2DMipmap: case hipDeviceAttributeMaxTexture3DAlt: case hipDeviceAttributeMaxTextureCubemap:
        case hipDeviceAttributeMaxTextureCubemapLayered: case hipDeviceAttributeMultiGpuBoardGroupID:
        case hipDeviceAttributePageableMemoryAccess: case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
        case hipDeviceAttributePersistingL2CacheMaxSize: case hipDeviceAttributeReservedSharedMemPerBlock:
        case hipDeviceAttributeSingleToDoublePrecisionPerfRatio: case hipDeviceAttributeTccDriver:
        case hipDeviceAttributeVirtualMemoryManagementSupported: case hipDeviceAttributeMemoryPoolSupportedHandleTypes:
        case hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc: case hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim:
        case hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim: case hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem:
        case hipDeviceAttributeIsLargeBar: case hipDeviceAttributeImageSupport:
            *v = 0; break;
        default: return hipErrorInvalidValue;
        }
        return hipSuccess;
    });
}

HIP_API hipError_t hipDeviceGetName(char* name, int n, hipDevice_t id) {
    return api([&] {
        if (!name || n <= 0) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        std::snprintf(name, size_t(n), "%s", device(id)->prop.name);
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceGetUuid(hipUUID* u, hipDevice_t id) {
    return api([&] { if (!u) return hipErrorInvalidValue; if (!device(id)) return hipErrorInvalidDevice; *u = device(id)->prop.uuid; return hipSuccess; });
}
HIP_API hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t id) {
    return api([&] {
        if (!major || !minor) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *major = device(id)->prop.major; *minor = device(id)->prop.minor;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceTotalMem(size_t* n, hipDevice_t id) {
    return api([&] { if (!n) return hipErrorInvalidValue; if (!device(id)) return hipErrorInvalidDevice; *n = device(id)->prop.totalGlobalMem; return hipSuccess; });
}
HIP_API hipError_t hipDeviceGetPCIBusId(char* text, int n, int id) {
    return api([&] {
        if (!text || n <= 0) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        auto& p = device(id)->prop;
        std::snprintf(text, size_t(n), "%04x:%02x:%02x.0", p.pciDomainID, p.pciBusID, p.pciDeviceID);
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceGetByPCIBusId(int* id, const char* text) {
    return api([&] {
        int a, b, c;
        if (!id || !text || std::sscanf(text, "%x:%x:%x", &a, &b, &c) != 3) return hipErrorInvalidValue;
        for (auto& d : devices())
            if (d->prop.pciDomainID == a && d->prop.pciBusID == b && d->prop.pciDeviceID == c) { *id = d->id; return hipSuccess; }
        return hipErrorInvalidDevice;
    });
}

// ---- peers ----
HIP_API hipError_t hipDeviceCanAccessPeer(int* can, int a, int b) {
    return api([&] { if (!can) return hipErrorInvalidValue; if (!device(a) || !device(b)) return hipErrorInvalidDevice; *can = a != b; return hipSuccess; });
}
static std::mutex peer_mutex;
static std::set<std::pair<int, int>>& peers() { static auto* s = new std::set<std::pair<int, int>>; return *s; }
HIP_API hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    return api([&] {
        if (flags) return hipErrorInvalidValue;
        if (!device(peer) || peer == current_device()) return hipErrorInvalidDevice;
        std::lock_guard lock(peer_mutex);
        return peers().insert({current_device(), peer}).second ? hipSuccess : hipErrorPeerAccessAlreadyEnabled;
    });
}
HIP_API hipError_t hipDeviceDisablePeerAccess(int peer) {
    return api([&] {
        if (!device(peer)) return hipErrorInvalidDevice;
        std::lock_guard lock(peer_mutex);
        return peers().erase({current_device(), peer}) ? hipSuccess : hipErrorPeerAccessNotEnabled;
    });
}
HIP_API hipError_t hipDeviceGetP2PAttribute(int* v, hipDeviceP2PAttr a, int from, int to) {
    return api([&] {
        if (!v || from == to) return hipErrorInvalidValue;
        if (!device(from) || !device(to)) return hipErrorInvalidDevice;
        *v = a == hipDevP2PAttrAccessSupported || a == hipDevP2PAttrNativeAtomicSupported;
        return hipSuccess;
    });
}
HIP_API hipError_t hipExtGetLinkTypeAndHopCount(int a, int b, uint32_t* type, uint32_t* hops) {
    return api([&] {
        if (!type || !hops || a == b) return hipErrorInvalidValue;
        if (!device(a) || !device(b)) return hipErrorInvalidDevice;
        *type = 2; *hops = 2;
        return hipSuccess;
    });
}

// ---- synchronisation, flags, limits ----
HIP_API hipError_t hipDeviceSynchronize() {
    return api([&] {
        if (hipError_t e = sync_call_allowed()) return e;
        int id = current().id;
        wait_device(id);
        return sticky(id);
    });
}
HIP_API hipError_t hipDeviceReset() {
    return api([&] {
        Device& d = current();
        wait_device(d.id);
        std::lock_guard lock(d.m);
        d.sticky = hipSuccess;
        return hipSuccess;
    });
}
HIP_API hipError_t hipSetDeviceFlags(unsigned flags) { return api([&] { current().flags = flags; return hipSuccess; }); }
HIP_API hipError_t hipGetDeviceFlags(unsigned* flags) { return api([&] { if (!flags) return hipErrorInvalidValue; *flags = current().flags; return hipSuccess; }); }
HIP_API hipError_t hipDeviceSetCacheConfig(hipFuncCache_t) { return api([] { return hipSuccess; }); }
HIP_API hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* c) { return api([&] { if (!c) return hipErrorInvalidValue; *c = hipFuncCachePreferNone; return hipSuccess; }); }
HIP_API hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig) { return api([] { return hipSuccess; }); }
HIP_API hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* c) { return api([&] { if (!c) return hipErrorInvalidValue; *c = hipSharedMemBankSizeFourByte; return hipSuccess; }); }
HIP_API hipError_t hipDeviceGetLimit(size_t* n, hipLimit_t limit) {
    return api([&] {
        if (!n) return hipErrorInvalidValue;
        switch (int(limit)) {
        case hipLimitStackSize: *n = 1024; return hipSuccess;
        case hipLimitPrintfFifoSize: *n = 4u << 20; return hipSuccess;
        case hipLimitMallocHeapSize: *n = 8u << 20; return hipSuccess;
        }
        return hipErrorUnsupportedLimit;
    });
}
HIP_API hipError_t hipDeviceSetLimit(hipLimit_t, size_t) { return api([] { return hipSuccess; }); }
HIP_API hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) { if (least) *least = 1; if (greatest) *greatest = -1; return ret(hipSuccess); }
HIP_API hipError_t hipProfilerStart() { return ret(hipSuccess); }
HIP_API hipError_t hipProfilerStop() { return ret(hipSuccess); }

// ---- contexts: one primary context for each device; its handle is the Device ----
static hipCtx_t context(int id) { return reinterpret_cast<hipCtx_t>(device(id)); }
static int context_device(hipCtx_t c) {
    for (auto& d : devices()) if (reinterpret_cast<hipCtx_t>(d.get()) == c) return d->id;
    return -1;
}
static thread_local std::vector<int> context_stack;
HIP_API hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* c, hipDevice_t id) {
    return api([&] { if (!c) return hipErrorInvalidValue; if (!device(id)) return hipErrorInvalidDevice; *c = context(id); device(id)->primary_active = true; return hipSuccess; });
}
HIP_API hipError_t hipDevicePrimaryCtxRelease(hipDevice_t id) { return api([&] { return device(id) ? hipSuccess : hipErrorInvalidDevice; }); }
HIP_API hipError_t hipDevicePrimaryCtxReset(hipDevice_t id) {
    return api([&] { if (!device(id)) return hipErrorInvalidDevice; wait_device(id); std::lock_guard l(device(id)->m); device(id)->sticky = hipSuccess; return hipSuccess; });
}
HIP_API hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t id, unsigned) { return api([&] { return device(id) ? hipErrorContextAlreadyInUse : hipErrorInvalidDevice; }); }
HIP_API hipError_t hipDevicePrimaryCtxGetState(hipDevice_t id, unsigned* flags, int* active) {
    return api([&] {
        if (!flags || !active) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *flags = device(id)->flags; *active = device(id)->primary_active;
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxCreate(hipCtx_t* c, unsigned, hipDevice_t id) {
    return api([&] {
        if (!c) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *c = context(id);
        context_stack.push_back(thread_device);
        thread_device = id;
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxDestroy(hipCtx_t c) { return api([&] { return context_device(c) < 0 ? hipErrorInvalidValue : hipSuccess; }); }
HIP_API hipError_t hipCtxPushCurrent(hipCtx_t c) {
    return api([&] { int id = context_device(c); if (id < 0) return hipErrorInvalidContext; context_stack.push_back(thread_device); thread_device = id; return hipSuccess; });
}
HIP_API hipError_t hipCtxPopCurrent(hipCtx_t* c) {
    return api([&] {
        if (c) *c = context(thread_device);
        if (context_stack.empty()) return hipErrorInvalidContext;
        thread_device = context_stack.back();
        context_stack.pop_back();
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxSetCurrent(hipCtx_t c) {
    return api([&] { if (!c) return hipSuccess; int id = context_device(c); if (id < 0) return hipErrorInvalidContext; thread_device = id; return hipSuccess; });
}
HIP_API hipError_t hipCtxGetCurrent(hipCtx_t* c) { return api([&] { if (!c) return hipErrorInvalidValue; *c = context(thread_device); return hipSuccess; }); }
HIP_API hipError_t hipCtxGetDevice(hipDevice_t* id) { return api([&] { if (!id) return hipErrorInvalidValue; *id = current().id; return hipSuccess; }); }
HIP_API hipError_t hipCtxGetApiVersion(hipCtx_t, unsigned* v) { return api([&] { if (!v) return hipErrorInvalidValue; *v = 4; return hipSuccess; }); }
HIP_API hipError_t hipCtxGetFlags(unsigned* f) { return hipGetDeviceFlags(f); }
HIP_API hipError_t hipCtxSynchronize() { return hipDeviceSynchronize(); }
HIP_API hipError_t hipCtxSetCacheConfig(hipFuncCache_t) { return ret(hipSuccess); }
HIP_API hipError_t hipCtxGetCacheConfig(hipFuncCache_t* c) { return hipDeviceGetCacheConfig(c); }
HIP_API hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig) { return ret(hipSuccess); }
HIP_API hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig* c) { return hipDeviceGetSharedMemConfig(c); }
HIP_API hipError_t hipCtxEnablePeerAccess(hipCtx_t c, unsigned flags) { return hipDeviceEnablePeerAccess(context_device(c), flags); }
HIP_API hipError_t hipCtxDisablePeerAccess(hipCtx_t c) { return hipDeviceDisablePeerAccess(context_device(c)); }

// ---- errors ----
static hipError_t pending() {                       // a fault of the current device counts as the thread's last error
    hipError_t e = last_error;
    if (e == hipSuccess && !devices().empty()) e = sticky(thread_device);
    return e;
}
HIP_API hipError_t hipGetLastError() { hipError_t e = pending(); last_error = last_call = hipSuccess; return e; }
HIP_API hipError_t hipPeekAtLastError() { return pending(); }
HIP_API hipError_t hipExtGetLastError() { hipError_t e = last_call; last_call = hipSuccess; return e; }

namespace {
struct ErrorText { int code; const char *name, *text; };
const ErrorText error_texts[] = {
#define E(code, text) {int(code), #code, text}
    E(hipSuccess, "no error"), E(hipErrorInvalidValue, "invalid argument"), E(hipErrorOutOfMemory, "out of memory"),
    E(hipErrorNotInitialized, "initialization error"), E(hipErrorDeinitialized, "driver shutting down"),
    E(hipErrorProfilerDisabled, "profiler disabled while using external profiling tool"),
    E(hipErrorProfilerNotInitialized, "profiler is not initialized"), E(hipErrorProfilerAlreadyStarted, "profiler already started"),
    E(hipErrorProfilerAlreadyStopped, "profiler already stopped"), E(hipErrorInvalidConfiguration, "invalid configuration argument"),
    E(hipErrorInvalidPitchValue, "invalid pitch argument"), E(hipErrorInvalidSymbol, "invalid device symbol"),
    E(hipErrorInvalidDevicePointer, "invalid device pointer"), E(hipErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    E(hipErrorInsufficientDriver, "driver version is insufficient for runtime version"),
    E(hipErrorMissingConfiguration, "__global__ function call is not configured"),
    E(hipErrorPriorLaunchFailure, "unspecified launch failure in prior launch"), E(hipErrorInvalidDeviceFunction, "invalid device function"),
    E(hipErrorNoDevice, "no ROCm-capable device is detected"), E(hipErrorInvalidDevice, "invalid device ordinal"),
    E(hipErrorInvalidImage, "device kernel image is invalid"), E(hipErrorInvalidContext, "invalid device context"),
    E(hipErrorContextAlreadyCurrent, "context is already current context"), E(hipErrorMapFailed, "mapping of buffer object failed"),
    E(hipErrorUnmapFailed, "unmapping of buffer object failed"), E(hipErrorArrayIsMapped, "array is mapped"),
    E(hipErrorAlreadyMapped, "resource already mapped"), E(hipErrorNoBinaryForGpu, "no kernel image is available for execution on the device"),
    E(hipErrorAlreadyAcquired, "resource already acquired"), E(hipErrorNotMapped, "resource not mapped"),
    E(hipErrorNotMappedAsArray, "resource not mapped as array"), E(hipErrorNotMappedAsPointer, "resource not mapped as pointer"),
    E(hipErrorECCNotCorrectable, "uncorrectable ECC error encountered"), E(hipErrorUnsupportedLimit, "limit is not supported on this architecture"),
    E(hipErrorContextAlreadyInUse, "exclusive-thread device already in use by a different thread"),
    E(hipErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    E(hipErrorInvalidKernelFile, "invalid kernel file"), E(hipErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context"),
    E(hipErrorInvalidSource, "device kernel image is invalid"), E(hipErrorFileNotFound, "file not found"),
    E(hipErrorSharedObjectSymbolNotFound, "shared object symbol not found"),
    E(hipErrorSharedObjectInitFailed, "shared object initialization failed"),
    E(hipErrorOperatingSystem, "OS call failed or operation not supported on this OS"), E(hipErrorInvalidHandle, "invalid resource handle"),
    E(hipErrorIllegalState, "the operation cannot be performed in the present state"), E(hipErrorNotFound, "named symbol not found"),
    E(hipErrorNotReady, "device not ready"), E(hipErrorIllegalAddress, "an illegal memory access was encountered"),
    E(hipErrorLaunchOutOfResources, "too many resources requested for launch"),
    E(hipErrorLaunchTimeOut, "the launch timed out and was terminated"), E(hipErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    E(hipErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    E(hipErrorSetOnActiveProcess, "cannot set while device is active in this process"), E(hipErrorContextIsDestroyed, "context is destroyed"),
    E(hipErrorAssert, "device-side assert triggered"),
    E(hipErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    E(hipErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    E(hipErrorLaunchFailure, "unspecified launch failure"),
    E(hipErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch"), E(hipErrorNotSupported, "operation not supported"),
    E(hipErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    E(hipErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    E(hipErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    E(hipErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    E(hipErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    E(hipErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    E(hipErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"),
    E(hipErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    E(hipErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"),
    E(hipErrorGraphExecUpdateFailure, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"),
    E(hipErrorInvalidChannelDescriptor, "invalid channel descriptor"), E(hipErrorInvalidTexture, "invalid texture"),
    E(hipErrorUnknown, "unknown error"), E(hipErrorRuntimeMemory, "runtime memory call returned error"),
    E(hipErrorRuntimeOther, "runtime call other than memory returned error"),
#undef E
};
const ErrorText* error_text(int code) {
    for (auto& e : error_texts) if (e.code == code) return &e;
    return nullptr;
}
} // namespace
HIP_API const char* hipGetErrorName(hipError_t e) { auto* t = error_text(e); return t ? t->name : "hipErrorUnknown"; }
HIP_API const char* hipGetErrorString(hipError_t e) { auto* t = error_text(e); return t ? t->text : "unknown error"; }
HIP_API hipError_t hipDrvGetErrorName(hipError_t e, const char** s) {
    if (!s) return ret(hipErrorInvalidValue);
    auto* t = error_text(e);
    *s = t ? t->name : nullptr;
    return ret(t ? hipSuccess : hipErrorInvalidValue);
}
HIP_API hipError_t hipDrvGetErrorString(hipError_t e, const char** s) {
    if (!s) return ret(hipErrorInvalidValue);
    auto* t = error_text(e);
    *s = t ? t->text : nullptr;
    return ret(t ? hipSuccess : hipErrorInvalidValue);
}

// ---- entry points by name ----
static void* entry(const char* name) {
    Dl_info info;
    static void* self = dladdr(reinterpret_cast<void*>(&hipInit), &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    return dlsym(self ? self : RTLD_DEFAULT, name);
}
HIP_API hipError_t hipGetProcAddress(const char* name, void** fn, int version, uint64_t flags, hipDriverProcAddressQueryResult* status) {
    return api([&] {
        if (!name || !fn) return hipErrorInvalidValue;
        std::string s = name;
        if (version >= 600 && (s == "hipGetDeviceProperties" || s == "hipChooseDevice")) s += "R0600";
        *fn = nullptr;
        if (flags & 2) *fn = entry((s + "_spt").c_str());
        if (!*fn) *fn = entry(s.c_str());
        if (status) *status = *fn ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        return *fn ? hipSuccess : hipErrorNotFound;
    });
}
HIP_API hipError_t hipGetDriverEntryPoint(const char* name, void** fn, unsigned long long flags, hipDriverEntryPointQueryResult* status) {
    hipDriverProcAddressQueryResult r;
    hipError_t e = hipGetProcAddress(name, fn, 700, flags, &r);
    if (status) *status = e == hipSuccess ? hipDriverEntryPointSuccess : hipDriverEntryPointSymbolNotFound;
    return e;
}
HIP_API const char* hipApiName(uint32_t) { return "unknown"; }
