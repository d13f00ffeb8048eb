// Paged chunk attention: the cache, the problem, and the checks before a launch.
//
// A query attends to cells of a paged KV cache that a selection names. Per query n and KV head, cells
// ids[n][0 .. width[n]) (or 0 .. width[n] without ids) are cut into chunks of 64. A cell belongs to page cell /
// page_size of the query's sequence; the page table names the page's place in the pools.
//
//   pools       [page][kv_head][page_size][head_dim], in one of four formats
//   page_table  [sequence][pages of a sequence] int32; -1: not resident
//   q           (n_q, Hq, D) fp32         o  (n_q, Hq, D) fp32         lse  (n_q, Hq) fp32
//
// Cells that are not resident, and ids or table entries outside of the cache, are masked: they weigh nothing and are
// never read. A query without a visible cell has o = 0 and lse = -infinity.
#pragma once

#include "waveattn/attention/problem.h"
#include "waveattn/core/divide.h"
#include "waveattn/core/numeric.h"
#include "waveattn/core/overlap.h"
#include "waveattn/core/status.h"
#include "waveattn/core/tensor_view.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace waveattn {

// How one row (the head_dim values of a cell and KV head) of a pool is stored.
enum class RowFormat {
    f16,  // head_dim float16
    int8, // head_dim int8 codes, and a float16 scale for each 64: value = code * scale
    q4_0, // blocks of 32 values in 18 bytes: float16 d, then 16 bytes whose low nibbles are the values 0..15 and whose
          // high nibbles the values 16..31; value = (nibble - 8) * d
};

// The formats of a cache's K and V pools. The rows of q4_0 pools may hold rotated vectors (for example by a Hadamard
// matrix, which spreads outliers): rotate q alike, and rotate the output of rotated V back.
enum class KvFormat { f16, int8, q4_0, int8_q4_0 };
constexpr RowFormat key_format(KvFormat format) {
    return format == KvFormat::f16 ? RowFormat::f16 : format == KvFormat::q4_0 ? RowFormat::q4_0 : RowFormat::int8;
}
constexpr RowFormat value_format(KvFormat format) {
    return format == KvFormat::f16 ? RowFormat::f16 : format == KvFormat::int8 ? RowFormat::int8 : RowFormat::q4_0;
}
constexpr const char* kv_format_name(KvFormat format) {
    constexpr const char* names[] = {"f16", "int8", "q4_0", "int8_q4_0"};
    return names[int(format)];
}

// Bytes of a row in its pool, and float16 scales of a row in the scale pool.
constexpr int row_bytes(RowFormat format, int head_dim) {
    return format == RowFormat::f16 ? 2 * head_dim : format == RowFormat::int8 ? head_dim : head_dim / 32 * 18;
}
constexpr int row_scales(RowFormat format, int head_dim) { return format == RowFormat::int8 ? head_dim / 64 : 0; }

// A paged (or contiguous) cache in device memory. Nothing is owned.
struct PagedKv {
    const void* k = nullptr; // row r at k + r * row_bytes(key_format, head_dim)
    const void* v = nullptr;
    const float16* k_scale = nullptr; // int8 rows: row r at k_scale + r * head_dim / 64
    const float16* v_scale = nullptr;

    // [sequence][table_length]; null: sequence s is page s, and a sequence has one page (a contiguous cache).
    const std::int32_t* page_table = nullptr;
    std::int64_t table_stride = 0; // elements between sequences
    std::int64_t table_length = 1; // pages of a sequence
    std::int64_t sequences = 1;

    std::int64_t pages = 0; // of the pools
    std::int64_t page_size = 0;
    std::int64_t kv_heads = 0;
    // The row of (page, kv_head, slot) is page * page_rows + kv_head * head_rows + slot * slot_rows.
    std::int64_t page_rows = 0, head_rows = 0, slot_rows = 0;

    WAVEATTN_HOST_DEVICE std::int64_t cells() const { return table_length * page_size; } // of a sequence
};

