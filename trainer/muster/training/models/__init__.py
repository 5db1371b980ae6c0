"""The models of the built-in trainer, by name."""

from __future__ import annotations

import torch
from torch import nn

from muster.document.train_config import ConfigError, TrainConfig
from muster.training import own

from .images import ResNet, cnn, mlp
from .transformer import GPT, ViT

_NOT_IMAGES = {"shakespeare": "texts"}
__all__ = ["GPT", "ResNet", "ViT", "build"]


def build(config: TrainConfig, *, inputs: tuple[int, ...], classes: int) -> nn.Module:
    """Return the model, initialised from config.seed.

    inputs: shape of one sample, (channels, side, side) of an image or (tokens,) of a text.
    classes: number of classes, or of different tokens.
    Raises ConfigError when the model cannot take such inputs.
    """
    torch.manual_seed(config.seed)
    if own.is_own(config.model):
        return own.model(config.model, inputs=inputs, classes=classes)
    width, depth, dropout = config.width, config.depth, config.dropout
    wanted = {"gpt": "texts", "mlp": "images or rows of numbers"}.get(config.model, "images")
    held = "images" if len(inputs) == 3 else _NOT_IMAGES.get(config.data, "other samples")
    fits = held in wanted or (held == "other samples" and config.model in ("gpt", "mlp"))
    if not fits:
        raise ConfigError(
            f"model: {config.model} reads {wanted}, and data: {config.data} holds {held}"
        )
    if config.model == "gpt":
        return GPT(
            classes,
            context=inputs[0],
            width=width,
            depth=depth,
            heads=config.heads,
            dropout=dropout,
        )
    if config.model == "mlp":
        return mlp(inputs, classes, width=width, depth=depth, dropout=dropout)
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
    makers = {"cnn": cnn, "resnet": ResNet}
    return makers[config.model](image, classes, width=width, depth=depth, dropout=dropout)
