"""The module of a version, rebuilt from `config.json` and `model.safetensors`.

Nothing else of the folder is read: files that can run code when they are loaded never are.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.document.model_config import (
    CONFIG_FILE,
    CONFIG_MAX_BYTES,
    WEIGHTS_FILE,
    BadModelConfig,
    ModelConfig,
)
from muster.document.train_config import ConfigError
from muster.wire import MODEL_MANIFEST

if TYPE_CHECKING:
    from torch import nn

NAMES_SHOWN = 3
_PICKLED = (".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pt2", ".pth")


class CannotLoad(Exception):
    """A folder that holds no model which can be rebuilt; the message is a sentence for people."""


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model that is ready to be called."""

    module: nn.Module
    """In eval mode, on the device that was asked for."""
    config: ModelConfig
    inputs: tuple[int, ...]
    """Shape of one sample."""
    classes: int
    """Number of classes, or of different tokens."""

    @property
    def num_parameters(self) -> int:
        return sum(p.numel() for p in self.module.parameters())


def load(folder: Path | str, *, device: Any = "cpu") -> LoadedModel:
    """Rebuild the model in a folder, as an agent or `muster model pull` has left it there.

    The user's own functions are imported from the current folder. device: anything that
    `torch.device` takes. Raises CannotLoad when a file is missing, damaged or of another model.
    """
    folder = Path(folder)
    config = read_config(folder)
    _verify(folder)
    try:
        inputs, classes, module = _build(config)
    except (ConfigError, BadModelConfig) as error:
        raise CannotLoad(f"The model of {folder} cannot be rebuilt: {error}.") from error
    _fill(module, folder / WEIGHTS_FILE)
    return LoadedModel(
        module=module.to(device).eval(), config=config, inputs=inputs, classes=classes
    )


def read_config(folder: Path) -> ModelConfig:
    """Return the description of the model in a folder. Raises CannotLoad."""
    weights, path = folder / WEIGHTS_FILE, folder / CONFIG_FILE
    if not weights.is_file():
        names = sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []
        pickled = [name for name in names if name.endswith(_PICKLED)]
        if pickled:
            raise CannotLoad(
                f"{pickled[0]} is not loaded: files of this kind can run code, and only "
                f"{WEIGHTS_FILE} is read. Save the weights as {WEIGHTS_FILE} with a {CONFIG_FILE}."
            )
        raise CannotLoad(
            f"{folder} has no {WEIGHTS_FILE}: it holds {', '.join(names) or 'nothing'}."
        )
    if not path.is_file():
        raise CannotLoad(
            f"{folder} has no {CONFIG_FILE}, without which the module of {WEIGHTS_FILE} cannot be "
            "rebuilt. Register its checkpoint again (`muster model register NAME --checkpoint N`): the "
            "new version has one."
        )
    if path.stat().st_size > CONFIG_MAX_BYTES:
        raise CannotLoad(f"{CONFIG_FILE} has more than {CONFIG_MAX_BYTES:,} bytes.")
    try:
        return ModelConfig.read(path.read_bytes())
    except BadModelConfig as error:
        raise CannotLoad(f"{error}.") from error


def _verify(folder: Path) -> None:
    """Compare the files that are read with the digests of the version, where they are known. Raises
    CannotLoad."""
    manifest = folder / MODEL_MANIFEST
    if not manifest.is_file():
        return
    digests = json.loads(manifest.read_text())["files"]
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        with (folder / name).open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
        if digests.get(name, found) != found:
            raise CannotLoad(
                f"{name} in {folder} is not the file of the version: its SHA-256 is {found}, not "
                f"{digests[name]}."
            )


def _build(config: ModelConfig) -> tuple[tuple[int, ...], int, nn.Module]:
    from muster.training import models
    from muster.training.data.shapes import shape_of

    settings = config.train_config()
    if config.shape is None or config.classes is None:
        sample = shape_of(settings)  # Only the user's own data tell.
        inputs, classes = sample.inputs, sample.classes
    else:
        inputs, classes = config.shape, config.classes
    return inputs, classes, models.build(settings, inputs=inputs, classes=classes)


def _fill(module: nn.Module, path: Path) -> None:
    """Load the weights of a file into a module, all of them and no others. Raises CannotLoad."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CannotLoad(f"{path.name} is damaged: {error}.") from error
    wanted = {name: tuple(t.shape) for name, t in module.state_dict().items()}
    given = {name: tuple(t.shape) for name, t in tensors.items()}
    differences = [
        *(f"{name} is missing" for name in sorted(wanted.keys() - given.keys())),
        *(f"{name} is not a tensor of the model" for name in sorted(given.keys() - wanted.keys())),
        *(
            f"{name} is {list(given[name])} instead of {list(wanted[name])}"
            for name in sorted(wanted.keys() & given.keys())
            if wanted[name] != given[name]
        ),
    ]
    if differences:
        more = f" and {len(differences) - NAMES_SHOWN} more" if differences[NAMES_SHOWN:] else ""
        raise CannotLoad(
            f"{path.name} does not fit the model that {CONFIG_FILE} describes: "
            f"{', '.join(differences[:NAMES_SHOWN])}{more}."
        )
    module.load_state_dict(tensors, strict=True)
