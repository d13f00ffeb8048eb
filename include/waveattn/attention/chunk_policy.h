// The organisations of the chunk kernel. All compute the same bits.
#pragma once

namespace waveattn {

struct ChunkPolicy {
    // Cells that a wave scores at a time; each slice of q is read from LDS once for all of them. 1, 2, 4 or 8.
    int cells_per_step = 1;
    // Sums over lanes for all heads together, halving the heads at each level (13 exchanges a cell for 12 heads);
    // otherwise a butterfly for each head (60).
    bool reduce_scatter = false;
    // Exchanges in registers (DPP) instead of through the LDS crossbar.
    bool dpp = false;
    // q in LDS as planes of 4 values for each lane: 16-byte reads without bank conflicts.
    bool q_planes = false;
    // Levels 8 and 4 of the reduction by additions that write some banks of lanes only.
    bool masked_adds = false;
    // 16 lanes for a cell, two cells in a wave: the first level of the reduction stays in a lane.
    bool half_wave = false;
    // Probabilities for 16 cells in the lanes of a row, broadcast by the FMA itself instead of read from LDS.
    bool row_share = false;
    // One workgroup for all chunks of a query and KV head, which merges them itself: q is loaded once, and instead of
    // an unnormalised output for each chunk (head_dim values a head) its probabilities (64) pass through memory. Needs
    // as many queries as keep the device busy.
    bool fused = false;
};

// The default kernel.
inline constexpr ChunkPolicy chunk_default{};

// Its reorganisation with NC cells in a step; Dpp: lane exchanges in registers.
template <int NC, bool Dpp>
inline constexpr ChunkPolicy chunk_pre75{
    .cells_per_step = NC, .reduce_scatter = true, .dpp = Dpp, .q_planes = true, .masked_adds = Dpp};

// The fastest, with 8 cells in a step.
template <int NC>
inline constexpr ChunkPolicy chunk_half_wave_of{.cells_per_step = NC,
    .reduce_scatter = true,
    .dpp = true,
    .q_planes = true,
    .masked_adds = true,
    .half_wave = true,
    .row_share = true};
inline constexpr ChunkPolicy chunk_half_wave = chunk_half_wave_of<8>;
inline constexpr ChunkPolicy chunk_fused{.cells_per_step = 8,
    .reduce_scatter = true,
    .dpp = true,
    .q_planes = true,
    .masked_adds = true,
    .half_wave = true,
    .row_share = true,
    .fused = true};

// All that are tested and measured: those above, and the steps from chunk_pre75<8, true> to chunk_half_wave.
struct NamedChunkPolicy {
    const char* name;
    ChunkPolicy policy;
};
inline constexpr NamedChunkPolicy chunk_policies[] = {
    {"default", chunk_default},
    {"nc1", chunk_pre75<1, false>},
    {"nc2", chunk_pre75<2, false>},
    {"nc4", chunk_pre75<4, false>},
    {"nc8", chunk_pre75<8, false>},
    {"nc1_dpp", chunk_pre75<1, true>},
    {"nc2_dpp", chunk_pre75<2, true>},
    {"nc4_dpp", chunk_pre75<4, true>},
    {"nc8_dpp_one_plane", {.cells_per_step = 8, .reduce_scatter = true, .dpp = true}},
    {"nc8_dpp_selects", {.cells_per_step = 8, .reduce_scatter = true, .dpp = true, .q_planes = true}},
    {"nc8_dpp", chunk_pre75<8, true>},
    {"nc8_dpp_row_share", {.cells_per_step = 8,
                              .reduce_scatter = true,
                              .dpp = true,
                              .q_planes = true,
                              .masked_adds = true,
                              .row_share = true}},
    {"half_wave_nc4", chunk_half_wave_of<4>},
    {"half_wave", chunk_half_wave},
    {"fused", chunk_fused},
};

} // namespace waveattn
