"""What cannot be combined is refused with the key, the reason and the nearest valid choice."""

from __future__ import annotations

import math
from typing import Any

import pytest

from muster.document.strategy import Mesh, StrategySection
from muster.document.strategy_rules import Shape, axes, coordinates, problems
from muster.training.strategies.balance import balance

GPT = Shape(model="gpt", depth=4, heads=4)


@pytest.mark.parametrize(
    ("options", "slots"),
    [
        ({}, 1),
        ({"kind": "ddp", "compression": "powersgd", "powersgd_rank": 8, "bucket_mb": 1.0}, 4),
        ({"compression": "bf16", "precision": "fp16"}, 2),
        ({"kind": "zero1", "bucket_mb": 1.0, "clip_norm": 1.0}, 3),
        ({"kind": "fsdp", "reshard": False, "precision": "fp16"}, 5),
        ({"kind": "hsdp", "mesh": Mesh(replicate=2)}, 6),
        ({"kind": "hsdp", "mesh": Mesh(replicate=3, shard=2)}, 6),
        ({"kind": "tp", "sequence_parallel": True}, 4),
        ({"kind": "pp", "schedule": "zero_bubble"}, 2),
        ({"kind": "pp", "schedule": "zbv"}, 2),
        ({"kind": "pp", "schedule": "dualpipe_v", "accumulate": 2}, 2),
        ({"kind": "ps", "staleness": "unbounded"}, 3),
        ({"kind": "pp", "schedule": "async", "precision": "bf16"}, 2),
        ({"kind": "pp", "blocks_per_stage": (3, 1)}, 2),
        ({"kind": "mesh", "mesh": Mesh(pp=2, tp=2)}, 8),
        ({"kind": "local_sgd", "sync_every": 4, "local_after": 100}, 3),
        ({"kind": "diloco", "outer_lr": 1.0, "outer_momentum": 0.5}, 2),
        ({"kind": "ps", "staleness": 4, "precision": "bf16"}, 3),
        ({"kind": "mesh", "mesh": Mesh(pp=2, tp=2, replicate=2)}, 16),
    ],
)
def test_what_goes_together_passes(options: dict[str, Any], slots: int) -> None:
    given = StrategySection(**options)
    assert list(problems(given, slots=slots, shape=GPT)) == []
    sizes = axes(given, slots)
    assert math.prod(sizes.values()) == slots
    places = [tuple(coordinates(sizes, rank).items()) for rank in range(slots)]
    assert len(set(places)) == slots


def test_the_last_axis_varies_fastest() -> None:
    sizes = axes(StrategySection(kind="mesh", mesh=Mesh(pp=2, tp=2)), 8)
    assert sizes == {"pp": 2, "replicate": 1, "shard": 2, "tp": 2}
    assert coordinates(sizes, 1) == {"pp": 0, "replicate": 0, "shard": 0, "tp": 1}
    assert coordinates(sizes, 6) == {"pp": 1, "replicate": 0, "shard": 1, "tp": 0}


