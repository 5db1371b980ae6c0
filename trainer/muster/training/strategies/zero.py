"""ZeRO stage 1: data parallel with the optimizer's state split.

Split: the batch, and the optimizer's state: each worker keeps it for some of the parameters. Sent:
gradients as in data parallel, then every worker sends the parameters it has updated. In memory on
each worker: the whole model and its gradients, and 1/n of the optimizer's state.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer

from muster.training.strategies import whole
from muster.training.strategies.base import BuildOptimizer
from muster.training.strategies.data_parallel import DataParallel


class ZeroOne(DataParallel):
    """DDP with ZeroRedundancyOptimizer."""

    optimizer: ZeroRedundancyOptimizer

    def make_optimizer(self, build: BuildOptimizer) -> torch.optim.Optimizer:
        plain = build(self.module)
        # An optimizer's defaults hold more than what can be said when it is made.
        takes = inspect.signature(type(plain)).parameters
        self.optimizer = ZeroRedundancyOptimizer(
            plain.param_groups,
            optimizer_class=type(plain),
            **{name: value for name, value in plain.defaults.items() if name in takes},
        )
        return self.optimizer

    def optimizer_state(self) -> dict[str, Any]:
        self.optimizer.consolidate_state_dict(to=0)
        if self.place.rank != 0:
            return {}
        return whole.optimizer_state(self.module, self.optimizer)
