"""Kernels of a code object with their resources, from its metadata note and kernel descriptors. Needs no LLVM."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from .. import Record
from . import msgpack
from .elf import EM_AMDGPU, STT_FUNC, Elf, ElfError
from .targets import Target, find_target

_METADATA_NOTE = 32
# Targets of code objects whose metadata does not name one (version 3), by the machine field of e_flags.
_MACHINES = {
    0x02C: "gfx900",
    0x02F: "gfx906",
    0x030: "gfx908",
    0x036: "gfx1030",
    0x03F: "gfx90a",
    0x041: "gfx1100",
    0x048: "gfx1200",
    0x04C: "gfx942",
    0x04E: "gfx1201",
    0x04F: "gfx950",
}


class CodeObjectError(ValueError):
    """A code object without metadata that we can read."""


@dataclass
class Kernel:
    symbol: str
    target: str
    vgprs: int  # without accumulation registers
    agprs: int
    total_vgprs: int  # of both kinds, where they share the register file
    allocated_vgprs: int  # what the hardware is told to allocate; may be more than is used
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    lds: int
    scratch: int
    max_block: int
    wave_size: int
    wgp_mode: bool
    address: int = 0
    size: int = 0

    def is_stub(self) -> bool:
        """Nothing but a trap or an end: what kernels are on targets that they are not for."""
        return 0 < self.size <= 16


@dataclass
class CodeObject:
    target: str
    elf: Elf
    kernels: list[Kernel]

    def code_of(self, kernel: Kernel) -> bytes:
        """The bytes of a kernel's instructions; nothing where they could not be found."""
        return (self.elf.at_address(kernel.address, kernel.size) if kernel.size else None) or b""


def read_code_object(data: bytes, named_target: str = "") -> CodeObject:
    """Parses a code object; `named_target` is what its container calls it, used only if the metadata says nothing."""
    elf = Elf(data)
    if elf.machine != EM_AMDGPU:
        raise ElfError("not an AMDGPU code object")
    notes = [content for owner, kind, content in elf.notes() if owner == "AMDGPU" and kind == _METADATA_NOTE]
    if not notes:
        raise CodeObjectError("no AMDGPU metadata note (code objects before version 3 are not supported)")
    metadata = msgpack.loads(notes[0])
    triple = metadata.get("amdhsa.target", "")
    target = triple[triple.find("gfx") :] if "gfx" in triple else named_target or _MACHINES.get(elf.flags & 0xFF, "")
    if not target:
        raise CodeObjectError(f"unknown machine 0x{elf.flags & 0xFF:02x}")
    symbols = {symbol.name: symbol for symbol in elf.symbols() if symbol.section}
    functions = sorted({s.value for s in symbols.values() if s.kind == STT_FUNC})
    text_ends = [s.address + s.size for s in elf.sections_named(".text")]
    kernels = []
    for entry in metadata.get("amdhsa.kernels", []):
        kernel = _kernel(entry, target)
        descriptor = symbols.get(entry.get(".symbol", kernel.symbol + ".kd"))
        if descriptor and (content := elf.at_address(descriptor.value, 64)) is not None:
            _read_descriptor(kernel, content, find_target(target), descriptor.value)
        code = symbols.get(kernel.symbol)
        if code:
            kernel.address = code.value
        if kernel.address:
            following = [start for start in functions + text_ends if start > kernel.address]
            kernel.size = (code.size if code else 0) or (min(following) - kernel.address if following else 0)
        kernels.append(kernel)
    return CodeObject(target, elf, kernels)


def _kernel(entry: Record, target: str) -> Kernel:
    total, agprs = entry.get(".vgpr_count", 0), entry.get(".agpr_count", 0)
    family = find_target(target)
    unified = family is not None and family.unified
    required = entry.get(".reqd_workgroup_size")
    block = entry.get(".max_flat_workgroup_size", 1024)
    if required:
        block = required[0] * required[1] * required[2]
    default_wave = 32 if family is not None and family.wave32 else 64
    # In a unified file the count holds both kinds, the accumulation registers after the rounded-up others.
    used = max(total, agprs) if family is not None and family.separate_agprs else total
    return Kernel(
        symbol=entry[".name"],
        target=target,
        vgprs=total - agprs if unified else total,
        agprs=agprs,
        total_vgprs=used,
        allocated_vgprs=used,
        sgprs=entry.get(".sgpr_count", 0),
        vgpr_spills=entry.get(".vgpr_spill_count", 0),
        sgpr_spills=entry.get(".sgpr_spill_count", 0),
        lds=entry.get(".group_segment_fixed_size", 0),
        scratch=entry.get(".private_segment_fixed_size", 0),
        max_block=block,
        wave_size=entry.get(".wavefront_size", default_wave),
        wgp_mode=bool(entry.get(".workgroup_processor_mode", default_wave == 32)),
    )


def _read_descriptor(kernel: Kernel, content: bytes, target: Target | None, address: int) -> None:
    """What the hardware is told. The compiler may round registers up to what LDS or an attribute allows anyway."""
    (entry,) = struct.unpack_from("<q", content, 16)
    (resources,) = struct.unpack_from("<I", content, 48)
    kernel.address = address + entry
    if target is None:
        return
    if target.wave32:
        kernel.wgp_mode = bool(resources >> 29 & 1)
        encoding = 8 if kernel.wave_size == 32 else 4
    else:
        encoding = target.granule
    kernel.allocated_vgprs = ((resources & 63) + 1) * encoding


def matches_target(target: str, wanted: list[str]) -> bool:
    """Whether a target is one of those wanted; `gfx942` also matches `gfx942:xnack-`."""
    return not wanted or any(target == name or re.match(re.escape(name) + r":", target) for name in wanted)
