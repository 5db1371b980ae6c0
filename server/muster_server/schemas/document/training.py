"""What is trained, and how its workers share the work."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from muster.training import settings
from muster_server.schemas.base import SafeStr

from .common import (
    MAX_SLOTS,
    Length,
    OrOwn,
    Section,
)

Axis = Annotated[int, Field(ge=1, le=MAX_SLOTS)]


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


def _in(name: str) -> Any:
    """The range that the trainer itself allows."""
    return Field(**settings.SETTINGS[name].limits)


class Trainer(Section):
    """The built-in trainer: no code needed. Any of these may also be a hyperparameter of the same
    name, which then wins."""

    model: Annotated[settings.Model, OrOwn] = "cnn"
    """Model to train; or `module:function` of your `code`, which is called with `inputs` and
    `classes` and gives a torch module."""
    data: Annotated[settings.Data, OrOwn] = "digits"
    """Data set: images, or the text of `shakespeare`, which `gpt` needs; or `module:function` of
    your `code`, which gives the samples."""
    epochs: Annotated[int, _in("epochs")] | None = None
    """Training length. Default: `search.max_length`, else 3 epochs."""
    steps: Annotated[int, _in("steps")] | None = None
    """Training length in optimizer steps, in place of `epochs`."""
    batch_size: Annotated[int, _in("batch_size")] | Literal["auto"] = 32
    """Samples per slot and micro-batch. Global batch = batch_size × `resources.slots` ×
    accumulate, also while an elastic trial runs on fewer slots. `auto`: the largest power of two
    that fits into every worker's memory, found when the training starts and kept when it goes on."""
    batch_memory_gb: Annotated[float, _in("batch_memory_gb")] | None = None
    """Of `batch_size: auto`: GB that a worker may take. Default: 0.8 of what its device, or its share
    of its node, has free."""
    optimizer: settings.OptimizerName = "adamw"
    """Optimizer; lars and lamb are for large global batches."""
    lr: Annotated[float, _in("lr")] = 2e-3
    """Learning rate."""
    lr_scaling: settings.LrScaling = "none"
    """How `lr` grows with the global batch: `linear` in proportion to it (the rule for sgd), `sqrt`
    with its square root."""
    reference_batch: Annotated[int, _in("reference_batch")] | None = None
    """The global batch for which `lr` is right. Default: `batch_size`, that of a single slot."""
    momentum: Annotated[float, _in("momentum")] = 0.9
    """Of sgd and lars."""
    nesterov: bool = False
    """Of sgd: Nesterov's momentum."""
    beta1: Annotated[float, _in("beta1")] = 0.9
    """Of adamw, radam and lamb."""
    beta2: Annotated[float, _in("beta2")] = 0.999
    """Of adamw, radam and lamb."""
    trust: Annotated[float, _in("trust")] = 1e-3
    """Of lars: share of a tensor's norm by which it may change in a step, at a learning rate of
    1."""
    weight_decay: Annotated[float, _in("weight_decay")] = 0.01
    """Weight decay."""
    decay_matrices_only: bool = False
    """No weight decay on biases and on the scales of norms."""
    schedule: settings.Schedule = "cosine"
    """Learning rate over time, after the warm-up; cosine and linear fall to `lr` ×
    `final_lr_ratio` at the last planned step."""
    final_lr_ratio: Annotated[float, _in("final_lr_ratio")] = 0.0
    """Of cosine and linear: what is left of the learning rate at the end."""
    decay_at: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], Field(max_length=100)] = [
        0.5,
        0.75,
    ]
    """Of step: shares of the training after which the learning rate is multiplied with
    `decay_factor`."""
    decay_factor: Annotated[float, _in("decay_factor")] = 0.1
    """Of step."""
    warmup_steps: Annotated[int, _in("warmup_steps")] = 0
    """Steps over which the learning rate rises from 0."""
    warmup_epochs: Annotated[float, _in("warmup_epochs")] | None = None
    """The same in epochs, in place of `warmup_steps`."""
    width: Annotated[int, _in("width")] = 32
    """Channels of the first convolution, hidden units of the mlp, or size of what gpt and vit pass
    from block to block."""
    depth: Annotated[int, _in("depth")] = 2
    """Convolutions or residual blocks per resolution, hidden layers, or blocks of gpt and vit."""
    heads: Annotated[int, _in("heads")] = 4
    """Of each attention of gpt and vit; `width` has to be a multiple."""
    context: Annotated[int, _in("context")] = 64
    """Tokens (bytes) that a sample of a text has and gpt sees."""
    patch: Annotated[int, _in("patch")] = 2
    """Pixels of a side of the squares that vit cuts images into."""
    dropout: Annotated[float, _in("dropout")] = 0.0
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
    samples: Annotated[int, _in("samples")] = 4096
    """Size of the synthetic training set."""
    prefetch: Annotated[int, _in("prefetch")] = 0
    """Batches that a thread of each worker fetches ahead while a step computes; the samples and
    their order stay the same."""
    options: dict[SafeStr, Any] = {}
    """Further settings of the trainer (`{rows_per_s: 20}`)."""


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
