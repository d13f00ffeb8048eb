// Host checks of operations against the shape that a kernel is going to read.
#pragma once

#include "waveattn/core/status.h"
#include "waveattn/iop/read.h"
#include "waveattn/iop/write.h"

namespace waveattn::iop {

namespace detail {
template <class T>
void check_op_view(const char* name, const TensorView<const T, 4>& view, std::int64_t batch, std::int64_t heads,
    std::int64_t tokens, std::int64_t dim) {
    if (batch * heads * tokens * dim == 0) return;
    require(view.data != nullptr, name, " is a null pointer");
    require(view.shape[0] >= batch && view.shape[1] >= heads && view.shape[2] >= tokens && view.shape[3] >= dim, name,
        " holds (batch, heads, tokens, dim) = (", view.shape[0], ", ", view.shape[1], ", ", view.shape[2], ", ",
        view.shape[3], "), which is less than the (", batch, ", ", heads, ", ", tokens, ", ", dim, ") of the call");
    require(view.stride[3] == 1 || dim == 1, name, " must have a last stride of 1, got ", view.stride[3]);
}
} // namespace detail

// Throws InvalidArgument unless `op` holds at least that many values. Operations of other libraries are trusted.
template <class T>
void check_covers(const char* name, const RawRead<T>& op, std::int64_t batch, std::int64_t heads, std::int64_t tokens,
    std::int64_t dim) {
    detail::check_op_view(name, op.view, batch, heads, tokens, dim);
}
template <class Code>
void check_covers(const char* name, const TokenScaledRead<Code>& op, std::int64_t batch, std::int64_t heads,
    std::int64_t tokens, std::int64_t dim) {
    detail::check_op_view(name, op.view, batch, heads, tokens, dim);
    if (batch * heads * tokens * dim == 0) return;
    require(op.scales.data != nullptr, name, " has no scales");
    require(op.scales.shape[0] >= batch && op.scales.shape[1] >= heads && op.scales.shape[2] >= tokens, name,
        " has scales for (batch, heads, tokens) = (", op.scales.shape[0], ", ", op.scales.shape[1], ", ",
        op.scales.shape[2], "), which is less than the (", batch, ", ", heads, ", ", tokens, ") to be read");
}
template <class Back, class... Ops>
void check_covers(const char* name, const ReadChain<Back, Ops...>& op, std::int64_t batch, std::int64_t heads,
    std::int64_t tokens, std::int64_t dim) {
    check_covers(name, op.back, batch, heads, tokens, dim);
}
template <class T, class E>
void check_covers(const char* name, const Write<T, E>& op, std::int64_t batch, std::int64_t heads, std::int64_t tokens,
    std::int64_t dim) {
    detail::check_op_view<T>(name, op.view, batch, heads, tokens, dim);
}
template <class Iop>
void check_covers(const char*, const Iop&, std::int64_t, std::int64_t, std::int64_t, std::int64_t) {}

} // namespace waveattn::iop
