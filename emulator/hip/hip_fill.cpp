// Fills.
#include "hip/memory_ops.h"

#include <cstring>

namespace gfxemu::hip {

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

} // namespace gfxemu::hip

using namespace gfxemu::hip;

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
