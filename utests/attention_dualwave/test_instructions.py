"""The main loop's instructions for each tile and wave in the code that the tests run: no variant may grow past these."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

ISA_REPORT = Path(__file__).resolve().parents[2] / "bench" / "isa_report"
PROGRAM = sys.argv.pop()
# By the pinned basis: all instructions; vector instructions other than matrix and exponential ones.
LIMITS = {False: (225, 90), True: (205, 70)}


class MainLoop(unittest.TestCase):
    def test_fast_path_of_gfx950(self) -> None:
        command = [sys.executable, str(ISA_REPORT), PROGRAM, "--target", "gfx950", "--json", "-"]
        kernels = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["kernels"]
        fast = [k for k in kernels if "DualwaveDirect" in k["demangled"] and not k["stub"]]
        self.assertEqual(len(fast), 16)  # two types, two head dims, two bases, with and without exact sums
        for kernel in fast:
            with self.subTest(kernel["name"]):
                tile = {name: count / 3 for name, count in kernel["loop"]["path"].items()}  # a trip takes three
                total, other = LIMITS["SoftmaxBasis=1" in kernel["name"]]
                self.assertLessEqual(tile["total"], total)
                self.assertLessEqual(tile["valu"], other)
                self.assertEqual(tile["matrix"], 32 if ",128," in kernel["name"] else 16)
                self.assertEqual((tile["trans"], tile["barrier"], tile["scratch"]), (32, 2, 0))
                self.assertEqual((kernel["resources"]["vgpr_spills"], kernel["resources"]["scratch"]), (0, 0))
                self.assertLessEqual(kernel["resources"]["total_vgprs"], 256)


if __name__ == "__main__":
    unittest.main()
