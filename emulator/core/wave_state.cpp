// The state in which a workgroup starts: arguments, scalar and vector registers, LDS.
#include "core/run.h"
#include "timing/timing.h"

#include <algorithm>

namespace gfxemu {

u64 mix(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

namespace {

u64 hidden_argument(const RunCtx& r, const std::string& kind) {
    const Dim3 &grid = r.params->grid, &block = r.params->block;
    auto axis = [&](const Dim3& d) { return kind.back() == 'x' ? d.x : kind.back() == 'y' ? d.y : d.z; };
    if (kind.rfind("hidden_block_count_", 0) == 0) return axis(grid);
    if (kind.rfind("hidden_group_size_", 0) == 0) return axis(block);
    if (kind == "hidden_grid_dims") return grid.z * block.z > 1 ? 3 : grid.y * block.y > 1 ? 2 : 1;
    if (kind == "hidden_dynamic_lds_size") return r.params->dynamic_lds;
    if (kind == "hidden_private_base") return PRIVATE_APERTURE >> 32;
    if (kind == "hidden_shared_base") return SHARED_APERTURE >> 32;
    return 0;
}

// The dispatch packet, for kernels that read it.
void build_packet(RunCtx& r) {
    const Dim3 &grid = r.params->grid, &block = r.params->block;
    r.packet.assign(64 + 4096, 0); // the queue's descriptor follows
    auto put = [&](size_t offset, u64 v, size_t bytes) { std::memcpy(&r.packet[offset], &v, bytes); };
    put(2, 3, 2);
    const u32 groups[3] = {grid.x, grid.y, grid.z}, items[3] = {block.x, block.y, block.z};
    for (size_t axis = 0; axis < 3; axis++) {
        put(4 + 2 * axis, items[axis], 2);
        put(12 + 4 * axis, (u64)groups[axis] * items[axis], 4);
    }
    put(24, r.kernel->scratch_per_lane, 4);
    put(28, r.kernel->static_lds + r.params->dynamic_lds, 4);
    put(32, (u64)r.code->impl->base + r.kernel->descriptor, 8);
    put(40, (u64)r.kernarg.data(), 8);
}

// The fields of a kernel descriptor that matter here; bits as the AMDGPU back end of LLVM documents them.
struct Descriptor {
    u32 rsrc1, rsrc2;
    u16 properties, preload;

    explicit Descriptor(const RunCtx& r) {
        const u8* at = r.code->impl->base + r.kernel->descriptor;
        std::memcpy(&rsrc1, at + 48, 4);
        std::memcpy(&rsrc2, at + 52, 4);
        std::memcpy(&properties, at + 56, 2);
        std::memcpy(&preload, at + 58, 2);
    }
    bool property(int bit) const { return properties >> bit & 1; }
    int lanes(Arch arch) const { return wave_size(arch) == 64 || !property(10) ? 64 : 32; }
    u32 preloaded_words() const { return preload & 127; }
};

void clear_registers(Wave& w, const KernelInfo& k) {
    if (w.vstore.empty()) w.vstore.assign(V_ROWS * 64 + 16, POISON);
    w.v = (u32*)(((u64)w.vstore.data() + 63) & ~63ull);
    auto poison = [&](u32 first, u32 count) { std::fill_n(w.v + first * 64, std::min<u32>(256, count) * 64, POISON); };
    poison(0, std::max<u32>(k.vgprs, 8));
    if (w.gfx9) poison(A_BASE, std::max<u32>(k.agprs, k.vgprs > 256 ? k.vgprs - 256 : 0));
    std::fill(w.s, w.s + S_COUNT, POISON);
    std::fill_n(w.s + S_TTMP, 16, 0);
    w.s[S_M0] = w.s[S_VCC] = w.s[S_VCC + 1] = w.s[S_EXEC + 1] = 0;
    std::memset(w.pend, 0, sizeof w.pend);
    std::memset(w.pend_in_block, 0, sizeof w.pend_in_block);
    w.pend_blocks = {};
    w.pending_total = 0;
    for (auto& q : w.q) q.clear();
}

void set_mode(Wave& w, const Descriptor& d) {
    w.round32 = d.rsrc1 >> 12 & 3;
    w.round64 = d.rsrc1 >> 14 & 3;
    w.flush32 = (d.rsrc1 >> 16 & 3) != 3;
    w.flush16 = (d.rsrc1 >> 18 & 3) != 3;
    w.dx10 = w.gfx12 || (d.rsrc1 >> 21 & 1);
    w.ieee = !w.gfx12 && (d.rsrc1 >> 23 & 1);
    w.mode = (d.rsrc1 >> 12 & 0xff) | (u32)w.dx10 << 8 | (u32)w.ieee << 9;
}

void set_scratch(Wave& w, const KernelInfo& k) { // each lane's bytes are contiguous
    w.scratch_lane = ((k.scratch_per_lane + 15) & ~15u) + (k.uses_dynamic_stack ? 16384 : 0);
    size_t need = (size_t)w.scratch_lane * (size_t)w.lanes + 64;
    if (w.scratch_lane && w.scratch_store.size() < need) w.scratch_store.assign(need, 0xa5);
    w.scratch = w.scratch_store.data();
}

void set_scalars(RunCtx& r, const Workgroup& g, Wave& w, const Descriptor& d) {
    u32 n = 0;
    auto put64 = [&](u64 v) {
        w.set_s64((int)n, v);
        n += 2;
    };
    if (d.property(0)) { // private segment buffer
        put64(SCRATCH_SRD_BASE | 1ull << 63);
        put64(0x00800000ffffffffull);
    }
    if (d.property(1)) put64((u64)r.packet.data());
    if (d.property(2)) put64((u64)r.packet.data() + 64); // queue
    if (d.property(3)) put64((u64)r.kernarg.data());
    if (d.property(4)) put64(0);                // dispatch id
    if (d.property(5)) put64(SCRATCH_SRD_BASE); // flat scratch
    if (d.property(6)) w.s[n++] = w.scratch_lane;
    u32 first = d.preload >> 7;
    for (u32 k = 0; k < d.preloaded_words() && n < 32; k++) {
        size_t offset = (first + k) * 4;
        w.s[n] = 0;
        if (offset + 4 <= r.kernarg.size()) std::memcpy(&w.s[n], &r.kernarg[offset], 4);
        n++;
    }
    if (w.gfx12) {
        w.s[S_TTMP + 9] = g.wgid[0];
        w.s[S_TTMP + 7] = (g.wgid[1] & 0xffff) | g.wgid[2] << 16;
        w.s[S_TTMP + 8] = w.id << 25;
        return;
    }
    n = d.rsrc2 >> 1 & 31; // user registers; system registers follow
    for (int axis = 0; axis < 3; axis++)
        if (d.rsrc2 >> (7 + axis) & 1) w.s[n++] = g.wgid[axis];
    if (d.rsrc2 >> 10 & 1) w.s[n++] = w.id;
    if ((d.rsrc2 & 1) && !w.gfx9) w.s[n++] = 0; // private segment wave offset
}

void set_work_items(const RunCtx& r, Wave& w, const Descriptor& d) {
    const Dim3& block = r.params->block;
    u32 axes = d.rsrc2 >> 11 & 3, total = block.x * block.y * block.z;
    bool packed = r.arch != Arch::gfx1030; // 10 bits each in v0
    u64 active = 0;
    for (int l = 0; l < w.lanes; l++) {
        u32 item = w.id * (u32)w.lanes + (u32)l;
        u32 x = item % block.x, y = item / block.x % block.y, z = item / (block.x * block.y);
        if (item < total) active |= 1ull << l;
        w.row(0)[l] = packed ? x | (axes >= 1 ? y << 10 : 0) | (axes >= 2 ? z << 20 : 0) : x;
        if (!packed && axes >= 1) w.row(1)[l] = y;
        if (!packed && axes >= 2) w.row(2)[l] = z;
    }
    w.set_exec(active);
    if (!r.chk.uninit) return;
    w.defined.assign(V_ROWS, 0);
    for (u32 k = 0; k <= (packed ? 0 : axes); k++) w.defined[k] = ~0ull;
}

void start_wave(RunCtx& r, Workgroup& g, Wave& w, u32 id) {
    const Descriptor d(r);
    w.arch = r.arch;
    w.gfx9 = wave_size(r.arch) == 64;
    w.gfx12 = r.arch == Arch::gfx1200;
    w.lanes = d.lanes(r.arch);
    w.full = w.lanes == 64 ? ~0ull : 0xffffffffull;
    w.wg = &g;
    w.id = id;
    w.epoch = g.barrier_gen;
    w.bar_seen = 0;
    w.done = w.at_barrier = w.scc = false;
    w.cached = {1, 0};
    w.special = w.vskip = false;
    w.gpr_idx = 0;
    w.clock = 0;
    w.trace = nullptr;
    clear_registers(w, *r.kernel);
    set_mode(w, d);
    set_scratch(w, *r.kernel);
    set_scalars(r, g, w, d);
    set_work_items(r, w, d);
    // A kernel with preloaded arguments begins with 256 bytes that load them, for firmware that does not.
    w.pc = (u64)r.code->impl->base + r.kernel->entry + (d.preloaded_words() ? 256 : 0);
}

} // namespace

void build_kernarg(RunCtx& r) {
    const KernelInfo& k = *r.kernel;
    const auto& given = r.params->kernarg;
    r.kernarg.assign(std::max<size_t>(k.kernarg_size, given.size()) + 64, 0);
    std::copy(given.begin(), given.end(), r.kernarg.begin());
    for (auto& a : k.args) {
        if (a.value_kind.rfind("hidden_", 0) != 0 || a.offset + a.size > r.kernarg.size()) continue;
        u64 v = hidden_argument(r, a.value_kind);
        std::memcpy(&r.kernarg[a.offset], &v, std::min<size_t>(a.size, 8));
    }
    build_packet(r);
}

void start_group(RunCtx& r, Workgroup& g, u64 index) {
    const Dim3 &grid = r.params->grid, &block = r.params->block;
    g.run = &r;
    g.wgid[0] = (u32)(index % grid.x);
    g.wgid[1] = (u32)(index / grid.x % grid.y);
    g.wgid[2] = (u32)(index / ((u64)grid.x * grid.y));
    g.lds_size = r.kernel->static_lds + r.params->dynamic_lds;
    g.lds.resize(g.lds_size + 16);
    for (size_t at = 0; at + 4 <= g.lds.size(); at += 4) std::memcpy(&g.lds[at], &POISON, 4);
    if (r.chk.race) g.shadow.reset(g.lds_size / 4 + 2);
    u32 lanes = (u32)Descriptor(r).lanes(r.arch), total = block.x * block.y * block.z;
    u32 waves = (total + lanes - 1) / lanes;
    g.waves.resize(waves);
    g.barrier_gen = g.arrived = 0;
    g.live = waves;
    g.executed = 0;
    g.rng = mix(r.seed ^ mix(index));
    for (u32 id = 0; id < waves; id++) {
        if (!g.waves[id]) g.waves[id] = std::make_unique<Wave>();
        start_wave(r, g, *g.waves[id], id);
    }
    if (r.timing) r.timing->attach(g, index);
    g.ctr->waves += waves;
}

} // namespace gfxemu
