// What the scalar kernels do besides the formula: operations on the way in and out, non-finite values, views beyond
// 32-bit offsets, many heads, graphs, errors.
#include "support.h"

#include "waveattn/attention/flash_decode.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {
constexpr float inf = std::numeric_limits<float>::infinity(), nan_value = std::numeric_limits<float>::quiet_NaN();

// An operation of another library: {x, y, z} = {dim, token, plane}, static exec.
struct ForeignPoint {
    unsigned x, y, z;
};
struct ForeignIop;
struct ForeignRead {
    WAVEATTN_HOST_DEVICE static float exec(ForeignPoint point, const ForeignIop& iop);
};
struct ForeignIop {
    using Operation = ForeignRead;
    const float* data;
    unsigned tokens, dim;
};
WAVEATTN_HOST_DEVICE inline float ForeignRead::exec(ForeignPoint point, const ForeignIop& iop) {
    return iop.data[(point.z * iop.tokens + point.y) * iop.dim + point.x];
}
static_assert(iop::ForeignReadOp<ForeignIop>);
} // namespace

TEST_CASE("operations on q, k and v, and their algebra") {
    Problem p{make_shape(1, 2, 2, 33, 45, 64), Causal::top_left};
    const auto in = make_inputs<float>(p);
    const auto q = place<float>(in.q, 1, 2, 33, 64), k = place<float>(in.k, 1, 2, 45, 64),
               v = place<float>(in.v, 1, 2, 45, 64), o = place<float>({}, 1, 2, 33, 64);
    const auto write = make_attention_write(o.view);
    auto doubled = in;
    for (float& x : doubled.q) x *= 2;
    const auto of_doubled = attention_oracle(doubled.q, in.k, in.v, p.shape, p.causal, p.scale_used());
    const auto plain = attention_oracle(in.q, in.k, in.v, p.shape, p.causal, p.scale_used());
    const AttentionOptions options{.causal = p.causal};

    // Doubling q, or k, doubles the scores.
    const auto twice = [](auto read) { return read.then(iop::Mul{2.f}); };
    const auto rq = make_attention_read(q.view), rk = make_attention_read(k.view), rv = make_attention_read(v.view);
    executeFlashAttention<64>(twice(rq), rk, rv, write, p.shape, options);
    CHECK(compare(o.values(), of_doubled.o).max_abs <= 5e-6);
    executeFlashAttention<64>(
        rq, rk.then(iop::map([] __device__(float x) { return x + x; })), rv, write, p.shape, options);
    CHECK(compare(o.values(), of_doubled.o).max_abs <= 5e-6);

    // The weights sum to 1, so a linear map of v is that map of o.
    executeFlashAttention<64>(rq, rk, rv.then(iop::Mul{3.f}, iop::Add{1.f}), write, p.shape, options);
    auto want = plain.o;
    for (double& x : want) x = 3 * x + 1;
    CHECK(compare(o.values(), want).max_abs <= 3 * 5e-6);

    // An operation of another library, on contiguous planes, by the overload without groups of heads.
    executeFlashAttention<64>(
        ForeignIop{q.view.data, 33, 64}, ForeignIop{k.view.data, 45, 64}, rv, o.view.data, 2, 33, 45, Causal::top_left);
    CHECK(compare(o.values(), plain.o).max_abs <= 5e-6);
    // The same values through the pointer overload, with a scale.
    executeFlashAttention<64>(
        q.view.data, k.view.data, v.view.data, o.view.data, 2, 33, 45, Causal::none, nullptr, 0.25f);
    want = attention_oracle(in.q, in.k, in.v, p.shape, Causal::none, 0.25).o;
    CHECK(compare(o.values(), want).max_abs <= 5e-6);
}

TEST_CASE("an epilogue equals the same operations applied afterwards") {
    Problem p{make_shape(1, 2, 1, 30, 20, 37)};
    p.layout = Layout::sliced;
    const auto in = make_inputs<float>(p);
    const std::vector<float> host_bias = make_values(Data::gaussian, 1, 1, 1, 37, 5);
    const DeviceArray<float> bias(host_bias);
    auto want = run_flash<float, float, 64>(p, in).o;
    const auto fused =
        run_flash<float, float, 64>(p, in, epilogue(iop::Mul{2.f}, iop::Bias{bias.data()}, iop::Gelu{})).o;
    for (std::size_t i = 0; i < want.size(); ++i) {
        const double x = 2.0 * want[i] + host_bias[i % 37];
        want[i] = float(0.5 * x * (1 + std::erf(x / std::sqrt(2.0))));
    }
    CHECK(compare(fused, want).max_abs <= 1e-6);
}

