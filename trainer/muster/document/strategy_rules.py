"""What can be combined in the strategy section. Pure: server and trainer check with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .strategy import Mesh, Schedule, StrategySection

SHARDED: frozenset[str] = frozenset({"fsdp", "hsdp", "mesh"})
"""Kinds that can have parameters fully sharded."""
SPLIT_MODELS = ("gpt", "vit")
"""Models of blocks with matrices of their own, which tensor and pipeline parallel can cut."""
TP_COLUMNS = ("attention.query", "attention.key", "attention.value", "mlp.up")
"""Matrices of a block that tensor parallel splits by columns, …"""
TP_ROWS = ("attention.out", "mlp.down")
"""… and those by rows, which take what the ones before make."""
STAGES_PER_WORKER: dict[Schedule, int] = {
    "naive": 1,
    "gpipe": 1,
    "1f1b": 1,
    "interleaved": 2,
    "zero_bubble": 2,
    "zbv": 2,
    "dualpipe_v": 2,
    "async": 1,
}
V_SCHEDULES: frozenset[Schedule] = frozenset({"zbv", "dualpipe_v"})
"""The second half of the stages goes back over the workers: the first one has the last stage too."""
APART: frozenset[Schedule] = V_SCHEDULES | {"zero_bubble"}
"""They compute the gradients of weights apart from those of activations."""


@dataclass(frozen=True, kw_only=True)
class RuleProblem:
    path: str
    """Path of the key to change, such as strategy.kind."""
    message: str
    hint: str
    """The nearest choice that is valid."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What has to be known of a model to cut it. None: not known before it is built."""

    model: str
    depth: int | None = None
    heads: int | None = None


