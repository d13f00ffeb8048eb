"""The dual-wave kernel of gfx950, and the gfx942 build of its main loop: bf16 and f16 matrix instructions, head_dim up to 128."""

from __future__ import annotations

from .. import _core
from .._registry import Backend, register


def _supports(problem: _core.AttentionProblem) -> str | None:
    if problem.head_dim > 128 or problem.head_dim_v > 128:
        return f"it supports head_dim 1 to 128, got {max(problem.head_dim, problem.head_dim_v)}"
    return None


register(
    Backend(
        name="dualwave",
        targets=frozenset({"gfx942", "gfx950"}),
        dtypes=frozenset({"bfloat16", "float16"}),
        supports=_supports,
        run=_core.flash_attention_dualwave,
        priority=10,
    )
)
