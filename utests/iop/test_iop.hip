// Read, compute and write operations: on the host, and the same on the device.
#include "reference.h"

#include <doctest/doctest.h>

#include "waveattn/core/launch.h"
#include "waveattn/iop/check.h"
#include "waveattn/iop/read.h"
#include "waveattn/iop/write.h"

using namespace waveattn;
using namespace waveattn::iop;
using namespace waveattn::test;

// ---- what the types say ----
namespace {
struct NoRead {
    float value;
};
struct Owner { // not trivially copyable
    std::vector<float> values;
    float exec(float x) const { return x + values[0]; }
};
static_assert(ReadOp<RawRead<float>> && ReadOp<Int8TokenRead> && ReadOp<Fp8TokenRead> && !ReadOp<NoRead>);
static_assert(!AnyReadOp<NoRead> && !AnyReadOp<float*>);
static_assert(
    ComputeOp<Mul> && ComputeOp<Bias> && ComputeOp<Cast<bfloat16>> && !ComputeOp<Owner> && !ComputeOp<NoRead>);
// An operation of another library: Operation::exec(value, op).
struct ForeignScale;
struct ForeignScaleOperation {
    WAVEATTN_HOST_DEVICE static float exec(float x, const ForeignScale& op);
};
struct ForeignScale {
    using Operation = ForeignScaleOperation;
    float factor;
};
WAVEATTN_HOST_DEVICE inline float ForeignScaleOperation::exec(float x, const ForeignScale& op) { return x * op.factor; }
static_assert(ComputeOp<ForeignScale> && ForeignOp<ForeignScale>);
static_assert(Epilogue<Chain<>> && Epilogue<Chain<Mul, Gelu>> && !Epilogue<Mul>);
static_assert(WriteOp<Write<bfloat16>> && !WriteOp<RawRead<float>>);
using Chained = decltype(RawRead<bfloat16>{}.then(Mul{2.f}));
static_assert(
    is_raw<RawRead<bfloat16>> && is_raw_of<RawRead<bfloat16>, bfloat16> && !is_raw_of<RawRead<float>, bfloat16>);
static_assert(!is_raw<Chained> && ReadOp<Chained>, "a chain loses the exact type");
static_assert(is_token_scaled<Int8TokenRead> && std::is_same_v<cache_code<Fp8TokenRead>, float8_e4m3fn>);
static_assert(!is_token_scaled<RawRead<float>> && !is_token_scaled<decltype(Int8TokenRead{}.then(Add{1.f}))>);
static_assert(load_width<RawRead<float>> == 4 && load_width<RawRead<float16>> == 8 && load_width<Fp8TokenRead> == 16);
static_assert(load_width<Chained> == 8);
static_assert(std::is_same_v<decltype(Chained{}.then(Relu{})), ReadChain<RawRead<bfloat16>, Mul, Relu>>);
static_assert(std::is_trivially_copyable_v<Chained>);
} // namespace

TEST_CASE("raw reads address strided views, one value or several") {
    std::vector<bfloat16> memory(600);
    for (int i = 0; i < 600; ++i) memory[i] = from_float<bfloat16>(float(i % 200));
    auto view = swap_axes(make_contiguous(memory.data(), 2, 5, 3, 20), 1, 2); // (batch, head, token, dim)
    const auto read = make_attention_read(view);
    const Point at{4, 3, 2, 1, 3};
    CHECK(read.read(at) == float((1 * 300 + 3 * 60 + 2 * 20 + 4) % 200));
    float eight[8];
    read.read(at, eight);
    for (int i = 0; i < 8; ++i) CHECK(eight[i] == read.read(Point{4 + i, 3, 2, 1, 3}));
    CHECK(at.plane() == 5);
}

TEST_CASE("token-scaled reads take the stride of the scales from the stored height") {
    // 2 planes of 7 stored tokens, of which a call might use fewer: plane 1 starts at token 7.
    std::vector<std::int8_t> codes(2 * 7 * 16);
    std::vector<float> scales(14);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = std::int8_t(int(i % 251) - 125);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 0.5f + float(i);
    const auto read = make_int8_kv_read(codes.data(), scales.data(), 2, 7, 16);
    const Point at{3, 2, 1};
    const float want = float(codes[(7 + 2) * 16 + 3]) * scales[9];
    CHECK(read.read(at) == want);
    float four[4];
    read.read(at, four);
    CHECK(four[0] == want);
    CHECK(four[3] == float(codes[(7 + 2) * 16 + 6]) * scales[9]);

    std::vector<float8_e4m3fn> bytes(2 * 7 * 16);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i].bits = std::uint8_t(i % 127);
    const auto fp8 = make_fp8_kv_read(bytes.data(), scales.data(), 2, 7, 16);
    CHECK(fp8.read(at) == to_float(bytes[9 * 16 + 3]) * scales[9]);
}

