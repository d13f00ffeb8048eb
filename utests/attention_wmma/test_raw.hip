// FlashAttentionWmmaDPP on bf16 and f16 tensors against the float64 oracle: shapes, masks, data, layouts, options.
#include "support.h"

#include <array>

using namespace waveattn;
using namespace waveattn::test;

namespace {
constexpr Causal rules[] = {Causal::none, Causal::top_left, Causal::bottom_right};
} // namespace

TEST_CASE("every kind of data, bf16 and f16") {
    for (Data data : all_data)
        for (Causal causal : {Causal::none, Causal::bottom_right}) {
            Problem p{make_shape(1, 2, 1, 45, 147, 64), causal, data};
            auto in = make_inputs<bfloat16>(p);
            MESSAGE(p.text(), " bf16: ", check_wmma(p, in, run_wmma<bfloat16, float, 64>(p, in)));
            in = make_inputs<float16>(p);
            MESSAGE(p.text(), " f16: ", check_wmma(p, in, run_wmma<float16, float, 64>(p, in)));
        }
}

TEST_CASE("o has the same bits with and without lse, which is not written where it is not asked for") {
    auto same = [](auto element, auto head_dim, int dim) {
        using T = decltype(element);
        Problem p{make_shape(1, 2, 1, 35, 150, dim), Causal::bottom_right, Data::sinks};
        const auto in = make_inputs<T>(p);
        const auto with = run_wmma<T, float, decltype(head_dim)::value>(p, in);
        const auto without = run_wmma<T, float, decltype(head_dim)::value>(p, in, iop::Chain<>{}, false);
        INFO(p.text());
        CHECK(bit_equal(with.o, without.o));
        // The fill of untouched memory is a NaN.
        CHECK(std::all_of(without.lse.begin(), without.lse.end(), [](float x) { return std::isnan(x); }));
    };
    for (int dim : {64, 57}) {
        same(bfloat16{}, std::integral_constant<int, 64>{}, dim);
        same(float16{}, std::integral_constant<int, 64>{}, dim);
    }
    same(bfloat16{}, std::integral_constant<int, 128>{}, 128);
    same(float16{}, std::integral_constant<int, 128>{}, 128);
    same(bfloat16{}, std::integral_constant<int, 256>{}, 256);
}

TEST_CASE("lse of long rows") {
    for (Data data : {Data::gaussian, Data::structured}) {
        Problem p{make_shape(1, 1, 1, 3, 4099, 64), Causal::none, data};
        const auto in = make_inputs<bfloat16>(p);
        MESSAGE(p.text(), ": ", check_wmma(p, in, run_wmma<bfloat16, float, 64>(p, in)));
        p.scale = 0.f; // all weights are 1
        check_wmma(p, in, run_wmma<bfloat16, float, 64>(p, in));
    }
}

TEST_CASE("attention over parts of the keys, merged by lse, is attention over all keys") {
    const std::size_t dim = 64, rows = 20, first = 70;
    Problem p{make_shape(1, 1, 1, rows, 150, dim), Causal::none, Data::gaussian};
    const auto in = make_inputs<bfloat16>(p);
    const auto want = attention_oracle(in.q, in.k, in.v, p.shape, p.causal, p.scale_used());
    const auto cut = std::ptrdiff_t(first * dim);
    Problem low = p, high = p;
    low.shape.kv_len = first, high.shape.kv_len = 150 - first;
    const auto a = run_wmma<bfloat16, float, 64>(
        low, {in.q, {in.k.begin(), in.k.begin() + cut}, {in.v.begin(), in.v.begin() + cut}});
    const auto b =
        run_wmma<bfloat16, float, 64>(high, {in.q, {in.k.begin() + cut, in.k.end()}, {in.v.begin() + cut, in.v.end()}});
    std::vector<double> merged(rows * dim);
    std::vector<float> lse(rows);
    for (std::size_t row = 0; row < rows; ++row) {
        const double x = a.lse[row], y = b.lse[row], all = std::max(x, y) + std::log1p(std::exp(-std::abs(x - y)));
        lse[row] = float(all);
        for (std::size_t d = row * dim; d < (row + 1) * dim; ++d)
            merged[d] = std::exp(x - all) * a.o[d] + std::exp(y - all) * b.o[d];
    }
    CHECK(compare(merged, want.o).max_abs <= general_tolerance(in));
    CHECK(lse_error(lse, want.lse) <= lse_tolerance);
}

TEST_CASE("f16 weights have 11 bits") {
    // Rounding of a weight: 2^-10 at most, towards zero; half the worst case as in support.h.
    for (Causal causal : rules) {
        Problem p{make_shape(1, 2, 1, 70, 150, 128), causal};
        const auto in = make_inputs<float16>(p);
        check_wmma(p, in, run_wmma<float16, float, 128>(p, in), 0x1p-10 * 0.5);
    }
}

