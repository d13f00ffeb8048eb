#!/usr/bin/env python3
"""Compares the element maps of the matrix unit with the maps that AMD publishes, for every matrix instruction of gfx942, gfx950
and gfx1200 that a kernel here may use.

MATRIX_TEST names the built gfxemu_matrix_test; its `probe` finds a map with one-hot inputs and knows no layout. The published maps,
restated as (lane, element) -> (row, k):
  MFMA     AMD's matrix instruction calculator and its lab notes on MFMA: row = lane % M, k = n * (lane / M) + e, n elements a lane
  WMMA     the RDNA4 ISA document and the calculator: row = lane % 16; 8- and 16-bit k = 8 * (lane / 16) + e
  f8f6f4   ROCm/composable_kernel test/mx_mfma_op/mx_mfma_op.hpp (register tables), AMD's article "Matrix Core Programming on AMD
           CDNA3 and CDNA4 architecture", ROCm/FlyDSL kernels/gemm/fp8_gemm_utils.py: 8-bit operands are two runs of 16, K / 2 apart;
           4-bit operands one run of 32; the CDNA4 ISA document, section 11.4, states the same k ranges
  scales   the same test: the E8M0 byte of (row, block of 32 k) sits in lane row + M * block
  D        all of them: column = lane % M; row = 8 * (r / 4) + 4 * (lane / 32) + r % 4 (32x32), 4 * (lane / 16) + r (16x16),
           8 * (lane / 16) + r (WMMA)
No source states the order of 6-bit elements inside the six registers; the emulator's (ascending) is checked for consistency."""
import itertools
import os
import subprocess
import sys

binary = os.environ.get("MATRIX_TEST", "./gfxemu_matrix_test")


