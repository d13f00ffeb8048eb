"""Disassembling kernels with llvm-objdump."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..toolchain import find_objdump
from .codeobject import CodeObject, Kernel

_LINE = re.compile(r"^\t([\w.]+)\s*(.*?)\s*// ([0-9A-F]+): ((?:[0-9A-F]{8} ?)*)")
_BRANCH = re.compile(r"s_(c?branch|call)")


@dataclass(frozen=True)
class Instruction:
    address: int
    size: int
    mnemonic: str
    operands: str
    target: int | None = None  # of a direct branch


class DisassemblyError(RuntimeError):
    """llvm-objdump failed."""


def disassemble(code: CodeObject, kernels: list[Kernel]) -> dict[str, list[Instruction]]:
    """The instructions of each of `kernels`, in the order of their addresses."""
    result: dict[str, list[Instruction]] = {}
    with tempfile.TemporaryDirectory(prefix="isa-report-") as directory:
        path = Path(directory) / "kernels.co"
        path.write_bytes(code.elf.data)
        for wave_size in sorted({kernel.wave_size for kernel in kernels}):
            group = [kernel for kernel in kernels if kernel.wave_size == wave_size]
            result |= _run(path, code.target, wave_size, group)
    return result


def _run(path: Path, target: str, wave_size: int, kernels: list[Kernel]) -> dict[str, list[Instruction]]:
    processor = target.split(":")[0]
    features = []
    if re.match(r"gfx1[12]", processor):
        features.append("+real-true16")  # high halves of 16-bit registers, which newer compilers use
    if not processor.startswith("gfx9") and wave_size == 64:
        features.append("+wavefrontsize64,-wavefrontsize32")
    command = [find_objdump(), "--disassemble", f"--mcpu={processor}"]
    if features:
        command.append("--mattr=" + ",".join(features))
    first = min(kernel.address for kernel in kernels)
    last = max(kernel.address + kernel.size for kernel in kernels)
    command += [f"--start-address=0x{first:x}", f"--stop-address=0x{last:x}", str(path)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise DisassemblyError(f"{command[0]} failed: {run.stderr.strip()}")
    instructions = [found for line in run.stdout.splitlines() if (found := parse_line(line)) is not None]
    by_kernel = {}
    for kernel in kernels:
        end = kernel.address + kernel.size
        by_kernel[kernel.symbol] = _without_padding([i for i in instructions if kernel.address <= i.address < end])
    return by_kernel


def parse_line(line: str) -> Instruction | None:
    """One line of llvm-objdump's output, None if it holds no instruction."""
    match = _LINE.match(line)
    if match is None:
        return None
    mnemonic, operands, address, words = match.groups()
    at, codes = int(address, 16), words.split()
    target = None
    if _BRANCH.match(mnemonic) and codes:
        # The low half of the first word counts words from the next instruction.
        offset = int(codes[0], 16) & 0xFFFF
        target = at + 4 + 4 * (offset - 0x10000 if offset >= 0x8000 else offset)
    return Instruction(at, 4 * max(1, len(codes)), mnemonic, operands, target)


def _without_padding(instructions: list[Instruction]) -> list[Instruction]:
    """Cuts what follows the last s_endpgm, s_setpc or s_branch: padding and instruction prefetch space."""
    for index in range(len(instructions) - 1, -1, -1):
        if re.match(r"s_(endpgm|setpc|branch|trap)", instructions[index].mnemonic):
            return instructions[: index + 1]
    return instructions
