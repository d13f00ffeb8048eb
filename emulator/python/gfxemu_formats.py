"""Element types of device arrays: their DLPack codes, and exact conversions of the formats that numpy lacks."""
from __future__ import annotations

import numpy as np


def _float8(exponent, mantissa, bias, kind):
    """Values of the 256 encodings. kind: 'ieee' (inf, nan), 'fn' (nan only at all ones), 'fnuz' (nan at 0x80)."""
    out = np.empty(256, np.float32)
    for code in range(256):
        sign, e, m = -1.0 if code & 0x80 else 1.0, code >> mantissa & (1 << exponent) - 1, code & (1 << mantissa) - 1
        top = e == (1 << exponent) - 1
        if kind == "fnuz" and code == 0x80 or kind == "fn" and top and m == (1 << mantissa) - 1 or kind == "ieee" and top and m:
            out[code] = np.nan
        elif kind == "ieee" and top:
            out[code] = sign * np.inf
        elif e == 0:
            out[code] = sign * m * 2.0 ** (1 - bias - mantissa)
        else:
            out[code] = sign * (1 + m / 2.0 ** mantissa) * 2.0 ** (e - bias)
    return out


class _Type:
    def __init__(self, name, code, bits, storage, table=None):
        self.name, self.code, self.bits, self.storage, self.table = name, code, bits, np.dtype(storage), table


_E8M0 = np.append(np.ldexp(np.float64(1), np.arange(255) - 127), np.nan).astype(np.float32)
_TYPES = {t.name: t for t in [
    *[_Type(f"int{b}", 0, b, f"i{b // 8}") for b in (8, 16, 32, 64)],
    *[_Type(f"uint{b}", 1, b, f"u{b // 8}") for b in (8, 16, 32, 64)],
    *[_Type(f"float{b}", 2, b, f"f{b // 8}") for b in (16, 32, 64)],
    _Type("complex64", 5, 64, "c8"), _Type("complex128", 5, 128, "c16"), _Type("bool", 6, 8, "?"),
    _Type("bfloat16", 4, 16, "u2"),
    _Type("float8_e4m3fn", 10, 8, "u1", _float8(4, 3, 7, "fn")),
    _Type("float8_e4m3fnuz", 11, 8, "u1", _float8(4, 3, 8, "fnuz")),
    _Type("float8_e5m2", 12, 8, "u1", _float8(5, 2, 15, "ieee")),
    _Type("float8_e5m2fnuz", 13, 8, "u1", _float8(5, 2, 16, "fnuz")),
    _Type("float8_e8m0fnu", 14, 8, "u1", _E8M0),
]}
_ALIASES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32", "fp8": "float8_e4m3fn"}


def _type(dtype):
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    name = name.removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name not in _TYPES:
        raise TypeError(f"unknown element type {dtype!r}")
    return _TYPES[name]


def encode(values, dtype):
    """Rounds to nearest even and returns the bits as the type's storage (uint16, uint8, or the numpy type)."""
    t = _type(dtype)
    values = np.asarray(values)
    if t.name == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
        nan = np.isnan(values.astype(np.float32))
        out = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        return np.where(nan, np.uint16(0x7FC0), out).reshape(values.shape)
    if t.table is None:
        return values.astype(t.storage)
    x = values.astype(np.float64)
    if t.name == "float8_e8m0fnu":
        e = np.clip(np.rint(np.log2(np.where(x > 0, x, 2.0 ** -127))) + 127, 0, 254)
        return np.where(np.isnan(x) | (x < 0), 255, e).astype(np.uint8)
    half = t.table[:128].astype(np.float64)         # the non-negative encodings ascend
    finite = half[np.isfinite(half)]
    last = len(finite) - 1
    a = np.minimum(np.abs(np.nan_to_num(x, nan=0.0, posinf=1e30, neginf=-1e30)), finite[last])   # saturates
    up = np.clip(np.searchsorted(finite, a), 0, last)
    down = np.maximum(up - 1, 0)
    gap_up, gap_down = finite[up] - a, a - finite[down]
    code = np.where((gap_up < gap_down) | ((gap_up == gap_down) & (up % 2 == 0)), up, down)
    sign = np.where(np.signbit(x), 0x80, 0)
    if t.name.endswith("fnuz"):
        sign = np.where(code == 0, 0, sign)
    nan = {"float8_e4m3fn": 0x7F, "float8_e5m2": 0x7E}.get(t.name, 0x80)
    return np.where(np.isnan(x), nan, code + sign).astype(np.uint8)


def decode(bits, dtype):
    """The values of raw bits; float32 for the types that numpy lacks."""
    t = _type(dtype)
    if t.name == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits if t.table is None else t.table[bits]
