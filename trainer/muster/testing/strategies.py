"""Which strategies are compared with one process, how, and how close they have to be.

The tests train all of them; the table in docs/concepts/strategies.md is made from this list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

GLOBAL_BATCH = 32
STEPS = 8
RESUME_AT = 4


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
    """Whether it is also continued from its checkpoint."""


CASES = [
    Case("single", 1, {"kind": "single"}, 0.0),
    Case("single-clipped", 1, {"clip_norm": 0.5}, 0.0, reference="single-clipped"),
    Case("single-recompute", 1, {"recompute": True}, 0.0),
    Case("single-bf16", 1, {"precision": "bf16"}, 2e-2),
    Case("ddp", 2, {"kind": "ddp"}),
    Case("ddp-accumulate", 2, {"kind": "ddp", "accumulate": 2}),
    Case("ddp-small-buckets", 2, {"kind": "ddp", "bucket_mb": 0.01}),
    Case("ddp-fp16-sent", 2, {"kind": "ddp", "compression": "fp16"}, 1e-3),
    Case("ddp-powersgd", 2, {"kind": "ddp", "compression": "powersgd"}, 0.2),
    Case("ddp-clipped", 2, {"kind": "ddp", "clip_norm": 0.5}, reference="single-clipped"),
    Case("ddp-bf16", 2, {"kind": "ddp", "precision": "bf16"}, 2e-2),
    Case("ddp-fp16", 2, {"kind": "ddp", "precision": "fp16"}, 1e-2),
    Case("zero1", 2, {"kind": "zero1"}),
    Case("fsdp", 2, {"kind": "fsdp"}),
    Case("fsdp-accumulate", 2, {"kind": "fsdp", "accumulate": 2}),
    Case("fsdp-keep", 2, {"kind": "fsdp", "reshard": False}),
    Case("fsdp-recompute", 2, {"kind": "fsdp", "recompute": True}),
    Case("fsdp-clipped", 2, {"kind": "fsdp", "clip_norm": 0.5}, reference="single-clipped"),
    Case("fsdp-bf16", 2, {"kind": "fsdp", "precision": "bf16"}, 2e-2),
    Case("fsdp-fp16", 2, {"kind": "fsdp", "precision": "fp16"}, 1e-2),
    Case("tp", 2, {"kind": "tp"}),
    Case("tp-sequence", 2, {"kind": "tp", "sequence_parallel": True}),
    Case(
        "tp-clipped",
        2,
        {"kind": "tp", "sequence_parallel": True, "clip_norm": 0.5},
        reference="single-clipped",
    ),
    Case("tp-bf16", 2, {"kind": "tp", "precision": "bf16"}, 2e-2),
    Case("pp-naive", 2, {"kind": "pp", "schedule": "naive"}),
    Case("pp-gpipe", 2, {"kind": "pp", "schedule": "gpipe"}),
    Case("pp-1f1b", 2, {"kind": "pp", "schedule": "1f1b", "accumulate": 2}),
    Case("pp-interleaved", 2, {"kind": "pp", "schedule": "interleaved"}),
    Case("pp-zero-bubble", 2, {"kind": "pp", "schedule": "zero_bubble"}),
    Case("pp-clipped", 2, {"kind": "pp", "clip_norm": 0.5}, reference="single-clipped"),
    Case("pp-recompute", 2, {"kind": "pp", "recompute": True}),
    Case("pp-fp16", 2, {"kind": "pp", "precision": "fp16"}, 1e-2),
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
    Case("pp-tp", 4, {"kind": "mesh", "mesh": {"pp": 2, "tp": 2}, "sequence_parallel": True}),
    Case(
        "pp-fsdp-tp",
        8,
        {"kind": "mesh", "mesh": {"pp": 2, "tp": 2}, "clip_norm": 0.5},
        reference="single-clipped",
        resumed=False,  # eight processes on two cores: it takes as long as all of two workers
    ),
]


def document(case: Case) -> dict[str, Any]:
    accumulate = case.strategy.get("accumulate", 1)
    trainer = {
        "model": "vit",
        "data": "digits",
        "width": 16,
        "depth": 4,
        "heads": 4,
        "patch": 4,
        "steps": STEPS,
        "lr": 0.01,
        "options": {"rows_per_s": 0},
        **case.trainer,
        "batch_size": GLOBAL_BATCH // case.world // accumulate,
    }
    return {
        "trainer": trainer,
        "resources": {"slots": case.world},
        "strategy": case.strategy,
        "checkpoints": {"every": {"steps": RESUME_AT}},
    }
