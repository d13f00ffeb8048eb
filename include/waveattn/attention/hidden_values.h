// Values of keys that a causal mask hides: a NaN or an infinity among them must not reach the rows that do not see it.
//
// A matrix product multiplies every value of a tile by a weight; that of a hidden key is 0, but 0 times NaN is NaN. So
// a block of rows is computed as if all values were finite, and its result is looked at once. Where some rows see
// fewer keys than others and the result is not finite, the block is computed again "with care": of each tile, values
// that are not finite are cleared before the products, and the first key that has one is found for each dim and kind. A row
// sees the keys up to some last one, so it sees such a value iff it sees the first one, and gets it in the end.
// A block without such values costs one look at its result; one with them, twice the time.
#pragma once

#include "waveattn/arch/intrinsics.h"

#include <limits>
#include <type_traits>

#ifdef __HIP__

namespace waveattn::detail {

// The first key whose value is NaN, +infinity, -infinity (in LDS for each dim; the last component is the kernel's own).
using FirstKeys = arch::int4v;
inline constexpr int no_key = std::numeric_limits<int>::max();

// 8 values of a dim as pairs of bf16 or f16, those that are not finite cleared and noted in `first`; value i is that
// of key `key + i`.
template <class Element>
WAVEATTN_DEVICE arch::int4v take_non_finite(arch::int4v pairs, int key, arch::LdsPointer<FirstKeys> first) {
    constexpr unsigned infinity = std::is_same_v<Element, float16> ? 0x7c00u : 0x7f80u;
    int nan = no_key, plus = no_key, minus = no_key;
#    pragma unroll
    for (int i = 7; i >= 0; --i) {
        const unsigned value = unsigned(pairs[i / 2]) >> 16 * (i % 2) & 0xffffu;
        if ((value & 0x7fffu) > infinity) nan = key + i;
        if (value == infinity) plus = key + i;
        if (value == (infinity | 0x8000u)) minus = key + i;
    }
    const auto least = (arch::LdsPointer<int>)first;
    arch::lds_min(least, nan), arch::lds_min(least + 1, plus), arch::lds_min(least + 2, minus);
    constexpr unsigned both = 0x00010001u, exponents = infinity * both, step = (infinity & (0u - infinity)) * both;
#    pragma unroll
    for (int i = 0; i < 4; ++i) {
        // Adding 1 to an exponent overflows into the sign's place where all its bits are set.
        const unsigned pair = unsigned(pairs[i]), found = ((pair & exponents) + step) & 0x8000u * both;
        pairs[i] = int(pair & ~((found << 1) - (found >> 15)));
    }
    return pairs;
}

// 0x80 in each byte that is an fp8 NaN: FNUZ has one code, OCP's e4m3 two. Neither has infinities.
template <bool Fnuz> WAVEATTN_DEVICE unsigned fp8_nan(unsigned codes) {
    constexpr unsigned low = 0x7f7f7f7fu, high = 0x80808080u, ones = 0x01010101u;
    if constexpr (!Fnuz) return ((codes & low) + ones) & high;
    const unsigned other = codes ^ high; // 0 where a code is NaN
    return ~(((other & low) + low) | other) & high;
}
template <bool Fnuz> WAVEATTN_DEVICE unsigned without_fp8_nan(unsigned codes) {
    const unsigned found = fp8_nan<Fnuz>(codes);
    return codes & ~((found << 1) - (found >> 7));
}

// An output of a row that sees the keys up to `last`, with the values that were taken out.
WAVEATTN_DEVICE float with_non_finite(float o, FirstKeys first, int last) {
    if (first.x <= last) return __builtin_nanf("");
    if (first.y <= last) o += arch::infinity;
    if (first.z <= last) o -= arch::infinity;
    return o;
}

} // namespace waveattn::detail

#endif
