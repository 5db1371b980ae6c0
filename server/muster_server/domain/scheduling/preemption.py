"""Preemption: choose whose slots a gang may have when it does not fit, with the least harm.

Only preemptible trials of strictly lower priority are asked, and only for a gang that then fits.
Nobody is asked while slots that are being given up will do: those count as coming free. On each
node, the trials asked are those that lose least: lower priority first, then elastic trials (which
go on with fewer slots), then the newest checkpoint or start. Of the nodes that would do, those with
the least harm are taken. Finally, every trial is spared without whose slots the gang still fits.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from muster_server.domain.messages import Message, Parameter
from muster_server.domain.scheduling.fitting import Shares, fit, node_counts
from muster_server.domain.scheduling.offers import Offer
from muster_server.domain.scheduling.resources import Request

from .decisions import Preempt, Resize
from .nodes import GroupNodes, Ints, NodeSection, fit_in, places_for
from .running import GroupRunning, RunningKey, victim_of
from .times import SlotTimes
from .views import QueuedTrial, RunningTrial

MAX_COMPARED = 64
"""Nodes on which the harm is worked out, at least: those that miss the fewest slots."""


class Harm(NamedTuple):
    """Sorts from least to most."""

    priority: int
    """The highest of those asked."""
    lost_slot_s: float
    """Work since their last checkpoints."""


NO_HARM = Harm(-1, 0.0)


class Preemption:
    """Who is asked for slots in one group in one pass."""

    def __init__(
        self, nodes: GroupNodes, running: GroupRunning, times: SlotTimes, *, now: dt.datetime
    ) -> None:
        self._nodes = nodes
        self._running = running
        self._times = times
        self._now = now
        self._asked: set[RunningKey] = set()
        self._below: dict[int, Ints] = {}
        """Priority → slots per node of those of lower priority that may be asked."""
        self._choices: dict[int, dict[tuple[int, int], tuple[Harm, list[RunningTrial]]]] = {}
        """Node → (slots, priority) → `_least_harm`: one search after the other asks the same."""

    def possible(self, priority: int) -> bool:
        """Return whether a trial of this priority could preempt anybody."""
        lowest = self._running.lowest_priority()
        return lowest is not None and lowest < priority

    def search(
        self, trial: QueuedTrial, *, most: int
    ) -> tuple[list[Preempt | Resize], Shares[int]] | None:
        """Return who gives up slots for `trial`, and where it then runs; None if nobody should.

        most: maximum number of trials to ask.
        """
        victims = self._choose(trial)
        if victims is None:
            return None
        with self._nodes.imagined():
            imagined = _Imagined(self._nodes, self._times)
            for victim in victims:
                imagined.free(victim)
            if imagined.fit(trial.request) is None:
                return None
            for victim in sorted(victims, key=victim_of, reverse=True):
                imagined.unfree(victim)
                if imagined.fit(trial.request) is None:
                    imagined.free(victim)
            asked = sorted(imagined.freed.values(), key=victim_of)
            if len(asked) > most:
                return None
            shares = imagined.fit(trial.request)
            assert shares is not None
            imagined.use(shares)
            asks = [_ask(victim, trial, imagined) for victim in asked]
        for victim in asked:
            self.note(victim)
        return asks, shares

    def _choose(self, trial: QueuedTrial) -> list[RunningTrial] | None:
        """Enough of those that may be asked, on the nodes where the harm is least."""
        soon = self._times.soon()
        below = self._slots_below(trial.priority)
        best: tuple[tuple[Harm, int], list[RunningTrial]] | None = None
        for section, request in places_for(trial.request, self._nodes):
            # Slots that come free go first to those they are promised to.
            could = np.minimum(
                soon[section.ordinals] + below[section.ordinals],
                self._times.room(section.ordinals),
            )
            for shares in self._divisions(request, trial.priority, section, could, soon):
                found: dict[RunningKey, RunningTrial] = {}
                for n, share in shares.items():
                    _, victims = self._least_harm(n, share - int(soon[n]), trial.priority)
                    found.update((victim.key, victim) for victim in victims)
                key = (self._harm(found.values()), len(shares))
                if best is None or key < best[0]:
                    best = (key, list(found.values()))
        return None if best is None else best[1]

    def _divisions(
        self, request: Request, priority: int, section: NodeSection, could: Ints, soon: Ints
    ) -> Iterator[Shares[int]]:
        """Yield the ways to divide the gang's least size, each on the nodes with the least harm."""
        is_even_possible = False
        for num_nodes in node_counts(request, request.least_slots):
            share = request.least_slots // num_nodes
            able = section.ordinals[could >= share]
            if len(able) < num_nodes:
                continue
            is_even_possible = True
            missing = np.maximum(share - soon[able], 0)
            nearest = able[np.lexsort((able, missing))][: max(MAX_COMPARED, 4 * num_nodes)]
            harms = sorted(
                (self._least_harm(n, share - int(soon[n]), priority)[0], n)
                for n in nearest.tolist()
            )
            yield dict.fromkeys((n for _, n in harms[:num_nodes]), share)
        if (request.uneven or request.members) and not is_even_possible:
            offer = Offer.of(dict(zip(section.ordinals.tolist(), could.tolist(), strict=True)))
            shares = fit(request, offer, at_most=request.least_slots)
            if shares is not None:
                yield shares

    def _least_harm(self, n: int, missing: int, priority: int) -> tuple[Harm, list[RunningTrial]]:
        """Return the trials on a node that hold `missing` slots there, those that lose least first,
        and the harm of asking them all."""
        if missing <= 0:
            return NO_HARM, []
        choices = self._choices.setdefault(n, {})
        choice = choices.get((missing, priority))
        if choice is None:
            chosen = self._choose_on(self._nodes[n].id, missing, priority)
            choice = choices[missing, priority] = self._harm(chosen), chosen
        return choice

    def _choose_on(self, node_id: str, missing: int, priority: int) -> list[RunningTrial]:
        chosen: list[RunningTrial] = []
        for trial in sorted(self._on_node(node_id, priority), key=victim_of):
            if missing <= 0:
                break
            chosen.append(trial)
            missing -= trial.shares[node_id]
        spare = -missing
        for trial in reversed(chosen.copy()):
            if trial.shares[node_id] <= spare:
                spare -= trial.shares[node_id]
                chosen.remove(trial)
        return chosen

    def _on_node(self, node_id: str, priority: int) -> Iterator[RunningTrial]:
        for trial in self._running.on_node.get(node_id, {}).values():
            if (
                trial.priority < priority
                and trial.preemptible
                and not trial.yielding
                and trial.key not in self._asked
            ):
                yield trial

    def _harm(self, trials: Iterable[RunningTrial]) -> Harm:
        harm = NO_HARM
        for trial in trials:
            lost = max(0.0, (self._now - trial.safe_at).total_seconds()) * trial.slots
            harm = Harm(max(harm.priority, trial.priority), harm.lost_slot_s + lost)
        return harm

    def _slots_below(self, priority: int) -> Ints:
        if priority not in self._below:
            trials = self._running.trials
            below = (trials[victim.key] for victim in self._running.below(priority))
            self._below[priority] = self._slots(t for t in below if t.key not in self._asked)
        return self._below[priority]

    def note(self, trial: RunningTrial) -> None:
        """Record that a trial is asked for its slots."""
        self._asked.add(trial.key)
        self._times.ask(trial)
        for node_id in trial.shares:
            self._choices.pop(self._nodes.ordinal.get(node_id, -1), None)
        for priority, slots in self._below.items():
            if trial.priority < priority:
                slots -= self._slots([trial])

    def _slots(self, trials: Iterable[RunningTrial]) -> Ints:
        """Return the number of slots that the trials hold on each node of the group."""
        ordinal = self._nodes.ordinal
        held = [
            (ordinal[node_id], num)
            for trial in trials
            for node_id, num in trial.shares.items()
            if node_id in ordinal
        ]
        slots: Ints = np.zeros(len(self._nodes), dtype=np.int64)
        if held:
            where, nums = np.array(held).T
            np.add.at(slots, where, nums)
        return slots


