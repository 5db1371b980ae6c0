"""Pipeline parallel: each worker holds some of the layers, and micro-batches flow through them.

Split: the layers, into stages. Sent: the activations between two stages, once per micro-batch, and
their gradients back: little, from neighbour to neighbour. In memory on each worker: the parameters
and optimizer state of its stages, and the activations of the micro-batches that are under way.

A stage waits for the ones before it (the bubble). Schedules differ in how much, and in how many
activations they keep: `gpipe` does all forwards and then all backwards; `1f1b` alternates, and keeps
fewer; `interleaved` gives each worker two stages, and waits less; `zero_bubble` also puts the
gradients of weights off to when it would wait. `zbv` and `dualpipe_v` lay two stages per worker out as
a V, down and back up, so that the first worker also has the last one: they wait least. `naive` has one micro-batch: only one worker
computes at a time.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class

from muster.document.strategy import Schedule
from muster.document.strategy_rules import STAGES_PER_WORKER, V_SCHEDULES
from muster.document.train_config import ConfigError
from muster.measure import agreement
from muster.measure.collectives import Message
from muster.measure.pipelining import Computing
from muster.measure.timing import StepTimer
from muster.training.strategies import fully_sharded, gradients, tensor
from muster.training.strategies.balance import balance
from muster.training.strategies.base import Means, Strategy
from muster.training.strategies.mesh import data_mesh, make_mesh
from muster.training.strategies.precision import DTYPES

SCHEDULES: dict[Schedule, str] = {
    "naive": "GPipe",
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "zero_bubble": "InterleavedZeroBubble",
    "zbv": "ZBVZeroBubble",
    "dualpipe_v": "DualPipeV",
}
"""Torch's class for each schedule. `async` is in async_pipeline.py."""


