"""``python -m waveattn demo``: the table, the picture, and what it does without optional packages."""

from __future__ import annotations

import re

import pytest
from conftest import TARGETS, run_python

pytestmark = pytest.mark.usefixtures("numpy_only")

RUN = "import sys\n{0}\nfrom waveattn.__main__ import main\nsys.exit(main(['demo', *{1!r}]))"


def refuse(*packages: str) -> str:
    return (
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {packages!r}: raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
    )


def test_every_target_is_accurate_on_real_inputs(tmp_path):
    picture = tmp_path / "demo.png"
    output = run_python(RUN.format("", ["--picture", str(picture)])).stdout
    lines = [line for line in output.splitlines() if line.startswith("gfx")]
    for target in TARGETS:
        (row,) = [line for line in lines if line.split()[:3] == [target, "scalar", "float32"]]
        error, cosine, _, instructions, _ = row.split()[-5:]
        assert float(error) <= 5e-6 and float(cosine) >= 0.999999999
        assert int(instructions.replace(",", "")) > 100_000
    made = picture if picture.exists() else tmp_path / "demo.svg"
    assert made.stat().st_size > 2000


def test_without_torch_and_matplotlib(tmp_path):
    picture = tmp_path / "demo.png"
    arguments = ["--picture", str(picture), "--targets", "gfx1200", "--layers", "1"]
    output = run_python(RUN.format(refuse("torch", "matplotlib"), arguments)).stdout
    assert re.search(r"gfx1200 +scalar float32 .* - ", output)
    svg = (tmp_path / "demo.svg").read_text()
    assert svg.startswith("<svg") and svg.count("<rect") >= 12 and "gfx1200" in svg


def test_targets_that_a_build_has_no_code_for_are_left_out(tmp_path):
    fewer = "import waveattn._core as core\ncore.targets = 'gfx1030'\n"
    arguments = ["--picture", str(tmp_path / "demo.svg"), "--layers", "1"]
    output = run_python(RUN.format(fewer, arguments)).stdout
    assert "gfx942 is left out: this build has code for gfx1030" in output
    assert {line.split()[0] for line in output.splitlines() if re.search(r"scalar float32 ", line)} == {"gfx1030"}
    result = run_python(RUN.format(fewer, [*arguments, "--targets", "gfx950"]), check=False)
    assert result.returncode == 1 and "no device that this build has code for" in result.stderr


def test_without_numpy():
    result = run_python(RUN.format(refuse("numpy"), []), check=False)
    assert result.returncode == 2 and "needs numpy" in result.stderr


def test_an_unknown_target():
    result = run_python(RUN.format("", ["--targets", "gfx9000"]), check=False)
    assert result.returncode == 2 and "gfx1030" in result.stderr


def test_arguments_are_checked_before_anything_runs(capsys):
    from waveattn.__main__ import main

    for arguments, words in (
        (["--layers", "0"], "argument --layers: invalid choice: 0"),
        (["--picture", "/no such folder/demo.png"], "argument --picture: there is no folder /no such folder"),
    ):
        with pytest.raises(SystemExit):
            main(["demo", *arguments])
        assert words in capsys.readouterr().err
