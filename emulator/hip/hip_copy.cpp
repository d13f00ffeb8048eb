// Copies.
#include "hip/memory_ops.h"

#include <algorithm>
#include <cstring>

namespace gfxemu::hip {

static hipError_t ends(
    void* dst, size_t dst_span, const void* src, size_t src_span, hipMemcpyKind kind, End& d, End& s) {
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

// Submits a copy. As documented for HIP: a copy to pageable memory has ended when the call returns, and
// the source of a copy from pageable memory may be reused when the call returns.
hipError_t submit_copy(Stream& s, const hipMemcpy3DParms& p, bool sync) {
    Op op;
    if (hipError_t e = make_copy_op(p, op)) return e;
    if (!op.run) return hipSuccess;
    bool capturing = s.capture != nullptr;
    if (capturing && sync) {
        s.capture->invalid = true;
        return hipErrorStreamCaptureUnsupported;
    }
    bool src_pageable = !find_alloc(p.srcPtr.ptr), dst_pageable = !find_alloc(p.dstPtr.ptr);
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
