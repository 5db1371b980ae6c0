"""Why a trial waits, in one sentence part a person understands."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping

from muster_server.domain.fitting import Shares, fit
from muster_server.domain.offers import Offer
from muster_server.domain.resources import Request, count
from muster_server.domain.saying import Said, listed, say

from .nodes import GroupNodes, Section
from .reservation import Reservation
from .running import GroupRunning
from .views import QueuedTrial, RunningTrial

NUM_NAMED = 3
"""Holders and nodes that are named; the others are counted."""


def name(trial: QueuedTrial | RunningTrial) -> str:
    return f"trial {trial.trial_no} of experiment {trial.experiment_id}"


def over_quota(request: Request, *, project: str, quota: int, held: int, ahead: int) -> Said:
    """held: slots of the project's trials. ahead: slots that its trials before this one wait for."""
    words = f": the quota of project {project} there is {count(quota, 'slot')}"
    said = _needs(request) + say("pending.quota", words, project=project, slots=quota)
    if request.least_slots > quota:
        return said
    said += say("pending.quota_held", f", it holds {held:,}", slots=held)
    if ahead:
        words = f" and its trials ahead in the queue need {ahead:,}"
        said += say("pending.quota_ahead", words, slots=ahead)
    return said


def coming_free(request: Request, trials: Iterable[RunningTrial]) -> Said:
    givers = sorted(trials, key=lambda t: t.trial_id)
    who = [
        say("pending.giver", name(t), trial_no=t.trial_no, experiment=t.experiment_id)
        for t in givers[:NUM_NAMED]
    ]
    more = len(givers) - NUM_NAMED
    if more > 0:
        named = listed(who) + say("pending.more_givers", f" and {more:,} more", num=more)
    else:
        named = listed([*filter(None, [listed(who[:-1])]), who[-1]], " and ")
    waits = say("pending.coming_free", ": waits for slots that ", num=len(givers))
    return _needs(request) + waits + named + " will give up"


def _needs(request: Request) -> Said:
    return Said("needs ") + request.describe()


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
        self._words: dict[Section, Said] = {}
        self._reasons: dict[int, tuple[Request, Said]] = {}

    def reason(self, request: Request, *, possible: bool) -> Said:
        """possible: the open nodes could hold such a gang, were they idle."""
        known = self._reasons.get(id(request))
        if known is None:
            why = None if possible else self._why_never(request)
            words = _needs(request) + (why or self._why_not_now(request))
            known = self._reasons[id(request)] = (request, words)
        return known[1]

    def reason_of_holder(self, reservation: Reservation) -> Said:
        """The reason of a trial for which slots are kept."""
        request = reservation.trial.request
        section = self._nodes.section(request)
        return _needs(request) + ": " + self._state_of(section, reservation)

    def _why_never(self, request: Request) -> Said | None:
        """Why no nodes there could ever hold it; None when it is only that some are not open."""
        if not self._nodes.nodes:
            words = f": no node there has {request.slot_type} slots"
            return say("pending.no_such_slots", words, slot_type=request.slot_type)
        section = self._nodes.section(request)
        totals = {n: self._nodes[n].total for n in section.ordinals.tolist()}
        if not totals:
            num = len(self._nodes)
            return say(
                "pending.none_allowed", f": none of its {count(num, 'node')} may be used", nodes=num
            )
        least = request.least_slots
        if least > sum(totals.values()):
            has = sum(totals.values())
            return say("pending.too_few", f"; it has {has:,}", slots=has)
        if fit(request, Offer.of(totals), at_most=least) is None:
            words = f": its {count(len(totals), 'node')} cannot be divided that way"
            return say("pending.indivisible", words, nodes=len(totals))
        if fit(request, section.room, at_most=least) is not None:  # so it is the topology
            key = str(request.topology_key)
            words = f": no {key} has room for such a gang, even when nothing else runs"
            return say("pending.no_domain", words, key=key)
        return None

    def _why_not_now(self, request: Request) -> Said:
        section = self._nodes.section(request)
        if section not in self._words:
            self._words[section] = self._state_of(section)
        words = Said(": ") + self._words[section]
        if section.offer.total >= request.least_slots:
            elsewhere = "; the free ones are not where such a gang could use them"
            words += say("pending.scattered", elsewhere)
        return words

    def _state_of(self, section: Section, own: Reservation | None = None) -> Said:
        free, nodes = section.offer.total, len(section.offer)
        parts = []
        if own is not None:
            parts.append(
                say("pending.kept_for_it", f"{own.num_kept:,} kept for it", slots=own.num_kept)
            )
        if free:
            words = f"{free:,} free on {count(nodes, 'node')}"
            parts.append(say("pending.free", words, slots=free, nodes=nodes))
        elif own is None:
            parts.append(say("pending.none_free", "none free"))
        parts += self._holders(section)
        for num, r in self._kept(section)[:NUM_NAMED]:
            if r is own:
                continue
            trial = r.trial
            words = f"{num:,} kept for {name(trial)}, which is ahead in the queue"
            parts.append(
                say(
                    "pending.kept_for",
                    words,
                    slots=num,
                    trial_no=trial.trial_no,
                    experiment=trial.experiment_id,
                )
            )
        parts += self._shut(section)
        return listed(parts)

    def _holders(self, section: Section) -> list[Said]:
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
        words = [
            say(
                "pending.held",
                f"{-num:,} held by experiment {experiment}",
                slots=-num,
                experiment=experiment,
            )
            for num, experiment in named
        ]
        others = num_held + sum(num for num, _ in named)
        if others > 0:
            words.append(say("pending.held_by_others", f"{others:,} held by others", slots=others))
        return words

    def _kept(self, section: Section) -> list[tuple[int, Reservation]]:
        kept = (
            (sum(num for n, num in r.kept.items() if section.room[n]), r)
            for r in self._reservations
        )
        return [(num, r) for num, r in kept if num]

    def _shut(self, section: Section) -> list[Said]:
        shut = sorted(
            (-self._nodes[n].total, self._nodes[n].name, self._nodes[n].shut)
            for n in self._nodes.shut & set(section.ordinals.tolist())
        )
        words = [
            say(
                "pending.on_shut_node",
                f"{-total:,} on {word} node {where}",
                slots=-total,
                state=str(word),
                node=where,
            )
            for total, where, word in shut[:NUM_NAMED]
        ]
        if len(shut) > NUM_NAMED:
            rest, nodes = -sum(total for total, _, _ in shut[NUM_NAMED:]), len(shut) - NUM_NAMED
            text = f"{rest:,} on {count(nodes, 'other closed node')}"
            words.append(say("pending.on_other_shut_nodes", text, slots=rest, nodes=nodes))
        return words

    def _on_node(self, n: int) -> Iterable[RunningTrial]:
        return self._running.on_node.get(self._nodes[n].id, {}).values()