TEST_CASE("NaN stays where it is seen") {
    Problem p{make_shape(1, 1, 1, 40, 40, 32), Causal::top_left};
    auto clean = make_inputs<float>(p);
    const auto reference = run_flash<float, float, 32>(p, clean);
    const auto row_is_nan = [&](const Result& r, int row) { return std::isnan(r.o[std::size_t(row) * 32]); };

    auto in = clean; // one row of q
    in.q[7 * 32 + 5] = nan_value;
    auto result = run_flash<float, float, 32>(p, in);
    for (int row = 0; row < 40; ++row) CHECK(row_is_nan(result, row) == (row == 7));

    in = clean; // one key: every row that sees it
    in.k[21 * 32 + 3] = nan_value;
    result = run_flash<float, float, 32>(p, in);
    for (int row = 0; row < 40; ++row) CHECK(row_is_nan(result, row) == (row >= 21));

    for (float bad : {nan_value, inf, -inf}) { // one value: that dim of every row that sees it, the bits of all others
        in = clean;
        in.v[21 * 32 + 3] = bad;
        result = run_flash<float, float, 32>(p, in);
        for (std::size_t i = 0; i < result.o.size(); ++i) {
            if (i % 32 == 3 && i / 32 >= 21)
                CHECK_FALSE(std::isfinite(result.o[i]));
            else
                CHECK(result.o[i] == reference.o[i]);
        }
        CHECK(bit_equal(result.lse, reference.lse));
    }
}

TEST_CASE("infinite scores behave as in an fp32 softmax") {
    Problem p{make_shape(1, 1, 1, 3, 10, 16)};
    auto in = make_inputs<float>(p);
    std::fill(in.q.begin() + 16, in.q.begin() + 32, 1.f);
    std::fill(in.k.begin() + 4 * 16, in.k.begin() + 5 * 16, -inf); // key 4: row 1 scores -infinity
    in.q[0] = 1.f, std::fill(in.q.begin() + 1, in.q.begin() + 16, 2.f);
    std::fill(in.q.begin() + 32, in.q.end(), -1.f); // row 2 scores +infinity there
    const auto result = run_flash<float, float, 32>(p, in);
    auto without = in; // what rows 0 and 1 must be: key 4 has no weight
    const auto drop = [](std::vector<float>& x) { x.erase(x.begin() + 4 * 16, x.begin() + 5 * 16); };
    drop(without.k), drop(without.v);
    const auto want = attention_oracle(without.q, without.k, without.v, make_shape(1, 1, 1, 3, 9, 16), p.causal, 0.25);
    for (int i = 0; i < 32; ++i) CHECK(result.o[i] == doctest::Approx(want.o[i]).epsilon(1e-5));
    for (int i = 32; i < 48; ++i) CHECK(std::isnan(result.o[i]));

    std::fill(in.k.begin(), in.k.end(), -inf); // nothing but -infinity: 0, not 0/0
    const auto empty = run_flash<float, float, 32>(p, in);
    for (int i = 16; i < 32; ++i) CHECK(empty.o[i] == 0.f);
    CHECK(empty.lse[1] == -inf);
}

TEST_CASE("the result may replace q") {
    Problem p{make_shape(1, 4, 2, 150, 70, 64), Causal::bottom_right};
    const auto in = make_inputs<float>(p);
    const auto q = place<float>(in.q, 1, 4, 150, 64), k = place<float>(in.k, 1, 2, 70, 64),
               v = place<float>(in.v, 1, 2, 70, 64);
    executeFlashAttention<64>(q.view, k.view, v.view, q.view, {.causal = p.causal});
    CHECK(bit_equal(q.values(), run_flash<float, float, 64>(p, in).o));
}

