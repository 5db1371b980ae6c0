"""ZeRO stage 1: data parallel with the optimizer's state split.

Split: the batch, and the optimizer's state: each worker keeps it for some of the parameters. Sent:
gradients as in data parallel, then every worker sends the parameters it has updated. In memory on
each worker: the whole model and its gradients, and 1/n of the optimizer's state.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor
from torch.distributed.optim import ZeroRedundancyOptimizer

from muster.training.saving.files import Saved
from muster.training.strategies import parts
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
            # One message from each worker after a step, and not one per parameter.
            parameters_as_bucket_view=True,
            **{name: value for name, value in plain.defaults.items() if name in takes},
        )
        return self.optimizer

    def optimizer_part(self) -> dict[str, Tensor]:
        # The optimizer that it wraps has the state of this worker's parameters.
        return parts.optimizer_part(self.module, self.optimizer.optim)

    def load_optimizer(self, saved: Saved, groups: list[dict[str, Any]]) -> None:
        own = {id(p) for group in self.optimizer.optim.param_groups for p in group["params"]}
        mine = {name for name, p in self.module.named_parameters() if id(p) in own}
        parts.load_optimizer(self.module, self.optimizer, saved, groups, mine=mine)
