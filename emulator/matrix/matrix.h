// WMMA (gfx12) and MFMA / SMFMAC-free (gfx942, gfx950) semantics, as pure functions over registers.
#pragma once
#include "core/gfxemu.h"

namespace gfxemu {

// A register operand is an array of `regs` rows of `lanes` 32-bit words: word(r, lane) = data[r * 64 + lane] (stride 64
// on every arch). Modifiers as the disassembler prints them.
struct MatrixMods {
    uint32_t cbsz = 0, abid = 0,
             blgp = 0;               // MFMA broadcast / format selectors; f64: neg:[a,b,c] as bits of blgp (or neg_lo)
    uint32_t neg_lo = 0, neg_hi = 0; // per source bit masks, WMMA
    uint32_t op_sel = 0, op_sel_hi = 0;
    bool clamp = false;
    // v_mfma_scale_*: one E8M0 word per lane (64 words); source i reads byte (op_sel bit i) + 2 * (op_sel_hi bit i).
    const uint32_t* scale_a = nullptr;
    const uint32_t* scale_b = nullptr;
};

struct MatrixShape {
    int m, n, k, blocks;
    int a_regs, b_regs, c_regs, d_regs;
    uint64_t flops;
};

// True and fills `shape` where `mnemonic` (without _e32/_e64) is a dense matrix instruction of `arch`; false otherwise.
bool matrix_lookup(Arch arch, std::string_view mnemonic, MatrixShape* shape);

// D = A * B + C. d may be, or overlap, any of the sources. Throws std::invalid_argument for a modifier combination that
// is not implemented.
void matrix_exec(Arch arch, std::string_view mnemonic, const uint32_t* a, const uint32_t* b, const uint32_t* c,
    uint32_t* d, const MatrixMods& mods);

// Scalar conversions shared with the ALU (all round-to-nearest-even unless named otherwise).
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16_rne(float value);
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16_rne(float value);
uint16_t f32_to_f16_rtz(float value);
// OCP e4m3fn / e5m2 (gfx12, gfx950) and FNUZ e4m3 / e5m2 (gfx942): which one an instruction uses depends on the arch.
float fp8_to_f32(Arch arch, uint8_t bits, bool e5m2);
const float* fp8_table(Arch arch, bool e5m2); // fp8_to_f32 of every code
uint8_t f32_to_fp8(Arch arch, float value, bool e5m2, bool saturate);
float fp4_e2m1_to_f32(uint8_t nibble);
float fp6_e2m3_to_f32(uint8_t bits);
float bf6_e3m2_to_f32(uint8_t bits);
float e8m0_to_f32(uint8_t bits);

} // namespace gfxemu
