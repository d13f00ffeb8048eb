// Scalar arithmetic, compares and the scalar float unit of gfx12.
#include "instruction_cases.h"

#include <algorithm>

namespace instruction_test {
namespace {

Out nonzero(u32 v) { return {v, v != 0}; }
Out nonzero64(u64 v) { return {v, v != 0}; }
u32 reversed(u32 v) {
    u32 r = 0;
    for (int k = 0; k < 32; ++k) r |= (v >> k & 1) << (31 - k);
    return r;
}

} // namespace

void add_scalar(std::vector<Case>& cases) {
    size_t first = cases.size();
    // Names that gfx12 spells otherwise.
    auto renamed = [](const char* old_name, const char* new_name, const char* operands) {
        std::string old_text = std::string(old_name) + operands;
        return old_text + " / " + old_text + " / " + new_name + operands;
    };
    CASE("s_mov_b32", "*", "s_mov_b32 D, A", "uu", x.A());
    CASE("s_mov_b64", "*", "s_mov_b64 D, A", "UU", x.a);
    CASE("s_movk_i32", "*", "s_movk_i32 D, 0x8003", "uu", u64(0xffff8003u));
    CASE("s_not_b32", "*", "s_not_b32 D, A", "uu", nonzero(~x.A()));
    CASE("s_not_b64", "*", "s_not_b64 D, A", "UU", nonzero64(~x.a));
    CASE("s_brev_b32", "*", "s_brev_b32 D, A", "uu", reversed(x.A()));
    CASE("s_flbit_i32_b32", "*", renamed("s_flbit_i32_b32", "s_clz_i32_u32", " D, A"), "uu",
        u64(x.A() ? u32(std::countl_zero(x.A())) : ~0u));
    CASE("s_ff1_i32_b32", "*", renamed("s_ff1_i32_b32", "s_ctz_i32_b32", " D, A"), "uu",
        u64(x.A() ? u32(std::countr_zero(x.A())) : ~0u));
    CASE("s_bcnt1_i32_b32", "*", "s_bcnt1_i32_b32 D, A", "uu", nonzero(u32(std::popcount(x.A()))));
    CASE("s_abs_i32", "*", "s_abs_i32 D, A", "uu", nonzero(x.ia() < 0 ? 0 - x.A() : x.A()));
    CASE("s_and_b32", "*", "s_and_b32 D, A, B", "uuu", nonzero(x.A() & x.B()));
    CASE("s_or_b32", "*", "s_or_b32 D, A, B", "uuu", nonzero(x.A() | x.B()));
    CASE("s_xor_b32", "*", "s_xor_b32 D, A, B", "uuu", nonzero(x.A() ^ x.B()));
    CASE("s_and_b64", "*", "s_and_b64 D, A, B", "UUU", nonzero64(x.a & x.b));
    CASE("s_or_b64", "*", "s_or_b64 D, A, B", "UUU", nonzero64(x.a | x.b));
    CASE("s_xor_b64", "*", "s_xor_b64 D, A, B", "UUU", nonzero64(x.a ^ x.b));
    CASE("s_andn2_b32", "*", renamed("s_andn2_b32", "s_and_not1_b32", " D, A, B"), "uuu", nonzero(x.A() & ~x.B()));
    CASE("s_andn2_b64", "*", renamed("s_andn2_b64", "s_and_not1_b64", " D, A, B"), "UUU", nonzero64(x.a & ~x.b));
    CASE("s_orn2_b64", "*", renamed("s_orn2_b64", "s_or_not1_b64", " D, A, B"), "UUU", nonzero64(x.a | ~x.b));
    CASE("s_orn2_b32", "*", renamed("s_orn2_b32", "s_or_not1_b32", " D, A, B"), "uuu", nonzero(x.A() | ~x.B()));
    CASE("s_nand_b32", "*", "s_nand_b32 D, A, B", "uuu", nonzero(~(x.A() & x.B())));
    CASE("s_nand_b64", "*", "s_nand_b64 D, A, B", "UUU", nonzero64(~(x.a & x.b)));
    CASE("s_nor_b32", "*", "s_nor_b32 D, A, B", "uuu", nonzero(~(x.A() | x.B())));
    CASE("s_nor_b64", "*", "s_nor_b64 D, A, B", "UUU", nonzero64(~(x.a | x.b)));
    CASE("s_xnor_b32", "*", "s_xnor_b32 D, A, B", "uuu", nonzero(~(x.A() ^ x.B())));
    CASE("s_xnor_b64", "*", "s_xnor_b64 D, A, B", "UUU", nonzero64(~(x.a ^ x.b)));
    CASE("s_lshl_b32", "*", "s_lshl_b32 D, A, B", "uuu", nonzero(x.A() << (x.B() & 31)));
    CASE("s_lshr_b32", "*", "s_lshr_b32 D, A, B", "uuu", nonzero(x.A() >> (x.B() & 31)));
    CASE("s_ashr_i32", "*", "s_ashr_i32 D, A, B", "uuu", nonzero(u32(x.ia() >> (x.B() & 31))));
    CASE("s_lshl_b64", "*", "s_lshl_b64 D, A, B", "UUu", nonzero64(x.a << (x.B() & 63)));
    CASE("s_lshr_b64", "*", "s_lshr_b64 D, A, B", "UUu", nonzero64(x.a >> (x.B() & 63)));
    CASE("s_ashr_i64", "*", "s_ashr_i64 D, A, B", "UUu", nonzero64(u64(i64(x.a) >> (x.B() & 63))));
    CASE("s_bfe_u32", "*", "s_bfe_u32 D, A, 0x70005", "uu", nonzero(x.A() >> 5 & 0x7f));
    CASE("s_bfe_i32", "*", "s_bfe_i32 D, A, 0x70005", "uu", nonzero(u32(i32(x.A() << 20) >> 25)));
    CASE("s_bfe_i64", "*", "s_bfe_i64 D, A, 0x250005", "UU", nonzero64(u64(i64(x.a << 22) >> 27)));
    CASE("s_bitcmp1_b32", "*", "s_mov_b32 D, 0\n s_bitcmp1_b32 A, B", "uuu", {u64(0), int(x.A() >> (x.B() & 31) & 1)});
    CASE("s_bitcmp0_b32", "*", "s_mov_b32 D, 0\n s_bitcmp0_b32 A, B", "uuu", {u64(0), int(~x.A() >> (x.B() & 31) & 1)});

    CASE("s_add_u32", "*", renamed("s_add_u32", "s_add_co_u32", " D, A, B"), "uuu",
        {u32(x.A() + x.B()), int((u64(x.A()) + x.B()) >> 32)});
    CASE(
        "s_sub_u32", "*", renamed("s_sub_u32", "s_sub_co_u32", " D, A, B"), "uuu", {u32(x.A() - x.B()), x.A() < x.B()});
    CASE("s_addc_u32", "*", renamed("s_addc_u32", "s_add_co_ci_u32", " D, A, B"), "uuu",
        {u32(x.A() + x.B() + x.carry), int((u64(x.A()) + x.B() + x.carry) >> 32)});
    CASE("s_subb_u32", "*", renamed("s_subb_u32", "s_sub_co_ci_u32", " D, A, B"), "uuu",
        {u32(x.A() - x.B() - x.carry), u64(x.A()) < u64(x.B()) + x.carry});
    CASE("s_add_i32", "*", renamed("s_add_i32", "s_add_co_i32", " D, A, B"), "uuu",
        {u32(x.A() + x.B()), i64(x.ia()) + x.ib() != i32(x.A() + x.B())});
    CASE("s_sub_i32", "*", renamed("s_sub_i32", "s_sub_co_i32", " D, A, B"), "uuu",
        {u32(x.A() - x.B()), i64(x.ia()) - x.ib() != i32(x.A() - x.B())});
    CASE("s_addk_i32", "*",
        "s_mov_b32 D, A\n s_addk_i32 D, 0x7fff / s_mov_b32 D, A\n s_addk_i32 D, 0x7fff / s_mov_b32 D, A\n "
        "s_addk_co_i32 D, 0x7fff",
        "uu", {u32(x.A() + 0x7fff), i64(x.ia()) + 0x7fff != i32(x.A() + 0x7fff)});
    CASE("s_mulk_i32", "*", "s_mov_b32 D, A\n s_mulk_i32 D, 0x8001", "uu", u64(u32(x.A() * 0xffff8001u)));
    CASE("s_mul_i32", "*", "s_mul_i32 D, A, B", "uuu", u64(u32(x.A() * x.B())));
    CASE("s_mul_hi_u32", "*", "s_mul_hi_u32 D, A, B", "uuu", u64(x.A()) * x.B() >> 32);
    CASE("s_mul_hi_i32", "*", "s_mul_hi_i32 D, A, B", "uuu", u64(u32(i64(x.ia()) * x.ib() >> 32)));
    CASE("s_mul_u64", "gfx12", "s_mul_u64 D, A, B", "UUU", x.a * x.b);
    CASE("s_add_nc_u64", "gfx12", "s_add_nc_u64 D, A, B", "UUU", x.a + x.b);
    CASE("s_sub_nc_u64", "gfx12", "s_sub_nc_u64 D, A, B", "UUU", x.a - x.b);
    for (int k = 1; k <= 4; ++k) {
        std::string name = "s_lshl" + std::to_string(k) + "_add_u32";
        cases.push_back({name, "*", name + " D, A, B", "uuu", [k](const In& x) {
                             u64 v = (u64(x.A()) << k) + x.B();
                             return Out(u32(v), v >> 32 != 0);
                         }});
    }
    CASE("s_min_i32", "*", "s_min_i32 D, A, B", "uuu", {u32(std::min(x.ia(), x.ib())), x.ia() < x.ib()});
    CASE("s_max_i32", "*", "s_max_i32 D, A, B", "uuu", {u32(std::max(x.ia(), x.ib())), x.ia() > x.ib()});
    CASE("s_min_u32", "*", "s_min_u32 D, A, B", "uuu", {std::min(x.A(), x.B()), x.A() < x.B()});
    CASE("s_max_u32", "*", "s_max_u32 D, A, B", "uuu", {std::max(x.A(), x.B()), x.A() > x.B()});
    CASE("s_cselect_b32", "*", "s_cselect_b32 D, A, B", "uuu", x.carry ? x.A() : x.B());
    CASE("s_cselect_b64", "*", "s_cselect_b64 D, A, B", "UUU", x.carry ? x.a : x.b);

    struct Condition {
        const char* name;
        bool (*holds)(i64 a, i64 b);
    };
    const Condition conditions[] = {
        {"eq", [](i64 a, i64 b) { return a == b; }},
        {"lg", [](i64 a, i64 b) { return a != b; }},
        {"gt", [](i64 a, i64 b) { return a > b; }},
        {"ge", [](i64 a, i64 b) { return a >= b; }},
        {"lt", [](i64 a, i64 b) { return a < b; }},
        {"le", [](i64 a, i64 b) { return a <= b; }},
    };
    for (auto& c : conditions)
        for (bool is_signed : {true, false}) {
            std::string suffix = std::string(c.name) + (is_signed ? "_i32" : "_u32");
            auto holds = c.holds;
            auto compare = [is_signed, holds](const In& x, u32 b) {
                return holds(is_signed ? i64(x.ia()) : i64(x.A()), is_signed ? i64(i32(b)) : i64(b));
            };
            cases.push_back({"s_cmp_" + suffix, "*", "s_mov_b32 D, 0\n s_cmp_" + suffix + " A, B", "uuu",
                [compare](const In& x) { return Out(u64(0), compare(x, x.B())); }});
            cases.push_back({"s_cmpk_" + suffix, "gfx9 gfx10", "s_mov_b32 D, 0\n s_cmpk_" + suffix + " A, 0x1234",
                "uuu", [compare](const In& x) { return Out(u64(0), compare(x, 0x1234)); }});
        }
    CASE("s_cmp_eq_u64", "*", "s_mov_b32 D, 0\n s_cmp_eq_u64 A, B", "uUU", {u64(0), x.a == x.b});
    CASE("s_cmp_lg_u64", "*", "s_mov_b32 D, 0\n s_cmp_lg_u64 A, B", "uUU", {u64(0), x.a != x.b});

    CASE_AS(f32, "s_mul_f32", "gfx12", "s_mul_f32 D, A, B", "uuu", x.fa() * x.fb());
    CASE_AS(f32, "s_fmac_f32", "gfx12", "s_fmac_f32 D, A, B", "uuu", std::fma(x.fa(), x.fb(), x.fd()));
    CASE_AS(f32, "s_maximum_f32", "gfx12", "s_maximum_f32 D, A, B", "uuu",
        std::isnan(x.fa()) || std::isnan(x.fb()) ? NAN : std::max(x.fa(), x.fb()));
    CASE_AS(f32, "s_trunc_f32", "gfx12", "s_trunc_f32 D, A", "uu", std::trunc(x.fa()));
    CASE("s_cvt_f32_u32", "gfx12", "s_cvt_f32_u32 D, A", "uu", float(x.A()));
    CASE("s_cvt_u32_f32", "gfx12", "s_cvt_u32_f32 D, A", "uu",
        u64(std::isnan(x.fa()) || x.fa() < 0 ? 0
            : x.fa() >= 4294967296.0f        ? ~0u
                                             : u32(x.fa())));
    struct FloatCondition {
        const char* name;
        bool (*holds)(float a, float b);
    };
    const FloatCondition float_conditions[] = {
        {"lt", [](float a, float b) { return a < b; }},
        {"le", [](float a, float b) { return a <= b; }},
        {"gt", [](float a, float b) { return a > b; }},
        {"ge", [](float a, float b) { return a >= b; }},
        {"eq", [](float a, float b) { return a == b; }},
        {"lg", [](float a, float b) { return a < b || a > b; }},
        {"nlt", [](float a, float b) { return !(a < b); }},
        {"nle", [](float a, float b) { return !(a <= b); }},
        {"ngt", [](float a, float b) { return !(a > b); }},
        {"nge", [](float a, float b) { return !(a >= b); }},
        {"neq", [](float a, float b) { return a != b; }},
        {"nlg", [](float a, float b) { return !(a < b || a > b); }},
        {"o", [](float a, float b) { return a == a && b == b; }},
        {"u", [](float a, float b) { return a != a || b != b; }},
    };
    for (auto& c : float_conditions) {
        std::string name = std::string("s_cmp_") + c.name + "_f32";
        cases.push_back({name, "gfx12", "s_mov_b32 D, 0\n " + name + " A, B", "uuu",
            [holds = c.holds](const In& x) { return Out(u64(0), holds(x.fa(), x.fb())); }});
    }
    CASE_AS(approx, "v_s_log_f32", "gfx12", "v_s_log_f32 D, A", "uu", std::log2(x.fa()));
    CASE_AS(approx, "v_s_exp_f32", "gfx12", "v_s_exp_f32 D, A", "uu", std::exp2(x.fa()));
    CASE_AS(approx, "v_s_rcp_f32", "gfx12", "v_s_rcp_f32 D, A", "uu", 1.0f / x.fa());

    // Branches, and the instructions that save EXEC (its bits are A's in the lanes that the kernel has).
    auto branch = [](const char* jump, const char* before = "") {
        return std::string(before) + "s_mov_b32 D, 1\n " + jump + " 1f\n s_mov_b32 D, 2\n 1:";
    };
    CASE("s_branch", "*", branch("s_branch"), "uu", u64(1));
    CASE("s_cbranch_scc0", "*", branch("s_cbranch_scc0"), "uu", x.carry ? u64(2) : u64(1));
    CASE("s_cbranch_scc1", "*", branch("s_cbranch_scc1"), "uu", x.carry ? u64(1) : u64(2));
    CASE("s_cbranch_vccz", "*", branch("s_cbranch_vccz", "s_mov_b64 vcc, A\n "), "uU", x.A() ? u64(2) : u64(1));
    CASE("s_cbranch_vccnz", "*", branch("s_cbranch_vccnz", "s_mov_b64 vcc, A\n "), "uU", x.A() ? u64(1) : u64(2));
    for (size_t k = first; k < cases.size(); ++k) cases[k].scalar = true;
    // VCC is judged over the wave's lanes: a value without high bits suits both sizes.
    for (auto& c : cases)
        if (c.name == "s_cbranch_vccz" || c.name == "s_cbranch_vccnz")
            c.text = c.text.replace(0, c.text.find('\n'), "s_mov_b32 vcc_lo, A\n s_mov_b32 vcc_hi, 0"), c.types = "uu";
}

} // namespace instruction_test
