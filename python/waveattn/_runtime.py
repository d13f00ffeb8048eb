"""Runtimes and devices: what was found, where, and which device a call runs on."""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import sys
import warnings
from typing import Any

from . import _core

#: The target that CPU tensors are computed on unless the caller or WAVEATTN_EMULATED_DEVICE says otherwise.
DEFAULT_EMULATED_TARGET = "gfx942"
_EMULATED_TARGETS = "gfx1030,gfx1200,gfx942,gfx950"


def _package_candidates() -> list[tuple[str, str]]:
    """Runtimes that Python packages carry, found without importing the packages."""
    found = []
    for package, folder, origin in (
        ("torch", "lib", "torch"),
        ("_rocm_sdk_core", "lib", "rocm_sdk"),
        ("rocm_sdk", "lib", "rocm_sdk"),
    ):
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        for place in (spec.submodule_search_locations or []) if spec else []:
            for path in sorted(pathlib.Path(place, folder).glob("libamdhip64.so*")):
                found.append((str(path), origin))
                break
    return found


@functools.cache
def rocm() -> dict[str, Any]:
    """Status of ROCm's runtime, looked for at the first call."""
    return _core.load_rocm(_package_candidates())


def emulator_path() -> str:
    """Where the emulator's library is: WAVEATTN_EMULATOR, or beside this file."""
    bundled = pathlib.Path(__file__).parent / "emulator" / "libamdhip64.so.7"
    return os.environ.get("WAVEATTN_EMULATOR") or str(bundled)


def _missing_cpu_features() -> list[str]:
    """Instruction sets that the emulator is compiled for and this CPU lacks: it would end the process."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), None)
    return [] if flags is None else [name for name in ("avx2", "bmi2", "f16c", "fma") if name not in flags]


@functools.cache
def emulator() -> dict[str, Any]:
    """Status of the emulator, loaded at the first call."""
    missing = _missing_cpu_features()
    if missing:
        reason = f"the emulator needs a CPU with {', '.join(missing)}"
        return {"loaded": False, "path": emulator_path(), "origin": "bundled", "tried": [reason], "version": 0}
    return _core.load_emulator(emulator_path(), _EMULATED_TARGETS)


@functools.cache
def device(ordinal: int) -> dict[str, Any]:
    """What is known of a device by its ordinal within the extension."""
    return _core.device(ordinal)


def gpu_devices() -> list[dict[str, Any]]:
    rocm()
    return [device(i) for i in range(_core.rocm_device_count())]


@functools.cache
def emulated_devices() -> list[dict[str, Any]]:
    emulator()
    return [device(_core.first_emulated + i) for i in range(_core.emulated_device_count())]


@functools.cache
def _emulated_ordinals() -> dict[str, int]:
    if not emulator()["loaded"]:
        raise RuntimeError("CPU tensors need the bundled emulator, which could not be loaded: " + "; ".join(emulator()["tried"]))
    ordinals: dict[str, int] = {}
    for entry in emulated_devices():
        ordinals.setdefault(entry["target"], entry["ordinal"])
    return ordinals


_warned = False


def emulated_ordinal(target: str | None) -> int:
    """The emulated device of a target, by default that of WAVEATTN_EMULATED_DEVICE. Warns once per process."""
    global _warned
    ordinals = _emulated_ordinals()
    if not ordinals:
        raise RuntimeError(f"the emulator {emulator_path()} has no devices; GFXEMU_DEVICES is {os.environ.get('GFXEMU_DEVICES', '')!r}")
    if target is not None and not isinstance(target, str):
        raise TypeError(f"device must be a string, the name of an emulated target ({', '.join(ordinals)}), got {target!r}")
    if target == "":
        raise ValueError(f"device must be one of the emulated targets {', '.join(ordinals)}, got ''")
    name = target or os.environ.get("WAVEATTN_EMULATED_DEVICE") or _default_target(ordinals)
    if name not in ordinals:
        raise ValueError(f"device must be one of the emulated targets {', '.join(ordinals)}, got {name!r}")
    if not _warned:
        _warned = True
        warnings.warn(
            f"waveattn: CPU tensors are computed by an emulated AMD GPU ({name}): exact, but many thousand times slower "
            "than a GPU",
            RuntimeWarning,
            stacklevel=_level_of_caller(),
        )
    require_code(ordinals[name])
    return ordinals[name]


def _default_target(ordinals: dict[str, int]) -> str:
    """The target of CPU tensors where nobody chose one: the default, if it is there and this build has code for it."""
    usable = [name for name, ordinal in ordinals.items() if has_code(ordinal)] or list(ordinals)
    return DEFAULT_EMULATED_TARGET if DEFAULT_EMULATED_TARGET in usable else usable[0]


def _level_of_caller() -> int:
    """The stack level, for the function that asks, of the line that called into this package."""
    level, result = 1, 2
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
            result = level + 1
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return result


def has_code(ordinal: int) -> bool:
    """Whether this build has a code object for a device. Those for a family of targets ("gfx12-generic") count for all."""
    built = _core.targets.split(",")
    return device(ordinal)["gcn_arch"].partition(":")[0] in built or any("generic" in name for name in built)


def require_code(ordinal: int) -> None:
    """Raises RuntimeError where kernels exist for a device, but this build was not compiled for it."""
    if target(ordinal) != "unsupported" and not has_code(ordinal):
        raise RuntimeError(
            f"this build of waveattn has code for {', '.join(_core.targets.split(','))}, but {device_in_words(ordinal)}; "
            "CMAKE_HIP_ARCHITECTURES chooses the targets of a build"
        )


def require_gpu(ordinal: int) -> int:
    """Checks that ROCm's runtime, the device and code for it are there; returns the ordinal."""
    status = rocm()
    if not status["loaded"]:
        raise RuntimeError("no HIP runtime (libamdhip64, ROCm 6 or newer) was found; tried " + "; ".join(status["tried"]))
    count = _core.rocm_device_count()
    if ordinal >= count:
        raise RuntimeError(f"device {ordinal} does not exist for the HIP runtime {status['path']}, which sees {count} devices")
    require_code(ordinal)
    return ordinal


