"""An attention function for ComfyUI.

    waveattn.integrations.comfyui.activate()          # registers it as "waveattn"

or per model: ``transformer_options["optimized_attention_override"] = waveattn.integrations.comfyui.override``. Calls with
a mask, and those that no kernel covers, go to torch's scaled_dot_product_attention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from .. import functional

NAME = "waveattn"


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    heads: int,
    mask: torch.Tensor | None = None,
    attn_precision: Any = None,
    skip_reshape: bool = False,
    skip_output_reshape: bool = False,
    **kwargs: Any,
) -> torch.Tensor:
    """q, k, v: (B, S, heads * D), or (B, heads, S, D) with ``skip_reshape``.

    Returns (B, S, heads * D), or (B, heads, S, D) with ``skip_output_reshape``.
    """
    if not skip_reshape:
        q, k, v = (t.view(*t.shape[:2], heads, -1).transpose(1, 2) for t in (q, k, v))
    out = None
    if mask is None:
        try:
            out = functional.flash_attention(q, k, v, scale=kwargs.get("scale"))
        except NotImplementedError:
            pass
    if out is None:
        if mask is not None:
            mask = mask.reshape((1,) * (4 - mask.dim()) + mask.shape) if mask.dim() != 3 else mask.unsqueeze(1)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=kwargs.get("scale"))
    return out if skip_output_reshape else out.transpose(1, 2).flatten(2)


def override(original: Callable[..., torch.Tensor], *arguments: Any, **options: Any) -> torch.Tensor:
    """For ``optimized_attention_override``: takes the place of the attention function that ComfyUI passes first."""
    return attention(*arguments, **options)


def activate(name: str = NAME) -> str:
    """Registers ``attention`` with ComfyUI under that name."""
    from comfy.ldm.modules.attention import register_attention_function

    register_attention_function(name, attention)
    return name
