// The HIP runtime API as the emulator implements it (HIP 7.1): our own declarations, so that no ROCm is needed to build
// it. GFXEMU_SYSTEM_HIP takes the declarations of a ROCm instead; the tests compile the runtime that way, where its
// headers are found, so that every prototype is checked against them.
#pragma once
#ifdef GFXEMU_SYSTEM_HIP
#    ifndef __HIP_PLATFORM_AMD__
#        define __HIP_PLATFORM_AMD__ 1
#    endif
#    include <hip/hip_runtime_api.h>
#else
#    include "hip/hip_abi_types.h"

// As hipRuntimeGetVersion reports it: major * 10^7 + minor * 10^5 + patch.
#    define HIP_VERSION 70125424

#    pragma GCC visibility push(default)
extern "C" {
// ---- devices, contexts, errors ----
hipError_t hipInit(unsigned flags);
hipError_t hipDriverGetVersion(int* v);
hipError_t hipRuntimeGetVersion(int* v);
hipError_t hipGetDeviceCount(int* n);
hipError_t hipSetDevice(int id);
hipError_t hipGetDevice(int* id);
hipError_t hipSetValidDevices(int* list, int n);
hipError_t hipDeviceGet(hipDevice_t* d, int ordinal);
hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* p, int id);
hipError_t hipChooseDeviceR0600(int* id, const hipDeviceProp_tR0600* want);
hipError_t hipDeviceGetAttribute(int* v, hipDeviceAttribute_t attribute, int id);
hipError_t hipDeviceGetName(char* name, int n, hipDevice_t id);
hipError_t hipDeviceGetUuid(hipUUID* u, hipDevice_t id);
hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t id);
hipError_t hipDeviceTotalMem(size_t* n, hipDevice_t id);
hipError_t hipDeviceGetPCIBusId(char* text, int n, int id);
hipError_t hipDeviceGetByPCIBusId(int* id, const char* text);
hipError_t hipDeviceCanAccessPeer(int* can, int a, int b);
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags);
hipError_t hipDeviceDisablePeerAccess(int peer);
hipError_t hipDeviceGetP2PAttribute(int* v, hipDeviceP2PAttr a, int from, int to);
hipError_t hipExtGetLinkTypeAndHopCount(int a, int b, uint32_t* type, uint32_t* hops);
hipError_t hipDeviceSynchronize();
hipError_t hipDeviceReset();
hipError_t hipSetDeviceFlags(unsigned flags);
hipError_t hipGetDeviceFlags(unsigned* flags);
hipError_t hipDeviceSetCacheConfig(hipFuncCache_t);
hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* c);
hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig);
hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* c);
hipError_t hipDeviceGetLimit(size_t* n, hipLimit_t limit);
hipError_t hipDeviceSetLimit(hipLimit_t, size_t);
hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest);
hipError_t hipProfilerStart();
hipError_t hipProfilerStop();
hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* c, hipDevice_t id);
hipError_t hipDevicePrimaryCtxRelease(hipDevice_t id);
hipError_t hipDevicePrimaryCtxReset(hipDevice_t id);
hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t id, unsigned);
hipError_t hipDevicePrimaryCtxGetState(hipDevice_t id, unsigned* flags, int* active);
hipError_t hipCtxCreate(hipCtx_t* c, unsigned, hipDevice_t id);
hipError_t hipCtxDestroy(hipCtx_t c);
hipError_t hipCtxPushCurrent(hipCtx_t c);
hipError_t hipCtxPopCurrent(hipCtx_t* c);
hipError_t hipCtxSetCurrent(hipCtx_t c);
hipError_t hipCtxGetCurrent(hipCtx_t* c);
hipError_t hipCtxGetDevice(hipDevice_t* id);
hipError_t hipCtxGetApiVersion(hipCtx_t, unsigned* v);
hipError_t hipCtxGetFlags(unsigned* f);
hipError_t hipCtxSynchronize();
hipError_t hipCtxSetCacheConfig(hipFuncCache_t);
hipError_t hipCtxGetCacheConfig(hipFuncCache_t* c);
hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig);
hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig* c);
hipError_t hipCtxEnablePeerAccess(hipCtx_t c, unsigned flags);
hipError_t hipCtxDisablePeerAccess(hipCtx_t c);
hipError_t hipGetLastError();
hipError_t hipPeekAtLastError();
hipError_t hipExtGetLastError();
const char* hipGetErrorName(hipError_t e);
const char* hipGetErrorString(hipError_t e);
hipError_t hipDrvGetErrorName(hipError_t e, const char** s);
hipError_t hipDrvGetErrorString(hipError_t e, const char** s);
hipError_t hipGetProcAddress(
    const char* name, void** fn, int version, uint64_t flags, hipDriverProcAddressQueryResult* status);