// Pools [page][kv_head][page_size][head_dim] with one page table for each of `sequences` sequences.
inline PagedKv paged_kv(std::int64_t pages, std::int64_t kv_heads, std::int64_t page_size, const std::int32_t* table,
    std::int64_t table_length, std::int64_t sequences = 1) {
    PagedKv kv;
    kv.page_table = table, kv.table_stride = kv.table_length = table_length, kv.sequences = sequences;
    kv.pages = pages, kv.page_size = page_size, kv.kv_heads = kv_heads;
    kv.page_rows = kv_heads * page_size, kv.head_rows = page_size, kv.slot_rows = 1;
    return kv;
}
// A contiguous cache (sequence, kv_head, token, dim), or (sequence, token, kv_head, dim) if `token_major`.
inline PagedKv contiguous_kv(std::int64_t sequences, std::int64_t kv_heads, std::int64_t tokens, bool token_major) {
    PagedKv kv = paged_kv(sequences, kv_heads, tokens, nullptr, 1, sequences);
    if (token_major) kv.head_rows = 1, kv.slot_rows = kv_heads;
    return kv;
}

struct ChunkAttentionArgs {
    TensorView<const float, 3> q; // (n_q, Hq, D), last stride 1
    TensorView<float, 3> o;       // (n_q, Hq, D), last stride 1
    TensorView<float, 2> lse;     // (n_q, Hq); not written where data is null
    PagedKv kv;
    TensorView<const std::int32_t, 2> ids; // (n_q, >= max_width), last stride 1; null data: cell i is id i
    const std::int32_t* widths = nullptr;  // [n_q] number of ids, on the device; null: max_width each. Larger ones are
                                           // cut to max_width, negative ones are 0
    const std::int32_t* sequence_of = nullptr; // [n_q] sequence of each query, on the device; null: sequence 0
    std::int64_t max_width = 0;                // sizes the grid and the workspace
    std::optional<float> scale;                // of the scores; default 1/sqrt(D)
    float* workspace = nullptr; // chunk_workspace_floats(...) floats, need not be initialised; apart from
                                // all other tensors
    std::int64_t workspace_floats = 0;
    hipStream_t stream = nullptr;
};

inline constexpr int chunk_cells = 64;

constexpr std::int64_t chunk_count(std::int64_t max_width) { return ceil_div<std::int64_t>(max_width, chunk_cells); }
// Floats of workspace: for each (query, query head, chunk) the unnormalised output, the maximum and the sum.
constexpr std::int64_t chunk_workspace_floats(
    std::int64_t n_q, std::int64_t heads_q, int head_dim, std::int64_t max_width) {
    return n_q * heads_q * chunk_count(max_width) * (head_dim + 2);
}

namespace detail {

// Throws where the workspace, of `floats` floats, shares memory with a tensor: it is written before they are read.
inline void check_chunk_workspace(const ChunkAttentionArgs& args, int head_dim, KvFormat format, std::int64_t floats) {
    const MemoryLayout workspace(args.workspace, floats * std::int64_t(sizeof(float)));
    const auto check = [&](const char* name, const void* data, const MemoryLayout& tensor) {
        if (data) check_apart("chunk_attention: the workspace", workspace, name, tensor);
    };
    const auto view = [&](const char* name, const auto& tensor) { check(name, tensor.data, MemoryLayout(tensor)); };
    const PagedKv& kv = args.kv;
    const std::int64_t n_q = args.q.shape[0];
    const auto pool = [&](const char* name, const void* data, std::int64_t bytes) { // of a row
        const std::int64_t shape[] = {kv.pages, kv.kv_heads, kv.page_size, bytes};
        const std::int64_t stride[] = {kv.page_rows * bytes, kv.head_rows * bytes, kv.slot_rows * bytes, 1};
        check(name, data, {data, 4, shape, stride, 1});
    };
    view("q", args.q), view("o", args.o), view("lse", args.lse), view("ids", args.ids);
    pool("the pool of keys", kv.k, row_bytes(key_format(format), head_dim));
    pool("the pool of values", kv.v, row_bytes(value_format(format), head_dim));
    pool("k_scale", kv.k_scale, 2 * row_scales(key_format(format), head_dim));
    pool("v_scale", kv.v_scale, 2 * row_scales(value_format(format), head_dim));
    const std::int64_t table[] = {kv.sequences, kv.table_length}, table_stride[] = {kv.table_stride, 1};
    check("the page table", kv.page_table, {kv.page_table, 2, table, table_stride, 4});
    check("widths", args.widths, {args.widths, 4 * n_q});
    check("sequence_of", args.sequence_of, {args.sequence_of, 4 * n_q});
}

} // namespace detail

