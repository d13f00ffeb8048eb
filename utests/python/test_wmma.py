"""The WMMA backend of gfx1200: accuracy, dispatch, and attention over int8 and fp8 caches."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import GPU, Place, attention_oracle, largest_difference

import waveattn

# Weights are bf16 from packed arithmetic, 0.9 % off at worst. For uniform inputs the errors of the weights of many keys
# average out to 1.5e-3 of the result, which is rounded to the dtype. lse has a sum of its own, of unrounded weights, so
# it has the errors of fp32 alone: scores (products are exact), exponentials, sums and a logarithm, some 50 roundings of
# 2^-24 each at most.
LSE_TOLERANCE = 1e-5
OUT_TOLERANCE = {"bfloat16": 1.5e-3 + 2.0**-9, "float16": 5e-4 + 2.0**-12}
CACHES = {"int8": waveattn.Int8KVCache, "fp8": waveattn.Fp8KVCache}


@pytest.fixture
def gfx12() -> Place:
    if GPU:
        if waveattn.info()["devices"][0]["target"] != "gfx1200":
            pytest.skip("needs a gfx1200 or gfx1201 card or the emulator")
        return Place("gpu", emulated=False)
    return Place("gfx1200", emulated=True)


def uniform(torch, shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator) * 2 - 1).to(getattr(torch, dtype))


def as_double(*tensors):
    return tuple(t.detach().cpu().double().numpy() for t in tensors)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "shape", [(1, 4, 2, 37, 150, 64), (2, 2, 2, 70, 70, 128), (1, 2, 1, 20, 40, 40), (1, 8, 2, 3, 65, 96), (1, 1, 1, 9, 33, 256)]
)
def test_accuracy(torch, gfx12, shape, dtype):
    batch, heads_q, heads_kv, q_len, kv_len, dim = shape
    q = uniform(torch, (batch, heads_q, q_len, dim), dtype, 1)
    k, v = (uniform(torch, (batch, heads_kv, kv_len, dim), dtype, seed) for seed in (2, 3))
    out, lse = waveattn.flash_attention(
        *map(gfx12.put, (q, k, v)), causal="bottom_right", return_lse=True, backend="wmma", **gfx12.options
    )
    expected, expected_lse = attention_oracle(*as_double(q, k, v), "bottom_right")
    assert out.dtype == q.dtype
    assert largest_difference(out, expected) <= OUT_TOLERANCE[dtype]
    assert largest_difference(lse, expected_lse) <= LSE_TOLERANCE


def test_auto_takes_it_on_gfx12_for_16_bit_and_the_scalar_kernel_for_fp32(torch, gfx12):
    q, k, v = (gfx12.put(uniform(torch, (1, 2, 40, 64), "bfloat16", seed)) for seed in (1, 2, 3))
    wmma = waveattn.flash_attention(q, k, v, backend="wmma", **gfx12.options)
    assert torch.equal(waveattn.flash_attention(q, k, v, **gfx12.options), wmma)
    q, k, v = q.float(), k.float(), v.float()
    scalar = waveattn.flash_attention(q, k, v, backend="scalar", **gfx12.options)
    assert torch.equal(waveattn.flash_attention(q, k, v, **gfx12.options), scalar)
    with pytest.raises(NotImplementedError, match="float32"):
        waveattn.flash_attention(q, k, v, backend="wmma", **gfx12.options)


def test_other_devices_refuse(torch, numpy_only):
    q = uniform(torch, (1, 1, 8, 64), "bfloat16", 1)
    with pytest.raises(RuntimeError, match="gfx1200.*gfx942"):
        waveattn.flash_attention(q, q, q, backend="wmma", device="gfx942")


def test_layouts_give_the_same_bits(torch, gfx12):
    q = gfx12.put(uniform(torch, (2, 30, 4, 64), "bfloat16", 1))
    k, v = (gfx12.put(uniform(torch, (2, 45, 2, 64), "bfloat16", seed)) for seed in (2, 3))
    out = waveattn.flash_attention(q, k, v, layout="bshd", backend="wmma", **gfx12.options)
    swapped = (x.transpose(1, 2).contiguous() for x in (q, k, v))
    assert torch.equal(out.transpose(1, 2), waveattn.flash_attention(*swapped, backend="wmma", **gfx12.options))


def fill(torch, gfx12, kind, length=70, head_dim=64):
    k, v = (uniform(torch, (2, 2, length, head_dim), "bfloat16", seed) for seed in (5, 6))
    cache = CACHES[kind](2, 2, length + 9, head_dim, like=gfx12.put(k), **gfx12.options)
    cache.append(gfx12.put(k), gfx12.put(v))
    codes = ((cache.k_codes, cache.k_scale), (cache.v_codes, cache.v_scale))
    return cache, tuple((c.cpu().double() * s.cpu().double()[..., None])[:, :, :length].numpy() for c, s in codes)


@pytest.mark.parametrize("kind", ["int8", "fp8"])
@pytest.mark.parametrize("scores", ["auto", "exact", "quantized"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_cache(torch, gfx12, kind, scores, dtype):
    cache, (k, v) = fill(torch, gfx12, kind)
    q = uniform(torch, (2, 4, 33, 64), dtype, 7)
    out, lse = waveattn.flash_attention(
        gfx12.put(q), cache, causal="bottom_right", scores=scores, return_lse=True, backend="wmma", **gfx12.options
    )
    expected, expected_lse = attention_oracle(q.double().numpy(), k, v, "bottom_right")
    # Scores in 8 bits: of q, e4m3 keeps 4 and int8 7 to 8 bits.
    eight_bit = scores == "quantized" or (scores == "auto" and kind == "fp8")
    tolerance = (9e-3 if kind == "fp8" else 2e-3) if eight_bit else 1e-3
    assert out.dtype == q.dtype
    assert largest_difference(out, expected) <= tolerance + (2.0**-9 if dtype == "bfloat16" else 0)
    # Exact scores take q in bf16: an fp32 q is off by 2^-9 relative, a score of 64 uniform products by 2^-9 / sqrt(3) *
    # 1/3 in the root mean square, 4e-4, and lse by a weighted mean of these.
    exact = LSE_TOLERANCE if dtype == "bfloat16" else 2e-3
    assert largest_difference(lse, expected_lse) <= (5e-2 if eight_bit else exact)


def test_cache_elsewhere_is_decode(torch, numpy_only):
    place = Place("gfx1030", emulated=True)
    cache, (k, v) = fill(torch, place, "int8", length=20)
    q = uniform(torch, (2, 2, 5, 64), "float32", 7)
    out = waveattn.flash_attention(q, cache, **place.options)
    assert np.array_equal(out, waveattn.decode(q, cache, **place.options))
    assert largest_difference(out, attention_oracle(q.double().numpy(), k, v)[0]) <= 1e-5
    with pytest.raises(RuntimeError, match="gfx1200"):
        waveattn.flash_attention(q, cache, backend="wmma", **place.options)
    with pytest.raises(NotImplementedError, match="gfx1200"):
        waveattn.flash_attention(q, cache, scores="quantized", **place.options)


def test_cache_errors(torch, gfx12):
    cache, _ = fill(torch, gfx12, "int8", length=20)
    q = gfx12.put(uniform(torch, (2, 2, 5, 64), "bfloat16", 7))
    with pytest.raises(TypeError, match="left out"):
        waveattn.flash_attention(q, cache, q, **gfx12.options)
    with pytest.raises(TypeError, match="v is missing"):
        waveattn.flash_attention(q, q, **gfx12.options)
    with pytest.raises(ValueError, match="scores"):
        waveattn.flash_attention(q, cache, scores="some", **gfx12.options)
    with pytest.raises(NotImplementedError, match="decode"):
        waveattn.flash_attention(q, cache, backend="scalar", **gfx12.options)
    with pytest.raises(NotImplementedError, match="bshd"):
        waveattn.flash_attention(q, cache, layout="bshd", **gfx12.options)
