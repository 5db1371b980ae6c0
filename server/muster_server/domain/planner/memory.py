"""Memory of one slot at the height of a step, by part. Pure.

Follows a backward from the last layer to the first: what is kept of forward goes, gradients come.
Counted are tensors; what torch, its libraries and the interpreter take besides is not.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.training.strategies.rules import (
    STAGES_PER_WORKER,
    V_SCHEDULES,
    Options,
    axes,
)

from .models import BYTES, Layer, Model

STATES = {"adamw": 2, "radam": 2, "lamb": 2, "lars": 1, "sgd": 1}
"""Tensors of fp32 that an optimizer keeps of each parameter."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is trained, and on how many slots."""

    model: Model
    options: Options
    slots: int
    batch_size: int
    """Samples per slot and micro-batch."""
    optimizer: str = "adamw"
    momentum: float = 0.9

    @property
    def kind(self) -> str:
        """A trial with one slot trains alone whatever its kind."""
        return "single" if self.slots == 1 else self.options.kind

    @property
    def sizes(self) -> Mapping[str, int]:
        return axes(self.options, self.slots)

    @property
    def micro_batch(self) -> int:
        """Samples that one worker computes at once."""
        return self.batch_size * (self.sizes["tp"] if self.kind in ("tp", "pp", "mesh") else 1)

    @property
    def num_micro(self) -> int:
        """Micro-batches per step of a worker."""
        shares = self.sizes["replicate"] * self.sizes["shard"]
        if self.kind == "ps":
            shares = self.slots - 1
        whole = self.batch_size * self.slots * self.options.accumulate
        return max(math.ceil(whole / shares / self.micro_batch), 1)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of the slot that needs most, at the moment when it does."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    """What forward keeps for backward, copies of parameters in 16 bits, and what backward needs for
    a moment."""
    buffers: float
    """Of communication: buckets, gathered parameters, copies that are sent."""

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.optimizer + self.activations + self.buffers


def memory(job: Job) -> Memory:
    """Of a slot of the built-in trainer. An estimate: see `bench/planner.py` for how far off."""
    kind = job.kind
    if kind == "ps":
        return max(_server(job), _copy(job, sends=2.0), key=lambda m: m.total)
    if kind in ("fsdp", "hsdp", "mesh", "tp", "pp"):
        return _divided(job)
    return _copy(job, sends={"local_sgd": 1.0, "diloco": 1.0}.get(kind, 0.0))


# ---------------------------------------------------------------- the whole model on each slot


def _copy(job: Job, *, sends: float) -> Memory:
    """sends: times the parameters, flat, that are alive while they are exchanged."""
    model, kind = job.model, job.kind
    params = 4.0 * model.num_params
    states = _states(job)
    optimizer = states * params
    buffers = 0.0
    if kind in ("ddp", "zero1"):
        buffers = params
        if kind == "zero1":
            optimizer = 4.0 * states * largest_share(model.tensors, job.slots)
    elif kind == "diloco":
        # What all began from, its gradient and its momentum.
        buffers = params * (3.0 if job.options.outer_momentum > 0 else 2.0)
    elif kind == "ps":
        optimizer = 0.0
    height = _height(job, model.layers, job.micro_batch, kept=1.0)
    # Exchanges come when gradients are all there and activations are gone, or with local copies
    # after the gradients are gone as well.
    sending = sends * 2.0 * params + (params if kind == "ps" else 0.0)
    peak = max(height, params + _update(job, model.tensors), sending)
    gradients = min(params, peak)
    return Memory(
        parameters=params,
        gradients=gradients,
        optimizer=optimizer,
        activations=peak - gradients,
        buffers=buffers,
    )


def _server(job: Job) -> Memory:
    """Rank 0 of a parameter server: the messages of all workers at once, and their sum."""
    params = 4.0 * job.model.num_params
    workers = job.slots - 1
    return Memory(
        parameters=params,
        gradients=params,
        optimizer=_states(job) * params,
        activations=0.0,
        # Messages; stacked; their sum and what goes to the gradients.
        buffers=(2.0 * workers + 2.0 if job.options.staleness == 0 else workers + 2.0) * params,
    )


# ---------------------------------------------------------------- a part of it on each slot


def _divided(job: Job) -> Memory:
    stages = _stages(job)
    return max((_stage(job, stage, i) for i, stage in enumerate(stages)), key=lambda m: m.total)


def _stages(job: Job) -> list[list[tuple[Layer, bool]]]:
    """Layers of each worker of the pipeline, with whether they are blocks; one without one. Where
    the cut is measured, blocks are taken to be shared out evenly."""
    model = job.model
    labelled = [(layer, i in model.blocks) for i, layer in enumerate(model.layers)]
    workers = job.sizes["pp"]
    if workers == 1:
        return [labelled]
    num = workers * STAGES_PER_WORKER[job.options.schedule]
    depth = len(model.blocks)
    share, more = divmod(depth, num)
    counts = list(job.options.blocks_per_stage) or [share + (i < more) for i in range(num)]
    found: list[list[tuple[Layer, bool]]] = [[] for _ in range(workers)]
    at = model.blocks.start
    for stage, count in enumerate(counts):
        first = 0 if stage == 0 else at
        at += count
        last = len(labelled) if stage == num - 1 else at
        goes_back = stage >= workers and job.options.schedule in V_SCHEDULES
        found[num - 1 - stage if goes_back else stage % workers] += labelled[first:last]
    return found


def _stage(job: Job, layers: Sequence[tuple[Layer, bool]], index: int) -> Memory:
    sizes, options = job.sizes, job.options
    tp, shard = sizes["tp"], sizes["shard"]
    held = [_of_tp(layer, tp) if is_block else layer for layer, is_block in layers]
    whole = 4.0 * sum(layer.num_params for layer in held)
    params = whole / shard
    buffers = 0.0
    if shard > 1 or sizes["replicate"] > 1:
        largest = max(
            (x.num_params for x, (_, b) in zip(held, layers, strict=True) if b), default=0
        )
        rest = sum(x.num_params for x, (_, b) in zip(held, layers, strict=True) if not b)
        computes = BYTES[options.precision]
        # The rest stays gathered during a step; of the blocks one is at work and one on its way;
        # the gradients of one are whole, and once more while they are reduced.
        gathered = (rest + 2.0 * largest) if options.reshard else whole / 4.0
        buffers = computes * gathered + (computes + 4.0) * max(largest, rest)
    in_flight = _in_flight(job, index)
    height = _height(job, held, job.micro_batch, kept=in_flight, gradients=params)
    tensors = [t / shard for layer in held for t in layer.tensors]
    peak = max(height, params + _update(job, tensors))
    return Memory(
        parameters=params,
        gradients=min(params, peak),
        optimizer=_states(job) * params,
        activations=peak - min(params, peak),
        buffers=buffers,
    )


def _of_tp(layer: Layer, tp: int) -> Layer:
    """A block with 1/tp of its matrices; norms and the biases of the rows stay whole."""
    if tp == 1:
        return layer
    large = max(layer.tensors)
    small = {t for t in layer.tensors if t * 16 < large}
    return Layer(
        name=layer.name,
        tensors=tuple(t if t in small else t // tp for t in layer.tensors),
        cast=layer.cast // tp,
        narrow=layer.narrow - layer.split + layer.split / tp,
        wide=layer.wide,
        num_bytes=layer.num_bytes,
        work=layer.work,
    )


def _in_flight(job: Job, index: int) -> float:
    """Micro-batches whose activations a worker of the pipeline keeps at most."""
    stages = job.sizes["pp"]
    if stages == 1:
        return 1.0
    if job.options.schedule in ("naive",):
        return 1.0
    if job.options.schedule == "gpipe":
        return float(job.num_micro)
    return float(min(stages - index, job.num_micro))


# ---------------------------------------------------------------- one backward


def _height(
    job: Job,
    layers: Sequence[Layer],
    samples: int,
    *,
    kept: float,
    gradients: float | None = None,
) -> float:
    """The most that gradients, and what forward kept, take together during backward.

    kept: micro-batches whose activations are alive. gradients: bytes at their end; None: of all
    parameters of `layers`.
    """
    options, precision = job.options, job.options.precision
    whole = 4.0 * sum(layer.num_params for layer in layers)
    final = whole if gradients is None else gradients
    share = final / whole if whole else 0.0
    per_layer = [_saved(job, layer) * samples for layer in layers]
    casts = [0.0 if precision == "fp32" else 2.0 * layer.cast for layer in layers]
    outputs = 4.0 * job.model.outputs * samples
    batch = job.model.sample_bytes * samples * job.num_micro
    alive = kept * sum(per_layer) + sum(casts) + outputs + batch
    there = final if job.num_micro > 1 else 0.0
    height = alive + there
    for layer, saved, cast in zip(
        reversed(layers), reversed(per_layer), reversed(casts), strict=True
    ):
        work = BYTES[precision] * layer.work * samples
        if options.recompute and layer.name.startswith("blocks"):
            work += layer.saved_bytes(precision) * samples
        grads = there if job.num_micro > 1 else there + share * 4.0 * layer.num_params
        height = max(height, alive + max(grads, there) + work)
        there = grads
        alive -= saved + cast
    return height


def _saved(job: Job, layer: Layer) -> float:
    """Per sample; of a block that is computed again, its input alone."""
    if job.options.recompute and layer.name.startswith("blocks") and job.model.hidden:
        return 4.0 * job.model.hidden
    return layer.saved_bytes(job.options.precision)


def _update(job: Job, tensors: Sequence[float]) -> float:
    """What the optimizer needs for a moment, tensor by tensor, as on a CPU: two of the largest."""
    return 8.0 * max(tensors, default=0) if _states(job) == 2.0 else 0.0


def _states(job: Job) -> float:
    if job.optimizer == "sgd" and job.momentum == 0:
        return 0.0
    return float(STATES[job.optimizer])


def largest_share(tensors: Sequence[int], shares: int) -> int:
    """Elements of the fullest of so many shares of whole tensors, as torch's
    ZeroRedundancyOptimizer deals them out: the largest first, each to whom has least."""
    heap = [(0, i) for i in range(shares)]
    for size in sorted(tensors, reverse=True):
        filled, i = heapq.heappop(heap)
        heapq.heappush(heap, (filled + size, i))
    return max(filled for filled, _ in heap)
