// The kernel on host-quantised operands: against the float64 oracle of those operands, and of the original inputs.
#include "sage_support.h"

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

void check(const Case& c) {
    const AttentionShape& s = c.shape;
    const auto got = run<float>(c);
    const Oracle want = quantised_oracle(got.host, s, c.causal, device_fp8(), c.rows);
    const Difference o = compare(got.o, want.o);
    const Difference lse = compare(got.lse, want.lse);
    MESSAGE(sage_data_name(c.data), " Sq ", s.q_len, " Sk ", s.kv_len, " D ", s.head_dim, " H ", s.heads_q, "/",
        s.heads_kv, ": kernel cos ", o.cosine, " l2 ", o.relative_l2, " lse ", lse.max_abs);
    CHECK(o.relative_l2 < 0.04);
    CHECK(o.cosine > 0.999);
    CHECK(lse.max_abs < 1e-3);
}

} // namespace

TEST_CASE("dense") {
    check({.shape = {1, 1, 1, 32, 64, 128, 128}, .block_q = 64});
    check({.shape = {1, 2, 1, 100, 300, 128, 128}, .block_q = 256});
}
