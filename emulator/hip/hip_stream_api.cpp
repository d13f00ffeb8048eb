// The API of streams.
#include "hip/streams.h"

#include <algorithm>
#include <cstring>

using namespace gfxemu::hip;

static hipError_t create_stream(hipStream_t* out, unsigned flags, int priority) {
    return api([&] {
        if (!out || (flags & ~unsigned(hipStreamNonBlocking))) return hipErrorInvalidValue;
        auto s = make_stream(current().id, flags, std::max(-1, std::min(1, priority)), false);
        *out = reinterpret_cast<hipStream_t>(s.get());
        return hipSuccess;
    });
}
HIP_API hipError_t hipStreamCreate(hipStream_t* s) { return create_stream(s, 0, 0); }
HIP_API hipError_t hipStreamCreateWithFlags(hipStream_t* s, unsigned flags) { return create_stream(s, flags, 0); }
HIP_API hipError_t hipStreamCreateWithPriority(hipStream_t* s, unsigned flags, int priority) {
    return create_stream(s, flags, priority);
}
HIP_API hipError_t hipExtStreamCreateWithCUMask(hipStream_t* s, uint32_t n, const uint32_t* mask) {
    if (!n || !mask) return ret(hipErrorInvalidValue);
    return create_stream(s, 0, 0);
}
HIP_API hipError_t hipExtStreamGetCUMask(hipStream_t, uint32_t n, uint32_t* mask) {
    if (!n || !mask) return ret(hipErrorInvalidValue);
    std::memset(mask, 0xff, n * 4);
    return ret(hipSuccess);
}
HIP_API hipError_t hipStreamDestroy(hipStream_t h) {
    return api([&] {
        if (!h || h == hipStreamLegacy || h == hipStreamPerThread) return hipErrorInvalidHandle;
        StreamRef s = stream_ref(h);
        if (!s) return hipErrorInvalidHandle;
        if (s->capture) {
            std::lock_guard l(capture_mutex());
            s->capture->invalid = true;
            s->capture->streams.erase(s.get());
        }
        {
            std::lock_guard order(order_mutex());
            live_streams().erase(s.get());
        }
        std::lock_guard lock(s->m);
        s->destroyed = true; // the worker ends once the queue is empty
        s->cv.notify_all();
        return hipSuccess;
    });
}
hipError_t gfxemu::hip::stream_sync(StreamRef s) {
    if (!s) return hipErrorInvalidHandle;
    if (s->capture) {
        s->capture->invalid = true;
        return hipErrorStreamCaptureUnsupported;
    }
    if (s->null) { // also waits for blocking streams
        enqueue(*s, nullptr)->wait();
    } else if (Done d = last_of(*s))
        d->wait();
    return sticky(s->device);
}
hipError_t gfxemu::hip::stream_query(StreamRef s) {
    if (!s) return hipErrorInvalidHandle;
    if (s->capture) {
        s->capture->invalid = true;
        return hipErrorStreamCaptureUnsupported;
    }
    if (hipError_t e = sticky(s->device)) return e;
    std::vector<Done> all;
    {
        std::lock_guard order(order_mutex());
        if (s->last) all.push_back(s->last);
        if (s->null)
            for (auto& x : device(s->device)->streams)
                if (x->blocking() && x->last) all.push_back(x->last);
    }
    for (auto& d : all) {
        d->demand();
        if (!d->is_done()) return hipErrorNotReady;
    }
    return sticky(s->device);
}
HIP_API hipError_t hipStreamSynchronize(hipStream_t h) {
    return api([&] { return stream_sync(stream_ref(h)); });
}
HIP_API hipError_t hipStreamQuery(hipStream_t h) {
    return api([&] { return stream_query(stream_ref(h)); });
}
HIP_API hipError_t hipStreamGetFlags(hipStream_t h, unsigned* f) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!f) return hipErrorInvalidValue;
        if (!s) return hipErrorInvalidHandle;
        *f = s->flags;
        return hipSuccess;
    });
}
HIP_API hipError_t hipStreamGetId(hipStream_t h, unsigned long long* id) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!id) return hipErrorInvalidValue;
        if (!s) return hipErrorInvalidHandle;
        *id = s->id;
        return hipSuccess;
    });
}
HIP_API hipError_t hipStreamGetPriority(hipStream_t h, int* p) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!p) return hipErrorInvalidValue;
        if (!s) return hipErrorInvalidHandle;
        *p = s->priority;
        return hipSuccess;
    });
}
HIP_API hipError_t hipStreamGetDevice(hipStream_t h, hipDevice_t* d) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!d) return hipErrorInvalidValue;
        if (!s) return hipErrorInvalidHandle;
        *d = s->device;
        return hipSuccess;
    });
}
HIP_API int hipGetStreamDeviceId(hipStream_t h) {
    StreamRef s = stream_ref(h);
    return s ? s->device : -1;
}
HIP_API hipError_t hipStreamSetAttribute(hipStream_t, hipLaunchAttributeID, const hipLaunchAttributeValue*) {
    return ret(hipSuccess);
}
HIP_API hipError_t hipStreamGetAttribute(hipStream_t h, hipLaunchAttributeID id, hipLaunchAttributeValue* v) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!s || !v) return hipErrorInvalidValue;
        std::memset(v, 0, sizeof *v);
        if (id == hipLaunchAttributePriority) v->priority = s->priority;
        return hipSuccess;
    });
}
HIP_API hipError_t hipStreamAttachMemAsync(hipStream_t h, void*, size_t, unsigned) {
    return api([&] { return stream_ref(h) ? hipSuccess : hipErrorInvalidHandle; });
}

