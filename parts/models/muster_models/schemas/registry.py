"""Models, their versions and aliases."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from pydantic import Field

from muster.document.inference import ExportFormat
from muster_models.domain.registry.contents import (
    ALIAS_NAME,
    FILES_MAX,
    MODEL_NAME,
    PATH_MAX_CHARS,
)
from muster_server.schemas.base import Input, Output, SafeStr, WireFloat

MAX_TAGS = 50
MAX_TEXT_CHARS = 50_000

ModelName = Annotated[SafeStr, Field(pattern=MODEL_NAME)]
AliasName = Annotated[SafeStr, Field(pattern=ALIAS_NAME)]
Tags = Annotated[
    dict[
        Annotated[SafeStr, Field(min_length=1, max_length=250)],
        Annotated[SafeStr, Field(max_length=5000)],
    ],
    Field(max_length=MAX_TAGS),
]
LongText = Annotated[SafeStr, Field(max_length=MAX_TEXT_CHARS)]
Reason = Annotated[SafeStr, Field(max_length=500)]
MetricName = Annotated[SafeStr, Field(min_length=1, max_length=200)]
RowId = Annotated[int, Field(ge=1, lt=2**31)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
VersionPath = Annotated[SafeStr, Field(min_length=1, max_length=PATH_MAX_CHARS)]


class TensorSpec(Input):
    """An input or output of a model."""

    name: Annotated[SafeStr, Field(max_length=200)] = ""
    type: Annotated[SafeStr, Field(min_length=1, max_length=64)]
    """Type of its numbers, such as float32."""
    shape: Annotated[list[Annotated[int, Field(ge=-1, lt=2**53)]], Field(max_length=16)] | None = (
        None
    )
    """Size of each dimension; -1 for any, null if it is not known."""


class SignatureIn(Input):
    inputs: Annotated[list[TensorSpec], Field(max_length=100)] = []
    outputs: Annotated[list[TensorSpec], Field(max_length=100)] = []


class ModelIn(Input):
    name: ModelName
    project: Annotated[SafeStr, Field(max_length=128)] = "default"
    description: LongText = ""
    tags: Tags = {}


class ModelPatch(Input):
    """What is left out stays as it is."""

    name: ModelName | None = None
    """New name. Programs that use the old one do not find the model any more."""
    description: LongText | None = None
    tags: Tags | None = None
    """In place of all tags there are."""


class UploadedFileIn(Input):
    path: VersionPath
    """Path within the version."""
    sha256: Sha256
    """Digest of a file that was uploaded (PUT /model-blobs/{sha256})."""


class VersionIn(Input):
    """A new version: exactly one of `checkpoint_id`, `trial_id` and `files`."""

    checkpoint_id: RowId | None = None
    trial_id: RowId | None = None
    """Trial whose outputs it is made of."""
    paths: Annotated[list[VersionPath], Field(max_length=FILES_MAX)] = []
    """Files and folders of the trial's outputs; [] for all of them. One folder alone becomes the root
    of the version."""
    files: Annotated[list[UploadedFileIn], Field(max_length=FILES_MAX)] = []
    project: Annotated[SafeStr, Field(max_length=128)] | None = None
    """Project of the model if this request creates it. Default: that of the experiment, or
    `default`."""
    metrics: Annotated[dict[MetricName, float], Field(max_length=200)] = {}
    """Metrics of uploaded files. For a checkpoint or outputs, those that were reported are taken."""
    signature: SignatureIn | None = None
    tags: Tags = {}
    notes: LongText = ""


class VersionPatch(Input):
    """What is left out stays as it is. Nothing else of a version ever changes."""

    tags: Tags | None = None
    notes: LongText | None = None


class AliasIn(Input):
    version: Annotated[int, Field(ge=1, lt=2**31)]
    """Number of the version."""
    reason: Reason = ""


class PromotionIn(Input):
    """A rule: the best checkpoint of an experiment becomes an alias when the experiment has ended."""

    experiment_id: RowId
    alias: AliasName
    metric: MetricName | None = None
    """Default: the search metric of the experiment."""
    goal: Literal["min", "max"] | None = None
    """Default: that of the search metric. Needed with another metric."""


class ModelBlobOut(Output):
    """Progress of an upload."""

    sha256: str
    size_bytes: int
    received_bytes: int
    """Bytes that have arrived: the offset at which to continue."""
    is_complete: bool
    """Whether all of it has arrived and has this digest."""


class ModelFileOut(Output):
    path: str
    sha256: str
    size_bytes: int | None
    """Null if only the total of a checkpoint's files is known."""
    num_parts: int
    """Number of parts of 256 MiB in which it is fetched."""
    is_at_server: bool
    """Whether the server has its bytes. Others are fetched from a node first."""
    warning: str
    """Sentence about a file that can run code when it is loaded; "" for any other."""


