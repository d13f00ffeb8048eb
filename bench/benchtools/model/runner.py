"""Runs a case on the emulator and reads the launch report that it writes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .. import Record, names
from .cases import Case


class RunError(RuntimeError):
    """A program that failed, or launched nothing that was wanted."""


@dataclass(frozen=True)
class Settings:
    build: Path  # where relative commands are looked for
    emulator: Path | None = None  # directory of the emulated runtime, for programs that do not know it
    timing: bool = True
    parameters: str = ""  # of the timing model, as GFXEMU_TIMING_SET has them
    timeout: float = 900


def launches(case: Case, settings: Settings) -> list[Record]:
    """The last launch of each kernel of the case, as the emulator reports it. Raises RunError."""
    with tempfile.TemporaryDirectory(prefix="bench-model-") as directory:
        report = Path(directory) / "report.jsonl"
        output = _run(case, settings, _environment(case, settings, report, Path(directory) / "timing.txt"))
        if not report.exists():
            raise RunError(f"{case.label}: no launch was reported; is the program linked with the emulator?\n{output}")
        lines = [json.loads(line) for line in report.read_text().splitlines()]
    found: dict[str, Record] = {}
    for line in lines:
        if "fault" in line:
            raise RunError(f"{case.label}: {line['demangled']}: {line['fault']}")
        demangled = names.demangle(line["kernel"])
        if case.kernel.search(demangled):
            line["demangled"] = demangled
            found[demangled] = line
    if not found:
        seen = ", ".join(sorted({names.shorten(names.demangle(line["kernel"])) for line in lines}))
        raise RunError(f"{case.label}: no kernel matches {case.kernel.pattern!r}; launched were: {seen}")
    return list(found.values())


def _environment(case: Case, settings: Settings, report: Path, text: Path) -> dict[str, str]:
    env = dict(os.environ)
    env.pop("GFXEMU_TIMING", None)
    env |= {"GFXEMU_DEVICES": case.device, "GFXEMU_REPORT": str(report)}
    if settings.timing:
        env |= {"GFXEMU_TIMING": "1", "GFXEMU_TIMING_OUT": str(text)}
    if settings.emulator is not None:
        env["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(settings.emulator), env.get("LD_LIBRARY_PATH")]))
    env |= case.env
    if settings.parameters:
        env["GFXEMU_TIMING_SET"] = ",".join(filter(None, [case.env.get("GFXEMU_TIMING_SET"), settings.parameters]))
    return env


def _run(case: Case, settings: Settings, env: dict[str, str]) -> str:
    command = list(case.command)
    if os.sep in command[0] and not os.path.isabs(command[0]):
        command[0] = str(settings.build / command[0])
    try:
        run = subprocess.run(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=settings.timeout
        )
    except FileNotFoundError as error:
        raise RunError(f"{case.label}: {command[0]} does not exist (build with -DWAVEATTN_BUILD_BENCH=ON)") from error
    except subprocess.TimeoutExpired as error:
        raise RunError(f"{case.label}: still running after {settings.timeout:g} s") from error
    if run.returncode != 0:
        raise RunError(f"{case.label}: exit code {run.returncode}\n{run.stdout[-2000:]}")
    return run.stdout[-2000:]


def record(case: Case, launch: Record) -> Record:
    """What the tables and the JSON file hold of a launch."""
    result: Record = {
        "label": case.label,
        "target": launch["arch"],
        "name": names.shorten(launch["demangled"]),
        "demangled": launch["demangled"],
        "grid": launch["grid"],
        "block": launch["block"],
        "waves_per_simd": launch["waves_per_simd"],
        "tile": case.tile,
        "baseline": case.baseline,
        "tiles": case.tiles,
        "emulated": _counts(case, launch),
    }
    if "timing" in launch:
        result["modelled"] = _modelled(case, launch)
    return result


def _counts(case: Case, launch: Record) -> Record:
    """The counters of a launch, and the same for each tile."""
    counters = {name: value for name, value in launch["counters"].items() if not isinstance(value, dict)}
    counters["ds_bpermute"] = launch["counters"]["by_mnemonic"].get("ds_bpermute_b32", 0)
    moved = counters["vmem_load_bytes"] + counters["vmem_store_bytes"]
    counts: Record = {"launch": counters}
    if case.tiles:
        counts["per_tile"] = {name: round(value / case.tiles, 3) for name, value in counters.items()}
    if case.least_bytes:
        counts["bytes_over_least"] = round(moved / case.least_bytes, 4)
    return counts


def _modelled(case: Case, launch: Record) -> Record:
    timing = launch["timing"]
    total, unit_cus = timing["total"], 2 if launch["arch"].startswith("gfx1") else 1
    workgroups = launch["grid"][0] * launch["grid"][1] * launch["grid"][2]
    # Workgroups that share the unit at a time.
    resident = min(timing["resident"], timing["workgroups"])
    modelled: Record = {
        "workgroups": timing["workgroups"],
        "resident": resident,
        "room": timing["resident"],
        "whole": timing["workgroups"] == workgroups,  # every workgroup of the launch was recorded
        "clocks": timing["clocks"],
        "clocks_per_workgroup": timing["clocks_per_workgroup"],
        "clocks_per_workgroup_and_cu": round(timing["clocks"] * unit_cus / timing["workgroups"], 1),
        "total": _shares(total),
        "stalls_in_run": {name: share for name, share in timing["wave_time"].items() if name != "issue"},
    }
    if case.flop:
        per_workgroup = case.flop / workgroups
        modelled["flop_per_clk_cu"] = round(per_workgroup / modelled["clocks_per_workgroup_and_cu"], 1)
    if "loop" in timing:
        loop = _mean_loop(timing.get("loops", [timing["loop"]]))
        per_tile = loop["clocks_per_trip"] / case.tiles_per_trip
        modelled |= {
            "loop": loop,
            "clocks_per_tile": round(per_tile, 1),
            "clocks_per_tile_and_cu": round(per_tile * unit_cus / resident, 1),
            "before_loop": timing["prologue"],
            "after_loop": timing["epilogue"],
        }
        if "in_loop" in timing:
            modelled["in_loop"] = _shares(timing["in_loop"])
    return modelled


def _shares(busy: Record) -> Record:
    names_kept = ("matrix", "valu", "trans", "lds", "vmem", "l2_bytes_per_clk_cu", "flop_per_clk_cu")
    return {name: busy[name] for name in (*names_kept, "percent_of_16bit_peak")}


def _mean_loop(loops: list[Record]) -> Record:
    """Waves may run different code; one loop as the mean over waves."""
    waves: int = sum(loop["waves"] for loop in loops)

    def mean(values: list[float]) -> float:
        weighted: float = sum(value * loop["waves"] for value, loop in zip(values, loops))
        return round(weighted / waves, 1)

    reasons = dict.fromkeys(name for loop in loops for name in loop["reasons"])
    return {
        "heads": [loop["head"] for loop in loops],
        "trips_per_wave": min(loop["trips_per_wave"] for loop in loops),
        "clocks_per_trip": mean([loop["clocks_per_trip"] for loop in loops]),
        "instructions_per_trip": mean([loop["instructions_per_trip"] for loop in loops]),
        "reasons": {name: mean([loop["reasons"].get(name, 0) for loop in loops]) for name in reasons},
    }
