"""What agents say and hear: leases, and the set of allocations each node should have.

Every call of a session that is not the node's present one is answered 410. Sessions begin in
services/registration.py; the record stream is in services/records.py.
"""

from __future__ import annotations

import datetime as dt
import functools
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Row, Update, bindparam, func, select, update
from sqlalchemy.orm import Session, load_only

from muster.wire import (
    AllocationSpec,
    Assignment,
    AssignmentsReply,
    DeletionsReply,
    DeletionsRequest,
    DescriptionReply,
    DescriptionRequest,
    ExportReply,
    ExportRequest,
    LeaseReply,
    LeaseRequest,
    PreflightReply,
    PreflightRequest,
    ProfileOrder,
    Rendezvous,
    load,
)
from muster_server.db.clock import server_time_ms
from muster_server.db.engine import touch
from muster_server.db.models import AllocationRow, AttemptRow, NodeRow
from muster_server.domain.lifecycle import heartbeat_interval_s
from muster_server.errors import Superseded
from muster_server.security.principal import Principal
from muster_server.settings import Settings

from . import (
    checkpoint_exports,
    credentials,
    file_deletions,
    identity,
    layer_tables,
    node_health,
    preflights,
    system_metrics,
)
from .allocations import changed, clean, lock_what_may_be_freed
from .events import add_event

# ---------------------------------------------------------------- what every call asks
# Written down once: they are asked thousands of times a minute, and putting a statement together
# takes longer than a database needs to answer it.

_OF_NODE = NodeRow.id == bindparam("node_id")
_NODE = (
    select(NodeRow)
    .where(_OF_NODE)
    .options(
        load_only(
            NodeRow.name,
            NodeRow.state,
            NodeRow.session_epoch,
            NodeRow.problems,
            NodeRow.sampled_at,
            NodeRow.credential_at,
            NodeRow.registered_at,
            NodeRow.join_id,
            NodeRow.storage_id,
        )
    )
)


@functools.cache
def renewal(*names: str) -> Update:
    """Sets these columns of a node, if that is its session."""
    nodes = NodeRow.__table__.c
    return (
        update(NodeRow.__table__)  # type: ignore[arg-type]
        .where(nodes.id == bindparam("node_id"), nodes.session_epoch == bindparam("epoch"))
        .values({name: bindparam(name) for name in names})
    )


_NUM_NODES = select(func.count()).select_from(NodeRow)
_LOST_OF_NODE = (
    select(AllocationRow.id)
    .where(AllocationRow.node_id == bindparam("node_id"), AllocationRow.observed == "LOST")
    .limit(1)
)
_INDEX = select(
    NodeRow.assignments_index,
    NodeRow.session_epoch,
    NodeRow.state,
    NodeRow.name,
    NodeRow.storage_id,
    NodeRow.credential_hash,
).where(_OF_NODE)
_INDEXES = select(NodeRow.id, NodeRow.session_epoch, NodeRow.assignments_index, NodeRow.state)
_WANTED_OF_NODE = (
    select(
        AllocationRow.spec,
        AllocationRow.desired,
        AllocationRow.stop_reason,
        AllocationRow.stop_grace_s,
        AllocationRow.stop_kind,
        AllocationRow.stacks_no,
        AllocationRow.profile,
        AttemptRow.rendezvous_host,
        AttemptRow.rendezvous_port,
        AttemptRow.trial_id,
        AttemptRow.no,
    )
    .join(AttemptRow, AttemptRow.id == AllocationRow.attempt_id)
    .where(
        AllocationRow.node_id == bindparam("node_id"),
        AllocationRow.desired != "forget",
        AllocationRow.observed.not_in(("CLEANED", "LOST")),
    )
    .order_by(AllocationRow.created_at, AllocationRow.id)
)

# ---------------------------------------------------------------- leases


