"""The main job: attention inputs of a real transformer through every target's code object, against references.

The inputs are those of three layers of all-MiniLM-L6-v2 (12 heads, 85 tokens, head_dim 32), captured by
``scripts/capture_attention.py`` of the source tree. Each kernel gets them in each dtype that it takes and is compared
with float64 on the very values that it got, and with torch's SDPA in fp32 where torch is there.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import io
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

from . import _core, _registry, _runtime, flash_attention

_DTYPES = ("float32", "float16", "bfloat16")


@dataclasses.dataclass
class Row:
    """A line of the table: one kernel in one dtype on one device, over all layers."""

    target: str
    kernel: str
    shape: str
    max_error: float
    cosine: float
    torch_error: float | None
    instructions: int | None
    seconds: float
    head_errors: list[float]  # of all layers in turn


class Progress:
    """A bar on a terminal's stderr, from two seconds on."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.start, self.width = total, 0, time.monotonic(), 0

    def step(self, text: str) -> None:
        """Announces the next piece of work."""
        if sys.stderr.isatty() and time.monotonic() - self.start > 2:
            filled = 30 * self.done // self.total
            line = f"[{'#' * filled}{'.' * (30 - filled)}] {self.done}/{self.total} {text}"
            sys.stderr.write("\r" + line.ljust(self.width))
            sys.stderr.flush()
            self.width = len(line)
        self.done += 1

    def close(self) -> None:
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()


def load_inputs() -> list[tuple[Any, Any, Any]]:
    """(q, k, v) of each captured layer: numpy float32 (1, heads, tokens, head_dim)."""
    import numpy as np

    data = importlib.resources.files(__package__).joinpath("data/minilm_attention.npz").read_bytes()
    with np.load(io.BytesIO(data)) as archive:
        layers = sorted({int(name[1:]) for name in archive.files})
        return [
            (
                archive[f"q{layer}"][None].astype(np.float32),
                archive[f"k{layer}"][None].astype(np.float32),
                archive[f"v{layer}"][None].astype(np.float32),
            )
            for layer in layers
        ]


def reference(q: Any, k: Any, v: Any) -> Any:
    """Attention in float64."""
    import numpy as np

    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("bhij,bhjd->bhid", weights / weights.sum(axis=-1, keepdims=True), v)


class _Arrays:
    """Makes tensors of a dtype and takes results back: by torch where it is there, else by numpy without bfloat16."""

    def __init__(self) -> None:
        try:
            import torch
        except ImportError:
            torch = None  # type: ignore[assignment]
        self.torch: Any = torch

    def dtypes(self) -> tuple[str, ...]:
        return _DTYPES if self.torch else _DTYPES[:2]

    def make(self, array: Any, dtype: str, gpu: bool) -> Any:
        if self.torch is None:
            return array.astype(dtype)
        tensor = self.torch.from_numpy(array).to(getattr(self.torch, dtype))
        return tensor.to("cuda") if gpu else tensor

    def values(self, tensor: Any) -> Any:
        return tensor.astype("float64") if self.torch is None else tensor.cpu().double().numpy()

    def sdpa(self, q: Any, k: Any, v: Any) -> Any:
        """torch's own attention in fp32 on the CPU, or None."""
        if self.torch is None:
            return None
        tensors = (self.torch.from_numpy(x) for x in (q, k, v))
        return self.torch.nn.functional.scaled_dot_product_attention(*tensors).double().numpy()


def _jobs(arrays: _Arrays, wanted: list[str]) -> Iterator[tuple[dict[str, Any], _registry.Backend, str]]:
    """Device, backend and dtype of every row."""
    gpus = _runtime.gpu_devices()[:1] if arrays.torch is not None and arrays.torch.cuda.is_available() else []
    for device in [*gpus, *_runtime.emulated_devices()]:
        if device["target"] == "unsupported" or (wanted and device["target"] not in wanted):
            continue
        if not _runtime.has_code(device["ordinal"]):
            print(f"{device['target']} is left out: this build has code for {_core.targets}")
            continue
        for backend in reversed(_registry.backends("flash_attention")):
            if device["target"] in backend.targets:
                for dtype in arrays.dtypes():
                    if dtype in backend.dtypes:
                        yield device, backend, dtype


