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

// Division of numbers below 2^31 by a number that the host knows: a multiplication and a shift. With s = ceil(log2 d),
// n / d = (n + mulhi(n, m)) >> s for m = floor(2^32 (2^s - d) / d) + 1 (Granlund and Montgomery).
struct FixedDivisor {
    std::uint32_t divisor = 1, multiplier = 1, shift = 0;

    constexpr FixedDivisor() = default;
    constexpr explicit FixedDivisor(std::uint32_t d) : divisor(d) {
        while ((std::uint64_t(1) << shift) < d) ++shift;
        multiplier = std::uint32_t(((std::uint64_t(1) << 32) * ((std::uint64_t(1) << shift) - d)) / d + 1);
    }
    WAVEATTN_HOST_DEVICE constexpr std::uint32_t divide(std::uint32_t n) const {
        return (n + std::uint32_t(std::uint64_t(n) * multiplier >> 32)) >> shift;
    }
};

struct DualwaveGrid {
    std::int32_t q_blocks = 1, group = 1, heads_kv = 1, batch = 1, splits = 1;
    std::int32_t longest_first = 0, remap = 0; // not bool: whole words come by scalar loads
    // An entry of the list is a pair of query blocks, the i-th from the end and the i-th (the middle one of an odd
    // number alone); else one block.
    std::int32_t paired = 0;
    std::uint32_t limit = 0x7fffffff; // workgroups at most
    // What finish() computes of the above for the device.
    FixedDivisor by_group, by_rows, by_splits, by_heads_kv;
    std::uint32_t count = 1, workgroups = 1; // entries of the list, and the workgroups that share them

    constexpr void finish() {
        by_group = FixedDivisor(std::uint32_t(group)), by_rows = FixedDivisor(std::uint32_t(row_entries()));
        by_splits = FixedDivisor(std::uint32_t(splits)), by_heads_kv = FixedDivisor(std::uint32_t(heads_kv));
        count = std::uint32_t(entries());
        workgroups = count < limit ? count : limit;
    }
    WAVEATTN_HOST_DEVICE constexpr std::int32_t row_entries() const { return paired ? (q_blocks + 1) / 2 : q_blocks; }
    WAVEATTN_HOST_DEVICE constexpr std::int32_t heads() const { return heads_kv * group; }
    WAVEATTN_HOST_DEVICE constexpr std::int64_t group_entries() const {
        return std::int64_t(row_entries()) * group * splits;
    }
    WAVEATTN_HOST_DEVICE constexpr std::int64_t entries() const { return group_entries() * heads_kv * batch; }
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
    const auto split_off = [](std::uint32_t& rest, const FixedDivisor& by) {
        const std::uint32_t all = rest;
        rest = by.divide(all);
        return std::int32_t(all - rest * by.divisor);
    };
    std::uint32_t rest = place;
    const std::int32_t head = split_off(rest, grid.by_group), row = split_off(rest, grid.by_rows);
    const std::int32_t split = split_off(rest, grid.by_splits), kv_head = split_off(rest, grid.by_heads_kv);
    return {grid.longest_first ? grid.q_blocks - 1 - row : row, kv_head * grid.group + head, kv_head,
        std::int32_t(rest), split};
}

// An item's number, which does not depend on the order of the work.
WAVEATTN_HOST_DEVICE constexpr std::int32_t dualwave_number(const DualwaveGrid& grid, const DualwaveItem& item) {
    return ((item.split * grid.batch + item.batch) * grid.heads() + item.head) * grid.q_blocks + item.q_block;
}

// The items of one workgroup, in order: those of entries `workgroup`, `workgroup + workgroups`, ...
struct DualwaveWalk {
    std::uint32_t block; // as if every entry had a workgroup of its own
    DualwaveItem item;

    WAVEATTN_HOST_DEVICE constexpr DualwaveWalk(const DualwaveGrid& grid, std::uint32_t workgroup)
        : block(workgroup), item(dualwave_item(grid, dualwave_place(block, grid.count, grid.remap))) {}
    WAVEATTN_HOST_DEVICE constexpr bool advance(const DualwaveGrid& grid) {
        const std::int32_t mirrored = grid.q_blocks - 1 - item.q_block;
        if (grid.paired && mirrored < item.q_block) {
            item.q_block = mirrored;
            return true;
        }
        block += grid.workgroups;
        if (block >= grid.count) return false;
        item = dualwave_item(grid, dualwave_place(block, grid.count, grid.remap));
        return true;
    }
};

// Pairs of blocks for a causal call: all entries are equally long, but for the middle block of an odd number, which is
// alone and half as long. The workgroups are as many as the device has compute units, each with the same number of
// entries or one less than the others, so that one hand-over follows another without an idle unit. Where the last round
// would leave more than a ninth of the units' time unused, single blocks, longest first, balance better.
constexpr void dualwave_pair(DualwaveGrid& grid, std::int64_t compute_units) {
    if (compute_units > xcds) compute_units -= compute_units % xcds; // an entry then stays on its XCD
    grid.paired = 1;
    const std::int64_t entries = grid.entries(), rounds = (entries + compute_units - 1) / compute_units;
    if (grid.q_blocks > 1 && 8 * rounds * compute_units <= 9 * entries)
        grid.limit = std::uint32_t(compute_units);
    else
        grid.paired = 0;
}

// The automatic choice, from the number of KV heads (of the whole batch) and the work items of each. With 256 items or
// more a single KV head fills every compute unit, eight XCDs read it in step, and the memory-side cache serves seven of
// them; otherwise each L2 would hold several heads, and the remap leaves one. It stays off for causal grids whose KV
// heads do not divide among the XCDs and are so few that the cut through a head (its first items are the longest) would
// unbalance them. docs/kernels/dualwave.md has the arithmetic.
constexpr bool dualwave_remap(XcdSwizzle choice, std::int64_t kv_heads, std::int64_t items_of_head, bool causal) {
    if (choice != XcdSwizzle::automatic) return choice == XcdSwizzle::on;
    if (items_of_head >= 32 * xcds) return false;
    return !causal || kv_heads % xcds == 0 || kv_heads >= 8 * xcds;
}

} // namespace detail
} // namespace waveattn
