"""Where trials run, what they may cost, how often they are started again, what is kept."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from .common import (
    IDENTIFIER,
    MAX_NAMED_NODES,
    MAX_NODE_LABELS,
    MAX_SLOTS,
    Bounds,
    LabelKey,
    LabelValue,
    Length,
    NodeName,
    Text,
)

SizeText = Annotated[str, Bounds(min_length=1, max_length=32)]
"""A size as muster.byte_sizes reads it."""


DATA_DIGEST = r"^sha256:[0-9a-f]{64}$"


@dataclass(frozen=True, kw_only=True)
class DataSection:
    """A data set: `folder`, `url` or `command`, one of the three."""

    folder: Annotated[str, Bounds(max_length=4096, pattern=r"^/")] | None = None
    """Absolute path of a folder or file on the nodes. Before the start its digest is computed from the
    names and contents of its files, and shown with the trial."""
    digest: Annotated[str, Bounds(pattern=DATA_DIGEST)] | None = None
    """Digest that the files must have (`sha256:…`). With another one a trial does not start."""
    version: Annotated[str, Bounds(min_length=1, max_length=64)] | None = None
    """What you call this version of the data. Shown beside the digest. Data that a node keeps are fetched
    or made anew for another version; of a `folder` it decides nothing."""
    url: Text | None = None
    """Where the job downloads it from: it finds the URL as `MUSTER_DATA_<NAME>`, and Muster downloads nothing
    by itself. With `cached` the node does, and the job finds a folder."""
    cached: bool = False
    """Whether the node fetches `url` before the start and keeps the files for later jobs: `https://`, or
    what fsspec opens in the job's environment, such as `s3://` with s3fs installed."""
    command: Annotated[str, Bounds(min_length=1, max_length=4096)] | None = None
    """Shell command that makes the data set in the folder `$MUSTER_DATA_<NAME>`, which is empty. It runs
    before the start in the job's environment and code folder, once per node, command, `version` and content
    of the data sets and files of the code that it names."""
    size: SizeText | None = None
    """How much is downloaded or made (`150GB`). A trial starts only on nodes with this much free. Where the
    job downloads, the files of its own work folder count as free. Nothing is reserved."""

    @property
    def place(self) -> str:
        """Path or URL that the job is told; "" for what its node keeps."""
        return "" if self.is_kept else self.folder or self.url or ""

    @property
    def is_kept(self) -> bool:
        """Whether nodes fetch or make it, and keep it for later jobs."""
        return self.cached or self.command is not None


