"""flash_attention against the float64 oracle, through the public function, on every target."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import FULL, TARGETS, attention_oracle, largest_difference

import waveattn

# fp32 throughout: a score of head_dim terms below 1 and a convex combination of values below 1, each rounding 2^-24
# relative; 5e-6 leaves a factor of ten over what sums of some hundred terms do.
FP32_TOLERANCE = 5e-6


def output_tolerance(dtype: str, v: np.ndarray, backend: str) -> float:
    """The result is rounded once to the dtype (half a unit in the last place), matrix kernels round the weights too."""
    half_ulp = {"float32": 0.0, "bfloat16": 2.0**-9, "float16": 2.0**-12}[dtype]
    return FP32_TOLERANCE + (1.0 if backend == "scalar" else 4.0) * half_ulp * float(np.abs(v).max())


def inputs(torch, shape_q, shape_kv, dtype="float32", seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda shape: (torch.rand(shape, generator=generator) * 2 - 1).to(getattr(torch, dtype))
    return draw(shape_q), draw(shape_kv), draw(shape_kv)


def as_double(*tensors):
    return tuple(t.detach().cpu().double().numpy() for t in tensors)


SHAPES = [
    # B, Hq, Hkv, Sq, Sk, D
    (1, 2, 1, 37, 53, 64),
    (2, 4, 2, 5, 70, 40),
]
if FULL:
    SHAPES += [(1, 1, 1, 1, 1, 1), (1, 3, 3, 130, 33, 128), (1, 2, 2, 64, 64, 256), (3, 8, 1, 17, 129, 96), (1, 2, 2, 1, 300, 80)]


@pytest.mark.parametrize("causal", [None, "top_left", "bottom_right"])
@pytest.mark.parametrize("shape", SHAPES)
def test_fp32_is_within_5e6_of_float64(torch, place, shape, causal):
    batch, heads_q, heads_kv, q_len, kv_len, dim = shape
    q, k, v = inputs(torch, (batch, heads_q, q_len, dim), (batch, heads_kv, kv_len, dim))
    out, lse = waveattn.flash_attention(
        *map(place.put, (q, k, v)), causal=causal, return_lse=True, backend="scalar", **place.options
    )
    expected, expected_lse = attention_oracle(*as_double(q, k, v), causal)
    assert largest_difference(out, expected) <= FP32_TOLERANCE
    # The LSE is a logarithm of up to kv_len: absolute error of its own size times 2^-23, and that of the scores.
    assert largest_difference(lse, expected_lse) <= FP32_TOLERANCE
    assert lse.dtype == torch.float32 and lse.shape == (batch, heads_q, q_len)


@pytest.mark.parametrize("backend", ["scalar", "auto"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_adds_the_rounding_of_its_outputs(torch, place, dtype, backend):
    q, k, v = inputs(torch, (1, 2, 33, 64), (1, 1, 50, 64), dtype)
    out, lse = waveattn.flash_attention(
        *map(place.put, (q, k, v)), causal="bottom_right", return_lse=True, backend=backend, **place.options
    )
    expected, expected_lse = attention_oracle(*as_double(q, k, v), "bottom_right")
    assert out.dtype == q.dtype
    assert largest_difference(out, expected) <= output_tolerance(dtype, as_double(v)[0], backend)
    # Every kernel sums unrounded weights for it, so it has the errors of fp32 alone, as with fp32 inputs.
    assert largest_difference(lse, expected_lse) <= 1e-5


@pytest.mark.parametrize("scale", [0.0, -0.7, 3.0])
def test_any_finite_scale(torch, place, scale):
    q, k, v = inputs(torch, (1, 1, 9, 32), (1, 1, 21, 32))
    out = waveattn.flash_attention(*map(place.put, (q, k, v)), scale=scale, **place.options)
    assert largest_difference(out, attention_oracle(*as_double(q, k, v), scale=scale)[0]) <= 2 * FP32_TOLERANCE


def test_layouts_and_views_are_bit_equal_to_contiguous_tensors(torch, place):
    q, k, v = map(place.put, inputs(torch, (2, 4, 19, 32), (2, 2, 27, 32)))
    expected = waveattn.flash_attention(q, k, v, **place.options)
    bshd = lambda t: t.transpose(1, 2).contiguous()
    as_bshd = waveattn.flash_attention(bshd(q), bshd(k), bshd(v), layout="bshd", **place.options)
    assert as_bshd.shape == (2, 19, 4, 32)
    assert torch.equal(as_bshd.transpose(1, 2), expected)
    # BSHD memory seen as BHSD, rows within wider rows, and an expanded batch.
    views = [bshd(t).transpose(1, 2) for t in (q, k, v)]
    assert torch.equal(waveattn.flash_attention(*views, **place.options), expected)
    wide = [torch.cat([t, torch.full_like(t, math.nan)], dim=-1)[..., :32] for t in (q, k, v)]
    assert torch.equal(waveattn.flash_attention(*wide, **place.options), expected)
    one = waveattn.flash_attention(q[:1], k[:1], v[:1], **place.options)
    both = waveattn.flash_attention(q[:1].expand(2, -1, -1, -1), k[:1].expand(2, -1, -1, -1), v[:1].expand(2, -1, -1, -1), **place.options)
    assert torch.equal(both[1], one[0])


def test_misaligned_pointers_and_odd_row_strides(torch, place):
    flat = place.put(torch.rand(1 + 3 * 13 * 33))
    q, k, v = (flat[1 + i * 429 : 1 + (i + 1) * 429].view(1, 1, 13, 33) for i in range(3))
    out = waveattn.flash_attention(q, k, v, **place.options)
    assert largest_difference(out, attention_oracle(*as_double(q, k, v))[0]) <= FP32_TOLERANCE


def test_out_receives_the_result_and_nothing_around_it(torch, place):
    q, k, v = map(place.put, inputs(torch, (1, 2, 11, 32), (1, 2, 13, 32)))
    expected = waveattn.flash_attention(q, k, v, **place.options)
    canvas = place.put(torch.full((1, 2, 13, 48), 7.0))
    out = canvas[:, :, 1:12, 8:40]
    returned = waveattn.flash_attention(q, k, v, out=out, **place.options)
    assert returned is out
    assert torch.equal(out, expected)
    canvas[:, :, 1:12, 8:40] = 7.0
    assert bool((canvas == 7.0).all())


@pytest.mark.parametrize("backend", ["auto", "scalar"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_out_as_a_part_of_packed_inputs(torch, place, layout, backend):
    """q, k, v and the result interleave in one tensor, along the heads of a token or along head_dim."""
    torch.manual_seed(8)
    options = {"layout": layout, "backend": backend, **place.options}
    for packed, axis in (
        (torch.randn(2, 9, 4, 2, 32), 2),  # batch, token, part, head, dim
        (torch.randn(2, 9, 2, 4, 32), 3),
        (torch.randn(4, 2, 9, 2, 32), 0),
    ):
        packed = place.put(packed.bfloat16())
        q, k, v, out = (part if layout == "bshd" else part.transpose(1, 2) for part in packed.unbind(axis))
        before = packed.clone()
        expected = waveattn.flash_attention(q.clone(), k.clone(), v.clone(), **options)
        assert waveattn.flash_attention(q, k, v, out=out, **options) is out
        assert torch.equal(out, expected)
        assert all(torch.equal(a, b) for a, b in zip(packed.unbind(axis)[:3], before.unbind(axis)[:3]))
    row = place.put(torch.randn(1, 9, 1, 4 * 32))
    parts = [part if layout == "bshd" else part.transpose(1, 2) for part in row.split(32, -1)]
    late = row[..., 95:127] if layout == "bshd" else row[..., 95:127].transpose(1, 2)
    waveattn.flash_attention(*parts[:3], out=parts[3], layout=layout, **place.options)
    with pytest.raises(ValueError, match="out overlaps the memory of v"):
        waveattn.flash_attention(*parts[:3], out=late, layout=layout, **place.options)


def test_rows_that_see_nothing_are_zero_with_lse_minus_infinity(torch, place):
    q, k, v = inputs(torch, (1, 1, 40, 32), (1, 1, 10, 32))
    out, lse = waveattn.flash_attention(
        *map(place.put, (q, k, v)), causal="bottom_right", return_lse=True, **place.options
    )
    out, lse = out.cpu(), lse.cpu()
    assert bool((out[:, :, :30] == 0).all()) and bool((lse[:, :, :30] == -math.inf).all())
    expected, expected_lse = attention_oracle(*as_double(q, k, v), "bottom_right")
    assert largest_difference(out, expected) <= FP32_TOLERANCE
    assert largest_difference(lse, expected_lse) <= FP32_TOLERANCE


def test_empty_sizes(torch, place):
    q = place.put(torch.rand(1, 2, 4, 32))
    none = place.put(torch.empty(1, 2, 0, 32))
    out, lse = waveattn.flash_attention(q, none, none, return_lse=True, **place.options)
    assert bool((out == 0).all()) and bool((lse == -math.inf).all())
    assert waveattn.flash_attention(none, q, q, **place.options).shape == (1, 2, 0, 32)
    no_batch = place.put(torch.empty(0, 2, 4, 32))
    assert waveattn.flash_attention(no_batch, no_batch, no_batch, **place.options).shape == (0, 2, 4, 32)


def test_nan_reaches_only_the_rows_that_see_it(torch, place):
    q, k, v = inputs(torch, (1, 1, 12, 32), (1, 1, 12, 32))
    q[0, 0, 3, 5] = math.nan
    v[0, 0, 8, 2] = math.nan
    out = waveattn.flash_attention(*map(place.put, (q, k, v)), causal="top_left", backend="scalar", **place.options)
    assert largest_difference(out, attention_oracle(*as_double(q, k, v), "top_left")[0]) <= FP32_TOLERANCE
    assert bool(torch.isnan(out[0, 0, 3]).all()) and not bool(torch.isnan(out[0, 0, :3]).any())
    assert bool(torch.isnan(out[0, 0, 8:, 2]).all()) and not bool(torch.isnan(out[0, 0, 8:, 3]).any())


def test_huge_values_stay_finite(torch, place):
    """Scores beyond the range of fp16, a softmax that is almost one-hot."""
    q, k, v = inputs(torch, (1, 2, 10, 64), (1, 2, 30, 64), "float16")
    q, k = q * 600, k * 600
    for backend in ("scalar", "auto"):
        out = waveattn.flash_attention(*map(place.put, (q, k, v)), backend=backend, **place.options)
        assert bool(torch.isfinite(out).all())
        expected = attention_oracle(*as_double(q, k, v))[0]
        # Scores of some 1e5 carry an fp32 rounding of 2^-24 relative, 6e-3 absolute, into the exponential.
        assert largest_difference(out, expected) <= 3e-2


def test_scores_of_minus_infinity_hide_a_key(torch, place):
    q, k, v = inputs(torch, (1, 1, 6, 32), (1, 1, 9, 32))
    q[..., 0], k[..., 0] = 1.0, 0.0
    k[:, :, 4, 0] = -math.inf
    v[:, :, 4] = 100.0
    out = waveattn.flash_attention(*map(place.put, (q, k, v)), backend="scalar", **place.options)
    kept = [i for i in range(9) if i != 4]
    assert largest_difference(out, attention_oracle(*as_double(q, k[:, :, kept], v[:, :, kept]))[0]) <= FP32_TOLERANCE


@pytest.mark.full
def test_more_heads_than_a_grid_axis_holds(torch, place):
    q = torch.rand(70000, 1, 1, 32)
    out = waveattn.flash_attention(*[place.put(q)] * 3, backend="scalar", **place.options)
    assert largest_difference(out, q.double().numpy()) <= 1e-6


def test_same_call_twice_is_bit_equal(torch, place):
    q, k, v = map(place.put, inputs(torch, (1, 2, 30, 64), (1, 2, 45, 64), "bfloat16"))
    first = waveattn.flash_attention(q, k, v, **place.options)
    assert torch.equal(first, waveattn.flash_attention(q, k, v, **place.options))


def test_different_head_dims_of_k_and_v(torch, place):
    q, k, _ = inputs(torch, (1, 2, 9, 48), (1, 2, 14, 48))
    v = torch.rand(1, 2, 14, 20)
    out = waveattn.flash_attention(*map(place.put, (q, k, v)), **place.options)
    assert out.shape == (1, 2, 9, 20)
    assert largest_difference(out, attention_oracle(*as_double(q, k, v))[0]) <= FP32_TOLERANCE


def test_a_swapped_causal_rule_would_be_noticed(torch, place):
    """The oracle and the tolerance can tell the two rules apart, so the tests above mean something."""
    q, k, v = inputs(torch, (1, 1, 9, 32), (1, 1, 14, 32))
    out = waveattn.flash_attention(*map(place.put, (q, k, v)), causal="top_left", **place.options)
    assert largest_difference(out, attention_oracle(*as_double(q, k, v), "bottom_right")[0]) > 1000 * FP32_TOLERANCE


def test_a_cache_with_the_conventions_of_flash_attn(torch, place):
    from waveattn import compat

    torch.manual_seed(12)
    q, k, v = place.put(torch.randn(2, 3, 4, 32)), *(place.put(torch.randn(2, 9, 2, 32)) for _ in range(2))
    lengths = place.put(torch.tensor([9, 5], dtype=torch.int32))
    k[1, 5:], v[1, 5:] = math.nan, math.nan  # not in use
    with place.chosen():
        out, lse = compat.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, causal=True, return_softmax_lse=True)
        one = compat.flash_attn_with_kvcache(q, k, v, cache_seqlens=5, num_splits=2, softmax_scale=0.25)
    assert out.is_contiguous() and out.shape == q.shape and lse.shape == (2, 4, 3)
    for batch, length in enumerate((9, 5)):
        bhsd = [t[batch : batch + 1].transpose(1, 2).double().cpu() for t in (q, k[:, :length], v[:, :length])]
        mask = torch.ones(3, length, dtype=torch.bool).tril(length - 3)
        want = torch.nn.functional.scaled_dot_product_attention(*bhsd, mask, enable_gqa=True).transpose(1, 2)
        assert largest_difference(out[batch : batch + 1], want) < 5e-6
        bhsd = [t[batch : batch + 1].transpose(1, 2).double().cpu() for t in (q, k[:, :5], v[:, :5])]
        want = torch.nn.functional.scaled_dot_product_attention(*bhsd, scale=0.25, enable_gqa=True).transpose(1, 2)
        assert largest_difference(one[batch : batch + 1], want) < 5e-6
    for options, error, words in (
        ({"k": q, "v": q}, NotImplementedError, "k and v are not appended"),
        ({"block_table": lengths}, NotImplementedError, "block_table"),
        ({"causal": "yes"}, TypeError, "causal must be True or False"),
        ({"cache_seqlens": 10}, ValueError, "kv_len must be between 0 and the 9 tokens"),
        ({"cache_seqlens": 1.5}, TypeError, "kv_len must be an integer"),
        ({"window_size": (3, 0)}, NotImplementedError, "window_size"),
    ):
        with pytest.raises(error, match=words):
            compat.flash_attn_with_kvcache(q, k, v, **options)
    with pytest.raises(TypeError, match="v_cache must be a tensor"):
        compat.flash_attn_with_kvcache(q, k, None)
    with pytest.raises(ValueError, match="k_cache must be .batch, tokens, heads, head_dim., got shape"):
        compat.flash_attn_with_kvcache(q, k[0], v)


def test_compatible_entry_points_follow_their_projects(torch, place):
    from waveattn import compat

    q, k, v = inputs(torch, (1, 4, 6, 32), (1, 2, 9, 32))
    reference = lambda causal: attention_oracle(*as_double(q, k, v), causal)
    device_q, device_k, device_v = map(place.put, (q, k, v))
    with place.chosen():
        bshd = [t.transpose(1, 2) for t in (device_q, device_k, device_v)]
        out, lse, probabilities = compat.flash_attn_func(*bshd, causal=True, return_attn_probs=True)
        assert probabilities is None
        assert largest_difference(out.transpose(1, 2), reference("bottom_right")[0]) <= FP32_TOLERANCE
        assert largest_difference(lse, reference("bottom_right")[1]) <= FP32_TOLERANCE
        out = compat.sdpa(device_q, device_k, device_v, is_causal=True, enable_gqa=True)
        assert largest_difference(out, reference("top_left")[0]) <= FP32_TOLERANCE
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        assert largest_difference(out, expected.double().numpy()) <= 2 * FP32_TOLERANCE


def test_devices_and_info_name_every_emulated_target():
    listed = [entry["target"] for entry in waveattn.devices() if entry["emulated"]]
    assert listed == list(TARGETS)
    info = waveattn.info()
    assert info["emulator"]["loaded"] and set(TARGETS) <= set(info["targets"])
    assert "scalar" in [entry["name"] for entry in info["backends"]["flash_attention"]]
    assert info["available"] == (info["reason"] == "")
