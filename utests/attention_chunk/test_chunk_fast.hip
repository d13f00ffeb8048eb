// The fast mode: not the canonical bits, but within its error budget of the exact result.
#include "chunk_check.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {

// d of chunk_fast.h: how far rounding q to int8 moves a score at most.
double score_error(const ChunkCase& c) {
    const ChunkShape& s = c.shape;
    double largest = 0;
    for (int query = 0; query < s.n_q; ++query)
        for (int kv_head = 0; kv_head < s.kv_heads; ++kv_head) {
            double sum = 0; // the largest sum |k| over the cells
            for (auto row : c.rows_of(query, kv_head)) {
                double of_row = 0;
                if (row >= 0)
                    for (float k : c.key(row)) of_row += std::abs(double(k));
                sum = std::max(sum, of_row);
            }
            for (int g = 0; g < s.group; ++g) {
                const float* q = &c.q[std::size_t((query * s.heads_q() + kv_head * s.group + g) * s.head_dim)];
                double largest_q = 0;
                for (int d = 0; d < s.head_dim; ++d) largest_q = std::max(largest_q, std::abs(double(q[d])));
                // Half a code, and the rounding of q * (127 / max) in fp32.
                largest = std::max(largest, std::abs(c.scale()) * largest_q / 254 * (1 + 1e-4) * sum);
            }
        }
    return largest;
}

double check_fast(const ChunkShape& shape, void (*run)(const ChunkAttentionArgs&)) {
    INFO(shape.text());
    const ChunkCase problem(shape);
    const ChunkDevice device(problem);
    const auto oracle = chunk_oracle(problem);
    const auto result = device.run(run);
    const double d = score_error(problem);
    double largest_value = 0;
    for (int kv_head = 0; kv_head < shape.kv_heads; ++kv_head)
        for (auto row : problem.rows_of(0, kv_head))
            if (row >= 0)
                for (float v : problem.value(row)) largest_value = std::max(largest_value, std::abs(double(v)));
    const double budget = (2 * d + std::ldexp(1, -10)) * 2 * largest_value + oracle.o_tolerance;
    const auto difference = compare(result.o, oracle.o);
    CHECK(result.guards_intact);
    CHECK(difference.max_abs <= budget);
    CHECK(compare(result.lse, oracle.lse).max_abs <= d + oracle.lse_tolerance);
    return difference.relative_l2;
}

} // namespace

TEST_CASE("the fast mode stays within its error budget") {
    ChunkShape shape{.cells = 200};
    shape.widths = {190};
    double error = 0;
    SUBCASE("head_dim 256, group 12") { error = check_fast(shape, &chunk_attention_fast<256, 12>); }
    SUBCASE("masked pages, several queries") {
        shape.masked_every = 7, shape.n_q = 3, shape.widths = {190, 64, 33}, shape.head_dim = 128, shape.group = 7;
        error = check_fast(shape, &chunk_attention_fast<128, 8>);
    }
    SUBCASE("head_dim 64, small values") {
        shape.head_dim = 64, shape.group = 4, shape.data = Data::sinks;
        error = check_fast(shape, &chunk_attention_fast<64, 4>);
    }
    // What to expect on gaussian data, where errors of single products average out.
    CHECK(error < 0.02);
}

TEST_CASE("the fast mode of values of any size") {
    for (float size : {1e-6f, 1.f, 1e4f}) {
        INFO(size);
        ChunkShape shape{.head_dim = 64, .group = 4, .kv_heads = 1, .cells = 80};
        shape.widths = {64};
        ChunkCase problem(shape);
        for (auto& scale : problem.v_scale)
            if (to_float(scale) == to_float(scale)) scale = from_float<float16>(to_float(scale) * size);
        const ChunkDevice device(problem);
        const auto oracle = chunk_oracle(problem);
        const auto result = device.run(&chunk_attention_fast<64, 4>);
        CHECK(compare(result.o, oracle.o).relative_l2 < 0.02);
    }
}

TEST_CASE("the fast mode shows a NaN of q in its own head only") {
    ChunkShape shape{.head_dim = 64, .group = 4, .kv_heads = 1};
    ChunkCase problem(shape);
    problem.q[64 * 2 + 5] = std::numeric_limits<float>::quiet_NaN();
    const ChunkDevice device(problem);
    const auto result = device.run(&chunk_attention_fast<64, 4>);
    for (int head = 0; head < 4; ++head)
        for (int d = 0; d < 64; ++d) CHECK(std::isnan(result.o[std::size_t(head * 64 + d)]) == (head == 2));
}

TEST_CASE("the fast mode is for int8 caches, and never chosen by itself") {
    const ChunkShape shape{.head_dim = 64, .group = 4, .format = KvFormat::f16};
    const ChunkCase problem(shape);
    const ChunkDevice device(problem);
    const auto run = [&] { chunk_attention<64, KvFormat::f16, 4>(device.args(), ChunkVariant::fast); };
    CHECK_THROWS_AS(run(), Unsupported);
    CHECK(choose_chunk_variant(arch::current_device()) != ChunkVariant::fast);
}
