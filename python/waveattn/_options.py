"""Checks of options, in words of the argument that is wrong: torch's dispatcher and the extension speak of signatures."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any


def integer(name: str, value: Any, low: int, high: int = 2**62) -> int:
    """An integer from `low` to `high`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        result = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if not low <= result <= high:
        if low == 1 > result:
            raise ValueError(f"{name} must be positive, got {result}")
        raise ValueError(f"{name} must be from {low} to {'2**62' if high == 2**62 else high}, got {result}")
    return result


def flag(name: str, value: Any) -> bool:
    """True or False, numpy's and the integers 1 and 0 included."""
    if isinstance(value, bool):
        return value
    if type(value).__name__ not in ("bool", "bool_", "int") or value not in (0, 1):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def choice(name: str, value: Any, names: Sequence[str]) -> str:
    """One of these names."""
    words = f"{name} must be {', '.join(map(repr, names[:-1]))} or {names[-1]!r}, got {value!r}"
    if not isinstance(value, str):
        raise TypeError(words)
    if value not in names:
        raise ValueError(words)
    return value


def check_device(device: Any) -> None:
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device must be the name of an emulated target, such as 'gfx942', got {device!r}")
