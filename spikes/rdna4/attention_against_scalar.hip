// How much faster is the WMMA kernel than the scalar one? Median of 20 launches each, bf16.
//
// The same shapes through torch's SDPA: attention_against_torch.py.
#include "harness.h"

#include "waveattn/attention/dispatch.h"

using namespace waveattn;

namespace {

template <int HeadDim> void run(bench::Options options) {
    using T = bfloat16;
    options.dim = HeadDim;
    const auto q = options.tensor<T>(options.bh, options.sq, HeadDim, 1);
    const auto k = options.tensor<T>(options.bh, options.sk, HeadDim, 2);
    const auto v = options.tensor<T>(options.bh, options.sk, HeadDim, 3);
    const bench::DeviceBuffer<T> o(q.count());
    const AttentionShape shape{1, options.bh, options.bh, options.sq, options.sk, HeadDim, HeadDim};
    auto measure = [&](const char* name, auto&& attention) {
        bench::run(name, options, options.attention_flop(), [&](hipStream_t stream) {
            attention(make_attention_read(q.data(), options.bh, options.sq, HeadDim),
                make_attention_read(k.data(), options.bh, options.sk, HeadDim),
                make_attention_read(v.data(), options.bh, options.sk, HeadDim),
                make_attention_write(o.data(), options.bh, options.sq, HeadDim), shape,
                AttentionOptions{.causal = options.causal_rule(), .stream = stream});
        });
    };
    measure("wmma", [](auto&&... arguments) { executeFlashAttentionWmma<HeadDim>(arguments...); });
    measure("scalar", [](auto&&... arguments) { executeFlashAttention<HeadDim>(arguments...); });
}

} // namespace

int main(int argc, char** argv) {
    bench::Options defaults;
    defaults.bh = 16, defaults.sq = defaults.sk = 4096;
    return bench::main(
        argc, argv, [](const bench::Options& options) { options.dim == 64 ? run<64>(options) : run<128>(options); },
        defaults);
}
