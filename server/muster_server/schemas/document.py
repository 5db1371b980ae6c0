"""The experiment document: what a user writes, with every default.

Field docs below are the reference (docs/reference/experiment-document.md is made from them).
Checks across fields are in services/documents/checks.py, so that each can name its path.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from .base import Identifier, Name, SafeStr

MAX_SLOTS = 4096
MAX_TRIALS = 100_000
MAX_NAMED_NODES = 256
MAX_NODE_LABELS = 32

Text = Annotated[SafeStr, Field(min_length=1, max_length=4096)]
LabelKey = Annotated[SafeStr, Field(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
LabelValue = Annotated[SafeStr, Field(max_length=256)]
NodeName = Annotated[SafeStr, Field(min_length=1, max_length=128)]
_OWN_FUNCTION = re.compile(r"(?=.{1,256}\Z)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def _or_own(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
    is_own = isinstance(value, str) and _OWN_FUNCTION.fullmatch(value)
    return value if is_own else known(value)


OrOwn = WrapValidator(_or_own)
"""Beside what the annotation allows, `module:function` of the user's own."""
Positive = Annotated[int, Field(ge=1, le=2**53)]
Id = Annotated[int, Field(ge=1, lt=2**31)]


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )


class Length(Section):
    """A training length: steps or epochs, one of the two."""

    steps: Positive | None = None
    """Optimizer steps."""
    epochs: Positive | None = None
    """Passes over the training data."""


class SearchLength(Length):
    """A training length of a search: steps, epochs, samples or seconds, one of the four."""

    samples: Positive | None = None
    """Training samples of all slots together. The built-in trainer counts them; a script of yours
    logs `progress/samples` with its metric."""
    seconds: Positive | None = None
    """Seconds of training, start-up and waiting at a rung left out. The built-in trainer counts them;
    a script of yours logs `progress/seconds` with its metric."""

    @property
    def units(self) -> int | None:
        """How long, in whatever it is counted; None where nothing is said."""
        return self.steps or self.epochs or self.samples or self.seconds


class Code(Section):
    """Where the code of an `entrypoint` comes from: `path` or `installed`."""

    path: Text | None = None
    """Folder to bundle and upload, relative to the document. Read by the command line; the server
    sees the uploaded bundle. The default for an `entrypoint` is `.`."""
    installed: Annotated[SafeStr, Field(max_length=4096, pattern=r"^/")] | None = None
    """Absolute path of a folder that exists on every node (shared storage, an image)."""


class EarlyStopping(Section):
    """End the training when validation has not become better for a while; the trial is COMPLETED,
    and its events say why."""

    metric: Annotated[SafeStr, Field(min_length=1, max_length=200)] = "val/loss"
    """Metric of the validations that is watched."""
    goal: Literal["min", "max"] | None = None
    """Whether less or more of it is better. Default: by its name, for `loss`, `perplexity`,
    `error`, `accuracy`, `f1`, `precision` and `recall`."""
    patience: Annotated[int, Field(ge=1, le=1_000_000)] = 3
    """Validations in a row that are no better than the best one."""
    min_delta: Annotated[float, Field(ge=0, le=1e9)] = 0.0
    """What does not differ by more than this is no better."""


