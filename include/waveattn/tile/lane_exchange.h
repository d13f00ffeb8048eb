// Exchanges between the lanes of a wave, by the fastest means of a target.
#pragma once

#include "waveattn/arch/intrinsics.h"

#ifdef __HIP__

namespace waveattn::tile {

// How a 32-lane wave exchanges lanes: through the LDS crossbar (ds_bpermute, any target) or in registers (DPP within a
// row of 16 lanes, v_permlanex16 between the rows; gfx10 and later).
enum class Exchange { crossbar, registers };

// The value of lane (lane ^ Mask) of a 32-lane wave; Mask a power of two.
template <int Mask, Exchange How> WAVEATTN_DEVICE float exchange_xor(float value) {
    static_assert(Mask == 1 || Mask == 2 || Mask == 4 || Mask == 8 || Mask == 16);
    if constexpr (How == Exchange::crossbar)
        return arch::shuffle_xor(value, Mask);
    else if constexpr (Mask == 16)
        return arch::swap_rows(value);
    else
        return arch::row_xor<Mask>(value);
}

// Maximum and sum over the 32 lanes, in every lane: butterflies with masks 16, 8, 4, 2, 1.
template <Exchange How> WAVEATTN_DEVICE float max_of_32_lanes(float value) {
    value = arch::max(value, exchange_xor<16, How>(value));
    value = arch::max(value, exchange_xor<8, How>(value));
    value = arch::max(value, exchange_xor<4, How>(value));
    value = arch::max(value, exchange_xor<2, How>(value));
    return arch::max(value, exchange_xor<1, How>(value));
}
template <Exchange How> WAVEATTN_DEVICE float sum_of_32_lanes(float value) {
    value += exchange_xor<16, How>(value);
    value += exchange_xor<8, How>(value);
    value += exchange_xor<4, How>(value);
    value += exchange_xor<2, How>(value);
    return value + exchange_xor<1, How>(value);
}

// One level of a reduce-scatter: lanes whose Mask bit is clear get the sum over the pair (lane, lane ^ Mask) of `a`,
// the others that of `b`. With MaskedAdds the masks 8 and 4, which separate banks of 4 lanes, need two additions and
// nothing else. Every way gives the same bits, because an addition commutes.
template <int Mask, Exchange How, bool MaskedAdds> WAVEATTN_DEVICE float reduce_pair(float a, float b) {
    if constexpr (MaskedAdds && How == Exchange::registers && (Mask == 8 || Mask == 4)) {
        float sum = a + exchange_xor<Mask, How>(a);
        arch::add_row_xor_in_banks<Mask, Mask == 8 ? 0xc : 0xa>(sum, b);
        return sum;
    } else {
        const bool upper = (arch::lane_id() & unsigned(Mask)) != 0;
        const float keep = upper ? b : a, send = upper ? a : b;
        return keep + exchange_xor<Mask, How>(send);
    }
}

} // namespace waveattn::tile

#endif
