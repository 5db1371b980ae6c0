"""What this process reports to Muster, and the one connection of the process."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from muster import wire
from muster.measure import stacks
from muster.measure.profiling import window
from muster.measure.progress import watch
from muster.measure.uncovered import UncoveredGroups
from muster.run_names import RunNames
from muster.sdk import checkpoints, stops
from muster.sdk.env import (
    RankInfo,
    Surroundings,
    TrialConfig,
    read_config,
    surroundings,
    torch_facts,
)
from muster.sdk.media import MediaQueue
from muster.sdk.metrics import MEASURED, Row
from muster.sdk.samples import SampleLog
from muster.sdk.sinks import AgentSink, FileSink, NullSink, Sink, WorkerReport, warn
from muster.sdk.stops import StopNotice
from muster.series_rules import TOO_LARGE, clean_name, clean_values, finite, number_of, whole_step

if TYPE_CHECKING:
    from muster.sdk.object_store import ObjectStore

NAMES_FLUSH_S = 0.5
"""Longest wait until the agent knows the name of a metric that MLflow's client may report as well."""
MAX_AWAITED_NAMES = 1_000
"""Names for which a process waits like that."""
EXIT_FLUSH_S = 5.0
"""Seconds that an ending process waits until its last reports are accepted."""

P = ParamSpec("P")
T = TypeVar("T")


def never_raises(method: Callable[P, None]) -> Callable[P, None]:
    """Decorate a method so that its errors are reported once and then ignored: training must
    survive reporting."""

    @functools.wraps(method)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:
            warn_once(f"{method.__name__} failed: {type(error).__name__}: {error}")

    return wrapper


