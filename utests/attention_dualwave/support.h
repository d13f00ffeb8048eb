// What the tests of the dual-wave kernels share: one call on tensors of any memory layout, and its comparison with the
// float64 oracle.
#pragma once

#include <doctest/doctest.h>

#include "layouts.h"
#include "reference.h"

#include "waveattn/attention/flash_attention_dualwave.h"

#include <optional>
#include <string>
#include <vector>

namespace waveattn {
#define WAVEATTN_EXTERN_DUALWAVE(T)                                                                                    \
    extern template void executeFlashAttentionDualwave<0, T>(const TensorView<const T, 4>&,                            \
        const TensorView<const T, 4>&, const TensorView<const T, 4>&, const TensorView<T, 4>&,                         \
        const DualwaveOptions&);
WAVEATTN_EXTERN_DUALWAVE(bfloat16)
WAVEATTN_EXTERN_DUALWAVE(float16)
#undef WAVEATTN_EXTERN_DUALWAVE
} // namespace waveattn

namespace waveattn::test {

inline bool on_gfx950() { return arch::current_device().target == arch::Target::gfx950; }

struct Case {
    AttentionShape shape{1, 1, 1, 256, 256, 128, 128}; // batch, heads q, heads kv, q_len, kv_len, dims
    Causal causal = Causal::none;
    SoftmaxBasis basis = SoftmaxBasis::online;
    XcdSwizzle xcd = XcdSwizzle::automatic;
    int splits = 1;
    int compute_units = 0; // few: causal blocks go in pairs, several to a workgroup
    bool lse = true;
    std::optional<float> scale = {};
    Layout layout = Layout::bhsd;
    Data data = Data::gaussian;
    unsigned seed = 1;
};
struct Inputs {
    std::vector<float> q, k, v;
};
template <class T> Inputs make_inputs(const Case& c) {
    const auto& s = c.shape;
    const std::int64_t batches = c.layout == Layout::expanded ? 1 : s.batch;
    const auto make = [&](Data data, std::int64_t heads, std::int64_t tokens, std::int64_t dim, unsigned seed) {
        auto values = rounded<T>(make_values(data, batches, heads, tokens, dim, seed));
        const std::size_t one = values.size();
        for (std::int64_t b = batches; b < s.batch; ++b)
            for (std::size_t i = 0; i < one; ++i) values.push_back(values[i]);
        return values;
    };
    return {make(c.data, s.heads_q, s.q_len, s.head_dim, 3 * c.seed),
        make(c.data, s.heads_kv, s.kv_len, s.head_dim, 3 * c.seed + 1),
        make(c.data == Data::sinks ? Data::gaussian : c.data, s.heads_kv, s.kv_len, s.head_dim_v, 3 * c.seed + 2)};
}

template <class T> struct Output {
    std::vector<T> o;
    std::vector<float> lse;
    std::vector<std::int32_t> overflow; // flags of pinned, by item and wave
    bool intact = false;
};
// Runs the kernel on copies of the inputs.
template <class T> Output<T> run(const Case& c, const Inputs& in) {
    const auto& s = c.shape;
    auto q = place<T>(in.q, s.batch, s.heads_q, s.q_len, s.head_dim, c.layout);
    auto k = place<T>(in.k, s.batch, s.heads_kv, s.kv_len, s.head_dim, c.layout);
    auto v = place<T>(in.v, s.batch, s.heads_kv, s.kv_len, s.head_dim_v, c.layout);
    auto o =
        place<T>({}, s.batch, s.heads_q, s.q_len, s.head_dim_v, c.layout == Layout::expanded ? Layout::bhsd : c.layout);
    DeviceArray<float> lse(std::size_t(s.batch * s.heads_q * s.q_len));
    const std::size_t bytes = dualwave_workspace_bytes(s, c.basis, c.splits);
    DeviceArray<char> workspace(bytes);
    DualwaveOptions options;
    options.causal = c.causal, options.scale = c.scale, options.basis = c.basis, options.xcd_swizzle = c.xcd;
    options.splits = c.splits, options.compute_units = c.compute_units;
    if (bytes) options.workspace = workspace.data(), options.workspace_bytes = bytes;
    if (c.lse) options.lse = make_contiguous(lse.data(), s.batch, s.heads_q, s.q_len);
    executeFlashAttentionDualwave<0, T>(q.view, k.view, v.view, o.view, options);
    check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    Output<T> out;
    out.o = o.values();
    out.intact = o.surroundings_intact() && lse.guards_intact() && workspace.guards_intact();
    if (c.lse) out.lse = lse.host();
    if (c.basis == SoftmaxBasis::pinned) {
        const auto raw = workspace.host();
        out.overflow.resize(std::size_t(s.batch * s.heads_q * ((s.q_len + 255) / 256) * c.splits * 8));
        std::memcpy(out.overflow.data(), raw.data(), out.overflow.size() * 4);
    }
    return out;
}

// Relative L2 of a result of 16 bits: the weights and the result are each rounded to b significant bits, which for
// values of random mantissa is a relative noise of about 0.8 2^-b / sqrt(3); both together 2.3e-3 for bfloat16 (b = 8).
template <class T> constexpr double l2_bound = std::is_same_v<T, bfloat16> ? 2.7e-3 : 3.6e-4;
// Scores are sums of 128 products in fp32, then a logarithm: about one unit in the last place of scores and result.
inline double lse_bound(const std::vector<double>& lse) {
    double largest = 8;
    for (double value : lse)
        if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    return 2e-6 * largest / 8;
}
inline std::string text(const Case& c) {
    const auto& s = c.shape;
    return concat("B ", s.batch, " Hq ", s.heads_q, " Hkv ", s.heads_kv, " Sq ", s.q_len, " Sk ", s.kv_len, " D ",
        s.head_dim, " Dv ", s.head_dim_v, " causal ", int(c.causal), " basis ", int(c.basis), " splits ", c.splits,
        " compute units ", c.compute_units, " layout ", layout_name(c.layout), " data ", data_name(c.data), " lse ",
        c.lse);
}
template <class T> void check_against_oracle(const Case& c) {
    INFO(text(c));
    const Inputs in = make_inputs<T>(c);
    const Output<T> got = run<T>(c, in);
    AttentionOptions options;
    options.scale = c.scale;
    const Oracle want = attention_oracle(in.q, in.k, in.v, c.shape, c.causal, score_scale(options, c.shape));
    CHECK(got.intact);
    CHECK(compare(got.o, want.o).relative_l2 <= l2_bound<T>);
    if (c.lse) CHECK(compare(got.lse, want.lse).max_abs <= lse_bound(want.lse));
}
template <class T> bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

} // namespace waveattn::test
