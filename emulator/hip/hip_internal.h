// State of the HIP runtime part: devices, streams, allocations, modules, graphs.
#pragma once
#include "core/target.h"
#include "hip/hip_abi.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#define HIP_API extern "C" __attribute__((visibility("default")))

namespace gfxemu::hip {

struct Stream;
struct Graph;
struct Function;

// ---- settings (environment, read once) ----
struct Settings {
    bool sync = false;     // GFXEMU_SYNC: run every operation inside the call
    bool lazy = false;     // GFXEMU_LAZY: run nothing before a wait asks for it
    bool abort = false;    // GFXEMU_ABORT: abort() on a fault
    bool verbose = false;  // GFXEMU_VERBOSE
    uint64_t delay_us = 0; // GFXEMU_DELAY_US: pause before each operation of a stream
    size_t poison_max = size_t(64) << 20;
    std::string report; // GFXEMU_REPORT
};
const Settings& settings();

// ---- errors ----
hipError_t ret(hipError_t e);        // records e as the thread's last error
hipError_t current_exception_code(); // prints and maps the exception in flight
template <class F> hipError_t api(F&& f) {
    try {
        return ret(f());
    } catch (...) {
        return ret(current_exception_code());
    }
}
void message(const char* format, ...) __attribute__((format(printf, 1, 2)));

// ---- completion of one stream operation ----
struct Completion {
    std::mutex m;
    std::condition_variable cv;
    bool done = false;
    double time = 0; // host seconds at completion
    std::weak_ptr<Stream> stream;
    uint64_t seq = 0;
    void finish();
    bool is_done();
    void demand(); // GFXEMU_LAZY: the operation may start
    void wait();
};
using Done = std::shared_ptr<Completion>;
double now_seconds();

// ---- operations, also graph nodes ----
struct Event;
struct Op {
    hipGraphNodeType type = hipGraphNodeTypeEmpty;
    std::function<void()> run;    // throws Fault
    hipKernelNodeParams kernel{}; // kernel.func is the Function handle or the host stub, as given
    Function* function = nullptr;
    std::vector<uint8_t> kernarg;
    std::vector<void*> kernel_args; // pointers into kernarg, for GetParams
    hipMemcpy3DParms copy{};
    hipMemsetParams set{};
    hipHostNodeParams host{};
    std::shared_ptr<Event> event;
    Graph* child = nullptr;
};
struct GraphNode {
    Op op;
    std::vector<GraphNode*> deps;
    Graph* graph = nullptr;
    GraphNode* origin = nullptr; // the node this one was cloned from
    bool enabled = true;
};
struct Graph {
    std::vector<std::unique_ptr<GraphNode>> nodes;
    std::vector<std::unique_ptr<Graph>> children;
    GraphNode* add(Op op, std::vector<GraphNode*> deps);
};
struct Capture {
    Graph* graph = nullptr;
    Stream* origin = nullptr;
    hipStreamCaptureMode mode = hipStreamCaptureModeGlobal;
    std::thread::id thread;
    unsigned long long id = 0;
    bool invalid = false;
    bool owns_graph = true;
    std::set<Stream*> streams;
};

// ---- streams ----
struct Task {
    std::function<void()> run;
    std::vector<Done> deps;
    Done done;
};
struct Stream : std::enable_shared_from_this<Stream> {
    int device = 0;
    unsigned flags = 0;
    int priority = 0;
    bool null = false;
    std::atomic<bool> destroyed{false};
    uint64_t id = 0;
    std::mutex m;
    std::condition_variable cv;
    std::deque<Task> queue;
    uint64_t next_seq = 1, demand = 0;
    bool started = false;
    Done last; // most recent operation
    std::shared_ptr<Capture> capture;
    std::vector<GraphNode*> tail; // capture: what the next node depends on
    bool blocking() const { return !null && !(flags & hipStreamNonBlocking); }
    void worker();
};
struct Event {
    int device = 0;
    unsigned flags = 0;
    std::mutex m;
    Done done;                        // null: never recorded
    std::shared_ptr<Capture> capture; // recorded in a capture
    std::vector<GraphNode*> nodes;
};
using StreamRef = std::shared_ptr<Stream>;
StreamRef stream_ref(hipStream_t handle); // null where the handle is not live
StreamRef null_stream(int device);
std::shared_ptr<Event> event_ref(hipEvent_t handle);
Done enqueue(Stream& s, std::function<void()> run, std::vector<Done> deps = {});
hipError_t submit(Stream& s, Op op, Done* done = nullptr); // enqueues, or adds a node to the stream's capture
hipError_t record_event(const std::shared_ptr<Event>& e, Stream& s);
void wait_device(int device);
void exit_after_first_launch();
hipError_t sync_call_allowed(); // hipErrorStreamCaptureImplicit where a capture forbids a synchronising call

// ---- devices ----
struct Device {
    int id = 0;
    Arch arch = Arch::gfx942;       // the instruction set
    const Target* target = nullptr; // what it calls itself
    hipDeviceProp_tR0600 prop{};
    int pci_chip = 0, xccs = 1;
    int simds = 4, waves_per_simd = 8, vgprs = 512, vgpr_granule = 8, lds_granule = 512, lds_total = 65536,
        physical_cus = 0;
    std::mutex m;
    hipError_t sticky = hipSuccess;
    size_t used = 0, peak = 0;
    StreamRef null;
    std::vector<StreamRef> streams; // every stream with possibly pending work; guarded by the order mutex
    hipMemPool_t pool = nullptr, default_pool = nullptr;
    unsigned flags = 0;
    std::atomic<bool> primary_active{false};
};
std::vector<std::unique_ptr<Device>>& devices();
Device* device(int id); // null where out of range
int current_device();   // of the thread
void set_current_device(int id);
Device& current();
hipError_t sticky(int device);
void set_sticky(int device, hipError_t e);

// ---- memory ----
enum class MemKind { device, host, managed, registered, module };
struct Alloc {
    uintptr_t base = 0;
    size_t size = 0;
    MemKind kind = MemKind::device;
    int device = 0;
    unsigned flags = 0;
    uint64_t id = 0;
};
std::optional<Alloc> find_alloc(const void* p);
void note_module_range(void* p, size_t n, int device);
void forget_module_range(void* p);
hipError_t allocate(void** p, size_t n, MemKind kind, int device, unsigned flags);
hipError_t copy_linear(void* dst, const void* src, size_t n, hipMemcpyKind kind, Stream& s, bool sync);
hipError_t make_copy_op(const hipMemcpy3DParms& p, Op& op);
hipError_t make_memset_op(const hipMemsetParams& p, Op& op);

// ---- modules ----
struct Module;
struct Function { // never freed; `code` is dropped when its module is unloaded
    std::shared_ptr<CodeObject> code;
    KernelInfo info;
    int device = 0;
    std::string demangled;
};
// The function of a handle, or of a host stub on the device (default: the current one).
Function* function_ref(const void* handle_or_stub, hipError_t* error = nullptr, int device = -1);
hipError_t make_kernel_op(Function* f, const hipKernelNodeParams& p, bool cooperative, Op& op);
hipError_t symbol_address(const void* host_var, void** p, size_t* n);
void print_summary();

} // namespace gfxemu::hip
