"""A transformer block, and the two models made of it: a language model and an image classifier.

Written so that it can be split: `blocks` is a list that a pipeline cuts into stages, and every
matrix is a Linear layer of its own (query, key, value and out; up and down), which tensor
parallelism shards by columns and by rows. Heads are counted from the shape of what arrives, so a
rank that holds some of the columns computes some of the heads.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

INIT_STD = 0.02


class Attention(nn.Module):
    """Multi-head self-attention, [n, t, width] → [n, t, width]."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.head_size = width // heads
        self.causal = causal
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.head_size)).transpose(1, 2)  # [n, heads, t, head_size]
            for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        out: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return out


class MLP(nn.Module):
    """width → 4 × width → width, with GELU between."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(x)))
        return out


class Block(nn.Module):
    """Pre-norm: x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width: int, heads: int, *, causal: bool, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal=causal)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = MLP(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        out: Tensor = x + self.dropout(self.mlp(self.norm2(x)))
        return out


class GPT(nn.Module):
    """Language model: tokens [n, t ≤ context] → logits of the next token [n, t, vocabulary].

    The head does not share the embedding's weights: they lie at the two ends of a pipeline.
    """

    def __init__(
        self, vocabulary: int, *, context: int, width: int, depth: int, heads: int, dropout: float
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, causal=True, dropout=dropout) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        initialise(self, depth)

    ENTRY = ("tokens", "positions", "dropout")
    EXIT = ("norm", "head")

    def enter(self, tokens: Tensor) -> Tensor:
        """Return the input of the first block. Uses the members in ENTRY."""
        x = self.tokens(tokens) + self.positions(
            torch.arange(tokens.shape[1], device=tokens.device)
        )
        out: Tensor = self.dropout(x)
        return out

    def leave(self, x: Tensor) -> Tensor:
        """Return the output for that of the last block. Uses the members in EXIT."""
        out: Tensor = self.head(self.norm(x))
        return out

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.enter(tokens)
        for block in self.blocks:
            x = block(x)
        return self.leave(x)


class ViT(nn.Module):
    """Image classifier: [n, channels, side, side], cut into patches → logits [n, classes].

    Averages the patches instead of having a class token (arXiv:2205.01580): all of them have the
    same shape, and there is none to be kept out of a split along the sequence.
    """

    def __init__(
        self,
        inputs: tuple[int, int, int],
        classes: int,
        *,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        dropout: float,
    ) -> None:
        super().__init__()
        channels, rows, columns = inputs
        num_patches = (rows // patch) * (columns // patch)
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.positions = nn.Embedding(num_patches, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, causal=False, dropout=dropout) for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        initialise(self, depth)

    ENTRY = ("patches", "positions", "dropout")
    EXIT = ("norm", "head")

    def enter(self, images: Tensor) -> Tensor:
        """Return the input of the first block. Uses the members in ENTRY."""
        x = self.patches(images).flatten(2).transpose(1, 2)  # [n, patches, width]
        out: Tensor = self.dropout(x + self.positions(torch.arange(x.shape[1], device=x.device)))
        return out

    def leave(self, x: Tensor) -> Tensor:
        """Return the output for that of the last block. Uses the members in EXIT."""
        out: Tensor = self.head(self.norm(x).mean(dim=1))
        return out

    def forward(self, images: Tensor) -> Tensor:
        x = self.enter(images)
        for block in self.blocks:
            x = block(x)
        return self.leave(x)


def initialise(model: nn.Module, depth: int) -> None:
    """Initialize a model as in GPT-2: normal with a standard deviation of 0.02, and biases 0.

    The standard deviation of layers that add to the residual stream is divided by √(2 × depth), so
    that the stream's variance does not grow with depth.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d):
            into_residual = name.endswith((".attention.out", ".mlp.down"))
            std = INIT_STD / (2 * depth) ** 0.5 if into_residual else INIT_STD
            nn.init.normal_(module.weight, std=std)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]
