"""Data parallel (DDP): each worker holds the whole model and sees its share of the batch.

Split: the batch. Sent: gradients, one all-reduce per bucket, while backward still computes the
layers before it. In memory on each worker: the whole model, its gradients and optimizer state.
"""

from __future__ import annotations

import torch.distributed as dist
from torch import Tensor
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from muster.training.strategies.base import Strategy

POWERSGD_EXACT_STEPS = 3
"""Steps, after each start, whose gradients are sent as they are: the first ones change most."""


class DataParallel(Strategy):
    """DistributedDataParallel around the model."""

    def share(self) -> None:
        device = self.place.device
        self._parallel = DistributedDataParallel(
            self.module,
            device_ids=[device.index] if device.type == "cuda" else None,
            bucket_cap_mb=self.options.bucket_mb,
        )
        if self.options.compression == "fp16":
            self._parallel.register_comm_hook(dist.group.WORLD, default_hooks.fp16_compress_hook)
        elif self.options.compression == "powersgd":
            # What a step loses is added to the next one's gradient. That memory is not kept in
            # checkpoints: it differs from worker to worker.
            powersgd = powerSGD_hook.PowerSGDState(
                process_group=None,
                matrix_approximation_rank=self.options.powersgd_rank,
                start_powerSGD_iter=POWERSGD_EXACT_STEPS,
            )
            self._parallel.register_comm_hook(powersgd, powerSGD_hook.powerSGD_hook)

    def combine_in_backward(self, last: bool) -> None:
        self._parallel.require_backward_grad_sync = last and self.exchanges

    def run_model(self, x: Tensor) -> Tensor:
        output: Tensor = self._parallel(x)
        return output