hipError_t gfxemu::hip::wait_event(StreamRef s, hipEvent_t event, unsigned flags) {
    auto e = event_ref(event);
    if (!s || !e) return hipErrorInvalidHandle;
    if (flags & ~1u) return hipErrorInvalidValue;
    std::unique_lock lock(e->m);
    if (e->capture) {
        auto c = e->capture;
        if (c->streams.empty()) return hipErrorInvalidHandle; // the capture has ended
        if (s->capture && s->capture != c) return hipErrorStreamCaptureIsolation;
        if (!s->capture) {
            std::lock_guard l(capture_mutex());
            s->capture = c;
            s->tail.clear();
            c->streams.insert(s.get());
        }
        for (auto* n : e->nodes)
            if (std::find(s->tail.begin(), s->tail.end(), n) == s->tail.end()) s->tail.push_back(n);
        return hipSuccess;
    }
    Done done = e->done;
    lock.unlock();
    if (s->capture) {
        if (!done || done->is_done()) return hipSuccess;
        return hipErrorStreamCaptureIsolation;
    }
    if (done && !done->is_done()) enqueue(*s, nullptr, {done});
    return hipSuccess;
}
HIP_API hipError_t hipStreamWaitEvent(hipStream_t h, hipEvent_t e, unsigned flags) {
    return api([&] { return wait_event(stream_ref(h), e, flags); });
}

HIP_API hipError_t hipStreamAddCallback(hipStream_t h, hipStreamCallback_t fn, void* data, unsigned flags) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!fn || flags) return hipErrorInvalidValue;
        if (!s) return hipErrorInvalidHandle;
        if (s->capture) return hipErrorStreamCaptureUnsupported;
        enqueue(*s, [=, id = s->device] { fn(h, sticky(id), data); });
        return hipSuccess;
    });
}
HIP_API hipError_t hipLaunchHostFunc(hipStream_t h, hipHostFn_t fn, void* data) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!s) return hipErrorInvalidHandle;
        Op op;
        if (hipError_t e = make_host_op({fn, data}, op)) return e;
        return submit(*s, std::move(op));
    });
}

