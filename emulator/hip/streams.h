// What the files of streams, events, captures and graphs share.
#pragma once
#include "hip/hip_internal.h"

#include <unordered_map>

namespace gfxemu::hip {

// ---- streams and events (hip_stream.cpp) ----
std::mutex& order_mutex(); // orders enqueues across streams; guards the set of live streams
std::unordered_map<Stream*, StreamRef>& live_streams();
std::mutex& event_mutex();
std::unordered_map<Event*, std::shared_ptr<Event>>& live_events();
StreamRef make_stream(int device, unsigned flags, int priority, bool null);
Done last_of(Stream& s);

// ---- captures in progress, for the checks of calls that would synchronise ----
std::mutex& capture_mutex();
std::vector<std::shared_ptr<Capture>>& captures();
hipStreamCaptureMode& thread_capture_mode();

// ---- API calls that come in two forms, with and without a per-thread default stream ----
hipError_t stream_sync(StreamRef s);
hipError_t stream_query(StreamRef s);
hipError_t wait_event(StreamRef s, hipEvent_t event, unsigned flags);
hipError_t event_record(hipEvent_t event, StreamRef s);
hipError_t begin_capture(StreamRef s, Graph* into, std::vector<GraphNode*> deps, hipStreamCaptureMode mode);
hipError_t end_capture(StreamRef s, hipGraph_t* out);
hipStreamCaptureStatus capture_status(Stream& s);
hipError_t graph_launch(hipGraphExec_t g, StreamRef s);

// ---- graphs (hip_graph.cpp) ----
// A graph ready to run: its nodes in an order that respects the dependencies.
struct Exec {
    Graph graph; // clone
    std::vector<GraphNode*> order;
    unsigned long long flags = 0;
};
std::mutex& graph_mutex();
std::set<Graph*>& live_graphs();
std::unordered_map<Exec*, std::shared_ptr<Exec>>& live_execs();
Graph* graph_of(hipGraph_t g);                   // nullptr where it is not live
std::shared_ptr<Exec> exec_of(hipGraphExec_t g); // likewise
Graph* new_graph();
void delete_graph(Graph* g);
void clone_into(const Graph& from, Graph& to);
bool topological(Graph& g, std::vector<GraphNode*>& out);          // false where there is a cycle
bool collect(Graph& g, std::vector<std::function<void()>>& steps); // the operations in order, child graphs too
void rebase_kernel_args(Op& op); // the argument pointers of a kernel node point into its own copy of the arguments
hipError_t make_host_op(const hipHostNodeParams& p, Op& op);
hipError_t kernel_op(const hipKernelNodeParams* p, Op& op);
hipMemcpy3DParms linear(void* dst, const void* src, size_t n, hipMemcpyKind kind);
hipError_t replace(GraphNode* n, Op&& op);
inline GraphNode* node_of(hipGraphNode_t n) { return reinterpret_cast<GraphNode*>(n); }
inline hipGraphNode_t handle(GraphNode* n) { return reinterpret_cast<hipGraphNode_t>(n); }
// Runs f(graph) as an API call.
template <class F> hipError_t with_graph(hipGraph_t g, F f) {
    return api([&]() -> hipError_t {
        Graph* p = graph_of(g);
        return p ? f(*p) : hipErrorInvalidValue;
    });
}
hipError_t add_node(hipGraphNode_t* out, hipGraph_t g, const hipGraphNode_t* deps, size_t n, Op op);
hipError_t list(const std::vector<GraphNode*>& from, hipGraphNode_t* out, size_t* n); // as the API returns lists

} // namespace gfxemu::hip