def target(ordinal: int) -> str:
    """The target of a device ("gfx942", ...); "unsupported" where no kernel runs on it."""
    return str(device(ordinal)["target"])


def device_in_words(ordinal: int) -> str:
    """Which device it is and what, for the end of an error message."""
    entry = device(ordinal)
    which = "the emulated device" if entry["emulated"] else f"device {ordinal}"
    return f"{which} ({entry['name']}) is {entry['gcn_arch']}"


# ---- public ----


def devices() -> list[dict[str, Any]]:
    """The devices that kernels can run on: GPUs first, then the emulated ones.

    Each is a dict with ``ordinal`` (of the extension; GPUs have HIP's ordinals), ``name``, ``gcn_arch``, ``target``,
    ``wave_size``, ``compute_units`` and ``emulated``. A GPU whose ``target`` is ``"unsupported"`` is listed, but no
    kernel runs on it. Loads the runtimes at the first call; never raises.
    """
    return [dict(entry) for entry in (*gpu_devices(), *emulated_devices())]


def is_available() -> bool:
    """Whether a GPU is there that this build has kernels for. CPU tensors work without one, on the emulator."""
    return any(entry["target"] != "unsupported" and has_code(entry["ordinal"]) for entry in gpu_devices())


def info() -> dict[str, Any]:
    """What was found and why something is unavailable, as a dict of plain values.

    ``version``; ``targets``: code objects in this build; ``kernels``: what the extension was built with; ``backends``:
    by operation; ``rocm`` and ``emulator``: dicts with ``loaded``, ``path``, ``origin`` (where the path came from),
    ``version`` and ``tried`` (each place that was looked at in vain, with the reason); ``devices``; ``available``;
    ``reason``: why no GPU can be used, or an empty string.
    """
    from . import _registry

    status = rocm()
    gpus = gpu_devices()
    reason = ""
    if not status["loaded"]:
        reason = "no HIP runtime (libamdhip64, ROCm 6 or newer) was found"
    elif not gpus:
        reason = f"the HIP runtime {status['path']} sees no device"
    elif not is_available():
        found = ", ".join(entry["gcn_arch"] for entry in gpus)
        reason = f"found {found}; kernels exist for {_core.supported_targets()}, in this build for {_core.targets}"
    return {
        "version": _core.__version__,
        "targets": _core.targets.split(","),
        "kernels": list(_core.kernels),
        "backends": _registry.describe(),
        "rocm": dict(status),
        "emulator": dict(emulator()),
        "devices": devices(),
        "available": is_available(),
        "reason": reason,
    }
