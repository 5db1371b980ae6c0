"""Versions of models that a job reads, and the built-in programs that do something with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from .common import Bounds, Mark, Text
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


OwnFunction = Annotated[
    str,
    Bounds(
        max_length=256,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
    ),
]


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


@dataclass(frozen=True, kw_only=True)
class PredictSection:
    """Let a version of a model predict many rows, in place of `entrypoint` and `trainer`. Workers share
    the rows; every row is in the results once, whatever fails meanwhile."""

    model: ModelReference
    """Version to use: `digits:3`, `digits@production`, or `digits` for the newest one."""
    inputs: Annotated[tuple[Text, ...], Bounds(min_length=1, max_length=100)]
    """Absolute paths or patterns of files with rows, which every node sees under the same name:
    `/data/rows/*.parquet`, `*.jsonl`, `*.jsonl.gz`, or folders of images, for a
    `function`. Text, or a list. Files that
    change while the job runs are an error."""
    function: OwnFunction | None = None
    """`module:function` of your `code`, which gets a list of rows and returns a list with one prediction
    for each. It finds the folder of the version as `MUSTER_MODEL_MODEL`. Default: the model of the
    built-in trainer in the version is called."""
    column: Annotated[str, Bounds(min_length=1, max_length=256)] | None = None
    """Column with the inputs of a built-in model. Default: the only one beside `key`."""
    key: Annotated[str, Bounds(min_length=1, max_length=256)] | None = None
    """Column that stands beside each prediction. Default: name of the file, and number of the row."""
    batch_size: Annotated[int, Bounds(ge=1, le=1_000_000)] = 256
    """Rows that go through the model at once."""
    shard_rows: Annotated[int, Bounds(ge=1, le=100_000_000)] | None = None
    """Rows that a worker takes at once, rounded up to whole batches. The rows of a row group of Parquet
    are never divided. Default: 2000, or more if that made more than 2000 shards."""
    max_errors: Annotated[float, Bounds(ge=0, le=1)] = 0.0
    """Share of the rows that may fail. They are listed in `errors-*.jsonl`; beyond it, the job fails."""
    lease_s: Annotated[float, Bounds(ge=2, le=86_400)] = 120.0
    """Seconds after which the rows of a silent worker are given to others. A batch may take half of it:
    then its process is killed and started again, as if it had crashed."""


@dataclass(frozen=True, kw_only=True)
class ServeSection:
    """Answer requests with a version of a model until stopped, in place of `entrypoint` and `trainer`.
    `muster deploy` starts such jobs and routes requests to them."""

    model: ModelReference
    """Version to serve: `digits:3`, `digits@production`, or `digits` for the newest one."""
    name: Annotated[str, Bounds(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None
    """Name of the model in requests. Default: that of the model."""
    listen: Literal["loopback", "node"] = "loopback"
    """Where it listens, on a port that it picks. `loopback`: on 127.0.0.1, for its own machine alone.
    `node`: on the address of its node, which needs `key_sha256`."""
    key_sha256: Annotated[str, Bounds(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the secret that requests must carry in the header `X-Muster-Key`. Default: none."""
    max_batch: Annotated[int, Bounds(ge=1, le=1024)] = 32
    """Samples that go through the model at once."""
    max_queue: Annotated[int, Bounds(ge=1, le=10_000)] = 256
    """Requests that may wait; further ones get 503."""
    max_body_bytes: Annotated[int, Bounds(ge=1024, le=67_108_864)] = 8_388_608
    """Most bytes of a request."""
    max_tokens: Annotated[int, Bounds(ge=1, le=100_000)] = 512
    """Most tokens that one completion may ask for."""
    drain_s: Annotated[int, Bounds(ge=1, le=3600)] = 60
    """Seconds that it may take to answer what it has begun when it is stopped."""


ExportFormat = Literal["safetensors", "hf", "pt2", "onnx"]


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
    use: UseKind | None
    """What it does with its `model`; None: it has none."""
    slots_max: int | None = None
    """Most slots that it makes use of; None for any number."""
    launcher: Literal["torchrun", "direct", "plain"] = "torchrun"
    """How its workers are started, unless the document says. `direct` for those that do not talk to
    each other, `plain` for a program that is one process."""


TRAINER_MODULE = "muster.training"
PROGRAMS: Mapping[str, JobProgram] = MappingProxyType(
    {
        "evaluate": JobProgram(module="muster.inference.evaluate", use="evaluation", slots_max=1),
        "predict": JobProgram(
            module="muster.inference.predict", use="prediction", launcher="direct"
        ),
        "serve": JobProgram(module="muster.inference.serve", use="deployment"),
        "export": JobProgram(module="muster.inference.export", use="export", slots_max=1),
        "session": JobProgram(module="muster.launch.session", use=None, launcher="plain"),
    }
)
"""Programs by the section of the document, which stands in place of `entrypoint` and `trainer`. Each section
whose program has a `use` has a key `model`, which is the same as `models: {model: …}`."""
BUILT_IN_MODULES = frozenset({TRAINER_MODULE, *(program.module for program in PROGRAMS.values())})
