// Whether strided tensors share memory, against sets of bytes and for the layouts that callers have.
#include <doctest/doctest.h>

#include "waveattn/core/numeric.h"
#include "waveattn/core/overlap.h"

#include <random>
#include <vector>

using namespace waveattn;

namespace {

// An address, at which nothing is read or written.
template <class T> T* somewhere() { return reinterpret_cast<T*>(std::uintptr_t(1) << 32); }

struct Strided {
    std::int64_t start; // bytes
    int rank, element_bytes;
    std::int64_t shape[3], stride[3];

    MemoryLayout layout(const char* base) const { return {base + start, rank, shape, stride, element_bytes}; }
    void mark(std::vector<char>& bytes, std::int64_t origin, char bit) const {
        for (std::int64_t i = 0; i < shape[0]; ++i)
            for (std::int64_t j = 0; j < (rank > 1 ? shape[1] : 1); ++j)
                for (std::int64_t k = 0; k < (rank > 2 ? shape[2] : 1); ++k)
                    for (int byte = 0; byte < element_bytes; ++byte) {
                        std::int64_t at = i * stride[0];
                        if (rank > 1) at += j * stride[1];
                        if (rank > 2) at += k * stride[2];
                        bytes[std::size_t(origin + start + at * element_bytes + byte)] |= bit;
                    }
    }
};

} // namespace

TEST_CASE("any strides: as the sets of bytes say") {
    std::mt19937 random(3);
    const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    const char* const base = somewhere<char>();
    int shared = 0, interleaved = 0;
    for (int trial = 0; trial < 20000; ++trial) {
        const auto make = [&] {
            Strided tensor{pick(0, 60), pick(1, 3), 1 << pick(0, 2), {}, {}};
            for (int i = 0; i < tensor.rank; ++i)
                tensor.shape[i] = trial % 50 ? pick(1, 4) : pick(0, 1), tensor.stride[i] = pick(-3, 12);
            return tensor;
        };
        const Strided a = make(), b = make();
        constexpr std::int64_t origin = 200; // three axes of up to 3 steps of -3 elements of 4 bytes
        std::vector<char> bytes(1000);
        a.mark(bytes, origin, 1), b.mark(bytes, origin, 2);
        const bool wanted = std::find(bytes.begin(), bytes.end(), 3) != bytes.end();
        const MemoryLayout one = a.layout(base), other = b.layout(base);
        REQUIRE(sharing(one, other) == (wanted ? Sharing::shared : Sharing::apart));
        REQUIRE(sharing(other, one) == sharing(one, other));
        shared += wanted;
        const auto span = [&](char bit) {
            const auto has = [&](char value) { return (value & bit) != 0; };
            return std::pair(std::find_if(bytes.begin(), bytes.end(), has) - bytes.begin(),
                bytes.rend() - std::find_if(bytes.rbegin(), bytes.rend(), has));
        };
        const auto [begin_a, end_a] = span(1);
        const auto [begin_b, end_b] = span(2);
        interleaved += !wanted && begin_a < end_b && begin_b < end_a;
    }
    CHECK(shared > 4000); // both answers, and the one that ends of memory do not tell
    CHECK(interleaved > 1000);
}
TEST_CASE("parts of one packed tensor") {
    constexpr std::int64_t batch = 3, tokens = 1000, heads = 8, dim = 64;
    bfloat16* const base = somewhere<bfloat16>();
    // (batch, token, 4, head, dim), (batch, token, head, 4 dim), and heads of q, k, v, o in one axis: parts as
    // (batch, head, token, dim).
    const auto part = [&](std::int64_t first, std::int64_t count, std::int64_t head_stride, std::int64_t row,
                          std::int64_t width = 64) {
        TensorView<bfloat16, 4> view;
        view.data = base + first;
        const std::int64_t shape[] = {batch, count, tokens, width}, stride[] = {tokens * row, head_stride, row, 1};
        std::copy(shape, shape + 4, view.shape), std::copy(stride, stride + 4, view.stride);
        return MemoryLayout(view);
    };
    constexpr std::int64_t row = 4 * heads * dim;
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const Sharing wanted = i == j ? Sharing::shared : Sharing::apart;
            CHECK(sharing(part(i * heads * dim, heads, dim, row), part(j * heads * dim, heads, dim, row)) == wanted);
            CHECK(sharing(part(i * dim, heads, 4 * dim, row), part(j * dim, heads, 4 * dim, row)) == wanted);
        }
    // Grouped heads; one head or one dim too many; rows that start a byte early.
    const auto q = part(0, 6, dim, 10 * dim), k = part(6 * dim, 2, dim, 10 * dim);
    CHECK(sharing(q, k) == Sharing::apart);
    CHECK(sharing(part(0, 7, dim, 10 * dim), k) == Sharing::shared);
    CHECK(sharing(part(0, 6, dim, 10 * dim, dim + 1), k) == Sharing::shared);
    CHECK(sharing(part(6 * dim - 1, 2, dim, 10 * dim), q) == Sharing::shared);
    // A part of every row against one row, one batch entry, and all of the memory.
    const auto rows = [&](std::int64_t first, std::int64_t count) {
        return MemoryLayout(base + first, count * std::int64_t(sizeof(bfloat16)));
    };
    CHECK(sharing(k, rows(17 * 10 * dim, 6 * dim)) == Sharing::apart);
    CHECK(sharing(k, rows(17 * 10 * dim, 6 * dim + 1)) == Sharing::shared);
    CHECK(sharing(k, rows(0, batch * tokens * 10 * dim)) == Sharing::shared);
    CHECK(sharing(k, rows(batch * tokens * 10 * dim, 1000)) == Sharing::apart);
    // Tensors of different widths of elements, reversed and expanded axes.
    float* const floats = somewhere<float>();
    const std::int64_t shape[] = {50, 4}, even[] = {8, 1}, reversed[] = {-8, 1}, expanded[] = {0, 1};
    CHECK(sharing({floats, 2, shape, even, 4}, {floats + 4, 2, shape, even, 4}) == Sharing::apart);
    CHECK(sharing({floats, 2, shape, even, 4}, {floats + 3, 2, shape, even, 4}) == Sharing::shared);
    CHECK(sharing({floats, 2, shape, even, 4}, {floats + 4 + 49 * 8, 2, shape, reversed, 4}) == Sharing::apart);
    CHECK(sharing({floats, 2, shape, even, 4}, {floats + 49 * 8, 2, shape, reversed, 4}) == Sharing::shared);
    CHECK(sharing({floats, 2, shape, even, 4}, {floats + 4, 2, shape, expanded, 4}) == Sharing::apart);
    CHECK(sharing({floats, 2, shape, even, 4}, {floats, 2, shape, expanded, 4}) == Sharing::shared);
}
TEST_CASE("nothing shares with an empty tensor; strides that hide the answer") {
    const char* const base = somewhere<char>();
    const std::int64_t empty[] = {4, 0}, strides[] = {1, 1};
    CHECK(sharing({base, 2, empty, strides, 4}, {base, 100}) == Sharing::apart);
    CHECK(sharing({base, 100}, {base, 0}) == Sharing::apart);
    // Even and odd bytes, a coset that bounds do not show: either given up or told apart, never "shared".
    const std::int64_t many[] = {40, 40, 40, 40}, a[] = {2 * 10007, 2 * 10009, 2 * 10037, 2 * 10039};
    const std::int64_t b[] = {2 * 10061, 2 * 10067, 2 * 10069, 2 * 10079};
    CHECK(sharing({base, 4, many, a, 1}, {base + 1, 4, many, b, 1}) == Sharing::undecided);
}