TEST_CASE("chains apply from left to right") {
    const std::vector<float> memory{1, -2, 3, 4};
    const std::vector<float> bias{10, 20, 30, 40};
    const auto read = make_attention_read(memory.data(), 1, 1, 4);
    const auto chain = read.then(Mul{2.f}, Add{1.f}).then(Relu{}, Bias{bias.data()});
    float out[4];
    chain.read(Point{}, out);
    CHECK(out[0] == 13.f);
    CHECK(out[1] == 20.f);
    CHECK(out[2] == 37.f);
    CHECK(out[3] == chain.read(Point{3}));
    CHECK(epilogue(Mul{3.f}, Add{1.f}).then(Clamp{0.f, 5.f}).exec(9.f, {}) == 5.f);
    CHECK(epilogue().exec(9.f, {}) == 9.f);
    CHECK(epilogue(ForeignScale{4.f}, Add{1.f}).exec(2.f, {}) == 9.f);
    CHECK(epilogue(map([](float x) { return x * x; }), map([](float x, Point at) {
        return x + float(at.token);
    })).exec(3.f, Point{0, 7}) == 16.f);
    CHECK(epilogue(Residual<float>{make_contiguous(memory.data(), 1, 1, 2, 2)}).exec(1.f, Point{1, 1}) == 5.f);
    CHECK(epilogue(Cast<bfloat16>{}).exec(1.00390625f, {}) == 1.f); // half a unit of bf16, to even
}

TEST_CASE("writes round once, after the chain") {
    std::vector<float16> memory(8, float16{0xffff});
    const auto write = make_attention_write(make_contiguous(memory.data(), 1, 1, 2, 4), epilogue(Mul{0.5f}));
    write.write(Point{1, 1}, 3.f);
    const float values[2] = {1.f, 65519.f * 2};
    write.write(Point{2, 0}, values);
    CHECK(to_float(memory[5]) == 1.5f);
    CHECK(to_float(memory[2]) == 0.5f);
    CHECK(to_float(memory[3]) == 65504.f);
    for (int i : {0, 1, 4, 6, 7}) CHECK(memory[std::size_t(i)].bits == 0xffff);
}

TEST_CASE("activations against their definitions") {
    // 1e-6 is one unit in the last place of a result of 12; a product of two rounded factors needs two.
    for (float x = -12.f; x <= 12.f; x += 0.03125f) {
        const double z = x;
        CHECK(Gelu{}.exec(x) == doctest::Approx(0.5 * z * (1 + std::erf(z / std::sqrt(2.0)))).epsilon(1e-6));
        CHECK(std::abs(GeluTanh{}.exec(x) -
                       0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)))) <= 1e-6);
        CHECK(std::abs(Silu{}.exec(x) - z / (1 + std::exp(-z))) <= 2e-6);
        CHECK(Relu{}.exec(x) == std::max(x, 0.f));
    }
    CHECK(std::isnan(Relu{}.exec(NAN)));
    CHECK(Silu{}.exec(-1000.f) == 0.f);
    CHECK(Gelu{}.exec(1000.f) == 1000.f);
}

TEST_CASE("checks name what is too small or missing") {
    std::vector<float> memory(64);
    const auto read = make_attention_read(memory.data(), 2, 4, 8);
    CHECK_NOTHROW(check_covers("k", read, 1, 2, 4, 8));
    CHECK_NOTHROW(check_covers("k", read.then(Mul{1.f}), 1, 2, 3, 8));
    CHECK_THROWS_WITH_AS(check_covers("k", read.then(Mul{1.f}), 1, 2, 5, 8),
        "k holds (batch, heads, tokens, dim) = (1, 2, 4, 8), which is less than the (1, 2, 5, 8) of the call",
        InvalidArgument);
    auto cache = make_int8_kv_read(reinterpret_cast<const std::int8_t*>(memory.data()), memory.data(), 2, 4, 8);
    CHECK_NOTHROW(check_covers("v", cache, 1, 2, 4, 8));
    cache.scales.shape[2] = 3;
    CHECK_THROWS_WITH_AS(check_covers("v", cache, 1, 2, 4, 8), doctest::Contains("v has scales for"), InvalidArgument);
    cache.scales.data = nullptr;
    CHECK_THROWS_WITH_AS(check_covers("v", cache, 1, 2, 4, 8), "v has no scales", InvalidArgument);
    CHECK_NOTHROW(check_covers("v", cache, 0, 2, 4, 8)); // nothing to be read
}

