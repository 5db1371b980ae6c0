"""Throughput of each strategy against a plain torch script that does the same, in one run.

    OMP_NUM_THREADS=1 python bench/strategies.py [--pairs 30] [--block 4] [--only ddp,fsdp]

The built-in trainer runs its own loop, with everything that it measures and reports. Where it asks
for the next batch, the same processes train a second copy of the model in the way that the manuals
of torch show, for as many steps. Blocks alternate in an order drawn by chance, between barriers, so
that what else goes on hits both; the first step of a block is not timed, since the other way has
filled the caches before it. The ratio of a pair is plain time / Muster's time: the throughput
of Muster as a share of the plain one. Printed: the median over pairs, with a 95 % interval by
resampling them; the same of the processor's time of rank 0, which other programs touch less; and
what comparing the plain script with itself gives (A/A).

Goal: 0.99. Both read the same batches, update with the same AdamW, and look at the loss and the
accuracy of each step, and both keep the memory that a step frees, as the trainer asks of the process that
they share. What Muster does besides: clocks, communication measured, a row of metrics
every 50 ms, the vote about stopping.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import paired
import torch
import torch.distributed as dist
import torch.distributed.checkpoint
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import muster
from muster.document.train_config import TrainConfig, resolve
from muster.measure import comm
from muster.training import allocation, loop
from muster.training.tasks import Task

Step = Callable[[Tensor, Tensor], None]
LR, DECAY, SYNC_EVERY, MICRO = 1e-3, 0.01, 4, 4
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "single": (1, {"kind": "single"}),
    "ddp": (2, {"kind": "ddp"}),
    "zero1": (2, {"kind": "zero1"}),
    "fsdp": (2, {"kind": "fsdp"}),
    "tp": (2, {"kind": "tp"}),
    "pp": (2, {"kind": "pp", "schedule": "1f1b", "accumulate": 2, "blocks_per_stage": [2, 2]}),
    "local_sgd": (2, {"kind": "local_sgd", "sync_every": SYNC_EVERY}),
    "ps": (2, {"kind": "ps"}),
}
"""Name → workers, strategy of the document."""


# ---------------------------------------------------------------- the plain scripts


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=DECAY)


class Plain:
    """What a script without Muster does, one step at a time."""

    def __init__(self, name: str, task: Task, group: Any, rank: int, *, label: str = "") -> None:
        """label: of its device mesh. DTensor keeps what it derives from a mesh for all meshes that
        are equal to it, process group included: two copies over two groups need meshes that differ."""
        self.task, self.group, self.rank, self.label = task, group, rank, label
        self.model: Any = task.model()
        getattr(self, f"make_{name}")()

    def looked_at(self, output: Tensor, y: Tensor) -> Tensor:
        loss = self.task.loss(output, y)
        self.task.accuracy(output.detach(), y)
        return loss

    def plain_step(self, x: Tensor, y: Tensor) -> None:
        self.optimizer.zero_grad()
        loss = self.looked_at(self.model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        loss.item()

    def make_single(self) -> None:
        self.optimizer, self.step = adamw(self.model), self.plain_step

    def make_ddp(self) -> None:
        self.model = DistributedDataParallel(self.model, process_group=self.group)
        self.optimizer, self.step = adamw(self.model), self.plain_step

    def make_zero1(self) -> None:
        self.model = DistributedDataParallel(self.model, process_group=self.group)
        self.optimizer = ZeroRedundancyOptimizer(
            self.model.parameters(), torch.optim.AdamW, self.group, lr=LR, weight_decay=DECAY
        )
        self.step = self.plain_step

    def mesh(self) -> DeviceMesh:
        names = (self.label,) if self.label else None
        return DeviceMesh.from_group(self.group, "cpu", mesh_dim_names=names)

    def make_fsdp(self) -> None:
        mesh = self.mesh()
        for block in self.model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.optimizer, self.step = adamw(self.model), self.plain_step

    def make_tp(self) -> None:
        plan: dict[str, Any] = {
            f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")
        }
        plan |= {"attention.out": RowwiseParallel()}
        plan |= {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
        mesh = self.mesh()
        for block in self.model.blocks:
            parallelize_module(block, mesh, plan)
        self.optimizer, self.step = adamw(self.model), self.plain_step

    def make_pp(self) -> None:
        part = _Half(self.model, first=self.rank == 0)
        stage = PipelineStage(part, self.rank, 2, torch.device("cpu"), group=self.group)
        schedule = Schedule1F1B(stage, MICRO, loss_fn=self.looked_at)
        self.optimizer = adamw(part)

        def step(x: Tensor, y: Tensor) -> None:
            self.optimizer.zero_grad()
            losses: list[Tensor] = []
            schedule.step(*([x] if self.rank == 0 else []), target=y, losses=losses)
            self.optimizer.step()
            [loss.item() for loss in losses]

        self.step = step

    def make_local_sgd(self) -> None:
        self.optimizer = adamw(self.model)
        num = 0

        def step(x: Tensor, y: Tensor) -> None:
            nonlocal num
            self.plain_step(x, y)
            num += 1
            if num % SYNC_EVERY == 0:
                flat = parameters_to_vector(self.model.parameters()).detach()
                dist.all_reduce(flat, group=self.group)
                vector_to_parameters(flat / 2, self.model.parameters())

        self.step = step

    def make_ps(self) -> None:
        self.optimizer = adamw(self.model)
        size = sum(p.numel() for p in self.model.parameters())
        server, worker = 0, 1

        def step(x: Tensor, y: Tensor) -> None:
            flat = torch.empty(size)
            if self.rank == server:
                dist.recv(flat, worker, group=self.group)
                at = 0
                for p in self.model.parameters():
                    p.grad = flat[at : at + p.numel()].view_as(p)
                    at += p.numel()
                self.optimizer.step()
                flat = parameters_to_vector(self.model.parameters()).detach()
                dist.send(flat, worker, group=self.group)
                return
            self.optimizer.zero_grad()
            loss = self.looked_at(self.model(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            gradients = [p.grad for p in self.model.parameters()]
            dist.send(parameters_to_vector(gradients), server, group=self.group)  # type: ignore[arg-type]
            dist.recv(flat, server, group=self.group)
            vector_to_parameters(flat, self.model.parameters())
            loss.item()

        self.step = step


class _Half(nn.Module):
    def __init__(self, model: Any, *, first: bool) -> None:
        super().__init__()
        self.first = first
        self.entry = nn.ModuleList(getattr(model, n) for n in model.ENTRY) if first else None
        self.exit = None if first else nn.ModuleList(getattr(model, n) for n in model.EXIT)
        half = len(model.blocks) // 2
        self.blocks = model.blocks[:half] if first else model.blocks[half:]
        self.enter, self.leave = model.enter, model.leave

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x) if self.first else x
        for block in self.blocks:
            x = block(x)
        return x.contiguous() if self.first else self.leave(x)  # type: ignore[no-any-return]


# ---------------------------------------------------------------- both in turn


class InTurn:
    """Takes the place of the loop's batches."""

    def __init__(self, name: str, args: argparse.Namespace, group: Any, seed: int) -> None:
        self.name, self.args, self.group = name, args, group
        self.draw = random.Random(seed)  # the same on all workers
        self.pairs: list[tuple[paired.Times, paired.Times]] = []
        """(plain, Muster)"""
        self.null: list[tuple[paired.Times, paired.Times]] = []
        """(plain, plain)."""
        self._batches = loop._batches

    def __call__(
        self, config: TrainConfig, task: Task, training: Any, num_steps: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        strategy = training.strategy
        batches = self._batches(config, task, training, num_steps)
        plain = Plain(self.name, task, self.group, strategy.place.rank)
        num = 0

        def plain_step() -> None:
            nonlocal num
            at = num % task.steps_per_epoch
            plain.step(
                *task.batch(at, rank=strategy.data_rank, world_size=strategy.data_world_size)
            )
            num += 1

        def plain_block() -> paired.Times:
            plain_step()
            began = paired.clocks(self.group)
            for _ in range(self.args.block):
                plain_step()
            return paired.since(began, self.group)

        for i in range(self.args.pairs + 1):
            took: dict[str, paired.Times] = {}
            for way in self.draw.sample(("plain", "muster"), 2):
                if way == "plain":
                    took[way] = plain_block()
                    continue
                yield next(batches)
                began = paired.clocks(self.group)
                for _ in range(self.args.block):
                    yield next(batches)
                took[way] = paired.since(began, self.group)
            null = plain_block(), plain_block()
            if i > 0:  # the first one allocates, and makes the optimizers' state
                self.pairs.append((took["plain"], took["muster"]))
                self.null.append(null)


def document(name: str, args: argparse.Namespace) -> dict[str, Any]:
    workers, strategy = CASES[name]
    accumulate = strategy.get("accumulate", 1)
    steps = (args.pairs + 1) * (args.block + 1)
    return {
        "trainer": {
            **paired.trainer(args),
            "samples": (steps + 1) * args.batch,
            "steps": steps,
            "lr": LR,
            "batch_size": args.batch // workers // accumulate,
            "options": {"weight_decay": DECAY, "schedule": "constant"},
        },
        "resources": {"slots": workers},
        "strategy": strategy,
        "checkpoints": {"every": None},
        "measure": {"steps": not args.bare, "comm": not args.bare},
    }


def work(name: str, args: argparse.Namespace, folder: Path, rank: int) -> dict[str, Any]:
    workers, _ = CASES[name]
    torch.set_num_threads(1)
    allocation.keep_freed_memory()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    group = None
    if workers > 1:
        dist.init_process_group(
            comm.backend("gloo", measure=not args.bare),
            store=dist.FileStore(str(folder / "store"), workers),
            rank=rank,
            world_size=workers,
            timeout=timedelta(minutes=5),
        )
        group = dist.new_group(backend="gloo")
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(workers),
        "MUSTER_CONFIG_FILE": str(folder / "config.json"),
        "MUSTER_CHECKPOINT_DIR": str(folder / "checkpoints"),
        "MUSTER_REPORT_FILE": str(folder / "reports.jsonl"),
    }
    run = muster.init()
    in_turn = loop._batches = InTurn(name, args, group, seed=args.seed)  # type: ignore[assignment]
    loop.train_in_group(
        run, resolve(run.get_config(), {}, seed=1), torch.device("cpu"), rank, workers
    )
    run.close()
    return {"pairs": in_turn.pairs, "null": in_turn.null}


def main() -> None:
    parser = paired.options(str(__doc__), pairs=30, cases=list(CASES))
    parser.add_argument("--bare", action="store_true", help="Muster measures nothing")
    args = parser.parse_args()
    paired.print_head(args, "Muster")
    for name in args.only.split(","):
        workers, _ = CASES[name]
        does = functools.partial(work, name, args)
        found = paired.run(name, workers, document(name, args), does)
        paired.print_row(name, workers, found, args)


if __name__ == "__main__":
    main()
