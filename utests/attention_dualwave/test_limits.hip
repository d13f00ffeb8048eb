// Rows far apart in memory, and scores at the end of fp32.
#include "support.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {

constexpr std::int64_t bound = std::int64_t(1) << 20; // elements from row to row that the fast path takes

// Device memory in which the rows of four tensors alternate, `stride` elements from row to row. Nearly all of it is
// never touched.
struct SparseRows {
    std::int64_t stride;
    bfloat16* memory = nullptr;

    SparseRows(std::int64_t stride, std::int64_t rows) : stride(stride) {
        check_hip(hipMalloc(reinterpret_cast<void**>(&memory), std::size_t((rows - 1) * stride + 4 * 64) * 2), "alloc");
    }
    SparseRows(const SparseRows&) = delete;
    SparseRows& operator=(const SparseRows&) = delete;
    ~SparseRows() { (void)hipFree(memory); }

    TensorView<bfloat16, 4> tensor(int which, std::int64_t rows) const {
        auto view = make_contiguous(memory + 64 * which, std::int64_t(1), std::int64_t(1), rows, std::int64_t(64));
        view.stride[2] = stride;
        return view;
    }
    static void put(const TensorView<bfloat16, 4>& view, const std::vector<float>& values) {
        const auto codes = encode<bfloat16>(values);
        for (std::int64_t i = 0; i < view.shape[2]; ++i)
            check_hip(hipMemcpy(view.at(0, 0, i), codes.data() + i * 64, 128, hipMemcpyHostToDevice), "copy");
    }
    static std::vector<bfloat16> get(const TensorView<bfloat16, 4>& view) {
        std::vector<bfloat16> codes(std::size_t(view.shape[2] * 64));
        for (std::int64_t i = 0; i < view.shape[2]; ++i)
            check_hip(hipMemcpy(codes.data() + i * 64, view.at(0, 0, i), 128, hipMemcpyDeviceToHost), "copy");
        return codes;
    }
};

} // namespace

TEST_CASE("loads of 16 bytes cover rows up to 2^20 elements apart") {
    alignas(16) static bfloat16 memory[64];
    for (auto [stride, wanted] : {std::pair{bound - 8, true}, {bound, true}, {bound + 1, false}, {bound + 8, false}}) {
        auto view = make_contiguous(memory, std::int64_t(1), std::int64_t(1), std::int64_t(2), std::int64_t(64));
        view.stride[2] = stride;
        CHECK(detail::dualwave_rows(view, 64) == wanted);
    }
}
TEST_CASE("values of rows far apart") {
    // At the bound with more than 2 GiB of K and V, which one buffer resource does not span; one chunk beyond; and so
    // far apart that an offset of 32 bits does not reach the second row, nor the third.
    for (auto [stride, q_len, kv_len] :
        {std::tuple{bound, std::int64_t(70), std::int64_t(1100)}, {bound + 8, std::int64_t(70), std::int64_t(150)},
            {std::int64_t(1) << 30, std::int64_t(3), std::int64_t(3)},
            {std::int64_t(3) << 29, std::int64_t(2), std::int64_t(3)}}) {
        const Case c{.shape = {1, 1, 1, q_len, kv_len, 64, 64}};
        INFO(text(c), " stride ", stride);
        const Inputs in = make_inputs<bfloat16>(c);
        const SparseRows rows(stride, std::max(q_len, kv_len));
        const auto q = rows.tensor(0, q_len), k = rows.tensor(1, kv_len), v = rows.tensor(2, kv_len);
        const auto o = rows.tensor(3, q_len);
        SparseRows::put(q, in.q), SparseRows::put(k, in.k), SparseRows::put(v, in.v);
        executeFlashAttentionDualwave<0, bfloat16>(q, k, v, o);
        check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
        const Oracle want = attention_oracle(in.q, in.k, in.v, c.shape, c.causal, 1 / 8.0);
        CHECK(compare(SparseRows::get(o), want.o).relative_l2 <= l2_bound<bfloat16>);
    }
}
TEST_CASE("a score beyond fp32 makes its row NaN, one below it has a weight of 0") {
    const float infinity = std::numeric_limits<float>::infinity();
    for (SoftmaxBasis basis : {SoftmaxBasis::online, SoftmaxBasis::pinned})
        for (std::int64_t key : {0, 40, 100, 199}) // in the tile that sets the basis, and in later ones
            for (float size : {8.f, -8.f}) {
                const Case c{.shape = {1, 1, 1, 40, 200, 64, 64}, .basis = basis, .scale = 1e38f};
                INFO(text(c), " key ", key, " size ", size);
                Inputs in = make_inputs<bfloat16>(c);
                std::fill(in.q.begin(), in.q.end(), 0.f), std::fill(in.k.begin(), in.k.end(), 0.f);
                constexpr std::int64_t row = 7; // the only one whose scores are not all 0
                in.q[row * 64] = 1.f, in.k[std::size_t(key * 64)] = size;
                const auto got = run<bfloat16>(c, in);
                const Oracle want = attention_oracle(in.q, in.k, in.v, c.shape, c.causal, 1e38);
                for (std::int64_t i = 0; i < 40; ++i) {
                    const bool hit = i == row && size > 0;
                    CHECK((got.lse[std::size_t(i)] == infinity) == hit);
                    CHECK(got.lse[std::size_t(i)] > 0);
                    for (std::int64_t d = 0; d < 64; ++d) {
                        const std::size_t at = std::size_t(i * 64 + d);
                        if (hit)
                            CHECK(std::isnan(to_float(got.o[at])));
                        else // a mean of 199 or 200 values of v
                            CHECK(to_float(got.o[at]) == doctest::Approx(want.o[at]).epsilon(0x1p-8).scale(0.01));
                    }
                }
            }
}
