"""softmax, decode, and the int8 and fp8 caches."""

from __future__ import annotations

import copy
import io
import math
import pickle

import numpy as np
import pytest
from conftest import FULL, attention_oracle, largest_difference, run_python

import waveattn

CACHES = {"int8": waveattn.Int8KVCache, "fp8": waveattn.Fp8KVCache}


def values_of(torch, codes, scales):
    return codes.cpu().double() * scales.cpu().double()[..., None]


def fill(torch, place, kind, capacity=24, length=13, head_dim=64, heads=2, dtype="float32"):
    torch.manual_seed(3)
    k, v = (torch.randn(2, heads, length, head_dim).to(getattr(torch, dtype)) for _ in range(2))
    cache = CACHES[kind](2, heads, capacity, head_dim, like=place.put(k), **place.options)
    cache.append(place.put(k[:, :, :5]), place.put(v[:, :, :5]))
    cache.append(place.put(k[:, :, 5:]), place.put(v[:, :, 5:]))
    assert len(cache) == length
    return cache, k, v


# ---- softmax ----


@pytest.mark.parametrize("shape", [(7,), (3, 1500), (2, 3, 4, 33)])
def test_softmax(torch, place, shape):
    x = torch.randn(shape) * 5
    out = waveattn.softmax(place.put(x), **place.options)
    # Arguments up to 20 in magnitude cost the exponential 20 * 2^-24 relative; results are at most 1.
    assert largest_difference(out, torch.softmax(x.double(), -1).numpy()) <= 4e-6
    half = x.to(torch.bfloat16)
    out = waveattn.softmax(place.put(half), **place.options)
    assert largest_difference(out, torch.softmax(half.double(), -1).numpy()) <= 2.0**-9 + 4e-6


def test_softmax_into_a_view_and_of_a_view(torch, place):
    x = place.put(torch.randn(3, 4, 20))[:, 1:3, 2:13]
    canvas = place.put(torch.full((3, 2, 20), 7.0))
    assert waveattn.softmax(x, out=canvas[:, :, 4:15], **place.options).shape == (3, 2, 11)
    assert largest_difference(canvas[:, :, 4:15], torch.softmax(x.cpu().double(), -1).numpy()) <= 1e-6
    canvas[:, :, 4:15] = 7.0
    assert bool((canvas == 7.0).all())


def test_softmax_errors(torch, place):
    x = place.put(torch.randn(3, 8))
    for bad, error in ((x.double(), NotImplementedError), (x.t(), ValueError), (torch.rand(1, 1, 1, 2, 3), ValueError)):
        with pytest.raises(error):
            waveattn.softmax(place.put(bad), **place.options)
    for out, error in ((x, ValueError), (x.new_empty(3, 9), ValueError), (x.half().clone(), TypeError)):
        with pytest.raises(error):
            waveattn.softmax(x, out=out, **place.options)
    with pytest.raises(TypeError, match="x must be a tensor"):
        waveattn.softmax([1.0, 2.0])


# ---- copies ----


def saved(cache):
    import torch

    file = io.BytesIO()
    torch.save(cache, file)  # plain pickle does not know torch's fp8
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, saved])
@pytest.mark.parametrize("kind", list(CACHES))
def test_a_copy_shares_nothing(torch, place, kind, how):
    cache, k, _ = fill(torch, place, kind)
    other = how(cache)
    assert type(other) is type(cache) and other.dtype == cache.dtype
    q = place.put(torch.randn(2, 2, 1, 64))
    before = waveattn.decode(q, cache, **place.options)
    assert torch.equal(waveattn.decode(q, other, **place.options), before)
    other.append(place.put(k[:, :, :3]), place.put(k[:, :, :3]))
    other.truncate(1)
    other.append(place.put(k), place.put(k))
    assert len(cache) == 13 and len(other) == 14
    assert torch.equal(waveattn.decode(q, cache, **place.options), before)
    assert not torch.equal(waveattn.decode(q, other, **place.options), before)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_copies_of_a_numpy_cache(numpy_only, how):
    k = np.random.default_rng(2).standard_normal((1, 2, 5, 64)).astype(np.float32)
    cache = waveattn.Int8KVCache(1, 2, 9, 64, like=k)
    cache.append(k, k)
    other = how(cache)
    other.append(-k[:, :, :4], k[:, :, :4])
    assert len(cache) == 5 and len(other) == 9
    assert np.array_equal(other.k_codes[:, :, :5], cache.k_codes[:, :, :5])
    assert not np.shares_memory(other.k_codes, cache.k_codes)


