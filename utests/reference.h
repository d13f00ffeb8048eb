// What the kernel tests share: inputs, device buffers with guards, the float64 oracle, comparisons.
#pragma once

#include "waveattn/attention/problem.h"
#include "waveattn/core/numeric.h"
#include "waveattn/core/status.h"
#include "waveattn/core/tensor_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace waveattn::test {

// The long list of shapes and seeds runs where WAVEATTN_TEST_FULL=1; the default list covers each claim once.
inline bool full() {
    const char* value = std::getenv("WAVEATTN_TEST_FULL");
    return value && *value && std::strcmp(value, "0") != 0;
}

// ---- inputs ----

enum class Data {
    uniform,   // [-1, 1]
    gaussian,  // N(0, 1)
    large,     // N(0, 1) times 30: a softmax that is almost one-hot
    sinks,     // gaussian, with the first keys far larger: the attention sink of real models
    structured // small integers: exact in every format, and each element differs from its neighbours
};
inline constexpr Data all_data[] = {Data::uniform, Data::gaussian, Data::large, Data::sinks, Data::structured};
inline const char* data_name(Data data) {
    constexpr const char* names[] = {"uniform", "gaussian", "large", "sinks", "structured"};
    return names[int(data)];
}

// Values of a (batch, head, token, dim) tensor.
inline std::vector<float> make_values(
    Data data, std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t dim, unsigned seed) {
    std::vector<float> values(std::size_t(batch * heads * tokens * dim));
    std::mt19937 random(seed * 7919u + 17u);
    std::uniform_real_distribution<float> uniform(-1.f, 1.f);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::int64_t token = std::int64_t(i) / dim % tokens;
        switch (data) {
        case Data::uniform: values[i] = uniform(random); break;
        case Data::gaussian: values[i] = normal(random); break;
        case Data::large: values[i] = 30.f * normal(random); break;
        case Data::sinks: values[i] = normal(random) * (token < 2 ? 8.f : 1.f); break;
        case Data::structured: values[i] = float((i * 37u + seed * 11u + i / 64u * 5u) % 17u) / 8.f - 1.f; break;
        }
    }
    return values;
}

template <class T> std::vector<T> encode(const std::vector<float>& values) {
    std::vector<T> codes(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) codes[i] = from_float<T>(values[i]);
    return codes;
}
template <class T> std::vector<float> decode(const std::vector<T>& codes) {
    std::vector<float> values(codes.size());
    for (std::size_t i = 0; i < codes.size(); ++i) values[i] = to_float(codes[i]);
    return values;
}
// The values as the format T holds them.
template <class T> std::vector<float> rounded(const std::vector<float>& values) { return decode(encode<T>(values)); }

// ---- device memory ----

// An array in device memory between two guard bands. The guards are filled with bytes that decode to NaN in every
// float format here and must be intact at the end: a kernel that writes out of its tensor fails check_guards(), one
// that reads out of it computes NaN (on the emulator the bands' outer ends also fault).
template <class T> class DeviceArray {
public:
    explicit DeviceArray(std::size_t count, int fill = 0xff) : count_(count) {
        check_hip(hipMalloc(reinterpret_cast<void**>(&base_), bytes() + 2 * guard), "hipMalloc");
        check_hip(hipMemset(base_, 0xff, bytes() + 2 * guard), "hipMemset");
        if (bytes()) check_hip(hipMemset(base_ + guard, fill, bytes()), "hipMemset");
    }
    explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
        if (count_)
            check_hip(hipMemcpy(base_ + guard, values.data(), bytes(), hipMemcpyHostToDevice), "hipMemcpy to device");
    }
    DeviceArray(DeviceArray&& other) noexcept : count_(other.count_), base_(std::exchange(other.base_, nullptr)) {}
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    ~DeviceArray() { (void)hipFree(base_); }

    T* data() const { return reinterpret_cast<T*>(base_ + guard); }
    std::size_t count() const { return count_; }
    std::vector<T> host() const {
        std::vector<T> values(count_);
        if (count_)
            check_hip(hipMemcpy(values.data(), base_ + guard, bytes(), hipMemcpyDeviceToHost), "hipMemcpy to host");
        return values;
    }
    // Whether both guard bands are as they were.
    bool guards_intact() const {
        std::vector<unsigned char> all(bytes() + 2 * guard);
        check_hip(hipMemcpy(all.data(), base_, all.size(), hipMemcpyDeviceToHost), "hipMemcpy to host");
        auto untouched = [&](std::size_t from, std::size_t to) {
            return std::all_of(all.begin() + from, all.begin() + to, [](unsigned char byte) { return byte == 0xff; });
        };
        return untouched(0, guard) && untouched(guard + bytes(), all.size());
    }

private:
    static constexpr std::size_t guard = 256;
    std::size_t bytes() const { return count_ * sizeof(T); }
    std::size_t count_;
    unsigned char* base_ = nullptr;
};

