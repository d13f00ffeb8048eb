"""Backends: which kernel runs a call.

A module of ``waveattn.backends`` registers one or more backends; all of them are imported at the first dispatch, so a
new kernel is a new file and nothing else changes. ``docs/adding_a_kernel.md`` shows the pattern.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import threading
from collections.abc import Callable
from typing import Any

from . import _core, _runtime

ALL_TARGETS = frozenset({"gfx1030", "gfx1200", "gfx942", "gfx950"})


@dataclasses.dataclass(frozen=True)
class Backend:
    """A kernel for an operation.

    ``supports`` looks at the problem (``_core.AttentionProblem`` for attention) and returns None where the kernel
    covers it, else a few words on why not, which end up in the error of a caller who asked for this backend.
    ``run(problem, device, stream)`` launches. ``auto`` takes the backend of the highest priority that supports a call.
    """

    name: str
    targets: frozenset[str]
    dtypes: frozenset[str]
    run: Callable[[Any, int, int], None]
    supports: Callable[[Any], str | None] = lambda problem: None
    priority: int = 0
    operation: str = "flash_attention"
    #: Whether `auto` may take it: False for kernels that trade accuracy and must be asked for.
    automatic: bool = True


def head_dim_up_to(largest: int) -> Callable[[Any], str | None]:
    """``Backend.supports`` of a kernel of attention that covers every head_dim up to ``largest``."""

    def supports(problem: Any) -> str | None:
        head_dim = max(problem.head_dim, problem.head_dim_v)
        return None if head_dim <= largest else f"it supports head_dim 1 to {largest}, got {head_dim}"

    return supports


_backends: dict[str, list[Backend]] = {}
_loaded = False
_loading = threading.RLock()  # two threads may make the first call


def register(backend: Backend) -> None:
    """Adds a backend; called by the modules of ``waveattn.backends`` when they are imported."""
    entries = _backends.setdefault(backend.operation, [])
    if any(entry.name == backend.name for entry in entries):
        raise ValueError(f"a backend {backend.name!r} of {backend.operation} is registered already")
    entries.append(backend)
    entries.sort(key=lambda entry: -entry.priority)


def backends(operation: str) -> list[Backend]:
    """The backends of an operation, best first."""
    global _loaded
    if not _loaded:
        from . import backends as package

        with _loading:
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{package.__name__}.{module.name}")
            _loaded = True
    return _backends.get(operation, [])


def _refusal(backend: Backend, problem: Any, target: str) -> str | None:
    if target not in backend.targets:
        return f"it needs {' or '.join(sorted(backend.targets))}"
    if problem.dtype not in backend.dtypes:
        return f"it supports dtypes {', '.join(sorted(backend.dtypes))}, got {problem.dtype}"
    return backend.supports(problem)


def choose(operation: str, name: str, problem: Any, ordinal: int) -> Backend:
    """The backend of that name, or for ``"auto"`` the best one that covers the problem on the device.

    Raises ValueError for an unknown name, RuntimeError where the device's target is not the backend's, and
    NotImplementedError where no kernel covers the problem.
    """
    entries = backends(operation)
    target = _runtime.target(ordinal)
    if target == "unsupported":
        raise RuntimeError(f"{operation} needs {_core.supported_targets()}; {_runtime.device_in_words(ordinal)}")
    if name == "auto":
        for entry in entries:
            if entry.automatic and _refusal(entry, problem, target) is None:
                return entry
        reasons = "; ".join(f"{entry.name}: {_refusal(entry, problem, target)}" for entry in entries if entry.automatic)
        raise NotImplementedError(f"no kernel of {operation} covers this call ({reasons})")
    for entry in entries:
        if entry.name == name:
            refusal = _refusal(entry, problem, target)
            if refusal is None:
                return entry
            if target not in entry.targets:
                raise RuntimeError(f"{operation} with backend={name!r}: {refusal}, but {_runtime.device_in_words(ordinal)}")
            raise NotImplementedError(f"{operation} with backend={name!r} does not cover this call: {refusal}")
    raise ValueError(f"unknown backend {name!r} of {operation}; there are auto, {', '.join(entry.name for entry in entries)}")


def describe() -> dict[str, list[dict[str, Any]]]:
    """The backends by operation, as plain values."""
    backends("")
    return {
        operation: [
            {"name": entry.name, "targets": sorted(entry.targets), "dtypes": sorted(entry.dtypes), "automatic": entry.automatic}
            for entry in entries
        ]
        for operation, entries in sorted(_backends.items())
    }
