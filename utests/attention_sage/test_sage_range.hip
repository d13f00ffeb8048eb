// Magnitudes, NaN and infinity, and packed sequences with any offsets: the whole recipe, quantisation included.
#include "sage_support.h"

#include "waveattn/attention/sage_quantize.h"

#include <doctest/doctest.h>

using namespace waveattn;
using namespace waveattn::test;

namespace {

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr float inf_value = std::numeric_limits<float>::infinity();

struct Output {
    std::vector<float> o, lse;
};
// Attention on fp32 tensors; o and lse start as 77. By the recipe, or, with `block_q`, in two steps.
Output attend(const SageInputs& in, const AttentionShape& s, SageOptions options, int block_q = 0) {
    DeviceArray<float> q(in.q), k(in.k), v(in.v), o(std::vector<float>(in.q.size(), 77.f));
    DeviceArray<float> lse(std::vector<float>(std::size_t(s.batch * s.heads_q * s.q_len), 77.f));
    options.lse = make_contiguous(lse.data(), s.batch, s.heads_q, s.q_len);
    const SageStorage layout = sage_storage(s, options);
    DeviceArray<std::uint8_t> buffer(std::size_t(layout.bytes) + 256);
    std::uint8_t* base = buffer.data() + (256 - reinterpret_cast<std::uintptr_t>(buffer.data()) % 256) % 256;
    const auto q_view = make_contiguous<const float>(q.data(), s.batch, s.heads_q, s.q_len, s.head_dim);
    const auto k_view = make_contiguous<const float>(k.data(), s.batch, s.heads_kv, s.kv_len, s.head_dim);
    const auto v_view = make_contiguous<const float>(v.data(), s.batch, s.heads_kv, s.kv_len, s.head_dim);
    const auto o_view = make_contiguous(o.data(), s.batch, s.heads_q, s.q_len, s.head_dim);
    if (block_q == 0)
        executeSageAttention(q_view, k_view, v_view, o_view, options, base, std::size_t(layout.bytes));
    else
        executeSageAttention(executeSageQuantize(q_view, k_view, v_view, options, base, std::size_t(layout.bytes)),
            o_view, AttentionOptions{.causal = options.causal, .lse = options.lse}, block_q);
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    CHECK(o.guards_intact());
    CHECK(lse.guards_intact());
    CHECK(buffer.guards_intact());
    return {o.host(), lse.host()};
}
void scale_by(std::vector<float>& values, double factor) {
    for (float& value : values) value = float(value * factor);
}
struct Recipe {
    const char* name;
    bool smooth_q, hadamard;
    QScaleRows rows;
};
constexpr Recipe recipes[] = {{"smooth_k", false, false, QScaleRows::block},
    {"smooth_q", true, false, QScaleRows::block}, {"hadamard", false, true, QScaleRows::warp},
    {"smooth_q, thread", true, false, QScaleRows::thread}};
SageOptions options_of(const Recipe& recipe) {
    SageOptions options;
    options.smooth_q = recipe.smooth_q, options.hadamard = recipe.hadamard, options.q_scale_rows = recipe.rows;
    return options;
}

int count_nan(const std::vector<float>& values, std::size_t first, std::size_t count) {
    return int(std::count_if(values.begin() + std::ptrdiff_t(first), values.begin() + std::ptrdiff_t(first + count),
        [](float x) { return std::isnan(x); }));
}

} // namespace

