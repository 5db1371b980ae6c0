"""How many pilots are wanted, from what waits, what is there and what is on its way."""

from __future__ import annotations

import datetime as dt
import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..lifecycle import moment
from ..messages import Message
from ..scheduling.nodes import END_MARGIN_S
from ..scheduling.resources import Owner
from .cost import CostLimit
from .states import Pilot, PilotState

HOLD_S = 3.0
"""A trial must have waited for so long before a pilot is asked for: the scheduler may just place it."""
STEP = 64
"""Most pilots asked for in one pass."""
FIRST_BACKOFF_S = 30.0
MAX_BACKOFF_S = 900.0
PROVEN_S = 120.0
"""A pilot that has been up for so long ends the back-off."""


@dataclass(frozen=True, kw_only=True)
class Gang:
    """A trial that waits for slots of the pool."""

    trial_id: int
    nodes: int
    slots_per_node: int
    limit_s: float
    """Time that it may run by its document; 0 for no limit."""
    grace_s: float
    since: dt.datetime
    """When it began to wait."""
    attempt_no: int = 1
    """Number of the attempt that it waits to start."""

    @property
    def owner(self) -> Owner:
        return self.trial_id, self.attempt_no


@dataclass(frozen=True, kw_only=True)
class Provider:
    """What a pool's provider may do, and how it has fared."""

    name: str
    """What people read: "Slurm partition a100"."""
    slots: int
    """Slots of each pilot."""
    min_pilots: int
    max_pilots: int
    walltime_s: float
    is_exclusive: bool = False
    """Whether each pilot is for one attempt alone, and ends with it."""
    costs: tuple[CostLimit, ...] = ()
    failures: int = 0
    """Pilots in a row that never came up."""
    not_before: dt.datetime | None = None
    """No pilot is asked for before then."""
    problem: str = ""
    """What is wrong with it, in a sentence without its full stop; "" while it works."""


@dataclass(frozen=True, kw_only=True)
class PilotPlan:
    submit: int
    """Pilots to ask for now."""
    owners: Mapping[Owner, int] = field(default_factory=dict)
    """Attempt → how many of them are for it alone; empty unless the pool is exclusive."""
    cancel: tuple[str, ...]
    """Pilots on their way that nothing waits for any more."""
    told: Mapping[int, Message] = field(default_factory=dict)
    """Trial → what its provider does for it, or why it does nothing."""


def backoff_s(failures: int) -> float:
    """Return how long to wait after so many failures in a row, in seconds: 30, then twice as long
    each time, at most 15 minutes."""
    return min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(max(failures - 1, 0), 30))


def plan_pilots(
    provider: Provider, gangs: Sequence[Gang], pilots: Sequence[Pilot], *, now: dt.datetime
) -> PilotPlan:
    """Return which pilots to ask for and which to cancel.

    gangs: what waits, the first in the queue first. Pilots that are there and those on their way are
    used before new ones are asked for. Gangs are served whole or not at all: half of one costs and does
    not help. Pilots that are up are never canceled: they leave by themselves once they have been idle.
    In an exclusive pool a gang uses only pilots that were asked for it.
    """
    if provider.is_exclusive:
        return _plan_exclusive(provider, gangs, pilots, now=now)
    strays = tuple(p.id for p in pilots if p.owner and p.is_coming and _may_cancel(p))
    pilots = [pilot for pilot in pilots if pilot.owner is None]
    coming = [pilot for pilot in pilots if pilot.is_coming]
    first = _next_expected(coming)
    held = sum(pilot.state is not PilotState.ENDING for pilot in pilots)
    room = _Room(provider, pilots, len(coming))
    told: dict[int, Message] = {}
    wanted = 0
    for gang in gangs:
        if (never := _why_never(provider, gang)) is not None:
            told[gang.trial_id] = never
            continue
        must_last_s = gang.limit_s + gang.grace_s + END_MARGIN_S
        taken = room.take(gang, until=now.timestamp() + must_last_s)
        short = gang.nodes - len(taken)
        if short and (why := _why_not_more(provider, gang, held + wanted, short, wanted, now)):
            room.give_back(taken)
            told[gang.trial_id] = why
            continue
        wanted += short
        room.put_new(gang, taken, short)
        told[gang.trial_id] = _on_the_way(provider, gang, short, len(coming), first)
    if not _must_wait(provider, now):
        wanted = max(wanted, min(STEP, provider.min_pilots - held, _num_affordable(provider)))
    surplus = _surplus(provider, coming, held, room.num_unused_coming)
    return PilotPlan(submit=wanted, cancel=(*surplus, *strays), told=told)


