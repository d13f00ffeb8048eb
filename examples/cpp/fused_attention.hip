// A decoder block's attention in one launch: a temperature on q while it is read (prologue), causal attention with
// grouped heads on (batch, token, head, dim) memory, and bias, GELU and the cast to bf16 before the one write
// (epilogue).
#include <waveattn/arch/capability.h>
#include <waveattn/attention/flash_attention.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace waveattn;

namespace {

constexpr int batch = 1, tokens = 50, heads = 4, kv_heads = 2, dim = 64;
constexpr float temperature = 0.8f;

std::vector<float> waves(std::size_t count, float step) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(step * float(i + 1));
    return values;
}

template <class T> T* to_device(const std::vector<T>& values) {
    T* memory = nullptr;
    check_hip(hipMalloc(&memory, values.size() * sizeof(T)), "hipMalloc");
    check_hip(hipMemcpy(memory, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice), "hipMemcpy");
    return memory;
}

// (batch, token, head, dim) memory as the logical (batch, head, token, dim): a change of strides, no copy.
template <class T> TensorView<T, 4> heads_first(T* memory, int head_count) {
    return swap_axes(make_contiguous(memory, batch, tokens, head_count, dim), 1, 2);
}

// The same with loops on the CPU, in double.
double reference(const std::vector<float>& q, const std::vector<float>& k, const std::vector<float>& v,
    const std::vector<float>& bias, int token, int head, int d) {
    const int kv_head = head / (heads / kv_heads);
    double sum = 0, weighted = 0;
    for (int j = 0; j <= token; ++j) {
        double score = 0;
        for (int i = 0; i < dim; ++i)
            score += temperature * double(q[std::size_t((token * heads + head) * dim + i)]) *
                     k[std::size_t((j * kv_heads + kv_head) * dim + i)];
        const double weight = std::exp(score / std::sqrt(double(dim)));
        sum += weight, weighted += weight * v[std::size_t((j * kv_heads + kv_head) * dim + d)];
    }
    const double x = weighted / sum + bias[std::size_t(d)];
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

} // namespace

int main() try {
    std::printf("device: %s\n", arch::current_device().gcn_arch.c_str());
    const auto q = waves(tokens * heads * dim, 0.37f), k = waves(tokens * kv_heads * dim, 0.71f),
               v = waves(tokens * kv_heads * dim, 1.13f), bias = waves(dim, 0.1f);
    float *const q_memory = to_device(q), *const k_memory = to_device(k), *const v_memory = to_device(v),
                 *const bias_memory = to_device(bias);
    bfloat16* const o_memory = to_device(std::vector<bfloat16>(q.size()));

    const auto q_view = heads_first<const float>(q_memory, heads);
    const auto k_view = heads_first<const float>(k_memory, kv_heads),
               v_view = heads_first<const float>(v_memory, kv_heads);
    const auto o_view = heads_first(o_memory, heads);
    const AttentionOptions options{.causal = Causal::top_left};
    executeFlashAttention<dim>(make_attention_read(q_view).then(iop::Mul{temperature}), make_attention_read(k_view),
        make_attention_read(v_view), make_attention_write(o_view, epilogue(iop::Bias{bias_memory}, iop::Gelu{})),
        check_attention(q_view, k_view, v_view, o_view, options), options);

    std::vector<bfloat16> o(q.size());
    check_hip(hipMemcpy(o.data(), o_memory, o.size() * sizeof(bfloat16), hipMemcpyDeviceToHost), "hipMemcpy");
    double largest = 0;
    for (int token = 0; token < tokens; ++token)
        for (int head = 0; head < heads; ++head)
            for (int d = 0; d < dim; ++d) {
                const double got = to_float(o[std::size_t((token * heads + head) * dim + d)]);
                const double difference = std::abs(got - reference(q, k, v, bias, token, head, d));
                largest = std::isfinite(difference) ? std::max(largest, difference) : INFINITY;
            }
    const bool agrees = largest <= 0x1p-9 * 2; // half a unit of bf16 for results below 2
    std::printf("largest difference from the CPU: %.2e, which %s\n", largest, agrees ? "agrees" : "is too much");
    for (void* memory : {(void*)q_memory, (void*)k_memory, (void*)v_memory, (void*)bias_memory, (void*)o_memory})
        (void)hipFree(memory);
    return agrees ? 0 : 1;
} catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
}
