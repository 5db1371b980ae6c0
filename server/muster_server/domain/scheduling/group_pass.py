"""One pass over one group: who starts, who waits and for what, who is asked for slots."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from muster.document.roles import RoleMember
from muster_server.domain.messages import Message
from muster_server.domain.scheduling.fitting import Shares, assign

from . import explain
from .decisions import NodeShare, Placement, Preempt, Resize, Wait
from .elastic import grow
from .estimate import estimate
from .group import SchedulingGroup
from .nodes import NodeSection, fit_in
from .order import Candidate, QueueOrder, Rank
from .preemption import Preemption
from .queue import Kind
from .reservation import Reservation, Reservations
from .running import RunningKey
from .spares import Spares
from .times import SOON
from .vacating import vacate
from .views import ProjectView, SchedulerPolicy

MAX_LOOKS = 32
"""Searches for a reservation or for victims per pass and group. The front of the queue has them;
who comes later has its turn in a later pass."""


class WaitingTrial(NamedTuple):
    """A trial that waits, of which nothing has been worked out yet but its position."""

    position: int
    candidate: Candidate
    group_pass: GroupPass

    @property
    def trial_id(self) -> int:
        return self.candidate.entry.trial_id

    @property
    def is_promised(self) -> bool:
        """Whether slots are reserved for it. Valid only until the next pass begins."""
        return self.trial_id in self.group_pass._promised

    def tell(self) -> Wait:
        """Return why the trial waits, and until when. Valid only until the next pass begins."""
        return self.group_pass.tell(self)


class GroupPass:
    """Decides when it is made; `actions` are what it decided, `waiting` are the others.

    Reads the group, and what is taken and kept on its nodes, until the group begins its next pass.
    """

    def __init__(
        self,
        group: SchedulingGroup,
        projects: Mapping[int, ProjectView],
        *,
        supplies: Mapping[int, Message],
        now: dt.datetime,
        policy: SchedulerPolicy,
    ) -> None:
        group.begin(now.timestamp())
        self.actions: list[Placement | Preempt | Resize] = []
        self._group = group
        self._projects = projects
        self._supplies = supplies
        self._now = now
        self._policy = policy
        self._order = QueueOrder(group.queue, group.running, projects, now=now, policy=policy)
        self._reservations = Reservations(group.nodes, group.times)
        self._preemption = Preemption(group.nodes, group.running, group.times, now=now)
        self._spares = Spares(group.nodes, group.times.promised)
        self._placed: dict[int, tuple[int, Shares[int]]] = {}
        """Trial → its experiment, and where it starts."""
        self._ends: list[tuple[dt.datetime, Shares[int]]] = []
        """Expected ends of the trials that start."""
        self._beyond: Counter[int] = Counter()
        """Project → slots that its elastic trials were given beyond their least size."""
        self._given: Counter[int] = Counter()
        """Project → slots given to its trials in this pass."""
        self._full: dict[int, Rank] = {}
        """Project → the first of its trials that its quota leaves no slots."""
        self._asked: set[RunningKey] = set()
        """Trials that are asked for slots."""
        self._misfits: set[Kind] = set()
        """Kinds that do not fit: what is on offer only gets less, so they still do not."""
        self._helpless: set[Kind] = set()
        """Kinds for which nobody should be asked for slots."""
        self._num_regular = 0
        self._num_looks = 0
        self._is_cut = False
        """It ended before all of those that might fit had their turn."""
        self._run()
        self._explainer = self._make_explainer()

    # ---- deciding

    def _run(self) -> None:
        wanted: set[NodeSection] = set()
        self._vacate()
        self._spares.hold(idle_before=self._made_room_since(self._order.peek()))
        are_held = False
        while (candidate := self._order.pop()) is not None:
            kind = candidate.entry.kind
            if not are_held and self._made_room_since(candidate) is None:
                self._spares.hold()
                are_held = True
            if not kind.is_idle_enough:
                continue
            if self._slots_left(candidate) < kind.request.least_slots:
                self._full.setdefault(candidate.entry.trial.project_id, candidate.rank)
                continue
            if len(self._placed) >= self._policy.max_placements:
                self._is_cut = True
                return
            if self._place(candidate):
                self._order.keep(candidate)
                continue
            if not kind.possible:  # beside the spares: nothing is promised to it
                continue
            wanted.add(self._group.nodes.section(kind.request))
            with self._spares.offered(kind.lost_slots is not None):
                is_provided = self._provide(candidate)
            if is_provided:
                self._order.keep(candidate)
            elif self._is_over(candidate):
                return
        self._spares.hold()
        self.actions += grow(
            self._group,
            wanted=wanted,
            asked=self._asked,
            extra=self._given,
            now=self._now,
            policy=self._policy,
        )

    def _vacate(self) -> None:
        """Ask the trials to leave whose nodes are about to be reserved for others, or are."""
        asks = list(vacate(self._group, now=self._now))
        for ask in asks:
            key = (ask.trial_id, ask.attempt_no)
            self._asked.add(key)
            self._preemption.note(self._group.running.trials[key])
        self.actions += asks

    def _slots_left(self, candidate: Candidate) -> int:
        """Return the slots that the quota of its project leaves it, after the project's trials
        ahead."""
        kind, project = candidate.entry.kind, candidate.entry.trial.project_id
        if kind.quota is None:
            return kind.most_slots
        return kind.quota - candidate.claimed - self._beyond[project]

    def _place(self, candidate: Candidate) -> bool:
        kind, trial = candidate.entry.kind, candidate.entry.trial
        if kind in self._misfits or trial.is_returning:
            return False
        most = min(kind.most_slots, self._slots_left(candidate))
        nodes = self._group.nodes
        first: Sequence[int] = ()
        if trial.files_on:
            first = [nodes.by_name[name] for name in trial.files_on if name in nodes.by_name]
        elif trial.preferred_host is not None:
            first = nodes.by_host.get(trial.preferred_host, ())
        elif kind.request.reservations:  # what is kept from others anyway
            first = nodes.reserved_for(kind.request)
        shares = fit_in(nodes, kind.request, lambda s: s.offer, at_most=most, first=first)
        if shares is None and kind.expected_s is not None:
            shares = self._backfill(kind, kind.expected_s, most)
        if kind.lost_slots is not None and self._spares.held:
            shares = self._on_spares(kind, min(most, kind.lost_slots), first, shares)
        if shares is None:
            self._misfits.add(kind)
            return False
        if kind.request.reservations and self._waits_for_reserved(kind, shares):
            return False
        if trial.files_on and {nodes[n].name for n in shares} != set(trial.files_on):
            return False
        self._start(candidate, shares)
        return True

    def _waits_for_reserved(self, kind: Kind, shares: Shares[int]) -> bool:
        """Return whether a gang that fits elsewhere waits instead for what is being given up on the nodes
        that are reserved for it: where it fits now, whoever makes room for it may want to go on."""
        nodes, running = self._group.nodes, self._group.running
        own = nodes.reserved_for(kind.request)
        if set(shares) <= set(own) or kind.request.least_slots > sum(map(nodes.room, own)):
            return False
        return any(
            trial.yielding or trial.key in self._asked
            for n in own
            for trial in running.on_node.get(nodes[n].id, {}).values()
        )

    def _backfill(self, kind: Kind, expected_s: float, most: int) -> Shares[int] | None:
        """Return shares on slots that stay reserved until after the gang's own end; None if it does
        not fit."""
        end = self._now.timestamp() + expected_s
        nodes = self._group.nodes
        usable = self._reservations.open_until(end)
        if not usable:
            return None
        with nodes.imagined():
            for reservation in usable:
                for n, num in reservation.kept.items():
                    nodes.keep(n, -num)
            return fit_in(nodes, kind.request, lambda s: s.offer, at_most=most)

    def _on_spares(
        self, kind: Kind, most: int, first: Sequence[int], without: Shares[int] | None
    ) -> Shares[int] | None:
        """Return shares on spares too, if a gang is larger with them than `without`: on as few of
        them as that takes."""
        nodes = self._group.nodes
        first = first or list(nodes.section(kind.request).offer)
        with self._spares.offered(True):
            shares = fit_in(nodes, kind.request, lambda s: s.offer, at_most=most, first=first)
        is_larger = shares and sum(shares.values()) > sum((without or {}).values())
        return shares if is_larger else without

    def _made_room_since(self, candidate: Candidate | None) -> dt.datetime | None:
        """Return since when a trial waits for others to make room, if they may be asked to: what came
        free since then is its, before a spare is made of it. Else another would have to make room."""
        if candidate is None or not self._policy.preempt or not self._group.nodes.num_spares:
            return None
        lowest = -max(line.importance for line in self._group.queue.lines)
        running = self._group.running.lowest_priority()
        trial = candidate.entry.trial
        is_above = trial.priority > min(lowest, lowest if running is None else running)
        return trial.promised_since if is_above else None

    def _start(self, candidate: Candidate, shares: Shares[int]) -> None:
        trial, kind, nodes = candidate.entry.trial, candidate.entry.kind, self._group.nodes
        end = None
        if kind.expected_s is not None:
            end = self._now + dt.timedelta(seconds=kind.expected_s)
            self._ends.append((end, shares))
        is_on_spares = self._spares.release(shares)
        placed: list[NodeShare] = []
        rank_offset = 0
        # Ranks stay where their files are. Node rank 0 is where a checkpoint may lie; the rest by
        # name, so that ranks look tidy.
        rank = {name: rank for rank, name in enumerate(trial.files_on)}
        ordered = sorted(
            shares,
            key=lambda n: (rank.get(nodes[n].name, 0), nodes[n].host != trial.preferred_host, n),
        )
        parts: list[tuple[int | None, int, RoleMember | None]] = [
            (n, shares[n], None) for n in ordered
        ]
        if members := kind.request.members:
            of_members = zip(assign(members, shares), members, strict=True)
            parts = [(n, member.slots, member) for n, member in of_members]
        for n, num, member in parts:
            assert n is not None, "it fits"
            placed.append(
                NodeShare(
                    node_id=nodes[n].id,
                    node_name=nodes[n].name,
                    node_rank=len(placed),
                    rank_offset=rank_offset,
                    slots=nodes.take(n, num),
                    member=member,
                )
            )
            rank_offset += num
            self._group.times.start(n, num, None if end is None else end.timestamp())
        self._placed[trial.trial_id] = (trial.experiment_id, shares)
        self._given[trial.project_id] += rank_offset
        self._beyond[trial.project_id] += rank_offset - kind.request.least_slots
        if is_on_spares:
            self._spares.hold()
        reason = placed_reason(placed)
        self.actions.append(Placement(trial_id=trial.trial_id, shares=tuple(placed), reason=reason))

    def _provide(self, candidate: Candidate) -> bool:
        """Make sure that it gets slots some time. Whether the next of its kind may hope for it too."""
        kind, trial = candidate.entry.kind, candidate.entry.trial
        if self._num_looks >= MAX_LOOKS:
            return False
        may_ask = self._may_ask(candidate) and not trial.is_returning
        # Even with nothing free, so that no trial behind asks for slots that this one can count on.
        may_keep = self._num_regular < self._policy.max_reservations and (
            may_ask or self._group.nodes.num_offered > 0
        )
        may_ask = may_ask and kind not in self._helpless
        if not (may_ask or may_keep or self._comes_free(kind.request.least_slots)):
            return False
        self._num_looks += 1
        found = self._reservations.find(kind.request)
        if found is not None and found[1] <= SOON:
            self._reservations.add(trial, *found)
            return True
        if may_ask:
            answer = self._preemption.search(
                trial, most=self._policy.max_preemptions - len(self._asked)
            )
            if answer is not None:
                asks, shares = answer
                self.actions += asks
                self._asked.update((ask.trial_id, ask.attempt_no) for ask in asks)
                self._reservations.add(trial, shares, SOON)
                return True
            self._helpless.add(kind)
        if may_keep and found is not None:
            self._num_regular += 1
            self._reservations.add(trial, *found)
            return True
        return False

    def _is_over(self, candidate: Candidate) -> bool:
        """Return whether no trial behind this one could start or get a reservation."""
        if self._spares.held and self._have_lost:
            return False
        nothing_free = self._group.nodes.num_offered == 0 and not any(
            r.is_timed and r.kept for r in self._reservations.all
        )
        return nothing_free and (
            self._num_looks >= MAX_LOOKS or not (self._comes_free(1) or self._may_ask(candidate))
        )

    def _may_ask(self, candidate: Candidate) -> bool:
        return (
            self._policy.preempt
            and len(self._asked) < self._policy.max_preemptions
            and self._preemption.possible(candidate.entry.trial.priority)
        )

    def _comes_free(self, num_slots: int) -> bool:
        """Return whether at least `num_slots` slots are free or being given up, and not
        promised."""
        if not (self._asked or self._group.running.yielding):
            return False
        return self._group.times.num_soon() >= num_slots

    # ---- telling

    def waiting(self) -> Iterator[WaitingTrial]:
        """Yield the others, in order. To be read, and told, before the group's next pass."""
        for position, candidate in enumerate(self._waiting(), start=1):
            yield WaitingTrial(position, candidate, self)

    def tell(self, waiting: WaitingTrial) -> Wait:
        trial_id = waiting.trial_id
        promised = self._promised.get(trial_id)
        return Wait(
            trial_id=trial_id,
            position=waiting.position,
            reason=self._reason(waiting.candidate, promised),
            is_promised=promised is not None,
            estimated_start_at=self._estimates.get(trial_id),
        )

    @cached_property
    def _have_lost(self) -> bool:
        """Whether trials wait that may use spares."""
        return any(kind.lost_slots is not None for kind in self._group.queue.kinds)

    def _make_explainer(self) -> explain.Explainer:
        group = self._group
        return explain.Explainer(
            group.nodes, group.running, self._reservations.all, self._placed, self._spares.held
        )

    @cached_property
    def _promised(self) -> dict[int, Reservation]:
        return {r.trial.trial_id: r for r in self._reservations.all}

    @cached_property
    def _estimates(self) -> dict[int, dt.datetime]:
        return estimate(
            self._group,
            (c for c in self._waiting() if c.entry.kind.possible and not self._waits_for_quota(c)),
            started=self._ends,
            now=self._now,
            policy=self._policy,
        )

    def _waiting(self) -> Iterator[Candidate]:
        for candidate in self._order.everyone():
            trial = candidate.entry.trial
            if trial.trial_id not in self._placed and not trial.is_returning:
                yield candidate

    def _waits_for_quota(self, candidate: Candidate) -> bool:
        kind = candidate.entry.kind
        if kind.quota is None or not kind.possible:
            return kind.over_quota
        full = self._full.get(candidate.entry.trial.project_id)
        is_behind = full is not None and candidate.rank >= full
        return is_behind or candidate.claimed + kind.request.least_slots > kind.quota

    def _reason(self, candidate: Candidate, promised: Reservation | None) -> Message:
        kind, trial = candidate.entry.kind, candidate.entry.trial
        request = kind.request
        if self._waits_for_quota(candidate):
            project = self._projects[trial.project_id]
            held = self._group.running.held[trial.project_id]
            return explain.over_quota(
                request,
                project=project.name,
                quota=project.quotas[self._group.key],
                held=held,
                ahead=candidate.claimed - held,
            )
        if trial.files_on:
            return explain.files(request, trial.files_on)
        if promised is not None and promised.at <= SOON:
            givers = [
                running
                for n in promised.shares
                for running in self._group.running.on_node.get(self._group.nodes[n].id, {}).values()
                if running.yielding or running.key in self._asked
            ]
            if givers:
                return explain.coming_free(request, givers)
        if promised is not None and promised.kept:
            return self._explainer.reason_of_holder(promised)
        if self._is_cut and kind.possible and kind not in self._misfits:
            return explain.next_pass(len(self._placed))
        supply = self._supplies.get(trial.trial_id)
        if supply is not None and not (kind.possible and supply.code in explain.NO_SUPPLY):
            return explain.supplied(request, supply)
        if kind.lost_slots is None:
            return self._explainer.reason(request, possible=kind.possible)
        with self._spares.offered(True):  # so to it they are free
            return self._make_explainer().reason(request, possible=kind.possible)


def placed_reason(shares: list[NodeShare]) -> Message:
    """ "3 slots: 2 on n1, 1 on n2"."""
    slots: Counter[str] = Counter()
    for share in shares:  # Several members of a gang of roles may be on one node.
        slots[share.node_name] += len(share.slots)
    nodes = [Message("placed.on", slots=num, node=node) for node, num in [*slots.items()][:4]]
    if len(slots) > 4:
        nodes.append(Message("placed.more", nodes=len(slots) - 4))
    return Message("placed.slots", slots=slots.total(), nodes=nodes)
