// FlashAttentionWmmaDPP on read operations: fp32, caches with token scales, chains, epilogues, 8-bit scores.
#include "support.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {

// A cache of `stored` tokens, of which the kernel uses the first `kv_len`; the rest, and its scales, decode to NaN.
template <class Code> struct Cache {
    DeviceArray<Code> codes;
    DeviceArray<float> scales;
    std::vector<float> values; // (plane, kv_len, dim), decoded

    Cache(const std::vector<float>& source, std::int64_t planes, std::int64_t kv_len, std::int64_t stored,
        std::int64_t dim)
        : Cache(quantise(source, planes, kv_len, stored, dim)) {}

    // Writes a scale or a code of device memory; `values` are left to the caller.
    template <class T> static void overwrite(const DeviceArray<T>& memory, std::int64_t at, T value) {
        check_hip(hipMemcpy(memory.data() + at, &value, sizeof(T), hipMemcpyHostToDevice), "hipMemcpy to device");
    }

private:
    struct Host {
        std::vector<Code> codes;
        std::vector<float> scales, values;
    };
    explicit Cache(const Host& host) : codes(host.codes), scales(host.scales), values(host.values) {}
    static Host quantise(const std::vector<float>& source, std::int64_t planes, std::int64_t kv_len,
        std::int64_t stored, std::int64_t dim) {
        Host host;
        host.codes.resize(std::size_t(planes * stored * dim));
        std::memset(static_cast<void*>(host.codes.data()), 0x7f, host.codes.size() * sizeof(Code));
        host.scales.assign(std::size_t(planes * stored), std::numeric_limits<float>::quiet_NaN());
        for (std::int64_t plane = 0; plane < planes; ++plane)
            for (std::int64_t token = 0; token < kv_len; ++token) {
                const float* row = source.data() + (plane * kv_len + token) * dim;
                float largest = 0;
                for (std::int64_t d = 0; d < dim; ++d) largest = std::max(largest, std::abs(row[d]));
                const float scale = largest > 0 ? largest / NumericTraits<Code>::largest : 1.f;
                host.scales[std::size_t(plane * stored + token)] = scale;
                for (std::int64_t d = 0; d < dim; ++d) {
                    Code code;
                    if constexpr (std::is_same_v<Code, std::int8_t>)
                        code = std::int8_t(std::nearbyint(row[d] / scale));
                    else
                        code = from_float<Code>(row[d] / scale);
                    host.codes[std::size_t((plane * stored + token) * dim + d)] = code;
                    host.values.push_back(to_float(code) * scale);
                }
            }
        return host;
    }
};

template <class Code, class Q, int HeadDim, WmmaQk Qk>
Result run_cached(const Problem& p, const Inputs& in, const Cache<Code>& k, const Cache<Code>& v, std::int64_t stored) {
    const auto& s = p.shape;
    auto codes = [&](const Cache<Code>& cache, std::int64_t dim) {
        auto view = make_contiguous((const Code*)cache.codes.data(), s.batch, s.heads_kv, stored, dim);
        auto scales = make_contiguous((const float*)cache.scales.data(), s.batch, s.heads_kv, stored);
        return make_cache_read(view, scales);
    };
    const auto q = place<Q>(in.q, s.batch, s.heads_q, s.q_len, s.head_dim);
    const auto o = place<float>({}, s.batch, s.heads_q, s.q_len, s.head_dim_v);
    const Lse lse(s);
    constexpr WmmaTuning tuning = [] {
        WmmaTuning t = wmma_tuning(HeadDim);
        t.qk = Qk;
        return t;
    }();
    executeFlashAttentionWmma<HeadDim, wmma_block_kv(HeadDim), wmma_waves(HeadDim), tuning>(make_attention_read(q.view),
        codes(k, s.head_dim), codes(v, s.head_dim_v), make_attention_write(o.view), s,
        AttentionOptions{.causal = p.causal, .scale = p.scale, .lse = lse.view(s)});
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    CHECK(o.surroundings_intact());
    CHECK(lse.memory.guards_intact());
    return {decode(o.values()), lse.memory.host()};
}

// Attention over a cache, with the errors that its mode is promised to keep on uniform [-1, 1].
template <class Code, class Q, int HeadDim, WmmaQk Qk>
std::string cached(Problem p, double tolerance, double tolerance_of_lse = lse_tolerance) {
    INFO(p.text());
    const auto& s = p.shape;
    const std::int64_t stored = s.kv_len + 29, planes = s.batch * s.heads_kv;
    Inputs in = make_inputs<Q>(p);
    const Cache<Code> k(in.k, planes, s.kv_len, stored, s.head_dim), v(in.v, planes, s.kv_len, stored, s.head_dim_v);
    in.k = k.values, in.v = v.values;
    const Result got = run_cached<Code, Q, HeadDim, Qk>(p, in, k, v, stored);
    const auto want = attention_oracle(in.q, in.k, in.v, s, p.causal, p.scale_used());
    const double error = compare(got.o, want.o).max_abs, of_lse = lse_error(got.lse, want.lse);
    CHECK(error <= tolerance);
    CHECK(of_lse <= tolerance_of_lse);
    return errors_text(error, of_lse);
}

