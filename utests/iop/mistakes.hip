// One mistake of a user for each value of MISTAKE; CMakeLists.txt says what the compiler has to answer. 0 is none.
#include "waveattn/attention/flash_attention.h"

#include <string>

using namespace waveattn;

template <class T> using View = TensorView<T, 4>;

void attend(View<const float> q, View<const double> wide, View<bfloat16> o, const float* scales) {
#if MISTAKE == 0
    executeFlashAttention<64>(q, q, q, o);
#elif MISTAKE == 1
    executeFlashAttention<64>(wide, wide, wide, o);
#elif MISTAKE == 2
    executeFlashAttention<64>(q, q, q, q);
#elif MISTAKE == 3
    (void)make_cache_read(q, make_contiguous(scales, 1, 1, 1));
#elif MISTAKE == 4
    executeFlashAttention<64>(q, q, q, o, {}, epilogue([](float x) { return x; }));
#elif MISTAKE == 5
    struct Named {
        std::string name;
        WAVEATTN_HOST_DEVICE float exec(float x) const { return x; }
    };
    (void)make_attention_read(q).then(Named{"identity"});
#elif MISTAKE == 6
    executeFlashAttention<64>(q, q, q, o, {}, iop::Mul{2.f});
#elif MISTAKE == 7
    executeFlashAttention<512>(q, q, q, o);
#endif
    (void)wide, (void)o, (void)scales;
}
