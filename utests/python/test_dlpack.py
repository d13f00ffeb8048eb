"""Arrays that are not torch's: numpy, and anything that exports DLPack."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import attention_oracle, largest_difference

import waveattn

pytestmark = pytest.mark.usefixtures("numpy_only")


class Exporter:
    """An array of an unknown framework: DLPack and nothing else. Counts what it is asked for."""

    def __init__(self, array, kind=1, **behaviour):
        self.array, self.kind, self.behaviour, self.requests = array, kind, behaviour, []

    dtype = property(lambda self: self.array.dtype)

    def __dlpack_device__(self):
        return (self.kind, 0)

    def __dlpack__(self, **arguments):
        self.requests.append(arguments)
        if self.behaviour.get("old") and "max_version" in arguments:
            raise TypeError("unexpected keyword argument 'max_version'")
        if self.behaviour.get("refuses"):
            raise BufferError(self.behaviour["refuses"])
        return self.array.__dlpack__(max_version=arguments.get("max_version"))


@pytest.fixture
def qkv():
    rng = np.random.default_rng(1)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((1, 4, 7, 32), (1, 2, 11, 32), (1, 2, 11, 32))]


def test_numpy_gives_numpy(place, qkv):
    out, lse = waveattn.flash_attention(*qkv, return_lse=True, causal="top_left", **place.options)
    expected, expected_lse = attention_oracle(*qkv, "top_left")
    assert type(out) is np.ndarray and type(lse) is np.ndarray
    assert largest_difference(out, expected) <= 5e-6 and largest_difference(lse, expected_lse) <= 5e-6


def test_numpy_views(place, qkv):
    q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in qkv)
    out = np.full((1, 4, 9, 40), 7.0, np.float32)
    waveattn.flash_attention(q, k, v, out=out[:, :, 1:8, 3:35], **place.options)
    assert largest_difference(out[:, :, 1:8, 3:35], attention_oracle(q, k, v)[0]) <= 5e-6
    out[:, :, 1:8, 3:35] = 7.0
    assert (out == 7.0).all()


def test_numpy_bfloat16(place, qkv):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    tensors = [x.astype(ml_dtypes.bfloat16) for x in qkv]
    out = waveattn.flash_attention(*tensors, backend="scalar", **place.options)
    assert out.dtype == ml_dtypes.bfloat16
    expected = attention_oracle(*(x.astype(np.float64) for x in tensors))[0]
    assert largest_difference(out.astype(np.float64), expected) <= 2.0**-9 + 5e-6


def test_numpy_arrays_that_no_kernel_reads(qkv):
    q, k, v = qkv
    with pytest.raises(ValueError, match="byte order"):
        waveattn.flash_attention(q.astype(">f4"), k.astype(">f4"), v.astype(">f4"))
    with pytest.raises(ValueError, match="negative stride"):
        waveattn.flash_attention(q[:, :, ::-1], k, v)
    record = np.zeros((1, 4, 7, 32), dtype=[("a", "f4"), ("b", "i1")])["a"]
    with pytest.raises(ValueError, match="not multiples"):
        waveattn.flash_attention(record, k, v)


def test_any_exporter_gives_numpy_arrays(place, qkv):
    tensors = [Exporter(x) for x in qkv]
    out, lse = waveattn.flash_attention(*tensors, return_lse=True, **place.options)
    assert largest_difference(out, attention_oracle(*qkv)[0]) <= 5e-6
    assert largest_difference(lse, attention_oracle(*qkv)[1]) <= 5e-6
    assert all("stream" not in request for tensor in tensors for request in tensor.requests)


def test_an_exporter_older_than_version_1(place, qkv):
    tensors = [Exporter(x, old=True) for x in qkv]
    assert largest_difference(waveattn.flash_attention(*tensors, **place.options), attention_oracle(*qkv)[0]) <= 5e-6


def test_an_exporter_as_out(place, qkv):
    out = Exporter(np.zeros((1, 4, 7, 32), np.float32))
    assert waveattn.flash_attention(*(Exporter(x) for x in qkv), out=out, **place.options) is out
    assert largest_difference(out.array, attention_oracle(*qkv)[0]) <= 5e-6


def test_a_read_only_exporter(place, qkv):
    for array in qkv:
        array.flags.writeable = False
    tensors = [Exporter(x) for x in qkv]
    assert largest_difference(waveattn.flash_attention(*tensors, **place.options), attention_oracle(*qkv)[0]) <= 5e-6
    out = np.zeros((1, 4, 7, 32), np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        waveattn.flash_attention(*tensors, out=Exporter(out), **place.options)


def test_an_exporter_that_refuses(qkv):
    q, k, v = (Exporter(x) for x in qkv)
    with pytest.raises(ValueError, match="k cannot be exported: busy"):
        waveattn.flash_attention(q, Exporter(k.array, refuses="busy"), v)


def test_memory_is_released(place, qkv):
    import gc
    import weakref

    class Array(np.ndarray):
        pass

    base = qkv[0].view(Array)
    gone = weakref.ref(base)
    exporter = Exporter(base)
    waveattn.flash_attention(exporter, *(Exporter(x) for x in qkv[1:]), **place.options)
    del exporter, base
    gc.collect()
    assert gone() is None


def test_torch_through_dlpack_has_the_same_bits(torch, place, qkv):
    tensors = [torch.from_numpy(x) for x in qkv]
    direct = waveattn.flash_attention(*tensors, **place.options)
    exported = waveattn.flash_attention(*(Exporter(t.numpy()) for t in tensors), **place.options)
    assert np.array_equal(direct.numpy(), exported)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_jax_gives_jax(place, qkv, dtype):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    tensors = [jax.numpy.asarray(x).astype(dtype) for x in qkv]
    out, lse = waveattn.flash_attention(*tensors, return_lse=True, backend="scalar", **place.options)
    assert isinstance(out, jax.Array) and isinstance(lse, jax.Array) and out.dtype == dtype
    expected, expected_lse = attention_oracle(*(np.asarray(x, dtype=np.float64) for x in tensors))
    assert largest_difference(np.asarray(out, dtype=np.float64), expected) <= (5e-6 if dtype == "float32" else 2.0**-9 + 5e-6)
    assert largest_difference(np.asarray(lse), expected_lse) <= 5e-6