hipError_t hipGetDriverEntryPoint(
    const char* name, void** fn, unsigned long long flags, hipDriverEntryPointQueryResult* status);
const char* hipApiName(uint32_t);

// ---- memory ----
hipError_t hipMalloc(void** p, size_t n);
hipError_t hipExtMallocWithFlags(void** p, size_t n, unsigned flags);
hipError_t hipMallocManaged(void** p, size_t n, unsigned flags);
hipError_t hipHostMalloc(void** p, size_t n, unsigned flags);
hipError_t hipHostAlloc(void** p, size_t n, unsigned flags);
hipError_t hipExtHostAlloc(void** p, size_t n, unsigned flags);
hipError_t hipMallocHost(void** p, size_t n);
hipError_t hipMemAllocHost(void** p, size_t n);
hipError_t hipFree(void* p);
hipError_t hipHostFree(void* p);
hipError_t hipFreeHost(void* p);
hipError_t hipMallocPitch(void** p, size_t* pitch, size_t w, size_t h);
hipError_t hipMemAllocPitch(hipDeviceptr_t* p, size_t* pitch, size_t w, size_t h, unsigned);
hipError_t hipMalloc3D(hipPitchedPtr* out, hipExtent e);
hipError_t hipHostRegister(void* p, size_t n, unsigned flags);
hipError_t hipHostUnregister(void* p);
hipError_t hipHostGetDevicePointer(void** out, void* p, unsigned);
hipError_t hipHostGetFlags(unsigned* flags, void* p);
hipError_t hipMemGetInfo(size_t* free, size_t* total);
hipError_t hipMemPtrGetInfo(void* p, size_t* n);
hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* n, hipDeviceptr_t p);
hipError_t hipMallocAsync(void** p, size_t n, hipStream_t h);
hipError_t hipMallocFromPoolAsync(void** p, size_t n, hipMemPool_t pool, hipStream_t h);
hipError_t hipFreeAsync(void* p, hipStream_t h);
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* p, int id);
hipError_t hipDeviceGetMemPool(hipMemPool_t* p, int id);
hipError_t hipDeviceSetMemPool(int id, hipMemPool_t p);
hipError_t hipMemPoolCreate(hipMemPool_t* p, const hipMemPoolProps* props);
hipError_t hipMemPoolDestroy(hipMemPool_t p);
hipError_t hipMemPoolTrimTo(hipMemPool_t p, size_t);
hipError_t hipMemPoolSetAttribute(hipMemPool_t p, hipMemPoolAttr a, void* v);
hipError_t hipMemPoolGetAttribute(hipMemPool_t p, hipMemPoolAttr a, void* v);
hipError_t hipMemPoolSetAccess(hipMemPool_t p, const hipMemAccessDesc* d, size_t n);
hipError_t hipMemPoolGetAccess(hipMemAccessFlags* f, hipMemPool_t p, hipMemLocation*);
hipError_t hipMemPrefetchAsync(const void* p, size_t n, int id, hipStream_t h);
hipError_t hipMemPrefetchAsync_v2(const void* p, size_t n, hipMemLocation, unsigned, hipStream_t h);
hipError_t hipMemAdvise(const void* p, size_t n, hipMemoryAdvise, int id);
hipError_t hipMemAdvise_v2(const void* p, size_t n, hipMemoryAdvise, hipMemLocation);
hipError_t hipMemcpy(void* d, const void* s, size_t n, hipMemcpyKind k);
hipError_t hipMemcpyAsync(void* d, const void* s, size_t n, hipMemcpyKind k, hipStream_t h);
hipError_t hipMemcpyWithStream(void* d, const void* s, size_t n, hipMemcpyKind k, hipStream_t h);
hipError_t hipMemcpyHtoD(hipDeviceptr_t d, const void* s, size_t n);
hipError_t hipMemcpyDtoH(void* d, hipDeviceptr_t s, size_t n);
hipError_t hipMemcpyDtoD(hipDeviceptr_t d, hipDeviceptr_t s, size_t n);
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t d, const void* s, size_t n, hipStream_t h);
hipError_t hipMemcpyDtoHAsync(void* d, hipDeviceptr_t s, size_t n, hipStream_t h);
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t d, hipDeviceptr_t s, size_t n, hipStream_t h);
hipError_t hipMemcpyPeer(void* d, int a, const void* s, int b, size_t n);
hipError_t hipMemcpyPeerAsync(void* d, int a, const void* s, int b, size_t n, hipStream_t h);
hipError_t hipMemcpy_spt(void* d, const void* s, size_t n, hipMemcpyKind k);
hipError_t hipMemcpyAsync_spt(void* d, const void* s, size_t n, hipMemcpyKind k, hipStream_t h);
hipError_t hipMemcpyBatchAsync(
    void** d, void** s, size_t* n, size_t count, hipMemcpyAttributes*, size_t*, size_t, size_t* fail, hipStream_t h);
