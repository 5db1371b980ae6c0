"""A gloo process group that notes what it does. Imports torch.

It delegates every collective to torch's own gloo and changes no result. One hook sees everything:
`torch.distributed` calls, DDP's C++ reducer, FSDP2, DTensor's functional collectives, pipeline
send/recv and sub-groups made by `new_group` or a DeviceMesh. It costs 10 to 40 µs per collective.

NCCL is left alone: a Python process group would hide its coalescing and splitting. On CUDA the gradients
of DDP are timed by `timed_hook`; of other communication no figures are made up.
"""

# torch's own signatures are overloads for Python callers; C++ calls the one form used here.
# mypy: disable-error-code="override, assignment"

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from muster import device_time
from muster.collectives import POINT_TO_POINT, Collective, cpu_ns, log, now_ns
from muster.progress import GroupCount, watch
from muster.run import current
from muster.sinks import warn

BACKEND = "muster_gloo"
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
            dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])


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
        num_bytes = int(sent_share * _num_bytes(bucket.buffer()))
        end = None if timer is None else timer.begin_collective("all_reduce", num_bytes, "world")
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


def _create(options: Any, backend_options: Any) -> Any:
    return MeasuredGroup(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        ranks=list(options.global_ranks_in_group or range(options.group_size)),
    )


def _num_bytes(tensors: Any) -> int:
    if isinstance(tensors, torch.Tensor):
        return tensors.numel() * tensors.element_size()
    return sum(_num_bytes(t) for t in tensors)


def _allgather_options() -> Any:
    return dist.distributed_c10d.AllgatherOptions()  # type: ignore[attr-defined]


class AwaitedWork(dist.Work):
    """gloo's Work, that is over once it was waited for: of some kinds gloo never says so itself."""

    def __init__(self, inner: Any, count: GroupCount | None) -> None:
        """count: what lets go of it then; None for messages, which are not counted."""
        super().__init__()
        self._inner = inner
        self._count = count
        self._is_over = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        if timeout is None or timeout.total_seconds() <= 0:
            done = self._inner.wait()
        else:
            done = self._inner.wait(timeout)
        self._is_over = True
        if self._count is not None:
            self._count.ended(self)
        return bool(done)

    def get_future(self) -> Any:
        return self._inner.get_future()

    def is_completed(self) -> bool:
        return self._is_over or bool(self._inner.is_completed())

    def is_success(self) -> bool:
        return bool(self._inner.is_success())

    def exception(self) -> Any:
        return self._inner.exception()

    def result(self) -> Any:
        return self._inner.result()

    def _source_rank(self) -> int:
        return int(self._inner._source_rank())


class MeasuredWork(AwaitedWork):
    """The same, with the waits noted."""

    def __init__(
        self, inner: Any, count: GroupCount | None, record: Collective, peer: int | None = None
    ) -> None:
        """peer: the global rank at the other end of a message."""
        super().__init__(inner, count)
        self._record = record
        self._peer = peer

    def wait(self, timeout: timedelta | None = None) -> bool:
        start = now_ns()
        if self._peer is None:
            done = super().wait(timeout)
        else:
            with watch.waiting(self._record.kind, self._peer):
                done = super().wait(timeout)
        self._record.waits.append((threading.get_ident(), start, now_ns()))
        return done

    def get_future(self) -> Any:
        self._record.is_future = True
        return super().get_future()