// Keys are rows of a Hadamard matrix, queries one of them each: a score is 0 or large, so that the result is one value
// of v whatever the roundings of scores, and only fp8's rounding of v (2^-4) is left.
TEST_CASE("range: one-hot rows of any magnitude") {
    const AttentionShape s{1, 1, 1, 150, 128, 128, 128};
    SageInputs in;
    const auto sign = [](int i, int d) { return __builtin_popcount(unsigned(i & d)) % 2 ? -1.f : 1.f; };
    for (int i = 0; i < 150; ++i)
        for (int d = 0; d < 128; ++d) in.q.push_back(sign(i * 37 % 128, d));
    for (int j = 0; j < 128; ++j)
        for (int d = 0; d < 128; ++d) in.k.push_back(sign(j, d));
    in.v = make_values(Data::gaussian, 1, 1, 128, 128, 9);
    struct Magnitudes {
        double q, k, scale;
    };
    for (const Recipe& recipe : recipes)
        for (const Magnitudes& m : {Magnitudes{1, 1, 1}, {30, 30, 1}, {1e3, 1e3, 0.1}, {1e6, 1e6, 0.1}, {1, 1, 1e30},
                 {1e17, 1e17, 1}, {1e-20, 1e24, 1}, {1e30, 1e-27, 1}, {1e-39, 3e38, 1e3}, {1e36, 1e-37, 100}}) {
            if (recipe.hadamard && std::max(m.q * m.scale, m.k) > 1e36) continue; // a row turned to one channel
            CAPTURE(std::string(recipe.name));
            CAPTURE(m.q);
            CAPTURE(m.k);
            CAPTURE(m.scale);
            SageInputs scaled = in;
            scale_by(scaled.q, m.q), scale_by(scaled.k, m.k);
            SageOptions options = options_of(recipe);
            options.scale = float(m.scale);
            const Output got = attend(scaled, s, options);
            const Oracle want = attention_oracle(scaled.q, scaled.k, scaled.v, s, Causal::none, double(*options.scale));
            CHECK(compare(got.o, want.o).relative_l2 < 0.04);
            double worst = 0; // of the lse: int8's rounding of q and k, 2^-8 of the score, and fp32
            for (std::size_t i = 0; i < want.lse.size(); ++i)
                worst =
                    std::max(worst, std::abs(double(got.lse[i]) - want.lse[i]) / std::max(1.0, std::abs(want.lse[i])));
            CHECK(worst < 0.01);
        }
}

// The kernel against the oracle of the same quantised operands. Up to steps of the scores of 1/8 the folded constant is
// off by half a step (0.043 in the lse); beyond, scores are fp32.
TEST_CASE("range: Gaussian inputs of large magnitude") {
    for (double factor : {10.0, 30.0, 100.0, 1000.0})
        for (Causal causal : {Causal::none, Causal::bottom_right}) {
            CAPTURE(factor);
            const AttentionShape s{1, 2, 1, 70, 200, 64, 64};
            SageInputs in = sage_inputs(SageData::gaussian, s, 17);
            scale_by(in.q, factor), scale_by(in.k, factor);
            SageOptions options;
            options.causal = causal;
            const Output got = attend(in, s, options);
            SageHostOptions host{.scale = 0.125f, .format = device_fp8()};
            const Oracle want = quantised_oracle(sage_quantize_host(in.q, in.k, in.v, s, host), s, causal, host.format);
            CHECK(compare(got.o, want.o).relative_l2 < 0.034);
            for (std::size_t i = 0; i < want.lse.size(); ++i)
                REQUIRE(std::abs(double(got.lse[i]) - want.lse[i]) <=
                        (factor < 50 ? 0.044 : 1e-4) + 1e-6 * std::abs(want.lse[i]));
        }
}

TEST_CASE("range: values of any magnitude, subnormal ones included") {
    const AttentionShape s{1, 1, 1, 40, 150, 64, 64};
    const SageInputs in = sage_inputs(SageData::gaussian, s, 23);
    const Oracle plain = attention_oracle(in.q, in.k, in.v, s, Causal::none, 0.125);
    for (double factor : {1e-42, 1e-39, 1e-36, 1e-30, 1e-20, 1e10, 1e30, 7e37}) {
        CAPTURE(factor);
        SageInputs scaled = in;
        scale_by(scaled.v, factor);
        const Output got = attend(scaled, s, {});
        std::vector<double> want = plain.o, values(got.o.begin(), got.o.end());
        for (double& value : values) value /= factor;
        // At 1e-42 a value has 10 bits and a result is rounded to 2^-149: 1e-3 of it.
        CHECK(compare(values, want).relative_l2 < 0.05);
    }
    SageInputs zeros = in;
    scale_by(zeros.v, 0);
    for (float value : attend(zeros, s, {}).o) REQUIRE(value == 0.f);
}

