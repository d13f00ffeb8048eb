// One case for each instruction: how to write it and what it must give. The expectations are computed here from the
// vendors' ISA documents, with nothing of the emulator's.
#pragma once
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace instruction_test {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;

inline u32 bits(float f) { return std::bit_cast<u32>(f); }
inline u64 bits(double f) { return std::bit_cast<u64>(f); }
inline float as_float(u32 u) { return std::bit_cast<float>(u); }
inline double as_double(u64 u) { return std::bit_cast<double>(u); }

// What an instruction sees: three sources, the destination's old value (d), SCC or the lane's bit of VCC.
struct In {
    u64 a, b, c, d;
    bool carry;
    u32 A() const { return u32(a); }
    u32 B() const { return u32(b); }
    u32 C() const { return u32(c); }
    u32 D() const { return u32(d); }
    i32 ia() const { return i32(A()); }
    i32 ib() const { return i32(B()); }
    i32 ic() const { return i32(C()); }
    float fa() const { return as_float(A()); }
    float fb() const { return as_float(B()); }
    float fc() const { return as_float(C()); }
    float fd() const { return as_float(D()); }
    double da() const { return as_double(a); }
    double db() const { return as_double(b); }
};

struct Out {
    u64 value;
    int flag; // SCC, or the lane's bit of VCC; -1: not compared
    template <std::integral T> Out(T v, int f = -1) : value(u64(v)), flag(f) {}
    Out(float v) : value(bits(v)), flag(-1) {}
    Out(double v) : value(bits(v)), flag(-1) {}
};

enum class Compare {
    exact,
    low16, // the low half only
    f32,   // any NaN for NaN, zeroes of either sign
    f64,
    f32_pair, // two of them
    f16,
    approx, // relative 2^-22, normal numbers only
};

struct Case {
    std::string name;    // as the emulator counts it
    std::string targets; // "*", or a list of gfx9 gfx950 gfx942 gfx10 gfx12
    // Text for gfx9, gfx10 and gfx12, separated by " / "; one text for all of them; "-" where there is none. D A B C
    // stand for the operands, VCC and EXEC for the registers of the wave's size.
    std::string text;
    std::string types; // of D, A, B, C: u 32 bits, U 64 bits
    std::function<Out(const In&)> expect;
    Compare compare = Compare::exact;
    bool scalar = false;
};

void add_vector_integer(std::vector<Case>& cases);
void add_vector_float(std::vector<Case>& cases);
void add_vector_compare(std::vector<Case>& cases);
void add_scalar(std::vector<Case>& cases);

// CASE("name", "targets", "text", "types", expression over `x`)
#define CASE(name, targets, text, types, ...)                                                                          \
    cases.push_back({name, targets, text, types, []([[maybe_unused]] const In& x) -> Out { return __VA_ARGS__; }})
#define CASE_AS(how, name, targets, text, types, ...)                                                                  \
    cases.push_back(                                                                                                   \
        {name, targets, text, types, []([[maybe_unused]] const In& x) -> Out { return __VA_ARGS__; }, Compare::how})

} // namespace instruction_test
