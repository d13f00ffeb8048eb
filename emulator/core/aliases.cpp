// Mnemonics that differ between generations and mean the same, mapped to one name.
#include "core/instruction.h"

namespace gfxemu {
namespace {

std::unordered_map<std::string, std::string> make_table() {
    std::unordered_map<std::string, std::string> table = {
        {"v_pk_min_num_f16", "v_pk_min_f16"},
        {"v_pk_max_num_f16", "v_pk_max_f16"},
        {"v_add_nc_u32", "v_add_u32"},
        {"v_sub_nc_u32", "v_sub_u32"},
        {"v_subrev_nc_u32", "v_subrev_u32"},
        {"v_add_nc_i32", "v_add_i32"},
        {"v_sub_nc_i32", "v_sub_i32"},
        {"v_add_nc_u16", "v_add_u16"},
        {"v_sub_nc_u16", "v_sub_u16"},
        {"v_add_nc_i16", "v_add_i16"},
        {"v_sub_nc_i16", "v_sub_i16"},
        {"v_add_co_ci_u32", "v_addc_co_u32"},
        {"v_sub_co_ci_u32", "v_subb_co_u32"},
        {"v_subrev_co_ci_u32", "v_subbrev_co_u32"},
        {"v_mad_co_u64_u32", "v_mad_u64_u32"},
        {"v_mad_co_i64_i32", "v_mad_i64_i32"},
        {"v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32"},
        {"v_cvt_pknorm_i16_f32", "v_cvt_pk_norm_i16_f32"},
        {"v_cvt_pknorm_u16_f32", "v_cvt_pk_norm_u16_f32"},
        {"v_clz_i32_u32", "v_ffbh_u32"},
        {"v_ctz_i32_b32", "v_ffbl_b32"},
        {"v_cls_i32", "v_ffbh_i32"},
        {"v_cvt_floor_i32_f32", "v_cvt_flr_i32_f32"},
        {"v_cvt_nearest_i32_f32", "v_cvt_rpi_i32_f32"},
        {"v_mul_dx9_zero_f32", "v_mul_legacy_f32"},
        {"v_fma_dx9_zero_f32", "v_fma_legacy_f32"},
        {"v_fmac_dx9_zero_f32", "v_fmac_legacy_f32"},
        {"v_madmk_f32", "v_fmamk_f32#mad"},
        {"v_madak_f32", "v_fmaak_f32#mad"},
        {"v_dot2acc_f32_f16", "v_dot2c_f32_f16"},
        {"v_accvgpr_read", "v_accvgpr_read_b32"},
        {"v_accvgpr_write", "v_accvgpr_write_b32"},
        {"s_add_co_u32", "s_add_u32"},
        {"s_sub_co_u32", "s_sub_u32"},
        {"s_add_co_i32", "s_add_i32"},
        {"s_sub_co_i32", "s_sub_i32"},
        {"s_add_co_ci_u32", "s_addc_u32"},
        {"s_sub_co_ci_u32", "s_subb_u32"},
        {"s_addk_co_i32", "s_addk_i32"},
        {"s_ctz_i32_b32", "s_ff1_i32_b32"},
        {"s_ctz_i32_b64", "s_ff1_i32_b64"},
        {"s_clz_i32_u32", "s_flbit_i32_b32"},
        {"s_clz_i32_u64", "s_flbit_i32_b64"},
        {"s_cls_i32", "s_flbit_i32"},
        {"s_cls_i32_i64", "s_flbit_i32_i64"},
        {"s_and_not1_b32", "s_andn2_b32"},
        {"s_and_not1_b64", "s_andn2_b64"},
        {"s_or_not1_b32", "s_orn2_b32"},
        {"s_or_not1_b64", "s_orn2_b64"},
        {"s_and_not1_saveexec_b32", "s_andn2_saveexec_b32"},
        {"s_and_not1_saveexec_b64", "s_andn2_saveexec_b64"},
        {"s_or_not1_saveexec_b32", "s_orn2_saveexec_b32"},
        {"s_or_not1_saveexec_b64", "s_orn2_saveexec_b64"},
        {"s_and_not0_saveexec_b32", "s_andn1_saveexec_b32"},
        {"s_and_not0_saveexec_b64", "s_andn1_saveexec_b64"},
        {"s_or_not0_saveexec_b32", "s_orn1_saveexec_b32"},
        {"s_or_not0_saveexec_b64", "s_orn1_saveexec_b64"},
        {"s_and_not1_wrexec_b32", "s_andn2_wrexec_b32"},
        {"s_and_not1_wrexec_b64", "s_andn2_wrexec_b64"},
        {"s_and_not0_wrexec_b32", "s_andn1_wrexec_b32"},
        {"s_and_not0_wrexec_b64", "s_andn1_wrexec_b64"},
    };
    for (std::string type : {"f32", "f16", "f64"})
        for (std::string name : {"min", "max", "min3", "max3", "med3", "minmax", "maxmin"})
            table["v_" + name + "_num_" + type] = "v_" + name + "_" + type;
    return table;
}

} // namespace

const std::string& alias_of(const std::string& mnemonic) {
    static const auto table = make_table();
    auto it = table.find(mnemonic);
    return it == table.end() ? mnemonic : it->second;
}

} // namespace gfxemu
