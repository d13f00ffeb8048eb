"""Entry points with the conventions of other projects, so that their callers change an import and nothing else.

Each keeps its project's layout, names, defaults and causal alignment. Arguments that no kernel covers (dropout, masks,
windows, ...) raise NotImplementedError unless they have their neutral value.
"""

from __future__ import annotations

from typing import Any

from . import _options
from .functional import flash_attention


def _neutral(function: str, **arguments: tuple[Any, Any]) -> None:
    for name, (value, neutral) in arguments.items():
        if value is not neutral and value != neutral:
            raise NotImplementedError(f"{function}: {name}={value!r} is not supported, only {neutral!r}")


def flash_attn_func(
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Any = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """As ``flash_attn.flash_attn_func``: tensors (batch, tokens, heads, head_dim), causal aligned to the bottom right.

    Returns the output, or with ``return_attn_probs`` (output, lse, None). The LSE of a row that sees no key is -inf.
    Results are deterministic whatever ``deterministic`` says.
    """
    _neutral(
        "flash_attn_func",
        dropout_p=(dropout_p, 0.0),
        softcap=(softcap, 0.0),
        alibi_slopes=(alibi_slopes, None),
    )
    window = tuple(window_size) if isinstance(window_size, (tuple, list)) else window_size
    if window not in ((-1, -1), (-1, 0)):
        raise NotImplementedError(f"flash_attn_func: window_size={window_size!r} is not supported, only (-1, -1)")
    causal = _options.flag("causal", causal)
    rule = "bottom_right" if causal or window == (-1, 0) else None
    result = flash_attention(
        q, k, v, causal=rule, scale=softmax_scale, return_lse=return_attn_probs, layout="bshd"  # type: ignore[arg-type]
    )
    return (*result, None) if return_attn_probs else result


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """As ``torch.nn.functional.scaled_dot_product_attention``: (batch, heads, tokens, head_dim), causal aligned top left.

    Different numbers of heads need ``enable_gqa``, as in torch.
    """
    is_causal, enable_gqa = _options.flag("is_causal", is_causal), _options.flag("enable_gqa", enable_gqa)
    if attn_mask is not None and is_causal:
        raise ValueError("scaled_dot_product_attention: attn_mask and is_causal exclude one another")
    if attn_mask is not None:
        raise NotImplementedError("scaled_dot_product_attention: attn_mask is not supported, only is_causal")
    _neutral("scaled_dot_product_attention", dropout_p=(dropout_p, 0.0))
    heads = [x.shape[1] for x in (query, key) if len(getattr(x, "shape", ())) == 4]
    if not enable_gqa and len(heads) == 2 and heads[0] != heads[1]:
        raise ValueError(f"query has {heads[0]} heads and key {heads[1]}: pass enable_gqa=True for grouped heads")
    return flash_attention(query, key, value, causal="top_left" if is_causal else None, scale=scale)


#: Short name of ``scaled_dot_product_attention``.
sdpa = scaled_dot_product_attention
