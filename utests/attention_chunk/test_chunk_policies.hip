#include "chunk_check.h"

using namespace waveattn;
using namespace waveattn::test;

TEST_CASE("all policies compute the canonical bits") {
    ChunkShape shape;
    SUBCASE("one chunk and a tail") { shape.widths = {70}; }
    SUBCASE("masked pages") { shape.cells = 150, shape.widths = {140}, shape.masked_every = 3; }
    SUBCASE("contiguous, without a selection") {
        shape.contiguous = true, shape.select = false, shape.widths = {100}, shape.data = Data::sinks;
    }
    check_chunk(shape, all_policies());
}
