// Floating-point arithmetic, conversions, compares.
#include "instruction_cases.h"

#include <algorithm>
#include <limits>

namespace instruction_test {
namespace {

// IEEE minNum and maxNum: a NaN loses.
float min_number(float a, float b) { return std::isnan(a) ? b : std::isnan(b) ? a : std::min(a, b); }
float max_number(float a, float b) { return std::isnan(a) ? b : std::isnan(b) ? a : std::max(a, b); }
// A NaN wins.
float maximum(float a, float b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); }

template <class I> u64 to_integer(double v) {
    if (std::isnan(v)) return 0;
    constexpr double lo = std::numeric_limits<I>::min(), hi = std::numeric_limits<I>::max();
    return u32(I(std::clamp(std::trunc(v), lo, hi)));
}

// 16-bit formats by their definition: exponent bits, mantissa bits.
double decode(u32 v, int exponent_bits, int mantissa_bits) {
    int e = int(v >> mantissa_bits) & ((1 << exponent_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
    double m = double(v & ((1u << mantissa_bits) - 1)) / double(1u << mantissa_bits);
    double sign = v >> (exponent_bits + mantissa_bits) & 1 ? -1 : 1;
    if (e == (1 << exponent_bits) - 1) return m ? NAN : sign * INFINITY;
    return sign * (e ? std::ldexp(1 + m, e - bias) : std::ldexp(m, 1 - bias));
}
double half(u32 v) { return decode(v & 0xffff, 5, 10); }
double brain(u32 v) { return decode(v & 0xffff, 8, 7); }

// Rounds to a format: to the nearest, ties to even, or towards zero.
u32 encode(double v, int exponent_bits, int mantissa_bits, bool to_zero = false) {
    int bias = (1 << (exponent_bits - 1)) - 1;
    u32 sign = std::signbit(v) ? 1u << (exponent_bits + mantissa_bits) : 0, infinity = ((1u << exponent_bits) - 1)
                                                                                       << mantissa_bits;
    if (std::isnan(v)) return infinity | 1u << (mantissa_bits - 1);
    v = std::fabs(v);
    if (v == 0) return sign;
    if (std::isinf(v)) return sign | infinity;
    int e;
    std::frexp(v, &e);
    e = std::max(e - 1, 1 - bias);
    double units = std::ldexp(v, mantissa_bits - e);
    double whole = to_zero ? std::floor(units) : std::nearbyint(units);
    u32 code = u32(i64(e + bias - 1) * (1 << mantissa_bits) + i64(whole)); // a carry moves on to the next exponent
    if (code >= infinity) code = to_zero ? infinity - 1 : infinity;
    return sign | code;
}
u32 to_half(double v, bool to_zero = false) { return encode(v, 5, 10, to_zero); }
u32 to_brain(double v) { return encode(v, 8, 7); }

// e4m3: OCP (bias 7, 0x7f NaN) on gfx950 and gfx12, FNUZ (bias 8, 0x80 NaN) on gfx942.
double fp8(u32 v, bool fnuz) {
    v &= 0xff;
    if (fnuz ? v == 0x80 : (v & 0x7f) == 0x7f) return NAN;
    int e = v >> 3 & 15, bias = fnuz ? 8 : 7;
    double m = (v & 7) / 8.0;
    return (v >> 7 ? -1 : 1) * (e ? std::ldexp(1 + m, e - bias) : std::ldexp(m, 1 - bias));
}

float dot(double (*element)(u32), const In& x) {
    return float(element(x.A()) * element(x.B()) + element(x.A() >> 16) * element(x.B() >> 16) + x.fc());
}

void add_conversions(std::vector<Case>& cases) {
    CASE("v_cvt_f32_i32", "*", "v_cvt_f32_i32 D, A", "uu", float(x.ia()));
    CASE("v_cvt_f32_u32", "*", "v_cvt_f32_u32 D, A", "uu", float(x.A()));
    CASE("v_cvt_i32_f32", "*", "v_cvt_i32_f32 D, A", "uu", to_integer<i32>(x.fa()));
    CASE("v_cvt_u32_f32", "*", "v_cvt_u32_f32 D, A", "uu", to_integer<u32>(x.fa()));
    CASE("v_cvt_f32_ubyte0", "*", "v_cvt_f32_ubyte0 D, A", "uu", float(x.A() & 255));
    CASE("v_cvt_f32_ubyte1", "*", "v_cvt_f32_ubyte1 D, A", "uu", float(x.A() >> 8 & 255));
    CASE("v_cvt_f32_ubyte2", "*", "v_cvt_f32_ubyte2 D, A", "uu", float(x.A() >> 16 & 255));
    CASE("v_cvt_f32_ubyte3", "*", "v_cvt_f32_ubyte3 D, A", "uu", float(x.A() >> 24));
    CASE_AS(f64, "v_cvt_f64_f32", "*", "v_cvt_f64_f32 D, A", "Uu", double(x.fa()));
    CASE("v_cvt_f64_i32", "*", "v_cvt_f64_i32 D, A", "Uu", double(x.ia()));
    CASE("v_cvt_f64_u32", "*", "v_cvt_f64_u32 D, A", "Uu", double(x.A()));
    CASE_AS(f32, "v_cvt_f32_f64", "*", "v_cvt_f32_f64 D, A", "uU", float(x.da()));
    CASE_AS(f32, "v_cvt_f32_f16", "*", "v_cvt_f32_f16 D, A", "uu", float(half(x.A())));
    CASE_AS(f16, "v_cvt_f16_f32", "*", "v_cvt_f16_f32 D, A", "uu", u64(to_half(x.fa())));
    CASE_AS(f16, "v_cvt_pkrtz_f16_f32", "*",
        "v_cvt_pkrtz_f16_f32 D, A, B / v_cvt_pkrtz_f16_f32 D, A, B / v_cvt_pk_rtz_f16_f32 D, A, B", "uuu",
        u64(to_half(x.fa(), true) | to_half(x.fb(), true) << 16));
    CASE("v_cvt_pk_norm_u16_f32", "*",
        "v_cvt_pknorm_u16_f32 D, A, B / v_cvt_pknorm_u16_f32 D, A, B / v_cvt_pk_norm_u16_f32 D, A, B", "uuu",
        u64([](float v) { return u32(std::isnan(v) ? 0 : std::nearbyint(std::clamp(double(v), 0.0, 1.0) * 65535)); }(
                x.fa()) |
            [](float v) { return u32(std::isnan(v) ? 0 : std::nearbyint(std::clamp(double(v), 0.0, 1.0) * 65535)); }(
                x.fb())
                << 16));
    CASE_AS(f16, "v_cvt_pk_bf16_f32", "gfx950", "v_cvt_pk_bf16_f32 D, A, B", "uuu",
        u64(to_brain(x.fa()) | to_brain(x.fb()) << 16));
    CASE_AS(f32, "v_cvt_f32_fp8", "gfx942", "v_cvt_f32_fp8 D, A", "uu", float(fp8(x.A(), true)));
    CASE_AS(f32, "v_cvt_f32_fp8", "gfx950 gfx12", "v_cvt_f32_fp8 D, A", "uu", float(fp8(x.A(), false)));
}

} // namespace

void add_vector_float(std::vector<Case>& cases) {
    CASE_AS(f32, "v_add_f32", "*", "v_add_f32 D, A, B", "uuu", x.fa() + x.fb());
    CASE_AS(f32, "v_sub_f32", "*", "v_sub_f32 D, A, B", "uuu", x.fa() - x.fb());
    CASE_AS(f32, "v_mul_f32", "*", "v_mul_f32 D, A, B", "uuu", x.fa() * x.fb());
    CASE_AS(f32, "v_mul_f32", "*", "v_mul_f32 D, |A|, -B", "uuu", std::fabs(x.fa()) * -x.fb());
    CASE_AS(f32, "v_fma_f32", "*", "v_fma_f32 D, A, B, C", "uuuu", std::fma(x.fa(), x.fb(), x.fc()));
    CASE_AS(f32, "v_fma_f32", "*", "v_fma_f32 D, -A, B, -C clamp", "uuuu",
        [](float v) { return v > 0 ? v < 1 ? v : 1.0f : 0.0f; }(std::fma(-x.fa(), x.fb(), -x.fc())));
    CASE_AS(f32, "v_fmac_f32", "*", "v_fmac_f32 D, A, B", "uuu", std::fma(x.fa(), x.fb(), x.fd()));
    CASE_AS(f32, "v_fmaak_f32", "*", "v_fmaak_f32 D, A, B, 0x3fc00000", "uuu", std::fma(x.fa(), x.fb(), 1.5f));
    CASE_AS(f32, "v_fmamk_f32", "*", "v_fmamk_f32 D, A, 0x3fc00000, B", "uuu", std::fma(x.fa(), 1.5f, x.fb()));
    CASE_AS(f32, "v_fma_mix_f32", "*", "v_fma_mix_f32 D, A, B, C op_sel:[1,0,0] op_sel_hi:[1,0,0]", "uuuu",
        std::fma(float(half(x.A() >> 16)), x.fb(), x.fc()));
    CASE_AS(f32, "v_min_f32", "*", "v_min_f32 D, A, B / v_min_f32 D, A, B / v_min_num_f32 D, A, B", "uuu",
        min_number(x.fa(), x.fb()));
    CASE_AS(f32, "v_max_f32", "*", "v_max_f32 D, A, B / v_max_f32 D, A, B / v_max_num_f32 D, A, B", "uuu",
        max_number(x.fa(), x.fb()));
    CASE_AS(f32, "v_max3_f32", "*", "v_max3_f32 D, A, B, C / v_max3_f32 D, A, B, C / v_max3_num_f32 D, A, B, C", "uuuu",
        max_number(max_number(x.fa(), x.fb()), x.fc()));
    CASE_AS(f32, "v_min3_f32", "*", "v_min3_f32 D, A, B, C / v_min3_f32 D, A, B, C / v_min3_num_f32 D, A, B, C", "uuuu",
        min_number(min_number(x.fa(), x.fb()), x.fc()));
    CASE_AS(f32, "v_minmax_f32", "gfx12", "v_minmax_num_f32 D, A, B, C", "uuuu",
        max_number(min_number(x.fa(), x.fb()), x.fc()));
    CASE_AS(f32, "v_maxmin_f32", "gfx12", "v_maxmin_num_f32 D, A, B, C", "uuuu",
        min_number(max_number(x.fa(), x.fb()), x.fc()));
    CASE_AS(f32, "v_maximum_f32", "gfx12", "v_maximum_f32 D, A, B", "uuu", maximum(x.fa(), x.fb()));
    CASE_AS(f32, "v_maximum3_f32", "gfx950 gfx12", "v_maximum3_f32 D, A, B, C", "uuuu",
        maximum(maximum(x.fa(), x.fb()), x.fc()));
    CASE_AS(f32, "v_ceil_f32", "*", "v_ceil_f32 D, A", "uu", std::ceil(x.fa()));
    CASE_AS(f32, "v_floor_f32", "*", "v_floor_f32 D, A", "uu", std::floor(x.fa()));
    CASE_AS(f32, "v_trunc_f32", "*", "v_trunc_f32 D, A", "uu", std::trunc(x.fa()));
    CASE_AS(f32, "v_rndne_f32", "*", "v_rndne_f32 D, A", "uu", std::nearbyint(x.fa()));
    CASE_AS(approx, "v_exp_f32", "*", "v_exp_f32 D, A", "uu", std::exp2(x.fa()));
    CASE_AS(approx, "v_log_f32", "*", "v_log_f32 D, A", "uu", std::log2(x.fa()));
    CASE_AS(approx, "v_rcp_f32", "*", "v_rcp_f32 D, A", "uu", 1.0f / x.fa());
    CASE_AS(approx, "v_rcp_iflag_f32", "*", "v_rcp_iflag_f32 D, A", "uu", 1.0f / x.fa());
    CASE_AS(approx, "v_rsq_f32", "*", "v_rsq_f32 D, A", "uu", float(1.0 / std::sqrt(double(x.fa()))));
    CASE_AS(approx, "v_sqrt_f32", "*", "v_sqrt_f32 D, A", "uu", std::sqrt(x.fa()));
    CASE_AS(f32, "v_ldexp_f32", "*", "v_ldexp_f32 D, A, B", "uuu", std::ldexp(x.fa(), int(i16(x.B()) % 400)));
    cases.back().text = "v_and_b32 D, 0x3f, B\n v_ldexp_f32 D, A, D";
    cases.back().expect = [](const In& x) { return Out(std::ldexp(x.fa(), int(x.B() & 0x3f))); };
    CASE_AS(f64, "v_add_f64", "*", "v_add_f64 D, A, B", "UUU", x.da() + x.db());
    CASE_AS(f64, "v_mul_f64", "*", "v_mul_f64 D, A, B", "UUU", x.da() * x.db());
    CASE_AS(f64, "v_fma_f64", "*", "v_fma_f64 D, A, B, C", "UUUU", std::fma(x.da(), x.db(), as_double(x.c)));
    CASE_AS(f64, "v_ldexp_f64", "*", "v_ldexp_f64 D, A, 9", "UU", std::ldexp(x.da(), 9));

    CASE_AS(f32_pair, "v_pk_add_f32", "gfx9", "v_pk_add_f32 D, A, B", "UUU",
        bits(x.fa() + x.fb()) | u64(bits(as_float(u32(x.a >> 32)) + as_float(u32(x.b >> 32)))) << 32);
    CASE_AS(f32_pair, "v_pk_mul_f32", "gfx9", "v_pk_mul_f32 D, A, B op_sel_hi:[1,0]", "UUU",
        bits(x.fa() * x.fb()) | u64(bits(as_float(u32(x.a >> 32)) * x.fb())) << 32);
    CASE_AS(f32_pair, "v_pk_fma_f32", "gfx9", "v_pk_fma_f32 D, A, B, C", "UUUU",
        bits(std::fma(x.fa(), x.fb(), x.fc())) |
            u64(bits(std::fma(as_float(u32(x.a >> 32)), as_float(u32(x.b >> 32)), as_float(u32(x.c >> 32))))) << 32);
    CASE_AS(f16, "v_pk_mul_f16", "*", "v_pk_mul_f16 D, A, B", "uuu",
        u64(to_half(half(x.A()) * half(x.B())) | to_half(half(x.A() >> 16) * half(x.B() >> 16)) << 16));
    CASE_AS(f16, "v_pk_add_f16", "*", "v_pk_add_f16 D, A, B", "uuu",
        u64(to_half(half(x.A()) + half(x.B())) | to_half(half(x.A() >> 16) + half(x.B() >> 16)) << 16));
    CASE_AS(f16, "v_pk_fma_f16", "*", "v_pk_fma_f16 D, A, B, C", "uuuu",
        u64(to_half(std::fma(half(x.A()), half(x.B()), half(x.C()))) |
            to_half(std::fma(half(x.A() >> 16), half(x.B() >> 16), half(x.C() >> 16))) << 16));
    // The order of the sums is not documented: the inputs of `approx` keep cancellation out.
    CASE_AS(approx, "v_dot2_f32_f16", "gfx9 gfx10 gfx12", "v_dot2_f32_f16 D, A, B, C", "uuuu", dot(half, x));
    CASE_AS(approx, "v_dot2c_f32_f16", "gfx9 gfx10", "v_mov_b32 D, C\n v_dot2c_f32_f16 D, A, B", "uuuu", dot(half, x));
    CASE_AS(approx, "v_dot2_f32_bf16", "gfx12", "v_dot2_f32_bf16 D, A, B, C", "uuuu", dot(brain, x));
    CASE_AS(approx, "v_dot2c_f32_bf16", "gfx950", "v_mov_b32 D, C\n v_dot2c_f32_bf16 D, A, B", "uuuu", dot(brain, x));
    add_conversions(cases);
}

void add_vector_compare(std::vector<Case>& cases) {
    struct Type {
        const char* suffix;
        char size;
        std::function<int(const In&)> order; // -1, 0, 1; 2 unordered
    };
    auto three_way = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2; };
    const Type types[] = {
        {"i32", 'u', [=](const In& x) { return three_way(x.ia(), x.ib()); }},
        {"u32", 'u', [=](const In& x) { return three_way(x.A(), x.B()); }},
        {"i16", 'u', [=](const In& x) { return three_way(i16(x.A()), i16(x.B())); }},
        {"u16", 'u', [=](const In& x) { return three_way(u16(x.A()), u16(x.B())); }},
        {"i64", 'U', [=](const In& x) { return three_way(i64(x.a), i64(x.b)); }},
        {"u64", 'U', [=](const In& x) { return three_way(x.a, x.b); }},
        {"f32", 'u', [=](const In& x) { return three_way(x.fa(), x.fb()); }},
        {"f16", 'u', [=](const In& x) { return three_way(half(x.A()), half(x.B())); }},
    };
    struct Condition {
        const char* name;
        bool is_float, both;
        std::function<bool(int)> holds;
    };
    const Condition conditions[] = {
        {"lt", false, true, [](int o) { return o == -1; }},
        {"le", false, true, [](int o) { return o == -1 || o == 0; }},
        {"gt", false, true, [](int o) { return o == 1; }},
        {"ge", false, true, [](int o) { return o == 1 || o == 0; }},
        {"eq", false, true, [](int o) { return o == 0; }},
        {"ne", false, false, [](int o) { return o != 0; }},
        {"lg", true, false, [](int o) { return o == -1 || o == 1; }},
        {"nlg", true, false, [](int o) { return o == 0 || o == 2; }},
        {"neq", true, false, [](int o) { return o != 0; }},
        {"nlt", true, false, [](int o) { return o != -1; }},
        {"nle", true, false, [](int o) { return o != -1 && o != 0; }},
        {"ngt", true, false, [](int o) { return o != 1; }},
        {"nge", true, false, [](int o) { return o != 1 && o != 0; }},
        {"o", true, false, [](int o) { return o != 2; }},
        {"u", true, false, [](int o) { return o == 2; }},
    };
    for (auto& t : types)
        for (auto& c : conditions) {
            bool is_float = t.suffix[0] == 'f';
            if (!c.both && c.is_float != is_float) continue;
            std::string name = std::string("v_cmp_") + c.name + "_" + t.suffix, types_ = {'u', t.size, t.size};
            auto expect = [order = t.order, holds = c.holds](const In& x) { return Out(holds(order(x)) ? 1 : 0); };
            cases.push_back({name, "*", name + " VCC, A, B\n v_cndmask_b32 D, 0, 1, VCC", types_, expect});
            if (t.suffix == std::string("i64") || t.suffix == std::string("u64")) continue;
            // v_cmpx writes EXEC.
            std::string x = std::string("v_cmpx_") + c.name + "_" + t.suffix;
            std::string save = "s_mov_b64 s[30:31], exec\n v_mov_b32 D, 0\n ",
                        restore = "\n v_mov_b32 D, 1\n s_mov_b64 exec, s[30:31]";
            cases.push_back({x, "gfx10 gfx12", save + x + " A, B" + restore, types_, expect});
        }
    // Classes: signalling and quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf.
    CASE("v_cmp_class_f32", "*", "v_cmp_class_f32 VCC, A, B\n v_cndmask_b32 D, 0, 1, VCC",
        "uuu", u64(x.B() >> [](float f) {
            bool s = std::signbit(f);
            switch (std::fpclassify(f)) {
            case FP_NAN: return bits(f) & 0x400000 ? 1 : 0;
            case FP_INFINITE: return s ? 2 : 9;
            case FP_NORMAL: return s ? 3 : 8;
            case FP_SUBNORMAL: return s ? 4 : 7;
            default: return s ? 5 : 6;
            }
        }(x.fa()) & 1));
}

} // namespace instruction_test
