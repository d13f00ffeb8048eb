// Peers, synchronisation, limits and contexts of devices.
#include "hip/hip_internal.h"

#include <cstring>

using namespace gfxemu::hip;

// ---- peers ----
HIP_API hipError_t hipDeviceCanAccessPeer(int* can, int a, int b) {
    return api([&] {
        if (!can) return hipErrorInvalidValue;
        if (!device(a) || !device(b)) return hipErrorInvalidDevice;
        *can = a != b;
        return hipSuccess;
    });
}
static std::mutex peer_mutex;
static std::set<std::pair<int, int>>& peers() {
    static auto* s = new std::set<std::pair<int, int>>;
    return *s;
}
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
        *type = 2;
        *hops = 2;
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
HIP_API hipError_t hipSetDeviceFlags(unsigned flags) {
    return api([&] {
        current().flags = flags;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGetDeviceFlags(unsigned* flags) {
    return api([&] {
        if (!flags) return hipErrorInvalidValue;
        *flags = current().flags;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceSetCacheConfig(hipFuncCache_t) {
    return api([] { return hipSuccess; });
}
HIP_API hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* c) {
    return api([&] {
        if (!c) return hipErrorInvalidValue;
        *c = hipFuncCachePreferNone;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig) {
    return api([] { return hipSuccess; });
}
HIP_API hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* c) {
    return api([&] {
        if (!c) return hipErrorInvalidValue;
        *c = hipSharedMemBankSizeFourByte;
        return hipSuccess;
    });
}
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
HIP_API hipError_t hipDeviceSetLimit(hipLimit_t, size_t) {
    return api([] { return hipSuccess; });
}
HIP_API hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
    if (least) *least = 1;
    if (greatest) *greatest = -1;
    return ret(hipSuccess);
}
HIP_API hipError_t hipProfilerStart() { return ret(hipSuccess); }
HIP_API hipError_t hipProfilerStop() { return ret(hipSuccess); }

// ---- contexts: one primary context for each device; its handle is the Device ----
static hipCtx_t context(int id) { return reinterpret_cast<hipCtx_t>(device(id)); }
static int context_device(hipCtx_t c) {
    for (auto& d : devices())
        if (reinterpret_cast<hipCtx_t>(d.get()) == c) return d->id;
    return -1;
}
static thread_local std::vector<int> context_stack;
HIP_API hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* c, hipDevice_t id) {
    return api([&] {
        if (!c) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *c = context(id);
        device(id)->primary_active = true;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDevicePrimaryCtxRelease(hipDevice_t id) {
    return api([&] { return device(id) ? hipSuccess : hipErrorInvalidDevice; });
}
HIP_API hipError_t hipDevicePrimaryCtxReset(hipDevice_t id) {
    return api([&] {
        if (!device(id)) return hipErrorInvalidDevice;
        wait_device(id);
        std::lock_guard l(device(id)->m);
        device(id)->sticky = hipSuccess;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t id, unsigned) {
    return api([&] { return device(id) ? hipErrorContextAlreadyInUse : hipErrorInvalidDevice; });
}
HIP_API hipError_t hipDevicePrimaryCtxGetState(hipDevice_t id, unsigned* flags, int* active) {
    return api([&] {
        if (!flags || !active) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *flags = device(id)->flags;
        *active = device(id)->primary_active;
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxCreate(hipCtx_t* c, unsigned, hipDevice_t id) {
    return api([&] {
        if (!c) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *c = context(id);
        context_stack.push_back(current_device());
        set_current_device(id);
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxDestroy(hipCtx_t c) {
    return api([&] { return context_device(c) < 0 ? hipErrorInvalidValue : hipSuccess; });
}
HIP_API hipError_t hipCtxPushCurrent(hipCtx_t c) {
    return api([&] {
        int id = context_device(c);
        if (id < 0) return hipErrorInvalidContext;
        context_stack.push_back(current_device());
        set_current_device(id);
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxPopCurrent(hipCtx_t* c) {
    return api([&] {
        if (c) *c = context(current_device());
        if (context_stack.empty()) return hipErrorInvalidContext;
        set_current_device(context_stack.back());
        context_stack.pop_back();
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxSetCurrent(hipCtx_t c) {
    return api([&] {
        if (!c) return hipSuccess;
        int id = context_device(c);
        if (id < 0) return hipErrorInvalidContext;
        set_current_device(id);
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxGetCurrent(hipCtx_t* c) {
    return api([&] {
        if (!c) return hipErrorInvalidValue;
        *c = context(current_device());
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxGetDevice(hipDevice_t* id) {
    return api([&] {
        if (!id) return hipErrorInvalidValue;
        *id = current().id;
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxGetApiVersion(hipCtx_t, unsigned* v) {
    return api([&] {
        if (!v) return hipErrorInvalidValue;
        *v = 4;
        return hipSuccess;
    });
}
HIP_API hipError_t hipCtxGetFlags(unsigned* f) { return hipGetDeviceFlags(f); }
HIP_API hipError_t hipCtxSynchronize() { return hipDeviceSynchronize(); }
HIP_API hipError_t hipCtxSetCacheConfig(hipFuncCache_t) { return ret(hipSuccess); }
HIP_API hipError_t hipCtxGetCacheConfig(hipFuncCache_t* c) { return hipDeviceGetCacheConfig(c); }
HIP_API hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig) { return ret(hipSuccess); }
HIP_API hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig* c) { return hipDeviceGetSharedMemConfig(c); }
HIP_API hipError_t hipCtxEnablePeerAccess(hipCtx_t c, unsigned flags) {
    return hipDeviceEnablePeerAccess(context_device(c), flags);
}
HIP_API hipError_t hipCtxDisablePeerAccess(hipCtx_t c) { return hipDeviceDisablePeerAccess(context_device(c)); }
