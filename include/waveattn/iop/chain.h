// Compute operations and chains of them, applied to fp32 values in registers.
//
// A compute operation is a trivially copyable value with one of
//     float exec(float value) const                       Mul, Add, Gelu, ...
//     float exec(float value, Point where) const          Bias, Residual, ...: it knows which element it handles
// or a callable of one of these two shapes, wrapped with `map`, or an operation of a library with the protocol
// Operation::exec(value, op). On a device it must be callable there (WAVEATTN_HOST_DEVICE).
//
//     auto prologue = make_attention_read(q_view).then(iop::Mul{0.5f}, iop::Gelu{});     // on every value read
//     auto finish = epilogue(iop::Mul{2.f}, iop::Bias{bias}, iop::Relu{});               // on every value written
#pragma once

#include "waveattn/core/tensor_view.h"
#include "waveattn/iop/convert.h"
#include "waveattn/iop/point.h"

#include <concepts>
#include <type_traits>

namespace waveattn::iop {

// ---- how an operation is called ----

template <class Op>
concept PlainOp = requires(const Op& op, float value) {
    { op.exec(value) } -> std::convertible_to<float>;
};
template <class Op>
concept PlacedOp = requires(const Op& op, float value, Point where) {
    { op.exec(value, where) } -> std::convertible_to<float>;
};
template <class Op>
concept ForeignOp = requires(const Op& op, float value) {
    { Op::Operation::exec(value, op) } -> std::convertible_to<float>;
};
template <class Op>
concept ComputeOp = std::is_trivially_copyable_v<Op> && (PlainOp<Op> || PlacedOp<Op> || ForeignOp<Op>);

template <ComputeOp Op> WAVEATTN_HOST_DEVICE constexpr float apply(const Op& op, float value, Point where) {
    if constexpr (PlacedOp<Op>)
        return op.exec(value, where);
    else if constexpr (PlainOp<Op>)
        return op.exec(value);
    else
        return Op::Operation::exec(value, op);
}

// ---- chains ----

// Operations applied from left to right. The empty chain is the identity.
template <class... Ops> struct Chain;

template <> struct Chain<> {
    WAVEATTN_HOST_DEVICE constexpr float exec(float value, Point) const { return value; }
    template <class... More> constexpr Chain<More...> then(More... more) const;
};
template <class First, class... Rest> struct Chain<First, Rest...> {
    static_assert(ComputeOp<First>,
        "not a compute operation: it must be trivially copyable and have `float exec(float) const` or `float "
        "exec(float, Point) const`, callable on the device (wrap a lambda with iop::map)");
    First first;
    [[no_unique_address]] Chain<Rest...> rest;

    WAVEATTN_HOST_DEVICE constexpr float exec(float value, Point where) const {
        return rest.exec(apply(first, value, where), where);
    }
    template <class... More> constexpr Chain<First, Rest..., More...> then(More... more) const {
        return {first, rest.then(more...)};
    }
};

namespace detail {
constexpr Chain<> chain_of() { return {}; }
template <class First, class... Rest> constexpr Chain<First, Rest...> chain_of(First first, Rest... rest) {
    return {first, chain_of(rest...)};
}
} // namespace detail
template <class... Ops> constexpr Chain<Ops...> make_chain(Ops... ops) { return detail::chain_of(ops...); }
template <class... More> constexpr Chain<More...> Chain<>::then(More... more) const { return make_chain(more...); }

template <class T> inline constexpr bool is_chain = false;
template <class... Ops> inline constexpr bool is_chain<Chain<Ops...>> = true;

// ---- the vocabulary ----

struct Mul {
    float factor;
    WAVEATTN_HOST_DEVICE constexpr float exec(float x) const { return x * factor; }
};
struct Add {
    float term;
    WAVEATTN_HOST_DEVICE constexpr float exec(float x) const { return x + term; }
};
struct Clamp {
    float low, high;
    WAVEATTN_HOST_DEVICE constexpr float exec(float x) const { return x < low ? low : x > high ? high : x; }
};
struct Relu { // NaN passes
    WAVEATTN_HOST_DEVICE constexpr float exec(float x) const { return x < 0.f ? 0.f : x; }
};
struct Silu { // x sigmoid(x)
    WAVEATTN_HOST_DEVICE float exec(float x) const { return x / (1.f + exponential(-x)); }
};
struct GeluTanh { // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), which is x sigmoid(2 sqrt(2/pi) (...))
    WAVEATTN_HOST_DEVICE float exec(float x) const {
        return x / (1.f + exponential(-1.59576912160573f * (x + 0.044715f * x * x * x)));
    }
};
// x/2 (1 + erf(x / sqrt 2)), with erf by formula 7.1.26 of Abramowitz and Stegun (absolute error 1.5e-7).
struct Gelu {
    WAVEATTN_HOST_DEVICE float exec(float x) const {
        const float z = (x < 0.f ? -x : x) * 0.70710678118654752f, t = 1.f / (1.f + 0.3275911f * z);
        const float poly =
            t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
        const float erf = 1.f - poly * exponential(-z * z);
        return 0.5f * x * (1.f + (x < 0.f ? -erf : erf));
    }
};
// To the format T and back: what a tensor of that type would hold between two operations.
template <class T> struct Cast {
    WAVEATTN_HOST_DEVICE constexpr float exec(float x) const { return decode(encode<T>(x)); }
};
// Adds an fp32 value of its own to each dim; `values` is device memory, [head_dim].
struct Bias {
    const float* values;
    WAVEATTN_HOST_DEVICE constexpr float exec(float x, Point where) const { return x + values[where.dim]; }
};
// Adds the element of another tensor at the same place.
template <class T> struct Residual {
    TensorView<const T, 4> view; // (batch, head, token, dim), device memory
    WAVEATTN_HOST_DEVICE constexpr float exec(float x, Point where) const {
        return x + decode(*view.at(where.batch, where.head, where.token, where.dim));
    }
};
// A user's function of (value) or (value, Point), trivially copyable and callable on the device.
template <class Function> struct Map {
    Function function;
    WAVEATTN_HOST_DEVICE constexpr float exec(float x, Point where) const {
        if constexpr (std::is_invocable_v<const Function&, float, Point>)
            return function(x, where);
        else
            return function(x);
    }
};
template <class Function> constexpr Map<Function> map(Function function) { return {function}; }

} // namespace waveattn::iop
