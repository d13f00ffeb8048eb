// Instantiates the kernels for targets that have none: every one must become a trap stub, whatever instructions it
// uses on its own target.
#include "waveattn/attention/chunk_attention.h"
#include "waveattn/attention/dispatch.h"
#include "waveattn/attention/flash_attention.h"
#include "waveattn/attention/flash_attention_dualwave.h"
#include "waveattn/attention/flash_attention_wmma.h"
#include "waveattn/attention/flash_decode.h"
#include "waveattn/attention/sage_quantize.h"
#include "waveattn/attention/softmax.h"

using namespace waveattn;

void instantiate_scalar(const TensorView<float, 4>& x, const TensorView<bfloat16, 4>& y) {
    executeFlashAttention<64>(x, x, x, x);
    executeFlashAttention(y, y, y, y);
    executeFlashDecode<128>(x, y, y, x);
    executeSoftmax(make_attention_read(x), make_attention_write(y));
}

void instantiate_matrix(const TensorView<bfloat16, 4>& x, const TensorView<const bfloat16, 4>& constant) {
    executeFlashAttentionWmma<128>(x, x, x, x);
    executeFlashAttentionAuto<64>(x, x, x, x);
    executeFlashAttentionDualwave(constant, constant, constant, x);
    executeSageAttention(constant, constant, constant, x, SageOptions{}, nullptr, 0);
}

void instantiate_chunk(const ChunkAttentionArgs& args) {
    chunk_attention<256, KvFormat::int8, 16>(args);
    chunk_attention<128, KvFormat::q4_0, 8>(args);
}
