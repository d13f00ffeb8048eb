"""An attention implementation for Hugging Face transformers.

    waveattn.integrations.transformers.activate()
    model = AutoModel.from_pretrained(..., attn_implementation="waveattn")

Calls with a mask (padding), dropout, a gradient or a soft cap go to transformers' own "sdpa" implementation.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from .. import functional

NAME = "waveattn"


def attention_forward(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """(B, Hq, Sq, D), (B, Hkv, Sk, D) in; (B, Sq, Hq, D) out, as transformers expects."""
    needs_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    special = any(kwargs.get(name) is not None for name in ("softcap", "sliding_window", "s_aux", "position_bias"))
    if attention_mask is not None or dropout or needs_gradient or special:
        result: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **kwargs
        )
        return result
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    # transformers masks a single query by nothing: it is the newest token and sees every key.
    rule = "top_left" if causal and query.shape[2] > 1 else None
    out = functional.flash_attention(query, key, value, causal=rule, scale=scaling)  # type: ignore[arg-type]
    return out.transpose(1, 2).contiguous(), None


def activate(name: str = NAME) -> str:
    """Registers the implementation, and the masks that go with it; returns its name."""
    AttentionInterface.register(name, attention_forward)
    try:
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

        AttentionMaskInterface.register(name, sdpa_mask)
    except ImportError:  # releases that make masks without a registry
        pass
    return name