// Throws unless the arguments can be run for that head_dim and format.
inline void check_chunk_attention(const ChunkAttentionArgs& args, int head_dim, KvFormat format) {
    constexpr const char* name = "chunk_attention";
    constexpr std::int64_t int32_limit = std::numeric_limits<std::int32_t>::max();
    const std::int64_t n_q = args.q.shape[0], heads_q = args.q.shape[1];
    const PagedKv& kv = args.kv;
    detail::check_view("q", args.q, true);
    detail::check_view("o", args.o, true);
    require(args.q.shape[2] == head_dim, name, ": q has head_dim ", args.q.shape[2], ", the kernel ", head_dim);
    for (int i = 0; i < 3; ++i)
        require(args.o.shape[i] == args.q.shape[i], name, ": o is ", detail::shape_text(args.o), ", but q is ",
            detail::shape_text(args.q));
    if (args.lse.data)
        require(args.lse.shape[0] == n_q && args.lse.shape[1] == heads_q, name, ": lse is ",
            detail::shape_text(args.lse), ", expected (", n_q, ", ", heads_q, ")");
    require(kv.kv_heads > 0 && heads_q % kv.kv_heads == 0, name, ": ", heads_q, " query heads do not divide into ",
        kv.kv_heads, " KV heads");
    require<Unsupported>(heads_q / kv.kv_heads <= 16, name, ": ", heads_q / kv.kv_heads,
        " query heads for each KV head; supported are 1 to 16");
    require(kv.page_size > 0 && kv.pages >= 0 && kv.table_length >= 0 && kv.sequences > 0, name,
        ": page_size and sequences must be positive, pages and the page table's length not negative; got ",
        kv.page_size, ", ", kv.sequences, ", ", kv.pages, ", ", kv.table_length);
    require(kv.page_table || kv.table_length == 1, name, ": a cache without a page table has one page for a sequence");
    require(kv.page_table || kv.sequences <= kv.pages, name, ": ", kv.sequences, " sequences but ", kv.pages, " pages");
    require(kv.page_rows >= 0 && kv.head_rows >= 0 && kv.slot_rows >= 0, name, ": negative strides of the cache");
    const std::int64_t rows =
        (kv.pages - 1) * kv.page_rows + (kv.kv_heads - 1) * kv.head_rows + (kv.page_size - 1) * kv.slot_rows + 1;
    require<Unsupported>(rows <= int32_limit && kv.cells() <= int32_limit, name,
        ": pools of at most 2^31 - 1 rows and sequences of at most 2^31 - 1 cells are supported");
    require(
        args.max_width >= 0 && args.max_width <= int32_limit - chunk_cells, name, ": max_width is ", args.max_width);
    if (args.ids.data) {
        detail::check_view("ids", args.ids, true);
        require(args.ids.shape[0] == n_q && args.ids.shape[1] >= args.max_width, name, ": ids is ",
            detail::shape_text(args.ids), ", expected (", n_q, ", at least ", args.max_width, ")");
    }
    require<Unsupported>(n_q <= 65535 && kv.kv_heads <= 65535, name, ": ", n_q, " queries and ", kv.kv_heads,
        " KV heads; at most 65535 of each in a call");
    require(!args.scale || std::isfinite(*args.scale), name, ": scale must be finite");
    if (n_q == 0 || heads_q == 0) return;
    if (args.max_width > 0 && kv.pages > 0) {
        require(kv.k && kv.v, name, ": the pools are null pointers");
        for (const void* pool : {kv.k, kv.v})
            require(reinterpret_cast<std::uintptr_t>(pool) % 16 == 0, name, ": pools must be aligned to 16 bytes");
        require(key_format(format) != RowFormat::int8 || kv.k_scale, name, ": k_scale is a null pointer");
        require(value_format(format) != RowFormat::int8 || kv.v_scale, name, ": v_scale is a null pointer");
    }
    const std::int64_t needed = chunk_workspace_floats(n_q, heads_q, head_dim, args.max_width);
    require(args.workspace_floats >= needed && (args.workspace || needed == 0), name, ": the workspace has ",
        args.workspace_floats, " floats, needed are ", needed);
    if (needed > 0) detail::check_chunk_workspace(args, head_dim, format, needed);
}