hipError_t hipMemcpyToSymbol(const void* y, const void* s, size_t n, size_t o, hipMemcpyKind k);
hipError_t hipMemcpyToSymbolAsync(const void* y, const void* s, size_t n, size_t o, hipMemcpyKind k, hipStream_t h);
hipError_t hipMemcpyFromSymbol(void* d, const void* y, size_t n, size_t o, hipMemcpyKind k);
hipError_t hipMemcpyFromSymbolAsync(void* d, const void* y, size_t n, size_t o, hipMemcpyKind k, hipStream_t h);
hipError_t hipMemcpyToSymbol_spt(const void* y, const void* s, size_t n, size_t o, hipMemcpyKind k);
hipError_t hipMemcpyFromSymbol_spt(void* d, const void* y, size_t n, size_t o, hipMemcpyKind k);
hipError_t hipMemcpyToSymbolAsync_spt(const void* y, const void* s, size_t n, size_t o, hipMemcpyKind k, hipStream_t h);
hipError_t hipMemcpyFromSymbolAsync_spt(void* d, const void* y, size_t n, size_t o, hipMemcpyKind k, hipStream_t h);
hipError_t hipMemcpy2D(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, hipMemcpyKind k);
hipError_t hipMemcpy2DAsync(
    void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, hipMemcpyKind k, hipStream_t r);
hipError_t hipMemcpy2D_spt(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, hipMemcpyKind k);
hipError_t hipMemcpy2DAsync_spt(
    void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, hipMemcpyKind k, hipStream_t r);
hipError_t hipMemcpy3D(const hipMemcpy3DParms* p);
hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* p, hipStream_t r);
hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms* p);
hipError_t hipMemcpy3DAsync_spt(const hipMemcpy3DParms* p, hipStream_t r);
hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D* c);
hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D* c, hipStream_t r);
hipError_t hipMemcpyParam2D(const hip_Memcpy2D* c);
hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D* c, hipStream_t r);
hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D* c);
hipError_t hipMemset(void* d, int v, size_t n);
hipError_t hipMemsetAsync(void* d, int v, size_t n, hipStream_t h);
hipError_t hipMemset_spt(void* d, int v, size_t n);
hipError_t hipMemsetAsync_spt(void* d, int v, size_t n, hipStream_t h);
hipError_t hipMemsetD8(hipDeviceptr_t d, unsigned char v, size_t n);
hipError_t hipMemsetD8Async(hipDeviceptr_t d, unsigned char v, size_t n, hipStream_t h);
hipError_t hipMemsetD16(hipDeviceptr_t d, unsigned short v, size_t n);
hipError_t hipMemsetD16Async(hipDeviceptr_t d, unsigned short v, size_t n, hipStream_t h);
hipError_t hipMemsetD32(hipDeviceptr_t d, int v, size_t n);
hipError_t hipMemsetD32Async(hipDeviceptr_t d, int v, size_t n, hipStream_t h);
hipError_t hipMemset2D(void* d, size_t p, int v, size_t w, size_t h);
hipError_t hipMemset2DAsync(void* d, size_t p, int v, size_t w, size_t h, hipStream_t s);
hipError_t hipMemset2D_spt(void* d, size_t p, int v, size_t w, size_t h);
hipError_t hipMemset2DAsync_spt(void* d, size_t p, int v, size_t w, size_t h, hipStream_t s);
hipError_t hipMemsetD2D8(hipDeviceptr_t d, size_t p, unsigned char v, size_t w, size_t h);
hipError_t hipMemsetD2D8Async(hipDeviceptr_t d, size_t p, unsigned char v, size_t w, size_t h, hipStream_t s);
hipError_t hipMemsetD2D16(hipDeviceptr_t d, size_t p, unsigned short v, size_t w, size_t h);
hipError_t hipMemsetD2D16Async(hipDeviceptr_t d, size_t p, unsigned short v, size_t w, size_t h, hipStream_t s);
hipError_t hipMemsetD2D32(hipDeviceptr_t d, size_t p, unsigned v, size_t w, size_t h);
hipError_t hipMemsetD2D32Async(hipDeviceptr_t d, size_t p, unsigned v, size_t w, size_t h, hipStream_t s);
hipError_t hipMemset3D(hipPitchedPtr q, int v, hipExtent e);
hipError_t hipMemset3DAsync(hipPitchedPtr q, int v, hipExtent e, hipStream_t s);
hipError_t hipMemset3D_spt(hipPitchedPtr q, int v, hipExtent e);
hipError_t hipMemset3DAsync_spt(hipPitchedPtr q, int v, hipExtent e, hipStream_t s);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t* out, const void* p);
hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute a, hipDeviceptr_t p);
hipError_t hipDrvPointerGetAttributes(unsigned n, hipPointer_attribute* a, void** data, hipDeviceptr_t p);
hipError_t hipPointerSetAttribute(const void* v, hipPointer_attribute, hipDeviceptr_t p);
hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind f);

