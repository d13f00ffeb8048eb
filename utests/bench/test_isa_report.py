#!/usr/bin/env python3
"""bench/isa_report: containers, resources, occupancy, loops, counts, comparison."""

from __future__ import annotations

import contextlib
import io
import json
import re
import struct
import subprocess
import tempfile
import unittest
import zlib
from pathlib import Path

import support
from benchtools import names, text_table
from benchtools.isa import bundle, classes, cli, msgpack, targets
from benchtools.isa.analysis import InputError, Options, analyse


def run_cli(*arguments: object) -> tuple[int, str]:
    """Exit code and standard output of the command line."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = cli.run([str(argument) for argument in arguments])
    return code, output.getvalue()


class Occupancy(unittest.TestCase):
    UNIT = ("kernels.hip", "spilling.hip")

    def waves(self, target: str, vgprs: int) -> int:
        found = targets.find_target(target)
        assert found is not None
        return targets.register_waves(found, vgprs, 32 if found.wave32 else 64)

    def test_register_limits_of_published_kernels(self) -> None:
        # Paged chunk attention on gfx1030, as its authors report it: VGPRs and waves of a SIMD.
        for vgprs, waves in [(40, 16), (101, 9), (142, 7), (149, 6), (144, 7), (148, 6)]:
            self.assertEqual(self.waves("gfx1030", vgprs), waves, vgprs)

    def test_register_limits_at_the_steps(self) -> None:
        steps = {
            "gfx1030": [(64, 16), (65, 12), (80, 12), (96, 10), (112, 9), (128, 8), (129, 7), (192, 5), (256, 4)],
            "gfx1200": [(96, 16), (97, 12), (120, 12), (144, 10), (168, 9), (192, 8), (216, 7), (240, 6), (256, 5)],
            "gfx942": [(64, 8), (65, 7), (72, 7), (128, 4), (168, 3), (169, 2), (256, 2), (257, 1), (512, 1)],
            "gfx950": [(64, 8), (128, 4), (256, 2), (512, 1)],
        }
        for target, cases in steps.items():
            for vgprs, waves in cases:
                self.assertEqual(self.waves(target, vgprs), waves, (target, vgprs))

    def occupancy(self, target: str, **arguments: int) -> targets.Occupancy:
        found = targets.find_target(target)
        assert found is not None
        defaults = {"wave_size": 32 if found.wave32 else 64, "wgp_mode": found.wave32}
        return targets.occupancy(found, **(defaults | arguments))

    def test_whole_workgroups(self) -> None:
        # gfx1030, 148 VGPRs, 8 waves: 6 waves of a SIMD, 24 in a WGP, three workgroups.
        got = self.occupancy("gfx1030", vgprs=148, block_threads=256, lds=0)
        self.assertEqual((got.register_waves, got.waves, got.workgroups, got.unit), (6, 6, 3, "WGP"))
        # Registers that are allocated but not used count for what fits.
        got = self.occupancy("gfx1030", vgprs=148, allocated=200, block_threads=256, lds=0)
        self.assertEqual((got.register_waves, got.waves, got.limit), (6, 4, "registers"))
        # With 144 VGPRs seven waves fit, but not a fourth workgroup.
        got = self.occupancy("gfx1030", vgprs=144, block_threads=256, lds=0)
        self.assertEqual((got.register_waves, got.waves, got.limit), (7, 6, "workgroup size"))

    def test_lds_limits(self) -> None:
        # 38 KB: three workgroups of eight waves in the 128 KB of a WGP.
        got = self.occupancy("gfx1200", vgprs=96, block_threads=256, lds=38 * 1024)
        self.assertEqual((got.register_waves, got.waves, got.workgroups, got.limit), (16, 6, 3, "LDS"))
        # The same in CU mode: one workgroup in 64 KB, on two SIMDs.
        got = self.occupancy("gfx1200", vgprs=96, block_threads=256, lds=38 * 1024, wgp_mode=False)
        self.assertEqual((got.waves, got.workgroups, got.unit, got.limit), (4, 1, "CU", "LDS"))
        # 68,096 bytes fit twice into the 160 KB of gfx950, and not into the 64 KB of gfx942.
        self.assertEqual(self.occupancy("gfx950", vgprs=128, block_threads=512, lds=68096).workgroups, 2)
        self.assertEqual(self.occupancy("gfx942", vgprs=128, block_threads=512, lds=68096).workgroups, 0)
        self.assertEqual(self.occupancy("gfx950", vgprs=244, block_threads=512, lds=68096).limit, "registers")

    @unittest.skipIf(support.CLANG is None, support.NO_CLANG)
    def test_agrees_with_the_compiler(self) -> None:
        """LLVM prints registers, spills, LDS and its own occupancy of each kernel."""
        with tempfile.TemporaryDirectory() as directory:
            for target in support.TARGETS:
                path = Path(directory) / f"{target}.co"
                command = [str(support.CLANG), "-x", "hip", "-nogpuinc", "-nogpulib", "-std=c++20", "-O3"]
                command += ["--cuda-device-only", "--no-gpu-bundle-output", f"--offload-arch={target}"]
                command += ["-Rpass-analysis=kernel-resource-usage", "-c", "-o", str(path)]
                # One translation unit of both kernels.
                unit = Path(directory) / "unit.hip"
                unit.write_text("".join((support.HERE / "data" / name).read_text() for name in self.UNIT))
                remarks = subprocess.run([*command, str(unit)], capture_output=True, text=True, check=True).stderr
                said: dict[str, dict[str, int]] = {}
                for name, text in re.findall(r"Function Name: (\w+)(.*?)(?=Function Name|\Z)", remarks, re.S):
                    said[name] = {key: int(value) for key, value in re.findall(r"remark: +(.*?): (\d+)", text)}
                records = analyse([path], Options(disassemble=False))
                self.assertEqual({record["symbol"] for record in records}, said.keys())
                for record in records:
                    ours, theirs = record["resources"], said[record["symbol"]]
                    self.assertEqual(ours["vgprs"], theirs["VGPRs"])
                    self.assertEqual(ours["agprs"], theirs.get("AGPRs", 0))
                    self.assertEqual(ours["vgpr_spills"], theirs["VGPRs Spill"])
                    self.assertEqual(ours["sgpr_spills"], theirs["SGPRs Spill"])
                    self.assertEqual(ours["scratch"], theirs["ScratchSize [bytes/lane]"])
                    self.assertEqual(record["occupancy"]["register_waves"], theirs["Occupancy [waves/SIMD]"])


class Classes(unittest.TestCase):
    def test_classes(self) -> None:
        cases = {
            "v_wmma_f32_16x16x16_bf16 v[0:7], v[8:11], v[12:15], v[0:7]": "matrix",
            "v_mfma_i32_32x32x16_i8 v[0:15], v[16:17], v[18:19], v[0:15]": "matrix",
            "v_smfmac_f32_16x16x64_bf16 v[0:3], v[4:7], v[8:15], v16": "matrix",
            "v_exp_f32_e32 v0, v1": "trans",
            "v_rcp_iflag_f32_e32 v0, v1": "trans",
            "v_fmac_f32_e32 v0, v1, v2": "valu",
            "v_dual_fmac_f32 v0, v1, v2 :: v_dual_mul_f32 v3, v4, v5": "valu",
            "v_readfirstlane_b32 s0, v1": "valu",
            "ds_read_b128 v[0:3], v4": "lds_read",
            "ds_load_b128 v[0:3], v4": "lds_read",
            "ds_read_b64_tr_b16 v[0:1], v4": "lds_read",
            "ds_store_b32 v0, v1": "lds_write",
            "ds_write2st64_b32 v0, v1, v2 offset1:1": "lds_write",
            "ds_bpermute_b32 v0, v1, v2": "lds_permute",
            "ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,8)": "lds_permute",
            "buffer_load_dwordx4 v206, s[36:39], s6 offen lds": "lds_dma",
            "global_load_lds_dwordx4 v[0:1], off": "lds_dma",
            "buffer_load_dwordx4 v[0:3], v4, s[0:3], 0 offen": "global_load",
            "global_load_tr_b128_w32 v[0:3], v[4:5], off": "global_load",
            "global_store_b128 v[0:1], v[2:5], off": "global_store",
            "scratch_load_dword v0, off, off": "scratch",
            "s_barrier": "barrier",
            "s_barrier_wait -1": "barrier",
            "s_barrier_signal -1": "other",
            "s_waitcnt vmcnt(0)": "wait",
            "s_wait_loadcnt 0x0": "wait",
            "s_load_dwordx2 s[0:1], s[2:3], 0x0": "scalar",
            "s_cbranch_scc1 65510": "branch",
            "s_nop 7": "other",
            "s_delay_alu instid0(VALU_DEP_1)": "other",
        }
        for text, expected in cases.items():
            mnemonic, _, operands = text.partition(" ")
            got, _ = classes.classify(mnemonic, operands)
            self.assertEqual(got, expected, text)
            self.assertIn(got, classes.CLASSES)

    def test_details(self) -> None:
        def details(text: str) -> set[str]:
            mnemonic, _, operands = text.partition(" ")
            return set(classes.classify(mnemonic, operands)[1])

        self.assertEqual(details("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]"), {"fma", "packed"})
        self.assertEqual(details("v_add_f32_dpp v0, v1, v2 row_xmask:1 row_mask:0xf bank_mask:0xf"), {"lane_exchange"})
        self.assertEqual(details("v_permlanex16_b32 v0, v1, s0, s1"), {"lane_exchange"})
        self.assertEqual(details("v_dot4_i32_i8 v0, v1, v2, v3"), {"dot"})
        dual = ("v_dual_fmac_f32", "v0, v1, v2 :: v_dual_fmac_f32 v3, v4, v5")
        self.assertEqual(classes.classify(*dual), ("valu", ["fma", "dual_issue", "fma"]))
        self.assertEqual(classes.multiply_adds(*dual), 2)
        self.assertEqual(details("v_dual_mul_f32 v0, v1, v2 :: v_dual_mov_b32 v3, v4"), {"dual_issue", "move"})
        self.assertEqual(details("v_cvt_pk_bf16_f32 v0, v1, v2"), {"convert"})
        self.assertEqual(details("v_max3_f32 v0, v1, v2, v3"), {"max"})
        self.assertEqual(classes.multiply_adds("v_fma_mix_f32", "v0, v1, v2, v3"), 1)
        self.assertEqual(classes.multiply_adds("v_mul_f32_e32", "v0, v1, v2"), 0)

    def test_matrix_clocks(self) -> None:
        cases = [
            ("gfx1200", "v_wmma_f32_16x16x16_bf16", "", 16),
            ("gfx1200", "v_wmma_f32_16x16x16_fp8_fp8", "", 8),
            ("gfx1201", "v_wmma_i32_16x16x16_iu8", "", 8),
            ("gfx942", "v_mfma_f32_32x32x8_bf16", "", 32),
            ("gfx942", "v_mfma_i32_32x32x16_i8", "", 32),
            ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8", "", 16),
            ("gfx942", "v_mfma_f32_32x32x2_f32", "", 64),
            ("gfx942", "v_mfma_f32_16x16x4_f32", "", 32),
            ("gfx942", "v_mfma_f32_32x32x4_2b_bf16", "", 64),
            ("gfx942", "v_mfma_f32_4x4x4_16b_f16", "", 8),
            ("gfx942", "v_mfma_f64_16x16x4_f64", "", 32),
            ("gfx950", "v_mfma_f64_16x16x4_f64", "", 64),
            ("gfx950", "v_mfma_f32_32x32x16_bf16", "", 32),
            ("gfx950", "v_mfma_f32_32x32x64_f8f6f4", "v[0:15], v[16:23], v[24:31], v[0:15]", 64),
            ("gfx950", "v_mfma_f32_32x32x64_f8f6f4", "v[0:15], v[16:19], v[24:27], v[0:15] cbsz:4 blgp:4", 32),
            ("gfx950", "v_mfma_f32_16x16x128_f8f6f4", "v[0:3], v[16:19], v[24:31], v[0:3] cbsz:4", 32),
        ]
        for target, mnemonic, operands, clocks in cases:
            self.assertEqual(targets.matrix_clocks(target, mnemonic, operands), clocks, (target, mnemonic))


class Names(unittest.TestCase):
    def test_shorten(self) -> None:
        cases = {
            "void ns::kernel<ns::arch::gfx942, 64, (ns::Mask)1, true>(ns::Params)": "kernel<gfx942,64,Mask=1,true>",
            "ns::f(float*, int)": "f",
            "void (anonymous namespace)::k<4ul>((anonymous namespace)::P)": "k<4>",
            "void a::k<a::Read<a::bfloat16, (a::K)2>, a::Chain<a::Mul, a::Add> >(a::Q<1>)": (
                "k<Read<bfloat16,K=2>,Chain<Mul,Add>>"
            ),
            "void k<(unsigned int)4, -1>(int (*)(float))": "k<4,-1>",
            "void k<a::R<a::T>, a::R<a::T>, a::R<a::T>, a::W<a::T, a::Chain<> > >(int)": "k<3xR<T>,W<T,Chain>>",
            "void k<a::R<a::R<int>, int>, int, 2, 2, short, short>(int)": "k<R<R<int>,int>,int,2,2,2xshort>",
            "plain_c_kernel": "plain_c_kernel",
        }
        for name, short in cases.items():
            self.assertEqual(names.shorten(name), short)

    def test_demangle_and_clip(self) -> None:
        demangled = names.demangle("_ZN6probes8fma_loopILi5ELNS_4KindE1EEEvPfi")
        self.assertEqual(names.shorten(demangled), "fma_loop<5,Kind=1>")
        self.assertEqual(names.demangle("kernel"), "kernel")
        self.assertEqual(names.clip("abcdefghij", 6), "abc…ij")
        self.assertEqual(names.clip("abcdef", 6), "abcdef")

    def test_table(self) -> None:
        self.assertEqual(text_table.render(["a", "n"], [["xy", 1.0], ["z", None]]), "a   n\n--  -\nxy  1\nz   -")


class Containers(unittest.TestCase):
    def test_msgpack(self) -> None:
        # {"a": [1, -2, 300], "b": "text", "c": true, "d": null} in the encodings that metadata uses, and long forms.
        data = bytes.fromhex("84a16193 01 fe cd012c a162a474657874 a163c3 a164c0".replace(" ", ""))
        self.assertEqual(msgpack.loads(data), {"a": [1, -2, 300], "b": "text", "c": True, "d": None})
        self.assertEqual(msgpack.loads(b"\xdc\x00\x01\xd9\x02xy"), ["xy"])
        self.assertEqual(msgpack.loads(b"\xde\x00\x01\x01\xd3" + b"\xff" * 8), {1: -1})
        with self.assertRaises(ValueError):
            msgpack.loads(data[:-1])
        with self.assertRaises(ValueError):
            msgpack.loads(b"\xc1")

    def elf(self) -> bytes:
        """The least that counts as a code object: an ELF header of machine AMDGPU."""
        header = bytearray(64)
        header[:6] = b"\x7fELF\x02\x01"
        struct.pack_into("<H", header, 18, 224)
        return bytes(header)

    def bundle(self, *entries: tuple[str, bytes]) -> bytes:
        at = 4096
        head, body = bundle.BUNDLE_MAGIC + struct.pack("<Q", len(entries)), b""
        for name, content in entries:
            head += struct.pack("<QQQ", at + len(body), len(content), len(name)) + name.encode()
            body += content
        return head.ljust(at, b"\0") + body

    def test_bundles(self) -> None:
        elf = self.elf()
        plain = self.bundle(("host-x86_64-unknown-linux--", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942:xnack-", elf))
        self.assertEqual([image.target for image in bundle.images(plain)], ["gfx942:xnack-"])
        packed = zlib.compress(plain)
        heads = {
            1: struct.pack("<HHIQ", 1, 0, len(plain), 0),
            2: struct.pack("<HHIIQ", 2, 0, 24 + len(packed), len(plain), 0),
            3: struct.pack("<HHQQQ", 3, 0, 32 + len(packed), len(plain), 0),
        }
        for version, head in heads.items():
            data = bundle.COMPRESSED_MAGIC + head + packed
            # Two in a row, padded, as a linker leaves them in .hip_fatbin.
            self.assertEqual(len(list(bundle.images(data + bytes(100) + data))), 2, version)
        with self.assertRaises(bundle.BundleError):
            list(bundle.images(bundle.COMPRESSED_MAGIC + struct.pack("<HHIIQ", 2, 0, 24 + len(packed), 1, 0) + packed))
        with self.assertRaises(bundle.BundleError):
            list(bundle.images(bundle.COMPRESSED_MAGIC + struct.pack("<HHI", 9, 0, 0)))

    def test_no_code_object(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "text"
            path.write_text("nothing here")
            for wrong in (path, Path(directory), Path(directory) / "missing"):
                with self.assertRaises(InputError):
                    analyse([wrong], Options())
            path.write_bytes(self.elf())
            with self.assertRaisesRegex(InputError, "metadata"):
                analyse([path], Options())

    @unittest.skipIf(support.CLANG is None, support.NO_CLANG)
    def test_compiled_forms(self) -> None:
        """The same kernels from every form that the compiler writes, with the same figures."""
        archs = ["gfx942", "gfx1030"]
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            support.compile_kernels(root / "bundle.hipfb", archs, "--cuda-device-only")
            support.compile_kernels(root / "packed.hipfb", archs, "--cuda-device-only", "--offload-compress")
            self.assertTrue((root / "packed.hipfb").read_bytes().startswith(bundle.COMPRESSED_MAGIC))
            support.compile_kernels(root / "bare.co", archs[:1], "--cuda-device-only", "--no-gpu-bundle-output")

            def figures(path: Path, target: str) -> list[tuple[str, dict]]:
                records = analyse([path], Options(targets=[target]))
                return [(record["name"], record["resources"]) for record in records]

            for target in archs:
                self.assertEqual(figures(root / "bundle.hipfb", target), figures(root / "packed.hipfb", target))
            self.assertEqual(figures(root / "bundle.hipfb", "gfx942"), figures(root / "bare.co", "gfx942"))
            # A directory: kernels that are the same in every file are shown once.
            self.assertEqual(len(analyse([root], Options(disassemble=False))), 2)
            # A host object and a static library.
            include = [f"-I{support.ROOT / 'include'}", f"-I{support.ROOT / 'bench'}", "-DWAVEATTN_BUNDLED_HIP"]
            support.compile_kernels(root / "host.o", archs, *include, source="probe.hip")
            (root / "host.a").write_bytes(self.archive((root / "host.o").read_bytes()))
            for name in ("host.o", "host.a"):
                records = analyse([root / name], Options(kernel=re.compile("probe_kernel")))
                self.assertEqual([record["target"] for record in records], ["gfx1030", "gfx942"])

    @staticmethod
    def archive(member: bytes) -> bytes:
        head = f"{'host.o/':16}{0:<12}{0:<6}{0:<6}{'644':8}{len(member):<10}`\n".encode()
        return bundle.ARCHIVE_MAGIC + head + member + b"\n" * (len(member) % 2)


@unittest.skipIf(support.CLANG is None, support.NO_CLANG)
class CompiledKernels(unittest.TestCase):
    """Kernels from the compiler, on each target."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.path = Path(cls.directory.name) / "kernels.hipfb"
        support.compile_kernels(cls.path, list(support.TARGETS), "--cuda-device-only")
        cls.spilling = Path(cls.directory.name) / "spilling.hipfb"
        support.compile_kernels(cls.spilling, list(support.TARGETS), "--cuda-device-only", source="spilling.hip")

    def test_known_loop(self) -> None:
        for target in support.TARGETS:
            (record,) = analyse([self.path], Options(kernel=re.compile("fma_loop<5"), targets=[target]))
            self.assertEqual(record["name"], "fma_loop<5,Kind=1>")
            path = record["loop"]["path"]
            packed = path["packed"]  # two multiply-adds in one instruction on the targets that have it
            self.assertEqual(path["fma"] + packed, 5, target)
            self.assertEqual(path["trans"], 1, target)
            self.assertEqual(path["scalar_load"] + path["global_load"], 1, target)
            self.assertEqual((path["branch"], path["matrix"], path["lds_total"]), (1, 0, 0), target)
            self.assertEqual(path["total"], sum(path[name] for name in classes.CLASSES), target)
            self.assertEqual(record["static"]["global_store"], 5, target)
            self.assertEqual(record["resources"]["max_block"], 256)

    def test_fail_on_spill(self) -> None:
        for target in support.TARGETS:
            code, text = run_cli(self.path, self.spilling, "--target", target, "--fail-on-spill")
            self.assertEqual(code, 1, target)
            self.assertIn(f"{target} spilling:", text)
            self.assertNotIn("fma_loop", text)
            code, text = run_cli(self.path, "--target", target, "--fail-on-spill")
            self.assertEqual(code, 0, target)
            self.assertIn("1 kernels, 0 of them", text)

    def test_text(self) -> None:
        code, text = run_cli(self.path, "--kernel", "fma_loop", "--per", "fma=2")
        self.assertEqual(code, 0)
        for expected in ("== gfx1030: 1 kernel ==", "== gfx950", "limited by", "ds_bpermute", "1/2"):
            self.assertIn(expected, text)
        with self.assertRaisesRegex(InputError, "no kernel"):
            run_cli(self.path, "--kernel", "nothing_of_that_name")

    def test_json_and_compare(self) -> None:
        root = Path(self.directory.name)
        options = ("--target", "gfx942", "--json")
        run_cli(self.path, *options, root / "old.json", "--kernel", "fma_loop")
        report = json.loads((root / "old.json").read_text())
        self.assertEqual(run_cli("--compare", root / "old.json", root / "old.json"), (0, "no difference\n"))
        report["kernels"][0]["resources"]["vgprs"] += 8
        report["kernels"][0]["loop"]["head"] = "0x0"
        report["kernels"].append(report["kernels"][0] | {"symbol": "added", "name": "added"})
        (root / "new.json").write_text(json.dumps(report))
        _, text = run_cli("--compare", root / "old.json", root / "new.json")
        self.assertIn("resources.vgprs", text)
        self.assertIn("+8", text)
        self.assertIn("added: only in the new report", text)
        # The place of the loop is no difference, and nothing that is equal is printed.
        self.assertNotIn("head", text)
        self.assertNotIn("sgprs", text)
        (root / "wrong.json").write_text("{}")
        with self.assertRaises(InputError):
            run_cli("--compare", root / "old.json", root / "wrong.json")


