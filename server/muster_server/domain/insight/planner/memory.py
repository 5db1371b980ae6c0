"""Memory of one slot at the height of a step, by part. Pure.

Follows a backward from the last layer to the first: what is kept of forward goes, gradients come.
Counted are tensors; what torch, its libraries and the interpreter take besides is not.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from muster import wire
from muster.document.strategy import StrategySection
from muster.document.strategy_rules import STAGES_PER_WORKER, V_SCHEDULES, axes

BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
STATES = {"adamw": 2, "radam": 2, "lamb": 2, "lars": 1, "sgd": 1}
"""Tensors that an optimizer keeps of each parameter."""


@dataclass(frozen=True, kw_only=True)
class PlannedTraining:
    """What is trained, and on how many slots."""

    model: wire.LayerTable
    options: StrategySection
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
    """Communication buffers: buckets, gathered parameters, copies that are sent."""

    @property
    def total(self) -> float:
        return self.parameters + self.gradients + self.optimizer + self.activations + self.buffers


def memory(job: PlannedTraining) -> Memory:
    """Return the memory of a slot with the built-in trainer. `bench/planner.py` measures how far
    off this estimate is."""
    kind = job.kind
    if kind == "ps":
        return max(_server(job), _copy(job, sends=0.0), key=lambda m: m.total)
    if kind in ("fsdp", "hsdp", "mesh", "tp", "pp"):
        return _divided(job)
    return _copy(job, sends={"local_sgd": 1.0, "diloco": 1.0}.get(kind, 0.0))


# ---------------------------------------------------------------- the whole model on each slot


def _copy(job: PlannedTraining, *, sends: float) -> Memory:
    """Return the memory of a slot that holds the whole model.

    sends: size of what is alive during an exchange, as a multiple of the flat parameters.
    """
    model, kind = job.model, job.kind
    params, trained = float(model.param_bytes), float(model.trained_bytes)
    states = _states(job)
    optimizer = states * trained
    buffers = _fixed(model.layers)
    if kind in ("ddp", "zero1"):
        buffers += trained
        if kind == "zero1":
            optimizer = states * largest_share(_trained(model.layers), job.slots)
    elif kind == "diloco":
        # The common starting point, its gradient and its momentum.
        buffers += params * (3.0 if job.options.outer_momentum > 0 else 2.0)
    elif kind == "ps":
        optimizer = 0.0
        # The message to the server and its answer, which are used again in each step.
        buffers += 2.0 * params
    height = _height(job, model.layers, job.micro_batch, kept=1.0)
    # Exchanges happen once all gradients are there and activations are freed; with local copies,
    # once the gradients are freed as well.
    sending = sends * 2.0 * params
    peak = max(height, trained + _update(job, _trained(model.layers)), sending)
    gradients = min(trained, peak)
    return Memory(
        parameters=params,
        gradients=gradients,
        optimizer=optimizer,
        activations=peak - gradients,
        buffers=buffers,
    )


def _server(job: PlannedTraining) -> Memory:
    """Rank 0 of a parameter server: the messages of all workers at once, and their sum."""
    params, trained = float(job.model.param_bytes), float(job.model.trained_bytes)
    workers = job.slots - 1
    # Messages; stacked; their sum and what goes to the gradients.
    messages = 2.0 * workers + 2.0 if job.options.staleness == 0 else workers + 2.0
    return Memory(
        parameters=params,
        gradients=trained,
        optimizer=_states(job) * trained,
        activations=0.0,
        buffers=messages * trained + _fixed(job.model.layers),
    )


# ---------------------------------------------------------------- a part of it on each slot


def _divided(job: PlannedTraining) -> Memory:
    stages = _stages(job)
    return max((_stage(job, stage, i) for i, stage in enumerate(stages)), key=lambda m: m.total)


def _stages(job: PlannedTraining) -> list[list[wire.Layer]]:
    """Layers of each worker of the pipeline; one without one. Where the cut is measured, blocks are
    taken to be shared out evenly."""
    layers = job.model.layers
    workers = job.sizes["pp"]
    if workers == 1:
        return [list(layers)]
    num = workers * STAGES_PER_WORKER[job.options.schedule]
    at_blocks = [i for i, layer in enumerate(layers) if layer.is_block]
    share, more = divmod(len(at_blocks), num)
    counts = list(job.options.blocks_per_stage) or [share + (i < more) for i in range(num)]
    found: list[list[wire.Layer]] = [[] for _ in range(workers)]
    at = at_blocks[0]
    for stage, count in enumerate(counts):
        first = 0 if stage == 0 else at
        at += count
        last = len(layers) if stage == num - 1 else at
        goes_back = stage >= workers and job.options.schedule in V_SCHEDULES
        found[num - 1 - stage if goes_back else stage % workers] += layers[first:last]
    return found


def _stage(job: PlannedTraining, layers: Sequence[wire.Layer], index: int) -> Memory:
    sizes, options = job.sizes, job.options
    tp, shard = sizes["tp"], sizes["shard"]
    held = [_of_tp(layer, tp) if layer.is_block else layer for layer in layers]
    whole = float(sum(layer.param_bytes for layer in held))
    params, trained = whole / shard, sum(layer.trained_bytes for layer in held) / shard
    buffers = _fixed(held)
    if shard > 1 or sizes["replicate"] > 1:
        largest = max((layer.num_params for layer in held if layer.is_block), default=0)
        rest = sum(layer.num_params for layer in held if not layer.is_block)
        computes = BYTES[options.precision]
        # The rest stays gathered during a step; of the blocks one is at work and one on its way;
        # the gradients of one are whole, and once more while they are reduced.
        gathered = (rest + 2.0 * largest) if options.reshard else whole / 4.0
        buffers += computes * gathered + (computes + 4.0) * max(largest, rest)
    in_flight = _in_flight(job, index)
    height = _height(job, held, job.micro_batch, kept=in_flight, gradients=trained)
    peak = max(height, trained + _update(job, [size / shard for size in _trained(held)]))
    return Memory(
        parameters=params,
        gradients=min(trained, peak),
        optimizer=_states(job) * trained,
        activations=peak - min(trained, peak),
        buffers=buffers,
    )


def _of_tp(layer: wire.Layer, tp: int) -> wire.Layer:
    """Return a block with 1/tp of its matrices; norms and the biases of the rows stay whole."""
    if tp == 1:
        return layer
    return replace(
        layer,
        parameters=[replace(p, shape=[p.numel // tp]) if p.split else p for p in layer.parameters],
        activations={
            precision: replace(
                kept,
                per_sample=kept.per_sample - kept.split_per_sample * (1.0 - 1.0 / tp),
                once=kept.once / tp,
            )
            for precision, kept in layer.activations.items()
        },
    )


def _in_flight(job: PlannedTraining, index: int) -> float:
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
    job: PlannedTraining,
    layers: Sequence[wire.Layer],
    samples: int,
    *,
    kept: float,
    gradients: float | None = None,
) -> float:
    """Return the most that gradients, and what forward kept, take together during backward.

    kept: micro-batches whose activations are alive. gradients: bytes at their end; None: of all
    parameters of `layers`.
    """
    whole = float(sum(layer.trained_bytes for layer in layers))
    final = whole if gradients is None else gradients
    share = final / whole if whole else 0.0
    per_layer = [_saved(job, layer) * samples for layer in layers]
    once = [_kept(job, layer).once for layer in layers]
    outputs = job.model.output_bytes * samples
    batch = job.model.sample_bytes * samples * job.num_micro
    alive = kept * sum(per_layer) + sum(once) + outputs + batch
    there = final if job.num_micro > 1 else 0.0
    height = alive + there
    for layer, saved, copies in zip(
        reversed(layers), reversed(per_layer), reversed(once), strict=True
    ):
        work = _kept(job, layer).work_per_sample * samples
        if _is_computed_again(job, layer):
            work += _kept(job, layer).per_sample * samples
        grads = there if job.num_micro > 1 else there + share * layer.trained_bytes
        height = max(height, alive + max(grads, there) + work)
        there = grads
        alive -= saved + copies
    return height


def _kept(job: PlannedTraining, layer: wire.Layer) -> wire.Activations:
    return layer.activations["fp32" if job.options.precision == "fp32" else "bf16"]


def _saved(job: PlannedTraining, layer: wire.Layer) -> float:
    """Return what is kept per sample: of a block that is computed again, its input alone."""
    if _is_computed_again(job, layer):
        return layer.input_bytes
    return _kept(job, layer).per_sample


def _is_computed_again(job: PlannedTraining, layer: wire.Layer) -> bool:
    return job.options.recompute and layer.is_block and layer.input_bytes > 0


def _fixed(layers: Sequence[wire.Layer]) -> float:
    """Return the bytes of the tensors of a model that are no parameters."""
    return sum(layer.buffer_bytes for layer in layers)


def _trained(layers: Sequence[wire.Layer]) -> list[int]:
    """Return the bytes of each tensor that is trained, in order."""
    return [p.num_bytes for layer in layers for p in layer.parameters if p.trainable]


def _update(job: PlannedTraining, sizes: Sequence[float]) -> float:
    """Return the bytes that the optimizer needs for a moment, tensor by tensor, as on a CPU: two of
    the largest."""
    return 2.0 * max(sizes, default=0) if _states(job) == 2.0 else 0.0


def _states(job: PlannedTraining) -> float:
    if job.optimizer == "sgd" and job.momentum == 0:
        return 0.0
    return float(STATES[job.optimizer])


def largest_share(tensors: Sequence[int], shares: int) -> int:
    """Size of the fullest of so many shares of whole tensors, as torch's
    ZeroRedundancyOptimizer deals them out: the largest first, each to whom has least."""
    heap = [(0, i) for i in range(shares)]
    for size in sorted(tensors, reverse=True):
        filled, i = heapq.heappop(heap)
        heapq.heappush(heap, (filled + size, i))
    return max(filled for filled, _ in heap)
