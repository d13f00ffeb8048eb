"""Kernel names for people: demangled, then shortened."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import shutil
import subprocess
from functools import lru_cache
from typing import Any

_REPEATED = re.compile(r"([<,])([A-Za-z_]\w*(?:<[^<>]*(?:<[^<>]*>[^<>]*)*>)?)(?:,\2)+(?=[,>])")


@lru_cache(maxsize=1)
def _cxa_demangle() -> tuple[Any, Any] | None:
    """The C++ runtime's own demangler, or None where there is no such library."""
    for name in ("libstdc++.so.6", ctypes.util.find_library("stdc++"), ctypes.util.find_library("c++abi")):
        if not name:
            continue
        try:
            library = ctypes.CDLL(name)
            function = library.__cxa_demangle
            function.restype = ctypes.c_void_p
            function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
            free = ctypes.CDLL(None).free
            free.argtypes = [ctypes.c_void_p]
            return function, free
        except (OSError, AttributeError):
            continue
    return None


@lru_cache(maxsize=None)
def demangle(symbol: str) -> str:
    """The C++ name of `symbol`, or `symbol` itself."""
    if not symbol.startswith("_Z"):
        return symbol
    if (found := _cxa_demangle()) is not None:
        function, free = found
        status = ctypes.c_int()
        pointer = function(symbol.encode(), None, None, ctypes.byref(status))
        if pointer:
            text = ctypes.string_at(pointer).decode()
            free(pointer)
            return text
        return symbol
    for tool in ("llvm-cxxfilt", "llvm-cxxfilt-22", "c++filt"):
        if shutil.which(tool):
            return subprocess.run([tool, symbol], capture_output=True, text=True, check=True).stdout.strip()
    return symbol


def _without_parameters(name: str) -> str:
    """Cuts the parameter list of a demangled function, `f<(E)1>(int)` -> `f<(E)1>`."""
    depth = 0
    for index, char in enumerate(name):
        if char == "<":
            depth += 1
        elif char == ">":
            depth -= 1
        elif char == "(" and depth == 0 and index > 0 and not name.startswith("(anonymous namespace)", index):
            return name[:index]
    return name


def shorten(demangled: str) -> str:
    """`void ns::kernel<ns::arch::gfx942, 64, (ns::Mask)1, true>(ns::Params)` -> `kernel<gfx942,64,Mask=1,true>`."""
    name = _without_parameters(demangled.replace("(anonymous namespace)::", ""))
    # A template's return type comes first; a space outside brackets ends it.
    depth, start = 0, 0
    for index, char in enumerate(name):
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth -= 1
        elif char == " " and depth == 0 and not name.startswith("operator", index + 1):
            start = index + 1
    name = name[start:]
    # Conversions: of an enumerator keep its type, of a number only the number.
    name = re.sub(r"\((?:unsigned |signed |long |short )*(?:int|long|short|char|bool|unsigned)\)(?=-?[\w'])", "", name)
    name = re.sub(r"\((?:\w+::)*(\w+)\)(-?\d+)", r"\1=\2", name)
    name = re.sub(r"(?:\w+::)+(?=\w)", "", name)
    name = re.sub(r"\b(\d+)(?:ul|u|l|ull)\b", r"\1", name)
    name = re.sub(r"\s*([,<>])\s*", r"\1", name)
    name = name.replace("<>", "")
    # A type argument that is repeated, as three equal read operations are: 3x.
    while (match := _REPEATED.search(name)) is not None:
        times = match.group(0).count(match.group(2) + ",") + 1
        name = f"{name[: match.start()]}{match.group(1)}{times}x{match.group(2)}{name[match.end() :]}"
    return name


def clip(name: str, width: int) -> str:
    """At most `width` characters; the middle goes, since both ends tell kernels apart."""
    if width <= 0 or len(name) <= width:
        return name
    head = (width - 1) * 2 // 3
    return name[:head] + "…" + name[len(name) - (width - 1 - head) :]
