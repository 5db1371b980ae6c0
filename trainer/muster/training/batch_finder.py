"""Choice of `batch_size: auto`: the largest power of two that fits into every worker's memory.

Batch sizes are not tried until one fails: a worker that runs out of memory on a CPU is killed
together with what runs beside it. What the forward pass keeps for the backward pass is counted on
the CPU for two small batches, on the model before a strategy divides it, and grows in proportion to
the batch. Together with a worker's parameters, gradients and optimizer states it must stay within
USABLE of the free memory. Only tensors are counted: the rest is left to libraries and the
interpreter.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from muster.document.strategy import Precision, StrategySection
from muster.document.strategy_rules import APART, STAGES_PER_WORKER, axes
from muster.document.train_config import ConfigError, TrainConfig
from muster.measure import agreement
from muster.sdk.run import Run
from muster.training import tasks
from muster.training.strategies.layers import layers
from muster.training.strategies.precision import DTYPES

USABLE = 0.8
"""Share of the memory that is free which tensors may take."""
STATES = {"adamw": 2, "radam": 2, "lamb": 2, "lars": 1, "sgd": 1}
"""Tensors that an optimizer keeps of each parameter, each as large as it."""
_TRIED = (2, 4)
"""Samples: two, because a batch norm needs more than one."""


def settled(
    run: Run, config: TrainConfig, *, slots: int, device: torch.device, resumed_batch: int | None
) -> TrainConfig:
    """Return the settings with a batch size. Every rank must call it, and all get the same.

    resumed_batch: the global batch of the checkpoint that is continued, which stays: the same step
        number would else mean another place in the data. None: nothing is continued.
    Raises ConfigError when a single sample per worker does not fit.
    """
    if not config.finds_batch_size:
        return config
    per_sample = slots * config.strategy.accumulate
    if resumed_batch is not None:
        if resumed_batch % per_sample:
            raise ConfigError(
                f"batch_size: auto stays as it was found, and the checkpoint's global batch of "
                f"{resumed_batch} cannot be dealt to {slots} slots × accumulate "
                f"{config.strategy.accumulate}"
            )
        return dataclasses.replace(config, batch_size=resumed_batch // per_sample)
    task = tasks.make(config, global_batch=per_sample)
    in_data = task.steps_per_epoch  # with one sample per worker and micro-batch
    with torch.random.fork_rng(devices=[]):
        need = Need.of(task, config, slots=slots)
    limit = free_bytes(run, config, device)
    mine = largest(need, limit, at_most=in_data)
    found = -agreement.agree_max(-mine)
    if found < 1:
        raise ConfigError(
            f"batch_size: auto found no size: a worker needs {need.of_batch(1) / 1e9:.2f} GB with one "
            f"sample, and may take {limit / 1e9:.2f} GB; use more slots, strategy.recompute or fsdp"
        )
    if run.info.rank == 0:
        run.message(
            f"batch_size: auto is {found}, a global batch of {found * per_sample}: "
            + (
                "twice that is more than the training data"
                if 2 * found > in_data
                else f"a worker needs {need.of_batch(found) / 1e9:.2f} GB and may take "
                f"{limit / 1e9:.2f} GB"
            )
        )
    return dataclasses.replace(config, batch_size=found)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Need:
    """Bytes that a worker needs at the height of a step."""

    fixed: float
    per_sample: float
    """For each sample of a micro-batch."""

    @classmethod
    def of(cls, task: tasks.Task, config: TrainConfig, *, slots: int) -> Need:
        """Return the need of the most loaded worker. Changes the state of the random generator."""
        model = task.model()
        precision = config.strategy.precision
        few, more = (
            kept_bytes(model, task, num, precision=precision, recompute=config.strategy.recompute)
            for num in _TRIED
        )
        per_sample = (more - few) / (_TRIED[1] - _TRIED[0])
        params = sum(p.numel() * p.element_size() for p in model.parameters())
        options = config.strategy
        return cls(
            fixed=params * copies(options, slots, STATES[config.optimizer])
            + max(few - _TRIED[0] * per_sample, 0.0),
            per_sample=per_sample * batches_at_once(options, slots),
        )

    def of_batch(self, size: int) -> float:
        return self.fixed + size * self.per_sample


def largest(need: Need, limit_bytes: float, *, at_most: int) -> int:
    """Return the largest power of two of samples; 0 when not even one fits."""
    fits = limit_bytes - need.fixed
    if fits < need.per_sample or at_most < 1:
        return 0
    most = min(at_most, fits / need.per_sample) if need.per_sample > 0 else at_most
    return 1 << int(math.log2(most))


def copies(options: StrategySection, slots: int, states: int) -> float:
    """Return the bytes a worker holds for parameters, gradients, optimizer states and messages, as
    a multiple of the size of the model's parameters.

    This is the multiple of the worker that holds most.
    """
    sizes = axes(options, slots)
    kind = options.kind if slots > 1 else "single"
    whole = 2.0 + states
    if kind == "zero1":
        return 3.0 + states / slots
    if kind == "ps":
        return whole + 2.0 * slots  # messages of all workers, and their sum
    sent = {"ddp": 1.0, "local_sgd": 2.0, "diloco": 5.0}.get(kind, 0.0)
    parts = sizes["shard"] * sizes["tp"] * sizes["pp"]
    gathered = 1.0 if sizes["shard"] > 1 else 0.0  # at most: of all blocks, and without reshard
    return (whole + sent) / parts + gathered / (sizes["tp"] * sizes["pp"])


def batches_at_once(options: StrategySection, slots: int) -> float:
    """Return for how many batches of `batch_size` a worker keeps the activations of the whole model
    at once, at most."""
    sizes = axes(options, slots)
    if slots == 1:
        return 1.0
    kept = 1.0
    if sizes["pp"] > 1:
        # A share is pp × accumulate micro-batches; each stage keeps 1/pp of a model of them.
        under_way = {"1f1b": 1, "async": 1, "interleaved": 2} | dict.fromkeys(APART, 2)
        kept = float(min(under_way.get(options.schedule, math.inf), options.accumulate))
        kept = max(kept, float(STAGES_PER_WORKER[options.schedule]))
    if sizes["tp"] > 1 and not options.sequence_parallel:
        kept *= sizes["tp"]  # what lies between the matrices is whole on each of them
    return kept


def kept_bytes(
    model: nn.Module, task: tasks.Task, num: int, *, precision: Precision, recompute: bool
) -> float:
    """Return the bytes that forward of `num` samples keeps for backward, on the CPU; each tensor
    counts once, parameters do not. recompute: of each layer its inputs alone, and all of the
    largest one."""
    x, y = task.batch(0, rank=0, world_size=task.global_batch)
    x, y = (torch.cat([part[:1]] * num) for part in (x, y))
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, dict[int, int]] = {-1: {}}
    inputs: dict[int, int] = {}
    at = [-1]

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept.setdefault(at[0], {})[storage.data_ptr()] = storage.nbytes()
        return tensor

    def enter(index: int, _module: nn.Module, given: Any) -> None:
        at[0] = index
        inputs[index] = sum(t.untyped_storage().nbytes() for t in given if torch.is_tensor(t))

    def leave(_module: nn.Module, _given: Any, _result: Any) -> None:
        at[0] = -1

    model.train()
    with ExitStack() as stack:
        if recompute:
            for index, layer in enumerate(layers(model)):
                stack.callback(layer.register_forward_pre_hook(partial(enter, index)).remove)
                stack.callback(layer.register_forward_hook(leave).remove)
        stack.enter_context(saved_tensors_hooks(keep, lambda tensor: tensor))
        stack.enter_context(_autocast(precision))
        loss = task.loss(model(x).float(), y)
    outside = sum(kept.pop(-1).values())
    del loss
    return outside + sum(inputs.values()) + max((sum(k.values()) for k in kept.values()), default=0)


@contextmanager
def _autocast(precision: Precision) -> Iterator[None]:
    if precision == "fp32":
        yield
        return
    with torch.autocast("cpu", DTYPES[precision]):
        yield


# ---------------------------------------------------------------- what there is


def free_bytes(run: Run, config: TrainConfig, device: torch.device) -> float:
    """Return how many bytes this worker's tensors may take.

    This is the limit of the settings, or else USABLE of the free memory of the device or of this
    worker's share of its node.
    """
    if config.batch_memory_gb is not None:
        return config.batch_memory_gb * 1e9
    if device.type == "cuda":
        return USABLE * torch.cuda.mem_get_info(device)[0]
    return USABLE * _node_free_bytes() / run.info.local_world_size


def _node_free_bytes() -> float:
    """Return the free memory in bytes of the node, or of the control group of this process if it
    has less."""
    words = Path("/proc/meminfo").read_text(encoding="ascii").split()
    free = 1024.0 * int(words[words.index("MemAvailable:") + 1])
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return free
    return free if limit == "max" else min(free, max(float(limit) - used, 0.0))
