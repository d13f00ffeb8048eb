"""The dual-wave kernel of gfx950, and the gfx942 build of its main loop: bf16 and f16 matrix instructions, head_dim up to 128."""

from __future__ import annotations

from .. import _core
from .._registry import Backend, head_dim_up_to, register

register(
    Backend(
        name="dualwave",
        targets=frozenset({"gfx942", "gfx950"}),
        dtypes=frozenset({"bfloat16", "float16"}),
        supports=head_dim_up_to(128),
        run=_core.flash_attention_dualwave,
        priority=10,
    )
)
