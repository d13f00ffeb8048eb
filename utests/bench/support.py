"""What the tests of bench/ share: paths, the compiler, hand-written kernels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "bench"))

TARGETS = ("gfx1030", "gfx1200", "gfx942", "gfx950")
CLANG = os.environ.get("WAVEATTN_CLANG") or next(
    (path for name in ("clang++-22", "clang++-21", "clang++-20", "clang++") if (path := shutil.which(name))), None
)
NO_CLANG = "no clang++ of version 20 or newer (set WAVEATTN_CLANG)"

_ASSEMBLY = """
.amdgcn_target "amdgcn-amd-amdhsa--{target}"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
{body}
.size kernel, .-kernel
.rodata
.p2align 6
.amdhsa_kernel kernel
.amdhsa_next_free_vgpr {vgprs}
.amdhsa_next_free_sgpr 32
.amdhsa_group_segment_fixed_size {lds}
{extra}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: kernel
    .symbol: kernel.kd
    .kernarg_segment_size: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .wavefront_size: {wave}
    .sgpr_count: 32
    .vgpr_count: {vgprs}
    .agpr_count: {agprs}
    .max_flat_workgroup_size: {threads}
    .args: []
...
.end_amdgpu_metadata
"""


def compile_kernels(output: Path, targets: list[str], *options: str, source: str = "kernels.hip") -> None:
    command = [str(CLANG), "-x", "hip", "-nogpuinc", "-nogpulib", "-std=c++20", "-O3", *options]
    command += [f"--offload-arch={target}" for target in targets]
    subprocess.run([*command, str(HERE / "data" / source), "-c", "-o", str(output)], check=True)


def assemble(
    output: Path, target: str, body: str, *, vgprs: int = 64, agprs: int = 0, lds: int = 0, threads: int = 256
) -> None:
    """A code object of one kernel with that body; `vgprs` holds both kinds of registers where a target has two."""
    cdna = target.startswith("gfx9")
    extra = f".amdhsa_accum_offset {vgprs - agprs}" if cdna else ".amdhsa_workgroup_processor_mode 1"
    text = _ASSEMBLY.format(
        target=target, body=body, vgprs=vgprs, agprs=agprs, lds=lds, threads=threads, extra=extra,
        wave=64 if cdna else 32,
    )
    source = output.with_suffix(".s")
    source.write_text(text)
    options = ["-x", "assembler", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}"]
    subprocess.run([str(CLANG), *options, str(source), "-o", str(output)], check=True)
