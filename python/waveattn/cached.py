"""``flash_attention`` over a cache of int8 or fp8 tokens: many queries at once, as in the prefill of a chat."""

from __future__ import annotations

from typing import Any

from . import _arrays, _core, _runtime, decoding


def attend(
    q: Any,
    cache: decoding._QuantizedKVCache,
    *,
    causal: str | None,
    scale: float | None,
    return_lse: bool,
    out: Any,
    backend: str,
    scores: str,
    device: str | None,
    stream: int | None,
) -> Any:
    """See ``flash_attention``."""
    if scores not in ("auto", "exact", "quantized"):
        raise ValueError(f"scores must be 'auto', 'exact' or 'quantized', got {scores!r}")
    if backend not in ("auto", "wmma"):
        raise NotImplementedError(f"attention over a cache runs on backend 'auto' or 'wmma', not {backend!r}; see decode")
    adapter = _arrays.adapter_of("q", q, stream)
    if _arrays.is_torch(q):
        from .torch_ops import check_no_gradient

        check_no_gradient(q)
    device = device or cache._device
    tensor = adapter.tensor("q", q)
    ordinal = _arrays.place(tensor.device, device)
    target = _runtime.target(ordinal)
    head_dim = max(cache.k_codes.shape[3], cache.v_codes.shape[3])
    refusal = None
    if target != "gfx1200":
        refusal = f"needs gfx1200, but {_runtime.device_in_words(ordinal)}"
    elif cache.dtype == "float8_e4m3fnuz":
        refusal = "supports int8 and float8_e4m3fn, got float8_e4m3fnuz"
    elif head_dim > 128:
        refusal = f"supports head_dim 1 to 128, got {head_dim}"
    if refusal is not None:
        if backend == "wmma":
            error = RuntimeError if target != "gfx1200" else NotImplementedError
            raise error(f"attention over a cache with backend='wmma' {refusal}")
        if scores == "quantized":
            raise NotImplementedError(f"attention with quantized scores {refusal}")
        return decoding.decode(
            q, cache, causal=causal, scale=scale, return_lse=return_lse, out=out, device=device, stream=stream  # type: ignore[arg-type]
        )

    def cached(name: str, array: Any) -> _core.Tensor:
        return adapter.tensor(name, array).narrow(2, 0, cache.length)

    call = _core.DecodeCall(
        tensor,
        cached("k", cache.k_codes),
        cached("v", cache.v_codes),
        cached("k_scale", cache.k_scale),
        cached("v_scale", cache.v_scale),
        None,
        causal,
        scale,
    )
    shape = tuple(q.shape)
    result = adapter.empty((*shape[:3], cache.v_codes.shape[3]), q) if out is None else out
    lse = adapter.empty(shape[:3], q, "float32") if return_lse else None
    call.set_outputs(
        adapter.tensor("out", result, writable=True),
        None if lse is None else adapter.tensor("lse", lse, writable=True),
        None,
        1,
    )
    if 0 not in shape[:3]:
        quantized = scores == "quantized" or (scores == "auto" and cache.dtype != "int8")
        _core.flash_attention_wmma_cached(call, quantized, ordinal, _arrays.stream_for(adapter, ordinal))
    if out is None:
        result = adapter.deliver(result, q)
    return (result, adapter.deliver(lse, q)) if return_lse else result
