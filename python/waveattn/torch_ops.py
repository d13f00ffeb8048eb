"""The operations as ``torch.ops.waveattn.*``, so that torch.compile, export and FakeTensor understand them.

Imported when the first torch tensor arrives; import it yourself to use ``torch.ops.waveattn`` directly.
"""

from __future__ import annotations

from typing import Any

import torch

from . import _arrays, functional

_library = torch.library.Library("waveattn", "DEF")
_options = (
    'str? causal=None, float? scale=None, bool return_lse=False, str layout="bhsd", str backend="auto", str? device=None'
)
# An operation may not return one of its arguments, so the variant with out returns the LSE only.
_library.define(f"flash_attention(Tensor q, Tensor k, Tensor v, {_options}) -> (Tensor, Tensor)")
_library.define(f"flash_attention_out(Tensor q, Tensor k, Tensor v, Tensor(a!) out, {_options}) -> Tensor")


def _implementation(
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
    out, lse = functional._run_attention(
        _arrays.torch_adapter(), q, k, v, None, causal, scale, return_lse, layout, backend, device
    )
    return out, q.new_empty(0, dtype=torch.float32) if lse is None else lse


def _implementation_out(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    causal: str | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    layout: str = "bhsd",
    backend: str = "auto",
    device: str | None = None,
) -> torch.Tensor:
    _, lse = functional._run_attention(
        _arrays.torch_adapter(), q, k, v, out, causal, scale, return_lse, layout, backend, device
    )
    return q.new_empty(0, dtype=torch.float32) if lse is None else lse


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
    out = q.new_empty((*q.shape[:3], v.shape[3]))
    return out, _fake_lse(q, return_lse, layout)


def _fake_out(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    causal: str | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    layout: str = "bhsd",
    backend: str = "auto",
    device: str | None = None,
) -> torch.Tensor:
    return _fake_lse(q, return_lse, layout)


def _fake_lse(q: torch.Tensor, return_lse: bool, layout: str) -> torch.Tensor:
    batch, first, second, _ = q.shape
    heads, tokens = (second, first) if layout == "bshd" else (first, second)
    return q.new_empty((batch, heads, tokens) if return_lse else (0,), dtype=torch.float32)


for _key in ("CPU", "CUDA"):  # torch for ROCm uses the CUDA key
    _library.impl("flash_attention", _implementation, _key)
    _library.impl("flash_attention_out", _implementation_out, _key)
torch.library.register_fake("waveattn::flash_attention", _fake, lib=_library)
torch.library.register_fake("waveattn::flash_attention_out", _fake_out, lib=_library)


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
    for name, tensor in (("k", k), ("v", v)):
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor like q, got {type(tensor).__name__}")
    if out is not None and not isinstance(out, torch.Tensor):
        raise TypeError(f"out must be a torch.Tensor like q, got {type(out).__name__}")
    check_no_gradient(q, k, v, out)
    if q.device != k.device or q.device != v.device or (out is not None and out.device != q.device):
        devices = ", ".join(str(t.device) for t in (q, k, v, out) if t is not None)
        raise ValueError(f"all tensors must be on the same device, got {devices}")
    options = (causal, scale, return_lse, layout, backend, device)
    if out is not None:
        lse = torch.ops.waveattn.flash_attention_out.default(q, k, v, out, *options)
        return (out, lse) if return_lse else out
    result, lse = torch.ops.waveattn.flash_attention.default(q, k, v, *options)
    return (result, lse) if return_lse else result
