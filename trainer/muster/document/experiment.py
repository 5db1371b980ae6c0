"""The experiment document: what a user writes, with every default.

Field docs below are the reference (docs/reference/experiment-document.md is made from them).
Checks across fields are in services/documents/checks.py, so that each can name its path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from .common import NAME, Bounds, DataName, Mark, Text
from .guards import GUARDS_MAX, GuardSection
from .inference import (
    PROGRAMS,
    TRAINER_MODULE,
    USED_MODELS_MAX,
    EvaluateSection,
    ExportSection,
    ModelKey,
    ModelReference,
    PredictSection,
    ServeSection,
    UsedModel,
)
from .roles import ROLES_MAX, RoleName, RoleSection
from .running import (
    BudgetSection,
    CheckpointsSection,
    CodeSection,
    DataSection,
    EnvironmentSection,
    MeasureSection,
    MetricsSection,
    OutputsSection,
    PreflightSection,
    ResourcesSection,
    RestartsSection,
    WasteSection,
)
from .searching import FromSection, SearchSection
from .session import SessionSection
from .strategy import StrategySection
from .training import TrainerSection

ARRAY_KEYS_MAX = 8
"""Names of an array."""
ElementName = Annotated[str, Bounds(max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""Name of the elements of an array, which is that of a variable."""
ElementText = Annotated[str, Bounds(min_length=1, max_length=131_072)]


