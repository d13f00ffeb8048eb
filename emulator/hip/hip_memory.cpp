// Allocations (arenas with guard gaps and a poison fill), pools, pointer queries.
#include "hip/memory_ops.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <shared_mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace gfxemu::hip {
namespace {

constexpr unsigned char poison = 0xA5;
constexpr size_t page = 4096;
constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// A range of address space handed out front to back; an address is not reused before the range is exhausted.
struct Arena {
    char* base = nullptr;
    size_t size = 0, next = 0;
    std::deque<std::pair<char*, size_t>> freed;
    char* take(size_t n) { // n: whole pages, the guard gap included
        if (!base) {
            for (size = size_t(1) << 40; size >= size_t(1) << 32; size /= 4) {
                void* p =
                    mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                if (p != MAP_FAILED) {
                    base = static_cast<char*>(p);
                    break;
                }
            }
            if (!base) return nullptr;
            next = page;
        }
        if (next + n <= size) {
            char* p = base + next;
            next += n;
            return p;
        }
        for (auto at = freed.begin(); at != freed.end(); ++at)
            if (at->second >= n) {
                char* p = at->first;
                if (at->second > n) {
                    at->first += n;
                    at->second -= n;
                } else
                    freed.erase(at);
                return p;
            }
        return nullptr;
    }
    bool holds(const void* p) const {
        return base && static_cast<const char*>(p) >= base && static_cast<const char*>(p) < base + size;
    }
    void give(char* p, size_t n) {
        mmap(p, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        freed.push_back({p, n});
    }
};

// Fills with the poison byte; large blocks map a poisoned file copy-on-write, so that untouched pages cost nothing.
void fill_poison(char* p, size_t n) {
    constexpr size_t chunk = size_t(16) << 20;
    static int fd = [] {
        int f = memfd_create("gfxemu-poison", MFD_CLOEXEC);
        if (f >= 0) {
            std::vector<char> block(1 << 20, char(poison));
            for (size_t i = 0; i < chunk; i += block.size())
                if (write(f, block.data(), block.size()) != ssize_t(block.size())) {
                    close(f);
                    return -1;
                }
        }
        return f;
    }();
    if (n <= settings().poison_max || fd < 0) {
        std::memset(p, poison, n);
        return;
    }
    for (size_t at = 0; at < n; at += chunk) {
        size_t len = round_up(std::min(chunk, n - at), page);
        if (mmap(p + at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED)
            return;
    }
}

struct Memory {
    std::shared_mutex m;
    std::map<uintptr_t, Alloc> allocs;
    uint64_t next_id = 1;
    Arena device, host;
};
Memory& memory() {
    static auto* x = new Memory;
    return *x;
}

size_t footprint(size_t n) { return round_up(n, page) + page; }

std::optional<Alloc> find_locked(Memory& mem, const void* p) {
    auto at = mem.allocs.upper_bound(reinterpret_cast<uintptr_t>(p));
    if (at == mem.allocs.begin()) return {};
    --at;
    if (reinterpret_cast<uintptr_t>(p) - at->second.base >= at->second.size) return {};
    return at->second;
}

} // namespace

hipError_t release(void* p) {
    auto& mem = memory();
    std::unique_lock lock(mem.m);
    auto at = mem.allocs.find(reinterpret_cast<uintptr_t>(p));
    if (at == mem.allocs.end()) return hipErrorInvalidValue;
    Alloc a = at->second;
    if (a.kind == MemKind::module) return hipErrorInvalidValue;
    mem.allocs.erase(at);
    unregister_range(p);
    if (a.kind == MemKind::registered) return hipSuccess;
    (a.kind == MemKind::device ? mem.device : mem.host).give(static_cast<char*>(p), footprint(a.size));
    if (a.kind == MemKind::device)
        if (Device* d = gfxemu::hip::device(a.device)) {
            std::lock_guard l(d->m);
            d->used -= a.size;
        }
    return hipSuccess;
}

End end_of(const void* p, size_t span, bool must_be_known) {
    End e{find_alloc(p)};
    if (!e.alloc) { // a freed block or a guard gap is no host memory
        auto& mem = memory();
        if (must_be_known || mem.device.holds(p) || mem.host.holds(p)) e.error = hipErrorInvalidValue;
        return e;
    }
    if (reinterpret_cast<uintptr_t>(p) + span > e.alloc->base + e.alloc->size) e.error = hipErrorInvalidValue;
    return e;
}

void still_live(const std::optional<Alloc>& a, const char* what) {
    if (!a) return;
    auto now = find_alloc(reinterpret_cast<void*>(a->base));
    if (now && now->id == a->id) return;
    char text[200];
    std::snprintf(text, sizeof text, "%s uses memory at 0x%zx (%zu bytes) that was freed before the operation ran",
        what, size_t(a->base), a->size);
    throw Fault(Fault::Kind::memory, text);
}

std::optional<Alloc> find_alloc(const void* p) {
    auto& mem = memory();
    std::shared_lock lock(mem.m);
    return find_locked(mem, p);
}

hipError_t allocate(void** out, size_t n, MemKind kind, int id, unsigned flags) {
    if (!out) return hipErrorInvalidValue;
    *out = nullptr;
    Device* d = device(id);
    if (!d) return hipErrorNoDevice;
    if (n == 0) return hipSuccess;
    if (kind == MemKind::device) {
        std::lock_guard lock(d->m);
        if (n > d->prop.totalGlobalMem - d->used) return hipErrorOutOfMemory;
        d->used += n;
        d->peak = std::max(d->peak, d->used);
    }
    auto& mem = memory();
    char* p;
    {
        std::unique_lock lock(mem.m);
        p = n > (size_t(1) << 46) ? nullptr : (kind == MemKind::device ? mem.device : mem.host).take(footprint(n));
    }
    if (!p) {
        if (kind == MemKind::device) {
            std::lock_guard lock(d->m);
            d->used -= n;
        }
        return hipErrorOutOfMemory;
    }
    fill_poison(p, n);
    Alloc a{reinterpret_cast<uintptr_t>(p), n, kind, id, flags, 0};
    {
        std::unique_lock lock(mem.m);
        a.id = mem.next_id++;
        mem.allocs[a.base] = a;
    }
    register_range(p, n,
        kind == MemKind::device ? "hipMalloc"
        : kind == MemKind::host ? "hipHostMalloc"
                                : "hipMallocManaged");
    *out = p;
    return hipSuccess;
}

void note_module_range(void* p, size_t n, int id) {
    if (!p || !n) return;
    auto& mem = memory();
    std::unique_lock lock(mem.m);
    auto at = mem.allocs.find(reinterpret_cast<uintptr_t>(p));
    if (at == mem.allocs.end())
        mem.allocs[reinterpret_cast<uintptr_t>(p)] = {
            reinterpret_cast<uintptr_t>(p), n, MemKind::module, id, 0, mem.next_id++};
}
void forget_module_range(void* p) {
    auto& mem = memory();
    std::unique_lock lock(mem.m);
    auto at = mem.allocs.find(reinterpret_cast<uintptr_t>(p));
    if (at != mem.allocs.end() && at->second.kind == MemKind::module) mem.allocs.erase(at);
}

} // namespace gfxemu::hip

using namespace gfxemu::hip;

static hipError_t free_now(void* p, bool (*wanted)(MemKind)) {
    return api([&] {
        if (!p) return hipSuccess;
        if (hipError_t e = sync_call_allowed()) return e;
        auto a = find_alloc(p);
        if (!a || a->base != reinterpret_cast<uintptr_t>(p) || !wanted(a->kind)) return hipErrorInvalidValue;
        for (auto& d : devices())
            if (a->kind != MemKind::device || d->id == a->device) wait_device(d->id);
        return release(p);
    });
}
static bool any_owned(MemKind k) { return k == MemKind::device || k == MemKind::managed || k == MemKind::host; }
static bool host_owned(MemKind k) { return k == MemKind::host; }

// ---- allocation ----
static hipError_t allocate_here(void** p, size_t n, MemKind kind, unsigned flags = 0) {
    return api([&] {
        if (hipError_t e = sync_call_allowed()) return e;
        return allocate(p, n, kind, current().id, flags);
    });
}
HIP_API hipError_t hipMalloc(void** p, size_t n) { return allocate_here(p, n, MemKind::device); }
HIP_API hipError_t hipExtMallocWithFlags(void** p, size_t n, unsigned flags) {
    return allocate_here(p, n, MemKind::device, flags);
}
HIP_API hipError_t hipMallocManaged(void** p, size_t n, unsigned flags) {
    if (flags != hipMemAttachGlobal && flags != hipMemAttachHost) return ret(hipErrorInvalidValue);
    return allocate_here(p, n, MemKind::managed, flags);
}
HIP_API hipError_t hipHostMalloc(void** p, size_t n, unsigned flags) {
    return allocate_here(p, n, MemKind::host, flags);
}
HIP_API hipError_t hipHostAlloc(void** p, size_t n, unsigned flags) { return hipHostMalloc(p, n, flags); }
HIP_API hipError_t hipExtHostAlloc(void** p, size_t n, unsigned flags) { return hipHostMalloc(p, n, flags); }
HIP_API hipError_t hipMallocHost(void** p, size_t n) { return hipHostMalloc(p, n, 0); }
HIP_API hipError_t hipMemAllocHost(void** p, size_t n) { return hipHostMalloc(p, n, 0); }
HIP_API hipError_t hipFree(void* p) { return free_now(p, any_owned); }
HIP_API hipError_t hipHostFree(void* p) { return free_now(p, host_owned); }
HIP_API hipError_t hipFreeHost(void* p) { return free_now(p, host_owned); }
HIP_API hipError_t hipMallocPitch(void** p, size_t* pitch, size_t w, size_t h) {
    return api([&] {
        if (!p || !pitch) return hipErrorInvalidValue;
        *pitch = (w + 255) / 256 * 256;
        return allocate(p, *pitch * h, MemKind::device, current().id, 0);
    });
}
HIP_API hipError_t hipMemAllocPitch(hipDeviceptr_t* p, size_t* pitch, size_t w, size_t h, unsigned) {
    return hipMallocPitch(p, pitch, w, h);
}
HIP_API hipError_t hipMalloc3D(hipPitchedPtr* out, hipExtent e) {
    if (!out) return ret(hipErrorInvalidValue);
    void* p = nullptr;
    size_t pitch = 0;
    hipError_t r = hipMallocPitch(&p, &pitch, e.width, e.height * e.depth);
    if (r == hipSuccess) *out = {p, pitch, e.width, e.height};
    return r;
}
HIP_API hipError_t hipHostRegister(void* p, size_t n, unsigned flags) {
    return api([&] {
        if (!p || !n) return hipErrorInvalidValue;
        auto& mem = memory();
        std::unique_lock lock(mem.m);
        auto at = mem.allocs.lower_bound(reinterpret_cast<uintptr_t>(p));
        if (find_locked(mem, p) || (at != mem.allocs.end() && at->first < reinterpret_cast<uintptr_t>(p) + n))
            return hipErrorHostMemoryAlreadyRegistered;
        uintptr_t base = reinterpret_cast<uintptr_t>(p);
        mem.allocs[base] = {base, n, MemKind::registered, current().id, flags, mem.next_id++};
        gfxemu::register_range(p, n, "hipHostRegister");
        return hipSuccess;
    });
}
HIP_API hipError_t hipHostUnregister(void* p) {
    return api([&] {
        if (!p) return hipErrorInvalidValue;
        auto a = find_alloc(p);
        if (!a || a->kind != MemKind::registered || a->base != reinterpret_cast<uintptr_t>(p))
            return hipErrorHostMemoryNotRegistered;
        for (auto& d : devices()) wait_device(d->id);
        return release(p);
    });
}
HIP_API hipError_t hipHostGetDevicePointer(void** out, void* p, unsigned) {
    return api([&] {
        auto a = find_alloc(p);
        if (!out || !a || a->kind == MemKind::device || a->kind == MemKind::module) return hipErrorInvalidValue;
        *out = p;
        return hipSuccess;
    });
}
HIP_API hipError_t hipHostGetFlags(unsigned* flags, void* p) {
    return api([&] {
        auto a = find_alloc(p);
        if (!flags || !a || a->kind == MemKind::device) return hipErrorInvalidValue;
        *flags = a->flags;
        return hipSuccess;
    });
}
HIP_API hipError_t hipMemGetInfo(size_t* free, size_t* total) {
    return api([&] {
        if (!free || !total) return hipErrorInvalidValue;
        Device& d = current();
        std::lock_guard lock(d.m);
        *total = d.prop.totalGlobalMem;
        *free = *total - d.used;
        return hipSuccess;
    });
}
HIP_API hipError_t hipMemPtrGetInfo(void* p, size_t* n) {
    return api([&] {
        auto a = find_alloc(p);
        if (!n || !a || a->base != reinterpret_cast<uintptr_t>(p)) return hipErrorInvalidValue;
        *n = a->size;
        return hipSuccess;
    });
}
HIP_API hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* n, hipDeviceptr_t p) {
    return api([&] {
        auto a = find_alloc(p);
        if (!a) return hipErrorNotFound;
        if (base) *base = reinterpret_cast<void*>(a->base);
        if (n) *n = a->size;
        return hipSuccess;
    });
}

