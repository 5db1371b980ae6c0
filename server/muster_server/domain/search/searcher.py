"""The searcher: which trials to create, pause, send on and stop, from one event after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from muster.wire import decode_number, encode_number

from . import sampling
from .ends import Ends
from .events import (
    Action,
    Closed,
    ContinueTrial,
    CreateTrial,
    Enqueued,
    Event,
    Finish,
    Limited,
    PauseTrial,
    Promoted,
    Rested,
    ResumeTrial,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
    Warmed,
)
from .medians import Curve
from .population import Clone, Population
from .promoting import Waiting
from .proposals import History, Proposer
from .renewing import Renewal
from .rungs import score
from .spec import SearchSpec
from .standings import EPSILON, RungEntry, Standings, curve_from_json, curve_to_json

STATE_VERSION = 1


@dataclass
class _Live:
    next_rung: int = 0
    """Counted through all brackets; the end of its bracket when it has passed them all."""
    is_stopping: bool = False
    end: int = 0
    """The first rung after those of its bracket."""
    curve: Curve = field(default_factory=Curve)
    """median alone."""


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
        self.standings = Standings(spec)
        self._live: dict[int, _Live] = {}
        self._again: list[int] = []
        """Ended trials that are to go on as soon as there is room for them."""
        self._waiting = Waiting(spec, self.standings.ladders)
        self._held: dict[int, tuple[float, float]] = {}
        """(units, value) that a trial reported on its way from training to waiting."""
        self._enqueued: list[tuple[dict[str, Any], str | None]] = []
        """(hyperparameters, what who asked calls them) of points that were not tried yet."""
        self._ends = Ends()
        self._history = History()
        self._proposer = Proposer(spec)
        self._population = Population()
        self._renewal = Renewal(self._population, self.standings, self._waiting)

    @property
    def num_live(self) -> int:
        return len(self._live)

    @property
    def num_enqueued(self) -> int:
        """Points of users that have not been tried."""
        return len(self._enqueued)

    @property
    def expects_points(self) -> bool:
        """Whether its next trial is one that somebody outside has yet to ask for."""
        return (
            self.spec.sampler == "external"
            and not self._enqueued
            and self.num_created < self.spec.trials
        )

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> frozenset[int]:
        """Trials that are paused at a rung."""
        return frozenset(self._waiting.at)

    def apply(self, event: Event) -> list[Action]:
        """Take note of `event` and return what to do, in order."""
        if self.is_finished:
            return []
        match event:
            case Started():
                return self._go_on() if self.num_created == 0 else []
            case Limited():
                return self._limit(event)
            case Enqueued():
                return self._enqueue(event)
            case Warmed():
                return self._warm(event)
            case Closed():
                return self._limit(Limited(trials=self.num_created + len(self._enqueued)))
            case Promoted():
                return self._promote(event.trial_no)
            case Validated():
                if event.trial_no in self._waiting.at:
                    self._hold(event)
                    return self._count_value(event.value, event.trial_no)
                trial = self._live.get(event.trial_no)
                return [] if trial is None else self._judge(event, trial)
            case Rested():
                return self._rest(event)
            case TrialEnded():
                return self._end(event)

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
        self._use(spec)
        self.is_finished, self.finish_reason = False, ""
        self._ends.begin_anew()
        self._live.clear()
        self._again = sorted(set(trial_nos))
        if spec.rule == "population":
            # What was stopped for good while it rested is no member any more.
            for no in sorted(self._waiting.at.keys() - set(self._again)):
                self._waiting.forget(no)
        for no in self._again:
            if no in self._waiting.at:
                self._waiting.send_on(no)
        return self._go_on()

    @property
    def unfinished(self) -> frozenset[int]:
        """Trials whose end it has not heard of: after `close`, those that were stopped with it."""
        return frozenset({*self._live, *self._again, *self._waiting.at})

    @property
    def rungs(self) -> list[list[RungEntry]]:
        """Per rung, bracket after bracket, in order of arrival."""
        return self.standings.rungs

    def cutoff(self, rung: int) -> float | None:
        """The metric the next arrival at `rung` must reach to go on, None while any would do.

        stopping: what is decided at once. promotion, synchronous: the last value that may go on
        now. median: the median it is held against. Always None for the last rung of a bracket,
        where nothing is decided.
        """
        return self.standings.cutoff(rung, kept=self._waiting.kept(rung))

    def preview(self, limit: int) -> list[dict[str, Any]]:
        """Hyperparameters of the first `limit` trials, exactly as they will be created.

        A model-based sampler learns from results: of its trials those that are created before the
        first result are shown.
        """
        found = [hparams for hparams, _ in self._enqueued][:limit]
        if self.spec.sampler == "external":
            return found  # nobody knows the others yet
        searcher = Searcher(self.spec)
        searcher._history = History.from_json(self._history.to_json())
        if self._proposer.learns:
            limit = min(limit, self.spec.concurrent)
            for at, point in enumerate(found, start=1):
                searcher._history.add(at, point)
        for no in range(len(found) + 1, min(limit, self._num_members) + 1):
            hparams = self._proposer.propose(no, searcher._history)
            if hparams is None:
                break
            searcher._history.add(no, hparams)
            found.append(hparams)
        return found

    def state(self) -> dict[str, Any]:
        """Everything, as JSON."""
        return {
            "version": STATE_VERSION,
            "spec": self.spec.to_json(),
            "created": self.num_created,
            "again": list(self._again),
            "live": {
                str(no): [t.next_rung, t.is_stopping, t.end, *curve_to_json(t.curve)]
                for no, t in self._live.items()
            },
            **self.standings.to_json(),
            "waiting": {str(no): rung for no, rung in self._waiting.at.items()},
            "held": {str(no): [u, encode_number(v)] for no, (u, v) in self._held.items()},
            "sent_on": list(self._waiting.sent_on),
            "left": list(self._waiting.left),
            "closed": list(self._waiting.closed),
            "promoted": list(self._waiting.promoted),
            "enqueued": [hparams for hparams, _ in self._enqueued],
            "points": [point for _, point in self._enqueued],
            **self._ends.to_json(),
            "history": self._history.to_json() if self._proposer.learns else None,
            "population": self._population.to_json() if self.spec.explore else None,
            "finished": self.is_finished,
            "finish_reason": self.finish_reason,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Searcher:
        if state.get("version") != STATE_VERSION:
            raise ValueError(f"search state of version {state.get('version')!r} is not readable")
        spec = SearchSpec.from_json(state["spec"])
        searcher = cls(spec)
        searcher.num_created = state["created"]
        searcher.is_finished = state["finished"]
        searcher.finish_reason = state["finish_reason"]
        searcher._again = list(state.get("again", ()))
        # Sorted, because the database may hand the keys back in any order.
        for no in sorted(state["live"], key=int):
            next_rung, is_stopping, *rest = state["live"][no]
            end = rest[0] if rest else len(spec.rungs)
            curve = curve_from_json(rest[1:])
            searcher._live[int(no)] = _Live(next_rung, is_stopping, end, curve)
        searcher.standings.load(state, num_created=searcher.num_created)
        for no in sorted(state.get("waiting", ()), key=int):
            rung = state["waiting"][no]
            value = searcher.standings.value(rung, int(no))
            searcher._waiting.add(int(no), rung, score(value, spec.goal))
        for no, (units, value) in state.get("held", {}).items():
            searcher._held[int(no)] = (units, decode_number(value))
        if "sent_on" in state:
            searcher._waiting.sent_on = list(state["sent_on"])
            searcher._waiting.left = list(state["left"])
            searcher._waiting.closed = list(state["closed"])
            searcher._waiting.promoted = list(state.get("promoted", ()))
        enqueued = state.get("enqueued", ())
        names = state.get("points") or [None] * len(enqueued)
        searcher._enqueued = list(zip(enqueued, names, strict=True))
        searcher._ends.load(state)
        if state.get("history") is not None:
            searcher._history = History.from_json(state["history"])
        if state.get("population") is not None:
            searcher._population.load(state["population"])
        return searcher

    # ------------------------------------------------------------ reports

    def _judge(self, event: Validated, trial: _Live) -> list[Action]:
        if trial.is_stopping:
            return []
        no = event.trial_no
        over = self._count_value(event.value, no)
        if over:
            return over
        # A report that jumps over rungs is entered into each of them, in order.
        while (
            trial.next_rung < trial.end
            and event.units >= self.standings.units[trial.next_rung] - EPSILON
        ):
            rung = trial.next_rung
            if self.spec.rule == "median":
                trial.curve.add(score(event.value, self.spec.goal))
            goes_on = self._enter(rung, no, event.value, trial.curve)
            trial.next_rung += 1
            if goes_on is False:
                trial.is_stopping = True
                stop = StopTrial(no=no, reason=self._why(rung, event.value))
                return [stop, *self._close_rungs()]
            if goes_on is None and not self.standings.is_last(rung):
                return self._wait(no, rung, event)
        limit = self.spec.max_units
        if limit is not None and event.units > limit + EPSILON:
            trial.is_stopping = True
            reason = f"trained past the search's max_length of {limit} {self.spec.unit}"
            return [StopTrial(no=no, reason=reason)]
        return self._close_rungs()

    def _wait(self, no: int, rung: int, event: Validated) -> list[Action]:
        """A trial has reached a rung at which it waits, unless it is the next to go on anyway."""
        del self._live[no]
        self._waiting.add(no, rung, score(event.value, self.spec.goal))
        self._hold(event)
        actions = [*self._close_rungs(), *self._go_on()]
        if no in self._live:
            # Sent on at once: it never stopped training.
            return [a for a in actions if not (isinstance(a, ResumeTrial) and a.no == no)]
        if any(isinstance(a, StopTrial) and a.no == no for a in actions):
            return actions
        where = self.standings.where(rung)
        return [PauseTrial(no=no, reason=f"waits at {where} to go on or not"), *actions]

    def _hold(self, event: Validated) -> None:
        """Keep what a waiting trial has reported for the rung after its own; the first counts."""
        following = self.standings.units[self._waiting.at[event.trial_no] + 1]
        if event.units >= following - EPSILON:
            self._held.setdefault(event.trial_no, (event.units, event.value))

    def _enter(
        self, rung: int, trial_no: int, value: float | None, curve: Curve | None = None
    ) -> bool | None:
        goes_on = self.standings.enter(rung, trial_no, value, curve)
        if value is not None and self._proposer.learns:
            self._history.report(trial_no, self.standings.units[rung], value)
        return goes_on

    def _why(self, rung: int, value: float) -> str:
        return self.standings.why(rung, value, kept=self._waiting.kept(rung))

    def _count_value(self, value: float, no: int) -> list[Action]:
        """Keep the best value; end the search where it is as good as wanted."""
        why = self._ends.reported(self.spec, no, value)
        return [] if why is None else self._stop_all(why)

    # ------------------------------------------------------------ ends

    def _end(self, event: TrialEnded) -> list[Action]:
        no = event.trial_no
        self._held.pop(no, None) if no in self._live else None
        if no in self._waiting.at:
            self._waiting.forget(no)
            self._held.pop(no, None)
            self._population.rested.pop(no, None)
        elif no in self._live:
            trial = self._live.pop(no)
            was_judged = trial.is_stopping or trial.next_rung == trial.end
            if not was_judged and event.outcome == "failed":
                self._enter(trial.next_rung, no, None)
            elif not was_judged and self._waiting.left:
                self._waiting.left[trial.next_rung] += 1
        else:
            return []
        if self._proposer.learns:
            self._history.end(no, event.value, event.outcome, event.values)
        over = self._ends.ended(self.spec, event)
        if over is not None:
            return self._stop_all(over)
        return [*self._close_rungs(), *self._go_on()]

    def _close_rungs(self) -> list[Action]:
        """synchronous: stop those who are not among the best once everybody is there."""
        if self.spec.rule == "population":
            return self._renew()
        if self.spec.rule != "synchronous":
            return []
        actions: list[Action] = []
        expected = [bracket.trials for bracket in self.spec.brackets]
        if self.spec.sampler == "external" and self.num_created >= self.spec.trials:
            expected = self.standings.in_bracket  # closed before all of them had come
        for no, rung in self._waiting.close_full(expected):
            self.standings.settle(rung, no, goes_on=False)
            self._held.pop(no, None)
            value = self.standings.value(rung, no)
            actions.append(StopTrial(no=no, reason=self._why(rung, value)))
        return actions

    # ------------------------------------------------------------ population

    def _rest(self, event: Rested) -> list[Action]:
        if event.trial_no not in self._waiting.at or self.spec.rule != "population":
            return []
        self._population.rested[event.trial_no] = event.checkpoint_id
        return [*self._renew(), *self._go_on()]

    @property
    def _num_members(self) -> int:
        return self.spec.explore.size if self.spec.explore else self.spec.trials

    def _renew(self) -> list[Action]:
        """Replace the worst by clones of the best, once everybody rests at the rung."""
        on_their_way = self._live or self._again or self.num_created < self._num_members
        if on_their_way or self._renewal.is_gathering:
            return []
        return self._renewal.close_rung(self._held, next_no=self.num_created + 1)

    def _clone(self, clone: Clone) -> CreateTrial:
        no = self.num_created = self.num_created + 1
        hparams = self._proposer.perturb(self._population.hparams[clone.parent_no], no)
        self._live[no] = self._new_live(0)
        self._live[no].next_rung = clone.rung + 1
        return self._renewal.create(clone, no, hparams)

    # ------------------------------------------------------------ users

    def _limit(self, event: Limited) -> list[Action]:
        trials = self.spec.trials if event.trials is None else event.trials
        concurrent = self.spec.concurrent if event.concurrent is None else event.concurrent
        changes: dict[str, Any] = {"trials": max(trials, self.num_created)}
        self._use(
            SearchSpec.from_json({**self.spec.to_json(), **changes, "concurrent": concurrent})
        )
        return self._go_on()

    def _warm(self, event: Warmed) -> list[Action]:
        if self.num_created:
            return []
        self._enqueued += event.first
        if self._proposer.learns:
            for at, (hparams, value) in enumerate(event.known, start=1):
                # Numbers that no trial of this search has.
                self._history.add(-at, hparams)
                if self.spec.max_units is not None:
                    self._history.report(-at, self.spec.max_units, value)
                self._history.end(-at, value, "completed")
        return []

    def _enqueue(self, event: Enqueued) -> list[Action]:
        self._enqueued.append((event.hparams, event.point))
        if self.num_created + len(self._enqueued) > self.spec.trials:
            # Asked for beyond what was planned: it is one more, and takes nobody's place.
            return self._limit(Limited(trials=self.num_created + len(self._enqueued)))
        return self._go_on()

    def _promote(self, no: int) -> list[Action]:
        if no not in self._waiting.at or no in self._waiting.promoted:
            return []
        self._waiting.promoted.append(no)
        return self._go_on()

    def _use(self, spec: SearchSpec) -> None:
        self.spec = self._waiting.spec = self.standings.spec = spec
        self._proposer = Proposer(spec)

    # ------------------------------------------------------------ going on

    def _go_on(self) -> list[Action]:
        actions: list[Action] = []
        while self._again and len(self._live) < self.spec.concurrent:
            no = self._again.pop(0)
            bracket = self.standings.bracket_of(no)
            self._live[no] = self._new_live(bracket)
            self._live[no].next_rung = self.standings.rungs_reached(no, bracket)
            actions.append(ContinueTrial(no=no, reason=f"trial {no} goes on"))
        while len(self._live) < self.spec.concurrent:
            # Clones first: their parents rest until then, so that what they start from stays.
            if self._population.clones:
                actions.append(self._clone(self._population.clones.pop(0)))
                continue
            found = self._waiting.next()
            if found is not None:
                no, rung = found
                kept, seen = self._waiting.kept(rung), len(self.standings.ladders[rung])
                reason = f"among the best {kept} of {seen} at {self.standings.where(rung)}"
                if no in self._waiting.promoted:
                    reason = f"a user sent it on from {self.standings.where(rung)}"
                actions += self._send_on(no, reason)
            elif self.expects_points:
                break
            elif self.num_created < self._num_members:
                made = self._create()
                actions.append(made)
                if isinstance(made, Finish):
                    return actions
            elif self._waiting.at and self.spec.rule == "population":
                return actions  # until everybody rests
            elif not self._live and (last := self._waiting.last_resort()) is not None:
                no, rung = last
                reason = (
                    f"the best at {self.standings.where(rung)}, where nobody has trained to the end"
                )
                actions += self._send_on(no, reason)
            else:
                break
        if not self._live and not self.expects_points:
            for no in sorted(self._waiting.at):
                rung = self._waiting.at[no]
                self.standings.settle(rung, no, goes_on=False)
                reason = f"not among the best at {self.standings.where(rung)} when the search ended"
                actions.append(StopTrial(no=no, reason=reason))
            actions.append(self._finish(f"all {self.num_created} trials have ended"))
        return actions

    def _create(self) -> CreateTrial | Finish:
        no = self.num_created + 1
        reason = f"trial {no} of {self._num_members}"
        hparams: dict[str, Any] | None
        point: str | None = None
        if self._enqueued:
            hparams, point = self._enqueued.pop(0)
            reason += ", enqueued by a user" if point is None else f", point {point}"
        else:
            hparams = self._proposer.propose(no, self._history)
        if hparams is None:
            return self._finish("no point was found that fulfils the constraints")
        self.num_created = no
        bracket = self.standings.next_bracket()
        if bracket is not None:
            self.standings.in_bracket[bracket] += 1
        self._live[no] = self._new_live(bracket)
        if self._proposer.learns:
            self._history.add(no, hparams)
        if self.spec.rule == "population":
            self._population.hparams[no] = hparams
        return CreateTrial(
            no=no,
            hparams=hparams,
            seed=sampling.trial_seed(self.spec.seed, no),
            max_units=self.spec.max_units,
            reason=reason,
            point=point,
        )

    def _new_live(self, bracket: int | None) -> _Live:
        first, end = self.standings.span(bracket)
        return _Live(next_rung=first, end=end)

    def _send_on(self, no: int, reason: str) -> list[Action]:
        """Let a trial leave the rung it waits at; several, where it has trained on meanwhile."""
        rung = self._waiting.send_on(no)
        self._population.rested.pop(no, None)
        self.standings.settle(rung, no, goes_on=True)
        _, end = self.standings.span(self.standings.place(rung)[0])
        self._live[no] = _Live(next_rung=rung + 1, end=end)
        units, value = self._held.pop(no, (0.0, math.nan))
        while rung + 1 < end and units >= self.standings.units[rung + 1] - EPSILON:
            rung += 1
            goes_on = self._enter(rung, no, value)
            self._live[no].next_rung = rung + 1
            if self.standings.is_last(rung):
                break
            del self._live[no]
            if goes_on is False:
                return [StopTrial(no=no, reason=self._why(rung, value))]
            # It is there already: paused or pausing, it stays so.
            self._waiting.add(no, rung, score(value, self.spec.goal))
            self._held[no] = (units, value)
            return []
        return [ResumeTrial(no=no, reason=reason)]

    def _stop_all(self, reason: str) -> list[Action]:
        """End the search and everything of it that has not ended."""
        numbers = sorted(
            {*(no for no, t in self._live.items() if not t.is_stopping), *self._waiting.at}
        )
        stops = [StopTrial(no=no, reason=f"the search is over: {reason}") for no in numbers]
        return [*stops, self._finish(reason)]

    def _finish(self, reason: str) -> Finish:
        self.is_finished = True
        self.finish_reason = reason
        return Finish(reason=reason)
