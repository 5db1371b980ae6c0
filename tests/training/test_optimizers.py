"""LARS and LAMB against the papers' formulas, written down once more in plain numbers."""

from __future__ import annotations

import copy
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from muster.document.train_config import TrainConfig
from muster.training import optimizers

pytestmark = pytest.mark.torch

Vector = list[float]


def length(values: Vector) -> float:
    return math.sqrt(sum(v * v for v in values))


def lars(
    w: Vector, grads: list[Vector], *, lr: float, m: float, decay: float, trust: float
) -> Vector:
    v = [0.0] * len(w)
    for g in grads:
        local = trust * length(w) / (length(g) + decay * length(w)) if length(w) > 0 else 1.0
        v = [m * vi + lr * local * (gi + decay * wi) for vi, gi, wi in zip(v, g, w, strict=True)]
        w = [wi - vi for wi, vi in zip(w, v, strict=True)]
    return w


def lamb(
    w: Vector, grads: list[Vector], *, lr: float, b1: float, b2: float, decay: float
) -> Vector:
    mean, square = [0.0] * len(w), [0.0] * len(w)
    for t, g in enumerate(grads, start=1):
        mean = [b1 * a + (1 - b1) * gi for a, gi in zip(mean, g, strict=True)]
        square = [b2 * a + (1 - b2) * gi * gi for a, gi in zip(square, g, strict=True)]
        u = [
            a / (1 - b1**t) / (math.sqrt(s / (1 - b2**t)) + 1e-6) + decay * wi
            for a, s, wi in zip(mean, square, w, strict=True)
        ]
        ratio = length(w) / length(u) if length(w) > 0 and length(u) > 0 else 1.0
        w = [wi - lr * ratio * ui for wi, ui in zip(w, u, strict=True)]
    return w


def steps(optimizer: Any, parameter: Any, grads: list[Vector]) -> Vector:
    for grad in grads:
        parameter.grad = torch.tensor(grad).reshape(parameter.shape)
        optimizer.step()
    return parameter.detach().flatten().tolist()


GRADS = [[0.5, -1.0, 2.0, 0.1, 0.0, -0.3], [1.5, 0.2, -0.4, 0.9, 0.3, 0.0], [-1.0] * 6]


@pytest.mark.parametrize("start", [[1.0, -2.0, 0.5, 3.0, 0.1, -0.7], [0.0] * 6])
def test_lars_is_the_papers(start: Vector) -> None:
    from muster.training.optimizers import LARS

    w = torch.nn.Parameter(torch.tensor(start).reshape(2, 3))
    optimizer = LARS([w], lr=2.0, momentum=0.9, weight_decay=0.01, trust=0.05)
    expected = lars(start, GRADS, lr=2.0, m=0.9, decay=0.01, trust=0.05)
    assert steps(optimizer, w, GRADS) == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("start", [[1.0, -2.0, 0.5, 3.0, 0.1, -0.7], [0.0] * 6])
def test_lamb_is_the_papers(start: Vector) -> None:
    from muster.training.optimizers import LAMB

    w = torch.nn.Parameter(torch.tensor(start).reshape(2, 3))
    optimizer = LAMB([w], lr=0.1, betas=(0.8, 0.95), weight_decay=0.01)
    expected = lamb(start, GRADS, lr=0.1, b1=0.8, b2=0.95, decay=0.01)
    assert steps(optimizer, w, GRADS) == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_vectors_are_not_scaled_and_lars_is_sgd_then() -> None:
    from muster.training.optimizers import LARS

    ours, theirs = (torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2))
    grads = [[0.5, 0.1], [0.2, -0.3], [1.0, 1.0]]
    sgd = torch.optim.SGD([theirs], lr=0.1, momentum=0.9, weight_decay=0.01)
    ours_after = steps(LARS([ours], lr=0.1, momentum=0.9, weight_decay=0.01), ours, grads)
    assert ours_after == pytest.approx(steps(sgd, theirs, grads), rel=1e-6)