class ModelAliasOut(Output):
    name: str
    version: int
    moved_at: dt.datetime
    moved_by: str
    reason: str


class ModelAliasMoveOut(Output):
    id: int
    alias: str
    version: int | None
    """Version that it names since; null if it was removed."""
    previous: int | None
    """Version that it named before; null if there was none."""
    at: dt.datetime
    by: str
    reason: str


class ModelPromotionOut(Output):
    id: int
    experiment_id: int
    alias: str
    metric: str
    goal: str
    state: Literal["waiting", "moved", "kept", "refused"]
    message: str
    """Reason for the decision, or what it waits for."""
    version: int | None
    """Version that it registered or found."""
    created_at: dt.datetime
    created_by: str
    decided_at: dt.datetime | None


class ModelVersionItem(Output):
    """A version without its files and card."""

    model: str
    number: int
    state: Literal["making", "ready", "failed"]
    """`making`: its digest is not known before a node has read the checkpoint."""
    message: str
    """Why it failed, or what it waits for; "" otherwise."""
    digest: str
    source: Literal["checkpoint", "outputs", "upload", "mlflow"]
    checkpoint_id: int | None
    trial_id: int | None
    experiment_id: int | None
    step: int | None
    metrics: dict[str, WireFloat]
    aliases: list[str]
    tags: dict[str, str]
    num_files: int
    size_bytes: int
    is_unsafe: bool
    """Whether it has files that can run code when they are loaded."""
    created_at: dt.datetime
    created_by: str


class ModelVersionOut(ModelVersionItem):
    is_new: bool
    """Whether this request registered it; false for the same files once more."""
    may_change: bool
    """Whether the caller may change its notes and tags, and delete it."""
    lineage: dict[str, Any]
    """Experiment, trial, attempt, step, code, data sets and parent, as known at registration."""
    signature: dict[str, Any] | None
    notes: str
    files: list[ModelFileOut]
    card: str
    """Model card in Markdown, made of what is known."""


class ModelItem(Output):
    id: int
    name: str
    project: str
    owner: str | None
    description: str
    tags: dict[str, str]
    num_versions: int
    latest_version: int | None
    """Number of the newest version; null if there is none."""
    aliases: list[ModelAliasOut]
    created_at: dt.datetime
    created_by: str
    updated_at: dt.datetime
    may_change: bool
    """Whether the caller may move aliases, and change and delete the model."""


class ModelFetchIn(Input):
    path: VersionPath
    part: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class ModelFetchOut(Output):
    """A part of a file that is to be downloaded."""

    state: Literal["ready", "pending", "failed"]
    waits_for: str
    """Node that reads it, or why none does; "" unless it is pending."""
    message: str
    """Why it failed; "" otherwise."""
    sha256: str
    """Digest of the part; "" if it is not known before the whole is there."""
    size_bytes: int | None
    export_id: int | None
    """Export that holds the bytes; null if the server has them for good."""


class ModelUseOut(Output):
    """What an experiment does with a version, and what came of it."""

    id: int
    model: str
    version: int
    experiment_id: int
    experiment_name: str
    experiment_state: str
    kind: Literal["input", "export", "evaluation", "prediction", "deployment"]
    name: str
    """Name of the version among the `models` of the document."""
    result: dict[str, Any] | None
    """What the job has reported last; null before that. Numbers that are not finite are text."""
    result_at: dt.datetime | None
    created_at: dt.datetime


