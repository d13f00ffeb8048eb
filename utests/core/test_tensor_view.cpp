// Strided views, division, text of errors.
#include <doctest/doctest.h>

#include "waveattn/attention/problem.h"
#include "waveattn/core/divide.h"

using namespace waveattn;

TEST_CASE("contiguous views and partial indices") {
    float memory[2 * 3 * 4];
    const auto view = make_contiguous(memory, 2, 3, 4);
    static_assert(decltype(view)::rank == 3);
    CHECK(view.size() == 24);
    CHECK(view.offset(1, 2, 3) == 23);
    CHECK(view.at(1) == memory + 12);
    CHECK(view.at(1, 1) == memory + 16);
    const TensorView<const float, 3> constant = view;
    CHECK(constant.at(0, 2, 1) == memory + 9);
    CHECK(make_contiguous(memory, 2, 0, 4).empty());
}

TEST_CASE("exchanged axes address the same memory") {
    int memory[2 * 3 * 4];
    const auto bshd = make_contiguous(memory, 1, 2, 3, 4); // batch, token, head, dim
    const auto bhsd = swap_axes(bshd, 1, 2);
    CHECK(bhsd.shape[1] == 3);
    CHECK(bhsd.at(0, 2, 1, 3) == bshd.at(0, 1, 2, 3));
}

TEST_CASE("offsets are 64-bit") {
    TensorView<char, 2> view;
    view.shape[0] = 3, view.shape[1] = 1;
    view.stride[0] = std::int64_t(1) << 33, view.stride[1] = 1;
    CHECK(view.offset(2u) == std::int64_t(1) << 34);
    CHECK(make_contiguous((char*)nullptr, 70000, 70000).size() == 4900000000);
}

TEST_CASE("rows_aligned looks at the pointer and every stride but the last") {
    alignas(16) float memory[64];
    auto view = make_contiguous(memory, 2, 2, 8);
    CHECK(rows_aligned(view, 16));
    view.data = memory + 1;
    CHECK_FALSE(rows_aligned(view, 16));
    CHECK(rows_aligned(view, 4));
    view.data = memory, view.stride[1] = 9;
    CHECK_FALSE(rows_aligned(view, 16));
    view.shape[1] = 1; // a stride that is never taken
    CHECK(rows_aligned(view, 16));
}

TEST_CASE("division") {
    CHECK(ceil_div(0, 4) == 0);
    CHECK(ceil_div(1, 4) == 1);
    CHECK(ceil_div(8, 4) == 2);
    CHECK(round_up(9, 4) == 12);
    static_assert(ceil_div(std::int64_t(1) << 40, std::int64_t(3)) == 366503875926);
}

TEST_CASE("errors carry their text and their place in the hierarchy") {
    CHECK_THROWS_WITH_AS(require(false, "got ", 3, " of ", 4.5), "got 3 of 4.5", InvalidArgument);
    CHECK_THROWS_AS(require<Unsupported>(false, ""), Error);
    CHECK_NOTHROW(require(true, "never"));
    static_assert(
        std::is_base_of_v<RuntimeFailure, HipFailure> && std::is_base_of_v<RuntimeFailure, UnsupportedDevice>);
    try {
        check_hip(hipErrorOutOfMemory, "hipMalloc");
        FAIL("no error");
    } catch (const HipFailure& error) {
        CHECK(error.code == hipErrorOutOfMemory);
        CHECK(std::string(error.what()).starts_with("hipMalloc: hipErrorOutOfMemory"));
    }
}

TEST_CASE("causal rules and the default scale") {
    const AttentionShape shape{1, 4, 2, 10, 30, 64, 64};
    CHECK(causal_offset(Causal::top_left, shape) == 0);
    CHECK(causal_offset(Causal::bottom_right, shape) == 20); // the last query sees the last key
    CHECK(causal_offset(Causal::none, shape) >= 29);
    CHECK(shape.group() == 2);
    CHECK(score_scale({}, shape) == 0.125f);
    CHECK(score_scale({.scale = 0.f}, shape) == 0.f);
}
