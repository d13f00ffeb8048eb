#!/usr/bin/env python3
"""bench/model: case files, expressions, and a small program on the emulator from end to end."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support
from benchtools.isa.analysis import Options, analyse
from benchtools.model import cli
from benchtools.model.cases import CaseError, load
from benchtools.model.expression import evaluate
from benchtools.model.runner import RunError, Settings, launches, record

PROBE = os.environ.get("WAVEATTN_PROBE")
# The emulator beside the program that CMake linked with it; a directory where the program does not know it.
EMULATOR = os.environ.get("WAVEATTN_EMULATOR_DIR")


def run_cli(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command line."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = cli.run([str(argument) for argument in arguments])
    return code, output.getvalue(), errors.getvalue()


class Expressions(unittest.TestCase):
    def test_values(self) -> None:
        shape = {"sq": 300, "bh": 2, "causal": "none"}
        self.assertEqual(evaluate("bh * ceil_div(sq, 128)", shape), 6)
        self.assertEqual(evaluate("(sq - 1) // 64 % 3", shape), 1)
        self.assertEqual(evaluate("min(sq, 256) / 512", shape), 0.5)
        self.assertEqual(evaluate("max(-bh, -3)", shape), -2)
        self.assertEqual(evaluate(7, shape), 7)

    def test_errors(self) -> None:
        for text in ("sk * 2", "causal * 2", "__import__('os')", "sq.real", "sq **", "1 / 0", "[1]", "'a'", "min()"):
            with self.assertRaises(ValueError, msg=text):
                evaluate(text, {"sq": 1, "causal": "none"})


class CaseFiles(unittest.TestCase):
    GOOD = """
