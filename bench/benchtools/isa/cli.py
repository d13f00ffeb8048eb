"""Command line of bench/isa_report."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from .. import Record
from ..toolchain import ToolMissing
from .analysis import InputError, Options, analyse
from .disassembly import DisassemblyError
from .report import compare, text_report

FORMAT = 1
PARTS = ("resources", "loop", "static")


def _integer(text: str) -> int:
    return int(text, 0)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from error


def _per(text: str) -> tuple[re.Pattern[str], float]:
    pattern, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither N nor REGEX=N with N > 0")
    return _pattern(pattern), value


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    if wrong := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"unknown table {wrong[0]!r}; there are {', '.join(PARTS)}")
    return parts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="isa_report",
        description="Registers, occupancy and instruction counts of compiled AMDGPU kernels.",
        epilog="An input is a code object (.hsaco, .co), an offload bundle, an object, library or executable "
        "that holds such, or a directory of them. docs/benchmarks.md explains the figures.",
    )
    add = parser.add_argument
    add("inputs", nargs="*", type=Path, metavar="INPUT", help="what to read")
    add("--kernel", type=_pattern, metavar="REGEX", help="only kernels whose name (demangled or not) matches")
    add("--target", action="append", metavar="GFX", help="only this target; may be repeated")
    add("--show", type=_parts, default=list(PARTS), metavar="TABLES", help="of resources,loop,static; default all")
    add("--per", type=_per, action="append", metavar="[REGEX=]N", help="divide loop counts by N tiles a trip")
    add("--loop", type=_integer, metavar="OFFSET", help="head of the loop to count, as llvm-objdump prints it")
    add("--all-loops", action="store_true", help="show every loop, not only the hot one")
    add("--block", type=_integer, metavar="N", help="threads of a workgroup, for occupancy; default: the launch bound")
    add("--dynamic-lds", type=_integer, default=0, metavar="BYTES", help="LDS asked for at launch, for occupancy")
    add("--stubs", action="store_true", help="show kernels that only trap, as they do on targets they are not for")
    add("--json", type=Path, metavar="FILE", help="write every figure there; - is standard output, instead of text")
    add("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"), help="differences between two --json files")
    add("--fail-on-spill", action="store_true", help="exit 1 naming every kernel that spills or uses scratch")
    add("--name-width", type=_integer, default=64, metavar="N", help="longest kernel name in tables; 0: any length")
    return parser


def _load(path: Path) -> list[Record]:
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise InputError(f"{path} is not a report of this version of isa_report")
    kernels: list[Record] = report["kernels"]
    return kernels


def _spills(records: list[Record]) -> int:
    """Names the kernels that spill; the exit code."""
    bad = 0
    for record in records:
        r = record["resources"]
        if r["vgpr_spills"] or r["sgpr_spills"] or r["scratch"]:
            bad += 1
            print(
                f"{record['target']} {record['name']}: {r['vgpr_spills']} VGPR and {r['sgpr_spills']} SGPR spills, "
                f"{r['scratch']} bytes of scratch"
            )
    print(f"{len(records)} kernels, {bad} of them spill or use scratch")
    return 1 if bad else 0


def run(arguments: list[str]) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    if args.compare:
        text = compare(_load(args.compare[0]), _load(args.compare[1]), args.name_width)
        print(text or "no difference")
        return 0
    if not args.inputs:
        parser.error("no input (or --compare OLD NEW)")
    options = Options(
        kernel=args.kernel,
        targets=args.target,
        disassemble=not args.fail_on_spill and (args.json is not None or args.show != ["resources"]),
        loop=args.loop,
        all_loops=args.all_loops,
        block=args.block,
        lds=args.dynamic_lds,
        per=args.per,
    )
    records = analyse(args.inputs, options)
    if not records:
        raise InputError("no kernel of that name or target in the input")
    if args.json is not None:
        text = json.dumps({"tool": "isa_report", "format": FORMAT, "kernels": records}, indent=1)
        if str(args.json) == "-":
            print(text)
        else:
            args.json.write_text(text + "\n")
    if args.fail_on_spill:
        return _spills(records)
    if str(args.json) != "-":
        print(text_report(records, args.show, args.name_width, args.stubs))
    return 0


def main() -> int:
    try:
        return run(sys.argv[1:])
    except (InputError, ToolMissing, DisassemblyError) as error:
        print(f"isa_report: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
