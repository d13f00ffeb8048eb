// Allocations (arenas with guard gaps and a poison fill), copies, fills, pools, pointer queries.
#include "hip/hip_internal.h"

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

// Ends an allocation; the caller has made sure that nothing uses it any more, or wants later uses to fault.
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

// One end of a copy: the whole range inside one allocation, or ordinary host memory.
struct End {
    std::optional<Alloc> alloc;
    hipError_t error = hipSuccess;
};
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
bool pageable(const End& e) { return !e.alloc; }

void still_live(const std::optional<Alloc>& a, const char* what) {
    if (!a) return;
    auto now = find_alloc(reinterpret_cast<void*>(a->base));
    if (now && now->id == a->id) return;
    char text[200];
    std::snprintf(text, sizeof text, "%s uses memory at 0x%zx (%zu bytes) that was freed before the operation ran",
        what, size_t(a->base), a->size);
    throw Fault(Fault::Kind::memory, text);
}

hipError_t ends(void* dst, size_t dst_span, const void* src, size_t src_span, hipMemcpyKind kind, End& d, End& s) {
    if (!dst || !src) return hipErrorInvalidValue;
    if (kind < hipMemcpyHostToHost || (kind > hipMemcpyDefault && kind != hipMemcpyDeviceToDeviceNoCU))
        return hipErrorInvalidMemcpyDirection;
    bool to_device =
        kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDeviceToDeviceNoCU;
    bool from_device =
        kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice || kind == hipMemcpyDeviceToDeviceNoCU;
    d = end_of(dst, dst_span, to_device);
    s = end_of(src, src_span, from_device);
    return d.error ? d.error : s.error;
}
} // namespace

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

hipError_t make_copy_op(const hipMemcpy3DParms& p, Op& op) {
    if (p.srcArray || p.dstArray) return hipErrorNotSupported;
    size_t w = p.extent.width, h = p.extent.height, d = p.extent.depth;
    if (!w || !h || !d) {
        op.type = hipGraphNodeTypeMemcpy;
        op.copy = p;
        op.run = nullptr;
        return hipSuccess;
    }
    size_t sp = p.srcPtr.pitch, dp = p.dstPtr.pitch, ss = sp * p.srcPtr.ysize, ds = dp * p.dstPtr.ysize;
    if ((h > 1 || d > 1) && (w + p.srcPos.x > sp || w + p.dstPos.x > dp)) return hipErrorInvalidPitchValue;
    if (d > 1 && (ss < h * sp || ds < h * dp)) return hipErrorInvalidValue;
    if (!p.srcPtr.ptr || !p.dstPtr.ptr) return hipErrorInvalidValue;
    char* src = static_cast<char*>(p.srcPtr.ptr) + p.srcPos.z * ss + p.srcPos.y * sp + p.srcPos.x;
    char* dst = static_cast<char*>(p.dstPtr.ptr) + p.dstPos.z * ds + p.dstPos.y * dp + p.dstPos.x;
    End de, se;
    if (hipError_t e = ends(dst, (d - 1) * ds + (h - 1) * dp + w, src, (d - 1) * ss + (h - 1) * sp + w, p.kind, de, se))
        return e;
    op.type = hipGraphNodeTypeMemcpy;
    op.copy = p;
    op.run = [=] {
        still_live(de.alloc, "copy");
        still_live(se.alloc, "copy");
        for (size_t z = 0; z < d; ++z)
            for (size_t y = 0; y < h; ++y) std::memmove(dst + z * ds + y * dp, src + z * ss + y * sp, w);
    };
    return hipSuccess;
}

hipError_t make_memset_op(const hipMemsetParams& p, Op& op) {
    if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4) return hipErrorInvalidValue;
    size_t w = p.width * p.elementSize, h = p.height;
    op.type = hipGraphNodeTypeMemset;
    op.set = p;
    if (!w || !h) {
        op.run = nullptr;
        return hipSuccess;
    }
    if (!p.dst || (h > 1 && p.pitch < w) || reinterpret_cast<uintptr_t>(p.dst) % p.elementSize)
        return hipErrorInvalidValue;
    End e = end_of(p.dst, (h - 1) * p.pitch + w, true);
    if (e.error) return e.error;
    op.run = [=] {
        still_live(e.alloc, "memset");
        for (size_t y = 0; y < h; ++y) {
            char* row = static_cast<char*>(p.dst) + y * p.pitch;
            if (p.elementSize == 1)
                std::memset(row, int(p.value), w);
            else
                for (size_t i = 0; i < w; i += p.elementSize) std::memcpy(row + i, &p.value, p.elementSize);
        }
    };
    return hipSuccess;
}

