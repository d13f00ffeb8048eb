// Decoded instructions.
#pragma once
#include "core/gfxemu.h"
#include "matrix/matrix.h"

#include <bit>
#include <cstring>
#include <unordered_map>

namespace gfxemu {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;

struct Wave;

struct Opnd {
    enum Kind : u8 { NONE, V, S, IMM, SCC, VCCZ, EXECZ, NUL };
    Kind kind = NONE;
    u8 n = 1;    // registers
    u8 half = 0; // 16-bit half: 1 low, 2 high, 0 unnamed
    bool neg = false, abs = false, sext = false;
    u8 sel = 6;                 // SDWA select: 0..3 bytes, 4..5 words, 6 dword
    u16 reg = 0;                // V: row of Wave::v; S: index into Wave::s
    const u32* lanes = nullptr; // IMM: imm32 for each lane
    u32 imm32 = 0;              // a constant as each operand type reads it
    u16 imm16 = 0, immbf = 0;
    u64 imm64f = 0, imm64i = 0;
    bool inline_float = false, literal = false;
};

// What an instruction counts as.
enum class Cls : u8 {
    // clang-format off
    valu, trans, salu, smem, branch, barrier, waitcnt, other, matrix,
    vload, vstore, vatomic, lds_read, lds_write, lds_atomic, lds_permute
    // clang-format on
};

// Instructions that the scheduler executes.
enum class Control : u8 { none, end, sleep, barrier, signal, signal_isfirst, wait, leave };

enum class Space : u8 { global, flat, scratch, buffer, lds };
enum class AtOp : u8 {
    // clang-format off
    swap, cmpswap, add, sub, rsub, smin, umin, smax, umax, and_, or_, xor_, inc, dec, fadd, fmin, fmax,
    pk_add_f16, pk_add_bf16, clamp_sub, cond_sub, mskor, fcmpswap
    // clang-format on
};

struct MemOp {
    Space space = Space::global;
    u8 bytes = 4;  // of an element; 4 where a lane moves `dwords`
    u8 dwords = 1; // of one of the two accesses of the two-address forms
    bool store = false, atomic = false;
    bool rtn = false;     // atomic that returns the old value
    bool sx = false;      // sign-extends
    bool two = false;     // two-address form, `stride` bytes a unit of offset
    bool lds_dma = false; // a load whose data go to LDS
    u8 d16 = 0;           // 1 low half, 2 high half
    u8 tr = 0;            // transposing loads: element bits
    u32 stride = 1;
    AtOp aop = AtOp::add;
};

struct Dpp {
    u8 map[64]; // the lane that a lane reads, 0xff for none
    u64 write_mask = ~0ull;
    bool bound_zero = false, fi = false;
};
struct Sdwa {
    u8 dst_sel = 6, dst_unused = 0; // unused: 0 pad, 1 sign-extend, 2 preserve
};

struct Inst;
using Handler = void (*)(Wave&, const Inst&);

// Registers that an instruction touches: 0..511 rows of Wave::v, 1024 + i scalar registers.
struct Touch {
    u16 reg;
    u8 n;
    u8 is_dst;
};

// Registers in blocks, a bit each: 8 rows of Wave::v, 4 scalar registers. Tells quickly that nothing is shared.
struct RegisterBlocks {
    u64 vector = 0, scalar = 0;
    static constexpr u32 count = 128;
    static u32 of(u32 touch) { return touch < 1024 ? touch / 8 : 64 + (touch - 1024) / 4; }
    void set(u32 block, bool on) {
        u64& word = block < 64 ? vector : scalar;
        word = on ? word | 1ull << (block & 63) : word & ~(1ull << (block & 63));
    }
    bool meets(const RegisterBlocks& o) const { return (vector & o.vector) | (scalar & o.scalar); }
};

struct Inst {
    // What the scheduler looks at, in one cache line.
    Handler fn = nullptr;
    u32 size = 4, idx = 0;      // bytes; place in CodeObject::Impl::insts
    RegisterBlocks blocks;      // of `touch`
    std::unique_ptr<Inst> dual; // the second half of a dual-issue instruction
    Control ctl = Control::none;
    Cls cls = Cls::other;
    u8 nop = 0, ntouch = 0;
    bool has_mods = false;  // DPP, SDWA, clamp, omod, or a modified operand
    bool hi16_keep = false; // a 16-bit result keeps the destination's other half
    bool clamp = false;
    u8 omod = 0; // 1 times 2, 2 times 4, 3 half
    std::unique_ptr<Dpp> dpp;
    std::unique_ptr<Sdwa> sdwa;

    Opnd op[8];
    Touch touch[10];
    u8 op_sel = 0, op_sel_hi = 0, neg_lo = 0, neg_hi = 0;
    bool has_op_sel_hi = false;
    bool glc = false, offen = false, idxen = false, lds = false;
    bool unsupported = false; // executing it is a fault
    u8 byte_sel = 0;
    u32 word = 0; // the first dword
    u32 cbsz = 0, abid = 0, blgp = 0, bitop = 0;
    i64 offset = 0;
    u32 offset0 = 0, offset1 = 0;
    i64 imm = 0; // by handler: SOPP immediate, hardware register, form of an LDS atomic
    i32 w_vm = -1, w_lgkm = -1, w_vs = -1, w_km = -1, w_sample = -1, w_bvh = -1, w_exp = -1; // counts of a wait
    u64 pc = 0, target = 0;                                                                  // of a branch
    MemOp m;
    MatrixShape shape{};
    std::string mn, text; // canonical mnemonic; the disassembler's line

    // A copy of an arithmetic instruction that has neither DPP nor SDWA.
    Inst copy_alu() const;
};

struct OpInfo {
    Handler fn;
    Cls cls;
};
using OpTable = std::unordered_map<std::string, OpInfo>;
void register_float(OpTable&); // alu_*.cpp, scalar_*.cpp
void register_compare(OpTable&);
void register_integer(OpTable&);
void register_lanes(OpTable&);
void register_packed(OpTable&);
void register_narrow(OpTable&);
void register_scalar(OpTable&);
void register_control(OpTable&);
bool decode_mem(Inst& i, std::string_view mn); // memory instructions, by name; false where unknown
const std::string& alias_of(const std::string& mn);
void exec_matrix(Wave& w, const Inst& i);

} // namespace gfxemu
