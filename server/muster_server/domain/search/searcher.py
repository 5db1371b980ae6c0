"""The searcher: which trials to create, pause, send on and stop, from one event after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import sampling
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
    Roomed,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
    Warmed,
)
from .median_stopping import ValueCurve
from .pbt import Renewal
from .population import Clone
from .proposals import Proposer, SearchHistory
from .ranking import EPSILON, RungEntry
from .rungs import score
from .spec import SearchSpec
from .state import STATE_VERSION, Live, SearchState


def initial_state(spec: SearchSpec) -> dict[str, Any]:
    """Return the state before the first event (`Started`)."""
    return Searcher(spec).state()


def on_event(state: dict[str, Any], event: Event) -> tuple[dict[str, Any], list[Action]]:
    """Return the actions that follow from an event, and the new state; `state` itself is not
    changed."""
    searcher = Searcher.from_state(state)
    actions = searcher.apply(event)
    return searcher.state(), actions


class Searcher(SearchState):
    """A search in memory: for many events in a row, where one JSON round trip each would cost.

    Not thread-safe. `state()` after any number of `apply()` is the same as calling `on_event` for
    each of them.
    """

    def __init__(self, spec: SearchSpec) -> None:
        super().__init__(spec)
        self._proposer = Proposer(spec)
        self.without_model = ""
        """Why points are drawn at random instead of by the model of its sampler; "" if they are not. Not
        part of its state."""
        self._renewal = Renewal(self.population, self.standings, self.trials_waiting)

    @property
    def num_live(self) -> int:
        return len(self.live)

    @property
    def num_enqueued(self) -> int:
        """Points of users that have not been tried."""
        return len(self.enqueued)

    @property
    def expects_points(self) -> bool:
        """Whether its next trial is one that somebody outside has yet to ask for."""
        return (
            self.spec.sampler == "external"
            and not self.enqueued
            and self.num_created < self.spec.trials
        )

    @property
    def num_waiting(self) -> int:
        return len(self.trials_waiting)

    @property
    def waiting(self) -> frozenset[int]:
        """Trials that are paused at a rung."""
        return frozenset(self.trials_waiting.at)

    def apply(self, event: Event) -> list[Action]:
        """Take note of `event` and return what to do, in order."""
        if self.is_finished:
            return []
        match event:
            case Started():
                return self._go_on() if self.num_created == 0 else []
            case Limited():
                return self._limit(event)
            case Roomed():
                return self._follow(event.room)
            case Enqueued():
                return self._enqueue(event)
            case Warmed():
                return self._warm(event)
            case Closed():
                self.is_closed = True
                return self._limit(Limited(trials=self.num_created + len(self.enqueued)))
            case Promoted():
                return self._promote(event.trial_no)
            case Validated():
                if event.trial_no in self.trials_waiting.at:
                    self._hold(event)
                    return self._count_value(event.value, event.trial_no)
                trial = self.live.get(event.trial_no)
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
        self.ends.begin_anew()
        self.again = sorted(set(trial_nos))
        # Whatever else there was has ended for good, perhaps without the search having heard of it.
        for no in self.live.keys() - set(self.again):
            self._leave_out(self.live[no])
        for no in self.trials_waiting.at.keys() - set(self.again):
            self.trials_waiting.forget(no)
        self.live.clear()
        self.held.clear()
        self.population.rested.clear()
        for no in self.again:
            if no in self.trials_waiting.at:
                self.trials_waiting.send_on(no)
        return [*self._close_rungs(), *self._go_on()]

    @property
    def unfinished(self) -> frozenset[int]:
        """Trials whose end it has not heard of: after `close`, those that were stopped with it."""
        return frozenset({*self.live, *self.again, *self.trials_waiting.at})

    @property
    def rungs(self) -> list[list[RungEntry]]:
        """Per rung, bracket after bracket, in order of arrival."""
        return self.standings.rungs

    def cutoff(self, rung: int) -> float | None:
        """Return the metric the next arrival at `rung` must reach to go on, None while any would
        do.

        stopping: what is decided at once. promotion, synchronous: the last value that may go on
        now. median: the median it is held against. Always None for the last rung of a bracket,
        where nothing is decided.
        """
        return self.standings.cutoff(rung, kept=self.trials_waiting.kept(rung))

    def preview(self, limit: int) -> list[dict[str, Any]]:
        """Hyperparameters of the first `limit` trials, exactly as they will be created.

        A model-based sampler learns from results: of its trials those that are created before the
        first result are shown.
        """
        found = [hparams for hparams, _ in self.enqueued][:limit]
        if self.spec.sampler == "external":
            return found  # the others are not known yet
        searcher = Searcher(self.spec)
        searcher.history = SearchHistory.from_json(self.history.to_json())
        if self.spec.learns:
            limit = min(limit, self.at_once)
            for at, point in enumerate(found, start=1):
                searcher.history.add(at, point)
        for no in range(len(found) + 1, min(limit, self._num_members) + 1):
            hparams = self._proposer.propose(no, searcher.history)
            if hparams is None:
                break
            searcher.history.add(no, hparams)
            found.append(hparams)
        return found

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Searcher:
        """Return the searcher behind `state()`. Raises ValueError for what another version
        stored."""
        if state.get("version") != STATE_VERSION:
            raise ValueError(f"search state of version {state.get('version')!r} is not readable")
        searcher = cls(SearchSpec.from_json(state["spec"]))
        searcher.load(state)
        return searcher

    # ------------------------------------------------------------ reports

    def _judge(self, event: Validated, trial: Live) -> list[Action]:
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
        del self.live[no]
        self.trials_waiting.add(no, rung, score(event.value, self.spec.goal))
        self._hold(event)
        actions = [*self._close_rungs(), *self._go_on()]
        if no in self.live:
            # Promoted at once: it never stopped training.
            return [a for a in actions if not (isinstance(a, ResumeTrial) and a.no == no)]
        if any(isinstance(a, StopTrial) and a.no == no for a in actions):
            return actions
        where = self.standings.where(rung)
        return [PauseTrial(no=no, reason=f"waits at {where} to go on or not"), *actions]

    def _hold(self, event: Validated) -> None:
        """Keep what a waiting trial has reported for the rungs after its own."""
        following = self.standings.units[self.trials_waiting.at[event.trial_no] + 1]
        if event.units >= following - EPSILON:
            self.held.setdefault(event.trial_no, []).append((event.units, event.value))

    def _enter(
        self, rung: int, trial_no: int, value: float | None, curve: ValueCurve | None = None
    ) -> bool | None:
        goes_on = self.standings.enter(rung, trial_no, value, curve)
        if value is not None and self.spec.learns:
            self.history.report(trial_no, self.standings.units[rung], value)
        return goes_on

    def _why(self, rung: int, value: float) -> str:
        return self.standings.why(rung, value, kept=self.trials_waiting.kept(rung))

    def _count_value(self, value: float, no: int) -> list[Action]:
        """Keep the best value; end the search where it is as good as wanted."""
        why = self.ends.reported(self.spec, no, value)
        return [] if why is None else self._stop_all(why)

    # ------------------------------------------------------------ ends

    def _end(self, event: TrialEnded) -> list[Action]:
        no = event.trial_no
        self.held.pop(no, None) if no in self.live else None
        if no in self.trials_waiting.at:
            self.trials_waiting.forget(no)
            self.held.pop(no, None)
            self.population.rested.pop(no, None)
        elif no in self.live:
            trial = self.live.pop(no)
            if event.outcome == "invalid":
                self._replace(trial)
            if event.outcome == "failed" and trial.is_on_its_way:
                self._enter(trial.next_rung, no, None)
            else:
                self._leave_out(trial)
        else:
            return []
        if self.spec.learns:
            if event.outcome == "invalid":
                self.history.end(no, None, "failed")
            else:
                self.history.end(no, event.value, event.outcome, event.values)
        over = self.ends.ended(self.spec, event)
        if over is not None:
            return self._stop_all(over)
        return [*self._close_rungs(), *self._go_on()]

    def _leave_out(self, trial: Live) -> None:
        """Expect a trial that has ended at no rung any more."""
        if trial.is_on_its_way:
            self.trials_waiting.left[trial.next_rung] += 1

    def _replace(self, trial: Live) -> None:
        """Plan one more trial for one whose hyperparameters cannot work, while that is allowed."""
        spec = self.spec
        if not spec.replaces or self.is_closed or self.num_replaced >= spec.max_invalid:
            return
        self.num_replaced += 1
        if spec.brackets:
            self.standings.in_bracket[self.standings.place(trial.end - 1)[0]] -= 1
        self._use(SearchSpec.from_json({**spec.to_json(), "trials": spec.trials + 1}))

    def _close_rungs(self) -> list[Action]:
        """Stop the trials that are not among the best once every trial has arrived
        (`synchronous`)."""
        if self.spec.rule != "synchronous":
            return []
        actions: list[Action] = []
        expected = [bracket.trials for bracket in self.spec.brackets]
        if self.spec.sampler == "external" and self.num_created >= self.spec.trials:
            expected = self.standings.in_bracket  # closed before all trials had arrived
        for no, rung in self.trials_waiting.close_full(expected):
            self.standings.settle(rung, no, goes_on=False)
            self.held.pop(no, None)
            value = self.standings.value(rung, no)
            actions.append(StopTrial(no=no, reason=self._why(rung, value)))
        return actions

    # ------------------------------------------------------------ population

    def _rest(self, event: Rested) -> list[Action]:
        if event.trial_no not in self.trials_waiting.at or self.spec.rule != "population":
            return []
        self.population.rested[event.trial_no] = event.checkpoint_id
        return self._go_on()

    @property
    def _num_members(self) -> int:
        return self.spec.explore.size if self.spec.explore else self.spec.trials

    def _clone(self, clone: Clone) -> CreateTrial:
        no = self.num_created = self.num_created + 1
        hparams = self._proposer.perturb(self.population.hparams[clone.parent_no], no)
        self.live[no] = self._new_live(0)
        self.live[no].next_rung = clone.rung + 1
        return self._renewal.create(clone, no, hparams)

    # ------------------------------------------------------------ users

    def _limit(self, event: Limited) -> list[Action]:
        if event.trials is not None and event.trials > self.spec.trials:
            self.is_closed = False
        trials = self.spec.trials if event.trials is None else event.trials
        concurrent = event.concurrent or (None if event.follows else self.spec.concurrent)
        changes: dict[str, Any] = {"trials": max(trials, self.num_created)}
        self._use(
            SearchSpec.from_json({**self.spec.to_json(), **changes, "concurrent": concurrent})
        )
        return self._go_on()

    def _follow(self, room: int) -> list[Action]:
        """Room that has shrunk ends nobody: trials end, and fewer take their place."""
        before, self.room = self.at_once, room
        return self._go_on() if self.num_created and self.at_once > before else []

    def _warm(self, event: Warmed) -> list[Action]:
        if self.num_created:
            return []
        self.enqueued += event.first
        if self.spec.learns:
            for at, (hparams, value) in enumerate(event.known, start=1):
                # Numbers that do not belong to any trial of this search.
                self.history.add(-at, hparams)
                if self.spec.max_units is not None:
                    self.history.report(-at, self.spec.max_units, value)
                self.history.end(-at, value, "completed")
        return []

    def _enqueue(self, event: Enqueued) -> list[Action]:
        self.enqueued.append((event.hparams, event.point))
        if self.num_created + len(self.enqueued) > self.spec.trials:
            # Requested beyond the plan: an additional trial that replaces none.
            return self._limit(Limited(trials=self.num_created + len(self.enqueued)))
        return self._go_on()

    def _promote(self, no: int) -> list[Action]:
        if no not in self.trials_waiting.at or no in self.trials_waiting.promoted:
            return []
        self.trials_waiting.promoted.append(no)
        return self._go_on()

    def _use(self, spec: SearchSpec) -> None:
        self.spec = self.trials_waiting.spec = self.standings.spec = spec
        self._proposer = Proposer(spec)

    # ------------------------------------------------------------ going on

    def _go_on(self) -> list[Action]:
        actions: list[Action] = []
        while self.again and len(self.live) < self.at_once:
            no = self.again.pop(0)
            bracket = self.standings.bracket_of(no)
            self.live[no] = self._new_live(bracket)
            self.live[no].next_rung = self.standings.rungs_reached(no, bracket)
            actions.append(ContinueTrial(no=no, reason=f"trial {no} goes on"))
        while len(self.live) < self.at_once:
            # Clones first: their parents rest until then, so that what they start from stays.
            if self.population.clones:
                actions.append(self._clone(self.population.clones.pop(0)))
                continue
            found = self.trials_waiting.next()
            if found is not None:
                no, rung = found
                kept, seen = self.trials_waiting.kept(rung), len(self.standings.ladders[rung])
                reason = f"among the best {kept} of {seen} at {self.standings.where(rung)}"
                if no in self.trials_waiting.promoted:
                    reason = f"a user sent it on from {self.standings.where(rung)}"
                actions += self._send_on(no, reason)
            elif self.expects_points:
                break
            elif self.num_created < self._num_members:
                made = self._create()
                actions.append(made)
                if isinstance(made, Finish):
                    return actions
            elif self.trials_waiting.at and self.spec.rule == "population":
                if self.live or self._renewal.is_gathering:
                    return actions  # until every member rests
                actions += self._renewal.close_rung(self.held, next_no=self.num_created + 1)
            elif not self.live and (last := self.trials_waiting.last_resort()) is not None:
                no, rung = last
                reason = (
                    f"the best at {self.standings.where(rung)}, where nobody has trained to the end"
                )
                actions += self._send_on(no, reason)
            else:
                break
        if not self.live and not self.expects_points:
            for no in sorted(self.trials_waiting.at):
                rung = self.trials_waiting.at[no]
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
        if self.enqueued:
            hparams, point = self.enqueued.pop(0)
            reason += ", enqueued by a user" if point is None else f", point {point}"
        else:
            hparams = self._proposer.propose(no, self.history, has_model=not self.without_model)
            if self.without_model and self.spec.learns:
                reason += f", drawn at random: {self.without_model}"
        if hparams is None:
            return self._finish("no point was found that fulfils the constraints")
        self.num_created = no
        bracket = self.standings.next_bracket()
        if bracket is not None:
            self.standings.in_bracket[bracket] += 1
        self.live[no] = self._new_live(bracket)
        if self.spec.learns:
            self.history.add(no, hparams)
        if self.spec.rule == "population":
            self.population.hparams[no] = hparams
        return CreateTrial(
            no=no,
            hparams=hparams,
            seed=sampling.trial_seed(self.spec.seed, no),
            max_units=self.spec.max_units,
            reason=reason,
            point=point,
        )

    def _new_live(self, bracket: int | None) -> Live:
        first, end = self.standings.span(bracket)
        return Live(next_rung=first, end=end)

    def _send_on(self, no: int, reason: str) -> list[Action]:
        """Let a trial leave the rung it waits at, for the next one if it has trained that far
        meanwhile."""
        rung = self.trials_waiting.send_on(no)
        self.standings.settle(rung, no, goes_on=True)
        _, end = self.standings.span(self.standings.place(rung)[0])
        reached = self.standings.units[rung + 1] - EPSILON
        held = [(units, value) for units, value in self.held.pop(no, ()) if units >= reached]
        if held:
            rung += 1
            value = held[0][1]  # the first to reach it counts
            goes_on = self._enter(rung, no, value)
            if goes_on is False:
                self.population.rested.pop(no, None)
                return [StopTrial(no=no, reason=self._why(rung, value))]
            if not self.standings.is_last(rung):
                # Already there: whether resting or on its way to its rest, it stays so.
                self.trials_waiting.add(no, rung, score(value, self.spec.goal))
                self.held[no] = held
                return []
        self.population.rested.pop(no, None)
        self.live[no] = Live(next_rung=rung + 1, end=end)
        return [ResumeTrial(no=no, reason=reason)]

    def _stop_all(self, reason: str) -> list[Action]:
        """End the search and everything of it that has not ended."""
        numbers = sorted(
            {*(no for no, t in self.live.items() if not t.is_stopping), *self.trials_waiting.at}
        )
        stops = [StopTrial(no=no, reason=f"the search is over: {reason}") for no in numbers]
        return [*stops, self._finish(reason)]

    def _finish(self, reason: str) -> Finish:
        self.is_finished = True
        self.finish_reason = reason
        return Finish(reason=reason)
