// Epilogues and write operations: what a kernel does with each fp32 result before it is stored.
#pragma once

#include "waveattn/iop/chain.h"

#include <cstring>

namespace waveattn {

// The epilogue of a kernel: operations applied to every result, in registers and in fp32, before the final cast.
template <class... Ops> constexpr iop::Chain<Ops...> epilogue(Ops... ops) { return iop::make_chain(ops...); }

namespace iop {

template <class E>
concept Epilogue = std::is_trivially_copyable_v<E> && requires(const E& chain, float value, Point where) {
    { chain.exec(value, where) } -> std::convertible_to<float>;
};

// Stores to a strided (batch, head, token, dim) view of fp32, bf16, f16 or fp8 with last stride 1.
template <class T, Epilogue E = Chain<>> struct Write {
    static_assert(is_element<T> && !std::is_same_v<T, std::int8_t>,
        "results are stored as float, waveattn::bfloat16, waveattn::float16 or fp8, through a view that is not "
        "constant");
    using element = T;
    TensorView<T, 4> view;
    [[no_unique_address]] E chain;

    WAVEATTN_HOST_DEVICE void write(Point where, float value) const {
        *view.at(where.batch, where.head, where.token, where.dim) = encode<T>(chain.exec(value, where));
    }
    // N consecutive dims, by the widest stores.
    template <int N> WAVEATTN_HOST_DEVICE void write(Point where, const float (&values)[N]) const {
        T elements[N];
        T* const to = view.at(where.batch, where.head, where.token) + where.dim;
        for (int i = 0; i < N; ++i, ++where.dim) elements[i] = encode<T>(chain.exec(values[i], where));
        __builtin_memcpy(to, elements, sizeof(elements));
    }
};

template <class W>
concept WriteOp =
    std::is_trivially_copyable_v<W> && requires(const W& op, Point where, float value) { op.write(where, value); };

} // namespace iop

// The write of a strided view with an optional epilogue chain.
template <class T, class E = iop::Chain<>>
iop::Write<T, E> make_attention_write(const TensorView<T, 4>& view, E chain = {}) {
    return {view, chain};
}
// The write of a contiguous (planes, tokens, dim) tensor.
template <class T, class E = iop::Chain<>>
iop::Write<T, E> make_attention_write(
    T* data, std::int64_t planes, std::int64_t tokens, std::int64_t dim, E chain = {}) {
    return {make_contiguous(data, std::int64_t(1), planes, tokens, dim), chain};
}

} // namespace waveattn
