// What the Sage tests share: host-quantised operands on the device, the oracle of quantised operands, data kinds.
#pragma once

#include "reference.h"

#include "waveattn/arch/capability.h"
#include "waveattn/attention/sage_attention.h"
#include "waveattn/attention/sage_host.h"

#include <memory>

namespace waveattn::test {

inline Fp8Format device_fp8() { return sage_fp8_format(arch::current_device().target); }

// ---- data kinds that stress a quantiser ----

enum class SageData { gaussian, offsets, variance, sinks, v_offsets, zeros, rising };
inline constexpr SageData all_sage_data[] = {SageData::gaussian, SageData::offsets, SageData::variance, SageData::sinks,
    SageData::v_offsets, SageData::zeros, SageData::rising};
inline const char* sage_data_name(SageData data) {
    constexpr const char* names[] = {"gaussian", "offsets", "variance", "sinks", "v_offsets", "zeros", "rising"};
    return names[int(data)];
}
struct SageInputs {
    std::vector<float> q, k, v;
};
inline SageInputs sage_inputs(SageData data, const AttentionShape& s, unsigned seed) {
    SageInputs in{make_values(Data::gaussian, s.batch, s.heads_q, s.q_len, s.head_dim, seed),
        make_values(Data::gaussian, s.batch, s.heads_kv, s.kv_len, s.head_dim, seed + 1),
        make_values(Data::gaussian, s.batch, s.heads_kv, s.kv_len, s.head_dim, seed + 2)};
    const std::int64_t D = s.head_dim;
    const auto channel = [&](std::size_t i) { return std::int64_t(i) % D; };
    const auto token = [&](std::size_t i) { return std::int64_t(i) / D % s.kv_len; };
    switch (data) {
    case SageData::gaussian: break;
    case SageData::offsets: // 6 channels (D 128) of q and 6 others of k with means of 6 to 14 standard deviations
        for (std::size_t i = 0; i < in.q.size(); ++i)
            if (channel(i) % 21 == 4) in.q[i] += 6.f + float(channel(i) % 5);
        for (std::size_t i = 0; i < in.k.size(); ++i)
            if (channel(i) % 21 == 9) in.k[i] -= 8.f + float(channel(i) % 7);
        break;
    case SageData::variance: // 2 channels (D 128) of 12 times the variance and zero mean, the same ones in q and k
        for (auto* values : {&in.q, &in.k})
            for (std::size_t i = 0; i < values->size(); ++i)
                if (channel(i) % 64 == 5) (*values)[i] *= 3.5f;
        break;
    case SageData::sinks: { // 4 keys with values of 0.05 hold 9 tenths of the weight (D 128): all of q leans to them
        const auto sign = [&](std::size_t i) { return (channel(i) * 37 + channel(i) / 8) % 2 ? 1.f : -1.f; };
        for (std::size_t i = 0; i < in.q.size(); ++i) in.q[i] += 0.8f * sign(i);
        for (std::size_t i = 0; i < in.k.size(); ++i)
            if (token(i) < 4) in.k[i] = sign(i);
        for (std::size_t i = 0; i < in.v.size(); ++i)
            if (token(i) < 4) in.v[i] *= 0.05f;
        break;
    }
    case SageData::v_offsets:
        for (std::size_t i = 0; i < in.v.size(); ++i)
            in.v[i] = (in.v[i] + float(channel(i) % 7) - 3.f) * std::exp2(float(channel(i) % 5) - 2.f);
        break;
    case SageData::rising: // scores rise along the sequence: each half tile decides the row anew
        for (std::size_t i = 0; i < in.q.size(); ++i) in.q[i] = 1.f + 0.3f * in.q[i];
        for (std::size_t i = 0; i < in.k.size(); ++i) in.k[i] = 0.02f * float(token(i)) + 0.3f * in.k[i];
        break;
    case SageData::zeros: // whole blocks of q and k, and a channel of v, are zero
        for (std::size_t i = 0; i < in.q.size(); ++i)
            if (std::int64_t(i) / D % s.q_len < 128) in.q[i] = 0;
        for (std::size_t i = 0; i < in.k.size(); ++i)
            if (token(i) / 64 % 2 == 0) in.k[i] = 0;
        for (std::size_t i = 0; i < in.v.size(); ++i)
            if (channel(i) == 3) in.v[i] = 0;
        break;
    }
    return in;
}

// ---- operands on the device ----

struct DeviceOperands {
    DeviceArray<std::int8_t> q, k;
    DeviceArray<std::uint8_t> v;
    DeviceArray<float> q_scale, k_scale, v_scale, lse_shift, delta_s;
    DeviceArray<std::int32_t> units;
    SageOperands views;