@dataclass(frozen=True, kw_only=True)
class AfterSection:
    """An experiment that must have ended before this one starts."""

    experiment: Annotated[int, Bounds(ge=1, le=2**63 - 1)]
    """Number of the experiment."""
    when: Literal["success", "any"] = "success"
    """`success`: it must be COMPLETED; if it ends otherwise, this one is canceled. `any`: however it
    ends."""


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """One experiment."""

    name: Annotated[str, NAME, Mark.ONE_LINE]
    """What it is called; need not be unique."""
    project: Annotated[str, Bounds(max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")] = (
        "default"
    )
    """Project it belongs to; made when it does not exist."""
    labels: Annotated[
        dict[
            Annotated[str, Bounds(min_length=1, max_length=64)],
            Annotated[str, Bounds(max_length=256)],
        ],
        Bounds(max_length=64),
    ] = field(default_factory=dict)
    """Labels to find it by (`{team: vision}`)."""
    notes: Annotated[str, Bounds(max_length=100_000)] = ""
    """Free text, Markdown."""
    entrypoint: tuple[Text, ...] | None = None
    """What to run: `train.py --epochs 3`, `-m package.module`, or a command such as
    `bash run.sh` or `accelerate launch train.py`, as text or as a list of arguments. Split like a
    shell would, but no shell runs: no pipes. `${MUSTER_CHECKPOINT_DIR}` and the like stand for
    their values on the node. This or `trainer`."""
    roles: Annotated[dict[RoleName, RoleSection], Bounds(max_length=ROLES_MAX)] = field(
        default_factory=dict
    )
    """Jobs of several kinds, by name, that start, stop and restart as one: a trainer, rollout workers, an
    evaluation server. This or `entrypoint`. A member finds the others as `MUSTER_ROLE_<NAME>_ADDRESSES`.
    `resources.slots` is their sum. Not together with what divides one kind of job: `resources.min_slots`,
    `nodes`, `uneven`, `strategy`, `launcher`, `preflight`, `checkpoints.local` and `checkpoints.adopt`."""
    trainer: TrainerSection | None = None
    """Train with the built-in trainer. This or `entrypoint`."""
    evaluate: EvaluateSection | None = None
    """Judge a version of a model. This or `entrypoint`."""
    predict: PredictSection | None = None
    """Let a version of a model predict many rows. This or `entrypoint`."""
    serve: ServeSection | None = None
    """Answer requests with a version of a model. This or `entrypoint`."""
    export: ExportSection | None = None
    """Write a version of a model for other programs. This or `entrypoint`."""
    session: SessionSection | None = None
    """Work in the job yourself: a shell, ssh, Jupyter or VS Code. This or `entrypoint`."""
    code: CodeSection | None = None
    """Where the code comes from."""
    data: Annotated[dict[DataName, Text | DataSection], Bounds(max_length=64)] = field(
        default_factory=dict
    )
    """Data sets by name: an absolute path, which must exist on a node before a trial starts there, or
    a URL, which is passed on as it is. The job finds `train` as `MUSTER_DATA_TRAIN`. With
    `{url: …, size: 150GB}` a trial starts only where there is room to download that much. With
    `{folder: /shared/imagenet, digest: "sha256:…"}` it starts only with these very files."""
    models: Annotated[
        dict[ModelKey, ModelReference | UsedModel], Bounds(max_length=USED_MODELS_MAX)
    ] = field(default_factory=dict)
    """Versions of models by name: `{base: digits@production}`. The reference is resolved once, at
    submission. A node fetches the files before a trial starts there; the job finds the folder of
    `base` as `MUSTER_MODEL_BASE`."""
    resources: ResourcesSection = field(default_factory=ResourcesSection)
    """What one trial needs."""
    strategy: StrategySection = field(default_factory=StrategySection)
    """How workers share the work."""
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    """Constants and spaces: `{log: [lo, hi]}`, `{uniform: [lo, hi]}`, `{int: [lo, hi], step: 1}`,
    `{choice: [...]}`, `{const: value}`, nested as you like. `count` beside log, uniform and int
    is the number of values a grid takes of it."""
    search: SearchSection = field(default_factory=SearchSection)
    """How trials are chosen."""
    array: Annotated[dict[ElementName, ElementText], Bounds(max_length=ARRAY_KEYS_MAX)] = field(
        default_factory=dict
    )
    """A job array: one trial for each element, `{i: 0-9}`, in steps `{i: "0-9:2"}`, or a list
    `{i: [1, 3, 7]}`; several names make all combinations, 10000 trials at most. A job finds its
    element as the variable `i`, arguments and variables of the document use `${i}`, and it is a
    hyperparameter. Elements that fail do not stop the others (`search.max_failures` does); when the
    others have ended, the experiment is FAILED."""
    max_concurrent: Annotated[int, Bounds(ge=1, le=10_000)] | None = None
    """Elements of `array` that may run or wait in the queue at once. Default: as many as fit.
    `search.concurrent`, which can be changed while it runs, goes before it."""
    after: Annotated[tuple[AfterSection, ...], Bounds(max_length=100)] = ()
    """Experiments to wait for before anything starts. A number stands for `{experiment: number}`."""
    budget: BudgetSection | None = None
    """What it may cost. Default: as much as its project."""
    from_: FromSection | None = None
    """Start from a checkpoint of another experiment (warm start, fine-tuning)."""
    restarts: RestartsSection = field(default_factory=RestartsSection)
    """How failures are retried."""
    reuse: bool = False
    """Take the result of a finished trial with the same code, data, environment, hyperparameters, seed
    and slots instead of training again, where there is one in a project that you can see."""
    guards: Annotated[tuple[GuardSection, ...], Bounds(max_length=GUARDS_MAX)] = ()
    """Rules on metrics that act: stop at a loss that is not finite, go back to the last good
    checkpoint with a lower learning rate, restart away from a slow node."""
    waste: WasteSection | None = None
    """Notice or stop trials that hold slots and do nothing, earlier than the pool does. The rules of
    the pool hold as well."""
    checkpoints: CheckpointsSection = field(default_factory=CheckpointsSection)
    """When and where checkpoints are saved."""
    outputs: OutputsSection | None = field(default_factory=OutputsSection)
    """What is kept of the files that the job writes; null: nothing."""
    environment: EnvironmentSection = field(default_factory=EnvironmentSection)
    """Interpreter and variables."""
    launcher: Literal["torchrun", "direct", "plain", "shell"] | None = None
    """How workers are started. `torchrun`: one per slot. `direct`: the same without torchrun, with
    its environment variables. `plain`: a single process without them. `shell`: the command once
    per node, which starts the workers itself. Default: `shell` for a command, `torchrun` for a
    Python script or module."""
    launcher_help: bool = True
    """Whether `torchrun`, `accelerate launch` and `deepspeed` in a command or its shell script get
    the options that they lack: number of nodes and processes, and where the nodes meet."""
    on_disconnect: Literal["continue", "stop"] = "continue"
    """What a node does with its workers when it cannot reach the server for longer than its
    lease: `continue` training, or `stop` so that the trial may be placed elsewhere."""
    stop_grace_s: Annotated[float, Bounds(ge=0, le=3600)] = 30.0
    """Seconds between asking workers to stop and killing them."""
    preflight: PreflightSection = field(default_factory=PreflightSection)
    """What is made sure of before the start."""
    measure: MeasureSection = field(default_factory=MeasureSection)
    """What is measured."""
    metrics: MetricsSection = field(default_factory=MetricsSection)
    """Where metrics come from, beside what the script reports."""
    log_limit_mb: Annotated[int, Bounds(ge=1, le=10_240)] = 100
    """Log kept per worker and stream, in MB; past it the log is cut, with a marker."""

    @property
    def entrypoints(self) -> dict[str, tuple[str, ...]]:
        """Return the commands of the user's own, by their path in the document."""
        of_roles = {f"roles.{name}.entrypoint": r.entrypoint for name, r in self.roles.items()}
        return {**({"entrypoint": self.entrypoint} if self.entrypoint else {}), **of_roles}

    @property
    def job_kind(self) -> str | None:
        """Return the section of the built-in program that is to run, a key of PROGRAMS; None for code
        of the user's own, and for a training."""
        return next((name for name in PROGRAMS if getattr(self, name) is not None), None)

    @property
    def built_in_module(self) -> str | None:
        """Return the module that workers run in place of the user's own code; None for that."""
        if self.trainer is not None:
            return TRAINER_MODULE
        kind = self.job_kind
        return PROGRAMS[kind].module if kind is not None else None

    @property
    def reads_a_model(self) -> bool:
        """Return whether the section of the built-in program names a version of a model."""
        return self.job_kind is not None and PROGRAMS[self.job_kind].use is not None