ExportState = Literal["queued", "running", "done", "failed"]


class ExportFileOut(Output):
    path: str
    sha256: str
    size_bytes: int
    warning: str
    """Sentence about a file that can run code when it is loaded; "" for any other."""


class ExportComparisonOut(Output):
    """How the answers of an export, loaded again, compare with those of the checkpoint."""

    verdict: Literal["equal", "within", "beyond", "not_compared"]
    """`within` and `beyond` the tolerance. `not_compared`: nothing on the node could load it."""
    compared_by: str
    """What computed the answers of the export, such as onnxruntime with its version."""
    max_abs: WireFloat | None
    """Largest difference of two numbers; null if it was not compared."""
    max_rel: WireFloat | None
    """Share that `max_abs` is of the largest number of the checkpoint's answers."""
    agreement: WireFloat | None
    """Share of answers whose largest number is at the same place, 0 to 1."""
    atol: WireFloat
    rtol: WireFloat
    """Each number may differ by `atol` + `rtol` × its size."""


class ModelExportOut(Output):
    """A version in one format."""

    format: ExportFormat
    state: ExportState
    message: str
    """Why it failed; "" otherwise."""
    path: str = ""
    """Folder of its files among the outputs of the trial; "" if it has none."""
    files: list[ExportFileOut] = []
    size_bytes: int = 0
    digest: str = ""
    """Digest of its files; "" if it has none."""
    comparison: ExportComparisonOut | None = None
    """Null while it is not known."""


class ModelExportJobOut(Output):
    """A job that exports a version."""

    experiment_id: int
    experiment_state: str
    trial_id: int | None
    """Trial whose outputs the files are; null before it is created."""
    torch: str
    """Version of torch that made the exports; "" while it is not known."""
    inputs: str
    """Samples that the answers were compared on."""
    inputs_sha256: str
    exports: list[ModelExportOut]
    """One for each format of the document."""
    created_at: dt.datetime
    result_at: dt.datetime | None


class LeaderboardRowOut(Output):
    """The newest evaluation of a version by a data set."""

    rank: int | None
    """Starts at 1; equal values share one. Null for a value that is missing or not finite."""
    model: str
    version: int
    aliases: list[str]
    experiment_id: int
    """Experiment that evaluated it."""
    evaluated_at: dt.datetime
    metrics: dict[str, WireFloat]
    speed: dict[str, WireFloat]
    """Latencies at batch 1 in milliseconds, rows per second, and the batch size of the latter."""
    num_samples: int | None
    num_parameters: int | None
    peak_memory_bytes: int | None
    """Most memory that was in use: of the device, or of the process on a CPU."""
    device: str
    slots: int | None


class LeaderboardOut(Output):
    """Evaluations by the same samples and the same code of the metrics."""

    data: str
    split: str
    data_digest: str
    """Digest of samples and targets."""
    metrics_version: int
    """Version of the code that computed the metrics."""
    metric: str
    """Metric that ranks; "" if none is known."""
    goal: Literal["min", "max"]
    num_versions: int
    """Number of versions that were judged by these samples."""
    rows: list[LeaderboardRowOut]


class ProducedVersionOut(Output):
    """A version that an experiment has produced which read another one."""

    model: str
    version: int
    experiment_id: int


class ModelLineageOut(Output):
    """What a version comes from, and what was done with it."""

    model: str
    version: int
    sources: dict[str, Any]
    """Data sets, code, experiment, trial, attempt and parent, as known at registration."""
    checkpoint_id: int | None
    step: int | None
    read: list[ModelUseOut]
    """Versions that the experiment read which has produced this one."""
    uses: list[ModelUseOut]
    """Newest experiments that use this version, at most 200."""
    num_uses: int
    produced: list[ProducedVersionOut]
    """Versions that these experiments have produced, at most 200."""