def _plan_exclusive(
    provider: Provider, gangs: Sequence[Gang], pilots: Sequence[Pilot], *, now: dt.datetime
) -> PilotPlan:
    own: dict[Owner | None, list[Pilot]] = defaultdict(list)
    for pilot in pilots:
        own[pilot.owner].append(pilot)
    held = sum(pilot.state is not PilotState.ENDING for pilot in pilots)
    told: dict[int, Message] = {}
    wanted: dict[Owner, int] = {}
    cancel = {pilot.id for pilot in pilots if pilot.is_coming and _may_cancel(pilot)}
    for gang in gangs:
        if (never := _why_never(provider, gang)) is not None:
            told[gang.trial_id] = never
            continue
        lasts_until = now + dt.timedelta(seconds=gang.limit_s + gang.grace_s + END_MARGIN_S)
        mine = own[gang.owner]
        coming = [pilot for pilot in mine if pilot.is_coming]
        num_there = sum(
            pilot.is_heard
            and pilot.state is not PilotState.ENDING
            and pilot.free_slots >= gang.slots_per_node
            and (pilot.ends_at is None or pilot.ends_at >= lasts_until)
            for pilot in mine
        )
        spare = num_there + len(coming) - gang.nodes
        cancel -= {pilot.id for pilot in _newest_first(coming)[max(0, spare) :]}
        num_asked = sum(wanted.values())
        if spare < 0 and (
            why := _why_not_more(provider, gang, held + num_asked, -spare, num_asked, now)
        ):
            told[gang.trial_id] = why
            continue
        if spare < 0:
            wanted[gang.owner] = -spare
        short = max(0, -spare)
        told[gang.trial_id] = _on_the_way(
            provider, gang, short, len(coming), _next_expected(coming)
        )
    return PilotPlan(
        submit=sum(wanted.values()), owners=wanted, cancel=tuple(sorted(cancel)), told=told
    )


class _Room:
    """Slots that are free, or will be once the pilots on their way are there."""

    def __init__(self, provider: Provider, pilots: Iterable[Pilot], num_coming: int) -> None:
        self._slots = provider.slots
        self._bins: dict[int, list[float]] = defaultdict(list)
        """Free slots → minus the ends of the pilots that have so many, the last first."""
        for pilot in pilots:
            is_there = pilot.is_heard and pilot.state is not PilotState.ENDING
            if is_there and pilot.free_slots:
                ends = math.inf if pilot.ends_at is None else pilot.ends_at.timestamp()
                self._bins[pilot.free_slots].append(-ends)
        for bin_ in self._bins.values():
            heapq.heapify(bin_)
        self._coming: dict[int, int] = {self._slots: num_coming}
        """Free slots → pilots that are on their way, or asked for in this pass. They last as long as
        any gang needs that is served at all."""
        self.num_unused_coming = num_coming

    def take(self, gang: Gang, *, until: float) -> list[tuple[int, float | None]]:
        """Take as many nodes as there are for a gang, at most its number; each a pair of free slots
        and end, which is None for one that is on its way."""
        taken: list[tuple[int, float | None]] = []
        for free in sorted(size for size in self._bins if size >= gang.slots_per_node):
            bin_ = self._bins[free]
            while bin_ and len(taken) < gang.nodes and -bin_[0] >= until:
                taken.append((free, heapq.heappop(bin_)))
        for free in sorted(size for size in self._coming if size >= gang.slots_per_node):
            num = min(self._coming[free], gang.nodes - len(taken))
            self._coming[free] -= num
            taken += [(free, None)] * num
        return taken

    def give_back(self, taken: Iterable[tuple[int, float | None]]) -> None:
        for free, end in taken:
            self._put(free, end)

    def put_new(self, gang: Gang, taken: Sequence[tuple[int, float | None]], num_new: int) -> None:
        """Put back what a gang leaves free on the nodes that it takes, new ones included."""
        for free, end in [*taken, *[(self._slots, None)] * num_new]:
            self._put(free - gang.slots_per_node, end)
        used = sum(end is None and free == self._slots for free, end in taken)
        self.num_unused_coming -= used

    def _put(self, free: int, end: float | None) -> None:
        if not free:
            return
        if end is None:
            self._coming[free] = self._coming.get(free, 0) + 1
        else:
            heapq.heappush(self._bins[free], end)


