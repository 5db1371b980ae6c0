"""What can be said about a strategy, and what can be combined. Pure: the server validates with it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["ddp", "single", "zero1", "fsdp", "hsdp"]
Precision = Literal["fp32", "bf16", "fp16"]
Compression = Literal["none", "fp16", "powersgd"]

SHARDED: frozenset[str] = frozenset({"fsdp", "hsdp"})
"""Kinds that split parameters."""
WHOLE: frozenset[str] = frozenset({"single", "ddp", "zero1"})
"""Kinds of which every worker holds the whole model."""


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """Sizes of the axes along which workers are arranged; the first one varies slowest."""

    replicate: int = 1
    """Copies of the sharded model."""
    shard: int | None = None
    """Workers that share one copy. None: what the other axes leave."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The `strategy` section of an experiment document."""

    kind: Kind = "ddp"
    accumulate: int = 1
    """Micro-batches per optimizer step at full size."""
    precision: Precision = "fp32"
    """What forward and backward compute with; parameters and optimizer stay fp32."""
    clip_norm: float | None = None
    """Gradients are scaled down to this norm, that of the whole model's gradient."""
    recompute: bool = False
    """Keep only the inputs of each block and compute the rest again in backward."""
    compression: Compression = "none"
    """How gradients are compressed before they are sent (ddp)."""
    powersgd_rank: int = 4
    """Columns of the factors that powersgd sends in place of a matrix."""
    bucket_mb: float = 25.0
    """Gradients are sent in buckets of about this size (ddp)."""
    reshard: bool = True
    """Free the gathered parameters of a block after forward and gather them again in backward
    (fsdp, hsdp)."""
    offload: bool = False
    """Keep parameters and optimizer state in host memory (fsdp, hsdp; cuda only)."""
    mesh: Mesh = field(default_factory=Mesh)


@dataclass(frozen=True, kw_only=True)
class Problem:
    path: str
    """Of the key to change, such as strategy.kind."""
    message: str
    hint: str
    """The nearest choice that is valid."""


def axes(options: Options, slots: int) -> dict[str, int]:
    """Sizes of the mesh's axes, by name, slowest first. Their product is `slots` when `problems`
    finds nothing."""
    mesh = options.mesh
    shard = mesh.shard if mesh.shard is not None else max(slots // mesh.replicate, 1)
    return {"replicate": mesh.replicate, "shard": shard}


def problems(
    options: Options, *, slots: int, min_slots: int | None = None, slot_type: str = "cpu"
) -> Iterator[Problem]:
    """Everything in the options that does not go together, or not with the resources.

    min_slots: of an elastic trial; None: always `slots`.
    """
    if options.kind == "single" and slots > 1:
        yield Problem(
            path="strategy.kind",
            message=f"single uses one worker, but resources.slots is {slots}",
            hint="use ddp, or one slot",
        )
    yield from _misplaced(options)
    yield from _mesh(options, slots, min_slots)
    if options.offload and options.kind in SHARDED and slot_type != "cuda":
        yield Problem(
            path="strategy.offload",
            message="moves parameters from a device to its host, and cpu slots have no device",
            hint="leave it out, or use resources.slot_type: cuda",
        )


def _misplaced(options: Options) -> Iterator[Problem]:
    """Options that would have no effect with this kind."""
    default = Options()
    only_for: dict[str, frozenset[str]] = {
        "compression": frozenset({"ddp"}),
        "bucket_mb": frozenset({"ddp", "zero1"}),
        "reshard": SHARDED,
        "offload": SHARDED,
    }
    for name, kinds in only_for.items():
        if getattr(options, name) != getattr(default, name) and options.kind not in kinds:
            yield Problem(
                path=f"strategy.{name}",
                message=f"has no effect with strategy.kind {options.kind}",
                hint=f"leave it out, or use {' or '.join(sorted(kinds))}",
            )
    if options.powersgd_rank != default.powersgd_rank and options.compression != "powersgd":
        yield Problem(
            path="strategy.powersgd_rank",
            message=f"has no effect with compression {options.compression}",
            hint="leave it out, or use compression: powersgd",
        )
    if options.compression != "none" and options.precision == "fp16":
        yield Problem(
            path="strategy.compression",
            message="sends scaled fp16 gradients through a lossy code, which overflows",
            hint="use precision: bf16 or fp32, or no compression",
        )


def _mesh(options: Options, slots: int, min_slots: int | None) -> Iterator[Problem]:
    if options.kind != "hsdp":
        if options.mesh != Mesh():
            yield Problem(
                path="strategy.mesh",
                message=f"has no effect with strategy.kind {options.kind}",
                hint="leave it out, or use hsdp",
            )
        return
    if options.mesh.replicate < 2:
        yield Problem(
            path="strategy.mesh.replicate",
            message="is 1: hsdp shards within a group of workers and keeps a copy in each group",
            hint="write {replicate: 2}, or use fsdp",
        )
    sizes = axes(options, slots)
    if math.prod(sizes.values()) != slots:
        said = " × ".join(f"{name} {size}" for name, size in sizes.items())
        near = [n for n in range(2, slots + 1) if slots % n == 0]
        yield Problem(
            path="strategy.mesh",
            message=f"{said} is {math.prod(sizes.values())} workers, but resources.slots is {slots}",
            hint=f"leave shard out, and let replicate be one of {', '.join(map(str, near))}"
            if near
            else "use ddp, or more slots",
        )
    elif min_slots is not None and min_slots != slots:
        yield Problem(
            path="resources.min_slots",
            message=f"a mesh of {slots} workers cannot be laid over fewer",
            hint="leave it out, or use fsdp, which takes any number of workers",
        )
