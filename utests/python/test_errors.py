"""What is refused, with which exception and words; every call leaves its tensors untouched."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import run_python

import waveattn
from waveattn import _arrays, _core, _registry, _runtime, compat


@pytest.fixture
def qkv(torch, place):
    return [place.put(torch.rand(1, 2, 5, 32)) for _ in range(3)]


def call(place, *tensors, **options):
    return waveattn.flash_attention(*tensors, **options, **place.options)


def test_dtypes_that_differ(place, qkv):
    q, k, v = qkv
    with pytest.raises(TypeError, match=r"float32, torch.float16, torch.float32"):
        call(place, q, k.half(), v)


@pytest.mark.parametrize("dtype", ["float64", "int64", "float8_e5m2"])
def test_dtypes_without_a_kernel(torch, place, qkv, dtype):
    tensors = [t.to(getattr(torch, dtype)) for t in qkv]
    with pytest.raises(NotImplementedError, match="float32, bfloat16, float16|bfloat16, float16, float32"):
        call(place, *tensors)


def test_fp8_of_the_scalar_kernel(torch, place, qkv):
    tensors = [t.to(torch.float8_e4m3fn) for t in qkv]
    with pytest.raises(NotImplementedError, match="float8_e4m3fn"):
        call(place, *tensors, backend="scalar")


def test_mixed_devices(torch, place, qkv):
    q, k, v = qkv
    with pytest.raises(ValueError, match="same device"):
        call(place, q, k.to("meta"), v)


def test_what_is_no_tensor(torch, place, qkv):
    q, k, v = qkv
    for bad in (None, [[1.0]], 3.0):
        with pytest.raises(TypeError, match="k"):
            call(place, q, bad, v)
        with pytest.raises(TypeError):
            call(place, bad, k, v)
    with pytest.raises(TypeError, match="k"):
        call(place, q, np.zeros((1, 2, 5, 32), np.float32), v)
    with pytest.raises(TypeError):
        call(place, np.zeros((1, 2, 5, 32), np.float32), k, v)


def test_gradients(torch, place, qkv):
    q, k, v = qkv
    q.requires_grad_()
    with pytest.raises(NotImplementedError, match="no_grad"):
        call(place, q, k, v)
    with torch.no_grad():
        assert call(place, q, k, v).shape == q.shape
    assert call(place, q.detach(), k, v).shape == q.shape


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((2, 5, 32), (1, 2, 5, 32), (1, 2, 5, 32)), "4 dimensions"),
        (((1, 2, 5, 32), (2, 2, 5, 32), (2, 2, 5, 32)), "batch size"),
        (((1, 2, 5, 32), (1, 2, 5, 32), (1, 2, 6, 32)), "heads and length"),
        (((1, 2, 5, 32), (1, 2, 5, 16), (1, 2, 5, 32)), "head_dim 32, got 16"),
        (((1, 3, 5, 32), (1, 2, 5, 32), (1, 2, 5, 32)), r"heads of q \(3\)"),
        (((1, 2, 5, 32), (1, 0, 5, 32), (1, 0, 5, 32)), "no heads"),
        (((1, 2, 5, 0), (1, 2, 5, 0), (1, 2, 5, 32)), "positive"),
    ],
)
def test_shapes(torch, place, shapes, words):
    with pytest.raises(ValueError, match=words):
        call(place, *(place.put(torch.rand(shape)) for shape in shapes))


def test_shapes_are_named_in_a_known_order(torch, place):
    q, k = place.put(torch.rand(1, 5, 2, 32)), place.put(torch.rand(1, 5, 3, 32))
    with pytest.raises(ValueError, match="batch, heads, tokens, head_dim"):
        call(place, q, k, k, layout="bshd")


def test_head_dim_beyond_every_kernel(torch, place):
    wide = place.put(torch.rand(1, 1, 2, 257))
    with pytest.raises(NotImplementedError, match="head_dim 1 to 256, got 257"):
        call(place, wide, wide, wide)


@pytest.mark.parametrize("scale", [math.nan, math.inf, -math.inf])
def test_scale_that_is_not_finite(place, qkv, scale):
    with pytest.raises(ValueError, match="finite"):
        call(place, *qkv, scale=scale)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"causal": "left"}, "top_left"), ({"layout": "sbhd"}, "bhsd"), ({"backend": "fastest"}, "auto, .*scalar")],
)
def test_names(place, qkv, options, words):
    with pytest.raises(ValueError, match=words):
        call(place, *qkv, **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"causal": True}, TypeError, "causal must be None, 'top_left' .* got True"),
        ({"layout": None}, TypeError, "layout must be a string"),
        ({"backend": 1}, TypeError, "backend must be a string"),
        ({"scale": "1"}, TypeError, "scale must be a number"),
        ({"scale": {}}, TypeError, "scale must be a number"),
        ({"scale": 1j}, TypeError, "scale must be a number"),
        ({"scale": np.ones(1)}, TypeError, "scale must be a number"),
        ({"scale": 10**400}, ValueError, "scale must be finite"),
        ({"scale": 1e300}, ValueError, r"scale must be finite in float32, got 1e\+300"),
        ({"return_lse": "yes"}, TypeError, "return_lse must be True or False, got 'yes'"),
        ({"return_lse": 2}, TypeError, "return_lse must be True or False, got 2"),
        ({"scores": "quantized"}, NotImplementedError, "scores"),
        ({"scores": "exactly"}, ValueError, "scores must be 'auto', 'exact' or 'quantized', got 'exactly'"),
        ({"basis": 1}, TypeError, "basis must be 'online' or 'pinned', got 1"),
        ({"xcd_swizzle": "yes"}, ValueError, "xcd_swizzle must be 'auto', 'on' or 'off', got 'yes'"),
    ],
)
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_options_of_another_type(place, qkv, options, error, words, kind):
    tensors = [t.cpu().numpy() for t in qkv] if kind == "numpy" else qkv
    with pytest.raises(error, match=words):
        waveattn.flash_attention(*tensors, **options)


def test_more_dimensions_than_any_tensor_has(torch, place):
    deep = place.put(torch.zeros((1,) * 9))
    for call_with in (lambda: waveattn.softmax(deep, **place.options), lambda: call(place, deep, deep, deep)):
        with pytest.raises(ValueError, match="at most 8 dimensions, got 9"):
            call_with()


def test_device_is_the_name_of_a_target(numpy_only):
    q = np.zeros((1, 1, 2, 8), np.float32)
    for device, error in ((0, TypeError), (["gfx942"], TypeError), ("", ValueError)):
        with pytest.raises(error, match="device must be"):
            waveattn.flash_attention(q, q, q, device=device)
    with pytest.raises(TypeError, match="device must be"):
        waveattn.softmax(q, device=0)


@pytest.mark.parametrize("stream", ["0", 1.5, True, [0]])
def test_a_stream_is_an_integer(numpy_only, stream):
    q = np.zeros((1, 1, 2, 8), np.float32)
    for function, arguments in ((waveattn.flash_attention, (q, q, q)), (waveattn.decode, (q, q, q)), (waveattn.softmax, (q,))):
        with pytest.raises(TypeError, match="stream must be an integer"):
            function(*arguments, stream=stream)
    with pytest.raises(ValueError, match="stream must be from 0"):
        waveattn.softmax(q, stream=-1)


def test_sizes_of_caches(torch, place, qkv):
    sizes = {"batch": 1, "heads": 2, "capacity": 5, "head_dim": 32}
    paged = {"pages": 2, "kv_heads": 2, "page_size": 4, "head_dim": 64, "sequences": 1, "max_cells": 8}
    for make, arguments in (
        (waveattn.Int8KVCache, sizes),
        (waveattn.Fp8KVCache, {**sizes, "head_dim_v": 32}),
        (waveattn.PagedKVCache, paged),
    ):
        for name in arguments:
            for wrong in (2.0, "2", True, [2]):
                with pytest.raises(TypeError, match=f"{name} must be an integer"):
                    make(**{**arguments, name: wrong}, like=qkv[0], **place.options)
            with pytest.raises(ValueError, match=f"{name} must be positive, got 0"):
                make(**{**arguments, name: 0}, like=qkv[0], **place.options)
        with pytest.raises(TypeError, match="device must be"):
            make(**arguments, like=qkv[0], device=0)
    cache = waveattn.PagedKVCache(**paged, like=qkv[0], **place.options)
    for function in (cache.clear, lambda value: cache.evict(value, 0), lambda value: cache.append(qkv[0], qkv[0], value)):
        with pytest.raises(TypeError, match="sequence must be an integer"):
            function("0")
        with pytest.raises(ValueError, match="sequence must be from 0 to 0, got 1"):
            function(1)
    for wrong in (-1, 1.0):
        with pytest.raises((TypeError, ValueError), match="heads_q must be"):
            waveattn.chunk_workspace(1, wrong, 64, 8)


@pytest.mark.parametrize("name", ["kv_len", "splits"])
def test_integers_of_decode(place, qkv, name):
    for wrong in (1.0, "1", True):
        with pytest.raises(TypeError, match=f"{name} must be an integer"):
            waveattn.decode(*qkv, **{name: wrong}, **place.options)
    for wrong in (-1, 2**63):
        with pytest.raises(ValueError, match=f"{name} must be from 0 to"):
            waveattn.decode(*qkv, **{name: wrong}, **place.options)


def test_a_subclass_of_a_cache_is_a_cache(torch, place, qkv):
    class Named(waveattn.Int8KVCache):
        pass

    q, k, v = qkv
    cache = Named(1, 2, k.shape[2], k.shape[3], like=q, **place.options)
    cache.append(k, v)
    torch.testing.assert_close(call(place, q, cache), waveattn.decode(q, cache, **place.options), rtol=2e-2, atol=2e-2)


def test_settings_of_other_operations(torch, place, qkv):
    cache = waveattn.Int8KVCache(1, 2, 5, 32, like=qkv[0], **place.options)
    with pytest.raises(NotImplementedError, match="basis"):
        waveattn.flash_attention(qkv[0], cache, basis="pinned", **place.options)


def test_frameworks_are_not_mixed(place, qkv, numpy_only):
    q, k, v = qkv
    with pytest.raises(TypeError, match="k must be of the framework of q, numpy, got torch"):
        waveattn.flash_attention(q.numpy(), k, v)
    with pytest.raises(TypeError, match="mask"):
        waveattn.flash_attention(*(np.ma.masked_array(t.numpy(), mask=True) for t in qkv))


def test_a_tensor_without_memory(torch, place, qkv, numpy_only):
    from torch._subclasses import FakeTensorMode

    cache = waveattn.Int8KVCache(1, 2, 5, 32, like=qkv[0], **place.options)
    with FakeTensorMode(allow_non_fake_inputs=True):
        token = torch.empty(1, 2, 1, 32)
        with pytest.raises(NotImplementedError, match="k is a FakeTensor"):
            cache.append(token, token)


def test_ranks_while_tracing(torch):
    flat = torch.empty(2, 5, 32, device="meta")
    for function in (waveattn.flash_attention, waveattn.decode):
        with pytest.raises(ValueError, match="must have 4 dimensions, got 3, 3 and 3"):
            function(flat, flat, flat)


def test_answers_of_devices_belong_to_the_caller():
    waveattn.devices()[0]["target"] = "changed"
    assert waveattn.devices()[0]["target"] != "changed"


def test_an_emulator_without_devices(numpy_only):
    code = """