def run(layers: int, wanted: list[str]) -> list[Row]:
    """Computes all rows."""
    import numpy as np

    arrays = _Arrays()
    inputs = load_inputs()[:layers]
    jobs = list(_jobs(arrays, wanted))
    progress = Progress(len(jobs) * len(inputs))
    rows = []
    for device, backend, dtype in jobs:
        gpu = not device["emulated"]
        errors, torch_errors, products, norms = [], [], 0.0, [0.0, 0.0]
        instructions = _core.emulated_instructions()
        seconds = 0.0
        refusal = None
        for q, k, v in inputs:
            progress.step(f"{device['target']} {backend.name} {dtype}")
            tensors = [arrays.make(x, dtype, gpu) for x in (q, k, v)]
            start = time.perf_counter()
            try:
                out = flash_attention(*tensors, backend=backend.name, device=None if gpu else device["target"])
            except NotImplementedError as error:  # a kernel for other shapes
                refusal = error
                continue
            values = arrays.values(out)
            seconds += time.perf_counter() - start
            exact = reference(*(arrays.values(t) for t in tensors))
            difference = np.abs(values - exact)
            difference[~np.isfinite(difference)] = np.inf
            errors += difference.max(axis=(0, 2, 3)).tolist()
            products += float((values * exact).sum())
            norms[0] += float((values**2).sum())
            norms[1] += float((exact**2).sum())
            of_torch = arrays.sdpa(q, k, v)
            if of_torch is not None:
                torch_errors.append(float(np.abs(values - of_torch).max()))
        if refusal is not None:
            continue
        batch, heads, tokens, dim = inputs[0][0].shape
        rows.append(
            Row(
                target=device["target"] + (" (GPU)" if gpu else ""),
                kernel=f"{backend.name} {dtype}",
                shape=f"{len(inputs)}x({batch}, {heads}, {tokens}, {dim})",
                max_error=max(errors),
                cosine=products / (norms[0] * norms[1]) ** 0.5,
                torch_error=max(torch_errors) if torch_errors else None,
                instructions=None if gpu else _core.emulated_instructions() - instructions,
                seconds=seconds,
                head_errors=errors,
            )
        )
    progress.close()
    return rows


def table(rows: list[Row]) -> str:
    """The rows as text."""
    header = ("target", "kernel", "shape", "max error", "cosine", "vs torch", "instructions", "seconds")
    cells = [header]
    for row in rows:
        cells.append(
            (
                row.target,
                row.kernel,
                row.shape,
                f"{row.max_error:.1e}",
                f"{row.cosine:.9f}",
                "-" if row.torch_error is None else f"{row.torch_error:.1e}",
                "-" if row.instructions is None else f"{row.instructions:,}",
                f"{row.seconds:.2f}",
            )
        )
    widths = [max(len(line[i]) for line in cells) for i in range(len(header))]
    left = (0, 1, 2)
    lines = [
        "  ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths)))
        for line in cells
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def draw(rows: list[Row], path: str) -> str:
    """Writes the picture, error for each head and target; returns its path (.svg where matplotlib is missing)."""
    from . import _picture

    labels = [f"{row.target}  {row.kernel}" for row in rows]
    return _picture.heat_map(
        labels,
        [row.head_errors for row in rows],
        path,
        title="waveattn: max |error| against float64, by head",
        columns="head (12 in each layer)",
        group=12,
    )


def main(picture: str, targets: list[str], layers: int) -> int:
    """Runs the job, prints the table, writes the picture. Returns an exit code: 1 where a result is not accurate."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("the demo needs numpy: pip install waveattn[demo]", file=sys.stderr)
        return 2
    warnings.filterwarnings("ignore", message="waveattn: CPU tensors are computed")
    known = sorted(_registry.ALL_TARGETS)
    for name in targets:
        if name not in known:
            print(f"unknown target {name!r}; there are {', '.join(known)}", file=sys.stderr)
            return 2
    start = time.perf_counter()
    rows = run(layers, targets)
    if not rows:
        print("nothing could be run:", _runtime.emulator()["tried"] or "no device that this build has code for", file=sys.stderr)
        return 1
    print("Attention inputs of all-MiniLM-L6-v2; error and cosine against float64 on the same inputs.")
    print("Emulated devices execute the compiled code objects on the CPU; instructions are those of whole waves.\n")
    print(table(rows))
    print(f"\n{len(rows)} kernels in {time.perf_counter() - start:.1f} s. Picture: {draw(rows, picture)}")
    inaccurate = [row for row in rows if not row.cosine > 0.99]
    for row in inaccurate:
        print(f"NOT ACCURATE: {row.target} {row.kernel}", file=sys.stderr)
    return 1 if inaccurate else 0