namespace detail {

// What the chunk kernel and the merge kernel are launched with.
struct ChunkParams {
    const float* q;
    std::int64_t q_query_stride, q_head_stride;
    float* o;
    std::int64_t o_query_stride, o_head_stride;
    float* lse;
    std::int64_t lse_query_stride, lse_head_stride;

    const void *k, *v;
    const float16 *k_scale, *v_scale;
    const std::int32_t* page_table;
    std::int64_t table_stride;
    std::int32_t sequences, pages, page_size, cells;
    std::int32_t page_rows, head_rows, slot_rows;
    // cell / page_size == (uint64(cell) * page_multiplier) >> page_shift for 0 <= cell < 2^31
    std::uint32_t page_multiplier, page_shift;

    const std::int32_t* ids;
    std::int64_t ids_stride;
    const std::int32_t* widths;
    const std::int32_t* sequence_of;
    std::int32_t max_width, chunks, group, kv_heads;
    float scale;

    // With slot = (query * kv_heads + kv_head) * chunks + chunk:
    float* part_m;   // [slot][group]
    float* part_l;   // [slot][group]
    float* part_acc; // [slot][group][D]
};

inline ChunkParams make_chunk_params(const ChunkAttentionArgs& args, int head_dim) {
    const PagedKv& kv = args.kv;
    ChunkParams p{};
    p.q = args.q.data, p.q_query_stride = args.q.stride[0], p.q_head_stride = args.q.stride[1];
    p.o = args.o.data, p.o_query_stride = args.o.stride[0], p.o_head_stride = args.o.stride[1];
    p.lse = args.lse.data, p.lse_query_stride = args.lse.stride[0], p.lse_head_stride = args.lse.stride[1];
    p.k = kv.k, p.v = kv.v, p.k_scale = kv.k_scale, p.v_scale = kv.v_scale;
    p.page_table = kv.page_table, p.table_stride = kv.table_stride;
    p.sequences = std::int32_t(kv.sequences), p.pages = std::int32_t(kv.pages);
    p.page_size = std::int32_t(kv.page_size), p.cells = std::int32_t(kv.cells());
    p.page_rows = std::int32_t(kv.page_rows), p.head_rows = std::int32_t(kv.head_rows);
    p.slot_rows = std::int32_t(kv.slot_rows);
    // Division by multiplication: with 2^(L-1) < d <= 2^L and m = ceil(2^(31+L) / d), the error m*d - 2^(31+L) is below
    // 2^L, and 2^L * n <= 2^(31+L) keeps the quotient exact for n < 2^31.
    std::uint32_t log = 0;
    while ((std::int64_t(1) << log) < kv.page_size) ++log;
    p.page_shift = 31 + log;
    p.page_multiplier = std::uint32_t(
        ((std::uint64_t(1) << p.page_shift) + std::uint64_t(kv.page_size) - 1) / std::uint64_t(kv.page_size));
    p.ids = args.ids.data, p.ids_stride = args.ids.stride[0];
    p.widths = args.widths, p.sequence_of = args.sequence_of;
    p.max_width = std::int32_t(args.max_width), p.chunks = std::int32_t(chunk_count(args.max_width));
    p.kv_heads = std::int32_t(kv.kv_heads), p.group = std::int32_t(args.q.shape[1] / kv.kv_heads);
    p.scale = args.scale ? *args.scale : float(1 / std::sqrt(double(head_dim)));
    const std::int64_t rows = args.q.shape[0] * args.q.shape[1] * p.chunks;
    p.part_m = args.workspace, p.part_l = args.workspace + rows, p.part_acc = args.workspace + 2 * rows;
    return p;
}

} // namespace detail
} // namespace waveattn
