"""Where the tests run: on each emulated target, or with WAVEATTN_TEST_DEVICE=gpu on the GPU at hand.

WAVEATTN_TEST_FULL=1 adds the long lists.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
TARGETS = ("gfx1030", "gfx1200", "gfx942", "gfx950")
FULL = os.environ.get("WAVEATTN_TEST_FULL", "0") not in ("", "0")

warnings.filterwarnings("ignore", message="waveattn: CPU tensors are computed")


def _gpu_wanted() -> bool:
    wanted = os.environ.get("WAVEATTN_TEST_DEVICE", "")
    if wanted:
        return wanted == "gpu"
    import waveattn

    return waveattn.is_available()


GPU = _gpu_wanted()


@dataclasses.dataclass(frozen=True)
class Place:
    """A device under test: how to put torch tensors on it, and what to pass to waveattn for it."""

    name: str
    emulated: bool

    @property
    def options(self) -> dict[str, Any]:
        return {"device": self.name} if self.emulated else {}

    def put(self, tensor: Any) -> Any:
        return tensor if self.emulated else tensor.to("cuda")

    @contextlib.contextmanager
    def chosen(self) -> Iterator[None]:
        """Makes it the device of CPU tensors by the environment, for functions without the argument."""
        with pytest.MonkeyPatch.context() as patch:
            if self.emulated:
                patch.setenv("WAVEATTN_EMULATED_DEVICE", self.name)
            yield


@pytest.fixture(params=["gpu"] if GPU else TARGETS)
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.param, emulated=not GPU)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def numpy_only() -> None:
    """For tests of CPU arrays, which run on the emulator only."""
    if GPU:
        pytest.skip("CPU arrays run on the emulator; the tests run on a GPU")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("full") and not FULL:
            item.add_marker(pytest.mark.skip(reason="long list: set WAVEATTN_TEST_FULL=1"))


def run_python(code: str, *, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a fresh interpreter, with variables added to the environment."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
    )
    if check:
        assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


# ---- the oracle ----


def attention_oracle(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    causal: str | None = None,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Attention in float64, (B, H, S, D). A row without visible keys gives 0 and -inf; hidden values take no part."""
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    sq, sk = q.shape[2], k.shape[2]
    scores = np.einsum("bhid,bhjd->bhij", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    visible = np.ones((sq, sk), dtype=bool)
    if causal is not None:
        offset = 0 if causal == "top_left" else sk - sq
        visible = np.arange(sk)[None, :] <= np.arange(sq)[:, None] + offset
    scores = np.where(visible, scores, -np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        weights = np.where(visible, np.exp(scores - np.where(np.isfinite(top), top, 0.0)), 0.0)
        total = weights.sum(axis=-1, keepdims=True)
        out = np.einsum("bhij,bhjd->bhid", weights / np.where(total > 0, total, 1.0), np.nan_to_num(v, nan=0.0))
        seen = np.broadcast_to(visible.astype(float), scores.shape)
        out = np.where(np.einsum("bhij,bhjd->bhid", seen, np.isnan(v).astype(float)) > 0, np.nan, out)
        lse = np.where(total[..., 0] > 0, np.log(total[..., 0]) + np.where(np.isfinite(top), top, 0.0)[..., 0], -np.inf)
    return out, lse


def largest_difference(actual: Any, expected: np.ndarray) -> float:
    """The largest absolute difference; infinity where one of a pair is not finite and the other is not the same."""
    if hasattr(actual, "detach"):
        actual = actual.detach().to("cpu").double().numpy()
    actual, expected = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    if actual.size == 0:
        return 0.0
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(actual - expected))
    return float(np.where(np.isnan(difference), np.inf, difference).max())
