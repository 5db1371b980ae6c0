"""The nodes of one group, and what is left of them in the course of a pass."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from muster_server.domain.nodes.maintenance import NO_MAINTENANCE, NodeMaintenance
from muster_server.domain.nodes.reservations import NodeReservation
from muster_server.domain.scheduling.fitting import Shares, fit
from muster_server.domain.scheduling.offers import Offer
from muster_server.domain.scheduling.resources import (
    NodeView,
    Owner,
    PoolImages,
    Request,
    is_isolated,
)

Ints = NDArray[np.int64]

END_MARGIN_S = 60.0
"""A node that leaves is used only by trials whose limit and stop grace end so long before it does. A
trial without a time limit may start until then."""
MAX_SECTIONS = 512
"""Sections remembered; past it all are forgotten, and made again when they are needed."""


@dataclass(frozen=True, slots=True)
class Node:
    """What the scheduler needs of a node for one type of slot."""

    id: str
    name: str
    host: str
    strikes: int
    shut: str | None
    """Why nothing may be placed on the node, in a word; None if it is open."""
    labels: dict[str, str]
    isolation: str
    pool_isolation: str
    container_runtime: str
    pool_images: PoolImages
    pool_spares: int
    ends_at: float | None
    """When it leaves at the latest, in seconds since 1970; None if it stays."""
    owner: Owner | None
    """The one attempt that may use it; None for any."""
    total: int
    free: tuple[int, ...]
    """Indexes of the free slots, ascending."""
    free_since: tuple[dt.datetime | None, ...]
    """Time since which each of the free slots has been free."""
    held_back: tuple[tuple[int, str], ...] = ()
    """Index and problem of each slot that nothing holds and that takes no new work, ascending."""
    maintenance: NodeMaintenance = NO_MAINTENANCE
    """The maintenance windows that concern it."""
    reservations: tuple[NodeReservation, ...] = ()
    """Its active and planned reservations, the first to start first."""

    @classmethod
    def of(cls, view: NodeView, slot_type: str) -> Node:
        slots = [slot for slot in view.slots if slot.slot_type == slot_type]
        idle = sorted(
            (slot for slot in slots if slot.allocation_id is None), key=lambda slot: slot.idx
        )
        free = [(slot.idx, slot.free_since) for slot in idle if not slot.problem]
        return cls(
            id=view.id,
            name=view.name,
            host=view.host,
            strikes=view.strikes,
            shut=view.unavailable,
            labels=dict(view.labels),
            isolation=view.isolation,
            pool_isolation=view.pool_isolation,
            container_runtime=view.container_runtime,
            pool_images=view.pool_images,
            pool_spares=view.pool_spares,
            ends_at=None if view.ends_at is None else view.ends_at.timestamp(),
            owner=view.owner,
            total=len(slots),
            free=tuple(idx for idx, _ in free),
            free_since=tuple(since for _, since in free),
            held_back=tuple((slot.idx, slot.problem) for slot in idle if slot.problem),
            maintenance=view.maintenance,
            reservations=view.reservations,
        )

    @property
    def num_open(self) -> int:
        """Slots that may hold trials now or later, as far as problems of single slots decide."""
        return self.total - len(self.held_back)

    @property
    def is_like(self) -> tuple[object, ...]:
        """What decides its ordinal, its sections and its number of slots: it rarely changes."""
        kind = (self.name, self.host, self.labels, self.container_runtime, self.ends_at)
        how = (self.isolation, self.pool_isolation, self.pool_images, self.pool_spares)
        return (*kind, *how, self.owner, self.total, self.maintenance.ahead, self.reservations)

    @property
    def closes_at(self) -> float | None:
        """When its next maintenance begins, in seconds since 1970; None if none is planned."""
        ahead = self.maintenance.ahead
        return None if ahead is None else ahead.starts_at.timestamp()

    def reservation_before(self, request: Request, end: float) -> NodeReservation | None:
        """Return the first reservation for others that has begun by `end`, in seconds since 1970."""
        for reservation in self.reservations:
            if reservation.id not in request.reservations:
                return reservation if reservation.starts_at.timestamp() < end else None
        return None

    def leaves_at(self, request: Request) -> float:
        """Return when it leaves, or a reservation for others takes it from `request`, in seconds since
        1970; infinity if neither does."""
        end = math.inf if self.ends_at is None else self.ends_at
        taken = self.reservation_before(request, end)
        return end if taken is None else taken.starts_at.timestamp()

    @property
    def is_too_weak(self) -> bool:
        """Whether it isolates jobs less than its pool requires: no trial may use it."""
        return not is_isolated(self.isolation, self.pool_isolation)


class NodeSection:
    """The nodes that requests with the same conditions may use. Nodes are told by their ordinal."""

    def __init__(self, name: str, ordinals: Iterable[int], nodes: GroupNodes) -> None:
        self.name = name
        """Value of the topology label for a domain; "" for other sections."""
        self.ordinals: Ints = np.fromiter(ordinals, dtype=np.int64)
        listed = self.ordinals.tolist()
        self.offer: Offer[int] = Offer.build(
            (n, nodes.offered(n), nodes[n].strikes) for n in listed
        )
        """Slots that the next trial may take."""
        self.room: Offer[int] = Offer.build((n, nodes.room(n), nodes[n].strikes) for n in listed)
        """Slots of open nodes, held or not."""
        self.domains: dict[str, list[NodeSection]] = {}
        """Node label → one section per value of it."""


class GroupNodes:
    """Nodes in the order of their names, which are their ordinals.

    During a pass slots are taken (by trials that start), given (by trials that are asked to stop)
    and kept (for trials that wait); `reset` forgets all of it.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = sorted(nodes, key=lambda node: (node.name, node.id))
        self.ordinal = {node.id: n for n, node in enumerate(self.nodes)}
        self.by_name = {node.name: n for n, node in enumerate(self.nodes)}
        self.by_host: dict[str, list[int]] = defaultdict(list)
        for n, node in enumerate(self.nodes):
            self.by_host[node.host].append(n)
        self.shut = {n for n, node in enumerate(self.nodes) if node.shut is not None}
        """Nodes on which nothing may be placed."""
        self.partly = {n for n, node in enumerate(self.nodes) if node.held_back}
        """Nodes some of whose slots take no new work."""
        self.too_weak = {n for n, node in enumerate(self.nodes) if node.is_too_weak}
        """Nodes that isolate jobs less than the pool requires. They are in no section."""
        self.owned = {n for n, node in enumerate(self.nodes) if node.owner is not None}
        """Nodes that belong to one attempt. They are only in sections of its request."""
        self.reserved = {n for n, node in enumerate(self.nodes) if node.reservations}
        """Nodes with active or planned reservations. They are in sections of those that have time left
        there."""
        num = len(self.nodes)
        self.num_spares = max((node.pool_spares for node in self.nodes), default=0)
        """Nodes to be held for trials that lost a node."""
        self.totals: Ints = np.array([node.total for node in self.nodes], dtype=np.int64)
        self.free: Ints = np.array([self._open_free(n) for n in range(num)], dtype=np.int64)
        self.taken: Ints = np.zeros(num, dtype=np.int64)
        self.given: Ints = np.zeros(num, dtype=np.int64)
        self.kept: Ints = np.zeros(num, dtype=np.int64)
        self.version = 0
        """Changes when what requests could ever fit changes."""
        self._touched: set[int] = set()
        self._sections_of: list[list[NodeSection]] = [[] for _ in self.nodes]
        self._sections: dict[tuple[object, ...], NodeSection] = {}
        self._expiring: dict[tuple[object, ...], float] = {}
        """Section → when the first of its nodes has too little time left for it."""
        self._has_ends = bool(self.reserved) or any(n.ends_at is not None for n in self.nodes)
        self._has_windows = any(node.maintenance.ahead is not None for node in self.nodes)
        self._checks_images = any(node.pool_images != PoolImages() for node in self.nodes)
        self._now: float | None = None
        self.whole = self._add_whole()

    def __getitem__(self, ordinal: int) -> Node:
        return self.nodes[ordinal]

    def __len__(self) -> int:
        return len(self.nodes)

    def replace(self, node: Node) -> bool:
        """Put a changed node in its place. False: its place has changed, begin anew."""
        n = self.ordinal[node.id]
        old = self.nodes[n]
        if old.is_like != node.is_like:
            return False
        self.nodes[n] = node
        (self.shut.discard if node.shut is None else self.shut.add)(n)
        (self.partly.add if node.held_back else self.partly.discard)(n)
        self.free[n] = self._open_free(n)
        self._show(n)
        if (old.shut, old.strikes, old.num_open) != (node.shut, node.strikes, node.num_open):
            self.version += 1
            for section in self._sections_of[n]:
                section.room.put(n, self.room(n), node.strikes)
        return True

    def reset(self, now: float | None = None) -> None:
        """Forget what was taken, given and kept. now: seconds since 1970, by which nodes that leave
        have time left for a request or not; None as long as that does not matter."""
        self._now = now
        touched, self._touched = self._touched, set()
        for changed in (self.taken, self.given, self.kept):
            changed[:] = 0
        for n in touched:
            self._show(n)
        expired = [key for key, until in self._expiring.items() if now is None or now > until]
        if expired:
            self.version += 1
        if expired or len(self._sections) > MAX_SECTIONS:
            self._sections.clear()
            self._expiring.clear()
            self._sections_of = [[] for _ in self.nodes]
            self.whole = self._add_whole()

    def room(self, n: int) -> int:
        return self.nodes[n].num_open if self.nodes[n].shut is None else 0

    def raw(self, n: int) -> int:
        """Return the slots on offer; fewer than 0 when more is kept than there is."""
        return int(self.free[n] - self.taken[n] + self.given[n] - self.kept[n])

    def offered(self, n: int) -> int:
        return max(0, self.raw(n))

    @property
    def num_offered(self) -> int:
        """Slots on offer, to any trial or to the one that they belong to."""
        return self.whole.offer.total + sum(self.offered(n) for n in self.owned)

    def offers(self) -> Ints:
        """`offered` of every node."""
        offers: Ints = np.maximum(self.free - self.taken + self.given - self.kept, 0)
        return offers

    def take(self, n: int, num: int) -> tuple[int, ...]:
        """Give the next `num` free slots of a node to a trial; their indexes."""
        at = int(self.taken[n])
        self.taken[n] += num
        self._offer(n)
        return self.nodes[n].free[at : at + num]

    def give(self, n: int, num: int) -> None:
        """Count `num` held slots as if they were free."""
        self.given[n] += num
        self._offer(n)

    def keep(self, n: int, num: int) -> None:
        """Offer `num` slots fewer."""
        self.kept[n] += num
        self._offer(n)

    @contextmanager
    def imagined(self) -> Iterator[None]:
        """Discard, at the end of the block, what was given and kept inside it."""
        given, kept = self.given.copy(), self.kept.copy()
        try:
            yield
        finally:
            changed = np.flatnonzero((given != self.given) | (kept != self.kept))
            self.given, self.kept = given, kept
            for n in changed.tolist():
                self._show(n)

    # ---- sections

    def section(self, request: Request, *, at_any_time: bool = False) -> NodeSection:
        """Return the nodes that `request` may use, as far as owner, labels, names, isolation, container
        engine and the time that they have left decide. at_any_time: whether to leave out the last of
        these, whether they leave, are reserved or a maintenance window begins."""
        names = (request.allow_nodes, request.deny_nodes, request.avoid_nodes)
        how = (request.isolation, request.images if self._checks_images else request.is_contained)
        knows_time = self._now is not None and not at_any_time
        is_timed = self._has_ends and knows_time
        # A trial without a time limit goes on, or is asked for its slots, when a window begins.
        limit_s = request.limit_s if self._has_windows and knows_time else 0.0
        is_plain = not (request.labels or any(names) or is_timed or limit_s or self._checks_images)
        if is_plain and how == ("none", False) and request.owner is None:
            return self.whole
        needed_s = request.leaves_after_s + END_MARGIN_S if is_timed else None
        key = (
            tuple(sorted(request.labels.items())),
            *names,
            *how,
            request.owner,
            request.reservations if is_timed else (),
            needed_s,
            limit_s,
        )
        section = self._sections.get(key)
        if section is None:
            found = [n for n, node in enumerate(self.nodes) if may_use(request, node)]
            if needed_s is not None and self._now is not None:
                until = self._now + needed_s
                found = [n for n in found if self.nodes[n].leaves_at(request) >= until]
                end = min((self.nodes[n].leaves_at(request) for n in found), default=math.inf)
                if end < math.inf:
                    self._expiring[key] = end - needed_s
            if limit_s and self._now is not None:
                until = self._now + limit_s
                found = [n for n in found if (self.nodes[n].closes_at or until) >= until]
                starts = [at for n in found if (at := self.nodes[n].closes_at) is not None]
                if starts:
                    expires = self._expiring.get(key, math.inf)
                    self._expiring[key] = min(expires, min(starts) - limit_s)
            section = self._sections[key] = self._add("", found)
        return section

    def closing(self, request: Request) -> list[int]:
        """Return the nodes that `request` might use if no maintenance window began there before its
        time limit ends."""
        if not self._has_windows or not request.limit_s or self._now is None:
            return []
        until = self._now + request.limit_s
        anywhere = self.section(request, at_any_time=True).ordinals.tolist()
        return [n for n in anywhere if (self.nodes[n].closes_at or until) < until]

    def reserved_from(self, request: Request) -> list[int]:
        """Return the nodes that `request` might use if reservations for others left it time there."""
        if not self.reserved or self._now is None:
            return []
        end = self.latest_end(request)
        anywhere = set(self.section(request, at_any_time=True).ordinals.tolist())
        return [
            n
            for n in sorted(self.reserved & anywhere)
            if self.nodes[n].reservation_before(request, end) is not None
        ]

    def reserved_for(self, request: Request) -> list[int]:
        """Return the nodes that a reservation keeps for `request` now."""
        now = math.inf if self._now is None else self._now
        return [
            n
            for n in sorted(self.reserved if request.reservations else ())
            if any(
                r.id in request.reservations and r.starts_at.timestamp() <= now
                for r in self.nodes[n].reservations
            )
        ]

    def latest_end(self, request: Request) -> float:
        """Return when a trial that starts now has left its slots, in seconds since 1970."""
        return (self._now or 0.0) + request.leaves_after_s + END_MARGIN_S

    def is_reserved_now(self, n: int) -> bool:
        """Return whether a reservation of the node has begun."""
        now = -math.inf if self._now is None else self._now
        return any(r.starts_at.timestamp() <= now for r in self.nodes[n].reservations)

    def domains(self, section: NodeSection, label: str) -> list[NodeSection]:
        """`section` by the values of a node label. Nodes without that label are in none."""
        if label not in section.domains:
            values: dict[str, list[int]] = defaultdict(list)
            for n in section.ordinals.tolist():
                if label in self.nodes[n].labels:
                    values[self.nodes[n].labels[label]].append(n)
            section.domains[label] = [self._add(v, values[v]) for v in sorted(values)]
        return section.domains[label]

    def _add_whole(self) -> NodeSection:
        left_out = self.too_weak | self.owned
        return self._add("", (n for n in range(len(self.nodes)) if n not in left_out))

    def _add(self, name: str, ordinals: Iterable[int]) -> NodeSection:
        section = NodeSection(name, ordinals, self)
        for n in section.ordinals.tolist():
            self._sections_of[n].append(section)
        return section

    def _open_free(self, n: int) -> int:
        return len(self.nodes[n].free) if self.nodes[n].shut is None else 0

    def _offer(self, n: int) -> None:
        self._touched.add(n)
        self._show(n)

    def _show(self, n: int) -> None:
        offered = self.offered(n)
        for section in self._sections_of[n]:
            section.offer.put(n, offered, self.nodes[n].strikes)


