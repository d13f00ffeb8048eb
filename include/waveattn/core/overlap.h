// Whether two strided tensors share memory: exact, byte by byte, for tensors that interleave as well, such as q, k, v
// and o as parts of the rows of one packed tensor.
//
// The addresses of either tensor are a sum over its axes. Going from the largest stride of both downwards, only a few
// differences of the two indices along an axis bring what remains of the tensors within reach of each other; those are
// tried one by one. Strides that nest, each stepping over what smaller ones reach, leave two or three for an axis.
#pragma once

#include "waveattn/core/status.h"
#include "waveattn/core/tensor_view.h"

#include <algorithm>
#include <cstdint>

namespace waveattn {

enum class Sharing {
    apart,
    shared,
    undecided // strides so irregular that the search was given up
};

// The bytes of a tensor: runs of `run` bytes from `begin` on, at sums of multiples of the strides.
class MemoryLayout {
public:
    // Strides count elements of `element_bytes`; they may be 0 or negative. Tensors of at most 8 axes.
    MemoryLayout(const void* data, int rank, const std::int64_t* shape, const std::int64_t* stride, int element_bytes)
        : begin_(reinterpret_cast<std::uintptr_t>(data)), run_(element_bytes) {
        for (int i = 0; i < rank; ++i) {
            if (shape[i] <= 0) run_ = 0;
            if (shape[i] <= 1 || stride[i] == 0) continue;
            const std::int64_t step = stride[i] * element_bytes;
            if (step < 0) begin_ += std::uintptr_t((shape[i] - 1) * step);
            axis_[axes_++] = {step < 0 ? -step : step, shape[i]};
        }
        if (run_ == 0) axes_ = 0;
        std::sort(axis_, axis_ + axes_, [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
        // Steps no longer than a run make a longer one; axes of the same stride are one.
        int kept = 0;
        for (int i = 0; i < axes_; ++i) {
            if (kept == 0 && axis_[i].stride <= run_)
                run_ += axis_[i].stride * (axis_[i].count - 1);
            else if (kept > 0 && axis_[i].stride == axis_[kept - 1].stride)
                axis_[kept - 1].count += axis_[i].count - 1;
            else
                axis_[kept++] = axis_[i];
        }
        axes_ = kept;
        extent_[0] = run_;
        for (int i = 0; i < axes_; ++i) extent_[i + 1] = extent_[i] + axis_[i].stride * (axis_[i].count - 1);
    }
    template <class T, int Rank>
    explicit MemoryLayout(const TensorView<T, Rank>& view)
        : MemoryLayout(view.data, Rank, view.shape, view.stride, int(sizeof(T))) {
        static_assert(Rank <= 8);
    }
    // An array of so many bytes.
    MemoryLayout(const void* data, std::int64_t bytes)
        : begin_(reinterpret_cast<std::uintptr_t>(data)), run_(bytes), extent_{bytes} {}

    friend Sharing sharing(const MemoryLayout& a, const MemoryLayout& b);

private:
    struct Axis {
        std::int64_t stride, count; // bytes, and steps of an index
    };

    // Of the first axes_a and axes_b axes, the second tensor `offset` bytes behind the first.
    static Sharing search(
        const MemoryLayout& a, int axes_a, const MemoryLayout& b, int axes_b, std::int64_t offset, int& budget) {
        if (a.run_ == 0 || b.run_ == 0 || offset >= a.extent_[axes_a] || -offset >= b.extent_[axes_b])
            return Sharing::apart;
        if (axes_a == 0 && axes_b == 0) return Sharing::shared;
        const std::int64_t stride_a = axes_a ? a.axis_[axes_a - 1].stride : 0;
        const std::int64_t stride_b = axes_b ? b.axis_[axes_b - 1].stride : 0;
        const std::int64_t stride = std::max(stride_a, stride_b);
        const std::int64_t count_a = stride == stride_a ? a.axis_[--axes_a].count : 1;
        const std::int64_t count_b = stride == stride_b ? b.axis_[--axes_b].count : 1;
        // offset - stride * difference must lie between -extent_b and extent_a, both excluded.
        const auto floor = [&](std::int64_t n) { return n / stride - (n % stride < 0); };
        const std::int64_t first = std::max(1 - count_b, floor(offset - a.extent_[axes_a]) + 1);
        const std::int64_t last = std::min(count_a - 1, floor(offset + b.extent_[axes_b] - 1));
        for (std::int64_t difference = first; difference <= last; ++difference) {
            if (--budget < 0) return Sharing::undecided;
            const Sharing found = search(a, axes_a, b, axes_b, offset - stride * difference, budget);
            if (found != Sharing::apart) return found;
        }
        return Sharing::apart;
    }

    std::uintptr_t begin_;
    std::int64_t run_;
    Axis axis_[8] = {};
    int axes_ = 0;
    std::int64_t extent_[9] = {}; // bytes from the first to the last one, of the first so many axes
};

inline Sharing sharing(const MemoryLayout& a, const MemoryLayout& b) {
    int budget = 1 << 14;
    return MemoryLayout::search(a, a.axes_, b, b.axes_, std::int64_t(b.begin_ - a.begin_), budget);
}

// Throws InvalidArgument unless `output` is known to share no memory with another tensor.
inline void check_apart(
    const char* output_name, const MemoryLayout& output, const char* name, const MemoryLayout& other) {
    const Sharing found = sharing(output, other);
    require(found != Sharing::shared, output_name, " overlaps the memory of ", name);
    require(found == Sharing::apart, output_name, " may overlap the memory of ", name,
        ": their strides are too irregular to tell; use memory of its own");
}

} // namespace waveattn
