// What the WMMA tests share: tolerances, and one run of the kernel on laid-out memory.
//
// Tolerances. An output is sum(w_j v_j) / sum(w_j); with a relative error d_j of each weight it moves by
// sum(w_j d_j (v_j - o)) / sum(w_j), at most max|d| max|v - o|. A weight is a bf16: rounded, |d| <= 2^-8; from packed
// arithmetic (full tiles), |d| <= 0.0089, of which two thirds are rounding (wmma_softmax.h). So |error| <= 0.0089 * 2
// max|v| at worst, where one half of the weight sits on either end of the range; errors of many keys average out, and
// the budget below is half of that worst case. For uniform [-1, 1] the library promises 1.5e-3. lse moves by at most
// max|d|. Scores have the error of an fp32 sum of exact products, which shows where scores are in the thousands.
#pragma once

#include "attention_scalar/support.h"

#include "waveattn/attention/dispatch.h"

namespace waveattn::test {

constexpr double weight_error = 0.0089;
constexpr double uniform_tolerance = 1.5e-3;

inline double largest_magnitude(const std::vector<float>& values) {
    double largest = 0;
    for (float value : values) largest = std::max(largest, std::abs(double(value)));
    return largest;
}

// The budget of any data: half the worst case.
inline double general_tolerance(const Inputs& in) { return weight_error * largest_magnitude(in.v); }
inline double tolerance_of(const Problem& p, const Inputs& in) {
    return p.data == Data::uniform && !p.scale ? uniform_tolerance : general_tolerance(in);
}

// Checks a result against the oracle, and returns the largest error of o.
inline double check_wmma(const Problem& p, const Inputs& in, const Result& result, double tolerance) {
    INFO(p.text());
    const auto want = attention_oracle(in.q, in.k, in.v, p.shape, p.causal, p.scale_used());
    const double error = compare(result.o, want.o).max_abs;
    CHECK(error <= tolerance);
    CHECK(compare(result.lse, want.lse).max_abs <= weight_error + (p.data == Data::large ? 4e-3 : 0));
    return error;
}
inline double check_wmma(const Problem& p, const Inputs& in, const Result& result) {
    return check_wmma(p, in, result, tolerance_of(p, in));
}

struct Lse {
    DeviceArray<float> memory;
    explicit Lse(const AttentionShape& s) : memory(std::size_t(s.batch * s.heads_q * s.q_len)) {}
    TensorView<float, 3> view(const AttentionShape& s) const {
        return make_contiguous(memory.data(), s.batch, s.heads_q, s.q_len);
    }
};

// Runs `call(q, k, v, o, options)` on device memory laid out as the problem says and checks that nothing else was
// written.
template <class T, class O, class Call> Result run_with(const Problem& p, const Inputs& in, Call&& call) {
    const auto& s = p.shape;
    const auto q = place<T>(in.q, s.batch, s.heads_q, s.q_len, s.head_dim, p.layout);
    const auto k = place<T>(in.k, s.batch, s.heads_kv, s.kv_len, s.head_dim, p.layout);
    const auto v = place<T>(in.v, s.batch, s.heads_kv, s.kv_len, s.head_dim_v, p.layout);
    const auto o = place<O>({}, s.batch, s.heads_q, s.q_len, s.head_dim_v,
        p.layout == Layout::expanded ? Layout::bhsd : p.layout); // an output may not overlap itself
    const Lse lse(s);
    call(q.view, k.view, v.view, o.view, AttentionOptions{.causal = p.causal, .scale = p.scale, .lse = lse.view(s)});
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    CHECK(o.surroundings_intact());
    CHECK(lse.memory.guards_intact());
    return {decode(o.values()), lse.memory.host()};
}

template <class T, class O, int HeadDim, int BlockKv = wmma_block_kv(HeadDim), int NumWaves = wmma_waves(HeadDim),
    WmmaTuning Tuning = wmma_tuning(HeadDim), iop::Epilogue E = iop::Chain<>>
Result run_wmma(const Problem& p, const Inputs& in, E chain = {}) {
    return run_with<T, O>(p, in, [&](auto&&... arguments) {
        executeFlashAttentionWmma<HeadDim, BlockKv, NumWaves, Tuning>(arguments..., chain);
    });
}

} // namespace waveattn::test
