// The kernel on host-quantised operands: against the float64 oracle of those operands, and of the original inputs.
#include "sage_support.h"

#include "waveattn/attention/sage_quantize.h"

#include <doctest/doctest.h>

using namespace waveattn;
using namespace waveattn::test;

namespace {

struct Case {
    AttentionShape shape;
    Causal causal = Causal::none;
    bool smooth_k = true, smooth_q = false, hadamard = false, plain = false;
    SageData data = SageData::gaussian;
    QScaleRows rows = QScaleRows::block;
    int block_q = 0;
};

template <class O> struct Run {
    std::vector<O> o;
    std::vector<float> lse;
    SageHostOperands host;
    SageInputs inputs;
};
template <class O> Run<O> run(const Case& c) {
    const AttentionShape& s = c.shape;
    Run<O> result;
    result.inputs = sage_inputs(c.data, s, 3);
    for (auto* values : {&result.inputs.q, &result.inputs.k, &result.inputs.v}) *values = rounded<bfloat16>(*values);
    SageHostOptions options;
    options.scale = float(1 / std::sqrt(double(s.head_dim)));
    options.smooth_k = c.smooth_k, options.smooth_q = c.smooth_q, options.hadamard = c.hadamard;
    options.q_scale_rows = c.rows, options.format = device_fp8();
    result.host = sage_quantize_host(result.inputs.q, result.inputs.k, result.inputs.v, s, options);
    DeviceOperands device(result.host, options.format, c.plain, c.rows);
    const std::size_t rows = std::size_t(s.batch * s.heads_q * s.q_len);
    DeviceArray<O> o(rows * std::size_t(s.head_dim));
    DeviceArray<float> lse(rows);
    AttentionOptions call;
    call.causal = c.causal;
    call.lse = make_contiguous(lse.data(), s.batch, s.heads_q, s.q_len);
    executeSageAttention(
        device.views, make_contiguous(o.data(), s.batch, s.heads_q, s.q_len, s.head_dim), call, c.block_q);
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    CHECK(o.guards_intact());
    CHECK(lse.guards_intact());
    result.o = o.host(), result.lse = lse.host();
    return result;
}

// Kernel error alone: weights rounded to fp8 (relative 2^-4, about 0.026 of the output's norm on random data), the sum
// of unrounded weights, fp32 elsewhere. The lse sees none of the fp8 rounding: 2e-5 + 1e-6 |lse| would be fp32 alone;
// half a unit of the scale is added where the scores' constant is folded (large scales). A wrong key, row, scale or
// mask costs several per cent.
void check(const Case& c) {
    const AttentionShape& s = c.shape;
    CAPTURE(s.q_len);
    CAPTURE(s.kv_len);
    CAPTURE(s.head_dim);
    CAPTURE(s.heads_q);
    CAPTURE(s.heads_kv);
    CAPTURE(int(c.causal));
    CAPTURE(int(c.data));
    CAPTURE(c.block_q);
    CAPTURE(c.smooth_q);
    CAPTURE(c.plain);
    const auto got = run<float>(c);
    const Oracle want = quantised_oracle(got.host, s, c.causal, device_fp8(), c.rows);
    const Difference o = compare(got.o, want.o);
    const Difference lse = compare(got.lse, want.lse);
    CHECK(o.relative_l2 < 0.034);
    CHECK(o.cosine > 0.9994);
    CHECK(lse.max_abs < 1e-4);
}

AttentionShape shape(std::int64_t hq, std::int64_t hkv, std::int64_t sq, std::int64_t sk, std::int64_t d) {
    return {1, hq, hkv, sq, sk, d, d};
}

} // namespace

