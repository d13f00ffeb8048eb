// Streams: one worker thread each, operations in order; captures in progress.
#include "hip/streams.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

// Captures in progress, for the checks of calls that would synchronise.
std::mutex& capture_mutex() {
    static auto* m = new std::mutex;
    return *m;
}
std::vector<std::shared_ptr<Capture>>& captures() {
    static auto* v = new std::vector<std::shared_ptr<Capture>>;
    return *v;
}
hipStreamCaptureMode& thread_capture_mode() {
    static thread_local hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
    return mode;
}

namespace {
std::atomic<uint64_t> next_stream_id{1};

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

StreamRef make_stream(int device_id, unsigned flags, int priority, bool null) {
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

Done last_of(Stream& s) {
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
        if (forbids && thread_capture_mode() != hipStreamCaptureModeRelaxed) {
            c->invalid = true;
            return hipErrorStreamCaptureUnsupported;
        }
    }
    return hipSuccess;
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
            if (c->mode == hipStreamCaptureModeRelaxed || thread_capture_mode() == hipStreamCaptureModeRelaxed)
                continue;
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

} // namespace gfxemu::hip
