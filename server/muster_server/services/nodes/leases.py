"""Heartbeats: leases of nodes renewed, for a batch of requests at a time.

Thousands of them come all day and say the same: still here.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from sqlalchemy import BindParameter, Table, Update, bindparam, insert, select, update
from sqlalchemy.orm import Session

from muster.wire import LeaseReply, LeaseRequest, NodeProblem
from muster_server.db.clock import server_time_ms
from muster_server.db.engine import touch
from muster_server.db.models import AllocationRow, NodeRow, NodeSampleRow
from muster_server.db.raw import columns_of
from muster_server.domain.states import AllocationState, NodeState
from muster_server.errors import MusterError
from muster_server.security.principal import Principal
from muster_server.settings import Settings

from ..core.events import add_event
from ..scheduling.allocations import clean, lock_what_may_be_freed
from . import credentials, health, system_metrics
from .sessions import LeaseTerms, NodeIdentity, lease_terms, refusal, superseded


@dataclass(frozen=True, kw_only=True)
class LeaseCall:
    """One request."""

    agent: Principal
    request: LeaseRequest


@dataclass(slots=True)
class _LeasedNode(NodeIdentity):
    """A node before its heartbeat."""

    problems: list[Any]
    sampled_at: dt.datetime | None
    next_credential_hash: str | None
    credential_at: dt.datetime | None
    registered_at: dt.datetime
    join_id: str
    assignments_index: int


_NODES = cast(Table, NodeRow.__table__)
_ALLOCATIONS = cast(Table, AllocationRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
# Rows of nodes are always locked in the order of their ids.
_LOCK_NODES = (
    select(*columns_of(_NODES, _LeasedNode))
    .where(_NODES.c.id.in_(_IDS))
    .order_by(_NODES.c.id)
    .with_for_update()
)
_LOST = select(_ALLOCATIONS.c.node_id, _ALLOCATIONS.c.id).where(
    _ALLOCATIONS.c.node_id.in_(_IDS), _ALLOCATIONS.c.observed == AllocationState.LOST
)
_ADD_SAMPLES = insert(cast(Table, NodeSampleRow.__table__))


@functools.cache
def _update_node(*names: str) -> Update:
    return (
        update(_NODES)
        .where(_NODES.c.id == bindparam("key_id"))
        .values({name: bindparam(name) for name in names})
    )


@dataclass(frozen=True, kw_only=True)
class _Renewal:
    """What one heartbeat changes."""

    node: _LeasedNode
    values: dict[str, Any]
    """Columns of the node."""
    credential: str | None
    """The next one, for its agent."""
    is_back: bool
    """It was SUSPECT."""
    problems: Sequence[NodeProblem] | None
    """What its checks find now; None: what is known already."""
    gone: list[str] = field(default_factory=list)
    """Allocations given up as lost of which nothing lives any more."""


def renew(
    session: Session, calls: Sequence[LeaseCall], *, settings: Settings, now: dt.datetime
) -> list[LeaseReply | MusterError]:
    """Renew the lease of each node, and keep what its heartbeat says.

    Each request is of another node. Errors are NotSignedIn, and Superseded for an older session or a
    node that was given up meanwhile: it has to register again so that what it runs is compared.
    """
    ids = sorted({call.request.node_id for call in calls})
    assert len(ids) == len(calls), "requests of one node are served one after another"
    connection = session.connection()
    # Allocations are locked before their nodes. One that is lost after this waits for the next beat.
    lost = _lost_of(session, [c.request.node_id for c in calls if c.request.running is not None])
    locked = lock_what_may_be_freed(session, lost, states=["LOST"]) if lost else set()
    nodes = {row.id: _LeasedNode(*row) for row in connection.execute(_LOCK_NODES, {"ids": ids})}
    suspects = _lost_of(
        session, [row.id for row in nodes.values() if row.state == NodeState.SUSPECT]
    )
    terms = lease_terms(session, settings)
    decided = [
        _decide(
            nodes.get(call.request.node_id),
            call,
            lost=lost.get(call.request.node_id, set()) & locked,
            must_compare=call.request.node_id in suspects,
            terms=terms,
            settings=settings,
            now=now,
        )
        for call in calls
    ]
    _write(session, [one for one in decided if isinstance(one, _Renewal)], now)
    time_ms = server_time_ms(session)
    return [
        LeaseReply(
            lease_s=terms.lease_s,
            heartbeat_s=terms.heartbeat_s,
            credential=one.credential,
            server_time_ms=time_ms,
            assignments_index=one.node.assignments_index,
        )
        if isinstance(one, _Renewal)
        else one
        for one in decided
    ]


def heard_in_time(settings: Settings, terms: LeaseTerms, now: dt.datetime) -> dict[str, Any]:
    """Return what a heartbeat changes by itself, whatever it says, as columns."""
    return {
        "last_seen_at": now,
        "heard_by": settings.own_name,
        "lease_expires_at": now + dt.timedelta(seconds=terms.lease_s),
    }


def _lost_of(session: Session, node_ids: Iterable[str]) -> dict[str, set[str]]:
    """Return the allocations of these nodes that were given up as lost, by node."""
    found: dict[str, set[str]] = defaultdict(set)
    if ids := sorted(node_ids):
        for node_id, allocation_id in session.connection().execute(_LOST, {"ids": ids}):
            found[node_id].add(allocation_id)
    return found


def _decide(
    node: _LeasedNode | None,
    call: LeaseCall,
    *,
    lost: set[str],
    must_compare: bool,
    terms: LeaseTerms,
    settings: Settings,
    now: dt.datetime,
) -> _Renewal | MusterError:
    """Decide whether to renew the lease of a node, and what else the call changes.

    lost: allocations of the node that may be freed. must_compare: a user's kill did not wait for
    the node, so what still runs there must be compared.
    """
    request = call.request
    error = refusal(node, call.agent, request.session_epoch)
    if error is not None or node is None:
        return error or superseded(None)
    if node.state == NodeState.LOST or must_compare:
        return superseded(node.name)
    values = {**heard_in_time(settings, terms, now), **_reported(request)}
    if "usage" in values and system_metrics.is_due(node.sampled_at, now):
        values["sampled_at"] = now
    is_back = node.state == NodeState.SUSPECT
    if is_back:
        # At once, and not with the next pass: a gang may wait for this node.
        values |= {"state": "ONLINE", "state_reason": "", "state_parts": None}
    found = request.problems
    is_news = found is not None and not health.are_known(node.problems, found)
    frees = request.running is not None and node.state in (NodeState.RECONCILING, NodeState.ONLINE)
    credential, changed = credentials.taken_up_or_replaced(
        node,
        call.agent,
        may_replace=request.accepts_credential,
        max_age_s=settings.agent_credential_max_age_s,
        now=now,
    )
    return _Renewal(
        node=node,
        values={**values, **changed},
        credential=credential,
        is_back=is_back,
        problems=found if is_news else None,
        gone=sorted(lost - set(request.running or ())) if frees else [],
    )


def _reported(request: LeaseRequest) -> dict[str, Any]:
    """Return what a heartbeat says of its node, as columns."""
    values: dict[str, Any] = {}
    if request.clock is not None:
        values |= {
            "clock_offset_ms": request.clock.offset_ms,
            "clock_error_ms": request.clock.error_ms,
            "clock_skew_s": request.clock.skew_s,
        }
    if request.usage is not None:
        values["usage"] = msgspec.to_builtins(request.usage)
    return values


def _write(session: Session, renewals: Sequence[_Renewal], now: dt.datetime) -> None:
    connection = session.connection()
    by_columns: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for one in renewals:
        by_columns[tuple(one.values)].append({"key_id": one.node.id, **one.values})
    for names, rows in by_columns.items():
        connection.execute(_update_node(*names), rows)
    samples: list[Mapping[str, Any]] = [
        {"node_id": one.node.id, "at": now, "usage": one.values["usage"]}
        for one in renewals
        if "sampled_at" in one.values
    ]
    if samples:
        connection.execute(_ADD_SAMPLES, samples)
    for one in renewals:
        touch(session, f"node:{one.node.id}")
        if one.is_back:
            _announce(session, one.node, now)
        if one.problems is not None:
            node = session.get_one(NodeRow, one.node.id)
            health.note_problems(session, node, one.problems, now=now)
    if gone := [allocation_id for one in renewals for allocation_id in one.gone]:
        clean(session, gone, before="LOST", now=now)


def _announce(session: Session, node: _LeasedNode, now: dt.datetime) -> None:
    add_event(
        session,
        "node.state",
        f"{node.name} is ONLINE. Heard again in time.",
        now=now,
        node_id=node.id,
        data={"before": "SUSPECT", "after": "ONLINE"},
    )
    touch(session, "cluster", "loops")
