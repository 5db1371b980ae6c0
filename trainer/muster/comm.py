"""Measuring what is sent over gloo, and Muster's own small exchanges. Imports torch.

The measured group (`muster.measured_group`) delegates every collective to torch's own gloo and changes no
result. One hook sees everything: `torch.distributed` calls, DDP's C++ reducer, FSDP2, DTensor's functional
collectives, pipeline send/recv and sub-groups made by `new_group` or a DeviceMesh. It costs 5 to 15 µs per
collective in those steps in which collectives are recorded.

NCCL is left alone: a Python process group would hide its coalescing and splitting. On CUDA the gradients
of DDP are timed by `timed_hook`; of other communication no figures are made up.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from muster import device_time
from muster.collectives import log
from muster.measured_group import BACKEND, MeasuredGroup, create, num_bytes
from muster.progress import GroupCount, watch
from muster.run import current
from muster.sinks import warn

CONTROL = "muster_control"
"""The group of Muster's own small exchanges."""
_lock = threading.Lock()
_groups: dict[str, Any] = {}
_votes: GroupCount | None = None


def backend(wanted: str | None = None, *, measure: bool | None = None) -> str:
    """The backend name to give `init_process_group`: the measured gloo in place of gloo.

    wanted: "gloo", "nccl", …; default is nccl where CUDA is available, else gloo.
    measure: default is what the experiment document says (measure.steps and measure.comm), else
        True.
    Anything but plain "gloo" comes back unchanged.
    """
    if wanted is None:
        wanted = "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    if measure is None:
        measure = current().measures_steps and current().measures_comm
    if wanted != "gloo" or not measure:
        return wanted
    try:
        register()
    except Exception as error:
        warn(f"communication is not measured: {type(error).__name__}: {error}")
        return wanted
    return BACKEND


def register() -> None:
    """Make the backend `muster_gloo` known to torch. Repeating it is harmless."""
    with _lock:
        if BACKEND.upper() not in dist.Backend._plugins:
            dist.Backend.register_backend(BACKEND, create, extended_api=True, devices=["cpu"])


def is_measured() -> bool:
    """Whether the default process group is the measured one."""
    if not (dist.is_available() and dist.is_initialized()):
        return False
    return isinstance(dist.group.WORLD, MeasuredGroup)


@contextlib.contextmanager
def named(kind: str) -> Iterator[None]:
    """Sends and receives in this block are reported as `kind`: "ps_push" or "ps_pull"."""
    before, log.point_to_point_name = log.point_to_point_name, kind
    try:
        yield
    finally:
        log.point_to_point_name = before


def timed_hook(hook: Any = None, *, sent_share: float = 1.0) -> Any:
    """A DDP communication hook that does what `hook` does, and tells the StepTimer in use when each
    bucket was on its way, by events on the CUDA device: `model.register_comm_hook(None, timed_hook())`.

    hook: default is torch's all-reduce, which DDP does without a hook too.
    sent_share: of a bucket's bytes that `hook` sends: 0.5 for fp16 compression.
    """
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    does = default_hooks.allreduce_hook if hook is None else hook

    def timed(state, bucket):  # type: ignore[no-untyped-def] # torch refuses annotations in quotes
        timer = device_time.current
        sent_bytes = int(sent_share * num_bytes(bucket.buffer()))
        end = None if timer is None else timer.begin_collective("all_reduce", sent_bytes, "world")
        future = does(state, bucket)
        if end is None:
            return future

        def ended(done: Any) -> Any:
            end()  # torch calls this on a stream that waits for what was sent
            return done.value()

        return future.then(ended)

    return timed


def agree_any(flag: bool) -> bool:
    """True on every rank when `flag` is true on any. Every rank must call it.

    Uses a group of its own that is not measured, so that asking does not count as communication.
    """
    return agree_max(int(flag)) > 0


def agree_max(value: int) -> int:
    """The largest `value` of all ranks, on each of them. Every rank must call it; without a
    process group it is this one's."""
    if not (dist.is_available() and dist.is_initialized()):
        return value
    return finish_agreement(start_agreement(value))


def add_up(mine: torch.Tensor | None) -> torch.Tensor:
    """The sum over ranks of float64 vectors [k] on the CPU, on each rank; not measured. Every rank
    must call it, those that have none with None; at least one must have some."""
    if not (dist.is_available() and dist.is_initialized()):
        assert mine is not None
        return mine
    total = torch.zeros(agree_max(0 if mine is None else len(mine)), dtype=torch.float64)
    if mine is not None:
        total += mine
    dist.all_reduce(total, group=control_group())
    return total


def control_group() -> Any:
    """A gloo group of all ranks for Muster's own small exchanges; never measured.

    The first call must be made by every rank, like `new_group`.
    """
    return _own_group(CONTROL)


def saving_group() -> Any:
    """Another one, for saving checkpoints: a thread of its own uses it while training goes on, and
    exchanges of two threads over one group would mix. To be called like `control_group`."""
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
