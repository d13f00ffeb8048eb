"""Which backend runs a call."""

from __future__ import annotations

import pytest

import waveattn
from waveattn import _registry


@pytest.fixture
def calls(monkeypatch):
    """Backends that only note their names, of several priorities; and the list that they note them in."""
    noted: list[str] = []

    def backend(name, **fields):
        defaults = {"targets": _registry.ALL_TARGETS, "dtypes": frozenset({"float32"})}
        return _registry.Backend(name=name, run=lambda *_: noted.append(name), **{**defaults, **fields})

    extra = [
        backend("rough", priority=40, automatic=False),
        backend("half", priority=30, dtypes=frozenset({"float16"})),
        backend("narrow", priority=20, supports=lambda p: None if p.head_dim == 64 else f"head_dim 64, not {p.head_dim}"),
        backend("plain", priority=10),
    ]
    monkeypatch.setitem(_registry._backends, "flash_attention", [*extra, *_registry.backends("flash_attention")])
    return noted


def test_auto_takes_the_best_that_covers_the_call(torch, place, calls):
    for dim, dtype, expected in ((64, torch.float32, "narrow"), (32, torch.float32, "plain"), (32, torch.float16, "half")):
        q = place.put(torch.rand(1, 1, 3, dim)).to(dtype)
        waveattn.flash_attention(q, q, q, **place.options)
        assert calls.pop() == expected and not calls


def test_a_backend_can_be_asked_for_by_name(torch, place, calls):
    q = place.put(torch.rand(1, 1, 3, 32))
    waveattn.flash_attention(q, q, q, backend="rough", **place.options)
    assert calls == ["rough"]
    with pytest.raises(NotImplementedError, match="head_dim 64, not 32"):
        waveattn.flash_attention(q, q, q, backend="narrow", **place.options)
    with pytest.raises(NotImplementedError, match="float16, got float32"):
        waveattn.flash_attention(q, q, q, backend="half", **place.options)


def test_the_error_of_auto_gives_every_reason(torch, place, calls):
    q = place.put(torch.rand(1, 1, 3, 300)).to(torch.float16)
    with pytest.raises(NotImplementedError, match=r"plain: .*float32.*scalar: .*256"):
        waveattn.flash_attention(*[q.to(torch.bfloat16)] * 3, **place.options)
    waveattn.flash_attention(q, q, q, **place.options)
    assert calls == ["half"]


def test_names_are_unique(calls):
    with pytest.raises(ValueError, match="registered already"):
        _registry.register(_registry.backends("flash_attention")[0])


def test_an_empty_result_needs_no_launch(torch, place, calls):
    q = place.put(torch.rand(1, 1, 0, 32))
    assert waveattn.flash_attention(q, q, q, **place.options).shape == q.shape and not calls
