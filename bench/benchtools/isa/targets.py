"""What the report needs to know of a target: registers, LDS, wave slots, and issue clocks of the matrix targets.

Register files and granules: LLVM's AMDGPU backend (AMDGPUBaseInfo: getTotalNumVGPRs, getVGPRAllocGranule,
getMaxWavesPerEU) and the AMDGPU usage guide (compute_pgm_rsrc1). Issue clocks: docs/benchmarks.md says what they
rest on.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """Sizes are per SIMD for registers and per unit for LDS; a unit is a CU, or a WGP where kernels run in WGP mode."""

    vgprs: int  # of a wave32 lane on wave32 targets, of a wave64 lane on the others
    granule: int  # VGPRs are allocated in multiples of it
    max_waves: int  # of a SIMD
    lds_bytes: int  # of a CU; a WGP has twice that
    lds_granule: int
    max_workgroups: int  # of a unit, where a workgroup has more than one wave
    wave32: bool
    unified: bool = False  # accumulation registers share the register file
    separate_agprs: bool = False  # accumulation registers have a file of the same size
    scalar_limit: bool = False  # scalar registers limit occupancy


def _wave32(vgprs: int, granule: int, max_waves: int, lds_granule: int) -> Target:
    return Target(vgprs, granule, max_waves, 64 * 1024, lds_granule, 32, wave32=True)


_GFX9 = Target(256, 4, 10, 64 * 1024, 512, 16, wave32=False, scalar_limit=True)
_GFX908 = Target(256, 4, 10, 64 * 1024, 512, 16, wave32=False, separate_agprs=True, scalar_limit=True)
_GFX90A = Target(512, 8, 8, 64 * 1024, 512, 16, wave32=False, unified=True, scalar_limit=True)
_GFX950 = Target(512, 8, 8, 160 * 1024, 1280, 16, wave32=False, unified=True, scalar_limit=True)
_FAMILIES: list[tuple[str, Target]] = [
    (r"gfx950", _GFX950),
    (r"gfx90a|gfx94[0-2]|gfx9-4-generic", _GFX90A),
    (r"gfx908", _GFX908),
    (r"gfx9", _GFX9),
    (r"gfx101|gfx10-1-generic", _wave32(1024, 8, 20, 512)),
    (r"gfx103|gfx10-3-generic", _wave32(1024, 16, 16, 1024)),
    (r"gfx110[01]|gfx1151", _wave32(1536, 24, 16, 1024)),
    (r"gfx11", _wave32(1024, 16, 16, 1024)),
    (r"gfx120|gfx12-generic", _wave32(1536, 24, 16, 1024)),
]


def find_target(name: str) -> Target | None:
    """`name` as LLVM spells it, features allowed (`gfx942:xnack-`); None for a target that the table does not hold."""
    for pattern, target in _FAMILIES:
        if re.match(pattern, name):
            return target
    return None


def allocated_vgprs(target: Target, vgprs: int, wave_size: int) -> int:
    """Registers that a wave takes which uses `vgprs` (with the accumulation registers in a unified file)."""
    granule = _granule(target, wave_size)
    return max(1, math.ceil(vgprs / granule)) * granule


def _granule(target: Target, wave_size: int) -> int:
    return target.granule // 2 if target.wave32 and wave_size == 64 else target.granule


def register_waves(target: Target, vgprs: int, wave_size: int, sgprs: int = 0) -> int:
    """Waves of a SIMD as registers allow: floor(file / registers rounded up to the granule), at most `max_waves`."""
    file = target.vgprs // 2 if target.wave32 and wave_size == 64 else target.vgprs
    waves = file // allocated_vgprs(target, vgprs, wave_size)
    if target.scalar_limit:
        # 800 scalar registers of a SIMD; the steps are LLVM's (getOccupancyWithNumSGPRs).
        waves = min(waves, 10 if sgprs <= 80 else 9 if sgprs <= 88 else 8 if sgprs <= 100 else 7)
    return max(0, min(waves, target.max_waves))


@dataclass(frozen=True)
class Occupancy:
    register_waves: int  # of a SIMD, as registers allow
    waves: float  # of a SIMD, with LDS, wave slots and whole workgroups taken into account
    workgroups: int  # on a unit (CU, or WGP in WGP mode)
    unit: str
    limit: str  # what limits `waves`


def occupancy(
    target: Target,
    vgprs: int,
    wave_size: int,
    block_threads: int,
    lds: int,
    wgp_mode: bool,
    sgprs: int = 0,
    allocated: int = 0,
) -> Occupancy:
    """Occupancy of a kernel launched with `block_threads` threads and `lds` bytes of LDS for a workgroup.

    A workgroup runs within a unit: a CU with its SIMDs and LDS, or two CUs together in WGP mode. It takes `allocated`
    registers, if those are more than the `vgprs` that it uses.
    """
    wave32_unit = target.wave32 and wgp_mode
    simds = 2 if target.wave32 and not wgp_mode else 4
    capacity = target.lds_bytes * (2 if wave32_unit else 1)
    used = register_waves(target, vgprs, wave_size, sgprs)
    per_simd = register_waves(target, max(vgprs, allocated), wave_size, sgprs)
    waves = math.ceil(block_threads / wave_size)
    # Workgroups that fit, by each resource on its own.
    by_registers = per_simd * simds // waves
    by_slots = target.max_waves * simds // waves
    fits = {"registers": by_registers, "wave slots": by_slots}
    if waves > 1:
        fits["workgroup slots"] = target.max_workgroups // (2 if target.wave32 and not wgp_mode else 1)
    if lds:
        fits["LDS"] = capacity // (math.ceil(lds / target.lds_granule) * target.lds_granule)
    workgroups = min(fits.values())
    limit = min(fits, key=lambda name: (fits[name], name != "wave slots"))
    overall = workgroups * waves / simds
    if limit == "registers" and 0 < overall < per_simd:
        limit = "workgroup size"  # one more wave would fit, one more workgroup does not
    return Occupancy(used, overall, workgroups, "WGP" if wave32_unit else "CU", limit)


@dataclass(frozen=True)
class IssueClocks:
    """Clocks that the VALU port of a SIMD is held by an instruction of a wave of the native size."""

    plain: int
    transcendental: int
    quarter_rate: int  # 32 x 32 bit integer multiply
    lane_swap: int  # v_permlane16_swap, v_permlane32_swap
    shared: bool  # matrix instructions hold the VALU port all the time
    matrix_block: int = 0  # clocks after a matrix instruction in which no VALU instruction issues
    packed_alone: bool = False  # packed fp32 instructions never run beside a matrix instruction


_ISSUE: list[tuple[str, IssueClocks]] = [
    (r"gfx12", IssueClocks(1, 4, 4, 1, shared=True)),
    (r"gfx950", IssueClocks(4, 8, 16, 8, shared=False, matrix_block=8, packed_alone=True)),
    (r"gfx94", IssueClocks(4, 16, 16, 4, shared=False, matrix_block=4)),
]


def issue_clocks(name: str) -> IssueClocks | None:
    """Issue clocks of a target whose matrix instructions we have figures for, else None."""
    for pattern, clocks in _ISSUE:
        if re.match(pattern, name):
            return clocks
    return None


def matrix_clocks(name: str, mnemonic: str, operands: str = "") -> int:
    """Clocks that a matrix instruction keeps the matrix pipe of a SIMD busy."""
    if name.startswith("gfx12"):
        return 8 if re.search(r"fp8|bf8|iu8|iu4", mnemonic) else 16
    if (shape := re.search(r"(\d+)x(\d+)x(\d+)", mnemonic)) is None:
        raise ValueError(f"no shape in the name of {mnemonic}")
    rows = int(shape.group(1))
    if rows == 4:
        return 16 if "f64" in mnemonic else 8
    large = rows == 32
    if mnemonic.endswith("f64") or "_f64" in mnemonic:
        return 64 if name.startswith("gfx950") else 32
    if "f8f6f4" in mnemonic:
        # Formats 0 and 1 are the 8-bit ones, which are the default; 6- and 4-bit formats run at twice the rate.
        formats = [int(found) for found in re.findall(r"(?:cbsz|blgp):(\d)", operands)]
        narrow = len(formats) == 2 and min(formats) >= 2
        return (32 if large else 16) * (1 if narrow else 2)
    several_blocks = re.search(r"_\d+b_", mnemonic) is not None
    single = re.search(r"x[24]_?f32$", mnemonic) is not None
    if several_blocks or single:
        return 64 if large else 32
    return 32 if large else 16