class Reporter:
    """This process's connection to Muster: what it reports, and what it is asked for. Scripts get a `Run`
    over it; this is for Muster's own code. Methods may be called from any thread."""

    def __init__(
        self,
        around: Surroundings,
        sink: Sink,
        trial: TrialConfig,
        *,
        is_attached: bool = False,
    ) -> None:
        """Connect the process; `is_attached` means that the script has not asked for it (see
        `muster.launch.attach`), until `called`."""
        self.around = around
        """What the process was started with."""
        self.trial = trial
        self._connected = sink
        self._is_closed = False
        self._is_over = False
        """Whether the process is ending: what is reported from now on cannot be sent."""
        self._pid = os.getpid()
        self._media = MediaQueue(sink, rank=around.info.rank, output_dir=around.output_dir)
        self.next_step = 0
        """Step of the next values that `log` is given without one."""
        self._num_counted = 0
        """Calls of `log` without a step since the last `init`."""
        self._run_no = 0
        """Number of times that the script has begun another run by `init`."""
        self._described: tuple[str, str, str] | None = None
        self._own_stop: StopNotice | None = None
        self._is_stopping = False
        self._is_attached = is_attached
        self._without_step: set[str] = set()
        """Routes whose values have had a step that cannot be stored."""
        self._has_said_runs = False
        self._own_names: set[str] = set()
        """Names of metrics that `log` was given."""
        self._captured: dict[tuple[str, Hashable], int] = {}
        """Next step of each run of each route by which values are captured."""
        self._routes: set[str] = set()
        """Routes by which values have been captured."""
        self._child_runs: set[str] = set()
        """Labels of further runs that were told."""
        self._runs: dict[str, RunNames] = {}
        """Runs in this process, by route; "" is that of `log`."""
        self._captured_names: set[str] = set()
        """Names of captured metrics that the agent is known to have."""
        self.before_checkpoint: list[Callable[[], None]] = []
        """Called before a checkpoint is registered, so that averaged rows are sent first."""
        self.samples = SampleLog(self.record, rank=self.info.rank, local_rank=self.info.local_rank)
        """Samples that this rank was given."""
        self.uncovered: UncoveredGroups | None = UncoveredGroups(
            world_size=self.info.world_size,
            report=self.report_group,
            warn=warn_once,
            log=lambda step, values: self._sink.row(_row(step, values, None, None)),
        )
        """Process groups that are not measured; None once their recorder cannot be read."""
        self._describe()

    # ------------------------------------------------ what this worker is

    @property
    def info(self) -> RankInfo:
        return self.around.info

    @property
    def _sink(self) -> Sink:
        """Destination of reports; after `close`, a new one."""
        if self._is_closed and not self._is_over:
            self._sink = _make_sink(self.around, progress=_look, on_control=window.take)
            self._media = MediaQueue(
                self._connected, rank=self.info.rank, output_dir=self.around.output_dir
            )
            self._described, self._is_stopping = None, False
            self._describe()
        return self._connected

    @_sink.setter
    def _sink(self, sink: Sink) -> None:
        self._connected, self._is_closed = sink, False

    @property
    def media(self) -> MediaQueue:
        """Where images, tables and the like go."""
        _ = self._sink  # Connects again.
        return self._media

    @property
    def is_managed(self) -> bool:
        """Whether somebody listens to the reports."""
        return not isinstance(self._sink, NullSink)

    @property
    def measures_steps(self) -> bool:
        """Value of `measure.steps` in the document: whether steps are measured at all."""
        return self._measure("steps") is not False

    @property
    def measures_comm(self) -> bool:
        """Value of `measure.comm` in the document: whether collectives are measured."""
        return self._measure("comm") is not False

    @property
    def peak_tflops(self) -> float | None:
        """Value of `measure.peak_tflops` in the document: the peak of one device."""
        value = self._measure("peak_tflops")
        return float(value) if isinstance(value, int | float) and value > 0 else None

    def _measure(self, name: str) -> Any:
        options = self.trial.config.get("measure")
        return options.get(name) if isinstance(options, dict) else None

    @property
    def checkpoint_dir(self) -> Path:
        return Path(self.around.checkpoint_dir or "checkpoints")

    @functools.cached_property
    def store(self) -> checkpoints.FolderStore | ObjectStore:
        """Store of the trial's checkpoints."""
        behind: checkpoints.FolderStore | ObjectStore = checkpoints.FolderStore(self.checkpoint_dir)
        if self.around.checkpoint_url:
            from muster.sdk.object_store import ObjectStore

            behind = ObjectStore(self.around.checkpoint_url, self.checkpoint_dir)
        if not self.around.checkpoint_local:
            return behind
        from muster.sdk.local_store import LocalStore

        def say(text: str) -> None:
            self.message(text, "warning")

        return LocalStore(
            Path(self.around.checkpoint_local),
            behind,
            spans_nodes=self.around.spans_nodes,
            say=say,
        )

    @property
    def resumes_at(self) -> str:
        """Path or URL of the checkpoint to continue from; "" for a fresh start."""
        return self.around.resume_from

    @property
    def weights_at(self) -> str:
        """Path or URL of the checkpoint whose weights to begin with; "" for none."""
        return self.around.weights_from

    # ------------------------------------------------ reporting

    @never_raises
    def log(
        self,
        metrics: Mapping[str, Any],
        *,
        step: int | None = None,
        epoch: float | None = None,
        num_steps_planned: int | None = None,
        is_late: bool = False,
    ) -> None:
        """Report values at a step; see `Run.log`.

        is_late: the step is over: it has no say in which one comes next.
        """
        self._report_from_here()
        at = self._step_of(self.next_step if step is None else step, "values")
        if at is None:
            return
        if not is_late:
            self.next_step = at + 1
            self._num_counted += step is None
        values = self.cleaned(metrics)
        self._describe()
        watch.step, watch.num_reports = at, watch.num_reports + 1
        if values:
            self._own_names.update(values)
            if not is_late:
                values = self._of_run("", self._run_no, values, at)
            self._sink.row(_row(at, values, epoch, num_steps_planned))
        if not is_late:
            window.logged(at)

    @never_raises
    def log_captured(
        self,
        values: Mapping[str, Any],
        *,
        route: str,
        library: str,
        step: int | None,
        run: Hashable = "",
        axis: str = "",
        epoch: float | None = None,
        num_steps_planned: int | None = None,
        is_explicit: bool = False,
    ) -> None:
        """Report what a library of the script has logged; see `muster.capture`.

        Left out is what is no number, and every name that was given to `log`. A name that Muster
        measures under gets the route in front of it.

        step: as the library counts; without it, one more than at the last call for this run.
        run: tells the runs of one library apart, where it knows them.
        axis: what the steps count, where that is not what other steps of this route count.
        is_explicit: the script has asked for it, so no message tells of it.
        """
        self._report_from_here()
        given = self._captured.get((route, run), 0) if step is None else step
        at = self._step_of(given, f"values that the script logs with {library}")
        if at is None:
            return
        kept = {}
        for name, value in values.items():
            found = clean_name(str(name))
            if found.startswith(MEASURED):
                found = f"{route}/{found}"
            if found in self._own_names or isinstance(value, str):
                continue
            number, why = number_of(value)
            if number is not None:
                kept[found] = number
            elif why == TOO_LARGE:  # Libraries log pictures and texts beside numbers.
                self._left_out(f"metric {found!r} {why} and is left out")
        if not kept:
            return
        is_new_route = route not in self._routes
        self._routes.add(route)
        if is_new_route and self.info.rank == 0 and not is_explicit:
            self.message(
                f"Values that the script logs with {library} are captured. "
                "measure.capture: [] switches it off."
            )
        if not axis:
            self._captured[route, run] = at + 1
        kept = self._of_run(route, run, kept, at)
        self._describe()
        if watch.timer is None and not axis:
            watch.step = at
        watch.num_reports += 1
        self._sink.row(_row(at, kept, epoch, num_steps_planned)._replace(axis=axis))
        is_new = not kept.keys() <= self._captured_names
        if "mlflow" in sys.modules and is_new and len(self._captured_names) < MAX_AWAITED_NAMES:
            # The library may hand the same values to MLflow next; the agent must know their names
            # before MLflow's client gets there. Once per name, and never for long.
            self._captured_names.update(kept)
            self._sink.flush(NAMES_FLUSH_S)

    def _report_from_here(self) -> None:
        """In a forked process that reports something, connect it; the others stay without."""
        if self._is_over and (self.around.report_socket or self.around.report_file):
            warn_once(
                "values logged after the script's end are lost: log them before, or in `main`"
            )
        if os.getpid() == self._pid:
            return
        self._pid = os.getpid()
        self._runs = {}
        self._child_runs = set()
        self._described = None
        self._sink = _make_sink(self.around, progress=None, on_control=None)
        if "multiprocessing.util" in sys.modules:  # Its processes leave without `atexit`.
            children = sys.modules["multiprocessing.util"]
            children.Finalize(None, self.close_at_exit, exitpriority=100)

    def _of_run(
        self, route: str, run: Hashable, values: dict[str, float], step: int
    ) -> dict[str, float]:
        """Return values under the names of their series, which several runs in one process never
        share."""
        names = self._runs.setdefault(route, RunNames())
        shown = {
            name: name if name.startswith(MEASURED) else names.name(run, name, step)
            for name in values
        }
        for name, series in shown.items():
            if name != series:
                self.tell_child_run(series.removesuffix(f"/{name}"))
            if name != series and not self._has_said_runs:
                self._has_said_runs = True
                self.message(
                    f"rank {self.info.rank}: the script has begun another run in the same process: its "
                    f"values have names of their own, such as {clean_name(series)!r}, from step {step} on."
                )
        return {clean_name(shown[name]): value for name, value in values.items()}

    def cleaned(self, metrics: Mapping[Any, Any]) -> dict[str, float]:
        """Return names and values as they are stored, and say once what that has changed."""
        values, problems = clean_values(metrics)
        for problem in problems:
            self._left_out(problem)
        return values

    def _left_out(self, problem: str) -> None:
        """Say once, in the log and on the trial's page, what a value that cannot be stored was."""
        if warn_once(problem):
            self.message(f"rank {self.info.rank}: {problem}", "warning")

    def _step_of(self, step: Any, whose: str) -> int | None:
        """Return a step as it is stored; None, said once, if it cannot be stored."""
        found, problem = whole_step(step)
        if found is None and whose not in self._without_step:
            self._without_step.add(whose)
            self._left_out(f"{whose} are left out: {problem} (said once)")
        return found

    @never_raises
    def goes_back(self, route: str, step: int) -> None:
        """Note that a library goes on from a step at which it has been before, in the same run."""
        self._runs.setdefault(route, RunNames()).goes_back("", step)

    @never_raises
    def tell_child_run(self, label: str) -> None:
        """Report, once, that metrics which begin with a label are those of a further run."""
        if label not in self._child_runs:
            self._child_runs.add(label)
            self._describe()
            self._sink.record({"type": "child_run", "label": label})

    @never_raises
    def is_reopened(self, route: str) -> None:
        """Note that another writer of a library goes on in the same place, or begins anew."""
        self._runs.setdefault(route, RunNames()).is_reopened("")

    @never_raises
    def captures_folder(self, path: str) -> None:
        """Report that the scalars of event files in this folder are captured in this process, so that
        the agent does not read them as well.

        path: absolute, without links."""
        self._report_from_here()
        self._describe()
        self._sink.record({"type": "captured_folder", "path": path})

    @never_raises
    def report_group(
        self,
        name: str,
        ranks: Sequence[int],
        kind: str = "custom",
        *,
        backend: str = "",
    ) -> None:
        """Tell Muster about a process group; see `Run.report_group`."""
        members = [int(r) for r in ranks]
        if members and self.info.rank == members[0]:
            self._sink.record(
                wire.GroupRecord(name=name, kind=kind, backend=backend, ranks=members)
            )

    def look_at_uncovered_groups(self) -> list[dict[str, Any]]:
        """Return the progress of the process groups that are not measured; once it fails, none."""
        if self.uncovered is None:
            return []
        try:
            return self.uncovered.look()
        except Exception as error:
            self.uncovered = None
            warn_once(
                "torch's flight recorder cannot be read, so Muster cannot tell where collectives hang "
                f"that it does not measure: {type(error).__name__}: {error}"
            )
            return []

    def record(self, message: WorkerReport) -> None:
        """Report what has no method here, such as where this worker answers requests."""
        self._sink.record(message)

    @never_raises
    def answer(self, message: WorkerReport) -> None:
        """Report like `record` the result of a request, the steps of a pipeline, or shards of rows."""
        self._sink.record(message)

    @never_raises
    def message(self, text: str, level: Literal["info", "warning", "error"] = "info") -> None:
        """Add a message to the trial's events."""
        self._sink.record(wire.MessageRecord(level=level, text=text[:2000]))

    def register_checkpoint(self, folder: Path, manifest: checkpoints.Manifest) -> None:
        """Register a complete checkpoint with Muster. Everything logged up to its step, averaged
        rows included, has to be sent first; `checkpoint` sees to it."""
        self.samples.saved(manifest.step)
        self._sink.record(
            wire.CheckpointRecord(
                step=manifest.step,
                epoch=manifest.epoch,
                path=folder.name,
                size_bytes=manifest.size_bytes,
                files=manifest.files,
                metrics=manifest.metrics,
                is_local=str(folder.parent) == self.around.checkpoint_local,
            )
        )

    @property
    def shards(self) -> wire.ShardOrders | None:
        """Latest orders of batch inference."""
        return self._sink.control.shards

    @never_raises
    def acknowledge_stop(self) -> None:
        """Tell the agent that this worker is winding down, so that it is given the time it needs.
        `Run.should_stop` does it by itself."""
        if not self._is_stopping:
            self._is_stopping = True
            self._sink.record({"type": "stopping"})

    @property
    def stop_notice(self) -> StopNotice | None:
        """Return the notice that this worker alone has received, without acknowledging it; None if
        there is none."""
        return stops.from_control(self._sink.control) or self._own_stop

    def request_stop(self, reason: str, *, kind: str = "signal") -> None:
        """Make `Run.should_stop` answer from inside; see `Run.request_stop`."""
        self._own_stop = StopNotice(kind=kind, reason=reason or "asked to stop")

    def flush(self, timeout_s: float = EXIT_FLUSH_S) -> bool:
        """Wait until the agent has everything reported so far. Return False on a timeout."""
        with contextlib.suppress(Exception):
            deadline = time.monotonic() + timeout_s
            for callback in self.before_checkpoint:
                callback()
            has_media = self._media.flush(timeout_s)
            return self._sink.flush(max(0.0, deadline - time.monotonic())) and has_media
        return False

    def deliver(self, timeout_s: float) -> bool:
        """Wait until everything handed over has been delivered; rows that are still being averaged
        stay. For threads other than the training thread."""
        return self._sink.flush(timeout_s)

    def close(self, timeout_s: float = EXIT_FLUSH_S) -> bool:
        """Send what is left and disconnect. Called automatically at exit. Whatever is reported later in
        this process connects again."""
        if os.getpid() != self._pid or self._is_closed:
            return True
        window.close()
        with contextlib.suppress(Exception):
            self.samples.tell()
            if self.uncovered is not None:
                self.uncovered.read_last()
        delivered = self.flush(timeout_s)
        sink, self._sink = self._sink, NullSink()
        self._is_closed = True
        with contextlib.suppress(Exception):
            self._media.close()
            self._media = _no_media()
            sink.close(timeout_s if delivered else 0.0)
        if not delivered:
            warn(f"some reports were not taken within {timeout_s:g} s and are lost")
        return delivered

    def close_at_exit(self) -> None:
        """Send what is left as the process ends."""
        self.close()
        self._is_over = True

    def called(self) -> None:
        """Note that the script has called `init`."""
        if self._is_attached:
            self._is_attached = False
            self._described = None
            self._describe()
            self.report_uncaught()

    def begin_again(self) -> None:
        """Note that the script calls `init` itself. A series that was counted without steps is that of
        a run, and what follows is another; one value may be that of a loop which asks for its Run each
        time."""
        if self._num_counted > 1:
            self._run_no += 1
            self.next_step = 0
        self._num_counted = 0

    @never_raises
    def _describe(self) -> None:
        """Send hello, and again when torch and its process group are known."""
        if self._described is not None and self._described[2]:
            return  # nothing more to learn
        torch_version, device, backend = torch_facts()
        if (torch_version, device, backend) == self._described:
            return
        first = self._described is None
        self._described = (torch_version, device, backend)
        info = self.info
        self._sink.hello(
            wire.WorkerRecord(
                local_rank=info.local_rank,
                rank=info.rank,
                world_size=info.world_size,
                node_rank=info.node_rank,
                pid=self._pid,
                host=socket.gethostname(),
                master_addr=info.master_addr,
                master_port=info.master_port,
                device=device,
                backend=backend,
                reports=True,
                attached=self._is_attached,
                torch_version=torch_version,
            )
        )
        if first or backend:
            self.report_group("world", range(info.world_size), "world", backend=backend)

    def report_uncaught(self) -> None:
        """Report exceptions that nothing catches, from now on."""
        previous = sys.excepthook

        def hook(kind: type[BaseException], value: BaseException, trace: Any) -> None:
            if issubclass(kind, Exception):
                self.message(f"rank {self.info.rank}: {kind.__name__}: {value}", "error")
            previous(kind, value, trace)

        sys.excepthook = hook

    def forget_sink(self) -> None:
        """Report nothing: a forked child, such as a DataLoader worker, has no reporting thread and must
        not share the socket."""
        self._sink = NullSink()
        self._media = _no_media()