TEST_CASE("non-finite: in q, that row") {
    const AttentionShape s{1, 2, 1, 150, 100, 64, 64};
    for (const Recipe& recipe : recipes)
        for (float poison : {nan_value, inf_value, -inf_value}) {
            CAPTURE(std::string(recipe.name));
            CAPTURE(poison);
            SageInputs in = sage_inputs(SageData::gaussian, s, 29);
            for (std::size_t row : {5u, 130u}) in.q[(150 + row) * 64 + 11] = poison;
            const Output got = attend(in, s, options_of(recipe));
            for (std::size_t row = 0; row < 300; ++row) {
                const int wanted = row == 155 || row == 280 ? 64 : 0;
                REQUIRE(count_nan(got.o, row * 64, 64) == wanted);
                REQUIRE(std::isnan(got.lse[row]) == (wanted > 0));
            }
        }
    SageInputs unseen = sage_inputs(SageData::gaussian, s, 29); // rows 0 ... 49 see no key
    unseen.q[7 * 64] = nan_value;
    SageOptions options;
    options.causal = Causal::bottom_right;
    const Output got = attend(unseen, s, options);
    CHECK(count_nan(got.o, 0, got.o.size()) == 0);
    CHECK(got.lse[7] == -inf_value);
}

TEST_CASE("non-finite: in k, the rows that see its tile") {
    const AttentionShape s{1, 1, 1, 200, 200, 64, 64};
    for (const Recipe& recipe : recipes)
        for (float poison : {nan_value, -inf_value}) {
            CAPTURE(std::string(recipe.name));
            SageInputs in = sage_inputs(SageData::gaussian, s, 31);
            in.k[150 * 64 + 3] = poison;
            SageOptions options = options_of(recipe);
            Output got = attend(in, s, options);
            CHECK(count_nan(got.o, 0, got.o.size()) == 200 * 64);
            options.causal = Causal::top_left;
            got = attend(in, s, options);
            CHECK(count_nan(got.o, 0, 128 * 64) == 0); // none of the tile of keys 128 ... 191
            CHECK(count_nan(got.lse, 0, 128) == 0);
            CHECK(count_nan(got.o, 150 * 64, 50 * 64) == 50 * 64);
            const Oracle want = attention_oracle(in.q, in.k, in.v, s, Causal::top_left, 0.125);
            const std::vector<float> clean(got.o.begin(), got.o.begin() + 128 * 64);
            CHECK(compare(clean, std::vector<double>(want.o.begin(), want.o.begin() + 128 * 64)).relative_l2 < 0.06);
        }
}

// `poison` at keys spread over v, in every third channel; `in` with zeros there, which changes no scale.
TEST_CASE("non-finite: in v, its channel of the rows that see its key") {
    struct Call {
        AttentionShape shape;
        Causal causal;
    };
    for (const Call& call : {Call{{1, 1, 1, 400, 400, 64, 64}, Causal::none},
             {{1, 1, 1, 400, 400, 64, 64}, Causal::top_left}, {{1, 2, 1, 150, 330, 128, 128}, Causal::bottom_right},
             {{2, 1, 1, 200, 90, 57, 57}, Causal::bottom_right}, {{1, 1, 1, 1, 100, 64, 64}, Causal::top_left}})
        for (int block_q : {128, 256}) {
            const AttentionShape& s = call.shape;
            SageInputs plain = sage_inputs(SageData::gaussian, s, 37);
            const auto dim = std::size_t(s.head_dim), keys = std::size_t(s.kv_len), rows = std::size_t(s.q_len);
            const auto key_of = [&](std::size_t plane, std::size_t channel) {
                return (channel * 29 + plane * 7) % keys;
            };
            SageInputs in = plain;
            for (std::size_t plane = 0; plane < std::size_t(s.batch * s.heads_kv); ++plane)
                for (std::size_t channel = 0; channel < dim; channel += 3) {
                    const std::size_t at = (plane * keys + key_of(plane, channel)) * dim + channel;
                    plain.v[at] = 0.f, in.v[at] = channel % 2 ? inf_value : nan_value;
                }
            SageOptions options;
            options.causal = call.causal;
            const Output without = attend(plain, s, options, block_q), got = attend(in, s, options, block_q);
            CAPTURE(s.head_dim);
            CAPTURE(int(call.causal));
            CAPTURE(block_q);
            CHECK(std::memcmp(got.lse.data(), without.lse.data(), got.lse.size() * sizeof(float)) == 0);
            int wrong = 0;
            for (std::size_t i = 0; i < got.o.size(); ++i) {
                const std::size_t channel = i % dim, row = i / dim % rows, head = i / dim / rows;
                const std::size_t plane = head / std::size_t(s.group());
                std::int64_t seen = s.kv_len;
                if (call.causal == Causal::top_left) seen = std::int64_t(row) + 1;
                if (call.causal == Causal::bottom_right) seen = std::int64_t(row) + 1 + s.kv_len - s.q_len;
                const bool poisoned = channel % 3 == 0 && std::int64_t(key_of(plane, channel)) < seen;
                wrong += poisoned ? !std::isnan(got.o[i]) : std::memcmp(&got.o[i], &without.o[i], sizeof(float)) != 0;
            }
            CHECK(wrong == 0);
        }
}

