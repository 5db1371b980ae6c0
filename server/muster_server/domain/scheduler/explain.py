"""Why a trial waits, and what would help: what a person reads.

Every reason ends with a part whose code is "help.…": something to do, or that nothing has to be done.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from muster_server.domain.fitting import Shares, fit
from muster_server.domain.offers import Offer
from muster_server.domain.resources import Request, count
from muster_server.domain.saying import Said, listed, say

from .nodes import GroupNodes, Section, fit_in
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
        help_ = f". Ask for at most {count(quota, 'slot')}, or have the quota raised."
        return said + say("help.within_quota", help_, slots=quota)
    said += say("pending.quota_held", f", it holds {held:,}", slots=held)
    if ahead:
        words = f" and its trials ahead in the queue need {ahead:,}"
        said += say("pending.quota_ahead", words, slots=ahead)
    help_ = ". It starts when trials of the project end, or when its quota is raised."
    return said + say("help.quota", help_)


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
    return _needs(request) + waits + named + " will give up" + _by_itself()


def next_pass(num_started: int) -> Said:
    """Of a trial that this pass has not looked at."""
    words = (
        "The next pass of the scheduler looks at it: this one has started "
        f"{count(num_started, 'trial')} before it"
    )
    return say("pending.next_pass", words, num=num_started) + _by_itself()


def _by_itself() -> Said:
    return say("help.by_itself", ". It starts by itself.")


def _needs(request: Request) -> Said:
    return Said("Needs ") + request.describe()


def _fewer(slots: int) -> Said:
    help_ = f". Ask for at most {count(slots, 'slot')}, or add nodes."
    return say("help.fewer_slots", help_, slots=slots)


def _uneven_now() -> Said:
    return say("help.uneven_now", ". resources.uneven: true would start it at once.")


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
            words = why or self._why_not_now(request, possible=possible)
            known = self._reasons[id(request)] = (request, _needs(request) + words)
        return known[1]

    def reason_of_holder(self, reservation: Reservation) -> Said:
        """The reason of a trial for which slots are kept."""
        request = reservation.trial.request
        section = self._nodes.section(request)
        help_ = ". It starts when the other slots it needs are free."
        kept = self._state_of(section, reservation)
        return _needs(request) + ": " + kept + say("help.rest", help_)

    def _why_never(self, request: Request) -> Said | None:
        """Why no nodes there could ever hold it; None when it is only that some are not open."""
        if request.avoid_nodes:
            anywhere = replace(request, avoid_nodes=(), avoid_reason="")
            at_most = request.least_slots
            if fit_in(self._nodes, anywhere, lambda s: s.room, at_most=at_most) is not None:
                help_ = (
                    ". The nodes it avoids are tried again then; another node that fits would "
                    "start it sooner."
                )
                words = ": the other nodes cannot hold it"
                return say("pending.avoids", words) + say("help.avoided", help_)
        if not self._nodes.nodes:
            words = f": no node there has {request.slot_type} slots"
            help_ = ". Choose a resources.slot_type and pool that has slots, or add a node."
            return say("pending.no_such_slots", words, slot_type=request.slot_type) + say(
                "help.other_slots", help_
            )
        section = self._nodes.section(request)
        totals = {n: self._nodes[n].total for n in section.ordinals.tolist()}
        if not totals:
            num = len(self._nodes)
            help_ = ". Loosen resources.labels, allow_nodes or deny_nodes, or add a node that fits them."
            return say(
                "pending.none_allowed", f": none of its {count(num, 'node')} may be used", nodes=num
            ) + say("help.loosen", help_)
        least = request.least_slots
        if least > sum(totals.values()):
            has = sum(totals.values())
            return say("pending.too_few", f"; it has {has:,}", slots=has) + _fewer(has)
        if fit(request, Offer.of(totals), at_most=least) is None:
            words = f": its {count(len(totals), 'node')} cannot be divided that way"
            return say("pending.indivisible", words, nodes=len(totals)) + self._division(
                request, section, Offer.of(totals)
            )
        if fit(request, section.room, at_most=least) is not None:  # so it is the topology
            key = str(request.topology_key)
            words = f": no {key} has room for such a gang, even when nothing else runs"
            help_ = f". With topology.mode: prefer it may spread over several {key}s."
            return say("pending.no_domain", words, key=key) + say("help.prefer", help_, key=key)
        return None

    def _division(self, request: Request, section: Section, idle: Offer[int]) -> Said:
        """What to change in a request that has slots enough, divided another way."""
        uneven = replace(request, uneven=True)
        if fit(uneven, section.offer, at_most=request.least_slots) is not None:
            return _uneven_now()
        if fit(uneven, idle, at_most=request.least_slots) is not None:
            return say("help.uneven", ". resources.uneven: true makes it possible.")
        free = replace(request, nodes=None, max_nodes=None)
        if fit(free, idle, at_most=request.least_slots) is not None:
            return say("help.any_nodes", ". Without resources.nodes and max_nodes it is possible.")
        most = fit(replace(request, min_slots=1), idle)
        if most is not None:
            return _fewer(sum(most.values()))
        return say("help.add_nodes", ". Ask for fewer nodes, or add nodes.")

    def _why_not_now(self, request: Request, *, possible: bool) -> Said:
        section = self._nodes.section(request)
        if section not in self._words:
            self._words[section] = self._state_of(section)
        words = Said(": ") + self._words[section]
        if section.offer.total >= request.least_slots:
            elsewhere = "; the free ones are not where such a gang could use them"
            words += say("pending.scattered", elsewhere)
            uneven = replace(request, uneven=True)
            if fit(uneven, section.offer, at_most=request.least_slots) is not None:
                return words + _uneven_now()
        if not possible:
            help_ = ". It starts when closed nodes are back or open again (muster node open)."
            return words + say("help.open_nodes", help_)
        help_ = (
            ". It starts when enough are free; a higher priority or fewer slots start it sooner."
        )
        return words + say("help.wait", help_)

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
