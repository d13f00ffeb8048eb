"""The package type-checks, and so does code that uses it; the stub of the extension matches it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from conftest import ROOT

import waveattn

USE = """
from typing import Any

import numpy as np
import waveattn
from waveattn import compat

q: Any = np.zeros((1, 2, 3, 32), np.float32)
out = waveattn.flash_attention(q, q, q, causal="top_left", layout="bhsd", return_lse=False)
targets: list[str] = [device["target"] for device in waveattn.devices()]
available: bool = waveattn.is_available()
version: str = waveattn.__version__
compat.sdpa(q, q, q, is_causal=True)
"""
MISUSE = """
import waveattn

waveattn.flash_attention(1, 2, 3, causal="diagonal")
waveattn.flash_attention(1, 2, 3, "top_left")
x: int = waveattn.__version__
"""


def mypy(*arguments: str, cwd: pathlib.Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, timeout=300)


def test_the_package_type_checks(tmp_path):
    package = pathlib.Path(waveattn.__file__).parent
    assert (package / "py.typed").exists() and (package / "_core.pyi").exists()
    result = mypy("--cache-dir", str(tmp_path), "-p", "waveattn", cwd=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_use_type_checks_and_misuse_does_not(tmp_path):
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "misuse.py").write_text(MISUSE)
    good = mypy("--cache-dir", str(tmp_path), "use.py", cwd=tmp_path)
    assert good.returncode == 0, good.stdout + good.stderr
    bad = mypy("--cache-dir", str(tmp_path), "misuse.py", cwd=tmp_path)
    assert bad.stdout.count("error:") == 3, bad.stdout


def test_the_stub_names_what_the_extension_has():
    import ast

    from waveattn import _core

    tree = ast.parse((pathlib.Path(waveattn.__file__).parent / "_core.pyi").read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name != "__getattr__":
            assert callable(getattr(_core, node.name)), node.name
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    assert hasattr(getattr(_core, node.name), member.name), f"{node.name}.{member.name}"
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            assert hasattr(_core, node.target.id), node.target.id
