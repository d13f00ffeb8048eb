// Runs the waves of a workgroup, interleaved at random so that a missing barrier shows.
#include "core/run.h"
#include "timing/timing.h"

namespace gfxemu {
namespace {

void barrier_complete(Workgroup& g) {
    g.arrived = 0;
    g.barrier_gen++;
    for (auto& w : g.waves) {
        if (!w->at_barrier || g.barrier_gen <= w->bar_seen) continue;
        w->at_barrier = false;
        w->bar_seen++;
        w->epoch++;
    }
}
void barrier_signal(Workgroup& g, Wave& w) {
    remark_outstanding(w);
    if (++g.arrived >= g.live) barrier_complete(g);
}
void barrier_wait(Workgroup& g, Wave& w) {
    if (g.barrier_gen > w.bar_seen) {
        w.bar_seen++;
        w.epoch++;
    } else {
        w.at_barrier = true;
    }
}

// gfx9: VSKIP drops vector instructions; GPR-index mode adds M0[7:0] to the register numbers of VALU operands.
void run_in_special_mode(Wave& w, const Inst& i) {
    bool vector = i.mn[0] != 's' || i.m.space == Space::scratch;
    if (w.vskip && vector) return;
    if (!w.gpr_idx || i.mn[0] != 'v' || i.mn.find("lane") != std::string::npos) return i.fn(w, i);
    if (i.dpp || i.sdwa || i.cls == Cls::matrix)
        fault(w, i, Fault::Kind::unsupported, "GPR-index mode with this instruction");
    Inst shifted = i.copy_alu();
    u32 index = w.s[S_M0] & 255;
    const int enable[4] = {3, 0, 1, 2}; // bit of the mode: destination, sources
    for (int k = 0; k < std::min<int>(shifted.nop, 4); k++)
        if (shifted.op[k].kind == Opnd::V && (w.gpr_idx >> enable[k] & 1))
            shifted.op[k].reg = (u16)((shifted.op[k].reg + index) & 511);
    shifted.fn(w, shifted);
}

// Both halves of a dual-issue instruction read before either writes.
void run_dual(Wave& w, const Inst& i) {
    u32* destination = w.row(i.op[0].reg);
    u32 old[64], result[64];
    std::memcpy(old, destination, sizeof old);
    i.fn(w, i);
    std::memcpy(result, destination, sizeof result);
    std::memcpy(destination, old, sizeof old);
    i.dual->fn(w, *i.dual);
    std::memcpy(destination, result, sizeof result);
}

// An instruction of the scheduler's; true where the wave gives way.
bool control(Workgroup& g, Wave& w, const Inst& i) {
    switch (i.ctl) {
    case Control::end:
        retire_all(w);
        w.done = true;
        g.live--;
        if (g.live && g.arrived >= g.live) barrier_complete(g);
        return true;
    case Control::sleep: return true;
    case Control::signal_isfirst: w.scc = g.arrived == 0; [[fallthrough]];
    case Control::signal: barrier_signal(g, w); return false;
    case Control::leave: w.scc = false; return false;
    case Control::barrier: barrier_signal(g, w); [[fallthrough]];
    case Control::wait: barrier_wait(g, w); return true;
    case Control::none: break;
    }
    return false;
}

// Runs one wave until it blocks, ends or used its budget.
void run_wave(Workgroup& g, Wave& w, u64 budget) {
    CodeObject::Impl& code = *g.run->code->impl;
    std::vector<u64>& counts = *g.counts;
    const bool uninit = g.run->chk.uninit;
    const u64 start = budget;
    while (budget) {
        const Inst& i = *code.at(w.pc);
        budget--;
        if (i.blocks.meets(w.pend_blocks)) check_touch(w, i);
        if (uninit) [[unlikely]]
            check_uninitialised(w, i);
        if (i.idx >= counts.size()) [[unlikely]]
            counts.resize(i.idx + 1024);
        counts[i.idx]++;
        if (w.trace) [[unlikely]]
            trace_instruction(w, i);
        w.pc += i.size;
        if (i.ctl != Control::none) {
            if (control(g, w, i)) break;
        } else if (w.special) [[unlikely]] {
            run_in_special_mode(w, i);
        } else if (i.dual) {
            run_dual(w, i);
        } else {
            i.fn(w, i);
        }
    }
    if (w.trace) trace_pause(w);
    g.executed += start - budget;
}

std::string group_name(const Workgroup& g) {
    return "(" + std::to_string(g.wgid[0]) + "," + std::to_string(g.wgid[1]) + "," + std::to_string(g.wgid[2]) + ")";
}
[[noreturn]] void deadlock(const Workgroup& g) {
    std::string s = "gfxemu: limit: deadlock in kernel " + g.run->kernel->name + ", workgroup " + group_name(g) +
                    ": every live wave waits at a barrier; pcs";
    for (auto& w : g.waves)
        if (!w->done) s += " " + hex(w->pc - (u64)g.run->code->impl->base);
    throw Fault(Fault::Kind::limits, s);
}

} // namespace

bool run_group(Workgroup& g, u64 quantum) {
    RunCtx& r = *g.run;
    const u64 stop = g.executed + quantum;
    u64 reported = g.executed;
    auto report = [&] {
        u64 n = g.executed - reported;
        reported = g.executed;
        if (r.executed.fetch_add(n) + n > r.max_instr)
            throw Fault(Fault::Kind::limits,
                "gfxemu: limit: kernel " + r.kernel->name + " ran more than GFXEMU_MAX_INSTR instructions");
    };
    std::vector<Wave*> ready;
    while (g.live) {
        if (g.executed - reported > (1u << 20)) report();
        if (g.executed >= stop) {
            report();
            return false;
        }
        ready.clear();
        for (auto& w : g.waves)
            if (!w->done && !w->at_barrier) ready.push_back(w.get());
        if (ready.empty()) deadlock(g);
        g.rng = mix(g.rng);
        Wave& w = *ready[(g.rng >> 20) % ready.size()];
        run_wave(g, w, g.live == 1 ? 1u << 20 : 64 + (g.rng & 511));
    }
    report();
    return true;
}

} // namespace gfxemu
