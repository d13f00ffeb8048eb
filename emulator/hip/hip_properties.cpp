// What a program can ask about a device.
#include "hip/hip_internal.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Names that a HIP header maps to the current layout; the library exports both.
#undef hipGetDeviceProperties
#undef hipChooseDevice

using namespace gfxemu::hip;

// Layout of hipDeviceProp_t before HIP 6.
struct PropR0000 {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, memoryClockRate,
        memoryBusWidth;
    size_t totalConstMem;
    int major, minor, multiProcessorCount, l2CacheSize, maxThreadsPerMultiProcessor, computeMode, clockInstructionRate;
    hipDeviceArch_t arch;
    int concurrentKernels, pciDomainID, pciBusID, pciDeviceID;
    size_t maxSharedMemoryPerMultiProcessor;
    int isMultiGpuBoard, canMapHostMemory, gcnArch;
    char gcnArchName[256];
    int integrated, cooperativeLaunch, cooperativeMultiDeviceLaunch, maxTexture1DLinear, maxTexture1D, maxTexture2D[2],
        maxTexture3D[3];
    unsigned int *hdpMemFlushCntl, *hdpRegFlushCntl;
    size_t memPitch, textureAlignment, texturePitchAlignment;
    int kernelExecTimeoutEnabled, ECCEnabled, tccDriver;
    int cooperativeMultiDeviceUnmatchedFunc, cooperativeMultiDeviceUnmatchedGridDim,
        cooperativeMultiDeviceUnmatchedBlockDim, cooperativeMultiDeviceUnmatchedSharedMem;
    int isLargeBar, asicRevision, managedMemory, directManagedMemAccessFromHost, concurrentManagedAccess,
        pageableMemoryAccess, pageableMemoryAccessUsesHostPageTables;
};

