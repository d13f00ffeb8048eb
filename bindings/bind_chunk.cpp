// module.ChunkCache, module.chunk_attention(...) and module.chunk_append(...): paged caches and attention over them.
#include "attention_checks.h"
#include "call.h"
#include "kernels/chunk_attention.h"
#include "registration.h"
#include "tensor.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

namespace nb = nanobind;

namespace waveattn::python {
namespace {

KvFormat format_from(const std::string& name) {
    for (KvFormat format : {KvFormat::f16, KvFormat::int8, KvFormat::q4_0, KvFormat::int8_q4_0})
        if (name == kv_format_name(format)) return format;
    throw InvalidArgument("dtype must be 'f16', 'int8', 'q4_0' or 'int8_q4_0', got '" + name + "'");
}
ChunkVariant variant_from(const std::string& name) {
    if (name == "auto") return ChunkVariant::automatic;
    if (name == "butterfly") return ChunkVariant::butterfly;
    if (name == "reorganised") return ChunkVariant::reorganised;
    if (name == "fast") return ChunkVariant::fast;
    throw InvalidArgument("variant must be 'auto', 'butterfly', 'reorganised' or 'fast', got '" + name + "'");
}

// The arrays of a PagedKVCache.
struct ChunkCache {
    KvFormat format;
    int head_dim;
    std::int64_t page_size;
    TensorDesc k, v, k_scale, v_scale; // (pages, kv_heads, page_size, bytes of a row, or float16 scales of a row)
    TensorDesc page_table;             // (sequences, pages of a sequence) int32

