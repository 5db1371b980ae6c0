"""Windows of torch's profiler over single steps: communication where no process group of ours sees it.

NCCL's groups, those of mixed backends and captured graphs are told by the timeline of the device's kernels.
A window is two steps long: in the first one the profiler settles, the second one is measured. Windows open
at the same step on all ranks, so that a collective is seen on each of them, and so rarely that they take
less than `BUDGET` of the time. Imports torch only if the script has.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import os
import pickle
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from muster.measure.collectives import POINT_TO_POINT, Segment, now_ns
from muster.measure.profiling import window as profile_window
from muster.measure.progress import name_group
from muster.measure.recorder import parse
from muster.measure.sampling import is_chosen
from muster.sdk.reporter import Reporter, warn_once
from muster.timeline.activities import (
    ITEM_BYTES,
    UNKNOWN_GROUP,
    Activity,
    CollectiveInfo,
    classify,
    op_of,
)

BUDGET = 0.005
"""Largest share of the time that windows take."""
FIRST_STEP = 3
"""Step, counted from 0, before which the first window opens. The ones before it set up connections,
caches and the optimizer's state, and compile."""
EVERY_UNTIL_KNOWN = 64
"""Interval in steps of the attempts to open the first window, once one was skipped."""
MAX_EVERY = 1 << 20
SWITCH = "MUSTER_KERNEL_WINDOWS"
"""Variable for tests and benchmarks: "cpu" opens windows over gloo, too, which is then not measured by a
process group; "off" opens none."""

_NOT_PERMITTED = (
    "communication on the GPU is not reported, because the profiler saw no kernels: the driver may "
    "permit it to administrators only (NVreg_RestrictProfilingToAdminUsers=0 changes that), or another "
    "tool may be attached to the process"
)

# ---------------------------------------------------------------- decisions

Profiler = Literal["", "script", "muster"]


def why_closed(no: int, every: int, *, is_capturing: bool, profiler: Profiler) -> str:
    """Return why no window opens before step `no`, counted from 0; "" if one does.

    profiler: whose is running or about to, in this process: there can only be one.
    """
    if no < FIRST_STEP:
        return "the training has just begun"
    if no != FIRST_STEP and not is_chosen(no, every):
        return "it is not its turn"
    if is_capturing:
        return "a CUDA graph is being captured"
    if profiler:
        return "the script's own profiler runs" if profiler == "script" else "a profile is recorded"
    return ""


class WindowBudget:
    """Chooses how rare windows are, from what they cost."""

    def __init__(self) -> None:
        self.every = EVERY_UNTIL_KNOWN
        """Mean interval in steps: a power of two, so that a rank that opens more of them has all windows
        of one that opens fewer."""
        self.mean_ns = 0.0
        """Mean time of a step outside of windows, in which what is older counts less."""
        self._low_ns = 0.0
        """Mean that falls fast: the first steps may be a thousand times as long as all others."""
        self._cost_ns = 0.0

    def add_step(self, ns: int) -> None:
        """Add a step outside of windows."""
        if not self.mean_ns:
            self.mean_ns = self._low_ns = ns
        self.mean_ns += (ns - self.mean_ns) / 16
        self._low_ns += (ns - self._low_ns) / (2 if ns < self._low_ns else 64)

    def add_window(self, cost_ns: float) -> None:
        """Add what a window took in all, and choose the interval anew."""
        self._cost_ns = max(cost_ns, (self._cost_ns + cost_ns) / 2)
        # Half of the budget: the first window is paid for by the time that follows it.
        wanted = self._cost_ns / (BUDGET / 2 * max(self._low_ns, 1.0))
        self.every = 1
        while self.every < wanted and self.every < MAX_EVERY:
            self.every *= 2


# ---------------------------------------------------------------- what a window saw


class SeenStep(NamedTuple):
    """One step as the profiler saw it, in perf_counter nanoseconds."""

    activities: list[Activity]
    last_ns: int
    """End of the last thing that the device computed or copied."""

    def on_device(self, segments: list[Segment]) -> list[Segment]:
        """Return a step's phases, known by events of the device, by the clock of the timeline: the
        last event was reached when the device had computed everything, and nothing came after."""
        shift = self.last_ns - segments[-1].end if segments else 0
        return [Segment(s.phase, s.start + shift, s.end + shift) for s in segments]


# ---------------------------------------------------------------- windows


def windows_of(reporter: Reporter, *, on_device: bool) -> KernelWindows | None:
    """Return the windows of a training whose communication nothing else sees; None where there is none,
    or no place to look. Called after the first step, by the training thread."""
    switch = os.environ.get(SWITCH, "")
    torch: Any = sys.modules.get("torch")
    world_size = reporter.info.world_size
    if torch is None or world_size == 1 or not reporter.measures_comm or switch == "off":
        return None
    if not on_device and switch != "cpu":
        return None
    try:
        return KernelWindows(world_size=world_size, cuda=torch.cuda if on_device else None)
    except Exception as error:  # a torch whose profiler is another one
        warn_once(_refused(error))
        return None