TEST_CASE("more heads than a 16-bit grid axis") {
    if (!full() && arch::current_device().target != arch::Target::gfx1200) {
        MESSAGE("skipped: 70000 workgroups run on one target by default, on all with WAVEATTN_TEST_FULL=1");
        return;
    }
    // 70000 planes with one query and one key each: o is v.
    const std::int64_t planes = 70000;
    const auto values = make_values(Data::structured, 1, 1, planes, 4, 1);
    const DeviceArray<float> x(values), o(values.size());
    executeFlashAttention<4>(x.data(), x.data(), x.data(), o.data(), planes, 1, 1);
    CHECK(bit_equal(o.host(), values));
}

TEST_CASE("offsets beyond 2^31 elements and 4 GiB") {
    // Head 1 lies 2^31 + 64 elements (8 GiB) after head 0.
    const std::int64_t far = (std::int64_t(1) << 31) + 64;
    float* memory = nullptr;
    if (hipMalloc(&memory, std::size_t(far + 4096) * sizeof(float)) != hipSuccess) {
        MESSAGE("skipped: the device has no 8 GiB to allocate");
        return;
    }
    Problem p{make_shape(1, 2, 2, 9, 11, 32)};
    const auto in = make_inputs<float>(p);
    TensorView<float, 4> view = make_contiguous(memory, 1, 2, 11, 32);
    view.stride[1] = far;
    const auto fill = [&](const std::vector<float>& values, std::int64_t tokens) {
        for (std::int64_t head = 0; head < 2; ++head)
            check_hip(hipMemcpy(memory + head * far, values.data() + head * tokens * 32,
                          std::size_t(tokens) * 32 * sizeof(float), hipMemcpyHostToDevice),
                "copy");
    };
    const auto q = place<float>(in.q, 1, 2, 9, 32), v = place<float>(in.v, 1, 2, 11, 32),
               o = place<float>({}, 1, 2, 9, 32);
    fill(in.k, 11);
    executeFlashAttention<32>(q.view, view, v.view, o.view);
    const auto want = attention_oracle(in.q, in.k, in.v, p.shape, p.causal, p.scale_used());
    CHECK(compare(o.values(), want.o).max_abs <= 5e-6);

    auto far_o = view; // and a result that is written there
    far_o.shape[2] = 9;
    const auto k = place<float>(in.k, 1, 2, 11, 32);
    executeFlashAttention<32>(q.view, k.view, v.view, far_o);
    std::vector<float> got(2 * 9 * 32);
    for (std::int64_t head = 0; head < 2; ++head)
        check_hip(hipMemcpy(got.data() + head * 288, memory + head * far, 288 * sizeof(float), hipMemcpyDeviceToHost),
            "copy");
    CHECK(compare(got, want.o).max_abs <= 5e-6);
    (void)hipFree(memory);
}

TEST_CASE("a captured graph replays bit for bit and reads what the buffers then hold") {
    Problem p{make_shape(1, 2, 1, 20, 70, 64), Causal::bottom_right};
    const auto in = make_inputs<float>(p);
    const auto k = place<float>(in.k, 1, 1, 70, 64), v = place<float>(in.v, 1, 1, 70, 64);
    auto q = place<float>(std::vector<float>(in.q.size(), 0.f), 1, 2, 20, 64);
    const auto o = place<float>({}, 1, 2, 20, 64), decoded = place<float>({}, 1, 2, 20, 64);
    const DeviceArray<float> workspace(flash_decode_workspace_bytes(p.shape, 3) / sizeof(float));

    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t executable;
    check_hip(hipStreamCreate(&stream), "stream");
    const AttentionOptions options{.causal = p.causal, .stream = stream};
    DecodeOptions decode_options;
    decode_options.causal = p.causal, decode_options.stream = stream, decode_options.splits = 3;
    decode_options.workspace = workspace.data(), decode_options.workspace_bytes = workspace.count() * sizeof(float);
    check_hip(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), "capture");
    executeFlashAttention<64>(q.view, k.view, v.view, o.view, options);
    executeFlashDecode<64>(q.view, k.view, v.view, decoded.view, decode_options);
    check_hip(hipStreamEndCapture(stream, &graph), "end of capture");
    check_hip(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0), "instantiate");

    check_hip(hipMemcpy(q.view.data, in.q.data(), in.q.size() * sizeof(float), hipMemcpyHostToDevice), "copy");
    std::vector<float> first;
    for (int repeat = 0; repeat < 3; ++repeat) {
        check_hip(hipGraphLaunch(executable, stream), "replay");
        check_hip(hipStreamSynchronize(stream), "wait");
        auto both = o.values();
        const auto second = decoded.values();
        both.insert(both.end(), second.begin(), second.end());
        if (repeat == 0) first = both;
        CHECK(bit_equal(both, first));
    }
    const auto want = attention_oracle(in.q, in.k, in.v, p.shape, p.causal, p.scale_used());
    CHECK(compare(o.values(), want.o).max_abs <= 5e-6);
    CHECK(compare(decoded.values(), want.o).max_abs <= 5e-6);
    (void)hipGraphExecDestroy(executable);
    (void)hipGraphDestroy(graph);
    (void)hipStreamDestroy(stream);
}

