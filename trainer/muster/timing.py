"""Where the time of a training step goes, per rank.

A step runs from the end of the step before to its own end. The training thread is in exactly one
phase at any moment; a moment in which it is blocked on communication counts as exposed
communication and not as its phase. So the parts always sum to the step:

    step = data_wait + forward + backward + comm/exposed + optimizer + checkpoint + other

Measuring reads clocks on the host only. It never synchronises an accelerator: on CUDA the phases
are host times, and communication is not reported.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from muster import collectives
from muster.collectives import Collective, Segment, comm_use, now_ns
from muster.metrics import Row, Window, clean_values
from muster.run import Run, init

T = TypeVar("T")

PHASES = ("data_wait", "forward", "backward", "optimizer", "checkpoint", "other")
MAX_ROWS_PER_S = 20.0
"""Faster steps are averaged: a chart shows no more, and 200 steps per second of 20 metrics from 64
ranks would be a quarter of a million values per second."""
MAX_INSTRUMENTATION_PCT = 1.0
MAX_SAMPLE_EVERY = 64
_CHECK_EVERY_STEPS = 20
_MS = 1e-6


class StepTimer:
    """Measures steps and reports one row per step (or per 50 ms, averaged, when steps are faster).

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
        enabled: bool = True,
        max_rows_per_s: float = MAX_ROWS_PER_S,
    ) -> None:
        """max_rows_per_s: 0 reports every step by itself however fast it is."""
        self._run = run if run is not None else init()
        self._enabled = enabled
        self._row_interval_ns = int(1e9 / max_rows_per_s) if max_rows_per_s > 0 else 0
        self._window = Window()
        self._last_row_at = 0
        self._thread = threading.get_ident()

        self._segments: list[Segment] = []
        self._phase = "other"
        self._since = now_ns()
        self._carried: list[Collective] = []

        self._sample_every = 1
        self._num_steps = 0
        self._costs_ns: list[tuple[int, int]] = []
        self._own_cost_ns = 0
        self._measures_comm: bool | None = None
        self.last: dict[str, float] = {}
        """Values of the last step, as reported. Empty before the first."""
        if enabled:
            collectives.log.take()
            collectives.log.enabled = True
            self._run.before_checkpoint.append(self.flush)

    # ------------------------------------------------ phases

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time in this block belongs to `name`, one of PHASES; blocks may be nested."""
        before = self._phase
        self._switch(name)
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
        """Time to save. It counts in the step that is under way, so after `end_step` in the next."""
        return self.phase("checkpoint")

    def data(self, loader: Iterable[T]) -> Iterator[T]:
        """`loader`, with the time spent waiting for each batch counted as data_wait."""
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
        """Leave this block out of the step: validation, for example, is not training."""
        self._switch(self._phase)
        was_enabled, collectives.log.enabled = collectives.log.enabled, False
        try:
            yield
        finally:
            self._since = now_ns()  # leaves a gap between two segments
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

    def _switch(self, phase: str) -> None:
        now = now_ns()
        if now > self._since:
            self._segments.append(Segment(phase=self._phase, start=self._since, end=now))
        self._phase, self._since = phase, now

    # ------------------------------------------------ steps

    def end_step(
        self,
        step: int,
        *,
        samples: int | None = None,
        metrics: Mapping[str, Any] | None = None,
        epoch: float | None = None,
        num_steps_planned: int | None = None,
    ) -> None:
        """Close the step and report it.

        samples: how many this rank processed. All ranks are taken to have processed as many; rank
            0 reports the sum as throughput/samples_per_s.
        metrics: values of your own for the same row.
        """
        self._switch("other")
        values, _ = clean_values(metrics or {})
        if self._enabled:
            began = now_ns()
            try:
                values.update(self._measure(samples))
            except Exception as error:
                # Never the user's problem. Measuring goes on with the next step.
                self._run.message(f"measuring failed: {type(error).__name__}: {error}", "warning")
            self.last = values
            self._own_cost_ns = now_ns() - began
        self._segments = []
        if values:
            self._window.add(Row(step, 0, values, epoch, num_steps_planned))
        if now_ns() - self._last_row_at >= self._row_interval_ns:
            self.flush()
        self._num_steps += 1
        if self._enabled:
            self._choose_sampling()
        # What reporting itself took belongs to the next step, as "other".

    def flush(self) -> None:
        """Report the rows averaged so far."""
        row = self._window.take()
        if row is not None:
            self._last_row_at = now_ns()
            self._run.log(
                row.values,
                step=row.step,
                epoch=row.epoch,
                num_steps_planned=row.num_steps_planned,
            )

    def _measure(self, samples: int | None) -> dict[str, float]:
        segments = self._segments
        records, overhead_ns = collectives.log.take()
        step_ns = sum(s.end - s.start for s in segments)
        if step_ns <= 0:
            return {}
        overhead_ns += self._own_cost_ns
        self._costs_ns.append((overhead_ns, step_ns))
        step_ms = step_ns * _MS
        values = {
            "time/step_ms": step_ms,
            "time/instrumentation_pct": 100.0 * overhead_ns / step_ns,
            "memory/rss_bytes": float(rss_bytes()),
        }
        if samples is not None:
            rate = samples / (step_ns * 1e-9)
            values["throughput/samples_per_s_rank"] = rate
            if self._run.info.rank == 0:
                values["throughput/samples_per_s"] = rate * self._run.info.world_size
        parts = dict.fromkeys(PHASES, 0)
        for segment in segments:
            parts[segment.phase] = parts.get(segment.phase, 0) + segment.end - segment.start
        if not self._can_measure_comm():
            values.update({f"time/{name}_ms": ns * _MS for name, ns in parts.items()})
            return values
        if not collectives.log.enabled and self._run.info.world_size > 1:
            # This step's collectives were not recorded, so its parts are unknown: a backward that
            # contains the communication must not be averaged with backwards that do not.
            values["time/data_wait_ms"] = parts["data_wait"] * _MS
            return values
        records = self._carried + records
        use = comm_use(records, segments, thread=self._thread)
        self._carried = [r for r in records if not r.end]
        for name, ns in use.exposed_by_phase.items():
            parts[name] -= ns
        values.update({f"time/{name}_ms": ns * _MS for name, ns in parts.items()})
        values.update(
            {
                "comm/exposed_ms": use.exposed * _MS,
                "comm/overlapped_ms": use.overlapped * _MS,
                "comm/total_ms": use.total * _MS,
                "comm/bytes": float(use.num_bytes),
                "comm/count": float(use.count),
                "comm/overhead_ratio": use.exposed / step_ns,
            }
        )
        return values

    def _can_measure_comm(self) -> bool:
        """Whether communication is seen: the measured gloo is used, or there is nobody to talk to."""
        if self._measures_comm is None:
            if self._run.info.world_size == 1:
                self._measures_comm = True
            else:
                from muster.comm import is_measured

                self._measures_comm = is_measured()
        return self._measures_comm

    def _choose_sampling(self) -> None:
        """Record one step in `sample_every`; doubled while measuring costs over 1 % of the time."""
        if len(self._costs_ns) >= _CHECK_EVERY_STEPS:
            cost = sum(c for c, _ in self._costs_ns)
            wall = sum(w for _, w in self._costs_ns)
            self._costs_ns = []
            if (
                100.0 * cost / wall > MAX_INSTRUMENTATION_PCT
                and self._sample_every < MAX_SAMPLE_EVERY
            ):
                self._sample_every *= 2
        collectives.log.enabled = self._num_steps % self._sample_every == 0


def rss_bytes() -> int:
    """Resident memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 — every step: keep it cheap
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