# ---- quantisation ----


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("kind", list(CACHES))
def test_codes_are_the_nearest_ones(torch, place, kind, dtype):
    cache, k, v = fill(torch, place, kind, dtype=dtype)
    for codes, scales, tokens in ((cache.k_codes, cache.k_scale, k), (cache.v_codes, cache.v_scale, v)):
        codes, scales = codes[:, :, :13].cpu(), scales[:, :, :13].cpu()
        largest = {"int8": 127.0, "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0}[cache.dtype]
        expected_scale = tokens.float().abs().amax(-1) / largest
        assert torch.equal(scales, expected_scale)
        ratio = tokens.float() / expected_scale[..., None]
        if kind == "int8":
            assert torch.equal(codes, ratio.round().to(torch.int8))
        else:
            assert torch.equal(codes.float(), ratio.to(getattr(torch, cache.dtype)).float())


def test_fp8_takes_the_flavour_of_the_device(torch, place):
    like = place.put(torch.zeros(1))
    native = "float8_e4m3fnuz" if "gfx942" in place.name else "float8_e4m3fn"
    if place.emulated:
        assert waveattn.Fp8KVCache(1, 1, 4, 32, like=like, **place.options).dtype == native
    other = waveattn.Fp8KVCache(1, 1, 4, 32, like=like, dtype="float8_e4m3fn", **place.options)
    assert other.k_codes.dtype == torch.float8_e4m3fn


def test_odd_tokens(torch, place):
    k = torch.ones(1, 1, 4, 40)
    k[0, 0, 0] = 0.0
    k[0, 0, 1, 3] = math.nan
    k[0, 0, 2, 7] = -math.inf
    k[0, 0, 3] = 1e-44  # denormal
    for cache_type in CACHES.values():
        cache = cache_type(1, 1, 4, 40, like=place.put(k), **place.options)
        cache.append(place.put(k), place.put(k))
        back = cache.k_codes.cpu().float() * cache.k_scale.cpu()[..., None]
        assert bool((back[0, 0, 0] == 0).all())
        assert bool(torch.isnan(back[0, 0, 1]).all()) and bool(torch.isnan(back[0, 0, 2]).all())
        assert bool((back[0, 0, 3].abs() <= 2e-44).all())


def test_a_cache_that_is_full_or_fits_not(torch, place):
    cache, k, v = fill(torch, place, "int8", capacity=15)
    before = cache.k_codes.clone()
    k, v = place.put(k), place.put(v)
    for bad_k, bad_v in ((k, v), (k[:, :1, :1], v[:, :1, :1]), (k[:, :, :1], v[:, :, :2]), (k[:, :, :1, :32], v[:, :, :1])):
        with pytest.raises(ValueError):
            cache.append(bad_k, bad_v)
    assert len(cache) == 13 and torch.equal(cache.k_codes[:, :, :13], before[:, :, :13])
    cache.truncate(2)
    assert len(cache) == 2
    with pytest.raises(ValueError):
        cache.truncate(3)
    with pytest.raises(ValueError, match="positive"):
        waveattn.Int8KVCache(1, 0, 4, 32, like=k)
    with pytest.raises(TypeError, match="float32, bfloat16 or float16|torch.Tensor"):
        cache.append([1.0], [2.0])
    with pytest.raises(NotImplementedError, match="no_grad"):
        cache.append(k[:, :, :1].clone().requires_grad_(), v[:, :, :1])


# ---- decode ----


@pytest.mark.parametrize("kind", list(CACHES))
@pytest.mark.parametrize("head_dim", [32, 64, 80, 128, 256] if FULL else [64, 80])
def test_decode_reads_the_tokens_in_use_and_their_scales(torch, place, kind, head_dim):
    """The capacity exceeds the length, so a scale plane with the stride of the length would be found out."""
    cache, _, _ = fill(torch, place, kind, head_dim=head_dim)
    q = torch.rand(2, 6, 1, head_dim) * 2 - 1
    out, lse = waveattn.decode(place.put(q), cache, return_lse=True, **place.options)
    k = values_of(torch, cache.k_codes, cache.k_scale)[:, :, :13]
    v = values_of(torch, cache.v_codes, cache.v_scale)[:, :, :13]
    expected, expected_lse = attention_oracle(q.numpy(), k.numpy(), v.numpy())
    assert largest_difference(out, expected) <= 1e-5
    assert largest_difference(lse, expected_lse) <= 1e-5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_decode_of_plain_tensors(torch, place, dtype):
    k, v = ((torch.rand(2, 2, 40, 64) * 2 - 1).to(getattr(torch, dtype)) for _ in range(2))
    q = (torch.rand(2, 4, 3, 64) * 2 - 1).to(k.dtype)
    out = waveattn.decode(place.put(q), place.put(k), place.put(v), causal="bottom_right", kv_len=29, **place.options)
    expected = attention_oracle(q.double().numpy(), k[:, :, :29].double().numpy(), v[:, :, :29].double().numpy(), "bottom_right")[0]
    assert largest_difference(out, expected) <= {"float32": 5e-6, "bfloat16": 2.0**-9, "float16": 2.0**-12}[dtype] + 5e-6


@pytest.mark.parametrize("splits", [1, 2, 7])
def test_splits_agree(torch, place, splits):
    q, k, v = torch.rand(1, 2, 1, 64), torch.randn(1, 1, 300, 64), torch.randn(1, 1, 300, 64)
    out, lse = waveattn.decode(*map(place.put, (q, k, v)), splits=splits, return_lse=True, **place.options)
    expected, expected_lse = attention_oracle(*(t.numpy() for t in (q, k, v)))
    assert largest_difference(out, expected) <= 5e-6
    assert largest_difference(lse, expected_lse) <= 5e-6


def test_a_length_for_each_batch_entry(torch, place):
    q, k, v = torch.rand(3, 2, 2, 32), torch.randn(3, 1, 20, 32), torch.randn(3, 1, 20, 32)
    lens = torch.tensor([20, 7, 0], dtype=torch.int32)
    out = waveattn.decode(*map(place.put, (q, k, v)), kv_lens=place.put(lens), causal="bottom_right", **place.options)
    for i, length in enumerate(lens.tolist()):
        part = (x[i : i + 1].numpy() for x in (q, k[:, :, :length], v[:, :, :length]))
        assert largest_difference(out[i : i + 1], attention_oracle(*part, "bottom_right")[0]) <= 5e-6


def test_decode_out_and_fake(torch, place):
    cache, _, _ = fill(torch, place, "int8")
    q = place.put(torch.rand(2, 2, 1, 64))
    expected = waveattn.decode(q, cache, **place.options)
    out = torch.empty_like(expected)
    assert waveattn.decode(q, cache, out=out, **place.options) is out
    assert torch.equal(out, expected)
    arguments = (q, cache.k_codes, cache.v_codes, cache.k_scale, cache.v_scale)
    torch.library.opcheck(
        torch.ops.waveattn.decode.default, arguments, {"kv_len": 13, "return_lse": True, "device": place.options.get("device")}
    )
    torch.library.opcheck(torch.ops.waveattn.softmax.default, (q,), {"device": place.options.get("device")})


def test_decode_errors(torch, place):
    cache, k, v = fill(torch, place, "fp8")
    k, v = place.put(k), place.put(v)
    q = place.put(torch.rand(2, 2, 1, 64))
    with pytest.raises(TypeError, match="left out"):
        waveattn.decode(q, cache, v, **place.options)
    with pytest.raises(TypeError, match="missing"):
        waveattn.decode(q, k, **place.options)
    with pytest.raises(TypeError, match="dtype of q"):
        waveattn.decode(q.half(), k, v, **place.options)
    with pytest.raises(ValueError, match="holds 13"):
        waveattn.decode(q, cache, kv_len=14, **place.options)
    with pytest.raises(ValueError, match="kv_len must be between"):
        waveattn.decode(q, k, v, kv_len=14, **place.options)
    with pytest.raises(ValueError, match="k_scale and v_scale"):
        waveattn.decode(q, cache.k_codes, cache.v_codes, **place.options)
    with pytest.raises(ValueError, match="kv_lens"):
        waveattn.decode(q, k, v, kv_lens=place.put(torch.ones(3, dtype=torch.int32)), **place.options)
    with pytest.raises(TypeError, match="int32"):
        waveattn.decode(q, k, v, kv_lens=place.put(torch.ones(2, dtype=torch.int64)), **place.options)
    with pytest.raises(ValueError, match="splits"):
        waveattn.decode(q, k, v, splits=-1, **place.options)
    with pytest.raises(ValueError, match="splits must be from 0 to 1024"):
        waveattn.decode(q, k, v, splits=10**9, **place.options)
    for option in ({"splits": 2.0}, {"kv_len": 2.5}, {"causal": True}, {"scale": "1"}):
        with pytest.raises(TypeError, match="integer|causal must be|scale must be"):
            waveattn.decode(q, k, v, **option, **place.options)
    with pytest.raises(ValueError, match="finite"):
        waveattn.decode(q, k, v, scale=math.inf, **place.options)
    with pytest.raises(ValueError, match="overlaps"):
        waveattn.decode(q, k, v, out=q, **place.options)


def test_numpy_caches(place, numpy_only):
    rng = np.random.default_rng(5)
    k = rng.standard_normal((1, 2, 6, 32), dtype=np.float32)
    cache = waveattn.Int8KVCache(1, 2, 9, 32, like=k, **place.options)
    cache.append(k, k)
    q = rng.standard_normal((1, 2, 1, 32), dtype=np.float32)
    out = waveattn.decode(q, cache, **place.options)
    back = cache.k_codes[:, :, :6] * cache.k_scale[:, :, :6, None].astype(np.float64)
    assert largest_difference(out, attention_oracle(q, back, back)[0]) <= 1e-5


def test_numpy_fp8_caches_need_no_import_of_ml_dtypes(numpy_only):
    pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    code = """
import sys, numpy, waveattn
assert "ml_dtypes" not in sys.modules
print(waveattn.Fp8KVCache(1, 1, 4, 64, like=numpy.zeros(1, numpy.float32), device="gfx950").k_codes.dtype)
"""
    assert "float8_e4m3fn" in run_python(code).stdout


def test_sizes_of_caches(torch, place):
    q = place.put(torch.rand(1, 1, 1, 32))
    for head_dim_v in (0, -3):
        with pytest.raises(ValueError, match="head_dim_v must be positive"):
            waveattn.Int8KVCache(1, 1, 4, 32, like=q, head_dim_v=head_dim_v, **place.options)
    cache = waveattn.Int8KVCache(1, 1, 4, 32, like=q, **place.options)
    cache.append(q, q)
    with pytest.raises(TypeError):
        cache.truncate(0.5)
    assert cache.length == 1


def test_a_wrong_scale_stride_would_be_noticed(torch, place):
    """Scales read with the stride of the length instead of the capacity give a clearly different result."""
    cache, _, _ = fill(torch, place, "int8")
    q = torch.rand(2, 2, 1, 64)
    out = waveattn.decode(place.put(q), cache, **place.options)
    wrong_scale = cache.k_scale.cpu().reshape(-1)[: 2 * 2 * 13].reshape(2, 2, 13)
    k = cache.k_codes[:, :, :13].cpu().double() * torch.nan_to_num(wrong_scale.double())[..., None]
    v = values_of(torch, cache.v_codes, cache.v_scale)[:, :, :13]
    assert largest_difference(out, attention_oracle(q.numpy(), k.numpy(), v.numpy())[0]) > 1e-3


def test_appended_tokens_are_named_in_errors(torch, place):
    tokens = place.put(torch.randn(1, 1, 2, 64))
    cache = waveattn.Int8KVCache(1, 1, 4, 32, like=tokens, **place.options)
    even, whole = tokens[..., ::2], tokens[..., :32]
    for k, v, error, words in (
        (whole, even, ValueError, "v must have a last stride of 1, got 2"),
        (even, whole, ValueError, "k must have a last stride of 1, got 2"),
        (whole, whole.to(torch.int8), NotImplementedError, "v must be float32, bfloat16 or float16, got int8"),
    ):
        with pytest.raises(error, match=words):
            cache.append(k, v)
    assert len(cache) == 0


def test_empty_arrays_may_have_any_strides(torch, place, numpy_only):
    """numpy gives the strides 0 to views without elements."""
    for shape in ((0, 3), (2, 0, 5), (1, 2, 0, 5)):
        empty = torch.empty(shape).numpy()
        assert waveattn.softmax(empty, **place.options).shape == shape
        assert waveattn.softmax(empty, out=np.empty(shape, np.float32), **place.options).shape == shape
    cache = waveattn.Int8KVCache(1, 1, 4, 32, like=np.zeros(1, np.float32), **place.options)
    none = torch.empty(1, 1, 0, 32).numpy()
    cache.append(none, none)
    assert len(cache) == 0
