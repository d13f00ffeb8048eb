"""Attention of a few new queries over a long cache, and caches of int8 and fp8 tokens."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from . import _arrays, _core, _options, _runtime
from .functional import Causal, check_options


_Cache = TypeVar("_Cache", bound="_QuantizedKVCache")


class _QuantizedKVCache:
    """Keys and values of up to ``capacity`` tokens as 8-bit codes with one float32 scale for each token of each head.

    ``k_codes`` and ``v_codes`` are (batch, heads, capacity, head_dim), ``k_scale`` and ``v_scale`` (batch, heads,
    capacity); the first ``length`` tokens are in use. The arrays belong to the framework and the device of ``like``.

    ``copy.copy`` and ``copy.deepcopy`` give a cache of its own memory. A cache of numpy arrays can be pickled, one of
    torch tensors saved by ``torch.save`` and loaded by ``torch.load(..., weights_only=False)``.
    """

    dtype = ""

    def __init__(
        self,
        batch: int,
        heads: int,
        capacity: int,
        head_dim: int,
        *,
        like: Any,
        head_dim_v: int | None = None,
        device: str | None = None,
    ) -> None:
        head_dim_v = head_dim if head_dim_v is None else head_dim_v
        sizes = {"batch": batch, "heads": heads, "capacity": capacity, "head_dim": head_dim, "head_dim_v": head_dim_v}
        batch, heads, capacity, head_dim, head_dim_v = (_options.integer(name, value, 1) for name, value in sizes.items())
        _options.check_device(device)
        self._adapter = _arrays.adapter_of("like", like, None)
        self._device = device
        self._check_target(_arrays.place(self._adapter.tensor("like", like).device, device))
        self.k_codes = self._adapter.empty((batch, heads, capacity, head_dim), like, self.dtype)
        self.v_codes = self._adapter.empty((batch, heads, capacity, head_dim_v), like, self.dtype)
        self.k_scale = self._adapter.empty((batch, heads, capacity), like, "float32")
        self.v_scale = self._adapter.empty((batch, heads, capacity), like, "float32")
        self.capacity = capacity
        self.length = 0

    def _check_target(self, ordinal: int) -> None:
        """For formats that depend on the device."""

    def append(self, k: Any, v: Any) -> None:
        """Quantises the keys and values of T more tokens, (batch, heads, T, head_dim), float32, bfloat16 or float16.

        The scale of a token is its largest magnitude divided by the largest code; codes are rounded to nearest even. A
        token with a NaN or an infinity reads back as NaN. Raises ValueError where the shapes do not fit or the capacity
        would be exceeded, and then changes nothing. On a GPU the work is ordered on the current stream.
        """
        if _arrays.is_torch(k):
            from .torch_ops import check_no_gradient

            check_no_gradient(k, v)
        tokens = [self._adapter.tensor(name, array) for name, array in (("k", k), ("v", v))]
        for name, tensor, codes in (("k", tokens[0], self.k_codes), ("v", tokens[1], self.v_codes)):
            batch, heads, _, head_dim = codes.shape
            if tensor.ndim != 4 or (*tensor.shape[:2], tensor.shape[3]) != (batch, heads, head_dim):
                raise ValueError(f"{name} must be ({batch}, {heads}, tokens, {head_dim}), got {tensor.shape}")
            if tensor.dtype_name not in ("float32", "bfloat16", "float16"):
                raise NotImplementedError(f"{name} must be float32, bfloat16 or float16, got {tensor.dtype_name}")
            if head_dim > 1 and 0 not in tensor.shape and tensor.strides[3] != 1:
                raise ValueError(f"{name} must have a last stride of 1, got {tensor.strides[3]}")
        count = tokens[0].shape[2]
        if tokens[1].shape[2] != count:
            raise ValueError(f"k has {count} tokens, v has {tokens[1].shape[2]}")
        if self.length + count > self.capacity:
            raise ValueError(f"{self.length} + {count} tokens exceed the capacity of {self.capacity}")
        ordinal = _arrays.place(tokens[0].device, self._device)
        stream = _arrays.stream_for(self._adapter, ordinal)
        for tensor, codes, scales in ((tokens[0], self.k_codes, self.k_scale), (tokens[1], self.v_codes, self.v_scale)):
            _core.kv_quantize(
                tensor,
                self._adapter.tensor("codes", codes, writable=True).narrow(2, self.length, count),
                self._adapter.tensor("scales", scales, writable=True).narrow(2, self.length, count),
                ordinal,
                stream,
            )
        self.length += count

    def truncate(self, length: int) -> None:
        """Forgets the tokens from ``length`` on."""
        self.length = _options.integer("length", length, 0, self.length)

    def __len__(self) -> int:
        return self.length

    def __copy__(self: _Cache) -> _Cache:
        return copy.deepcopy(self)  # with shared memory each of the two would overwrite the other's tokens


class Int8KVCache(_QuantizedKVCache):
    """Keys and values of up to ``capacity`` tokens as int8 codes, with one float32 scale for each token of each head.

        cache = Int8KVCache(batch, kv_heads, capacity, head_dim, like=k)     # head_dim_v= where v has another one
        cache.append(k, v)                                                   # (batch, kv_heads, tokens, head_dim)
        out = waveattn.decode(q, cache, causal="bottom_right")

    ``len(cache)`` tokens are in use; ``truncate`` forgets the newest. The arrays (``k_codes``, ``v_codes``, ``k_scale``,
    ``v_scale``) belong to the framework and the device of ``like``; ``device`` is that of ``flash_attention``.
    """

    dtype = "int8"


class Fp8KVCache(_QuantizedKVCache):
    """As ``Int8KVCache`` with fp8 codes: float8_e4m3fnuz on gfx942, float8_e4m3fn elsewhere, or the one named by ``dtype``."""

    def __init__(
        self,
        batch: int,
        heads: int,
        capacity: int,
        head_dim: int,
        *,
        like: Any,
        head_dim_v: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
    ) -> None:
        if dtype not in (None, "float8_e4m3fn", "float8_e4m3fnuz"):
            raise ValueError(f"dtype must be 'float8_e4m3fn' or 'float8_e4m3fnuz', got {dtype!r}")
        self.dtype = dtype or ""
        super().__init__(batch, heads, capacity, head_dim, like=like, head_dim_v=head_dim_v, device=device)

    def _check_target(self, ordinal: int) -> None:
        if not self.dtype:
            self.dtype = "float8_e4m3fnuz" if _runtime.target(ordinal) == "gfx942" else "float8_e4m3fn"


def run_decode(
    adapter: _arrays.Adapter,
    q: Any,
    k: Any,
    v: Any,
    scales: Sequence[Any],
    kv_lens: Any,
    length: int | None,
    out: Any,
    causal: str | None,
    scale: float | None,
    return_lse: bool,
    splits: int,
    device: str | None,
) -> tuple[Any, Any]:
    """Checks and launches; `length`: how many tokens of the cache to look at, None for all."""

    def cached(name: str, array: Any) -> _core.Tensor:
        tensor = adapter.tensor(name, array)
        if length is not None and tensor.ndim >= 3:
            if not 0 <= length <= tensor.shape[2]:
                raise ValueError(f"kv_len must be between 0 and the {tensor.shape[2]} tokens of {name}, got {length}")
            tensor = tensor.narrow(2, 0, length)
        return tensor

    call = _core.DecodeCall(
        adapter.tensor("q", q),
        cached("k", k),
        cached("v", v),
        None if scales[0] is None else cached("k_scale", scales[0]),
        None if scales[1] is None else cached("v_scale", scales[1]),
        None if kv_lens is None else adapter.tensor("kv_lens", kv_lens),
        causal,
        scale,
    )
    ordinal = _arrays.place(call.device, device)
    splits, floats = call.workspace(_options.integer("splits", splits, 0, 1024), ordinal)
    shape = tuple(q.shape)
    if out is None:
        out = adapter.empty((*shape[:3], v.shape[3]), q)
    lse = adapter.empty(shape[:3], q, "float32") if return_lse else None
    workspace = adapter.empty((floats,), q, "float32") if floats else None
    call.set_outputs(
        adapter.tensor("out", out, writable=True),
        None if lse is None else adapter.tensor("lse", lse, writable=True),
        None if workspace is None else adapter.tensor("workspace", workspace, writable=True),
        splits,
    )
    if 0 not in shape[:3]:
        call.run(ordinal, _arrays.stream_for(adapter, ordinal))
    return out, lse


def decode(
    q: Any,
    k: Any,
    v: Any = None,
    *,
    kv_len: int | None = None,
    kv_lens: Any = None,
    causal: Causal | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    out: Any = None,
    splits: int = 0,
    device: str | None = None,
    stream: int | None = None,
) -> Any:
    """Attention of ``q`` (B, Hq, Sq, D), Sq small, over a cache, split along its tokens so that it fills the device.

    ``k`` is an ``Int8KVCache`` or ``Fp8KVCache`` and ``v`` is left out; or ``k`` (B, Hkv, C, D) and ``v``
    (B, Hkv, C, Dv) are tensors of q's dtype. Arithmetic is float32; the result (B, Hq, Sq, Dv) has the dtype of q.

    ``kv_len``: look at the first so many tokens only (default: all of a tensor, the length in use of a cache).
    ``kv_lens``: int32 (B), on the device of q: a length for each batch entry, none above ``kv_len``.
    ``causal``: as ``flash_attention``; with ``"bottom_right"`` the queries are the newest tokens of each batch entry.
    ``splits``: parts of the cache that are computed side by side, up to 1024; 0 chooses. More than one need a workspace, which is allocated
    like the result.

    The other arguments, the order of work, and the errors are those of ``flash_attention``.
    """
    check_options(causal=causal, scale=scale, device=device)
    kv_len = None if kv_len is None else _options.integer("kv_len", kv_len, 0)
    splits, return_lse = _options.integer("splits", splits, 0, 1024), _options.flag("return_lse", return_lse)
    scales: tuple[Any, Any] = (None, None)
    if isinstance(k, _QuantizedKVCache):
        if v is not None:
            raise TypeError("a cache holds keys and values: v must be left out")
        cache = k
        if kv_len is None:
            kv_len = cache.length
        elif kv_len > cache.length:
            raise ValueError(f"kv_len is {kv_len}, but the cache holds {cache.length} tokens")
        k, v, scales = cache.k_codes, cache.v_codes, (cache.k_scale, cache.v_scale)
        device = device or cache._device
    elif v is None:
        raise TypeError("v is missing: only caches hold keys and values")
    adapter = _arrays.adapter_of("q", q, stream)
    if _arrays.is_torch(q):
        from . import torch_ops

        return torch_ops.decode(q, k, v, scales, kv_lens, kv_len, causal, scale, return_lse, out, splits, device)
    result, lse = run_decode(
        adapter, q, k, v, scales, kv_lens, kv_len, out, causal, scale, return_lse, splits, device
    )
    if out is None:
        result = adapter.deliver(result, q)
    return (result, adapter.deliver(lse, q)) if return_lse else result
