"""Why a trial waits, and what would help: what a person reads.

Every reason ends with a part whose code is "help.…": something to do, or that nothing has to be done.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from muster_server.domain.messages import Message, shortened
from muster_server.domain.nodes.availability import MAINTENANCE, on_node
from muster_server.domain.nodes.maintenance import Window, describe_s
from muster_server.domain.nodes.reservations import NodeReservation
from muster_server.domain.scheduling.fitting import Shares, first_without_node, fit
from muster_server.domain.scheduling.offers import Offer
from muster_server.domain.scheduling.resources import PoolImages, Request

from .nodes import GroupNodes, NodeSection, fit_in, may_use
from .reservation import Reservation
from .running import GroupRunning
from .spares import num_possible
from .views import RunningTrial

NO_SUPPLY = frozenset({"pilots.too_few_slots", "pilots.too_many_nodes", "pilots.too_long"})
"""Codes of reasons for which a provider never supplies what a trial asks for."""
COSTS = frozenset({"pilots.max_slot_hours", "pilots.max_cost"})
"""Codes of reasons for which a provider supplies nothing more until an administrator, or the end of
other pilots, allows it."""
NUM_NAMED = 3
"""Holders and nodes that are named; the others are counted."""


def over_quota(request: Request, *, project: str, quota: int, held: int, ahead: int) -> Message:
    """Return why a trial waits for its project's quota.

    held: slots of the project's trials. ahead: slots that the project's trials before this one wait
    for.
    """
    state = [Message("pending.quota", project=project, slots=quota)]
    if request.least_slots > quota:
        return _needs(request, state, Message("help.within_quota", slots=quota))
    state.append(Message("pending.quota_held", slots=held))
    if ahead:
        state.append(Message("pending.quota_ahead", slots=ahead))
    return _needs(request, state, Message("help.quota"))


def coming_free(request: Request, trials: Iterable[RunningTrial]) -> Message:
    """Return that a trial waits for the slots that `trials` are giving up."""
    ordered = sorted(trials, key=lambda t: t.trial_id)
    givers = [
        Message("pending.giver", trial_no=t.trial_no, experiment=t.experiment_id)
        for t in ordered[:NUM_NAMED]
    ]
    if len(ordered) > NUM_NAMED:
        givers.append(Message("pending.more_givers", num=len(ordered) - NUM_NAMED))
    waits = Message("pending.coming_free", givers=givers)
    return _needs(request, [waits], Message("help.by_itself"))


def files(request: Request, nodes: Sequence[str]) -> Message:
    """Return that a trial waits for the last files of its last attempt, on the nodes of these names."""
    named = [Message("pending.node", node=node) for node in nodes[:NUM_NAMED]]
    if len(nodes) > NUM_NAMED:
        named.append(Message("pending.more_nodes", nodes=len(nodes) - NUM_NAMED))
    waits = Message("pending.files", nodes=named)
    return _needs(request, [waits], Message("help.files"))


def supplied(request: Request, supply: Message) -> Message:
    """Return that a trial waits for what the provider of its pool does, or does not do."""
    if supply.code in NO_SUPPLY:
        return _needs(request, [supply], Message("help.provider", pool=request.pool))
    if supply.code in COSTS:
        return _needs(request, [supply], Message("help.cost", pool=request.pool))
    return _needs(request, [supply], Message("help.by_itself"))


def next_pass(num_started: int) -> Message:
    """Explain the wait of a trial that this pass has not looked at."""
    reason = Message("pending.next_pass", num=num_started)
    return Message("all.advised", reason=reason, advice=Message("help.by_itself"))


def _without_room(request: Request, section: NodeSection, kept: Mapping[int, int]) -> list[Message]:
    """Return which member of a gang of roles has no room now, if it is one; kept: slots for it alone."""
    nodes = dict.fromkeys([*section.offer, *kept])
    offer = Offer.of({node: section.offer[node] + kept.get(node, 0) for node in nodes})
    lacking = first_without_node(request.members, offer)
    if lacking is None:
        return []
    return [Message("pending.no_room_for_member", member=lacking.name, slots=lacking.slots)]


def _needs(request: Request, state: Sequence[Message], advice: Message) -> Message:
    return Message("all.needs", request=request.describe(), state=state, advice=advice)


class Explainer:
    """For one group at the end of one pass."""

    def __init__(
        self,
        nodes: GroupNodes,
        running: GroupRunning,
        reservations: Iterable[Reservation],
        placed: Mapping[int, tuple[int, Shares[int]]],
        spares: Shares[int],
    ) -> None:
        """Prepare reasons for one pass; placed: trial ID → its experiment and its shares in this
        pass. spares: nodes that are held as such."""
        self._nodes = nodes
        self._running = running
        self._reservations = [r for r in reservations if r.kept]
        self._placed = placed
        self._spares = spares
        self._states: dict[NodeSection, list[Message]] = {}
        self._reasons: dict[int, tuple[Request, Message]] = {}

    def reason(self, request: Request, *, possible: bool) -> Message:
        """Return why a request waits; possible: the open nodes could hold the gang if they were
        idle."""
        known = self._reasons.get(id(request))
        if known is None:
            why = None if possible else self._why_never(request)
            reason = why or self._why_not_now(request, possible=possible)
            known = self._reasons[id(request)] = (request, reason)
        return known[1]

    def reason_of_holder(self, reservation: Reservation) -> Message:
        """Explain the wait of a trial for which slots are kept."""
        request = reservation.trial.request
        section = self._nodes.section(request)
        state = [
            *self._state_of(section, reservation),
            *_without_room(request, section, reservation.kept),
        ]
        return _needs(request, state, Message("help.rest"))

    def _lacks_container(self, request: Request) -> bool:
        """Return whether nodes would be allowed if the document named no image."""
        plain = replace(request, images=("",))
        return request.is_contained and any(
            may_use(plain, replace(node, pool_images=PoolImages())) for node in self._nodes.nodes
        )

    def _ends_too_soon(self, request: Request, section: NodeSection) -> Message | None:
        """Return that nodes would hold the request if they did not end before its time limit; None if
        that would not help."""
        anywhere = self._nodes.section(request, at_any_time=True)
        num = len(anywhere.ordinals) - len(section.ordinals)
        if num == 0 or fit(request, anywhere.room, at_most=request.least_slots) is None:
            return None
        if not request.limit_s:
            return Message("pending.ends_soon", nodes=num)
        return Message("pending.ends_before", nodes=num, minutes=round(request.limit_s / 60, 1))

    def _refused_image(self, request: Request) -> tuple[Message, Message] | None:
        """Return why the pool does not take the image of a request, or takes none without one, and
        what helps; None if the image is not the reason."""
        rules = self._nodes[0].pool_images
        image = rules.refused(request.images)
        if image is None:
            return None
        if not image:
            return Message("pending.pool_containers"), Message(
                "help.pool_containers", pool=request.pool
            )
        reason = Message("pending.pool_images", image=image, allowed=shortened(rules.allowed))
        return reason, Message("help.pool_images", pool=request.pool)

    def _lacks_isolation(self, request: Request) -> bool:
        """Return whether nodes would be allowed if the request did not ask for isolation."""
        anywhere = self._nodes.section(replace(request, isolation="none"))
        return request.isolation != "none" and len(anywhere.ordinals) > 0

    def _why_never(self, request: Request) -> Message | None:
        """Return why no nodes of the group could ever hold the request; None if some are only not
        open."""

        def because(reason: Message, advice: Message) -> Message:
            return _needs(request, [reason], advice)

        at_most = request.least_slots
        if (
            self._nodes.num_spares
            and fit_in(self._nodes, request, lambda s: s.room, at_most=at_most) is not None
        ):
            return self._never_beside_spares(request)
        if request.avoid_nodes:
            anywhere = replace(request, avoid_nodes=(), avoid_reason="")
            if fit_in(self._nodes, anywhere, lambda s: s.room, at_most=at_most) is not None:
                return because(Message("pending.avoids"), Message("help.avoided"))
        if not self._nodes.nodes:
            return because(
                Message("pending.no_such_slots", slot_type=request.slot_type),
                Message("help.other_slots"),
            )
        closing = self._nodes.closing(request)
        section = self._nodes.section(request, at_any_time=bool(closing))
        if closing and fit(request, section.room, at_most=request.least_slots) is not None:
            (ahead,) = self._ahead(request, closing)
            return because(ahead, Message("help.maintenance_ahead"))
        taken = self._nodes.reserved_from(request)
        if taken:
            section = self._nodes.section(request, at_any_time=True)
            if fit(request, section.room, at_most=request.least_slots) is not None:
                is_ahead = all(not self._nodes.is_reserved_now(n) for n in taken)
                advice = Message("help.reserved")
                if is_ahead and request.limit_s:
                    advice = Message("help.reserved_ahead")
                return _needs(request, self._reserved(request, taken), advice)
        totals = {n: self._nodes[n].total for n in section.ordinals.tolist()}
        if (ending := self._ends_too_soon(request, section)) is not None:
            return because(ending, Message("help.time_limit"))
        if not totals and len(self._nodes.too_weak) == len(self._nodes):
            level = self._nodes[0].pool_isolation
            return because(
                Message("pending.pool_isolation", level=level),
                Message("help.pool_isolation", pool=request.pool),
            )
        if not totals and (refusal := self._refused_image(request)) is not None:
            return because(*refusal)
        if not totals and self._lacks_isolation(request):
            return because(
                Message("pending.no_isolation", level=request.isolation), Message("help.isolation")
            )
        if not totals and self._lacks_container(request):
            return because(Message("pending.no_container"), Message("help.container"))
        if not totals:
            return because(
                Message("pending.none_allowed", nodes=len(self._nodes)), Message("help.loosen")
            )
        least = request.least_slots
        if least > sum(totals.values()):
            has = sum(totals.values())
            return because(
                Message("pending.too_few", slots=has), Message("help.fewer_slots", slots=has)
            )
        if request.members and (lacking := first_without_node(request.members, Offer.of(totals))):
            return because(
                Message("pending.no_node_for_member", member=lacking.name, slots=lacking.slots),
                Message("help.smaller_members"),
            )
        if fit(request, Offer.of(totals), at_most=least) is None:
            return because(
                Message("pending.indivisible", nodes=len(totals)),
                self._division(request, section, Offer.of(totals)),
            )
        if fit(request, section.room, at_most=least) is not None:  # so the topology is the reason
            key = str(request.topology_key)
            return because(Message("pending.no_domain", key=key), Message("help.prefer", key=key))
        return None

    def _never_beside_spares(self, request: Request) -> Message | None:
        """Return that idle nodes would hold the request, but not beside the spares; None if they
        would once all nodes are open."""
        nodes = self._nodes

        def all_slots(section: NodeSection) -> Offer[int]:
            return Offer.of({n: nodes[n].total for n in section.ordinals.tolist()})

        shares = fit_in(nodes, request, all_slots, at_most=request.least_slots)
        beside = num_possible(nodes, only_open=False) - len(shares or ())
        if beside >= nodes.num_spares:
            return None
        state = Message("pending.beside_spares", nodes=nodes.num_spares)
        return _needs(request, [state], Message("help.spares", pool=request.pool))

    def _division(self, request: Request, section: NodeSection, idle: Offer[int]) -> Message:
        """Return what to change in a request that has enough slots, but not in the shape it asks
        for."""
        uneven = replace(request, uneven=True)
        if fit(uneven, section.offer, at_most=request.least_slots) is not None:
            return Message("help.uneven_now")
        if fit(uneven, idle, at_most=request.least_slots) is not None:
            return Message("help.uneven")
        free = replace(request, nodes=None, max_nodes=None)
        if fit(free, idle, at_most=request.least_slots) is not None:
            return Message("help.any_nodes")
        most = fit(replace(request, min_slots=1), idle)
        if most is not None:
            return Message("help.fewer_slots", slots=sum(most.values()))
        return Message("help.add_nodes")

    def _why_not_now(self, request: Request, *, possible: bool) -> Message:
        section = self._nodes.section(request)
        if section not in self._states:
            self._states[section] = self._state_of(section)
        state = self._states[section]
        state = [*state, *self._ahead(request, self._nodes.closing(request))]
        state += self._reserved(request, self._nodes.reserved_from(request))
        lacking = _without_room(request, section, {})
        if lacking:
            state = [*state, *lacking]
        elif section.offer.total >= request.least_slots:
            state = [*state, Message("pending.scattered")]
            uneven = replace(request, uneven=True)
            if fit(uneven, section.offer, at_most=request.least_slots) is not None:
                return _needs(request, state, Message("help.uneven_now"))
        if possible:
            advice = Message("help.wait")
        elif self._in_maintenance(section):
            advice = Message("help.maintenance")
        elif self._nodes.shut & set(section.ordinals.tolist()):
            advice = Message("help.open_nodes")
        else:
            advice = Message("help.slots")
        return _needs(request, state, advice)

    def _state_of(self, section: NodeSection, own: Reservation | None = None) -> list[Message]:
        free, nodes = section.offer.total, len(section.offer)
        state = []
        if own is not None:
            state.append(Message("pending.kept_for_it", slots=own.num_kept))
        if free:
            state.append(Message("pending.free", slots=free, nodes=nodes))
        elif own is None:
            state.append(Message("pending.none_free"))
        state += self._holders(section)
        state += [
            Message(
                "pending.kept_for",
                slots=num,
                trial_no=r.trial.trial_no,
                experiment=r.trial.experiment_id,
            )
            for num, r in self._kept(section)[:NUM_NAMED]
            if r is not own
        ]
        state += self._held_as_spares(section)
        return state + self._held_back(section) + self._shut(section) + self._too_weak()

    def _holders(self, section: NodeSection) -> list[Message]:
        held: Counter[int] = Counter()
        if section is self._nodes.whole:
            held.update(self._running.by_experiment)
            for n in self._nodes.shut | self._nodes.owned:
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
        holders = [
            Message("pending.held", slots=-num, experiment=experiment) for num, experiment in named
        ]
        others = num_held + sum(num for num, _ in named)
        if others > 0:
            holders.append(Message("pending.held_by_others", slots=others))
        return holders

    def _kept(self, section: NodeSection) -> list[tuple[int, Reservation]]:
        kept = (
            (sum(num for n, num in r.kept.items() if section.room[n]), r)
            for r in self._reservations
        )
        return [(num, r) for num, r in kept if num]

    def _held_as_spares(self, section: NodeSection) -> list[Message]:
        num = sum(1 for n in self._spares if section.room[n])
        return [Message("pending.spares", nodes=num)] if num else []

    def _held_back(self, section: NodeSection) -> list[Message]:
        """Return which slots of open nodes take no new work, and why."""
        found = [
            on_node(problem, slot=idx, node=self._nodes[n].name)
            for n in sorted(self._nodes.partly & set(section.ordinals.tolist()))
            if self._nodes[n].shut is None
            for idx, problem in self._nodes[n].held_back
        ]
        named = [Message("pending.on_slot", problem=problem) for problem in found[:NUM_NAMED]]
        if len(found) > NUM_NAMED:
            named.append(Message("pending.on_other_slots", slots=len(found) - NUM_NAMED))
        return named

    def _ahead(self, request: Request, closing: Sequence[int]) -> list[Message]:
        """Return that a maintenance keeps a request off nodes; nothing where there are none."""
        windows = [w for n in closing if (w := self._nodes[n].maintenance.ahead) is not None]
        if not windows:
            return []
        first = min(windows, key=lambda w: (w.starts_at, w.id))
        return [first.reached_by(request.limit_s)]

    def _reserved(self, request: Request, taken: Sequence[int]) -> list[Message]:
        """Return which reservations keep a request off nodes."""
        end = self._nodes.latest_end(request)
        nodes: dict[NodeReservation, list[int]] = defaultdict(list)
        for n in taken:
            reservation = self._nodes[n].reservation_before(request, end)
            assert reservation is not None
            nodes[reservation].append(n)
        found = []
        for reservation in sorted(nodes, key=lambda r: (r.starts_at, r.id))[:NUM_NAMED]:
            whom = reservation.label
            if request.limit_s and not self._nodes.is_reserved_now(nodes[reservation][0]):
                limit = describe_s(request.limit_s)
                found.append(
                    Message("pending.reserved_ahead", limit=limit, number=reservation.id, whom=whom)
                )
                continue
            slots = sum(self._nodes[n].total for n in nodes[reservation])
            num = len(nodes[reservation])
            found.append(
                Message(
                    "pending.reserved", slots=slots, nodes=num, number=reservation.id, whom=whom
                )
            )
        return found

    def _in_maintenance(self, section: NodeSection) -> list[int]:
        shut = sorted(self._nodes.shut & set(section.ordinals.tolist()))
        return [n for n in shut if self._nodes[n].shut == MAINTENANCE]

    def _maintained(self, section: NodeSection) -> list[Message]:
        """Return which slots active maintenance windows keep from new work."""
        nodes: dict[Window, list[int]] = defaultdict(list)
        for n in self._in_maintenance(section):
            window = self._nodes[n].maintenance.active
            assert window is not None
            nodes[window].append(n)
        return [
            Message(
                "pending.maintenance",
                window=window.label,
                reason=window.reason,
                slots=sum(self._nodes[n].total for n in nodes[window]),
                nodes=len(nodes[window]),
            )
            for window in sorted(nodes, key=lambda w: w.id)[:NUM_NAMED]
        ]

    def _shut(self, section: NodeSection) -> list[Message]:
        shut = sorted(
            (-self._nodes[n].total, self._nodes[n].name, self._nodes[n].shut)
            for n in self._nodes.shut & set(section.ordinals.tolist())
            if self._nodes[n].shut != MAINTENANCE
        )
        found = self._maintained(section)
        found += [
            Message("pending.on_shut_node", slots=-total, state=str(state), node=node)
            for total, node, state in shut[:NUM_NAMED]
        ]
        if len(shut) > NUM_NAMED:
            rest = -sum(total for total, _, _ in shut[NUM_NAMED:])
            nodes = len(shut) - NUM_NAMED
            found.append(Message("pending.on_other_shut_nodes", slots=rest, nodes=nodes))
        return found

    def _too_weak(self) -> list[Message]:
        weak = [self._nodes[n] for n in self._nodes.too_weak]
        if not weak:
            return []
        slots = sum(node.total for node in weak)
        level = weak[0].pool_isolation
        return [Message("pending.on_weak_nodes", slots=slots, nodes=len(weak), level=level)]

    def _on_node(self, n: int) -> Iterable[RunningTrial]:
        return self._running.on_node.get(self._nodes[n].id, {}).values()
