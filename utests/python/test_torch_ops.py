"""torch.ops.waveattn: opcheck, FakeTensor, torch.compile, export, and the plug-ins."""

from __future__ import annotations

import pytest
from conftest import largest_difference

import waveattn


@pytest.fixture
def qkv(torch, place):
    import waveattn.torch_ops  # defines the operations

    return tuple(place.put(torch.rand(shape)) for shape in ((1, 4, 6, 32), (1, 2, 9, 32), (1, 2, 9, 32)))


@pytest.fixture
def reference(torch, qkv):
    q, k, v = (t.cpu().double() for t in qkv)
    return lambda causal=False: torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, enable_gqa=True
    ).numpy()


def test_opcheck(torch, place, qkv):
    device = place.options.get("device")
    for return_lse in (False, True):
        torch.library.opcheck(
            torch.ops.waveattn.flash_attention.default, qkv, {"return_lse": return_lse, "device": device}
        )
    out = torch.empty_like(qkv[0])
    torch.library.opcheck(torch.ops.waveattn.flash_attention_out.default, (*qkv, out), {"device": device})


def test_fake_results_have_the_shape_strides_and_dtype_of_real_ones(torch, place, qkv):
    from torch._subclasses.fake_tensor import FakeTensorMode

    for layout in ("bhsd", "bshd"):
        tensors = qkv if layout == "bhsd" else tuple(t.transpose(1, 2).contiguous() for t in qkv)
        real = waveattn.flash_attention(*tensors, return_lse=True, layout=layout, **place.options)
        with FakeTensorMode() as mode:
            fake = waveattn.flash_attention(
                *(mode.from_tensor(t) for t in tensors), return_lse=True, layout=layout, **place.options
            )
        for a, b in zip(real, fake):
            assert (a.shape, a.stride(), a.dtype, a.device) == (b.shape, b.stride(), b.dtype, b.device)


def test_compile_traces_through_without_a_break(torch, place, qkv, reference):
    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=True)
    def layer(q, k, v):
        return waveattn.flash_attention(q * 1.0, k, v, causal="top_left", **place.options) + 1.0

    assert largest_difference(layer(*qkv) - 1.0, reference(True)) <= 5e-6
    longer = place.put(torch.rand(2, 4, 5, 32))
    assert layer(longer, longer, longer).shape == longer.shape


def test_export(torch, place, qkv, reference):
    class Layer(torch.nn.Module):
        def forward(self, q, k, v):
            return waveattn.flash_attention(q, k, v, **place.options)

    program = torch.export.export(Layer(), qkv)
    assert "waveattn.flash_attention" in str(program.graph)
    assert largest_difference(program.module()(*qkv), reference()) <= 5e-6


def test_out_under_compile(torch, place, qkv, reference):
    @torch.compile(backend="aot_eager", fullgraph=True)
    def layer(q, k, v, out):
        waveattn.flash_attention(q, k, v, out=out, **place.options)
        return out * 2.0

    out = torch.zeros_like(qkv[0])
    assert largest_difference(layer(*qkv, out) / 2.0, reference()) <= 5e-6
    assert largest_difference(out, reference()) <= 5e-6


def test_sdpa_plug_in_is_on_only_while_activated(torch, place, qkv, reference):
    import torch.nn.functional as F

    from waveattn import _core
    from waveattn.integrations import torch_sdpa

    original = F.scaled_dot_product_attention
    mask = torch.ones(6, 9, dtype=torch.bool, device=qkv[0].device)
    with place.chosen(), torch_sdpa.activated(cpu=place.emulated):
        count = _core.emulated_instructions()
        assert largest_difference(F.scaled_dot_product_attention(*qkv, is_causal=True, enable_gqa=True), reference(True)) <= 5e-6
        if place.emulated:
            assert _core.emulated_instructions() > count
        # What it does not cover goes to torch: masks, gradients, head_dims.
        count = _core.emulated_instructions()
        F.scaled_dot_product_attention(*qkv, attn_mask=mask, enable_gqa=True)
        q = qkv[0].clone().requires_grad_()
        F.scaled_dot_product_attention(q, *qkv[1:], enable_gqa=True).sum().backward()
        assert q.grad is not None
        wide = torch.rand(1, 1, 2, 300, device=qkv[0].device)
        F.scaled_dot_product_attention(wide, wide, wide)
        assert _core.emulated_instructions() == count
    assert F.scaled_dot_product_attention is original


def test_sdpa_plug_in_leaves_to_torch_what_only_torch_takes(torch, place, qkv, monkeypatch):
    import torch.nn.functional as F

    from waveattn.integrations import torch_sdpa

    original = F.scaled_dot_product_attention
    strided = torch.rand(1, 2, 6, 64, device=qkv[0].device)[..., ::2]
    one = strided[:, :, :1]
    with place.chosen(), torch_sdpa.activated(cpu=place.emulated):
        active = F.scaled_dot_product_attention
        assert torch.equal(active(strided, strided, strided), original(strided, strided, strided))
        pair = torch.rand(2, 2, 6, 32, device=strided.device)
        assert active(pair, one, one).shape == (2, 2, 6, 32)  # torch broadcasts batches
        with pytest.raises(RuntimeError, match="size"):
            active(*qkv)  # grouped heads without enable_gqa are torch's error
        with torch_sdpa.activated(cpu=False):
            pass
        assert F.scaled_dot_product_attention is active and torch_sdpa._cpu == place.emulated

        def fail(*args, **options):
            raise RuntimeError("no kernels")

        monkeypatch.setattr(torch_sdpa.compat, "scaled_dot_product_attention", fail)
        with pytest.raises(RuntimeError, match="no kernels"):
            active(pair, pair, pair)
        monkeypatch.setattr(torch_sdpa, "_has_kernels", lambda tensor: False)  # a GPU of another target
        assert active(pair, pair, pair).shape == pair.shape
    assert F.scaled_dot_product_attention is original


