"""How many trials of a search there is room for, and telling searchers when that has changed.

A search whose document does not say how many trials may be alive at once goes by it. What it was told
is an event like all it hears, so that its decisions can be repeated.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    ExperimentRow,
    NodeRow,
    NodeSlotRow,
    PoolProviderRow,
    ProjectRow,
    SearchEventRow,
    TrialRow,
)
from muster_server.domain.scheduling.resources import NodeView, Request, SlotView, request_for
from muster_server.domain.scheduling.room import num_fitting
from muster_server.domain.search import FOLLOWED_MAX, Roomed
from muster_server.domain.states import TERMINAL_EXPERIMENT

from ..core.periods import load_reservations
from ..scheduling.rows import NODES, node_view
from .events import append

PILOTS_MAX = 1024
"""Most pilots to come that are counted for a search."""
EVENTS_MAX, WINDOW_S = 6, 120.0
"""Maximum number of times that a search is told of its room, and the seconds that it holds for."""

Slots = Mapping[tuple[str, str], int]
"""(node, slot type) → slots."""


class Cluster:
    """The slots of all nodes as they are now: which are free, and which some searches hold."""

    def __init__(
        self, session: Session, experiment_ids: Collection[int] = (), *, now: dt.datetime
    ) -> None:
        """Read the current slots of all nodes.

        experiment_ids: those of the searches to ask about that may hold slots.
        """
        self._nodes: Sequence[NodeView] = [node_view(row, ()) for row in session.execute(NODES)]
        self._free: Slots = {(r.node_id, r.slot_type): r.num for r in session.execute(_FREE)}
        self._held: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
        self._providers: dict[tuple[str, str], _Provider] = {
            (row.pool, row.slot_type): _Provider(row.slots, row.max_pilots, row.exclusive, row.num)
            for row in session.execute(_PROVIDERS)
        }
        self._reserved = [r for r in load_reservations(session, now=now) if r.is_active(now)]
        if experiment_ids:
            held = _HELD.where(TrialRow.experiment_id.in_(experiment_ids))
            for row in session.execute(held):
                self._held[row.experiment_id][row.node_id, row.slot_type] = row.num

    def room(
        self,
        config: ExperimentConfig,
        experiment_id: int | None = None,
        *,
        user_id: int | None,
        project_id: int | None,
    ) -> int:
        """Return how many trials of a configuration fit, 0 to FOLLOWED_MAX.

        experiment_id: the search whose own trials' slots count as free; None if it has none yet.
        user_id, project_id: whose trials they are: nodes that are reserved for others now hold none.
        """
        request = request_for(config)
        slots: Counter[str] = Counter()
        own = self._held.get(experiment_id, {}) if experiment_id is not None else {}
        for known in (self._free, own):
            for (node_id, slot_type), num in known.items():
                if slot_type == request.slot_type:
                    slots[node_id] += num
        others = [r for r in self._reserved if not r.is_for(user_id=user_id, project_id=project_id)]
        closed = {name for reservation in others for name in reservation.nodes}
        nodes = [node for node in self._nodes if node.name not in closed]
        provider = self._providers.get((request.pool, request.slot_type))
        if provider is not None:
            for pilot in provider.pilots_to_come(request):
                nodes.append(pilot)
                slots[pilot.id] = len(pilot.slots)
        return num_fitting(request, nodes, slots, at_most=FOLLOWED_MAX)


class _Provider(NamedTuple):
    """What supplies the nodes of a pool."""

    slots: int
    max_pilots: int
    is_exclusive: bool
    num_pilots: int
    """Pilots whose nodes are there."""

    def pilots_to_come(self, request: Request) -> list[NodeView]:
        """Return the nodes that trials may get beside those that are there. In an exclusive pool, whose
        nodes are for one attempt each, these are all of them, with room for one gang."""
        num_slots, num = self.slots, self.max_pilots - self.num_pilots
        if self.is_exclusive:
            nodes = request.nodes or math.ceil(request.slots / self.slots)
            num_slots, num = min(self.slots, math.ceil(request.slots / nodes)), self.max_pilots
        slots = tuple(SlotView(idx=n, slot_type=request.slot_type) for n in range(num_slots))
        return [
            NodeView(id=f"pilot {n}", name=f"pilot {n}", pool=request.pool, slots=slots)
            for n in range(min(num, PILOTS_MAX))
        ]


_PROVIDERS = (
    select(
        PoolProviderRow.pool,
        PoolProviderRow.slot_type,
        PoolProviderRow.slots,
        PoolProviderRow.max_pilots,
        PoolProviderRow.exclusive,
        func.count(NodeRow.id).label("num"),
    )
    .outerjoin(NodeRow, (NodeRow.pool == PoolProviderRow.pool) & NodeRow.is_pilot)
    .group_by(
        PoolProviderRow.pool,
        PoolProviderRow.slot_type,
        PoolProviderRow.slots,
        PoolProviderRow.max_pilots,
        PoolProviderRow.exclusive,
    )
)


_FREE = (
    select(NodeSlotRow.node_id, NodeSlotRow.slot_type, func.count().label("num"))
    .where(NodeSlotRow.allocation_id.is_(None), NodeSlotRow.problem == "")
    .group_by(NodeSlotRow.node_id, NodeSlotRow.slot_type)
)
_HELD = (
    select(
        TrialRow.experiment_id,
        NodeSlotRow.node_id,
        NodeSlotRow.slot_type,
        func.count().label("num"),
    )
    .join(AllocationRow, AllocationRow.id == NodeSlotRow.allocation_id)
    .join(AttemptRow, AttemptRow.id == AllocationRow.attempt_id)
    .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
    .where(NodeSlotRow.is_gone.is_(False))
    .group_by(TrialRow.experiment_id, NodeSlotRow.node_id, NodeSlotRow.slot_type)
)


def follows(config: ExperimentConfig) -> bool:
    """Return whether the number of parallel trials of a search follows the free slots."""
    return config.search.concurrent is None


def room_now(
    session: Session,
    config: ExperimentConfig,
    experiment_id: int | None = None,
    *,
    user_id: int | None,
    now: dt.datetime,
) -> int | None:
    """Return how many trials of a user fit now; None for a search that does not follow the free slots."""
    if not follows(config):
        return None
    ids = () if experiment_id is None else (experiment_id,)
    cluster = Cluster(session, ids, now=now)
    project_id = session.scalar(select(ProjectRow.id).where(ProjectRow.name == config.project))
    return cluster.room(config, experiment_id, user_id=user_id, project_id=project_id)


def find_changes(
    session: Session, *, after: int, limit: int, now: dt.datetime
) -> tuple[dict[int, int], int]:
    """(experiment → room that its searcher does not know of, experiment to go on after).

    Of `limit` open searches with a greater id than `after`; 0 comes back behind the last. A search that
    was told EVENTS_MAX times within WINDOW_S is left out: where nodes come and go all the time, it
    hears of the room a little later, and its history stays short.
    """
    searches = session.execute(
        select(
            ExperimentRow.id,
            ExperimentRow.config,
            ExperimentRow.search_room,
            ExperimentRow.owner_id,
            ExperimentRow.project_id,
        )
        .where(
            ExperimentRow.search_room.is_not(None),
            ExperimentRow.state.not_in(TERMINAL_EXPERIMENT),
            ExperimentRow.desired == "run",
            ExperimentRow.id > after,
        )
        .order_by(ExperimentRow.id)
        .limit(limit)
    ).all()
    if not searches:
        return {}, 0
    cluster = Cluster(session, [row.id for row in searches], now=now)
    rooms = {
        row.id: cluster.room(row.config, row.id, user_id=row.owner_id, project_id=row.project_id)
        for row in searches
    }
    changed = {row.id: rooms[row.id] for row in searches if rooms[row.id] != row.search_room}
    for experiment_id in _often_told(session, changed, now):
        del changed[experiment_id]
    return changed, searches[-1].id if len(searches) == limit else 0


def _often_told(session: Session, ids: Collection[int], now: dt.datetime) -> list[int]:
    if not ids:
        return []
    query = (
        select(SearchEventRow.experiment_id)
        .where(
            SearchEventRow.experiment_id.in_(ids),
            SearchEventRow.at > now - dt.timedelta(seconds=WINDOW_S),
            SearchEventRow.key.startswith("room:"),
        )
        .group_by(SearchEventRow.experiment_id)
        .having(func.count() >= EVENTS_MAX)
    )
    return list(session.scalars(query))


def tell(session: Session, experiment_id: int, room: int, now: dt.datetime) -> bool:
    """Let a searcher hear how many trials fit. False: it knows, or does not go by it any more."""
    told = session.execute(
        update(ExperimentRow)
        .where(
            ExperimentRow.id == experiment_id,
            ExperimentRow.search_room.is_not(None),
            ExperimentRow.search_room != room,
        )
        .values(search_room=room)
        .execution_options(synchronize_session=False)
    )
    if getattr(told, "rowcount", 0) != 1:
        return False
    append(session, experiment_id, f"room:{now.isoformat()}", Roomed(room=room), now)
    return True
