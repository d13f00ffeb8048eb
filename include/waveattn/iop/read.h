// Read operations: what a kernel reads for each element of q, k or v.
//
//   RawRead<T>            the element itself: fp32, bf16, f16; int8 and fp8 codes as the numbers that they stand for
//   TokenScaledRead<C>    code * scale[token]: an int8 or fp8 cache with one fp32 scale for each token of each head
//   ReadChain<Back, ...>  another read followed by compute operations, made by .then(...)
//   ForeignRead<Iop>      an instantiable operation of a library with Operation::exec(point, iop)
//
// A read operation is a trivially copyable value with
//     float read(Point) const
//     void read(Point, float (&values)[N]) const     N consecutive dims, by loads of up to 16 bytes
// and the type says what fast paths may assume: kernels that copy raw elements ask raw_element<R> or cache_code<R>. A
// chain has another type than what it wraps, so it loses those paths by itself and is read value by value.
//
// The points given to an operation are always inside its tensor.
#pragma once

#include "waveattn/iop/chain.h"

#include <cstring>

namespace waveattn::iop {

template <class R>
concept ReadOp = std::is_trivially_copyable_v<R> && requires(const R& op, Point where, float (&four)[4]) {
    { op.read(where) } -> std::convertible_to<float>;
    op.read(where, four);
};
template <class R>
concept ForeignReadOp = !ReadOp<R> && std::is_trivially_copyable_v<R> &&
                        requires(const R& op, Point where) { static_cast<float>(R::Operation::exec(where, op)); };

template <class R>
concept AnyReadOp = ReadOp<R> || ForeignReadOp<R>;

namespace detail {
// Copies N consecutive elements; the compiler makes the widest loads of it, which need no alignment beyond T's.
template <class T, int N> struct Elements {
    T value[N];
};
template <int N, class T> WAVEATTN_HOST_DEVICE constexpr Elements<T, N> load_elements(const T* from) {
    Elements<T, N> elements;
    __builtin_memcpy(&elements, from, sizeof(elements));
    return elements;
}
} // namespace detail

template <class Back, class... Ops> struct ReadChain {
    static_assert(ReadOp<Back>);
    Back back;
    [[no_unique_address]] Chain<Ops...> chain;

    WAVEATTN_HOST_DEVICE float read(Point where) const { return chain.exec(back.read(where), where); }
    template <int N> WAVEATTN_HOST_DEVICE void read(Point where, float (&values)[N]) const {
        back.read(where, values);
        for (int i = 0; i < N; ++i, ++where.dim) values[i] = chain.exec(values[i], where);
    }
    template <class... More> constexpr ReadChain<Back, Ops..., More...> then(More... more) const {
        return {back, chain.then(more...)};
    }
};

template <class T> struct RawRead {
    static_assert(is_element<T>,
        "a tensor to be read holds float, waveattn::bfloat16, waveattn::float16, or codes: std::int8_t, "
        "waveattn::float8_e4m3fn, waveattn::float8_e4m3fnuz (cast pointers of other 16-bit types to these)");
    TensorView<const T, 4> view; // (batch, head, token, dim), last stride 1

    WAVEATTN_HOST_DEVICE float read(Point where) const {
        return decode(*view.at(where.batch, where.head, where.token, where.dim));
    }
    template <int N> WAVEATTN_HOST_DEVICE void read(Point where, float (&values)[N]) const {
        const auto elements = detail::load_elements<N>(view.at(where.batch, where.head, where.token) + where.dim);
        for (int i = 0; i < N; ++i) values[i] = decode(elements.value[i]);
    }
    template <class... Ops> constexpr ReadChain<RawRead, Ops...> then(Ops... ops) const {
        return {*this, make_chain(ops...)};
    }
};

// The scale of token t of head h of batch b is *scales.at(b, h, t). Its strides are its own: with a cache of C stored
// tokens they follow from C, however few of them a call uses.
template <class Code> struct TokenScaledRead {
    static_assert(is_code<Code>, "a cache holds std::int8_t, waveattn::float8_e4m3fn or waveattn::float8_e4m3fnuz");
    TensorView<const Code, 4> view;    // (batch, head, token, dim), last stride 1
    TensorView<const float, 3> scales; // (batch, head, token)

    WAVEATTN_HOST_DEVICE float read(Point where) const {
        return decode(*view.at(where.batch, where.head, where.token, where.dim)) *
               *scales.at(where.batch, where.head, where.token);
    }
    template <int N> WAVEATTN_HOST_DEVICE void read(Point where, float (&values)[N]) const {
        const auto codes = detail::load_elements<N>(view.at(where.batch, where.head, where.token) + where.dim);
        const float scale = *scales.at(where.batch, where.head, where.token);
        for (int i = 0; i < N; ++i) values[i] = decode(codes.value[i]) * scale;
    }
    template <class... Ops> constexpr ReadChain<TokenScaledRead, Ops...> then(Ops... ops) const {
        return {*this, make_chain(ops...)};
    }
};
using Int8TokenRead = TokenScaledRead<std::int8_t>;
using Fp8TokenRead = TokenScaledRead<float8_e4m3fn>;
using Fp8FnuzTokenRead = TokenScaledRead<float8_e4m3fnuz>;

template <class Iop> struct ForeignRead {
    Iop iop;

    WAVEATTN_HOST_DEVICE float read(Point where) const { return static_cast<float>(Iop::Operation::exec(where, iop)); }
    template <int N> WAVEATTN_HOST_DEVICE void read(Point where, float (&values)[N]) const {
        for (int i = 0; i < N; ++i, ++where.dim) values[i] = read(where);
    }
    template <class... Ops> constexpr ReadChain<ForeignRead, Ops...> then(Ops... ops) const {
        return {*this, make_chain(ops...)};
    }
};

// Any accepted operation as one of ours.
template <class R> constexpr auto as_read(const R& op) {
    static_assert(AnyReadOp<R>,
        "not a read operation: it must be trivially copyable and have `float read(Point) const` and `void read(Point, "
        "float (&)[N]) const`, or `Operation::exec(point, operation)` with a point {x, y, z} = {dim, token, plane}");
    if constexpr (ReadOp<R>)
        return op;
    else
        return ForeignRead<R>{op};
}
template <class R> using AsRead = decltype(as_read(std::declval<const R&>()));

// ---- what fast paths ask ----

// The element type of an unmodified read of a tensor, else void.
template <class R> struct RawElement {
    using type = void;
};
template <class T> struct RawElement<RawRead<T>> {
    using type = T;
};
template <class R> using raw_element = typename RawElement<R>::type;
template <class R> inline constexpr bool is_raw = !std::is_void_v<raw_element<R>>;
template <class R, class T> inline constexpr bool is_raw_of = std::is_same_v<raw_element<R>, T>;

// The code type of an unmodified read of a token-scaled cache, else void.
template <class R> struct CacheCode {
    using type = void;
};
template <class Code> struct CacheCode<TokenScaledRead<Code>> {
    using type = Code;
};
template <class R> using cache_code = typename CacheCode<R>::type;
template <class R> inline constexpr bool is_token_scaled = !std::is_void_v<cache_code<R>>;

// How many consecutive dims make one 16-byte load (4 where the source is not known).
template <class R> inline constexpr int load_width = 4;
template <class T> inline constexpr int load_width<RawRead<T>> = 16 / sizeof(T);
template <class Code> inline constexpr int load_width<TokenScaledRead<Code>> = 16 / sizeof(Code);
template <class Back, class... Ops> inline constexpr int load_width<ReadChain<Back, Ops...>> = load_width<Back>;

} // namespace waveattn::iop

