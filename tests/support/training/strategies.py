"""Which strategies are compared with one process, how, and how close they have to be.

The tests train all of them; the table in docs/concepts/strategies.md is this list (tests/policy compares it).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

GLOBAL_BATCH = 48
STEPS = 6
RESUME_AT = 3


@dataclass(frozen=True)
class Case:
    name: str
    world: int
    strategy: dict[str, Any]
    tolerance: float = 2e-5
    """Relative, of each step's loss: sums of float32 in another order."""
    trainer: dict[str, Any] = field(default_factory=dict)
    reference: str = "single"
    resumed: bool = True
    """Whether it is also continued from a checkpoint."""
    is_exact: bool = True
    """Whether what is continued from its own checkpoint is bitwise the same."""
    stopped_rank: int | None = None
    """The worker that is asked to stop when something was reported; None: it trains to its end."""
    origin: str | None = None
    """The case whose checkpoint that is, one of as many workers or of more; None: its own."""


SLOW_MS = 200
"""Deliberate delay of one worker in each step."""
SGD: dict[str, Any] = {"optimizer": "sgd", "momentum": 0.0, "lr": 0.1}
"""With plain SGD, the average of one step each is the step of the average gradient."""

CASES = [
    Case("single", 1, {"kind": "single"}, 0.0),
    Case("single-clipped", 1, {"clip_norm": 0.5}, 0.0, reference="single-clipped"),
    Case("single-recompute", 1, {"recompute": True}, 0.0),
    Case("single-from-pp", 1, {"kind": "single"}, origin="pp-interleaved"),
    Case(
        "single-from-mesh",
        1,
        {"clip_norm": 0.5},
        reference="single-clipped",
        origin="pp-fsdp-tp",
    ),
    Case("single-sgd", 1, {"kind": "single"}, 0.0, SGD, reference="single-sgd"),
    Case("ddp", 2, {"kind": "ddp"}),
    # With more than two workers the order in which they are added up shows in the last bits.
    Case("ddp-of-four", 4, {"kind": "ddp", "bucket_mb": 0.01}),
    Case("ddp-accumulate", 2, {"kind": "ddp", "accumulate": 2, "bucket_mb": 0.01}),
    Case(
        "ddp-found-batch",
        2,
        {"kind": "ddp", "accumulate": 3},
        trainer={"batch_size": "auto", "batch_memory_gb": 0.0005},  # eight samples fit
    ),
    Case("ddp-fp16-sent", 2, {"kind": "ddp", "compression": "fp16"}, 1e-3),
    Case("ddp-bf16-sent", 2, {"kind": "ddp", "compression": "bf16"}, 1e-3),
    Case("ddp-powersgd", 2, {"kind": "ddp", "compression": "powersgd"}, 0.2, is_exact=False),
    Case("ddp-clipped", 2, {"kind": "ddp", "clip_norm": 0.5}, reference="single-clipped"),
    Case("ddp-bf16", 2, {"kind": "ddp", "precision": "bf16"}, 2e-2),
    Case("ddp-fp16", 2, {"kind": "ddp", "precision": "fp16"}, 1e-2),
    Case("zero1", 2, {"kind": "zero1"}),
    Case("zero1-of-four", 4, {"kind": "zero1"}),
    Case("fsdp", 2, {"kind": "fsdp"}),
    Case("fsdp-of-four", 4, {"kind": "fsdp"}),
    Case("fsdp-accumulate", 2, {"kind": "fsdp", "accumulate": 2, "reshard": False}),
    Case(
        "fsdp-clipped",
        2,
        {"kind": "fsdp", "clip_norm": 0.5, "recompute": True},
        reference="single-clipped",
    ),
    Case("fsdp-compiled", 2, {"kind": "fsdp", "compile": True}),
    Case("fsdp-bf16", 2, {"kind": "fsdp", "precision": "bf16"}, 2e-2),
    Case("fsdp-fp16", 2, {"kind": "fsdp", "precision": "fp16"}, 5e-2),
    Case(
        "local-sgd-1",
        2,
        {"kind": "local_sgd", "sync_every": 1},
        trainer=SGD,
        reference="single-sgd",
    ),
    Case("local-sgd", 2, {"kind": "local_sgd", "sync_every": 3}, 0.1),
    Case("post-local-sgd", 2, {"kind": "local_sgd", "sync_every": 3, "local_after": 6}),
    Case(
        "diloco-1",
        2,
        {"kind": "diloco", "sync_every": 1, "outer_lr": 1.0, "outer_momentum": 0.0},
        trainer=SGD,
        reference="single-sgd",
    ),
    Case("diloco", 2, {"kind": "diloco", "sync_every": 3}, 0.1),
    Case("tp", 2, {"kind": "tp"}, origin="fsdp"),
    Case(
        "tp-clipped",
        2,
        {"kind": "tp", "sequence_parallel": True, "clip_norm": 0.5},
        reference="single-clipped",
    ),
    Case("tp-bf16", 2, {"kind": "tp", "precision": "bf16"}, 2e-2),
    Case("pp-naive", 2, {"kind": "pp", "schedule": "naive"}),
    Case("pp-gpipe", 2, {"kind": "pp", "schedule": "gpipe"}, origin="zero1"),
    Case("pp-1f1b", 2, {"kind": "pp", "schedule": "1f1b", "accumulate": 2, "recompute": True}),
    Case("pp-interleaved", 2, {"kind": "pp", "schedule": "interleaved"}),
    Case("pp-zero-bubble", 2, {"kind": "pp", "schedule": "zero_bubble"}),
    Case("pp-zbv", 2, {"kind": "pp", "schedule": "zbv"}),
    Case("pp-dualpipe-v", 2, {"kind": "pp", "schedule": "dualpipe_v", "accumulate": 2}),
    Case(
        "pp-async",
        2,
        {"kind": "pp", "schedule": "async", "accumulate": 2},
        0.02,
        trainer=SGD,
        reference="single-sgd",
    ),
    Case(
        "pp-clipped",
        2,
        {"kind": "pp", "clip_norm": 0.5},
        reference="single-clipped",
    ),
    Case("pp-fp16", 2, {"kind": "pp", "precision": "fp16"}, 1e-2),
    Case("ps", 4, {"kind": "ps"}),
    Case(
        "ps-async",
        4,
        {"kind": "ps", "staleness": 8},
        0.02,
        trainer=SGD | {"options": {"rows_per_s": 0, "inject": [{"rank": 1, "ms": SLOW_MS}]}},
        reference="single-sgd",
        resumed=False,  # which gradient comes first is not the same twice
    ),
    Case(
        "ps-unbounded",
        4,
        {"kind": "ps", "staleness": "unbounded"},
        0.02,
        trainer=SGD | {"options": {"rows_per_s": 0, "inject": [{"rank": 1, "ms": SLOW_MS}]}},
        reference="single-sgd",
        resumed=False,
    ),
    Case(
        "ps-unbounded-stopped",
        4,
        {"kind": "ps", "staleness": "unbounded"},
        trainer=SGD
        | {
            "steps": 100_000,
            "validate_every": {"steps": 100_000},
            "options": {"rows_per_s": 0, "inject": [{"rank": 1, "ms": SLOW_MS}]},
        },
        resumed=False,
        stopped_rank=2,
    ),
    Case(
        "hsdp",
        4,
        {"kind": "hsdp", "mesh": {"replicate": 2}, "clip_norm": 0.5},
        reference="single-clipped",
    ),
    Case(
        "fsdp-tp",
        4,
        {"kind": "mesh", "mesh": {"tp": 2}, "sequence_parallel": True, "clip_norm": 0.5},
        reference="single-clipped",
    ),
    Case("pp-fsdp", 4, {"kind": "mesh", "mesh": {"pp": 2}}),
    Case(
        "pp-tp",
        4,
        {"kind": "mesh", "mesh": {"pp": 2, "tp": 2}, "sequence_parallel": True},
        origin="tp",
    ),
    Case(
        "pp-fsdp-tp",
        8,
        {"kind": "mesh", "mesh": {"pp": 2, "tp": 2}, "clip_norm": 0.5},
        reference="single-clipped",
    ),
]


def document(case: Case) -> dict[str, Any]:
    accumulate = case.strategy.get("accumulate", 1)
    trainer = {
        "model": "vit",
        "data": "synthetic",
        "samples": 240,
        "width": 16,
        "depth": 4,
        "heads": 4,
        "patch": 8,
        "steps": STEPS,
        "lr": 0.003,
        "options": {"rows_per_s": 0},
        "batch_size": GLOBAL_BATCH // case.world // accumulate,
        **case.trainer,
    }
    return {
        "trainer": trainer,
        "resources": {"slots": case.world},
        "strategy": case.strategy,
        "checkpoints": {"every": {"steps": RESUME_AT} if case.stopped_rank is None else None},
    }
