// What the tests of the scalar kernels share: problems, and one run against the oracle.
#pragma once

#include <doctest/doctest.h>

#include "layouts.h"
#include "reference.h"

#include "waveattn/attention/flash_attention.h"

#include <algorithm>
#include <string>
#include <vector>

namespace waveattn::test {

struct Problem {
    AttentionShape shape;
    Causal causal = Causal::none;
    Data data = Data::uniform;
    Layout layout = Layout::bhsd;
    std::optional<float> scale = {};
    unsigned seed = 1;

    std::string text() const {
        constexpr const char* rules[] = {"full", "top_left", "bottom_right"};
        return concat("B", shape.batch, " Hq", shape.heads_q, " Hkv", shape.heads_kv, " Sq", shape.q_len, " Sk",
            shape.kv_len, " D", shape.head_dim, " Dv", shape.head_dim_v, " ", rules[int(causal)], " ", data_name(data),
            " ", layout_name(layout));
    }
    double scale_used() const { return scale ? double(*scale) : 1 / std::sqrt(double(shape.head_dim)); }
};
inline AttentionShape make_shape(std::int64_t batch, std::int64_t heads_q, std::int64_t heads_kv, std::int64_t q_len,
    std::int64_t kv_len, std::int64_t head_dim, std::int64_t head_dim_v = 0) {
    return {batch, heads_q, heads_kv, q_len, kv_len, head_dim, head_dim_v ? head_dim_v : head_dim};
}

// Contiguous inputs of a problem as the format T holds them.
struct Inputs {
    std::vector<float> q, k, v;
};
template <class T> Inputs make_inputs(const Problem& p) {
    const auto& s = p.shape;
    Inputs in{rounded<T>(make_values(p.data, s.batch, s.heads_q, s.q_len, s.head_dim, p.seed)),
        rounded<T>(make_values(p.data, s.batch, s.heads_kv, s.kv_len, s.head_dim, p.seed + 1)),
        rounded<T>(make_values(p.data, s.batch, s.heads_kv, s.kv_len, s.head_dim_v, p.seed + 2))};
    if (p.layout == Layout::expanded)
        for (auto* values : {&in.q, &in.k, &in.v}) // all batch entries are the first
            for (std::size_t i = 0, one = values->size() / std::size_t(std::max<std::int64_t>(s.batch, 1));
                i < values->size(); ++i)
                (*values)[i] = (*values)[i % one];
    return in;
}

struct Result {
    std::vector<float> o, lse; // contiguous
};

// Runs executeFlashAttention on device memory laid out as the problem says and checks that nothing else was written.
template <class T, class O = T, int HeadDim = any_head_dim, iop::Epilogue E = iop::Chain<>>
Result run_flash(const Problem& p, const Inputs& in, E chain = {}) {
    const auto& s = p.shape;
    const auto q = place<T>(in.q, s.batch, s.heads_q, s.q_len, s.head_dim, p.layout);
    const auto k = place<T>(in.k, s.batch, s.heads_kv, s.kv_len, s.head_dim, p.layout);
    const auto v = place<T>(in.v, s.batch, s.heads_kv, s.kv_len, s.head_dim_v, p.layout);
    const auto o = place<O>({}, s.batch, s.heads_q, s.q_len, s.head_dim_v,
        p.layout == Layout::expanded ? Layout::bhsd : p.layout); // an output may not overlap itself
    const DeviceArray<float> lse(std::size_t(s.batch * s.heads_q * s.q_len));
    const AttentionOptions options{
        .causal = p.causal, .scale = p.scale, .lse = make_contiguous(lse.data(), s.batch, s.heads_q, s.q_len)};
    executeFlashAttention<HeadDim>(q.view, k.view, v.view, o.view, options, chain);
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    CHECK(o.surroundings_intact());
    CHECK(lse.guards_intact());
    return {decode(o.values()), lse.host()};
}

// Checks a result against the oracle: |o - want| <= tolerance, |lse - want| <= lse_tolerance.
inline void check_against_oracle(
    const Problem& p, const Inputs& in, const Result& result, double tolerance, double lse_tolerance) {
    INFO(p.text());
    const auto want = attention_oracle(in.q, in.k, in.v, p.shape, p.causal, p.scale_used());
    CHECK(compare(result.o, want.o).max_abs <= tolerance);
    CHECK(compare(result.lse, want.lse).max_abs <= lse_tolerance);
}

inline bool bit_equal(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

} // namespace waveattn::test