TEST_CASE("kernel: lengths, dense") {
    for (std::int64_t n : {1, 17, 64, 127, 256, 300}) check({.shape = shape(1, 1, n, n, 128), .block_q = 256});
    check({.shape = shape(1, 1, 40, 1000, 128), .block_q = 64});
    check({.shape = shape(1, 1, 130, 65, 128), .block_q = 128});
    check({.shape = {2, 2, 1, 33, 129, 64, 64}, .block_q = 256});
    check({.shape = {2, 2, 1, 33, 200, 64, 64}, .block_q = 128});
    check({.shape = {1, 2, 1, 70, 190, 64, 64}, .block_q = 64});
    if (full())
        for (int block_q : {64, 128, 256})
            for (std::int64_t d : {64, 128})
                for (std::int64_t n : {1, 17, 64, 127, 256, 300, 1000})
                    check({.shape = shape(2, 1, n, n, d), .block_q = block_q});
}

TEST_CASE("kernel: grouped heads") {
    for (std::int64_t heads : {1, 2, 8}) check({.shape = shape(heads, 1, 20, 100, 64)});
    check({.shape = {2, 4, 2, 20, 70, 64, 64}});
}

TEST_CASE("kernel: causal, both rules") {
    for (Causal causal : {Causal::top_left, Causal::bottom_right}) {
        check({.shape = shape(1, 1, 300, 300, 64), .causal = causal, .block_q = 256});
        check({.shape = shape(1, 1, 100, 230, 128), .causal = causal, .block_q = 128});
        check({.shape = shape(1, 1, 230, 100, 64), .causal = causal, .block_q = 64}); // rows without a key
    }
}

TEST_CASE("kernel: delta_s as the C operand, per lane and column") {
    check({.shape = shape(1, 1, 300, 200, 128), .smooth_q = true, .data = SageData::offsets, .block_q = 256});
    check({.shape = shape(2, 1, 150, 130, 64),
        .causal = Causal::bottom_right,
        .smooth_q = true,
        .data = SageData::offsets,
        .block_q = 128});
    check({.shape = shape(1, 1, 1, 70, 64), .smooth_q = true}); // a block of one row: nothing is left of q but its mean
}

TEST_CASE("kernel: plain delta_s, and scales of q by warp and thread") {
    check({.shape = shape(1, 1, 200, 130, 128), .smooth_q = true, .plain = true, .data = SageData::offsets});
    check({.shape = shape(1, 1, 150, 200, 64),
        .causal = Causal::top_left,
        .smooth_q = true,
        .plain = true,
        .rows = QScaleRows::warp});
    check({.shape = shape(1, 1, 100, 200, 64), .rows = QScaleRows::thread});
}

TEST_CASE("kernel: data that stress the range") {
    for (SageData data : all_sage_data) check({.shape = shape(1, 1, 140, 260, 64), .data = data});
    check({.shape = shape(1, 1, 64, 300, 128), .hadamard = true, .data = SageData::variance});
    check({.shape = shape(1, 1, 64, 300, 128), .data = SageData::rising});
    check({.shape = shape(1, 1, 300, 300, 128), .causal = Causal::top_left, .data = SageData::rising, .block_q = 256});
}

TEST_CASE("kernel: output types round to nearest, runs are equal bit for bit") {
    Case c{.shape = shape(2, 1, 77, 200, 64)};
    const auto single = run<float>(c), again = run<float>(c);
    CHECK(std::memcmp(single.o.data(), again.o.data(), single.o.size() * 4) == 0);
    CHECK(std::memcmp(single.lse.data(), again.lse.data(), single.lse.size() * 4) == 0);
    const auto b = run<bfloat16>(c);
    const auto h = run<float16>(c);
    int wrong = 0;
    for (std::size_t i = 0; i < single.o.size(); ++i) {
        wrong += b.o[i].bits != from_float<bfloat16>(single.o[i]).bits;
        wrong += h.o[i].bits != from_float<float16>(single.o[i]).bits;
    }
    CHECK(wrong == 0);
    // Rows that are neither aligned nor whole 16-byte groups take another way out.
    Case odd{.shape = {1, 1, 1, 40, 70, 57, 57}};
    check(odd);
    const auto odd_b = run<bfloat16>(odd);
    const auto odd_f = run<float>(odd);
    for (std::size_t i = 0; i < odd_f.o.size(); ++i) wrong += odd_b.o[i].bits != from_float<bfloat16>(odd_f.o[i]).bits;
    CHECK(wrong == 0);
}