def contiguous(m, k, wave, lane, e):
    return lane % m, (k * m // wave) * (lane // m) + e


def split16(m, k, wave, lane, e):
    return lane % m, (k // 2) * (e // 16) + 16 * (lane // m) + e % 16


def d_slot(arch, m, width, i, j):
    if arch == "gfx1200":
        return 16 * (i // 8) + j, width * (i % 8)
    if m == 32:
        return 32 * (i // 4 % 2) + j, 32 * (4 * (i // 8) + i % 4)
    return 16 * (i // 4) + j, 32 * (i % 4)


# Bits of an element and the code of 1.0; FNUZ formats on gfx942.
TYPES = {"f32": (32, "3f800000"), "f16": (16, "3c00"), "bf16": (16, "3f80"), "i8": (8, "1"), "iu8": (8, "1"), "fp8": (8, "38"),
         "bf8": (8, "3c"), "fp6": (6, "8"), "bf6": (6, "c"), "fp4": (4, "2")}
FNUZ = {"fp8": (8, "40"), "bf8": (8, "40")}
SELECTOR = {"fp8": 0, "bf8": 1, "fp6": 2, "bf6": 3, "fp4": 4}


def compare(arch, name, m, k, ta, tb, d_width=32):
    wave = 32 if arch == "gfx1200" else 64
    wide = "f8f6f4" in name
    types = TYPES | (FNUZ if arch == "gfx942" else {})
    count, d_count = m * k // wave, m * m // wave
    slots = [{}, {}]
    for s, t in enumerate((ta, tb)):
        f = split16 if wide and t in ("fp8", "bf8") else contiguous
        for lane, e in itertools.product(range(wave), range(count)):
            slots[s][f(m, k, wave, lane, e)] = (lane, e * types[t][0])
    want = {(*slots[0][i, x], *slots[1][j, x], *d_slot(arch, m, d_width, i, j)) for i in range(m) for j in range(m) for x in range(k)}
    select = (SELECTOR[ta], 0, SELECTOR[tb]) if wide else (0, 0, 0)
    args = [binary, "probe", arch, name, wave, types[ta][0], count, types[ta][1], types[tb][0], count, types[tb][1], d_width, d_count, *select]
    out = subprocess.run([str(a) for a in args], capture_output=True, text=True, check=True).stdout
    got, scales = set(), set()
    for line in out.splitlines():
        f = line.split()
        if f[0] in "ST":
            scales.add((f[0], *map(int, f[1:])))
        elif f[0] != "C":
            got.add(tuple(map(int, f)))
    bad, total = len(want ^ got), len(want)
    if "scale" in name:
        want_s = {(c, *slots[s][i, x], i + m * (x // 32)) for s, c in enumerate("ST") for i in range(m) for x in range(k)}
        bad, total = bad + len(want_s ^ scales), total + len(want_s)
    return total, bad


def jobs():
    small = list(itertools.product(("fp8", "bf8"), repeat=2))
    for arch in ("gfx942", "gfx950"):
        for t in ("f16", "bf16"):
            suffix = "_1k" if t == "bf16" else ""
            yield arch, f"v_mfma_f32_32x32x8_{t}{suffix}", 32, 8, t, t
            yield arch, f"v_mfma_f32_16x16x16_{t}{suffix}", 16, 16, t, t
        yield arch, "v_mfma_i32_32x32x16_i8", 32, 16, "i8", "i8"
        yield arch, "v_mfma_i32_16x16x32_i8", 16, 32, "i8", "i8"
        yield arch, "v_mfma_f32_32x32x2_f32", 32, 2, "f32", "f32"
        yield arch, "v_mfma_f32_16x16x4_f32", 16, 4, "f32", "f32"
        for ta, tb in small:
            yield arch, f"v_mfma_f32_32x32x16_{ta}_{tb}", 32, 16, ta, tb
            yield arch, f"v_mfma_f32_16x16x32_{ta}_{tb}", 16, 32, ta, tb
    for t in ("f16", "bf16"):
        yield "gfx950", f"v_mfma_f32_16x16x32_{t}", 16, 32, t, t
        yield "gfx950", f"v_mfma_f32_32x32x16_{t}", 32, 16, t, t
    yield "gfx950", "v_mfma_i32_16x16x64_i8", 16, 64, "i8", "i8"
    yield "gfx950", "v_mfma_i32_32x32x32_i8", 32, 32, "i8", "i8"
    every = os.environ.get("WAVEATTN_TEST_FULL", "0") not in ("", "0")
    pairs = list(itertools.product(SELECTOR, SELECTOR)) if every else [("fp8", "fp8"), ("fp4", "fp4"), ("bf8", "fp6"), ("fp4", "fp8")]
    for (shape, m, k), (ta, tb) in itertools.product((("16x16x128", 16, 128), ("32x32x64", 32, 64)), pairs):
        yield "gfx950", f"v_mfma_f32_{shape}_f8f6f4", m, k, ta, tb
        yield "gfx950", f"v_mfma_scale_f32_{shape}_f8f6f4", m, k, ta, tb
    for t in ("f16", "bf16"):
        yield "gfx1200", f"v_wmma_f32_16x16x16_{t}", 16, 16, t, t
        yield "gfx1200", f"v_wmma_{t}_16x16x16_{t}", 16, 16, t, t, 16
    yield "gfx1200", "v_wmma_i32_16x16x16_iu8", 16, 16, "iu8", "iu8"
    for ta, tb in small:
        yield "gfx1200", f"v_wmma_f32_16x16x16_{ta}_{tb}", 16, 16, ta, tb


def main():
    totals = {}
    for job in jobs():
        n, bad = compare(*job)
        t = totals.setdefault(job[0], [0, 0, 0])
        totals[job[0]] = [t[0] + 1, t[1] + n, t[2] + bad]
        if bad or os.environ.get("VERBOSE"):
            print(f"{'MISMATCH' if bad else 'ok'} {job}: {bad} of {n}")
    for arch, (maps, n, bad) in totals.items():
        print(f"{arch}: {maps} maps, {n} elements compared, {bad} mismatches")
    return 1 if any(bad for _, _, bad in totals.values()) or len(totals) != 3 else 0


if __name__ == "__main__":
    sys.exit(main())
