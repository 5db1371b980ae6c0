"""Data parallel (DDP): each worker holds the whole model and sees its share of the batch.

Split: the batch. Sent: gradients, one all-reduce per bucket, while backward still computes the
layers before it. In memory on each worker: the whole model, its gradients and optimizer state.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from muster.training.strategies.base import Strategy


class DataParallel(Strategy):
    """DistributedDataParallel around the model."""

    def prepare(self, model: nn.Module) -> None:
        super().prepare(model)
        device = self.place.device
        self._parallel = DistributedDataParallel(
            model, device_ids=[device.index] if device.type == "cuda" else None
        )

    def combine_in_backward(self, last: bool) -> None:
        self._parallel.require_backward_grad_sync = last

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self._parallel(x)
        return output
