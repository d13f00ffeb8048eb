// FlashAttentionWmmaDPP on bf16 tensors, the classic shapes: the promise of 1.5e-3 on uniform inputs. Small enough to
// be compiled again for each mutation.
#include "support.h"

using namespace waveattn;
using namespace waveattn::test;

namespace {

template <int HeadDim, int BlockKv> void classic(std::int64_t q_len, std::int64_t kv_len, Causal causal) {
    Problem p{make_shape(1, 2, 2, q_len, kv_len, HeadDim), causal};
    const auto in = make_inputs<bfloat16>(p);
    MESSAGE(
        p.text(), " BLOCK_KV ", BlockKv, ": ", check_wmma(p, in, run_wmma<bfloat16, float, HeadDim, BlockKv>(p, in)));
}
} // namespace

TEST_CASE("classic: head_dim, tile size, dense and causal, ragged and cross-attention") {
    classic<32, 32>(64, 64, Causal::none);
    classic<32, 32>(64, 64, Causal::top_left);
    classic<32, 32>(67, 67, Causal::top_left);
    classic<32, 32>(50, 100, Causal::none);
    classic<32, 64>(67, 131, Causal::none);
    classic<32, 64>(96, 96, Causal::top_left);
    classic<64, 32>(64, 64, Causal::none);
    classic<64, 32>(64, 64, Causal::top_left);
    classic<64, 32>(67, 131, Causal::none);
    classic<64, 32>(131, 131, Causal::top_left);
    classic<64, 64>(32, 96, Causal::none);
    classic<64, 64>(131, 131, Causal::top_left);
    classic<128, 32>(64, 64, Causal::none);
    classic<128, 32>(67, 131, Causal::top_left);
    classic<128, 32>(32, 96, Causal::none);
    classic<128, 16>(67, 67, Causal::top_left);
    classic<128, 16>(100, 50, Causal::none);
}
