"""The operations as ``torch.ops.waveattn.*``, so that torch.compile, export and FakeTensor understand them.

Imported when the first torch tensor arrives; import it yourself to use ``torch.ops.waveattn`` directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _arrays, decoding, functional, sage

_library = torch.library.Library("waveattn", "DEF")
_options = (
    'str? causal=None, float? scale=None, bool return_lse=False, str layout="bhsd", str backend="auto", str? device=None'
)
# An operation may not return one of its arguments, so the variant with out returns the LSE only.
_library.define(f"flash_attention(Tensor q, Tensor k, Tensor v, {_options}) -> (Tensor, Tensor)")
_library.define(f"flash_attention_out(Tensor q, Tensor k, Tensor v, Tensor(a!) out, {_options}) -> Tensor")
_decode_options = (
    "Tensor? k_scale=None, Tensor? v_scale=None, Tensor? kv_lens=None, int? kv_len=None, str? causal=None, "
    "float? scale=None, bool return_lse=False, int splits=0, str? device=None"
)
_library.define(f"decode(Tensor q, Tensor k, Tensor v, {_decode_options}) -> (Tensor, Tensor)")
_library.define(f"decode_out(Tensor q, Tensor k, Tensor v, Tensor(a!) out, {_decode_options}) -> Tensor")
_sage_options = (
    "str? causal=None, float? scale=None, bool smooth_k=True, bool smooth_q=False, bool hadamard=False, "
    'str q_scales="block", bool return_lse=False, str layout="bhsd", str? device=None'
)
_library.define(f"sage_attention(Tensor q, Tensor k, Tensor v, {_sage_options}) -> (Tensor, Tensor)")
_library.define(f"sage_attention_out(Tensor q, Tensor k, Tensor v, Tensor(a!) out, {_sage_options}) -> Tensor")
# Of packed sequences, (tokens, heads, dim); the layout is of no account.
_packed = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k"
_library.define(f"sage_attention_varlen(Tensor q, Tensor k, Tensor v, {_packed}, {_sage_options}) -> (Tensor, Tensor)")
_library.define(
    f"sage_attention_varlen_out(Tensor q, Tensor k, Tensor v, Tensor(a!) out, {_packed}, {_sage_options}) -> Tensor"
)
_library.define("softmax(Tensor x, str? device=None) -> Tensor")
_library.define("softmax_out(Tensor x, Tensor(a!) out, str? device=None) -> ()")


def _attend_into(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor | None,
    causal: str | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    layout: str = "bhsd",
    backend: str = "auto",
    device: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    result, lse = functional._run_attention(
        _arrays.torch_adapter(), q, k, v, out, causal, scale, return_lse, layout, backend, device
    )
    return result, q.new_empty(0, dtype=torch.float32) if lse is None else lse


def _implementation(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *options: Any, **named: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _attend_into(q, k, v, None, *options, **named)


def _implementation_out(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, *options: Any, **named: Any
) -> torch.Tensor:
    return _attend_into(q, k, v, out, *options, **named)[1]


def _check_traced(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rank: int = 4) -> None:
    """What is known without sizes; the rest is checked when the call runs."""
    if not q.dim() == k.dim() == v.dim() == rank:
        raise ValueError(f"q, k and v must have {rank} dimensions, got {q.dim()}, {k.dim()} and {v.dim()}")


def _fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: str | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    layout: str = "bhsd",
    backend: str = "auto",
    device: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    _check_traced(q, k, v)
    out = q.new_empty((*q.shape[:3], v.shape[3]))
    return out, _fake_lse(q, return_lse, layout)


def _fake_out(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, *options: Any, **named: Any
) -> torch.Tensor:
    return _fake(q, k, v, *options, **named)[1]


def _fake_lse(q: torch.Tensor, return_lse: bool, layout: str) -> torch.Tensor:
    batch, first, second, _ = q.shape
    heads, tokens = (second, first) if layout == "bshd" else (first, second)
    return q.new_empty((batch, heads, tokens) if return_lse else (0,), dtype=torch.float32)


def _decode_into(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor | None,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    kv_lens: torch.Tensor | None = None,
    kv_len: int | None = None,
    causal: str | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    splits: int = 0,
    device: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    result, lse = decoding.run_decode(
        _arrays.torch_adapter(),
        q,
        k,
        v,
        (k_scale, v_scale),
        kv_lens,
        kv_len,
        out,
        causal,
        scale,
        return_lse,
        splits,
        device,
    )
    return result, q.new_empty(0, dtype=torch.float32) if lse is None else lse


def _decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *options: Any, **named: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _decode_into(q, k, v, None, *options, **named)


def _decode_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, *options: Any, **named: Any) -> torch.Tensor:
    return _decode_into(q, k, v, out, *options, **named)[1]


def _fake_decode_lse(q: torch.Tensor, *options: Any, **named: Any) -> torch.Tensor:
    wanted = named.get("return_lse", options[6] if len(options) > 6 else False)
    return q.new_empty(q.shape[:3] if wanted else (0,), dtype=torch.float32)


def _fake_decode(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *options: Any, **named: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    _check_traced(q, k, v)
    return q.new_empty((*q.shape[:3], v.shape[3])), _fake_decode_lse(q, *options, **named)


def _fake_decode_out(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, *options: Any, **named: Any
) -> torch.Tensor:
    return _fake_decode_lse(q, *options, **named)


def _sage_into(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor | None,
    packed: sage.Packed | None,
    causal: str | None = None,
    scale: float | None = None,
    smooth_k: bool = True,
    smooth_q: bool = False,
    hadamard: bool = False,
    q_scales: str = "block",
    return_lse: bool = False,
    layout: str = "bhsd",
    device: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    recipe = sage.Recipe(scale, smooth_k, smooth_q, hadamard, return_lse, q_scales)
    result, lse = sage.run_attention(
        _arrays.torch_adapter(), q, k, v, out, causal, recipe, layout, device, packed
    )
    return result, q.new_empty(0, dtype=torch.float32) if lse is None else lse


def _sage(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *options: Any, **named: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _sage_into(q, k, v, None, None, *options, **named)


def _sage_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, *options: Any, **named: Any) -> torch.Tensor:
    return _sage_into(q, k, v, out, None, *options, **named)[1]


def _sage_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *options: Any,
    **named: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    packed = sage.Packed(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    return _sage_into(q, k, v, None, packed, *options, **named)


def _sage_varlen_out(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *options: Any,
    **named: Any,
) -> torch.Tensor:
    packed = sage.Packed(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    return _sage_into(q, k, v, out, packed, *options, **named)[1]


_SAGE_RETURN_LSE, _SAGE_LAYOUT = 6, 7  # among the options


def _fake_sage_lse(q: torch.Tensor, *options: Any, **named: Any) -> torch.Tensor:
    wanted = named.get("return_lse", options[_SAGE_RETURN_LSE] if len(options) > _SAGE_RETURN_LSE else False)
    if q.dim() == 3:
        return q.new_empty((q.shape[1], q.shape[0]) if wanted else (0,), dtype=torch.float32)
    layout = named.get("layout", options[_SAGE_LAYOUT] if len(options) > _SAGE_LAYOUT else "bhsd")
    return _fake_lse(q, wanted, layout)


def _fake_sage(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *options: Any, **named: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    _check_traced(q, k, v)
    return q.new_empty(q.shape), _fake_sage_lse(q, *options, **named)


def _fake_sage_varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *options: Any,
    **named: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    _check_traced(q, k, v, 3)
    return q.new_empty(q.shape), _fake_sage_lse(q, *options, **named)


def _softmax(x: torch.Tensor, device: str | None = None) -> torch.Tensor:
    result: torch.Tensor = functional.run_softmax(_arrays.torch_adapter(), x, None, device)
    return result


def _softmax_out(x: torch.Tensor, out: torch.Tensor, device: str | None = None) -> None:
    functional.run_softmax(_arrays.torch_adapter(), x, out, device)


_implementations: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "flash_attention": (_implementation, _fake),
    "flash_attention_out": (_implementation_out, _fake_out),
    "decode": (_decode, _fake_decode),
    "decode_out": (_decode_out, _fake_decode_out),
    "sage_attention": (_sage, _fake_sage),
    "sage_attention_out": (_sage_out, lambda q, k, v, out, *options, **named: _fake_sage(q, k, v, *options, **named)[1]),
    "sage_attention_varlen": (_sage_varlen, _fake_sage_varlen),
    "sage_attention_varlen_out": (
        _sage_varlen_out,
        lambda q, k, v, out, *rest, **named: _fake_sage_varlen(q, k, v, *rest, **named)[1],
    ),
    "softmax": (_softmax, lambda x, device=None: x.new_empty(x.shape)),
    "softmax_out": (_softmax_out, lambda x, out, device=None: None),
}


def _refusing_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """For variants with out, which autograd takes for constants where nobody says otherwise."""

    def checked(*arguments: Any, **named: Any) -> Any:
        check_no_gradient(*arguments, *named.values())
        return function(*arguments, **named)

    return checked


for _name, (_real, _of_fakes) in _implementations.items():
    for _key in ("CPU", "CUDA"):  # torch for ROCm uses the CUDA key
        _library.impl(_name, _refusing_gradients(_real) if _name.endswith("_out") else _real, _key)
    torch.library.register_fake(f"waveattn::{_name}", _of_fakes, lib=_library)


def check_no_gradient(*tensors: Any) -> None:
    """Raises NotImplementedError where autograd would expect a backward pass."""
    if torch.is_grad_enabled() and any(isinstance(t, torch.Tensor) and t.requires_grad for t in tensors):
        raise NotImplementedError(
            "waveattn has no backward pass: call it under torch.no_grad() or torch.inference_mode(), or .detach() the tensors"
        )


def flash_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: str | None,
    scale: float | None,
    return_lse: bool,
    out: torch.Tensor | None,
    layout: str,
    backend: str,
    device: str | None,
) -> Any:
    """``waveattn.flash_attention`` for torch tensors."""
    _check_same_device(q, k=k, v=v, out=out)
    check_no_gradient(q, k, v, out)
    options = (causal, scale, return_lse, layout, backend, device)
    if out is not None:
        lse = torch.ops.waveattn.flash_attention_out.default(q, k, v, out, *options)
        return (out, lse) if return_lse else out
    result, lse = torch.ops.waveattn.flash_attention.default(q, k, v, *options)
    return (result, lse) if return_lse else result


def _check_dense(name: str, tensor: torch.Tensor) -> None:
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        raise ValueError(f"{name} must be a dense tensor, got one that is nested, quantized or of layout {tensor.layout}")


def _check_same_device(first: torch.Tensor, *, first_name: str = "q", **others: Any) -> None:
    _check_dense(first_name, first)
    for name, tensor in others.items():
        if tensor is None:
            continue
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor like the first argument, got {type(tensor).__name__}")
        if tensor.device != first.device:
            raise ValueError(f"all tensors must be on the same device, got {first.device} and {tensor.device} for {name}")
        _check_dense(name, tensor)


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scales: tuple[Any, Any],
    kv_lens: torch.Tensor | None,
    kv_len: int | None,
    causal: str | None,
    scale: float | None,
    return_lse: bool,
    out: torch.Tensor | None,
    splits: int,
    device: str | None,
) -> Any:
    """``waveattn.decode`` for torch tensors."""
    _check_same_device(q, k=k, v=v, k_scale=scales[0], v_scale=scales[1], kv_lens=kv_lens, out=out)
    check_no_gradient(q, k, v, out)
    options = (*scales, kv_lens, kv_len, causal, scale, return_lse, splits, device)
    if out is not None:
        lse = torch.ops.waveattn.decode_out.default(q, k, v, out, *options)
        return (out, lse) if return_lse else out
    result, lse = torch.ops.waveattn.decode.default(q, k, v, *options)
    return (result, lse) if return_lse else result


def check_tensors(first: torch.Tensor, **others: Any) -> None:
    """Kinds, devices and gradients of the tensors of a call that is no operation."""
    _check_same_device(first, **others)
    check_no_gradient(first, *others.values())


def sage_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor | None,
    causal: str | None,
    recipe: sage.Recipe,
    layout: str,
    device: str | None,
    packed: sage.Packed | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``waveattn.sage_attention`` and, where ``packed`` is given, ``sage_attention_varlen`` for torch tensors."""
    starts = {"cu_seqlens_q": packed.cu_q, "cu_seqlens_k": packed.cu_k} if packed else {}
    for name, tensor in {"k": k, "v": v, **starts}.items():
        if tensor is None:
            raise TypeError(f"{name} must be a torch.Tensor like the first argument, got None")
    check_tensors(q, k=k, v=v, out=out, **starts)
    r = recipe
    options = (causal, r.scale, r.smooth_k, r.smooth_q, r.hadamard, r.q_scales, r.lse, layout, device)
    ops = torch.ops.waveattn
    if packed:
        lengths = tuple(sage.length(n, x) for n, x in (("max_seqlen_q", packed.max_q), ("max_seqlen_k", packed.max_k)))
        arguments = (packed.cu_q, packed.cu_k, *lengths, *options)
        if out is None:
            return ops.sage_attention_varlen.default(q, k, v, *arguments)  # type: ignore[no-any-return]
        return out, ops.sage_attention_varlen_out.default(q, k, v, out, *arguments)
    if out is None:
        return ops.sage_attention.default(q, k, v, *options)  # type: ignore[no-any-return]
    return out, ops.sage_attention_out.default(q, k, v, out, *options)


def softmax(x: torch.Tensor, out: torch.Tensor | None, device: str | None) -> torch.Tensor:
    """``waveattn.softmax`` for torch tensors."""
    _check_same_device(x, first_name="x", out=out)
    check_no_gradient(x, out)
    if out is not None:
        torch.ops.waveattn.softmax_out.default(x, out, device)
        return out
    result: torch.Tensor = torch.ops.waveattn.softmax.default(x, device)
    return result


def _no_backward(context: Any, *gradients: Any) -> Any:
    raise NotImplementedError("waveattn has no backward pass: call it under torch.no_grad(), or detach its arguments")


for _name in ("flash_attention", "decode", "sage_attention", "sage_attention_varlen", "softmax"):
    torch.library.register_autograd(f"waveattn::{_name}", _no_backward, lib=_library)
