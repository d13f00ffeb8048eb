// Events.
#include "hip/streams.h"

#include <algorithm>

using namespace gfxemu::hip;

HIP_API hipError_t hipEventCreateWithFlags(hipEvent_t* out, unsigned flags) {
    return api([&] {
        const unsigned known = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess |
                               hipEventDisableSystemFence | hipEventReleaseToDevice | hipEventReleaseToSystem;
        if (!out || (flags & ~known)) return hipErrorInvalidValue;
        if ((flags & hipEventInterprocess) && !(flags & hipEventDisableTiming)) return hipErrorInvalidValue;
        auto e = std::make_shared<Event>();
        e->device = current().id;
        e->flags = flags;
        std::lock_guard lock(event_mutex());
        live_events()[e.get()] = e;
        *out = reinterpret_cast<hipEvent_t>(e.get());
        return hipSuccess;
    });
}
HIP_API hipError_t hipEventCreate(hipEvent_t* out) { return hipEventCreateWithFlags(out, 0); }
HIP_API hipError_t hipEventDestroy(hipEvent_t h) {
    return api([&] {
        std::lock_guard lock(event_mutex());
        return live_events().erase(reinterpret_cast<Event*>(h)) ? hipSuccess : hipErrorInvalidHandle;
    });
}
hipError_t gfxemu::hip::event_record(hipEvent_t h, StreamRef s) {
    auto e = event_ref(h);
    if (!e || !s) return hipErrorInvalidHandle;
    return record_event(e, *s);
}
HIP_API hipError_t hipEventRecord(hipEvent_t h, hipStream_t s) {
    return api([&] { return event_record(h, stream_ref(s)); });
}
HIP_API hipError_t hipEventRecordWithFlags(hipEvent_t h, hipStream_t s, unsigned flags) {
    return api([&] {
        if (flags & ~1u) return hipErrorInvalidValue;
        StreamRef r = stream_ref(s);
        auto e = event_ref(h);
        if (!r || !e) return hipErrorInvalidHandle;
        if (r->capture && (flags & hipEventRecordExternal)) {
            Op op;
            op.type = hipGraphNodeTypeEventRecord;
            op.event = e;
            return submit(*r, std::move(op));
        }
        return record_event(e, *r);
    });
}
HIP_API hipError_t hipEventSynchronize(hipEvent_t h) {
    return api([&] {
        auto e = event_ref(h);
        if (!e) return hipErrorInvalidHandle;
        Done d;
        {
            std::lock_guard lock(e->m);
            if (e->capture) return hipErrorCapturedEvent;
            d = e->done;
        }
        if (d) d->wait();
        return sticky(e->device);
    });
}
HIP_API hipError_t hipEventQuery(hipEvent_t h) {
    return api([&] {
        auto e = event_ref(h);
        if (!e) return hipErrorInvalidHandle;
        Done d;
        {
            std::lock_guard lock(e->m);
            if (e->capture) return hipErrorCapturedEvent;
            d = e->done;
        }
        if (d) d->demand();
        if (d && !d->is_done()) return hipErrorNotReady;
        return sticky(e->device);
    });
}
HIP_API hipError_t hipEventElapsedTime(float* ms, hipEvent_t a, hipEvent_t b) {
    return api([&] {
        if (!ms) return hipErrorInvalidValue;
        auto x = event_ref(a), y = event_ref(b);
        if (!x || !y) return hipErrorInvalidHandle;
        if ((x->flags | y->flags) & hipEventDisableTiming) return hipErrorInvalidHandle;
        Done s, t;
        {
            std::lock_guard lock(x->m);
            s = x->done;
        }
        {
            std::lock_guard lock(y->m);
            t = y->done;
        }
        if (!s || !t) return hipErrorInvalidHandle;
        s->demand();
        t->demand();
        if (!s->is_done() || !t->is_done()) return hipErrorNotReady;
        *ms = float((t->time - s->time) * 1e3);
        return hipSuccess;
    });
}
