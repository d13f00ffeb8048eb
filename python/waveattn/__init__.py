"""Fused attention kernels for AMD GPUs, and for machines without one.

    import waveattn
    out = waveattn.flash_attention(q, k, v, causal="bottom_right")   # torch, numpy or DLPack

Importing it needs no GPU, no ROCm and no torch. ``waveattn.info()`` says what was found; ``python -m waveattn`` prints
it, ``python -m waveattn demo`` compares every target with a reference on inputs of a real model.
"""

from . import compat, dualwave
from ._core import __version__
from ._runtime import devices, info, is_available
from .decoding import Fp8KVCache, Int8KVCache, decode
from .functional import flash_attention, softmax
from .paged import PagedKVCache, chunk_attention, chunk_workspace
from .sage import sage_attention, sage_attention_quantized, sage_attention_varlen, sage_quantize, sageattn

__all__ = [
    "Fp8KVCache",
    "Int8KVCache",
    "PagedKVCache",
    "__version__",
    "chunk_attention",
    "chunk_workspace",
    "compat",
    "decode",
    "devices",
    "dualwave",
    "flash_attention",
    "info",
    "is_available",
    "sage_attention",
    "sage_attention_quantized",
    "sage_attention_varlen",
    "sage_quantize",
    "sageattn",
    "softmax",
]
