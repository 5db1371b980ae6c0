"""Small exchanges of Muster's own between all ranks, over process groups that are not measured."""

from __future__ import annotations

import atexit
from typing import Any

import torch
import torch.distributed as dist

from muster.measure.progress import GroupCount, watch

CONTROL = "muster_control"
"""Name of the process group for these exchanges."""
_groups: dict[str, Any] = {}
_votes: GroupCount | None = None


def agree_any(flag: bool) -> bool:
    """Return True on every rank if `flag` is true on any. Every rank must call it.

    Uses a group of its own that is not measured, so that asking does not count as communication.
    """
    return agree_max(int(flag)) > 0


def agree_max(value: int) -> int:
    """Return the largest `value` of all ranks, on each of them. Every rank must call it; without a
    process group, it is this rank's own."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    return finish_agreement(start_agreement(value))


def add_up(mine: torch.Tensor | None) -> torch.Tensor:
    """Return the sum over ranks of float64 vectors [k] on the CPU, on each rank; not measured.
    Every rank must call it, with None if it has no vector; at least one must have one."""
    if not (dist.is_available() and dist.is_initialized()):
        assert mine is not None
        return mine
    total = torch.zeros(agree_max(0 if mine is None else len(mine)), dtype=torch.float64)
    if mine is not None:
        total += mine
    dist.all_reduce(total, group=control_group())
    return total


def control_group() -> Any:
    """Return a gloo group of all ranks for Muster's own small exchanges; never measured.

    The first call must be made by every rank, like `new_group`.
    """
    return _own_group(CONTROL)


def saving_group() -> Any:
    """Return a second control group for saving checkpoints: its own thread uses it while training
    goes on, and exchanges of two threads over one group would mix. Call it like `control_group`."""
    return _own_group("muster_saving")


def _own_group(name: str) -> Any:
    if not _groups:
        # A gloo group that outlives the interpreter aborts the process ("terminate called without
        # an active exception"), after a training that went well.
        atexit.register(_groups.clear)
    if name not in _groups:
        _groups[name] = dist.new_group(backend="gloo", group_desc=name)
    return _groups[name]


def start_agreement(value: int) -> tuple[Any, torch.Tensor]:
    """Begin `agree_max` without waiting. Every rank must call it, and `finish_agreement` then."""
    vote = torch.tensor([value], dtype=torch.int32)
    work = dist.all_reduce(vote, op=dist.ReduceOp.MAX, group=control_group(), async_op=True)
    global _votes
    if _votes is None:
        _votes = watch.add_group(CONTROL)
    _votes.begin("all_reduce", work)
    return work, vote


def finish_agreement(pending: tuple[Any, torch.Tensor]) -> int:
    work, vote = pending
    work.wait()
    return int(vote.item())
