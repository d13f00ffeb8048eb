// (batch, head, token, dim) tensors in device memory, in the memory layouts that callers have.
#pragma once

#include "reference.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace waveattn::test {

enum class Layout {
    bhsd,     // contiguous
    bshd,     // heads inside tokens
    padded,   // rows end in 16 unused elements: every row stays aligned
    sliced,   // a slice of a larger tensor: no row is aligned to more than an element
    expanded, // batch stride 0: all batch entries are the first
};
inline constexpr Layout all_layouts[] = {Layout::bhsd, Layout::bshd, Layout::padded, Layout::sliced, Layout::expanded};
inline const char* layout_name(Layout layout) {
    constexpr const char* names[] = {"bhsd", "bshd", "padded", "sliced", "expanded"};
    return names[int(layout)];
}

// A (batch, head, token, dim) tensor in device memory, with NaN in every element that does not belong to it.
template <class T> struct Placed {
    DeviceArray<T> memory;
    TensorView<T, 4> view;

    std::vector<T> values() const { // contiguous
        const auto all = memory.host();
        std::vector<T> result;
        for_each([&](std::int64_t offset) { result.push_back(all[std::size_t(offset)]); });
        return result;
    }
    // Whether everything outside the view still holds its fill.
    bool surroundings_intact() const {
        auto all = memory.host();
        for_each([&](std::int64_t offset) { std::memset(&all[std::size_t(offset)], 0xff, sizeof(T)); });
        const auto* bytes = reinterpret_cast<const unsigned char*>(all.data());
        return memory.guards_intact() &&
               std::all_of(bytes, bytes + all.size() * sizeof(T), [](unsigned char byte) { return byte == 0xff; });
    }
    template <class F> void for_each(F&& f) const {
        for (std::int64_t b = 0; b < view.shape[0]; ++b)
            for (std::int64_t h = 0; h < view.shape[1]; ++h)
                for (std::int64_t s = 0; s < view.shape[2]; ++s)
                    for (std::int64_t d = 0; d < view.shape[3]; ++d)
                        f(view.data - memory.data() + view.offset(b, h, s, d));
    }
};

// Memory for a tensor of that shape; `values` (contiguous) fills it, or nothing where empty.
template <class T>
Placed<T> place(const std::vector<float>& values, std::int64_t batch, std::int64_t heads, std::int64_t tokens,
    std::int64_t dim, Layout layout = Layout::bhsd) {
    TensorView<T, 4> view;
    std::int64_t first = 0, count = 0;
    switch (layout) {
    case Layout::bhsd:
        view = make_contiguous((T*)nullptr, batch, heads, tokens, dim);
        count = view.size();
        break;
    case Layout::bshd:
        view = swap_axes(make_contiguous((T*)nullptr, batch, tokens, heads, dim), 1, 2);
        count = view.size();
        break;
    case Layout::padded:
        view = make_contiguous((T*)nullptr, batch, heads, tokens, dim + 16);
        count = view.size();
        break;
    case Layout::sliced:
        view = make_contiguous((T*)nullptr, batch, heads, tokens + 3, dim + 5);
        count = view.size(), first = view.offset(0, 0, 1, 3);
        break;
    case Layout::expanded:
        view = make_contiguous((T*)nullptr, std::int64_t(1), heads, tokens, dim);
        count = view.size(), view.stride[0] = 0;
        break;
    }
    view.shape[0] = batch, view.shape[2] = tokens, view.shape[3] = dim;
    std::vector<T> all(std::size_t(count), T{});
    if (count) std::memset(static_cast<void*>(all.data()), 0xff, all.size() * sizeof(T));
    if (!values.empty()) {
        std::size_t i = 0;
        for (std::int64_t b = 0; b < batch; ++b)
            for (std::int64_t h = 0; h < heads; ++h)
                for (std::int64_t s = 0; s < tokens; ++s)
                    for (std::int64_t d = 0; d < dim; ++d, ++i)
                        if (layout != Layout::expanded || b == 0)
                            all[std::size_t(first + view.offset(b, h, s, d))] = from_float<T>(values[i]);
    }
    DeviceArray<T> memory(all);
    view.data = memory.data() + first;
    return {std::move(memory), view};
}

} // namespace waveattn::test