class Trainer(Section):
    """The built-in trainer: no code needed. Any of these may also be a hyperparameter of the same
    name, which then wins."""

    model: Annotated[Literal["cnn", "gpt", "mlp", "resnet", "vit"], OrOwn] = "cnn"
    """Model to train; or `module:function` of your `code`, which is called with `inputs` and
    `classes` and gives a torch module."""
    data: Annotated[Literal["digits", "shakespeare", "synthetic"], OrOwn] = "digits"
    """Data set: images, or the text of `shakespeare`, which `gpt` needs; or `module:function` of
    your `code`, which gives the samples."""
    epochs: Positive | None = None
    """Training length. Default: `search.max_length`, else 3 epochs."""
    steps: Positive | None = None
    """Training length in optimizer steps, in place of `epochs`."""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] | Literal["auto"] = 32
    """Samples per slot and micro-batch. Global batch = batch_size × `resources.slots` ×
    accumulate, also while an elastic trial runs on fewer slots. `auto`: the largest power of two
    that fits into every worker's memory, found when the training starts and kept when it goes on."""
    batch_memory_gb: Annotated[float, Field(ge=1e-6, le=100_000)] | None = None
    """Of `batch_size: auto`: GB that a worker may take. Default: 0.8 of what its device, or its share
    of its node, has free."""
    optimizer: Literal["adamw", "lamb", "lars", "radam", "sgd"] = "adamw"
    """Optimizer; lars and lamb are for large global batches."""
    lr: Annotated[float, Field(ge=0, le=1000)] = 2e-3
    """Learning rate."""
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """How `lr` grows with the global batch: `linear` in proportion to it (the rule for sgd), `sqrt`
    with its square root."""
    reference_batch: Positive | None = None
    """The global batch for which `lr` is right. Default: `batch_size`, that of a single slot."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Of sgd and lars."""
    nesterov: bool = False
    """Of sgd: Nesterov's momentum."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Of adamw, radam and lamb."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    """Of adamw, radam and lamb."""
    trust: Annotated[float, Field(ge=0, le=1000)] = 1e-3
    """Of lars: share of a tensor's norm by which it may change in a step, at a learning rate of
    1."""
    weight_decay: Annotated[float, Field(ge=0, le=1000)] = 0.01
    """Weight decay."""
    decay_matrices_only: bool = False
    """No weight decay on biases and on the scales of norms."""
    schedule: Literal["constant", "cosine", "linear", "step"] = "cosine"
    """Learning rate over time, after the warm-up; cosine and linear fall to `lr` ×
    `final_lr_ratio` at the last planned step."""
    final_lr_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Of cosine and linear: what is left of the learning rate at the end."""
    decay_at: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], Field(max_length=100)] = [
        0.5,
        0.75,
    ]
    """Of step: shares of the training after which the learning rate is multiplied with
    `decay_factor`."""
    decay_factor: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Of step."""
    warmup_steps: Annotated[int, Field(ge=0, le=2**53)] = 0
    """Steps over which the learning rate rises from 0."""
    warmup_epochs: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """The same in epochs, in place of `warmup_steps`."""
    width: Annotated[int, Field(ge=1, le=65_536)] = 32
    """Channels of the first convolution, hidden units of the mlp, or size of what gpt and vit pass
    from block to block."""
    depth: Annotated[int, Field(ge=1, le=1_000)] = 2
    """Convolutions or residual blocks per resolution, hidden layers, or blocks of gpt and vit."""
    heads: Annotated[int, Field(ge=1, le=1_024)] = 4
    """Of each attention of gpt and vit; `width` has to be a multiple."""
    context: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    """Tokens (bytes) that a sample of a text has and gpt sees."""
    patch: Annotated[int, Field(ge=1, le=1_024)] = 2
    """Pixels of a side of the squares that vit cuts images into."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of activations dropped while training."""
    validate_every: Length | None = None
    """How often to look at the validation samples. Default: after each epoch. In any case at the
    end."""
    early_stopping: EarlyStopping | None = None
    """End when validation becomes no better."""
    save_best: bool = False
    """Save a checkpoint whenever the metric of `early_stopping`, or `val/loss`, is the best so far,
    and judge the test samples by the best one."""
    test: bool = True
    """Judge the test samples, which nothing else looks at, when the training is over."""
    synthetic: bool = False
    """Random samples of the same shapes in place of the data, to see what the data cost."""
    augment: bool = False
    """Shift digits by up to one pixel."""
    samples: Annotated[int, Field(ge=1, le=100_000_000)] = 4096
    """Size of the synthetic training set."""
    prefetch: Annotated[int, Field(ge=0, le=64)] = 0
    """Batches that a thread of each worker fetches ahead while a step computes; the samples and
    their order stay the same."""
    options: dict[SafeStr, Any] = {}
    """Further settings of the trainer, checked when it starts (`{rows_per_s: 20}`)."""


class Topology(Section):
    """Nodes that are close to each other, by a label of theirs."""

    key: LabelKey
    """Node label (`rack`, `zone`) of which all nodes of a trial should have the same value."""
    mode: Literal["prefer", "require"] = "prefer"
    """`prefer`: several values only when the slots of one are not enough. `require`: wait rather
    than spread over several."""


