"""What a worker sends in a step, by process group and kind of collective. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from muster.document.strategy_rules import STAGES_PER_WORKER, V_SCHEDULES

from ..cost_model.collectives import moved_as
from .memory import BYTES, PlannedTraining

MB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Traffic of one kind of collective of one group, per step and worker.

    The payload is what the trainer measures: the tensor reduced, the output of a gather, the input
    of a scatter, the message.
    """

    group: str
    """world, or the axis of the mesh."""
    kind: str
    size: int
    """Members of the group."""
    count: float
    num_bytes: float
    is_hidden: bool
    """Whether computing can go on meanwhile."""
    moved_as: str
    """The kind whose messages and bytes it has on a link."""


def traffic(job: PlannedTraining, *, backend: str = "gloo") -> list[Traffic]:
    """Return the traffic of the worker that sends most; nothing with one slot.

    Collectives of a few bytes (norms, votes on stopping) are left out. backend: gloo or nccl, on
    which `moved_as` and `is_hidden` depend.
    """
    hides_shards = backend != "gloo"  # FSDP gathers ahead on streams, which CPUs do not have
    return [
        replace(
            found,
            moved_as=moved_as(found.moved_as, backend),
            is_hidden=found.is_hidden and (found.group == "world" or hides_shards),
        )
        for found in _traffics(job)
    ]


def _traffics(job: PlannedTraining) -> list[Traffic]:
    kind, params, world = job.kind, float(job.model.param_bytes), job.slots
    if kind == "single":
        return []
    if kind in ("ddp", "zero1"):
        found = [_gradients(job)]
        fixed = sum(layer.buffer_bytes for layer in job.model.layers)
        if fixed:  # DDP sends the buffers of rank 0 to all before the first forward of a step
            found.append(_traffic("world", "broadcast", world, 1.0, fixed, hidden=False))
        if kind == "zero1":
            # Each worker sends what it has updated. In part at once, but measured over gloo it takes
            # 1.7 times what that would (2 workers), nearer to one after the other: twice.
            updated = float(job.model.trained_bytes)
            found.append(_traffic("world", "broadcast", world, float(world), updated, hidden=False))
        return found
    if kind in ("local_sgd", "diloco"):
        every = job.options.sync_every
        return [_traffic("world", "all_reduce", world, 1 / every, params / every, hidden=False)]
    if kind == "ps":
        return [
            _traffic("world", name, world, 1.0, params, hidden=False)
            for name in ("ps_push", "ps_pull")
        ]
    return [*_sharded(job), *_tensor(job), *_pipeline(job)]


def _gradients(job: PlannedTraining) -> Traffic:
    options = job.options
    whole = float(job.model.trained_bytes)
    num_bytes = whole
    if options.compression in ("fp16", "bf16"):
        num_bytes /= 2
    elif options.compression == "powersgd":
        num_bytes = _powersgd_bytes(job)
    # DDP's own first bucket is smaller only where no size is given; the trainer gives one.
    count = math.ceil(whole / (options.bucket_mb * MB))
    return _traffic("world", "all_reduce", job.slots, float(count), num_bytes, hidden=True)


def bubble_share(job: PlannedTraining) -> float:
    """Return how long a worker of a pipeline waits for the others while the pipeline fills and
    drains, as a share of the time it computes; 0 without a pipeline.

    With p workers, m micro-batches and v stages of each: (p-1)/(m v) (Narayanan et al. 2021,
    arXiv:2104.04473 §2.2); a third of it where gradients of weights wait for the gaps, as if
    forward, gradients of inputs and gradients of weights took equally long (Qi et al. 2023,
    arXiv:2401.10241 §2).
    """
    workers, schedule = job.sizes["pp"], job.options.schedule
    if workers == 1:
        return 0.0
    num_micro = 1 if schedule == "naive" else job.num_micro
    stages = STAGES_PER_WORKER.get(schedule, 1)
    share = (workers - 1) / (num_micro * stages)
    return share / 3 if schedule in ("zero_bubble", *V_SCHEDULES) else share