@dataclass(frozen=True, kw_only=True)
class CodeSection:
    """Where the code of an `entrypoint` comes from: `path` or `installed`."""

    path: Text | None = None
    """Folder to bundle and upload, relative to the document. Read by the command line; the server
    sees the uploaded bundle. The default for an `entrypoint` is `.`."""
    include: Annotated[tuple[Text, ...], Bounds(max_length=100)] = ()
    """Patterns of files in that folder to upload although `.gitignore` or `.musterignore` names
    them (`[data/tiny/*.bin]`), in the syntax of those files."""
    installed: Annotated[str, Bounds(max_length=4096, pattern=r"^/")] | None = None
    """Absolute path of a folder that exists on every node (shared storage, an image)."""
    workdir: Annotated[str, Bounds(min_length=1, max_length=4096, pattern=r"^[^/]")] | None = None
    """Folder within the code in which the job runs (`scripts`), where it needs what lies above that
    folder. The entry point, files of `environment.requirements` and `checkpoints.adopt` are relative
    to it. Default: the top of the code."""

    def within(self, path: str) -> str:
        """Return a path that is relative to the folder in which the job runs, or absolute, as seen from
        the top of the code; "" stays."""
        return posixpath.normpath(posixpath.join(self.workdir or "", path)) if path else path


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Nodes that are close to each other, by a label of theirs."""

    key: LabelKey
    """Node label (`rack`, `zone`) of which all nodes of a trial should have the same value."""
    mode: Literal["prefer", "require"] = "prefer"
    """`prefer`: several values only when the slots of one are not enough. `require`: wait rather
    than spread over several."""


@dataclass(frozen=True, kw_only=True)
class ResourcesSection:
    """What one trial needs. All its slots are granted together (gang scheduling)."""

    slots: Annotated[int, Bounds(ge=1, le=MAX_SLOTS)] = 1
    """Slots of one trial; one worker runs on each."""
    min_slots: Annotated[int, Bounds(ge=1, le=MAX_SLOTS)] | None = None
    """Makes the trial elastic: it may run on any number of slots from here to `slots`. It shrinks
    rather than be preempted and grows when slots stay idle; each time it saves a checkpoint and
    goes on from it with another world size."""
    slot_type: Literal["cpu", "cuda"] = "cpu"
    """Kind of slot."""
    pool: Annotated[str, IDENTIFIER] = "default"
    """Pool of nodes to run in."""
    nodes: Annotated[int, Bounds(ge=1, le=MAX_SLOTS)] | None = None
    """Spread the slots evenly over exactly this many nodes. Default: as few as possible."""
    max_nodes: Annotated[int, Bounds(ge=1, le=MAX_SLOTS)] | None = None
    """Wait rather than spread over more nodes than this."""
    uneven: bool = False
    """Allow nodes to carry different numbers of workers: 12 slots on two nodes of 8."""
    priority: Annotated[int, Bounds(ge=0, le=100)] = 50
    """Place in the queue, higher is more urgent."""
    preemptible: bool = True
    """Whether it may be asked to save a checkpoint and give up its slots to a trial of higher
    priority. It goes on later, and no restart is charged."""
    min_runtime: Annotated[str, Bounds(min_length=1, max_length=32)] | None = None
    """Time from the start of its workers for which an attempt is not preempted (`30m`, at most 7 days).
    Default: none, so that it may be preempted as soon as it runs."""
    labels: Annotated[dict[LabelKey, LabelValue], Bounds(max_length=MAX_NODE_LABELS)] = field(
        default_factory=dict
    )
    """Labels, with their values, that a node must have (`{gpu: h100}`)."""
    allow_nodes: Annotated[tuple[NodeName, ...], Bounds(max_length=MAX_NAMED_NODES)] = ()
    """Names of the only nodes it may run on. Empty: any."""
    deny_nodes: Annotated[tuple[NodeName, ...], Bounds(max_length=MAX_NAMED_NODES)] = ()
    """Names of nodes it must not run on."""
    topology: Topology | None = None
    """Whether its nodes must be close to each other."""
    isolation: Literal["none", "user", "sandbox"] = "none"
    """Weakest level of isolation at which its jobs may run: they wait for nodes that offer this
    level or a stronger one (`muster node show`)."""
    max_duration: Annotated[str, Bounds(min_length=1, max_length=32)] | None = None
    """Longest that a trial may run (`4h`, `90min`, `1d12h`), all its attempts together. Waiting in the
    queue, preparing and pauses do not count. At the limit it is asked to save a checkpoint, stopped,
    and CANCELED with that as the reason. Default: no limit."""
    memory: SizeText | None = None
    """Most memory that a trial may use on each of its nodes (`8GB`, `1.5TiB`). It ends when it uses
    more. Nothing is reserved. Default: no limit, unless the node sets one."""
    processes: Annotated[int, Bounds(ge=1, le=4_194_304)] | None = None
    """Most processes and threads that a trial may have on each of its nodes. It ends when it has
    more."""
    disk: SizeText | None = None
    """Most that the files in a trial's work folder and temporary folder may take on each of its
    nodes. It ends when they take more, and no single file that it writes, checkpoints included,
    grows past this."""


WasteAction = Literal["notice", "checkpoint_and_stop", "stop"]
Minutes = Annotated[float, Bounds(ge=0.1, le=10_080)]


@dataclass(frozen=True, kw_only=True)
class WasteSection:
    """When a trial that holds slots and does nothing is noticed, and what follows. Its evaluations and
    saves are not waste, and neither is a job that serves, predicts, evaluates or exports a model."""

    no_step_for_min: Minutes | None = 60.0
    """Minutes in which an attempt that has made a step makes no other; null: steps do not matter."""
    device_below_percent: Annotated[float, Bounds(gt=0, le=100)] | None = 5.0
    """Use of a GPU, in percent, below which it is idle. All GPUs of the trial must be; null: GPUs do not
    matter. A GPU whose use is not measured is not idle."""
    device_for_min: Annotated[float, Bounds(ge=0.1, le=1_440)] = 60.0
    """Minutes in which they are idle."""
    grace_min: Annotated[float, Bounds(ge=0, le=10_080)] = 30.0
    """Minutes from the start of an attempt's processes in which nothing is noticed: longer than they
    load and compile."""
    action: WasteAction = "notice"
    """`notice`: a notice and a notification. `checkpoint_and_stop`: stop the trial later, with time for a
    last checkpoint; `muster continue` resumes it. `stop`: kill it later."""
    act_after_min: Annotated[float, Bounds(ge=0, le=10_080)] = 30.0
    """Minutes from the notice to the action. The owner can keep the trial running meanwhile."""


@dataclass(frozen=True, kw_only=True)
class BudgetSection:
    """What an experiment may cost. When one of the limits is reached, its trials save a checkpoint
    and end, and the experiment is CANCELED with the reason; more can be given with `muster
    continue`. Slots cost from their reservation until they are free again."""

    slot_hours: Annotated[float, Bounds(gt=0, le=1e9)] | None = None
    """Slots × hours of all its trials together."""
    cost: Annotated[float, Bounds(gt=0, le=1e12)] | None = None
    """Money: slot-hours times the price of the pool (`muster pool list`)."""
    deadline: Text | None = None
    """A length of time since the submission (`6h`, `90min`, `1d12h`) or a moment with its time
    zone (`2026-03-01T18:00Z`)."""
    alert_at: Annotated[tuple[Annotated[float, Bounds(gt=0, lt=1)], ...], Bounds(max_length=10)] = (
        0.5,
        0.9,
    )
    """Shares of each limit at which an event tells of it, once."""


@dataclass(frozen=True, kw_only=True)
class RestartsSection:
    """How often a trial is started again from its latest checkpoint, by kind of failure. Whatever
    is left here, a trial ends when three attempts in a row have trained and ended without a newer
    checkpoint."""

    user: Annotated[int, Bounds(ge=0, le=100)] = 0
    """After failures of its own code: an exit code, an exception, out of memory, a crash. Ends early
    after three attempts in a row without a newer checkpoint."""
    infra: Annotated[int, Bounds(ge=0, le=1000)] = 3
    """After failures of machines, network or launcher, and when a worker is killed (SIGKILL) other
    than for want of memory. Ends early after three attempts in a row without a newer checkpoint."""
    stuck_after_s: Annotated[float, Bounds(ge=60, le=86_400)] | None = None
    """End an attempt of which nothing has moved for so long, and start it again from its newest
    checkpoint; charged to `restarts.infra`. Longer than anything the training does without a step
    (a validation, a checkpoint). Default: never; that it is stuck is said all the same."""


@dataclass(frozen=True, kw_only=True)
class KeepSection:
    """Which checkpoints are kept; what any of the numbers keeps is kept. Of a trial that has not ended
    the two newest stay in any case, and so does what a fork starts from."""

    last: Annotated[int, Bounds(ge=0, le=10_000)] = 1
    """Number of newest checkpoints to keep of each trial."""
    best: Annotated[int, Bounds(ge=0, le=10_000)] = 1
    """Number of best checkpoints to keep of each trial, by `search.metric`."""
    experiment_best: Annotated[int, Bounds(ge=0, le=10_000)] = 0
    """Number of best checkpoints to keep of all trials together."""


@dataclass(frozen=True, kw_only=True)
class CheckpointsSection:
    """When the built-in trainer saves, and where checkpoints live."""

    every: Length | None = field(default_factory=lambda: Length(epochs=1))
    """How often to save. null: only at the end."""
    async_: bool = True
    """Train on while the files are written; training waits for the copy in memory alone. false: it
    waits until the checkpoint is on the disk."""
    local: bool = False
    """Save on the node's disk first; the agent copies each checkpoint to the storage while training
    goes on, and a restart on the same nodes reads the copy there. Training waits while two are not
    stored. A script on several nodes saves to the storage at once, unlike the built-in trainer."""
    keep: KeepSection | None = None
    """Delete the others while training goes on. Default: everything is kept."""
    storage: Annotated[str, Bounds(min_length=1, max_length=1024)] = "local"
    """`local`: the storage folder of the agents, which all nodes of a trial must share when it is
    to continue on another node. Or a folder of an object store, `s3://bucket/folder` or
    `gs://bucket/folder`, which every node reaches: the workers' Python and the agent's need
    `muster-train[s3]` or `muster-train[gcs]`, and the credentials are those of the nodes'
    environment."""
    adopt: Annotated[str, Bounds(min_length=1, max_length=255)] | None = None
    """Make files that the script saves known as checkpoints: a pattern of files or folders relative
    to the working directory (`out/ckpt-*.pt`, `out/checkpoint-*`). The step is what `{step}` in the
    pattern stands for, else the number after `step` in the name, else the last number of the
    name."""


IMAGE_NAME = r"^[a-z0-9][A-Za-z0-9._/:@-]*$"
"""Pattern of image names, which are words on the command line of a container engine."""
MountText = Annotated[str, Bounds(pattern=r"^/[^:,\s]*(:/[^:,\s]+)?(:(ro|rw))?$", max_length=1024)]


@dataclass(frozen=True, kw_only=True)
class EnvironmentSection:
    """The processes' environment."""

    python: Text | None = None
    """Interpreter on the node: a path, or a version (`"3.12"`) that the node must have. Default: the
    agent's. With `image`, an interpreter in the image; default: `python3` on its PATH."""
    image: Annotated[str, Bounds(pattern=IMAGE_NAME, max_length=512)] | None = None
    """Container image to run the job in, with its registry
    (`docker.io/pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime`), and best with its digest
    (`…@sha256:…`). The job waits for nodes with Podman or Docker. The image needs Python 3.11 or
    later, and torch unless the launcher is `plain` or `shell`."""
    pull_policy: Literal["missing", "always", "never"] = "missing"
    """When a node pulls `image`: where it does not have it, before each attempt, or never."""
    registry_login: Annotated[str, Bounds(pattern=r"^[A-Z_][A-Z0-9_]{0,127}$")] | None = None
    """Name of the secret with which `image` is pulled: its value is `user:password` or
    `user:token`. The job does not see it."""
    mounts: Annotated[tuple[MountText, ...], Bounds(max_length=32)] = ()
    """Folders and files of the node that the container sees besides the code, the work folder and
    `data`: `SOURCE[:TARGET][:ro|rw]`, by default at the same path and read-only
    (`[/scratch:/scratch:rw]`)."""
    shm_size: SizeText | None = None
    """Size of /dev/shm in the container, through which the workers of a DataLoader hand over
    batches (`16GiB`). Default: half of `resources.memory`, else of the node's memory."""
    network: Literal["host", "bridge", "none"] = "host"
    """Network of the container. `bridge` and `none` are for jobs on one node: gangs meet over the
    network of their hosts."""
    requirements: Annotated[tuple[Text, ...], Bounds(max_length=256)] = ()
    """Packages that uv installs beside those of the interpreter, before the start and once per node:
    `requirements.txt`, `pyproject.toml` or `uv.lock` in the code folder, or a list of packages
    (`[einops, "torchmetrics>=1.4"]`). With `image`, they are installed on top of the image, once per
    node and image."""
    setup: Annotated[
        tuple[Annotated[str, Bounds(max_length=4096)], ...], Bounds(max_length=32)
    ] = ()
    """Shell commands to run in the code folder when that environment is built: once per node and
    content. What they write belongs into the environment (`$VIRTUAL_ENV`)."""
    torch: Literal["node", "own"] = "node"
    """`node`: use the torch of the interpreter, whatever `requirements` asks for. `own`: start from an
    environment without packages, so that `requirements` installs everything."""
    variables: dict[
        Annotated[str, Bounds(max_length=128)], Annotated[str, Bounds(max_length=32_768)]
    ] = field(default_factory=dict)
    """Environment variables. Values are text: `"1"`, not `1`. They reach the job as they are, except
    that `${PATH}`, `${HOME}`, Muster's own names and, in its own value, the variable itself are replaced:
    `PATH: "/opt/x/bin:${PATH}"`. `$PATH` is refused: no shell would replace it."""
    user_namespaces: bool = False
    """Whether the job may make user namespaces where a sandbox or a user of its own keeps it apart, as
    Chromium, bubblewrap and rootless containers do. It opens more of the kernel to the job."""
    secrets: Annotated[
        tuple[Annotated[str, Bounds(pattern=r"^[A-Z_][A-Z0-9_]{0,127}$")], ...],
        Bounds(max_length=32),
    ] = ()
    """Names of secrets (`[HF_TOKEN]`). Each process gets their values as environment variables:
    your own secret of that name, else the project's. Nothing else in the document, the logs or
    the dashboard shows them."""
    warm: bool = True
    """Let the workers of `torchrun` on one node be forked from a process that has imported torch
    already, where the agent has one; `false` starts each as an interpreter of its own."""

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """Names of every secret that the node needs, the login of the registry included."""
        login = self.registry_login
        return (*self.secrets, *((login,) if login and login not in self.secrets else ()))


