// What the WMMA tests share: tolerances, and one run of the kernel on laid-out memory.
//
// Tolerances. An output is sum(w_j v_j) / sum(w_j); with a relative error d_j of each weight it moves by
// sum(w_j d_j (v_j - o)) / sum(w_j), at most max|d| max|v - o|. A weight is a bf16: rounded, |d| <= 2^-8; from packed
// arithmetic (full tiles), |d| <= 0.0089, of which two thirds are rounding (wmma_softmax.h). So |error| <= 0.0089 * 2
// max|v| at worst, where one half of the weight sits on either end of the range; errors of many keys average out, and
// the budget below is half of that worst case. For uniform [-1, 1] the library promises 1.5e-3.
//
// lse has a sum of its own, of unrounded weights, so its error is that of the scores and of fp32. With u = 2^-24:
//   scores    fp32 sums of D exact products, the reference m added: at most (D + 1) u of scale sum |q k|, as good as
//             independent roundings some sqrt(D) u of it: 1e-6 for uniform, 2.4e-6 for gaussian inputs of D = 64,
//             and different for each key
//   weights   2^x by v_exp_f32, 1 ulp of 2 u; x = s c rounded: u |x| 2^x, below 8 u 2^x (x < 8, the lazy threshold)
//   sum       the terms of a tile, then one addition a tile: (BLOCK_KV / 2 + tiles + 1) u, and 2 u a rescale
//   lse       (log2(sum) - m c) ln2: c, the product, the difference and ln2, 4 u of |lse|
// For the shapes here, 150 keys or so, that is some 40 u = 2.4e-6, the scores' share and 4 u |lse|. Where inputs are
// scaled by 30, sum |q k| and |lse| are both in the thousands: the bound is relative to max(1, |lse|). 1e-5 is asked
// for; lse of rounded weights would be off by up to 9e-3.
#pragma once

#include "attention_scalar/support.h"

#include "waveattn/attention/dispatch.h"

#include <cstdio>

namespace waveattn::test {

constexpr double weight_error = 0.0089;
constexpr double uniform_tolerance = 1.5e-3;
constexpr double lse_tolerance = 1e-5; // of max(1, |lse|)

inline double largest_magnitude(const std::vector<float>& values) {
    double largest = 0;
    for (float value : values) largest = std::max(largest, std::abs(double(value)));
    return largest;
}

// The largest error relative to max(1, |lse|); infinite for any non-finite difference but that of equal infinities.
inline double lse_error(const std::vector<float>& got, const std::vector<double>& want) {
    if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isinf(want[i]) && double(got[i]) == want[i]) continue;
        const double error = std::abs(double(got[i]) - want[i]) / std::max(1., std::abs(want[i]));
        if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
        largest = std::max(largest, error);
    }
    return largest;
}

// The budget of any data: half the worst case.
inline double general_tolerance(const Inputs& in) { return weight_error * largest_magnitude(in.v); }
inline double tolerance_of(const Problem& p, const Inputs& in) {
    return p.data == Data::uniform && !p.scale ? uniform_tolerance : general_tolerance(in);
}

inline std::string errors_text(double o, double lse) {
    char text[64];
    std::snprintf(text, sizeof(text), "max error of o %.2g, of lse %.2g", o, lse);
    return text;
}

// Checks a result against the oracle, and returns its errors as text.
inline std::string check_wmma(const Problem& p, const Inputs& in, const Result& result, double tolerance,
    double tolerance_of_lse = lse_tolerance) {
    INFO(p.text());
    const auto want = attention_oracle(in.q, in.k, in.v, p.shape, p.causal, p.scale_used());
    const double error = compare(result.o, want.o).max_abs, of_lse = lse_error(result.lse, want.lse);
    CHECK(error <= tolerance);
    CHECK(of_lse <= tolerance_of_lse);
    return errors_text(error, of_lse);
}
inline std::string check_wmma(const Problem& p, const Inputs& in, const Result& result) {
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
template <class T, class O, class Call>
Result run_with(const Problem& p, const Inputs& in, Call&& call, bool with_lse = true) {
    const auto& s = p.shape;
    const auto q = place<T>(in.q, s.batch, s.heads_q, s.q_len, s.head_dim, p.layout);
    const auto k = place<T>(in.k, s.batch, s.heads_kv, s.kv_len, s.head_dim, p.layout);
    const auto v = place<T>(in.v, s.batch, s.heads_kv, s.kv_len, s.head_dim_v, p.layout);
    const auto o = place<O>({}, s.batch, s.heads_q, s.q_len, s.head_dim_v,
        p.layout == Layout::expanded ? Layout::bhsd : p.layout); // an output may not overlap itself
    const Lse lse(s);
    AttentionOptions options{.causal = p.causal, .scale = p.scale};
    if (with_lse) options.lse = lse.view(s);
    call(q.view, k.view, v.view, o.view, options);
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    CHECK(o.surroundings_intact());
    CHECK(lse.memory.guards_intact());
    return {decode(o.values()), lse.memory.host()};
}

template <class T, class O, int HeadDim, int BlockKv = wmma_block_kv(HeadDim), int NumWaves = wmma_waves(HeadDim),
    WmmaTuning Tuning = wmma_tuning(HeadDim), iop::Epilogue E = iop::Chain<>>
Result run_wmma(const Problem& p, const Inputs& in, E chain = {}, bool with_lse = true) {
    return run_with<T, O>(
        p, in,
        [&](auto&&... arguments) {
            executeFlashAttentionWmma<HeadDim, BlockKv, NumWaves, Tuning>(arguments..., chain);
        },
        with_lse);
}

// NaN and infinities at keys spread over v: in two of three dims, in some of these at two keys.
inline std::vector<float> with_non_finite_values(std::vector<float> v, const AttentionShape& s) {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kinds[] = {nan, inf, -inf};
    for (std::int64_t plane = 0; plane < s.batch * s.heads_kv; ++plane)
        for (std::int64_t d = 0; d < s.head_dim_v; ++d) {
            auto value = [&](std::int64_t key) -> float& {
                return v[std::size_t((plane * s.kv_len + key % s.kv_len) * s.head_dim_v + d)];
            };
            if (d % 3 == 2) continue;
            value(plane * 5 + d * 7) = kinds[(plane + d / 3) % 3];
            if (d % 5 == 0) value(plane * 3 + d * 11 + 20) = kinds[d / 5 % 3];
        }
    return v;
}

// Checks that values of v that are not finite reach the rows that see their keys and change no bit of others. `run`
// takes inputs.
template <class Run> void check_non_finite_values(const Problem& p, const Inputs& plain, const Inputs& in, Run&& run) {
    const Result got = run(in), without = run(plain);
    const auto want = attention_oracle(in.q, in.k, in.v, p.shape, p.causal, p.scale_used());
    INFO(p.text());
    // Without a mask, an infinity of the last key of a ragged tile stands for keys behind it, too, whose weight is 0.
    CHECK(difference_beside_non_finite(got.o, without.o, want.o, p.causal == Causal::none) == "");
    CHECK(bit_equal(got.lse, without.lse));
}
template <class T, class Run> void check_non_finite_values(const Problem& p, Run&& run) {
    const Inputs plain = make_inputs<T>(p);
    Inputs in = plain;
    in.v = with_non_finite_values(in.v, p.shape);
    check_non_finite_values(p, plain, in, run);
}

} // namespace waveattn::test
