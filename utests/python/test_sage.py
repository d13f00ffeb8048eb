"""Sage attention from Python: accuracy, layouts, packed sequences, kept operands, errors."""

from __future__ import annotations

import dataclasses
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
    first = sage.sageattn(q, k, v, is_causal=True)
    assert _error(first, want) < LIMIT
    turned = sage.sageattn(*(t.transpose(1, 2).contiguous() for t in (q, k, v)), tensor_layout="NHD", is_causal=True)
    assert torch.equal(turned.transpose(1, 2), first)
    with pytest.raises(ValueError, match="tensor_layout"):
        sage.sageattn(q, k, v, tensor_layout="HDN")


def test_sageattn_arguments(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if "device" in options:
        monkeypatch.setenv("WAVEATTN_EMULATED_DEVICE", options["device"])
    q, k, v = _inputs((1, 2, 70, 64), (1, 2, 70, 64), (1, 2, 70, 64))
    for name, q_scales in (("per_block", "block"), ("per_warp", "warp"), ("per_thread", "thread")):
        assert torch.equal(sage.sageattn(q, k, v, qk_quant_gran=name), sage.sage_attention(q, k, v, q_scales=q_scales))
    ignored = {"pv_accum_dtype": "fp32+fp32", "smooth_v": True, "quantization_backend": "cuda", "enable_gqa": False}
    assert torch.equal(sage.sageattn(q, k, v, **ignored), sage.sage_attention(q, k, v))
    for bad in ("block", "per_token", None, ["per_warp"]):
        with pytest.raises(ValueError, match="qk_quant_gran must be one of 'per_block', 'per_warp', 'per_thread'"):
            sage.sageattn(q, k, v, qk_quant_gran=bad)
    # A name that is not among the arguments would be a mask, an output or a layout that the caller believes in.
    for name in ("is_casual", "causal", "out", "layout", "device"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            sage.sageattn(q, k, v, **{name: None})


def test_kept_operands_and_out(options: dict[str, Any]) -> None:
    q, k, v = _inputs((1, 2, 40, 64), (1, 2, 70, 64), (1, 2, 70, 64))
    whole, lse = sage.sage_attention(q, k, v, causal="bottom_right", return_lse=True, **options)
    operands = sage.sage_quantize(q, k, v, lse=True, **options)
    out = torch.empty_like(q)
    got, got_lse = sage.sage_attention_quantized(operands, causal="bottom_right", return_lse=True, out=out, **options)
    assert got is out and torch.equal(out, whole) and torch.equal(got_lse, lse)
    assert operands.layout["head_dim"] == 64 and operands.layout["delta_s"] == -1
    plain = sage.sage_quantize(q, k, v, **options)
    assert operands == operands and operands != plain and len({operands, plain}) == 2
    with pytest.raises(ValueError, match="lse=True"):
        sage.sage_attention_quantized(plain, return_lse=True, **options)


def test_packed_sequences(options: dict[str, Any]) -> None:
    q, k, v = _inputs((75, 2, 64), (100, 1, 64), (100, 1, 64))
    starts_q, starts_k = [0, 30, 75], [0, 64, 100]
    cu = [torch.tensor(s, dtype=torch.int32, device=q.device) for s in (starts_q, starts_k)]
    for recipe in ({}, {"q_scales": "warp", "smooth_q": True}, {"q_scales": "thread", "hadamard": True}):
        out, lse = sage.sage_attention_varlen(q, k, v, *cu, 45, 64, return_lse=True, **recipe, **options)
        assert lse.shape == (2, 75)
        for n in range(2):
            a, b = slice(starts_q[n], starts_q[n + 1]), slice(starts_k[n], starts_k[n + 1])
            tensors = (t.transpose(0, 1)[None] for t in (q[a], k[b], v[b]))
            one, one_lse = sage.sage_attention(*tensors, return_lse=True, **recipe, **options)
            assert torch.equal(out[a], one[0].transpose(0, 1)) and torch.equal(lse[:, a], one_lse[0])


@pytest.mark.skipif(GPU, reason="offsets in GPU memory are not looked at")
@pytest.mark.parametrize("wrong", [[0, 30, 76], [-1, 30, 75], [0, 50, 40]])
def test_offsets_outside_the_tokens(options: dict[str, Any], wrong: list[int]) -> None:
    q, k, v = _inputs((75, 2, 64), (75, 1, 64), (75, 1, 64))
    good, bad = (torch.tensor(x, dtype=torch.int32) for x in ([0, 30, 75], wrong))
    for cu, name in (((good, bad), "cu_seqlens_k"), ((bad, good), "cu_seqlens_q")):
        with pytest.raises(ValueError, match=f"{name} must not decrease and stay within the 75 tokens"):
            sage.sage_attention_varlen(q, k, v, *cu, 75, 75, **options)
    with pytest.raises(ValueError, match="cu_seqlens_k: sequence 1 has 45 tokens, more than its max_seqlen, 44"):
        sage.sage_attention_varlen(q, k, v, good, good, 45, 44, **options)


def test_tokens_of_no_sequence(options: dict[str, Any]) -> None:
    q, k, v = _inputs((75, 2, 64), (75, 1, 64), (75, 1, 64))
    cu = torch.tensor([10, 30, 60], dtype=torch.int32, device=q.device)
    for out in (None, torch.full_like(q, 7.0)):
        got, lse = sage.sage_attention_varlen(q, k, v, cu, cu, 30, 30, return_lse=True, out=out, **options)
        for uncovered in (slice(0, 10), slice(60, 75)):
            assert not got[uncovered].any() and torch.all(lse[:, uncovered] == -torch.inf)
        assert got[10:60].all() and torch.isfinite(lse[:, 10:60]).all()
    for lengths in ((0, 30), (30, 0)):  # no row is computed, or none sees a key
        got, lse = sage.sage_attention_varlen(q, k, v, cu, cu, *lengths, return_lse=True, **options)
        assert not got.any() and torch.all(lse == -torch.inf)


def test_numpy(options: dict[str, Any]) -> None:
    if GPU:
        pytest.skip("numpy arrays are computed on emulated devices")
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((1, 1, 20, 64), dtype=np.float32) for _ in range(3))
    out = sage.sage_attention(q, k, v, **options)
    assert _error(torch.from_numpy(out), _reference(*map(torch.from_numpy, (q, k, v)))[0]) < 0.06


ONE_HOT = {"plain": (1.0, 1.0, None), "large": (1e3, 1e3, None), "scale": (1.0, 1.0, 1e30), "apart": (1e-30, 1e32, None)}


@pytest.mark.parametrize("name", ONE_HOT)
def test_magnitudes_of_q_and_k(options: dict[str, Any], name: str) -> None:
    """Each query is one key, orthogonal to the others: the result is that key's value, rounded to fp8."""
    of_q, of_k, scale = ONE_HOT[name]
    sign = torch.ones(1, 1)
    for _ in range(6):
        sign = torch.cat([torch.cat([sign, sign], 1), torch.cat([sign, -sign], 1)], 0)
    order = torch.arange(64) * 37 % 64
    (v,) = _inputs((1, 1, 64, 64), dtype=torch.float32)
    q, k = (of_q * sign[order])[None, None].to(v.device), (of_k * sign)[None, None].to(v.device)
    out, lse = sage.sage_attention(q, k, v, scale=scale, return_lse=True, **options)
    want, want_lse = _reference(q, k, v, scale=scale)
    assert _error(out, want) < LIMIT
    assert float(((lse.double().cpu() - want_lse) / want_lse).abs().max()) < 0.01


@pytest.mark.parametrize("factor", [1e-40, 1e-25, 1e-20, 1e30, 5e37])
def test_magnitudes_of_v(options: dict[str, Any], factor: float) -> None:
    q, k, v = _inputs((1, 2, 40, 64), (1, 1, 70, 64), (1, 1, 70, 64), dtype=torch.float32)
    v = (v.double() * factor).float()
    want, _ = _reference(q, k, v)
    assert _error(sage.sage_attention(q, k, v, **options).double().cpu() / factor, want / factor) < LIMIT


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("recipe", [{}, {"smooth_k": False}, {"smooth_q": True}, {"hadamard": True}])
def test_nan_and_infinity(options: dict[str, Any], poison: float, recipe: dict[str, Any]) -> None:
    q, k, v = _inputs((1, 1, 70, 64), (1, 1, 150, 64), (1, 1, 150, 64))
    clean = sage.sage_attention(q, k, v, **recipe, **options)
    bad = q.clone()
    bad[0, 0, 33, 5] = poison
    out, lse = sage.sage_attention(bad, k, v, return_lse=True, **recipe, **options)
    assert out[0, 0, 33].isnan().all() and lse[0, 0, 33].isnan()
    rest = [i for i in range(70) if i != 33]
    assert _error(out[0, 0, rest], clean[0, 0, rest].double().cpu()) < LIMIT and torch.isfinite(lse[0, 0, rest]).all()
    bad = k.clone()
    bad[0, 0, 140, 5] = poison
    assert sage.sage_attention(q, bad, v, **recipe, **options).isnan().all()
    seen = sage.sage_attention(q, bad, v, causal="top_left", **recipe, **options)  # no query sees its tile
    assert torch.isfinite(seen).all()
    bad = v.clone()
    bad[0, 0, 140, 5] = poison
    out = sage.sage_attention(q, k, bad, **recipe, **options)
    assert out[..., 5].isnan().all() and torch.isfinite(out[..., 6:]).all()


@pytest.mark.parametrize("shape", [(0, 2, 5, 5), (1, 0, 5, 5), (1, 2, 0, 5), (1, 2, 5, 0), (0, 0, 0, 0)])
def test_empty_axes(options: dict[str, Any], shape: tuple[int, int, int, int]) -> None:
    batch, heads, q_len, kv_len = shape
    q, k = _inputs((batch, heads, q_len, 64), (batch, heads, kv_len, 64))
    for recipe in ({}, {"smooth_q": True}):
        out, lse = sage.sage_attention(q, k, k, return_lse=True, **recipe, **options)
        assert out.shape == q.shape and lse.shape == (batch, heads, q_len)
        assert not out.any() and torch.all(lse == -torch.inf)


def test_torch_operations(options: dict[str, Any]) -> None:
    import waveattn.torch_ops  # noqa: F401  defines them

    ops = torch.ops.waveattn
    q, k, v = _inputs((1, 2, 10, 64), (1, 1, 12, 64), (1, 1, 12, 64))
    for more in ({}, {"return_lse": True, "smooth_q": True, "causal": "bottom_right"}):
        torch.library.opcheck(ops.sage_attention.default, (q, k, v), {**more, **options})
    turned = tuple(t.transpose(1, 2).contiguous() for t in (q, k, v))
    torch.library.opcheck(ops.sage_attention.default, turned, {"layout": "bshd", "return_lse": True, **options})
    torch.library.opcheck(ops.sage_attention_out.default, (q, k, v, torch.empty_like(q)), options)
    packed = tuple(t[0].transpose(0, 1).contiguous() for t in (q, k, v))
    cu_q, cu_k = (torch.tensor([0, 4, n], dtype=torch.int32, device=q.device) for n in (10, 12))
    starts = (cu_q, cu_k, 6, 8)
    torch.library.opcheck(ops.sage_attention_varlen.default, (*packed, *starts), {"return_lse": True, **options})
    torch.library.opcheck(ops.sage_attention_varlen_out.default, (*packed, torch.empty_like(packed[0]), *starts), options)


def test_bare_operations_check_their_options(options: dict[str, Any]) -> None:
    import waveattn.torch_ops  # noqa: F401  defines them

    op = torch.ops.waveattn.sage_attention
    q, k, v = _inputs((1, 2, 2, 64), (1, 2, 2, 64), (1, 2, 2, 64))
    for name, word in (("layout", "layout must be 'bhsd' or 'bshd', got 'hnd'"), ("causal", "causal must be"), ("q_scales", "q_scales must be")):
        with pytest.raises(ValueError, match=word):
            op(q, k, v, **{name: "hnd"}, **options)
    with pytest.raises(ValueError, match="scale must be finite"):
        op(q, k, v, scale=float("nan"), **options)
    packed = (q[0], k[0], v[0], *(torch.tensor([0, 2], dtype=torch.int32, device=q.device),) * 2)
    with pytest.raises(ValueError, match="max_seqlen_k must not be negative, got -1"):
        torch.ops.waveattn.sage_attention_varlen(*packed, 2, -1, **options)


def test_compile_and_fake_tensors(options: dict[str, Any]) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    q, k, v = _inputs((1, 2, 10, 64), (1, 1, 12, 64), (1, 1, 12, 64))
    cu = torch.tensor([0, 4, 10], dtype=torch.int32, device=q.device)

    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=True)
    def layer(q: Any, k: Any, v: Any, out: Any) -> Any:
        one, lse = sage.sage_attention(q * 1.0, k, v, return_lse=True, **options)
        sage.sage_attention(q, k, v, causal="top_left", out=out, **options)
        two = sage.sageattn(q, k, v) if GPU else one
        tokens = q[0].transpose(0, 1)
        packed = sage.sage_attention_varlen(tokens, tokens, tokens, cu, cu, 6, 6, **options)
        return one, lse, out, two, packed

    out = torch.empty_like(q)
    one, lse, _, _, packed = layer(q, k, v, out)
    want, want_lse = sage.sage_attention(q, k, v, return_lse=True, **options)
    assert torch.equal(one, want) and torch.equal(lse, want_lse)
    assert torch.equal(out, sage.sage_attention(q, k, v, causal="top_left", **options))
    assert packed.shape == (10, 2, 64)
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in (q, k, v)]
        fake = sage.sage_attention(*fakes, return_lse=True, **options)
        with pytest.raises(NotImplementedError, match="FakeTensor"):
            sage.sage_quantize(*fakes, **options)
    for a, b in zip((want, want_lse), fake):
        assert (a.shape, a.stride(), a.dtype, a.device) == (b.shape, b.stride(), b.dtype, b.device)