TEST_CASE("kernel: the largest of 256, 128 and 64 rows that keeps the chip as busy") {
    CHECK(sage_block_q(24, 8832, 304) == 128); // two such workgroups on a compute unit
    CHECK(sage_block_q(24, 8832, 304, true) == 128);
    CHECK(sage_block_q(608, 64, 304, true) == 128); // 64 rows do not take delta_s
    CHECK(sage_block_q(8, 1024, 304) == 128);
    CHECK(sage_block_q(608, 64, 304) == 64);
}

TEST_CASE("kernel: any head_dim and rows on any address, in workgroups of any size") {
    for (int block_q : {64, 128, 256})
        for (bool smooth_q : {false, true})
            for (std::int64_t dim : {40, 72})
                check({.shape = shape(1, 1, 290, 70, dim), .smooth_q = smooth_q, .block_q = block_q});
    // Rows 67 elements apart hold the bits that rows of 64 do, and nothing lies between them.
    const AttentionShape s = shape(1, 1, 290, 70, 64);
    SageInputs in = sage_inputs(SageData::gaussian, s, 6);
    const SageHostOptions options{.scale = 0.125f, .format = device_fp8()};
    DeviceOperands device(sage_quantize_host(in.q, in.k, in.v, s, options), options.format);
    const std::vector<float> blank(290 * 67, -7.f);
    for (int block_q : {64, 128, 256}) {
        DeviceArray<float> aligned(290 * 64), apart(blank);
        executeSageAttention(device.views, make_contiguous(aligned.data(), 1, 1, 290, 64), {}, block_q);
        auto view = make_contiguous(apart.data(), 1, 1, 290, 67);
        view.shape[3] = 64;
        executeSageAttention(device.views, view, {}, block_q);
        check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
        const auto want = aligned.host(), got = apart.host();
        for (std::size_t row = 0; row < 290; ++row) {
            REQUIRE(std::memcmp(&got[row * 67], &want[row * 64], 64 * sizeof(float)) == 0);
            for (std::size_t gap = 64; gap < 67; ++gap) REQUIRE(got[row * 67 + gap] == -7.f);
        }
        CHECK(apart.guards_intact());
    }
}

TEST_CASE("kernel: NaN in the padding of v stays there, strided q, k and o") {
    const AttentionShape s = shape(2, 1, 50, 90, 64);
    SageInputs in = sage_inputs(SageData::gaussian, s, 5);
    SageHostOptions options{.scale = 0.125f, .format = device_fp8()};
    SageHostOperands h = sage_quantize_host(in.q, in.k, in.v, s, options);
    for (std::size_t i = 0; i < h.v.size(); ++i)
        if (std::int64_t(i) / (64 * 64) % 2 == 1 && i % 64 >= 26)
            h.v[i] = options.format == Fp8Format::fnuz ? 0x80 : 0x7f;
    // (B, S, H, D) memory for q and o.
    std::vector<std::int8_t> q(h.q.size());
    for (int head = 0; head < 2; ++head)
        for (int i = 0; i < 50; ++i)
            std::memcpy(&q[std::size_t((i * 2 + head) * 64)], &h.q[std::size_t((head * 50 + i) * 64)], 64);
    DeviceOperands device(h, options.format);
    DeviceArray<std::int8_t> strided_q(q);
    device.views.q = swap_axes(make_contiguous<const std::int8_t>(strided_q.data(), 1, 50, 2, 64), 1, 2);
    DeviceArray<float> o(h.q.size());
    executeSageAttention(device.views, swap_axes(make_contiguous(o.data(), 1, 50, 2, 64), 1, 2));
    const auto got = o.host();
    const Oracle want = quantised_oracle(h, s, Causal::none, options.format);
    std::vector<float> turned(got.size());
    for (int head = 0; head < 2; ++head)
        for (int i = 0; i < 50; ++i)
            std::memcpy(&turned[std::size_t((head * 50 + i) * 64)], &got[std::size_t((i * 2 + head) * 64)], 256);
    CHECK(compare(turned, want.o).relative_l2 < 0.034);
}