// Token scales of v that are NaN or infinite, and NaN codes where there are any: both read as NaN.
template <class Code, class Q> void spoiled(const Problem& p) {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const auto& s = p.shape;
    const std::int64_t stored = s.kv_len + 3, planes = s.batch * s.heads_kv, dim = s.head_dim_v;
    Inputs in = make_inputs<Q>(p);
    const Cache<Code> k(in.k, planes, s.kv_len, stored, s.head_dim), v(in.v, planes, s.kv_len, stored, dim);
    in.k = k.values, in.v = v.values;
    auto run = [&] { return run_cached<Code, Q, 64, WmmaQk::element>(p, in, k, v, stored); };
    const Result plain = run();
    if constexpr (std::is_same_v<Code, float8_e4m3fn>)
        for (std::int64_t d = 0; d < dim; ++d) {
            v.overwrite(v.codes, (d * 7 % s.kv_len) * dim + d, from_float<Code>(nan));
            in.v[std::size_t((d * 7 % s.kv_len) * dim + d)] = nan;
        }
    for (std::int64_t plane = 0; plane < planes; ++plane) {
        const std::int64_t token = s.kv_len - 5 - 20 * plane;
        v.overwrite(v.scales, plane * stored + token, plane % 2 ? inf : nan);
        for (std::int64_t d = 0; d < dim; ++d) in.v[std::size_t((plane * s.kv_len + token) * dim + d)] = nan;
    }
    const Result got = run();
    const auto want = attention_oracle(in.q, in.k, in.v, s, p.causal, p.scale_used());
    INFO(p.text());
    CHECK(difference_beside_non_finite(got.o, plain.o, want.o) == "");
    CHECK(bit_equal(got.lse, plain.lse));
}

} // namespace

TEST_CASE("NaN and infinities in v reach the rows that see their keys: fp32 and caches") {
    for (int dim : {64, 57}) {
        const Problem p{make_shape(1, 2, 1, 150, 170, dim), Causal::bottom_right};
        check_non_finite_values<float>(p, [&](const Inputs& in) { return run_wmma<float, float, 64>(p, in); });
    }
    for (Causal causal : {Causal::top_left, Causal::bottom_right}) {
        const Problem p{make_shape(1, 2, 2, 45, 70, 64), causal};
        spoiled<std::int8_t, bfloat16>(p);
        spoiled<std::int8_t, float16>(p);
        spoiled<float8_e4m3fn, bfloat16>(p);
    }
    spoiled<float8_e4m3fn, bfloat16>({make_shape(1, 2, 2, 45, 70, 60), Causal::top_left});
}

// int8 and fp8 caches: q is exact, codes are exact in bf16, weights are rounded to 9 bits: 2^-9 relative, and with some
// 100 keys the error of the mean is below 5e-4. Scores of e4m3: q has 4 bits, so a score of magnitude 1 is off by some
// 2^-5 / sqrt(D); of int8: q has 8 bits. lse has the errors of the scores alone: none but fp32's with 16-bit scores.
TEST_CASE("int8 and fp8 caches longer than the length in use") {
    for (Causal causal : {Causal::none, Causal::bottom_right}) {
        const Problem p64{make_shape(2, 4, 2, 45, 140, 64), causal}, p128{make_shape(1, 2, 1, 67, 150, 128), causal};
        const Problem ragged{make_shape(1, 2, 1, 20, 140, 61, 50), causal};
        MESSAGE("int8 d64: ", (cached<std::int8_t, bfloat16, 64, WmmaQk::automatic>(p64, 5e-4)));
        MESSAGE("int8 d128: ", (cached<std::int8_t, bfloat16, 128, WmmaQk::automatic>(p128, 5e-4)));
        MESSAGE("int8 f16 q: ", (cached<std::int8_t, float16, 64, WmmaQk::automatic>(p64, 5e-4)));
        MESSAGE("int8 ragged: ", (cached<std::int8_t, bfloat16, 64, WmmaQk::automatic>(ragged, 5e-4)));
        MESSAGE("int8 QK d64: ", (cached<std::int8_t, bfloat16, 64, WmmaQk::int8>(p64, 1.5e-3, 1e-2)));
        MESSAGE("fp8, bf16 QK: ", (cached<float8_e4m3fn, bfloat16, 64, WmmaQk::element>(p64, 5e-4)));
        MESSAGE("fp8 QK d64: ", (cached<float8_e4m3fn, bfloat16, 64, WmmaQk::automatic>(p64, 9e-3, 5e-2)));
        MESSAGE("fp8 QK d128: ", (cached<float8_e4m3fn, bfloat16, 128, WmmaQk::automatic>(p128, 9e-3, 5e-2)));
        MESSAGE("fp8 QK ragged: ", (cached<float8_e4m3fn, bfloat16, 64, WmmaQk::automatic>(ragged, 9e-3, 5e-2)));
    }
    Problem scaled{make_shape(1, 2, 1, 20, 70, 64), Causal::none};
    for (float scale : {-0.2f, 0.f}) {
        scaled.scale = scale;
        cached<std::int8_t, bfloat16, 64, WmmaQk::automatic>(scaled, 1e-3);
        cached<float8_e4m3fn, bfloat16, 64, WmmaQk::automatic>(scaled, 2e-2, 5e-2);
    }
}