// Submits a copy. As documented for HIP: a copy to pageable memory has ended when the call returns, and
// the source of a copy from pageable memory may be reused when the call returns.
static hipError_t submit_copy(Stream& s, const hipMemcpy3DParms& p, bool sync) {
    Op op;
    if (hipError_t e = make_copy_op(p, op)) return e;
    if (!op.run) return hipSuccess;
    bool capturing = s.capture != nullptr;
    if (capturing && sync) {
        s.capture->invalid = true;
        return hipErrorStreamCaptureUnsupported;
    }
    bool src_pageable = pageable({find_alloc(p.srcPtr.ptr)}), dst_pageable = pageable({find_alloc(p.dstPtr.ptr)});
    if (!capturing && !sync && src_pageable && !dst_pageable && p.extent.height == 1 && p.extent.depth == 1) {
        auto held = std::make_shared<std::vector<char>>(static_cast<char*>(p.srcPtr.ptr) + p.srcPos.x,
            static_cast<char*>(p.srcPtr.ptr) + p.srcPos.x + p.extent.width);
        hipMemcpy3DParms q = p;
        q.srcPtr.ptr = held->data();
        q.srcPos = {0, 0, 0};
        Op from;
        if (hipError_t e = make_copy_op(q, from)) return e;
        op.run = [held, run = std::move(from.run)] { run(); };
    } else if (!capturing && (src_pageable || dst_pageable))
        sync = true;
    if (sync) { // both ends may belong to another device with work in progress
        for (const void* x : {static_cast<const void*>(p.srcPtr.ptr), static_cast<const void*>(p.dstPtr.ptr)})
            if (auto a = find_alloc(x); a && a->device != s.device && a->kind == MemKind::device)
                enqueue(*null_stream(a->device), nullptr)->wait();
    }
    Done done;
    if (hipError_t e = submit(s, std::move(op), &done)) return e;
    if (sync && done) {
        done->wait();
        return sticky(s.device);
    }
    return hipSuccess;
}

