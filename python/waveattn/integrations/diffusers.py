"""Attention processors for Hugging Face diffusers.

diffusers keeps a closed list of attention backends, so this plugs in where models take a processor:

    waveattn.integrations.diffusers.activate(pipeline.unet)      # any model with attn_processors

Calls with a mask, or that no kernel covers, go to torch's scaled_dot_product_attention.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .. import functional


class WaveattnProcessor:
    """The processor of a plain ``diffusers.models.attention_processor.Attention`` layer (self or cross attention)."""

    def __call__(
        self,
        attn: Any,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: Any = None,
        temb: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        residual = hidden_states
        if attn.spatial_norm is not None:
            hidden_states = attn.spatial_norm(hidden_states, temb)
        image_shape = hidden_states.shape if hidden_states.dim() == 4 else None
        if image_shape is not None:
            hidden_states = hidden_states.flatten(2).transpose(1, 2)
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        if attention_mask is not None:
            attention_mask = attn.prepare_attention_mask(attention_mask, context.shape[1], context.shape[0])
            attention_mask = attention_mask.view(context.shape[0], attn.heads, -1, attention_mask.shape[-1])
        if attn.group_norm is not None:
            hidden_states = attn.group_norm(hidden_states.transpose(1, 2)).transpose(1, 2)
            context = hidden_states if encoder_hidden_states is None else context
        if encoder_hidden_states is not None and attn.norm_cross:
            context = attn.norm_encoder_hidden_states(context)

        # (batch, tokens, heads, head_dim), as strides of one projection: no copy is made.
        def heads(t: torch.Tensor) -> torch.Tensor:
            return t.view(*t.shape[:2], attn.heads, -1)

        q = heads(attn.to_q(hidden_states))
        k = heads(attn.to_k(context))
        v = heads(attn.to_v(context))
        if getattr(attn, "norm_q", None) is not None:
            q = attn.norm_q(q)
        if getattr(attn, "norm_k", None) is not None:
            k = attn.norm_k(k)
        out = None
        if attention_mask is None:
            try:
                out = functional.flash_attention(q, k, v, layout="bshd")
            except NotImplementedError:
                pass
        if out is None:
            q, k, v = (t.transpose(1, 2) for t in (q, k, v))
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=attention_mask).transpose(1, 2)

        hidden_states = attn.to_out[1](attn.to_out[0](out.flatten(2)))
        if image_shape is not None:
            hidden_states = hidden_states.transpose(1, 2).reshape(image_shape)
        if attn.residual_connection:
            hidden_states = hidden_states + residual
        result: torch.Tensor = hidden_states / attn.rescale_output_factor
        return result


def activate(model: Any) -> None:
    """Gives every attention layer of a model the processor; ``model.set_default_attn_processor()`` takes it back."""
    model.set_attn_processor(WaveattnProcessor())