import numpy, waveattn
x = numpy.zeros((1, 1, 2, 8), numpy.float32)
try:
    waveattn.flash_attention(x, x, x)
except RuntimeError as error:
    assert "GFXEMU_DEVICES is 'junk'" in str(error), error
    print("said so")
"""
    assert "said so" in run_python(code, GFXEMU_DEVICES="junk").stdout


def test_a_last_stride_other_than_one(torch, place, qkv):
    q, k, v = qkv
    with pytest.raises(ValueError, match="k must have a last stride of 1"):
        call(place, q, k.transpose(2, 3).contiguous().transpose(2, 3), v)


def test_out_that_does_not_fit(torch, place, qkv):
    q, k, v = qkv
    for out, error, words in (
        (q.new_empty(1, 2, 5, 31), ValueError, "out must be"),
        (q.new_empty(2, 5, 32), ValueError, "4 dimensions"),
        (q.new_empty(1, 2, 5, 32, dtype=torch.float16), TypeError, "float16"),
        (q.new_empty(1, 2, 5, 64)[..., ::2], ValueError, "last stride"),
        (q.new_empty(1, 1, 5, 32).expand(1, 2, 5, 32), ValueError, "share memory"),
        (torch.as_strided(q.new_empty(400), (1, 2, 5, 32), (400, 160, 31, 1)), ValueError, "share memory"),
        (q, ValueError, "overlaps the memory of q"),
        (v, ValueError, "overlaps the memory of v"),
    ):
        with pytest.raises(error, match=words):
            call(place, q, k, v, out=out)
    with pytest.raises(NotImplementedError, match="no_grad"):
        call(place, q, k, v, out=torch.empty_like(q).requires_grad_())
    with pytest.raises(TypeError, match="out"):
        call(place, q, k, v, out=[1])


def test_read_only_out(numpy_only):
    q = np.random.default_rng(0).random((1, 1, 3, 32), dtype=np.float32)
    out = np.empty_like(q)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        waveattn.flash_attention(q, q, q, out=out)


def test_a_refused_call_writes_nothing(torch, place, qkv):
    out = torch.full_like(qkv[0], 7.0)
    with pytest.raises(ValueError, match="finite"):
        call(place, *qkv, out=out, scale=math.nan)
    assert bool((out == 7.0).all())


def test_unknown_emulated_device(torch, numpy_only):
    q = torch.rand(1, 1, 3, 32)
    with pytest.raises(ValueError, match="gfx1030, gfx1200, gfx942, gfx950, got 'gfx90a'"):
        waveattn.flash_attention(q, q, q, device="gfx90a")


def test_a_stream_for_torch_tensors(torch, place, qkv):
    with pytest.raises(ValueError, match="current stream"):
        call(place, *qkv, stream=5)


def test_a_build_without_code_for_the_device(torch, numpy_only, monkeypatch):
    q = torch.zeros(1, 2, 5, 32)
    built = "gfx1200,gfx1030"
    monkeypatch.setattr(_core, "targets", built)
    monkeypatch.delenv("WAVEATTN_EMULATED_DEVICE", raising=False)
    for call_on in (
        lambda device: waveattn.flash_attention(q, q, q, device=device),
        lambda device: waveattn.softmax(q.numpy(), device=device),
        lambda device: waveattn.Int8KVCache(1, 1, 1, 8, like=q, device=device),
    ):
        with pytest.raises(RuntimeError, match="this build of waveattn has code for gfx1200, gfx1030, but .* is gfx942"):
            call_on("gfx942")
    # Without a choice a target of the build is taken.
    assert _runtime.device(_runtime.emulated_ordinal(None))["target"] == "gfx1030"
    monkeypatch.setattr(_core, "targets", "gfx9-4-generic")
    assert _runtime.device(_runtime.emulated_ordinal(None))["target"] == "gfx942"


def test_a_gpu_without_code_is_not_available(monkeypatch):
    entry = {"ordinal": 0, "name": "a card", "gcn_arch": "gfx1031", "target": "gfx1030", "emulated": False}
    monkeypatch.setattr(_runtime, "gpu_devices", lambda: [entry])
    monkeypatch.setattr(_runtime, "device", lambda ordinal: entry)
    for targets, available in (("gfx1030,gfx942", False), ("gfx1031", True), ("gfx10-3-generic", True)):
        monkeypatch.setattr(_core, "targets", targets)
        assert waveattn.is_available() is available


def test_the_warning_of_the_emulator_names_the_line_of_the_caller(torch, numpy_only, monkeypatch):
    q = torch.zeros(1, 2, 5, 32)
    for function in (waveattn.flash_attention, waveattn.decode, compat.sdpa):
        for tensor in (q, q.numpy()):
            monkeypatch.setattr(_runtime, "_warned", False)
            with pytest.warns(RuntimeWarning, match="emulated AMD GPU") as caught:
                function(tensor, tensor, tensor)
            assert [warning.filename for warning in caught] == [__file__]


def test_a_gpu_that_no_kernel_supports(torch, monkeypatch, numpy_only):
    unsupported = {**_runtime.device(_core.first_emulated), "target": "unsupported", "gcn_arch": "gfx1100", "name": "X"}
    monkeypatch.setattr(_runtime, "device", lambda ordinal: unsupported)
    q = torch.rand(1, 1, 3, 32)
    with pytest.raises(RuntimeError, match=r"needs gfx1030.*is gfx1100"):
        waveattn.flash_attention(q, q, q)


def test_a_backend_of_another_target(torch, place, qkv, monkeypatch):
    other = "gfx950" if place.name != "gfx950" else "gfx942"
    extra = _registry.Backend(
        name="elsewhere", targets=frozenset({other}), dtypes=frozenset({"float32"}), run=lambda *_: None, priority=99
    )
    monkeypatch.setitem(_registry._backends, "flash_attention", [extra, *_registry.backends("flash_attention")])
    name = _runtime.device(_runtime.emulated_ordinal(place.name))["name"] if place.emulated else "device"
    with pytest.raises(RuntimeError, match=f"backend='elsewhere': it needs {other}, but .*{name}.* is {place.name}"):
        call(place, *qkv, backend="elsewhere")
    assert call(place, *qkv).shape == qkv[0].shape  # auto passes it over


def test_a_gpu_tensor_without_a_runtime():
    result = run_python(
        "import waveattn\n"
        "from waveattn import _arrays\n"
        "assert not waveattn.is_available()\n"
        "print(waveattn.info()['reason'])\n"
        "try: _arrays.place(0, None)\n"
        "except RuntimeError as error: print(error)\n",
        WAVEATTN_HIP_RUNTIME="/nonexistent/libamdhip64.so",
    )
    assert result.stdout.count("no HIP runtime") == 2
    assert "/nonexistent/libamdhip64.so" in result.stdout


def test_a_gpu_tensor_with_a_device_argument():
    with pytest.raises(ValueError, match="chooses the emulated device of CPU tensors"):
        _arrays.place(0, "gfx942")


def test_after_a_fork(numpy_only):
    run_python(
        "import os, numpy as np, waveattn\n"
        "q = np.ones((1, 1, 3, 32), np.float32)\n"
        "waveattn.flash_attention(q, q, q)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: waveattn.flash_attention(q, q, q)\n"
        "    except RuntimeError as error: os._exit(0 if 'fork' in str(error) else 2)\n"
        "    os._exit(1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "waveattn.flash_attention(q, q, q)\n"
    )


def test_a_kernel_fault_is_an_error_of_that_call_only(numpy_only):
    """Codes that lie outside the memory that the extension was told of: the emulator refuses the access."""
    tokens = np.ones((1, 1, 4, 32), np.float32)
    codes, scales = np.zeros((1, 1, 4, 32), np.int8), np.zeros((1, 1, 4), np.float32)
    adapter = _arrays._numpy_adapter
    device = _runtime.emulated_ordinal("gfx942")
    good = [adapter.tensor("a", array, True) for array in (tokens, codes, scales)]
    stray = _core.Tensor(1 << 20, (1, 1, 4, 32), (128, 128, 32, 1), 0, device)
    with pytest.raises(RuntimeError, match="hipErrorIllegalAddress"):
        _core.kv_quantize(stray, good[1], good[2], device, 0)
    _core.kv_quantize(*good, device, 0)
    assert (codes == 127).all()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"dropout_p": 0.1}, NotImplementedError),
        ({"softcap": 1.0}, NotImplementedError),
        ({"window_size": (4, 4)}, NotImplementedError),
        ({"window_size": -1}, NotImplementedError),
        ({"alibi_slopes": [1.0]}, NotImplementedError),
    ],
)
def test_arguments_of_flash_attn_that_are_not_covered(torch, options, error):
    q = torch.rand(1, 3, 1, 32)
    with pytest.raises(error, match=next(iter(options))):
        compat.flash_attn_func(q, q, q, **options)


def test_flags_of_other_projects_are_booleans(qkv):
    with pytest.raises(TypeError, match="causal must be True or False, got 'top_left'"):
        compat.flash_attn_func(*qkv, causal="top_left")
    with pytest.raises(TypeError, match="is_causal must be True or False"):
        compat.scaled_dot_product_attention(*qkv, is_causal="no")


def test_arguments_of_sdpa_that_are_not_covered(torch):
    q = torch.rand(1, 2, 3, 32)
    mask = torch.ones(3, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="exclude"):
        compat.sdpa(q, q, q, attn_mask=mask, is_causal=True)
    with pytest.raises(NotImplementedError, match="attn_mask"):
        compat.sdpa(q, q, q, attn_mask=mask)
    with pytest.raises(NotImplementedError, match="dropout_p"):
        compat.sdpa(q, q, q, dropout_p=0.5)
    with pytest.raises(ValueError, match="enable_gqa"):
        compat.sdpa(q, q[:, :1], q[:, :1])
    with pytest.raises(TypeError, match="q must be a tensor"):
        compat.sdpa([1], q, q)
