// Capturing the operations of streams into a graph.
#include "hip/streams.h"

#include <algorithm>

using namespace gfxemu::hip;

static std::atomic<uint64_t> next_capture_id{1};

hipError_t gfxemu::hip::begin_capture(
    StreamRef s, Graph* into, std::vector<GraphNode*> deps, hipStreamCaptureMode mode) {
    if (!s) return hipErrorInvalidHandle;
    if (s->null) return hipErrorStreamCaptureUnsupported;
    if (mode < 0 || mode > hipStreamCaptureModeRelaxed) return hipErrorInvalidValue;
    if (s->capture) return hipErrorIllegalState;
    auto c = std::make_shared<Capture>();
    c->owns_graph = !into;
    c->graph = into ? into : new_graph();
    c->origin = s.get();
    c->mode = mode;
    c->thread = std::this_thread::get_id();
    c->id = next_capture_id++;
    c->streams = {s.get()};
    std::lock_guard lock(capture_mutex());
    s->capture = c;
    s->tail = std::move(deps);
    captures().push_back(c);
    return hipSuccess;
}
hipError_t gfxemu::hip::end_capture(StreamRef s, hipGraph_t* out) {
    if (!out) return hipErrorInvalidValue;
    if (!s) return hipErrorInvalidHandle;
    auto c = s->capture;
    if (!c) return hipErrorIllegalState;
    if (c->origin != s.get()) return hipErrorStreamCaptureUnmatched;
    if (c->mode != hipStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
        return hipErrorStreamCaptureWrongThread;
    std::lock_guard lock(capture_mutex());
    bool unjoined = false; // every other stream's tail must be an ancestor of the origin's
    std::set<GraphNode*> reached;
    std::vector<GraphNode*> work = s->tail;
    while (!work.empty()) {
        GraphNode* n = work.back();
        work.pop_back();
        if (reached.insert(n).second) work.insert(work.end(), n->deps.begin(), n->deps.end());
    }
    for (Stream* x : c->streams) {
        for (auto* n : x->tail) unjoined |= !reached.count(n);
        if (x != s.get()) {
            x->tail.clear();
            x->capture = nullptr;
        }
    }
    c->streams.clear();
    s->capture = nullptr;
    s->tail.clear();
    auto& v = captures();
    v.erase(std::remove(v.begin(), v.end(), c), v.end());
    if (c->invalid || unjoined) {
        if (c->owns_graph) delete_graph(c->graph);
        *out = nullptr;
        return c->invalid ? hipErrorStreamCaptureInvalidated : hipErrorStreamCaptureUnjoined;
    }
    *out = reinterpret_cast<hipGraph_t>(c->graph);
    return hipSuccess;
}
HIP_API hipError_t hipStreamBeginCapture(hipStream_t h, hipStreamCaptureMode mode) {
    return api([&] { return begin_capture(stream_ref(h), nullptr, {}, mode); });
}
HIP_API hipError_t hipStreamBeginCaptureToGraph(hipStream_t h, hipGraph_t g, const hipGraphNode_t* deps,
    const hipGraphEdgeData*, size_t n, hipStreamCaptureMode mode) {
    return with_graph(g, [&](Graph& p) {
        std::vector<GraphNode*> d;
        for (size_t i = 0; i < n; ++i) d.push_back(node_of(deps[i]));
        return begin_capture(stream_ref(h), &p, d, mode);
    });
}
HIP_API hipError_t hipStreamEndCapture(hipStream_t h, hipGraph_t* g) {
    return api([&] { return end_capture(stream_ref(h), g); });
}
hipStreamCaptureStatus gfxemu::hip::capture_status(Stream& s) {
    return !s.capture           ? hipStreamCaptureStatusNone
           : s.capture->invalid ? hipStreamCaptureStatusInvalidated
                                : hipStreamCaptureStatusActive;
}
HIP_API hipError_t hipStreamIsCapturing(hipStream_t h, hipStreamCaptureStatus* st) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!st) return hipErrorInvalidValue;
        if (!s) return hipErrorInvalidHandle;
        *st = capture_status(*s);
        return hipSuccess;
    });
}
HIP_API hipError_t hipStreamGetCaptureInfo(hipStream_t h, hipStreamCaptureStatus* st, unsigned long long* id) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!st) return hipErrorInvalidValue;
        if (!s) return hipErrorInvalidHandle;
        *st = capture_status(*s);
        if (id) *id = s->capture ? s->capture->id : 0;
        return hipSuccess;
    });
}
HIP_API hipError_t hipStreamGetCaptureInfo_v2(hipStream_t h, hipStreamCaptureStatus* st, unsigned long long* id,
    hipGraph_t* g, const hipGraphNode_t** deps, size_t* n) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!st) return hipErrorInvalidValue;
        if (!s) return hipErrorInvalidHandle;
        *st = capture_status(*s);
        if (*st != hipStreamCaptureStatusActive) return hipSuccess;
        if (id) *id = s->capture->id;
        if (g) *g = reinterpret_cast<hipGraph_t>(s->capture->graph);
        if (deps) *deps = reinterpret_cast<const hipGraphNode_t*>(s->tail.data());
        if (n) *n = s->tail.size();
        return hipSuccess;
    });
}
HIP_API hipError_t hipStreamUpdateCaptureDependencies(hipStream_t h, hipGraphNode_t* deps, size_t n, unsigned flags) {
    return api([&] {
        StreamRef s = stream_ref(h);
        if (!s) return hipErrorInvalidHandle;
        if (!s->capture) return hipErrorIllegalState;
        if (flags == hipStreamSetCaptureDependencies) s->tail.clear();
        for (size_t i = 0; i < n; ++i) s->tail.push_back(node_of(deps[i]));
        return hipSuccess;
    });
}
HIP_API hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
    return api([&] {
        if (!mode || *mode < 0 || *mode > hipStreamCaptureModeRelaxed) return hipErrorInvalidValue;
        std::swap(*mode, thread_capture_mode());
        return hipSuccess;
    });
}
