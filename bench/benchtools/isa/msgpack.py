"""A reader for the subset of MessagePack that code object metadata uses (all of it but extension types)."""

from __future__ import annotations

import struct
from typing import Any

_FIXED = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_LENGTH = {0: ">B", 1: ">H", 2: ">I"}


class _Reader:
    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def number(self, code: str) -> Any:
        (value,) = struct.unpack_from(code, self.data, self.at)
        self.at += struct.calcsize(code)
        return value

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise ValueError("MessagePack data ends early")
        self.at += count
        return self.data[self.at - count : self.at]

    def value(self) -> Any:
        tag = self.number(">B")
        if tag < 0x80:
            return tag
        if tag < 0x90:
            return self.map(tag & 0x0F)
        if tag < 0xA0:
            return self.array(tag & 0x0F)
        if tag < 0xC0:
            return self.take(tag & 0x1F).decode()
        if tag >= 0xE0:
            return tag - 0x100
        if tag in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[tag]
        if tag in _FIXED:
            return self.number(_FIXED[tag])
        if tag in (0xC4, 0xC5, 0xC6):
            return self.take(self.number(_LENGTH[tag - 0xC4]))
        if tag in (0xD9, 0xDA, 0xDB):
            return self.take(self.number(_LENGTH[tag - 0xD9])).decode()
        if tag in (0xDC, 0xDD):
            return self.array(self.number(_LENGTH[tag - 0xDB]))
        if tag in (0xDE, 0xDF):
            return self.map(self.number(_LENGTH[tag - 0xDD]))
        raise ValueError(f"MessagePack type 0x{tag:02x} is not supported")

    def array(self, count: int) -> list[Any]:
        return [self.value() for _ in range(count)]

    def map(self, count: int) -> dict[Any, Any]:
        return {self.value(): self.value() for _ in range(count)}


def loads(data: bytes) -> Any:
    """The first value in `data`. Raises ValueError on malformed input."""
    try:
        return _Reader(data).value()
    except struct.error as error:
        raise ValueError("MessagePack data ends early") from error