namespace waveattn {

// ---- builders ----

// Elements of a strided (batch, head, token, dim) view.
template <class T> iop::RawRead<std::remove_const_t<T>> make_attention_read(const TensorView<T, 4>& view) {
    return {TensorView<const T, 4>(view)};
}
// Elements of a contiguous (planes, tokens, dim) tensor; a plane is one head of one batch entry.
template <class T>
iop::RawRead<T> make_attention_read(const T* data, std::int64_t planes, std::int64_t tokens, std::int64_t dim) {
    return {make_contiguous(data, std::int64_t(1), planes, tokens, dim)};
}

// A cache of 8-bit codes (batch, head, token, dim) with scales (batch, head, token).
template <class Code>
iop::TokenScaledRead<std::remove_const_t<Code>> make_cache_read(
    const TensorView<Code, 4>& codes, const TensorView<const float, 3>& scales) {
    return {TensorView<const Code, 4>(codes), scales};
}
// A contiguous cache: codes (planes, stored_tokens, dim), scales (planes, stored_tokens). `stored_tokens` is the height
// of the cache as allocated, not the number of tokens in use.
inline iop::Int8TokenRead make_int8_kv_read(
    const std::int8_t* codes, const float* scales, std::int64_t planes, std::int64_t stored_tokens, std::int64_t dim) {
    return {make_contiguous(codes, std::int64_t(1), planes, stored_tokens, dim),
        make_contiguous(scales, std::int64_t(1), planes, stored_tokens)};
}
template <class Code = float8_e4m3fn>
iop::TokenScaledRead<Code> make_fp8_kv_read(
    const Code* codes, const float* scales, std::int64_t planes, std::int64_t stored_tokens, std::int64_t dim) {
    return {make_contiguous(codes, std::int64_t(1), planes, stored_tokens, dim),
        make_contiguous(scales, std::int64_t(1), planes, stored_tokens)};
}

} // namespace waveattn
