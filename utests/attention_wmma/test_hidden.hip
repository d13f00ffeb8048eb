// FlashAttentionWmmaDPP with NaN and infinities in v: they reach the rows that see their keys, and no others.
#include "support.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {
Result run(const Problem& p, const Inputs& in) { return run_wmma<bfloat16, float, 64>(p, in); }
} // namespace

TEST_CASE("one value, at keys of every kind of tile") {
    // 200 queries: two workgroups. Keys 0 and 31: tiles that all rows see but the first ones; others on both sides of
    // the diagonals of rows, waves and workgroups, and the last one.
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const Problem p{make_shape(1, 1, 1, 200, 200, 64), Causal::top_left};
    const Inputs plain = make_inputs<bfloat16>(p);
    const Result without = run(p, plain);
    int i = 0;
    for (std::int64_t key : {0, 17, 31, 48, 127, 128, 163, 199})
        for (float value : {nan, inf, -inf}) {
            const std::size_t dim = std::size_t(i++ % 64);
            Inputs in = plain;
            in.v[std::size_t(key) * 64 + dim] = value;
            const Result got = run(p, in);
            std::vector<double> want(without.o.begin(), without.o.end());
            for (std::size_t row = std::size_t(key); row < 200; ++row) want[row * 64 + dim] = double(value);
            INFO("key ", key, ", value ", value);
            CHECK(difference_beside_non_finite(got.o, without.o, want) == "");
            CHECK(bit_equal(got.lse, without.lse));
        }
}

TEST_CASE("many values; rules, lengths, groups of heads, layouts") {
    for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right})
        for (const auto& shape : {make_shape(1, 2, 1, 150, 150, 64), make_shape(2, 2, 1, 45, 147, 64),
                 make_shape(1, 1, 1, 147, 45, 64), make_shape(1, 6, 2, 33, 40, 64), make_shape(1, 8, 2, 1, 75, 64),
                 make_shape(1, 1, 1, 40, 70, 40, 24), make_shape(1, 2, 1, 50, 61, 57)}) {
            Problem p{shape, causal};
            check_non_finite_values<bfloat16>(p, [&](const Inputs& in) { return run(p, in); });
            if (shape.head_dim_v != 24) continue;
            p.layout = Layout::sliced;
            check_non_finite_values<bfloat16>(p, [&](const Inputs& in) { return run(p, in); });
        }
}

TEST_CASE("values that are not finite beside a NaN in q and in k") {
    Problem p{make_shape(1, 1, 1, 40, 70, 64), Causal::bottom_right};
    Inputs plain = make_inputs<bfloat16>(p);
    plain.q[5 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
    plain.k[50 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
    Inputs in = plain;
    in.v[40 * 64 + 7] = std::numeric_limits<float>::quiet_NaN();
    const Result without = run(p, plain), got = run(p, in);
    for (std::size_t row = 0; row < 40; ++row)
        for (std::size_t dim = 0; dim < 64; ++dim) {
            const bool nan = row == 5 || row + 30 >= 50 || (row + 30 >= 40 && dim == 7);
            CHECK(std::isnan(got.o[row * 64 + dim]) == nan);
            if (!nan) CHECK(got.o[row * 64 + dim] == without.o[row * 64 + dim]);
        }
}