hipError_t copy_linear(void* dst, const void* src, size_t n, hipMemcpyKind kind, Stream& s, bool sync) {
    if (n == 0) return hipSuccess;
    hipMemcpy3DParms p{};
    p.srcPtr = {const_cast<void*>(src), n, n, 1};
    p.dstPtr = {dst, n, n, 1};
    p.extent = {n, 1, 1};
    p.kind = kind;
    return submit_copy(s, p, sync);
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

// ---- linear copies ----
static hipError_t copy(void* dst, const void* src, size_t n, hipMemcpyKind kind, hipStream_t h, bool sync) {
    return api([&] {
        StreamRef s = stream_ref(h);
        return s ? copy_linear(dst, src, n, kind, *s, sync) : hipErrorInvalidHandle;
    });
}
HIP_API hipError_t hipMemcpy(void* d, const void* s, size_t n, hipMemcpyKind k) {
    return copy(d, s, n, k, nullptr, true);
}
HIP_API hipError_t hipMemcpyAsync(void* d, const void* s, size_t n, hipMemcpyKind k, hipStream_t h) {
    return copy(d, s, n, k, h, false);
}
HIP_API hipError_t hipMemcpyWithStream(void* d, const void* s, size_t n, hipMemcpyKind k, hipStream_t h) {
    return copy(d, s, n, k, h, true);
}
HIP_API hipError_t hipMemcpyHtoD(hipDeviceptr_t d, const void* s, size_t n) {
    return copy(d, s, n, hipMemcpyHostToDevice, nullptr, true);
}
HIP_API hipError_t hipMemcpyDtoH(void* d, hipDeviceptr_t s, size_t n) {
    return copy(d, s, n, hipMemcpyDeviceToHost, nullptr, true);
}
HIP_API hipError_t hipMemcpyDtoD(hipDeviceptr_t d, hipDeviceptr_t s, size_t n) {
    return copy(d, s, n, hipMemcpyDeviceToDevice, nullptr, true);
}
HIP_API hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t d, const void* s, size_t n, hipStream_t h) {
    return copy(d, s, n, hipMemcpyHostToDevice, h, false);
}
HIP_API hipError_t hipMemcpyDtoHAsync(void* d, hipDeviceptr_t s, size_t n, hipStream_t h) {
    return copy(d, s, n, hipMemcpyDeviceToHost, h, false);
}
HIP_API hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t d, hipDeviceptr_t s, size_t n, hipStream_t h) {
    return copy(d, s, n, hipMemcpyDeviceToDevice, h, false);
}
HIP_API hipError_t hipMemcpyPeer(void* d, int a, const void* s, int b, size_t n) {
    if (!device(a) || !device(b)) return ret(hipErrorInvalidDevice);
    return copy(d, s, n, hipMemcpyDeviceToDevice, nullptr, true);
}
HIP_API hipError_t hipMemcpyPeerAsync(void* d, int a, const void* s, int b, size_t n, hipStream_t h) {
    if (!device(a) || !device(b)) return ret(hipErrorInvalidDevice);
    return copy(d, s, n, hipMemcpyDeviceToDevice, h, false);
}
HIP_API hipError_t hipMemcpy_spt(void* d, const void* s, size_t n, hipMemcpyKind k) {
    return copy(d, s, n, k, hipStreamPerThread, true);
}
HIP_API hipError_t hipMemcpyAsync_spt(void* d, const void* s, size_t n, hipMemcpyKind k, hipStream_t h) {
    return copy(d, s, n, k, h ? h : hipStreamPerThread, false);
}
HIP_API hipError_t hipMemcpyBatchAsync(
    void** d, void** s, size_t* n, size_t count, hipMemcpyAttributes*, size_t*, size_t, size_t* fail, hipStream_t h) {
    for (size_t i = 0; i < count; ++i)
        if (hipError_t e = copy(d[i], s[i], n[i], hipMemcpyDefault, h, false)) {
            if (fail) *fail = i;
            return e;
        }
    return ret(hipSuccess);
}

// ---- symbols ----
static hipError_t symbol_copy(const void* sym, void* dst, const void* src, size_t n, size_t offset, hipMemcpyKind kind,
    hipStream_t h, bool sync) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!s) return hipErrorInvalidHandle;
        void* p = nullptr;
        size_t size = 0;
        if (hipError_t e = symbol_address(sym, &p, &size)) return e;
        if (offset > size || n > size - offset) return hipErrorInvalidValue;
        char* at = static_cast<char*>(p) + offset;
        if (dst ? kind != hipMemcpyDeviceToHost && kind != hipMemcpyDeviceToDevice && kind != hipMemcpyDefault
                : kind != hipMemcpyHostToDevice && kind != hipMemcpyDeviceToDevice && kind != hipMemcpyDefault)
            return hipErrorInvalidMemcpyDirection;
        return dst ? copy_linear(dst, at, n, kind, *s, sync) : copy_linear(at, src, n, kind, *s, sync);
    });
}
HIP_API hipError_t hipMemcpyToSymbol(const void* y, const void* s, size_t n, size_t o, hipMemcpyKind k) {
    return symbol_copy(y, nullptr, s, n, o, k, nullptr, true);
}
HIP_API hipError_t hipMemcpyToSymbolAsync(
    const void* y, const void* s, size_t n, size_t o, hipMemcpyKind k, hipStream_t h) {
    return symbol_copy(y, nullptr, s, n, o, k, h, false);
}
HIP_API hipError_t hipMemcpyFromSymbol(void* d, const void* y, size_t n, size_t o, hipMemcpyKind k) {
    return d ? symbol_copy(y, d, nullptr, n, o, k, nullptr, true) : ret(hipErrorInvalidValue);
}
HIP_API hipError_t hipMemcpyFromSymbolAsync(
    void* d, const void* y, size_t n, size_t o, hipMemcpyKind k, hipStream_t h) {
    return d ? symbol_copy(y, d, nullptr, n, o, k, h, false) : ret(hipErrorInvalidValue);
}
HIP_API hipError_t hipMemcpyToSymbol_spt(const void* y, const void* s, size_t n, size_t o, hipMemcpyKind k) {
    return symbol_copy(y, nullptr, s, n, o, k, hipStreamPerThread, true);
}
HIP_API hipError_t hipMemcpyFromSymbol_spt(void* d, const void* y, size_t n, size_t o, hipMemcpyKind k) {
    return d ? symbol_copy(y, d, nullptr, n, o, k, hipStreamPerThread, true) : ret(hipErrorInvalidValue);
}
HIP_API hipError_t hipMemcpyToSymbolAsync_spt(
    const void* y, const void* s, size_t n, size_t o, hipMemcpyKind k, hipStream_t h) {
    return symbol_copy(y, nullptr, s, n, o, k, h ? h : hipStreamPerThread, false);
}
HIP_API hipError_t hipMemcpyFromSymbolAsync_spt(
    void* d, const void* y, size_t n, size_t o, hipMemcpyKind k, hipStream_t h) {
    return d ? symbol_copy(y, d, nullptr, n, o, k, h ? h : hipStreamPerThread, false) : ret(hipErrorInvalidValue);
}