namespace {

// Attention from bfloat16 tensors through the device's own quantisation.
struct Whole {
    std::vector<bfloat16> o;
    std::vector<float> lse;
    Oracle want; // of the original, rounded inputs
};
Whole run_whole(const AttentionShape& s, SageData data, const SageOptions& recipe, unsigned seed = 21) {
    SageInputs in = sage_inputs(data, s, seed);
    for (auto* values : {&in.q, &in.k, &in.v}) *values = rounded<bfloat16>(*values);
    DeviceArray<bfloat16> q(encode<bfloat16>(in.q)), k(encode<bfloat16>(in.k)), v(encode<bfloat16>(in.v)),
        o(in.q.size());
    DeviceArray<float> lse(std::size_t(s.batch * s.heads_q * s.q_len));
    SageOptions options = recipe;
    options.lse = make_contiguous(lse.data(), s.batch, s.heads_q, s.q_len);
    const SageStorage layout = sage_storage(s, options);
    DeviceArray<std::uint8_t> buffer(std::size_t(layout.bytes) + 256);
    std::uint8_t* base = buffer.data() + (256 - reinterpret_cast<std::uintptr_t>(buffer.data()) % 256) % 256;
    executeSageAttention(make_contiguous<const bfloat16>(q.data(), s.batch, s.heads_q, s.q_len, s.head_dim),
        make_contiguous<const bfloat16>(k.data(), s.batch, s.heads_kv, s.kv_len, s.head_dim),
        make_contiguous<const bfloat16>(v.data(), s.batch, s.heads_kv, s.kv_len, s.head_dim),
        make_contiguous(o.data(), s.batch, s.heads_q, s.q_len, s.head_dim), options, base, std::size_t(layout.bytes));
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    CHECK(o.guards_intact());
    CHECK(buffer.guards_intact());
    return {
        o.host(), lse.host(), attention_oracle(in.q, in.k, in.v, s, options.causal, 1 / std::sqrt(double(s.head_dim)))};
}

struct Accuracy {
    const char* name;
    SageData data;
    bool smooth_q, hadamard;
    double cosine, worst_row, relative_l2; // at least, at least, at most
};

} // namespace

