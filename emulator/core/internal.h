// Private structures of the core: decoded instructions, waves, workgroups.
#pragma once
#include "core/gfxemu.h"
#include "matrix/matrix.h"
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <mutex>
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

// Indices into Wave::s. 0..105 are the SGPRs proper (on gfx9 102..105 are named flat_scratch / xnack_mask).
enum : int {
    S_VCC = 106,
    S_TTMP = 108,
    S_M0 = 124,
    S_SINK = 125,
    S_EXEC = 126,
    S_FLATSCR = 128,
    S_XNACK = 130,
    S_COUNT = 136
};
constexpr int A_BASE = 256; // AGPR rows follow the VGPR rows
constexpr int V_ROWS = 512;
constexpr u64 SHARED_APERTURE = 0x10000ull << 32, PRIVATE_APERTURE = 0x20000ull << 32;
constexpr u64 SCRATCH_SRD_BASE =
    0x5c0000000000ull; // base address of the private segment buffer handed to gfx1030 kernels

struct Opnd {
    enum Kind : u8 { NONE, V, S, IMM, SCC, VCCZ, EXECZ, NUL };
    Kind kind = NONE;
    u8 n = 1;    // registers
    u8 half = 0; // 16-bit half: 1 low, 2 high, 0 unnamed
    bool neg = false, abs = false, sext = false;
    u8 sel = 6; // SDWA select: 0..3 bytes, 4..5 words, 6 dword
    u16 reg = 0;
    u32 imm32 = 0; // constant as each operand type reads it
    u16 imm16 = 0, immbf = 0;
    u64 imm64f = 0, imm64i = 0;
    bool inline_float = false, literal = false;
};

enum class Cls : u8 {
    valu,
    trans,
    salu,
    smem,
    branch,
    barrier,
    waitcnt,
    other,
    matrix,
    vload,
    vstore,
    vatomic,
    lds_read,
    lds_write,
    lds_atomic,
    lds_permute
};

enum class Space : u8 { global, flat, scratch, buffer, lds };
enum class AtOp : u8 {
    swap,
    cmpswap,
    add,
    sub,
    rsub,
    smin,
    umin,
    smax,
    umax,
    and_,
    or_,
    xor_,
    inc,
    dec,
    fadd,
    fmin,
    fmax,
    pk_add_f16,
    pk_add_bf16,
    clamp_sub,
    cond_sub,
    mskor,
    fcmpswap
};
enum class AtTy : u8 { b32, b64, f32, f64 };

struct MemOp {
    Space space = Space::global;
    u8 bytes = 4; // per lane in memory (of one of the two accesses for the 2addr forms)
    u8 dwords = 1;
    bool store = false, atomic = false, rtn = false, sx = false, two = false, lds_dma = false;
    u8 d16 = 0;     // 1 low half, 2 high half
    u8 tr = 0;      // transposing loads: element bits
    u32 stride = 1; // 2addr element stride
    AtOp aop = AtOp::add;
    AtTy aty = AtTy::b32;
};

struct Dpp {
    u8 map[64];
    u64 write_mask = ~0ull;
    bool bound_zero = false, fi = false;
};
struct Sdwa {
    u8 dst_sel = 6, dst_unused = 0;
}; // unused: 0 pad, 1 sext, 2 preserve

struct Wave;
struct Workgroup;
struct WaveTrace;
struct TimingRun;
using Handler = void (*)(Wave&, const Inst&);
struct Touch {
    u16 reg;
    u8 n;
    u8 is_dst;
}; // 0..511 V/A rows, 1024+i scalar registers

struct Inst {
    Handler fn = nullptr;
    u64 pc = 0;
    u32 size = 4, idx = 0, word = 0;
    Cls cls = Cls::other;
    u8 nop = 0, ntouch = 0;
    Opnd op[8];
    Touch touch[10];
    u8 op_sel = 0, op_sel_hi = 0, neg_lo = 0, neg_hi = 0, omod = 0;
    bool has_op_sel_hi = false;
    bool clamp = false, glc = false, offen = false, idxen = false, lds = false, has_mods = false, hi16_keep = false;
    u8 byte_sel = 0;
    u32 cbsz = 0, abid = 0, blgp = 0, bitop = 0;
    i64 offset = 0;
    u32 offset0 = 0, offset1 = 0;
    i64 imm = 0; // SOPP immediate / hwreg / wait counts (per handler)
    i32 w_vm = -1, w_lgkm = -1, w_vs = -1, w_km = -1, w_sample = -1, w_bvh = -1, w_exp = -1;
    u64 target = 0;
    MemOp m;
    MatrixShape shape{};
    std::string mn, text; // canonical mnemonic; the disassembler's line
    std::unique_ptr<Dpp> dpp;
    std::unique_ptr<Sdwa> sdwa;
    std::unique_ptr<Inst> dual;
    bool unsupported = false; // executing it is a fault
    bool ctl = false;         // needs the scheduler (barrier, end, sleep)
};