def renew_lease(
    session: Session,
    principal: Principal,
    request: LeaseRequest,
    *,
    settings: Settings,
    now: dt.datetime,
) -> LeaseReply:
    """A heartbeat. Raises Superseded for an older session, and for a node that was given up
    meanwhile: it has to register again so that what it runs is compared."""
    node = require_session(session, request.node_id, request.session_epoch)
    if node.state == "LOST":
        raise _superseded(node)
    may_be_gone: set[str] = set()
    if request.running is not None and node.state in ("RECONCILING", "ONLINE"):
        may_be_gone = lock_what_may_be_freed(session, [node.id], states=["LOST"])
    terms = lease_terms(session, settings)
    values = heard_in_time(settings, terms, now) | said_of(request)
    if "usage" in values and system_metrics.is_due(node.sampled_at, now):
        values["sampled_at"] = now
    renewed = changed(
        session,
        renewal(*values),
        {"node_id": node.id, "epoch": request.session_epoch, **values},
    )
    if not renewed:
        raise _superseded(node)
    if "sampled_at" in values:
        system_metrics.keep(session, node.id, values["usage"], now)
    if node.state == "SUSPECT":
        # At once, and not with the next pass: a gang may wait for this node.
        back = changed(
            session,
            update(NodeRow)
            .where(NodeRow.id == node.id, NodeRow.state == "SUSPECT")
            .values(state="ONLINE", state_reason="", state_parts=None),
        )
        if back:
            if session.scalar(_LOST_OF_NODE, {"node_id": node.id}) is not None:
                # A user's kill did not wait for it: what still runs there must be compared.
                raise _superseded(node)
            add_event(
                session,
                "node.state",
                f"{node.name} is ONLINE. Heard again in time.",
                now=now,
                node_id=node.id,
                data={"before": "SUSPECT", "after": "ONLINE"},
            )
            touch(session, "cluster", "loops")
    if request.problems is not None:
        node_health.note_problems(session, node, request.problems, now=now)
    if gone := sorted(may_be_gone - set(request.running or ())):
        clean(session, gone, before="LOST", now=now)
    touch(session, f"node:{node.id}")
    return LeaseReply(
        lease_s=terms.lease_s,
        heartbeat_s=terms.heartbeat_s,
        credential=_renew_credential(session, principal, request, settings, now),
        server_time_ms=server_time_ms(session),
    )


def heard_in_time(settings: Settings, terms: LeaseTerms, now: dt.datetime) -> dict[str, Any]:
    """What a heartbeat changes by itself, whatever it says, as columns."""
    return {
        "last_seen_at": now,
        "heard_by": settings.own_name,
        "lease_expires_at": now + dt.timedelta(seconds=terms.lease_s),
    }


def said_of(request: LeaseRequest) -> dict[str, Any]:
    """What a heartbeat says of its node, as columns."""
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


def _renew_credential(
    session: Session,
    principal: Principal,
    request: LeaseRequest,
    settings: Settings,
    now: dt.datetime,
) -> str | None:
    """Note which credential the agent has, and give it the next one when that is due."""
    node = session.get_one(NodeRow, request.node_id)
    is_due = (now - (node.credential_at or node.registered_at)).total_seconds() >= (
        settings.agent_credential_max_age_s
    )
    if not (node.join_id or principal.uses_next_credential or is_due):
        return None
    node = session.get_one(NodeRow, request.node_id, with_for_update=True, populate_existing=True)
    credentials.note_use(node, principal, now=now)
    if not request.accepts_credential:
        return None
    return credentials.replace_old(node, max_age_s=settings.agent_credential_max_age_s, now=now)


def require_session(session: Session, node_id: str, session_epoch: int) -> NodeRow:
    """The node, if that is its present session. Raises Superseded (410) otherwise.

    What calls of agents do not look at, its inventory above all, is read when it is asked for.
    """
    node = session.scalar(_NODE, {"node_id": node_id})
    if node is None or node.session_epoch != session_epoch:
        raise _superseded(node)
    return node


def _superseded(node: NodeRow | None) -> Superseded:
    name = node.name if node is not None else "This node"
    return Superseded(
        "agent.session_superseded",
        f"{name} has a newer session, or was given up as lost.",
        hint="Register again.",
    )


@dataclass(frozen=True, kw_only=True)
class LeaseTerms:
    heartbeat_s: float
    """From one heartbeat to the next."""
    lease_s: float
    """How long a lease holds, counted by the agent from before it asked."""


def lease_terms(session: Session, settings: Settings) -> LeaseTerms:
    """What every node is told: it depends on how many there are."""
    num_nodes = session.scalar(_NUM_NODES) or 0
    interval_s = heartbeat_interval_s(num_nodes, least_s=settings.heartbeat_s)
    return LeaseTerms(heartbeat_s=interval_s, lease_s=settings.node_suspect_missed * interval_s)


# ---------------------------------------------------------------- assignments


@dataclass(frozen=True)
class Fence:
    """The session an agent speaks in."""

    node_id: str
    session_epoch: int


