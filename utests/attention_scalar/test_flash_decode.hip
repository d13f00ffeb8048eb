// executeFlashDecode against the float64 oracle. The budgets are those of flash attention (test_flash_attention.hip):
// 1e-6 for raw elements; 1e-5 against the oracle on dequantised values, which are not limited to [-1, 1].
#include "support.h"

#include "waveattn/attention/flash_decode.h"

#include <array>

using namespace waveattn;
using namespace waveattn::test;

namespace {

constexpr double fp32_tolerance = 1e-6, cache_tolerance = 1e-5, lse_tolerance = 4e-6;

// Device memory for a call, with a workspace for up to 8 splits.
struct Call {
    const Problem& p;
    Placed<float> o;
    DeviceArray<float> lse, workspace;
    DecodeOptions options;

    explicit Call(const Problem& p_, int splits)
        : p(p_), o(place<float>({}, p.shape.batch, p.shape.heads_q, p.shape.q_len, p.shape.head_dim_v)),
          lse(std::size_t(p.shape.batch * p.shape.heads_q * p.shape.q_len)),
          workspace(flash_decode_workspace_bytes(p.shape, std::max(splits, 2)) / sizeof(float)) {
        options.causal = p.causal, options.scale = p.scale;
        options.lse = make_contiguous(lse.data(), p.shape.batch, p.shape.heads_q, p.shape.q_len);
        options.splits = splits;
        options.workspace = workspace.data(), options.workspace_bytes = workspace.count() * sizeof(float);
    }
    Result result() const {
        check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
        CHECK(o.surroundings_intact());
        CHECK(lse.guards_intact());
        CHECK(workspace.guards_intact());
        return {o.values(), lse.host()};
    }
};

template <class T, int HeadDim = any_head_dim> Result run(const Problem& p, const Inputs& in, int splits) {
    const auto& s = p.shape;
    const auto q = place<T>(in.q, s.batch, s.heads_q, s.q_len, s.head_dim, p.layout);
    const auto k = place<T>(in.k, s.batch, s.heads_kv, s.kv_len, s.head_dim, p.layout);
    const auto v = place<T>(in.v, s.batch, s.heads_kv, s.kv_len, s.head_dim_v, p.layout);
    Call call(p, splits);
    executeFlashDecode<HeadDim>(q.view, k.view, v.view, call.o.view, call.options);
    return call.result();
}

} // namespace

TEST_CASE("fp32 for every head_dim, whole and split") {
    for (int dim : {1, 7, 16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256})
        for (int splits : {1, 5}) {
            Problem p{make_shape(1, 2, 2, 1, 300, dim)};
            p.seed = unsigned(dim);
            const auto in = make_inputs<float>(p);
            INFO("splits ", splits);
            check_against_oracle(p, in, run<float>(p, in, splits), fp32_tolerance, lse_tolerance);
        }
}

TEST_CASE("groups of heads, several queries, both causal rules") {
    for (const auto& shape : {make_shape(2, 8, 2, 1, 133, 64), make_shape(1, 12, 1, 1, 70, 128),
             make_shape(1, 2, 1, 3, 90, 64), make_shape(2, 6, 2, 5, 4, 128), make_shape(1, 3, 1, 2, 40, 24, 56)})
        for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right})
            for (int splits : {1, 3}) {
                Problem p{shape, causal};
                const auto in = make_inputs<float>(p);
                INFO("splits ", splits);
                check_against_oracle(p, in, run<float, 128>(p, in, splits), fp32_tolerance, lse_tolerance);
            }
}

TEST_CASE_TEMPLATE("bf16 and f16 caches, every memory layout", T, bfloat16, float16) {
    for (Layout layout : all_layouts)
        for (int dim : {64, 50}) {
            Problem p{make_shape(2, 4, 2, 1, 77, dim)};
            p.layout = layout;
            const auto in = make_inputs<T>(p);
            check_against_oracle(p, in, run<T, 64>(p, in, 2), fp32_tolerance, lse_tolerance);
        }
}