class KernelWindows:
    """The windows of one training thread."""

    def __init__(self, *, world_size: int, cuda: Any = None) -> None:
        """Start the profiler once. cuda: `torch.cuda` where a device is in use, None to watch the
        processor."""
        self.is_off = False
        self.budget = WindowBudget()
        self.measures = False
        """Whether the current step is the one that is measured."""
        self.is_border = False
        """Whether the step that has just ended ends a row: a measured step is a row by itself."""
        self._cuda = cuda
        self._torch: Any = sys.modules["torch"]
        self._profiler: Any = None
        self._clock_ns = 0
        """Kineto's clock less perf_counter."""
        self._opened_ns = self._open_cost_ns = 0
        self._label = functools.cache(functools.partial(_label, world_size=world_size))
        self._others: weakref.WeakSet[Any] = weakref.WeakSet()
        """Profilers of the script, and of Muster's profile page."""
        self._watch_others()
        self._warm()
        atexit.register(self.abandon)  # torch crashes where a profiler is open at the end
        os.register_at_fork(after_in_child=self._forked)

    def turn_off(self, reason: str = "") -> None:
        """Open no more windows; `reason` is said once."""
        self.is_off, self.measures = True, False
        if reason:
            warn_once(reason)

    def begin_step(self, no: int) -> None:
        """Open a window if one is due before step `no`, counted from 0. Called between two steps."""
        self.is_border = False
        if self._profiler is not None:
            self.measures = True
            return
        if self.is_off or why_closed(
            no, self.budget.every, is_capturing=False, profiler=""
        ):  # as it nearly always is: the rest is not asked then
            return
        if why_closed(
            no, self.budget.every, is_capturing=self._is_capturing(), profiler=self._other()
        ):
            return
        self._opened_ns = now_ns()
        try:
            self._profiler = self._start()
        except Exception as error:
            self.turn_off(_refused(error))
        self._open_cost_ns = now_ns() - self._opened_ns

    def end_step(self) -> SeenStep | None:
        """Return what was seen of the step that ends, if it was the measured one. The device is then
        waited for."""
        if self._profiler is None:
            return None
        self.is_border = True
        if not self.measures or self._is_capturing():
            return None
        self.measures = False
        profiler, self._profiler = self._profiler, None
        began = now_ns()
        try:
            profiler.__exit__(None, None, None)
            events = profiler.kineto_results.events()
            if self._cuda is not None:
                seen = read_device(events, self._clock_ns, self._label)
            else:
                seen = read_gloo(events, self._clock_ns, self._label, _recorded())
        except Exception as error:
            self.turn_off(_refused(error))
            return None
        ended = now_ns()
        own_ns = self._open_cost_ns + ended - began
        slowed_ns = began - self._opened_ns - self._open_cost_ns - 2 * self.budget.mean_ns
        self.budget.add_window(own_ns + max(slowed_ns, 0.0))
        if seen is None:
            self.turn_off(_NOT_PERMITTED)
        return seen

    def abandon(self) -> None:
        """Close an open window unread: the script wants the profiler for itself, or does something else
        than training."""
        profiler, self._profiler, self.measures = self._profiler, None, False
        if profiler is not None:
            with contextlib.suppress(Exception):
                profiler.__exit__(None, None, None)

    def _forked(self) -> None:
        self._profiler, self.measures, self.is_off = None, False, True

    def _start(self) -> Any:
        profile = self._torch.autograd.profiler.profile
        if self._cuda is not None:
            # Taking CUPTI down and up again costs time, and crashes where graphs are replayed.
            os.environ.setdefault("TEARDOWN_CUPTI", "0")
            os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")
        profiler = profile(use_kineto=True, use_device=None if self._cuda is None else "cuda")
        profiler.__enter__()
        self._others.discard(profiler)
        self._clock_ns = time.time_ns() - now_ns()
        return profiler

    def _warm(self) -> None:
        """Start the profiler for the first time, outside of any step: that takes a second on a GPU."""
        if self._other():
            return
        try:
            profiler = self._start()
            if self._cuda is not None:
                self._torch.zeros(1, device="cuda").add_(1)
            profiler.__exit__(None, None, None)
            events = profiler.kineto_results.events()
            if self._cuda is not None and not any(map(_is_on_device, events)):
                self.turn_off(_NOT_PERMITTED)
        except Exception as error:
            self.turn_off(_refused(error))

    def _is_capturing(self) -> bool:
        return self._cuda is not None and self._cuda.is_current_stream_capturing()

    # ------------------------------------------------ other profilers

    def _watch_others(self) -> None:
        """Notice every profiler that is prepared from now on, and those that are: the process has one
        place for all."""
        profile = self._torch.autograd.profiler.profile
        self._others.update(o for o in gc.get_objects() if type(o) is profile and _is_in_use(o))
        prepare = profile._prepare_trace

        def prepared(profiler: Any) -> None:
            self.abandon()
            self._others.add(profiler)
            prepare(profiler)

        profile._prepare_trace = prepared

    def _other(self) -> Profiler:
        if profile_window.is_wanted:
            return "muster"
        in_use = any(_is_in_use(profiler) for profiler in self._others)
        return "script" if in_use or self._torch.autograd.profiler._is_profiler_enabled else ""