def get_index(session: Session, fence: Fence) -> int:
    """The number of the node's present desired set. Raises Superseded."""
    return int(_present(session, fence).assignments_index)


def get_indexes(session: Session) -> dict[Fence, int]:
    """`get_index` of every session for which that would not raise."""
    return {
        Fence(row.id, row.session_epoch): row.assignments_index
        for row in session.execute(_INDEXES)
        if row.state != "LOST"
    }


def _present(
    session: Session, fence: Fence, agent: Principal | None = None
) -> Row[int, int, str, str, str, str]:
    row = session.execute(_INDEX, {"node_id": fence.node_id}).one_or_none()
    if agent is not None:
        identity.confirm_hash(agent, row.credential_hash if row is not None else None)
    if row is None or row.session_epoch != fence.session_epoch or row.state == "LOST":
        raise _superseded(None)
    return row


def answer_poll(
    session: Session, agent: Principal, fence: Fence, *, unless: int | None
) -> AssignmentsReply | None:
    """`get_assignments`; None while its number is `unless`. Raises Superseded, and NotSignedIn like
    `identity.confirm_agent`."""
    node = _present(session, fence, agent)
    return _assignments_of(session, fence, node) if node.assignments_index != unless else None


def get_assignments(session: Session, fence: Fence) -> AssignmentsReply:
    """The complete set this node should have, with its number. Raises Superseded."""
    return _assignments_of(session, fence, _present(session, fence))


def _assignments_of(
    session: Session, fence: Fence, node: Row[int, int, str, str, str, str]
) -> AssignmentsReply:
    # The number was read first: should the set change in between, the next poll returns at once.
    rows = session.execute(_WANTED_OF_NODE, {"node_id": fence.node_id})
    return AssignmentsReply(
        index=node.assignments_index,
        assignments=[_assignment(row) for row in rows],
        deletions=file_deletions.wanted_of(session, name=node.name, storage_id=node.storage_id),
        preflights=preflights.wanted_of(session, fence.node_id),
        exports=checkpoint_exports.wanted_of(session, name=node.name, storage_id=node.storage_id),
        descriptions=layer_tables.wanted_of(session, fence.node_id),
    )


def take_preflight(
    session: Session, request: PreflightRequest, *, now: dt.datetime
) -> PreflightReply:
    """How a stage of a preflight went on this node. Raises Superseded."""
    require_session(session, request.node_id, request.session_epoch)
    taken = preflights.take_report(session, request.node_id, request.report, now)
    return PreflightReply(taken=taken)


def take_deletions(
    session: Session, request: DeletionsRequest, *, now: dt.datetime
) -> DeletionsReply:
    """How deletions of files went that this node was asked for. Raises Superseded."""
    node = require_session(session, request.node_id, request.session_epoch)
    return file_deletions.take_results(session, node, request, now=now)


def take_export(session: Session, request: ExportRequest, *, now: dt.datetime) -> ExportReply:
    """How the export of a model went that this node was asked for. Raises Superseded."""
    node = require_session(session, request.node_id, request.session_epoch)
    return checkpoint_exports.take_result(session, node, request.result, now=now)


def take_description(
    session: Session, request: DescriptionRequest, *, now: dt.datetime
) -> DescriptionReply:
    """The layers of a model that this node was asked for. Raises Superseded."""
    require_session(session, request.node_id, request.session_epoch)
    return layer_tables.take_result(session, request.node_id, request.result, now=now)


def _assignment(row: Any) -> Assignment:
    wanted = row.desired
    assert wanted in ("prepare", "start", "stop", "kill"), wanted
    return Assignment(
        spec=load(AllocationSpec, row.spec),
        desired=wanted,
        rendezvous=rendezvous_of(row),
        stop_reason=row.stop_reason,
        stop_grace_s=row.stop_grace_s,
        stop_kind=row.stop_kind,
        stacks_no=row.stacks_no,
        profile=None if row.profile is None else load(ProfileOrder, row.profile),
    )


def rendezvous_of(row: Any) -> Rendezvous | None:
    """Where an attempt meets; its members hear of it from their start on."""
    if row.desired == "prepare" or not row.rendezvous_host or not row.rendezvous_port:
        return None
    return Rendezvous(
        host=row.rendezvous_host, port=row.rendezvous_port, run_id=f"{row.trial_id}.{row.no}"
    )
