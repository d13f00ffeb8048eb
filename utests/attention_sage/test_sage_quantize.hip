// The device passes against the host versions, bit for bit.
#include "sage_support.h"

#include "waveattn/attention/sage_quantize.h"

#include <doctest/doctest.h>

using namespace waveattn;
using namespace waveattn::test;

namespace {

template <class T> std::vector<T> part(const std::vector<std::uint8_t>& bytes, std::int64_t at, std::size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), bytes.data() + at, count * sizeof(T));
    return values;
}
template <class T> int differences(const std::vector<T>& got, const std::vector<T>& want) {
    if (got.size() != want.size()) return -1;
    int count = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if constexpr (std::is_same_v<T, float>)
            if (std::isnan(got[i]) && std::isnan(want[i])) continue; // whose other bits mean nothing
        count += std::memcmp(&got[i], &want[i], sizeof(T)) != 0;
    }
    return count;
}

struct Recipe {
    AttentionShape shape;
    bool smooth_k = true, smooth_q = false, hadamard = false;
    SageData data = SageData::gaussian;
    QScaleRows rows = QScaleRows::block;
    float magnitude_q = 1, magnitude_k = 1, magnitude_v = 1;
    float poison = 0; // put into some of q, k and v unless it is 0
};

template <class T> void check(const Recipe& recipe) {
    const AttentionShape& s = recipe.shape;
    CAPTURE(s.q_len);
    CAPTURE(s.kv_len);
    CAPTURE(s.head_dim);
    CAPTURE(int(recipe.data));
    CAPTURE(recipe.smooth_k);
    CAPTURE(recipe.smooth_q);
    CAPTURE(recipe.hadamard);
    CAPTURE(int(recipe.rows));
    CAPTURE(recipe.magnitude_q);
    CAPTURE(recipe.magnitude_k);
    CAPTURE(recipe.magnitude_v);
    CAPTURE(recipe.poison);
    SageInputs in = sage_inputs(recipe.data, s, 11);
    for (float& x : in.q) x *= recipe.magnitude_q;
    for (float& x : in.k) x *= recipe.magnitude_k;
    for (float& x : in.v) x *= recipe.magnitude_v;
    if (recipe.poison != 0)
        for (auto* values : {&in.q, &in.k, &in.v}) (*values)[77] = (*values)[values->size() - 200] = recipe.poison;
    DeviceArray<T> q(encode<T>(in.q)), k(encode<T>(in.k)), v(encode<T>(in.v));
    SageOptions options;
    options.smooth_k = recipe.smooth_k, options.smooth_q = recipe.smooth_q, options.hadamard = recipe.hadamard;
    options.q_scale_rows = recipe.rows, options.lse_shift = true;
    const SageStorage layout = sage_storage(s, options);
    DeviceArray<std::uint8_t> buffer(std::size_t(layout.bytes) + 256);
    std::uint8_t* base = buffer.data() + (256 - reinterpret_cast<std::uintptr_t>(buffer.data()) % 256) % 256;
    executeSageQuantize<T>(make_contiguous<const T>(q.data(), s.batch, s.heads_q, s.q_len, s.head_dim),
        make_contiguous<const T>(k.data(), s.batch, s.heads_kv, s.kv_len, s.head_dim),
        make_contiguous<const T>(v.data(), s.batch, s.heads_kv, s.kv_len, s.head_dim), options, base,
        std::size_t(layout.bytes));
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    CHECK(buffer.guards_intact());
    auto bytes = buffer.host();
    bytes.erase(bytes.begin(), bytes.begin() + (base - buffer.data()));

    SageHostOptions host;
    host.scale = float(1 / std::sqrt(double(s.head_dim)));
    host.smooth_k = recipe.smooth_k, host.smooth_q = recipe.smooth_q, host.hadamard = recipe.hadamard;
    host.q_scale_rows = recipe.rows, host.format = device_fp8();
    const SageHostOperands want = sage_quantize_host(rounded<T>(in.q), rounded<T>(in.k), rounded<T>(in.v), s, host);
    CHECK(differences(part<std::int8_t>(bytes, layout.q, want.q.size()), want.q) == 0);
    CHECK(differences(part<std::int8_t>(bytes, layout.k, want.k.size()), want.k) == 0);
    CHECK(differences(part<std::uint8_t>(bytes, layout.v, want.v.size()), want.v) == 0);
    CHECK(differences(part<float>(bytes, layout.q_scale, want.q_scale.size()), want.q_scale) == 0);
    CHECK(differences(part<float>(bytes, layout.k_scale, want.k_scale.size()), want.k_scale) == 0);
    CHECK(differences(part<float>(bytes, layout.v_scale, want.v_scale.size()), want.v_scale) == 0);
    if (recipe.smooth_k)
        CHECK(differences(part<float>(bytes, layout.lse_shift, want.lse_shift.size()), want.lse_shift) == 0);
    if (recipe.smooth_q) {
        CHECK(differences(part<float>(bytes, layout.q_mean, want.q_mean.size()), want.q_mean) == 0);
        if (recipe.rows == QScaleRows::block) {
            CHECK(differences(part<std::int32_t>(bytes, layout.delta_s, want.delta_s.size()), want.delta_s_units) == 0);
            for (std::int32_t units : want.delta_s_units) // the guard holds whatever the data
                REQUIRE(std::abs(std::int64_t(units) - sage::bias_zero) <= sage::max_bias);
        } else
            CHECK(differences(part<float>(bytes, layout.delta_s, want.delta_s.size()), want.delta_s) == 0);
    }
    for (float scale : want.q_scale) CHECK((std::isfinite(scale) && scale > 0));
    if (recipe.poison == 0)
        for (float scale : want.k_scale) CHECK((std::isfinite(scale) && scale > 0));
    for (float scale : want.v_scale) CHECK((std::isfinite(scale) && scale > 0));
}

} // namespace

