// Tuning table of FlashAttentionWmmaDPP for gfx1200 and gfx1201: tile and registers by head_dim.
#pragma once

#include "waveattn/attention/wmma_config.h"

namespace waveattn {

// Registers: a SIMD holds 1536 / 120 = 12 waves at head_dim 64 and 1536 / 216 = 7 at 128.
constexpr WmmaTuning wmma_tuning(int head_dim) {
    WmmaTuning tuning;
    tuning.waves_per_simd = head_dim <= 64 ? 12 : head_dim <= 96 ? 9 : head_dim <= 128 ? 7 : 5;
    return tuning;
}
constexpr int wmma_block_kv(int head_dim) { return head_dim <= 128 ? 32 : 16; }
constexpr int wmma_waves(int) { return 8; }

} // namespace waveattn
