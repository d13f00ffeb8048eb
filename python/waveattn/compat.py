"""Entry points with the conventions of other projects, so that their callers change an import and nothing else.

Each keeps its project's layout, names, defaults and causal alignment. Arguments that no kernel covers (dropout, masks,
windows, ...) raise NotImplementedError unless they have their neutral value.
"""

from __future__ import annotations

from typing import Any

from . import _arrays, _options
from .decoding import decode
from .functional import Causal, flash_attention


def _neutral(function: str, **arguments: tuple[Any, Any]) -> None:
    for name, (value, neutral) in arguments.items():
        if value is not neutral and value != neutral:
            raise NotImplementedError(f"{function}: {name}={value!r} is not supported, only {neutral!r}")


def _flash_attn_rule(function: str, causal: bool, window_size: Any) -> Causal | None:
    """flash-attn's causal flag and window, of which all keys and all keys up to the diagonal are covered."""
    window = tuple(window_size) if isinstance(window_size, (tuple, list)) else window_size
    if window not in ((-1, -1), (-1, 0)):
        raise NotImplementedError(f"{function}: window_size={window_size!r} is not supported, only (-1, -1)")
    return "bottom_right" if _options.flag("causal", causal) or window == (-1, 0) else None


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
    rule = _flash_attn_rule("flash_attn_func", causal, window_size)
    result = flash_attention(q, k, v, causal=rule, scale=softmax_scale, return_lse=return_attn_probs, layout="bshd")
    return (*result, None) if return_attn_probs else result


def flash_attn_with_kvcache(
    q: Any,
    k_cache: Any,
    v_cache: Any,
    k: Any = None,
    v: Any = None,
    rotary_cos: Any = None,
    rotary_sin: Any = None,
    cache_seqlens: Any = None,
    cache_batch_idx: Any = None,
    cache_leftpad: Any = None,
    block_table: Any = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Any = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """As ``flash_attn.flash_attn_with_kvcache`` over a cache that holds its tokens already, by ``waveattn.decode``.

    ``q`` (batch, queries, heads, head_dim), ``k_cache`` and ``v_cache`` (batch, capacity, kv_heads, head_dim), all of one
    dtype. ``cache_seqlens``: the tokens in use, an integer or int32 (batch); default all. ``causal``: the queries are the
    newest tokens. Returns the output, or with ``return_softmax_lse`` (output, lse (batch, heads, queries)).

    New keys and values are not appended: write them into the caches before the call, and count them in ``cache_seqlens``.
    Rotary embeddings, block tables, batch indices, padding on the left, windows and soft caps raise NotImplementedError;
    ``waveattn.PagedKVCache`` has pages.
    """
    name = "flash_attn_with_kvcache"
    if k is not None or v is not None:
        raise NotImplementedError(f"{name}: k and v are not appended; write them into k_cache and v_cache before the call")
    _neutral(
        name,
        rotary_cos=(rotary_cos, None),
        rotary_sin=(rotary_sin, None),
        cache_batch_idx=(cache_batch_idx, None),
        cache_leftpad=(cache_leftpad, None),
        block_table=(block_table, None),
        softcap=(softcap, 0.0),
        alibi_slopes=(alibi_slopes, None),
    )
    rule = _flash_attn_rule(name, causal, window_size)
    tensors = {"q": q, "k_cache": k_cache, "v_cache": v_cache}
    for argument, tensor in tensors.items():
        if not hasattr(tensor, "swapaxes"):
            raise TypeError(f"{argument} must be a tensor with axes to exchange (torch, numpy), got {type(tensor).__name__}")
        if len(tensor.shape) != 4:
            raise ValueError(f"{argument} must be (batch, tokens, heads, head_dim), got shape {tuple(tensor.shape)}")
    one_length = cache_seqlens is None or getattr(cache_seqlens, "ndim", 0) == 0
    out = _arrays.adapter_of("q", q, None).empty((*q.shape[:3], v_cache.shape[3]), q)
    result = decode(
        *(tensor.swapaxes(1, 2) for tensor in tensors.values()),
        kv_len=cache_seqlens if one_length else None,
        kv_lens=None if one_length else cache_seqlens,
        causal=rule,
        scale=softmax_scale,
        return_lse=return_softmax_lse,
        out=out.swapaxes(1, 2),
        splits=num_splits,
    )
    return (out, result[1]) if _options.flag("return_softmax_lse", return_softmax_lse) else out


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