def axes(options: StrategySection, slots: int) -> dict[str, int]:
    """Sizes of the mesh's axes, by name, slowest first. Their product is `slots` when `problems`
    finds nothing."""
    mesh, kind = options.mesh, options.kind
    sizes = {"pp": 1, "replicate": 1, "shard": 1, "tp": 1}
    if kind in ("hsdp", "mesh"):
        others = mesh.pp * mesh.replicate * mesh.tp
        shard = mesh.shard if mesh.shard is not None else max(slots // others, 1)
        return {"pp": mesh.pp, "replicate": mesh.replicate, "shard": shard, "tp": mesh.tp}
    only = {"fsdp": "shard", "tp": "tp", "pp": "pp"}.get(kind, "replicate")
    return sizes | {only: slots}


def coordinates(sizes: Mapping[str, int], rank: int) -> dict[str, int]:
    """Return the position of the worker `rank` on each axis; the last axis varies fastest."""
    found: dict[str, int] = {}
    for name in reversed(list(sizes)):
        rank, found[name] = divmod(rank, sizes[name])
    return found


def problems(
    options: StrategySection,
    *,
    slots: int,
    min_slots: int | None = None,
    slot_type: str = "cpu",
    shape: Shape | None = None,
) -> Iterator[RuleProblem]:
    """Yield everything in the options that does not go together, or not with resources and model.

    min_slots: of an elastic trial; None: always `slots`. shape: None: nothing is known of it.
    """
    if options.kind == "single" and slots > 1:
        yield RuleProblem(
            path="strategy.kind",
            message=f"single uses one worker, but resources.slots is {slots}",
            hint="use ddp, or one slot",
        )
    if options.kind == "ps" and options.staleness != 0 and slot_type == "cuda":
        yield RuleProblem(
            path="strategy.staleness",
            message="needs a server that takes whichever gradient comes first, which NCCL cannot",
            hint="use staleness 0, or resources.slot_type: cpu",
        )
    if options.kind == "ps" and slots < 2:
        yield RuleProblem(
            path="resources.slots",
            message="is 1, and a parameter server needs a worker beside it",
            hint="use 2 or more, or kind: ddp",
        )
    yield from _misplaced(options)
    fits = list(_mesh(options, slots))
    yield from fits
    if not fits:
        if options.schedule in APART and axes(options, slots)["shard"] > 1:
            yield RuleProblem(
                path="strategy.schedule",
                message=f"{options.schedule} computes the gradients of weights apart, after fully sharded "
                "parameters have sent theirs, so that some would be lost",
                hint="use 1f1b or interleaved, or a mesh with shard 1",
            )
        yield from _elastic(options, slots, min_slots)
        if shape is not None:
            yield from _model(options, axes(options, slots), shape)
    if options.offload and options.kind in SHARDED and slot_type != "cuda":
        yield RuleProblem(
            path="strategy.offload",
            message="moves parameters from a device to its host, and cpu slots have no device",
            hint="leave it out, or use resources.slot_type: cuda",
        )


def _misplaced(options: StrategySection) -> Iterator[RuleProblem]:
    """Yield settings that would have no effect with this kind of strategy, or harm."""
    default = StrategySection()
    only_for: dict[str, tuple[str, ...]] = {
        "compression": ("ddp",),
        "bucket_mb": ("ddp", "zero1"),
        "reshard": ("fsdp", "hsdp", "mesh"),
        "offload": ("fsdp", "hsdp", "mesh"),
        "sequence_parallel": ("tp", "mesh"),
        "schedule": ("pp", "mesh"),
        "blocks_per_stage": ("pp", "mesh"),
        "sync_every": ("local_sgd", "diloco"),
        "local_after": ("local_sgd",),
        "outer_lr": ("diloco",),
        "outer_momentum": ("diloco",),
        "staleness": ("ps",),
    }
    for name, kinds in only_for.items():
        if getattr(options, name) != getattr(default, name) and options.kind not in kinds:
            yield RuleProblem(
                path=f"strategy.{name}",
                message=f"has no effect with strategy.kind {options.kind}",
                hint=f"leave it out, or use {' or '.join(kinds)}",
            )
    if options.compile and options.kind in ("tp", "pp", "mesh"):
        yield RuleProblem(
            path="strategy.compile",
            message=f"compiles blocks that are whole on a worker, and {options.kind} cuts the model "
            "or its matrices into pieces that torch 2.13 was not found to compile alike",
            hint="leave it out, or use fsdp",
        )
    if options.compile and options.recompute:
        yield RuleProblem(
            path="strategy.recompute",
            message="puts blocks into a wrapper, and compile would compile the wrapper",
            hint="keep one of the two",
        )
    if options.powersgd_rank != default.powersgd_rank and options.compression != "powersgd":
        yield RuleProblem(
            path="strategy.powersgd_rank",
            message=f"has no effect with compression {options.compression}",
            hint="leave it out, or use compression: powersgd",
        )
    if options.compression in ("fp16", "powersgd") and options.precision == "fp16":
        yield RuleProblem(
            path="strategy.compression",
            message="sends scaled fp16 gradients through a lossy code, which overflows",
            hint="use compression: bf16, or precision: bf16 or fp32",
        )
    if options.kind == "ps" and options.precision == "fp16":
        yield RuleProblem(
            path="strategy.precision",
            message="scales the loss on workers by what the server alone knows",
            hint="use bf16 or fp32",
        )
    yield from _misplaced_with_schedule(options)


def _misplaced_with_schedule(options: StrategySection) -> Iterator[RuleProblem]:
    """Yield settings that the schedule of the pipeline cannot be combined with."""
    if options.schedule == "async":
        refused = {
            "recompute": (options.recompute, "would compute again with newer weights"),
            "clip_norm": (
                options.clip_norm is not None,
                "needs the gradient of all stages at once, and async never has it",
            ),
            "precision": (
                options.precision == "fp16",
                "fp16 leaves out the same step on all stages, and async has none in common",
            ),
            "kind": (
                options.kind == "mesh",
                "mesh would split stages further, and async keeps copies",
            ),
        }
        for name, (applies, why) in refused.items():
            if applies:
                yield RuleProblem(
                    path=f"strategy.{name}",
                    message=why,
                    hint="use schedule: 1f1b"
                    + {"kind": ", or kind: pp", "precision": ", or bf16"}.get(name, ""),
                )
    if options.schedule == "dualpipe_v" and options.accumulate < 2:
        yield RuleProblem(
            path="strategy.accumulate",
            message="is 1, and dualpipe_v needs as many micro-batches as there are stages, two per "
            "worker",
            hint="use 2 or more, or schedule: zbv",
        )
    if options.schedule in APART and options.recompute:
        yield RuleProblem(
            path="strategy.recompute",
            message="computes a block anew in each backward, and "
            f"{options.schedule} has two per block",
            hint="use schedule: 1f1b or interleaved, or leave recompute out",
        )


def _mesh(options: StrategySection, slots: int) -> Iterator[RuleProblem]:
    """Axes that the kind does not have, and sizes that are not the number of slots."""
    mesh, kind = options.mesh, options.kind
    if kind not in ("hsdp", "mesh"):
        if mesh != Mesh():
            yield RuleProblem(
                path="strategy.mesh",
                message=f"has no effect with strategy.kind {kind}",
                hint="leave it out, or use mesh or hsdp",
            )
        return
    if kind == "hsdp" and (mesh.pp > 1 or mesh.tp > 1):
        yield RuleProblem(
            path="strategy.mesh",
            message="hsdp has the axes replicate and shard alone",
            hint="leave pp and tp out, or use kind: mesh",
        )
        return
    if kind == "hsdp" and mesh.replicate < 2:
        yield RuleProblem(
            path="strategy.mesh.replicate",
            message="is 1: hsdp shards within a group of workers and keeps a copy in each group",
            hint="write {replicate: 2}, or use fsdp",
        )
        return
    if kind == "mesh" and mesh.pp == 1 and mesh.tp == 1:
        yield RuleProblem(
            path="strategy.mesh",
            message="has neither tp nor pp above 1, so there is nothing to combine",
            hint="write {tp: 2}, {pp: 2} or both, or use fsdp or hsdp",
        )
        return
    sizes = axes(options, slots)
    product = math.prod(sizes.values())
    if product != slots:
        said = " × ".join(f"{name} {size}" for name, size in sizes.items() if size > 1)
        others = mesh.pp * mesh.replicate * mesh.tp
        near = max(slots // others, 1) * others
        yield RuleProblem(
            path="strategy.mesh",
            message=f"{said} is {product} workers, but resources.slots is {slots}",
            hint=f"use {near} or {near + others} slots, and leave shard out, which takes what remains",
        )


def _elastic(options: StrategySection, slots: int, min_slots: int | None) -> Iterator[RuleProblem]:
    if min_slots in (None, slots) or options.kind not in ("hsdp", "mesh", "tp", "pp"):
        return
    yield RuleProblem(
        path="resources.min_slots",
        message=f"{options.kind} on {slots} workers cannot be laid over fewer",
        hint="leave it out, or use ddp, zero1 or fsdp, which take any number of workers",
    )


def _model(
    options: StrategySection, sizes: Mapping[str, int], shape: Shape
) -> Iterator[RuleProblem]:
    """Yield the splits for which the model is too small or of the wrong kind."""
    tp, pp = sizes["tp"], sizes["pp"]
    if tp == pp == 1:
        return
    if shape.model not in SPLIT_MODELS:
        name = "one of your own" if ":" in shape.model else shape.model
        yield RuleProblem(
            path="strategy.kind",
            message=f"{options.kind} cuts models made of blocks, and {name} is none",
            hint=f"use trainer.model {' or '.join(SPLIT_MODELS)}, or ddp or fsdp",
        )
        return
    if shape.heads is not None and shape.heads % tp:
        near = [n for n in range(1, shape.heads + 1) if shape.heads % n == 0]
        yield RuleProblem(
            path="trainer.heads",
            message=f"{shape.heads} heads cannot be shared out evenly to tp {tp} workers",
            hint=f"use {tp * max(round(shape.heads / tp), 1)} heads, or tp {', '.join(map(str, near))}",
        )
    stages = pp * STAGES_PER_WORKER[options.schedule]
    if pp > 1 and shape.depth is not None and shape.depth < stages:
        yield RuleProblem(
            path="trainer.depth",
            message=f"{shape.depth} blocks are too few for {stages} stages: {options.schedule} has "
            f"{STAGES_PER_WORKER[options.schedule]} on each of pp {pp} workers",
            hint=f"use at least {stages} blocks, or fewer stages",
        )
    given = options.blocks_per_stage
    if not given:
        return
    depth = shape.depth if shape.depth is not None else sum(given)
    if pp == 1:
        yield RuleProblem(
            path="strategy.blocks_per_stage",
            message="has no effect without a pipeline: pp is 1",
            hint="leave it out, or use pp 2 or more",
        )
    elif len(given) != stages or sum(given) != depth or min(given) < 1:
        share, more = divmod(depth, stages)
        even = [share + (stage < more) for stage in range(stages)]
        yield RuleProblem(
            path="strategy.blocks_per_stage",
            message=f"{list(given)} does not share out {depth} blocks to {stages} stages",
            hint=f"use {even}, or leave it out: the stages are then cut as measured",
        )