def _why_never(provider: Provider, gang: Gang) -> Message | None:
    if gang.slots_per_node > provider.slots:
        return Message(
            "pilots.too_few_slots",
            provider=provider.name,
            slots=gang.slots_per_node,
            has=provider.slots,
        )
    if gang.nodes > provider.max_pilots:
        return Message(
            "pilots.too_many_nodes",
            provider=provider.name,
            nodes=gang.nodes,
            limit=provider.max_pilots,
        )
    if gang.limit_s + gang.grace_s + END_MARGIN_S > provider.walltime_s:
        return Message(
            "pilots.too_long",
            provider=provider.name,
            minutes=round(gang.limit_s / 60, 1),
            walltime=round(provider.walltime_s / 60, 1),
        )
    return None


def _must_wait(provider: Provider, now: dt.datetime) -> bool:
    return provider.not_before is not None and now < provider.not_before


def _why_not_more(
    provider: Provider, gang: Gang, held: int, short: int, wanted: int, now: dt.datetime
) -> Message | None:
    """Return why `short` more pilots are not asked for a gang; None if they are."""
    if _must_wait(provider, now) and provider.not_before is not None:
        return Message(
            "pilots.backoff",
            provider=provider.name,
            at=moment(provider.not_before),
            problem=provider.problem or "the last pilot did not come up",
        )
    if held + short > provider.max_pilots:
        return Message("pilots.limit", provider=provider.name, limit=provider.max_pilots, held=held)
    for cost in provider.costs:
        if wanted + short > cost.num_affordable():
            return _too_expensive(provider, cost, short, wanted)
    is_late = (now - gang.since).total_seconds() >= HOLD_S
    if wanted + short > max(STEP, gang.nodes) or not is_late:
        return Message("pilots.soon", provider=provider.name, pilots=short)
    return None


def _num_affordable(provider: Provider) -> int:
    most = min((cost.num_affordable() for cost in provider.costs), default=math.inf)
    return provider.max_pilots if math.isinf(most) else int(most)


def _too_expensive(provider: Provider, cost: CostLimit, short: int, wanted: int) -> Message:
    reserved = _amount(cost.reserved + wanted * cost.per_pilot)
    needed = _amount(short * cost.per_pilot)
    if not cost.currency:
        return Message(
            "pilots.max_slot_hours",
            provider=provider.name,
            limit=_amount(cost.limit),
            used=_amount(cost.used),
            reserved=reserved,
            pilots=short,
            needed=needed,
        )
    return Message(
        "pilots.max_cost",
        provider=provider.name,
        limit=_amount(cost.limit),
        currency=cost.currency,
        used=_amount(cost.used),
        reserved=reserved,
        pilots=short,
        needed=needed,
    )


def _amount(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _may_cancel(pilot: Pilot) -> bool:
    """Return whether its job does not run yet. One that runs is let come: it leaves by itself."""
    return pilot.state is not PilotState.STARTING


def _newest_first(pilots: Iterable[Pilot]) -> list[Pilot]:
    idle = [pilot for pilot in pilots if _may_cancel(pilot)]
    return sorted(idle, key=lambda pilot: (pilot.since, pilot.id), reverse=True)


def _next_expected(coming: Iterable[Pilot]) -> Pilot | None:
    """Return the pilot expected first among those whose batch system says why they wait."""
    waiting = [pilot for pilot in coming if pilot.state is PilotState.PENDING and pilot.reason]
    return min(
        waiting,
        key=lambda pilot: (pilot.expected_at is None, pilot.expected_at, pilot.id),
        default=None,
    )


def _on_the_way(
    provider: Provider, gang: Gang, short: int, num_coming: int, first: Pilot | None
) -> Message:
    if short:
        return Message("pilots.asked", provider=provider.name, pilots=short)
    if not num_coming:
        return Message("pilots.here", provider=provider.name)
    pilots = min(num_coming, gang.nodes)
    if provider.problem and not provider.failures:
        return Message(
            "pilots.silent", provider=provider.name, pilots=pilots, problem=provider.problem
        )
    if first is None:
        return Message("pilots.coming", provider=provider.name, pilots=pilots)
    job = first.ref or "–"
    if first.expected_at is None:
        return Message(
            "pilots.pending", provider=provider.name, pilots=pilots, job=job, reason=first.reason
        )
    return Message(
        "pilots.expected",
        provider=provider.name,
        pilots=pilots,
        job=job,
        reason=first.reason,
        at=moment(first.expected_at),
    )


def _surplus(
    provider: Provider, coming: Sequence[Pilot], held: int, num_unused: int
) -> tuple[str, ...]:
    """Return the pilots on their way that nothing waits for, the newest first."""
    most = min(num_unused, held - provider.min_pilots)
    return tuple(pilot.id for pilot in _newest_first(coming)[: max(0, most)])
