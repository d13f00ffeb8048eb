// Launching: initial wave state, scheduling of waves and workgroups, barriers, counters, the registry of address
// ranges.
#include "core/internal.h"
#include "timing/timing.h"
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <shared_mutex>
#include <thread>

namespace gfxemu {

// ---------------------------------------------------------------- ranges
namespace {
struct Registry {
    std::shared_mutex mu;
    std::map<u64, std::pair<u64, std::string>> m;
};
Registry& registry() {
    static Registry* r = new Registry;
    return *r;
}
} // namespace
void register_range(void* base, size_t size, const char* tag) {
    auto& r = registry();
    std::unique_lock l(r.mu);
    r.m[(u64)base] = {size, tag ? tag : ""};
}
void unregister_range(void* base) {
    auto& r = registry();
    std::unique_lock l(r.mu);
    r.m.erase((u64)base);
}

static std::string near_ranges(u64 a) {
    auto& r = registry();
    std::shared_lock l(r.mu);
    auto it = r.m.upper_bound(a);
    std::string s;
    auto show = [&](auto p) {
        return "[" + hex(p->first) + ", +" + hex(p->second.first) + " " + p->second.second + "]";
    };
    if (it != r.m.begin()) {
        auto p = std::prev(it);
        s += "; below: " + show(p) +
             (a >= p->first + p->second.first
                     ? ", " + std::to_string(a - p->first - p->second.first) + " bytes past its end"
                     : "");
    }
    if (it != r.m.end()) s += "; above: " + show(it) + ", " + std::to_string(it->first - a) + " bytes before its start";
    return s;
}
std::string describe_address(u64 a) { return hex(a) + near_ranges(a); }

Checks& checks() {
    static Checks c = [] {
        Checks k;
        if (const char* e = std::getenv("GFXEMU_CHECK")) {
            k = {false, false, false, false, false};
            std::string s = std::string(e) + ",";
            size_t i = 0, j;
            while ((j = s.find(',', i)) != s.npos) {
                std::string t = s.substr(i, j - i);
                i = j + 1;
                if (t == "memory")
                    k.memory = true;
                else if (t == "lds")
                    k.lds = true;
                else if (t == "race")
                    k.race = true;
                else if (t == "wait")
                    k.wait = true;
                else if (t == "uninit")
                    k.uninit = true;
                else if (t == "all")
                    k = {true, true, true, true, true};
            }
        }
        return k;
    }();
    return c;
}

void Counters::add(const Counters& o) {
    waves += o.waves;
    instructions += o.instructions;
    valu += o.valu;
    trans += o.trans;
    salu += o.salu;
    smem += o.smem;
    branch += o.branch;
    barrier += o.barrier;
    waitcnt += o.waitcnt;
    other += o.other;
    matrix += o.matrix;
    matrix_flops += o.matrix_flops;
    vmem_load += o.vmem_load;
    vmem_store += o.vmem_store;
    vmem_load_bytes += o.vmem_load_bytes;
    vmem_store_bytes += o.vmem_store_bytes;
    vmem_segments += o.vmem_segments;
    lds_read += o.lds_read;
    lds_write += o.lds_write;
    lds_permute += o.lds_permute;
    lds_read_bytes += o.lds_read_bytes;
    lds_write_bytes += o.lds_write_bytes;
    lds_dma_bytes += o.lds_dma_bytes;
    lds_conflict_cycles += o.lds_conflict_cycles;
    scratch += o.scratch;
    for (auto& [k, v] : o.by_mnemonic) by_mnemonic[k] += v;
}

void fault(Wave& w, const Inst& i, Fault::Kind kind, const std::string& text, int lane) {
    static const char* names[] = {
        "memory fault", "LDS bounds", "LDS race", "wait hazard", "uninitialised read", "trap", "unsupported", "limit"};
    std::string s = std::string("gfxemu: ") + names[(int)kind] + ": " + text;
    RunCtx& r = *w.wg->run;
    s += "\n  kernel " + r.kernel->name + " (" + arch_name(r.arch) + "), pc " + hex(i.pc - (u64)r.code->impl->base) +
         ": " + i.text;
    s += "\n  workgroup (" + std::to_string(w.wg->wgid[0]) + "," + std::to_string(w.wg->wgid[1]) + "," +
         std::to_string(w.wg->wgid[2]) + ") wave " + std::to_string(w.id);
    if (lane >= 0) s += " lane " + std::to_string(lane);
    throw Fault(kind, s);
}

// ---------------------------------------------------------------- initial state
namespace {
u64 mix(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}
u64 env_u64(const char* n, u64 d) {
    const char* e = std::getenv(n);
    return e && *e ? (u64)std::strtod(e, nullptr) : d;
}
constexpr u32 POISON = 0xffa5a5a5;

void build_kernarg(RunCtx& r) {
    const KernelInfo& k = *r.kernel;
    const Launch& L = *r.params;
    size_t n = std::max<size_t>(k.kernarg_size, L.kernarg.size());
    r.kernarg.assign(n + 64, 0);
    std::copy(L.kernarg.begin(), L.kernarg.end(), r.kernarg.begin());
    u32 g[3] = {L.grid.x, L.grid.y, L.grid.z}, b[3] = {L.block.x, L.block.y, L.block.z};
    for (auto& a : k.args) {
        const std::string& t = a.value_kind;
        if (t.rfind("hidden_", 0) != 0 || a.offset + a.size > r.kernarg.size()) continue;
        u64 v = 0;
        int ax = t.back() - 'x';
        if (t.rfind("hidden_block_count_", 0) == 0)
            v = g[ax];
        else if (t.rfind("hidden_group_size_", 0) == 0)
            v = b[ax];
        else if (t == "hidden_grid_dims")
            v = g[2] * b[2] > 1 ? 3 : g[1] * b[1] > 1 ? 2 : 1;
        else if (t == "hidden_dynamic_lds_size")
            v = L.dynamic_lds;
        else if (t == "hidden_private_base")
            v = PRIVATE_APERTURE >> 32;
        else if (t == "hidden_shared_base")
            v = SHARED_APERTURE >> 32;
        std::memcpy(&r.kernarg[a.offset], &v, std::min<size_t>(a.size, 8));
    }
    r.packet.assign(64 + 4096, 0);
    auto put = [&](size_t o, u64 v, int s) { std::memcpy(&r.packet[o], &v, (size_t)s); };
    put(2, 3, 2);
    for (int i = 0; i < 3; i++) {
        put(4 + 2 * (size_t)i, b[i], 2);
        put(12 + 4 * (size_t)i, (u64)g[i] * b[i], 4);
    }
    put(24, k.scratch_per_lane, 4);
    put(28, k.static_lds + L.dynamic_lds, 4);
    put(32, (u64)r.code->impl->base + k.descriptor, 8);
    put(40, (u64)r.kernarg.data(), 8);
}

struct Desc {
    u32 rsrc1, rsrc2, rsrc3;
    u16 props, preload;
};

void init_wave(RunCtx& r, Workgroup& g, Wave& w, u32 id) {
    const KernelInfo& k = *r.kernel;
    const Launch& L = *r.params;
    Desc d;
    const u8* kd = r.code->impl->base + k.descriptor;
    std::memcpy(&d.rsrc3, kd + 44, 4);
    std::memcpy(&d.rsrc1, kd + 48, 4);
    std::memcpy(&d.rsrc2, kd + 52, 4);
    std::memcpy(&d.props, kd + 56, 2);
    std::memcpy(&d.preload, kd + 58, 2);
    w.arch = r.arch;
    w.gfx9 = r.arch == Arch::gfx942 || r.arch == Arch::gfx950;
    w.gfx12 = r.arch == Arch::gfx1200;
    w.lanes = w.gfx9 ? 64 : (d.props >> 10 & 1) ? 32 : 64;
    w.full = w.lanes == 64 ? ~0ull : 0xffffffffull;
    w.wg = &g;
    w.id = id;
    w.epoch = g.barrier_gen;
    w.bar_seen = 0;
    w.done = w.at_barrier = w.signalled = w.scc = false;
    w.steps = 0;
    w.cached = {1, 0};
    w.special = w.vskip = false;
    w.gpr_idx = 0;
    if (w.vstore.empty()) {
        w.vstore.assign(V_ROWS * 64 + 16, POISON);
    }
    w.v = (u32*)(((u64)w.vstore.data() + 63) & ~63ull);
    u32 rows = std::min<u32>(256, std::max<u32>(k.vgprs, 8));
    std::fill(w.v, w.v + rows * 64, POISON);
    if (w.gfx9)
        std::fill(w.v + A_BASE * 64,
            w.v + (A_BASE + std::min<u32>(256, std::max<u32>(k.agprs, k.vgprs > 256 ? k.vgprs - 256 : 0))) * 64,
            POISON);
    std::fill(w.s, w.s + S_COUNT, POISON);
    w.s[S_M0] = 0;
    w.s[S_EXEC + 1] = 0;
    w.s[S_VCC] = w.s[S_VCC + 1] = 0;
    for (int i = 0; i < 16; i++) w.s[S_TTMP + i] = 0;
    std::memset(w.pend, 0, sizeof w.pend);
    w.pending_total = 0;
    for (auto& q : w.q) {
        q.q.clear();
        q.head = 0;
    }
    w.round32 = d.rsrc1 >> 12 & 3;
    w.round64 = d.rsrc1 >> 14 & 3;
    w.flush32 = (d.rsrc1 >> 16 & 3) != 3;
    w.flush16 = (d.rsrc1 >> 18 & 3) != 3;
    w.mode = (d.rsrc1 >> 12 & 0xff);
    w.dx10 = w.gfx12 ? true : d.rsrc1 >> 21 & 1;
    w.ieee = w.gfx12 ? false : d.rsrc1 >> 23 & 1;
    w.mode |= (u32)w.dx10 << 8 | (u32)w.ieee << 9;
    // Scratch: each lane's bytes are contiguous.
    w.scratch_lane = ((k.scratch_per_lane + 15) & ~15u) + (k.uses_dynamic_stack ? 16384 : 0);
    size_t need = (size_t)w.scratch_lane * (size_t)w.lanes + 64;
    if (w.scratch_lane && w.scratch_store.size() < need) w.scratch_store.assign(need, 0xa5);
    w.scratch = w.scratch_store.data();
    // User scalar registers
    u32 n = 0;
    auto put64 = [&](u64 v) {
        w.s[n++] = (u32)v;
        w.s[n++] = (u32)(v >> 32);
    };
    if (d.props & 1) {
        put64(SCRATCH_SRD_BASE | 1ull << 63);
        w.s[n++] = 0xffffffff;
        w.s[n++] = 0x00800000;
    }
    if (d.props & 2) put64((u64)r.packet.data());
    if (d.props & 4) put64((u64)r.packet.data() + 64);
    if (d.props & 8) put64((u64)r.kernarg.data());
    if (d.props & 16) put64(0);
    if (d.props & 32) put64(SCRATCH_SRD_BASE);
    if (d.props & 64) w.s[n++] = w.scratch_lane;
    u32 pre = d.preload & 127, poff = d.preload >> 7;
    for (u32 i = 0; i < pre && n < 32; i++) {
        u32 v = 0;
        size_t o = (poff + i) * 4;
        if (o + 4 <= r.kernarg.size()) std::memcpy(&v, &r.kernarg[o], 4);
        w.s[n++] = v;
    }
    n = d.rsrc2 >> 1 & 31;
    if (w.gfx12) {
        w.s[S_TTMP + 9] = g.wgid[0];
        w.s[S_TTMP + 7] = (g.wgid[1] & 0xffff) | g.wgid[2] << 16;
        w.s[S_TTMP + 8] = id << 25;
    } else {
        for (int a = 0; a < 3; a++)
            if (d.rsrc2 >> (7 + a) & 1) w.s[n++] = g.wgid[a];
        if (d.rsrc2 >> 10 & 1) w.s[n++] = id;
        if (d.rsrc2 & 1 && !w.gfx9) w.s[n++] = 0; // private segment wave offset
    }
    // Work-item ids
    u32 vid = d.rsrc2 >> 11 & 3;
    u64 ex = 0;
    u32 total = L.block.x * L.block.y * L.block.z;
    for (int l = 0; l < w.lanes; l++) {
        u32 t = id * (u32)w.lanes + (u32)l;
        if (t < total) ex |= 1ull << l;
        u32 x = t % L.block.x, y = t / L.block.x % L.block.y, z = t / (L.block.x * L.block.y);
        if (r.arch == Arch::gfx1030) {
            w.row(0)[l] = x;
            if (vid >= 1) w.row(1)[l] = y;
            if (vid >= 2) w.row(2)[l] = z;
        } else
            w.row(0)[l] = x | (vid >= 1 ? y << 10 : 0) | (vid >= 2 ? z << 20 : 0);
    }
    w.set_exec(ex);
    if (r.chk.uninit) {
        w.defined.assign(V_ROWS, 0);
        for (u32 k = 0; k <= (r.arch == Arch::gfx1030 ? vid : 0); k++) w.defined[k] = ~0ull;
    }
    w.pc = (u64)r.code->impl->base + k.entry + (pre ? 256 : 0);
}

void barrier_complete(Workgroup& g) {
    g.arrived = 0;
    g.barrier_gen++;
    for (auto& p : g.waves) {
        p->signalled = false;
        if (p->at_barrier && g.barrier_gen > p->bar_seen) {
            p->at_barrier = false;
            p->bar_seen++;
            p->epoch++;
        }
    }
}
void barrier_signal(Workgroup& g, Wave& w) {
    remark_outstanding(w);
    w.signalled = true;
    if (++g.arrived >= g.live) barrier_complete(g);
}

// gfx9: VSKIP drops vector instructions; GPR-index mode adds M0[7:0] to the register numbers of VALU operands.
void special_mode(Wave& w, const Inst& i) {
    bool vec = i.mn[0] != 's' || i.m.space == Space::scratch;
    if (w.vskip && vec) return;
    if (!w.gpr_idx || i.mn[0] != 'v' || i.mn.find("lane") != std::string::npos) {
        i.fn(w, i);
        return;
    }
    if (i.dpp || i.sdwa || i.cls == Cls::matrix)
        fault(w, i, Fault::Kind::unsupported, "GPR-index mode with this instruction");
    Inst t;
    t.fn = i.fn;
    t.pc = i.pc;
    t.size = i.size;
    t.idx = i.idx;
    t.cls = i.cls;
    t.nop = i.nop;
    for (int k = 0; k < i.nop; k++) t.op[k] = i.op[k];
    t.op_sel = i.op_sel;
    t.op_sel_hi = i.op_sel_hi;
    t.neg_lo = i.neg_lo;
    t.neg_hi = i.neg_hi;
    t.omod = i.omod;
    t.has_op_sel_hi = i.has_op_sel_hi;
    t.clamp = i.clamp;
    t.has_mods = i.has_mods;
    t.hi16_keep = i.hi16_keep;
    t.bitop = i.bitop;
    t.imm = i.imm;
    t.mn = i.mn;
    t.text = i.text;
    u32 x = w.s[S_M0] & 255;
    auto shift = [&](int k, int bit) {
        if (k < t.nop && t.op[k].kind == Opnd::V && (w.gpr_idx >> bit & 1))
            t.op[k].reg = (u16)((t.op[k].reg + x) & 511);
    };
    shift(0, 3);
    shift(1, 0);
    shift(2, 1);
    shift(3, 2);
    t.fn(w, t);
}

// Optional check: an active lane reads a vector register that it never wrote. Not judged: lane-crossing moves, spills
// of saved registers, and the high half of a 64-bit multiply-add's addend (compilers leave it undefined where only the
// low result is used).
void check_uninit(Wave& w, const Inst& i) {
    u64 ex = w.exec();
    bool lane = i.mn.find("lane") != std::string::npos, matrix = i.cls == Cls::matrix;
    auto half = [&](const Inst& q, bool write) {
        for (int k = 0; k < q.nop; k++) {
            const Opnd& o = q.op[k];
            if (o.kind != Opnd::V) continue;
            bool dst = k == 0 &&
                       !(q.cls == Cls::vstore || q.cls == Cls::lds_write || q.m.lds_dma ||
                           ((q.cls == Cls::vatomic || q.cls == Cls::lds_atomic) && !q.m.rtn)) &&
                       q.mn.rfind("v_cmp", 0) != 0;
            bool pk32 = k > 0 && o.n == 2 &&
                        q.mn.rfind("v_pk_", 0) == 0; // packed 32-bit: each half names the register it reads
            bool pkmov = pk32 && q.mn == "v_pk_mov_b32";
            for (int n = 0; n < o.n && o.reg + n < V_ROWS; n++) {
                if (pk32 && !(pkmov ? (q.op_sel >> (k - 1) & 1) == (u32)n
                                    : (q.op_sel >> (k - 1) & 1) == (u32)n ||
                                          ((q.has_op_sel_hi ? q.op_sel_hi >> (k - 1) & 1 : 1u) == (u32)n)))
                    continue;
                u64& d = w.defined[(size_t)(o.reg + n)];
                if (dst) {
                    if (write) d = lane || matrix ? ~0ull : d | ex;
                } else if (!write && !lane &&
                           !(q.cls == Cls::vstore && q.m.space != Space::global && q.m.space != Space::flat) &&
                           !(k == 4 && n == 1 && q.mn.rfind("v_mad_", 0) == 0) && (ex & ~d))
                    fault(w, i, Fault::Kind::uninitialised,
                        std::string(o.reg + n >= A_BASE ? "a" : "v") + std::to_string((o.reg + n) % A_BASE) +
                            " was never written",
                        std::countr_zero(ex & ~d));
            }
        }
    };
    half(i, false);
    if (i.dual) half(*i.dual, false);
    half(i, true);
    if (i.dual) half(*i.dual, true);
    if (i.mn == "v_swap_b32") w.defined[i.op[1].reg] |= ex;
}

// Runs one wave until it blocks, ends or used its budget.
void run_wave(Workgroup& g, Wave& w, u64 budget) {
    CodeObject::Impl& im = *g.run->code->impl;
    std::vector<u64>& counts = *g.counts;
    u64 start = budget;
    const bool uninit = g.run->chk.uninit;
    while (budget) {
        const Inst& i = *im.at(w.pc);
        budget--;
        if (w.pending_total) check_touch(w, i);
        if (uninit) [[unlikely]]
            check_uninit(w, i);
        if (i.idx >= counts.size()) counts.resize(i.idx + 1024);
        counts[i.idx]++;
        if (w.trace) [[unlikely]]
            trace_instruction(w, i);
        w.pc += i.size;
        if (!i.ctl) {
            if (w.special) [[unlikely]] {
                special_mode(w, i);
                continue;
            }
            if (!i.dual)
                i.fn(w, i);
            else { // both halves read before either writes
                u32* d = w.row(i.op[0].reg);
                u32 old[64], res[64];
                std::memcpy(old, d, sizeof old);
                i.fn(w, i);
                std::memcpy(res, d, sizeof res);
                std::memcpy(d, old, sizeof old);
                i.dual->fn(w, *i.dual);
                std::memcpy(d, res, sizeof res);
            }
            continue;
        }
        const std::string& mn = i.mn;
        if (mn == "s_endpgm" || mn == "s_endpgm_saved") {
            retire_all(w);
            w.done = true;
            g.live--;
            if (g.live && g.arrived >= g.live) barrier_complete(g);
            break;
        }
        if (mn == "s_sleep" || mn == "s_sleep_var") break;
        if (mn == "s_barrier_signal" || mn == "s_barrier_signal_isfirst") {
            if (mn.size() > 16) w.scc = g.arrived == 0;
            barrier_signal(g, w);
            continue;
        }
        if (mn == "s_barrier_leave") {
            w.scc = 0;
            continue;
        }
        if (mn == "s_barrier") barrier_signal(g, w);
        // wait
        if (g.barrier_gen > w.bar_seen) {
            w.bar_seen++;
            w.epoch++;
            break;
        }
        w.at_barrier = true;
        break;
    }
    if (w.trace) trace_pause(w);
    g.executed += start - budget;
}

struct GroupRun {
    Workgroup g;
    std::vector<u32> order;
};

// Runs a workgroup for about `quantum` instructions; true when it ended.
bool run_group(Workgroup& g, u64 quantum) {
    RunCtx& r = *g.run;
    u64 stop = g.executed + quantum, flushed = g.executed;
    std::vector<Wave*> ready;
    while (g.live) {
        if (g.executed - flushed > (1u << 20)) {
            u64 d = g.executed - flushed;
            flushed = g.executed;
            if (r.executed.fetch_add(d) + d > r.max_instr)
                throw Fault(Fault::Kind::limits,
                    "gfxemu: limit: kernel " + r.kernel->name + " ran more than GFXEMU_MAX_INSTR instructions");
        }
        if (g.executed >= stop) {
            r.executed.fetch_add(g.executed - flushed);
            return false;
        }
        ready.clear();
        for (auto& p : g.waves)
            if (!p->done && !p->at_barrier) ready.push_back(p.get());
        if (ready.empty()) {
            std::string s = "gfxemu: limit: deadlock in kernel " + r.kernel->name + ", workgroup (" +
                            std::to_string(g.wgid[0]) + "," + std::to_string(g.wgid[1]) + "," +
                            std::to_string(g.wgid[2]) + "): every live wave waits at a barrier; pcs";
            for (auto& p : g.waves)
                if (!p->done) s += " " + hex(p->pc - (u64)r.code->impl->base);
            throw Fault(Fault::Kind::limits, s);
        }
        g.rng = mix(g.rng);
        Wave& w = *ready[(g.rng >> 20) % ready.size()];
        run_wave(g, w, ready.size() == 1 && g.live == 1 ? 1u << 20 : 64 + (g.rng & 511));
    }
    r.executed.fetch_add(g.executed - flushed);
    return true;
}

void start_group(RunCtx& r, Workgroup& g, u64 index) {
    const Launch& L = *r.params;
    g.run = &r;
    g.wgid[0] = (u32)(index % L.grid.x);
    g.wgid[1] = (u32)(index / L.grid.x % L.grid.y);
    g.wgid[2] = (u32)(index / ((u64)L.grid.x * L.grid.y));
    g.lds_size = r.kernel->static_lds + L.dynamic_lds;
    g.lds.resize(g.lds_size + 16);
    for (size_t i = 0; i + 4 <= g.lds.size(); i += 4) std::memcpy(&g.lds[i], &POISON, 4);
    if (r.chk.race) g.shadow.assign(g.lds_size / 4 + 2, Shadow{});
    u32 lanes = (u32)(r.arch == Arch::gfx942 || r.arch == Arch::gfx950 ? 64 : 32);
    u16 props;
    std::memcpy(&props, r.code->impl->base + r.kernel->descriptor + 56, 2);
    if (lanes == 32 && !(props >> 10 & 1)) lanes = 64;
    u32 total = L.block.x * L.block.y * L.block.z, nw = (total + lanes - 1) / lanes;
    while (g.waves.size() > nw) g.waves.pop_back();
    while (g.waves.size() < nw) g.waves.push_back(std::make_unique<Wave>());
    g.barrier_gen = g.arrived = 0;
    g.live = nw;
    g.executed = 0;
    g.rng = mix(r.seed ^ mix(index));
    for (u32 i = 0; i < nw; i++) {
        init_wave(r, g, *g.waves[i], i);
        g.waves[i]->trace = nullptr;
    }
    if (r.timing) r.timing->attach(g, index);
    g.ctr->waves += nw;
}
} // namespace

LaunchResult launch(const CodeObject& code, const std::string& kernel, const Launch& params) {
    CodeObject::Impl& im = *code.impl;
    auto it = im.kernels.find(kernel);
    if (it == im.kernels.end()) throw std::invalid_argument("gfxemu: no kernel named " + kernel);
    u64 block = (u64)params.block.x * params.block.y * params.block.z,
        groups = (u64)params.grid.x * params.grid.y * params.grid.z;
    if (!block || !groups) throw Fault(Fault::Kind::limits, "gfxemu: limit: empty launch of " + kernel);
    if (block > 1024 || block > it->second.max_flat_workgroup_size)
        throw Fault(Fault::Kind::limits, "gfxemu: limit: " + kernel + " launched with " + std::to_string(block) +
                                             " work-items a workgroup, at most " +
                                             std::to_string(it->second.max_flat_workgroup_size));
    u32 lds_max = im.arch == Arch::gfx950 ? 160 * 1024 : 64 * 1024;
    if (it->second.static_lds + (u64)params.dynamic_lds > lds_max)
        throw Fault(Fault::Kind::limits, "gfxemu: limit: " + kernel + " needs " +
                                             std::to_string(it->second.static_lds + (u64)params.dynamic_lds) +
                                             " bytes of LDS, at most " + std::to_string(lds_max));
    std::call_once(im.disasm_once, [&] { im.disassemble(); });

    RunCtx r;
    r.code = &code;
    r.kernel = &it->second;
    r.params = &params;
    r.chk = checks();
    r.arch = im.arch;
    r.max_instr = env_u64("GFXEMU_MAX_INSTR", 20000000000ull);
    r.seed = env_u64("GFXEMU_SEED", 0);
    build_kernarg(r);
    {
        auto& reg = registry();
        std::shared_lock l(reg.mu);
        for (auto& [b, s] : reg.m)
            if (s.first) r.ranges.push_back({b, b + s.first});
    }
    r.ranges.push_back({(u64)r.kernarg.data(), (u64)r.kernarg.data() + r.kernarg.size()});
    r.ranges.push_back({(u64)r.packet.data(), (u64)r.packet.data() + r.packet.size()});
    std::sort(r.ranges.begin(), r.ranges.end(), [](auto& a, auto& b) { return a.lo < b.lo; });

    std::unique_ptr<TimingRun> timing = timing_start(r, groups);
    r.timing = timing.get();
    u64 nt = env_u64("GFXEMU_THREADS", std::max(1u, std::thread::hardware_concurrency()));
    nt = std::max<u64>(1, std::min<u64>(nt, groups));
    std::atomic<u64> next{0};
    std::atomic<bool> stop{false};
    std::mutex mu;
    std::exception_ptr err;
    Counters total;
    auto worker = [&] {
        Counters ctr;
        std::vector<u64> counts;
        try {
            std::deque<std::unique_ptr<Workgroup>> parked;
            std::unique_ptr<Workgroup> cur, spare;
            while (!stop.load(std::memory_order_relaxed)) {
                if (parked.size() < 256) {
                    u64 i = next.fetch_add(1);
                    if (i < groups) {
                        cur = spare ? std::move(spare) : std::make_unique<Workgroup>();
                        cur->ctr = &ctr;
                        cur->counts = &counts;
                        start_group(r, *cur, i);
                    }
                }
                if (!cur) {
                    if (parked.empty()) break;
                    cur = std::move(parked.front());
                    parked.pop_front();
                }
                if (run_group(*cur, 4u << 20))
                    spare = std::move(cur);
                else
                    parked.push_back(std::move(cur));
                cur.reset();
            }
        } catch (...) {
            std::lock_guard<std::mutex> g(mu);
            if (!err) err = std::current_exception();
            stop = true;
        }
        std::lock_guard<std::mutex> g(mu);
        std::lock_guard<std::mutex> g2(im.decode_mutex);
        for (size_t k = 0; k < counts.size(); k++)
            if (u64 n = counts[k]) {
                auto add = [&](const Inst& i) {
                    ctr.instructions += n;
                    ctr.by_mnemonic[i.mn] += n;
                    switch (i.cls) {
                    case Cls::valu: ctr.valu += n; break;
                    case Cls::trans: ctr.trans += n; break;
                    case Cls::salu: ctr.salu += n; break;
                    case Cls::smem: ctr.smem += n; break;
                    case Cls::branch: ctr.branch += n; break;
                    case Cls::barrier: ctr.barrier += n; break;
                    case Cls::waitcnt: ctr.waitcnt += n; break;
                    case Cls::other: ctr.other += n; break;
                    case Cls::matrix: ctr.matrix += n; break;
                    case Cls::vload: ctr.vmem_load += n; break;
                    case Cls::vstore:
                    case Cls::vatomic: ctr.vmem_store += n; break;
                    case Cls::lds_read: ctr.lds_read += n; break;
                    case Cls::lds_write:
                    case Cls::lds_atomic: ctr.lds_write += n; break;
                    case Cls::lds_permute: ctr.lds_permute += n; break;
                    }
                    if (i.m.space == Space::scratch && (i.cls == Cls::vload || i.cls == Cls::vstore)) ctr.scratch += n;
                };
                add(*im.insts[k]);
                if (im.insts[k]->dual) add(*im.insts[k]->dual);
            }
        total.add(ctr);
    };
    if (nt == 1)
        worker();
    else {
        std::vector<std::thread> ts;
        for (u64 i = 0; i < nt; i++) ts.emplace_back(worker);
        for (auto& t : ts) t.join();
    }
    if (err) std::rethrow_exception(err);
    return {std::move(total), timing ? timing_finish(*timing, r) : std::string()};
}

} // namespace gfxemu
