"""What agents say and hear: joining, leases, and the set of allocations each node should have.

Fences: a new registration adds one to the node's session epoch, and every call of an older
session is answered 410. The record stream is in services/records.py.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from muster.wire import (
    PROTOCOL_VERSION,
    AckState,
    AllocationSpec,
    Assignment,
    AssignmentsReply,
    ExitInfo,
    LeaseReply,
    LeaseRequest,
    LogOffset,
    RegisterReply,
    RegisterRequest,
    Rendezvous,
    RunningAllocation,
    load,
)
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    JoinTokenRow,
    LogStreamRow,
    NodeRow,
    NodeSlotRow,
    TrialRow,
)
from muster_server.domain.lifecycle import heartbeat_interval_s
from muster_server.errors import Conflict, InvalidRequest, NotSignedIn, Superseded
from muster_server.security.principal import Principal
from muster_server.security.tokens import hash_secret, mint
from muster_server.settings import Settings

from .allocations import changed, clean
from .events import add_event

DONE = ("EXITED", "PREPARE_FAILED", "CLEANED", "LOST")
"""Observed states after which an agent has nothing to do for an allocation."""


# ---------------------------------------------------------------- registration


def register(
    session: Session,
    principal: Principal,
    request: RegisterRequest,
    *,
    settings: Settings,
    now: dt.datetime,
) -> RegisterReply:
    """Join the cluster, or come back to it. Starts a new session and ends any older one.

    With a join token the node gets a credential, returned this once. A second machine that uses
    the name or the credential of a live node is refused with 409; a restarted agent on the same
    boot of the same machine is not.
    """
    if request.protocol_version != PROTOCOL_VERSION:
        raise InvalidRequest(
            "agent.protocol_version",
            f"This server speaks protocol {PROTOCOL_VERSION}, the agent {request.protocol_version}.",
            hint="Install the same version of muster on both sides.",
        )
    node, credential = (
        _come_back(session, principal, request, now)
        if principal.kind == "agent"
        else _join(session, principal, request, now)
    )
    rebooted = bool(node.boot_id) and node.boot_id != request.boot_id
    is_first = node.session_epoch == 0
    _describe(node, request)
    node.session_epoch += 1
    node.registered_at = node.last_seen_at = now
    node.lease_expires_at = now + dt.timedelta(seconds=_lease_s(session, settings))
    if rebooted and node.health == "quarantined":
        node.health, node.health_reason = "ok", ""
    session.flush()
    _update_slots(session, node, request)
    adopt, forget = _reconcile(session, node, request, rebooted=rebooted, now=now)
    _enter(session, node, is_first=is_first, rebooted=rebooted, now=now)
    touch(session, "cluster", f"node:{node.id}", "loops")
    return RegisterReply(
        node_id=node.id,
        session_epoch=node.session_epoch,
        credential=credential,
        heartbeat_s=_heartbeat_s(session, settings),
        lease_s=_lease_s(session, settings),
        adopt=adopt,
        forget=forget,
    )


def _come_back(
    session: Session, principal: Principal, request: RegisterRequest, now: dt.datetime
) -> tuple[NodeRow, None]:
    node = session.get(NodeRow, principal.node_id, with_for_update=True)
    if node is None:
        raise NotSignedIn("auth.not_signed_in", "This node was removed from the cluster.")
    _refuse_clone(node, request, now)
    return node, None


def _join(
    session: Session, principal: Principal, request: RegisterRequest, now: dt.datetime
) -> tuple[NodeRow, str]:
    used = changed(
        session,
        update(JoinTokenRow)
        .where(
            JoinTokenRow.id == principal.join_token_id,
            JoinTokenRow.uses_left > 0,
            JoinTokenRow.revoked_at.is_(None),
            JoinTokenRow.expires_at > now,
        )
        .values(uses_left=JoinTokenRow.uses_left - 1),
    )
    if not used:
        raise NotSignedIn("auth.not_signed_in", "This join token has expired or is used up.")
    if not request.name or len(request.name) > 128:
        raise InvalidRequest("agent.bad_name", "A node's name has 1 to 128 characters.")
    if principal.pool is not None and request.pool != principal.pool:
        raise InvalidRequest(
            "agent.wrong_pool",
            f"This join token is for the pool {principal.pool!r}, not {request.pool!r}.",
            hint=f"Set MUSTER_AGENT_POOL={principal.pool}, or make a join token for that pool.",
        )
    credential = mint("agt")
    node = session.scalar(select(NodeRow).where(NodeRow.name == request.name).with_for_update())
    if node is None:
        node = NodeRow(
            id=f"n{secrets.token_hex(8)}",
            name=request.name,
            pool=request.pool,
            state="JOINING",
            session_epoch=0,
            credential_hash=hash_secret(credential),
            registered_at=now,
            last_seen_at=now,
            lease_expires_at=now,
        )
        session.add(node)
    else:
        _refuse_clone(node, request, now)
        node.credential_hash = hash_secret(credential)  # the older one is void from now on
    return node, credential


def _refuse_clone(node: NodeRow, request: RegisterRequest, now: dt.datetime) -> None:
    """A restarted agent replaces its former session; another machine of that name may not."""
    if node.state != "LOST" and node.lease_expires_at > now and node.boot_id != request.boot_id:
        raise Conflict(
            "agent.name_in_use",
            f"A live node is named {node.name!r} already, on another machine or boot.",
            hint="Give this one another name, or wait until the other's lease has expired.",
            retry_after_s=max(1, round((node.lease_expires_at - now).total_seconds())),
        )


def _describe(node: NodeRow, request: RegisterRequest) -> None:
    inventory = request.inventory
    node.pool = request.pool
    node.labels = dict(request.labels)
    node.boot_id = request.boot_id
    node.instance_id = request.instance_id
    node.hostname = inventory.hostname
    node.address = inventory.address
    node.agent_version = inventory.agent_version
    node.inventory = dataclasses.asdict(inventory)


def _update_slots(session: Session, node: NodeRow, request: RegisterRequest) -> None:
    """Slots follow the inventory; one that is gone stays only while something holds it."""
    known = {
        row.idx: row
        for row in session.scalars(select(NodeSlotRow).where(NodeSlotRow.node_id == node.id))
    }
    for slot in request.inventory.slots:
        row = known.pop(slot.index, None)
        if row is None:
            row = NodeSlotRow(node_id=node.id, idx=slot.index, slot_type=slot.slot_type)
            session.add(row)
        row.slot_type = slot.slot_type
        row.device = dataclasses.asdict(slot)
    for row in known.values():
        if row.allocation_id is None:
            session.delete(row)
    session.flush()


def _reconcile(
    session: Session,
    node: NodeRow,
    request: RegisterRequest,
    *,
    rebooted: bool,
    now: dt.datetime,
) -> tuple[list[AckState], list[str]]:
    """Compare what the agent found with what it should have; what to keep, what to forget."""
    rows = {
        row.id: row
        for row in session.scalars(
            select(AllocationRow)
            .where(AllocationRow.node_id == node.id, AllocationRow.observed != "CLEANED")
            .order_by(AllocationRow.id)
            .with_for_update()
        )
    }
    current = dict(
        session.execute(
            select(TrialRow.id, TrialRow.attempt_no).where(
                TrialRow.id.in_({row.trial_id for row in rows.values()})
            )
        ).all()
    )
    adopt: list[AckState] = []
    forget: list[str] = []
    for running in request.running:
        row = rows.pop(running.allocation_id, None)
        if row is not None and _is_kept(row, running, current.get(row.trial_id)):
            adopt.append(_ack_state(session, row))
        else:
            forget.append(running.allocation_id)
    for row in rows.values():
        _settle_missing(session, node, row, rebooted=rebooted, now=now)
    return adopt, forget


def _is_kept(row: AllocationRow, running: RunningAllocation, attempt_no: int | None) -> bool:
    return (
        row.attempt_no == running.attempt_no == attempt_no
        and row.observed not in DONE
        and row.desired != "forget"
    )


def _settle_missing(
    session: Session, node: NodeRow, row: AllocationRow, *, rebooted: bool, now: dt.datetime
) -> None:
    """An allocation the agent has no trace of: nothing of it runs on that machine."""
    if row.observed == "LOST":
        clean(session, row.id, before="LOST", now=now)
        return
    if row.observed in ("ASSIGNED", *DONE):
        return  # not delivered yet, or over: the loops and the next poll see to it
    info = ExitInfo(
        cause="node_rebooted" if rebooted else "shim_lost",
        message=f"{node.name} rebooted while it ran"
        if rebooted
        else f"the agent of {node.name} came back without any trace of it",
    )
    row.observed, row.state_since = "EXITED", now
    row.exit, row.message = dataclasses.asdict(info), info.message
    touch(session, f"trial:{row.trial_id}", "loops")


def _ack_state(session: Session, row: AllocationRow) -> AckState:
    streams = session.scalars(
        select(LogStreamRow)
        .where(LogStreamRow.allocation_id == row.id)
        .order_by(LogStreamRow.local_rank, LogStreamRow.stream)
    )
    return AckState(
        allocation_id=row.id,
        acked_seq=row.acked_seq,
        logs=[
            LogOffset(
                local_rank=stream.local_rank,
                stream="stderr" if stream.stream == "stderr" else "stdout",
                offset=stream.size_bytes,
            )
            for stream in streams
        ],
    )


def _enter(
    session: Session, node: NodeRow, *, is_first: bool, rebooted: bool, now: dt.datetime
) -> None:
    before = node.state
    if before in ("JOINING", "SUSPECT"):
        node.state = "ONLINE"
    elif before == "LOST":
        node.state = "RECONCILING"
    what = "joined" if is_first else ("rebooted and is back" if rebooted else "registered again")
    words = "" if node.state == before else f" It is {node.state}."
    add_event(
        session,
        "node.registered",
        f"{node.name} {what}.{words}",
        now=now,
        level="warning" if rebooted else "info",
        node_id=node.id,
        data={"before": before, "after": node.state, "session_epoch": node.session_epoch},
    )


# ---------------------------------------------------------------- leases


def renew_lease(
    session: Session, request: LeaseRequest, *, settings: Settings, now: dt.datetime
) -> LeaseReply:
    """A heartbeat. Raises Superseded for an older session, and for a node that was given up
    meanwhile: it has to register again so that what it runs is compared."""
    node = require_session(session, request.node_id, request.session_epoch)
    if node.state == "LOST":
        raise _superseded(node)
    lease_s = _lease_s(session, settings)
    values: dict[str, Any] = {
        "last_seen_at": now,
        "lease_expires_at": now + dt.timedelta(seconds=lease_s),
    }
    if request.usage is not None:
        values["usage"] = dataclasses.asdict(request.usage)
    renewed = changed(
        session,
        update(NodeRow)
        .where(NodeRow.id == node.id, NodeRow.session_epoch == request.session_epoch)
        .values(**values),
    )
    if not renewed:
        raise _superseded(node)
    if node.state == "SUSPECT":
        # At once, and not with the next pass: a gang may wait for this node.
        back = changed(
            session,
            update(NodeRow)
            .where(NodeRow.id == node.id, NodeRow.state == "SUSPECT")
            .values(state="ONLINE"),
        )
        if back:
            add_event(
                session,
                "node.state",
                f"{node.name} is ONLINE: heard again in time.",
                now=now,
                node_id=node.id,
                data={"before": "SUSPECT", "after": "ONLINE"},
            )
            touch(session, "cluster", "loops")
    if request.running is not None and node.state in ("RECONCILING", "ONLINE"):
        _confirm_gone(session, node, set(request.running), now)
    touch(session, f"node:{node.id}")
    return LeaseReply(lease_s=lease_s, heartbeat_s=_heartbeat_s(session, settings))


def _confirm_gone(session: Session, node: NodeRow, running: set[str], now: dt.datetime) -> None:
    lost = session.scalars(
        select(AllocationRow.id).where(
            AllocationRow.node_id == node.id, AllocationRow.observed == "LOST"
        )
    )
    for allocation_id in sorted(set(lost) - running):
        clean(session, allocation_id, before="LOST", now=now)


def require_session(session: Session, node_id: str, session_epoch: int) -> NodeRow:
    """The node, if that is its present session. Raises Superseded (410) otherwise."""
    node = session.get(NodeRow, node_id)
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


def _heartbeat_s(session: Session, settings: Settings) -> float:
    num_nodes = session.scalar(select(func.count()).select_from(NodeRow)) or 0
    return heartbeat_interval_s(num_nodes, least_s=settings.heartbeat_s)


def _lease_s(session: Session, settings: Settings) -> float:
    return settings.node_suspect_missed * _heartbeat_s(session, settings)


# ---------------------------------------------------------------- assignments


@dataclass(frozen=True)
class Fence:
    """The session an agent speaks in."""

    node_id: str
    session_epoch: int


def get_index(session: Session, fence: Fence) -> int:
    """The number of the node's present desired set. Raises Superseded."""
    row = session.execute(
        select(NodeRow.assignments_index, NodeRow.session_epoch, NodeRow.state).where(
            NodeRow.id == fence.node_id
        )
    ).one_or_none()
    if row is None or row.session_epoch != fence.session_epoch or row.state == "LOST":
        raise _superseded(None)
    return int(row.assignments_index)


