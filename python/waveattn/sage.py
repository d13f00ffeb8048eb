"""Sage attention on gfx942 and gfx950: int8 scores, fp8 values, quantised on the device."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from . import _arrays, _core, _runtime
from .functional import check_options

Causal = Literal["top_left", "bottom_right"] | None


@dataclasses.dataclass
class SageQuantized:
    """q, k and v quantised by ``sage_quantize``, in one buffer. Keep it as long as attention on it is pending."""

    buffer: Any
    batch: int
    heads_q: int
    heads_kv: int
    q_len: int
    kv_len: int
    head_dim: int
    dtype: str
    scale: float | None
    smooth_k: bool
    smooth_q: bool
    hadamard: bool
    q_scales: str
    lse_shift: bool
    cu_q: Any = None
    cu_k: Any = None
    sequences: int = 0
    max_q: int = 0
    max_k: int = 0
    #: Target that they were made for: their fp8 format depends on it.
    target: str = ""

    def _call(self, causal: str | None = None) -> _core.SageCall:
        shape = (self.batch, self.heads_q, self.heads_kv, self.q_len, self.kv_len, self.head_dim)
        return _core.SageCall(
            shape,
            causal,
            self.scale,
            self.smooth_k,
            self.smooth_q,
            self.hadamard,
            self.q_scales,
            self.lse_shift,
            self.sequences,
            self.max_q,
            self.max_k,
        )

    @property
    def layout(self) -> dict[str, int]:
        """Where each operand lies in ``buffer``: byte offsets (-1: not made) and sizes of axes."""
        return dict(self._call().layout)


def _prepare(
    adapter: _arrays.Adapter,
    q: Any,
    k: Any,
    v: Any,
    layout: str,
    device: str | None,
    cu_q: Any = None,
    cu_k: Any = None,
    max_q: int = 0,
    max_k: int = 0,
    **options: Any,
) -> tuple[SageQuantized, int]:
    """Checks, quantises, and returns the operands with the ordinal that they were made on."""
    if layout not in ("bhsd", "bshd"):
        raise ValueError(f"layout must be 'bhsd' or 'bshd', got {layout!r}")
    if _arrays.is_torch(q):
        from .torch_ops import check_no_gradient

        check_no_gradient(q, k, v)
    packed = cu_q is not None
    query, key, value = adapter.tensor("q", q), adapter.tensor("k", k), adapter.tensor("v", v)
    rank = 3 if packed else 4
    for name, tensor in (("q", query), ("k", key), ("v", value)):
        if tensor.ndim != rank:
            raise ValueError(f"{name} must have {rank} dimensions, got shape {tuple(tensor.shape)}")
    if query.dtype_name not in ("bfloat16", "float16", "float32"):
        raise NotImplementedError(f"Sage attention supports bfloat16, float16 and float32, got {query.dtype_name}")
    ordinal = _arrays.place(query.device, device)
    token, head = (0, 1) if packed else (2, 1) if layout == "bhsd" else (1, 2)
    operands = SageQuantized(
        buffer=None,
        batch=1 if packed else query.shape[0],
        heads_q=query.shape[head],
        heads_kv=key.shape[head],
        q_len=query.shape[token],
        kv_len=key.shape[token],
        head_dim=query.shape[-1],
        dtype=query.dtype_name,
        cu_q=cu_q,
        cu_k=cu_k,
        max_q=max_q,
        max_k=max_k,
        target=_runtime.target(ordinal),
        **options,
    )
    sequences = None
    if packed:
        sequences = (adapter.tensor("cu_seqlens_q", cu_q), adapter.tensor("cu_seqlens_k", cu_k))
        operands.sequences = max(sequences[0].shape[0] - 1, 0)
        if operands.sequences == 0:
            raise ValueError("cu_seqlens_q must hold at least two offsets")
    call = operands._call()
    operands.buffer = adapter.empty((call.buffer_bytes,), q, "int8")
    _core.sage_quantize(
        call,
        query,
        key,
        value,
        layout == "bshd",
        adapter.tensor("buffer", operands.buffer, writable=True),
        sequences[0] if sequences else None,
        sequences[1] if sequences else None,
        ordinal,
        _arrays.stream_for(adapter, ordinal),
    )
    return operands, ordinal


def _attend(
    adapter: _arrays.Adapter,
    operands: SageQuantized,
    causal: str | None,
    return_lse: bool,
    layout: str,
    out: Any,
    ordinal: int,
) -> Any:
    check_options(causal=causal, scale=None, device=None)
    if out is not None and _arrays.is_torch(out):
        from .torch_ops import check_no_gradient

        check_no_gradient(out)
    packed = operands.cu_q is not None
    heads_tokens = (operands.heads_q, operands.q_len)
    if packed:
        shape: tuple[int, ...] = (operands.q_len, operands.heads_q, operands.head_dim)
    elif layout == "bhsd":
        shape = (operands.batch, *heads_tokens, operands.head_dim)
    else:
        shape = (operands.batch, operands.q_len, operands.heads_q, operands.head_dim)
    like = operands.buffer
    result = adapter.empty(shape, like, operands.dtype) if out is None else out
    lse = adapter.empty((operands.batch, *heads_tokens), like, "float32") if return_lse else None
    _core.sage_attention_quantized(
        operands._call(causal),
        adapter.tensor("buffer", operands.buffer),
        adapter.tensor("out", result, writable=True),
        layout == "bshd",
        adapter.tensor("lse", lse, writable=True) if return_lse else None,
        adapter.tensor("cu_seqlens_q", operands.cu_q) if packed else None,
        adapter.tensor("cu_seqlens_k", operands.cu_k) if packed else None,
        ordinal,
        _arrays.stream_for(adapter, ordinal),
    )
    if packed and return_lse:
        lse = lse[0]  # type: ignore[index]
    return (result, lse) if return_lse else result


def sage_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: Causal = None,
    scale: float | None = None,
    smooth_k: bool = True,
    smooth_q: bool = False,
    hadamard: bool = False,
    return_lse: bool = False,
    layout: Literal["bhsd", "bshd"] = "bhsd",
    out: Any = None,
    q_scales: Literal["block", "warp", "thread"] = "block",
    device: str | None = None,
    stream: int | None = None,
) -> Any:
    """Attention with int8 scores and fp8 values, quantised here: faster and coarser than ``flash_attention``.

    Runs on gfx942 and gfx950, head_dim 1 to 128. ``smooth_k`` subtracts the mean of k over the keys, which costs nothing
    in accuracy and removes offsets; ``smooth_q`` subtracts the mean of q over 128 rows and adds its scores back;
    ``hadamard`` rotates q and k, which spreads outlying channels. ``q_scales``: rows of q that share a scale: 128, 32, or
    every eighth of 32. On Gaussian inputs the result is within 4 % of the exact one (relative L2).

    Shapes, ``causal``, ``scale``, ``return_lse``, ``layout``, ``out``, ``device``, ``stream`` and the errors are those of
    ``flash_attention``; q, k and v have one head_dim. The quantised operands lie in a buffer allocated here.
    """
    adapter = _arrays.adapter_of("q", q, stream)
    operands, ordinal = _prepare(
        adapter,
        q,
        k,
        v,
        layout,
        device,
        scale=scale,
        smooth_k=smooth_k,
        smooth_q=smooth_q,
        hadamard=hadamard,
        q_scales=q_scales,
        lse_shift=return_lse,
    )
    return _attend(adapter, operands, causal, return_lse, layout, out, ordinal)


def sage_attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: Causal = None,
    scale: float | None = None,
    smooth_k: bool = True,
    smooth_q: bool = False,
    hadamard: bool = False,
    return_lse: bool = False,
    out: Any = None,
    device: str | None = None,
    stream: int | None = None,
) -> Any:
    """``sage_attention`` of packed sequences: q (tokens, Hq, D), k and v (tokens, Hkv, D).

    ``cu_seqlens_*``: int32, where each sequence starts, and the end of the last. ``max_seqlen_*``: the longest sequence, or
    more; longer ones are not computed whole. The mean of k is taken over each sequence. The LSE is (Hq, tokens).
    """
    adapter = _arrays.adapter_of("q", q, stream)
    operands, ordinal = _prepare(
        adapter,
        q,
        k,
        v,
        "bhsd",
        device,
        cu_q=cu_seqlens_q,
        cu_k=cu_seqlens_k,
        max_q=max_seqlen_q,
        max_k=max_seqlen_k,
        scale=scale,
        smooth_k=smooth_k,
        smooth_q=smooth_q,
        hadamard=hadamard,
        q_scales="block",
        lse_shift=return_lse,
    )
    return _attend(adapter, operands, causal, return_lse, "bhsd", out, ordinal)


def sage_quantize(
    q: Any,
    k: Any,
    v: Any,
    *,
    scale: float | None = None,
    smooth_k: bool = True,
    smooth_q: bool = False,
    hadamard: bool = False,
    lse: bool = False,
    layout: Literal["bhsd", "bshd"] = "bhsd",
    q_scales: Literal["block", "warp", "thread"] = "block",
    device: str | None = None,
    stream: int | None = None,
) -> SageQuantized:
    """The quantised operands of ``sage_attention``, for ``sage_attention_quantized``. ``lse``: with what its LSE needs.

    They depend on the fp8 format of the device: FNUZ on gfx942, OCP on gfx950.
    """
    adapter = _arrays.adapter_of("q", q, stream)
    return _prepare(
        adapter,
        q,
        k,
        v,
        layout,
        device,
        scale=scale,
        smooth_k=smooth_k,
        smooth_q=smooth_q,
        hadamard=hadamard,
        q_scales=q_scales,
        lse_shift=lse,
    )[0]


def sage_attention_quantized(
    operands: SageQuantized,
    *,
    causal: Causal = None,
    return_lse: bool = False,
    layout: Literal["bhsd", "bshd"] = "bhsd",
    out: Any = None,
    device: str | None = None,
    stream: int | None = None,
) -> Any:
    """Attention on the operands of ``sage_quantize``; ``device`` as there."""
    if not isinstance(operands, SageQuantized):
        raise TypeError(f"operands must come from sage_quantize, got {type(operands).__name__}")
    if return_lse and operands.smooth_k and not operands.lse_shift:
        raise ValueError("the LSE of smoothed keys needs sage_quantize(..., lse=True)")
    adapter = _arrays.adapter_of("operands.buffer", operands.buffer, stream)
    ordinal = _arrays.place(adapter.tensor("buffer", operands.buffer).device, device)
    if _runtime.target(ordinal) != operands.target:
        raise ValueError(f"operands were quantised for {operands.target}, the device is {_runtime.target(ordinal)}")
    return _attend(adapter, operands, causal, return_lse, layout, out, ordinal)


def sageattn(
    q: Any,
    k: Any,
    v: Any,
    tensor_layout: str = "HND",
    is_causal: bool = False,
    sm_scale: float | None = None,
    return_lse: bool = False,
    smooth_k: bool = True,
    **ignored: Any,
) -> Any:
    """``sage_attention`` with the arguments of SageAttention's ``sageattn``: layouts ``"HND"`` and ``"NHD"``, causal j <= i.

    Other keyword arguments of that function choose kernels of other devices and are ignored.
    """
    if tensor_layout not in ("HND", "NHD"):
        raise ValueError(f"tensor_layout must be 'HND' or 'NHD', got {tensor_layout!r}")
    return sage_attention(
        q,
        k,
        v,
        causal="top_left" if is_causal else None,
        scale=sm_scale,
        smooth_k=smooth_k,
        return_lse=return_lse,
        layout="bhsd" if tensor_layout == "HND" else "bshd",
    )
