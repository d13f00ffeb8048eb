// What every kernel has to meet.
#pragma once

#include "chunk_case.h"
#include "chunk_kernels.h"

#include <doctest/doctest.h>

namespace waveattn::test {

// All kernels against the host's canonical order, bit for bit, and against float64.
inline void check_chunk(const ChunkShape& shape, const std::vector<NamedPolicy>& policies) {
    INFO(shape.text());
    const ChunkCase problem(shape);
    const ChunkDevice device(problem);
    const auto reference = chunk_reference(problem);
    const auto oracle = chunk_oracle(problem);
    std::vector<float> lse;
    for (const auto& policy : policies) {
        INFO(policy.name);
        const auto result = device.run(policy.run);
        CHECK(result.guards_intact);
        CHECK(different_bits(result.o, reference) == 0);
        CHECK(compare(result.o, oracle.o).max_abs <= oracle.o_tolerance);
        CHECK(compare(result.lse, oracle.lse).max_abs <= oracle.lse_tolerance);
        if (lse.empty()) lse = result.lse;
        CHECK(different_bits(result.lse, lse) == 0);
    }
}

} // namespace waveattn::test
