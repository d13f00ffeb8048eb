"""What the installed files promise: one extension for all Pythons, no link to a HIP runtime, nothing leaked."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import run_python

import waveattn
from waveattn import _core, _runtime

EXTENSION = pathlib.Path(_core.__file__).resolve()


def tool(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_extension_is_for_the_stable_abi():
    assert EXTENSION.name == "_core.abi3.so"


def test_it_links_no_hip_runtime():
    needed = [line for line in tool("readelf", "-d", str(EXTENSION)).splitlines() if "NEEDED" in line]
    assert needed and not any("amdhip" in line or "python" in line or "torch" in line for line in needed), needed


def test_it_exports_its_init_function_only():
    defined = [line.split()[-1] for line in tool("nm", "-D", "--defined-only", str(EXTENSION)).splitlines()]
    assert defined == ["PyInit__core"]


def test_every_hip_function_that_it_calls_is_its_own():
    missing = [line for line in tool("nm", "-D", "--undefined-only", str(EXTENSION)).splitlines() if "hip" in line]
    assert missing == []


def test_it_asks_for_no_recent_libc():
    versions = set()
    for line in tool("objdump", "-T", str(EXTENSION)).splitlines():
        if "GLIBC_" in line and "*UND*" in line:
            versions.add(tuple(int(n) for n in line.split("GLIBC_")[1].split(")")[0].split()[0].split(".")))
    assert max(versions) <= (2, 28), sorted(versions)


def test_every_target_is_in_it():
    assert set(_core.targets.split(",")) >= {"gfx1030", "gfx1200", "gfx1201", "gfx942", "gfx950"}


def test_sizes():
    assert EXTENSION.stat().st_size < 24e6
    assert os.path.getsize(_runtime.emulator_path()) < 12e6


def test_the_emulator_needs_no_llvm(tmp_path, numpy_only):
    listings = pathlib.Path(_runtime.emulator_path()).resolve().parent / "listings"
    assert list(listings.glob("*.gfxlst")), f"no disassembly listings in {listings}"
    run_python(
        "import numpy as np, waveattn\n"
        "q = np.ones((1, 1, 3, 32), np.float32)\n"
        "for device in ('gfx1030', 'gfx1200', 'gfx942', 'gfx950'):\n"
        "    assert (abs(waveattn.flash_attention(q, q, q, device=device) - 1) < 1e-6).all()\n",
        PATH=str(tmp_path),
        GFXEMU_OBJDUMP=str(tmp_path / "absent"),
    )


def test_a_wheel_of_it_is_a_manylinux_wheel(tmp_path):
    """The extension alone, as a release would repair it; the emulator is built for the machine at hand."""
    pytest.importorskip("auditwheel", reason="auditwheel is not installed")
    import zipfile

    wheel = tmp_path / "probe-1-cp310-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(EXTENSION, "probe/_core.abi3.so")
        archive.writestr("probe-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp310-abi3-linux_x86_64\n")
        archive.writestr("probe-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: probe\nVersion: 1\n")
        names = ["probe/_core.abi3.so", "probe-1.dist-info/WHEEL", "probe-1.dist-info/METADATA", "probe-1.dist-info/RECORD"]
        archive.writestr("probe-1.dist-info/RECORD", "".join(f"{name},,\n" for name in names))
    text = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True, check=False).stdout
    assert "manylinux_2_" in text, text


def test_version():
    import importlib.metadata

    try:
        installed = importlib.metadata.version("waveattn")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed as a wheel")
    assert installed == waveattn.__version__