    std::int64_t pages() const { return k.shape[0]; }
    std::int64_t kv_heads() const { return k.shape[1]; }
    std::int64_t cells() const { return page_table.shape[1] * page_size; }
};

void check_dense(const char* name, const TensorDesc& tensor) {
    std::int64_t step = 1;
    for (int i = tensor.rank - 1; i >= 0; --i) {
        require(tensor.stride[i] == step || tensor.shape[i] <= 1, name, " must be contiguous");
        step *= tensor.shape[i];
    }
}

void make_cache(ChunkCache* self, const std::string& format, int head_dim, const Tensor& k, const Tensor& v,
    const Tensor* k_scale, const Tensor* v_scale, const Tensor& page_table) {
    ChunkCache cache{format_from(format), head_dim, k.rank == 4 ? k.shape[2] : 0, k, v, {}, {}, page_table};
    require(head_dim == 64 || head_dim == 128 || head_dim == 256, "head_dim must be 64, 128 or 256, got ", head_dim);
    if (k_scale) cache.k_scale = *k_scale;
    if (v_scale) cache.v_scale = *v_scale;
    const auto check_pool = [&](const char* name, const TensorDesc& pool, std::int64_t row, DType dtype) {
        require<TypeMismatch>(pool.dtype == dtype, name, " must have dtype ", dtype_name(dtype), ", got ",
            pool.rank ? dtype_name(pool.dtype) : "None");
        require(pool.rank == 4 && pool.shape[0] == k.shape[0] && pool.shape[1] == k.shape[1] &&
                    pool.shape[2] == k.shape[2] && pool.shape[3] == row,
            name, " must be (", k.shape[0], ", ", k.shape[1], ", ", k.shape[2], ", ", row, "), got ", shape_text(pool));
        check_dense(name, pool);
        require(pool.device == k.device, "all arrays of a cache must be on the same device");
    };
    const auto check_rows = [&](const char* pool_name, const TensorDesc& pool, const char* scale_name,
                                const TensorDesc& scales, RowFormat rows) {
        if (rows == RowFormat::f16) return check_pool(pool_name, pool, head_dim, DType::float16);
        check_pool(pool_name, pool, row_bytes(rows, head_dim), DType::int8);
        if (rows == RowFormat::int8) check_pool(scale_name, scales, head_dim / 64, DType::float16);
    };
    check_rows("k_pool", cache.k, "k_scale", cache.k_scale, key_format(cache.format));
    check_rows("v_pool", cache.v, "v_scale", cache.v_scale, value_format(cache.format));
    (void)view<std::int32_t, 2>("page_table", page_table);
    check_dense("page_table", page_table);
    require(page_table.device == k.device, "all arrays of a cache must be on the same device");
    new (self) ChunkCache(cache);
}

// The cache where the device of the call can read it, or also write it.
PagedKv stage(Call& call, const ChunkCache& cache, bool write) {
    const auto array = [&](const char* name, const TensorDesc& tensor) {
        return tensor.rank == 0 ? nullptr : (write ? call.output(name, tensor) : call.input(name, tensor)).data;
    };
    PagedKv kv = paged_kv(cache.pages(), cache.kv_heads(), cache.page_size,
        static_cast<const std::int32_t*>(call.input("page_table", cache.page_table).data), cache.page_table.shape[1],
        cache.page_table.shape[0]);
    kv.k = array("k_pool", cache.k), kv.v = array("v_pool", cache.v);
    kv.k_scale = static_cast<const float16*>(array("k_scale", cache.k_scale));
    kv.v_scale = static_cast<const float16*>(array("v_scale", cache.v_scale));
    return kv;
}

// int32 values in host memory are checked here; those on a device by the kernel, which masks what is out of range.
void check_range(const char* name, const TensorDesc& tensor, std::int64_t row, std::int64_t count, std::int64_t least,
    std::int64_t end) {
    if (tensor.rank == 0 || tensor.device != host_memory) return;
    const auto* values =
        static_cast<const std::int32_t*>(tensor.data) + (tensor.rank == 2 ? row * tensor.stride[0] : 0);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t value = values[i * tensor.stride[tensor.rank - 1]];
        require(
            value >= least && value < end, name, " holds ", value, ", expected values from ", least, " to ", end - 1);
    }
}
void check_int32(const char* name, const Tensor& tensor, std::int64_t count, int device) {
    (void)view<std::int32_t, 1>(name, tensor);
    require(tensor.shape[0] == count && (tensor.stride[0] == 1 || count <= 1), name,
        " must be a contiguous int32 array of length ", count, ", got length ", tensor.shape[0], " and stride ",
        tensor.stride[0]);
    require(tensor.device == device, name, " must be on the device of the cache");
}

void run_attention(const ChunkCache& cache, const Tensor& q, const Tensor& out, const Tensor* lse, const Tensor* ids,
    const Tensor* widths, const Tensor* sequences, std::int64_t max_width, std::optional<double> scale,
    const Tensor* workspace, const std::string& variant, int device, std::uintptr_t stream) {
    const auto check = [&](const char* name, const Tensor* tensor, std::int64_t count) {
        if (tensor) check_int32(name, *tensor, count, cache.k.device);
    };
    (void)view<const float, 3>("q", q);
    (void)view<float, 3>("out", out);
    require(q.device == cache.k.device && out.device == cache.k.device, "q and out must be on the device of the cache");
    check("widths", widths, q.shape[0]);
    check("sequences", sequences, q.shape[0]);
    check_range(
        "page_table", cache.page_table, 0, cache.page_table.shape[0] * cache.page_table.shape[1], -1, cache.pages());
    if (widths) check_range("widths", *widths, 0, q.shape[0], 0, max_width + 1);
    if (sequences) check_range("sequences", *sequences, 0, q.shape[0], 0, cache.page_table.shape[0]);
    if (ids) {
        (void)view<const std::int32_t, 2>("ids", *ids);
        require(ids->device == cache.k.device, "ids must be on the device of the cache");
        require(ids->shape[0] == q.shape[0] && ids->shape[1] >= max_width, "ids must be (", q.shape[0], ", at least ",
            max_width, "), got ", shape_text(*ids));
        for (std::int64_t query = 0; query < q.shape[0] && ids->device == host_memory; ++query)
            check_range("ids", *ids, query, widths ? static_cast<const std::int32_t*>(widths->data)[query] : max_width,
                0, cache.cells());
    }
    const auto variant_value = variant_from(variant);

    check_writable(out);
    const auto check_output = [&](const char* output, const TensorDesc& tensor) {
        const auto apart = [&](const char* name, const TensorDesc* other) {
            if (other && other->rank > 0) check_apart(tensor, name, *other, output);
        };
        apart("q", &q), apart("ids", ids), apart("widths", widths), apart("sequences", sequences);
        apart("k_pool", &cache.k), apart("v_pool", &cache.v), apart("k_scale", &cache.k_scale);
        apart("v_scale", &cache.v_scale), apart("page_table", &cache.page_table);
    };
    check_output("out", out);
    if (workspace) check_output("workspace", *workspace), check_apart(*workspace, "out", out, "workspace");
    Call call(device, stream);
    ChunkAttentionArgs args;
    args.kv = stage(call, cache, false);
    args.q = view<const float, 3>("q", call.input("q", q));
    args.o = view<float, 3>("out", call.output("out", out));
    if (lse) args.lse = view<float, 2>("lse", call.output("lse", *lse));
    if (ids) args.ids = view<const std::int32_t, 2>("ids", call.input("ids", *ids));
    if (widths) args.widths = static_cast<const std::int32_t*>(call.input("widths", *widths).data);
    if (sequences) args.sequence_of = static_cast<const std::int32_t*>(call.input("sequences", *sequences).data);
    if (workspace) {
        args.workspace = static_cast<float*>(call.output("workspace", *workspace).data);
        args.workspace_floats = workspace->shape[0];
    }
    args.max_width = max_width;
    args.scale = scale_from(scale);
    args.stream = call.stream();
    switch (cache.format) {
    case KvFormat::f16: ChunkKernels<KvFormat::f16>::attention(args, cache.head_dim, variant_value); break;
    case KvFormat::int8: ChunkKernels<KvFormat::int8>::attention(args, cache.head_dim, variant_value); break;
    case KvFormat::q4_0: ChunkKernels<KvFormat::q4_0>::attention(args, cache.head_dim, variant_value); break;
    case KvFormat::int8_q4_0: ChunkKernels<KvFormat::int8_q4_0>::attention(args, cache.head_dim, variant_value); break;
    }
    call.finish();
}

void run_append(const ChunkCache& cache, const Tensor& k, const Tensor& v, const Tensor& cells, const Tensor& sequences,
    int device, std::uintptr_t stream) {
    (void)view<const float, 3>("k", k);
    (void)view<const float, 3>("v", v);
    check_int32("cells", cells, k.shape[0], cache.k.device);
    check_int32("sequences", sequences, k.shape[0], cache.k.device);
    require(k.device == cache.k.device && v.device == cache.k.device, "k and v must be on the device of the cache");
    Call call(device, stream);
    ChunkAppendArgs args;
    args.kv = stage(call, cache, true);
    args.k = view<const float, 3>("k", call.input("k", k));
    args.v = view<const float, 3>("v", call.input("v", v));
    args.cells = static_cast<const std::int32_t*>(call.input("cells", cells).data);
    args.sequence_of = static_cast<const std::int32_t*>(call.input("sequences", sequences).data);
    args.stream = call.stream();
    switch (cache.format) {
    case KvFormat::f16: ChunkKernels<KvFormat::f16>::append(args, cache.head_dim); break;
    case KvFormat::int8: ChunkKernels<KvFormat::int8>::append(args, cache.head_dim); break;
    case KvFormat::q4_0: ChunkKernels<KvFormat::q4_0>::append(args, cache.head_dim); break;
    case KvFormat::int8_q4_0: ChunkKernels<KvFormat::int8_q4_0>::append(args, cache.head_dim); break;
    }
    call.finish();
}

} // namespace