def test_transformers_plug_in(torch, place):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from waveattn.integrations import transformers as plug_in

    name = plug_in.activate()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=50
    )
    model = place.put(transformers.LlamaModel(config).eval())
    tokens = place.put(torch.arange(2 * 9).view(2, 9) % 50)
    with torch.no_grad(), place.chosen():
        model.set_attn_implementation("sdpa")
        expected = model(tokens).last_hidden_state
        model.set_attn_implementation(name)
        count = waveattn._core.emulated_instructions()
        actual = model(tokens).last_hidden_state
        assert not place.emulated or waveattn._core.emulated_instructions() > count
        padded = torch.ones_like(tokens)
        padded[0, :3] = 0
        with_mask = model(tokens, attention_mask=padded).last_hidden_state
    assert largest_difference(actual, expected.double().cpu().numpy()) <= 1e-4
    assert bool(torch.isfinite(with_mask).all())


def test_comfyui_function(torch, place):
    from waveattn.integrations import comfyui

    q, k, v = (place.put(torch.rand(2, 7, 4 * 32)) for _ in range(3))
    heads = [t.view(2, 7, 4, 32).transpose(1, 2) for t in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*heads)
    flat = expected.transpose(1, 2).reshape(2, 7, 128).double().cpu().numpy()
    with place.chosen():
        assert largest_difference(comfyui.attention(q, k, v, 4), flat) <= 1e-5
        assert largest_difference(comfyui.attention(*heads, 4, skip_reshape=True), flat) <= 1e-5
        kept = comfyui.attention(*heads, 4, skip_reshape=True, skip_output_reshape=True)
        assert largest_difference(kept, expected.double().cpu().numpy()) <= 1e-5
        assert largest_difference(comfyui.override(None, q, k, v, 4), flat) <= 1e-5
        mask = place.put(torch.zeros(7, 7))
        assert largest_difference(comfyui.attention(q, k, v, 4, mask=mask), flat) <= 1e-5


@pytest.mark.parametrize("mode", ["self", "cross", "image", "mask"])
def test_diffusers_processor(torch, place, mode):
    attention_processor = pytest.importorskip(
        "diffusers.models.attention_processor", reason="diffusers is not installed"
    )
    from waveattn.integrations.diffusers import WaveattnProcessor

    torch.manual_seed(0)
    options = {"query_dim": 64, "heads": 2, "dim_head": 32}
    if mode == "cross":
        options["cross_attention_dim"] = 48
    if mode == "image":
        options |= {"norm_num_groups": 4, "residual_connection": True}
    layer = place.put(attention_processor.Attention(**options).eval())
    x = place.put(torch.rand(2, 64, 3, 5) if mode == "image" else torch.rand(2, 9, 64))
    context = place.put(torch.rand(2, 6, 48)) if mode == "cross" else None
    mask = place.put(torch.zeros(2, 9)) if mode == "mask" else None
    with torch.no_grad(), place.chosen():
        expected = layer(x, encoder_hidden_states=context, attention_mask=mask)
        layer.set_processor(WaveattnProcessor())
        actual = layer(x, encoder_hidden_states=context, attention_mask=mask)
    assert largest_difference(actual, expected.double().cpu().numpy()) <= 1e-5


def test_backward_of_the_bare_operation_is_refused(torch, qkv):
    q, k, v = qkv
    out, _ = torch.ops.waveattn.flash_attention(q.requires_grad_(), k, v)
    with pytest.raises(NotImplementedError, match="no backward"):
        out.sum().backward()


def test_bare_operations_with_out_refuse_gradients(torch, qkv):
    q, k, v = qkv
    watched, out = q.detach().clone().requires_grad_(), torch.empty_like(q)
    ops = torch.ops.waveattn
    for operation, arguments in (
        (ops.flash_attention_out, (watched, k, v, out)),
        (ops.decode_out, (q, k, v, out.clone().requires_grad_())),
        (ops.softmax_out, (watched, out)),
    ):
        with pytest.raises(NotImplementedError, match="no backward pass"):
            operation(*arguments)
        with torch.no_grad():
            operation(*arguments)


def test_tensors_that_are_not_dense(torch, place, qkv):
    q, k, v = qkv
    with pytest.raises(ValueError, match="q must be a dense tensor, got one .* of layout torch.sparse_coo"):
        waveattn.flash_attention(q.to_sparse(), k, v, **place.options)
    with pytest.raises(ValueError, match="v must be a dense tensor"):
        waveattn.decode(q, k, v.to_sparse(), **place.options)
    with pytest.raises(ValueError, match="x must be a dense tensor"):
        waveattn.softmax(q.to_sparse(), **place.options)


def test_a_scale_that_changes_under_compile(torch, place, qkv):
    compiled = torch.compile(lambda q, k, v, scale: waveattn.flash_attention(q, k, v, scale=scale), fullgraph=True)
    with place.chosen():
        for scale in (0.125, 0.25, 0.5, 1):  # the second value makes it symbolic
            assert torch.equal(compiled(*qkv, scale), waveattn.flash_attention(*qkv, scale=scale))
