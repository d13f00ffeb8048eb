// Where a value of an attention tensor is: (batch, head, token, dim).
#pragma once

#include "waveattn/core/hip_api.h"

#include <cstdint>

namespace waveattn::iop {

// Indices fit 32 bits (the host checks); offsets into memory are computed in 64 bits from them.
struct Point {
    std::int32_t dim = 0, token = 0, head = 0, batch = 0;
    std::int32_t heads = 1; // of this tensor: q's for q and o, k's for k and v

    // The index of the (token, dim) matrix in a (batch * heads, token, dim) tensor.
    WAVEATTN_HOST_DEVICE constexpr std::int32_t plane() const { return batch * heads + head; }

    // As the {x, y, z} point of a library that numbers (dim, token, plane).
    template <class Xyz>
        requires requires(Xyz p) { p.x, p.y, p.z; }
    WAVEATTN_HOST_DEVICE constexpr operator Xyz() const {
        Xyz p{};
        p.x = static_cast<decltype(p.x)>(dim);
        p.y = static_cast<decltype(p.y)>(token);
        p.z = static_cast<decltype(p.z)>(plane());
        return p;
    }
};

} // namespace waveattn::iop
