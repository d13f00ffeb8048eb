// Strided views of device memory: a pointer, sizes and strides in elements, all 64-bit.
//
// The views own nothing and are passed to kernels by value. Attention tensors are logically (batch, head, token, dim);
// BHSD and BSHD memory differ only in strides, so neither needs a copy. The last stride is 1 for every kernel.
#pragma once

#include "waveattn/core/hip_api.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace waveattn {

template <class T, int Rank> struct TensorView {
    static_assert(Rank >= 1);
    static constexpr int rank = Rank;
    using value_type = T;

    T* data = nullptr;
    std::int64_t shape[Rank] = {};
    std::int64_t stride[Rank] = {}; // in elements

    WAVEATTN_HOST_DEVICE constexpr std::int64_t size() const {
        std::int64_t n = 1;
        for (int i = 0; i < Rank; ++i) n *= shape[i];
        return n;
    }
    WAVEATTN_HOST_DEVICE constexpr bool empty() const { return size() == 0; }

    // Element offset of a (possibly partial) index: missing trailing indices are 0.
    template <class... Index> WAVEATTN_HOST_DEVICE constexpr std::int64_t offset(Index... index) const {
        static_assert(sizeof...(Index) <= Rank);
        std::int64_t sum = 0;
        int axis = 0;
        ((sum += std::int64_t(index) * stride[axis++]), ...);
        return sum;
    }
    template <class... Index> WAVEATTN_HOST_DEVICE constexpr T* at(Index... index) const {
        return data + offset(index...);
    }

    // A view of mutable elements is a view of constant ones.
    WAVEATTN_HOST_DEVICE constexpr operator TensorView<const T, Rank>() const
        requires(!std::is_const_v<T>)
    {
        TensorView<const T, Rank> view;
        view.data = data;
        for (int i = 0; i < Rank; ++i) view.shape[i] = shape[i], view.stride[i] = stride[i];
        return view;
    }
};

// Row-major ("C-contiguous") view.
template <class T, int Rank>
constexpr TensorView<T, Rank> make_contiguous(T* data, const std::array<std::int64_t, Rank>& shape) {
    TensorView<T, Rank> view;
    view.data = data;
    std::int64_t step = 1;
    for (int i = Rank - 1; i >= 0; --i) {
        view.shape[i] = shape[i];
        view.stride[i] = step;
        step *= shape[i];
    }
    return view;
}
template <class T, class... Size> constexpr TensorView<T, int(sizeof...(Size))> make_contiguous(T* data, Size... size) {
    return make_contiguous<T, int(sizeof...(Size))>(data, {std::int64_t(size)...});
}

// The same memory with two axes exchanged: a (batch, token, head, dim) tensor as (batch, head, token, dim).
template <class T, int Rank> constexpr TensorView<T, Rank> swap_axes(TensorView<T, Rank> view, int a, int b) {
    auto shape = view.shape[a], stride = view.stride[a];
    view.shape[a] = view.shape[b], view.stride[a] = view.stride[b];
    view.shape[b] = shape, view.stride[b] = stride;
    return view;
}

// True where every row (all axes but the last) starts on a multiple of `bytes`; kernels choose wide loads by it.
template <class T, int Rank> bool rows_aligned(const TensorView<T, Rank>& view, std::size_t bytes) {
    if (reinterpret_cast<std::uintptr_t>(view.data) % bytes != 0) return false;
    for (int i = 0; i < Rank - 1; ++i)
        if (view.shape[i] > 1 && (view.stride[i] * std::int64_t(sizeof(T))) % std::int64_t(bytes) != 0) return false;
    return true;
}

} // namespace waveattn
