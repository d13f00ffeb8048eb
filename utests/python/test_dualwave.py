"""The dual-wave backend of gfx950 and gfx942: accuracy, dispatch, basis and placement."""

from __future__ import annotations

import pytest
from conftest import GPU, Place, attention_oracle, largest_difference

import waveattn
from waveattn import dualwave

TARGETS = ["gfx942", "gfx950"]
# Weights and result are rounded to the dtype; gaussian values of magnitude up to 4 or so.
OUT_TOLERANCE = {"bfloat16": 2.0**-6, "float16": 2.0**-9}
LSE_TOLERANCE = 2e-6


@pytest.fixture(params=TARGETS)
def cdna(request) -> Place:
    if GPU:
        if waveattn.info()["devices"][0]["target"] != request.param:
            pytest.skip(f"needs a {request.param} card or the emulator")
        return Place("gpu", emulated=False)
    return Place(request.param, emulated=True)


def gaussian(torch, shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(getattr(torch, dtype))


def inputs(torch, place, batch, heads_q, heads_kv, q_len, kv_len, dim, dtype="bfloat16"):
    q = gaussian(torch, (batch, heads_q, q_len, dim), dtype, 1)
    k, v = (gaussian(torch, (batch, heads_kv, kv_len, dim), dtype, seed) for seed in (2, 3))
    expected = [t.double().numpy() for t in (q, k, v)]
    return tuple(map(place.put, (q, k, v))), expected


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("causal", [None, "top_left", "bottom_right"])
def test_accuracy(torch, cdna, dtype, causal):
    tensors, values = inputs(torch, cdna, 1, 4, 2, 70, 130, 128, dtype)
    out, lse = waveattn.flash_attention(*tensors, causal=causal, return_lse=True, backend="dualwave", **cdna.options)
    expected, expected_lse = attention_oracle(*values, causal)
    assert largest_difference(out, expected) <= OUT_TOLERANCE[dtype]
    assert largest_difference(lse, expected_lse) <= LSE_TOLERANCE


def test_auto_takes_it_for_16_bit(torch, cdna):
    tensors, _ = inputs(torch, cdna, 1, 2, 2, 40, 70, 64)
    named = waveattn.flash_attention(*tensors, backend="dualwave", **cdna.options)
    assert torch.equal(waveattn.flash_attention(*tensors, **cdna.options), named)
    with pytest.raises(NotImplementedError, match="head_dim 1 to 128"):
        wide, _ = inputs(torch, cdna, 1, 1, 1, 8, 8, 160)
        waveattn.flash_attention(*wide, backend="dualwave", **cdna.options)
    with pytest.raises(NotImplementedError, match="float32"):
        waveattn.flash_attention(*(t.float() for t in tensors), backend="dualwave", **cdna.options)


def test_pinned_basis_and_placement(torch, cdna):
    tensors, values = inputs(torch, cdna, 1, 3, 1, 70, 200, 64)
    expected, expected_lse = attention_oracle(*values, None)
    for xcd_swizzle in ("auto", "on", "off"):
        out, lse = waveattn.flash_attention(
            *tensors, basis="pinned", xcd_swizzle=xcd_swizzle, return_lse=True, **cdna.options
        )
        assert largest_difference(out, expected) <= OUT_TOLERANCE["bfloat16"]
        assert largest_difference(lse, expected_lse) <= LSE_TOLERANCE
    for swizzle in ("on", "off"):
        online = waveattn.flash_attention(*tensors, xcd_swizzle=swizzle, **cdna.options)
        assert torch.equal(online, waveattn.flash_attention(*tensors, **cdna.options))


def test_pinned_basis_survives_scores_that_overflow_it(torch, cdna):
    (q, k, v), _ = inputs(torch, cdna, 1, 1, 1, 40, 200, 64)
    q, k = q.clone(), k.clone()
    q[..., 0] = 48
    k[..., :130, 0] = 0
    k[..., 130:, 0] = 48
    pinned = waveattn.flash_attention(q, k, v, basis="pinned", **cdna.options)
    expected, _ = attention_oracle(*(t.detach().cpu().double().numpy() for t in (q, k, v)), None)
    assert largest_difference(pinned, expected) <= OUT_TOLERANCE["bfloat16"]


def test_splits(torch, cdna):
    from waveattn import dualwave

    tensors, values = inputs(torch, cdna, 1, 2, 1, 20, 300, 64)
    out, lse = dualwave.attend(*tensors, splits=3, return_lse=True, **cdna.options)
    expected, expected_lse = attention_oracle(*values, None)
    assert largest_difference(out, expected) <= OUT_TOLERANCE["bfloat16"]
    assert largest_difference(lse, expected_lse) <= LSE_TOLERANCE


def test_settings_are_checked(torch, cdna):
    tensors, _ = inputs(torch, cdna, 1, 1, 1, 8, 8, 64)
    with pytest.raises(ValueError, match="basis"):
        waveattn.flash_attention(*tensors, basis="fixed", **cdna.options)
    with pytest.raises(ValueError, match="xcd_swizzle"):
        waveattn.flash_attention(*tensors, xcd_swizzle="maybe", **cdna.options)
    with pytest.raises(NotImplementedError, match="dualwave"):
        waveattn.flash_attention(*tensors, basis="pinned", backend="scalar", **cdna.options)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"basis": None}, TypeError),
        ({"xcd_swizzle": True}, TypeError),
        ({"splits": 2.5}, TypeError),
        ({"splits": True}, TypeError),
        ({"splits": 2**40}, ValueError),
    ],
)
def test_settings_of_wrong_types_are_named(torch, options, error):
    q = torch.ones(1, 1, 3, 32, dtype=torch.bfloat16)
    with pytest.raises(error, match=f"^{next(iter(options))} must be"):
        dualwave.attend(q, q, q, device="gfx942", **options)
