"""The WMMA kernel of gfx1200 and gfx1201 (RDNA4): bf16 and f16 matrix instructions, head_dim up to 256."""

from __future__ import annotations

from .. import _core
from .._registry import Backend, register


def _supports(problem: _core.AttentionProblem) -> str | None:
    if problem.head_dim > 256 or problem.head_dim_v > 256:
        return f"it supports head_dim 1 to 256, got {max(problem.head_dim, problem.head_dim_v)}"
    return None


register(
    Backend(
        name="wmma",
        targets=frozenset({"gfx1200"}),
        dtypes=frozenset({"bfloat16", "float16"}),
        supports=_supports,
        run=_core.flash_attention_wmma,
        priority=10,
    )
)
