// Waves, workgroups, launches and loaded code.
#pragma once
#include "core/instruction.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <mutex>

namespace gfxemu {

// Indices into Wave::s. 0..105 are the SGPRs proper (on gfx9 102..105 are named flat_scratch and xnack_mask).
enum : int { S_VCC = 106, S_TTMP = 108, S_M0 = 124, S_EXEC = 126, S_FLATSCR = 128, S_XNACK = 130, S_COUNT = 136 };
constexpr int A_BASE = 256; // AGPR rows follow the VGPR rows
constexpr int V_ROWS = 512;
constexpr u64 SHARED_APERTURE = 0x10000ull << 32, PRIVATE_APERTURE = 0x20000ull << 32;
constexpr u64 SCRATCH_SRD_BASE = 0x5c0000000000ull; // base of the private segment buffer handed to gfx1030 kernels

// ---- operations in flight ----
struct LdsOp { // an LDS access, kept while it is outstanding
    u32 addr[64];
    u64 mask;
    u16 bytes;
    bool write;
    u32 idx; // Inst::idx
};
struct Dma { // a load to LDS whose data have not landed
    u64 mask;
    u32 addr[64];
    u8 bytes;
    u8 data[64][16];
    const Inst* inst;
};

enum Queue : u8 { Q_VM, Q_VS, Q_LGKM, Q_KM, Q_SAMPLE, Q_BVH, Q_N };
struct Pending {
    u32 first = 0; // registers that it will write (Touch numbering)
    u8 n = 0;
    bool ooo = false; // scalar memory: completes in any order
    std::unique_ptr<Dma> dma;
    std::unique_ptr<LdsOp> lop, lop2;
    const Inst* inst = nullptr;
};

class FifoQ { // a ring
public:
    size_t size() const { return count; }
    Pending& at(size_t i) { return ring[(head + i) & (ring.size() - 1)]; }
    void pop() {
        at(0) = Pending{};
        head++;
        count--;
    }
    void push(Pending&& p) {
        if (count == ring.size()) grow();
        count++;
        at(count - 1) = std::move(p);
    }
    void clear() {
        while (count) pop();
    }

private:
    std::vector<Pending> ring;
    size_t head = 0, count = 0;
    void grow() {
        std::vector<Pending> larger(std::max<size_t>(16, 2 * ring.size()));
        for (size_t i = 0; i < count; i++) larger[i] = std::move(at(i));
        ring = std::move(larger);
        head = 0;
    }
};

// ---- waves ----
struct Range {
    u64 lo, hi;
};
struct Workgroup;
struct WaveTrace;
struct TimingRun;

struct Wave {
    alignas(64) u32 s[S_COUNT];
    u32* v = nullptr; // V_ROWS rows of 64 lanes
    u64 pc = 0, full = 0;
    int lanes = 64;
    bool scc = false, done = false, at_barrier = false;
    bool flush32 = false, flush16 = false, ieee = true, dx10 = true; // MODE
    u8 round32 = 0, round64 = 0;
    u32 mode = 0;
    Arch arch = Arch::gfx1030;
    bool gfx9 = false, gfx12 = false;
    u32 id = 0;
    bool special = false, vskip = false; // special: VSKIP or GPR-index mode is on (gfx9)
    u8 gpr_idx = 0;
    u32 epoch = 0, bar_seen = 0; // barrier interval; barriers passed
    Workgroup* wg = nullptr;
    u8* scratch = nullptr;
    u32 scratch_lane = 0; // bytes a lane
    u32 pending_total = 0;
    u8 pend[1024 + S_COUNT]; // outstanding writes, by register (Touch numbering)
    u8 pend_in_block[RegisterBlocks::count];
    RegisterBlocks pend_blocks; // where pend is not zero
    FifoQ q[Q_N];
    std::vector<std::unique_ptr<LdsOp>> spare_lds_ops;
    Range cached{1, 0};       // where the last access fell
    u64 clock = 0;            // what the shader's clock shows: it advances when it is read
    std::vector<u64> defined; // lanes written, by vector register (check for uninitialised reads)
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

// Who touched which dword of LDS in which barrier interval; a column for each property. Sets have a bit for each wave.
class LdsShadow {
public:
    enum Column {
        // clang-format off
        W_EPOCH, W_SET, W_MASK, W_WAVE, W_INST, // last write: interval, waves that wrote the value, bytes, wave, Inst::idx
        R_EPOCH, R_SET, R_MASK, R_WAVE, R_INST, // reads of the interval
        DMA, DMA_WAVE,                          // loads to LDS in flight, the wave that began the last one
        COLUMNS
        // clang-format on
    };
    void reset(size_t count);
    u32* at(Column c, size_t word) { return store.data() + (size_t)c * stride + word; }

private:
    std::vector<u32> store;
    size_t stride = 0;
    u32* column(Column c) { return at(c, 0); }
};

struct RunCtx;
struct Workgroup {
    RunCtx* run = nullptr;
    std::vector<std::unique_ptr<Wave>> waves;
    std::vector<u8> lds;
    LdsShadow shadow;
    u32 lds_size = 0;
    u32 barrier_gen = 0, arrived = 0, live = 0;
    u32 wgid[3] = {0, 0, 0};
    Counters* ctr = nullptr;
    std::vector<u64>* counts = nullptr; // executions, by Inst::idx
    u64 rng = 0, executed = 0;
};

struct RunCtx { // one launch
    const CodeObject* code = nullptr;
    const KernelInfo* kernel = nullptr;
    const Launch* params = nullptr;
    Checks chk;
    bool count_conflicts = true;
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
    std::map<std::string, std::pair<u64, u64>> symbols; // offset in the image, size
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
    std::unique_ptr<std::atomic<Inst*>[]> code; // decoded instructions, by word of .text
    std::mutex decode_mutex;
    std::vector<std::unique_ptr<Inst>> insts; // by Inst::idx
    void disassemble();
    const Inst* decode(u64 pc); // throws Fault
    const Inst* at(u64 pc) {
        u64 offset = pc - (u64)base - text_lo;
        if (offset < text_hi - text_lo)
            if (Inst* i = code[offset / 4].load(std::memory_order_acquire)) return i;
        return decode(pc);
    }
};

// ---- faults and checks ----
[[noreturn]] void fault(Wave& w, const Inst& i, Fault::Kind kind, const std::string& text, int lane = -1);
std::string hex(u64 v);

void retire_wait(Wave& w, int queue, int count); // waits until at most `count` operations of the queue are in flight
void retire_all(Wave& w);
void check_touch(Wave& w, const Inst& i); // a register that an operation in flight will write

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
