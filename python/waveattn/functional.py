"""The functional interface: flash_attention and softmax."""

from __future__ import annotations

from typing import Any, Literal

from . import _arrays, _core, _options, _registry

Causal = Literal["top_left", "bottom_right"]
Layout = Literal["bhsd", "bshd"]


def _run_attention(
    adapter: _arrays.Adapter,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    causal: str | None,
    scale: float | None,
    return_lse: bool,
    layout: str,
    backend: str,
    device: str | None,
) -> tuple[Any, Any]:
    if getattr(q, "dtype", None) != getattr(k, "dtype", None) or getattr(q, "dtype", None) != getattr(v, "dtype", None):
        for name, other in (("k", k), ("v", v)):
            if _arrays.is_torch(other) != _arrays.is_torch(q):
                raise TypeError(f"{name} must be of the framework of q, {type(q).__module__}, got {type(other).__module__}.{type(other).__name__}")
        names = [str(getattr(x, "dtype", type(x).__name__)) for x in (q, k, v)]
        raise TypeError(f"q, k and v must be tensors of the same dtype, got {', '.join(names)}")
    problem = _core.AttentionProblem(
        adapter.tensor("q", q), adapter.tensor("k", k), adapter.tensor("v", v), causal, scale, layout
    )
    ordinal = _arrays.place(problem.device, device)
    chosen = _registry.choose("flash_attention", backend, problem, ordinal)
    if out is None:
        rows = (problem.q_len, problem.heads_q) if layout == "bshd" else (problem.heads_q, problem.q_len)
        out = adapter.empty((problem.batch, *rows, problem.head_dim_v), q)
    problem.set_out(adapter.tensor("out", out, writable=True))
    lse = None
    if return_lse:
        lse = adapter.empty((problem.batch, problem.heads_q, problem.q_len), q, "float32")
        problem.set_lse(adapter.tensor("lse", lse, writable=True))
    if problem.batch and problem.heads_q and problem.q_len:
        chosen.run(problem, ordinal, _arrays.stream_for(adapter, ordinal))
    return out, lse


def check_number(name: str, value: Any) -> None:
    """Raises unless `value` is one number that a float can hold."""
    if isinstance(value, float):  # first, for torch.compile's symbolic numbers have no attributes to look for
        return
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        if not isinstance(value, int) and getattr(value, "ndim", 0) != 0:
            raise TypeError
        float(value)
    except OverflowError:
        raise ValueError(f"{name} must be finite, but no float is as large") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, got {value!r}") from None


def check_options(*, causal: Any, scale: Any, device: Any, layout: Any = "bhsd", backend: Any = "auto") -> None:
    """Types of the options, in words of this function: torch's dispatcher and the extension speak of signatures."""
    if causal is not None and not isinstance(causal, str):
        raise TypeError(f"causal must be None, 'top_left' (as torch) or 'bottom_right' (as flash-attn), got {causal!r}")
    for name, value in (("layout", layout), ("backend", backend)):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a string, got {value!r}")
    if scale is not None:
        check_number("scale", scale)
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device must be the name of an emulated target, such as 'gfx942', got {device!r}")


