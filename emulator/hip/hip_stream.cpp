// Streams (one worker thread each, in order), events, stream capture and graphs.
#include "hip/hip_internal.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

namespace gfxemu::hip {

double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- completion ----
void Completion::finish() {
    std::lock_guard lock(m);
    done = true;
    time = now_seconds();
    cv.notify_all();
}
bool Completion::is_done() {
    std::lock_guard lock(m);
    return done;
}
void Completion::demand() {
    if (!settings().lazy) return;
    if (auto s = stream.lock()) {
        std::lock_guard lock(s->m);
        if (s->demand < seq) {
            s->demand = seq;
            s->cv.notify_all();
        }
    }
}
void Completion::wait() {
    demand();
    std::unique_lock lock(m);
    cv.wait(lock, [&] { return done; });
}

// ---- the set of live streams and events; also orders enqueues across streams ----
namespace {
std::mutex& order_mutex() {
    static auto* m = new std::mutex;
    return *m;
}
std::unordered_map<Stream*, StreamRef>& live_streams() {
    static auto* s = new std::unordered_map<Stream*, StreamRef>;
    return *s;
}
std::mutex& event_mutex() {
    static auto* m = new std::mutex;
    return *m;
}
std::unordered_map<Event*, std::shared_ptr<Event>>& live_events() {
    static auto* s = new std::unordered_map<Event*, std::shared_ptr<Event>>;
    return *s;
}
std::atomic<uint64_t> next_stream_id{1}, next_capture_id{1};

// Captures in progress, for the checks of calls that would synchronise.
std::mutex& capture_mutex() {
    static auto* m = new std::mutex;
    return *m;
}
std::vector<std::shared_ptr<Capture>>& captures() {
    static auto* v = new std::vector<std::shared_ptr<Capture>>;
    return *v;
}
thread_local hipStreamCaptureMode thread_capture_mode = hipStreamCaptureModeGlobal;

// At exit: let the operations in progress end before other parts of the process are torn down.
std::atomic<bool> exiting{false};
void at_exit() {
    exiting = true;
    std::vector<StreamRef> all;
    {
        std::lock_guard lock(order_mutex());
        for (auto& d : devices())
            for (auto& s : d->streams) all.push_back(s);
    }
    for (auto& s : all) {
        std::unique_lock lock(s->m);
        if (s->queue.empty()) continue;
        Done first = s->queue.front().done;
        s->cv.notify_all();
        lock.unlock();
        std::unique_lock wait(first->m);
        first->cv.wait_for(wait, std::chrono::seconds(10), [&] { return first->done; });
    }
}
void install_exit() {
    static bool once = (std::atexit(at_exit), true);
    (void)once;
}
} // namespace

// Handlers run last-registered first; this one must precede the destruction of what the first launch constructed.
void exit_after_first_launch() {
    static bool once = (std::atexit(at_exit), true);
    (void)once;
}

void Stream::worker() {
    const auto& config = settings();
    for (;;) {
        std::unique_lock lock(m);
        cv.wait(lock, [&] {
            if (queue.empty()) return bool(destroyed);
            return !config.lazy || destroyed || exiting || queue.front().done->seq <= demand;
        });
        if (queue.empty()) return;
        Task& task = queue.front(); // references into a deque survive push_back
        lock.unlock();
        for (auto& dep : task.deps) dep->wait();
        if (config.delay_us) std::this_thread::sleep_for(std::chrono::microseconds(config.delay_us));
        if (task.run && !exiting) task.run(); // at exit, what has not begun is dropped
        Done done = task.done;
        Task ended; // its captures are released outside the lock
        lock.lock();
        ended = std::move(queue.front());
        queue.pop_front();
        lock.unlock();
        done->finish();
    }
}

static void record_fault(int device) {
    hipError_t e = hipErrorUnknown;
    try {
        throw;
    } catch (const Fault& f) {
        bool assertion = f.kind == Fault::Kind::trap && std::strstr(f.what(), "assert");
        e = f.kind == Fault::Kind::memory ? hipErrorIllegalAddress : assertion ? hipErrorAssert : hipErrorLaunchFailure;
        message("fault on device %d (%s): %s", device, hipGetErrorName(e), f.what());
    } catch (const std::exception& x) {
        e = hipErrorLaunchFailure;
        message("error on device %d: %s", device, x.what());
    }
    set_sticky(device, e);
    if (settings().abort) std::abort();
}

// Wraps an operation: nothing runs on a device that has faulted.
static std::function<void()> guarded(int device, std::function<void()> run) {
    if (!run) return run;
    return [device, run = std::move(run)] {
        if (sticky(device) != hipSuccess) return;
        try {
            run();
        } catch (...) {
            record_fault(device);
        }
    };
}

static void prune(Device& d) { // under the order mutex
    auto& v = d.streams;
    v.erase(std::remove_if(v.begin(), v.end(),
                [](const StreamRef& s) { return s->destroyed && (!s->last || s->last->is_done()); }),
        v.end());
}

Done enqueue(Stream& s, std::function<void()> run, std::vector<Done> deps) {
    Device& d = *device(s.device);
    auto done = std::make_shared<Completion>();
    std::unique_lock order(order_mutex());
    if (s.null) {
        prune(d);
        for (auto& other : d.streams)
            if (other->blocking() && other->last && !other->last->is_done()) deps.push_back(other->last);
    } else if (s.blocking() && d.null && d.null->last && !d.null->last->is_done()) {
        deps.push_back(d.null->last);
    }
    done->stream = s.weak_from_this();
    if (settings().sync) {
        s.last = done;
        order.unlock();
        for (auto& dep : deps) dep->wait();
        if (run) run();
        done->finish();
        return done;
    }
    {
        std::lock_guard lock(s.m);
        done->seq = s.next_seq++;
        s.queue.push_back({std::move(run), std::move(deps), done});
        s.last = done;
        if (!s.started) {
            install_exit();
            s.started = true;
            std::thread([keep = s.shared_from_this()] { keep->worker(); }).detach();
        }
        s.cv.notify_all();
    }
    return done;
}

static StreamRef make_stream(int device_id, unsigned flags, int priority, bool null) {
    auto s = std::make_shared<Stream>();
    s->device = device_id;
    s->flags = flags;
    s->priority = priority;
    s->null = null;
    s->id = next_stream_id++;
    std::lock_guard order(order_mutex());
    Device& d = *device(device_id);
    prune(d);
    d.streams.push_back(s);
    if (null) {
        if (d.null) return d.null;
        d.null = s;
    } else
        live_streams()[s.get()] = s;
    return s;
}

StreamRef null_stream(int id) {
    Device* d = device(id);
    if (!d) return nullptr;
    {
        std::lock_guard order(order_mutex());
        if (d->null) return d->null;
    }
    return make_stream(id, 0, 0, true);
}
struct PerThread { // by device; the streams end with their thread
    std::map<int, StreamRef> streams;
    ~PerThread() {
        for (auto& [id, s] : streams) {
            {
                std::lock_guard order(order_mutex());
                live_streams().erase(s.get());
            }
            std::lock_guard lock(s->m);
            s->destroyed = true;
            s->cv.notify_all();
        }
    }
};
static thread_local PerThread per_thread_streams;
StreamRef stream_ref(hipStream_t h) {
    if (h == nullptr || h == hipStreamLegacy) return null_stream(current_device());
    if (h == hipStreamPerThread) {
        auto& s = per_thread_streams.streams[current_device()];
        if (!s && device(current_device())) s = make_stream(current_device(), 0, 0, false);
        return s;
    }
    std::lock_guard order(order_mutex());
    auto at = live_streams().find(reinterpret_cast<Stream*>(h));
    return at == live_streams().end() ? nullptr : at->second;
}
std::shared_ptr<Event> event_ref(hipEvent_t h) {
    std::lock_guard lock(event_mutex());
    auto at = live_events().find(reinterpret_cast<Event*>(h));
    return at == live_events().end() ? nullptr : at->second;
}

static Done last_of(Stream& s) {
    std::lock_guard order(order_mutex());
    return s.last;
}

void wait_device(int id) {
    Device* d = device(id);
    if (!d) return;
    std::vector<Done> all;
    {
        std::lock_guard order(order_mutex());
        for (auto& s : d->streams)
            if (s->last) all.push_back(s->last);
    }
    for (auto& x : all) x->wait();
}

hipError_t sync_call_allowed() {
    std::lock_guard lock(capture_mutex());
    for (auto& c : captures()) {
        bool forbids = c->mode == hipStreamCaptureModeGlobal ||
                       (c->mode == hipStreamCaptureModeThreadLocal && c->thread == std::this_thread::get_id());
        if (forbids && thread_capture_mode != hipStreamCaptureModeRelaxed) {
            c->invalid = true;
            return hipErrorStreamCaptureUnsupported;
        }
    }
    return hipSuccess;
}

// ---- graphs ----
GraphNode* Graph::add(Op op, std::vector<GraphNode*> deps) {
    auto n = std::make_unique<GraphNode>();
    n->op = std::move(op);
    n->deps = std::move(deps);
    n->graph = this;
    nodes.push_back(std::move(n));
    return nodes.back().get();
}

// The argument pointers of a kernel node point into its own copy of the arguments.
static void rebase_kernel_args(Op& op) {
    if (op.type != hipGraphNodeTypeKernel || !op.function) return;
    op.kernel_args.clear();
    for (auto& a : op.function->info.args)
        if (a.value_kind.rfind("hidden_", 0) != 0) op.kernel_args.push_back(op.kernarg.data() + a.offset);
    op.kernel.kernelParams = op.kernel_args.data();
    op.kernel.extra = nullptr;
}

hipError_t submit(Stream& s, Op op, Done* done) {
    if (s.capture) {
        if (s.capture->invalid) return hipErrorStreamCaptureInvalidated;
        GraphNode* n = s.capture->graph->add(std::move(op), s.tail);
        rebase_kernel_args(n->op);
        s.tail = {n};
        return hipSuccess;
    }
    if (s.null) { // would order a capturing blocking stream after uncaptured work
        std::lock_guard lock(capture_mutex());
        for (auto& c : captures()) {
            if (c->mode == hipStreamCaptureModeRelaxed || thread_capture_mode == hipStreamCaptureModeRelaxed) continue;
            for (Stream* x : c->streams)
                if (x->device == s.device && x->blocking()) {
                    c->invalid = true;
                    return hipErrorStreamCaptureImplicit;
                }
        }
    }
    if (hipError_t e = sticky(s.device)) return e;
    Done d = enqueue(s, guarded(s.device, std::move(op.run)));
    if (done) *done = d;
    return hipSuccess;
}

hipError_t record_event(const std::shared_ptr<Event>& e, Stream& s) {
    if (s.capture) {
        std::lock_guard lock(e->m);
        e->capture = s.capture;
        e->nodes = s.tail;
        return hipSuccess;
    }
    if (s.device != e->device) return hipErrorInvalidHandle;
    std::lock_guard lock(e->m);
    e->capture = nullptr;
    e->nodes.clear();
    e->done = enqueue(s, nullptr);
    return hipSuccess;
}

// A graph ready to run: its nodes in an order that respects the dependencies.
struct Exec {
    Graph graph; // clone
    std::vector<GraphNode*> order;
    unsigned long long flags = 0;
};

namespace {
std::mutex graph_mutex;
std::set<Graph*>& live_graphs() {
    static auto* s = new std::set<Graph*>;
    return *s;
}
std::unordered_map<Exec*, std::shared_ptr<Exec>>& live_execs() {
    static auto* s = new std::unordered_map<Exec*, std::shared_ptr<Exec>>;
    return *s;
}
Graph* graph_of(hipGraph_t g) {
    std::lock_guard lock(graph_mutex);
    auto* p = reinterpret_cast<Graph*>(g);
    return live_graphs().count(p) ? p : nullptr;
}
std::shared_ptr<Exec> exec_of(hipGraphExec_t g) {
    std::lock_guard lock(graph_mutex);
    auto at = live_execs().find(reinterpret_cast<Exec*>(g));
    return at == live_execs().end() ? nullptr : at->second;
}
GraphNode* node_of(hipGraphNode_t n) { return reinterpret_cast<GraphNode*>(n); }
hipGraphNode_t handle(GraphNode* n) { return reinterpret_cast<hipGraphNode_t>(n); }

Graph* new_graph() {
    auto* g = new Graph;
    std::lock_guard lock(graph_mutex);
    live_graphs().insert(g);
    return g;
}
void delete_graph(Graph* g) {
    {
        std::lock_guard lock(graph_mutex);
        live_graphs().erase(g);
    }
    delete g;
}

void clone_into(const Graph& from, Graph& to) {
    std::unordered_map<const GraphNode*, GraphNode*> map;
    for (auto& n : from.nodes) {
        GraphNode* c = to.add(n->op, {});
        rebase_kernel_args(c->op);
        if (n->op.child) {
            auto child = std::make_unique<Graph>();
            clone_into(*n->op.child, *child);
            c->op.child = child.get();
            to.children.push_back(std::move(child));
        }
        c->origin = n.get();
        c->enabled = n->enabled;
        map[n.get()] = c;
    }
    for (auto& n : from.nodes)
        for (auto* d : n->deps)
            if (map.count(d)) map[n.get()]->deps.push_back(map[d]);
}

bool topological(Graph& g, std::vector<GraphNode*>& out) {
    std::set<GraphNode*> placed;
    std::vector<GraphNode*> left;
    for (auto& n : g.nodes) left.push_back(n.get());
    while (!left.empty()) {
        std::vector<GraphNode*> rest;
        for (auto* n : left) {
            bool ready = std::all_of(n->deps.begin(), n->deps.end(), [&](GraphNode* d) { return placed.count(d); });
            if (ready) {
                placed.insert(n);
                out.push_back(n);
            } else
                rest.push_back(n);
        }
        if (rest.size() == left.size()) return false;
        left.swap(rest);
    }
    return true;
}

// Everything a launch of the graph runs, in order; event nodes get their completions when the launch is enqueued.
bool collect(Graph& g, std::vector<std::function<void()>>& steps) {
    std::vector<GraphNode*> order;
    if (!topological(g, order)) return false;
    for (auto* n : order) {
        if (!n->enabled) continue;
        auto& op = n->op;
        if (op.child) {
            if (!collect(*op.child, steps)) return false;
        } else if (op.type == hipGraphNodeTypeEventRecord && op.event) {
            auto done = std::make_shared<Completion>();
            {
                std::lock_guard lock(op.event->m);
                op.event->done = done;
                op.event->capture = nullptr;
            }
            steps.push_back([done] { done->finish(); });
        } else if (op.type == hipGraphNodeTypeWaitEvent && op.event) {
            Done done;
            {
                std::lock_guard lock(op.event->m);
                done = op.event->done;
            }
            if (done) steps.push_back([done] { done->wait(); });
        } else if (op.run)
            steps.push_back(op.run);
    }
    return true;
}

template <class F> hipError_t with_graph(hipGraph_t g, F f) {
    return api([&]() -> hipError_t {
        Graph* p = graph_of(g);
        return p ? f(*p) : hipErrorInvalidValue;
    });
}
hipError_t add_node(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* deps, size_t n, Op op) {
    Graph* p = graph_of(g);
    if (!p || !out || (n && !deps)) return hipErrorInvalidValue;
    std::vector<GraphNode*> d;
    for (size_t i = 0; i < n; ++i) {
        if (!deps[i]) return hipErrorInvalidValue;
        d.push_back(node_of(deps[i]));
    }
    GraphNode* node = p->add(std::move(op), d);
    rebase_kernel_args(node->op);
    *out = handle(node);
    return hipSuccess;
}
hipError_t list(const std::vector<GraphNode*>& from, hipGraphNode_t* out, size_t* n) {
    if (!n) return hipErrorInvalidValue;
    if (!out) {
        *n = from.size();
        return hipSuccess;
    }
    for (size_t i = 0; i < *n; ++i) out[i] = i < from.size() ? handle(from[i]) : nullptr;
    *n = std::min(*n, from.size());
    return hipSuccess;
}
GraphNode* exec_node(Exec& e, hipGraphNode_t n) {
    for (auto& x : e.graph.nodes)
        if (x->origin == node_of(n) || x.get() == node_of(n)) return x.get();
    return nullptr;
}
hipError_t make_host_op(const hipHostNodeParams& p, Op& op) {
    if (!p.fn) return hipErrorInvalidValue;
    op.type = hipGraphNodeTypeHost;
    op.host = p;
    op.run = [p] { p.fn(p.userData); };
    return hipSuccess;
}
hipError_t kernel_op(const hipKernelNodeParams* p, Op& op) {
    if (!p || !p->func) return hipErrorInvalidValue;
    hipError_t e = hipErrorInvalidDeviceFunction;
    Function* f = function_ref(p->func, &e);
    return f ? make_kernel_op(f, *p, false, op) : e;
}
hipMemcpy3DParms linear(void* dst, const void* src, size_t n, hipMemcpyKind kind) {
    hipMemcpy3DParms p{};
    p.srcPtr = {const_cast<void*>(src), n, n, 1};
    p.dstPtr = {dst, n, n, 1};
    p.extent = {n, 1, 1};
    p.kind = kind;
    return p;
}
hipError_t replace(GraphNode* n, Op&& op) {
    if (!n || n->op.type != op.type) return hipErrorInvalidValue;
    n->op = std::move(op);
    rebase_kernel_args(n->op);
    return hipSuccess;
}
} // namespace
} // namespace gfxemu::hip

