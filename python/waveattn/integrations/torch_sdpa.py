"""``torch.nn.functional.scaled_dot_product_attention`` by waveattn, where a kernel covers the call.

    with waveattn.integrations.torch_sdpa.activated():
        model(x)

or ``activate()`` / ``deactivate()``. Calls with a mask, dropout, a gradient, other dtypes or head_dims, and devices
without a kernel go to torch as before. ``cpu=True`` also takes CPU tensors, which then run on the emulator: for tests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from .. import _runtime, compat

_original = F.scaled_dot_product_attention
_cpu = False


def _covers(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float) -> bool:
    tensors = (query, key, value)
    if attn_mask is not None or dropout_p or any(t.dim() != 4 for t in tensors):
        return False
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return False
    return bool(query.is_cuda or (_cpu and query.is_cpu))


def _has_kernels(tensor: Any) -> bool:
    if tensor.is_cpu:
        return True
    try:
        return torch.version.hip is not None and _runtime.target(_runtime.require_gpu(tensor.get_device())) != "unsupported"
    except RuntimeError:
        return False


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if _covers(query, key, value, attn_mask, dropout_p):
        try:
            return compat.scaled_dot_product_attention(
                query, key, value, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
            )
        except (NotImplementedError, TypeError, ValueError):  # torch takes more layouts, broadcasts, and has its own errors
            pass
        except RuntimeError:
            if _has_kernels(query):
                raise
    return _original(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def activate(*, cpu: bool = False) -> None:
    """Replaces the function in torch.nn.functional until ``deactivate``."""
    global _cpu
    _cpu = cpu
    F.scaled_dot_product_attention = _attention


def deactivate() -> None:
    """Puts torch's own function back."""
    F.scaled_dot_product_attention = _original


@contextlib.contextmanager
def activated(*, cpu: bool = False) -> Iterator[None]:
    """``activate`` for a block; what was active before is active again after it."""
    global _cpu
    previous = F.scaled_dot_product_attention, _cpu
    activate(cpu=cpu)
    try:
        yield
    finally:
        F.scaled_dot_product_attention, _cpu = previous