// ---- properties ----
HIP_API hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* p, int id) {
    return api([&] {
        if (!p) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *p = device(id)->prop;
        return hipSuccess;
    });
}
static hipError_t properties_r0000(PropR0000* q, int id) {
    return api([&] {
        if (!q) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        auto& p = device(id)->prop;
        std::memset(q, 0, sizeof *q);
        std::memcpy(q->name, p.name, sizeof q->name);
        std::memcpy(q->gcnArchName, p.gcnArchName, sizeof q->gcnArchName);
        q->totalGlobalMem = p.totalGlobalMem;
        q->sharedMemPerBlock = p.sharedMemPerBlock;
        q->regsPerBlock = p.regsPerBlock;
        q->warpSize = p.warpSize;
        q->maxThreadsPerBlock = p.maxThreadsPerBlock;
        std::memcpy(q->maxThreadsDim, p.maxThreadsDim, sizeof q->maxThreadsDim);
        std::memcpy(q->maxGridSize, p.maxGridSize, sizeof q->maxGridSize);
        q->clockRate = p.clockRate;
        q->memoryClockRate = p.memoryClockRate;
        q->memoryBusWidth = p.memoryBusWidth;
        q->totalConstMem = p.totalConstMem;
        q->major = p.major;
        q->minor = p.minor;
        q->multiProcessorCount = p.multiProcessorCount;
        q->l2CacheSize = p.l2CacheSize;
        q->maxThreadsPerMultiProcessor = p.maxThreadsPerMultiProcessor;
        q->clockInstructionRate = p.clockInstructionRate;
        q->arch = p.arch;
        q->concurrentKernels = p.concurrentKernels;
        q->pciDomainID = p.pciDomainID;
        q->pciBusID = p.pciBusID;
        q->pciDeviceID = p.pciDeviceID;
        q->maxSharedMemoryPerMultiProcessor = p.maxSharedMemoryPerMultiProcessor;
        q->canMapHostMemory = p.canMapHostMemory;
        q->gcnArch = std::atoi(device(id)->target->name + 3);
        q->cooperativeLaunch = p.cooperativeLaunch;
        q->maxTexture1DLinear = p.maxTexture1DLinear;
        q->maxTexture1D = p.maxTexture1D;
        std::memcpy(q->maxTexture2D, p.maxTexture2D, sizeof q->maxTexture2D);
        std::memcpy(q->maxTexture3D, p.maxTexture3D, sizeof q->maxTexture3D);
        q->memPitch = p.memPitch;
        q->textureAlignment = p.textureAlignment;
        q->texturePitchAlignment = p.texturePitchAlignment;
        q->managedMemory = p.managedMemory;
        q->asicRevision = p.asicRevision;
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
            if (score > best) {
                best = score;
                *id = d->id;
            }
        }
        return best < 0 ? hipErrorNoDevice : hipSuccess;
    });
}
static hipError_t choose_r0000(int* id, const PropR0000* want) {
    if (!id || !want) return ret(hipErrorInvalidValue);
    hipDeviceProp_tR0600 p{};
    p.major = want->major;
    p.minor = want->minor;
    p.totalGlobalMem = want->totalGlobalMem;
    p.sharedMemPerBlock = want->sharedMemPerBlock;
    p.multiProcessorCount = want->multiProcessorCount;
    p.maxThreadsPerBlock = want->maxThreadsPerBlock;
    p.warpSize = want->warpSize;
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
        case hipDeviceAttributeNumberOfXccs: *v = d->xccs; break;
        case hipDeviceAttributeMaxAvailableVgprsPerThread: *v = d->vgprs > 512 ? 256 : 512; break;
        case hipDeviceAttributePciChipId: *v = d->pci_chip; break;
        // No such feature here: zero.
        case hipDeviceAttributeAccessPolicyMaxWindowSize:
        case hipDeviceAttributeComputePreemptionSupported:
        case hipDeviceAttributeCooperativeMultiDeviceLaunch:
        case hipDeviceAttributeDirectManagedMemAccessFromHost:
        case hipDeviceAttributeHostNativeAtomicSupported:
        case hipDeviceAttributeIntegrated:
        case hipDeviceAttributeIsMultiGpuBoard:
        case hipDeviceAttributeKernelExecTimeout:
        case hipDeviceAttributeLuid:
        case hipDeviceAttributeLuidDeviceNodeMask:
        case hipDeviceAttributeMaxSurface1D:
        case hipDeviceAttributeMaxSurface1DLayered:
        case hipDeviceAttributeMaxSurface2D:
        case hipDeviceAttributeMaxSurface2DLayered:
        case hipDeviceAttributeMaxSurface3D:
        case hipDeviceAttributeMaxSurfaceCubemap:
        case hipDeviceAttributeMaxSurfaceCubemapLayered:
        case hipDeviceAttributeMaxTexture1DLayered:
        case hipDeviceAttributeMaxTexture1DMipmap:
        case hipDeviceAttributeMaxTexture2DGather:
        case hipDeviceAttributeMaxTexture2DLayered:
        case hipDeviceAttributeMaxTexture2DLinear:
        case hipDeviceAttributeMaxTexture2DMipmap:
        case hipDeviceAttributeMaxTexture3DAlt:
        case hipDeviceAttributeMaxTextureCubemap:
        case hipDeviceAttributeMaxTextureCubemapLayered:
        case hipDeviceAttributeMultiGpuBoardGroupID:
        case hipDeviceAttributePageableMemoryAccess:
        case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
        case hipDeviceAttributePersistingL2CacheMaxSize:
        case hipDeviceAttributeReservedSharedMemPerBlock:
        case hipDeviceAttributeSingleToDoublePrecisionPerfRatio:
        case hipDeviceAttributeTccDriver:
        case hipDeviceAttributeVirtualMemoryManagementSupported:
        case hipDeviceAttributeMemoryPoolSupportedHandleTypes:
        case hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc:
        case hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim:
        case hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim:
        case hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem:
        case hipDeviceAttributeIsLargeBar:
        case hipDeviceAttributeImageSupport: *v = 0; break;
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
    return api([&] {
        if (!u) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *u = device(id)->prop.uuid;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t id) {
    return api([&] {
        if (!major || !minor) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *major = device(id)->prop.major;
        *minor = device(id)->prop.minor;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceTotalMem(size_t* n, hipDevice_t id) {
    return api([&] {
        if (!n) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *n = device(id)->prop.totalGlobalMem;
        return hipSuccess;
    });
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
            if (d->prop.pciDomainID == a && d->prop.pciBusID == b && d->prop.pciDeviceID == c) {
                *id = d->id;
                return hipSuccess;
            }
        return hipErrorInvalidDevice;
    });
}