@unittest.skipIf(support.CLANG is None, support.NO_CLANG)
class HandWrittenKernels(unittest.TestCase):
    """Loops of which every instruction is known."""

    def record(self, target: str, body: str, options: Options | None = None, **resources: int) -> dict:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "kernel.co"
            support.assemble(path, target, body, **resources)
            (record,) = analyse([path], options or Options())
            return record

    MATRIX = "v_mfma_f32_32x32x8_bf16 v[0:15], v[16:17], v[18:19], v[0:15]\n"

    def test_hot_loop_is_the_innermost_with_work(self) -> None:
        # An outer loop whose own code holds more matrix work than the inner one, and a loop of other work after it.
        body = f"""
outer:
  {self.MATRIX * 6}
inner:
  {self.MATRIX * 4}
  v_exp_f32 v20, v20
  v_exp_f32 v21, v21
  v_add_f32 v22, v22, v22
  ds_read_b128 v[24:27], v28
  s_waitcnt lgkmcnt(0)
  s_barrier
  s_sub_u32 s0, s0, 1
  s_cmp_lg_u32 s0, 0
  s_cbranch_scc1 inner
  s_sub_u32 s1, s1, 1
  s_cmp_lg_u32 s1, 0
  s_cbranch_scc1 outer
copy:
  ds_write_b32 v28, v22
  s_sub_u32 s2, s2, 1
  s_cmp_lg_u32 s2, 0
  s_cbranch_scc1 copy
  s_endpgm
"""
        record = self.record("gfx942", body)
        path = record["loop"]["path"]
        expected = {"matrix": 4, "trans": 2, "valu": 1, "lds_read": 1, "wait": 1, "barrier": 1, "scalar": 2}
        self.assertEqual({name: path[name] for name in expected}, expected)
        self.assertEqual((path["branch"], path["total"]), (1, 13))
        self.assertEqual((record["static"]["matrix"], record["static"]["lds_total"]), (10, 2))
        # M 128; other vector work 2 x 16 + 4 = 36, and 4 x 4 in which none issues: all of it in the matrix shadow.
        share = record["loop"]["modelled"]
        self.assertEqual((share["matrix_clocks"], share["vector_clocks"]), (128, 36))
        self.assertEqual((share["share"], share["ceiling"]), (1, 1))
        self.assertAlmostEqual(share["serial"], 128 / 164, places=4)
        # The same by hand: the copy loop, chosen by its offset.
        every = self.record("gfx942", body, Options(all_loops=True))["loops"]
        self.assertEqual(len(every), 3)
        heads = {loop["path"]["lds_write"]: int(loop["head"], 16) for loop in every}
        chosen = self.record("gfx942", body, Options(loop=heads[1]))["loop"]
        self.assertEqual((chosen["path"]["total"], chosen["path"]["matrix"]), (4, 0))

    def test_hot_path_leaves_out_what_a_trip_can_skip(self) -> None:
        # A rescale behind a vote, out of line; two variants of a tile of which the masked one is longer.
        rescale = "v_mul_f32 v30, v30, v31\n" * 8
        body = f"""
loop:
  {self.MATRIX * 2}
  s_cbranch_scc0 rescale
back:
  s_cbranch_vccz plain
  {self.MATRIX}
  v_cndmask_b32 v20, v21, v22, vcc
  v_cndmask_b32 v20, v21, v22, vcc
  s_branch join
plain:
  {self.MATRIX}
  v_add_f32 v20, v20, v20
join:
  s_cbranch_scc1 loop
  s_endpgm
rescale:
  {rescale}
  s_branch back
"""
        loop = self.record("gfx942", body)["loop"]
        self.assertEqual((loop["path"]["matrix"], loop["path"]["valu"], loop["path"]["branch"]), (3, 1, 3))
        self.assertEqual((loop["body"]["matrix"], loop["body"]["valu"]), (4, 11))

    def test_matrix_share_of_wmma(self) -> None:
        # WMMA holds the port: 2 x 16 + 1 x 8 of matrix clocks beside 3 x 4 and 8.
        body = """
loop:
  v_wmma_f32_16x16x16_bf16 v[0:7], v[8:11], v[12:15], v[0:7]
  v_wmma_f32_16x16x16_bf16 v[16:23], v[8:11], v[12:15], v[16:23]
  v_wmma_f32_16x16x16_fp8_fp8 v[24:31], v[8:9], v[12:13], v[24:31]
  v_exp_f32 v40, v40
  v_exp_f32 v41, v41
  v_exp_f32 v42, v42
  v_dual_add_f32 v44, v45, v46 :: v_dual_mul_f32 v47, v48, v49
  v_max_num_f32 v44, v45, v46
  v_max_num_f32 v44, v45, v46
  v_max_num_f32 v44, v45, v46
  v_max_num_f32 v44, v45, v46
  v_max_num_f32 v44, v45, v46
  v_max_num_f32 v44, v45, v46
  v_max_num_f32 v44, v45, v46
  s_barrier_signal -1
  s_barrier_wait -1
  s_cbranch_scc1 loop
  s_endpgm
"""
        loop = self.record("gfx1200", body)["loop"]
        self.assertEqual((loop["path"]["matrix"], loop["path"]["trans"], loop["path"]["valu"]), (3, 3, 8))
        self.assertEqual((loop["path"]["barrier"], loop["path"]["dual_issue"]), (1, 1))
        self.assertEqual((loop["modelled"]["matrix_clocks"], loop["modelled"]["vector_clocks"]), (40, 20))
        self.assertAlmostEqual(loop["modelled"]["share"], 40 / 60, places=4)

    def test_matrix_share_of_gfx950(self) -> None:
        # M 64; V 3 x 8 + 2 x 4 + 8 = 40, and 2 x 8 in which none issues; the packed pair runs beside no MFMA.
        matrix = "v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], v[0:15]\n" * 2
        exps = "v_exp_f32 v40, v40\n" * 3
        packed = "v_pk_mul_f32 v[40:41], v[42:43], v[44:45]\n" * 2
        body = f"loop:\n{matrix}{exps}{packed}v_permlane32_swap_b32 v50, v51\ns_cbranch_scc1 loop\ns_endpgm"
        share = self.record("gfx950", body)["loop"]["modelled"]
        self.assertEqual((share["matrix_clocks"], share["vector_clocks"]), (64, 40))
        self.assertAlmostEqual(share["share"], 64 / 72, places=4)
        self.assertEqual(share["ceiling"], 1)

    def test_registers_of_both_kinds(self) -> None:
        record = self.record("gfx950", "s_endpgm", vgprs=320, agprs=64, lds=70000, threads=512)
        resources, occupancy = record["resources"], record["occupancy"]
        self.assertEqual((resources["vgprs"], resources["agprs"], resources["total_vgprs"]), (256, 64, 320))
        # 320 of 512 registers: one wave a SIMD, which is less than the eight waves of a workgroup.
        self.assertEqual((occupancy["register_waves"], occupancy["waves"], occupancy["limit"]), (1, 0, "registers"))
        record = self.record("gfx942", "s_endpgm", vgprs=128, threads=256, lds=40000)
        self.assertEqual((record["occupancy"]["register_waves"], record["occupancy"]["waves"]), (4, 1))
        self.assertEqual(record["occupancy"]["limit"], "LDS")

    def test_code_without_loops_and_without_an_end(self) -> None:
        self.assertNotIn("loop", self.record("gfx1030", "v_mov_b32 v0, 0\ns_endpgm"))
        record = self.record("gfx942", "loop:\ns_branch loop")
        self.assertEqual((record["loop"]["path"]["total"], record["loop"]["path"]["branch"]), (1, 1))
        # An indirect jump ends a path; what follows it is counted all the same.
        record = self.record("gfx942", f"s_setpc_b64 s[0:1]\nloop:\n{self.MATRIX}s_cbranch_scc1 loop\ns_endpgm")
        self.assertEqual(record["loop"]["path"]["matrix"], 1)

    def test_loop_entered_in_the_middle(self) -> None:
        body = f"s_cbranch_scc1 middle\nhead:\n{self.MATRIX * 2}middle:\n{self.MATRIX}s_cbranch_scc0 head\ns_endpgm"
        record = self.record("gfx942", body)
        self.assertEqual(record["loop"]["path"]["matrix"], 3)


if __name__ == "__main__":
    unittest.main()
