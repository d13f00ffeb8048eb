// What do the cells in a step and the exchanges in registers bring over a whole prompt?
//
// Prompts of 9.4K, 34.7K and 105.8K tokens: every query selects min(position + 1, 2051) cells. On a card: milliseconds
// of one layer for each organisation of the kernel, in batches of 512 queries. On the emulator, which tells no time,
// one query at the end of each prompt, checked to give the same bits for all organisations.
#include "harness.h"

#include "waveattn/attention/chunk_attention.h"

#include <bit>

using namespace waveattn;

namespace {

constexpr int head_dim = 256, group = 12, kv_heads = 2, page_size = 4, largest_width = 2051, batch = 512;

template <std::size_t I> void run_policy(const ChunkAttentionArgs& args) {
    chunk_attention_with<head_dim, KvFormat::int8, group, chunk_policies[I].policy>(args);
}

void sweep(const bench::Options& options) {
    using Run = void (*)(const ChunkAttentionArgs&);
    constexpr std::size_t count = std::size(chunk_policies);
    static constexpr auto runs = []<std::size_t... I>(std::index_sequence<I...>) {
        return std::array<Run, count>{&run_policy<I>...};
    }(std::make_index_sequence<count>{});

    for (const std::int64_t tokens : {9'400, 34'700, 105'800}) {
        const std::int64_t pages = ceil_div<std::int64_t>(tokens, page_size), rows = pages * page_size * kv_heads;
        std::mt19937 random(options.seed);
        std::vector<std::int8_t> codes(std::size_t(rows * head_dim));
        for (auto& code : codes) code = std::int8_t(int(random() % 255u) - 127);
        const std::vector<float16> scales(std::size_t(rows * head_dim / 64), from_float<float16>(1.f / 64));
        const bench::DeviceBuffer<std::int8_t> k(codes), v(codes);
        const bench::DeviceBuffer<float16> k_scale(scales), v_scale(scales);
        std::vector<std::int32_t> table(std::size_t(pages), 0);
        for (std::size_t i = 0; i < table.size(); ++i) table[i] = std::int32_t(i);
        std::shuffle(table.begin(), table.end(), random);
        const bench::DeviceBuffer<std::int32_t> page_table(table);

        const std::int64_t queries = bench::emulated() ? 1 : batch;
        bench::Options shown = options;
        shown.sq = queries;
        const auto q = options.tensor<float>(queries, group * kv_heads, head_dim, 3);
        const bench::DeviceBuffer<float> o(q.count());
        const std::int64_t floats = chunk_workspace_floats(queries, group * kv_heads, head_dim, largest_width);
        const bench::DeviceBuffer<float> workspace(floats);
        // A selection: an ascending run with gaps, over the cells that the position has.
        std::vector<std::int32_t> ids, widths;
        const std::int64_t first_position = tokens - queries;
        for (std::int64_t query = 0; query < queries; ++query) {
            const std::int64_t visible = first_position + query + 1,
                               width = std::min<std::int64_t>(visible, largest_width);
            widths.push_back(std::int32_t(width));
            for (std::int64_t i = 0; i < largest_width; ++i)
                ids.push_back(std::int32_t(std::min(i, width - 1) * visible / width));
        }
        const bench::DeviceBuffer<std::int32_t> id_list(ids), width_list(widths);

        ChunkAttentionArgs args;
        args.q = make_contiguous<const float>(q.data(), queries, group * kv_heads, head_dim);
        args.o = make_contiguous(o.data(), queries, group * kv_heads, head_dim);
        args.kv = paged_kv(pages, kv_heads, page_size, page_table.data(), pages);
        args.kv.k = k.data(), args.kv.v = v.data(), args.kv.k_scale = k_scale.data(), args.kv.v_scale = v_scale.data();
        args.ids = make_contiguous<const std::int32_t>(id_list.data(), queries, largest_width);
        args.widths = width_list.data(), args.max_width = largest_width;
        args.workspace = workspace.data(), args.workspace_floats = floats;
        std::vector<float> first(std::size_t(o.count())), other(first.size());
        for (std::size_t i = 0; i < count; ++i) {
            std::printf("%lld tokens, ", (long long)tokens);
            bench::run(chunk_policies[i].name, shown, 0, [&](hipStream_t stream) {
                args.stream = stream;
                runs[i](args);
            });
            auto& result = i == 0 ? first : other;
            check_hip(hipMemcpy(result.data(), o.data(), result.size() * 4, hipMemcpyDeviceToHost), "hipMemcpy");
            for (std::size_t j = 0; i > 0 && j < first.size(); ++j)
                require<Error>(std::bit_cast<std::uint32_t>(first[j]) == std::bit_cast<std::uint32_t>(other[j]),
                    chunk_policies[i].name, " gives other bits than ", chunk_policies[0].name);
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    bench::Options defaults;
    defaults.bh = group * kv_heads, defaults.bh_kv = kv_heads, defaults.sk = largest_width, defaults.dim = head_dim;
    defaults.dtype = "int8";
    return bench::main(argc, argv, sweep, defaults);
}