// ---- modules, functions, launches ----
void** __hipRegisterFatBinary(const void* data);
void __hipRegisterFunction(
    void** modules, const void* stub, char*, const char* name, unsigned, void*, void*, void*, void*, int*);
void __hipRegisterVar(void** modules, void* var, char*, char* name, int, size_t size, int, int);
void __hipRegisterManagedVar(void** modules, void** pointer, void* init, const char* name, size_t size, unsigned);
void __hipRegisterSurface(void**, void*, char*, char*, int, int);
void __hipRegisterTexture(void**, void*, char*, char*, int, int, int);
void __hipUnregisterFatBinary(void** modules);
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds = 0, hipStream_t stream = nullptr);
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds, hipStream_t* stream);
hipError_t hipModuleLoadData(hipModule_t* m, const void* image);
hipError_t hipModuleLoadDataEx(hipModule_t* m, const void* image, unsigned, hipJitOption*, void**);
hipError_t hipModuleLoadFatBinary(hipModule_t* m, const void* image);
hipError_t hipModuleLoad(hipModule_t* m, const char* path);
hipError_t hipModuleUnload(hipModule_t h);
hipError_t hipModuleGetFunction(hipFunction_t* f, hipModule_t h, const char* name);
hipError_t hipModuleGetFunctionCount(unsigned* n, hipModule_t h);
hipError_t hipModuleGetGlobal(hipDeviceptr_t* p, size_t* n, hipModule_t h, const char* name);
hipError_t hipGetSymbolAddress(void** p, const void* var);
hipError_t hipGetSymbolSize(size_t* n, const void* var);
hipError_t hipLibraryLoadData(
    hipLibrary_t* l, const void* image, hipJitOption**, void**, unsigned, hipLibraryOption**, void**, unsigned);
hipError_t hipLibraryLoadFromFile(
    hipLibrary_t* l, const char* path, hipJitOption**, void**, unsigned, hipLibraryOption**, void**, unsigned);
hipError_t hipLibraryUnload(hipLibrary_t l);
hipError_t hipLibraryGetKernel(hipKernel_t* k, hipLibrary_t l, const char* name);
hipError_t hipLibraryGetKernelCount(unsigned* n, hipLibrary_t l);
hipError_t hipKernelGetFunction(hipFunction_t* f, hipKernel_t k);
hipError_t hipLaunchKernel(const void* f, dim3 g, dim3 b, void** args, size_t lds, hipStream_t s);
hipError_t hipLaunchKernel_spt(const void* f, dim3 g, dim3 b, void** args, size_t lds, hipStream_t s);
hipError_t hipLaunchCooperativeKernel(const void* f, dim3 g, dim3 b, void** args, unsigned lds, hipStream_t s);
hipError_t hipLaunchCooperativeKernel_spt(const void* f, dim3 g, dim3 b, void** args, unsigned lds, hipStream_t s);
hipError_t hipExtLaunchKernel(
    const void* f, dim3 g, dim3 b, void** args, size_t lds, hipStream_t s, hipEvent_t start, hipEvent_t stop, int);
hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned lds, hipStream_t s, void** params, void** extra);
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
    unsigned by, unsigned bz, unsigned lds, hipStream_t s, void** params);
hipError_t hipLaunchKernelExC(const hipLaunchConfig_t* c, const void* f, void** args);
hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG* c, hipFunction_t f, void** params, void** extra);
hipError_t hipExtModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by,
    uint32_t bz, size_t lds, hipStream_t s, void** params, void** extra, hipEvent_t start, hipEvent_t stop, uint32_t);
hipError_t hipHccModuleLaunchKernel(hipFunction_t f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by,
    uint32_t bz, size_t lds, hipStream_t s, void** params, void** extra, hipEvent_t start, hipEvent_t stop);
hipError_t hipGetFuncBySymbol(hipFunction_t* out, const void* stub);
const char* hipKernelNameRef(hipFunction_t h);
const char* hipKernelNameRefByPtr(const void* stub, hipStream_t);
hipError_t hipFuncGetAttributes(hipFuncAttributes* a, const void* h);
hipError_t hipFuncGetAttribute(int* v, hipFunction_attribute attribute, hipFunction_t h);
hipError_t hipFuncSetAttribute(const void* h, hipFuncAttribute attribute, int value);
hipError_t hipFuncSetCacheConfig(const void* h, hipFuncCache_t);
hipError_t hipFuncSetSharedMemConfig(const void* h, hipSharedMemConfig);
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int b, size_t lds);
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void* f, int b, size_t lds, unsigned);
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* n, hipFunction_t f, int b, size_t lds);
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* n, hipFunction_t f, int b, size_t lds, unsigned);
hipError_t hipOccupancyMaxPotentialBlockSize(int* g, int* b, const void* f, size_t lds, int limit);
hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* g, int* b, hipFunction_t f, size_t lds, int limit);
hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(
    int* g, int* b, hipFunction_t f, size_t lds, int limit, unsigned);
hipError_t hipOccupancyAvailableDynamicSMemPerBlock(size_t* n, const void* h, int blocks, int threads);

// ---- streams, events, graphs ----
hipError_t hipStreamCreate(hipStream_t* s);
hipError_t hipStreamCreateWithFlags(hipStream_t* s, unsigned flags);
hipError_t hipStreamCreateWithPriority(hipStream_t* s, unsigned flags, int priority);
hipError_t hipExtStreamCreateWithCUMask(hipStream_t* s, uint32_t n, const uint32_t* mask);
hipError_t hipExtStreamGetCUMask(hipStream_t, uint32_t n, uint32_t* mask);
hipError_t hipStreamDestroy(hipStream_t h);
hipError_t hipStreamSynchronize(hipStream_t h);
hipError_t hipStreamQuery(hipStream_t h);
hipError_t hipStreamGetFlags(hipStream_t h, unsigned* f);
hipError_t hipStreamGetId(hipStream_t h, unsigned long long* id);
hipError_t hipStreamGetPriority(hipStream_t h, int* p);
hipError_t hipStreamGetDevice(hipStream_t h, hipDevice_t* d);
int hipGetStreamDeviceId(hipStream_t h);
hipError_t hipStreamSetAttribute(hipStream_t, hipLaunchAttributeID, const hipLaunchAttributeValue*);
hipError_t hipStreamGetAttribute(hipStream_t h, hipLaunchAttributeID id, hipLaunchAttributeValue* v);
hipError_t hipStreamAttachMemAsync(hipStream_t h, void*, size_t, unsigned);
hipError_t hipStreamWaitEvent(hipStream_t h, hipEvent_t e, unsigned flags);
hipError_t hipStreamAddCallback(hipStream_t h, hipStreamCallback_t fn, void* data, unsigned flags);
hipError_t hipLaunchHostFunc(hipStream_t h, hipHostFn_t fn, void* data);
hipError_t hipStreamWaitValue32(hipStream_t h, void* p, uint32_t v, unsigned flags, uint32_t mask);
hipError_t hipStreamWaitValue64(hipStream_t h, void* p, uint64_t v, unsigned flags, uint64_t mask);
hipError_t hipStreamWriteValue32(hipStream_t h, void* p, uint32_t v, unsigned);
hipError_t hipStreamWriteValue64(hipStream_t h, void* p, uint64_t v, unsigned);
hipError_t hipEventCreateWithFlags(hipEvent_t* out, unsigned flags);
hipError_t hipEventCreate(hipEvent_t* out);
hipError_t hipEventDestroy(hipEvent_t h);
hipError_t hipEventRecord(hipEvent_t h, hipStream_t s);
hipError_t hipEventRecordWithFlags(hipEvent_t h, hipStream_t s, unsigned flags);
hipError_t hipEventSynchronize(hipEvent_t h);
hipError_t hipEventQuery(hipEvent_t h);
hipError_t hipEventElapsedTime(float* ms, hipEvent_t a, hipEvent_t b);
hipError_t hipStreamBeginCapture(hipStream_t h, hipStreamCaptureMode mode);
hipError_t hipStreamBeginCaptureToGraph(hipStream_t h, hipGraph_t g, const hipGraphNode_t* deps,
    const hipGraphEdgeData*, size_t n, hipStreamCaptureMode mode);
