"""The scalar kernel: fp32 arithmetic, every target, head_dim up to 256. The reference and the fallback of ``auto``."""

from __future__ import annotations

from .. import _core
from .._registry import ALL_TARGETS, Backend, register


def _supports(problem: _core.AttentionProblem) -> str | None:
    if problem.head_dim > 256 or problem.head_dim_v > 256:
        return f"it supports head_dim 1 to 256, got {max(problem.head_dim, problem.head_dim_v)}"
    return None


register(
    Backend(
        name="scalar",
        targets=ALL_TARGETS,
        dtypes=frozenset({"float32", "bfloat16", "float16"}),
        supports=_supports,
        run=_core.flash_attention_scalar,
        priority=0,
    )
)
