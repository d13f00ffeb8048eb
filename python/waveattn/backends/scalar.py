"""The scalar kernel: fp32 arithmetic, every target, head_dim up to 256. The reference and the fallback of ``auto``."""

from __future__ import annotations

from .. import _core
from .._registry import ALL_TARGETS, Backend, head_dim_up_to, register

register(
    Backend(
        name="scalar",
        targets=ALL_TARGETS,
        dtypes=frozenset({"float32", "bfloat16", "float16"}),
        supports=head_dim_up_to(256),
        run=_core.flash_attention_scalar,
        priority=0,
    )
)