// ---- stream-ordered allocation, pools ----
struct ihipMemPoolHandle_t {
    int device = 0;
    uint64_t threshold = 0;
    int flags[4] = {1, 1, 1, 1};
};
static hipMemPool_t default_pool(int id) {
    static std::mutex m;
    std::lock_guard lock(m);
    Device* d = device(id);
    if (!d) return nullptr;
    if (!d->default_pool) d->pool = d->default_pool = new ihipMemPoolHandle_t{id};
    return d->default_pool;
}
static hipError_t malloc_async(void** p, size_t n, hipStream_t h, int id) {
    StreamRef s = stream_ref(h);
    if (!s) return hipErrorInvalidHandle;
    return allocate(p, n, MemKind::device, id < 0 ? s->device : id, 0);
}
HIP_API hipError_t hipMallocAsync(void** p, size_t n, hipStream_t h) {
    return api([&] { return malloc_async(p, n, h, -1); });
}
HIP_API hipError_t hipMallocFromPoolAsync(void** p, size_t n, hipMemPool_t pool, hipStream_t h) {
    return api([&] { return pool ? malloc_async(p, n, h, pool->device) : hipErrorInvalidValue; });
}
HIP_API hipError_t hipFreeAsync(void* p, hipStream_t h) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!s) return hipErrorInvalidHandle;
        if (!p) return hipSuccess;
        auto a = find_alloc(p);
        if (!a || a->base != reinterpret_cast<uintptr_t>(p) || a->kind != MemKind::device) return hipErrorInvalidValue;
        Op op;
        op.type = hipGraphNodeTypeMemFree;
        if (!s->capture)
            op.run = [p, id = a->id] {
                auto now = find_alloc(p);
                if (now && now->id == id) (void)release(p);
            };
        return submit(*s, std::move(op));
    });
}
HIP_API hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* p, int id) {
    return api([&] {
        if (!p) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        *p = default_pool(id);
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceGetMemPool(hipMemPool_t* p, int id) {
    return api([&] {
        if (!p) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        default_pool(id);
        *p = device(id)->pool;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceSetMemPool(int id, hipMemPool_t p) {
    return api([&] {
        if (!p) return hipErrorInvalidValue;
        if (!device(id)) return hipErrorInvalidDevice;
        default_pool(id);
        device(id)->pool = p;
        return hipSuccess;
    });
}
HIP_API hipError_t hipMemPoolCreate(hipMemPool_t* p, const hipMemPoolProps* props) {
    return api([&] {
        if (!p || !props) return hipErrorInvalidValue;
        if (!device(props->location.id)) return hipErrorInvalidValue;
        *p = new ihipMemPoolHandle_t{props->location.id};
        return hipSuccess;
    });
}
HIP_API hipError_t hipMemPoolDestroy(hipMemPool_t p) {
    return api([&] {
        if (!p) return hipErrorInvalidValue;
        for (auto& d : devices()) {
            if (p == d->default_pool) return hipErrorInvalidValue;
            if (d->pool == p) d->pool = d->default_pool;
        }
        delete p;
        return hipSuccess;
    });
}
HIP_API hipError_t hipMemPoolTrimTo(hipMemPool_t p, size_t) {
    return api([&] { return p ? hipSuccess : hipErrorInvalidValue; });
}
HIP_API hipError_t hipMemPoolSetAttribute(hipMemPool_t p, hipMemPoolAttr a, void* v) {
    return api([&] {
        if (!p || !v) return hipErrorInvalidValue;
        if (a >= 1 && a <= 3)
            p->flags[a] = *static_cast<int*>(v);
        else if (a == hipMemPoolAttrReleaseThreshold)
            p->threshold = *static_cast<uint64_t*>(v);
        else if (a == hipMemPoolAttrUsedMemHigh)
            device(p->device)->peak = device(p->device)->used;
        return hipSuccess;
    });
}
HIP_API hipError_t hipMemPoolGetAttribute(hipMemPool_t p, hipMemPoolAttr a, void* v) {
    return api([&] {
        if (!p || !v) return hipErrorInvalidValue;
        Device& d = *device(p->device);
        if (a >= 1 && a <= 3)
            *static_cast<int*>(v) = p->flags[a];
        else if (a == hipMemPoolAttrReleaseThreshold)
            *static_cast<uint64_t*>(v) = p->threshold;
        else if (a == hipMemPoolAttrReservedMemHigh || a == hipMemPoolAttrUsedMemHigh)
            *static_cast<uint64_t*>(v) = d.peak;
        else if (a == hipMemPoolAttrReservedMemCurrent || a == hipMemPoolAttrUsedMemCurrent)
            *static_cast<uint64_t*>(v) = d.used;
        else
            return hipErrorInvalidValue;
        return hipSuccess;
    });
}
HIP_API hipError_t hipMemPoolSetAccess(hipMemPool_t p, const hipMemAccessDesc* d, size_t n) {
    return api([&] { return p && (d || !n) ? hipSuccess : hipErrorInvalidValue; });
}
HIP_API hipError_t hipMemPoolGetAccess(hipMemAccessFlags* f, hipMemPool_t p, hipMemLocation*) {
    return api([&] {
        if (!p || !f) return hipErrorInvalidValue;
        *f = hipMemAccessFlagsProtReadWrite;
        return hipSuccess;
    });
}

// ---- managed memory hints ----
static hipError_t managed_range(const void* p, size_t n) {
    auto a = find_alloc(p);
    if (!a || !n || reinterpret_cast<uintptr_t>(p) + n > a->base + a->size) return hipErrorInvalidValue;
    return hipSuccess;
}
HIP_API hipError_t hipMemPrefetchAsync(const void* p, size_t n, int id, hipStream_t h) {
    return api([&] {
        if (id != hipCpuDeviceId && !device(id)) return hipErrorInvalidDevice;
        if (!stream_ref(h)) return hipErrorInvalidHandle;
        return managed_range(p, n);
    });
}
HIP_API hipError_t hipMemPrefetchAsync_v2(const void* p, size_t n, hipMemLocation, unsigned, hipStream_t h) {
    return api([&] { return stream_ref(h) ? managed_range(p, n) : hipErrorInvalidHandle; });
}
HIP_API hipError_t hipMemAdvise(const void* p, size_t n, hipMemoryAdvise, int id) {
    return api([&] { return id != hipCpuDeviceId && !device(id) ? hipErrorInvalidDevice : managed_range(p, n); });
}
HIP_API hipError_t hipMemAdvise_v2(const void* p, size_t n, hipMemoryAdvise, hipMemLocation) {
    return api([&] { return managed_range(p, n); });
}

// ---- pointer queries ----
HIP_API hipError_t hipPointerGetAttributes(hipPointerAttribute_t* out, const void* p) {
    return api([&] {
        if (!out) return hipErrorInvalidValue;
        std::memset(out, 0, sizeof *out);
        auto a = find_alloc(p);
        if (!a) {
            out->type = hipMemoryTypeUnregistered;
            out->device = hipInvalidDeviceId;
            return hipSuccess;
        }
        bool on_device = a->kind == MemKind::device || a->kind == MemKind::module;
        out->type = on_device                     ? hipMemoryTypeDevice
                    : a->kind == MemKind::managed ? hipMemoryTypeManaged
                                                  : hipMemoryTypeHost;
        out->device = a->device;
        out->devicePointer = const_cast<void*>(p);
        out->hostPointer = on_device ? nullptr : const_cast<void*>(p);
        out->isManaged = a->kind == MemKind::managed;
        out->allocationFlags = a->flags;
        return hipSuccess;
    });
}
static hipError_t pointer_attribute(void* data, hipPointer_attribute attribute, const void* p) {
    auto a = find_alloc(p);
    if (!data) return hipErrorInvalidValue;
    bool on_device = a && (a->kind == MemKind::device || a->kind == MemKind::module);
    switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_CONTEXT:
        if (!a) return hipErrorInvalidValue;
        *static_cast<void**>(data) = device(a->device);
        break;
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
        if (!a) return hipErrorInvalidValue;
        *static_cast<unsigned*>(data) = on_device                     ? hipMemoryTypeDevice
                                        : a->kind == MemKind::managed ? hipMemoryTypeUnified
                                                                      : hipMemoryTypeHost;
        break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
        if (!a) return hipErrorInvalidValue;
        *static_cast<const void**>(data) = p;
        break;
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!a || on_device) return hipErrorInvalidValue;
        *static_cast<const void**>(data) = p;
        break;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
        if (!a) return hipErrorInvalidValue;
        *static_cast<uint64_t*>(data) = a->id;
        break;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<bool*>(data) = a && a->kind == MemKind::managed; break;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        if (!a) return hipErrorInvalidValue;
        *static_cast<int*>(data) = a->device;
        break;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        if (!a) return hipErrorInvalidValue;
        *static_cast<uintptr_t*>(data) = a->base;
        break;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
        if (!a) return hipErrorInvalidValue;
        *static_cast<size_t*>(data) = a->size;
        break;
    case HIP_POINTER_ATTRIBUTE_MAPPED: *static_cast<bool*>(data) = bool(a); break;
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS: *static_cast<bool*>(data) = false; break;
    default: return hipErrorNotSupported;
    }
    return hipSuccess;
}
HIP_API hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute a, hipDeviceptr_t p) {
    return api([&] { return pointer_attribute(data, a, p); });
}
HIP_API hipError_t hipDrvPointerGetAttributes(unsigned n, hipPointer_attribute* a, void** data, hipDeviceptr_t p) {
    return api([&] {
        if (!n || !a || !data) return hipErrorInvalidValue;
        for (unsigned i = 0; i < n; ++i) (void)pointer_attribute(data[i], a[i], p);
        return hipSuccess;
    });
}
HIP_API hipError_t hipPointerSetAttribute(const void* v, hipPointer_attribute, hipDeviceptr_t p) {
    return api([&] { return v && find_alloc(p) ? hipSuccess : hipErrorInvalidValue; });
}

HIP_API hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind f) {
    return {x, y, z, w, f};
}
