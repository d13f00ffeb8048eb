"""Paged KV caches of f16, int8 and q4_0 rows, and attention of each query over a selection of their cells."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

from . import _arrays, _core, _options, _runtime
from .functional import check_options

Format = Literal["f16", "int8", "q4_0", "int8_q4_0"]


def _fill(array: Any, values: Sequence[Any]) -> None:
    """Writes int32 values into an array of any framework."""
    if _arrays.is_torch(array):
        import torch

        array.copy_(torch.tensor(values, dtype=torch.int32).reshape(array.shape))
    elif hasattr(array, "__array_namespace__"):
        array[...] = array.__array_namespace__().asarray(values, dtype="int32").reshape(array.shape)
    else:
        import numpy

        array[...] = numpy.asarray(values, dtype=numpy.int32).reshape(array.shape)


class PagedKVCache:
    """Keys and values in pages of ``page_size`` cells, shared by ``sequences`` sequences of up to ``max_cells`` cells.

    ``dtype``: ``"f16"``; ``"int8"``, a float16 scale for each 64 values; ``"q4_0"``, blocks of 32 values of 4 bits with a
    float16 scale; ``"int8_q4_0"``, int8 keys and q4_0 values. q4_0 rows keep more if they hold rotated vectors (by a
    Hadamard matrix, say): append rotated keys and values, rotate q alike and rotate the output back.

    The pools ``k_pool`` and ``v_pool`` are (pages, kv_heads, page_size, row), and ``page_table`` (sequences, pages of a
    sequence) int32, -1 where a page is not resident; they belong to the framework and the device of ``like``. Cell c of a
    sequence is slot ``c % page_size`` of its page ``c // page_size``.

    ``copy.copy`` and ``copy.deepcopy`` give a cache of its own memory. A cache of numpy arrays can be pickled, one of
    torch tensors saved by ``torch.save`` and loaded by ``torch.load(..., weights_only=False)``.
    """

    def __init__(
        self,
        pages: int,
        kv_heads: int,
        page_size: int,
        head_dim: int,
        *,
        like: Any,
        dtype: Format = "int8",
        sequences: int = 1,
        max_cells: int | None = None,
        device: str | None = None,
    ) -> None:
        sizes = {"pages": pages, "kv_heads": kv_heads, "page_size": page_size, "head_dim": head_dim, "sequences": sequences}
        pages, kv_heads, page_size, head_dim, sequences = (
            _options.integer(name, value, 1) for name, value in sizes.items()
        )
        _options.choice("dtype", dtype, ("f16", "int8", "q4_0", "int8_q4_0"))
        _options.check_device(device)
        if head_dim not in (64, 128, 256):
            raise NotImplementedError(f"head_dim 64, 128 and 256 are supported, got {head_dim}")
        max_cells = pages * page_size if max_cells is None else _options.integer("max_cells", max_cells, 1)
        self._adapter = _arrays.adapter_of("like", like, None)
        self._device = device
        self.pages, self.kv_heads, self.page_size, self.head_dim = pages, kv_heads, page_size, head_dim
        self.dtype: Format = dtype
        self.max_cells = max_cells

        def pool(keys: bool) -> Any:
            element = "float16" if dtype == "f16" else "int8"
            row = head_dim if dtype == "f16" else _core.chunk_row_bytes(dtype, keys, head_dim)
            return self._adapter.empty((pages, kv_heads, page_size, row), like, element)

        def scales(wanted: bool) -> Any:
            shape = (pages, kv_heads, page_size, head_dim // 64)
            return self._adapter.empty(shape, like, "float16") if wanted else None

        self.k_pool, self.v_pool = pool(True), pool(False)
        self.k_scale, self.v_scale = scales(dtype in ("int8", "int8_q4_0")), scales(dtype == "int8")
        table_length = -(-max_cells // page_size)
        self.page_table = self._adapter.empty((sequences, table_length), like, "int32")
        self._table = [[-1] * table_length for _ in range(sequences)]
        self._free = list(range(pages - 1, -1, -1))
        #: Cells in use of each sequence.
        self.lengths = [0] * sequences
        _fill(self.page_table, self._table)

    def __copy__(self) -> PagedKVCache:
        return copy.deepcopy(self)  # with shared pools each of the two would overwrite the other's cells

    @property
    def free_pages(self) -> int:
        """Pages of the pools that belong to no sequence."""
        return len(self._free)

    def _core_cache(self) -> Any:
        def tensor(name: str, array: Any) -> _core.Tensor:
            return self._adapter.tensor(name, array, writable=True)

        return _core.ChunkCache(
            self.dtype,
            self.head_dim,
            tensor("k_pool", self.k_pool),
            tensor("v_pool", self.v_pool),
            None if self.k_scale is None else tensor("k_scale", self.k_scale),
            None if self.v_scale is None else tensor("v_scale", self.v_scale),
            tensor("page_table", self.page_table),
        )

    def _check_sequence(self, sequence: int) -> int:
        return _options.integer("sequence", sequence, 0, len(self.lengths) - 1)

    def append(self, k: Any, v: Any, sequence: int = 0) -> None:
        """Packs the keys and values of T more tokens, both (T, kv_heads, head_dim) float32, and takes pages for them.

        Raises ValueError where the shapes do not fit, the sequence would exceed ``max_cells``, no page is free or the page in
        use was evicted, and then changes nothing. The page table is written by the host: do not append while a captured graph runs.
        """
        sequence = self._check_sequence(sequence)
        if _arrays.is_torch(k):
            from .torch_ops import check_no_gradient

            check_no_gradient(k, v)
        tokens = [self._adapter.tensor(name, array) for name, array in (("k", k), ("v", v))]
        for name, tensor in zip(("k", "v"), tokens):
            if tensor.ndim != 3 or tensor.shape[1:] != (self.kv_heads, self.head_dim):
                raise ValueError(f"{name} must be (tokens, {self.kv_heads}, {self.head_dim}), got {tensor.shape}")
            if tensor.dtype_name != "float32":
                raise NotImplementedError(f"{name} must be float32, got {tensor.dtype_name}")
        count, length = tokens[0].shape[0], self.lengths[sequence]
        if tokens[1].shape[0] != count:
            raise ValueError(f"k has {count} tokens, v has {tokens[1].shape[0]}")
        if length + count > self.max_cells:
            raise ValueError(f"{length} + {count} cells exceed max_cells, {self.max_cells}")
        table = self._table[sequence]
        first, last = length // self.page_size, -(-(length + count) // self.page_size)
        missing = [page for page in range(first, last) if table[page] < 0]
        if count and length % self.page_size and table[first] < 0:  # a new page would unmask its earlier cells
            raise ValueError(f"page {first} of sequence {sequence} was evicted before it was full: clear the sequence first")
        if len(missing) > len(self._free):
            raise ValueError(f"{count} tokens need {len(missing)} pages, but {len(self._free)} are free")
        if not count:
            return
        ordinal = _arrays.place(tokens[0].device, self._device)
        _check_device(ordinal)
        for page in missing:
            table[page] = self._free.pop()
        try:
            if missing:
                _fill(self.page_table, self._table)
            self._pack(tokens, sequence, ordinal)
        except Exception:
            for page in reversed(missing):
                self._free.append(table[page])
                table[page] = -1
            _fill(self.page_table, self._table)
            raise
        self.lengths[sequence] = length + count

    def _pack(self, tokens: Sequence[_core.Tensor], sequence: int, ordinal: int) -> None:
        """Writes keys and values after the cells in use of a sequence, whose pages are there."""
        count, length = tokens[0].shape[0], self.lengths[sequence]
        stream = _arrays.stream_for(self._adapter, ordinal)
        for start in range(0, count, 65535):  # what one launch takes
            part = min(count - start, 65535)
            cells, owners = (self._adapter.empty((part,), self.page_table) for _ in range(2))
            _fill(cells, range(length + start, length + start + part))
            _fill(owners, [sequence] * part)
            _core.chunk_append(
                self._core_cache(),
                tokens[0].narrow(0, start, part),
                tokens[1].narrow(0, start, part),
                self._adapter.tensor("cells", cells),
                self._adapter.tensor("sequences", owners),
                ordinal,
                stream,
            )

    def evict(self, sequence: int, page: int) -> None:
        """Gives page number ``page`` of a sequence back; its cells are masked from now on."""
        sequence = self._check_sequence(sequence)
        page = _options.integer("page", page, 0, len(self._table[sequence]) - 1)
        if self._table[sequence][page] >= 0:
            self._free.append(self._table[sequence][page])
            self._table[sequence][page] = -1
            _fill(self.page_table, self._table)

    def clear(self, sequence: int) -> None:
        """Gives all pages of a sequence back and forgets its cells."""
        sequence = self._check_sequence(sequence)
        self._free.extend(page for page in reversed(self._table[sequence]) if page >= 0)
        self._table[sequence] = [-1] * len(self._table[sequence])
        self.lengths[sequence] = 0
        _fill(self.page_table, self._table)


def _check_device(ordinal: int) -> None:
    if _runtime.target(ordinal) not in ("gfx1030", "gfx1200"):
        raise RuntimeError(
            f"chunk attention needs a wave32 target (gfx1030, gfx1200), but {_runtime.device_in_words(ordinal)}; "
            "waveattn.decode runs on all"
        )


def chunk_attention(
    q: Any,
    cache: PagedKVCache,
    ids: Any = None,
    *,
    widths: Any = None,
    sequences: Any = None,
    max_width: int | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    out: Any = None,
    workspace: Any = None,
    variant: Literal["auto", "butterfly", "reorganised", "fast"] = "auto",
    device: str | None = None,
    stream: int | None = None,
) -> Any:
    """``softmax(scale * q @ k.T) @ v`` of each query over the cells of a paged cache that it selects.

    ``q`` (n_q, Hq, D) float32; Hq is 1 to 16 times the cache's KV heads. The result has its shape, in float32.

    ``ids``: int32 (n_q, W), the cells of each query; without it query n sees cells 0, 1, 2, ... of its sequence.
    ``widths``: int32 (n_q), how many of them count; default: all of ``ids``, or the cells in use of a cache with one
    sequence. ``sequences``: int32 (n_q), the sequence of each query; default 0. ``max_width``: none of the widths is
    larger; default: W, or the cells in use of the longest sequence. These arrays are on the device of q. A causal prompt
    without a selection has ``widths = positions + 1``.

    Cells whose page is not resident are masked; ids and widths must stay within the cells in use, because a resident
    page may hold older cells beyond them. ids and sequences out of range raise ValueError in host memory; on a
    GPU they are masked, too. A query without a visible cell has the result 0 and the LSE -inf.

    ``workspace``: float32 of at least ``chunk_workspace(...)`` elements, to allocate nothing here (a captured graph).
    ``variant``: ``"reorganised"`` is the kernel for gfx1030, ``"butterfly"`` the default one; both give the same bits.
    ``"auto"`` decides by the device, and WAVEATTN_PRE75=0 or 1 overrides it. ``"fast"``, for int8 caches and never chosen by
    itself, rounds q to int8 and the weights to float16: errors of about 1 % of the values, docs/kernels/chunk.md.

    Runs on gfx1030 and gfx1200; RuntimeError elsewhere. The other arguments, the order of work, and the errors are those
    of ``flash_attention``.
    """
    check_options(causal=None, scale=scale, device=device)
    _options.choice("variant", variant, ("auto", "butterfly", "reorganised", "fast"))
    return_lse = _options.flag("return_lse", return_lse)
    adapter = _arrays.adapter_of("q", q, stream)
    if not isinstance(cache, PagedKVCache):
        raise TypeError(f"cache must be a PagedKVCache, got {type(cache).__name__}")
    if _arrays.is_torch(q):
        from .torch_ops import check_no_gradient

        check_no_gradient(q)
    query = adapter.tensor("q", q)
    if query.dtype_name != "float32":
        raise NotImplementedError(f"chunk_attention supports q of float32, got {query.dtype_name}")
    if query.ndim != 3 or query.shape[2] != cache.head_dim:
        raise ValueError(f"q must be (queries, heads, {cache.head_dim}), got {query.shape}")
    n_q, heads_q, head_dim = query.shape
    if ids is None and widths is None and (sequences is not None or len(cache.lengths) > 1):
        raise ValueError("widths are needed: the sequences of the cache may have different lengths")
    selection = None if ids is None else adapter.tensor("ids", ids)
    if selection is not None and selection.ndim != 2:
        raise ValueError(f"ids must be ({n_q}, width), got {selection.shape}")
    if max_width is None:
        max_width = max(cache.lengths) if selection is None else selection.shape[1]
    max_width = _options.integer("max_width", max_width, 0)
    if max_width > cache.max_cells and selection is None:
        raise ValueError(f"max_width must not exceed the {cache.max_cells} cells of a sequence, got {max_width}")
    ordinal = _arrays.place(query.device, device or cache._device)
    _check_device(ordinal)
    if out is None:
        out = adapter.empty((n_q, heads_q, head_dim), q)
        created = True
    else:
        created = False
    lse = adapter.empty((n_q, heads_q), q, "float32") if return_lse else None
    if workspace is None:
        workspace = adapter.empty((chunk_workspace(n_q, heads_q, head_dim, max_width),), q)
    scratch = adapter.tensor("workspace", workspace, writable=True)
    if scratch.dtype_name != "float32" or scratch.ndim != 1 or (scratch.shape[0] > 1 and scratch.strides[0] != 1):
        raise ValueError(
            f"workspace must be contiguous float32 with one axis, got {scratch.dtype_name} {scratch.shape} with strides {scratch.strides}"
        )
    if scratch.device != query.device:
        raise ValueError("workspace must be on the device of q")

    def optional(name: str, array: Any, writable: bool = False) -> Any:
        return None if array is None else adapter.tensor(name, array, writable)

    _core.chunk_attention(
        cache._core_cache(),
        query,
        adapter.tensor("out", out, writable=True),
        optional("lse", lse, True),
        selection,
        optional("widths", widths),
        optional("sequences", sequences),
        max_width,
        scale,
        scratch,
        variant,
        ordinal,
        _arrays.stream_for(adapter, ordinal),
    )
    if created:
        out = adapter.deliver(out, q)
    return (out, adapter.deliver(lse, q)) if return_lse else out


def chunk_workspace(n_q: int, heads_q: int, head_dim: int, max_width: int) -> int:
    """Elements of float32 workspace that ``chunk_attention`` needs for n_q queries of heads_q heads, none wider than max_width."""
    sizes = {"n_q": n_q, "heads_q": heads_q, "head_dim": head_dim, "max_width": max_width}
    return int(_core.chunk_workspace_floats(*(_options.integer(name, value, 0, 2**31 - 1) for name, value in sizes.items())))