# ---------------------------------------------------------------- the process's one Reporter

_reporter: Reporter | None = None
_lock = threading.Lock()
_warned: set[str] = set()
_MAX_WARNINGS = 50


def current(*, is_attached: bool = True) -> Reporter:
    """Return the process's Reporter, made at the first call.

    is_attached: nothing in the script has asked for it, which may not know about Muster.
    Raises ValueError when MUSTER_CONFIG_FILE is set but unreadable; nothing else.
    """
    global _reporter
    with _lock:
        if _reporter is None:
            around = surroundings()
            trial = read_config(around.config_file)
            sink = _make_sink(around, progress=_look, on_control=window.take)
            _reporter = Reporter(around, sink, trial, is_attached=is_attached)
            if not is_attached:
                _reporter.report_uncaught()
            window.answer = _reporter.answer
            atexit.register(_reporter.close_at_exit)
            children: Any = sys.modules.get("multiprocessing.util")
            if children is not None and children.process.parent_process() is not None:
                # A child that multiprocessing has forked ends without what is registered above.
                children.Finalize(None, _reporter.close_at_exit, exitpriority=0)
            stacks.install()
            os.register_at_fork(after_in_child=_reporter.forget_sink)
        elif not is_attached:
            _reporter.called()
        return _reporter


def _make_sink(
    around: Surroundings,
    *,
    progress: Callable[[], dict[str, Any]] | None,
    on_control: Callable[[wire.Control], None] | None,
) -> Sink:
    """Return where reports go. A forked process leaves the other two, what is measured and answering, to
    the one it was forked from."""
    info = around.info
    window.rank = info.rank
    if around.report_socket:
        return AgentSink(
            around.report_socket,
            rank=info.rank,
            local_rank=info.local_rank,
            progress=progress,
            on_control=on_control,
        )
    if around.report_file:
        return FileSink(around.report_file, rank=info.rank, local_rank=info.local_rank)
    return NullSink()


def _look() -> dict[str, Any]:
    """Look for changes once a second, on the reporting thread."""
    window.look()
    if watch.timer is not None:
        watch.timer.flush_stale()
    found = watch.look()
    if _reporter is not None:
        found["groups"] += _reporter.look_at_uncovered_groups()
    return found


def _no_media() -> MediaQueue:
    return MediaQueue(NullSink(), rank=0, output_dir="")


def warn_once(text: str) -> bool:
    """Print a warning; return whether it is new."""
    is_new = text not in _warned and len(_warned) < _MAX_WARNINGS
    if is_new:
        _warned.add(text)
        warn(text)
    return is_new


def _row(step: int, values: dict[str, float], epoch: Any, num_steps_planned: Any) -> Row:
    planned = finite(num_steps_planned)
    return Row(step, _now_ms(), values, finite(epoch), None if planned is None else int(planned))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