// A cache of `capacity` tokens of which the problem uses kv_len; the rest holds NaN scales and codes of all ones.
template <class Code> struct Cache {
    static constexpr float largest = NumericTraits<Code>::largest;
    std::int64_t capacity;
    DeviceArray<Code> codes;
    DeviceArray<float> scales;
    std::vector<float> values; // of the tokens in use

    Cache(const std::vector<float>& in, std::int64_t planes, std::int64_t tokens, std::int64_t dim,
        std::int64_t capacity_)
        : capacity(capacity_), codes(std::size_t(planes * capacity * dim)), scales(std::size_t(planes * capacity)) {
        auto host_codes = codes.host();
        auto host_scales = scales.host();
        for (std::int64_t plane = 0; plane < planes; ++plane)
            for (std::int64_t token = 0; token < tokens; ++token) {
                const float* row = &in[std::size_t((plane * tokens + token) * dim)];
                float peak = 0;
                for (int d = 0; d < dim; ++d) peak = std::max(peak, std::abs(row[d]));
                const float scale = peak > 0 ? peak / largest : 1.f;
                host_scales[std::size_t(plane * capacity + token)] = scale;
                for (int d = 0; d < dim; ++d) {
                    Code& code = host_codes[std::size_t((plane * capacity + token) * dim + d)];
                    if constexpr (std::is_same_v<Code, std::int8_t>)
                        code = Code(std::nearbyint(row[d] / scale));
                    else
                        code = from_float<Code>(row[d] / scale);
                    values.push_back(to_float(code) * scale);
                }
            }
        check_hip(hipMemcpy(codes.data(), host_codes.data(), host_codes.size(), hipMemcpyHostToDevice), "copy");
        check_hip(hipMemcpy(scales.data(), host_scales.data(), host_scales.size() * 4, hipMemcpyHostToDevice), "copy");
    }
    auto read(std::int64_t planes, std::int64_t dim) const {
        if constexpr (std::is_same_v<Code, std::int8_t>)
            return make_int8_kv_read(codes.data(), scales.data(), planes, capacity, dim);
        else
            return make_fp8_kv_read(codes.data(), scales.data(), planes, capacity, dim);
    }
};

template <class Code, int HeadDim> void check_cache(int dim) {
    Problem p{make_shape(1, 6, 2, 1, 75, dim)};
    p.data = Data::gaussian;
    auto in = make_inputs<float>(p);
    const Cache<Code> k(in.k, 2, 75, dim, 75 + 9), v(in.v, 2, 75, dim, 75 + 14);
    in.k = k.values, in.v = v.values;
    const auto q = place<float>(in.q, 1, 6, 1, dim);
    Call call(p, dim == 64 ? 3 : 1);
    executeFlashDecode<HeadDim>(make_attention_read(q.view), k.read(2, dim), v.read(2, dim),
        make_attention_write(call.o.view), p.shape, call.options);
    check_against_oracle(p, in, call.result(), cache_tolerance, cache_tolerance);
    if constexpr (HeadDim == 128) { // the other kernel reads the same caches
        executeFlashAttention<HeadDim>(
            make_attention_read(q.view), k.read(2, dim), v.read(2, dim), make_attention_write(call.o.view), p.shape);
        const auto want = attention_oracle(in.q, in.k, in.v, p.shape, p.causal, p.scale_used());
        INFO("flash_attention D", dim);
        CHECK(compare(call.o.values(), want.o).max_abs <= cache_tolerance);
    }
}

TEST_CASE("caches with a scale per token, longer than the tokens in use") {
    check_cache<std::int8_t, 32>(32);
    check_cache<std::int8_t, 64>(64);
    check_cache<std::int8_t, 96>(96);
    check_cache<std::int8_t, 128>(80);
    check_cache<std::int8_t, 128>(128);
    check_cache<std::int8_t, 256>(192);
    check_cache<std::int8_t, 256>(256);
    check_cache<float8_e4m3fn, 128>(128);
    check_cache<float8_e4m3fn, 128>(100);
    check_cache<float8_e4m3fnuz, 64>(64);
    check_cache<float8_e4m3fnuz, 64>(37);
}

TEST_CASE("a length for each batch entry, from device memory") {
    // Lengths beyond kv_len count as kv_len, negative ones as 0.
    const std::vector<std::int32_t> lens{0, 1, 64, 100, 1000, -5};
    const std::int64_t batch = std::int64_t(lens.size()), capacity = 100;
    for (Causal causal : {Causal::none, Causal::bottom_right})
        for (int splits : {1, 4}) {
            Problem p{make_shape(batch, 2, 1, 2, capacity, 64), causal};
            auto in = make_inputs<float>(p);
            // NaN past each length must not matter.
            for (std::int64_t b = 0; b < batch; ++b)
                for (std::int64_t i = std::clamp(lens[b], 0, 100) * 64; i < capacity * 64; ++i)
                    in.k[std::size_t(b * capacity * 64 + i)] = in.v[std::size_t(b * capacity * 64 + i)] = NAN;
            const auto q = place<float>(in.q, batch, 2, 2, 64), k = place<float>(in.k, batch, 1, capacity, 64),
                       v = place<float>(in.v, batch, 1, capacity, 64);
            const DeviceArray<std::int32_t> device_lens(lens);
            Call call(p, splits);
            call.options.kv_lens = device_lens.data();
            executeFlashDecode<64>(q.view, k.view, v.view, call.o.view, call.options);
            const auto got = call.result();
            for (std::int64_t b = 0; b < batch; ++b) {
                const std::int64_t len = std::clamp(lens[b], 0, 100);
                auto part = [&](const std::vector<float>& all, std::int64_t row, std::int64_t count) {
                    return std::vector<float>(all.begin() + b * row, all.begin() + b * row + count);
                };
                Problem one{make_shape(1, 2, 1, 2, len, 64), causal};
                const Inputs of_one{
                    part(in.q, 256, 256), part(in.k, capacity * 64, len * 64), part(in.v, capacity * 64, len * 64)};
                INFO("batch entry ", b, " splits ", splits);
                check_against_oracle(
                    one, of_one, {part(got.o, 256, 256), part(got.lse, 4, 4)}, fp32_tolerance, lse_tolerance);
            }
        }
}