class Resources(Section):
    """What one trial needs. All its slots are granted together (gang scheduling)."""

    slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)] = 1
    """Slots of one trial; one worker runs on each."""
    min_slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)] | None = None
    """Makes the trial elastic: it may run on any number of slots from here to `slots`. It shrinks
    rather than be preempted and grows when slots stay idle; each time it saves a checkpoint and
    goes on from it with another world size."""
    slot_type: Literal["cpu", "cuda"] = "cpu"
    """Kind of slot."""
    pool: Identifier = "default"
    """Pool of nodes to run in."""
    nodes: Annotated[int, Field(ge=1, le=MAX_SLOTS)] | None = None
    """Spread the slots evenly over exactly this many nodes. Default: as few as possible."""
    max_nodes: Annotated[int, Field(ge=1, le=MAX_SLOTS)] | None = None
    """Wait rather than spread over more nodes than this."""
    uneven: bool = False
    """Allow nodes to carry different numbers of workers: 12 slots on two nodes of 8."""
    priority: Annotated[int, Field(ge=0, le=100)] = 50
    """Place in the queue, higher is more urgent."""
    preemptible: bool = True
    """Whether it may be asked to save a checkpoint and give up its slots to a trial of higher
    priority. It goes on later, and no restart is charged."""
    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=MAX_NODE_LABELS)] = {}
    """Labels, with their values, that a node must have (`{gpu: h100}`)."""
    allow_nodes: Annotated[list[NodeName], Field(max_length=MAX_NAMED_NODES)] = []
    """Names of the only nodes it may run on. Empty: any."""
    deny_nodes: Annotated[list[NodeName], Field(max_length=MAX_NAMED_NODES)] = []
    """Names of nodes it must not run on."""
    topology: Topology | None = None
    """Whether its nodes must be close to each other."""


Axis = Annotated[int, Field(ge=1, le=MAX_SLOTS)]


class Mesh(Section):
    """Sizes of the axes along which the workers of a strategy are arranged; together they are
    `resources.slots`."""

    pp: Axis = 1
    """Groups of workers that hold different layers: a pipeline (`mesh`)."""
    replicate: Axis = 1
    """Copies of the sharded model (`hsdp`, `mesh`). Best the number of nodes: slices are then
    gathered within a node."""
    shard: Axis | None = None
    """Workers that share one copy, fully sharded. Default: what the other axes leave."""
    tp: Axis = 1
    """Workers that share each matrix (`mesh`). Best within a node."""