TEST_CASE("lengths around the tiles, each causal rule") {
    int turn = 0;
    for (int q_len : {1, 15, 16, 17, 127, 128, 129})
        for (int kv_len : {1, 31, 32, 33, 63, 65, 130})
            for (Causal causal : rules) {
                if (!full() && ++turn % 5 != 0) continue;
                Problem p{make_shape(1, 2, 1, q_len, kv_len, 64), causal};
                p.seed = unsigned(turn);
                const auto in = make_inputs<bfloat16>(p);
                // A few keys do not average errors out.
                check_wmma(p, in, run_wmma<bfloat16, float, 64>(p, in), general_tolerance(in));
            }
}

TEST_CASE("head_dims that no tile has, and a head_dim of v that differs") {
    auto run = [](auto head_dim, int dim, int dim_v) {
        Problem p{make_shape(1, 2, 1, 35, 70, dim, dim_v), Causal::top_left};
        const auto in = make_inputs<bfloat16>(p);
        check_wmma(p, in, run_wmma<bfloat16, float, decltype(head_dim)::value>(p, in));
    };
    run(std::integral_constant<int, 64>{}, 40, 40);
    run(std::integral_constant<int, 64>{}, 63, 17);
    run(std::integral_constant<int, 64>{}, 1, 64);
    run(std::integral_constant<int, 96>{}, 96, 96);
    run(std::integral_constant<int, 96>{}, 80, 72);
    run(std::integral_constant<int, 128>{}, 112, 128);
    run(std::integral_constant<int, 128>{}, 101, 101);
    run(std::integral_constant<int, 256>{}, 256, 256);
    run(std::integral_constant<int, 256>{}, 160, 200);
}

TEST_CASE("every memory layout gives the bits of contiguous memory, every time") {
    for (int dim : {48, 64})
        for (Layout layout : all_layouts) {
            Problem p{make_shape(2, 4, 2, 37, 50, dim), Causal::top_left};
            p.layout = layout;
            const auto in = make_inputs<bfloat16>(p);
            const auto strided = run_wmma<bfloat16, bfloat16, 64>(p, in);
            p.layout = Layout::bhsd;
            const auto contiguous = run_wmma<bfloat16, bfloat16, 64>(p, in);
            INFO(layout_name(layout), " D", dim);
            CHECK(bit_equal(strided.o, contiguous.o));
            CHECK(bit_equal(strided.lse, contiguous.lse));
            check_wmma(p, in, contiguous, uniform_tolerance + 0x1p-9);
        }
}

TEST_CASE("groups of heads: rows of several heads share a tile where the sequence is short") {
    for (const auto& shape : {make_shape(2, 8, 2, 5, 70, 64), make_shape(1, 6, 2, 33, 40, 64),
             make_shape(1, 8, 1, 1, 131, 64), make_shape(1, 4, 2, 130, 64, 64), make_shape(3, 3, 3, 17, 20, 64)})
        for (Causal causal : rules) {
            Problem p{shape, causal, Data::gaussian};
            const auto in = make_inputs<bfloat16>(p);
            check_wmma(p, in, run_wmma<bfloat16, float, 64>(p, in));
        }
}

TEST_CASE("a later score that exceeds the reference by far, and by little") {
    // The largest score of a row grows from tile to tile: by less than the lazy threshold, and by thousands.
    for (float step : {0.5f, 3.f, 1000.f, -1000.f}) {
        Problem p{make_shape(1, 1, 1, 20, 200, 64), Causal::none, Data::gaussian};
        Inputs in = make_inputs<bfloat16>(p);
        for (std::size_t key = 0; key < 200; ++key) in.k[key * 64] = float(key / 32) * step;
        for (std::size_t row = 0; row < 20; ++row) in.q[row * 64] = 1.f + float(row) / 8;
        in.q = rounded<bfloat16>(in.q), in.k = rounded<bfloat16>(in.k);
        check_wmma(p, in, run_wmma<bfloat16, float, 64>(p, in));
        check_wmma(p, in, run_wmma<float16, float, 64>(p, in));
    }
}

TEST_CASE("scale: zero, negative, tiny, large") {
    for (float scale : {0.f, -0.3f, 1e-30f, 5.f}) {
        Problem p{make_shape(1, 1, 1, 20, 100, 64), Causal::top_left};
        p.scale = scale;
        const auto in = make_inputs<bfloat16>(p);
        check_wmma(p, in, run_wmma<bfloat16, float, 64>(p, in));
    }
}