// The whole recipe against float64 attention of the original inputs. The figures are the noise of e4m3 weights and
// values, 2^-4 / sqrt(6) on the average, and of int8 scores: docs/kernels/sage.md. Shorter sequences average less:
// their cosines may be 0.0001 lower. The worst of 8192 rows is one that a few keys dominate, by the rounding of their
// weights.
TEST_CASE("whole: accuracy on Gaussian data, offsets, outliers and sinks") {
    const std::int64_t heads = full() ? 8 : 1, length = full() ? 1024 : 512;
    for (const Accuracy& a : {
             Accuracy{"gaussian", SageData::gaussian, false, false, 0.9992, 0.997, 0.040},
             Accuracy{"offsets, smooth_k + smooth_q", SageData::offsets, true, false, 0.9995, 0.998, 0.033},
             Accuracy{"variance, hadamard", SageData::variance, false, true, 0.9994, 0.998, 0.037},
             Accuracy{"sinks", SageData::sinks, false, false, 0.9994, 0.998, 0.036},
             Accuracy{"v offsets", SageData::v_offsets, false, false, 0.9999, 0.9999, 0.005},
         }) {
        SageOptions options;
        options.smooth_q = a.smooth_q, options.hadamard = a.hadamard;
        const AttentionShape s = shape(heads, heads, length, length, 128);
        const Whole got = run_whole(s, a.data, options);
        const Difference d = compare(got.o, got.want.o);
        const double worst = worst_row_cosine(got.o, got.want.o, 128);
        MESSAGE(std::string(a.name), ": cosine ", d.cosine, ", worst row ", worst, ", relative L2 ", d.relative_l2);
        CHECK(d.cosine >= a.cosine - (full() ? 0 : 0.0001));
        CHECK(worst >= a.worst_row);
        CHECK(d.relative_l2 <= a.relative_l2);
        CHECK(compare(got.lse, got.want.lse).max_abs < 0.15); // int8 scores: a few units of the scales
    }
}
TEST_CASE("whole: packed sequences are those apart") {
    const std::vector<std::int32_t> starts_q{0, 5, 5, 140, 205}, starts_k{0, 70, 90, 90, 230};
    const std::int64_t heads = 2, dim = 64, total_q = 205, total_k = 230;
    const SageInputs in = sage_inputs(SageData::gaussian, {1, heads, 1, total_q, total_k, dim, dim}, 31);
    const auto slice = [&](const std::vector<float>& from, std::int64_t planes, std::int64_t total, int first,
                           int end) {
        std::vector<float> part;
        for (std::int64_t plane = 0; plane < planes; ++plane)
            part.insert(
                part.end(), from.begin() + (plane * total + first) * dim, from.begin() + (plane * total + end) * dim);
        return part;
    };
    for (Causal causal : {Causal::none, Causal::bottom_right})
        for (bool smooth_q : {false, true}) {
            SageOptions options;
            options.causal = causal, options.smooth_q = smooth_q;
            const auto attend = [&](const SageInputs& values, std::int64_t q_len, std::int64_t kv_len,
                                    SageOptions with) {
                DeviceArray<float> q(values.q), k(values.k), v(values.v), o(values.q.size());
                DeviceArray<float> lse(std::size_t(heads * q_len));
                with.lse = make_contiguous(lse.data(), 1, heads, q_len);
                const SageStorage layout = sage_storage({1, heads, 1, q_len, kv_len, dim, dim}, with);
                DeviceArray<std::uint8_t> buffer(std::size_t(layout.bytes) + 256);
                std::uint8_t* base =
                    buffer.data() + (256 - reinterpret_cast<std::uintptr_t>(buffer.data()) % 256) % 256;
                executeSageAttention(make_contiguous<const float>(q.data(), 1, heads, q_len, dim),
                    make_contiguous<const float>(k.data(), 1, 1, kv_len, dim),
                    make_contiguous<const float>(v.data(), 1, 1, kv_len, dim),
                    make_contiguous(o.data(), 1, heads, q_len, dim), with, base, std::size_t(layout.bytes));
                check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
                CHECK(o.guards_intact());
                CHECK(buffer.guards_intact());
                return std::pair(o.host(), lse.host());
            };
            DeviceArray<std::int32_t> cu_q(starts_q), cu_k(starts_k);
            SageOptions packed = options;
            packed.packed = {cu_q.data(), cu_k.data(), 4, 135, 140};
            const auto [o, lse] = attend(in, total_q, total_k, packed);
            for (std::size_t n = 0; n < 4; ++n) {
                const int q0 = starts_q[n], q1 = starts_q[n + 1], k0 = starts_k[n], k1 = starts_k[n + 1];
                if (q0 == q1) continue;
                const SageInputs one{slice(in.q, heads, total_q, q0, q1), slice(in.k, 1, total_k, k0, k1),
                    slice(in.v, 1, total_k, k0, k1)};
                const auto [want, want_lse] = attend(one, q1 - q0, k1 - k0, options);
                const auto got = slice(o, heads, total_q, q0, q1);
                CHECK(std::memcmp(got.data(), want.data(), got.size() * 4) == 0);
                for (std::int64_t head = 0; head < heads; ++head)
                    CHECK(std::memcmp(&lse[std::size_t(head * total_q + q0)], &want_lse[std::size_t(head * (q1 - q0))],
                              std::size_t(q1 - q0) * 4) == 0);
            }
        }
}

TEST_CASE("whole: the least cosine of Gaussian inputs of any shape") {
    double least = 1;
    for (std::int64_t n : {1, 17, 64, 127, 256, 300, 1000})
        for (std::int64_t d : {64, 128}) {
            if (!full() && (n > 300 || (d == 128 && n % 2 == 0))) continue;
            for (Causal causal : {Causal::none, Causal::top_left}) {
                SageOptions options;
                options.causal = causal;
                const Whole got = run_whole(shape(2, 1, n, n, d), SageData::gaussian, options);
                least = std::min(least, compare(got.o, got.want.o).cosine);
            }
        }
    MESSAGE("least cosine ", least);
    CHECK(least > 0.9983);
}