def _is_in_use(profiler: Any) -> bool:
    """Return whether one of torch's profilers was prepared and has not ended."""
    return bool(profiler.entered) and profiler.kineto_results is None


def _refused(error: Exception) -> str:
    text = " ".join(str(error).split())[:200]
    return f"communication on the GPU is not reported: {type(error).__name__}: {text}"


def _label(torch_name: str, world_size: int) -> str:
    """Return what metrics call the process group that torch calls so."""
    from torch.distributed import distributed_c10d as c10d

    world = c10d._world
    for group, name in world.pg_names.items():
        if name == torch_name:
            ranks = sorted(world.pg_group_ranks.get(group, ()))
            return name_group(group.group_desc, name, ranks, world_size).label
    return "world" if len(world.pg_names) == 1 else UNKNOWN_GROUP


# ---------------------------------------------------------------- reading


def read_device(
    events: Sequence[Any], clock_ns: int, label: Callable[[str], str]
) -> SeenStep | None:
    """Return what a GPU did; None if it is not seen.

    events: Kineto's. clock_ns: its clock less perf_counter. label: name of a group → that in metrics.
    """
    launches = {e.correlation_id(): e for e in events if e.name() == "record_param_comms"}
    found: list[Activity] = []
    last_ns = 0
    for event in filter(_is_on_device, events):
        name, start = event.name(), event.start_ns() - clock_ns
        end = start + event.duration_ns()
        kind = classify(name, _category(event))
        told = None
        if kind == "communication":
            launch = launches.get(event.linked_correlation_id())
            told = _collective(name, launch.extra_meta() if launch else {}, label)
        elif kind is not None:
            last_ns = max(last_ns, end)
        if kind is not None:
            found.append(Activity(kind, name, start, end, "", told))
    if all(one.kind == "copy" for one in found):
        return None
    return SeenStep(found, last_ns or max(one.end_ns for one in found))


def _category(event: Any) -> str:
    """Return Kineto's category of an event. Not every torch tells it."""
    if event.is_user_annotation():
        return "gpu_user_annotation" if _is_on_device(event) else "user_annotation"
    if not _is_on_device(event):
        return "cpu_op"
    return {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}.get(event.name()[:6], "kernel")


def _collective(
    kernel: str, given: Mapping[str, str], label: Callable[[str], str]
) -> CollectiveInfo:
    """Return a collective by its kernel's name and what torch says of its launch."""
    told = {name: value.strip('"') for name, value in given.items()}
    kind = op_of(told.get("Collective name", "") or kernel)
    side = "Out" if kind in ("all_gather", "scatter") else "In"
    num = told.get(f"{side} msg nelems", "")
    size = ITEM_BYTES.get(told.get("dtype", "").lower())
    num_bytes = int(num) * size if num.isdigit() and size is not None else None
    return CollectiveInfo(kind, label(told.get("Process Group Name", "")), num_bytes, None)


def read_gloo(
    events: Sequence[Any],
    clock_ns: int,
    label: Callable[[str], str],
    recorded: Sequence[tuple[str, int]],
) -> SeenStep:
    """Return what the processor did, for tests of all of this without a GPU.

    recorded: group and bytes of the newest collectives, by torch's flight recorder.
    """
    found: list[Activity] = []
    launches, runs = [], []
    for event in events:
        name, start = event.name(), event.start_ns() - clock_ns
        span = (start, start + event.duration_ns())
        kind = classify(name, _category(event))
        if name.startswith("c10d::"):
            launches.append((span, op_of(name)))
        elif kind == "communication":
            runs.append((span, op_of(name)))
        elif kind == "computation":
            found.append(Activity(kind, name, *span, ""))
    last_ns = max((one.end_ns for one in found), default=0)
    launches.sort()
    runs.sort()
    # gloo begins the collectives of a process in the order of their launches. One that gloo does by means
    # of another is called by its own name where torch's dispatcher launches it.
    # Messages between two ranks are not recorded.
    num = sum(op not in POINT_TO_POINT for _, op in runs)
    known = iter(recorded[-num:] if 0 < num <= len(recorded) else ())
    begins = launches if len(launches) == len(runs) else runs
    for (begin, op), (run, run_op) in zip(begins, runs, strict=True):
        is_message = run_op in POINT_TO_POINT
        group, num_bytes = ("", None) if is_message else next(known, ("", None))
        told = CollectiveInfo(op, label(group), num_bytes, None)
        found.append(Activity("communication", op, begin[0], run[1], "", told))
    return SeenStep(found, last_ns)


def _recorded() -> list[tuple[str, int]]:
    """Return group and bytes of gloo's newest collectives."""
    from muster.measure.uncovered import rings

    trace = parse(pickle.loads(rings()["gloo"](includeStackTraces=False)))  # noqa: S301
    return [(entry.group, entry.num_bytes) for entry in trace.entries]


def _is_on_device(event: Any) -> bool:
    return str(event.device_type()) == "DeviceType.CUDA"