class Strategy(Section):
    """How the workers of a trial share the work (built-in trainer)."""

    kind: Literal[
        "ddp", "single", "zero1", "fsdp", "hsdp", "tp", "pp", "mesh", "local_sgd", "diloco", "ps"
    ] = "ddp"
    """`ddp`: every worker holds the model, gradients are averaged. `single`: one worker, no
    process group. `zero1`: like ddp, the optimizer's state is split. `fsdp`: parameters,
    gradients and optimizer state are split. `hsdp`: fsdp within groups of workers that hold
    copies of each other. `tp`: every matrix is split. `pp`: layers are split, and micro-batches
    flow through them. `mesh`: the product of pp, replicate, shard and tp. tp and pp take the
    models gpt and vit. `local_sgd`: workers train copies and average them every `sync_every`
    steps. `diloco`: likewise, and an outer optimizer uses what they have moved. `ps`: rank 0 keeps
    the model and updates it, the others send it gradients."""
    accumulate: Annotated[int, Field(ge=1, le=4096)] = 1
    """Micro-batches per optimizer step."""
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """What forward and backward compute with; parameters and optimizer state stay fp32. `fp16`
    scales the loss so that small gradients do not vanish."""
    clip_norm: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Scale gradients down to this norm, that of the whole model's gradient however it is split."""
    recompute: bool = False
    """Activation checkpointing: keep only the inputs of each block and compute the rest again in
    backward."""
    compile: bool = False
    """Compile each block of the model with torch.compile (not with `tp`, `pp`, `mesh`). The first step
    waits for the compiler, on a CPU for a minute or more; it needs g++ there."""
    compression: Literal["none", "fp16", "bf16", "powersgd"] = "none"
    """How gradients are compressed before they are sent (`ddp`). `bf16` loses digits and never overflows,
    `powersgd` loses more and sends less."""
    powersgd_rank: Annotated[int, Field(ge=1, le=1024)] = 4
    """Columns of the factors that `powersgd` sends in place of a matrix."""
    bucket_mb: Annotated[float, Field(gt=0, le=10_000)] = 25.0
    """Gradients are sent in buckets of about this size (`ddp`, `zero1`)."""
    reshard: bool = True
    """Free the gathered parameters of a block after forward and gather them again in backward
    (`fsdp`, `hsdp`, `mesh`). false: more memory, less communication."""
    offload: bool = False
    """Keep parameters and optimizer state in host memory (`fsdp`, `hsdp`, `mesh`; slot_type
    cuda)."""
    sequence_parallel: bool = False
    """Split what lies between the matrices along the sequence (`tp`, `mesh`)."""
    schedule: Literal[
        "naive", "gpipe", "1f1b", "interleaved", "zero_bubble", "zbv", "dualpipe_v", "async"
    ] = "1f1b"
    """Order of forwards and backwards in a pipeline (`pp`, `mesh`). `interleaved`, `zero_bubble`,
    `zbv` and `dualpipe_v` give each worker two stages; `naive` has one micro-batch; `async` updates
    after each micro-batch and keeps the weights that those under way began with (`pp`)."""
    blocks_per_stage: Annotated[
        list[Annotated[int, Field(ge=1, le=10_000)]], Field(max_length=MAX_SLOTS)
    ] = []
    """Where a pipeline cuts the model (`pp`, `mesh`), first stage first. Default: rank 0 measures
    the blocks when a training starts, and stages are made to take equally long; one that goes on
    keeps its cut."""
    sync_every: Annotated[int, Field(ge=1, le=1_000_000)] = 8
    """Steps between two exchanges (`local_sgd`, `diloco`)."""
    local_after: Annotated[int, Field(ge=0, le=2**53)] = 0
    """Post-local SGD: average gradients in each step up to this one (`local_sgd`)."""
    outer_lr: Annotated[float, Field(gt=0, le=1000)] = 0.7
    """Learning rate of the outer optimizer (`diloco`)."""
    outer_momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Nesterov momentum of the outer optimizer (`diloco`)."""
    staleness: Annotated[int, Field(ge=0, le=1000)] | Literal["unbounded"] = 0
    """Steps that a worker may be ahead of the slowest one (`ps`). 0: synchronous; more: the server
    updates with each gradient as it comes; `unbounded`: workers wait for each other at validations
    and checkpoints alone."""
    mesh: Mesh = Mesh()
    """How the workers are arranged."""


class Budget(Section):
    """What an experiment may cost. When one of the limits is reached, its trials save a checkpoint
    and end, and the experiment is CANCELED with the reason; more can be given with `muster
    continue`. Slots cost from their reservation until they are free again."""

    slot_hours: Annotated[float, Field(gt=0, le=1e9)] | None = None
    """Slots × hours of all its trials together."""
    cost: Annotated[float, Field(gt=0, le=1e12)] | None = None
    """Money: slot-hours times the price of the pool (`muster pool list`)."""
    deadline: Text | None = None
    """A length of time since the submission (`6h`, `90min`, `1d12h`) or a moment with its time
    zone (`2026-03-01T18:00Z`)."""
    alert_at: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], Field(max_length=10)] = [
        0.5,
        0.9,
    ]
    """Shares of each limit at which an event tells of it, once."""


class From(Section):
    """A checkpoint of another experiment that every trial starts from: `checkpoint`, `trial` or
    `experiment`, one of the three."""

    checkpoint: Id | None = None
    """Id of a checkpoint."""
    trial: Id | None = None
    """Id of a trial; `pick` says which of its checkpoints."""
    experiment: Id | None = None
    """Id of an experiment: of its only trial, or of its best one."""
    pick: Literal["latest", "best"] = "latest"
    """Of a trial's checkpoints, the newest, or the best by the search metric."""
    load: Literal["all", "weights"] = "all"
    """`all`: go on from there, step count and optimizer included; code finds it as
    `muster.resume_from()`. `weights`: begin at step 0 with the model's weights alone, which code
    finds as `muster.weights_from()`."""


