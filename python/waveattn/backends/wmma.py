"""The WMMA kernel of gfx1200 and gfx1201 (RDNA4): bf16 and f16 matrix instructions, head_dim up to 256."""

from __future__ import annotations

from .. import _core
from .._registry import Backend, head_dim_up_to, register

register(
    Backend(
        name="wmma",
        targets=frozenset({"gfx1200"}),
        dtypes=frozenset({"bfloat16", "float16"}),
        supports=head_dim_up_to(256),
        run=_core.flash_attention_wmma,
        priority=10,
    )
)
