"""What cannot be combined is refused with the key, the reason and the nearest valid choice."""

from __future__ import annotations

import math
from typing import Any

import pytest

from muster.training.strategies.rules import Mesh, Options, axes, problems


@pytest.mark.parametrize(
    ("options", "slots"),
    [
        ({}, 1),
        ({"kind": "ddp", "compression": "powersgd", "powersgd_rank": 8, "bucket_mb": 1.0}, 4),
        ({"kind": "zero1", "bucket_mb": 1.0, "clip_norm": 1.0}, 3),
        ({"kind": "fsdp", "reshard": False, "precision": "fp16"}, 5),
        ({"kind": "hsdp", "mesh": Mesh(replicate=2)}, 6),
        ({"kind": "hsdp", "mesh": Mesh(replicate=3, shard=2)}, 6),
    ],
)
def test_what_goes_together_passes(options: dict[str, Any], slots: int) -> None:
    given = Options(**options)
    assert list(problems(given, slots=slots)) == []
    if given.kind == "hsdp":
        assert math.prod(axes(given, slots).values()) == slots


@pytest.mark.parametrize(
    ("options", "where", "path", "message", "hint"),
    [
        ({"kind": "single"}, {"slots": 2}, "strategy.kind", "one worker", "ddp"),
        ({"kind": "zero1", "compression": "fp16"}, {}, "strategy.compression", "zero1", "use ddp"),
        ({"kind": "fsdp", "bucket_mb": 1.0}, {}, "strategy.bucket_mb", "fsdp", "ddp or zero1"),
        ({"reshard": False}, {}, "strategy.reshard", "ddp", "fsdp"),
        ({"powersgd_rank": 8}, {}, "strategy.powersgd_rank", "none", "powersgd"),
        (
            {"compression": "fp16", "precision": "fp16"},
            {},
            "strategy.compression",
            "overflows",
            "bf16",
        ),
        ({"kind": "fsdp", "offload": True}, {}, "strategy.offload", "no device", "cuda"),
        ({"mesh": Mesh(replicate=2)}, {}, "strategy.mesh", "ddp", "hsdp"),
        ({"kind": "hsdp"}, {}, "strategy.mesh.replicate", "is 1", "fsdp"),
        (
            {"kind": "hsdp", "mesh": Mesh(replicate=2, shard=2)},
            {"slots": 6},
            "strategy.mesh",
            "replicate 2 × shard 2 is 4 workers, but resources.slots is 6",
            "2, 3, 6",
        ),
        (
            {"kind": "hsdp", "mesh": Mesh(replicate=2)},
            {"slots": 5},
            "strategy.mesh",
            "is 4 workers",
            "one of 5",
        ),
        (
            {"kind": "hsdp", "mesh": Mesh(replicate=2)},
            {"slots": 4, "min_slots": 2},
            "resources.min_slots",
            "fewer",
            "fsdp",
        ),
    ],
)
def test_what_does_not_is_refused(
    options: dict[str, Any], where: dict[str, Any], path: str, message: str, hint: str
) -> None:
    (problem,) = problems(Options(**options), **({"slots": 4} | where))
    assert problem.path == path
    assert message in problem.message
    assert hint in problem.hint


def test_offload_needs_a_device() -> None:
    options = Options(kind="fsdp", offload=True)
    assert list(problems(options, slots=2, slot_type="cuda")) == []