struct LdsOp {
    u32 addr[64];
    u64 mask;
    u16 bytes;
    bool write;
    u32 idx;
}; // kept while outstanding
struct Dma {
    u64 mask;
    u32 addr[64];
    u8 bytes;
    u8 data[64][16];
    const Inst* inst;
};

enum Queue : u8 { Q_VM, Q_VS, Q_LGKM, Q_KM, Q_SAMPLE, Q_BVH, Q_N };
struct Pending {
    u32 first = 0;
    u8 n = 0;
    bool ooo = false; // register range (Touch numbering); ooo: scalar memory
    std::unique_ptr<Dma> dma;
    std::unique_ptr<LdsOp> lop, lop2;
    const Inst* inst = nullptr;
};

struct FifoQ { // small queue with cheap front removal
    std::vector<Pending> q;
    size_t head = 0;
    size_t size() const { return q.size() - head; }
    Pending& at(size_t i) { return q[head + i]; }
    void pop() {
        q[head] = Pending{};
        if (++head == q.size()) {
            q.clear();
            head = 0;
        }
    }
    void push(Pending&& p) {
        if (head > 64) {
            q.erase(q.begin(), q.begin() + head);
            head = 0;
        }
        q.push_back(std::move(p));
    }
};

struct Range {
    u64 lo, hi;
};

struct Wave {
    alignas(64) u32 s[S_COUNT];
    u32* v = nullptr; // V_ROWS rows of 64 words
    u64 pc = 0, full = 0;
    int lanes = 64;
    bool scc = false, done = false, at_barrier = false, signalled = false;
    bool flush32 = false, flush16 = false, ieee = true, dx10 = true;
    u8 round32 = 0, round64 = 0;
    u32 mode = 0;
    Arch arch = Arch::gfx1030;
    bool gfx9 = false, gfx12 = false;
    u32 id = 0, hw_id = 0;
    bool special = false, vskip = false;
    u8 gpr_idx = 0; // special: vskip or gpr_idx is on (gfx9)
    u32 epoch = 0, bar_seen = 0;
    Workgroup* wg = nullptr;
    u8* scratch = nullptr;
    u32 scratch_lane = 0;
    u32 pending_total = 0;
    u8 pend[1024 + S_COUNT];
    FifoQ q[Q_N];
    Range cached{1, 0};
    u64 steps = 0;
    std::vector<u64> defined; // lanes written, by vector register (uninit check)
    std::vector<u32> vstore;
    std::vector<u8> scratch_store;
    WaveTrace* trace = nullptr; // timing model: where this wave's instructions are recorded

    u64 exec() const {
        u64 e;
        std::memcpy(&e, &s[S_EXEC], 8);
        return e & full;
    }
    void set_exec(u64 e) { std::memcpy(&s[S_EXEC], &e, 8); }
    u32* row(int r) { return v + r * 64; }
    u64 s64(int r) const { return s[r] | (u64)s[r + 1] << 32; }
    void set_s64(int r, u64 x) {
        s[r] = (u32)x;
        s[r + 1] = (u32)(x >> 32);
    }
    u64 vcc() const { return lanes == 64 ? s64(S_VCC) : s[S_VCC]; }
};

struct Shadow {
    u32 wepoch = ~0u, winst = 0, repoch = ~0u, rinst = 0, wset = 0,
        rset = 0; // sets of waves: that wrote the value there is, that read
    u16 wwave = 0xffff, rwave = 0xffff;
    u8 wmask = 0, rmask = 0, dma = 0, flags = 0;
};

struct Image;  // loaded code (CodeObject::Impl)
struct RunCtx; // one launch
struct Workgroup {
    RunCtx* run = nullptr;
    std::vector<std::unique_ptr<Wave>> waves;
    std::vector<u8> lds;
    std::vector<Shadow> shadow;
    u32 lds_size = 0;
    u32 barrier_gen = 0, arrived = 0, live = 0;
    u32 wgid[3] = {0, 0, 0};
    Counters* ctr = nullptr;
    std::vector<u64>* counts = nullptr;
    u64 rng = 0, executed = 0;
    bool uses_lds = false;
};