@pytest.mark.parametrize(
    ("options", "where", "path", "message", "hint"),
    [
        ({"kind": "single"}, {"slots": 2}, "strategy.kind", "one worker", "ddp"),
        ({"kind": "zero1", "compression": "fp16"}, {}, "strategy.compression", "zero1", "use ddp"),
        ({"kind": "fsdp", "bucket_mb": 1.0}, {}, "strategy.bucket_mb", "fsdp", "ddp or zero1"),
        ({"reshard": False}, {}, "strategy.reshard", "ddp", "fsdp"),
        ({"sequence_parallel": True}, {}, "strategy.sequence_parallel", "ddp", "tp or mesh"),
        ({"schedule": "gpipe"}, {}, "strategy.schedule", "ddp", "pp or mesh"),
        ({"sync_every": 2}, {}, "strategy.sync_every", "ddp", "local_sgd or diloco"),
        ({"kind": "local_sgd", "outer_lr": 0.1}, {}, "strategy.outer_lr", "local_sgd", "diloco"),
        ({"staleness": 2}, {}, "strategy.staleness", "ddp", "use ps"),
        ({"kind": "ps"}, {"slots": 1}, "resources.slots", "a worker beside it", "2 or more"),
        (
            {"kind": "ps", "staleness": 2},
            {"slot_type": "cuda"},
            "strategy.staleness",
            "NCCL",
            "staleness 0",
        ),
        ({"kind": "ps", "precision": "fp16"}, {}, "strategy.precision", "scales", "bf16"),
        ({"powersgd_rank": 8}, {}, "strategy.powersgd_rank", "none", "powersgd"),
        (
            {"compression": "fp16", "precision": "fp16"},
            {},
            "strategy.compression",
            "overflows",
            "compression: bf16",
        ),
        ({"kind": "fsdp", "offload": True}, {}, "strategy.offload", "no device", "cuda"),
        ({"mesh": Mesh(replicate=2)}, {}, "strategy.mesh", "ddp", "hsdp"),
        ({"kind": "hsdp"}, {}, "strategy.mesh.replicate", "is 1", "fsdp"),
        ({"kind": "hsdp", "mesh": Mesh(tp=2)}, {}, "strategy.mesh", "alone", "kind: mesh"),
        ({"kind": "mesh"}, {}, "strategy.mesh", "nothing to combine", "{tp: 2}"),
        (
            {"kind": "mesh", "mesh": Mesh(pp=2, tp=2)},
            {"slots": 6},
            "strategy.mesh",
            "pp 2 × tp 2 is 4 workers, but resources.slots is 6",
            "4 or 8 slots",
        ),
        (
            {"kind": "hsdp", "mesh": Mesh(replicate=2)},
            {"slots": 4, "min_slots": 2},
            "resources.min_slots",
            "fewer",
            "fsdp",
        ),
        ({"kind": "pp", "compile": True}, {}, "strategy.compile", "into pieces", "fsdp"),
        (
            {"kind": "ddp", "compile": True, "recompute": True},
            {},
            "strategy.recompute",
            "the wrapper",
            "one of the two",
        ),
        (
            {"kind": "pp", "schedule": "async", "recompute": True},
            {},
            "strategy.recompute",
            "newer weights",
            "1f1b",
        ),
        (
            {"kind": "pp", "schedule": "async", "clip_norm": 1.0},
            {},
            "strategy.clip_norm",
            "all stages at once",
            "1f1b",
        ),
        (
            {"kind": "pp", "schedule": "async", "precision": "fp16"},
            {},
            "strategy.precision",
            "none in common",
            "bf16",
        ),
        (
            {"kind": "mesh", "mesh": Mesh(pp=2, tp=2), "schedule": "async"},
            {},
            "strategy.kind",
            "copies",
            "kind: pp",
        ),
        (
            {"kind": "pp", "schedule": "dualpipe_v"},
            {"slots": 2},
            "strategy.accumulate",
            "as many micro-batches",
            "zbv",
        ),
        (
            {"kind": "ps", "staleness": "unbounded"},
            {"slots": 3, "slot_type": "cuda"},
            "strategy.staleness",
            "NCCL cannot",
            "staleness 0",
        ),
        (
            {"kind": "pp", "schedule": "zero_bubble", "recompute": True},
            {"slots": 2},
            "strategy.recompute",
            "two per block",
            "1f1b",
        ),
        (
            {"kind": "mesh", "mesh": Mesh(pp=2), "schedule": "zero_bubble"},
            {},
            "strategy.schedule",
            "lost",
            "shard 1",
        ),
        (
            {"kind": "tp"},
            {"shape": Shape(model="cnn")},
            "strategy.kind",
            "cnn is none",
            "gpt or vit",
        ),
        (
            {"kind": "pp"},
            {"shape": Shape(model="mine:build")},
            "strategy.kind",
            "one of your own is none",
            "gpt or vit",
        ),
        (
            {"kind": "tp"},
            {"shape": Shape(model="gpt", heads=6)},
            "trainer.heads",
            "6 heads",
            "use 8 heads, or tp 1, 2, 3, 6",
        ),
        (
            {"kind": "pp", "schedule": "interleaved"},
            {"shape": Shape(model="gpt", depth=6, heads=4)},
            "trainer.depth",
            "6 blocks are too few for 8 stages",
            "at least 8",
        ),
        (
            {"kind": "pp", "blocks_per_stage": (4, 1)},
            {"shape": Shape(model="gpt", depth=6, heads=4), "slots": 2},
            "strategy.blocks_per_stage",
            "[4, 1] does not share out 6 blocks to 2 stages",
            "use [3, 3]",
        ),
        (
            {"kind": "pp", "blocks_per_stage": (3, 3)},
            {"shape": Shape(model="gpt", depth=6, heads=4)},
            "strategy.blocks_per_stage",
            "[3, 3] does not share out 6 blocks to 4 stages",
            "use [2, 2, 1, 1]",
        ),
        (
            {"kind": "mesh", "mesh": Mesh(tp=2), "blocks_per_stage": (4,)},
            {},
            "strategy.blocks_per_stage",
            "pp is 1",
            "leave it out",
        ),
        (
            {"kind": "ddp", "blocks_per_stage": (2, 2)},
            {},
            "strategy.blocks_per_stage",
            "no effect with strategy.kind ddp",
            "use pp or mesh",
        ),
    ],
)
def test_what_does_not_is_refused(
    options: dict[str, Any], where: dict[str, Any], path: str, message: str, hint: str
) -> None:
    (problem,) = problems(StrategySection(**options), **({"slots": 4, "shape": GPT} | where))
    assert problem.path == path
    assert message in problem.message
    assert hint in problem.hint


def test_offload_needs_a_device() -> None:
    options = StrategySection(kind="fsdp", offload=True)
    assert list(problems(options, slots=2, slot_type="cuda")) == []


@pytest.mark.parametrize(
    ("costs", "stages", "ends", "sizes"),
    [
        ([1, 1, 1, 1], 2, (0, 0), [2, 2]),
        ([1, 1, 1, 1], 4, (0, 0), [1, 1, 1, 1]),
        ([4, 1, 1, 1, 1], 2, (0, 0), [1, 4]),
        ([1, 1, 1, 1, 1, 1], 2, (0, 2), [4, 2]),
        ([1, 1, 1, 1, 1, 1], 3, (3, 0), [1, 4, 1]),
        ([0, 0, 0], 3, (0, 0), [1, 1, 1]),
    ],
)
def test_stages_are_cut_so_that_the_slowest_is_fastest(
    costs: list[float], stages: int, ends: tuple[float, float], sizes: list[int]
) -> None:
    assert balance(costs, stages, entry=ends[0], exit=ends[1]) == sizes


def test_fewer_layers_than_stages_cannot_be_cut() -> None:
    with pytest.raises(ValueError, match="3 layers are too few for 4 stages"):
        balance([1, 1, 1], 4)