using namespace gfxemu::hip;

// ---- streams ----
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
static hipError_t stream_sync(StreamRef s) {
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
static hipError_t stream_query(StreamRef s) {
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

static hipError_t wait_event(StreamRef s, hipEvent_t event, unsigned flags) {
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

// ---- events ----
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
static hipError_t event_record(hipEvent_t h, StreamRef s) {
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

// ---- capture ----
static hipError_t begin_capture(StreamRef s, Graph* into, std::vector<GraphNode*> deps, hipStreamCaptureMode mode) {
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
static hipError_t end_capture(StreamRef s, hipGraph_t* out) {
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
static hipStreamCaptureStatus capture_status(Stream& s) {
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
        std::swap(*mode, thread_capture_mode);
        return hipSuccess;
    });
}

// ---- graph objects ----
HIP_API hipError_t hipGraphCreate(hipGraph_t* g, unsigned flags) {
    return api([&] {
        if (!g || flags) return hipErrorInvalidValue;
        *g = reinterpret_cast<hipGraph_t>(new_graph());
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphDestroy(hipGraph_t g) {
    return with_graph(g, [&](Graph& p) {
        delete_graph(&p);
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphClone(hipGraph_t* out, hipGraph_t g) {
    return with_graph(g, [&](Graph& p) {
        if (!out) return hipErrorInvalidValue;
        Graph* c = new_graph();
        clone_into(p, *c);
        *out = reinterpret_cast<hipGraph_t>(c);
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphNodeFindInClone(hipGraphNode_t* out, hipGraphNode_t original, hipGraph_t clone) {
    return with_graph(clone, [&](Graph& p) {
        if (!out) return hipErrorInvalidValue;
        for (auto& n : p.nodes)
            if (n->origin == node_of(original)) {
                *out = handle(n.get());
                return hipSuccess;
            }
        return hipErrorInvalidValue;
    });
}
HIP_API hipError_t hipGraphGetNodes(hipGraph_t g, hipGraphNode_t* out, size_t* n) {
    return with_graph(g, [&](Graph& p) {
        std::vector<GraphNode*> v;
        for (auto& x : p.nodes) v.push_back(x.get());
        return list(v, out, n);
    });
}
HIP_API hipError_t hipGraphGetRootNodes(hipGraph_t g, hipGraphNode_t* out, size_t* n) {
    return with_graph(g, [&](Graph& p) {
        std::vector<GraphNode*> v;
        for (auto& x : p.nodes)
            if (x->deps.empty()) v.push_back(x.get());
        return list(v, out, n);
    });
}
HIP_API hipError_t hipGraphGetEdges(hipGraph_t g, hipGraphNode_t* from, hipGraphNode_t* to, size_t* n) {
    return with_graph(g, [&](Graph& p) {
        std::vector<GraphNode*> a, b;
        for (auto& x : p.nodes)
            for (auto* d : x->deps) {
                a.push_back(d);
                b.push_back(x.get());
            }
        if (!n || (!from != !to)) return hipErrorInvalidValue;
        size_t m = *n;
        if (hipError_t e = list(a, from, n)) return e;
        return list(b, to, from ? &m : n);
    });
}
HIP_API hipError_t hipGraphNodeGetDependencies(hipGraphNode_t n, hipGraphNode_t* out, size_t* count) {
    return api([&] { return n ? list(node_of(n)->deps, out, count) : hipErrorInvalidValue; });
}
HIP_API hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t n, hipGraphNode_t* out, size_t* count) {
    return api([&] {
        if (!n) return hipErrorInvalidValue;
        std::vector<GraphNode*> v;
        for (auto& x : node_of(n)->graph->nodes)
            if (std::count(x->deps.begin(), x->deps.end(), node_of(n))) v.push_back(x.get());
        return list(v, out, count);
    });
}
HIP_API hipError_t hipGraphNodeGetType(hipGraphNode_t n, hipGraphNodeType* t) {
    return api([&] {
        if (!n || !t) return hipErrorInvalidValue;
        *t = node_of(n)->op.type;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphDestroyNode(hipGraphNode_t n) {
    return api([&] {
        if (!n) return hipErrorInvalidValue;
        Graph* g = node_of(n)->graph;
        for (auto& x : g->nodes) x->deps.erase(std::remove(x->deps.begin(), x->deps.end(), node_of(n)), x->deps.end());
        g->nodes.erase(std::remove_if(g->nodes.begin(), g->nodes.end(), [&](auto& x) { return x.get() == node_of(n); }),
            g->nodes.end());
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphAddDependencies(
    hipGraph_t g, const hipGraphNode_t* from, const hipGraphNode_t* to, size_t n) {
    return with_graph(g, [&](Graph&) {
        for (size_t i = 0; i < n; ++i) {
            if (!from || !to || !from[i] || !to[i] || from[i] == to[i]) return hipErrorInvalidValue;
            auto& d = node_of(to[i])->deps;
            if (std::count(d.begin(), d.end(), node_of(from[i]))) return hipErrorInvalidValue;
            d.push_back(node_of(from[i]));
        }
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphRemoveDependencies(
    hipGraph_t g, const hipGraphNode_t* from, const hipGraphNode_t* to, size_t n) {
    return with_graph(g, [&](Graph&) {
        for (size_t i = 0; i < n; ++i) {
            auto& d = node_of(to[i])->deps;
            auto at = std::find(d.begin(), d.end(), node_of(from[i]));
            if (at == d.end()) return hipErrorInvalidValue;
            d.erase(at);
        }
        return hipSuccess;
    });
}

// ---- graph nodes ----
HIP_API hipError_t hipGraphAddEmptyNode(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n) {
    return api([&] { return add_node(out, g, d, n, Op{}); });
}
HIP_API hipError_t hipGraphAddKernelNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, const hipKernelNodeParams* p) {
    return api([&] {
        Op op;
        if (hipError_t e = kernel_op(p, op)) return e;
        return add_node(out, g, d, n, std::move(op));
    });
}
HIP_API hipError_t hipGraphAddMemcpyNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, const hipMemcpy3DParms* p) {
    return api([&] {
        Op op;
        if (!p) return hipErrorInvalidValue;
        if (hipError_t e = make_copy_op(*p, op)) return e;
        return add_node(out, g, d, n, std::move(op));
    });
}
HIP_API hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n,
    void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
    return api([&] {
        Op op;
        if (hipError_t e = make_copy_op(linear(dst, src, bytes, kind), op)) return e;
        return add_node(out, g, d, n, std::move(op));
    });
}
static hipError_t symbol_copy(
    const void* symbol, void* dst, const void* src, size_t bytes, size_t offset, hipMemcpyKind kind, bool to, Op& op) {
    void* p = nullptr;
    size_t size = 0;
    if (hipError_t e = symbol_address(symbol, &p, &size)) return e;
    if (offset + bytes > size) return hipErrorInvalidValue;
    char* at = static_cast<char*>(p) + offset;
    return make_copy_op(to ? linear(at, src, bytes, kind) : linear(dst, at, bytes, kind), op);
}
HIP_API hipError_t hipGraphAddMemcpyNodeToSymbol(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n,
    const void* sym, const void* src, size_t bytes, size_t offset, hipMemcpyKind kind) {
    return api([&] {
        Op op;
        if (hipError_t e = symbol_copy(sym, nullptr, src, bytes, offset, kind, true, op)) return e;
        return add_node(out, g, d, n, std::move(op));
    });
}
HIP_API hipError_t hipGraphAddMemcpyNodeFromSymbol(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n,
    void* dst, const void* sym, size_t bytes, size_t offset, hipMemcpyKind kind) {
    return api([&] {
        Op op;
        if (hipError_t e = symbol_copy(sym, dst, nullptr, bytes, offset, kind, false, op)) return e;
        return add_node(out, g, d, n, std::move(op));
    });
}
HIP_API hipError_t hipGraphAddMemsetNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, const hipMemsetParams* p) {
    return api([&] {
        Op op;
        if (!p) return hipErrorInvalidValue;
        if (hipError_t e = make_memset_op(*p, op)) return e;
        return add_node(out, g, d, n, std::move(op));
    });
}
HIP_API hipError_t hipGraphAddHostNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, const hipHostNodeParams* p) {
    return api([&] {
        Op op;
        if (!p) return hipErrorInvalidValue;
        if (hipError_t e = make_host_op(*p, op)) return e;
        return add_node(out, g, d, n, std::move(op));
    });
}
static hipError_t event_node(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, hipEvent_t event, hipGraphNodeType type) {
    return api([&] {
        Op op;
        op.type = type;
        op.event = event_ref(event);
        if (!op.event) return hipErrorInvalidValue;
        return add_node(out, g, d, n, std::move(op));
    });
}
HIP_API hipError_t hipGraphAddEventRecordNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, hipEvent_t e) {
    return event_node(out, g, d, n, e, hipGraphNodeTypeEventRecord);
}
HIP_API hipError_t hipGraphAddEventWaitNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, hipEvent_t e) {
    return event_node(out, g, d, n, e, hipGraphNodeTypeWaitEvent);
}
HIP_API hipError_t hipGraphAddChildGraphNode(
    hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* d, size_t n, hipGraph_t child) {
    return with_graph(g, [&](Graph& p) {
        Graph* c = graph_of(child);
        if (!c || c == &p) return hipErrorInvalidValue;
        auto copy = std::make_unique<Graph>();
        clone_into(*c, *copy);
        Op op;
        op.type = hipGraphNodeTypeGraph;
        op.child = copy.get();
        p.children.push_back(std::move(copy));
        return add_node(out, g, d, n, std::move(op));
    });
}
HIP_API hipError_t hipGraphChildGraphNodeGetGraph(hipGraphNode_t n, hipGraph_t* g) {
    return api([&] {
        if (!n || !g || !node_of(n)->op.child) return hipErrorInvalidValue;
        {
            std::lock_guard lock(graph_mutex);
            live_graphs().insert(node_of(n)->op.child);
        }
        *g = reinterpret_cast<hipGraph_t>(node_of(n)->op.child);
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t n, hipKernelNodeParams* p) {
    return api([&] {
        if (!n || !p || node_of(n)->op.type != hipGraphNodeTypeKernel) return hipErrorInvalidValue;
        *p = node_of(n)->op.kernel;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t n, const hipKernelNodeParams* p) {
    return api([&] {
        Op op;
        if (hipError_t e = kernel_op(p, op)) return e;
        return replace(node_of(n), std::move(op));
    });
}
HIP_API hipError_t hipGraphMemcpyNodeGetParams(hipGraphNode_t n, hipMemcpy3DParms* p) {
    return api([&] {
        if (!n || !p || node_of(n)->op.type != hipGraphNodeTypeMemcpy) return hipErrorInvalidValue;
        *p = node_of(n)->op.copy;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphMemcpyNodeSetParams(hipGraphNode_t n, const hipMemcpy3DParms* p) {
    return api([&] {
        Op op;
        if (!p) return hipErrorInvalidValue;
        if (hipError_t e = make_copy_op(*p, op)) return e;
        return replace(node_of(n), std::move(op));
    });
}
HIP_API hipError_t hipGraphMemcpyNodeSetParams1D(
    hipGraphNode_t n, void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
    auto p = linear(dst, src, bytes, kind);
    return hipGraphMemcpyNodeSetParams(n, &p);
}
HIP_API hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t n, hipMemsetParams* p) {
    return api([&] {
        if (!n || !p || node_of(n)->op.type != hipGraphNodeTypeMemset) return hipErrorInvalidValue;
        *p = node_of(n)->op.set;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphMemsetNodeSetParams(hipGraphNode_t n, const hipMemsetParams* p) {
    return api([&] {
        Op op;
        if (!p) return hipErrorInvalidValue;
        if (hipError_t e = make_memset_op(*p, op)) return e;
        return replace(node_of(n), std::move(op));
    });
}
HIP_API hipError_t hipGraphHostNodeGetParams(hipGraphNode_t n, hipHostNodeParams* p) {
    return api([&] {
        if (!n || !p || node_of(n)->op.type != hipGraphNodeTypeHost) return hipErrorInvalidValue;
        *p = node_of(n)->op.host;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphHostNodeSetParams(hipGraphNode_t n, const hipHostNodeParams* p) {
    return api([&] {
        Op op;
        if (!p) return hipErrorInvalidValue;
        if (hipError_t e = make_host_op(*p, op)) return e;
        return replace(node_of(n), std::move(op));
    });
}
HIP_API hipError_t hipGraphKernelNodeSetAttribute(
    hipGraphNode_t, hipLaunchAttributeID, const hipLaunchAttributeValue*) {
    return ret(hipSuccess);
}

// ---- executable graphs ----
static hipError_t instantiate(hipGraphExec_t* out, hipGraph_t g, unsigned long long flags) {
    return with_graph(g, [&](Graph& p) {
        if (!out) return hipErrorInvalidValue;
        auto e = std::make_shared<Exec>();
        e->flags = flags;
        clone_into(p, e->graph);
        if (!topological(e->graph, e->order)) return hipErrorInvalidValue;
        std::lock_guard lock(graph_mutex);
        live_execs()[e.get()] = e;
        *out = reinterpret_cast<hipGraphExec_t>(e.get());
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphInstantiate(hipGraphExec_t* e, hipGraph_t g, hipGraphNode_t* bad, char* log, size_t n) {
    if (bad) *bad = nullptr;
    if (log && n) *log = 0;
    return instantiate(e, g, 0);
}
HIP_API hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* e, hipGraph_t g, unsigned long long flags) {
    return instantiate(e, g, flags);
}
HIP_API hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* e, hipGraph_t g, hipGraphInstantiateParams* p) {
    if (!p) return ret(hipErrorInvalidValue);
    hipError_t r = instantiate(e, g, p->flags);
    p->errNode_out = nullptr;
    p->result_out = r == hipSuccess ? hipGraphInstantiateSuccess : hipGraphInstantiateError;
    return r;
}
static hipError_t graph_launch(hipGraphExec_t g, StreamRef s) {
    auto e = exec_of(g);
    if (!e) return hipErrorInvalidValue;
    if (!s) return hipErrorInvalidHandle;
    if (s->capture) {
        Op op;
        op.type = hipGraphNodeTypeGraph;
        auto copy = std::make_unique<Graph>();
        clone_into(e->graph, *copy);
        op.child = copy.get();
        s->capture->graph->children.push_back(std::move(copy));
        return submit(*s, std::move(op));
    }
    auto steps = std::make_shared<std::vector<std::function<void()>>>();
    if (!collect(e->graph, *steps)) return hipErrorInvalidValue;
    Op op;
    op.type = hipGraphNodeTypeGraph;
    op.run = [steps, e] {
        for (auto& step : *steps) step();
    };
    return submit(*s, std::move(op));
}
HIP_API hipError_t hipGraphLaunch(hipGraphExec_t g, hipStream_t h) {
    return api([&] { return graph_launch(g, stream_ref(h)); });
}
HIP_API hipError_t hipGraphUpload(hipGraphExec_t g, hipStream_t h) {
    return api([&] { return !exec_of(g) ? hipErrorInvalidValue : stream_ref(h) ? hipSuccess : hipErrorInvalidHandle; });
}
HIP_API hipError_t hipGraphExecDestroy(hipGraphExec_t g) {
    return api([&] {
        std::lock_guard lock(graph_mutex);
        return live_execs().erase(reinterpret_cast<Exec*>(g)) ? hipSuccess : hipErrorInvalidValue;
    });
}
HIP_API hipError_t hipGraphExecGetFlags(hipGraphExec_t g, unsigned long long* f) {
    return api([&] {
        auto e = exec_of(g);
        if (!e || !f) return hipErrorInvalidValue;
        *f = e->flags;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphExecUpdate(
    hipGraphExec_t g, hipGraph_t from, hipGraphNode_t* bad, hipGraphExecUpdateResult* result) {
    return with_graph(from, [&](Graph& p) {
        auto e = exec_of(g);
        if (!e || !result) return hipErrorInvalidValue;
        if (bad) *bad = nullptr;
        *result = hipGraphExecUpdateSuccess;
        if (p.nodes.size() != e->graph.nodes.size()) *result = hipGraphExecUpdateErrorTopologyChanged;
        for (size_t i = 0; *result == hipGraphExecUpdateSuccess && i < p.nodes.size(); ++i) {
            if (p.nodes[i]->op.type != e->graph.nodes[i]->op.type)
                *result = hipGraphExecUpdateErrorNodeTypeChanged;
            else if (p.nodes[i]->deps.size() != e->graph.nodes[i]->deps.size())
                *result = hipGraphExecUpdateErrorTopologyChanged;
            if (*result != hipGraphExecUpdateSuccess && bad) *bad = handle(p.nodes[i].get());
        }
        if (*result != hipGraphExecUpdateSuccess) return hipErrorGraphExecUpdateFailure;
        for (size_t i = 0; i < p.nodes.size(); ++i) {
            if (p.nodes[i]->op.child) continue;
            e->graph.nodes[i]->op = p.nodes[i]->op;
            e->graph.nodes[i]->origin = p.nodes[i].get();
            rebase_kernel_args(e->graph.nodes[i]->op);
        }
        return hipSuccess;
    });
}
template <class F> static hipError_t exec_replace(hipGraphExec_t g, hipGraphNode_t n, F make) {
    return api([&] {
        auto e = exec_of(g);
        GraphNode* x = e ? exec_node(*e, n) : nullptr;
        if (!x) return hipErrorInvalidValue;
        Op op;
        if (hipError_t r = make(op)) return r;
        return replace(x, std::move(op));
    });
}
HIP_API hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t g, hipGraphNode_t n, const hipKernelNodeParams* p) {
    return exec_replace(g, n, [&](Op& op) { return kernel_op(p, op); });
}
HIP_API hipError_t hipGraphExecMemcpyNodeSetParams(hipGraphExec_t g, hipGraphNode_t n, hipMemcpy3DParms* p) {
    return exec_replace(g, n, [&](Op& op) { return p ? make_copy_op(*p, op) : hipErrorInvalidValue; });
}
HIP_API hipError_t hipGraphExecMemcpyNodeSetParams1D(
    hipGraphExec_t g, hipGraphNode_t n, void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
    return exec_replace(g, n, [&](Op& op) { return make_copy_op(linear(dst, src, bytes, kind), op); });
}
HIP_API hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t g, hipGraphNode_t n, const hipMemsetParams* p) {
    return exec_replace(g, n, [&](Op& op) { return p ? make_memset_op(*p, op) : hipErrorInvalidValue; });
}
HIP_API hipError_t hipGraphExecHostNodeSetParams(hipGraphExec_t g, hipGraphNode_t n, const hipHostNodeParams* p) {
    return exec_replace(g, n, [&](Op& op) { return p ? make_host_op(*p, op) : hipErrorInvalidValue; });
}
HIP_API hipError_t hipGraphNodeSetEnabled(hipGraphExec_t g, hipGraphNode_t n, unsigned on) {
    return api([&] {
        auto e = exec_of(g);
        GraphNode* x = e ? exec_node(*e, n) : nullptr;
        if (!x) return hipErrorInvalidValue;
        x->enabled = on;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphNodeGetEnabled(hipGraphExec_t g, hipGraphNode_t n, unsigned* on) {
    return api([&] {
        auto e = exec_of(g);
        GraphNode* x = e ? exec_node(*e, n) : nullptr;
        if (!x || !on) return hipErrorInvalidValue;
        *on = x->enabled;
        return hipSuccess;
    });
}
HIP_API hipError_t hipGraphDebugDotPrint(hipGraph_t g, const char* path, unsigned) {
    return with_graph(g, [&](Graph& p) {
        std::FILE* f = path ? std::fopen(path, "w") : nullptr;
        if (!f) return hipErrorOperatingSystem;
        std::fprintf(f, "digraph graph_0 {\n");
        for (auto& n : p.nodes) {
            std::fprintf(f, "  \"%p\" [label=\"%d %s\"];\n", (void*)n.get(), int(n->op.type),
                n->op.function ? n->op.function->demangled.c_str() : "");
            for (auto* d : n->deps) std::fprintf(f, "  \"%p\" -> \"%p\";\n", (void*)d, (void*)n.get());
        }
        std::fprintf(f, "}\n");
        std::fclose(f);
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceGetGraphMemAttribute(int id, hipGraphMemAttributeType, void* v) {
    return api([&] {
        if (!device(id) || !v) return hipErrorInvalidValue;
        *static_cast<uint64_t*>(v) = 0;
        return hipSuccess;
    });
}
HIP_API hipError_t hipDeviceSetGraphMemAttribute(int id, hipGraphMemAttributeType, void*) {
    return api([&] { return device(id) ? hipSuccess : hipErrorInvalidDevice; });
}
HIP_API hipError_t hipDeviceGraphMemTrim(int id) {
    return api([&] { return device(id) ? hipSuccess : hipErrorInvalidDevice; });
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
