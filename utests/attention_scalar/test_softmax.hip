// executeSoftmax against float64: |difference| <= 1e-6, of which 2^-24 is the rounding of a result up to 1 and the rest
// that of the exponential (1 ulp of v_exp_f32, and |x - max| * 2^-24 from its argument, weighted by the result).
#include "support.h"

#include "waveattn/attention/softmax.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {
std::vector<double> oracle(const std::vector<float>& in, std::int64_t columns) {
    std::vector<double> out(in.size());
    for (std::size_t first = 0; first < in.size(); first += std::size_t(columns)) {
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (std::int64_t i = 0; i < columns; ++i) largest = std::max(largest, double(in[first + i]));
        for (std::int64_t i = 0; i < columns; ++i) sum += std::exp(in[first + i] - largest);
        for (std::int64_t i = 0; i < columns; ++i) out[first + i] = std::exp(in[first + i] - largest) / sum;
    }
    return out;
}
} // namespace

TEST_CASE("rows of any length") {
    for (std::int64_t columns : {1, 2, 31, 64, 127, 130, 1000, 1024, 1025, 4099, 9000})
        for (Data data : {Data::uniform, Data::large}) {
            const std::int64_t rows = columns > 1024 ? 3 : 11;
            const auto in = make_values(data, 1, 1, rows, columns, unsigned(columns));
            const DeviceArray<float> x(in), y(in.size());
            executeSoftmax(x.data(), y.data(), rows, columns);
            INFO("columns ", columns, " ", data_name(data));
            CHECK(compare(y.host(), oracle(in, columns)).max_abs <= 1e-6);
            CHECK(y.guards_intact());
        }
}

TEST_CASE_TEMPLATE("strided views of every format", T, float, bfloat16, float16) {
    for (Layout layout : {Layout::bhsd, Layout::bshd, Layout::sliced}) {
        const auto in = rounded<T>(make_values(Data::gaussian, 2, 3, 5, 37, 3));
        const auto x = place<T>(in, 2, 3, 5, 37, layout);
        const auto y = place<float>({}, 2, 3, 5, 37, layout);
        executeSoftmax(make_attention_read(x.view), make_attention_write(y.view));
        CHECK(compare(y.values(), oracle(in, 37)).max_abs <= 1e-6);
        CHECK(y.surroundings_intact());
    }
}

TEST_CASE("prologue and epilogue") {
    auto in = make_values(Data::gaussian, 1, 1, 4, 50, 9);
    const DeviceArray<float> x(in), y(in.size());
    executeSoftmax(make_attention_read(x.data(), 1, 4, 50).then(iop::Mul{0.5f}),
        make_attention_write(y.data(), 1, 4, 50, epilogue(iop::Mul{3.f}, iop::Add{1.f})));
    for (float& value : in) value *= 0.5f;
    auto want = oracle(in, 50);
    for (double& value : want) value = 3 * value + 1;
    CHECK(compare(y.host(), want).max_abs <= 4e-6);
}

TEST_CASE("non-finite rows") {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    // A row with -infinity, one of -infinity only, one with +infinity, one with NaN, a plain one.
    const DeviceArray<float> x(std::vector<float>{0, -inf, 0, -inf, -inf, -inf, 0, inf, 0, nan, 0, 0, 1, 1, 1}),
        y(std::size_t(15));
    executeSoftmax(x.data(), y.data(), 5, 3);
    const auto out = y.host();
    CHECK(out[0] == doctest::Approx(0.5));
    CHECK(out[1] == 0.f);
    for (int i = 3; i < 6; ++i) CHECK(std::isnan(out[i]));
    CHECK(std::isnan(out[7]));
    for (int i = 9; i < 12; ++i) CHECK(std::isnan(out[i]));
    CHECK(out[12] == doctest::Approx(1.0 / 3));
}