class _Imagined:
    """What is on offer if trials gave up their slots, and what is being given up came free."""

    def __init__(self, nodes: GroupNodes, times: SlotTimes) -> None:
        self.freed: dict[RunningKey, RunningTrial] = {}
        self._nodes = nodes
        self._soon = times.soon()
        self._more: Counter[int] = Counter()
        """Node → slots beside those that are free or being given up anyway."""
        for n in np.flatnonzero(np.maximum(self._soon, 0) != nodes.offers()).tolist():
            self._show(n)

    def free(self, trial: RunningTrial) -> None:
        self.freed[trial.key] = trial
        self._change(trial, 1)

    def unfree(self, trial: RunningTrial) -> None:
        del self.freed[trial.key]
        self._change(trial, -1)

    def fit(self, request: Request, *, at_most: int | None = None) -> Shares[int] | None:
        """Return where a gang of the least size (or of up to `at_most` slots) would fit; None if
        nowhere."""
        most = request.least_slots if at_most is None else at_most
        return fit_in(self._nodes, request, lambda section: section.offer, at_most=most)

    def use(self, shares: Shares[int]) -> None:
        for n, num in shares.items():
            self._more[n] -= num
            self._show(n)

    def _change(self, trial: RunningTrial, sign: int) -> None:
        for node_id, num in trial.shares.items():
            n = self._nodes.ordinal.get(node_id)
            if n is not None and self._nodes.room(n):
                self._more[n] += sign * num
                self._show(n)

    def _show(self, n: int) -> None:
        wanted = max(0, int(self._soon[n]) + self._more[n])
        self._nodes.give(n, wanted - self._nodes.raw(n))


def _ask(victim: RunningTrial, trial: QueuedTrial, imagined: _Imagined) -> Preempt | Resize:
    """Shrink an elastic trial if it fits beside `trial` with fewer slots; else stop it."""
    why: dict[str, Parameter] = {
        "slots": victim.slots,
        "own_priority": victim.priority,
        "trial_no": trial.trial_no,
        "experiment": trial.experiment_id,
        "priority": trial.priority,
        "request": trial.request.describe(),
    }
    if victim.request.elastic and victim.slots > victim.request.least_slots:
        shares = imagined.fit(victim.request, at_most=victim.slots - 1)
        if shares is not None:
            imagined.use(shares)
            size = sum(shares.values())
            return Resize(
                trial_id=victim.trial_id,
                attempt_no=victim.attempt_no,
                slots=size,
                reason=Message("preempt.shrink", size=size, **why),
            )
    return Preempt(
        trial_id=victim.trial_id,
        attempt_no=victim.attempt_no,
        for_trial_id=trial.trial_id,
        reason=Message("preempt.stop", **why),
    )
