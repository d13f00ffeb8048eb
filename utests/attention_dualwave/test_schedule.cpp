// The order of the work: a bijection for every grid, whole KV heads on an XCD where they divide, balance under a mask.
#include <doctest/doctest.h>

#include "waveattn/attention/dualwave_schedule.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

using namespace waveattn;
using namespace waveattn::detail;

namespace {
DualwaveGrid make_grid(int q_blocks, int group, int heads_kv, int batch, int splits, bool longest_first, bool remap) {
    DualwaveGrid grid;
    grid.q_blocks = q_blocks, grid.group = group, grid.heads_kv = heads_kv, grid.batch = batch, grid.splits = splits;
    grid.longest_first = longest_first, grid.remap = remap;
    grid.finish();
    return grid;
}
} // namespace

TEST_CASE("division by multiplication") {
    for (std::uint32_t d :
        {1u, 2u, 3u, 5u, 7u, 8u, 704u, 705u, 65535u, 65536u, 1000003u, (1u << 30) + 1u, (1u << 31) - 1u}) {
        const FixedDivisor by(d);
        for (std::uint32_t base : {0u, 1u, d - 1u, d, 2u * d - 1u, 1u << 20, (1u << 31) - 2u, (1u << 31) - 1u})
            if (base < 1u << 31) CHECK(by.divide(base) == base / d);
        for (std::uint32_t i = 0, n = 12345; i < 2000; ++i, n = n * 1664525u + 1013904223u)
            CHECK(by.divide(n >> 1) == (n >> 1) / d);
    }
}

TEST_CASE("each work item is computed exactly once") {
    for (int batch : {1, 2, 3})
        for (int heads_kv : {1, 2, 5, 8, 64})
            for (int group : {1, 4, 8})
                for (int q_blocks : {1, 3, 16})
                    for (int splits : {1, 3})
                        for (bool longest_first : {false, true})
                            for (bool remap : {false, true}) {
                                const DualwaveGrid grid =
                                    make_grid(q_blocks, group, heads_kv, batch, splits, longest_first, remap);
                                const auto items = std::uint32_t(grid.entries());
                                std::set<std::tuple<int, int, int, int>> seen;
                                for (std::uint32_t block = 0; block < items; ++block) {
                                    const std::uint32_t place = dualwave_place(block, items, remap);
                                    REQUIRE(place < items);
                                    const DualwaveItem item = dualwave_item(grid, place);
                                    REQUIRE(item.kv_head == item.head / group);
                                    REQUIRE(item.q_block < q_blocks);
                                    REQUIRE(item.head < heads_kv * group);
                                    REQUIRE(item.batch < batch);
                                    REQUIRE(item.split < splits);
                                    seen.insert({item.q_block, item.head, item.batch, item.split});
                                }
                                REQUIRE(seen.size() == items);
                            }
}
TEST_CASE("pairs: each work item exactly once, the same work for each workgroup") {
    for (int q_blocks : {1, 2, 3, 16, 17})
        for (int group : {1, 4})
            for (int heads_kv : {1, 5, 8})
                for (int splits : {1, 3})
                    for (bool remap : {false, true})
                        for (std::uint32_t workgroups : {1u, 3u, 8u, 1000u}) {
                            DualwaveGrid grid = make_grid(q_blocks, group, heads_kv, 2, splits, true, remap);
                            grid.paired = 1, grid.limit = workgroups;
                            grid.finish();
                            REQUIRE(grid.workgroups == std::min(workgroups, grid.count));
                            std::set<std::tuple<int, int, int, int>> seen;
                            std::size_t items = 0;
                            std::vector<int> work;
                            for (std::uint32_t workgroup = 0; workgroup < grid.workgroups; ++workgroup) {
                                work.push_back(0);
                                DualwaveWalk walk(grid, workgroup);
                                do {
                                    const DualwaveItem& item = walk.item;
                                    REQUIRE(item.kv_head == item.head / group);
                                    seen.insert({item.q_block, item.head, item.batch, item.split});
                                    work.back() += item.q_block + 1, ++items;
                                } while (walk.advance(grid));
                            }
                            const std::size_t all = std::size_t(q_blocks) * group * heads_kv * 2 * splits;
                            REQUIRE(items == all);
                            REQUIRE(seen.size() == all);
                            if (q_blocks % 2 == 0 && grid.count % grid.workgroups == 0)
                                for (int own : work) REQUIRE(own == work[0]);
                        }
}
TEST_CASE("pairs where they fill the device") {
    const auto paired = [](int q_blocks, int heads, int compute_units) {
        DualwaveGrid grid = make_grid(q_blocks, 1, heads, 1, 1, true, false);
        dualwave_pair(grid, compute_units);
        grid.finish();
        if (grid.paired) CHECK(grid.workgroups <= std::uint32_t(compute_units));
        return grid.paired != 0;
    };
    CHECK(paired(16, 32, 256));   // one pair each
    CHECK(!paired(16, 31, 304));  // 248 pairs leave 56 units idle
    CHECK(!paired(16, 33, 256));  // a second round for 8 pairs
    CHECK(paired(16, 500, 256));  // sixteen rounds, the last one nearly full
    CHECK(!paired(1, 1024, 256)); // no pairs
    CHECK(!paired(16, 1, 256));
    CHECK(paired(3, 1, 1));
}
TEST_CASE("with the remap an XCD works on whole KV heads where their number divides") {
    for (int heads_kv : {8, 16, 64}) {
        const DualwaveGrid grid = make_grid(32, 4, heads_kv, 1, 1, true, true);
        const auto items = std::uint32_t(grid.entries());
        std::vector<std::set<int>> heads(xcds);
        for (std::uint32_t block = 0; block < items; ++block)
            heads[block % xcds].insert(dualwave_item(grid, dualwave_place(block, items, true)).kv_head);
        for (const auto& own : heads) CHECK(int(own.size()) == heads_kv / xcds);
    }
}
TEST_CASE("causal work is the same on each XCD, within one block of rows") {
    for (int heads_kv : {8, 24, 65, 100}) {
        const DualwaveGrid grid =
            make_grid(16, 1, heads_kv, 1, 1, true, dualwave_remap(XcdSwizzle::automatic, heads_kv, 16, true));
        const auto items = std::uint32_t(grid.entries());
        std::vector<long> work(xcds);
        for (std::uint32_t block = 0; block < items; ++block)
            work[block % xcds] += dualwave_item(grid, dualwave_place(block, items, grid.remap)).q_block + 1;
        const auto [least, most] = std::minmax_element(work.begin(), work.end());
        CHECK(double(*most) <= 1.12 * double(*least));
    }
}
TEST_CASE("the automatic choice") {
    CHECK(dualwave_remap(XcdSwizzle::automatic, 3, 32, false));
    CHECK(dualwave_remap(XcdSwizzle::automatic, 8, 32, true));
    CHECK(!dualwave_remap(XcdSwizzle::automatic, 12, 32, true));
    CHECK(!dualwave_remap(XcdSwizzle::automatic, 8, 704, false)); // one head fills the device
    CHECK(dualwave_remap(XcdSwizzle::on, 12, 704, true));
    CHECK(!dualwave_remap(XcdSwizzle::off, 8, 32, false));
}
