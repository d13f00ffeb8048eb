// A checked decode call as Python holds it, and its tensors where the device of the call can read them.
#pragma once

#include "call.h"
#include "kernels/flash_decode.h"

namespace waveattn::python {

struct DecodeCall : DecodeProblem {};

inline DecodeProblem stage(Call& call, const DecodeProblem& problem) {
    DecodeProblem staged = problem;
    staged.q = call.input("q", problem.q);
    staged.k = call.input("k", problem.k);
    staged.v = call.input("v", problem.v);
    if (problem.k_scale.rank) staged.k_scale = call.input("k_scale", problem.k_scale);
    if (problem.v_scale.rank) staged.v_scale = call.input("v_scale", problem.v_scale);
    if (problem.kv_lens.rank) staged.kv_lens = call.input("kv_lens", problem.kv_lens);
    staged.out = call.output("out", problem.out);
    if (problem.lse.rank) staged.lse = call.output("lse", problem.lse);
    if (problem.workspace.rank) staged.workspace = call.output("workspace", problem.workspace);
    return staged;
}

} // namespace waveattn::python