TEST_CASE("more splits than tokens, no tokens, empty results") {
    Problem p{make_shape(1, 1, 1, 1, 3, 32)};
    const auto in = make_inputs<float>(p);
    check_against_oracle(p, in, run<float, 32>(p, in, 8), fp32_tolerance, lse_tolerance);
    for (int splits : {1, 2}) {
        p.shape.kv_len = 0;
        const auto empty = run<float, 32>(p, make_inputs<float>(p), splits);
        CHECK(empty.o == std::vector<float>(32, 0.f));
        CHECK(empty.lse[0] == -std::numeric_limits<float>::infinity());
    }
    p.shape = make_shape(0, 1, 1, 1, 3, 32);
    CHECK(run<float, 32>(p, make_inputs<float>(p), 2).o.empty());
}

TEST_CASE("prologue, epilogue and stale workspaces") {
    Problem p{make_shape(1, 4, 1, 1, 64, 64)};
    auto in = make_inputs<float>(p);
    const auto q = place<float>(in.q, 1, 4, 1, 64), k = place<float>(in.k, 1, 1, 64, 64),
               v = place<float>(in.v, 1, 1, 64, 64);
    Call call(p, 4);
    for (int repeat = 0; repeat < 2; ++repeat) { // the workspace holds NaN first, then the partial results of a call
        executeFlashDecode<64>(make_attention_read(q.view).then(iop::Mul{2.f}), make_attention_read(k.view),
            make_attention_read(v.view).then(iop::Mul{3.f}, iop::Add{1.f}),
            make_attention_write(call.o.view, epilogue(iop::Mul{2.f}, iop::Add{0.5f})), p.shape, call.options);
        auto doubled = in;
        for (float& x : doubled.q) x *= 2;
        auto want = attention_oracle(doubled.q, in.k, in.v, p.shape, p.causal, p.scale_used());
        for (double& x : want.o) x = 2 * (3 * x + 1) + 0.5;
        CHECK(compare(call.result().o, want.o).max_abs <= 6 * fp32_tolerance);
    }
}

TEST_CASE("the number of splits fits device and workspace; errors name what is needed") {
    arch::Device device;
    device.compute_units = 28;
    CHECK(flash_decode_splits(make_shape(1, 32, 8, 1, 100000, 128), device) == 14);
    CHECK(flash_decode_splits(make_shape(1, 32, 8, 1, 300, 128), device) == 1);
    CHECK(flash_decode_splits(make_shape(64, 32, 8, 1, 100000, 128), device) == 1);
    CHECK(flash_decode_workspace_bytes(make_shape(1, 32, 8, 1, 1000, 128), 1) == 0);
    CHECK(flash_decode_workspace_bytes(make_shape(1, 32, 8, 2, 1000, 128), 3) == 32 * 2 * 3 * 130 * 4);

    Problem p{make_shape(1, 1, 1, 1, 2000, 64)};
    const auto in = make_inputs<float>(p);
    const auto q = place<float>(in.q, 1, 1, 1, 64), k = place<float>(in.k, 1, 1, 2000, 64),
               v = place<float>(in.v, 1, 1, 2000, 64);
    Call call(p, 2);
    call.options.splits = 0; // automatic: at most the two that the workspace holds
    executeFlashDecode<64>(q.view, k.view, v.view, call.o.view, call.options);
    check_against_oracle(p, in, call.result(), fp32_tolerance, lse_tolerance);
    call.options.workspace = nullptr; // automatic without a workspace: one
    executeFlashDecode<64>(q.view, k.view, v.view, call.o.view, call.options);
    check_against_oracle(p, in, call.result(), fp32_tolerance, lse_tolerance);
    call.options.splits = 4;
    CHECK_THROWS_WITH_AS(executeFlashDecode<64>(q.view, k.view, v.view, call.o.view, call.options),
        "4 splits need a workspace of 1056 bytes, got 0", InvalidArgument);
    call.options.splits = -1;
    CHECK_THROWS_AS(executeFlashDecode<64>(q.view, k.view, v.view, call.o.view, call.options), InvalidArgument);

    // Rows are counted in 32 bits.
    auto many_q = q.view;
    auto many_o = call.o.view;
    for (auto* view : {&many_q, &many_o}) view->shape[1] = 2048, view->shape[2] = 1 << 20;
    for (int axis : {1, 2}) many_q.stride[axis] = many_o.stride[axis] = 0;
    CHECK_THROWS_WITH_AS(executeFlashDecode<64>(many_q, k.view, v.view, many_o),
        doctest::Contains("more than 2^30 queries"), Unsupported);
}