class MeasuredGroup(dist.ProcessGroup):
    """Delegates to gloo and notes kind, bytes, launch and completion of each collective.

    Method names and arguments are those torch's dispatcher calls from C++; the two spellings of
    some of them belong to different torch versions.
    """

    def __init__(
        self, store: Any, rank: int, size: int, timeout: timedelta, *, ranks: list[int]
    ) -> None:
        super().__init__(rank, size)  # type: ignore[call-arg]
        self._gloo: Any = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
        self._gloo._set_sequence_number_for_group()
        self._place = (rank, size)
        self._global_ranks = ranks
        self._count: GroupCount | None = None
        """None until its first collective: its name is not known before."""
        self._tells_end: dict[str, bool] = {}
        """Of each kind so far: whether gloo tells when one is over."""
        self._label = ""
        self._shown_backend = BACKEND
        # The base class reads name, description and bound device from the registered backend;
        # without it DeviceMesh fails with "ProcessGroup name not set".
        custom = dist.ProcessGroup.BackendType.CUSTOM
        self._register_backend(torch.device("cpu"), custom, self._gloo)
        self._set_default_backend(custom)

    def size(self) -> int:
        return self._place[1]

    def rank(self) -> int:
        return self._place[0]

    def getBackendName(self) -> str:
        return self._shown_backend

    def be_called_gloo(self) -> None:
        """For a script that asked for gloo and knows no other name."""
        gloo = dist.ProcessGroup.BackendType.GLOO
        self._register_backend(torch.device("cpu"), gloo, self._gloo)
        self._set_default_backend(gloo)
        self._shown_backend = dist.Backend.GLOO

    def _report(self) -> GroupCount:
        """Tell Muster about this group."""
        description = str(getattr(self, "group_desc", "") or "")
        if description == "default_pg":
            self._label = "world"
            return watch.add_group("world")  # the run reports the world itself
        self._label = (
            description if description not in ("", "undefined") else f"group-{self.group_name}"
        )
        kind, name = "custom", self._label
        if description.startswith("mesh_"):
            kind = description.removeprefix("mesh_")
            if self.size() < current().info.world_size:
                # Each slice of the mesh has a group of this name; figures of them are compared.
                name = f"{self._label}@{self._global_ranks[0]}"
        current().report_group(name, self._global_ranks, kind, backend="gloo")
        return watch.add_group(name)

    def _launch(
        self, kind: str, payload: Any, call: Any, *args: Any, peer: int | None = None
    ) -> Any:
        """peer: of a message, the rank within the group at its other end; None: any."""
        if self._count is None:
            self._count = self._report()
        if not log.enabled:
            work = call(*args)
            if kind in POINT_TO_POINT:
                return work
            awaited = AwaitedWork(work, self._count)
            self._count.begin(kind, awaited)
            return awaited
        # CPU time, not wall time: on a busy machine the thread may be put aside in between, which
        # is no cost of measuring.
        is_timed = log.is_timing
        began = cpu_ns() if is_timed else 0
        record = log.new(kind, _num_bytes(payload), self._label)
        if log.labels and kind in POINT_TO_POINT:
            record.label = log.labels.pop(payload[0].data_ptr(), None)
        prepared_ns = cpu_ns() - began if is_timed else 0
        work = call(*args)
        began = cpu_ns() if is_timed else 0
        # A callback costs more than all the rest of the recording. The caller of one that is not
        # asynchronous waits at once, so it is over when that wait is.
        if getattr(args[-1], "asyncOp", True) and self._tells(kind, work):
            work.get_future().add_done_callback(lambda _: setattr(record, "done", now_ns()))
        other = self._global_ranks[peer] if peer is not None else None
        count = self._count if kind not in POINT_TO_POINT else None
        measured = MeasuredWork(work, count, record, other)
        if count is not None:
            count.begin(kind, measured)
        if is_timed:
            log.add_cost(prepared_ns + cpu_ns() - began)
        return measured

    def _tells(self, kind: str, work: Any) -> bool:
        """reduce_scatter and messages have no future on gloo: those are over when waited for."""
        tells = self._tells_end.get(kind)
        if tells is None:
            try:
                work.get_future()
                tells = True
            except RuntimeError:
                tells = False
            self._tells_end[kind] = tells
        return tells

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.AllreduceOptions()
        return self._launch("all_reduce", tensors, self._gloo.allreduce, tensors, opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.AllreduceCoalescedOptions()
        return self._launch("all_reduce", tensors, self._gloo.allreduce_coalesced, tensors, opts)

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.BroadcastOptions()
        return self._launch("broadcast", tensors, self._gloo.broadcast, tensors, opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else _allgather_options()
        return self._launch("all_gather", outputs, self._gloo.allgather, outputs, inputs, opts)

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else _allgather_options()
        return self._launch("all_gather", output, self._gloo._allgather_base, output, input, opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        works = [self.all_gather_single(o, i) for o, i in zip(outputs, inputs, strict=True)]
        return works[-1]

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.ReduceScatterOptions()
        call = self._gloo.reduce_scatter
        return self._launch("reduce_scatter", inputs, call, outputs, inputs, opts)

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.ReduceScatterOptions()
        call = self._gloo._reduce_scatter_base
        return self._launch("reduce_scatter", input, call, output, input, opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        pairs = zip(outputs, inputs, strict=True)
        works = [self.reduce_scatter_single(o, i, opts) for o, i in pairs]
        return works[-1]

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def all_to_all_single(
        self, output: Any, input: Any, output_split: Any, input_split: Any, opts: Any = None
    ) -> Any:
        opts = opts if opts is not None else dist.AllToAllOptions()
        call = self._gloo.alltoall_base
        return self._launch(
            "all_to_all", input, call, output, input, output_split, input_split, opts
        )

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.AllToAllOptions()
        return self._launch("all_to_all", inputs, self._gloo.alltoall, outputs, inputs, opts)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.ScatterOptions()
        return self._launch("scatter", outputs, self._gloo.scatter, outputs, inputs, opts)

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.GatherOptions()
        return self._launch("gather", inputs, self._gloo.gather, outputs, inputs, opts)

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.ReduceOptions()
        return self._launch("reduce", tensors, self._gloo.reduce, tensors, opts)

    def barrier(self, opts: Any = None) -> Any:
        opts = opts if opts is not None else dist.BarrierOptions()
        return self._launch("barrier", [], self._gloo.barrier, opts)

    def send(self, tensors: Any, dst: int, tag: int = 0) -> Any:
        return self._launch("send", tensors, self._gloo.send, tensors, dst, tag, peer=dst)

    def recv(self, tensors: Any, src: int, tag: int = 0) -> Any:
        return self._launch("recv", tensors, self._gloo.recv, tensors, src, tag, peer=src)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        return self._launch("recv", tensors, self._gloo.recv_anysource, tensors, tag)

    def shutdown(self) -> None:
        self._gloo.shutdown()

    def abort(self) -> None:
        self._gloo.abort()