TEST_CASE("whole: captured in a graph") {
    const AttentionShape s = shape(1, 1, 70, 90, 64);
    const SageInputs in = sage_inputs(SageData::gaussian, s, 41);
    DeviceArray<float> q(in.q), k(in.k), v(in.v), direct(in.q.size()), captured(in.q.size());
    SageOptions options;
    options.smooth_q = true;
    const SageStorage layout = sage_storage(s, options);
    DeviceArray<std::uint8_t> buffer(std::size_t(layout.bytes) + 256);
    std::uint8_t* base = buffer.data() + (256 - reinterpret_cast<std::uintptr_t>(buffer.data()) % 256) % 256;
    const auto attend = [&](float* o) {
        executeSageAttention(make_contiguous<const float>(q.data(), 1, 1, 70, 64),
            make_contiguous<const float>(k.data(), 1, 1, 90, 64), make_contiguous<const float>(v.data(), 1, 1, 90, 64),
            make_contiguous(o, 1, 1, 70, 64), options, base, std::size_t(layout.bytes));
    };
    attend(direct.data());
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t exec;
    check_hip(hipStreamCreate(&stream), "hipStreamCreate");
    options.stream = stream;
    check_hip(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), "hipStreamBeginCapture");
    attend(captured.data());
    check_hip(hipStreamEndCapture(stream, &graph), "hipStreamEndCapture");
    check_hip(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0), "hipGraphInstantiate");
    for (int run = 0; run < 2; ++run) check_hip(hipGraphLaunch(exec, stream), "hipGraphLaunch");
    check_hip(hipStreamSynchronize(stream), "hipStreamSynchronize");
    CHECK(std::memcmp(direct.host().data(), captured.host().data(), in.q.size() * 4) == 0);
    check_hip(hipGraphExecDestroy(exec), "hipGraphExecDestroy");
    check_hip(hipGraphDestroy(graph), "hipGraphDestroy");
    check_hip(hipStreamDestroy(stream), "hipStreamDestroy");
}

TEST_CASE("kernel: bad arguments") {
    const AttentionShape s = shape(2, 1, 10, 70, 64);
    SageInputs in = sage_inputs(SageData::gaussian, s, 5);
    SageHostOptions options{.scale = 0.125f, .format = device_fp8()};
    const SageHostOperands h = sage_quantize_host(in.q, in.k, in.v, s, options);
    DeviceOperands device(h, options.format);
    DeviceArray<float> o(h.q.size());
    const auto out = make_contiguous(o.data(), 1, 2, 10, 64);
    const auto call = [&](auto change, AttentionOptions extra = {}) {
        SageOperands views = device.views;
        auto target = out;
        change(views, target);
        executeSageAttention(views, target, extra);
    };
    using O = TensorView<float, 4>;
    CHECK_NOTHROW(call([](SageOperands&, O&) {}));
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.q.data = nullptr; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.q.data += 1; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.q.shape[3] = 32; }), Unsupported);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.k.shape[3] = 32; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.v.shape[2] = 1; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.v.stride[3] = 80; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.q_scale.shape[2] = 2; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.k_scale.shape[1] = 2; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.v_scale.data = nullptr; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands&, O& o) { o.shape[3] = 65; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands&, O& o) { o.shape[2] = 9; }), InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) {
        in.delta_s = in.q_scale.data ? make_contiguous(in.q_scale.data, 1, 2, 1, 7) : in.delta_s;
    }),
        InvalidArgument);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) {
        in.v_format = in.v_format == Fp8Format::fnuz ? Fp8Format::ocp : Fp8Format::fnuz;
    }),
        TypeMismatch);
    CHECK_THROWS_AS(call([](SageOperands& in, O&) { in.packed.count = 2; }), InvalidArgument);
    AttentionOptions scaled;
    scaled.scale = 1.f;
    CHECK_THROWS_AS(call([](SageOperands&, O&) {}, scaled), InvalidArgument);
    CHECK_THROWS_AS(executeSageAttention(device.views, out, {}, 96), InvalidArgument);
    CHECK(o.guards_intact());
}