def is_requirements_file(item: str) -> bool:
    """Return whether an entry of `environment.requirements` names a file, and not a package."""
    return item.endswith(".txt") or item.rpartition("/")[2] in ("pyproject.toml", "uv.lock")


CaptureRoute = Literal[
    "tensorboard",
    "lightning",
    "transformers",
    "accelerate",
    "keras",
    "fastai",
    "xgboost",
    "lightgbm",
    "sklearn",
    "wandb",
    "mlflow",
]
CAPTURE_ROUTES: tuple[CaptureRoute, ...] = get_args(CaptureRoute)


@dataclass(frozen=True, kw_only=True)
class MeasureSection:
    """What is measured while training."""

    steps: bool = True
    """Measure steps: their parts, communication, memory, throughput (cost: below 1 % of
    throughput). `false` turns all of it off; what a script logs by itself is kept."""
    comm: bool = True
    """Time communication per collective, as a part of that."""
    scripts: bool = True
    """Measure the steps of a script of your own that does not do so itself, too, as far as that can
    be done from outside."""
    capture: tuple[CaptureRoute, ...] = CAPTURE_ROUTES
    """Libraries whose logged values are captured in a script of your own, without a changed line:
    `tensorboard` stands for `SummaryWriter` of torch and tensorboardX and for the event files in the
    work folder, `mlflow` for a tracking server of the job's own. `[]` captures nothing, also not by
    `metrics.from_log: [auto]`. A name that the script passes to `muster.log` is never captured."""
    peak_tflops: Annotated[float, Bounds(gt=0, le=1e9)] | None = None
    """What one device can do, in 10¹² operations per second: MFU is reported as a share of it. By
    default what the maker says of the GPU in use; CPUs have none, and no MFU."""