def _entry_points(options: dict[str, Any]) -> dict[str, Any]:
    """The functions that take q, k and v, each as f(q, k, v, **more) of (B, H, S, D) tensors."""

    def varlen(q: Any, k: Any, v: Any, **more: Any) -> Any:
        q, k, v = (t[0].transpose(0, 1) if isinstance(t, torch.Tensor) and t.ndim == 4 else t for t in (q, k, v))
        cu = torch.tensor([0, 10], dtype=torch.int32, device="cuda" if GPU else "cpu")
        return sage.sage_attention_varlen(q, k, v, cu, cu, 10, 10, **more, **options)

    return {
        "sage_attention": lambda *t, **more: sage.sage_attention(*t, **more, **options),
        "sage_quantize": lambda *t, **more: sage.sage_quantize(*t, **more, **options),
        "sageattn": lambda *t, **more: sage.sageattn(*t, **more),
        "varlen": varlen,
    }


@pytest.mark.parametrize("name", ["sage_attention", "sage_quantize", "sageattn", "varlen"])
def test_bad_inputs(options: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not GPU:
        monkeypatch.setenv("WAVEATTN_EMULATED_DEVICE", options["device"])
    call = _entry_points(options)[name]
    q, k, v = _inputs((1, 2, 10, 64), (1, 2, 10, 64), (1, 2, 10, 64))
    for bad in (None, [[1.0]], 3.0, np.zeros((1, 2, 10, 64), np.float32)):
        for argument, tensors in (("k", (q, bad, v)), ("v", (q, k, bad))):
            with pytest.raises(TypeError, match=f"{argument} must be a torch.Tensor"):
                call(*tensors)
    for bad in (None, [[1.0]], 3.0):
        with pytest.raises(TypeError, match="q must be a tensor"):
            call(bad, k, v)
    with pytest.raises(TypeError, match="same dtype, got bfloat16, float32 and bfloat16"):
        call(q, k.float(), v)
    for dtype in (torch.float64, torch.int64, torch.float8_e4m3fn):
        with pytest.raises(NotImplementedError, match="float"):
            call(q.to(dtype), k.to(dtype), v.to(dtype))
    with pytest.raises(ValueError, match="same device.* for k"):
        call(q, k.to("meta"), v)
    with pytest.raises(ValueError, match="k must have q's head_dim 64, got 32"):
        call(q, k[..., :32], v)
    with pytest.raises(ValueError, match="v must have the head_dim of q and k, 64, got 32"):
        call(q, k, v[..., :32])
    with pytest.raises(ValueError, match="same heads and length"):
        call(q, k, v[:, :, :9])
    with pytest.raises(ValueError, match="multiple"):
        call(torch.cat([q, q[:, :1]], 1), k, v)
    with pytest.raises(ValueError, match="no heads"):
        call(q, k[:, :0], v[:, :0])
    with pytest.raises(ValueError, match="q must have a last stride of 1"):
        call(torch.empty(1, 2, 10, 128, dtype=q.dtype, device=q.device)[..., ::2], k, v)
    with pytest.raises(ValueError, match="q must have"):
        call(q[0, 0], k, v)
    with pytest.raises(ValueError, match="head_dim must be positive|no elements|positive"):
        call(q[..., :0], k[..., :0], v[..., :0])
    with pytest.raises(NotImplementedError, match="backward"):
        call(q, k, v.clone().requires_grad_())
    scale = "sm_scale" if name == "sageattn" else "scale"
    for number in (float("nan"), float("inf"), 1e300):
        with pytest.raises(ValueError, match="scale must be finite"):
            call(q, k, v, **{scale: number})
    with pytest.raises(ValueError, match="scale must be finite"):
        call(q, k, v, **{scale: 10**400})
    for number in ("1", [1.0], 1j, True, np.ones(1), np.ones(2), torch.ones(2)):
        with pytest.raises(TypeError, match="scale must be a number"):
            call(q, k, v, **{scale: number})
    with pytest.raises(TypeError, match="smooth_k must be True or False, got 2"):
        call(q, k, v, smooth_k=2)
    if name == "sageattn":
        with pytest.raises(TypeError, match="is_causal must be True or False"):
            call(q, k, v, is_causal=None)
        with pytest.raises(NotImplementedError, match="attn_mask"):
            call(q, k, v, attn_mask=torch.ones(10, 10))
    elif name != "sage_quantize":
        with pytest.raises(TypeError, match="causal must be None"):
            call(q, k, v, causal=False)
    if name == "varlen":
        return
    if name != "sageattn":
        with pytest.raises(TypeError, match="layout must be 'bhsd' or 'bshd', got None"):
            call(q, k, v, layout=None)
        with pytest.raises(TypeError, match="q_scales must be"):
            call(q, k, v, q_scales=None)
    if name == "sage_quantize":  # 2^62 elements of one row's memory
        huge = torch.zeros(1, 1, 1, 64, dtype=q.dtype, device=q.device).expand(1 << 14, 1 << 14, 1 << 28, 64)
        with pytest.raises(NotImplementedError, match="too large"):
            call(huge, huge, huge)


def test_bad_outputs(options: dict[str, Any]) -> None:
    q, k, v = _inputs((1, 2, 10, 64), (1, 2, 10, 64), (1, 2, 10, 64))
    operands = sage.sage_quantize(q, k, v, **options)
    cu = torch.tensor([0, 10], dtype=torch.int32, device=q.device)
    packed = [t[0].transpose(0, 1).contiguous() for t in (q, k, v)]
    calls = {
        "whole": lambda out: sage.sage_attention(q, k, v, out=out, **options),
        "quantized": lambda out: sage.sage_attention_quantized(operands, out=out, **options),
        "varlen": lambda out: sage.sage_attention_varlen(*packed, cu, cu, 10, 10, out=out, **options),
    }
    for name, call in calls.items():
        good = torch.empty_like(packed[0] if name == "varlen" else q)
        assert call(good) is good
        for bad in ([1.0], np.zeros(tuple(good.shape), np.float32)):
            with pytest.raises(TypeError, match="out must be a torch.Tensor"):
                call(bad)
        with pytest.raises(TypeError, match="out must have dtype bfloat16, got float32"):
            call(good.float())
        with pytest.raises(ValueError, match="out must be|out must have"):
            call(good[..., :32])
        with pytest.raises(ValueError, match="out must have"):
            call(good[0])
        with pytest.raises(ValueError, match="for out"):
            call(good.to("meta"))
        with pytest.raises(ValueError, match="last stride of 1"):
            call(torch.empty(*good.shape[:-1], 128, dtype=q.dtype, device=q.device)[..., ::2])
        with pytest.raises(ValueError, match="share memory"):
            call(good[..., :1, :].expand(good.shape))
        with pytest.raises(NotImplementedError, match="backward"):
            call(torch.empty_like(good).requires_grad_())
    for argument, tensor in (("q", q), ("k", k), ("v", v)):
        before = tensor.clone()
        with pytest.raises(ValueError, match=f"out overlaps the memory of {argument}"):
            calls["whole"](tensor)
        assert torch.equal(tensor, before)
    with pytest.raises(ValueError, match="out overlaps the memory of the quantised operands"):
        calls["quantized"](operands.buffer[: 2 * q.numel()].view(torch.bfloat16).view(q.shape))


def test_bad_packed_lengths_and_offsets(options: dict[str, Any]) -> None:
    q, k, v = _inputs((10, 2, 64), (10, 2, 64), (10, 2, 64))
    cu = torch.tensor([0, 10], dtype=torch.int32, device=q.device)

    def call(cu_q: Any = cu, cu_k: Any = cu, max_q: Any = 10, max_k: Any = 10) -> Any:
        return sage.sage_attention_varlen(q, k, v, cu_q, cu_k, max_q, max_k, **options)

    want = call()
    assert torch.equal(call(max_q=1 << 70, max_k=1 << 70), want)
    assert torch.equal(call(max_q=torch.tensor(10)), want)
    for name in ("q", "k"):
        with pytest.raises(ValueError, match=f"max_seqlen_{name} must not be negative, got -1"):
            call(**{f"max_{name}": -1})
        for bad in (10.0, None, "10", True):
            with pytest.raises(TypeError, match=f"max_seqlen_{name} must be an integer"):
                call(**{f"max_{name}": bad})
        for bad in (None, [0, 10], np.array([0, 10], np.int32)):
            with pytest.raises(TypeError, match=f"cu_seqlens_{name} must be a torch.Tensor"):
                call(**{f"cu_{name}": bad})
        with pytest.raises(TypeError, match=f"cu_seqlens_{name} must have dtype int32, got int64"):
            call(**{f"cu_{name}": cu.long()})
        with pytest.raises(TypeError, match=f"cu_seqlens_{name} must have dtype int32, got torch.int16"):
            call(**{f"cu_{name}": cu.short()})
        with pytest.raises(ValueError, match=f"cu_seqlens_{name} must be contiguous, got a stride of 2"):
            call(**{f"cu_{name}": torch.stack([cu, cu], 1)[:, 0]})
        with pytest.raises(ValueError, match=f"cu_seqlens_{name} must"):
            call(**{f"cu_{name}": cu[None]})
        with pytest.raises(ValueError, match=f"cu_seqlens_{name}"):
            call(**{f"cu_{name}": cu[:1]})
        with pytest.raises(ValueError, match=f"for cu_seqlens_{name}"):
            call(**{f"cu_{name}": cu.to("meta")})
    with pytest.raises(ValueError, match="as long as cu_seqlens_q"):
        call(cu_k=torch.tensor([0, 5, 10], dtype=torch.int32, device=q.device))


def test_damaged_operands(options: dict[str, Any]) -> None:
    q, k, v = _inputs((1, 2, 10, 64), (1, 2, 10, 64), (1, 2, 10, 64))
    good = sage.sage_quantize(q, k, v, **options)
    size, shape = good.buffer.numel(), good.shape

    def call(**change: Any) -> Any:
        return sage.sage_attention_quantized(dataclasses.replace(good, **change), **options)

    assert torch.equal(call(), sage.sage_attention(q, k, v, **options))
    for buffer in (good.buffer[:-1], good.buffer.view(torch.float32), good.buffer[None], good.buffer.repeat(2)[::2]):
        with pytest.raises(ValueError, match=f"the buffer must be contiguous int8 with {size} elements"):
            call(buffer=buffer)
    with pytest.raises(ValueError, match="the buffer must start on a multiple of 16 bytes"):
        call(buffer=torch.cat([good.buffer[:1], good.buffer])[1:])
    for axis in range(5):
        with pytest.raises(ValueError, match="negative size: -1"):
            call(shape=tuple(-1 if i == axis else n for i, n in enumerate(shape)))
    for head_dim, error in ((129, NotImplementedError), (0, ValueError), (-64, ValueError)):
        with pytest.raises(error, match="head_dim"):
            call(shape=(*shape[:5], head_dim))


def test_negated_views(options: dict[str, Any]) -> None:
    q, k, v = _inputs((1, 1, 5, 8), (1, 1, 5, 8), (1, 1, 5, 8))
    negated = torch._neg_view(q)
    assert torch.equal(sage.sage_attention(negated, k, v, **options), sage.sage_attention(-q, k, v, **options))
    with pytest.raises(ValueError, match="q is a view that negates its memory"):
        sage.sage_quantize(negated, k, v, **options)
    with pytest.raises(ValueError, match="out is a view that negates its memory"):
        sage.sage_attention_quantized(sage.sage_quantize(q, k, v, **options), out=negated, **options)


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
        with pytest.raises(RuntimeError, match="gfx942(,| or) gfx950"):
            sage.sage_attention(q, k, v, device="gfx1200")
