// Which rows a workgroup of the dual-wave kernel computes: order of the work, and its placement on the XCDs.
//
// Work items are listed group by group, a group being one KV head with all its query heads; inside a group by query
// block (causal: the longest first), then query head. The hardware deals consecutive workgroups round-robin to the
// eight XCDs, each with its own L2. With the remap, XCD x takes the x-th contiguous eighth of the list, hence whole KV
// heads where their number allows, and the workgroups that run on one XCD together read the same K and V. Either
// mapping is a bijection for every grid.
#pragma once

#include "waveattn/core/hip_api.h"

#include <cstdint>

namespace waveattn {

enum class XcdSwizzle { automatic, on, off };

namespace detail {

inline constexpr int xcds = 8; // of MI300X, MI325X, MI350X and MI355X

struct DualwaveGrid {
    std::int32_t q_blocks = 1, group = 1, heads_kv = 1, batch = 1, splits = 1;
    bool longest_first = false, remap = false;

    WAVEATTN_HOST_DEVICE constexpr std::int32_t heads() const { return heads_kv * group; }
    WAVEATTN_HOST_DEVICE constexpr std::int64_t group_items() const { return std::int64_t(q_blocks) * group * splits; }
    WAVEATTN_HOST_DEVICE constexpr std::int64_t items() const { return group_items() * heads_kv * batch; }
};

struct DualwaveItem {
    std::int32_t q_block, head, kv_head, batch, split;
};

// The place in the list of the workgroup that the hardware launches as number `block`.
WAVEATTN_HOST_DEVICE constexpr std::uint32_t dualwave_place(std::uint32_t block, std::uint32_t items, bool remap) {
    if (!remap) return block;
    const std::uint32_t xcd = block % xcds, share = items / xcds, rest = items % xcds;
    return xcd * share + (xcd < rest ? xcd : rest) + block / xcds;
}

WAVEATTN_HOST_DEVICE constexpr DualwaveItem dualwave_item(const DualwaveGrid& grid, std::uint32_t place) {
    const std::uint32_t heads = std::uint32_t(grid.group), blocks = std::uint32_t(grid.q_blocks);
    std::uint32_t rest = place;
    const std::uint32_t head = rest % heads;
    rest /= heads;
    const std::uint32_t q_block = rest % blocks;
    rest /= blocks;
    const std::uint32_t split = rest % std::uint32_t(grid.splits);
    rest /= std::uint32_t(grid.splits);
    const std::uint32_t kv_head = rest % std::uint32_t(grid.heads_kv), batch = rest / std::uint32_t(grid.heads_kv);
    return {std::int32_t(grid.longest_first ? blocks - 1 - q_block : q_block), std::int32_t(kv_head * heads + head),
        std::int32_t(kv_head), std::int32_t(batch), std::int32_t(split)};
}

// The automatic choice: on, except for causal grids whose KV heads do not divide among the XCDs and are so few that the
// uneven cut through a head (its first blocks are the longest) would unbalance them.
constexpr bool dualwave_remap(XcdSwizzle choice, std::int64_t kv_heads, bool causal) {
    if (choice != XcdSwizzle::automatic) return choice == XcdSwizzle::on;
    return !causal || kv_heads % xcds == 0 || kv_heads >= 8 * xcds;
}

} // namespace detail
} // namespace waveattn
