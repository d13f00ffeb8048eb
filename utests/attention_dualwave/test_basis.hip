// The pinned basis: overflow is found and repaired, nothing else is touched.
#include "support.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {

int flags(const Output<bfloat16>& out) {
    int count = 0;
    for (std::int32_t flag : out.overflow) {
        CHECK((flag == 0 || flag == 1));
        count += flag;
    }
    return count;
}
// Keys from `key` on that give rows `first` to `last` scores some 300 base-2 units above their first tile: q holds a
// large component along which only those keys lie.
void add_outliers(Inputs& in, const Case& c, std::int64_t key, std::int64_t first, std::int64_t last) {
    for (std::int64_t j = key; j < c.shape.kv_len; ++j)
        for (std::int64_t d = 0; d < c.shape.head_dim; ++d)
            in.k[std::size_t(j * c.shape.head_dim + d)] = d == 0 ? 48.f : 0.f;
    for (std::int64_t j = 0; j < key; ++j) in.k[std::size_t(j * c.shape.head_dim)] = 0.f;
    for (std::int64_t i = 0; i < c.shape.q_len; ++i)
        in.q[std::size_t(i * c.shape.head_dim)] = i >= first && i <= last ? 48.f : 0.f;
}
void check(const Case& c, const Inputs& in, int least_flags, int most_flags, double l2 = l2_bound<bfloat16>) {
    INFO(text(c));
    const auto got = run<bfloat16>(c, in);
    const Oracle want = attention_oracle(in.q, in.k, in.v, c.shape, c.causal, 1 / std::sqrt(double(c.shape.head_dim)));
    CHECK(got.intact);
    CHECK(compare(got.o, want.o).relative_l2 <= l2);
    if (c.lse) CHECK(compare(got.lse, want.lse).max_abs <= lse_bound(want.lse));
    if (!on_gfx950()) return; // gfx942 computes every call with the online basis
    const int count = flags(got);
    CHECK(count >= least_flags);
    CHECK(count <= most_flags);
}

} // namespace

TEST_CASE("benign inputs trip nothing") {
    for (std::int64_t dim : {64, 128})
        for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right})
            for (bool lse : {true, false}) {
                const Case c{.shape = {1, 1, 1, 300, 400, dim, dim},
                    .causal = causal,
                    .basis = SoftmaxBasis::pinned,
                    .lse = lse};
                check(c, make_inputs<bfloat16>(c), 0, 0);
            }
}
TEST_CASE("overflow in one row, in one block, in every block") {
    const Case c{.shape = {1, 1, 1, 520, 300, 128, 128}, .basis = SoftmaxBasis::pinned};
    Inputs in = make_inputs<bfloat16>(c);
    add_outliers(in, c, 130, 301, 301);
    check(c, in, 1, 1);
    in = make_inputs<bfloat16>(c);
    add_outliers(in, c, 130, 256, 511);
    check(c, in, 8, 8);
    in = make_inputs<bfloat16>(c);
    add_outliers(in, c, 130, 0, 519);
    check(c, in, 17, 17); // the last block holds 8 rows, one wave's
}
TEST_CASE("overflow in the blocks of one workgroup") {
    const Case c{.shape = {1, 1, 1, 520, 600, 128, 128},
        .causal = Causal::bottom_right,
        .basis = SoftmaxBasis::pinned,
        .compute_units = 1};
    Inputs in = make_inputs<bfloat16>(c);
    add_outliers(in, c, 260, 200, 203); // rows that see those keys: of the second block in order, the first in time
    check(c, in, 1, 1);
    in = make_inputs<bfloat16>(c);
    add_outliers(in, c, 70, 0, 519);
    check(c, in, 17, 17);
}
TEST_CASE("scores about the end of the head room, with LSE and splits") {
    for (int units = 90; units <= 136; units += units < 120 ? 10 : 1)
        for (int splits : {1, 2}) {
            const Case c{.shape = {1, 1, 1, 3, 256, 64, 64}, .basis = SoftmaxBasis::pinned, .splits = splits};
            Inputs in = make_inputs<bfloat16>(c);
            for (float& q : in.q) q = 0.f;
            for (float& k : in.k) k = 0.f;
            for (std::int64_t i = 0; i < 3; ++i) in.q[std::size_t(i * 64)] = 8.f;
            in.k[64 * 64] = to_float(from_float<bfloat16>(float(units * 0.6931471805599453))); // scale is 1/8
            // One key decides all rows, so its weight's rounding, up to 2^-8 against an exact sum, does not average
            // out; then comes that of o.
            check(c, in, 0, 2, 0x1p-8 + 0x1p-9);
        }
}
TEST_CASE("massive activations give the online answer") {
    Case c{.shape = {1, 1, 1, 256, 300, 128, 128}, .basis = SoftmaxBasis::pinned};
    Inputs in = make_inputs<bfloat16>(c);
    add_outliers(in, c, 200, 0, 255);
    const auto pinned = run<bfloat16>(c, in);
    c.basis = SoftmaxBasis::online;
    const auto online = run<bfloat16>(c, in);
    CHECK(same_bits(pinned.o, online.o)); // every row of the block was computed again
    CHECK(same_bits(pinned.lse, online.lse));
}
TEST_CASE("a product that overflows where the sum does not") {
    const Case c{.shape = {1, 1, 1, 40, 200, 128, 128}, .basis = SoftmaxBasis::pinned};
    Inputs in = make_inputs<bfloat16>(c);
    add_outliers(in, c, 130, 0, 39);
    for (float& q : in.q)
        if (q == 48.f) q = 22.f; // some 130 units above the first tile
    for (float& v : in.v) v = from_float<bfloat16>(v).bits & 1 ? 0x1p90f : -0x1p91f;
    check(c, in, 2, 2);
}
TEST_CASE("NaN stays in its row and trips, rows without keys do not") {
    const Case c{.shape = {1, 1, 1, 300, 200, 64, 64}, .causal = Causal::bottom_right, .basis = SoftmaxBasis::pinned};
    Inputs in = make_inputs<bfloat16>(c);
    const auto clean = run<bfloat16>(c, in);
    in.q[std::size_t(250 * 64 + 3)] = std::numeric_limits<float>::quiet_NaN();
    const auto got = run<bfloat16>(c, in);
    for (std::int64_t i = 0; i < 300; ++i)
        for (std::int64_t d = 0; d < 64; ++d) {
            const float value = to_float(got.o[std::size_t(i * 64 + d)]);
            if (i == 250)
                CHECK(std::isnan(value));
            else if (i < 100)
                CHECK(value == 0.f);
            else
                CHECK(std::isfinite(value));
        }
    for (std::int64_t i = 0; i < 100; ++i) CHECK(got.lse[std::size_t(i)] == -std::numeric_limits<float>::infinity());
    if (on_gfx950()) {
        CHECK(flags(clean) == 0);
        CHECK(flags(got) == 1);
    }
}
TEST_CASE("float16 has 16 units of head room") {
    Case c{.shape = {1, 1, 1, 64, 200, 64, 64}, .basis = SoftmaxBasis::pinned};
    for (float factor : {1.f, 6.f}) { // later keys up to some 4 or some 130 units above the first tile
        Inputs in = make_inputs<float16>(c);
        for (std::size_t i = 100 * 64; i < in.k.size(); ++i) in.k[i] = to_float(from_float<float16>(in.k[i] * factor));
        const auto got = run<float16>(c, in);
        const Oracle want = attention_oracle(in.q, in.k, in.v, c.shape, c.causal, 1 / 8.0);
        CHECK(compare(got.o, want.o).relative_l2 <= l2_bound<float16>);
    }
}
