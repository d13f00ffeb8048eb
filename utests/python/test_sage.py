"""Sage attention from Python: accuracy, layouts, packed sequences, kept operands, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conftest import GPU  # noqa: E402

import waveattn  # noqa: E402
from waveattn import sage  # noqa: E402

TARGETS = ("gpu",) if GPU else ("gfx942", "gfx950")
if GPU and not any(d["name"].startswith(("gfx942", "gfx950")) for d in waveattn.devices()):
    pytest.skip("Sage attention needs gfx942 or gfx950", allow_module_level=True)


@pytest.fixture(params=TARGETS)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if GPU else {"device": request.param}


def _inputs(*shapes: tuple[int, ...], dtype: Any = torch.bfloat16) -> list[Any]:
    generator = torch.Generator().manual_seed(5)
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype) for shape in shapes]
    return [t.to("cuda") for t in tensors] if GPU else tensors


def _reference(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None) -> tuple[Any, Any]:
    q, k, v = (t.double().cpu() for t in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * (scale if scale is not None else q.shape[-1] ** -0.5)
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def _error(got: Any, want: Any) -> float:
    return float((got.double().cpu() - want).norm() / want.norm())


# fp8 weights and values: 0.026 each of the norm, int8 scores 0.013.
LIMIT = 0.045


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_accuracy_and_lse(options: dict[str, Any], dtype: Any) -> None:
    q, k, v = _inputs((1, 4, 100, 64), (1, 2, 150, 64), (1, 2, 150, 64), dtype=dtype)
    out, lse = sage.sage_attention(q, k, v, return_lse=True, **options)
    want, want_lse = _reference(q, k, v)
    assert out.dtype == dtype and out.shape == q.shape and lse.shape == (1, 4, 100)
    assert _error(out, want) < LIMIT
    assert float((lse.double().cpu() - want_lse).abs().max()) < 0.05


@pytest.mark.parametrize("recipe", [{"smooth_k": False}, {"smooth_q": True}, {"hadamard": True}, {"q_scales": "thread", "smooth_q": True}])
def test_recipes(options: dict[str, Any], recipe: dict[str, Any]) -> None:
    q, k, v = _inputs((1, 1, 70, 128), (1, 1, 140, 128), (1, 1, 140, 128))
    assert _error(sage.sage_attention(q, k, v, scale=0.07, **recipe, **options), _reference(q, k, v, scale=0.07)[0]) < LIMIT


def test_sageattn_layouts_and_causal(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if "device" in options:
        monkeypatch.setenv("WAVEATTN_EMULATED_DEVICE", options["device"])
    q, k, v = _inputs((2, 2, 90, 64), (2, 2, 90, 64), (2, 2, 90, 64))
    want, _ = _reference(q, k, v, causal=True)
    first = sage.sageattn(q, k, v, is_causal=True, qk_quant_gran="per_thread")
    assert _error(first, want) < LIMIT
    turned = sage.sageattn(*(t.transpose(1, 2).contiguous() for t in (q, k, v)), tensor_layout="NHD", is_causal=True)
    assert torch.equal(turned.transpose(1, 2), first)
    with pytest.raises(ValueError, match="tensor_layout"):
        sage.sageattn(q, k, v, tensor_layout="HDN")


def test_kept_operands_and_out(options: dict[str, Any]) -> None:
    q, k, v = _inputs((1, 2, 40, 64), (1, 2, 70, 64), (1, 2, 70, 64))
    whole, lse = sage.sage_attention(q, k, v, causal="bottom_right", return_lse=True, **options)
    operands = sage.sage_quantize(q, k, v, lse=True, **options)
    out = torch.empty_like(q)
    got, got_lse = sage.sage_attention_quantized(operands, causal="bottom_right", return_lse=True, out=out, **options)
    assert got is out and torch.equal(out, whole) and torch.equal(got_lse, lse)
    assert operands.layout["head_dim"] == 64 and operands.layout["delta_s"] == -1
    plain = sage.sage_quantize(q, k, v, **options)
    with pytest.raises(ValueError, match="lse=True"):
        sage.sage_attention_quantized(plain, return_lse=True, **options)


def test_packed_sequences(options: dict[str, Any]) -> None:
    q, k, v = _inputs((75, 2, 64), (100, 1, 64), (100, 1, 64))
    starts_q, starts_k = [0, 30, 75], [0, 64, 100]
    cu = [torch.tensor(s, dtype=torch.int32, device=q.device) for s in (starts_q, starts_k)]
    out, lse = sage.sage_attention_varlen(q, k, v, *cu, 45, 64, return_lse=True, **options)
    assert lse.shape == (2, 75)
    for n in range(2):
        a, b = slice(starts_q[n], starts_q[n + 1]), slice(starts_k[n], starts_k[n + 1])
        one = sage.sage_attention(*(t.transpose(0, 1)[None] for t in (q[a], k[b], v[b])), **options)
        assert torch.equal(out[a], one[0].transpose(0, 1))


@pytest.mark.skipif(GPU, reason="offsets in GPU memory are not looked at")
@pytest.mark.parametrize("wrong", [[0, 30, 76], [-1, 30, 75], [0, 50, 40]])
def test_offsets_outside_the_tokens(options: dict[str, Any], wrong: list[int]) -> None:
    q, k, v = _inputs((75, 2, 64), (75, 1, 64), (75, 1, 64))
    good, bad = (torch.tensor(x, dtype=torch.int32) for x in ([0, 30, 75], wrong))
    for cu in ((good, bad), (bad, good)):
        with pytest.raises(ValueError, match="cu_seqlens must not decrease and stay within the 75 tokens"):
            sage.sage_attention_varlen(q, k, v, *cu, 45, 45, **options)


def test_numpy(options: dict[str, Any]) -> None:
    if GPU:
        pytest.skip("numpy arrays are computed on emulated devices")
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((1, 1, 20, 64), dtype=np.float32) for _ in range(3))
    out = sage.sage_attention(q, k, v, **options)
    assert _error(torch.from_numpy(out), _reference(*map(torch.from_numpy, (q, k, v)))[0]) < 0.06


def test_errors(options: dict[str, Any]) -> None:
    q, k, v = _inputs((1, 2, 10, 64), (1, 2, 10, 64), (1, 2, 10, 64))
    with pytest.raises(ValueError, match="layout"):
        sage.sage_attention(q, k, v, layout="hnd", **options)
    with pytest.raises(ValueError, match="causal"):
        sage.sage_attention(q, k, v, causal="yes", **options)
    with pytest.raises(ValueError, match="q_scales"):
        sage.sage_attention(q, k, v, q_scales="token", **options)
    with pytest.raises(TypeError, match="dtype"):
        sage.sage_attention(q, k.float(), v, **options)
    with pytest.raises(ValueError, match="multiple"):
        sage.sage_attention(torch.cat([q, q[:, :1]], 1), k, v, **options)
    with pytest.raises(NotImplementedError, match="head_dim"):
        wide = torch.zeros(1, 1, 4, 192, dtype=torch.bfloat16, device=q.device)
        sage.sage_attention(wide, wide, wide, **options)
    with pytest.raises(NotImplementedError, match="backward"):
        sage.sage_attention(q.clone().requires_grad_(), k, v, **options)
    with pytest.raises(TypeError, match="sage_quantize"):
        sage.sage_attention_quantized(q)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="backward"):
        sage.sage_attention(q, k, v, out=torch.empty_like(q).requires_grad_(), **options)
    with pytest.raises(TypeError, match="causal must be None"):
        sage.sage_attention(q, k, v, causal=True, **options)  # type: ignore[arg-type]
    if not GPU:
        other = "gfx950" if options["device"] == "gfx942" else "gfx942"
        with pytest.raises(ValueError, match=f"quantised for {options['device']}, the device is {other}"):
            sage.sage_attention_quantized(sage.sage_quantize(q, k, v, **options), device=other)
        with pytest.raises(RuntimeError, match="gfx942 or gfx950"):
            sage.sage_attention(q, k, v, device="gfx1200")
