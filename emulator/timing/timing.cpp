// Timing model: which workgroups are recorded, and the replay after the launch. docs/timing.md explains the model.
#include "timing/simulator.h"

#include <cstdlib>

namespace gfxemu {
namespace {

using namespace timing;

u32 resident_groups(const RunCtx& r) {
    const KernelInfo& k = *r.kernel;
    const Launch& L = *r.params;
    bool gfx9 = r.arch == Arch::gfx942 || r.arch == Arch::gfx950;
    u32 rsrc1;
    std::memcpy(&rsrc1, r.code->impl->base + k.descriptor + 48, 4);
    u16 props;
    std::memcpy(&props, r.code->impl->base + k.descriptor + 56, 2);
    u32 lanes = gfx9                ? 64
                : (props >> 10 & 1) ? 32
                                    : 64,
        threads = L.block.x * L.block.y * L.block.z, nw = (threads + lanes - 1) / lanes;
    u32 total, gran, maxw;
    if (gfx9) {
        total = 512;
        gran = 8;
        maxw = 8;
    } else if (r.arch == Arch::gfx1200) {
        total = lanes == 32 ? 1536 : 768;
        gran = lanes == 32 ? 24 : 12;
        maxw = 16;
    } else {
        total = lanes == 32 ? 1024 : 512;
        gran = lanes == 32 ? 16 : 8;
        maxw = 16;
    }
    u32 v = std::max<u32>(1, k.vgprs);
    v = (v + gran - 1) / gran * gran;
    u32 per_simd = std::max<u32>(1, std::min(maxw, total / v));
    u32 lds = k.static_lds + L.dynamic_lds, lg = gfx9 ? (r.arch == Arch::gfx950 ? 1280 : 512) : 1024,
        cap = r.arch == Arch::gfx950 ? 160 * 1024
              : gfx9                 ? 64 * 1024
                                     : 128 * 1024;
    bool wgp = gfx9 || (rsrc1 >> 29 & 1);
    u32 n;
    if (wgp) {
        n = per_simd * 4 / nw;
        if (lds) n = std::min(n, cap / ((lds + lg - 1) / lg * lg));
    } else {
        n = per_simd * 2 / nw;
        if (lds) n = std::min(n, (cap / 2) / ((lds + lg - 1) / lg * lg));
        n *= 2;
    }
    n = std::min<u32>(n, nw > 1 ? (gfx9 ? 16 : 32) : 64);
    return std::max<u32>(1, n);
}
} // namespace

void TimingRun::attach(Workgroup& g, u64 index) {
    if (index < first || index - first >= count) return;
    std::lock_guard<std::mutex> l(mu);
    GroupTrace& t = groups[index];
    std::memcpy(t.id, g.wgid, sizeof t.id);
    t.waves.clear();
    for (auto& w : g.waves) {
        t.waves.push_back(std::make_unique<WaveTrace>());
        t.waves.back()->limit = limit;
        w->trace = t.waves.back().get();
    }
}

std::unique_ptr<TimingRun> timing_start(const RunCtx& r, u64 groups) {
    const char* e = env("GFXEMU_TIMING");
    if (!e || !std::strcmp(e, "0")) return nullptr;
    if (const char* f = env("GFXEMU_TIMING_KERNEL"))
        if (r.kernel->name.find(f) == std::string::npos) return nullptr;
    auto t = std::make_unique<TimingRun>();
    t->resident = resident_groups(r);
    t->count = t->resident;
    if (const char* n = env("GFXEMU_TIMING_WG")) t->count = std::max<u64>(1, std::strtoull(n, nullptr, 0));
    if (const char* n = env("GFXEMU_TIMING_RESIDENT"))
        t->resident = (u32)std::max<u64>(1, std::strtoull(n, nullptr, 0));
    if (const char* n = env("GFXEMU_TIMING_FIRST")) t->first = std::strtoull(n, nullptr, 0);
    t->first = std::min(t->first, groups - 1);
    t->count = std::min(t->count, groups - t->first);
    t->limit = 1u << 20;
    if (const char* n = env("GFXEMU_TIMING_MAX")) t->limit = std::strtoull(n, nullptr, 0);
    return t;
}

std::string timing_finish(TimingRun& t, const RunCtx& r) {
    std::lock_guard<std::mutex> decoded(
        r.code->impl->decode_mutex); // other launches may decode more of this code object
    Sim s(r, t);
    std::string text, json;
    if (const char* f = env("GFXEMU_TIMING_TRACE")) s.trace = std::fopen(f, "w");
    s.go();
    json = report(s, text);
    if (s.trace) std::fclose(s.trace);
    if (const char* f = env("GFXEMU_TIMING_OUT")) {
        if (FILE* o = std::fopen(f, "a")) {
            std::fputs(text.c_str(), o);
            std::fclose(o);
        }
    } else
        std::fputs(text.c_str(), stderr);
    return json;
}

} // namespace gfxemu
