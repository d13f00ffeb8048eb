"""Attention by the dual-wave kernel with its own settings: softmax basis, placement on the XCDs, splits of the keys."""

from __future__ import annotations

from typing import Any

from . import _arrays, _core, _options, _registry
from .functional import check_options


def attend(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: str | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    out: Any = None,
    layout: str = "bhsd",
    basis: str = "online",
    xcd_swizzle: str = "auto",
    splits: int = 1,
    device: str | None = None,
    stream: int | None = None,
) -> Any:
    """``flash_attention`` with the settings of the dual-wave kernel (gfx950; gfx942 ignores ``basis``).

    ``basis``: ``"online"`` measures exponents from the row maximum so far; ``"pinned"`` from the maximum of the first 64
    keys plus head room, which costs less for each tile; rows that overflow are found on the device and their blocks
    computed again in the same call. ``xcd_swizzle``: ``"auto"``, ``"on"`` or ``"off"``: whether each XCD works on its
    own KV heads; the result does not depend on it. ``splits``: shares of the keys, computed side by side and merged,
    for grids that are too small for the device.

    A pinned basis or more than one split needs a workspace, allocated here.
    """
    check_options(causal=causal, scale=scale, device=device, layout=layout)
    _options.choice("basis", basis, ("online", "pinned"))
    _options.choice("xcd_swizzle", xcd_swizzle, ("auto", "on", "off"))
    if isinstance(splits, bool) or not isinstance(splits, int):
        raise TypeError(f"splits must be an integer, got {splits!r}")
    if not 1 <= splits <= 1024:
        raise ValueError(f"splits must be from 1 to 1024, got {splits}")
    adapter = _arrays.adapter_of("q", q, stream)
    if _arrays.is_torch(q):
        from .torch_ops import check_no_gradient

        check_no_gradient(q, k, v, out)
    problem = _core.AttentionProblem(
        adapter.tensor("q", q), adapter.tensor("k", k), adapter.tensor("v", v), causal, scale, layout
    )
    ordinal = _arrays.place(problem.device, device)
    _registry.choose("flash_attention", "dualwave", problem, ordinal)
    elements = _core.flash_attention_dualwave_workspace(problem, basis, xcd_swizzle, splits)
    result = out
    if out is None:
        rows = (problem.q_len, problem.heads_q) if layout == "bshd" else (problem.heads_q, problem.q_len)
        result = adapter.empty((problem.batch, *rows, problem.head_dim_v), q)
    problem.set_out(adapter.tensor("out", result, writable=True))
    lse = None
    if return_lse:
        lse = adapter.empty((problem.batch, problem.heads_q, problem.q_len), q, "float32")
        problem.set_lse(adapter.tensor("lse", lse, writable=True))
    if problem.batch and problem.heads_q and problem.q_len:
        workspace = adapter.empty((elements,), q, "float32") if elements else None
        _core.flash_attention_dualwave_with(
            problem,
            basis,
            xcd_swizzle,
            splits,
            None if workspace is None else adapter.tensor("workspace", workspace, writable=True),
            ordinal,
            _arrays.stream_for(adapter, ordinal),
        )
    if out is None:
        result = adapter.deliver(result, q)
    return (result, adapter.deliver(lse, q)) if return_lse else result
