"""Sage attention on gfx942 and gfx950: int8 scores, fp8 values, quantised on the device."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, Literal

from . import _arrays, _core, _options, _runtime
from .functional import check_options

Causal = Literal["top_left", "bottom_right"] | None
_DTYPES = ("bfloat16", "float16", "float32")
#: SageAttention's names of ``q_scales``.
_Q_SCALES: dict[str, Literal["block", "warp", "thread"]] = {"per_block": "block", "per_warp": "warp", "per_thread": "thread"}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How operands are quantised; ``lse``: with what the LSE needs."""

    scale: float | None
    smooth_k: bool
    smooth_q: bool
    hadamard: bool
    lse: bool
    q_scales: str


@dataclasses.dataclass(frozen=True)
class Packed:
    """Where packed sequences start, and the longest one's length or more, of q and of k."""

    cu_q: Any
    cu_k: Any
    max_q: int
    max_k: int


@dataclasses.dataclass(eq=False)
class SageQuantized:
    """q, k and v quantised by ``sage_quantize``, in one buffer. Keep it as long as attention on it is pending.

    Made by ``sage_quantize`` only; its fields are for reading.
    """

    buffer: Any
    #: (batch, heads of q, heads of k and v, length of q, length of k and v, head_dim)
    shape: tuple[int, int, int, int, int, int]
    dtype: str
    recipe: Recipe
    #: Target that they were made for: their fp8 format depends on it.
    target: str
    packed: Packed | None = None
    sequences: int = 0

    def _call(self, causal: str | None = None) -> _core.SageCall:
        r, p = self.recipe, self.packed
        lengths = (self.sequences, p.max_q, p.max_k) if p else (0, 0, 0)
        return _core.SageCall(
            self.shape, causal, r.scale, r.smooth_k, r.smooth_q, r.hadamard, r.q_scales, r.lse, *lengths
        )

    @property
    def layout(self) -> dict[str, int]:
        """Where each operand lies in ``buffer``: byte offsets (-1: not made) and sizes of axes."""
        return dict(self._call().layout)


def _check_layout(layout: Any) -> None:
    _options.choice("layout", layout, ("bhsd", "bshd"))


def _recipe(scale: float | None, q_scales: Any, smooth_k: Any, smooth_q: Any, hadamard: Any, **lse: Any) -> Recipe:
    """Checks the options by name and type; ``lse`` is one flag, under the name that the caller's function gives it."""
    _options.choice("q_scales", q_scales, tuple(_Q_SCALES.values()))
    flags = {"smooth_k": smooth_k, "smooth_q": smooth_q, "hadamard": hadamard, **lse}
    smooth_k, smooth_q, hadamard, with_lse = (_options.flag(name, value) for name, value in flags.items())
    return Recipe(scale, smooth_k, smooth_q, hadamard, with_lse, q_scales)


def length(name: str, value: Any) -> int:
    """A longest length, cut to what torch's operations and the extension take."""
    try:
        result = operator.index(value)
    except TypeError:
        result = None
    if result is None or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if result < 0:
        raise ValueError(f"{name} must not be negative, got {result}")
    return min(result, 2**40)


def _offsets(adapter: _arrays.Adapter, name: str, array: Any) -> _core.Tensor:
    """Offsets of packed sequences; those of an element type that the extension has no name for are refused like others."""
    try:
        return adapter.tensor(name, array)
    except NotImplementedError:
        raise TypeError(f"{name} must have dtype int32, got {getattr(array, 'dtype', 'another')}") from None


