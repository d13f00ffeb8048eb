// Sage attention on bf16: the kernel alone on quantised operands, quantisation alone, or both together.
//
//     bench_sage --sizes diffusion                     kernel, quantisation and both at sizes of image and video models
//     bench_sage --part whole --bh 24 --sq 4608 --sk 4608
//
// On the emulator the sizes of `diffusion` take --heads_at_most 1 --rows_at_most 256.
#include "harness.h"

#include "waveattn/attention/sage_quantize.h"

using namespace waveattn;

namespace {

void run(const bench::Options& options, const std::string& part) {
    using T = bfloat16;
    const std::int64_t dim = options.dim, heads = options.bh, heads_kv = options.planes_kv();
    const auto q = options.tensor<T>(heads, options.sq, dim, 1);
    const auto k = options.tensor<T>(heads_kv, options.sk, dim, 2);
    const auto v = options.tensor<T>(heads_kv, options.sk, dim, 3);
    const bench::DeviceBuffer<T> o(q.count());
    const AttentionShape shape{1, heads, heads_kv, options.sq, options.sk, dim, dim};
    SageOptions sage;
    sage.causal = options.causal_rule();
    sage.smooth_q = options.text("smooth_q") == "1";
    const SageStorage storage = sage_storage(shape, sage);
    const bench::DeviceBuffer<std::uint8_t> buffer(storage.bytes);
    const auto qv = make_contiguous<const T, 4>(q.data(), {1, heads, options.sq, dim});
    const auto kv = make_contiguous<const T, 4>(k.data(), {1, heads_kv, options.sk, dim});
    const auto vv = make_contiguous<const T, 4>(v.data(), {1, heads_kv, options.sk, dim});
    const auto ov = make_contiguous<T, 4>(o.data(), {1, heads, options.sq, dim});
    const int block_q = int(options.number("block_q"));
    SageOperands operands;
    if (part == "kernel") {
        operands = executeSageQuantize(qv, kv, vv, sage, buffer.data(), std::size_t(storage.bytes));
        check_hip(hipDeviceSynchronize(), "hipDeviceSynchronize");
    }
    bench::run(
        "Sage attention, " + part, options, part == "quantize" ? 0 : options.attention_flop(), [&](hipStream_t stream) {
            sage.stream = stream;
            if (part == "kernel")
                executeSageAttention(operands, ov, AttentionOptions{.causal = sage.causal, .stream = stream}, block_q);
            else if (part == "quantize")
                executeSageQuantize(qv, kv, vv, sage, buffer.data(), std::size_t(storage.bytes));
            else
                executeSageAttention(qv, kv, vv, ov, sage, buffer.data(), std::size_t(storage.bytes));
        });
}

struct Size {
    std::int64_t tokens, heads;
};
constexpr Size diffusion[] = {{1024, 8}, {4096, 8}, {4608, 24}, {8400, 24}, {8786, 24}, {8832, 24}};

} // namespace

int main(int argc, char** argv) {
    bench::Options defaults;
    defaults.sq = defaults.sk = 1024;
    defaults.extra = {{"part", "kernel"}, {"smooth_q", "0"}, {"block_q", "0"}, {"sizes", "one"},
        {"heads_at_most", "24"}, {"rows_at_most", "1000000"}};
    return bench::main(
        argc, argv,
        [](bench::Options options) {
            const std::string part = options.text("part"), sizes = options.text("sizes");
            require(part == "kernel" || part == "whole" || part == "quantize",
                "--part is kernel, quantize or whole, not ", part);
            require(sizes == "one" || sizes == "diffusion", "--sizes is one or diffusion, not ", sizes);
            if (sizes == "one") return run(options, part);
            for (const Size& size : diffusion)
                for (const char* one : {"kernel", "quantize", "whole"}) {
                    options.bh = std::min(size.heads, options.number("heads_at_most")), options.bh_kv = 0;
                    options.sq = std::min(size.tokens, options.number("rows_at_most")), options.sk = size.tokens;
                    run(options, one);
                }
        },
        defaults);
}
