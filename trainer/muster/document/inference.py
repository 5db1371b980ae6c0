"""Versions of models that a job reads, and the built-in programs that do something with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from .common import Bounds, Mark
from .training import Data

USED_MODELS_MAX = 8
"""Versions of models that one job reads."""
JOB_MODEL = "model"
"""Name under which a built-in program finds its version, among `models` and as a variable."""
ModelKey = Annotated[str, Bounds(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
ModelReference = Annotated[
    str,
    Bounds(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(:[1-9][0-9]{0,8}|@[a-z][a-z0-9_-]{0,31})?$",
    ),
]
"""`digits:3` is a version, `digits@production` what an alias names, `digits` the newest version."""


@dataclass(frozen=True, kw_only=True)
class UsedModel:
    """A version of a model by its number, as a submission resolves a reference."""

    model: Annotated[str, Bounds(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    """Name of the model."""
    version: Annotated[int, Bounds(ge=1, lt=2**31)]
    """Number of the version."""
    digest: Annotated[str, Bounds(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """Digest of its files. A submission fills it in; one that is written must be right."""


@dataclass(frozen=True, kw_only=True)
class EvaluateSection:
    """Judge a version of a model by samples, in place of `entrypoint` and `trainer`."""

    model: ModelReference
    """Version to judge: `digits:3`, `digits@production`, or `digits` for the newest one."""
    data: Annotated[Data, Mark.OWN_FUNCTION] = "digits"
    """Data set, as in `trainer.data`: `digits`, `shakespeare`, `synthetic`, or `module:function` of
    your `code`."""
    split: Literal["train", "val", "test"] = "test"
    """Part of the data set."""
    batch_size: Annotated[int, Bounds(ge=1, le=1_000_000)] = 256
    """Samples that go through the model at once."""


ExportFormat = Literal["safetensors", "hf", "pt2", "onnx"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)


@dataclass(frozen=True, kw_only=True)
class ExportSection:
    """Write a version of a model for other programs, in place of `entrypoint` and `trainer`."""

    model: ModelReference
    """Version to export: `digits:3`, `digits@production`, or `digits` for the newest one."""
    formats: Annotated[tuple[ExportFormat, ...], Bounds(min_length=1, max_length=4)] = (
        "safetensors",
    )
    """What to write: `safetensors`, the weights as one file; `hf`, a Hugging Face folder (models of
    `model: gpt`); `pt2`, a program of torch.export; `onnx`, which needs the packages onnx and
    onnxscript. Each is loaded again, and its answers are compared with those of the checkpoint."""


UseKind = Literal["input", "export", "evaluation", "prediction", "deployment"]
"""What an experiment does with a version of a model."""


@dataclass(frozen=True, kw_only=True)
class JobProgram:
    """A built-in program that a section of the document starts."""

    module: str
    """Module that a worker runs."""
    use: UseKind
    slots_max: int | None = None
    """Most slots that it makes use of; None for any number."""


TRAINER_MODULE = "muster.training"
PROGRAMS: Mapping[str, JobProgram] = MappingProxyType(
    {
        "evaluate": JobProgram(module="muster.inference.evaluate", use="evaluation", slots_max=1),
        "export": JobProgram(module="muster.inference.export", use="export", slots_max=1),
    }
)
"""Programs by the section of the document that stands in place of `entrypoint` and `trainer`. Each
section has a key `model`, which is the same as `models: {model: …}`."""
BUILT_IN_MODULES = frozenset({TRAINER_MODULE, *(program.module for program in PROGRAMS.values())})
