"""GPU behaviour without a GPU: the emulator takes the place of ROCm's runtime, and its device arrays come by DLPack.

Each test is a program of its own, because a process has one runtime. With GFXEMU_LAZY the emulator runs nothing until
something waits for it, which shows any hidden synchronisation and any missing order.
"""

from __future__ import annotations

import pytest
from conftest import ROOT, run_python

import waveattn

PRELUDE = """
import ctypes as C, numpy as np, waveattn, gfxemu as g
from conftest import attention_oracle, largest_difference
hip = g.hip()
def current():
    n = C.c_int(); hip.hipGetDevice(C.byref(n)); return n.value
rng = np.random.default_rng(0)
host = [rng.uniform(-1, 1, s).astype(np.float32) for s in ((1, 4, 9, 32), (1, 2, 14, 32), (1, 2, 14, 32))]
def put(device=0): return [g.DeviceArray.from_numpy(x, device=device) for x in host]
def empty(device=0): return g.DeviceArray.empty((1, 4, 9, 32), device=device)
expected = attention_oracle(*host)[0]
"""


def run(code: str, devices: str = "gfx942,gfx1200", **environment: str) -> str:
    if not (ROOT / "emulator" / "python" / "gfxemu.py").exists():
        pytest.skip("the emulator's Python package is not in this tree")
    path = waveattn._runtime.emulator_path()
    folders = f"{ROOT / 'emulator' / 'python'}:{ROOT / 'utests' / 'python'}"
    import os

    return run_python(
        PRELUDE + code,
        WAVEATTN_HIP_RUNTIME=path,
        GFXEMU_LIB=path,
        GFXEMU_DEVICES=devices,
        PYTHONPATH=f"{folders}:{os.environ.get('PYTHONPATH', '')}",
        **environment,
    ).stdout


def test_each_device_computes_and_the_current_one_stays():
    run(
        """
for start in (0, 1):
    g.set_device(start)
    for device in (0, 1):
        out = empty(device)
        assert waveattn.flash_attention(*put(device), out=out) is out
        assert current() == start
        assert largest_difference(out.numpy(), expected) <= 5e-6
        assert current() == start
"""
    )


def test_gpu_and_cpu_tensors_in_one_process():
    run(
        """
out = empty(1)
waveattn.flash_attention(*put(1), out=out)
assert largest_difference(waveattn.flash_attention(*host, device="gfx1200"), expected) <= 5e-6
assert largest_difference(out.numpy(), expected) <= 5e-6
assert current() == 0
"""
    )


def test_a_call_does_not_wait():
    run(
        """
stream = g.Stream(0)
tensors, out = put(), empty()
before = out.raw()
waveattn.flash_attention(*tensors, out=out, stream=stream.handle)
peek = (C.c_uint8 * out.raw().nbytes).from_address(out.ptr)
assert bytes(peek) == before.tobytes(), "the kernel has run: something waited for it"
stream.synchronize()
assert largest_difference(out.numpy(), expected) <= 5e-6
""",
        GFXEMU_LAZY="1",
    )


def test_work_is_ordered_on_the_given_stream():
    run(
        """
stream = g.Stream(0)
q, k, v = put()
late = g.DeviceArray.from_numpy(np.zeros_like(host[0]))
pinned = g.DeviceArray.from_numpy(host[0])
hip.hipMemcpyAsync(C.c_void_p(late.ptr), C.c_void_p(pinned.ptr), C.c_size_t(host[0].nbytes), C.c_int(3), C.c_void_p(stream.handle))
out = empty()
waveattn.flash_attention(late, k, v, out=out, stream=stream.handle)
stream.synchronize()
assert largest_difference(out.numpy(), expected) <= 5e-6
""",
        GFXEMU_LAZY="1",
    )


