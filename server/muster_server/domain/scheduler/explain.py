"""Why a trial waits, in one sentence part a person understands."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping

from muster_server.domain.fitting import Shares, fit
from muster_server.domain.offers import Offer
from muster_server.domain.resources import Request, count

from .nodes import GroupNodes, Section
from .reservation import Reservation
from .running import GroupRunning
from .views import QueuedTrial, RunningTrial

NUM_NAMED = 3
"""Holders and nodes that are named; the others are counted."""


def name(trial: QueuedTrial | RunningTrial) -> str:
    return f"trial {trial.trial_no} of experiment {trial.experiment_id}"


def over_quota(request: Request, *, project: str, quota: int, held: int, ahead: int) -> str:
    """held: slots of the project's trials. ahead: slots that its trials before this one wait for."""
    words = f"needs {request.describe()}: the quota of project {project} there is {count(quota, 'slot')}"
    if request.least_slots > quota:
        return words
    words += f", it holds {held:,}"
    return f"{words} and its trials ahead in the queue need {ahead:,}" if ahead else words


def coming_free(request: Request, trials: Iterable[RunningTrial]) -> str:
    who = [name(trial) for trial in sorted(trials, key=lambda t: t.trial_id)]
    return f"needs {request.describe()}: waits for slots that {_listed(who)} will give up"


class Explainer:
    """For one group at the end of one pass."""

    def __init__(
        self,
        nodes: GroupNodes,
        running: GroupRunning,
        reservations: Iterable[Reservation],
        placed: Mapping[int, tuple[int, Shares[int]]],
    ) -> None:
        """placed: trial id → its experiment and what it was given in this pass."""
        self._nodes = nodes
        self._running = running
        self._reservations = [r for r in reservations if r.kept]
        self._placed = placed
        self._words: dict[Section, str] = {}
        self._reasons: dict[int, tuple[Request, str]] = {}

    def reason(self, request: Request, *, possible: bool) -> str:
        """possible: the open nodes could hold such a gang, were they idle."""
        known = self._reasons.get(id(request))
        if known is None:
            why = None if possible else self._why_never(request)
            words = f"needs {request.describe()}{why or self._why_not_now(request)}"
            known = self._reasons[id(request)] = (request, words)
        return known[1]

    def reason_of_holder(self, reservation: Reservation) -> str:
        """The reason of a trial for which slots are kept."""
        request = reservation.trial.request
        section = self._nodes.section(request)
        return f"needs {request.describe()}: {self._state_of(section, reservation)}"

    def _why_never(self, request: Request) -> str | None:
        """Why no nodes there could ever hold it; None when it is only that some are not open."""
        if not self._nodes.nodes:
            return f": no node there has {request.slot_type} slots"
        section = self._nodes.section(request)
        totals = {n: self._nodes[n].total for n in section.ordinals.tolist()}
        if not totals:
            return f": none of its {count(len(self._nodes), 'node')} may be used"
        least = request.least_slots
        if least > sum(totals.values()):
            return f"; it has {sum(totals.values()):,}"
        if fit(request, Offer.of(totals), at_most=least) is None:
            return f": its {count(len(totals), 'node')} cannot be divided that way"
        if fit(request, section.room, at_most=least) is not None:  # so it is the topology
            return (
                f": no {request.topology_key} has room for such a gang, even when nothing else runs"
            )
        return None

    def _why_not_now(self, request: Request) -> str:
        section = self._nodes.section(request)
        if section not in self._words:
            self._words[section] = self._state_of(section)
        words = f": {self._words[section]}"
        if section.offer.total >= request.least_slots:
            words += "; the free ones are not where such a gang could use them"
        return words

    def _state_of(self, section: Section, own: Reservation | None = None) -> str:
        free = section.offer.total
        parts = [] if own is None else [f"{own.num_kept:,} kept for it"]
        if free or own is None:
            where = f" on {count(len(section.offer), 'node')}"
            parts.append(f"{free:,} free{where}" if free else "none free")
        parts += self._holders(section)
        parts += [
            f"{num:,} kept for {name(r.trial)}, which is ahead in the queue"
            for num, r in self._kept(section)[:NUM_NAMED]
            if r is not own
        ]
        parts += self._shut(section)
        return ", ".join(parts)

    def _holders(self, section: Section) -> list[str]:
        held: Counter[int] = Counter()
        if section is self._nodes.whole:
            held.update(self._running.by_experiment)
            for n in self._nodes.shut:
                for trial in self._on_node(n):
                    held[trial.experiment_id] -= trial.shares[self._nodes[n].id]
        else:
            for n in section.room:
                for trial in self._on_node(n):
                    held[trial.experiment_id] += trial.shares[self._nodes[n].id]
        for experiment_id, shares in self._placed.values():
            held[experiment_id] += sum(num for n, num in shares.items() if section.room[n])
        free = self._nodes.free - self._nodes.taken
        num_held = section.room.total - int(free[section.ordinals].sum())
        named = heapq.nsmallest(
            NUM_NAMED, ((-num, experiment) for experiment, num in held.items() if num > 0)
        )
        words = [f"{-num:,} held by experiment {experiment}" for num, experiment in named]
        others = num_held + sum(num for num, _ in named)
        return [*words, f"{others:,} held by others"] if others > 0 else words

    def _kept(self, section: Section) -> list[tuple[int, Reservation]]:
        kept = (
            (sum(num for n, num in r.kept.items() if section.room[n]), r)
            for r in self._reservations
        )
        return [(num, r) for num, r in kept if num]

    def _shut(self, section: Section) -> list[str]:
        shut = sorted(
            (-self._nodes[n].total, self._nodes[n].name, self._nodes[n].shut)
            for n in self._nodes.shut & set(section.ordinals.tolist())
        )
        words = [f"{-total:,} on {word} node {where}" for total, where, word in shut[:NUM_NAMED]]
        if len(shut) > NUM_NAMED:
            rest = -sum(total for total, _, _ in shut[NUM_NAMED:])
            words.append(f"{rest:,} on {count(len(shut) - NUM_NAMED, 'other closed node')}")
        return words

    def _on_node(self, n: int) -> Iterable[RunningTrial]:
        return self._running.on_node.get(self._nodes[n].id, {}).values()


def _listed(words: list[str]) -> str:
    if len(words) > NUM_NAMED:
        return f"{', '.join(words[:NUM_NAMED])} and {len(words) - NUM_NAMED:,} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
