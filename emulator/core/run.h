// The parts of a launch: addresses, initial state, scheduling.
#pragma once
#include "core/internal.h"

namespace gfxemu {

// Ranges that kernels may touch, sorted (ranges.cpp).
std::vector<Range> registered_ranges();
std::string describe_address(u64 address); // with the nearest ranges

// Initial state (wave_state.cpp).
constexpr u32 POISON = 0xffa5a5a5;                    // what registers and LDS hold before they are written
void build_kernarg(RunCtx& r);                        // fills kernarg (hidden arguments too) and packet
void start_group(RunCtx& r, Workgroup& g, u64 index); // the workgroup of a linear index
u64 mix(u64 x);                                       // scrambles a seed

// Scheduling (scheduler.cpp): runs a workgroup for about `quantum` instructions; true when it ended.
bool run_group(Workgroup& g, u64 quantum);

// Optional check: an active lane reads a vector register that it never wrote (uninitialised.cpp).
void check_uninitialised(Wave& w, const Inst& i);

} // namespace gfxemu