def _describe(
    adapter: _arrays.Adapter,
    q: Any,
    k: Any,
    v: Any,
    recipe: Recipe,
    layout: str,
    device: str | None,
    packed: Packed | None,
) -> tuple[SageQuantized, tuple[_core.Tensor, ...], int]:
    """The operands without their buffer, q, k and v for the extension, and the ordinal that the call runs on."""
    _check_layout(layout)
    tensors = tuple(adapter.tensor(name, x) for name, x in (("q", q), ("k", k), ("v", v)))
    rank = 3 if packed else 4
    for name, tensor in zip("qkv", tensors):
        if tensor.ndim != rank:
            raise ValueError(f"{name} must have {rank} dimensions, got shape {tuple(tensor.shape)}")
    query, key, _ = tensors
    if query.dtype_name not in _DTYPES:
        raise NotImplementedError(f"Sage attention supports {', '.join(_DTYPES)}, got {query.dtype_name}")
    ordinal = _arrays.place(query.device, device)
    token, head = (0, 1) if packed else (2, 1) if layout == "bhsd" else (1, 2)
    batch, q_len, kv_len = 1 if packed else query.shape[0], query.shape[token], key.shape[token]
    operands = SageQuantized(
        buffer=None,
        shape=(batch, query.shape[head], key.shape[head], q_len, kv_len, query.shape[-1]),
        dtype=query.dtype_name,
        recipe=recipe,
        target=_runtime.target(ordinal),
    )
    if packed:
        max_q = min(length("max_seqlen_q", packed.max_q), q_len)
        max_k = min(length("max_seqlen_k", packed.max_k), kv_len)
        operands.packed = dataclasses.replace(packed, max_q=max_q, max_k=max_k)
        starts = _offsets(adapter, "cu_seqlens_q", packed.cu_q)
        if starts.ndim != 1 or starts.shape[0] < 2:
            raise ValueError(f"cu_seqlens_q must hold at least two offsets, got shape {tuple(starts.shape)}")
        operands.sequences = starts.shape[0] - 1
    return operands, tensors, ordinal


def _launch(
    adapter: _arrays.Adapter,
    operands: SageQuantized,
    tensors: tuple[_core.Tensor, ...] | None,
    ordinal: int,
    like: Any,
    layout: str,
    causal: str | None = None,
    out: Any = None,
    attend: bool = True,
    return_lse: bool = False,
) -> tuple[Any, Any]:
    """Quantises ``tensors``, unless they are None, and attends on the operands where ``attend``: out and lse."""
    batch, heads, _, q_len, _, head_dim = operands.shape
    packed = operands.packed
    call = operands._call(causal)
    if operands.buffer is None:
        operands.buffer = adapter.empty((call.buffer_bytes,), like, "int8")
    lse = None
    if attend:
        if out is None:
            rows = (heads, q_len) if layout == "bhsd" else (q_len, heads)
            shape = (q_len, heads, head_dim) if packed else (batch, *rows, head_dim)
            out = adapter.empty(shape, like, operands.dtype)
        if return_lse:
            lse = adapter.empty((batch, heads, q_len), like, "float32")
    target = adapter.tensor("out", out, writable=True) if attend else None
    if target is not None and target.dtype_name != operands.dtype:
        raise TypeError(f"out must have dtype {operands.dtype}, got {target.dtype_name}")
    _core.sage_run(
        call,
        *(tensors or (None, None, None)),
        layout == "bshd",
        adapter.tensor("buffer", operands.buffer, writable=True),
        target,
        adapter.tensor("lse", lse, writable=True) if lse is not None else None,
        _offsets(adapter, "cu_seqlens_q", packed.cu_q) if packed else None,
        _offsets(adapter, "cu_seqlens_k", packed.cu_k) if packed else None,
        ordinal,
        _arrays.stream_for(adapter, ordinal),
    )
    return out, lse[0] if packed and lse is not None else lse


def run_attention(
    adapter: _arrays.Adapter,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    causal: str | None,
    recipe: Recipe,
    layout: str,
    device: str | None,
    packed: Packed | None = None,
) -> tuple[Any, Any]:
    """Quantises and attends: the result, and the LSE or None."""
    operands, tensors, ordinal = _describe(adapter, q, k, v, recipe, layout, device, packed)
    return _launch(adapter, operands, tensors, ordinal, q, layout, causal, out, return_lse=recipe.lse)


def _attend(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    causal: str | None,
    recipe: Recipe,
    layout: str,
    device: str | None,
    stream: int | None,
    packed: Packed | None = None,
) -> Any:
    adapter = _arrays.adapter_of("q", q, stream)
    if _arrays.is_torch(q):
        from . import torch_ops

        result, lse = torch_ops.sage_attention(q, k, v, out, causal, recipe, layout, device, packed)
    else:
        result, lse = run_attention(adapter, q, k, v, out, causal, recipe, layout, device, packed)
        if out is None:
            result = adapter.deliver(result, q)
        lse = adapter.deliver(lse, q) if recipe.lse else None
    return (result, lse) if recipe.lse else result


