"""Case files: what to run and how to read its figures. bench/cases/README.md describes them."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .. import Record
from .expression import evaluate

_KEYS: dict[str, type | tuple[type, ...]] = {
    "label": str,
    "command": list,
    "kernel": str,
    "devices": list,
    "shape": dict,
    "matrix": dict,
    "env": dict,
    "tile": str,
    "tiles_per_trip": (int, float, str),
    "tiles": (int, float, str),
    "flop": (int, float, str),
    "least_bytes": (int, float, str),
    "baseline": str,
}
_REQUIRED = ("label", "command", "kernel", "devices")


class CaseError(ValueError):
    """A case file that cannot be used."""


@dataclass(frozen=True)
class Case:
    """One program run on one emulated device."""

    label: str
    device: str
    command: list[str]
    kernel: re.Pattern[str]
    env: dict[str, str] = field(default_factory=dict)
    tile: str = "tile"
    tiles_per_trip: float = 1
    tiles: float | None = None  # in a whole launch
    flop: float | None = None  # of a whole launch
    least_bytes: float | None = None  # that a launch has to move
    baseline: str | None = None  # label of the case that this one is compared with


def _read_toml(path: Path) -> Record:
    try:
        toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    except ModuleNotFoundError as error:
        raise CaseError("reading case files needs Python 3.11, or tomli") from error
    try:
        content: Record = toml.loads(path.read_text())
    except OSError as error:
        raise CaseError(f"{path}: {error.strerror}") from error
    except toml.TOMLDecodeError as error:
        raise CaseError(f"{path}: {error}") from error
    return content


def load(path: Path) -> list[Case]:
    """Every case of a file, spread over its matrix and devices. Raises CaseError."""
    content = _read_toml(path)
    if set(content) != {"case"} or not isinstance(content["case"], list):
        raise CaseError(f"{path}: a case file holds [[case]] tables and nothing else")
    cases: list[Case] = []
    for number, entry in enumerate(content["case"], 1):
        try:
            cases += _spread(entry)
        except (ValueError, KeyError, re.error) as error:
            reason = f"{error} is not in the shape or matrix" if isinstance(error, KeyError) else error
            raise CaseError(f"{path}, case {number}: {reason}") from error
    seen: set[tuple[str, str]] = set()
    for case in cases:
        if (case.label, case.device) in seen:
            raise CaseError(f"{path}: two cases are called {case.label!r} on {case.device}")
        seen.add((case.label, case.device))
    return cases


def _spread(entry: Record) -> Iterator[Case]:
    for key, value in entry.items():
        if key not in _KEYS:
            raise CaseError(f"unknown key {key!r}")
        if not isinstance(value, _KEYS[key]):
            raise CaseError(f"{key} has the wrong type")
    for key in _REQUIRED:
        if key not in entry:
            raise CaseError(f"{key} is missing")
    matrix = entry.get("matrix", {})
    if wrong := [name for name, values in matrix.items() if not isinstance(values, list) or not values]:
        raise CaseError(f"matrix.{wrong[0]} is not a list of values")
    for values in itertools.product(*matrix.values()):
        shape = entry.get("shape", {}) | dict(zip(matrix, values))
        for device in entry["devices"]:
            wave_size = 64 if device.startswith("gfx9") else 32
            yield _one(entry, shape | {"device": device, "wave_size": wave_size}, device)


def _one(entry: Record, shape: Record, device: str) -> Case:
    def text(template: object) -> str:
        return str(template).format(**shape)

    def number(key: str) -> float | None:
        return evaluate(entry[key], shape) if key in entry else None

    tiles_per_trip = number("tiles_per_trip")
    if tiles_per_trip is not None and tiles_per_trip <= 0:
        raise CaseError("tiles_per_trip is not positive")
    return Case(
        label=text(entry["label"]),
        device=device,
        command=[text(part) for part in entry["command"]],
        kernel=re.compile(entry["kernel"]),
        env={name: text(value) for name, value in entry.get("env", {}).items()},
        tile=entry.get("tile", "tile"),
        tiles_per_trip=1 if tiles_per_trip is None else tiles_per_trip,
        tiles=number("tiles"),
        flop=number("flop"),
        least_bytes=number("least_bytes"),
        baseline=text(entry["baseline"]) if "baseline" in entry else None,
    )
