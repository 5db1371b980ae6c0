"""The heartbeats of many agents in the same moment, by statements that cover all of them.

Thousands of them come all day and say the same: still here. One that says more than that is for
services.agents.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import BindParameter, Table, bindparam, insert, select
from sqlalchemy.orm import Session

from muster.wire import LeaseReply, LeaseRequest
from muster_server.db.clock import server_time_ms
from muster_server.db.engine import touch
from muster_server.db.models import AllocationRow, NodeRow, NodeSampleRow
from muster_server.db.raw import AnyRow
from muster_server.db.together import ALONE, Alone
from muster_server.security.principal import Principal
from muster_server.settings import Settings

from . import agents, identity, node_health, system_metrics


@dataclass(frozen=True, kw_only=True)
class Beat:
    """One request."""

    agent: Principal
    request: LeaseRequest


_N, _A = cast(Table, NodeRow.__table__), cast(Table, AllocationRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
# Rows of nodes are always locked in the order of their ids.
_NODES = (
    select(
        _N.c.id,
        _N.c.state,
        _N.c.session_epoch,
        _N.c.problems,
        _N.c.sampled_at,
        _N.c.credential_at,
        _N.c.registered_at,
        _N.c.credential_hash,
        _N.c.join_id,
    )
    .where(_N.c.id.in_(_IDS))
    .order_by(_N.c.id)
    .with_for_update()
)
_WITH_LOST = select(_A.c.node_id).where(_A.c.node_id.in_(_IDS), _A.c.observed == "LOST").distinct()
_KEEP = insert(cast(Table, NodeSampleRow.__table__))


def renew(
    session: Session, beats: Sequence[Beat], *, settings: Settings, now: dt.datetime
) -> list[LeaseReply | Alone]:
    """`agents.renew_lease` for every one, after `identity.confirm_agent`, or ALONE where that may
    come to anything but a longer lease: refused, back from silence, with other problems than
    before, with something to free, or due for a new credential."""
    connection = session.connection()
    ids = sorted({beat.request.node_id for beat in beats})
    nodes: dict[str, AnyRow] = {row.id: row for row in connection.execute(_NODES, {"ids": ids})}
    with_lost = set(connection.scalars(_WITH_LOST, {"ids": ids}))
    terms = agents.lease_terms(session, settings)
    reply = LeaseReply(
        lease_s=terms.lease_s,
        heartbeat_s=terms.heartbeat_s,
        server_time_ms=server_time_ms(session),
    )
    replies: list[LeaseReply | Alone] = []
    writes: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    samples: list[dict[str, Any]] = []
    for beat in beats:
        # A second one of the same node reads what the first has changed, so it goes alone.
        node = nodes.pop(beat.request.node_id, None)
        if node is None or not _is_usual(node, beat, with_lost, settings, now):
            replies.append(ALONE)
            continue
        values: dict[str, Any] = {
            **agents.heard_in_time(settings, terms, now),
            **agents.said_of(beat.request),
        }
        if node.join_id:
            values["join_id"] = ""  # it has its credential
        if "usage" in values and system_metrics.is_due(node.sampled_at, now):
            values["sampled_at"] = now
            samples.append({"node_id": node.id, "at": now, "usage": values["usage"]})
        writes[tuple(values)].append({"node_id": node.id, "epoch": node.session_epoch, **values})
        touch(session, f"node:{node.id}")
        replies.append(reply)
    for names, some in writes.items():
        connection.execute(agents.renewal(*names), some)
    if samples:
        connection.execute(_KEEP, samples)
    return replies


def _is_usual(
    node: AnyRow, beat: Beat, with_lost: set[str], settings: Settings, now: dt.datetime
) -> bool:
    request = beat.request
    age_s = (now - (node.credential_at or node.registered_at)).total_seconds()
    return (
        node.id == beat.agent.node_id
        and not beat.agent.uses_next_credential
        and identity.is_hash_of(beat.agent, node.credential_hash)
        and node.session_epoch == request.session_epoch
        and node.state in ("ONLINE", "RECONCILING")
        and age_s < settings.agent_credential_max_age_s
        and (request.problems is None or node_health.are_known(node.problems, request.problems))
        and (request.running is None or node.id not in with_lost)
    )
