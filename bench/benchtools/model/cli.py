"""Command line of bench/model."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path

from .. import Record
from .cases import Case, CaseError, load
from .report import compare, counts_text, modelled_text
from .runner import RunError, Settings, launches, record

FORMAT = 1
_BENCH = Path(__file__).resolve().parents[2]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="model",
        description="Runs benchmark programs on the emulator and prints modelled clocks, busy pipes and stalls.",
        epilog="Without a case file: model --run --device gfx942 --kernel REGEX -- PROGRAM ARGUMENTS...",
    )
    add = parser.add_argument
    add("arguments", nargs="*", metavar="CASES.toml", help="case files; default: all of bench/cases")
    add("--case", type=re.compile, metavar="REGEX", help="only cases whose label matches")
    add("--target", action="append", metavar="GFX", help="only this target; may be repeated")
    add("--counts", action="store_true", help="dynamic counts instead of modelled clocks (faster)")
    add("--list", action="store_true", help="list the cases and run nothing")
    build = os.environ.get("WAVEATTN_BUILD", _BENCH.parent / "build")
    add("--build", type=Path, default=build, metavar="DIR", help="build directory; default: $WAVEATTN_BUILD or build")
    add("--emulator", type=Path, metavar="DIR", help="where the emulated libamdhip64 is, for programs built elsewhere")
    add("--set", default="", metavar="A=1,B=2", help="parameters of the timing model, for every case")
    add("--json", type=Path, metavar="FILE", help="write every figure there")
    add("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="differences between two --json files")
    add("--timeout", type=float, default=900, metavar="S", help="seconds that a program may take; default 900")
    add("--run", action="store_true", help="the arguments are a program to run")
    add("--device", default="gfx942", metavar="GFX", help="for --run: the emulated device")
    add("--kernel", type=re.compile, default=re.compile(""), metavar="REGEX", help="for --run: kernels to show")
    add("--tiles-per-trip", type=float, default=1, metavar="N", help="for --run: tiles in a trip of the hot loop")
    return parser


def _cases(args: argparse.Namespace) -> list[Case]:
    if args.run:
        if not args.arguments:
            raise CaseError("--run needs a program")
        program = args.arguments[0]
        command = [str(Path(program).resolve()) if Path(program).exists() else program, *args.arguments[1:]]
        label = Path(program).name
        return [Case(label, args.device, command, args.kernel, tiles_per_trip=args.tiles_per_trip)]
    files = [Path(name) for name in args.arguments] or sorted((_BENCH / "cases").glob("*.toml"))
    if not files:
        raise CaseError("no case file in bench/cases")
    cases = [case for file in files for case in load(file)]
    if args.case:
        cases = [case for case in cases if args.case.search(case.label)]
    if args.target:
        cases = [case for case in cases if case.device.split(":")[0] in args.target]
    if not cases:
        raise CaseError("no case of that name or target")
    return cases


def _load_report(path: Path) -> list[Record]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CaseError(f"{path}: {error}") from error
    if not isinstance(content, dict) or content.get("tool") != "model" or content.get("format") != FORMAT:
        raise CaseError(f"{path} is not a report of this version of model")
    cases: list[Record] = content["cases"]
    return cases


def run(arguments: list[str]) -> int:
    args = _parser().parse_args(arguments)
    if args.compare:
        print(compare(*map(_load_report, args.compare)) or "no difference")
        return 0
    cases = _cases(args)
    if args.list:
        for case in cases:
            print(f"{case.device:8}  {case.label}: {' '.join(case.command)}")
        return 0
    settings = Settings(Path(args.build), args.emulator, not args.counts, args.set, args.timeout)
    records, failed = [], 0
    for number, case in enumerate(cases, 1):
        print(f"[{number}/{len(cases)}] {case.label} on {case.device}", file=sys.stderr, flush=True)
        try:
            records += [record(case, launch) for launch in launches(case, settings)]
        except RunError as error:
            failed += 1
            print(f"model: {error}", file=sys.stderr)
    if records:
        print(counts_text(records) if args.counts else modelled_text(records))
    if args.json is not None:
        args.json.write_text(json.dumps({"tool": "model", "format": FORMAT, "cases": records}, indent=1) + "\n")
    return 1 if failed else 0


def main() -> int:
    try:
        return run(sys.argv[1:])
    except CaseError as error:
        print(f"model: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