@pytest.mark.parametrize("name", ["adamw", "lamb", "lars", "radam", "sgd"])
def test_every_optimizer_learns_and_its_state_can_be_saved(name: str, tmp_path: Path) -> None:
    from muster.training import optimizers

    config = TrainConfig(
        optimizer=name,  # type: ignore[arg-type]
        lr={"lars": 0.3, "radam": 0.05, "sgd": 0.1}.get(name, 0.02),
        decay_matrices_only=True,
        trust=0.1,
    )

    def make() -> tuple[Any, Any]:
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        return model, optimizers.build(config, model)

    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    y = x[:, :1] * x[:, 1:2]

    def train(model: Any, optimizer: Any, num: int) -> list[float]:
        losses = []
        for _ in range(num):
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    model, optimizer = make()
    whole = train(model, optimizer, 60)
    assert whole[-1] < 0.8 * whole[0]
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.01, 0.0]

    model, optimizer = make()
    assert train(model, optimizer, 30) == whole[:30]
    torch.save({"m": model.state_dict(), "o": optimizer.state_dict()}, tmp_path / "saved.pt")
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    model, optimizer = make()
    model.load_state_dict(saved["m"])
    optimizer.load_state_dict(saved["o"])
    assert train(model, optimizer, 30) == whole[30:]


def test_sharded_tensors_take_the_step_of_whole_ones(tmp_path: Path) -> None:
    """Two processes that hold half of each tensor, by rows or by columns."""
    script = Path(__file__).parent / "workers" / "sharded_optimizers.py"
    store = tmp_path / "store"
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(store)],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [w.communicate(timeout=240)[0] for w in workers]
    assert [w.returncode for w in workers] == [0, 0], "\n".join(outputs)
    for output in outputs:
        assert output.split() == ["LARS", "same", "LAMB", "same"]


@pytest.fixture
def mesh() -> Iterator[Any]:
    """Of this process alone: what is sharded over it is whole, and still a DTensor."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1),
        lambda p: torch.optim.RAdam(p, lr=0.1, decoupled_weight_decay=True),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=0.1),
    ],
    ids=["adamw", "radam", "momentum", "sgd"],
)
def test_steps_on_local_tensors_are_those_on_sharded_ones(mesh: Any, make: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    from muster.training.strategies.local_update import LocalUpdate

    def parameters() -> list[nn.Parameter]:
        generator = torch.Generator().manual_seed(1)
        values = [torch.randn(n, 3, generator=generator) for n in (4, 2, 5)]
        sharded = [distribute_tensor(values[0], mesh, [Shard(0)])]
        sharded.append(distribute_tensor(values[1], mesh, [Replicate()]))
        return [nn.Parameter(value) for value in (*sharded, values[2])]

    def give_gradients(where: list[nn.Parameter], step: int) -> None:
        generator = torch.Generator().manual_seed(10 + step)
        for p in where:
            grad = torch.randn(p.shape, generator=generator)
            is_sharded = hasattr(p, "placements")
            p.grad = distribute_tensor(grad, mesh, [Shard(0)]) if is_sharded else grad
        if step < 2:
            where[1].grad = None  # a part that is not used at first

    usual, ours = parameters(), parameters()
    expected, optimizer = make(usual), make(ours)
    local = LocalUpdate.of(optimizer)
    assert local is not None
    twins = {}  # kept, so that no id comes twice
    for step in range(8):
        if step == 5:  # a resume
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for group in (*expected.param_groups, *optimizer.param_groups):
            group["lr"] = 0.1 / (step + 1)
        give_gradients(usual, step)
        give_gradients(ours, step)
        expected.step()
        local.step()
        twins[id(local._twin)] = local._twin
        for a, b in zip(usual, ours, strict=True):
            assert torch.equal(_whole(a.detach()), _whole(b.detach()))
            for name, value in expected.state[a].items():
                found = optimizer.state[b][name]
                assert type(found) is type(value)
                if value is not None:
                    assert torch.equal(_whole(value), _whole(found))
    assert None in twins.values()
    assert len(twins) >= 3  # made anew with a new parameter, and after the resume
    assert LocalUpdate.of(make(parameters()[2:])) is None
    assert LocalUpdate.of(optimizers.LARS(parameters(), lr=0.1)) is None


def _whole(tensor: Any) -> torch.Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