TEST_CASE("quantise: device and host agree bit for bit") {
    check<bfloat16>({.shape = {1, 2, 1, 200, 150, 128, 128}});
    check<bfloat16>({.shape = {1, 1, 1, 130, 600, 64, 64}, .smooth_q = true, .hadamard = true}); // two chunks
    check<bfloat16>({.shape = {2, 4, 2, 140, 70, 128, 128}, .smooth_q = true, .data = SageData::offsets});
    check<float16>({.shape = {1, 1, 1, 33, 65, 64, 64}, .smooth_k = false, .hadamard = true});
    check<float>({.shape = {1, 1, 1, 17, 40, 128, 128}, .smooth_q = true, .data = SageData::variance});
    check<bfloat16>({.shape = {1, 1, 1, 70, 70, 57, 57}, .hadamard = true}); // unaligned rows, padding
    check<bfloat16>({.shape = {1, 1, 1, 70, 70, 96, 96}, .smooth_q = true});
    check<bfloat16>({.shape = {1, 1, 1, 1, 1, 64, 64}, .smooth_q = true}); // nothing but means
    // So many tiles that a workgroup takes two or four of them, here 2, 2 and 1, and 4 and 1, of a head.
    check<bfloat16>({.shape = {1, 16, 16, 130, 300, 64, 64}, .smooth_q = true, .data = SageData::offsets});
    check<bfloat16>({.shape = {1, 64, 64, 130, 300, 64, 64}, .smooth_q = true, .data = SageData::offsets});
    check<bfloat16>({.shape = {1, 110, 55, 17, 257, 128, 128}, .smooth_q = true, .rows = QScaleRows::warp});
}

TEST_CASE("quantise: scales by warp and thread") {
    for (QScaleRows rows : {QScaleRows::warp, QScaleRows::thread})
        for (bool smooth_q : {false, true})
            check<bfloat16>({.shape = {1, 1, 1, 150, 70, 64, 64}, .smooth_q = smooth_q, .rows = rows});
}

TEST_CASE("quantise: zero blocks, zero channels, constant keys") {
    check<bfloat16>({.shape = {1, 1, 1, 260, 200, 64, 64}, .smooth_q = true, .data = SageData::zeros});
    check<bfloat16>({.shape = {1, 1, 1, 260, 200, 128, 128}, .smooth_k = false, .data = SageData::zeros});
}

TEST_CASE("quantise: any magnitude") {
    const AttentionShape s{1, 1, 1, 140, 80, 64, 64};
    for (bool smooth : {false, true}) {
        for (float m : {1e-42f, 1e-38f, 1e-36f, 1e-25f, 1e-15f, 1e15f, 1e30f, 5e37f})
            check<float>({.shape = s,
                .smooth_k = smooth,
                .smooth_q = smooth,
                .magnitude_q = m,
                .magnitude_k = m,
                .magnitude_v = m});
        check<float>({.shape = s, .smooth_q = smooth, .hadamard = true, .magnitude_q = 1e-30f, .magnitude_k = 1e30f});
        for (float m : {1e-39f, 1e-30f, 1e30f})
            check<bfloat16>(
                {.shape = s, .smooth_q = smooth, .magnitude_q = m, .magnitude_k = 1e-7f / m, .magnitude_v = m});
        for (float m : {1e-7f, 1e4f})
            check<float16>({.shape = s, .smooth_q = smooth, .magnitude_q = m, .magnitude_k = m, .magnitude_v = m});
    }
}

