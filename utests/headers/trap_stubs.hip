// Instantiates the kernels for targets that have none: every one must become a trap stub, whatever instructions it
// uses on its own target.
#include "waveattn/attention/flash_attention.h"
#include "waveattn/attention/flash_decode.h"
#include "waveattn/attention/softmax.h"

using namespace waveattn;

void instantiate_scalar(const TensorView<float, 4>& x, const TensorView<bfloat16, 4>& y) {
    executeFlashAttention<64>(x, x, x, x);
    executeFlashAttention(y, y, y, y);
    executeFlashDecode<128>(x, y, y, x);
    executeSoftmax(make_attention_read(x), make_attention_write(y));
}