// ---- on the device ----
namespace {
constexpr int threads = 64;

template <class Code> __global__ __launch_bounds__(64) void decode_all(const Code* codes, float* values, int count) {
    if constexpr (arch::this_pass != arch::Target::unsupported)
        for (int i = int(arch::thread_x()); i < count; i += threads) values[i] = decode(codes[i]);
}
template <class Code> __global__ __launch_bounds__(64) void encode_all(const float* values, Code* codes, int count) {
    if constexpr (arch::this_pass != arch::Target::unsupported)
        for (int i = int(arch::thread_x()); i < count; i += threads) codes[i] = encode<Code>(values[i]);
}
template <class Op> __global__ __launch_bounds__(64) void apply_all(Op op, const float* in, float* out, int count) {
    if constexpr (arch::this_pass != arch::Target::unsupported)
        for (int i = int(arch::thread_x()); i < count; i += threads) out[i] = op.exec(in[i], Point{i});
}
template <class Read, class Write> __global__ __launch_bounds__(64) void copy_rows(Read read, Write write, int rows) {
    if constexpr (arch::this_pass != arch::Target::unsupported) {
        const int row = int(arch::thread_x());
        if (row < rows) {
            float values[16];
            read.read(Point{2, row, 1, 0, 2}, values);
            write.write(Point{2, row, 1, 0, 2}, values);
            write.write(Point{0, row, 1, 0, 2}, read.read(Point{0, row, 1, 0, 2}));
        }
    }
}
} // namespace

TEST_CASE_TEMPLATE("decode on the device gives the host's value for every code", T, bfloat16, float16, float8_e4m3fn,
    float8_e4m3fnuz) {
    std::vector<T> codes(std::size_t(1) << (8 * sizeof(T)));
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i].bits = static_cast<decltype(T::bits)>(i);
    const DeviceArray<T> device_codes(codes);
    const DeviceArray<float> values(codes.size());
    launch("decode", decode_all<T>, 1, threads, 0, nullptr, device_codes.data(), values.data(), int(codes.size()));
    const auto got = values.host();
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const float want = to_float(codes[i]);
        const bool same =
            std::isnan(want) ? std::isnan(got[i]) : std::bit_cast<unsigned>(want) == std::bit_cast<unsigned>(got[i]);
        if (!same) FAIL_CHECK("code ", i, ": ", got[i], " instead of ", want);
    }
}

TEST_CASE_TEMPLATE("encode on the device gives the host's bits", T, bfloat16, float16, float8_e4m3fn, float8_e4m3fnuz) {
    std::vector<float> values{0.f, -0.f, 1e-40f, 65519.99f, 65520.f, 448.f, 465.f, 240.f, 249.f, 1e30f, 3.4e38f,
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};
    for (Data data : all_data)
        for (float x : make_values(data, 1, 1, 1, 300, 1)) values.push_back(x), values.push_back(x * 1e-3f);
    const DeviceArray<float> device_values(values);
    const DeviceArray<T> codes(values.size());
    launch("encode", encode_all<T>, 1, threads, 0, nullptr, device_values.data(), codes.data(), int(values.size()));
    const auto got = codes.host();
    for (std::size_t i = 0; i < values.size(); ++i)
        if (got[i].bits != from_float<T>(values[i]).bits) FAIL_CHECK(values[i], " became ", got[i].bits);
}

TEST_CASE("operations on the device agree with the host") {
    std::vector<float> in = make_values(Data::gaussian, 1, 1, 1, 256, 1);
    const DeviceArray<float> x(in), y(in.size());
    const auto check = [&](auto chain, double tolerance) {
        launch("apply", apply_all<decltype(chain)>, 1, threads, 0, nullptr, chain, x.data(), y.data(), int(in.size()));
        auto want = in;
        for (std::size_t i = 0; i < in.size(); ++i) want[i] = chain.exec(in[i], Point{int(i)});
        CHECK(compare(y.host(), want).max_abs <= tolerance);
    };
    check(epilogue(Mul{2.f}, Add{1.f}, Clamp{-1.f, 1.f}), 0);
    check(epilogue(Relu{}, Cast<float16>{}), 0);
    check(epilogue(Gelu{}), 1e-6);
    check(epilogue(GeluTanh{}), 1e-6);
    check(epilogue(Silu{}), 1e-6);
    check(epilogue(map([] __host__ __device__(float v, Point at) { return v + float(at.dim); })), 0);
}

TEST_CASE("reads and writes of several values at unaligned places") {
    const auto values = make_values(Data::structured, 1, 2, 5, 19, 4);
    std::vector<std::int8_t> codes(values.size());
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = std::int8_t(values[i] * 8);
    const std::vector<float> scales{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const DeviceArray<std::int8_t> device_codes(codes);
    const DeviceArray<float> device_scales(scales);
    const DeviceArray<float16> out(values.size());
    const auto read = make_int8_kv_read(device_codes.data(), device_scales.data(), 2, 5, 19).then(Mul{0.5f});
    const auto write = make_attention_write(make_contiguous(out.data(), 1, 2, 5, 19));
    launch("copy", copy_rows<std::decay_t<decltype(read)>, std::decay_t<decltype(write)>>, 1, threads, 0, nullptr, read,
        write, 5);
    const auto got = out.host();
    for (int row = 0; row < 5; ++row)
        for (int dim = 0; dim < 19; ++dim) {
            const std::size_t at = std::size_t((5 + row) * 19 + dim);
            if (dim == 1 || dim == 18)
                CHECK(got[at].bits == 0xffff); // not written
            else
                CHECK(to_float(got[at]) == float(codes[at]) * scales[std::size_t(5 + row)] * 0.5f);
        }
    CHECK(out.guards_intact());
}