LogPatternText = Annotated[str, Bounds(min_length=1, max_length=500)]


@dataclass(frozen=True, kw_only=True)
class LogPatternSection:
    """How values are found in the lines that a script prints. A text stands for `{pattern: text}`."""

    pattern: LogPatternText
    """Pattern of RE2 with groups: `(?P<value>…)`, or else the first one, is the number, `(?P<step>…)`
    and `(?P<epoch>…)` say where it is, `(?P<name>…)` what it is called. It is searched for along
    the line again and again. Or a preset: `auto`, `huggingface`, `nanogpt`, `keras`, `xgboost`,
    `lightgbm`, `catboost`, `optuna`, `tables`, `key_value`."""
    name: Annotated[str, Bounds(max_length=200)] = ""
    """Name of the metric, where the pattern has no group for it."""
    line: Annotated[str, Bounds(max_length=500)] = ""
    """Pattern that a line must match for `pattern` to be applied; its groups may be `step` and
    `epoch`."""


@dataclass(frozen=True, kw_only=True)
class MetricsSection:
    """Where metrics come from, beside what the script and its libraries report."""

    from_log: Annotated[tuple[LogPatternSection, ...], Bounds(max_length=20)] = (
        LogPatternSection(pattern="auto"),
    )
    """Patterns by which values are read from what a script of your own prints (`[nanogpt]`,
    `[{name: loss, pattern: "loss=(.+)"}]`). `auto` applies all presets to rank 0. A name that is
    reported in another way is not read from the log."""


