"""Computing with 16 bits: which type, and the scale that keeps small fp16 gradients from vanishing."""

from __future__ import annotations

from typing import Any

import torch

from muster.document.strategy import Precision

DTYPES: dict[Precision, torch.dtype] = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


class LossScale:
    """Factor on the loss, so that gradients fit into fp16; 1 and constant for other types.

    It halves when gradients overflow, which loses that step, and doubles after `GROW_AFTER` good
    steps: the rule of torch's GradScaler. That one looks at the gradients a rank has, so ranks
    with different shards would disagree; this one is told about the norm of the whole gradient.
    """

    FIRST = 2.0**16
    GROW_AFTER = 2000

    def __init__(self, precision: Precision) -> None:
        self.is_used = precision == "fp16"
        self.value = self.FIRST if self.is_used else 1.0
        self.num_good = 0

    def update(self, *, is_finite: bool) -> None:
        if not self.is_used:
            return
        if not is_finite:
            self.value = max(self.value / 2, 1.0)
            self.num_good = 0
            return
        self.num_good += 1
        if self.num_good == self.GROW_AFTER:
            self.value *= 2
            self.num_good = 0

    def state(self) -> dict[str, Any]:
        return {"value": self.value, "num_good": self.num_good}

    def load(self, state: dict[str, Any]) -> None:
        self.value, self.num_good = float(state["value"]), int(state["num_good"])