namespace {

struct Packed {
    std::vector<std::int32_t> cu_q, cu_k;
    std::int64_t max_q, max_k;
};
Output attend_packed(const SageInputs& in, const AttentionShape& s, const Packed& packed, SageOptions options = {}) {
    DeviceArray<std::int32_t> cu_q(packed.cu_q), cu_k(packed.cu_k);
    options.packed = {cu_q.data(), cu_k.data(), std::int64_t(packed.cu_q.size()) - 1, packed.max_q, packed.max_k};
    return attend(in, s, options);
}

} // namespace

TEST_CASE("packed: tokens of no sequence, and beyond the longest") {
    const AttentionShape s{1, 2, 1, 210, 190, 64, 64};
    const SageInputs in = sage_inputs(SageData::gaussian, s, 41);
    const auto check_cleared = [&](const Output& got, auto covered) {
        for (std::size_t row = 0; row < 420; ++row) {
            const bool one = covered(int(row % 210));
            for (std::size_t d = 0; d < 64; ++d) REQUIRE((got.o[row * 64 + d] == 0.f) != one);
            REQUIRE((got.lse[row] == -inf_value) != one);
        }
    };
    const Output whole = attend_packed(in, s, {{10, 60, 140}, {0, 100, 180}, 80, 100});
    check_cleared(whole, [](int row) { return row >= 10 && row < 140; });
    check_cleared(attend_packed(in, s, {{10, 60, 140}, {0, 100, 180}, 40, 100}),
        [](int row) { return (row >= 10 && row < 50) || (row >= 60 && row < 100); });
    check_cleared(attend_packed(in, s, {{0, 60, 210}, {0, 100, 190}, 0, 100}), [](int) { return false; });
    check_cleared(attend_packed(in, s, {{0, 60, 210}, {0, 100, 190}, 150, 0}), [](int) { return false; });
    // A longest length beyond all tokens is the same.
    const Output far = attend_packed(in, s, {{10, 60, 140}, {0, 100, 180}, 1 << 30, std::int64_t(1) << 40});
    CHECK(std::memcmp(far.o.data(), whole.o.data(), far.o.size() * 4) == 0);
}

// The arrays lie between guards, and the emulator reports accesses outside of any.
TEST_CASE("packed: no offset leads outside the tensors") {
    const AttentionShape s{1, 1, 1, 100, 90, 64, 64};
    const SageInputs in = sage_inputs(SageData::gaussian, s, 43);
    const std::int32_t far = std::numeric_limits<std::int32_t>::max(), least = std::numeric_limits<std::int32_t>::min();
    for (const Packed& packed : {Packed{{0, 300, 200}, {0, 50, 1000}, 100, 90}, {{-50, 20, -5}, {-1, 40, 90}, 100, 90},
             {{90, 10, 100}, {80, 0, 90}, 100, 90}, {{far, least, far}, {least, far, least}, far, far},
             {{0, 100, 100}, {0, 90, 90}, 7, 13}})
        for (bool smooth_q : {false, true})
            for (Causal causal : {Causal::none, Causal::bottom_right}) {
                SageOptions options;
                options.smooth_q = smooth_q, options.causal = causal;
                CHECK_NOTHROW(attend_packed(in, s, packed, options));
            }
    CHECK_THROWS_AS(attend_packed(in, s, {{0, 100}, {0, 90}, -1, 90}), InvalidArgument);
    CHECK_THROWS_AS(attend_packed(in, s, {{0, 100}, {0, 90}, 100, -1}), InvalidArgument);
}