def may_use(request: Request, node: Node | NodeView) -> bool:
    """Return whether owner, labels, names, isolation, container engine and the images of the pool
    allow a gang of `request` on the node."""
    if node.owner != request.owner:
        return False
    if request.allow_nodes and node.name not in request.allow_nodes:
        return False
    if node.name in request.deny_nodes or node.name in request.avoid_nodes:
        return False
    if not is_isolated(node.isolation, request.isolation):
        return False
    if not is_isolated(node.isolation, node.pool_isolation):
        return False
    if request.is_contained and not node.container_runtime:
        return False
    if node.pool_images.refused(request.images) is not None:
        return False
    return all(node.labels.get(key) == value for key, value in request.labels.items())


def could_hold(request: Request, nodes: Iterable[NodeView]) -> bool:
    """Return whether a gang of `request` would fit on the nodes if all of them were idle and
    open."""
    there = (Node.of(view, request.slot_type) for view in nodes if view.pool == request.pool)
    group = GroupNodes(replace(node, shut=None, held_back=()) for node in there if node.total)
    least = request.least_slots
    return fit_in(group, request, lambda section: section.room, at_most=least) is not None


def places_for(request: Request, nodes: GroupNodes) -> Iterator[tuple[NodeSection, Request]]:
    """Yield the sections that may hold a whole gang, best first, each with the request to fit
    there.

    With a topology label: a single node, with the label or not; the nodes of one value of it; and
    unless the request insists on one of those, all nodes.
    """
    section = nodes.section(request)
    if request.topology_key is not None:
        if request.nodes in (None, 1):
            yield section, replace(request, max_nodes=1, topology_key=None)
        for domain in nodes.domains(section, request.topology_key):
            yield domain, request
    if request.topology_key is None or request.topology_mode == "prefer":
        yield section, request


def fit_in(
    nodes: GroupNodes,
    request: Request,
    offers: Callable[[NodeSection], Offer[int]],
    *,
    at_most: int | None = None,
    first: Collection[int] = (),
) -> Shares[int] | None:
    """Return where a gang fits, topology included, as ordinal → slots; None if it does not fit.

    offers: selects which numbers to use, the slots on offer or the slots of idle nodes.

    Among several sections, the first of these wins: the one that holds most of an elastic gang; one
    value of a preferred topology label rather than several; the fewest nodes; the section that
    offers least.
    """
    if request.topology_key is None:
        return fit(request, offers(nodes.section(request)), at_most=at_most, first=first)
    best: tuple[tuple[int, bool, int, int], Shares[int]] | None = None
    for section, local in places_for(request, nodes):
        offer = offers(section)
        shares = fit(local, offer, at_most=at_most, first=first)
        if shares is not None:
            spreads = local.max_nodes != 1 and not section.name
            key = (-sum(shares.values()), spreads, len(shares), offer.total)
            if best is None or key < best[0]:
                best = (key, shares)
    return None if best is None else best[1]
