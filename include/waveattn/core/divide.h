// Integer division helpers.
#pragma once

#include "waveattn/core/hip_api.h"

namespace waveattn {

template <class T> WAVEATTN_HOST_DEVICE constexpr T ceil_div(T value, T divisor) {
    return (value + divisor - 1) / divisor;
}
template <class T> WAVEATTN_HOST_DEVICE constexpr T round_up(T value, T multiple) {
    return ceil_div(value, multiple) * multiple;
}

} // namespace waveattn
