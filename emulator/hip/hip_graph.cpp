// Graphs: nodes, copies, the order in which they run.
#include "hip/streams.h"

#include <algorithm>

namespace gfxemu::hip {

GraphNode* Graph::add(Op op, std::vector<GraphNode*> deps) {
    auto n = std::make_unique<GraphNode>();
    n->op = std::move(op);
    n->deps = std::move(deps);
    n->graph = this;
    nodes.push_back(std::move(n));
    return nodes.back().get();
}

void rebase_kernel_args(Op& op) {
    if (op.type != hipGraphNodeTypeKernel || !op.function) return;
    op.kernel_args.clear();
    for (auto& a : op.function->info.args)
        if (a.value_kind.rfind("hidden_", 0) != 0) op.kernel_args.push_back(op.kernarg.data() + a.offset);
    op.kernel.kernelParams = op.kernel_args.data();
    op.kernel.extra = nullptr;
}

std::mutex& graph_mutex() {
    static auto* m = new std::mutex;
    return *m;
}
std::set<Graph*>& live_graphs() {
    static auto* s = new std::set<Graph*>;
    return *s;
}
std::unordered_map<Exec*, std::shared_ptr<Exec>>& live_execs() {
    static auto* s = new std::unordered_map<Exec*, std::shared_ptr<Exec>>;
    return *s;
}
Graph* graph_of(hipGraph_t g) {
    std::lock_guard lock(graph_mutex());
    auto* p = reinterpret_cast<Graph*>(g);
    return live_graphs().count(p) ? p : nullptr;
}
std::shared_ptr<Exec> exec_of(hipGraphExec_t g) {
    std::lock_guard lock(graph_mutex());
    auto at = live_execs().find(reinterpret_cast<Exec*>(g));
    return at == live_execs().end() ? nullptr : at->second;
}
Graph* new_graph() {
    auto* g = new Graph;
    std::lock_guard lock(graph_mutex());
    live_graphs().insert(g);
    return g;
}
void delete_graph(Graph* g) {
    {
        std::lock_guard lock(graph_mutex());
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

} // namespace gfxemu::hip