def flash_attention(
    q: Any,
    k: Any,
    v: Any = None,
    *,
    causal: Causal | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    out: Any = None,
    layout: Layout = "bhsd",
    backend: str = "auto",
    scores: Literal["auto", "exact", "quantized"] = "auto",
    basis: Literal["online", "pinned"] = "online",
    xcd_swizzle: Literal["auto", "on", "off"] = "auto",
    device: str | None = None,
    stream: int | None = None,
) -> Any:
    """``softmax(scale * q @ k.T + mask) @ v``, fused.

    Shapes, for ``layout="bhsd"``: ``q`` (B, Hq, Sq, D), ``k`` (B, Hkv, Sk, D), ``v`` (B, Hkv, Sk, Dv), result
    (B, Hq, Sq, Dv); for ``"bshd"`` with the axes of heads and tokens exchanged. Any strides, except that the last one is
    1; nothing is copied. Hq is a multiple of Hkv: query head h uses KV head ``h // (Hq // Hkv)``.

    ``causal``: which keys j query i sees: None all, ``"top_left"`` j <= i (as torch SDPA), ``"bottom_right"``
    j <= i + Sk - Sq (as FlashAttention). ``scale``: of the scores, default 1/sqrt(D); any finite number.

    ``return_lse``: also return the natural logarithm of the sum of exponentials of the scaled and masked scores,
    float32 (B, Hq, Sq). A query that sees no key has the result 0 and the LSE -inf.

    ``out``: where to write the result: same shape, dtype and device. It must share no element with the inputs, but may lie
    between theirs, as a part of one packed tensor.

    ``backend``: ``"auto"``, ``"scalar"`` or another kernel of ``waveattn.info()["backends"]``. ``auto`` takes the
    matrix kernel of the device where one covers the call, else the scalar one.

    ``k`` may be an ``Int8KVCache`` or ``Fp8KVCache``, and ``v`` is then left out: attention over the tokens in use, on
    gfx1200 by matrix instructions, elsewhere as ``decode``. ``scores``, on gfx1200: ``"exact"`` multiplies q by the
    codes in 16 bits, ``"quantized"`` in the 8 bits of the cache, with q quantised for each row; ``"auto"`` takes 8 bits
    for fp8 and 16 for int8.

    ``basis``, ``xcd_swizzle``: settings of the dual-wave kernel (gfx950, gfx942), see ``waveattn.dualwave.attend``; other
    than the defaults, they need ``backend`` ``"dualwave"`` or ``"auto"``.

    Tensors may be torch, numpy, or anything that speaks DLPack, all of one framework. GPU tensors are computed on their
    device; torch's on its current stream, others on ``stream`` (a HIP stream as an integer, default: cupy's current
    stream, else the null stream). Nothing is synchronised. CPU tensors are computed on an emulated device, chosen by
    ``device`` ("gfx1030", "gfx1200", "gfx942", "gfx950") or WAVEATTN_EMULATED_DEVICE, default gfx942.

    dtypes: float32, bfloat16, float16, the same for q, k and v; more by backend.

    Raises TypeError for what is no tensor and for differing dtypes; ValueError for shapes, strides, devices and values;
    NotImplementedError for what no kernel covers, and for tensors that require a gradient; RuntimeError where a device
    or the HIP runtime is missing or fails.
    """
    from .decoding import _QuantizedKVCache

    check_options(causal=causal, layout=layout, backend=backend, scale=scale, device=device)
    return_lse = _options.flag("return_lse", return_lse)
    _options.choice("scores", scores, ("auto", "exact", "quantized"))
    _options.choice("basis", basis, ("online", "pinned"))
    _options.choice("xcd_swizzle", xcd_swizzle, ("auto", "on", "off"))
    if isinstance(k, _QuantizedKVCache):
        if (basis, xcd_swizzle) != ("online", "auto"):
            raise NotImplementedError("attention over a cache has no basis and no xcd_swizzle")
        from . import cached

        if v is not None:
            raise TypeError("a cache holds keys and values: v must be left out")
        if layout != "bhsd":
            raise NotImplementedError(f"attention over a cache takes layout 'bhsd', not {layout!r}")
        return cached.attend(
            q,
            k,
            causal=causal,
            scale=scale,
            return_lse=return_lse,
            out=out,
            backend=backend,
            scores=scores,
            device=device,
            stream=stream,
        )
    if v is None:
        raise TypeError("v is missing: only caches hold keys and values")
    if scores != "auto":
        raise NotImplementedError(f"scores={scores!r} is a setting of attention over an Int8KVCache or Fp8KVCache")
    if (basis, xcd_swizzle) != ("online", "auto"):
        from . import dualwave

        if backend not in ("auto", "dualwave"):
            raise NotImplementedError(f"basis and xcd_swizzle are settings of backend 'dualwave', not of {backend!r}")
        return dualwave.attend(
            q,
            k,
            v,
            causal=causal,
            scale=scale,
            return_lse=return_lse,
            out=out,
            layout=layout,
            basis=basis,
            xcd_swizzle=xcd_swizzle,
            device=device,
            stream=stream,
        )
    adapter = _arrays.adapter_of("q", q, stream)
    if _arrays.is_torch(q):
        from . import torch_ops

        return torch_ops.flash_attention(q, k, v, causal, scale, return_lse, out, layout, backend, device)
    result, lse = _run_attention(adapter, q, k, v, out, causal, scale, return_lse, layout, backend, device)
    if out is None:
        result = adapter.deliver(result, q)
    return (result, adapter.deliver(lse, q)) if return_lse else result


def run_softmax(adapter: _arrays.Adapter, x: Any, out: Any, device: str | None) -> Any:
    """Checks and launches; returns the result."""
    source = adapter.tensor("x", x)
    if source.dtype_name not in ("float32", "bfloat16", "float16"):
        raise NotImplementedError(f"softmax supports float32, bfloat16 and float16, got {source.dtype_name}")
    if not 1 <= source.ndim <= 4:
        raise ValueError(f"x must have 1 to 4 dimensions, got {source.ndim}")
    ordinal = _arrays.place(source.device, device)
    if out is None:
        out = adapter.empty(source.shape, x)
    target = adapter.tensor("out", out, writable=True)
    if target.device != source.device:
        raise ValueError("out must be on the device of x")
    _core.softmax(source, target, ordinal, _arrays.stream_for(adapter, ordinal))
    return out


def softmax(x: Any, *, out: Any = None, device: str | None = None, stream: int | None = None) -> Any:
    """``exp(x) / sum(exp(x))`` along the last axis, in float32 arithmetic.

    ``x``: 1 to 4 dimensions, float32, bfloat16 or float16, last stride 1; the result has its shape and dtype. A row with
    a NaN or +inf, or of -inf only, becomes NaN. The other arguments and the errors are those of ``flash_attention``.
    """
    _options.check_device(device)
    adapter = _arrays.adapter_of("x", x, stream)
    if _arrays.is_torch(x):
        from . import torch_ops

        return torch_ops.softmax(x, out, device)
    result = run_softmax(adapter, x, out, device)
    return result if out is not None else adapter.deliver(result, x)