[[case]]
label = "probe {sk} {kind}"
command = ["bench/probe", "--sk", "{sk}", "--device", "{device}"]
kernel = "probe_kernel"
devices = ["gfx942", "gfx1030"]
tile = "4 keys"
tiles_per_trip = "sk / 64"
tiles = "groups * sk / 4"
baseline = "probe 64 {kind}"
shape = { groups = 2 }
matrix = { sk = [64, 128], kind = ["a", "b"] }
env = { GFXEMU_TIMING_WG = "{groups}" }
"""

    def load(self, text: str) -> list:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "cases.toml"
            path.write_text(text)
            return load(path)

    def test_spread(self) -> None:
        cases = self.load(self.GOOD)
        self.assertEqual(len(cases), 8)
        case = next(c for c in cases if c.label == "probe 128 b" and c.device == "gfx1030")
        self.assertEqual(case.command, ["bench/probe", "--sk", "128", "--device", "gfx1030"])
        self.assertEqual((case.tiles_per_trip, case.tiles, case.tile), (2, 64, "4 keys"))
        self.assertEqual((case.env, case.baseline), ({"GFXEMU_TIMING_WG": "2"}, "probe 64 b"))

    def test_errors(self) -> None:
        wrong = {
            "unknown key": self.GOOD + "colour = 1\n",
            "label is missing": self.GOOD.replace('label = "probe {sk} {kind}"', ""),
            "wrong type": self.GOOD.replace('"probe_kernel"', "3"),
            "not in the shape": self.GOOD.replace("{kind}\"\ncommand", "{kinds}\"\ncommand"),
            "is not a number": self.GOOD.replace("groups * sk", "group * sk"),
            "not positive": self.GOOD.replace('"sk / 64"', "0"),
            "two cases": self.GOOD.replace("probe {sk} {kind}", "probe {sk}"),
            "not a list": self.GOOD.replace("[64, 128]", "64"),
            "nothing else": "x = 1\n" + self.GOOD,
            "case 1": self.GOOD.replace("probe_kernel", "("),
        }
        for reason, text in wrong.items():
            with self.assertRaisesRegex(CaseError, reason):
                self.load(text)
        with self.assertRaises(CaseError):
            load(Path("missing.toml"))

    def test_the_files_of_the_project(self) -> None:
        """Every case file loads, and names programs whose source is there."""
        for path in sorted((support.ROOT / "bench" / "cases").glob("*.toml")):
            for case in load(path):
                source = support.ROOT / "bench" / (Path(case.command[0]).name + ".hip")
                self.assertTrue(source.exists(), f"{path.name}: {case.label}: no {source.name}")


@unittest.skipIf(PROBE is None, "the benchmark program is not built (WAVEATTN_PROBE is not set)")
class OnTheEmulator(unittest.TestCase):
    GROUPS, KEYS = 3, 256

    def case_file(self, directory: str, **changes: str) -> Path:
        """Two workgroups' worth of the probe kernel: a trip of its loop takes four keys."""
        path = Path(directory) / "cases.toml"
        text = f"""
[[case]]
label = "probe {{sk}}"
command = ["{PROBE}", "--groups", "{{groups}}", "--sk", "{{sk}}"]
kernel = "probe_kernel"
devices = {json.dumps(list(support.TARGETS))}
tile = "8 keys"
tiles_per_trip = 0.5
tiles = "groups * sk / 8"
flop = "groups * 64 * sk * 2"
least_bytes = "groups * 64 * 4 * 2"
baseline = "probe {self.KEYS // 2}"
shape = {{ groups = {self.GROUPS} }}
matrix = {{ sk = [{self.KEYS // 2}, {self.KEYS}] }}
"""
        for old, new in changes.items():
            text = text.replace(old, new)
        path.write_text(text)
        return path

    def settings(self, **changes: object) -> Settings:
        return Settings(Path("."), Path(EMULATOR) if EMULATOR else None, **changes)  # type: ignore[arg-type]

    def cli_options(self) -> list[object]:
        return ["--emulator", EMULATOR] if EMULATOR else []

    def test_figures_agree_with_the_code(self) -> None:
        """The trip that the timing model finds is the loop that isa_report counts, and the counters add up."""
        with tempfile.TemporaryDirectory() as directory:
            cases = [case for case in load(self.case_file(directory)) if case.label == f"probe {self.KEYS}"]
            self.assertEqual(len(cases), len(support.TARGETS))
            for case in cases:
                (launch,) = launches(case, self.settings())
                result = record(case, launch)
                modelled, per_tile = result["modelled"], result["emulated"]["per_tile"]
                options = Options(kernel=case.kernel, targets=[case.device])
                (static,) = analyse([Path(str(PROBE))], options)
                loop = static["loop"]
                self.assertEqual(modelled["loop"]["heads"], [loop["head"]], case.device)
                # s_delay_alu is a hint that the emulator's issue does not count.
                hints = loop["path"]["other"] - loop["path"]["nop"]
                instructions = modelled["loop"]["instructions_per_trip"]
                self.assertTrue(loop["path"]["total"] - hints <= instructions <= loop["path"]["total"], case.device)
                self.assertEqual(modelled["clocks_per_tile"], 2 * modelled["loop"]["clocks_per_trip"])
                self.assertGreaterEqual(modelled["loop"]["clocks_per_trip"], instructions)
                self.assertAlmostEqual(
                    sum(modelled["loop"]["reasons"].values()), modelled["loop"]["clocks_per_trip"], delta=1
                )
                self.assertEqual(modelled["workgroups"], self.GROUPS)
                # A wave runs sk / 4 trips; a wave64 target needs one wave for a workgroup, a wave32 target two.
                waves = self.GROUPS * 64 // static["resources"]["wave_size"]
                self.assertEqual(result["emulated"]["launch"]["waves"], waves)
                trips = waves * self.KEYS / 4
                valu = trips * loop["path"]["valu"] / case.tiles
                self.assertTrue(valu <= per_tile["valu"] <= valu * 1.2, (case.device, valu, per_tile["valu"]))
                self.assertEqual(result["emulated"]["launch"]["vmem_store_bytes"], self.GROUPS * 64 * 4)
                self.assertEqual(result["emulated"]["bytes_over_least"], 1)
                # The harness says where it ran.
                self.assertEqual(result["target"], case.device)

    def test_text_json_and_compare(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path, root = self.case_file(directory), Path(directory)
            only = ["--target", "gfx942", *self.cli_options()]
            code, text, _ = run_cli(path, *only, "--json", root / "a.json")
            self.assertEqual(code, 0)
            table = text.splitlines()
            above = next(line for line in table if "modelled" in line and "clk" not in line and "." not in line)
            head = table[table.index(above) + 1]
            self.assertEqual(len(re.findall("modelled", above)), len(re.split(r"  +", head)) - 3)
            self.assertIn("Not measured", text)
            self.assertIn("where 32 fit, so the unit is not full", text)
            self.assertIn("wait_smem", text)
            # Twice the keys: nearly twice the clocks of the baseline.
            ratio = float(next(line for line in table if line.startswith(f"probe {self.KEYS} ")).split()[-1])
            self.assertTrue(1.7 < ratio < 2, ratio)
            code, text, _ = run_cli(path, *only, "--counts", "--case", f"{self.KEYS}$")
            self.assertIn("8 keys", text)
            self.assertNotIn("modelled", text)
            run_cli(path, *only, "--set", "smem_lat=400", "--json", root / "b.json")
            _, text, _ = run_cli("--compare", root / "a.json", root / "b.json")
            self.assertIn("modelled.clocks_per_tile", text)
            self.assertNotIn("emulated.", text)
            self.assertEqual(run_cli("--compare", root / "a.json", root / "a.json")[1], "no difference\n")

    def test_baseline_of_another_grid(self) -> None:
        """Launches recorded whole are compared whole; of others, a workgroup with a workgroup."""
        for recorded, least, most in (("6", 1.9, 2.4), ("1", 0.9, 1.1)):
            changes = {
                'label = "probe {sk}"': 'label = "groups {groups}"',
                f'baseline = "probe {self.KEYS // 2}"': f'baseline = "groups 3"\n'
                f'env = {{ GFXEMU_TIMING_WG = "{recorded}", GFXEMU_TIMING_RESIDENT = "1" }}',
                f"shape = {{ groups = {self.GROUPS} }}": f"shape = {{ sk = {self.KEYS} }}",
                f"matrix = {{ sk = [{self.KEYS // 2}, {self.KEYS}] }}": "matrix = { groups = [3, 6] }",
            }
            with tempfile.TemporaryDirectory() as directory:
                path = self.case_file(directory, **changes)
                code, text, _ = run_cli(path, "--target", "gfx942", *self.cli_options())
            self.assertEqual(code, 0)
            ratio = float(next(line for line in text.splitlines() if line.startswith("groups 6 ")).split()[-1])
            self.assertTrue(least < ratio < most, (recorded, ratio))

    def test_without_a_case_file(self) -> None:
        options = ["--run", "--device", "gfx1030", "--kernel", "probe", "--tiles-per-trip", "0.25", *self.cli_options()]
        code, text, _ = run_cli(*options, "--", PROBE, "--sk", "64")
        self.assertEqual(code, 0)
        self.assertIn("probe_kernel", text)
        _, text, _ = run_cli("--list", "--run", "--", PROBE, "--sk", "64")
        self.assertIn("--sk 64", text)

    def test_failures_are_named(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            wrong = {
                "no kernel matches": {"probe_kernel": "other_kernel"},
                "unknown option --keys": {"--sk": "--keys"},
                "does not exist": {str(PROBE): "./missing/program"},
                "no launch was reported": {f'"{PROBE}"': f'"{sys.executable}", "-c", "pass"'},
            }
            for reason, changes in wrong.items():
                case = load(self.case_file(directory, **changes))[0]
                with self.assertRaisesRegex(RunError, reason):
                    launches(case, self.settings())
            # A case that fails does not keep the others from running, but shows in the exit code.
            path = self.case_file(directory, probe_kernel="other_kernel")
            code, text, errors = run_cli(path, "--target", "gfx942", *self.cli_options())
            self.assertEqual((code, text), (1, ""))
            self.assertIn("no kernel matches", errors)

    def test_harness_on_the_emulator(self) -> None:
        env = dict(os.environ, GFXEMU_DEVICES="gfx1200")
        if EMULATOR:
            env["LD_LIBRARY_PATH"] = EMULATOR
        run = subprocess.run([str(PROBE), "--data", "sinks"], env=env, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("gfx1200", run.stdout)
        self.assertIn("emulated, no claim of wall time", run.stdout)
        self.assertNotIn("FLOP", run.stdout)
        for arguments in (["--sk", "0"], ["--sk"], ["--data", "zeros"], ["--causal", "yes"], ["--groups", "two"]):
            run = subprocess.run([str(PROBE), *arguments], env=env, capture_output=True, text=True)
            self.assertEqual(run.returncode, 1, arguments)
            self.assertIn(arguments[0].lstrip("-"), run.stderr)


if __name__ == "__main__":
    unittest.main()
