// FlashAttentionDPP against the float64 oracle: shapes, masks, groups of heads, formats, memory layouts.
//
// Tolerances (derivation: docs/numerics.md). The library promises 5e-6 on o for inputs in [-1, 1]; the kernel stays
// below 1e-7 there, so the tests ask for 1e-6. lse is near log(Sk) < 8 and rounds to half a unit of 4.8e-7 a few times.
#include "support.h"

#include <array>

using namespace waveattn;
using namespace waveattn::test;

namespace {
constexpr double fp32_tolerance = 1e-6, lse_tolerance = 4e-6;
// Half a unit in the last place of a value up to 1, and the fp32 error.
template <class T> constexpr double rounding_of_one = 0;
template <> constexpr double rounding_of_one<bfloat16> = 0x1p-9 + fp32_tolerance;
template <> constexpr double rounding_of_one<float16> = 0x1p-12 + fp32_tolerance;
constexpr std::array<std::array<int, 2>, 6> lengths = {{{67, 67}, {17, 131}, {131, 17}, {1, 50}, {50, 1}, {128, 64}}};
constexpr Causal rules[] = {Causal::none, Causal::top_left, Causal::bottom_right};
} // namespace

TEST_CASE("fp32 is within 1e-6 of float64 for every head_dim, length and causal rule") {
    int turn = 0;
    for (int dim : {1, 2, 3, 8, 16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256})
        for (const auto& [q_len, kv_len] : lengths)
            for (Causal causal : rules) {
                if (!full() && ++turn % 6 != dim % 6) continue; // each dim meets each length or rule
                Problem p{make_shape(1, 2, 1, q_len, kv_len, dim), causal};
                p.seed = unsigned(dim);
                const auto in = make_inputs<float>(p);
                check_against_oracle(p, in, run_flash<float>(p, in), fp32_tolerance, lse_tolerance);
            }
}

TEST_CASE("data of every kind") {
    // The error of a score grows with the score (docs/numerics.md): up to 3e4 in base 2 for `large`, whose unit in the
    // last place is 2e-3; 1e3 for `sinks`; 30 for the others. o follows it times |v| times the weight of the runner-up.
    for (Data data : all_data)
        for (Causal causal : rules) {
            Problem p{make_shape(1, 1, 1, 45, 77, 64), causal, data};
            const auto in = make_inputs<float>(p);
            const auto tolerance = [data](double large, double sinks, double plain) {
                return data == Data::large ? large : data == Data::sinks ? sinks : plain;
            };
            check_against_oracle(
                p, in, run_flash<float>(p, in), tolerance(2e-3, 2e-4, 2e-6), tolerance(4e-3, 1e-4, 4e-6));
        }
}

TEST_CASE("groups of heads, batches, and a head_dim of v that differs") {
    for (const auto& shape : {make_shape(2, 6, 2, 33, 40, 64), make_shape(3, 4, 4, 9, 65, 32, 128),
             make_shape(1, 8, 1, 20, 31, 128, 48), make_shape(2, 3, 1, 5, 7, 20, 9), make_shape(1, 2, 2, 9, 9, 8, 250)})
        for (Causal causal : rules) {
            Problem p{shape, causal};
            const auto in = make_inputs<float>(p);
            check_against_oracle(p, in, run_flash<float>(p, in), fp32_tolerance, lse_tolerance);
        }
}

TEST_CASE_TEMPLATE("bf16 and f16 are exact up to the rounding of the result", T, bfloat16, float16) {
    for (int dim : {24, 37, 64}) {
        Problem p{make_shape(1, 2, 1, 70, 45, dim), Causal::bottom_right};
        const auto in = make_inputs<T>(p);
        check_against_oracle(p, in, run_flash<T, T, 64>(p, in), rounding_of_one<T>, lse_tolerance);
        check_against_oracle(p, in, run_flash<T, float, 64>(p, in), fp32_tolerance, lse_tolerance);
    }
}

TEST_CASE_TEMPLATE("every memory layout gives the bits of contiguous memory, every time", T, float, bfloat16) {
    for (int dim : {32, 59, 64})
        for (Layout layout : all_layouts) {
            Problem p{make_shape(2, 4, 2, 37, 50, dim), Causal::top_left};
            p.layout = layout;
            const auto in = make_inputs<T>(p);
            const auto strided = run_flash<T, T, 64>(p, in);
            p.layout = Layout::bhsd;
            const auto contiguous = run_flash<T, T, 64>(p, in);
            INFO(layout_name(layout), " D", dim);
            CHECK(bit_equal(strided.o, contiguous.o));
            CHECK(bit_equal(strided.lse, contiguous.lse));
        }
}

TEST_CASE("scale: zero, negative, large") {
    for (float scale : {0.f, -0.3f, 5.f}) {
        Problem p{make_shape(1, 1, 1, 20, 37, 64), Causal::top_left};
        p.scale = scale;
        const auto in = make_inputs<float>(p);
        check_against_oracle(p, in, run_flash<float>(p, in), 2e-5, 2e-5);
    }
}
