// FlashAttentionDPP, the scalar kernel: head_dim 64 and 128, f32 and bf16.
#include "harness.h"

#include "waveattn/attention/flash_attention.h"

using namespace waveattn;

namespace {

template <int HeadDim, class T> void run(const bench::Options& options) {
    const auto q = options.tensor<T>(options.bh, options.sq, HeadDim, 1);
    const auto k = options.tensor<T>(options.planes_kv(), options.sk, HeadDim, 2);
    const auto v = options.tensor<T>(options.planes_kv(), options.sk, HeadDim, 3);
    const bench::DeviceBuffer<T> o(q.count());
    const AttentionShape shape{1, options.bh, options.planes_kv(), options.sq, options.sk, HeadDim, HeadDim};
    bench::run("flash attention, scalar", options, options.attention_flop(), [&](hipStream_t stream) {
        executeFlashAttention<HeadDim>(make_contiguous<const T, 4>(q.data(), {1, shape.heads_q, shape.q_len, HeadDim}),
            make_contiguous<const T, 4>(k.data(), {1, shape.heads_kv, shape.kv_len, HeadDim}),
            make_contiguous<const T, 4>(v.data(), {1, shape.heads_kv, shape.kv_len, HeadDim}),
            make_contiguous<T, 4>(o.data(), {1, shape.heads_q, shape.q_len, HeadDim}),
            AttentionOptions{.causal = options.causal_rule(), .stream = stream});
    });
}

template <class T> void run_dim(const bench::Options& options) {
    require(options.dim == 64 || options.dim == 128, "--dim is 64 or 128, not ", options.dim);
    options.dim == 64 ? run<64, T>(options) : run<128, T>(options);
}

} // namespace

int main(int argc, char** argv) {
    return bench::main(argc, argv, [](const bench::Options& options) {
        require(options.dtype == "f32" || options.dtype == "bf16", "--dtype is f32 or bf16, not ", options.dtype);
        options.dtype == "f32" ? run_dim<float>(options) : run_dim<bfloat16>(options);
    });
}
