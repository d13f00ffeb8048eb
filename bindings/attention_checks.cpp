#include "attention_checks.h"
#include "hip_runtime.h"

#include "waveattn/core/overlap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace waveattn::python {

std::string device_text(int device) {
    if (device == host_memory) return "cpu";
    return (device >= first_emulated ? "emulated:" : "rocm:") + std::to_string(device % first_emulated);
}
std::string shape_text(const TensorDesc& tensor) {
    std::string text = "(";
    for (int i = 0; i < tensor.rank; ++i) text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
    return text + ")";
}
void swap_head_and_token(TensorDesc& tensor) {
    std::swap(tensor.shape[1], tensor.shape[2]);
    std::swap(tensor.stride[1], tensor.stride[2]);
}
TensorView<const std::int8_t, 4> untyped(const TensorDesc& tensor) {
    TensorView<const std::int8_t, 4> result;
    result.data = static_cast<const std::int8_t*>(tensor.data);
    for (int i = 0; i < 4; ++i) result.shape[i] = tensor.shape[i], result.stride[i] = tensor.stride[i];
    return result;
}

Causal causal_from(const std::optional<std::string>& text) {
    if (!text) return Causal::none;
    if (*text == "top_left") return Causal::top_left;
    if (*text == "bottom_right") return Causal::bottom_right;
    throw InvalidArgument("causal must be None, 'top_left' or 'bottom_right', got '" + *text + "'");
}

std::optional<float> scale_from(const std::optional<double>& scale) {
    if (!scale) return std::nullopt;
    require(std::abs(*scale) <= std::numeric_limits<float>::max(), "scale must be finite in float32, got ", *scale);
    return float(*scale);
}

void check_writable(const TensorDesc& out) {
    require(!out.read_only, "out is read-only");
    if (out.empty()) return;
    for (int i = 0; i < out.rank; ++i)
        require(out.stride[i] >= 0 || out.shape[i] == 1, "out has a negative stride along axis ", i);
    // Axes from the narrowest on: each must step over everything that those before it reach.
    std::vector<std::pair<std::int64_t, std::int64_t>> axes; // stride, steps
    for (int i = 0; i < out.rank; ++i)
        if (out.shape[i] > 1) axes.emplace_back(out.stride[i], out.shape[i] - 1);
    std::sort(axes.begin(), axes.end());
    std::int64_t reach = 0;
    for (const auto& [stride, steps] : axes) {
        require(stride > reach, "out has shape ", shape_text(out), " with stride ", stride,
            " along an axis: its elements share memory");
        reach += stride * steps;
    }
}
void check_out(const TensorDesc& out, const AttentionShape& shape) {
    const std::int64_t expected[4] = {shape.batch, shape.heads_q, shape.q_len, shape.head_dim_v};
    require(std::equal(expected, expected + 4, out.shape), "out must be (", expected[0], ", ", expected[1], ", ",
        expected[2], ", ", expected[3], "), got ", shape_text(out));
    require(out.empty() || out.stride[3] == 1 || out.shape[3] == 1, "out must have a last stride of 1, got ",
        out.stride[3]);
    check_writable(out);
}
void check_apart(const TensorDesc& out, const char* name, const TensorDesc& other, const char* out_name) {
    const auto layout = [](const TensorDesc& tensor) {
        return MemoryLayout(tensor.data, tensor.rank, tensor.shape, tensor.stride, dtype_bytes(tensor.dtype));
    };
    check_apart(out_name, layout(out), name, layout(other));
}

AttentionShape check_inputs(
    const TensorDesc& q, const TensorDesc& k, const TensorDesc& v, const std::optional<float>& scale) {
    static constexpr std::int8_t somewhere = 0;
    auto fitting = untyped(q);
    fitting.data = &somewhere;
    fitting.shape[3] = v.shape[3];
    AttentionOptions options;
    options.scale = scale;
    return check_attention(untyped(q), untyped(k), untyped(v), fitting, options);
}

} // namespace waveattn::python
