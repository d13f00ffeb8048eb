// The kernels that the tests run, compiled in files of their own.
#pragma once

#include "waveattn/attention/chunk_attention.h"

#include <vector>

namespace waveattn::test {

struct NamedPolicy {
    const char* name;
    ChunkPolicy policy;
    void (*run)(const ChunkAttentionArgs&);
};

// All policies for D 256, group 12, int8.
const std::vector<NamedPolicy>& all_policies();

// The default kernel and the reorganised ones of a shape; throws std::out_of_range where the tests compile none.
std::vector<NamedPolicy> shipped_policies(int head_dim, KvFormat format, int group);

} // namespace waveattn::test