static const Registration registration("chunk_attention", [](nb::module_& module) {
    nb::class_<ChunkCache>(module, "ChunkCache", "The checked arrays of a paged cache.")
        .def("__init__", &make_cache, nb::arg("format"), nb::arg("head_dim"), nb::arg("k"), nb::arg("v"),
            nb::arg("k_scale").none(), nb::arg("v_scale").none(), nb::arg("page_table"));
    module.def("chunk_attention", &run_attention, nb::arg("cache"), nb::arg("q"), nb::arg("out"), nb::arg("lse").none(),
        nb::arg("ids").none(), nb::arg("widths").none(), nb::arg("sequences").none(), nb::arg("max_width"),
        nb::arg("scale").none(), nb::arg("workspace").none(), nb::arg("variant"), nb::arg("device"), nb::arg("stream"));
    module.def("chunk_append", &run_append, nb::arg("cache"), nb::arg("k"), nb::arg("v"), nb::arg("cells"),
        nb::arg("sequences"), nb::arg("device"), nb::arg("stream"));
    module.def("chunk_row_bytes", [](const std::string& format, bool keys, int head_dim) {
        const KvFormat kv = format_from(format);
        return row_bytes(keys ? key_format(kv) : value_format(kv), head_dim);
    });
    module.def("chunk_workspace_floats", [](std::int64_t n_q, std::int64_t heads_q, int head_dim, std::int64_t width) {
        return chunk_workspace_floats(n_q, heads_q, head_dim, width);
    });
});

} // namespace waveattn::python
