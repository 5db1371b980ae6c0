"""Texts that need no download, cut into windows. A token is a byte, so any text will do."""

from __future__ import annotations

from importlib import resources

import torch
from torch import Tensor

from muster.document.train_config import ConfigError

from .base import Dataset

VOCABULARY = 256
_PARTS = 10
"""The text is cut into so many parts, and the last tenth of each is held out, so that no part has
all its plays in one split."""


def shakespeare(context: int) -> Dataset:
    """Nine plays, 1.1 MB: nine tenths to train, a twentieth each to validate and to test."""
    text = resources.files("muster.training.data").joinpath("texts/shakespeare.txt").read_bytes()
    return windows(text, context)


def windows(text: bytes, context: int) -> Dataset:
    """Samples of `context` tokens that do not overlap, each with the token that follows it.

    Raises ConfigError when the held-out texts are shorter than one window.
    """
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    train, val, test = [], [], []
    for part in torch.tensor_split(tokens, _PARTS):
        cut, cut_test = len(part) * 9 // 10, len(part) * 19 // 20
        train.append(part[:cut])
        val.append(part[cut:cut_test])
        test.append(part[cut_test:])
    longest = min(sum(map(len, pieces)) for pieces in (train, val, test)) - 1
    if context > longest:
        raise ConfigError(
            f"context: {context} is more than the {max(longest, 0)} tokens that are held out of this text"
        )
    (train_x, train_y), (val_x, val_y), (test_x, test_y) = (
        _windows(torch.cat(pieces), context) for pieces in (train, val, test)
    )
    return Dataset(
        train_x=train_x,
        train_y=train_y,
        val_x=val_x,
        val_y=val_y,
        test_x=test_x,
        test_y=test_y,
        classes=VOCABULARY,
    )


def _windows(tokens: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """Views, no copies: x [n, context] and y, the same one token later."""
    both = tokens.unfold(0, context + 1, context)
    return both[:, :-1], both[:, 1:]
