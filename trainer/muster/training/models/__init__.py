"""The models of the built-in trainer, by name."""

from __future__ import annotations

import torch
from torch import nn

from muster.training.config import ConfigError, TrainConfig

from .images import ResNet, cnn, mlp
from .transformer import GPT, ViT

__all__ = ["GPT", "ResNet", "ViT", "build"]


def build(config: TrainConfig, *, inputs: tuple[int, ...], classes: int) -> nn.Module:
    """The model, initialised from config.seed.

    inputs: shape of one sample, (channels, side, side) of an image or (tokens,) of a text.
    classes: number of classes, or of different tokens.
    Raises ConfigError when the model cannot take such inputs.
    """
    torch.manual_seed(config.seed)
    width, depth, dropout = config.width, config.depth, config.dropout
    is_text = len(inputs) == 1
    if is_text != (config.model == "gpt"):
        raise ConfigError(
            f"model: {config.model} reads {'texts' if config.model == 'gpt' else 'images'}, and "
            f"data: {config.data} holds {'texts' if is_text else 'images'}"
        )
    if config.model in ("gpt", "vit") and width % config.heads:
        raise ConfigError(f"width: {width} cannot be divided by heads, which is {config.heads}")
    if config.model == "gpt":
        return GPT(
            classes,
            context=inputs[0],
            width=width,
            depth=depth,
            heads=config.heads,
            dropout=dropout,
        )
    image = (inputs[0], inputs[1], inputs[2])
    if config.model == "vit":
        if image[1] % config.patch or image[2] % config.patch:
            raise ConfigError(
                f"patch: images of {image[1]}×{image[2]} cannot be cut into patches of {config.patch}"
            )
        return ViT(
            image,
            classes,
            patch=config.patch,
            width=width,
            depth=depth,
            heads=config.heads,
            dropout=dropout,
        )
    makers = {"mlp": mlp, "cnn": cnn, "resnet": ResNet}
    return makers[config.model](image, classes, width=width, depth=depth, dropout=dropout)