TEST_CASE("quantise: NaN and infinity") {
    for (float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
             -std::numeric_limits<float>::infinity()})
        for (QScaleRows rows : {QScaleRows::block, QScaleRows::thread})
            for (bool all : {false, true}) {
                const AttentionShape s{1, 1, 1, 140, 80, 64, 64};
                check<bfloat16>({.shape = s, .smooth_q = all, .hadamard = all, .rows = rows, .poison = poison});
                check<float>({.shape = s, .smooth_k = all, .smooth_q = !all, .rows = rows, .poison = poison});
            }
}

// code * scale is within half a step of the value, half a unit of fp8 for v; over the whole range of fp32.
TEST_CASE("quantise: scales of any magnitude") {
    for (Fp8Format format : {Fp8Format::fnuz, Fp8Format::ocp}) {
        const float largest = sage::fp8_largest(format);
        for (int exponent = -149; exponent < 128; ++exponent)
            for (float mantissa : {1.f, 1.3f, 1.999999f}) {
                const float amax = std::ldexp(mantissa, exponent);
                CAPTURE(amax);
                const sage::CodeScale eight = sage::fp8_scale(amax, largest), whole = sage::int8_scale(amax);
                for (float part : {1.f, 0.7f, -0.3f, 0.02f}) {
                    const float x = amax * part;
                    const float code = std::clamp(x * eight.lift * eight.inverse, -largest, largest);
                    const double back =
                        double(sage::decode_fp8(sage::encode_fp8(code, format), format)) * double(eight.scale);
                    REQUIRE(std::abs(back - double(x)) <= std::abs(double(x)) / 15.9);
                    const double step = double(whole.scale);
                    REQUIRE(std::abs(double(sage::to_int8(x, whole)) * step - double(x)) <=
                            0.5 * std::max(step, 0x1p-126 / 127) * 1.001 + 0x1p-149);
                }
            }
    }
    CHECK(std::isnan(sage::int8_scale(std::numeric_limits<float>::quiet_NaN()).scale));
    CHECK(std::isnan(sage::int8_scale(std::numeric_limits<float>::infinity()).scale));
    CHECK(sage::fp8_scale(0.f, 240.f).scale > 0);
}

TEST_CASE("quantise: the host versions") {
    // The rotation is orthogonal and its own inverse.
    std::vector<float> row(128);
    for (int i = 0; i < 128; ++i) row[std::size_t(i)] = float(i % 7) - 3.f;
    auto turned = row;
    sage::rotate(turned.data(), 128);
    double squares = 0, turned_squares = 0;
    for (int i = 0; i < 128; ++i)
        squares += double(row[std::size_t(i)]) * row[std::size_t(i)],
            turned_squares += double(turned[std::size_t(i)]) * turned[std::size_t(i)];
    CHECK(std::abs(squares - turned_squares) < 1e-4 * squares);
    sage::rotate(turned.data(), 128);
    for (int i = 0; i < 128; ++i) CHECK(std::abs(turned[std::size_t(i)] - row[std::size_t(i)]) < 1e-5);
    // The operand order is a permutation, and puts register r of half h on row 16h + r.
    std::vector<int> seen(32, 0);
    for (int i = 0; i < 32; ++i) ++seen[std::size_t(sage::natural_row(i))];
    for (int count : seen) CHECK(count == 1);
    for (int half = 0; half < 2; ++half)
        for (int r = 0; r < 16; ++r) CHECK(sage::natural_row(8 * (r / 4) + 4 * half + r % 4) == 16 * half + r);
}