// Memory operations of a stream: wait for, or write, a value in device-visible memory.
template <class T> static hipError_t stream_wait_value(hipStream_t h, void* p, T value, unsigned flags, T mask) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!s) return hipErrorInvalidHandle;
        if (!p || flags > 3 || !find_alloc(p)) return hipErrorInvalidValue;
        Op op;
        op.type = hipGraphNodeTypeBatchMemOp;
        op.run = [=] {
            for (;;) {
                T v = __atomic_load_n(static_cast<T*>(p), __ATOMIC_ACQUIRE) & mask;
                if (flags == hipStreamWaitValueGte   ? v >= value
                    : flags == hipStreamWaitValueEq  ? v == value
                    : flags == hipStreamWaitValueAnd ? (v & value) != 0
                                                     : (~(v | value) & mask) != 0)
                    return;
                std::this_thread::sleep_for(std::chrono::microseconds(20));
            }
        };
        return submit(*s, std::move(op));
    });
}
template <class T> static hipError_t stream_write_value(hipStream_t h, void* p, T value) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!s) return hipErrorInvalidHandle;
        if (!p || !find_alloc(p)) return hipErrorInvalidValue;
        Op op;
        op.type = hipGraphNodeTypeBatchMemOp;
        op.run = [=] { __atomic_store_n(static_cast<T*>(p), value, __ATOMIC_RELEASE); };
        return submit(*s, std::move(op));
    });
}
HIP_API hipError_t hipStreamWaitValue32(hipStream_t h, void* p, uint32_t v, unsigned flags, uint32_t mask) {
    return stream_wait_value(h, p, v, flags, mask);
}
HIP_API hipError_t hipStreamWaitValue64(hipStream_t h, void* p, uint64_t v, unsigned flags, uint64_t mask) {
    return stream_wait_value(h, p, v, flags, mask);
}
HIP_API hipError_t hipStreamWriteValue32(hipStream_t h, void* p, uint32_t v, unsigned) {
    return stream_write_value(h, p, v);
}
HIP_API hipError_t hipStreamWriteValue64(hipStream_t h, void* p, uint64_t v, unsigned) {
    return stream_write_value(h, p, v);
}

// ---- _spt forms: the null handle means the per-thread stream ----
static hipStream_t spt(hipStream_t h) { return h ? h : hipStreamPerThread; }
HIP_API hipError_t hipStreamSynchronize_spt(hipStream_t h) { return hipStreamSynchronize(spt(h)); }
HIP_API hipError_t hipStreamQuery_spt(hipStream_t h) { return hipStreamQuery(spt(h)); }
HIP_API hipError_t hipStreamGetFlags_spt(hipStream_t h, unsigned* f) { return hipStreamGetFlags(spt(h), f); }
HIP_API hipError_t hipStreamGetPriority_spt(hipStream_t h, int* p) { return hipStreamGetPriority(spt(h), p); }
HIP_API hipError_t hipStreamWaitEvent_spt(hipStream_t h, hipEvent_t e, unsigned f) {
    return hipStreamWaitEvent(spt(h), e, f);
}
HIP_API hipError_t hipEventRecord_spt(hipEvent_t e, hipStream_t h) { return hipEventRecord(e, spt(h)); }
HIP_API hipError_t hipStreamAddCallback_spt(hipStream_t h, hipStreamCallback_t fn, void* d, unsigned f) {
    return hipStreamAddCallback(spt(h), fn, d, f);
}
HIP_API hipError_t hipLaunchHostFunc_spt(hipStream_t h, hipHostFn_t fn, void* d) {
    return hipLaunchHostFunc(spt(h), fn, d);
}
HIP_API hipError_t hipGraphLaunch_spt(hipGraphExec_t g, hipStream_t h) { return hipGraphLaunch(g, spt(h)); }
HIP_API hipError_t hipStreamBeginCapture_spt(hipStream_t h, hipStreamCaptureMode m) {
    return hipStreamBeginCapture(spt(h), m);
}
HIP_API hipError_t hipStreamEndCapture_spt(hipStream_t h, hipGraph_t* g) { return hipStreamEndCapture(spt(h), g); }
HIP_API hipError_t hipStreamIsCapturing_spt(hipStream_t h, hipStreamCaptureStatus* s) {
    return hipStreamIsCapturing(spt(h), s);
}
HIP_API hipError_t hipStreamGetCaptureInfo_spt(hipStream_t h, hipStreamCaptureStatus* s, unsigned long long* id) {
    return hipStreamGetCaptureInfo(spt(h), s, id);
}
HIP_API hipError_t hipStreamGetCaptureInfo_v2_spt(hipStream_t h, hipStreamCaptureStatus* s, unsigned long long* id,
    hipGraph_t* g, const hipGraphNode_t** d, size_t* n) {
    return hipStreamGetCaptureInfo_v2(spt(h), s, id, g, d, n);
}
