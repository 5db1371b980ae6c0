"""`config.json` of a version: what rebuilds the module whose weights lie in `model.safetensors`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from .train_config import TrainConfig
from .trainer_settings import SIDES, TEXTS, is_own

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
FORMAT = "muster-model"
FORMAT_VERSION = 1
BYTES = 256
"""Different tokens of a text: a token is a byte."""
IMAGE_CLASSES = 10
"""Classes of the images that come with the trainer."""
CONFIG_MAX_BYTES = 64 << 10
_REBUILDS = ("model", "width", "depth", "heads", "context", "patch", "dropout")
"""Settings of the trainer that a module is built from."""


class BadModelConfig(ValueError):
    """A `config.json` that does not describe a model of the built-in trainer."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A model of the built-in trainer."""

    trainer: Mapping[str, Any]
    """Settings that rebuild the module: model, width, depth, heads, context, patch, dropout."""
    data: str
    """Data set that it was trained with, as in `trainer.data`."""
    shape: tuple[int, ...] | None
    """Shape of one sample; None where only the user's own data tell."""
    dtype: str
    """Type of the samples: float32, or int64 for tokens."""
    classes: int | None
    """Number of classes, or of different tokens; None where only the user's own data tell."""

    @classmethod
    def of(cls, config: TrainConfig) -> Self:
        """Return the description of what a training with these settings makes."""
        shape: tuple[int, ...] | None = None
        classes: int | None = None
        is_text = config.data in TEXTS or config.model == "gpt"
        if config.data in TEXTS:
            shape, classes = (config.context,), BYTES
        elif not is_own(config.data):
            side = SIDES[config.data]
            shape, classes = (1, side, side), IMAGE_CLASSES
        return cls(
            trainer={name: getattr(config, name) for name in _REBUILDS},
            data=config.data,
            shape=shape,
            dtype="int64" if is_text else "float32",
            classes=classes,
        )

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Read a `config.json`. Raises BadModelConfig."""
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadModelConfig(f"{CONFIG_FILE} is not JSON: {error}") from error
        if not isinstance(given, dict) or given.get("format") != FORMAT:
            raise BadModelConfig(
                f"{CONFIG_FILE} does not describe a model of the built-in trainer: its format is "
                f"not {FORMAT!r}"
            )
        if given.get("format_version") != FORMAT_VERSION:
            raise BadModelConfig(
                f"{CONFIG_FILE} has format_version {given.get('format_version')!r}, and this version "
                f"of Muster reads {FORMAT_VERSION}"
            )
        try:
            inputs, trainer = given["inputs"], given["trainer"]
            shape = inputs["shape"]
            return cls(
                trainer={name: trainer[name] for name in _REBUILDS},
                data=str(given["data"]),
                shape=None if shape is None else tuple(int(n) for n in shape),
                dtype=str(inputs["dtype"]),
                classes=None if given["classes"] is None else int(given["classes"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadModelConfig(f"{CONFIG_FILE} lacks or misstates {error}") from error

    def text(self) -> str:
        """Return the content of `config.json`; equal models have equal texts."""
        document = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "trainer": dict(self.trainer),
            "data": self.data,
            "inputs": {
                "shape": None if self.shape is None else list(self.shape),
                "dtype": self.dtype,
            },
            "classes": self.classes,
        }
        return json.dumps(document, indent=2) + "\n"

    def train_config(self) -> TrainConfig:
        """Return the settings from which `muster.training.models.build` builds the module. Raises
        BadModelConfig."""
        try:
            return TrainConfig(**self.trainer, data=self.data)  # type: ignore[arg-type]
        except TypeError as error:
            raise BadModelConfig(f"{CONFIG_FILE}: {error}") from error