hipError_t hipStreamEndCapture(hipStream_t h, hipGraph_t* g);
hipError_t hipStreamIsCapturing(hipStream_t h, hipStreamCaptureStatus* st);
hipError_t hipStreamGetCaptureInfo(hipStream_t h, hipStreamCaptureStatus* st, unsigned long long* id);
hipError_t hipStreamGetCaptureInfo_v2(hipStream_t h, hipStreamCaptureStatus* st, unsigned long long* id, hipGraph_t* g,
    const hipGraphNode_t** deps, size_t* n);
hipError_t hipStreamUpdateCaptureDependencies(hipStream_t h, hipGraphNode_t* deps, size_t n, unsigned flags);
hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode);
hipError_t hipGraphCreate(hipGraph_t* g, unsigned flags);
hipError_t hipGraphDestroy(hipGraph_t g);
hipError_t hipGraphClone(hipGraph_t* out, hipGraph_t g);
hipError_t hipGraphNodeFindInClone(hipGraphNode_t* out, hipGraphNode_t original, hipGraph_t clone);
hipError_t hipGraphGetNodes(hipGraph_t g, hipGraphNode_t* out, size_t* n);
hipError_t hipGraphGetRootNodes(hipGraph_t g, hipGraphNode_t* out, size_t* n);
hipError_t hipGraphGetEdges(hipGraph_t g, hipGraphNode_t* from, hipGraphNode_t* to, size_t* n);
hipError_t hipGraphNodeGetDependencies(hipGraphNode_t n, hipGraphNode_t* out, size_t* count);
hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t n, hipGraphNode_t* out, size_t* count);
hipError_t hipGraphNodeGetType(hipGraphNode_t n, hipGraphNodeType* t);
hipError_t hipGraphDestroyNode(hipGraphNode_t n);
hipError_t hipGraphAddDependencies(hipGraph_t g, const hipGraphNode_t* from, const hipGraphNode_t* to, size_t n);
hipError_t hipGraphRemoveDependencies(hipGraph_t g, const hipGraphNode_t* from, const hipGraphNode_t* to, size_t n);
hipError_t hipGraphAddEmptyNode(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n);
hipError_t hipGraphAddKernelNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, const hipKernelNodeParams* p);
hipError_t hipGraphAddMemcpyNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, const hipMemcpy3DParms* p);
hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, void* dst,
    const void* src, size_t bytes, hipMemcpyKind kind);
hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n,
    const void* sym, const void* src, size_t bytes, size_t offset, hipMemcpyKind kind);
hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n,
    void* dst, const void* sym, size_t bytes, size_t offset, hipMemcpyKind kind);
hipError_t hipGraphAddMemsetNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, const hipMemsetParams* p);
hipError_t hipGraphAddHostNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, const hipHostNodeParams* p);
hipError_t hipGraphAddEventRecordNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, hipEvent_t e);
hipError_t hipGraphAddEventWaitNode(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, hipEvent_t e);
hipError_t hipGraphAddChildGraphNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, hipGraph_t child);
hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t n, hipGraph_t* g);
hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t n, hipKernelNodeParams* p);
hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t n, const hipKernelNodeParams* p);
hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t n, hipMemcpy3DParms* p);
hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t n, const hipMemcpy3DParms* p);
hipError_t hipGraphMemcpyNodeSetParams1D(
    hipGraphNode_t n, void* dst, const void* src, size_t bytes, hipMemcpyKind kind);
hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t n, hipMemsetParams* p);
hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t n, const hipMemsetParams* p);
hipError_t hipGraphHostNodeGetParams(hipGraphNode_t n, hipHostNodeParams* p);
hipError_t hipGraphHostNodeSetParams(hipGraphNode_t n, const hipHostNodeParams* p);
hipError_t hipGraphKernelNodeSetAttribute(hipGraphNode_t, hipLaunchAttributeID, const hipLaunchAttributeValue*);
hipError_t hipGraphInstantiate(hipGraphExec_t* e, hipGraph_t g, hipGraphNode_t* bad, char* log, size_t n);
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* e, hipGraph_t g, unsigned long long flags);
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* e, hipGraph_t g, hipGraphInstantiateParams* p);
hipError_t hipGraphLaunch(hipGraphExec_t g, hipStream_t h);
hipError_t hipGraphUpload(hipGraphExec_t g, hipStream_t h);
hipError_t hipGraphExecDestroy(hipGraphExec_t g);
hipError_t hipGraphExecGetFlags(hipGraphExec_t g, unsigned long long* f);
hipError_t hipGraphExecUpdate(hipGraphExec_t g, hipGraph_t from, hipGraphNode_t* bad, hipGraphExecUpdateResult* result);
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t g, hipGraphNode_t n, const hipKernelNodeParams* p);
hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t g, hipGraphNode_t n, hipMemcpy3DParms* p);
hipError_t hipGraphExecMemcpyNodeSetParams1D(
    hipGraphExec_t g, hipGraphNode_t n, void* dst, const void* src, size_t bytes, hipMemcpyKind kind);
hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t g, hipGraphNode_t n, const hipMemsetParams* p);
hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t g, hipGraphNode_t n, const hipHostNodeParams* p);
hipError_t hipGraphNodeSetEnabled(hipGraphExec_t g, hipGraphNode_t n, unsigned on);
hipError_t hipGraphNodeGetEnabled(hipGraphExec_t g, hipGraphNode_t n, unsigned* on);
hipError_t hipGraphDebugDotPrint(hipGraph_t g, const char* path, unsigned);
hipError_t hipDeviceGetGraphMemAttribute(int id, hipGraphMemAttributeType, void* v);
hipError_t hipDeviceSetGraphMemAttribute(int id, hipGraphMemAttributeType, void*);
hipError_t hipDeviceGraphMemTrim(int id);
hipError_t hipStreamSynchronize_spt(hipStream_t h);
hipError_t hipStreamQuery_spt(hipStream_t h);
hipError_t hipStreamGetFlags_spt(hipStream_t h, unsigned* f);
hipError_t hipStreamGetPriority_spt(hipStream_t h, int* p);
hipError_t hipStreamWaitEvent_spt(hipStream_t h, hipEvent_t e, unsigned f);
hipError_t hipEventRecord_spt(hipEvent_t e, hipStream_t h);
hipError_t hipStreamAddCallback_spt(hipStream_t h, hipStreamCallback_t fn, void* d, unsigned f);
hipError_t hipLaunchHostFunc_spt(hipStream_t h, hipHostFn_t fn, void* d);
hipError_t hipGraphLaunch_spt(hipGraphExec_t g, hipStream_t h);
hipError_t hipStreamBeginCapture_spt(hipStream_t h, hipStreamCaptureMode m);
hipError_t hipStreamEndCapture_spt(hipStream_t h, hipGraph_t* g);
hipError_t hipStreamIsCapturing_spt(hipStream_t h, hipStreamCaptureStatus* s);
hipError_t hipStreamGetCaptureInfo_spt(hipStream_t h, hipStreamCaptureStatus* s, unsigned long long* id);
hipError_t hipStreamGetCaptureInfo_v2_spt(hipStream_t h, hipStreamCaptureStatus* s, unsigned long long* id,
    hipGraph_t* g, const hipGraphNode_t** d, size_t* n);
} // extern "C"
#    pragma GCC visibility pop
#endif