TEST_CASE("rows without a visible key are 0, with a logarithm of -infinity") {
    Problem p{make_shape(1, 2, 1, 40, 9, 64), Causal::bottom_right, Data::structured};
    const auto in = make_inputs<bfloat16>(p);
    const auto result = run_wmma<bfloat16, float, 64>(p, in);
    check_wmma(p, in, result); // the oracle has 0 and -infinity there
    CHECK(result.o[0] == 0.f);
    CHECK(result.lse[30] == -std::numeric_limits<float>::infinity());
    CHECK(std::isfinite(result.lse[31]));

    p = Problem{make_shape(2, 2, 1, 7, 0, 40)}; // no keys at all
    const auto empty = run_wmma<bfloat16, float, 64>(p, make_inputs<bfloat16>(p));
    CHECK(std::all_of(empty.o.begin(), empty.o.end(), [](float x) { return x == 0.f; }));
    for (const auto& shape :
        {make_shape(0, 2, 1, 5, 5, 16), make_shape(2, 2, 1, 0, 5, 16), make_shape(2, 0, 0, 5, 5, 16)}) {
        p = Problem{shape};
        CHECK(run_wmma<bfloat16, float, 64>(p, make_inputs<bfloat16>(p)).o.empty());
    }
}

TEST_CASE("NaN in q stays in its row, NaN in a key reaches the rows that see it") {
    Problem p{make_shape(1, 1, 1, 40, 70, 64), Causal::none, Data::gaussian};
    Inputs in = make_inputs<bfloat16>(p);
    in.q[5 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
    auto result = run_wmma<bfloat16, float, 64>(p, in);
    for (std::size_t row = 0; row < 40; ++row) CHECK(std::isnan(result.o[row * 64]) == (row == 5));
    in = make_inputs<bfloat16>(p);
    in.k[50 * 64 + 3] = std::numeric_limits<float>::quiet_NaN(); // of the second tile
    p.causal = Causal::bottom_right;
    result = run_wmma<bfloat16, float, 64>(p, in);
    for (std::size_t row = 0; row < 40; ++row) CHECK(std::isnan(result.lse[row]) == (row + 30 >= 50));
}

TEST_CASE("each lever alone and none: the same attention") {
    Problem p{make_shape(1, 2, 1, 140, 150, 64), Causal::bottom_right, Data::sinks};
    const auto in = make_inputs<bfloat16>(p);
    constexpr WmmaTuning plain{WmmaV::scattered_lds, WmmaProbability::hardware_cast, WmmaQk::automatic, 0};
    constexpr WmmaTuning eager{WmmaV::transposed_lds, WmmaProbability::packed, WmmaQk::automatic, 0};
    constexpr WmmaTuning direct{WmmaV::transposed_registers, WmmaProbability::hardware};
    constexpr WmmaTuning often{WmmaV::transposed_lds, WmmaProbability::packed, WmmaQk::automatic, 1};
    check_wmma(p, in, run_wmma<bfloat16, float, 64, 32, 8, plain>(p, in));
    check_wmma(p, in, run_wmma<bfloat16, float, 64, 32, 4, eager>(p, in));
    check_wmma(p, in, run_wmma<bfloat16, float, 64, 32, 8, direct>(p, in));
    check_wmma(p, in, run_wmma<bfloat16, float, 64, 48, 2, often>(p, in));
}

TEST_CASE("NaN and infinities in v reach the rows that see their keys: types, head_dims, levers") {
    Problem p{make_shape(1, 2, 1, 140, 150, 64), Causal::bottom_right};
    auto with = [&](auto element, auto&& run) { check_non_finite_values<decltype(element)>(p, run); };
    constexpr WmmaTuning plain{WmmaV::scattered_lds, WmmaProbability::hardware_cast, WmmaQk::automatic, 0};
    constexpr WmmaTuning direct{WmmaV::transposed_registers, WmmaProbability::hardware};
    constexpr WmmaTuning often{WmmaV::transposed_lds, WmmaProbability::packed, WmmaQk::automatic, 1};
    with(float16{}, [&](const Inputs& in) { return run_wmma<float16, float, 64>(p, in); });
    with(bfloat16{}, [&](const Inputs& in) { return run_wmma<bfloat16, float, 64, 32, 8, plain>(p, in); });
    with(bfloat16{}, [&](const Inputs& in) { return run_wmma<bfloat16, float, 64, 32, 8, direct>(p, in); });
    with(bfloat16{}, [&](const Inputs& in) { return run_wmma<bfloat16, float, 64, 48, 2, often>(p, in); });
    for (int dim : {128, 128 - 3}) {
        p.shape = make_shape(1, 1, 1, 70, 90, dim);
        with(bfloat16{}, [&](const Inputs& in) { return run_wmma<bfloat16, float, 128>(p, in); });
    }
    p.shape = make_shape(1, 1, 1, 70, 90, 256);
    with(bfloat16{}, [&](const Inputs& in) { return run_wmma<bfloat16, float, 256>(p, in); });
}