// ---- the oracle ----

struct Oracle {
    std::vector<double> o;   // [batch, head, query, dim_v]
    std::vector<double> lse; // [batch, head, query]
};

// Attention in double precision on contiguous (batch, head, token, dim) values.
inline Oracle attention_oracle(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
    const AttentionShape& shape, Causal causal, double scale) {
    Oracle result;
    result.o.assign(std::size_t(shape.batch * shape.heads_q * shape.q_len * shape.head_dim_v), 0.0);
    result.lse.assign(std::size_t(shape.batch * shape.heads_q * shape.q_len), -std::numeric_limits<double>::infinity());
    std::vector<double> scores(std::size_t(shape.kv_len));
    for (std::int64_t row = 0; row < std::int64_t(result.lse.size()); ++row) {
        const std::int64_t i = row % shape.q_len, head = row / shape.q_len % shape.heads_q;
        const std::int64_t batch = row / (shape.q_len * shape.heads_q);
        const std::int64_t plane = batch * shape.heads_kv + head / shape.group();
        // Not by causal_offset: the oracle shares no code with what it checks.
        std::int64_t visible = shape.kv_len;
        if (causal == Causal::top_left) visible = i + 1;
        if (causal == Causal::bottom_right) visible = i + 1 + shape.kv_len - shape.q_len;
        visible = std::clamp<std::int64_t>(visible, 0, shape.kv_len);
        if (visible == 0) continue;
        double largest = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = 0; j < visible; ++j) {
            double dot = 0;
            for (std::int64_t d = 0; d < shape.head_dim; ++d)
                dot += double(q[std::size_t(row * shape.head_dim + d)]) *
                       double(k[std::size_t((plane * shape.kv_len + j) * shape.head_dim + d)]);
            scores[std::size_t(j)] = dot * scale;
            largest = std::max(largest, scores[std::size_t(j)]);
        }
        double sum = 0;
        for (std::int64_t j = 0; j < visible; ++j)
            sum += scores[std::size_t(j)] = std::exp(scores[std::size_t(j)] - largest);
        for (std::int64_t j = 0; j < visible; ++j)
            for (std::int64_t d = 0; d < shape.head_dim_v; ++d)
                result.o[std::size_t(row * shape.head_dim_v + d)] +=
                    scores[std::size_t(j)] / sum *
                    double(v[std::size_t((plane * shape.kv_len + j) * shape.head_dim_v + d)]);
        result.lse[std::size_t(row)] = largest + std::log(sum);
    }
    return result;
}

// ---- comparisons ----

// How far `got` is from `want`. Equal infinities agree; any other non-finite difference makes every figure infinite (or
// the cosine -1), so that no comparison with a bound passes.
struct Difference {
    double max_abs = 0;     // max |got - want|
    double relative_l2 = 0; // |got - want| / |want|
    double cosine = 1;
};
template <class A, class B> Difference compare(const std::vector<A>& got, const std::vector<B>& want) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    if (got.size() != want.size()) return {inf, inf, -1};
    Difference result;
    double squares = 0, norm_got = 0, norm_want = 0, dot = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        double a, b = double(want[i]);
        if constexpr (std::is_class_v<A>)
            a = double(to_float(got[i]));
        else
            a = double(got[i]);
        if (a == b && std::isinf(a)) continue;
        const double difference = std::abs(a - b);
        if (!std::isfinite(difference)) return {inf, inf, -1};
        result.max_abs = std::max(result.max_abs, difference);
        squares += difference * difference, norm_got += a * a, norm_want += b * b, dot += a * b;
    }
    result.relative_l2 = norm_want > 0 ? std::sqrt(squares / norm_want) : std::sqrt(squares);
    result.cosine =
        norm_got > 0 && norm_want > 0 ? dot / std::sqrt(norm_got * norm_want) : (norm_got == norm_want ? 1 : 0);
    return result;
}

// Where and how `got` is not `plain`, the result for finite values of v, changed where the oracle of the present v is
// not finite: NaN for NaN, infinities with their sign (or also NaN for them), every other element bit for bit. Empty if
// it is.
inline std::string difference_beside_non_finite(const std::vector<float>& got, const std::vector<float>& plain,
    const std::vector<double>& want, bool nan_for_infinity = false) {
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        bool right = std::memcmp(&got[i], &plain[i], sizeof(float)) == 0;
        if (!std::isfinite(want[i]))
            right = std::isnan(got[i]) ? std::isnan(want[i]) || nan_for_infinity : double(got[i]) == want[i];
        if (!right && wrong++ == 0) first = i;
    }
    if (wrong == 0) return "";
    return concat(wrong, " of ", want.size(), " elements, first ", first, ": ", got[first], ", without the values ",
        plain[first], ", oracle ", want[first]);
}

} // namespace waveattn::test