def test_the_producer_is_told_the_stream():
    run(
        """
class Recorder:
    def __init__(self, array): self.array, self.dtype, self.streams = array, array.dtype, []
    def __dlpack_device__(self): return self.array.__dlpack_device__()
    def __dlpack__(self, **arguments):
        self.streams.append(arguments["stream"])
        return self.array.__dlpack__(**arguments)
stream = g.Stream(0)
tensors = [Recorder(t) for t in put()]
out = empty()
waveattn.flash_attention(*tensors, out=out, stream=stream.handle)
stream.synchronize()
assert [t.streams for t in tensors] == [[stream.handle]] * 3
# A producer whose data is still being written on its own stream.
own = g.Stream(0)
q = g.DeviceArray.from_numpy(np.zeros_like(host[0])); source = g.DeviceArray.from_numpy(host[0])
hip.hipMemcpyAsync(C.c_void_p(q.ptr), C.c_void_p(source.ptr), C.c_size_t(host[0].nbytes), C.c_int(3), C.c_void_p(own.handle))
q.stream = own.handle
_, k, v = put()
out = empty()
waveattn.flash_attention(q, k, v, out=out, stream=stream.handle)
stream.synchronize()
assert largest_difference(out.numpy(), expected) <= 5e-6
""",
        GFXEMU_LAZY="1",
    )


def test_a_captured_graph_replays_with_the_same_bits():
    run(
        """
stream = g.Stream(0)
tensors, out = put(), empty()
waveattn.flash_attention(*tensors, out=out, stream=stream.handle)   # the code is loaded before the capture
stream.synchronize()
first = out.raw()
out.write(np.zeros(out.shape, np.float32))
graph, exec_ = C.c_void_p(), C.c_void_p()
q, k, v = tensors
from waveattn import _core, _arrays
adapter = _arrays.DLPackAdapter(stream.handle)
problem = _core.AttentionProblem(*[_core.Tensor(t.ptr, t.shape, t.strides, 0, 0) for t in tensors], None, None, "bhsd")
problem.set_out(_core.Tensor(out.ptr, out.shape, out.strides, 0, 0))
assert hip.hipStreamBeginCapture(C.c_void_p(stream.handle), C.c_int(0)) == 0
_core.flash_attention_scalar(problem, 0, stream.handle)
assert hip.hipStreamEndCapture(C.c_void_p(stream.handle), C.byref(graph)) == 0
assert hip.hipGraphInstantiate(C.byref(exec_), graph, None, None, C.c_size_t(0)) == 0
assert (out.raw() == 0).all()
assert hip.hipGraphLaunch(exec_, C.c_void_p(stream.handle)) == 0
stream.synchronize()
assert (out.raw() == first).all()
"""
    )


def test_tensors_on_two_devices_are_refused():
    run(
        """
q, k, v = put(0)
try: waveattn.flash_attention(q, put(1)[1], v, out=empty())
except ValueError as error: assert "rocm:0, rocm:1 and rocm:0" in str(error), error
else: raise AssertionError
try: waveattn.flash_attention(q, k, v, out=empty(1))
except ValueError as error: assert "device of q, rocm:0" in str(error), error
else: raise AssertionError
"""
    )


def test_arrays_of_a_framework_that_makes_none_need_out():
    run(
        """
try: waveattn.flash_attention(*put())
except NotImplementedError as error: assert "pass out=" in str(error)
else: raise AssertionError
"""
    )


def test_threads_on_their_own_devices_and_streams():
    run(
        """
import threading
errors = []
def work(device):
    try:
        g.set_device(1 - device)
        stream = g.Stream(device)
        for _ in range(5):
            out = empty(device)
            waveattn.flash_attention(*put(device), out=out, stream=stream.handle)
            stream.synchronize()
            assert largest_difference(out.numpy(), expected) <= 5e-6
            assert current() == 1 - device
            assert largest_difference(waveattn.flash_attention(*host, device="gfx942"), expected) <= 5e-6
            assert current() == 1 - device
    except BaseException as error: errors.append(error)
threads = [threading.Thread(target=work, args=(d % 2,)) for d in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not errors, errors
"""
    )


def test_offsets_beyond_4_gib():
    """Heads that lie 4 GiB apart; the memory between them is never touched."""
    run(
        """
def spread(heads, tokens):
    return g.DeviceArray.empty((1, heads, tokens, 32), strides=(1, (1 << 30) + 64, 32, 1))
q, k, v, out = spread(2, 9), spread(2, 14), spread(2, 14), spread(2, 9)
for far, source in ((q, host[0][:, :2]), (k, host[1]), (v, host[2])):
    for head in range(2): far[:, head:head + 1].write(source[:, head:head + 1])
waveattn.flash_attention(q, k, v, out=out)
exact = attention_oracle(host[0][:, :2], host[1], host[2])[0]
for head in range(2):
    assert largest_difference(out[:, head:head + 1].numpy(), exact[:, head:head + 1]) <= 5e-6
"""
    )