TEST_CASE("caches of every kind of data") {
    // Weights as in support.h, on values whose magnitude the codes keep. In e4m3 q keeps 4 bits: a product is off
    // by 2.6 % in the root mean square, a score of 64 of them with unit variance by as much, and so a weight; errors of
    // o are means of many of those, so 6 % leaves room for the largest of them.
    for (Data data : all_data) {
        const Problem p{make_shape(1, 2, 1, 37, 140, 64), Causal::bottom_right, data};
        const double largest = largest_magnitude(make_inputs<bfloat16>(p).v);
        cached<std::int8_t, bfloat16, 64, WmmaQk::automatic>(p, weight_error * largest);
        cached<float8_e4m3fn, bfloat16, 64, WmmaQk::element>(p, weight_error * largest);
        if (data != Data::large && data != Data::sinks) // where scores are in the hundreds 4 bits decide nothing
            cached<float8_e4m3fn, bfloat16, 64, WmmaQk::automatic>(p, 0.06 * largest, 0.06);
    }
}

TEST_CASE("fp32 tensors are rounded to bf16") {
    for (int dim : {64, 57})
        for (Causal causal : {Causal::none, Causal::top_left}) {
            Problem p{make_shape(1, 2, 1, 67, 131, dim), causal};
            const auto in = make_inputs<float>(p);
            // Rounding of q, k and v to 9 bits besides that of the weights.
            const auto result = run_wmma<float, float, 64>(p, in);
            // q and k off by 2^-9 relative: a score, of uniform products, by 2 * 2^-9 / sqrt(3) * 1/3 in the root mean
            // square, 7e-4; lse by the weighted mean of these.
            MESSAGE("fp32 D", dim, ": ", check_wmma(p, in, result, 2.3e-3, 2e-3));
            const Inputs as_used{rounded<bfloat16>(in.q), rounded<bfloat16>(in.k), rounded<bfloat16>(in.v)};
            MESSAGE("... against rounded inputs: ", check_wmma(p, as_used, result));
            CHECK(bit_equal(result.o, run_wmma<float, float, 64>(p, in, iop::Chain<>{}, false).o));
        }
}

TEST_CASE("chains: a prologue is applied before the products") {
    Problem p{make_shape(1, 2, 2, 40, 70, 64), Causal::top_left};
    const auto in = make_inputs<bfloat16>(p);
    const auto plain = run_wmma<bfloat16, float, 64>(p, in);
    auto with = [&](auto&& q_ops, auto&& v_ops) {
        return run_with<bfloat16, float>(p, in, [&](auto q, auto k, auto v, auto o, const AttentionOptions& options) {
            executeFlashAttentionWmma<64>(q_ops(make_attention_read(q)), make_attention_read(k),
                v_ops(make_attention_read(v)), make_attention_write(o), p.shape, options);
        });
    };
    auto same = [](auto read) { return read; };
    // Powers of two commute with every rounding.
    auto result = with([](auto q) { return q.then(iop::Mul{2.f}, iop::Mul{0.5f}); }, same);
    CHECK(bit_equal(result.o, plain.o));
    // Twice q: the oracle of 2 q.
    Inputs doubled = in;
    for (float& value : doubled.q) value *= 2;
    check_wmma(p, doubled, with([](auto q) { return q.then(iop::Mul{2.f}); }, same), general_tolerance(in));
    // 3 v + 1 gives 3 o + 1, up to the rounding of values up to 4 to bf16.
    result = with(same, [](auto v) { return v.then(iop::Mul{3.f}, iop::Add{1.f}); });
    std::vector<double> want(plain.o.size());
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = 3 * double(plain.o[i]) + 1;
    CHECK(compare(result.o, want).max_abs <= 4 * (0x1p-8 + weight_error));
}

TEST_CASE("a fused epilogue equals the epilogue applied to the plain result") {
    for (int dim : {64, 50}) {
        Problem p{make_shape(1, 4, 2, 37, 70, dim), Causal::bottom_right};
        const auto in = make_inputs<bfloat16>(p);
        const auto plain = run_wmma<bfloat16, float, 64>(p, in);
        const auto fused = run_wmma<bfloat16, float, 64, 32, 8, wmma_tuning(64)>(
            p, in, epilogue(iop::Mul{2.f}, iop::Add{0.5f}, iop::Relu{}));
        std::vector<float> want(plain.o.size());
        for (std::size_t i = 0; i < want.size(); ++i) want[i] = std::max(0.f, plain.o[i] * 2 + 0.5f);
        CHECK(compare(fused.o, want).max_abs <= 1e-6);
    }
}
