"""What providers are decided on, out of the tables."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from muster_server.db.models import NodeRow, NodeSlotRow, PilotRow, PoolProviderRow, TrialRow
from muster_server.db.rows import from_row
from muster_server.domain.messages import Message
from muster_server.domain.nodes.availability import is_blocked_by, why_unavailable
from muster_server.domain.nodes.maintenance import Schedule
from muster_server.domain.providers import (
    Gang,
    Pilot,
    PilotState,
    Provider,
    ProviderOptions,
    options_of,
)
from muster_server.domain.scheduling.fitting import least_nodes
from muster_server.domain.scheduling.views import QueuedTrial
from muster_server.domain.states import NodeState

from ..core.periods import load_schedule
from .costs import cost_limits

IDS_PER_QUERY = 500


@dataclass(frozen=True, kw_only=True)
class ProviderSnapshot:
    """A pool's provider with what waits in the pool."""

    pool: str
    slot_type: str
    idle_s: int
    options: ProviderOptions
    provider: Provider
    pilots: tuple[Pilot, ...]
    gangs: tuple[Gang, ...] = ()
    held: Mapping[int, Message] = field(default_factory=dict)
    """Trials that start on no node of the pool now, and why."""


ANY_PROVIDER = exists().where(PoolProviderRow.pool.is_not(None))
"""Whether any pool has a provider."""


def load_providers(
    session: Session, queue: Iterable[QueuedTrial] = (), *, now: dt.datetime
) -> list[ProviderSnapshot]:
    """Return every provider with its open pilots, and those of `queue` that wait in its pool. What a
    maintenance window keeps off the pool waits for no pilot."""
    rows = session.scalars(select(PoolProviderRow).order_by(PoolProviderRow.pool)).all()
    if not rows:
        return []
    waiting: dict[tuple[str, str], list[QueuedTrial]] = defaultdict(list)
    for trial in queue:
        waiting[trial.group].append(trial)
    schedule = load_schedule(session, now=now)
    pilots = _load_pilots(session, schedule)
    found = []
    for row in rows:
        options = options_of(row.options, row.kind)
        trials = waiting.get((row.pool, row.slot_type), [])
        held: dict[int, Message] = {}
        for trial in trials:
            if (why := schedule.keeps_off(row.pool, limit_s=trial.request.limit_s)) is not None:
                held[trial.trial_id] = why
        trials = [trial for trial in trials if trial.trial_id not in held]
        attempts = _attempts(session, trials) if row.exclusive else {}
        found.append(
            ProviderSnapshot(
                pool=row.pool,
                slot_type=row.slot_type,
                idle_s=row.idle_s,
                options=options,
                provider=from_row(
                    Provider,
                    row,
                    name=options.name,
                    is_exclusive=row.exclusive,
                    costs=cost_limits(session, row),
                ),
                pilots=tuple(pilots.get(row.pool, ())),
                gangs=tuple(_gangs(trials, row.slots, attempts)),
                held=held,
            )
        )
    return found


def _gangs(trials: list[QueuedTrial], slots: int, attempts: Mapping[int, int]) -> Iterable[Gang]:
    """Yield what pilots can serve, the most important first. Trials that ask for labels or names are
    not among them: pilots have none that a document could know."""
    for trial in sorted(trials, key=lambda t: (-t.priority, t.place, t.trial_id)):
        request = trial.request
        if request.labels or request.allow_nodes or request.topology_mode == "require":
            continue
        nodes = request.nodes or least_nodes(request, slots)
        largest = max((member.slots for member in request.members), default=0)
        yield Gang(
            trial_id=trial.trial_id,
            nodes=nodes,
            slots_per_node=max(largest, slots)
            if request.members
            else math.ceil(request.least_slots / nodes),
            limit_s=request.limit_s,
            grace_s=request.grace_s,
            since=trial.waits_since,
            attempt_no=attempts.get(trial.trial_id, 0) + 1,
        )


def _attempts(session: Session, trials: list[QueuedTrial]) -> dict[int, int]:
    """Return the number of the last attempt of each trial."""
    ids = [trial.trial_id for trial in trials]
    found: dict[int, int] = {}
    for first in range(0, len(ids), IDS_PER_QUERY):
        query = select(TrialRow.id, TrialRow.attempt_no).where(
            TrialRow.id.in_(ids[first : first + IDS_PER_QUERY])
        )
        found |= {row.id: row.attempt_no for row in session.execute(query)}
    return found


def _load_pilots(session: Session, schedule: Schedule) -> dict[str, list[Pilot]]:
    free = (
        select(NodeSlotRow.node_id, func.count().label("num"))
        .where(
            NodeSlotRow.allocation_id.is_(None),
            NodeSlotRow.is_gone.is_(False),
            NodeSlotRow.problem == "",
        )
        .group_by(NodeSlotRow.node_id)
        .subquery()
    )
    rows = session.execute(
        select(PilotRow, NodeRow, free.c.num)
        .outerjoin(NodeRow, NodeRow.name == PilotRow.id)
        .outerjoin(free, free.c.node_id == NodeRow.id)
        .where(PilotRow.state != PilotState.ENDED)
        .order_by(PilotRow.asked_at, PilotRow.id)
    )
    found: dict[str, list[Pilot]] = defaultdict(list)
    for row, node, num_free in rows:
        found[row.pool].append(
            from_row(
                Pilot,
                row,
                has_node=node is not None,
                is_heard=node is not None and node.state == NodeState.ONLINE,
                free_slots=(num_free or 0) if _takes_work(node, schedule) else 0,
                ends_at=node.ends_at if node is not None else None,
                owner=None if row.trial_id is None else (row.trial_id, row.attempt_no or 0),
                is_open=node is None or node.scheduling == "open",
            )
        )
    return found


def _takes_work(node: NodeRow | None, schedule: Schedule) -> bool:
    if node is None:
        return False
    return not why_unavailable(
        state=node.state,
        scheduling=node.scheduling,
        health=node.health,
        is_blocked=is_blocked_by(node.problems),
        in_maintenance=schedule.of_node(node=node.name, pool=node.pool).active is not None,
    )