def _check_torch(first: Any, **others: Any) -> None:
    """Devices, kinds and gradients of torch tensors, in the words of every other function."""
    if _arrays.is_torch(first):
        from . import torch_ops

        torch_ops.check_tensors(first, **others)


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
    check_options(causal=causal, scale=scale, device=device)
    _check_layout(layout)
    recipe = _recipe(scale, q_scales, smooth_k, smooth_q, hadamard, return_lse=return_lse)
    return _attend(q, k, v, out, causal, recipe, layout, device, stream)


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
    q_scales: Literal["block", "warp", "thread"] = "block",
    device: str | None = None,
    stream: int | None = None,
) -> Any:
    """``sage_attention`` of packed sequences: q (tokens, Hq, D), k and v (tokens, Hkv, D).

    ``cu_seqlens_*``: int32, where each sequence starts, and the end of the last. ``max_seqlen_*``: the longest sequence, or
    more. Tokens of q that belong to no sequence have the result 0 and the LSE -inf. Offsets in host memory are checked;
    on a GPU wrong ones give wrong results, but nothing outside the tensors is touched, and of sequences longer than
    ``max_seqlen_*`` the rest counts as no sequence. The mean of k is taken over each sequence. The LSE is (Hq, tokens).
    """
    check_options(causal=causal, scale=scale, device=device)
    recipe = _recipe(scale, q_scales, smooth_k, smooth_q, hadamard, return_lse=return_lse)
    packed = Packed(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    return _attend(q, k, v, out, causal, recipe, "bhsd", device, stream, packed)


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
    check_options(causal=None, scale=scale, device=device)
    _check_layout(layout)
    recipe = _recipe(scale, q_scales, smooth_k, smooth_q, hadamard, lse=lse)
    adapter = _arrays.adapter_of("q", q, stream)
    _check_torch(q, k=k, v=v)
    operands, tensors, ordinal = _describe(adapter, q, k, v, recipe, layout, device, None)
    _launch(adapter, operands, tensors, ordinal, q, layout, attend=False)
    return operands


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
    check_options(causal=causal, scale=None, device=device)
    _check_layout(layout)
    return_lse = _options.flag("return_lse", return_lse)
    if return_lse and operands.recipe.smooth_k and not operands.recipe.lse:
        raise ValueError("the LSE of smoothed keys needs sage_quantize(..., lse=True)")
    adapter = _arrays.adapter_of("operands.buffer", operands.buffer, stream)
    ordinal = _arrays.place(adapter.tensor("operands.buffer", operands.buffer).device, device)
    if _runtime.target(ordinal) != operands.target:
        raise ValueError(f"operands were quantised for {operands.target}, the device is {_runtime.target(ordinal)}")
    _check_torch(operands.buffer, out=out)
    result, lse = _launch(
        adapter, operands, None, ordinal, operands.buffer, layout, causal, out, return_lse=return_lse
    )
    return (result, lse) if return_lse else result


def sageattn(
    q: Any,
    k: Any,
    v: Any,
    tensor_layout: str = "HND",
    is_causal: bool = False,
    sm_scale: float | None = None,
    return_lse: bool = False,
    smooth_k: bool = True,
    *,
    qk_quant_gran: str = "per_block",
    scale: float | None = None,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    pv_accum_dtype: Any = None,
    smooth_v: Any = None,
    quantization_backend: Any = None,
    enable_gqa: Any = None,
) -> Any:
    """``sage_attention`` with the arguments of SageAttention's ``sageattn``: layouts ``"HND"`` and ``"NHD"``, causal j <= i.

    ``qk_quant_gran``: ``"per_block"``, ``"per_warp"`` or ``"per_thread"``, the rows of q that share a scale. ``scale`` is
    torch's name of ``sm_scale``; a mask and dropout are refused. ``pv_accum_dtype``, ``smooth_v`` and
    ``quantization_backend`` choose kernels of other devices and are ignored, and so is torch's ``enable_gqa``: heads of
    k and v may always be fewer.
    """
    if tensor_layout not in ("HND", "NHD"):
        raise ValueError(f"tensor_layout must be 'HND' or 'NHD', got {tensor_layout!r}")
    if attn_mask is not None or dropout_p:
        raise NotImplementedError("Sage attention has neither attn_mask nor dropout")
    if scale is not None and sm_scale is not None:
        raise ValueError("sm_scale and scale are two names of the same number")
    if not isinstance(qk_quant_gran, str) or qk_quant_gran not in _Q_SCALES:
        raise ValueError(f"qk_quant_gran must be one of {', '.join(map(repr, _Q_SCALES))}, got {qk_quant_gran!r}")
    return sage_attention(
        q,
        k,
        v,
        causal="top_left" if _options.flag("is_causal", is_causal) else None,
        scale=sm_scale if scale is None else scale,
        smooth_k=smooth_k,
        return_lse=return_lse,
        layout="bhsd" if tensor_layout == "HND" else "bshd",
        q_scales=_Q_SCALES[qk_quant_gran],
    )