// ---- 2D, 3D ----
static hipError_t copy_2d(
    void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, hipMemcpyKind k, hipStream_t stream, bool sync) {
    return api([&] {
        StreamRef r = stream_ref(stream);
        if (!r) return hipErrorInvalidHandle;
        if (w > dp || w > sp) return hipErrorInvalidPitchValue;
        hipMemcpy3DParms p{};
        p.srcPtr = {const_cast<void*>(s), sp, w, h};
        p.dstPtr = {d, dp, w, h};
        p.extent = {w, h, 1};
        p.kind = k;
        return submit_copy(*r, p, sync);
    });
}
HIP_API hipError_t hipMemcpy2D(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, hipMemcpyKind k) {
    return copy_2d(d, dp, s, sp, w, h, k, nullptr, true);
}
HIP_API hipError_t hipMemcpy2DAsync(
    void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, hipMemcpyKind k, hipStream_t r) {
    return copy_2d(d, dp, s, sp, w, h, k, r, false);
}
HIP_API hipError_t hipMemcpy2D_spt(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, hipMemcpyKind k) {
    return copy_2d(d, dp, s, sp, w, h, k, hipStreamPerThread, true);
}
HIP_API hipError_t hipMemcpy2DAsync_spt(
    void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h, hipMemcpyKind k, hipStream_t r) {
    return copy_2d(d, dp, s, sp, w, h, k, r ? r : hipStreamPerThread, false);
}
static hipError_t copy_3d(const hipMemcpy3DParms* p, hipStream_t stream, bool sync) {
    return api([&] {
        StreamRef r = stream_ref(stream);
        if (!p) return hipErrorInvalidValue;
        return r ? submit_copy(*r, *p, sync) : hipErrorInvalidHandle;
    });
}
HIP_API hipError_t hipMemcpy3D(const hipMemcpy3DParms* p) { return copy_3d(p, nullptr, true); }
HIP_API hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* p, hipStream_t r) { return copy_3d(p, r, false); }
HIP_API hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms* p) { return copy_3d(p, hipStreamPerThread, true); }
HIP_API hipError_t hipMemcpy3DAsync_spt(const hipMemcpy3DParms* p, hipStream_t r) {
    return copy_3d(p, r ? r : hipStreamPerThread, false);
}
static hipError_t copy_drv(const HIP_MEMCPY3D* c, hipStream_t stream, bool sync) {
    if (!c) return ret(hipErrorInvalidValue);
    if (c->srcMemoryType == hipMemoryTypeArray || c->dstMemoryType == hipMemoryTypeArray)
        return ret(hipErrorNotSupported);
    bool sh = c->srcMemoryType == hipMemoryTypeHost, dh = c->dstMemoryType == hipMemoryTypeHost;
    hipMemcpy3DParms p{};
    p.srcPtr = {sh ? const_cast<void*>(c->srcHost) : c->srcDevice, c->srcPitch ? c->srcPitch : c->WidthInBytes,
        c->WidthInBytes, c->srcHeight ? c->srcHeight : c->Height};
    p.dstPtr = {dh ? c->dstHost : c->dstDevice, c->dstPitch ? c->dstPitch : c->WidthInBytes, c->WidthInBytes,
        c->dstHeight ? c->dstHeight : c->Height};
    p.srcPos = {c->srcXInBytes, c->srcY, c->srcZ};
    p.dstPos = {c->dstXInBytes, c->dstY, c->dstZ};
    p.extent = {c->WidthInBytes, c->Height, c->Depth};
    p.kind = sh   ? (dh ? hipMemcpyHostToHost : hipMemcpyHostToDevice)
             : dh ? hipMemcpyDeviceToHost
                  : hipMemcpyDeviceToDevice;
    if (c->srcMemoryType == hipMemoryTypeUnified || c->dstMemoryType == hipMemoryTypeUnified) p.kind = hipMemcpyDefault;
    return copy_3d(&p, stream, sync);
}
HIP_API hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D* c) { return copy_drv(c, nullptr, true); }
HIP_API hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D* c, hipStream_t r) { return copy_drv(c, r, false); }
static hipError_t copy_param(const hip_Memcpy2D* c, hipStream_t stream, bool sync) {
    if (!c) return ret(hipErrorInvalidValue);
    HIP_MEMCPY3D q{};
    q.srcXInBytes = c->srcXInBytes;
    q.srcY = c->srcY;
    q.srcMemoryType = c->srcMemoryType;
    q.srcHost = c->srcHost;
    q.srcDevice = c->srcDevice;
    q.srcPitch = c->srcPitch;
    q.dstXInBytes = c->dstXInBytes;
    q.dstY = c->dstY;
    q.dstMemoryType = c->dstMemoryType;
    q.dstHost = c->dstHost;
    q.dstDevice = c->dstDevice;
    q.dstPitch = c->dstPitch;
    q.WidthInBytes = c->WidthInBytes;
    q.Height = c->Height;
    q.Depth = 1;
    return copy_drv(&q, stream, sync);
}
HIP_API hipError_t hipMemcpyParam2D(const hip_Memcpy2D* c) { return copy_param(c, nullptr, true); }
HIP_API hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D* c, hipStream_t r) { return copy_param(c, r, false); }
HIP_API hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D* c) { return copy_param(c, nullptr, true); }

