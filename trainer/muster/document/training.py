"""The `trainer` section: what the built-in trainer trains, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from .common import Bounds, Length, Mark
from .probes import Probe

Model = Literal["cnn", "gpt", "mlp", "resnet", "vit"]
Data = Literal["digits", "shakespeare", "synthetic"]
OptimizerName = Literal["adamw", "lamb", "lars", "radam", "sgd"]
Schedule = Literal["constant", "cosine", "linear", "step"]
LrScaling = Literal["none", "linear", "sqrt"]
BATCH_SIZE = 32
"""The default, and what the search for the largest one that fits begins with."""


@dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """End the training when validation has not become better for a while; the trial is COMPLETED,
    and its events say why."""

    metric: Annotated[str, Bounds(min_length=1, max_length=200)] = "val/loss"
    """Metric of the validations that is watched."""
    goal: Literal["min", "max"] | None = None
    """Whether less or more of it is better. Default: by its name, for `loss`, `perplexity`,
    `error`, `accuracy`, `f1`, `precision` and `recall`."""
    patience: Annotated[int, Bounds(ge=1, le=1_000_000)] = 3
    """Validations in a row that are no better than the best one."""
    min_delta: Annotated[float, Bounds(ge=0, le=1e9)] = 0.0
    """What does not differ by more than this is no better."""


@dataclass(frozen=True, kw_only=True)
class TrainerSection:
    """The built-in trainer: no code needed. Any of these may also be a hyperparameter of the same
    name, which then wins."""

    model: Annotated[Model, Mark.OWN_FUNCTION, Mark.STRUCTURAL] = "cnn"
    """Model to train; or `module:function` of your `code`, which is called with `inputs` and
    `classes` and gives a torch module."""
    data: Annotated[Data, Mark.OWN_FUNCTION, Mark.STRUCTURAL] = "digits"
    """Data set: images, or the text of `shakespeare`, which `gpt` needs; or `module:function` of
    your `code`, which gives the samples."""
    epochs: Annotated[int, Bounds(ge=1, le=2**53)] | None = None
    """Training length. Default: `search.max_length`, else 3 epochs."""
    steps: Annotated[int, Bounds(ge=1, le=2**53)] | None = None
    """Training length in optimizer steps, in place of `epochs`."""
    batch_size: Annotated[int, Bounds(ge=1, le=1_000_000), Mark.STRUCTURAL] | Literal["auto"] = (
        BATCH_SIZE
    )
    """Samples per slot and micro-batch. Global batch = batch_size × `resources.slots` ×
    accumulate, also while an elastic trial runs on fewer slots. `auto`: the largest power of two
    that fits into every worker's memory, found when the training starts and kept when it goes on."""
    batch_memory_gb: Annotated[float, Bounds(ge=1e-6, le=100_000)] | None = None
    """Memory in GB that a worker may use with `batch_size: auto`. Default: 0.8 of what its device, or
    its share of its node, has free."""
    optimizer: Annotated[OptimizerName, Mark.STRUCTURAL] = "adamw"
    """Optimizer; lars and lamb are for large global batches."""
    lr: Annotated[float, Bounds(ge=0, le=1000)] = 2e-3
    """Learning rate."""
    lr_scaling: LrScaling = "none"
    """How `lr` grows with the global batch: `linear` in proportion to it (the rule for sgd), `sqrt`
    with its square root."""
    reference_batch: Annotated[int, Bounds(ge=1, le=2**53)] | None = None
    """The global batch for which `lr` is right. Default: `batch_size`, that of a single slot."""
    momentum: Annotated[float, Bounds(ge=0, lt=1)] = 0.9
    """Momentum of sgd and lars."""
    nesterov: bool = False
    """Use Nesterov's momentum with sgd."""
    beta1: Annotated[float, Bounds(ge=0, lt=1)] = 0.9
    """Decay of the first moment, for adamw, radam and lamb."""
    beta2: Annotated[float, Bounds(ge=0, lt=1)] = 0.999
    """Decay of the second moment, for adamw, radam and lamb."""
    trust: Annotated[float, Bounds(ge=0, le=1000)] = 1e-3
    """Share of a tensor's norm by which lars may change it in a step, at a learning rate of 1."""
    weight_decay: Annotated[float, Bounds(ge=0, le=1000)] = 0.01
    """Weight decay."""
    decay_matrices_only: Annotated[bool, Mark.STRUCTURAL] = False
    """No weight decay on biases and on the scales of norms."""
    schedule: Schedule = "cosine"
    """Learning rate over time, after the warm-up; cosine and linear fall to `lr` ×
    `final_lr_ratio` at the last planned step."""
    final_lr_ratio: Annotated[float, Bounds(ge=0, le=1)] = 0.0
    """Share of `lr` that is left at the end of the schedules cosine and linear."""
    decay_at: Annotated[
        tuple[Annotated[float, Bounds(gt=0, lt=1)], ...], Bounds(max_length=100)
    ] = (0.5, 0.75)
    """Shares of the training after which the schedule step multiplies the learning rate by
    `decay_factor`."""
    decay_factor: Annotated[float, Bounds(ge=0, le=1)] = 0.1
    """Factor of the schedule step."""
    warmup_steps: Annotated[int, Bounds(ge=0, le=2**53)] = 0
    """Steps over which the learning rate rises from 0."""
    warmup_epochs: Annotated[float, Bounds(ge=0, le=1e9)] | None = None
    """Epochs over which the learning rate rises from 0, in place of `warmup_steps`."""
    width: Annotated[int, Bounds(ge=1, le=65_536), Mark.STRUCTURAL] = 32
    """Channels of the first convolution, hidden units of the mlp, or size of what gpt and vit pass
    from block to block."""
    depth: Annotated[int, Bounds(ge=1, le=1000), Mark.STRUCTURAL] = 2
    """Convolutions or residual blocks per resolution, hidden layers, or blocks of gpt and vit."""
    heads: Annotated[int, Bounds(ge=1, le=1024), Mark.STRUCTURAL] = 4
    """Attention heads of gpt and vit; `width` must be a multiple of it."""
    context: Annotated[int, Bounds(ge=1, le=1_000_000), Mark.STRUCTURAL] = 64
    """Tokens (bytes) that a sample of a text has and gpt sees."""
    patch: Annotated[int, Bounds(ge=1, le=1024), Mark.STRUCTURAL] = 2
    """Pixels of a side of the squares that vit cuts images into."""
    dropout: Annotated[float, Bounds(ge=0, lt=1)] = 0.0
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
    samples: Annotated[int, Bounds(ge=1, le=100_000_000), Mark.STRUCTURAL] = 4096
    """Size of the synthetic training set."""
    prefetch: Annotated[int, Bounds(ge=0, le=64)] = 0
    """Batches that a thread of each worker fetches ahead while a step computes; the samples and
    their order stay the same."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further settings of the trainer (`{rows_per_s: 20}`)."""


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """What `trainer.options` may hold besides the settings of the trainer."""

    seed: int = 0
    rows_per_s: Annotated[float, Bounds(ge=0)] = 20.0
    """At most that many metric rows per worker and second; faster steps are averaged. 0: each."""
    time_network: bool = False
    """Say, after the last step, how long collectives of all workers take (see `network_times`)."""
    probe: Probe | None = None
    """A short training that shows what something costs; written as in probes.EXPECTED."""
