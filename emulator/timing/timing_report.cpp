// What a replay says: text and JSON. docs/timing.md explains both.
#include "timing/simulator.h"

#include <cstdarg>
#include <cstdlib>

namespace gfxemu::timing {
namespace {

std::string fmt(const char* f, ...) {
    char b[1024];
    va_list a;
    va_start(a, f);
    vsnprintf(b, sizeof b, f, a);
    va_end(a);
    return b;
}
double peak_flops(Arch a) { // dense 16-bit matrix FLOP per clock per CU
    switch (a) {
    case Arch::gfx1200: return 1024;
    case Arch::gfx942: return 2048;
    case Arch::gfx950: return 4096;
    default: return 256;
    }
}

} // namespace

std::string report(Sim& S, std::string& text) {
    const Params& P_ = S.P_;
    const KernelInfo& k = *S.run.kernel;
    const double clocks = (double)S.t;
    int ns = (int)S.sd.size(), nu = (int)S.un.size();
    double cus = S.gfx9 ? 1 : 2;
    std::string j = "{";
    auto num = [&](const char* n, double v, int d = 3) {
        if (j.back() != '{') j += ",";
        j += fmt("\"%s\":%.*f", n, v == std::floor(v) ? 0 : d, v);
    };
    auto raw = [&](const char* n, const std::string& v) {
        if (j.back() != '{') j += ",";
        j += fmt("\"%s\":", n) + v;
    };
    num("workgroups", (double)S.groups.size());
    num("resident", S.T.resident);
    num("waves", (double)S.waves.size());
    num("clocks", clocks);
    double wgc = 0;
    for (auto& g : S.groups) wgc += (double)(g.end - g.begin);
    wgc /= (double)std::max<size_t>(1, S.groups.size());
    num("clocks_per_workgroup", wgc, 1);
    text += fmt("gfxemu timing: %s (%s): %zu workgroup(s), %zu waves, %d resident on one %s\n", k.name.c_str(),
        arch_name(S.arch), S.groups.size(), S.waves.size(), (int)S.T.resident, S.gfx9 ? "CU" : "WGP");
    text += fmt("  clocks: %.0f in all, %.0f per workgroup, %.0f per workgroup and %s\n", clocks, wgc,
        clocks / (double)S.groups.size(), S.gfx9 ? "CU" : "WGP");
    auto share = [&](const char* name, const Busy& a, const Busy& b) {
        double c = (double)(b.t - a.t);
        if (c <= 0) return;
        std::string m = "[";
        double mm = 0, vv = 0, tt = 0, ll = 0, vm = 0;
        for (int s = 0; s < ns; s++) {
            double x = (b.matrix[s] - a.matrix[s]) / c;
            m += fmt("%s%.4f", s ? "," : "", x);
            mm += x / ns;
            vv += (b.valu[s] - a.valu[s]) / c / ns;
            tt += (b.trans[s] - a.trans[s]) / c / ns;
        }
        for (int u = 0; u < nu; u++) {
            ll += (b.lds[u] - a.lds[u]) / c / nu;
            vm += (b.vmem[u] - a.vmem[u]) / c / nu;
        }
        double fl = (b.flops - a.flops) / c / cus, l2 = (b.l2_bytes - a.l2_bytes) / c / cus;
        std::string o = "{\"clocks\":" + fmt("%.0f", c) + ",\"matrix_per_simd\":" + m + "]" +
                        fmt(",\"matrix\":%.4f,\"valu\":%.4f,\"trans\":%.4f,\"lds\":%.4f,\"vmem\":%.4f,\"l2_bytes_per_"
                            "clk_cu\":%.2f,\"flop_per_clk_cu\":%.1f,\"percent_of_16bit_peak\":%.2f}",
                            mm, vv, tt, ll, vm, l2, fl, 100 * fl / peak_flops(S.arch));
        raw(name, o);
        text += fmt("  %-8s busy: matrix %5.1f %%  valu %5.1f %% (trans %4.1f)  lds %5.1f %%  vmem %5.1f %%  L2 %.1f "
                    "B/clk/CU;  %.0f FLOP/clk/CU = %.1f %% of the 16-bit matrix peak\n",
            name, 100 * mm, 100 * vv, 100 * tt, 100 * ll, 100 * vm, l2, fl, 100 * fl / peak_flops(S.arch));
    };
    Busy zero;
    share("total", zero, S.busy);
    // Steady state of the hot loops (waves may run different code): trips after the first two, without the last.
    std::map<u64, std::vector<const SWave*>> loops;
    for (auto& w : S.waves)
        if (w->head.size() >= 3) loops[w->loop.head].push_back(w.get());
    auto window = [&](const SWave& w, size_t& a, size_t& b) {
        size_t n = w.head.size();
        a = n > 5 ? 2 : n > 3 ? 1 : 0;
        b = n > 6 ? n - 2 : n - 1;
    };
    std::string list;
    double pro = 0, epi = 0;
    size_t nw = 0;
    for (auto& [head, ws] : loops) {
        std::vector<double> trips;
        std::array<double, S_N> st{};
        std::array<double, I_N> ic{}, icn{};
        double instr = 0, nt = 0, mean = 0;
        for (auto* w : ws) {
            size_t a, b;
            window(*w, a, b);
            for (size_t q = a; q < b; q++) trips.push_back((double)(w->head[q + 1].t - w->head[q].t));
            const Snap &x = w->head[a], &y = w->head[b];
            nt += (double)(b - a);
            instr += (double)(y.instr - x.instr);
            for (int q = 0; q < S_N; q++) st[q] += (double)(y.st[q] - x.st[q]);
            for (int q = 0; q < I_N; q++) {
                ic[q] += (double)(y.ic[q] - x.ic[q]);
                icn[q] += (double)(y.icn[q] - x.icn[q]);
            }
        }
        for (double x : trips) mean += x;
        mean /= (double)trips.size();
        std::sort(trips.begin(), trips.end());
        for (auto* w : ws) {
            pro += (double)(w->head.front().t - w->begin);
            epi += std::max(0.0, (double)(w->end - w->head.back().t) - mean);
            nw++;
        }
        unsigned long long h = head - S.base();
        std::string o = fmt("{\"head\":\"0x%llx\",\"waves\":%zu,\"trips_per_wave\":%zu,\"clocks_per_trip\":%.1f,"
                            "\"median\":%.0f,\"min\":%.0f,\"max\":%.0f,\"instructions_per_trip\":%.1f",
            h, ws.size(), ws[0]->head.size(), mean, trips[trips.size() / 2], trips.front(), trips.back(), instr / nt);
        text += fmt("  hot loop at 0x%llx (%zu waves): %.1f clocks per trip (median %.0f, %.0f..%.0f, %zu trips a "
                    "wave), %.1f instructions\n",
            h, ws.size(), mean, trips[trips.size() / 2], trips.front(), trips.back(), ws[0]->head.size(), instr / nt);
        o += ",\"reasons\":{";
        text += "    clocks per trip and wave, by reason:";
        bool c1 = false;
        for (int q = 0; q < S_N; q++) {
            double v = st[q] / nt;
            if (v < 0.05) continue;
            o += fmt("%s\"%s\":%.1f", c1 ? "," : "", stall_name[q], v);
            text += fmt(" %s %.0f", stall_name[q], v);
            c1 = true;
        }
        o += "},\"by_class\":{";
        text += "\n    stall clocks per trip and wave, by the instruction that waits (number of instructions):";
        c1 = false;
        for (int q = 0; q < I_N; q++) {
            if (icn[q] == 0) continue;
            double v = ic[q] / nt, n = icn[q] / nt;
            o += fmt("%s\"%s\":{\"n\":%.1f,\"clocks\":%.1f,\"stall\":%.1f}", c1 ? "," : "", ic_name[q], n, v,
                v - n * P_[turn]);
            text += fmt(" %s (%.0f) %.0f", ic_name[q], n, v - n * P_[turn]);
            c1 = true;
        }
        o += "}}";
        text += "\n";
        list += (list.empty() ? "" : ",") + o;
    }
    if (!list.empty()) {
        std::string first = list.substr(0, list.find("}}}") == list.npos ? list.size() : list.find("}}}") + 3);
        raw("loop", first);
        if (loops.size() > 1) {
            std::string all = "[";
            all += list;
            all += "]";
            raw("loops", all);
        }
        num("prologue", pro / (double)nw, 1);
        num("epilogue", epi / (double)nw, 1);
        text +=
            fmt("  before the loop %.0f clocks, after it %.0f (mean over waves)\n", pro / (double)nw, epi / (double)nw);
    }
    if (S.lead && S.lead->head.size() >= 3) {
        size_t a, b;
        window(*S.lead, a, b);
        if (S.marks.size() > b) share("in_loop", S.marks[a], S.marks[b]);
    }
    std::array<u64, S_N> all{};
    u64 sum = 0;
    for (auto& w : S.waves)
        for (int q = 0; q < S_N; q++) {
            all[q] += w->st[q];
            sum += w->st[q];
        }
    std::string o = "{";
    text += "  whole run, share of wave time:";
    for (int q = 0; q < S_N; q++)
        if (all[q]) {
            double v = (double)all[q] / (double)sum;
            o += fmt("%s\"%s\":%.4f", o.size() > 1 ? "," : "", stall_name[q], v);
            if (v >= 0.005) text += fmt(" %s %.1f %%", stall_name[q], 100 * v);
        }
    o += "}";
    raw("wave_time", o);
    text += "\n";
    // the instructions that cost most
    std::vector<u32> top;
    for (u32 q = 0; q < S.ist.size(); q++)
        if (S.ihit[q]) top.push_back(q);
    size_t nt = 12;
    if (const char* e = env("GFXEMU_TIMING_TOP")) nt = std::strtoull(e, nullptr, 0);
    std::sort(top.begin(), top.end(), [&](u32 x, u32 y) { return S.ist[x] > S.ist[y]; });
    if (top.size() > nt) top.resize(nt);
    std::string l = "[";
    text += "  most expensive instructions (clocks over all waves, executions):\n";
    for (u32 q : top) {
        const Inst& i = *S.im.insts[q];
        l += fmt("%s[\"0x%llx\",%llu,%llu,\"%s\"]", l.size() > 1 ? "," : "", (unsigned long long)(i.pc - S.base()),
            (unsigned long long)S.ist[q], (unsigned long long)S.ihit[q], i.mn.c_str());
        text += fmt("    0x%05llx %9llu %8llu  %s\n", (unsigned long long)(i.pc - S.base()),
            (unsigned long long)S.ist[q], (unsigned long long)S.ihit[q], i.text.substr(0, 90).c_str());
    }
    l += "]";
    raw("top", l);
    for (auto& w : S.waves)
        if (w->tr->cut) {
            num("truncated", 1);
            text += "  (a trace was cut at GFXEMU_TIMING_MAX instructions)\n";
            break;
        }
    j += "}";
    return j;
}

} // namespace gfxemu::timing
