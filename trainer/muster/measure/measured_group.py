"""The process group that records its collectives, and their work handles. Imports torch."""

# torch's own signatures are overloads for Python callers; C++ calls the one form used here.
# mypy: disable-error-code="override, assignment"

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from muster.measure.collectives import POINT_TO_POINT, Collective, cpu_ns, log, now_ns
from muster.measure.progress import GroupCount, name_group, watch
from muster.sdk.reporter import current

BACKEND = "muster_gloo"
UNSURE_NS = 250_000
"""Uncertainty in ns about the end of a collective above which a callback is worth its cost."""
MAX_UNSURE_SIZES = 256
"""Number of kinds and sizes of collectives per group that get a callback."""
SETTLE_S = 5.0
"""Longest time in seconds that a process waits at its exit for the callbacks of collectives that are over."""
SETTLE_LOOK_S = 0.001

_told: dict[weakref.ref[Callable[[Any], None]], Any] = {}
"""Works whose callback gloo still holds, by the callback. Threads change it."""


@atexit.register
def _settle() -> None:
    """Wait until gloo has let go of the callbacks of all collectives that are over. Where one of its
    threads wants the interpreter that is about to end, the process aborts. What a peer keeps waiting is left."""
    deadline = time.monotonic() + SETTLE_S
    while any(work.is_completed() for work in list(_told.values())):
        if time.monotonic() > deadline:
            return
        time.sleep(SETTLE_LOOK_S)


def create(options: Any, backend_options: Any) -> Any:
    return MeasuredGroup(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        ranks=list(options.global_ranks_in_group or range(options.group_size)),
    )


def num_bytes(tensors: Any) -> int:
    """Return the bytes of a tensor, or of all tensors in lists."""
    if isinstance(tensors, torch.Tensor):
        return tensors.nbytes
    if len(tensors) == 1:
        return num_bytes(tensors[0])
    return sum(num_bytes(t) for t in tensors)


def _allgather_options() -> Any:
    return dist.distributed_c10d.AllgatherOptions()  # type: ignore[attr-defined]


class AwaitedWork(dist.Work):
    """A gloo Work that is over once it was waited for: for some kinds gloo never reports the end
    itself."""

    def __init__(self, inner: Any, count: GroupCount | None) -> None:
        """Wrap the work; `count` releases it at its end, and is None for messages, which are not
        counted."""
        dist.Work.__init__(self)
        self._inner = inner
        self._count = count
        self._is_over = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        done = self._wait(timeout)
        self._is_over = True
        if self._count is not None:
            self._count.ended(self)
        return done

    def _wait(self, timeout: timedelta | None) -> bool:
        if not timeout:  # C++ gives one of 0 for its own default
            return self._inner.wait()  # type: ignore[no-any-return]
        return self._inner.wait(timeout)  # type: ignore[no-any-return]

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


class _Ends:
    """Ends of the collectives of one group that their caller does not wait for at once.

    A callback of each would tell, but runs Python on gloo's threads, which then contend with the
    training thread for the interpreter: that took longer than many a broadcast. So they are looked at
    when the next one is launched and when one is waited for. Where that left open by more than
    `UNSURE_NS` when one was over, the next of its kind and size gets a callback, one at a time: what
    is launched meanwhile and still runs when that one comes gets the next.
    """

    def __init__(self) -> None:
        self.looked_ns = 0
        """Time of the last look that found the oldest of them not over."""
        self._unsure: set[tuple[str, int]] = set()
        """Kind and size of collectives that end long before anybody looks."""
        self._silent: set[str] = set()
        """Kinds for which gloo has no future: they count as over when they were waited for."""
        self._told: Collective | None = None
        """Collectives whose callback is registered."""
        self._next: tuple[Collective, Any] | None = None

    def begin(self, record: Collective, work: Any) -> None:
        if self._unsure and (record.kind, record.num_bytes) in self._unsure:
            if self._told is None or self._told.end:
                self._tell_one(record, work)
            else:
                self._next = record, work

    def tell(self, record: Collective, work: Any, then: Callable[[], None] | None = None) -> bool:
        """Request a callback at the end of this one; return False if gloo offers none for its kind."""

        def done(_: Any) -> None:
            record.done = now_ns()
            if then is not None:
                then()

        if record.kind in self._silent:
            return False
        _told[weakref.ref(done, _told.pop)] = work
        try:
            work.get_future().add_done_callback(done)
        except RuntimeError:
            self._silent.add(record.kind)
            return False
        return True

    def _tell_one(self, record: Collective, work: Any) -> None:
        self._told = record
        if not self.tell(record, work, self._tell_next):
            self._told = None

    def _tell_next(self) -> None:
        self._told, found, self._next = None, self._next, None
        if found is not None and not found[0].end:
            self._tell_one(*found)

    def saw(self, record: Collective) -> None:
        """Note that this one was just seen to be over."""
        now = now_ns()
        key = (record.kind, record.num_bytes)
        if now - max(record.launched, self.looked_ns) > UNSURE_NS:
            if len(self._unsure) < MAX_UNSURE_SIZES:
                self._unsure.add(key)
        elif self._unsure:
            self._unsure.discard(key)
        if not record.done:
            record.done = now