def get_assignments(session: Session, fence: Fence) -> AssignmentsReply:
    """The complete set this node should have, with its number. Raises Superseded."""
    # The number is read first: should the set change in between, the next poll returns at once.
    index = get_index(session, fence)
    rows = session.execute(
        select(AllocationRow, AttemptRow)
        .join(AttemptRow, AttemptRow.id == AllocationRow.attempt_id)
        .where(
            AllocationRow.node_id == fence.node_id,
            AllocationRow.desired != "forget",
            AllocationRow.observed.not_in(("CLEANED", "LOST")),
        )
        .order_by(AllocationRow.created_at, AllocationRow.id)
    )
    return AssignmentsReply(
        index=index,
        assignments=[_assignment(allocation, attempt) for allocation, attempt in rows],
    )


def _assignment(allocation: AllocationRow, attempt: AttemptRow) -> Assignment:
    wanted = allocation.desired
    assert wanted in ("prepare", "start", "stop", "kill"), wanted
    rendezvous = None
    if wanted != "prepare" and attempt.rendezvous_host and attempt.rendezvous_port:
        rendezvous = Rendezvous(
            host=attempt.rendezvous_host,
            port=attempt.rendezvous_port,
            run_id=f"{attempt.trial_id}.{attempt.no}",
        )
    return Assignment(
        spec=load(AllocationSpec, allocation.spec),
        desired=wanted,  # type: ignore[arg-type]
        rendezvous=rendezvous,
        stop_reason=allocation.stop_reason,
    )
