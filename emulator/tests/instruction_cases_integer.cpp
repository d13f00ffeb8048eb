// Integer and bit arithmetic, moves, selects.
#include "instruction_cases.h"

#include <algorithm>

namespace instruction_test {
namespace {

i32 low24(u32 v) { return i32(v << 8) >> 8; }
u32 bit_field(u32 v, u32 first, u32 width) {
    width &= 31;
    return width ? v >> (first & 31) & ((1u << width) - 1) : 0;
}
i32 signed_field(u32 v, u32 first, u32 width) {
    width &= 31;
    if (!width) return 0;
    // The field ends at the top bit at the latest.
    i64 wide = i64(i32(v)) >> (first & 31);
    return i32(u32(wide) << (32 - width)) >> (32 - width);
}
u32 reversed(u32 v) {
    u32 r = 0;
    for (int k = 0; k < 32; ++k) r |= (v >> k & 1) << (31 - k);
    return r;
}
// v_perm_b32: bytes of {a, b}, b's first.
u32 permuted(u32 a, u32 b, u32 select) {
    u64 both = u64(a) << 32 | b;
    u32 r = 0;
    for (int k = 0; k < 4; ++k) {
        u32 s = select >> (8 * k) & 255, byte;
        if (s >= 13)
            byte = 0xff;
        else if (s == 12)
            byte = 0;
        else if (s >= 8)
            byte = both >> (16 * (s - 8) + 15) & 1 ? 0xff : 0;
        else
            byte = u32(both >> (8 * s)) & 0xff;
        r |= byte << (8 * k);
    }
    return r;
}
// Four signed bytes of each, and the accumulator; wraps.
u32 dot4(const In& x) {
    u32 sum = x.C();
    for (int k = 0; k < 32; k += 8) sum += u32(int8_t(x.A() >> k) * int8_t(x.B() >> k));
    return sum;
}
template <class T> T middle(T a, T b, T c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }

} // namespace

void add_vector_integer(std::vector<Case>& cases) {
    CASE("v_mov_b32", "*", "v_mov_b32 D, A", "uu", x.A());
    CASE("v_mov_b64", "gfx9", "v_mov_b64 D, A", "UU", x.a);
    CASE("v_not_b32", "*", "v_not_b32 D, A", "uu", u64(u32(~x.A())));
    CASE("v_bfrev_b32", "*", "v_bfrev_b32 D, A", "uu", reversed(x.A()));
    CASE("v_and_b32", "*", "v_and_b32 D, A, B", "uuu", x.A() & x.B());
    CASE("v_or_b32", "*", "v_or_b32 D, A, B", "uuu", x.A() | x.B());
    CASE("v_xor_b32", "*", "v_xor_b32 D, A, B", "uuu", x.A() ^ x.B());
    CASE("v_and_or_b32", "*", "v_and_or_b32 D, A, B, C", "uuuu", (x.A() & x.B()) | x.C());
    CASE("v_or3_b32", "*", "v_or3_b32 D, A, B, C", "uuuu", x.A() | x.B() | x.C());
    CASE("v_bfi_b32", "*", "v_bfi_b32 D, A, B, C", "uuuu", u64((x.A() & x.B()) | (~x.A() & x.C())));
    CASE("v_bfe_u32", "*", "v_bfe_u32 D, A, B, C", "uuuu", bit_field(x.A(), x.B(), x.C()));
    CASE("v_bfe_i32", "*", "v_bfe_i32 D, A, B, C", "uuuu", u64(u32(signed_field(x.A(), x.B(), x.C()))));
    CASE("v_perm_b32", "*", "v_perm_b32 D, A, B, C", "uuuu", permuted(x.A(), x.B(), x.C()));
    CASE("v_alignbit_b32", "*", "v_alignbit_b32 D, A, B, C", "uuuu",
        u64(u32((u64(x.A()) << 32 | x.B()) >> (x.C() & 31))));
    CASE("v_bitop3_b32", "gfx950", "v_bitop3_b32 D, A, B, C bitop3:0x96", "uuuu", x.A() ^ x.B() ^ x.C());
    CASE_AS(low16, "v_bitop3_b16", "gfx950", "v_bitop3_b16 D, A, B, C bitop3:0xca", "uuuu",
        u64((x.A() & x.B()) | (~x.A() & x.C())));

    CASE("v_lshlrev_b32", "*", "v_lshlrev_b32 D, A, B", "uuu", u64(u32(x.B() << (x.A() & 31))));
    CASE("v_lshrrev_b32", "*", "v_lshrrev_b32 D, A, B", "uuu", x.B() >> (x.A() & 31));
    CASE("v_ashrrev_i32", "*", "v_ashrrev_i32 D, A, B", "uuu", u64(u32(x.ib() >> (x.A() & 31))));
    CASE_AS(low16, "v_lshlrev_b16", "*", "v_lshlrev_b16 D, A, B", "uuu", u64(x.B() & 0xffff) << (x.A() & 15));
    CASE_AS(low16, "v_lshrrev_b16", "*", "v_lshrrev_b16 D, A, B", "uuu", (x.B() & 0xffff) >> (x.A() & 15));
    CASE_AS(low16, "v_ashrrev_i16", "*", "v_ashrrev_i16 D, A, B", "uuu", u64(u16(i16(x.B()) >> (x.A() & 15))));
    CASE("v_lshlrev_b64", "*", "v_lshlrev_b64 D, A, B", "UuU", x.b << (x.A() & 63));
    CASE("v_lshrrev_b64", "*", "v_lshrrev_b64 D, A, B", "UuU", x.b >> (x.A() & 63));
    CASE("v_ashrrev_i64", "*", "v_ashrrev_i64 D, A, B", "UuU", u64(i64(x.b) >> (x.A() & 63)));
    CASE("v_lshl_or_b32", "*", "v_lshl_or_b32 D, A, B, C", "uuuu", u64(u32(x.A() << (x.B() & 31)) | x.C()));
    CASE("v_lshl_add_u32", "*", "v_lshl_add_u32 D, A, B, C", "uuuu", u64(u32((x.A() << (x.B() & 31)) + x.C())));
    CASE("v_add_lshl_u32", "*", "v_add_lshl_u32 D, A, B, C", "uuuu", u64(u32((x.A() + x.B()) << (x.C() & 31))));
    CASE("v_lshl_add_u64", "gfx9", "v_lshl_add_u64 D, A, 3, C", "UUuU", (x.a << 3) + x.c);

    CASE("v_add_u32", "*", "v_add_u32 D, A, B / v_add_nc_u32 D, A, B / v_add_nc_u32 D, A, B", "uuu",
        u64(u32(x.A() + x.B())));
    CASE("v_sub_u32", "*", "v_sub_u32 D, A, B / v_sub_nc_u32 D, A, B / v_sub_nc_u32 D, A, B", "uuu",
        u64(u32(x.A() - x.B())));
    CASE("v_subrev_u32", "*", "v_subrev_u32 D, A, B / v_subrev_nc_u32 D, A, B / v_subrev_nc_u32 D, A, B", "uuu",
        u64(u32(x.B() - x.A())));
    CASE("v_add3_u32", "*", "v_add3_u32 D, A, B, C", "uuuu", u64(u32(x.A() + x.B() + x.C())));
    CASE("v_xad_u32", "*", "v_xad_u32 D, A, B, C", "uuuu", u64(u32((x.A() ^ x.B()) + x.C())));
    CASE_AS(low16, "v_add_u16", "*", "v_add_u16 D, A, B / v_add_nc_u16 D, A, B / v_add_nc_u16 D, A, B", "uuu",
        u64(u16(x.A() + x.B())));
    CASE_AS(low16, "v_sub_u16", "*", "v_sub_u16 D, A, B / v_sub_nc_u16 D, A, B / v_sub_nc_u16 D, A, B", "uuu",
        u64(u16(x.A() - x.B())));
    CASE_AS(low16, "v_mul_lo_u16", "*", "v_mul_lo_u16 D, A, B", "uuu", u64(u16((x.A() & 0xffff) * (x.B() & 0xffff))));
    CASE_AS(
        low16, "v_mad_u16", "*", "v_mad_u16 D, A, B, C", "uuuu", u64(u16((x.A() & 0xffff) * (x.B() & 0xffff) + x.C())));
    CASE("v_mul_lo_u32", "*", "v_mul_lo_u32 D, A, B", "uuu", u64(u32(x.A() * x.B())));
    CASE("v_mul_hi_u32", "*", "v_mul_hi_u32 D, A, B", "uuu", u64(x.A()) * x.B() >> 32);
    CASE("v_mul_hi_i32", "*", "v_mul_hi_i32 D, A, B", "uuu", u64(u32(i64(x.ia()) * x.ib() >> 32)));
    CASE("v_mul_u32_u24", "*", "v_mul_u32_u24 D, A, B", "uuu", u64(u32((x.A() & 0xffffff) * (x.B() & 0xffffff))));
    CASE("v_mul_i32_i24", "*", "v_mul_i32_i24 D, A, B", "uuu", u64(u32(i64(low24(x.A())) * low24(x.B()))));
    CASE("v_mad_u32_u24", "*", "v_mad_u32_u24 D, A, B, C", "uuuu",
        u64(u32((x.A() & 0xffffff) * (x.B() & 0xffffff) + x.C())));
    CASE("v_mad_i32_i24", "*", "v_mad_i32_i24 D, A, B, C", "uuuu", u64(u32(i64(low24(x.A())) * low24(x.B()) + x.ic())));
    CASE("v_mad_u64_u32", "*",
        "v_mad_u64_u32 D, VCC, A, B, C / v_mad_u64_u32 D, VCC, A, B, C / v_mad_co_u64_u32 D, VCC, A, B, C", "UuuU",
        {u64(x.A()) * x.B() + x.c, u64(x.A()) * x.B() + x.c < x.c});
    CASE("v_mad_i64_i32", "*",
        "v_mad_i64_i32 D, VCC, A, B, C / v_mad_i64_i32 D, VCC, A, B, C / v_mad_co_i64_i32 D, VCC, A, B, C", "UuuU",
        u64(i64(x.ia()) * x.ib()) + x.c);
    CASE("v_dot4c_i32_i8", "gfx9 gfx10", "v_mov_b32 D, C\n v_dot4c_i32_i8 D, A, B", "uuuu", u64(u32(dot4(x))));
    CASE("v_dot4_i32_iu8", "gfx12", "v_dot4_i32_iu8 D, A, B, C neg_lo:[1,1,0]", "uuuu", u64(u32(dot4(x))));
    CASE("v_min_u32", "*", "v_min_u32 D, A, B", "uuu", std::min(x.A(), x.B()));
    CASE("v_max_u32", "*", "v_max_u32 D, A, B", "uuu", std::max(x.A(), x.B()));
    CASE("v_min_i32", "*", "v_min_i32 D, A, B", "uuu", u64(u32(std::min(x.ia(), x.ib()))));
    CASE("v_max_i32", "*", "v_max_i32 D, A, B", "uuu", u64(u32(std::max(x.ia(), x.ib()))));
    CASE("v_max3_i32", "*", "v_max3_i32 D, A, B, C", "uuuu", u64(u32(std::max({x.ia(), x.ib(), x.ic()}))));
    CASE("v_min3_i32", "*", "v_min3_i32 D, A, B, C", "uuuu", u64(u32(std::min({x.ia(), x.ib(), x.ic()}))));
    CASE("v_med3_i32", "*", "v_med3_i32 D, A, B, C", "uuuu", u64(u32(middle(x.ia(), x.ib(), x.ic()))));

    const char* co[] = {"v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32"};
    for (int op = 0; op < 3; ++op) {
        auto wide = [op](const In& x) {
            return op == 0 ? u64(x.A()) + x.B() : op == 1 ? u64(x.A()) - x.B() : u64(x.B()) - x.A();
        };
        cases.push_back({co[op], "*", std::string(co[op]) + " D, VCC, A, B", "uuu",
            [wide](const In& x) { return Out(u32(wide(x)), int(wide(x) >> 32 & 1)); }});
        const char* ci[] = {
            "v_addc_co_u32 D, VCC, A, B, VCC / v_add_co_ci_u32 D, VCC, A, B, VCC / v_add_co_ci_u32 D, VCC, A, B, VCC",
            "v_subb_co_u32 D, VCC, A, B, VCC / v_sub_co_ci_u32 D, VCC, A, B, VCC / v_sub_co_ci_u32 D, VCC, A, B, VCC",
            "v_subbrev_co_u32 D, VCC, A, B, VCC / v_subrev_co_ci_u32 D, VCC, A, B, VCC / v_subrev_co_ci_u32 D, VCC, A, "
            "B, VCC"};
        const char* names[] = {"v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32"};
        cases.push_back({names[op], "*", ci[op], "uuu", [wide, op](const In& x) {
                             u64 v = op == 0 ? wide(x) + x.carry : wide(x) - x.carry;
                             return Out(u32(v), int(v >> 32 & 1));
                         }});
    }
    CASE("v_cndmask_b32", "*", "v_cndmask_b32 D, A, B, VCC", "uuu", x.carry ? x.B() : x.A());
    CASE("v_pack_b32_f16", "*", "v_pack_b32_f16 D, A, B", "uuu", u64((x.A() & 0xffff) | x.B() << 16));
    CASE("v_pk_lshlrev_b16", "*", "v_pk_lshlrev_b16 D, A, B", "uuu",
        u64(u16(x.B() << (x.A() & 15)) | u32(u16((x.B() >> 16) << (x.A() >> 16 & 15))) << 16));
    CASE("v_accvgpr_read_b32", "gfx9", "v_accvgpr_write_b32 a0, A\n v_accvgpr_read_b32 D, a0", "uu", x.A());
    CASE("v_accvgpr_write_b32", "gfx9", "v_accvgpr_write_b32 a0, A\n v_accvgpr_read_b32 D, a0", "uu", x.A());
}

} // namespace instruction_test
