"""Measurement of what is sent over gloo. Imports torch.

The measured group (`muster.measure.measured_group`) delegates every collective to torch's own gloo and changes no
result. One hook sees everything: `torch.distributed` calls, DDP's C++ reducer, FSDP2, DTensor's functional
collectives, pipeline send/recv and sub-groups made by `new_group` or a DeviceMesh. It costs 5 to 15 µs per
collective in those steps in which collectives are recorded.

NCCL is left alone: a Python process group would hide its coalescing and splitting. On CUDA the timeline of
the kernels tells what is sent (`muster.measure.windows`); DDP's gradients can be timed by `timed_hook`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from muster.measure import device_time
from muster.measure.collectives import log
from muster.measure.measured_group import BACKEND, MeasuredGroup, create, num_bytes
from muster.measure.windows import SWITCH
from muster.sdk.reporter import current
from muster.sdk.sinks import warn

_lock = threading.Lock()


def backend(wanted: str | None = None, *, measure: bool | None = None) -> str:
    """Return the backend name for `init_process_group`: the measured gloo in place of gloo.

    wanted: "gloo", "nccl", …; default is nccl where CUDA is available, else gloo.
    measure: default is what the experiment document says (measure.steps and measure.comm), else
        True.
    Anything but plain "gloo" comes back unchanged.
    """
    if wanted is None:
        wanted = "nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    if measure is None:
        measure = current().measures_steps and current().measures_comm
    if wanted != "gloo" or not measure or os.environ.get(SWITCH) == "cpu":
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
    """Return whether the default process group is the measured one."""
    if not (dist.is_available() and dist.is_initialized()):
        return False
    return isinstance(dist.group.WORLD, MeasuredGroup)


@contextlib.contextmanager
def named(kind: str) -> Iterator[None]:
    """Report sends and receives in this block as `kind`: "ps_push" or "ps_pull"."""
    before, log.point_to_point_name = log.point_to_point_name, kind
    try:
        yield
    finally:
        log.point_to_point_name = before


def timed_hook(hook: Any = None, *, sent_share: float = 1.0) -> Any:
    """Return a DDP communication hook that does what `hook` does, and reports to the current
    StepTimer when each bucket was in flight, by events on the CUDA device:
    `model.register_comm_hook(None, timed_hook())`.

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
