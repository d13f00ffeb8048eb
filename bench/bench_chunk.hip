// Paged chunk attention, int8 cache with pages of 4 cells: every organisation of the kernel, by name.
//
//   --variant NAME   of attention/chunk_policy.h, or fast
//   --sq N           queries; each selects --sk cells of a cache of --cells
//   --bh-kv N        KV heads; 12 query heads each, head_dim 256
#include "harness.h"

#include "waveattn/attention/chunk_attention.h"
#include "waveattn/attention/chunk_pack.h"

#include <numeric>

using namespace waveattn;

namespace {

constexpr int head_dim = 256, group = 12, page_size = 4;
constexpr KvFormat format = KvFormat::int8;
using Run = void (*)(const ChunkAttentionArgs&);

template <std::size_t... I> Run find(const std::string& name, std::index_sequence<I...>) {
    if (name == "fast") return &chunk_attention_fast<head_dim, group>;
    Run run = nullptr;
    std::string names = " fast";
    ((names += concat(" ", chunk_policies[I].name),
         run = name == chunk_policies[I].name ? &chunk_attention_with<head_dim, format, group, chunk_policies[I].policy>
                                              : run),
        ...);
    require(run != nullptr, "--variant is one of", names);
    return run;
}

struct Pool {
    std::vector<std::int8_t> codes;
    std::vector<float16> scales;
    Pool(const std::vector<float>& values, std::int64_t rows)
        : codes(std::size_t(rows * head_dim)), scales(std::size_t(rows * head_dim / 64)) {
        for (std::int64_t row = 0; row < rows; ++row)
            pack_row(RowFormat::int8, &values[std::size_t(row * head_dim)], head_dim,
                &codes[std::size_t(row * head_dim)], &scales[std::size_t(row * head_dim / 64)]);
    }
};

void run_chunk(const bench::Options& options) {
    const Run run = find(options.text("variant"), std::make_index_sequence<std::size(chunk_policies)>{});
    const std::int64_t kv_heads = options.planes_kv(), cells = std::max(options.number("cells"), options.sk);
    const std::int64_t pages = ceil_div<std::int64_t>(cells, page_size), rows = pages * kv_heads * page_size;
    const Pool k(bench::make_values(options.data, kv_heads, pages * page_size, head_dim, options.seed), rows);
    const Pool v(bench::make_values(options.data, kv_heads, pages * page_size, head_dim, options.seed + 1), rows);
    const bench::DeviceBuffer<std::int8_t> k_pool(k.codes), v_pool(v.codes);
    const bench::DeviceBuffer<float16> k_scale(k.scales), v_scale(v.scales);

    std::mt19937 random(options.seed);
    std::vector<std::int32_t> table(static_cast<std::size_t>(pages)), ids, all(static_cast<std::size_t>(cells));
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), random);
    for (std::int64_t query = 0; query < options.sq; ++query) {
        std::iota(all.begin(), all.end(), 0);
        std::shuffle(all.begin(), all.end(), random);
        std::sort(all.begin(), all.begin() + options.sk);
        ids.insert(ids.end(), all.begin(), all.begin() + options.sk);
    }
    const bench::DeviceBuffer<std::int32_t> page_table(table), id_list(ids);
    const auto q = options.tensor<float>(options.sq * kv_heads, group, head_dim, 3);
    const bench::DeviceBuffer<float> o(q.count());
    const std::int64_t floats = chunk_workspace_floats(options.sq, kv_heads * group, head_dim, options.sk);
    const bench::DeviceBuffer<float> workspace(floats);

    ChunkAttentionArgs args;
    args.q = make_contiguous<const float>(q.data(), options.sq, kv_heads * group, head_dim);
    args.o = make_contiguous(o.data(), options.sq, kv_heads * group, head_dim);
    args.kv = paged_kv(pages, kv_heads, page_size, page_table.data(), pages);
    args.kv.k = k_pool.data(), args.kv.v = v_pool.data();
    args.kv.k_scale = k_scale.data(), args.kv.v_scale = v_scale.data();
    args.ids = make_contiguous<const std::int32_t>(id_list.data(), options.sq, options.sk);
    args.max_width = options.sk;
    args.workspace = workspace.data(), args.workspace_floats = floats;
    bench::run("chunk attention, " + options.text("variant"), options,
        4.0 * double(options.sq * kv_heads * group) * double(options.sk) * head_dim, [&](hipStream_t stream) {
            args.stream = stream;
            run(args);
        });
}

} // namespace

int main(int argc, char** argv) {
    bench::Options defaults;
    defaults.bh = 24, defaults.bh_kv = 2, defaults.sq = 1, defaults.sk = 2048, defaults.dim = head_dim;
    defaults.dtype = "int8";
    defaults.extra = {{"variant", "half_wave"}, {"cells", "4096"}};
    return bench::main(argc, argv, run_chunk, defaults);
}
