"""Measurement of where the time of a training step goes, per rank.

A step runs from the end of the step before to its own end. The training thread is in exactly one
phase at any moment; a moment in which it is blocked on communication counts as exposed
communication and not as its phase. So the parts always sum to the step:

    step = data_wait + host_to_device + forward + backward + comm/exposed + pipeline/bubble
           + optimizer + no_grad + checkpoint + other

Measuring never synchronises an accelerator. On CUDA the phases are what the device did, by events that
are read some steps later (`muster.measure.device_time`), of one step in eight.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from muster.measure import collectives
from muster.measure.collectives import Collective, FastestTransfers, Segment, cpu_ns, now_ns
from muster.measure.comm_use import CommUse, comm_use, timeline_use
from muster.measure.device_time import NO_PHASE, DeviceTimer, device_timer
from muster.measure.intervals import merge
from muster.measure.peaks import device_peak_flops
from muster.measure.pipelining import Computing, OperationLog, is_noted
from muster.measure.profiling import window
from muster.measure.progress import watch
from muster.measure.sampling import StepSampling
from muster.measure.step_counts import StepSpan
from muster.measure.step_sums import Facts, StepSums
from muster.measure.windows import KernelWindows, SeenStep, windows_of
from muster.sdk.reporter import current, warn_once
from muster.sdk.run import Run

T = TypeVar("T")

MAX_ROWS_PER_S = 20.0
"""Largest number of measured rows per second; faster steps are averaged: a chart shows no more, and
200 steps per second of 20 metrics from 64 ranks would be a quarter of a million values per
second. Values of the script itself are few, and kept for every step: the mean of some losses is
the loss of no step."""
STALE_NS = 1_000_000_000
"""Age in ns after which a row is reported although no further step has ended."""


class _Pending(NamedTuple):
    """The newest step of the current row."""

    step: int
    epoch: float | None
    num_steps_planned: int | None
    ended_at: int


class StepTimer:
    """Measures steps and reports one row per step (or per 50 ms, averaged, when steps are faster; your
    own values are reported of every step).

    Use it from the training thread only. Either mark the phases yourself::

        timer = muster.StepTimer()
        for step, (x, y) in enumerate(timer.data(loader), start=1):
            with timer.forward():
                loss = loss_fn(model(x), y)
            with timer.backward():
                loss.backward()
            with timer.optimizer():
                optimizer.step()
                optimizer.zero_grad()
            timer.end_step(step, samples=len(x), metrics={"train/loss": loss})

    or let hooks find them: `timer.watch(model, optimizer)` and only `end_step` remains.
    """

    def __init__(
        self,
        *,
        run: Run | None = None,
        enabled: bool | None = None,
        max_rows_per_s: float = MAX_ROWS_PER_S,
    ) -> None:
        """Create the timer.

        enabled: False measures nothing and reports only what `end_step` is given; default is
        what the experiment document says (measure.steps), else True.
        max_rows_per_s: of what is measured; 0 reports every step by itself however fast it is.
        """
        self._reporter = run.reporter if run is not None else current(is_attached=False)
        enabled = self._reporter.measures_steps if enabled is None else enabled
        self._enabled = enabled
        self._row_interval_ns = int(1e9 / max_rows_per_s) if max_rows_per_s > 0 else 0
        self._lock = threading.RLock()
        """Lock between the training thread and the reporting thread, which reports stale rows."""
        # Below: guarded by the lock.
        self._pending: _Pending | None = None
        self._last_row_at = 0
        self._thread = threading.get_ident()

        self._segments: list[Segment] = []
        self._phase = "other"
        self._since = now_ns()
        self._since_cpu = cpu_ns()
        """CPU time of the training thread when the phase "other" began."""
        self._other_cpu_ns = 0
        """CPU time of this step in the phase "other"."""
        self._paused_ns: int | None = None
        """Time in pauses since the step before; None until the first pause."""
        self._carried: list[Collective] = []

        self._sampling = StepSampling()
        self._num_steps = 0
        self._own_cost_ns = 0
        self._measures_comm: bool | None = None
        self._sums = StepSums()
        self._fastest = FastestTransfers()
        self._facts = Facts()
        self._operations = OperationLog()
        self._device: DeviceTimer | None = None
        """Timer of the CUDA device, once one is in use."""
        self._windows: KernelWindows | None = None
        """Windows of the profiler, where no process group of ours sees communication."""
        window.has_timer = True
        if enabled:
            watch.set_timer(self)
        self.last: dict[str, float] = {}
        """Time and communication of the last reported row. Empty before the first."""
        if enabled:
            collectives.log.take()
            collectives.log.enabled = True
            self._reporter.before_checkpoint.append(self.flush)

    # ------------------------------------------------ phases

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Attribute the time in this block to `name`, one of `step_sums.PHASES`; blocks may be
        nested."""
        before = self._phase
        self._switch(name)
        if name == "checkpoint" and all(s.phase == "other" for s in self._segments):
            collectives.log.enabled = self._enabled  # rare and long: never skipped by sampling
        try:
            yield
        finally:
            self._switch(before)

    def forward(self) -> contextlib.AbstractContextManager[None]:
        return self.phase("forward")

    def backward(self) -> contextlib.AbstractContextManager[None]:
        return self.phase("backward")

    def optimizer(self) -> contextlib.AbstractContextManager[None]:
        return self.phase("optimizer")

    def checkpoint(self) -> contextlib.AbstractContextManager[None]:
        """Mark the block as saving. It counts in the current step, so after `end_step` in the next."""
        return self.phase("checkpoint")

    def host_to_device(self) -> contextlib.AbstractContextManager[None]:
        """Mark the block as copying a batch to the device. Host time: an asynchronous copy takes
        hardly any of it."""
        return self.phase("host_to_device")

    @contextlib.contextmanager
    def pipeline(self, stage: int) -> Iterator[None]:
        """Mark the block as a pipeline schedule's step on the worker that holds `stage`. Its sends
        and receives are then between stages, and waiting for another stage is reported as
        pipeline/bubble_ms; forward and backward are marked, or found by hooks, inside."""
        self._facts = dataclasses.replace(self._facts, stage=stage)
        before, collectives.log.in_pipeline = collectives.log.in_pipeline, True
        try:
            yield
        finally:
            collectives.log.in_pipeline = before

    def operation(
        self, kind: Computing, *, stage: int, micro_batch: int
    ) -> contextlib.AbstractContextManager[None]:
        """Mark the block as one operation of a pipeline's schedule on one micro-batch. It is
        recorded in selected steps, and drawn on the trial's page; see
        `muster.measure.pipelining`."""
        if not self._operations.enabled:
            return contextlib.nullcontext()
        return self._operations.noted(kind, stage, micro_batch)

    def label_message(
        self, message: collectives.Message, address: int, *, stage: int, micro_batch: int
    ) -> None:
        """Label the tensor at `address` that `stage` is about to send or receive."""
        if collectives.log.labels is not None:
            collectives.log.labels[address] = (message, stage, micro_batch)

    def describe(
        self,
        *,
        flops_per_sample: float | None = None,
        tokens_per_sample: int | None = None,
        peak_flops: float | None = None,
    ) -> None:
        """Describe what is trained, so that rank 0 can report throughput/tokens_per_s,
        throughput/model_tflops_per_device and throughput/mfu.

        flops_per_sample: floating-point operations of forward and backward of one sample, an
            addition and a multiplication being two, recomputation not counted; for a transformer
            6 × parameters × tokens and the attention's 12 × layers × width × tokens².
        peak_flops: of one device, per second; default is measure.peak_tflops of the document, then
            what the maker says of the GPU in use (see `muster.measure.peaks`), else unknown: no MFU.
        """
        given = self._reporter.peak_tflops
        if peak_flops is None:
            peak_flops = given * 1e12 if given is not None else device_peak_flops()
        self._facts = dataclasses.replace(
            self._facts,
            flops_per_sample=flops_per_sample,
            tokens_per_sample=tokens_per_sample,
            peak_flops=peak_flops,
        )

    def data(self, loader: Iterable[T]) -> Iterator[T]:
        """Yield from `loader`, with the time spent waiting for each batch counted as data_wait."""
        iterator = iter(loader)
        while True:
            with self.phase("data_wait"):
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
            yield batch

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Exclude this block from the step: validation, for example, is not training. Its time is
        reported beside the step, as time/validation_ms."""
        self._switch(self._phase)
        if self._windows is not None:
            self._windows.abandon()  # a validation of an hour is no step
        began, paused_before = self._since, self._paused_ns or 0
        was_enabled, collectives.log.enabled = collectives.log.enabled, False
        if self._device is not None:
            self._device.mark(NO_PHASE)
        try:
            yield
        finally:
            self._since = now_ns()  # leaves a gap between two segments
            self._since_cpu = cpu_ns()
            self._paused_ns = paused_before + self._since - began
            if self._device is not None:
                self._device.mark(self._phase)
            collectives.log.enabled = was_enabled

    def watch(self, model: Any, optimizer: Any) -> None:
        """Find the phases by hooks: forward is the model's, optimizer is `optimizer.step`, and
        backward is what lies between the two (so it includes computing the loss).

        `end_step` still has to be called once per step, and `data` to see the loader.
        """

        def end_forward(module: Any, *_: Any) -> None:
            self._switch("backward" if module.training else "other")

        model.register_forward_pre_hook(lambda *_: self._switch("forward"))
        model.register_forward_hook(end_forward)
        optimizer.register_step_pre_hook(lambda *_: self._switch("optimizer"))
        optimizer.register_step_post_hook(lambda *_: self._switch("other"))

    def enter(self, phase: str) -> None:
        """Note that the training thread is in `phase` from now on. For hooks, which see no end of a
        block."""
        self._switch(phase)

    def _switch(self, phase: str) -> None:
        now = now_ns()
        if now > self._since:
            self._segments.append(Segment(self._phase, self._since, now))
        if self._device is not None and phase != self._phase:
            self._device.mark(phase)
        if "other" in (self._phase, phase):
            cpu = cpu_ns()
            if self._phase == "other":
                self._other_cpu_ns += cpu - self._since_cpu
            self._since_cpu = cpu
        self._phase, self._since = phase, now

    def where(self) -> tuple[str, int]:
        """Return the phase the training thread is in, and since when in perf_counter nanoseconds.
        From any thread."""
        return self._phase, self._since

    # ------------------------------------------------ steps

    def end_step(
        self,
        step: int,
        *,
        samples: int | None = None,
        samples_of_all: int | Literal["unknown"] | None = None,
        metrics: Mapping[str, Any] | None = None,
        epoch: float | None = None,
        num_steps_planned: int | None = None,
    ) -> None:
        """Close the step and report it.

        samples: how many this rank processed.
        samples_of_all: how many all ranks processed together; without it, all are taken to have
            processed as many as this one. Rank 0 reports it as throughput/samples_per_s; not when it
            is "unknown".
        metrics: values of your own for the same row.
        """
        self._switch("other")
        if self._device is not None:
            self._device.end_step()
        began, began_cpu = now_ns(), cpu_ns()
        seen = self._windows.end_step() if self._windows is not None else None
        is_border = self._windows is not None and self._windows.is_border
        with self._lock:
            if self._enabled:
                try:
                    self._measure(step, samples, samples_of_all, seen)
                except Exception as error:
                    # Never the user's problem. Measuring goes on with the next step.
                    warn_once(f"measuring a step failed: {type(error).__name__}: {error}")
            self._segments = []
            self._pending = _Pending(step, epoch, num_steps_planned, began)
            if is_border or began - self._last_row_at >= self._row_interval_ns:
                self._report(metrics or {})
            else:
                self._reporter.log(
                    metrics or {}, step=step, epoch=epoch, num_steps_planned=num_steps_planned
                )
        self._num_steps += 1
        if self._enabled:
            self._begin_device_step()
            self._choose_recorded()
        # What this took belongs to the next step, as "other", and is reported as instrumentation.
        self._own_cost_ns = cpu_ns() - began_cpu
        window.step_ended(step)  # writing a trace is the next step's "other" too

    def flush(self) -> None:
        """Report what was averaged since the last row."""
        with self._lock:
            self._report({})

    def flush_stale(self) -> None:
        """Report the current row if no step has ended for a while. For the reporting thread, which
        must not wait: a training thread that hangs is the reason to report."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._pending is not None and now_ns() - self._pending.ended_at >= STALE_NS:
                self._report({}, is_late=True)
        finally:
            self._lock.release()

    def _report(self, metrics: Mapping[str, Any], *, is_late: bool = False) -> None:
        """Report the current row, with the script's own values of its last step. The lock is held."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        self._last_row_at = now_ns()
        if self._enabled:
            self.last = self._sums.values(
                with_comm=self._can_measure_comm(), info=self._reporter.info, facts=self._facts
            )
            self._sums = StepSums()
        self._reporter.log(
            {**metrics, **self.last},
            step=pending.step,
            epoch=pending.epoch,
            num_steps_planned=pending.num_steps_planned,
            is_late=is_late,
        )

    def _measure(
        self,
        step: int,
        samples: int | None,
        samples_of_all: int | Literal["unknown"] | None,
        seen: SeenStep | None,
    ) -> None:
        segments = self._segments
        other_cpu_ns, self._other_cpu_ns = self._other_cpu_ns, 0
        paused_ns = self._paused_ns
        if paused_ns:
            self._paused_ns = 0
        records, recording_ns = collectives.log.take()
        step_ns = sum(s.end - s.start for s in segments)
        if step_ns <= 0:
            return
        noted = self._operations.take(records, self._fastest, began=segments[0].start)
        if noted is not None:
            self._reporter.answer(noted.record(step, self._reporter.info))
        sums = self._sums
        if samples is not None and samples_of_all is None:
            samples_of_all = samples * self._reporter.info.world_size
        elif samples_of_all == "unknown":
            samples_of_all = None
        sums.add_step(step_ns, recording_ns + self._own_cost_ns, samples, samples_of_all, paused_ns)
        if seen is None:
            self._count_uncovered(step, segments)
        if self._windows is not None and not self._windows.is_off:
            self._add_window(self._windows, seen, step_ns, segments)
            return
        if self._device is not None:
            self._add_device_steps(self._device)
            return
        with_comm = self._can_measure_comm()
        if with_comm and self._reporter.info.world_size > 1 and not collectives.log.enabled:
            # This step's collectives were not recorded, so its parts are unknown: a backward that
            # contains the communication must not be averaged with backwards that do not.
            self._sampling.add(step_ns, None)
            return
        if collectives.log.num_lost:
            self._sampling.add(step_ns, recording_ns)
            warn_once(
                f"a step had more than {collectives.MAX_RECORDS} collectives; such steps are "
                "reported without their parts"
            )
            return
        use: CommUse | None = None
        if with_comm:
            began = cpu_ns()
            records = self._carried + records
            use = comm_use(records, segments, thread=self._thread, fastest=self._fastest)
            self._carried = [r for r in records if not r.end]
            self._sampling.add(step_ns, recording_ns + cpu_ns() - began)
        sums.add_parts(step_ns, segments, use, other_cpu_ns)

    def _add_device_steps(self, device: DeviceTimer) -> None:
        """Add parts of steps that the device has finished: the host's time for them tells nothing,
        because the host only enqueues work."""
        for step in device.finished():
            if step.step_ns > 0:
                self._sums.add_parts(step.step_ns, step.segments, step.use)

    def _add_window(
        self, windows: KernelWindows, seen: SeenStep | None, step_ns: int, segments: list[Segment]
    ) -> None:
        """Add a step; its parts are known if it was seen in a window."""
        if seen is None:
            if not windows.is_border:
                windows.budget.add_step(step_ns)
            return
        if self._device is not None:
            steps = self._device.finished()
            if not steps:
                return
            step_ns, segments = steps[-1].step_ns, seen.on_device(steps[-1].segments)
        use = timeline_use(seen.activities, segments)
        self._sums.add_parts(step_ns, segments, use, in_window=True)

    def _count_uncovered(self, step: int, segments: list[Segment]) -> None:
        """Have the collectives of a step counted by torch's flight recorder, where nothing else does."""
        uncovered = self._reporter.uncovered
        if uncovered is None or not self._reporter.measures_comm:
            return
        if self._num_steps <= 1:  # groups that are made later are found by the reporting thread
            uncovered.notice()
        if uncovered.is_any and (self._device is None or not self._device.sees_comm):
            to_unix = time.time_ns() - now_ns()
            spans = merge((s.start + to_unix, s.end + to_unix) for s in segments)
            uncovered.add_step(StepSpan(step, tuple(spans)))

    def _begin_device_step(self) -> None:
        if self._device is None:
            self._device = device_timer()
        if self._windows is None and self._num_steps == 1 and not self._can_measure_comm():
            self._windows = windows_of(self._reporter, on_device=self._device is not None)
            if self._windows is not None:  # the profiler's first start is in no step
                self._since, self._since_cpu = now_ns(), cpu_ns()
        windows = self._windows
        if windows is not None:
            if self._device is not None and self._device.sees_comm:
                windows.turn_off()  # a hook tells more steps
            windows.begin_step(self._num_steps)
        if self._device is not None:
            is_timed = None if windows is None or windows.is_off else windows.measures
            self._device.begin_step(self._num_steps, self._phase, is_timed=is_timed)

    def _can_measure_comm(self) -> bool:
        """Return whether communication is seen: the measured gloo is used, a hook reports NCCL's,
        or there is only one worker."""
        if self._windows is not None and not self._windows.is_off:
            return self._sums.num_windows > 0
        if self._device is not None:
            return self._device.sees_comm or self._reporter.info.world_size == 1
        if self._measures_comm is None:
            if self._reporter.info.world_size == 1:
                self._measures_comm = True
            else:
                from muster.measure.comm import is_measured

                self._measures_comm = is_measured()
        return self._measures_comm

    def _choose_recorded(self) -> None:
        is_noted_next = self._facts.stage is not None and is_noted(self._num_steps)
        if is_noted_next:
            self._operations.begin()
        collectives.log.enabled = is_noted_next or self._sampling.is_recorded(self._num_steps)