class Objective(Section):
    """One of several metrics by which trials are compared."""

    metric: Annotated[SafeStr, Field(min_length=1, max_length=200)]
    """Reported metric; a trial's last value of it counts."""
    goal: Literal["min", "max"]
    """Whether less (`min`) or more (`max`) is better."""


class WarmStart(Section):
    """What earlier searches have found."""

    experiments: Annotated[
        list[Annotated[int, Field(ge=1, lt=2**31)]], Field(min_length=1, max_length=10)
    ]
    """Their numbers. Trials count that ran to their end and have a finite value of this search's
    metric, and whose hyperparameters are all there and within this space; others are left out."""
    top: Annotated[int, Field(ge=0, le=100)] = 5
    """So many of their best points are tried first."""
    history: bool = True
    """Whether a sampler that learns is told of them all."""


class Search(Section):
    """How trials are chosen from `hyperparameters`."""

    method: Literal["single", "grid", "random", "asha", "hyperband", "median", "pbt"] = "single"
    """`single`: one trial. `grid`: every combination once. `random`: all to their end. `asha`:
    trials that are behind when they reach a rung are stopped, or wait there (`variant`).
    `hyperband`: the same in several brackets, in which everybody waits for everybody. `median`:
    trials worse than the median of the others are stopped. `pbt`: a population of which the worst
    are replaced by clones of the best."""
    sampler: Literal["random", "sobol", "halton", "tpe", "cmaes", "gp", "nsga2", "external"] = (
        "random"
    )
    """Where the points come from, whatever the method (but `single` and `grid`). `random`:
    independent draws. `sobol`, `halton`: sequences that fill the space evenly. `tpe`, `cmaes`,
    `gp`: learn from the trials so far, and need a metric; `gp`, a Gaussian process, also needs torch
    on the server. `nsga2` breeds from the best, for several `objectives`. `external`: a program of
    yours enqueues every point, `trials` of them at most, and says when there are no more."""
    runner: Literal["cluster", "external"] = "cluster"
    """Who runs the trials. `external`: a program of yours asks for them, trains them wherever it
    likes and tells their results; no slots are used, and there is no `entrypoint` and no `trainer`."""
    tell_within_s: Annotated[float, Field(ge=1, le=2_592_000)] = 86_400.0
    """`runner: external`: a trial of which nothing was told for so long counts as failed when the
    next one is asked for."""
    metric: Annotated[SafeStr, Field(min_length=1, max_length=200)] | None = None
    """Reported metric by which trials are compared (`val/loss`). Needed by every method that stops
    trials and every sampler that learns."""
    goal: Literal["min", "max"] | None = None
    """Whether less (`min`) or more (`max`) of the metric is better. Needed with `metric`."""
    objectives: Annotated[list[Objective], Field(min_length=2, max_length=4)] | None = None
    """Two to four metrics to compare trials by, instead of `metric` and `goal`: the first of them is
    shown as the best. With `random` and `grid`, which train all trials to their end."""
    trials: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = None
    """Trials to create. Needed by `random`, `asha` and `median`; a grid's number follows from the
    space, that of `hyperband` from `max_length` and `divisor`, and that of `pbt` from `population`."""
    max_length: SearchLength | None = None
    """Full training length of a trial, and what its rungs are counted in; one that goes on past it is stopped. Needed by `asha`,
    `hyperband`, `median` and `pbt`."""
    variant: Literal["stopping", "promotion"] = "stopping"
    """`asha`: `stopping` decides at once and stops for good; `promotion` pauses a trial at its rung
    with a checkpoint, and lets it go on when it is among the best."""
    brackets: Literal["aggressive", "standard", "conservative"] = "aggressive"
    """`asha`: `aggressive` judges every trial from the lowest rung on; `standard` and `conservative`
    share the trials among brackets that begin on higher ones."""
    divisor: Annotated[int, Field(ge=2, le=64)] = 4
    """`asha`, `hyperband`: one in so many trials goes on past a rung."""
    rungs: Annotated[int, Field(ge=1, le=16)] = 5
    """`asha`: rungs at most; fewer when `max_length` or `trials` leave no room for them."""
    concurrent: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Trials that may run or wait in the queue at once; those paused at a rung do not count. Default:
    as many as fit into the slots that are free or its own, and one more, up to 256; with `runner:
    external` 16."""
    interval: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """`median`, `pbt`: how often trials are compared, in the unit of `max_length`. Default: a tenth
    of it."""
    population: Annotated[int, Field(ge=2, le=MAX_TRIALS)] | None = None
    """`pbt`: trials that train at the same time. Needed by it."""
    quantile: Annotated[float, Field(gt=0, le=0.5)] = 0.25
    """`pbt`: the share of the population that is replaced whenever it is compared, and the share
    whose clones take their place. Rounded up."""
    resample: Annotated[float, Field(ge=0, le=1)] = 0.25
    """`pbt`: probability that a clone's hyperparameter is drawn anew. Otherwise it is perturbed."""
    factors: Annotated[
        list[Annotated[float, Field(gt=0, le=1_000)]], Field(min_length=1, max_length=10)
    ] = [0.8, 1.2]
    """`pbt`: a number of a clone is its parent's times one of these, within the bounds."""
    explore: (
        Annotated[
            list[Annotated[SafeStr, Field(min_length=1, max_length=500)]], Field(min_length=1)
        ]
        | None
    ) = None
    """`pbt`: the hyperparameters that clones change. Default: all that are searched. Leave out what
    shapes the model: a clone goes on from its parent's checkpoint."""
    constraints: Annotated[
        list[Annotated[SafeStr, Field(min_length=1, max_length=500)]], Field(max_length=50)
    ] = []
    """Conditions every drawn point fulfils: `batch_size * accumulate <= 4096`."""
    warm_start: WarmStart | None = None
    """Begin with what earlier experiments have found. With `random`, `asha` and `median`."""
    unit_s: Annotated[float, Field(gt=0, le=10_000_000)] | None = None
    """Seconds that a trial takes for one unit of `max_length`, for the preview of what a search
    costs. Default: as measured by the latest experiment of the same name in the project."""
    target: Annotated[float, Field(allow_inf_nan=False)] | None = None
    """The search ends when a trial reports this value of the metric or a better one."""
    patience: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = None
    """The search ends when so many trials in a row have ended without a better value."""
    max_failures: Annotated[int, Field(ge=1, le=MAX_TRIALS)] | None = None
    """The search ends when so many trials in a row have failed and none has reported in between."""
    max_invalid: Annotated[int, Field(ge=0, le=1_000)] = 10
    """So many trials in all that say that their hyperparameters cannot work
    (`muster.InvalidHyperparameters`) are replaced by others, with `random`, `asha` and `median`."""
    seed: Annotated[int, Field(ge=0, le=2**53)] = 0
    """Seed of all draws. The same seed and space give the same trials; change it for others."""