// ---- fills ----
static hipError_t fill(
    void* dst, size_t pitch, unsigned value, unsigned element, size_t w, size_t h, hipStream_t stream, bool sync) {
    return api([&] {
        StreamRef s = stream_ref(stream);
        if (!s) return hipErrorInvalidHandle;
        hipMemsetParams p{dst, element, h, pitch, value, w};
        Op op;
        if (hipError_t e = make_memset_op(p, op)) return e;
        if (!op.run) return hipSuccess;
        Done done;
        if (hipError_t e = submit(*s, std::move(op), &done)) return e;
        if (sync && done) {
            done->wait();
            return sticky(s->device);
        }
        return hipSuccess;
    });
}
static hipStream_t per_thread(hipStream_t h) { return h ? h : hipStreamPerThread; }
HIP_API hipError_t hipMemset(void* d, int v, size_t n) { return fill(d, n, unsigned(v) & 255, 1, n, 1, nullptr, true); }
HIP_API hipError_t hipMemsetAsync(void* d, int v, size_t n, hipStream_t h) {
    return fill(d, n, unsigned(v) & 255, 1, n, 1, h, false);
}
HIP_API hipError_t hipMemset_spt(void* d, int v, size_t n) {
    return fill(d, n, unsigned(v) & 255, 1, n, 1, hipStreamPerThread, true);
}
HIP_API hipError_t hipMemsetAsync_spt(void* d, int v, size_t n, hipStream_t h) {
    return fill(d, n, unsigned(v) & 255, 1, n, 1, per_thread(h), false);
}
HIP_API hipError_t hipMemsetD8(hipDeviceptr_t d, unsigned char v, size_t n) {
    return fill(d, n, v, 1, n, 1, nullptr, true);
}
HIP_API hipError_t hipMemsetD8Async(hipDeviceptr_t d, unsigned char v, size_t n, hipStream_t h) {
    return fill(d, n, v, 1, n, 1, h, false);
}
HIP_API hipError_t hipMemsetD16(hipDeviceptr_t d, unsigned short v, size_t n) {
    return fill(d, 2 * n, v, 2, n, 1, nullptr, true);
}
HIP_API hipError_t hipMemsetD16Async(hipDeviceptr_t d, unsigned short v, size_t n, hipStream_t h) {
    return fill(d, 2 * n, v, 2, n, 1, h, false);
}
HIP_API hipError_t hipMemsetD32(hipDeviceptr_t d, int v, size_t n) {
    return fill(d, 4 * n, unsigned(v), 4, n, 1, nullptr, true);
}
HIP_API hipError_t hipMemsetD32Async(hipDeviceptr_t d, int v, size_t n, hipStream_t h) {
    return fill(d, 4 * n, unsigned(v), 4, n, 1, h, false);
}
HIP_API hipError_t hipMemset2D(void* d, size_t p, int v, size_t w, size_t h) {
    return fill(d, p, unsigned(v) & 255, 1, w, h, nullptr, true);
}
HIP_API hipError_t hipMemset2DAsync(void* d, size_t p, int v, size_t w, size_t h, hipStream_t s) {
    return fill(d, p, unsigned(v) & 255, 1, w, h, s, false);
}
HIP_API hipError_t hipMemset2D_spt(void* d, size_t p, int v, size_t w, size_t h) {
    return fill(d, p, unsigned(v) & 255, 1, w, h, hipStreamPerThread, true);
}
HIP_API hipError_t hipMemset2DAsync_spt(void* d, size_t p, int v, size_t w, size_t h, hipStream_t s) {
    return fill(d, p, unsigned(v) & 255, 1, w, h, per_thread(s), false);
}
HIP_API hipError_t hipMemsetD2D8(hipDeviceptr_t d, size_t p, unsigned char v, size_t w, size_t h) {
    return fill(d, p, v, 1, w, h, nullptr, true);
}
HIP_API hipError_t hipMemsetD2D8Async(hipDeviceptr_t d, size_t p, unsigned char v, size_t w, size_t h, hipStream_t s) {
    return fill(d, p, v, 1, w, h, s, false);
}
HIP_API hipError_t hipMemsetD2D16(hipDeviceptr_t d, size_t p, unsigned short v, size_t w, size_t h) {
    return fill(d, p, v, 2, w, h, nullptr, true);
}
HIP_API hipError_t hipMemsetD2D16Async(
    hipDeviceptr_t d, size_t p, unsigned short v, size_t w, size_t h, hipStream_t s) {
    return fill(d, p, v, 2, w, h, s, false);
}
HIP_API hipError_t hipMemsetD2D32(hipDeviceptr_t d, size_t p, unsigned v, size_t w, size_t h) {
    return fill(d, p, v, 4, w, h, nullptr, true);
}
HIP_API hipError_t hipMemsetD2D32Async(hipDeviceptr_t d, size_t p, unsigned v, size_t w, size_t h, hipStream_t s) {
    return fill(d, p, v, 4, w, h, s, false);
}
static hipError_t fill_3d(hipPitchedPtr q, int v, hipExtent e, hipStream_t s, bool sync) {
    if (e.depth > 1 && e.height != q.ysize) {
        for (size_t z = 0; z < e.depth; ++z)
            if (hipError_t r = fill(static_cast<char*>(q.ptr) + z * q.pitch * q.ysize, q.pitch, unsigned(v) & 255, 1,
                    e.width, e.height, s, sync))
                return r;
        return hipSuccess;
    }
    return fill(q.ptr, q.pitch, unsigned(v) & 255, 1, e.width, e.height * e.depth, s, sync);
}
HIP_API hipError_t hipMemset3D(hipPitchedPtr q, int v, hipExtent e) { return fill_3d(q, v, e, nullptr, true); }
HIP_API hipError_t hipMemset3DAsync(hipPitchedPtr q, int v, hipExtent e, hipStream_t s) {
    return fill_3d(q, v, e, s, false);
}
HIP_API hipError_t hipMemset3D_spt(hipPitchedPtr q, int v, hipExtent e) {
    return fill_3d(q, v, e, hipStreamPerThread, true);
}
HIP_API hipError_t hipMemset3DAsync_spt(hipPitchedPtr q, int v, hipExtent e, hipStream_t s) {
    return fill_3d(q, v, e, per_thread(s), false);
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