TEST_CASE("errors say what was expected, and nothing is launched") {
    const auto q = place<float>({}, 1, 4, 5, 64), kv = place<float>({}, 1, 2, 6, 64), o = place<float>({}, 1, 4, 5, 64);
    const auto call = [&](auto change) {
        auto q_ = q.view;
        auto k_ = kv.view, v_ = kv.view, o_ = o.view;
        AttentionOptions options;
        change(q_, k_, v_, o_, options);
        executeFlashAttention<64>(q_, k_, v_, o_, options);
    };
#define CHECK_ERROR(type, text, statement)                                                                             \
    CHECK_THROWS_WITH_AS(call([&]([[maybe_unused]] auto& q_, [[maybe_unused]] auto& k_, [[maybe_unused]] auto& v_,     \
                                  [[maybe_unused]] auto& o_, [[maybe_unused]] auto& options) { statement; }),          \
        text, type)
    CHECK_ERROR(InvalidArgument, "k must have q's head_dim 64, got 32", k_.shape[3] = 32);
    CHECK_ERROR(InvalidArgument, "q, k and v must have the same batch size, got 1, 2 and 1", k_.shape[0] = 2);
    CHECK_ERROR(InvalidArgument, "k and v must have the same heads and length, got (1, 2, 6, 64) and (1, 2, 7, 64)",
        v_.shape[2] = 7);
    CHECK_ERROR(InvalidArgument, "the heads of q (3) must be a multiple of the heads of k and v (2)",
        (q_.shape[1] = 3, o_.shape[1] = 3));
    CHECK_ERROR(InvalidArgument, "o must be (1, 4, 5, 64), got (1, 4, 4, 64)", o_.shape[2] = 4);
    CHECK_ERROR(InvalidArgument, "v is a null pointer, but its shape is (1, 2, 6, 64)", v_.data = nullptr);
    CHECK_ERROR(InvalidArgument, "q must have a last stride of 1, got 2", q_.stride[3] = 2);
    CHECK_ERROR(InvalidArgument, "k has a negative stride along axis 2", k_.stride[2] = -64);
    CHECK_ERROR(InvalidArgument, "scale must be finite, got nan", options.scale = nan_value);
    CHECK_ERROR(InvalidArgument, "scale must be finite, got inf", options.scale = inf);
    CHECK_ERROR(
        InvalidArgument, "lse must be (1, 4, 5), got (1, 4, 6)", options.lse = make_contiguous(o.view.data, 1, 4, 6));
#undef CHECK_ERROR
    const auto wide = place<float>({}, 1, 1, 2, 65);
    CHECK_THROWS_WITH_AS(executeFlashAttention<64>(wide.view, wide.view, wide.view, wide.view),
        "this instantiation covers head_dim up to 64, got 65", Unsupported);
    const auto read = make_attention_read(kv.view);
    CHECK_THROWS_WITH_AS(
        executeFlashAttention<64>(read, read, read, make_attention_write(o.view), make_shape(1, 2, 2, 7, 6, 64)),
        "q holds (batch, heads, tokens, dim) = (1, 2, 6, 64), which is less than the (1, 2, 7, 64) of the call",
        InvalidArgument);
    CHECK(o.surroundings_intact());
    const auto untouched = o.memory.host();
    CHECK(std::all_of(untouched.begin(), untouched.end(), [](float x) { return std::isnan(x); }));

    arch::Device other{.ordinal = 3, .wave_size = 32, .name = "Radeon RX 7900", .gcn_arch = "gfx1100"};
    CHECK_THROWS_WITH_AS(detail::with_wave_size(other, "flash_attention", [](auto) {}),
        doctest::Contains("gfx1100, which no waveattn kernel supports"), UnsupportedDevice);
}
