"""Scaling reports: which runs they need, what comes next, and what the runs say together. Pure.

Runs come one after another, never two at once: slots of one machine, and links of one network, are
shared. World sizes alternate, up and down in turn, so that what drifts meanwhile meets all alike. Where
the repeats of a size differ so much that its step is not determined, the report adds runs of it by itself,
up to MAX_REPEATS.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from muster.counting import counted
from muster.document.experiment import ExperimentConfig
from muster.document.trainer_settings import AUTO

from ..messages import Message
from ..states import TERMINAL_EXPERIMENT
from .cost_model.fitting import Estimate, mean_of, quotient
from .cost_model.steps import MeasuredRun, Prediction, StepModel

Mode = Literal["strong", "weak"]
"""Scaling mode. `weak`: the same samples per slot at every size. `strong`: the same samples per
step of all slots."""
SKIPPED_STEPS = 5
"""At the start of each run: the first steps allocate memory and fill caches."""
MIN_ROWS = 5
"""Steps with parts that a run must have to count."""
MAX_REPEATS = 6
"""Maximum number of runs of a size, including those that a report adds by itself."""
MAX_ERROR = 0.15
"""Mean error of the measured steps above which the cost model predicts nothing."""


class Impossible(ValueError):
    """The experiment cannot be run at that size in that mode; the message says what could."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run of a report."""

    slots: int
    repeat: int
    """Number of the repeat, from 1."""
    experiment_id: int | None = None
    """ID of the experiment; None if it has not been launched yet."""
    run: MeasuredRun | None = None
    problem: str = ""
    """Why there is no measurement."""
    is_added: bool = False
    """The report added it, because the repeats before differed too much."""

    @property
    def is_over(self) -> bool:
        return self.run is not None or bool(self.problem)


def points(slots: Sequence[int], repeats: int) -> list[Point]:
    """Return the runs of a report in their order."""
    found: list[Point] = []
    for repeat in range(1, repeats + 1):
        ordered = sorted(set(slots), reverse=repeat % 2 == 0)
        found += [Point(slots=size, repeat=repeat) for size in ordered]
    return found


def size_overrides(
    config: ExperimentConfig, hparams: Mapping[str, Any], *, slots: int, mode: Mode
) -> list[str]:
    """Return the overrides that turn an experiment's document into one for `slots` slots.

    With the built-in trainer, batch_size × slots × accumulate is the global batch: `weak` keeps
    batch_size, `strong` divides it. A script of its own decides that for itself. As few nodes as
    possible are used. Raises Impossible.
    """
    changes: dict[str, Any] = {"resources.slots": slots, "resources.nodes": None}
    batch = config.trainer.batch_size if config.trainer is not None else None
    if config.trainer is not None and AUTO in (batch, hparams.get("batch_size")):
        raise Impossible(
            "batch_size is auto, so that each size might be measured with another one",
            "fork the experiment with the number that train/batch_size says",
        )
    if mode == "strong":
        if batch is None:
            raise Impossible(
                "strong scaling divides the batch, and of a script of its own Muster does not know "
                "how",
                "use mode weak, which runs it as it is, or the built-in trainer",
            )
        is_tuned = "batch_size" in hparams
        whole = int(hparams["batch_size"] if is_tuned else batch) * config.resources.slots
        if whole % slots:
            near = [n for n in range(1, whole + 1) if whole % n == 0 and n <= 4096]
            fits = ", ".join(map(str, near[:12]))
            raise Impossible(
                f"a global batch of {whole} samples per micro-batch cannot be divided by {slots} slots",
                f"use sizes among {fits}, or mode weak",
            )
        key = "hyperparameters.batch_size" if is_tuned else "trainer.batch_size"
        changes[key] = whole // slots
    return [f"{path}={json.dumps(value)}" for path, value in changes.items()]


# ---------------------------------------------------------------- what comes next


@dataclass(frozen=True, kw_only=True)
class Underway:
    """The run that is going on."""

    state: str | None
    """State of the experiment (domain.states.ExperimentState); None if it was deleted."""
    step: int
    is_stopping: bool


