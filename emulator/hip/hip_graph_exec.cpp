// Instantiated graphs.
#include "hip/streams.h"

#include <algorithm>
#include <cstring>

using namespace gfxemu::hip;

static GraphNode* exec_node(Exec& e, hipGraphNode_t n) {
    for (auto& x : e.graph.nodes)
        if (x->origin == node_of(n) || x.get() == node_of(n)) return x.get();
    return nullptr;
}

static hipError_t instantiate(hipGraphExec_t* out, hipGraph_t g, unsigned long long flags) {
    return with_graph(g, [&](Graph& p) {
        if (!out) return hipErrorInvalidValue;
        auto e = std::make_shared<Exec>();
        e->flags = flags;
        clone_into(p, e->graph);
        if (!topological(e->graph, e->order)) return hipErrorInvalidValue;
        std::lock_guard lock(graph_mutex());
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
hipError_t gfxemu::hip::graph_launch(hipGraphExec_t g, StreamRef s) {
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
        std::lock_guard lock(graph_mutex());
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
