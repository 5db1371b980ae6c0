"""The decider: one event in, what to do out, everything it knows in a JSON state.

Methods: single (one trial), grid (every point once), random, asha (random with early stopping at
rungs, see rungs.py). Rules that hold for all of them:

* at most `concurrent` trials are live and never more than `trials` are created;
* every decision is a function of the state and the event; randomness is hashed from the seed;
* an event heard twice counts once: a rung takes a trial's first value, a trial ends once, and what
  is said about a trial that is not live changes nothing;
* a value that is NaN or infinite ranks last and its trial is stopped at that rung; a trial that
  failed is entered last into the rung it was on the way to, so that failures count in the rung;
* a trial that trains on past `max_units` is stopped.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from muster.wire import Number, decode_number, encode_number

from . import sampling
from .events import (
    Action,
    ContinueTrial,
    CreateTrial,
    Event,
    Finish,
    Started,
    StopTrial,
    Validated,
)
from .rungs import Ladder, quota, rung_units, score

Method = Literal["single", "grid", "random", "asha"]
STATE_VERSION = 1
_EPSILON = 1e-6
"""Epochs arrive as floats: 3 epochs of 7 steps may be reported as 2.9999999."""


@dataclass(frozen=True, kw_only=True)
class SearchSpec:
    """What a search is, complete: the state carries it, so that no later change alters a decision."""

    method: Method
    space: dict[str, Any]
    seed: int
    trials: int
    """How many it creates in all (grid: the number of points)."""
    concurrent: int
    metric: str | None = None
    goal: Literal["min", "max"] = "min"
    unit: Literal["steps", "epochs"] | None = None
    max_units: int | None = None
    divisor: int = 4
    rungs: tuple[int, ...] = ()
    """Units at which trials are judged, ascending; empty unless method is asha."""

    @classmethod
    def asha(
        cls,
        *,
        space: dict[str, Any],
        trials: int,
        max_units: int,
        unit: Literal["steps", "epochs"] = "epochs",
        seed: int = 0,
        concurrent: int = 16,
        metric: str = "val/loss",
        goal: Literal["min", "max"] = "min",
        divisor: int = 4,
        max_rungs: int = 5,
    ) -> SearchSpec:
        units = rung_units(max_units, divisor=divisor, max_rungs=max_rungs, trials=trials)
        return cls(
            method="asha",
            space=space,
            seed=seed,
            trials=trials,
            concurrent=concurrent,
            metric=metric,
            goal=goal,
            unit=unit,
            max_units=max_units,
            divisor=divisor,
            rungs=tuple(units),
        )


@dataclass
class _Live:
    next_rung: int = 0
    is_stopping: bool = False


@dataclass(frozen=True)
class RungEntry:
    trial_no: int
    value: float | None
    """None: it failed before it reached the rung."""
    goes_on: bool | None
    """None: nothing was decided (last rung, or it failed)."""


def initial_state(spec: SearchSpec) -> dict[str, Any]:
    """The state before the first event (`Started`)."""
    return Searcher(spec).state()


def on_event(state: dict[str, Any], event: Event) -> tuple[dict[str, Any], list[Action]]:
    """What to do about one event, and the state after it. `state` itself is left as it was."""
    searcher = Searcher.from_state(state)
    actions = searcher.apply(event)
    return searcher.state(), actions


class Searcher:
    """A search in memory: for many events in a row, where one JSON round trip each would cost.

    Not thread-safe. `state()` after any number of `apply()` is the same as calling `on_event` for
    each of them.
    """

    def __init__(self, spec: SearchSpec) -> None:
        self.spec = spec
        self.num_created = 0
        self.is_finished = False
        self.finish_reason = ""
        self.rungs: list[list[RungEntry]] = [[] for _ in spec.rungs]
        """Per rung, in order of arrival."""
        self._live: dict[int, _Live] = {}
        self._again: list[int] = []
        """Ended trials that are to go on as soon as there is room for them."""
        self._ladders = [Ladder() for _ in spec.rungs]
        self._parameters, problems = sampling.parse_space(spec.space)
        if problems:
            raise ValueError(f"invalid space: {problems[0].path}: {problems[0].message}")

    @property
    def num_live(self) -> int:
        return len(self._live)

    def apply(self, event: Event) -> list[Action]:
        """Take note of `event` and return what to do, in order."""
        if self.is_finished:
            return []
        if isinstance(event, Started):
            return self._go_on() if self.num_created == 0 else []
        trial = self._live.get(event.trial_no)
        if trial is None:
            return []
        if isinstance(event, Validated):
            return self._judge(event, trial)
        del self._live[event.trial_no]
        was_judged = trial.is_stopping or trial.next_rung == len(self.rungs)
        if event.outcome == "failed" and not was_judged:
            self._enter(trial.next_rung, event.trial_no, None)
        return self._go_on()

    def close(self, reason: str) -> list[Action]:
        """End the search from outside: live trials are left alone, none is created any more."""
        if self.is_finished:
            return []
        return [self._finish(reason)]

    def reopen(self, spec: SearchSpec, trial_nos: Iterable[int]) -> list[Action]:
        """Go on after the end: with these trials, and with those that were never created.

        spec: the present one, or one that differs in `trials`, `concurrent` and `max_units` alone.
        trial_nos: trials that have ended; each begins on the rung after the last one it reached.
        """
        self.spec = spec
        self.is_finished, self.finish_reason = False, ""
        self._live.clear()
        self._again = sorted(set(trial_nos))
        return self._go_on()

    @property
    def unfinished(self) -> frozenset[int]:
        """Trials whose end it has not heard of: after `close`, those that were stopped with it."""
        return frozenset({*self._live, *self._again})

    def cutoff(self, rung: int) -> float | None:
        """The metric the next arrival at `rung` must reach to go on, None while any would do.

        Always None for the last rung, where nothing is decided.
        """
        if rung + 1 >= len(self.rungs):
            return None
        needed = self._ladders[rung].next_cutoff_score(self.spec.divisor)
        if needed is None:
            return None
        return -needed if self.spec.goal == "max" else needed

    def ranking(self, rung: int) -> list[RungEntry]:
        """The entries of a rung, best first, ties in order of trial number."""
        return sorted(self.rungs[rung], key=lambda e: (score(e.value, self.spec.goal), e.trial_no))

    def preview(self, limit: int) -> list[dict[str, Any]]:
        """Hyperparameters of the first `limit` trials, exactly as they will be created."""
        return [self._hparams(no) for no in range(1, min(limit, self.spec.trials) + 1)]

    def state(self) -> dict[str, Any]:
        """Everything, as JSON."""
        return {
            "version": STATE_VERSION,
            "spec": {**dataclasses.asdict(self.spec), "rungs": list(self.spec.rungs)},
            "created": self.num_created,
            "again": list(self._again),
            "live": {str(no): [t.next_rung, t.is_stopping] for no, t in self._live.items()},
            "rungs": [
                [[e.trial_no, _encode(e.value), e.goes_on] for e in entries]
                for entries in self.rungs
            ],
            "finished": self.is_finished,
            "finish_reason": self.finish_reason,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Searcher:
        if state.get("version") != STATE_VERSION:
            raise ValueError(f"search state of version {state.get('version')!r} is not readable")
        spec = SearchSpec(**{**state["spec"], "rungs": tuple(state["spec"]["rungs"])})
        searcher = cls(spec)
        searcher.num_created = state["created"]
        searcher.is_finished = state["finished"]
        searcher.finish_reason = state["finish_reason"]
        searcher._again = list(state.get("again", ()))
        # Sorted, because the database may hand the keys back in any order.
        for no in sorted(state["live"], key=int):
            searcher._live[int(no)] = _Live(*state["live"][no])
        for rung, entries in enumerate(state["rungs"]):
            for no, value, goes_on in entries:
                entry = RungEntry(no, _decode(value), goes_on)
                searcher.rungs[rung].append(entry)
                searcher._ladders[rung].add(score(entry.value, spec.goal), no)
        return searcher

    def _judge(self, event: Validated, trial: _Live) -> list[Action]:
        if trial.is_stopping:
            return []
        # A report that jumps over rungs is entered into each of them, in order.
        while (
            trial.next_rung < len(self.rungs)
            and event.units >= self.spec.rungs[trial.next_rung] - _EPSILON
        ):
            rung = trial.next_rung
            goes_on = self._enter(rung, event.trial_no, event.value)
            trial.next_rung += 1
            if goes_on is False:
                trial.is_stopping = True
                return [StopTrial(no=event.trial_no, reason=self._why(rung, event.value))]
        limit = self.spec.max_units
        if limit is not None and event.units > limit + _EPSILON:
            trial.is_stopping = True
            reason = f"trained past the search's max_length of {limit} {self.spec.unit}"
            return [StopTrial(no=event.trial_no, reason=reason)]
        return []

    def _enter(self, rung: int, trial_no: int, value: float | None) -> bool | None:
        """Put a trial on a rung; whether it goes on (None: nothing to decide)."""
        ladder = self._ladders[rung]
        rank = ladder.add(score(value, self.spec.goal), trial_no)
        goes_on: bool | None = None
        if value is not None and rung + 1 < len(self.rungs):
            goes_on = math.isfinite(value) and rank < quota(len(ladder), self.spec.divisor)
        self.rungs[rung].append(RungEntry(trial_no, value, goes_on))
        return goes_on

    def _why(self, rung: int, value: float) -> str:
        where = f"rung {rung + 1} of {len(self.rungs)} ({self.spec.rungs[rung]} {self.spec.unit})"
        if not math.isfinite(value):
            return f"{self.spec.metric} was {encode_number(value)} at {where}"
        seen = len(self.rungs[rung])
        kept = quota(seen, self.spec.divisor)
        return (
            f"{self.spec.metric} of {value:.6g} at {where} was not among the best {kept} of {seen}"
        )

    def _go_on(self) -> list[Action]:
        actions: list[Action] = []
        while self._again and len(self._live) < self.spec.concurrent:
            no = self._again.pop(0)
            self._live[no] = _Live(next_rung=self._rungs_reached(no))
            actions.append(ContinueTrial(no=no, reason=f"trial {no} goes on"))
        while self.num_created < self.spec.trials and len(self._live) < self.spec.concurrent:
            self.num_created += 1
            no = self.num_created
            self._live[no] = _Live()
            actions.append(
                CreateTrial(
                    no=no,
                    hparams=self._hparams(no),
                    seed=sampling.trial_seed(self.spec.seed, no),
                    max_units=self.spec.max_units,
                    reason=f"trial {no} of {self.spec.trials}",
                )
            )
        if not self._live:
            actions.append(self._finish(f"all {self.spec.trials} trials have ended"))
        return actions

    def _rungs_reached(self, no: int) -> int:
        """How many rungs a trial has been judged at, from the first one on."""
        reached = 0
        for entries in self.rungs:
            if not any(e.trial_no == no and e.value is not None for e in entries):
                break
            reached += 1
        return reached

    def _finish(self, reason: str) -> Finish:
        self.is_finished = True
        self.finish_reason = reason
        return Finish(reason=reason)

    def _hparams(self, no: int) -> dict[str, Any]:
        if self.spec.method == "grid":
            return sampling.grid_point(self._parameters, no - 1)
        return sampling.sample(self._parameters, seed=self.spec.seed, trial_no=no)


def _encode(value: float | None) -> Number | None:
    return None if value is None else encode_number(value)


def _decode(value: Number | None) -> float | None:
    return None if value is None else decode_number(value)