@dataclass(frozen=True, kw_only=True)
class Report:
    id: int
    points: tuple[Point, ...]
    num_steps: int
    underway: Underway | None
    """Progress of the first point that is not over; None if that one has not been launched."""
    has_slot_hours: bool = True
    """Whether its own budget is not used up, or it has none."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    report_id: int
    index: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class ReadMeasurements:
    """The run has ended: read what it measured."""

    report_id: int
    index: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class StopRun:
    """A script that would go on: it has done enough steps."""

    report_id: int
    index: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """Sizes whose step is not determined: each needs one run more."""

    report_id: int
    slots: tuple[int, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class FinishReport:
    report_id: int
    state: Literal["done", "failed"]
    reason: str


Action = Launch | ReadMeasurements | StopRun | Repeat | FinishReport


def next_action(report: Report) -> Action | None:
    """Return what a report needs now; None while it waits for a run."""
    index = next((i for i, p in enumerate(report.points) if not p.is_over), None)
    if index is None:
        return _repeat(report) or _finish(report)
    point = report.points[index]
    what = f"run {index + 1} of {len(report.points)}, on {counted(point.slots, 'slot')}"
    if point.experiment_id is None:
        return Launch(report_id=report.id, index=index, reason=f"It is the turn of {what}.")
    underway = report.underway
    if underway is None or underway.state is None:
        return ReadMeasurements(
            report_id=report.id, index=index, reason=f"The experiment of {what} was deleted."
        )
    if underway.state in TERMINAL_EXPERIMENT:
        return ReadMeasurements(
            report_id=report.id, index=index, reason=f"{what} has ended.".capitalize()
        )
    if underway.step >= report.num_steps + SKIPPED_STEPS and not underway.is_stopping:
        return StopRun(
            report_id=report.id,
            index=index,
            reason=f"Scaling report {report.id} stopped it: it has done the {report.num_steps} steps "
            "that are measured.",
        )
    return None


def undetermined(measured: Sequence[Point]) -> list[int]:
    """Sizes with at least two runs whose step has an interval wider than itself, smallest first. One
    run has no interval: who asks for one repeat wants a look and no more."""
    return [s.slots for s in sizes(measured) if s.num_runs > 1 and not s.step_s.is_determined]


def added(report: Sequence[Point], slots: Sequence[int]) -> list[Point]:
    """Return one more run of each of these sizes."""
    return [Point(slots=size, repeat=_repeats(report, size) + 1, is_added=True) for size in slots]


def _repeats(report: Sequence[Point], slots: int) -> int:
    return max((p.repeat for p in report if p.slots == slots), default=0)


def _repeat(report: Report) -> Repeat | None:
    if not report.has_slot_hours:
        return None
    few = [s for s in undetermined(report.points) if _repeats(report.points, s) < MAX_REPEATS]
    if not few:
        return None
    on = _slots(few)
    return Repeat(
        report_id=report.id,
        slots=tuple(few),
        reason=f"The repeats on {on} differ too much: each is measured once more.",
    )


def _slots(nums: Sequence[int]) -> str:
    """Return "1 slot" or "2, 4 slots"."""
    *rest, last = nums
    return "".join(f"{num}, " for num in rest) + (
        f"{last} slots" if rest else counted(last, "slot")
    )


def _finish(report: Report) -> FinishReport:
    measured = [p for p in report.points if p.run is not None]
    if not measured:
        return FinishReport(
            report_id=report.id,
            state="failed",
            reason=f"No run was measured: {report.points[0].problem}",
        )
    missing = len(report.points) - len(measured)
    reason = f"{_runs(len(measured))} measured"
    num_added = sum(p.is_added for p in report.points)
    if num_added:
        reason += f", {num_added} of them added because the repeats before differed too much"
    reason += (
        f", {missing} were not: {next(p.problem for p in report.points if p.problem)}"
        if missing
        else "."
    )
    if still := undetermined(report.points):
        reason += (
            f" The step on {_slots(still)} is still not determined: measure again with more repeats "
            "and steps, or with nothing else running there."
        )
    return FinishReport(report_id=report.id, state="done", reason=reason)


def _runs(num: int) -> str:
    return "1 run was" if num == 1 else f"{num} runs were"


# ---------------------------------------------------------------- what they say


PARTS = ("compute", "optimizer", "data", "transfer", "wait", "other")
"""Parts of a step in the order they are drawn: computing; the optimizer; data; communication that
is not hidden; waiting for late workers; the rest."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """All runs of one world size."""

    slots: int
    num_runs: int
    num_steps: int
    """Rows behind the figures, of all runs and the worker with the fewest."""
    samples: float
    """Per slot and step."""
    step_s: Estimate
    samples_per_s: Estimate
    speedup: Estimate
    """Against the smallest size, times that size."""
    efficiency: Estimate
    """Speed-up over slots."""
    parts_s: dict[str, float]
    """PARTS → mean seconds."""
    hidden_s: float


def sizes(measured: Sequence[Point]) -> list[Size]:
    """Return the measured sizes, smallest first; points without a run are left out."""
    by_slots: dict[int, list[MeasuredRun]] = {}
    for point in measured:
        if point.run is not None:
            by_slots.setdefault(point.slots, []).append(point.run)
    found: list[Size] = []
    base: tuple[int, Estimate] | None = None
    for slots, runs in sorted(by_slots.items()):
        rate = mean_of([r.samples * r.size / r.step_s for r in runs])
        step = mean_of([r.step_s for r in runs])
        assert rate is not None
        assert step is not None
        base = base or (slots, rate)
        speedup = (
            quotient(rate, base[1]).scaled(base[0]) if slots != base[0] else _exactly(slots, rate.n)
        )
        found.append(
            Size(
                slots=slots,
                num_runs=len(runs),
                num_steps=sum(r.num_steps for r in runs),
                samples=sum(r.samples for r in runs) / len(runs),
                step_s=step,
                samples_per_s=rate,
                speedup=speedup,
                efficiency=speedup.scaled(1 / slots),
                parts_s=_parts(runs),
                hidden_s=sum(r.hidden_s for r in runs) / len(runs),
            )
        )
    return found


def _exactly(value: float, n: int) -> Estimate:
    return Estimate(value=value, low=value, high=value, n=n)


def _parts(runs: Sequence[MeasuredRun]) -> dict[str, float]:
    shares = [
        {
            "compute": r.compute_s,
            "optimizer": r.optimizer_s,
            "data": r.data_s,
            "transfer": r.exposed_s - r.wait_s,
            "wait": r.wait_s,
            "other": r.other_s,
        }
        for r in runs
    ]
    return {name: sum(s[name] for s in shares) / len(shares) for name in PARTS}


# ---------------------------------------------------------------- what may be predicted


def doubt(
    found: Prediction,
    model: StepModel,
    measured: Sequence[Size],
    mode: Mode,
    *,
    is_link_known: bool = True,
) -> Message | None:
    """Return why a prediction should not be shown as a figure, and what helps; None if it may
    be.

    is_link_known: False for another network where the rate of the measured one is unknown.
    """
    if not found.step_s.is_bounded:
        return Message("scaling.one_run")
    if model.error is not None and model.error > MAX_ERROR:
        pct = round(100 * model.error)
        return Message("scaling.model_off", pct=pct)
    largest = measured[-1]
    before = largest.step_s
    if mode == "weak" and found.size > largest.slots and found.step_s.value < before.value:
        step_ms, largest_ms = found.step_s.value * 1e3, before.value * 1e3
        return Message(
            "scaling.contradiction",
            step_ms=float(f"{step_ms:.4g}"),
            largest_ms=float(f"{largest_ms:.4g}"),
            slots=largest.slots,
        )
    if not found.step_s.is_determined:
        return Message("scaling.too_wide" if is_link_known else "scaling.link_unknown")
    return None
