"""The layers of a model as the planner needs them, found on the model itself without any values.

The model is built and run forward on fake tensors, which have shapes and types and no memory. What
autograd keeps, what operations take and how many they are is noted under the layer at work.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from muster import wire
from muster.document.strategy_rules import TP_COLUMNS, TP_ROWS
from muster.document.train_config import ConfigError, TrainConfig
from muster.training import models
from muster.training.data.shapes import SampleShape, shape_of
from muster.training.strategies.layers import layers

BATCHES = (2, 4)
"""Samples of the two forwards: what grows from one to the other is per sample. Batch normalisation
refuses a single one."""
MAX_LAYERS = 1_000
MAX_PARAMETERS = 5_000
_PRECISIONS = ("fp32", "bf16")
_ENTRY = "entry"


def layer_table(config: TrainConfig) -> wire.LayerTable:
    """Return the layers of the model that `config` names, for samples of its data.

    Raises ConfigError when they cannot be had or the model cannot be run without values; what the
    user's own code raises while it builds the model is raised as it is.
    """
    shape = shape_of(config)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    model = _build(config, shape, mode).train()
    if sum(1 for _ in model.parameters()) > MAX_PARAMETERS:
        raise ConfigError(f"the model has more than {MAX_PARAMETERS:,} tensors of parameters")
    with mode:
        runs = {p: [_Run(model, shape, n, p) for n in BATCHES] for p in _PRECISIONS}
    return _table(model, runs)


def _build(config: TrainConfig, shape: SampleShape, mode: FakeTensorMode) -> nn.Module:
    """On fake tensors from the start; a constructor that looks at values is run on real ones."""
    try:
        with mode:
            return models.build(config, inputs=shape.inputs, classes=shape.classes)
    except ConfigError:
        raise
    except Exception:
        real = models.build(config, inputs=shape.inputs, classes=shape.classes)
    return _without_values(real, mode)


def _without_values(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    tensors: dict[int, Any] = {
        id(t): mode.from_tensor(t, static_shapes=True)
        for t in (*model.parameters(), *model.buffers())
    }
    return copy.deepcopy(model, tensors)


# ---------------------------------------------------------------- one forward


@dataclass
class _Part:
    """What one forward left under a layer."""

    name: str
    module: nn.Module | None
    """Module of a block, or of a layer that is a module of its own; None otherwise."""
    is_block: bool
    kept: float = 0.0
    split: float = 0.0
    work: float = 0.0
    flops: float = 0.0
    input_bytes: float = 0.0
    owners: list[nn.Module] = field(default_factory=list)
    """Modules outside of blocks that own parameters and were called in this part."""


class _Run:
    """A forward and its loss on `num_samples` fake samples, and what it left under each layer."""

    def __init__(
        self, model: nn.Module, shape: SampleShape, num_samples: int, precision: str
    ) -> None:
        self.num_samples = num_samples
        self.parts: list[_Part] = [_Part(_ENTRY, None, is_block=False)]
        self._now = self.parts[0]
        self._is_after_block = False
        self._inside: list[str] = []
        """Modules of a block that tensor parallelism splits and that are being called: "parent" or
        "column"."""
        self._seen = {
            t.untyped_storage()._cdata: t for t in (*model.parameters(), *model.buffers())
        }
        """Tensors by storage. Each entry keeps its tensor alive, so that no address occurs
        twice."""
        x = _sample(shape, num_samples)
        self.sample_bytes = (x.nbytes + _target(shape, x).nbytes) / num_samples
        self._seen[x.untyped_storage()._cdata] = x
        with ExitStack() as stack:
            for handle in self._watch(model):
                stack.callback(handle.remove)
            counter = stack.enter_context(FlopCounterMode(display=False))
            self._counter = counter
            self._counted = 0.0
            stack.enter_context(_Operations(self))
            stack.enter_context(saved_tensors_hooks(self._keep, lambda tensor: tensor))
            output = self._forward(model, x, shape, precision)
            self._count()
        self.output_bytes = 4.0 * output.numel() / num_samples

    def _forward(self, model: nn.Module, x: Tensor, shape: SampleShape, precision: str) -> Tensor:
        try:
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                output = model(x)
            if not isinstance(output, Tensor):
                raise ConfigError(f"the model gives {type(output).__name__}, not a tensor")
            self.output = output.float()
            F.cross_entropy(self.output.flatten(0, -2), _target(shape, x).flatten())
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the model cannot be run on samples without values: {_first_line(error)}"
            ) from error
        return output

    def _watch(self, model: nn.Module) -> Iterator[Any]:
        """Hooks that say which layer is at work."""
        blocks = layers(model)
        inner = {id(m) for block in blocks for m in block.modules()}
        names = {id(m): name for name, m in model.named_modules()}
        for block in blocks:
            yield from self._watch_block(block, names[id(block)])
        for module in model.modules():
            if id(module) in inner or not _owns_parameters(module):
                continue
            alone = not blocks and module is not model
            name = names[id(module)] if alone else ""
            yield module.register_forward_pre_hook(
                lambda m, _, name=name: self._call_outside(m, name)
            )

    def _watch_block(self, block: nn.Module, name: str) -> Iterator[Any]:
        def enter(module: nn.Module, given: tuple[Any, ...]) -> None:
            part = self._find(module) or self._add(_Part(name, module, is_block=True))
            self._go_to(part)
            self._is_after_block = False
            if given and isinstance(given[0], Tensor):
                part.input_bytes = given[0].nbytes / self.num_samples

        def leave(*_: Any) -> None:
            self._is_after_block = True

        yield block.register_forward_pre_hook(enter)
        yield block.register_forward_hook(leave)
        for parent in {name.partition(".")[0] for name in (*TP_COLUMNS, *TP_ROWS)}:
            yield from self._watch_inside(block, parent, "parent")
        for column in TP_COLUMNS:
            yield from self._watch_inside(block, column, "column")

    def _watch_inside(self, block: nn.Module, path: str, kind: str) -> Iterator[Any]:
        found: Any = block
        for name in path.split("."):
            found = getattr(found, name, None)
        if isinstance(found, nn.Module):
            yield found.register_forward_pre_hook(lambda *_: self._inside.append(kind))
            yield found.register_forward_hook(lambda *_: self._leave_inside())

    def _leave_inside(self) -> None:
        self._inside.pop()

    def _call_outside(self, module: nn.Module, name: str) -> None:
        """A module that owns parameters and is in no block is at work now."""
        part = self._find(module)
        if part is not None:
            self._go_to(part)
            return
        if name:
            part = self._add(_Part(name, module, is_block=False))
        elif self._is_after_block:
            part = self._add(_Part("exit", None, is_block=False))
        else:
            part = self._now
        self._is_after_block = False
        part.owners.append(module)
        self._go_to(part)

    def _find(self, module: nn.Module) -> _Part | None:
        return next(
            (p for p in self.parts if p.module is module or any(o is module for o in p.owners)),
            None,
        )

    def _add(self, part: _Part) -> _Part:
        if len(self.parts) >= MAX_LAYERS:
            raise ConfigError(f"the model has more than {MAX_LAYERS:,} layers")
        self.parts.append(part)
        return part

    def _go_to(self, part: _Part) -> None:
        self._count()
        self._now = part

    def _count(self) -> None:
        total = float(self._counter.get_total_flops())
        self._now.flops += total - self._counted
        self._counted = total

    def _keep(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._seen:
            self._seen[storage._cdata] = tensor
            self._now.kept += storage.nbytes()
            if self._inside and self._inside[-1] == "parent":
                self._now.split += storage.nbytes()
        return tensor

    def note_operation(self, given: Any, made: Any) -> None:
        """Count the memory that an operation's backward pass takes briefly: the gradients of its
        outputs and of its largest input."""
        took, gave = (self._sizes(tensors) for tensors in (given, made))
        largest = max((size for key, size in took.items() if key not in gave), default=0)
        self._now.work = max(self._now.work, float(sum(gave.values()) + largest))

    def _sizes(self, tensors: Any) -> dict[int, int]:
        """Return the bytes by storage; integers and parameters have no gradient that comes and
        goes."""
        storages = [
            t.untyped_storage()
            for t in tree_leaves(tensors)
            if isinstance(t, Tensor) and t.is_floating_point()
        ]
        return {
            s._cdata: s.nbytes()
            for s in storages
            if not isinstance(self._seen.get(s._cdata), nn.Parameter)
        }


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, run: _Run) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._run = run

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        self._run.note_operation(args, made)
        return made


def _sample(shape: SampleShape, num_samples: int) -> Tensor:
    size = (num_samples, *shape.inputs)
    if shape.type.is_floating_point:
        return torch.zeros(size, dtype=shape.type)
    return torch.zeros(size, dtype=torch.int64)


def _target(shape: SampleShape, x: Tensor) -> Tensor:
    size = x.shape if shape.predicts_tokens else x.shape[:1]
    return torch.zeros(size, dtype=torch.int64)


def _owns_parameters(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


# ---------------------------------------------------------------- the table


def _table(model: nn.Module, runs: Mapping[str, list[_Run]]) -> wire.LayerTable:
    first = runs["fp32"][0]
    parameters = _dealt_out(model, first)
    found = [
        wire.Layer(
            name=part.name,
            is_block=part.is_block,
            parameters=parameters[at],
            buffer_bytes=_buffer_bytes(model, first, at),
            input_bytes=part.input_bytes,
            flops=part.flops / first.num_samples,
            activations={p: _activations([r.parts[at] for r in of]) for p, of in runs.items()},
        )
        for at, part in enumerate(first.parts)
    ]
    if len(found) > 1 and not found[0].parameters:
        found = [_merged(found[0], found[1]), *found[2:]]
    return wire.LayerTable(
        layers=found, sample_bytes=first.sample_bytes, output_bytes=first.output_bytes
    )


def _activations(parts: list[_Part]) -> wire.Activations:
    few, many = parts
    more = BATCHES[1] - BATCHES[0]
    per_sample = max(many.kept - few.kept, 0.0) / more
    return wire.Activations(
        per_sample=per_sample,
        split_per_sample=max(many.split - few.split, 0.0) / more,
        once=max(few.kept - BATCHES[0] * per_sample, 0.0),
        work_per_sample=max(many.work - few.work, 0.0) / more,
    )


def _dealt_out(model: nn.Module, run: _Run) -> list[list[wire.LayerParameter]]:
    """Return the parameters of each part; those of modules that were not called belong to the
    first."""
    owner = _owners(run)
    found: list[list[wire.LayerParameter]] = [[] for _ in run.parts]
    for name, parameter in model.named_parameters():
        module_name, _, own_name = name.rpartition(".")
        at = owner.get(id(model.get_submodule(module_name)), 0)
        found[at].append(
            wire.LayerParameter(
                shape=list(parameter.shape),
                bytes_per_value=parameter.element_size(),
                trainable=parameter.requires_grad,
                split=run.parts[at].is_block and _is_split(module_name, own_name),
            )
        )
    return found


def _owners(run: _Run) -> dict[int, int]:
    """Module → index of its part."""
    found: dict[int, int] = {}
    for at, part in enumerate(run.parts):
        inner = part.module.modules() if part.is_block and part.module is not None else ()
        for module in (*inner, *part.owners):
            found.setdefault(id(module), at)
    return found


def _is_split(module_name: str, own_name: str) -> bool:
    return module_name.endswith(TP_COLUMNS) or (
        module_name.endswith(TP_ROWS) and own_name == "weight"
    )


def _buffer_bytes(model: nn.Module, run: _Run, at: int) -> float:
    owner = _owners(run)
    return float(
        sum(
            buffer.nbytes
            for name, buffer in model.named_buffers()
            if owner.get(id(model.get_submodule(name.rpartition(".")[0])), 0) == at
        )
    )


def _merged(entry: wire.Layer, layer: wire.Layer) -> wire.Layer:
    """Return a layer with what is done before it, where that has no parameters."""

    def both(p: str) -> wire.Activations:
        a, b = entry.activations[p], layer.activations[p]
        return wire.Activations(
            per_sample=a.per_sample + b.per_sample,
            split_per_sample=a.split_per_sample + b.split_per_sample,
            once=a.once + b.once,
            work_per_sample=max(a.work_per_sample, b.work_per_sample),
        )

    return wire.Layer(
        name=layer.name,
        is_block=layer.is_block,
        parameters=layer.parameters,
        buffer_bytes=entry.buffer_bytes + layer.buffer_bytes,
        input_bytes=layer.input_bytes,
        flops=entry.flops + layer.flops,
        activations={p: both(p) for p in layer.activations},
    )