def _powersgd_bytes(job: PlannedTraining) -> float:
    """Two factors of each matrix where they are smaller than it, and the rest as it is."""
    rank = job.options.powersgd_rank
    sent = float(job.model.trained_bytes)
    for parameter in job.model.parameters:
        if not parameter.trainable or len(parameter.shape) < 2:
            continue
        rows = parameter.shape[0]
        columns = parameter.numel // max(rows, 1)
        factors = (rows + columns) * min(rank, rows, columns)
        if factors * 2 < rows * columns:
            sent += parameter.bytes_per_value * (factors - rows * columns)
    return sent


def _sharded(job: PlannedTraining) -> list[Traffic]:
    """Each layer is gathered before its forward and, where it was freed, before its backward."""
    sizes, options = job.sizes, job.options
    shard, replicate = sizes["shard"], sizes["replicate"]
    if shard * replicate == 1:
        return []
    share = 1.0 / sizes["pp"] / sizes["tp"]
    blocks = sum(layer.num_params for layer in job.model.blocks) * share
    rest = job.model.num_params * share - blocks
    computes = BYTES[options.precision]
    times = job.num_micro
    gathers = (2.0 if options.reshard else 1.0) * blocks + rest
    layers = len(job.model.blocks) + (1 if rest else 0)
    found: list[Traffic] = []
    if shard > 1:
        found.append(
            _traffic("shard", "all_gather", shard, times * (2.0 if options.reshard else 1.0) * layers,
                     times * computes * gathers, hidden=True)
        )  # fmt: skip
        found.append(
            _traffic("shard", "reduce_scatter", shard, layers, 4.0 * (blocks + rest), hidden=True)
        )
    if replicate > 1:
        found.append(
            _traffic("replicate", "all_reduce", replicate, layers, 4.0 * (blocks + rest) / shard,
                     hidden=True)
        )  # fmt: skip
    return found


def _tensor(job: PlannedTraining) -> list[Traffic]:
    """Return the tensor-parallel traffic: in each block and micro-batch the sums after attention
    and after the perceptron in forward, and the gradients of their inputs in backward, with those
    of query, key and value one by one."""
    tp = job.sizes["tp"]
    if tp == 1:
        return []
    blocks = math.ceil(len(job.model.blocks) / job.sizes["pp"])
    whole = BYTES[job.options.precision] * _hidden(job) * job.micro_batch
    times = blocks * job.num_micro
    forward = 4.0 if job.options.recompute else 2.0
    if job.options.sequence_parallel:
        return [
            _traffic("tp", "all_gather", tp, (forward + 2.0) * times,
                     (forward + 2.0) * times * whole, hidden=False),
            _traffic("tp", "reduce_scatter", tp, (forward + 2.0) * times,
                     (forward + 2.0) * times * whole, hidden=False),
        ]  # fmt: skip
    count = (forward + 4.0) * times
    return [_traffic("tp", "all_reduce", tp, count, count * whole, hidden=False)]


def _pipeline(job: PlannedTraining) -> list[Traffic]:
    """Activations to the next stage and their gradients back, of a stage in the middle."""
    pp = job.sizes["pp"]
    if pp == 1:
        return []
    neighbours = 1 if pp == 2 else 2
    per_message = 4.0 * _hidden(job) * job.micro_batch
    count = float(neighbours * job.num_micro)
    if job.options.schedule in V_SCHEDULES:
        count *= 1 if pp == 2 else 2  # at the turn both stages are on one worker
    elif job.options.schedule in ("interleaved", "zero_bubble"):
        count *= 1.5 if pp == 2 else 2
    return [
        _traffic("pp", kind, 2, count, count * per_message, hidden=False)
        for kind in ("send", "recv")
    ]


def _hidden(job: PlannedTraining) -> float:
    """Return the values per sample that go from block to block; 0 without blocks."""
    return max((layer.input_bytes for layer in job.model.blocks), default=0.0) / 4.0


def _traffic(
    group: str, kind: str, size: int, count: float, num_bytes: float, *, hidden: bool
) -> Traffic:
    return Traffic(
        group=group, kind=kind, size=size, count=count, num_bytes=num_bytes, is_hidden=hidden,
        moved_as=kind,
    )  # fmt: skip
