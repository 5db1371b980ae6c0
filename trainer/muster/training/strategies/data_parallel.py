"""Data parallel (DDP): each worker holds the whole model and sees its share of the batch.

Split: the batch. Sent: gradients, one all-reduce per bucket, while backward still computes the
layers before it. In memory on each worker: the whole model, its gradients and optimizer state.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from muster.measure import comm
from muster.training.strategies.base import Strategy

POWERSGD_EXACT_STEPS = 3
"""Steps, after each start, whose gradients are sent as they are: the first ones change most."""


# torch looks at annotations, and takes no strings: there is no import of annotations here.
def send_bf16(
    group: dist.ProcessGroup,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[Tensor]:
    """torch's bf16_compress_hook, which may be registered with NCCL and XCCL alone: gloo adds bf16, too."""
    whole: Tensor = bucket.buffer()
    sent = whole.to(torch.bfloat16).div_(group.size())

    def restore(sums: torch.futures.Future[list[Tensor]]) -> Tensor:
        return whole.copy_(sums.value()[0])

    work = dist.all_reduce(sent, group=group, async_op=True)
    assert work is not None
    gradient: torch.futures.Future[Tensor] = work.get_future().then(restore)
    return gradient


class FixedBuckets(DistributedDataParallel):
    """DDP whose buckets are the same from a process's first step on: parameters from the last
    defined to the first, which is about the order in which backward yields their gradients.

    DDP itself sends one bucket in the first step after every start, and from then on buckets in the
    order in which it saw gradients arrive. With three or more workers the place of a number in its
    bucket decides in which order workers are added up, so the first step after a resume would differ
    in its last bits from the same step of a training that was not interrupted.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Its own order counts as seen: the first forward makes the buckets.
        self.reducer._push_all_rebuilt_params()

    def _build_params_for_reducer(self) -> tuple[list[nn.Parameter], list[bool]]:
        parameters, expect_sparse = super()._build_params_for_reducer()  # type: ignore[no-untyped-call]
        return parameters[::-1], expect_sparse[::-1]


class DataParallel(Strategy):
    """DistributedDataParallel around the model."""

    def share(self) -> None:
        device = self.place.device
        self._parallel = FixedBuckets(
            self.module,
            device_ids=[device.index] if device.type == "cuda" else None,
            bucket_cap_mb=self.options.bucket_mb,
        )
        if self.options.compression in ("fp16", "bf16"):
            is_fp16 = self.options.compression == "fp16"
            hook = default_hooks.fp16_compress_hook if is_fp16 else send_bf16
            if device.type == "cuda":
                hook = comm.timed_hook(hook, sent_share=0.5)
            self._parallel.register_comm_hook(dist.group.WORLD, hook)
        elif self.options.compression == "none" and device.type == "cuda":
            self._parallel.register_comm_hook(dist.group.WORLD, comm.timed_hook())
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
