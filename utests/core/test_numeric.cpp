// Number formats, exhaustively: every code of every 8- and 16-bit format against its definition in double arithmetic,
// and rounding at every code, every midpoint between neighbours and the fp32 numbers next to both.
#include <doctest/doctest.h>

#include "waveattn/core/numeric.h"

#include <cmath>
#include <map>
#include <vector>

using namespace waveattn;

namespace {

// A format by its published parameters, independent of numeric.h.
struct Definition {
    int exponent_bits, mantissa_bits, bias;
    enum { ieee, fn, fnuz } specials;
};
template <class T> constexpr Definition definition;
template <> constexpr Definition definition<bfloat16>{8, 7, 127, Definition::ieee};
template <> constexpr Definition definition<float16>{5, 10, 15, Definition::ieee};
template <> constexpr Definition definition<float8_e4m3fn>{4, 3, 7, Definition::fn};
template <> constexpr Definition definition<float8_e4m3fnuz>{4, 3, 8, Definition::fnuz};

double value_of(Definition format, unsigned code) {
    const int bits = 1 + format.exponent_bits + format.mantissa_bits;
    const bool negative = code >> (bits - 1) & 1;
    const int exponent = int(code >> format.mantissa_bits & ((1u << format.exponent_bits) - 1));
    const unsigned mantissa = code & ((1u << format.mantissa_bits) - 1);
    const bool top = exponent == (1 << format.exponent_bits) - 1;
    if (format.specials == Definition::ieee && top)
        return mantissa ? std::nan("") : (negative ? -1.0 : 1.0) * std::numeric_limits<double>::infinity();
    if (format.specials == Definition::fn && top && mantissa == 7) return std::nan("");
    if (format.specials == Definition::fnuz && code == 1u << (bits - 1)) return std::nan("");
    const double magnitude =
        exponent ? std::ldexp(1.0 + std::ldexp(double(mantissa), -format.mantissa_bits), exponent - format.bias)
                 : std::ldexp(double(mantissa), 1 - format.bias - format.mantissa_bits);
    return negative ? -magnitude : magnitude;
}

template <class T> T from_code(unsigned code) { return T{static_cast<decltype(T::bits)>(code)}; }

// The finite values in ascending order, with one code each (that of +0 for zero).
template <class T> std::map<double, unsigned> finite_values() {
    std::map<double, unsigned> values;
    for (unsigned code = 0; code < 1u << (8 * sizeof(T)); ++code)
        if (const double value = value_of(definition<T>, code); std::isfinite(value)) values.emplace(value, code);
    return values;
}

// What rounding to nearest, ties to even, must give: a code whose value is nearest, the even one of two.
template <class T> double nearest(const std::map<double, unsigned>& values, double x) {
    const auto above = values.lower_bound(x);
    if (above == values.end()) return values.rbegin()->first;
    if (above->first == x || above == values.begin()) return above->first;
    const auto below = std::prev(above);
    const double up = above->first - x, down = x - below->first;
    if (up != down) return up < down ? above->first : below->first;
    // Neighbours of one sign differ by 1 in their codes; the even one ends in 0. (Zero's code is even.)
    return above->second % 2 == 0 ? above->first : below->first;
}

} // namespace

TEST_CASE_TEMPLATE("every code decodes to its value", T, bfloat16, float16, float8_e4m3fn, float8_e4m3fnuz) {
    for (unsigned code = 0; code < 1u << (8 * sizeof(T)); ++code) {
        const double want = value_of(definition<T>, code);
        const float got = to_float(from_code<T>(code));
        const bool same = std::isnan(want) ? std::isnan(got) : got == want && std::signbit(got) == std::signbit(want);
        if (!same) FAIL_CHECK("code ", code, ": ", got, " instead of ", want);
    }
}

TEST_CASE_TEMPLATE("every code survives a round trip", T, bfloat16, float16, float8_e4m3fn, float8_e4m3fnuz) {
    for (unsigned code = 0; code < 1u << (8 * sizeof(T)); ++code) {
        const float value = to_float(from_code<T>(code));
        const T again = from_float<T>(value);
        const bool same = std::isnan(value) ? std::isnan(to_float(again)) : again.bits == code;
        if (!same) FAIL_CHECK("code ", code, " became ", again.bits);
    }
}

TEST_CASE_TEMPLATE("rounding to nearest, ties to even", T, bfloat16, float16, float8_e4m3fn, float8_e4m3fnuz) {
    const auto values = finite_values<T>();
    constexpr bool has_infinity = definition<T>.specials == Definition::ieee;
    std::int64_t checked = 0;
    const auto check = [&](float x) {
        if (has_infinity && std::abs(double(x)) > values.rbegin()->first) return; // covered by the test of overflow
        ++checked;
        const double want = nearest<T>(values, x), got = to_float(from_float<T>(x));
        if (got != want) FAIL_CHECK(x, " became ", got, " instead of ", want);
    };
    double previous = 0;
    bool first = true;
    for (const auto& [value, code] : values) {
        const double middle = (previous + value) / 2;
        for (double x : first ? std::vector<double>{value} : std::vector<double>{value, middle}) {
            const float exact = float(x);
            check(exact);
            check(std::nextafter(exact, -INFINITY));
            check(std::nextafter(exact, INFINITY));
        }
        previous = value, first = false;
    }
    CHECK(checked > std::int64_t(values.size()) * 5);
}

TEST_CASE("overflow: infinity where the format has one, else the largest value") {
    constexpr float inf = std::numeric_limits<float>::infinity();
    for (float sign : {1.f, -1.f}) {
        CHECK(to_float(from_float<float16>(sign * 65519.996f)) == sign * 65504.f);
        CHECK(to_float(from_float<float16>(sign * 65520.f)) == sign * inf);
        CHECK(to_float(from_float<float16>(sign * inf)) == sign * inf);
        CHECK(to_float(from_float<bfloat16>(sign * 3.4e38f)) == sign * inf);
        CHECK(to_float(from_float<bfloat16>(sign * inf)) == sign * inf);
        for (float large : {448.f, 449.f, 480.f, 1e30f, inf}) {
            CHECK(to_float(from_float<float8_e4m3fn>(sign * large)) == sign * 448.f);
            CHECK(to_float(from_float<float8_e4m3fnuz>(sign * large)) == sign * 240.f);
        }
    }
}

TEST_CASE("NaN, zero and denormals") {
    for (std::uint32_t word : {0x7f800001u, 0x7fffffffu, 0xffc00000u, 0xff800001u}) {
        const float nan = std::bit_cast<float>(word);
        CHECK(std::isnan(to_float(from_float<bfloat16>(nan))));
        CHECK(std::isnan(to_float(from_float<float16>(nan))));
        CHECK(std::isnan(to_float(from_float<float8_e4m3fn>(nan))));
        CHECK(std::isnan(to_float(from_float<float8_e4m3fnuz>(nan))));
    }
    CHECK(std::signbit(to_float(from_float<float16>(-0.f))));
    CHECK(from_float<float8_e4m3fnuz>(-0.f).bits == 0); // it has no -0: that code is NaN
    CHECK(from_float<float8_e4m3fnuz>(-1e-9f).bits == 0);
    CHECK(from_float<float16>(std::numeric_limits<float>::denorm_min()).bits == 0);
    CHECK(from_float<bfloat16>(std::bit_cast<float>(0x00010000u)).bits == 1); // an fp32 denormal that bf16 holds
    static_assert(NumericTraits<float8_e4m3fn>::largest == 448.f && NumericTraits<float16>::largest == 65504.f);
}