struct RunCtx {
    const CodeObject* code = nullptr;
    const KernelInfo* kernel = nullptr;
    const Launch* params = nullptr;
    Checks chk;
    std::vector<Range> ranges; // sorted snapshot of the registered ranges
    u64 max_instr = 0;
    std::atomic<u64> executed{0};
    std::vector<u8> kernarg; // with hidden arguments
    std::vector<u8> packet;
    u64 seed = 0;
    Arch arch = Arch::gfx1030;
    TimingRun* timing = nullptr;
};

struct CodeObject::Impl {
    Arch arch = Arch::gfx1030;
    std::map<std::string, KernelInfo> kernels;
    std::map<std::string, std::pair<u64, u64>> symbols;
    u8* base = nullptr;
    size_t span = 0;
    void* block = nullptr;
    std::vector<u8> elf;
    u64 text_lo = 0, text_hi = 0; // offsets in the image
    u64 text_offset = 0;          // of .text in the ELF file
    std::once_flag disasm_once;
    std::vector<std::string> lines; // the disassembly, see Disassembly
    std::vector<u32> line_of;
    std::vector<u8> words_of;
    std::unique_ptr<std::atomic<Inst*>[]> code;
    std::mutex decode_mutex;
    std::vector<std::unique_ptr<Inst>> insts; // by Inst::idx
    void disassemble();
    const Inst* decode(u64 pc); // throws Fault
    const Inst* at(u64 pc) {
        u64 o = pc - (u64)base - text_lo;
        if (o < text_hi - text_lo)
            if (Inst* i = code[o >> 2].load(std::memory_order_acquire)) return i;
        return decode(pc);
    }
};

struct OpInfo {
    Handler fn;
    Cls cls;
};
using OpTable = std::unordered_map<std::string, OpInfo>;
void register_valu_f(OpTable&);
void register_valu_i(OpTable&);
void register_valu_x(OpTable&);
void register_salu(OpTable&);
bool decode_mem(Inst& i, std::string_view mn); // memory instructions, by name; false where unknown
const std::string& alias_of(const std::string& mn);
void exec_matrix(Wave& w, const Inst& i);

[[noreturn]] void fault(Wave& w, const Inst& i, Fault::Kind kind, const std::string& text, int lane = -1);
std::string hex(u64 v);

// Outstanding operations
void retire_wait(Wave& w, int queue, int count);
void retire_all(Wave& w);
void check_touch(Wave& w, const Inst& i);
// value: the byte that a lane is about to store at offset `at` of its data (asked only where another wave wrote the
// same place).
using StoreValue = u8 (*)(Wave& w, const Inst& i, const void* ctx, int lane, u32 at);
void lds_touch(Wave& w, const Inst& i, const u32* addr, u64 mask, u32 bytes, bool write, bool atomic = false,
    StoreValue value = nullptr, const void* ctx = nullptr);
void remark_outstanding(Wave& w); // outstanding LDS operations straddle a barrier

// Scalar operand access
inline u32 rd32(const Wave& w, const Opnd& o) {
    switch (o.kind) {
    case Opnd::S: return w.s[o.reg];
    case Opnd::IMM: return o.imm32;
    case Opnd::SCC: return w.scc;
    case Opnd::VCCZ: return w.vcc() == 0;
    case Opnd::EXECZ: return w.exec() == 0;
    case Opnd::V: return w.v[o.reg * 64]; // first lane: used by readfirstlane-like callers only
    default: return 0;
    }
}
inline u64 rd64(const Wave& w, const Opnd& o) {
    switch (o.kind) {
    case Opnd::S: return w.s64(o.reg);
    case Opnd::IMM: return o.imm64i;
    case Opnd::SCC: return w.scc;
    default: return 0;
    }
}
inline u64 rd_mask(const Wave& w, const Opnd& o) { return w.lanes == 64 ? rd64(w, o) : rd32(w, o); }
inline void wr32(Wave& w, const Opnd& o, u32 v) {
    if (o.kind == Opnd::S) w.s[o.reg] = v;
}
inline void wr64(Wave& w, const Opnd& o, u64 v) {
    if (o.kind == Opnd::S) w.set_s64(o.reg, v);
}
inline void wr_mask(Wave& w, const Opnd& o, u64 v) {
    if (w.lanes == 64)
        wr64(w, o, v);
    else
        wr32(w, o, (u32)v);
}

} // namespace gfxemu