    explicit DeviceOperands(
        const SageHostOperands& h, Fp8Format format, bool plain_delta = false, QScaleRows rows = QScaleRows::block)
        : q(h.q), k(h.k), v(h.v), q_scale(h.q_scale), k_scale(h.k_scale), v_scale(h.v_scale), lse_shift(h.lse_shift),
          delta_s(h.delta_s), units(h.delta_s_units) {
        const std::int64_t tiles = ceil_div<std::int64_t>(h.kv_len, 64), blocks = ceil_div<std::int64_t>(h.q_len, 128);
        const std::int64_t P = h.padded;
        views.q = make_contiguous<const std::int8_t>(q.data(), h.batch, h.heads_q, h.q_len, P);
        views.k = make_contiguous<const std::int8_t>(k.data(), h.batch, h.heads_kv, h.kv_len, P);
        views.v = make_contiguous<const std::uint8_t>(v.data(), h.batch, h.heads_kv, tiles, P, 64);
        views.q_scale =
            make_contiguous<const float>(q_scale.data(), h.batch, h.heads_q, sage::scale_groups(rows, h.q_len));
        views.k_scale = make_contiguous<const float>(k_scale.data(), h.batch, h.heads_kv, tiles);
        views.v_scale = make_contiguous<const float>(v_scale.data(), h.batch, h.heads_kv, P);
        if (!h.lse_shift.empty())
            views.lse_shift = make_contiguous<const float>(lse_shift.data(), h.batch, h.heads_q, h.q_len);
        if (!h.delta_s.empty() && plain_delta)
            views.delta_s = make_contiguous<const float>(delta_s.data(), h.batch, h.heads_q, blocks, h.kv_len);
        if (!h.delta_s.empty() && !plain_delta)
            views.delta_s_units =
                make_contiguous<const std::int32_t>(units.data(), h.batch, h.heads_q, blocks, h.kv_len);
        views.q_scale_rows = rows;
        views.v_format = format;
    }
    bool guards_intact() const {
        return q.guards_intact() && k.guards_intact() && v.guards_intact() && q_scale.guards_intact() &&
               k_scale.guards_intact() && v_scale.guards_intact();
    }
};

// ---- the oracle of quantised operands: what the kernel computes, in double ----

// x_ij in base 2 and values as the operands say; `shift` of the lse included.
inline Oracle quantised_oracle(const SageHostOperands& h, const AttentionShape& shape, Causal causal, Fp8Format format,
    QScaleRows rows = QScaleRows::block) {
    Oracle result;
    const std::int64_t P = h.padded, D = shape.head_dim, tiles = ceil_div<std::int64_t>(h.kv_len, 64);
    const std::int64_t groups = sage::scale_groups(rows, h.q_len), blocks = ceil_div<std::int64_t>(h.q_len, 128);
    result.o.assign(std::size_t(h.batch * h.heads_q * h.q_len * D), 0.0);
    result.lse.assign(std::size_t(h.batch * h.heads_q * h.q_len), -std::numeric_limits<double>::infinity());
    const std::int64_t offset = causal_offset(causal, shape);
    std::vector<double> weights(std::size_t(h.kv_len));
    double fp8[256];
    for (int code = 0; code < 256; ++code) fp8[code] = double(sage::decode_fp8(std::uint8_t(code), format));
    for (std::int64_t row = 0; row < std::int64_t(result.lse.size()); ++row) {
        const std::int64_t i = row % h.q_len, head = row / h.q_len;
        const std::int64_t plane = head / h.heads_q * h.heads_kv + head % h.heads_q / shape.group();
        const std::int64_t visible = std::clamp<std::int64_t>(i + offset + 1, 0, h.kv_len);
        if (visible == 0) continue;
        double largest = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j < visible; ++j) {
            int dot = 0;
            for (std::int64_t d = 0; d < P; ++d)
                dot += int(h.q[std::size_t(row * P + d)]) * int(h.k[std::size_t((plane * h.kv_len + j) * P + d)]);
            double x = double(dot) * double(h.q_scale[std::size_t(head * groups + sage::scale_group(rows, i, 0))]) *
                       double(h.k_scale[std::size_t(plane * tiles + j / 64)]);
            if (!h.delta_s.empty()) x += double(h.delta_s[std::size_t((head * blocks + i / 128) * h.kv_len + j)]);
            weights[std::size_t(j)] = x;
            largest = std::max(largest, x);
        }
        double sum = 0;
        for (std::int64_t j = 0; j < visible; ++j)
            sum += weights[std::size_t(j)] = std::exp2(weights[std::size_t(j)] - largest);
        for (std::int64_t j = 0; j < visible; ++j) {
            const double weight = weights[std::size_t(j)] / sum;
            const std::size_t base = std::size_t((plane * tiles + j / 64) * P * 64 + j % 64);
            for (std::int64_t d = 0; d < D; ++d)
                result.o[std::size_t(row * D + d)] += weight * fp8[h.v[base + std::size_t(d * 64)]];
        }
        for (std::int64_t d = 0; d < D; ++d)
            result.o[std::size_t(row * D + d)] *= double(h.v_scale[std::size_t(plane * P + d)]);
        result.lse[std::size_t(row)] = (largest + std::log2(sum)) * std::log(2.0) +
                                       (h.lse_shift.empty() ? 0.0 : double(h.lse_shift[std::size_t(row)]));
    }
    return result;
}

// The smallest cosine of a row of `dim` values.
template <class A>
double worst_row_cosine(const std::vector<A>& got, const std::vector<double>& want, std::int64_t dim) {
    double worst = 1;
    for (std::size_t row = 0; row < want.size() / std::size_t(dim); ++row) {
        const auto first = std::ptrdiff_t(row) * dim;
        const std::vector<A> a(got.begin() + first, got.begin() + first + dim);
        const std::vector<double> b(want.begin() + first, want.begin() + first + dim);
        worst = std::min(worst, compare(a, b).cosine);
    }
    return worst;
}

} // namespace waveattn::test