class MeasuredWork(AwaitedWork):
    """A gloo Work whose waits are recorded."""

    def __init__(
        self,
        inner: Any,
        count: GroupCount | None,
        record: Collective,
        *,
        peer: int | None = None,
        ends: _Ends | None = None,
        is_timed: bool = False,
    ) -> None:
        """Wrap the work.

        peer: the global rank at the other end of a message.
        ends: those of its group; None if its caller waits for it at once.
        is_timed: whether the cost of a wait besides waiting is measured."""
        super().__init__(inner, count)
        self._record = record
        self._peer = peer
        self._ends = ends
        self._is_seen = False
        self._is_timed = is_timed

    def wait(self, timeout: timedelta | None = None) -> bool:
        began = cpu_ns() if self._is_timed else 0
        if self._ends is not None:
            self.is_completed()  # a wait cannot tell when one was over before it
        if self._is_timed:
            began -= cpu_ns()
        start = now_ns()
        if self._peer is None:
            done = self._wait(timeout)
        else:
            with watch.waiting(self._record.kind, self._peer):
                done = self._wait(timeout)
        end = now_ns()
        if self._is_timed:
            began += cpu_ns()
        self._record.waits.append((threading.get_ident(), start, end))
        self._is_over = True
        if self._count is not None:
            self._count.ended(self)
        if self._is_timed:
            self._is_timed = False
            log.add_cost(cpu_ns() - began, num=0)
        return done

    def is_completed(self) -> bool:
        if self._is_over:
            return True
        is_over = bool(self._inner.is_completed())
        if self._ends is not None:
            if not is_over:
                self._ends.looked_ns = now_ns()
            elif not self._is_seen:
                self._is_seen = True
                self._ends.saw(self._record)
        return is_over

    def get_future(self) -> Any:
        """Return gloo's future. Its user does not wait, so a callback has to report the end."""
        if not self._record.is_future:
            self._record.is_future = True
            if self._ends is not None:
                self._ends.tell(self._record, self._inner)
        return super().get_future()


class MeasuredGroup(dist.ProcessGroup):
    """The process group that delegates to gloo and records kind, bytes, launch and end of each
    collective.

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
        """Progress of the group; None until its first collective, because its name is unknown
        before."""
        self._ends = _Ends()
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
        """Report the name gloo, for a script that asked for gloo and knows no other name."""
        gloo = dist.ProcessGroup.BackendType.GLOO
        self._register_backend(torch.device("cpu"), gloo, self._gloo)
        self._set_default_backend(gloo)
        self._shown_backend = dist.Backend.GLOO

    def _report(self) -> GroupCount:
        """Report this group to Muster."""
        named = name_group(
            str(getattr(self, "group_desc", "") or ""),
            str(self.group_name),
            self._global_ranks,
            current().info.world_size,
        )
        self._label = named.label
        if named.kind != "world":  # the run reports the world itself
            current().report_group(named.name, self._global_ranks, named.kind, backend="gloo")
        return watch.add_group(named.name)

    def _launch(
        self, kind: str, payload: Any, call: Any, *args: Any, peer: int | None = None
    ) -> Any:
        """Start a collective; `peer` is the rank within the group at the other end of a message, or
        None for any."""
        if self._count is None:
            self._count = self._report()
        count = self._count if kind not in POINT_TO_POINT else None
        if not log.enabled:
            work = call(*args)
            if count is None:
                return work
            awaited = AwaitedWork(work, count)
            count.begin(kind, awaited)
            return awaited
        # CPU time, not wall time: on a busy machine the thread may be put aside in between, which
        # is no cost of measuring.
        is_timed = log.is_timing
        began = cpu_ns() if is_timed else 0
        record = log.new(kind, num_bytes(payload), self._label)
        if count is None and log.labels:
            record.label = log.labels.pop(payload[0].data_ptr(), None)
        prepared_ns = cpu_ns() - began if is_timed else 0
        calls_ns = now_ns()
        work = call(*args)
        record.blocked = (threading.get_ident(), calls_ns, now_ns())
        began = cpu_ns() if is_timed else 0
        if count is None:
            other = self._global_ranks[peer] if peer is not None else None
            measured = MeasuredWork(work, None, record, peer=other, is_timed=is_timed)
        else:
            ends = self._ends if getattr(args[-1], "asyncOp", True) else None
            measured = MeasuredWork(work, count, record, ends=ends, is_timed=is_timed)
            if ends is not None:
                ends.begin(record, work)
            count.begin(kind, measured)
        if is_timed:
            log.add_cost(prepared_ns + cpu_ns() - began)
        return measured

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

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        opts = opts if opts is not None else _allgather_options()
        call = self._gloo.allgather_coalesced
        return self._launch("all_gather", outputs, call, outputs, inputs, opts)

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
