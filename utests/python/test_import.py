"""The package imports anywhere and says what is missing; importing has no side effects."""

from __future__ import annotations

import shutil

from conftest import run_python

import waveattn


def test_import_needs_no_torch_numpy_or_runtime():
    result = run_python(
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'numpy'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "import waveattn\n"
        "assert not {'torch', 'numpy'} & set(sys.modules), 'imported'\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert 'libamdhip64' not in maps, 'a runtime was loaded on import'\n"
        "info = waveattn.info()\n"
        "assert info['available'] is False and 'no HIP runtime' in info['reason']\n"
        "print(info['rocm']['tried'])\n",
        WAVEATTN_HIP_RUNTIME="/nonexistent/libamdhip64.so",
    )
    assert "/nonexistent/libamdhip64.so" in result.stdout


def test_what_the_documentation_names_is_there_after_the_import():
    run_python(
        "import waveattn\n"
        "assert callable(waveattn.compat.flash_attn_func) and callable(waveattn.compat.scaled_dot_product_attention)\n"
        "assert callable(waveattn.dualwave.attend)\n"
        "assert all(hasattr(waveattn, name) for name in waveattn.__all__)\n"
    )


def test_nothing_of_torch_is_replaced_on_import(torch):
    run_python(
        "import torch.nn.functional as F\n"
        "before = F.scaled_dot_product_attention\n"
        "import waveattn, waveattn.compat, waveattn.torch_ops, waveattn.integrations.torch_sdpa\n"
        "assert F.scaled_dot_product_attention is before\n"
    )


def test_the_emulator_alone_is_loaded_for_cpu_tensors(numpy_only):
    run_python(
        "import numpy as np, waveattn\n"
        "q = np.ones((1, 1, 3, 32), np.float32)\n"
        "assert (abs(waveattn.flash_attention(q, q, q) - 1) < 1e-6).all()\n"
        "maps = {line.split()[-1] for line in open('/proc/self/maps') if 'libamdhip64' in line}\n"
        "assert len(maps) == 1, maps\n"
    )


def test_a_library_that_is_no_runtime_is_refused(tmp_path):
    result = run_python(
        "import waveattn\nprint(waveattn.info()['rocm'])\n", WAVEATTN_HIP_RUNTIME="libc.so.6"
    )
    assert "'loaded': False" in result.stdout and "older than ROCm 6" in result.stdout


def test_a_cpu_that_cannot_run_the_emulator_is_an_error_and_no_crash():
    result = run_python(
        "import numpy as np, waveattn\n"
        "from waveattn import _runtime\n"
        "_runtime._missing_cpu_features = lambda: ['avx2']\n"
        "q = np.ones((1, 1, 3, 32), np.float32)\n"
        "try: waveattn.flash_attention(q, q, q)\n"
        "except RuntimeError as error: print(error)\n"
        "assert waveattn.info()['emulator']['loaded'] is False\n"
    )
    assert "needs a CPU with avx2" in result.stdout


def test_the_emulator_serves_as_runtime_too(numpy_only):
    """One library in both roles, as where somebody preloads the emulator: GPUs and emulated devices side by side."""
    result = run_python(
        "import numpy as np, waveattn\n"
        "print([(d['ordinal'], d['target'], d['emulated']) for d in waveattn.devices()], waveattn.is_available())\n"
        "q = np.ones((1, 1, 3, 32), np.float32)\n"
        "assert (abs(waveattn.flash_attention(q, q, q, device='gfx1200') - 1) < 1e-6).all()\n",
        WAVEATTN_HIP_RUNTIME=waveattn._runtime.emulator_path(),
        GFXEMU_DEVICES="gfx942,gfx1200",
    )
    assert "(0, 'gfx942', False), (1, 'gfx1200', False), (1024, 'gfx942', True), (1025, 'gfx1200', True)" in result.stdout
    assert result.stdout.split()[-1] == "True"


def test_a_loaded_emulator_is_not_taken_for_a_runtime(numpy_only, tmp_path):
    """Whatever was called before: the emulator answers to the name of the runtime's library."""
    call_then_ask = (
        "import numpy as np, waveattn\n"
        "q = np.ones((1, 1, 3, 32), np.float32)\n"
        "waveattn.flash_attention(q, q, q)\n"
        "print(waveattn.is_available(), waveattn.info()['rocm']['path'])\n"
    )
    rocm = waveattn.info()["rocm"]
    if not rocm["loaded"]:
        assert run_python(call_then_ask).stdout.split()[0] == "False"
    # A runtime on the library path, for which a copy of the emulator stands, is found behind the loaded emulator.
    library = tmp_path / "libamdhip64.so.7"
    shutil.copy(waveattn._runtime.emulator_path(), library)
    found = run_python(call_then_ask, LD_LIBRARY_PATH=str(tmp_path)).stdout.split()
    assert found == ["True", str(library)]


def test_user_variables_are_left_as_they_were():
    run_python(
        "import os, waveattn\n"
        "waveattn.devices()\n"
        "assert os.environ['HIP_VISIBLE_DEVICES'] == '0'\n"
        "import ctypes\n"
        "getenv = ctypes.CDLL(None).getenv\n"
        "getenv.restype = ctypes.c_char_p\n"
        "assert getenv(b'HIP_VISIBLE_DEVICES') == b'0' and getenv(b'GFXEMU_DEVICES') is None\n"
        "assert len([d for d in waveattn.devices() if d['emulated']]) == 4\n",
        HIP_VISIBLE_DEVICES="0",
    )


def test_the_emulation_is_announced_once():
    code = (
        "import numpy as np, warnings, waveattn\n"
        "warnings.simplefilter('always')\n"
        "q = np.ones((1, 1, 3, 32), np.float32)\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    for _ in range(3): waveattn.flash_attention(q, q, q)\n"
        "assert [w.category for w in caught] == [RuntimeWarning] and 'emulated' in str(caught[0].message)\n"
    )
    run_python(code)


def test_the_environment_chooses_the_emulated_device():
    result = run_python(
        "import numpy as np, waveattn, warnings\n"
        "warnings.simplefilter('always')\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    q = np.ones((1, 1, 3, 32), np.float32); waveattn.flash_attention(q, q, q)\n"
        "print(caught[0].message)\n",
        WAVEATTN_EMULATED_DEVICE="gfx1030",
    )
    assert "(gfx1030)" in result.stdout


def test_the_command_prints_what_was_found():
    result = run_python("import runpy, sys; sys.argv = ['waveattn']; runpy.run_module('waveattn', run_name='__main__')")
    for word in ("gfx1030", "gfx950", "emulator", "scalar"):
        assert word in result.stdout


def test_the_process_ends_while_a_daemon_thread_is_inside_a_call():
    run_python(
        "import numpy as np, threading, waveattn\n"
        "q = np.ones((1, 4, 256, 64), np.float32)\n"
        "waveattn.flash_attention(q[:, :, :1], q, q)\n"  # everything is loaded
        "inside = threading.Event()\n"
        "def work():\n"
        "    while True:\n"
        "        inside.set(); waveattn.flash_attention(q, q, q, backend='scalar')\n"
        "threading.Thread(target=work, daemon=True).start(); inside.wait()\n"
    )