TEST_CASE("quantise: bad arguments") {
    DeviceArray<bfloat16> q(4 * 64 * 16);
    DeviceArray<std::uint8_t> buffer(1 << 17);
    std::uint8_t* base = buffer.data() + (256 - reinterpret_cast<std::uintptr_t>(buffer.data()) % 256) % 256;
    using View = TensorView<const bfloat16, 4>;
    const View good = make_contiguous<const bfloat16>(q.data(), 1, 4, 16, 64);
    const auto call = [&](View a, View b, View c, std::uint8_t* at, std::size_t bytes, SageOptions options = {}) {
        executeSageQuantize<bfloat16>(a, b, c, options, at, bytes);
    };
    CHECK_NOTHROW(call(good, good, good, base, 1 << 16));
    CHECK_THROWS_AS(call(good, good, good, base, 1000), InvalidArgument);
    CHECK_THROWS_AS(call(good, good, good, nullptr, 1 << 16), InvalidArgument);
    CHECK_THROWS_AS(call(good, good, good, base + 1, 1 << 16), InvalidArgument);
    View other = good;
    other.shape[3] = 32;
    CHECK_THROWS_AS(call(good, good, other, base, 1 << 16), InvalidArgument);
    other = good, other.shape[1] = 3;
    CHECK_THROWS_AS(call(good, other, other, base, 1 << 16), InvalidArgument);
    other = make_contiguous<const bfloat16>(q.data(), 1, 4, 4, 192);
    CHECK_THROWS_AS(call(other, other, other, base, 1 << 16), Unsupported);
    CHECK_THROWS_WITH_AS(call(good, good, good, nullptr, 1 << 16), "the buffer is a null pointer", InvalidArgument);
    SageOptions options;
    options.scale = std::numeric_limits<float>::infinity();
    CHECK_THROWS_AS(call(good, good, good, base, 1 << 16, options), InvalidArgument);
    options = {}, options.packed.count = 1;
    CHECK_THROWS_AS(call(good, good, good, base, 1 << 16, options), InvalidArgument);
}

TEST_CASE("quantise: the workspace query refuses what quantisation refuses") {
    const AttentionShape good{1, 4, 2, 16, 16, 64, 64};
    const auto query = [&](auto change) {
        AttentionShape shape = good;
        SageOptions options;
        change(shape, options);
        return sage_storage(shape, options).bytes;
    };
    using S = AttentionShape;
    using O = SageOptions;
    CHECK(query([](S&, O&) {}) > 0);
    CHECK(query([](S& s, O&) { s.head_dim_v = 0; }) == query([](S&, O&) {})); // v has q's head_dim
    CHECK(query([](S&, O& o) { o.packed.count = 3; }) > 0);                   // offsets come with the call
    CHECK_THROWS_AS(query([](S& s, O&) { s.head_dim = 0; }), InvalidArgument);
    CHECK_THROWS_AS(query([](S& s, O&) { s.head_dim = 129; }), Unsupported);
    CHECK_THROWS_AS(query([](S& s, O&) { s.q_len = -1; }), InvalidArgument);
    CHECK_THROWS_AS(query([](S& s, O&) { s.kv_len = std::int64_t(1) << 30; }), Unsupported);
    CHECK_THROWS_AS(query([](S& s, O&) { s.heads_kv = 3; }), InvalidArgument);
    CHECK_THROWS_AS(query([](S& s, O&) { s.batch = s.heads_q = std::int64_t(1) << 40; }), Unsupported);
    CHECK_THROWS_AS(query([](S&, O& o) { o.packed.count = -1; }), InvalidArgument);
    CHECK_THROWS_AS(query([](S& s, O& o) { s.batch = o.packed.count = 2; }), InvalidArgument);
    CHECK_THROWS_AS(query([](S&, O& o) { o.packed.count = 1, o.packed.max_k = -1; }), InvalidArgument);
}

TEST_CASE("quantise: the host version checks its arguments, and takes empty axes") {
    const SageHostOptions options;
    const auto quantise = [&](std::size_t q, std::size_t k, std::size_t v, AttentionShape shape) {
        SageHostOptions smooth = options;
        smooth.smooth_q = true;
        return sage_quantize_host(
            std::vector<float>(q, 1.f), std::vector<float>(k, 1.f), std::vector<float>(v, 1.f), shape, smooth);
    };
    CHECK(quantise(0, 0, 0, {1, 0, 0, 5, 5, 8, 8}).q.empty());
    CHECK(quantise(0, 40, 40, {1, 1, 1, 0, 5, 8, 8}).k.size() == 5 * 64);
    CHECK(quantise(40, 0, 0, {1, 1, 1, 5, 0, 8, 8}).q.size() == 5 * 64);
    CHECK_THROWS_AS(quantise(39, 40, 40, {1, 1, 1, 5, 5, 8, 8}), InvalidArgument);
    CHECK_THROWS_AS(quantise(40, 39, 40, {1, 1, 1, 5, 5, 8, 8}), InvalidArgument);
    CHECK_THROWS_AS(quantise(40, 40, 41, {1, 1, 1, 5, 5, 8, 8}), InvalidArgument);
    CHECK_THROWS_AS(quantise(120, 80, 80, {1, 3, 2, 5, 5, 8, 8}), InvalidArgument);
    CHECK_THROWS_AS(quantise(200, 200, 200, {1, 1, 1, 1, 1, 200, 200}), Unsupported);
}
