// Devices: the models, the list of GFXEMU_DEVICES, the current device.
#include "hip/hip_internal.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gfxemu::hip {

// ---- devices ----
namespace {
// What differs between cards of one instruction set.
struct Card {
    const char *target, *name;
    int units, physical_cus; // HIP counts workgroup processors on RDNA
    int clock, memory_clock, bus, l2, chip;
    uint64_t memory;
};
const Card cards[] = {
    {"gfx1030", "AMD Radeon RX 6900 XT", 40, 80, 2660000, 1000000, 256, 4 << 20, 0x73bf, 17163091968ull},
    {"gfx1031", "AMD Radeon RX 6700 XT", 20, 40, 2581000, 1000000, 192, 3 << 20, 0x73df, 12868124672ull},
    {"gfx1032", "AMD Radeon RX 6600 XT", 16, 32, 2589000, 1000000, 128, 2 << 20, 0x73ff, 8573157376ull},
    {"gfx1200", "AMD Radeon RX 9060 XT", 16, 32, 3320000, 1258000, 128, 4 << 20, 0x7590, 17095983104ull},
    {"gfx1201", "AMD Radeon RX 9070 XT", 32, 64, 2970000, 1258000, 256, 8 << 20, 0x7550, 17095983104ull},
    {"gfx942", "AMD Instinct MI300X", 304, 304, 2100000, 1300000, 8192, 4 << 20, 0x74a1, 206141652992ull},
    {"gfx950", "AMD Instinct MI355X", 256, 256, 2400000, 2000000, 8192, 4 << 20, 0x75a3, 309220868096ull},
};
// What an instruction set fixes. `vgprs`: registers of a lane on a SIMD.
struct Model {
    Arch arch;
    const char* features;
    int major, minor, xccs;
    int lds, lds_total, threads_per_unit, simds, waves, vgprs, granule, lds_granule, wall_clock;
};
const Model models[] = {
    {Arch::gfx1030, "", 10, 3, 1, 65536, 131072, 2048, 4, 16, 1024, 16, 1024, 100000},
    {Arch::gfx1200, "", 12, 0, 1, 65536, 131072, 2048, 4, 16, 1536, 24, 1024, 100000},
    {Arch::gfx942, ":sramecc+:xnack-", 9, 4, 8, 65536, 65536, 2048, 4, 8, 512, 8, 512, 100000},
    {Arch::gfx950, ":sramecc+:xnack-", 9, 5, 8, 163840, 163840, 2048, 4, 8, 512, 8, 1280, 100000},
};
std::unique_ptr<Device> make_device(int id, const std::string& spec) {
    // ARCH[:feature...][:key=value...], keys: cus, mem (GiB), name
    std::vector<std::string> parts;
    for (size_t at = 0; at <= spec.size();) {
        size_t end = std::min(spec.find(':', at), spec.size());
        parts.push_back(spec.substr(at, end - at));
        at = end + 1;
    }
    const Target* target = target_of_name(parts[0]);
    const Card* card = nullptr;
    for (auto& c : cards)
        if (parts[0] == c.target) card = &c;
    if (!target || !card) throw std::invalid_argument("unknown architecture " + parts[0]);
    Arch arch = target->isa;
    const Model* m = std::find_if(std::begin(models), std::end(models), [&](auto& x) { return x.arch == arch; });
    auto d = std::make_unique<Device>();
    d->id = id;
    d->arch = arch;
    d->target = target;
    d->pci_chip = card->chip;
    d->xccs = m->xccs;
    d->simds = m->simds;
    d->waves_per_simd = m->waves;
    d->vgprs = m->vgprs;
    d->vgpr_granule = m->granule;
    d->lds_granule = m->lds_granule;
    d->lds_total = m->lds_total;
    d->physical_cus = card->physical_cus;
    auto& p = d->prop;
    std::snprintf(p.name, sizeof p.name, "%s", card->name);
    p.totalGlobalMem = card->memory;
    p.multiProcessorCount = card->units;
    std::string features;
    for (size_t i = 1; i < parts.size(); ++i) {
        size_t eq = parts[i].find('=');
        if (eq == std::string::npos) {
            if (!parts[i].empty()) features += ":" + parts[i];
            continue;
        }
        std::string key = parts[i].substr(0, eq), value = parts[i].substr(eq + 1);
        if (key == "cus") {
            int n = std::atoi(value.c_str());
            d->physical_cus = n * (card->physical_cus / card->units);
            p.multiProcessorCount = n;
        } else if (key == "mem")
            p.totalGlobalMem = size_t(std::atof(value.c_str()) * double(1 << 30));
        else if (key == "name")
            std::snprintf(p.name, sizeof p.name, "%s", value.c_str());
        else
            message("GFXEMU_DEVICES: unknown key '%s'", key.c_str());
    }
    std::snprintf(
        p.gcnArchName, sizeof p.gcnArchName, "%s%s", target->name, features.empty() ? m->features : features.c_str());
    std::snprintf(p.uuid.bytes, sizeof p.uuid.bytes, "gfxemu%02d%s", id, target->name);
    p.sharedMemPerBlock = p.sharedMemPerBlockOptin = size_t(m->lds);
    p.sharedMemPerMultiprocessor = p.maxSharedMemoryPerMultiProcessor =
        size_t(m->lds); // as HIP reports it, also for a WGP
    p.regsPerBlock = 65536;
    p.regsPerMultiprocessor = m->simds * m->vgprs * wave_size(arch);
    p.warpSize = wave_size(arch);
    p.memPitch = 2147483647;
    p.maxThreadsPerBlock = 1024;
    for (int& x : p.maxThreadsDim) x = 1024;
    p.maxGridSize[0] = 2147483647;
    p.maxGridSize[1] = p.maxGridSize[2] = 65536;
    p.clockRate = card->clock;
    p.memoryClockRate = card->memory_clock;
    p.memoryBusWidth = card->bus;
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
    p.l2CacheSize = card->l2;
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
    a.hasGlobalInt32Atomics = a.hasGlobalFloatAtomicExch = a.hasSharedInt32Atomics = a.hasSharedFloatAtomicExch =
        a.hasFloatAtomicAdd = 1;
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

std::vector<std::string> split(const char* text) {
    std::vector<std::string> out;
    std::string item;
    for (const char* c = text;; ++c) {
        if (*c == ',' || !*c) {
            if (!item.empty()) out.push_back(item);
            item.clear();
            if (!*c) break;
        } else if (!std::isspace((unsigned char)*c))
            item += *c;
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
static thread_local int thread_device = 0;
int current_device() { return thread_device; }
void set_current_device(int id) { thread_device = id; }
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

// ---- initialisation, versions ----
HIP_API hipError_t hipInit(unsigned flags) {
    return api([&] { return flags ? hipErrorInvalidValue : devices().empty() ? hipErrorNoDevice : hipSuccess; });
}
HIP_API hipError_t hipDriverGetVersion(int* v) {
    return api([&] {
        if (!v) return hipErrorInvalidValue;
        *v = HIP_VERSION;
        return hipSuccess;
    });
}
HIP_API hipError_t hipRuntimeGetVersion(int* v) { return hipDriverGetVersion(v); }

// ---- device selection ----
HIP_API hipError_t hipGetDeviceCount(int* n) {
    return api([&] {
        if (!n) return hipErrorInvalidValue;
        *n = int(devices().size());
        return *n ? hipSuccess : hipErrorNoDevice;
    });
}
HIP_API hipError_t hipSetDevice(int id) {
    return api([&] {
        if (!device(id)) return hipErrorInvalidDevice;
        set_current_device(id);
        device(id)->primary_active = true;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGetDevice(int* id) {
    return api([&] {
        if (!id) return hipErrorInvalidValue;
        if (devices().empty()) return hipErrorNoDevice;
        *id = current_device();
        return hipSuccess;
    });
}
HIP_API hipError_t hipSetValidDevices(int* list, int n) {
    return api([&] {
        if (!list || n < 0) return hipErrorInvalidValue;
        for (int i = 0; i < n; ++i)
            if (!device(list[i])) return hipErrorInvalidDevice;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceGet(hipDevice_t* d, int ordinal) {
    return api([&] {
        if (!d) return hipErrorInvalidValue;
        if (!device(ordinal)) return hipErrorInvalidDevice;
        *d = ordinal;
        return hipSuccess;
    });
}