@dataclass(frozen=True, kw_only=True)
class PreflightSection:
    """What is made sure of before a trial that spans nodes starts. With one node there is nothing
    to be compared."""

    versions: Literal["warn", "require"] = "warn"
    """When its nodes have different versions of Python (3.11 and 3.12), torch, CUDA, the driver or
    Muster, or other files in the folder of `code.installed`: `warn` in the trial's events, which
    names nodes and versions, or `require` them to be the same and do not start."""
    network: bool = False
    """Let every node connect to every other one, and each pair add up a vector over gloo, before
    the start. When something fails the trial does not start, and the reason names the pair."""


OutputPattern = Annotated[str, Bounds(min_length=1, max_length=1024)]


@dataclass(frozen=True, kw_only=True)
class KeepOutputsSection:
    """How long outputs are kept: `days`, `max_size` or both. The outputs of a trial are deleted as a
    whole. They stay while the trial may still run, has a pinned checkpoint or is being downloaded, and
    until its last files have been collected. Checkpoints have a policy of their own."""

    days: Annotated[float, Bounds(gt=0, le=36_500)] | None = None
    """Delete the outputs of a trial this many days after their last change was collected. Default: no
    limit."""
    max_size: SizeText | None = None
    """Most that the outputs of all trials of the experiment may take together (`50GB`). Beyond it, the
    oldest are deleted. Default: no limit."""
    experiment_best: Annotated[int, Bounds(ge=0, le=10_000)] = 0
    """Number of trials, the best by `search.metric`, whose outputs stay regardless."""


@dataclass(frozen=True, kw_only=True)
class OutputsSection:
    """What is kept of the files that a job writes into its work folder. Files that came with the code
    and were not changed are left out. null: nothing is kept."""

    include: Annotated[tuple[OutputPattern, ...], Bounds(max_length=100)] = ("**",)
    """Patterns of files to keep, relative to the work folder, in the syntax of .gitignore."""
    exclude: Annotated[tuple[OutputPattern, ...], Bounds(max_length=100)] = ()
    """Patterns of files not to keep (`["*.tmp", "cache/"]`); they win over `include`."""
    max_size: Annotated[str, Bounds(min_length=1, max_length=32)] = "50GB"
    """How much one node keeps of a trial (`500MB`, `1.5TiB`, or bytes in quotes: `"4096"`). Files
    beyond are listed as left out."""
    every_s: Annotated[float, Bounds(ge=5, le=86_400)] = 120.0
    """Seconds between two collections while the job runs. The last one follows its end."""
    keep: KeepOutputsSection | None = None
    """Delete outputs that are old, or the oldest when there are too many. Default: everything is kept."""
