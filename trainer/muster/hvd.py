"""Horovod's names over torch.distributed.

    import muster.hvd as hvd

    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer)

Start the script with `launcher: torchrun`. Every function but the ranks is a collective: all workers
must call it. Tensors stay on their device; on CUDA the backend is nccl.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from muster.measure.comm import backend
from muster.sdk.env import rank_info


class ReduceOp(enum.Enum):
    """What becomes of everybody's values."""

    AVERAGE = "average"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    PRODUCT = "product"


Average, Sum, Min, Max, Product = ReduceOp
_OPS = {
    ReduceOp.AVERAGE: dist.ReduceOp.SUM,
    ReduceOp.SUM: dist.ReduceOp.SUM,
    ReduceOp.MIN: dist.ReduceOp.MIN,
    ReduceOp.MAX: dist.ReduceOp.MAX,
    ReduceOp.PRODUCT: dist.ReduceOp.PRODUCT,
}


def init() -> None:
    """Join the other workers. A script that torchrun has not started is the only worker."""
    if dist.is_initialized():
        return
    on_cuda = torch.cuda.is_available()
    if on_cuda:
        torch.cuda.set_device(local_rank() % torch.cuda.device_count())
    name = backend("nccl" if on_cuda else "gloo")
    if dist.is_torchelastic_launched() or rank_info().world_size > 1:
        dist.init_process_group(name)
    else:
        dist.init_process_group(name, store=HashStore(), rank=0, world_size=1)


def is_initialized() -> bool:
    return dist.is_initialized()


def shutdown() -> None:
    """Leave the other workers."""
    if dist.is_initialized():
        dist.destroy_process_group()


def size() -> int:
    """Return the number of workers."""
    return rank_info().world_size


def rank() -> int:
    """Return the number of this worker, from 0."""
    return rank_info().rank


def local_size() -> int:
    """Return the number of workers on this node."""
    return rank_info().local_world_size


def local_rank() -> int:
    """Return the number of this worker on its node, from 0."""
    return rank_info().local_rank


def cross_size() -> int:
    """Return the number of nodes."""
    return max(1, size() // local_size())


def cross_rank() -> int:
    """Return the number of this node, from 0."""
    return rank_info().node_rank


def allreduce_(tensor: torch.Tensor, *, op: ReduceOp = Average, **_: Any) -> torch.Tensor:
    """Replace a tensor by the average, or what `op` says, of everybody's; return it."""
    dist.all_reduce(tensor, op=_OPS[op])
    if op is Average:
        tensor.div_(size()) if tensor.is_floating_point() else tensor.floor_divide_(size())
    return tensor


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    *,
    op: ReduceOp = Average,
    **_: Any,
) -> torch.Tensor:
    """Return the average, or what `op` says, of everybody's tensor. Averages of whole numbers are
    rounded down.

    average: Horovod's older argument: False is a sum.
    """
    del name
    if average is not None:
        op = Average if average else Sum
    return allreduce_(tensor.detach().clone(), op=op)


def allgather(tensor: torch.Tensor, name: str | None = None, **_: Any) -> torch.Tensor:
    """Return everybody's tensors, one after the other along the first dimension, in order of rank.
    Their first dimensions may differ."""
    del name
    given = tensor.detach().contiguous()
    own = torch.tensor([given.shape[0]], device=given.device)
    lengths = [torch.zeros_like(own) for _ in range(size())]
    dist.all_gather(lengths, own)
    longest = max(int(n) for n in lengths)
    padded = given.new_zeros((longest, *given.shape[1:]))
    padded[: given.shape[0]] = given
    pieces = [torch.zeros_like(padded) for _ in range(size())]
    dist.all_gather(pieces, padded)
    return torch.cat([piece[: int(n)] for piece, n in zip(pieces, lengths, strict=True)])


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Replace a tensor by that of `root_rank`; return it."""
    del name
    dist.broadcast(tensor, root_rank)
    return tensor


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Return the tensor of `root_rank`."""
    return broadcast_(tensor.detach().clone().contiguous(), root_rank, name)


def broadcast_object(value: Any, root_rank: int = 0, name: str | None = None) -> Any:
    """Return the object of `root_rank`."""
    del name
    values = [value]
    dist.broadcast_object_list(values, src=root_rank)
    return values[0]


def allgather_object(value: Any, name: str | None = None) -> list[Any]:
    """Return everybody's object, in order of rank."""
    del name
    values: list[Any] = [None] * size()
    dist.all_gather_object(values, value)
    return values


def barrier() -> None:
    """Return when all workers have come."""
    dist.barrier()


def broadcast_parameters(
    params: Mapping[str, torch.Tensor] | Iterable[tuple[str, torch.Tensor]], root_rank: int = 0
) -> None:
    """Give all workers the tensors of `root_rank`: `model.state_dict()` or
    `model.named_parameters()`."""
    items = params.items() if isinstance(params, Mapping) else params
    for _, tensor in items:
        if torch.is_tensor(tensor):
            dist.broadcast(tensor.data, root_rank)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int = 0) -> None:
    """Give all workers the optimizer's state of `root_rank`."""
    state = broadcast_object(optimizer.state_dict() if rank() == root_rank else None, root_rank)
    if rank() != root_rank:
        optimizer.load_state_dict(state)


Compression = SimpleNamespace(none=None, fp16=torch.float16)
"""What gradients are sent as."""


def DistributedOptimizer(  # Horovod's name
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    *,
    compression: torch.dtype | None = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
) -> torch.optim.Optimizer:
    """Return the optimizer, whose `step` first averages the gradients of all workers; `synchronize()`
    does so before it, for clipping.

    Gradients are sent in one flat tensor per type, when the backward pass is over: simpler than
    Horovod, and without its overlap with the backward pass. DDP has that.

    backward_passes_per_step: gradients are averaged, and parameters updated, at each so many calls
        of `step`; the calls before do nothing. Call `zero_grad` as before: it does nothing either.
    """
    del named_parameters
    update, clear = optimizer.step, optimizer.zero_grad
    passes = 0
    is_synchronized = False

    def synchronize() -> None:
        nonlocal is_synchronized
        by_kind: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad:
                    if parameter.grad is None:
                        # Others may have used it: everybody sends the same number of values.
                        parameter.grad = torch.zeros_like(parameter)
                    kind = (parameter.dtype, parameter.device)
                    by_kind.setdefault(kind, []).append(parameter.grad)
        for gradients in by_kind.values():
            flat = torch.cat([g.reshape(-1) for g in gradients])
            sent = flat if compression is None else flat.to(compression)
            flat = allreduce_(sent, op=op).to(flat.dtype).div_(backward_passes_per_step)
            start = 0
            for gradient in gradients:
                gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
                start += gradient.numel()
        is_synchronized = True

    def step(*args: Any, **kwargs: Any) -> Any:
        nonlocal passes, is_synchronized
        passes += 1
        if passes % backward_passes_per_step:
            return None
        if not is_synchronized:
            synchronize()
        is_synchronized = False
        return update(*args, **kwargs)

    def zero_grad(*args: Any, **kwargs: Any) -> None:
        if passes % backward_passes_per_step == 0:
            clear(*args, **kwargs)

    optimizer.step = step  # type: ignore[method-assign]
    optimizer.zero_grad = zero_grad  # type: ignore[method-assign]
    optimizer.synchronize = synchronize  # type: ignore[attr-defined]
    return optimizer