class Pipeline(Strategy):
    """torch's pipeline schedules over stages cut out of the model.

    Within a stage, parameters may be split further: along `tp`, and fully sharded along `shard`.
    """

    module: Parts
    timer: StepTimer | None = None
    """While a step is under way."""
    _micro = 0
    """The micro-batch that is worked on, where the strategy itself sends."""

    # ------------------------------------------------ who sees what

    @property
    def micro_batch(self) -> int:
        share = self.workload.global_batch // self.data_world_size
        if self.options.schedule == "naive":
            return share
        return self.workload.batch_size * self.sizes["tp"]

    @property
    def num_micro(self) -> int:
        return self.workload.global_batch // self.data_world_size // self.micro_batch

    @property
    def speaks(self) -> bool:
        return self.coordinates["tp"] == 0 and self._has_last

    # ------------------------------------------------ set up

    def share(self) -> None:
        self._check_share()
        mesh = make_mesh(self.options, self.place)
        parts = self._divide(mesh)
        for part in parts:
            if self.sizes["tp"] > 1:
                tensor.split(part, mesh["tp"], sequence=self.options.sequence_parallel)
            if self.data_world_size > 1:
                fully_sharded.shard(part, data_mesh(mesh), self.options)
        self.casts_itself = self.data_world_size > 1
        self._stages = [
            _TimedStage(self, part, i, self._num_stages)
            for part, i in zip(parts, self._mine, strict=True)
        ]
        kind = get_schedule_class(SCHEDULES[self.options.schedule])
        stages: Any = self._stages if issubclass(kind, PipelineScheduleMulti) else self._stages[0]
        self._schedule: Any = kind(
            stages, self.num_micro, loss_fn=self._micro_loss, scale_grads=False
        )
        self._rehearse()

    def _check_share(self) -> None:
        share, rest = divmod(self.workload.global_batch, self.data_world_size)
        if rest or share % self.micro_batch:
            raise ConfigError(
                f"strategy.kind: a pipeline needs micro-batches of equal size, and a share of "
                f"{self.workload.global_batch} / {self.data_world_size} samples cannot be cut into "
                f"parts of {self.micro_batch}"
            )

    def _divide(self, mesh: DeviceMesh) -> Parts:
        """Find which stages are mine, and cut them out of the model."""
        self._group = mesh.get_group("pp")
        num_workers = self.sizes["pp"]
        self._num_stages = num_workers * STAGES_PER_WORKER[self.options.schedule]
        self._mine = [
            i for i in range(self._num_stages) if self._place_of(i) == self.coordinates["pp"]
        ]
        self._has_first, self._has_last = 0 in self._mine, self._num_stages - 1 in self._mine
        x, _ = self.workload.sample(self.micro_batch)
        model: Any = self.module
        with torch.no_grad():
            # Blocks keep the shape of what they are given.
            self._shape = model.enter(x.to(self.place.device)).shape
        self.module = Parts(self._cut(self._num_stages, self._mine))
        return self.module

    def _cut(self, num_stages: int, mine: Sequence[int]) -> Iterator[nn.Module]:
        """My stages, each a copy of the model with its own layers alone."""
        model: Any = self.module
        if len(model.blocks) < num_stages:
            raise ConfigError(
                f"depth: {len(model.blocks)} blocks are too few for {num_stages} stages of a "
                f"{self.options.schedule} pipeline"
            )
        sizes = list(self.options.blocks_per_stage)
        if not sizes:
            x, _ = self.workload.sample(self.micro_batch)
            entry, *costs, exit = _agreed_costs(model, x.to(self.place.device))
            sizes = balance(costs, num_stages, entry=entry, exit=exit)
        self._sizes = sizes
        for stage in mine:
            first = sum(sizes[:stage])
            yield _stage_of(
                copy.deepcopy(model),
                range(first, first + sizes[stage]),
                is_first=stage == 0,
                is_last=stage == num_stages - 1,
            )

    def _rehearse(self) -> None:
        """One pass that changes nothing: in the first one, stages tell each other their shapes."""
        x, y = (
            t.to(self.place.device) for t in self.workload.sample(self.micro_batch * self.num_micro)
        )
        self._run(x, y)
        for parameter in self.module.parameters():
            parameter.grad = None

    # ------------------------------------------------ training

    def compute_gradients(self, x: Tensor, y: Tensor, timer: StepTimer) -> dict[str, float]:
        with timer.pipeline(self.coordinates["pp"]):
            self.timer = timer
            self._run(x, y)
            self.timer = None
            return self._sent_to_first_stage(self._means.values())

    def _run(self, x: Tensor, y: Tensor) -> None:
        self._means = Means()
        targets: dict[str, Any] = {"target": y, "losses": []} if self._has_last else {}
        self._schedule.step(*([x] if self._has_first else []), return_outputs=False, **targets)

    def _micro_loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Called by the schedule on the last stage, after its forward."""
        output = output.float()
        loss = self.workload.loss(output, target)
        self._means.add(len(target), loss, self.workload.measures(output.detach(), target))
        weight = len(target) * self.data_world_size / self.workload.global_batch
        return loss * weight * self.loss_scale.value

    def _sent_to_first_stage(self, values: dict[str, float]) -> dict[str, float]:
        """Return the last stage's values on the first stage as well, because people look at rank 0.

        The first stage ends last, so it does not wait for the values.
        """
        names = self.workload.names
        first = dist.get_global_rank(self._group, 0)
        last = self._worker_of(self._num_stages - 1)
        if first == last:
            return values
        packed = torch.zeros(len(names), dtype=torch.float64, device=self.place.device)
        if self.place.rank == last:
            packed += torch.tensor([values[n] for n in names]).to(packed)
            dist.send(packed, first, group=self._group)
        elif self.place.rank == first:
            dist.recv(packed, last, group=self._group)
            return dict(zip(names, packed.tolist(), strict=True))
        return values

    def grad_norm(self) -> float:
        return gradients.global_norm(self.module.parameters(), also_over=self._group)

    # ------------------------------------------------ checkpoints

    def own_state(self) -> dict[str, Any]:
        """Return the state with the cut of the model, because measuring again might cut
        elsewhere."""
        return {**super().own_state(), "blocks_per_stage": list(self._sizes)}

    # ------------------------------------------------ evaluation

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor | None:
        """Return the model's output, sending one piece after the other through all stages.

        The schedules' own `eval` would exchange shapes again, with the loss of made-up samples,
        whenever training changes to evaluation and back.
        """
        self.module.eval()
        outputs = []
        for part in torch.split(x, self.micro_batch):
            missing = self.micro_batch - len(part)  # shapes are those of training
            padded = torch.cat([part, part.new_zeros(missing, *x.shape[1:])])
            outputs.append(self._through(padded)[: len(part)])
        return torch.cat(outputs) if self._has_last else None

    def _through(self, x: Tensor) -> Tensor:
        """Return the output of this worker's last stage for a piece."""
        self._sends: list[tuple[Any, Tensor]] = []
        for stage, part in zip(self._mine, self.module, strict=True):
            if stage > 0 and stage - 1 not in self._mine:
                x = self._received(stage - 1)
            x = self._run_part(part, x)
            if stage < self._num_stages - 1 and stage + 1 not in self._mine:
                self._send(x, stage + 1)
        for work, _ in self._sends:
            work.wait()
        return x

    def _run_part(self, part: nn.Module, x: Tensor) -> Tensor:
        with self.casting():
            output: Tensor = part(x)
        return output.float()

    def casting(self) -> contextlib.AbstractContextManager[Any]:
        dtype = DTYPES[self.options.precision]
        casts = dtype != torch.float32 and not self.casts_itself
        return torch.autocast(self.place.device.type, dtype, enabled=casts)

    def _send(self, tensor: Tensor, stage: int) -> None:
        tensor = tensor.contiguous()
        back = stage < self._mine[0]
        self._label("send_backward" if back else "send_forward", tensor)
        work = dist.isend(tensor, self._worker_of(stage), group=self._group)
        self._sends.append((work, tensor))

    def _received(self, stage: int) -> Tensor:
        tensor = torch.empty(self._shape, device=self.place.device)
        back = stage > self._mine[0]
        self._label("recv_backward" if back else "recv_forward", tensor)
        dist.recv(tensor, self._worker_of(stage), group=self._group)
        return tensor

    def _label(self, message: Message, tensor: Tensor) -> None:
        if self.timer is not None:
            address, stage = tensor.data_ptr(), self._mine[0]
            self.timer.label_message(message, address, stage=stage, micro_batch=self._micro)

    def _place_of(self, stage: int) -> int:
        """Return the worker of the pipeline that has the stage."""
        turn, place = divmod(stage, self.sizes["pp"])
        back = turn % 2 and self.options.schedule in V_SCHEDULES
        return self.sizes["pp"] - 1 - place if back else place

    def _worker_of(self, stage: int) -> int:
        return dist.get_global_rank(self._group, self._place_of(stage))