class Restarts(Section):
    """How often a trial is started again from its latest checkpoint, by kind of failure."""

    user: Annotated[int, Field(ge=0, le=100)] = 0
    """After failures of its own code."""
    infra: Annotated[int, Field(ge=0, le=1000)] = 3
    """After failures of machines, network or launcher."""


class Keep(Section):
    """Which checkpoints are kept; what any of the numbers keeps is kept. Of a trial that has not ended
    the two newest stay in any case, and so does what a fork starts from."""

    last: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Of each trial, the newest."""
    best: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Of each trial, the best by `search.metric`."""
    experiment_best: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Of all trials together, the best."""


class Checkpoints(Section):
    """When the built-in trainer saves, and where checkpoints live."""

    every: Length | None = Length(epochs=1)
    """How often to save. null: only at the end."""
    async_: Annotated[bool, Field(alias="async")] = True
    """Train on while the files are written; training waits for the copy in memory alone. false: it
    waits until the checkpoint is on the disk."""
    keep: Keep | None = None
    """Delete the others while training goes on. Default: everything is kept."""
    storage: Annotated[SafeStr, Field(min_length=1, max_length=1024)] = "local"
    """`local`: the storage folder of the agents, which all nodes of a trial must share when it is
    to continue on another node. Or a folder of an object store, `s3://bucket/folder` or
    `gs://bucket/folder`, which every node reaches: the workers' Python and the agent's need
    `muster-train[s3]` or `muster-train[gcs]`, and the credentials are those of the nodes'
    environment."""


class Environment(Section):
    """The processes' environment."""

    python: Text | None = None
    """Interpreter on the node. Default: the agent's."""
    variables: dict[
        Annotated[SafeStr, Field(max_length=128)], Annotated[SafeStr, Field(max_length=32_768)]
    ] = {}
    """Environment variables. Values are text: `"1"`, not `1`."""
    warm: bool = True
    """Let the workers of `torchrun` on one node be forked from a process that has imported torch
    already, where the agent has one; `false` starts each as an interpreter of its own."""


