"""From a file to figures: everything that the report prints about a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import Record, names
from . import bundle, targets
from .classes import CLASSES, DETAILS, classify, multiply_adds
from .codeobject import CodeObject, CodeObjectError, Kernel, matches_target, read_code_object
from .disassembly import Instruction, disassemble
from .elf import ElfError
from .loops import ControlFlow, Loop, Work, choose_loop


@dataclass
class Options:
    kernel: re.Pattern[str] | None = None  # searched in the demangled and in the linker name
    targets: list[str] | None = None
    disassemble: bool = True
    loop: int | None = None  # address of the loop's head
    all_loops: bool = False
    block: int | None = None  # threads of a workgroup, instead of the launch bound
    lds: int = 0  # dynamic LDS of a workgroup
    per: list[tuple[re.Pattern[str], float]] | None = None  # tiles a trip


class InputError(ValueError):
    """An input that holds no code object."""


def input_files(path: Path) -> list[Path]:
    """The path itself, or every file below a directory that may hold code objects."""
    if not path.exists():
        raise InputError(f"{path}: no such file or directory")
    if not path.is_dir():
        return [path]
    found = []
    for file in sorted(p for p in path.rglob("*") if p.is_file()):
        with file.open("rb") as stream:
            start = stream.read(24)
        if start.startswith((b"\x7fELF", bundle.ARCHIVE_MAGIC, bundle.BUNDLE_MAGIC, bundle.COMPRESSED_MAGIC)):
            found.append(file)
    return found


def code_objects(path: Path) -> Iterator[CodeObject]:
    for image in bundle.images(path.read_bytes()):
        yield read_code_object(image.data, image.target)


def analyse(paths: list[Path], options: Options) -> list[Record]:
    """One record for each kernel and target, in a form that JSON holds. Raises InputError where nothing is found."""
    records: list[Record] = []
    seen: set[tuple[str, str, bytes]] = set()
    for path in paths:
        found = False
        for file in input_files(path):
            try:
                for code in code_objects(file):
                    found = True
                    records += _records(file, code, options, seen)
            except (ElfError, CodeObjectError, bundle.BundleError) as error:
                if not path.is_dir():
                    raise InputError(f"{file}: {error}") from error
        if not found:
            raise InputError(f"{path}: no AMDGPU code object in it")
    return sorted(records, key=lambda record: (record["target"], record["name"], record["file"]))


def _records(file: Path, code: CodeObject, options: Options, seen: set[tuple[str, str, bytes]]) -> list[Record]:
    if not matches_target(code.target, options.targets or []):
        return []
    kernels = []
    for kernel in code.kernels:
        demangled = names.demangle(kernel.symbol)
        if options.kernel and not (options.kernel.search(demangled) or options.kernel.search(kernel.symbol)):
            continue
        # A template instantiated in several translation units, or an object beside the library it went into.
        key = (code.target, kernel.symbol, code.code_of(kernel))
        if key not in seen:
            seen.add(key)
            kernels.append(kernel)
    wanted = [kernel for kernel in kernels if kernel.size] if options.disassemble else []
    listings = disassemble(code, wanted) if wanted else {}
    return [_record(file, kernel, listings.get(kernel.symbol), options) for kernel in kernels]


def _record(file: Path, kernel: Kernel, listing: list[Instruction] | None, options: Options) -> Record:
    demangled = names.demangle(kernel.symbol)
    record: Record = {
        "file": str(file),
        "target": kernel.target,
        "name": names.shorten(demangled),
        "demangled": demangled,
        "symbol": kernel.symbol,
        "resources": {
            "vgprs": kernel.vgprs,
            "agprs": kernel.agprs,
            "total_vgprs": kernel.total_vgprs,
            "allocated_vgprs": kernel.allocated_vgprs,
            "sgprs": kernel.sgprs,
            "vgpr_spills": kernel.vgpr_spills,
            "sgpr_spills": kernel.sgpr_spills,
            "lds": kernel.lds,
            "scratch": kernel.scratch,
            "max_block": kernel.max_block,
            "wave_size": kernel.wave_size,
        },
        "stub": kernel.is_stub(),
    }
    if (target := targets.find_target(kernel.target)) is not None:
        record["occupancy"] = vars(
            targets.occupancy(
                target,
                kernel.total_vgprs,
                kernel.wave_size,
                options.block or kernel.max_block,
                kernel.lds + options.lds,
                kernel.wgp_mode,
                kernel.sgprs,
                kernel.allocated_vgprs,
            )
        )
    if listing:
        record["static"] = count(listing)
        _add_loops(record, kernel, listing, options)
    return record


def count(instructions: list[Instruction]) -> dict[str, int]:
    """Instructions by class, then by detail, then in all."""
    counts = dict.fromkeys((*CLASSES, *DETAILS, "total"), 0)
    counts |= {"lds_total": 0, "ds_bpermute": 0}
    for instruction in instructions:
        name, details = classify(instruction.mnemonic, instruction.operands)
        counts[name] += 1
        for detail in details:
            counts[detail] += 1
        counts["total"] += 1
        counts["lds_total"] += name in ("lds_read", "lds_write", "lds_permute")
        counts["ds_bpermute"] += instruction.mnemonic.startswith("ds_bpermute")
    return counts


def _add_loops(record: Record, kernel: Kernel, listing: list[Instruction], options: Options) -> None:
    flow = ControlFlow(listing)
    in_loops = [i for loop in flow.loops for block in loop.body for i in flow.blocks[block].instructions]
    work = _work_of(in_loops)
    loop = choose_loop(flow, work, options.loop)
    if loop is not None:
        record["loop"] = _loop_record(flow, loop, work, kernel, record["name"], options)
    if options.all_loops:
        record["loops"] = [_loop_record(flow, each, work, kernel, record["name"], options) for each in flow.loops]


def _work_of(instructions: list[Instruction]) -> Work:
    """What makes a loop hot: matrix instructions, where there are none multiply-adds, else any vector instruction."""
    if any(classify(i.mnemonic, "")[0] == "matrix" for i in instructions):
        return lambda i: int(classify(i.mnemonic, "")[0] == "matrix")
    if any(multiply_adds(i.mnemonic, i.operands) for i in instructions):
        return lambda i: multiply_adds(i.mnemonic, i.operands)
    return lambda i: int(i.mnemonic.startswith("v_"))


def _loop_record(flow: ControlFlow, loop: Loop, work: Work, kernel: Kernel, name: str, options: Options) -> Record:
    path = flow.hot_path(loop, work)
    body = [i for block in loop.body for i in flow.blocks[block].instructions]
    tiles = next((number for pattern, number in options.per or [] if pattern.search(name)), 1)
    record: Record = {
        "head": f"0x{flow.blocks[loop.head].address:x}",
        "depth": loop.depth,
        "tiles_per_trip": tiles,
        "path": count(path),
        "body": count(body),
    }
    if any(classify(i.mnemonic, "")[0] == "matrix" for i in path):
        if (share := matrix_share(kernel.target, kernel.wave_size, path)) is not None:
            record["modelled"] = share
    return record


def matrix_share(target: str, wave_size: int, path: list[Instruction]) -> Record | None:
    """Share of the matrix pipe in the clocks of a trip, from issue clocks alone: no latency, no waiting, no memory.

    shared port (gfx12):    M / (M + V)
    own matrix pipe (CDNA): M / max(M, V + B), B the clocks after each matrix instruction in which no VALU issues;
                            the waves of a SIMD are assumed to overlap perfectly. Packed fp32 instructions of gfx950
                            run beside no matrix instruction: M / max(M + P, V + B), P their clocks.
    M and V are the clocks of matrix and of all other vector instructions of a wave. `ceiling` leaves B and P out,
    `serial` is M / (M + V): one wave without any overlap.
    """
    clocks = targets.issue_clocks(target)
    if clocks is None:
        return None
    passes = 2 if clocks.shared and wave_size == 64 else 1  # wave64 issues twice on the wave32 targets
    matrix, vector, blocked, packed = 0, 0, 0, 0
    for instruction in path:
        name, details = classify(instruction.mnemonic, instruction.operands)
        if name == "matrix":
            matrix += passes * targets.matrix_clocks(target, instruction.mnemonic, instruction.operands)
            blocked += clocks.matrix_block
        elif name in ("trans", "valu"):
            own = passes * vector_clocks(clocks, name, instruction.mnemonic)
            vector += own
            packed += own if clocks.packed_alone and "packed" in details else 0
    serial = matrix / (matrix + vector)
    if clocks.shared:
        share = ceiling = serial
    else:
        share = matrix / max(matrix + packed, vector + blocked)
        ceiling = matrix / max(matrix, vector)
    return {
        "matrix_clocks": matrix,
        "vector_clocks": vector,
        "share": round(share, 4),
        "ceiling": round(ceiling, 4),
        "serial": round(serial, 4),
    }


def vector_clocks(clocks: targets.IssueClocks, name: str, mnemonic: str) -> int:
    if name == "trans":
        return clocks.transcendental
    if re.match(r"v_(mul_lo_[ui]32|mul_hi_|mad_u64|mad_i64|mad_co_)", mnemonic):
        return clocks.quarter_rate
    if re.match(r"v_permlane\d+_swap", mnemonic):
        return clocks.lane_swap
    return clocks.plain
