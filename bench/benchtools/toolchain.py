"""Finding LLVM's tools."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_VERSIONS = (22, 21, 20, 23, 19)


class ToolMissing(RuntimeError):
    """A program that is needed was not found."""


def find_llvm_tool(name: str, variables: tuple[str, ...] = ()) -> str:
    """Path of an LLVM tool: named by a variable, on PATH with or without a version, or in a ROCm installation."""
    for variable in variables:
        if path := os.environ.get(variable):
            return path
    for candidate in [f"{name}-{version}" for version in _VERSIONS] + [name]:
        if path := shutil.which(candidate):
            return path
    for root in (os.environ.get("ROCM_PATH"), "/opt/rocm"):
        if root and (path := shutil.which(name, path=str(Path(root) / "llvm" / "bin"))):
            return path
    hint = f" (or set {' or '.join(variables)})" if variables else ""
    raise ToolMissing(f"{name} not found: install LLVM 20 or newer{hint}")


def find_objdump() -> str:
    return find_llvm_tool("llvm-objdump", ("WAVEATTN_OBJDUMP", "GFXEMU_OBJDUMP"))
