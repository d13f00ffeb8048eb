// The API of graphs and their nodes.
#include "hip/streams.h"

#include <algorithm>
#include <cstdio>

using namespace gfxemu::hip;

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
            std::lock_guard lock(graph_mutex());
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
