"""The `strategy` section: how the workers of a trial share the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from .common import MAX_SLOTS, Bounds

Kind = Literal[
    "ddp", "single", "zero1", "fsdp", "hsdp", "tp", "pp", "mesh", "local_sgd", "diloco", "ps"
]
Precision = Literal["fp32", "bf16", "fp16"]
Compression = Literal["none", "fp16", "bf16", "powersgd"]

Schedule = Literal[
    "naive", "gpipe", "1f1b", "interleaved", "zero_bubble", "zbv", "dualpipe_v", "async"
]

Axis = Annotated[int, Bounds(ge=1, le=MAX_SLOTS)]


@dataclass(frozen=True, kw_only=True)
class Mesh:
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


@dataclass(frozen=True, kw_only=True)
class StrategySection:
    """How the workers of a trial share the work (built-in trainer)."""

    kind: Kind = "ddp"
    """`ddp`: every worker holds the model, gradients are averaged. `single`: one worker, no
    process group. `zero1`: like ddp, the optimizer's state is split. `fsdp`: parameters,
    gradients and optimizer state are split. `hsdp`: fsdp within groups of workers that hold
    copies of each other. `tp`: every matrix is split. `pp`: layers are split, and micro-batches
    flow through them. `mesh`: the product of pp, replicate, shard and tp. tp and pp take the
    models gpt and vit. `local_sgd`: workers train copies and average them every `sync_every`
    steps. `diloco`: likewise, and an outer optimizer uses what they have moved. `ps`: rank 0 keeps
    the model and updates it, the others send it gradients."""
    accumulate: Annotated[int, Bounds(ge=1, le=4096)] = 1
    """Micro-batches per optimizer step."""
    precision: Precision = "fp32"
    """What forward and backward compute with; parameters and optimizer state stay fp32. `fp16`
    scales the loss so that small gradients do not vanish."""
    clip_norm: Annotated[float, Bounds(gt=0, le=1e9)] | None = None
    """Scale gradients down to this norm, that of the whole model's gradient however it is split."""
    recompute: bool = False
    """Activation checkpointing: keep only the inputs of each block and compute the rest again in
    backward."""
    compile: bool = False
    """Compile each block of the model with torch.compile (not with `tp`, `pp`, `mesh`). The first step
    waits for the compiler, on a CPU for a minute or more; it needs g++ there."""
    compression: Compression = "none"
    """How gradients are compressed before they are sent (`ddp`). `bf16` loses digits and never overflows,
    `powersgd` loses more and sends less."""
    powersgd_rank: Annotated[int, Bounds(ge=1, le=1024)] = 4
    """Columns of the factors that `powersgd` sends in place of a matrix."""
    bucket_mb: Annotated[float, Bounds(gt=0, le=10_000)] = 25.0
    """Gradients are sent in buckets of about this size (`ddp`, `zero1`)."""
    reshard: bool = True
    """Free the gathered parameters of a block after forward and gather them again in backward
    (`fsdp`, `hsdp`, `mesh`). false: more memory, less communication."""
    offload: bool = False
    """Keep parameters and optimizer state in host memory (`fsdp`, `hsdp`, `mesh`; slot_type
    cuda)."""
    sequence_parallel: bool = False
    """Split what lies between the matrices along the sequence (`tp`, `mesh`)."""
    schedule: Schedule = "1f1b"
    """Order of forwards and backwards in a pipeline (`pp`, `mesh`). `interleaved`, `zero_bubble`,
    `zbv` and `dualpipe_v` give each worker two stages; `naive` has one micro-batch; `async` updates
    after each micro-batch and keeps the weights that those under way began with (`pp`)."""
    blocks_per_stage: Annotated[
        tuple[Annotated[int, Bounds(ge=1, le=10_000)], ...], Bounds(max_length=MAX_SLOTS)
    ] = ()
    """Where a pipeline cuts the model (`pp`, `mesh`), first stage first. Default: rank 0 measures
    the blocks when a training starts, and stages are made to take equally long; one that goes on
    keeps its cut."""
    sync_every: Annotated[int, Bounds(ge=1, le=1_000_000)] = 8
    """Steps between two exchanges (`local_sgd`, `diloco`)."""
    local_after: Annotated[int, Bounds(ge=0, le=2**53)] = 0
    """Post-local SGD: average gradients in each step up to this one (`local_sgd`)."""
    outer_lr: Annotated[float, Bounds(gt=0, le=1000)] = 0.7
    """Learning rate of the outer optimizer (`diloco`)."""
    outer_momentum: Annotated[float, Bounds(ge=0, lt=1)] = 0.9
    """Nesterov momentum of the outer optimizer (`diloco`)."""
    staleness: Annotated[int, Bounds(ge=0, le=1000)] | Literal["unbounded"] = 0
    """Steps that a worker may be ahead of the slowest one (`ps`). 0: synchronous; more: the server
    updates with each gradient as it comes; `unbounded`: workers wait for each other at validations
    and checkpoints alone."""
    mesh: Mesh = Mesh()
    """How the workers are arranged."""