class Measure(Section):
    """What is measured while training."""

    steps: bool = True
    """Measure steps: their parts, communication, memory, throughput (cost: below 1 % of
    throughput). `false` turns all of it off; what a script logs by itself is kept."""
    comm: bool = True
    """Time communication per collective, as a part of that."""
    peak_tflops: float | None = Field(default=None, gt=0, le=1e9)
    """What one device can do, in 10¹² operations per second: MFU is reported as a share of it. By
    default what the maker says of the GPU in use; CPUs have none, and no MFU."""


class Preflight(Section):
    """What is made sure of before a trial that spans nodes starts. With one node there is nothing
    to be compared."""

    versions: Literal["warn", "require"] = "warn"
    """When its nodes have different versions of Python (3.11 and 3.12), torch, CUDA, the driver or
    Muster, or other files in the folder of `code.installed`: `warn` in the trial's events, which
    names nodes and versions, or `require` them to be the same and do not start."""
    network: bool = False
    """Let every node connect to every other one, and each pair add up a vector over gloo, before
    the start. When something fails the trial does not start, and the reason names the pair."""


class Document(Section):
    """One experiment."""

    name: Name
    """What it is called; need not be unique."""
    project: Annotated[SafeStr, Field(max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$")] = (
        "default"
    )
    """Project it belongs to; made when it does not exist."""
    labels: Annotated[
        dict[
            Annotated[SafeStr, Field(min_length=1, max_length=64)],
            Annotated[SafeStr, Field(max_length=256)],
        ],
        Field(max_length=64),
    ] = {}
    """Labels to find it by (`{team: vision}`)."""
    notes: Annotated[SafeStr, Field(max_length=100_000)] = ""
    """Free text, Markdown."""
    entrypoint: list[Text] | None = None
    """What to run: `train.py --epochs 3` or `-m package.module`, as text or as a list of
    arguments. Split like a shell would, but no shell runs: no pipes, no variables. This or
    `trainer`."""
    trainer: Trainer | None = None
    """Train with the built-in trainer. This or `entrypoint`."""
    code: Code | None = None
    """Where the code comes from."""
    resources: Resources = Resources()
    """What one trial needs."""
    strategy: Strategy = Strategy()
    """How workers share the work."""
    hyperparameters: dict[SafeStr, Any] = {}
    """Constants and spaces: `{log: [lo, hi]}`, `{uniform: [lo, hi]}`, `{int: [lo, hi], step: 1}`,
    `{choice: [...]}`, `{const: value}`, nested as you like. `count` beside log, uniform and int
    is the number of values a grid takes of it."""
    search: Search = Search()
    """How trials are chosen."""
    budget: Budget | None = None
    """What it may cost. Default: as much as its project."""
    from_: Annotated[From | None, Field(alias="from")] = None
    """Start from a checkpoint of another experiment (warm start, fine-tuning)."""
    restarts: Restarts = Restarts()
    """How failures are retried."""
    checkpoints: Checkpoints = Checkpoints()
    """When and where checkpoints are saved."""
    environment: Environment = Environment()
    """Interpreter and variables."""
    launcher: Literal["torchrun", "direct"] = "torchrun"
    """`torchrun`, or `direct`: the agent starts one process per slot itself, with the same
    environment variables."""
    on_disconnect: Literal["continue", "stop"] = "continue"
    """What a node does with its workers when it cannot reach the server for longer than its
    lease: `continue` training, or `stop` so that the trial may be placed elsewhere."""
    stop_grace_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds between asking workers to stop and killing them."""
    preflight: Preflight = Preflight()
    """What is made sure of before the start."""
    measure: Measure = Measure()
    """What is measured."""
    log_limit_mb: Annotated[int, Field(ge=1, le=10_240)] = 100
    """Log kept per worker and stream, in MB; past it the log is cut, with a marker."""
