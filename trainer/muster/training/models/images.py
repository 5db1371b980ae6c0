"""Small image classifiers. None uses batch statistics: with BatchNorm the result would depend on
how a batch is split over workers, and could not be checked against a single process."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def mlp(
    inputs: tuple[int, ...], classes: int, *, width: int, depth: int, dropout: float
) -> nn.Module:
    """`depth` hidden layers of `width` units."""
    layers: list[nn.Module] = [nn.Flatten()]
    num_in = math.prod(inputs)
    for _ in range(depth):
        layers += [nn.Linear(num_in, width), nn.ReLU(), nn.Dropout(dropout)]
        num_in = width
    return nn.Sequential(*layers, nn.Linear(num_in, classes))


def cnn(
    inputs: tuple[int, int, int], classes: int, *, width: int, depth: int, dropout: float
) -> nn.Module:
    """`depth` convolutions at full and at half resolution, of `width` and 2 × `width` channels."""
    layers: list[nn.Module] = []
    channels_in, channels = inputs[0], width
    for _ in range(2):
        for _ in range(depth):
            layers += [nn.Conv2d(channels_in, channels, 3, padding=1), nn.ReLU()]
            channels_in = channels
        layers.append(nn.MaxPool2d(2))
        channels *= 2
    features = channels_in * (inputs[1] // 4) * (inputs[2] // 4)
    head = [nn.Linear(features, 128), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Flatten(), *head, nn.Linear(128, classes))


class ResNet(nn.Module):
    """`depth` residual blocks at full and at half resolution, with GroupNorm before each
    convolution."""

    def __init__(
        self,
        inputs: tuple[int, int, int],
        classes: int,
        *,
        width: int,
        depth: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(inputs[0], width, 3, padding=1)
        blocks: list[nn.Module] = []
        channels = width
        for stage in range(2):
            for i in range(depth):
                down = stage > 0 and i == 0
                channels_out = channels * 2 if down else channels
                blocks.append(_Block(channels, channels_out, stride=2 if down else 1))
                channels = channels_out
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.GroupNorm(_groups(channels), channels)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm(self.blocks(self.stem(x))))
        out: Tensor = self.head(self.dropout(y.mean(dim=(2, 3))))
        return out


class _Block(nn.Module):
    """x + conv(norm(relu(…))), twice; the shortcut is a 1×1 convolution where shapes change."""

    def __init__(self, channels_in: int, channels: int, *, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(_groups(channels_in), channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(_groups(channels), channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        same = stride == 1 and channels_in == channels
        self.shortcut: nn.Module = (
            nn.Identity() if same else nn.Conv2d(channels_in, channels, 1, stride=stride)
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(torch.relu(self.norm1(x)))
        y = self.conv2(torch.relu(self.norm2(y)))
        out: Tensor = self.shortcut(x) + y
        return out


def _groups(channels: int) -> int:
    """Return the largest number of groups up to 8 that divides `channels`."""
    return next(n for n in (8, 4, 2, 1) if channels % n == 0)