class Parts(nn.ModuleList):
    """The stages that one worker holds, with the names that parameters have in the whole model."""

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Parameter]]:
        for part in self:
            yield from part.named_parameters(*args, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        return {n: v for part in self for n, v in part.state_dict(*args, **kwargs).items()}

    def load_state_dict(self, state: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        for part in self:
            part.load_state_dict({n: state[n] for n in part.state_dict()}, *args, **kwargs)


def _stage_of(model: Any, layers: Sequence[int], *, is_first: bool, is_last: bool) -> nn.Module:
    """`model` without what other stages hold; what is left keeps its name."""
    model.blocks = nn.ModuleDict({str(i): model.blocks[i] for i in layers})
    for name in () if is_first else model.ENTRY:
        setattr(model, name, None)
    for name in () if is_last else model.EXIT:
        setattr(model, name, None)

    def forward(x: Tensor) -> Tensor:
        if is_first:
            x = model.enter(x).contiguous()  # gloo sends nothing else, nor the gradient of it
        for block in model.blocks.values():
            x = block(x)
        return model.leave(x) if is_last else x.contiguous()

    model.forward = forward
    return model  # type: ignore[no-any-return]


def _agreed_costs(model: Any, x: Tensor) -> list[float]:
    """Return the seconds of forward and backward of entry, each block and exit, as rank 0 measures
    them: the least of a few times, because what else the processor does only ever adds."""
    found = torch.zeros(len(model.blocks) + 2, dtype=torch.float64)
    if dist.get_rank() == 0:
        list(_costs(model, x))  # pays for caches
        times = [list(_costs(model, x)) for _ in range(3)]
        found = torch.tensor(times, dtype=torch.float64).amin(dim=0)
        model.zero_grad(set_to_none=True)
    dist.broadcast(found, 0, group=agreement.control_group())
    return found.tolist()


def _costs(model: Any, x: Tensor) -> Iterator[float]:
    for part in (model.enter, *model.blocks, model.leave):
        if x.is_cuda:
            torch.cuda.synchronize()
        began = time.perf_counter()
        y = part(x)
        y.float().sum().backward()
        if x.is_cuda:
            torch.cuda.synchronize()
        yield time.perf_counter() - began
        x = y.detach().requires_grad_()


class _TimedStage(PipelineStage):
    """A stage whose work counts as forward and backward of the step, whatever the schedule, and of
    which one step in a window is noted, operation by operation."""

    def __init__(self, owner: Pipeline, part: nn.Module, index: int, num_stages: int) -> None:
        super().__init__(part, index, num_stages, owner.place.device, group=owner._group)
        self._owner = owner
        self._micro = 0

    @contextlib.contextmanager
    def _phase(self, name: str, kind: Computing) -> Iterator[None]:
        timer = self._owner.timer
        if timer is None:
            yield
            return
        with timer.phase(name):
            if self._owner.place.device.type != "cpu":
                yield  # an accelerator computes later than it is told to
                return
            with timer.operation(kind, stage=self.stage_index, micro_batch=self._micro):
                yield

    # torch says which micro-batch it is about only here, and computes in the methods below.

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        self._micro = fwd_chunk_id
        return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def backward_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        self._micro = bwd_chunk_id
        return super().backward_one_chunk(bwd_chunk_id, *args, **kwargs)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        self._micro = bwd_chunk_id
        return super().backward_weight_one_chunk(bwd_chunk_id, *args, **kwargs)

    def forward_maybe_with_nosync(self, *args: Any, **kwargs: Any) -> Any:
        owner = self._owner
        with self._phase("forward", "forward"), owner.casting():
            if self.is_last and owner.timer is not None:
                owner.workload.before_forward()
            return super().forward_maybe_with_nosync(*args, **kwargs)  # type: ignore[no-untyped-call]

    def backward_maybe_with_nosync(self, backward_type: str, *args: Any, **kwargs: Any) -> Any:
        with self._phase("backward", _BACKWARDS[backward_type]):
            return super().backward_maybe_with_nosync(backward_type, *args, **kwargs)

    # ------------------------------------------------ messages

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        return self._labelled("recv_forward", super().get_fwd_recv_ops(fwd_chunk_id), fwd_chunk_id)

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> list[dist.P2POp]:
        return self._labelled("send_forward", super().get_fwd_send_ops(fwd_chunk_id), fwd_chunk_id)

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        return self._labelled("recv_backward", super().get_bwd_recv_ops(bwd_chunk_id), bwd_chunk_id)

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> list[dist.P2POp]:
        return self._labelled("send_backward", super().get_bwd_send_ops(bwd_chunk_id), bwd_chunk_id)

    def _labelled(
        self, message: Message, operations: list[dist.P2POp], micro: int
    ) -> list[dist.P2POp]:
        timer = self._owner.timer
        if timer is not None:
            for operation in operations:
                address = operation.tensor.data_ptr()
                timer.label_message(message, address, stage=self.stage_index, micro_batch=micro)
        return operations


_BACKWARDS: dict[str, Computing] = {
    "full": "backward",
    "input": "backward_input",
    "weight": "backward_weight",
}
