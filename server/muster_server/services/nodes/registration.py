"""An agent joins the cluster or comes back to it, and a new session of its node begins.

Fences: a registration adds one to the node's session epoch, and every call of an older session is
answered 410 (services/nodes/sessions.py).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from muster.wire import (
    PROTOCOL_VERSION,
    AckState,
    ExitInfo,
    LogOffset,
    RegisterReply,
    RegisterRequest,
    RunningAllocation,
)
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    LogStreamRow,
    NodeRow,
    NodeSlotRow,
    PilotRow,
    TrialRow,
)
from muster_server.domain.nodes.devices import match_slots
from muster_server.domain.states import ALLOCATION_TRANSITIONS, AllocationState, NodeState
from muster_server.errors import Conflict, InvalidRequest, MusterError, NotSignedIn, Superseded
from muster_server.security.principal import Principal
from muster_server.settings import Settings

from ..core.assignments import lock_nodes
from ..core.events import add_event, was_told
from ..core.slot_problems import hold_back
from ..scheduling.allocations import clean, lock_what_may_be_freed
from . import credentials, health
from .leases import heard_in_time
from .sessions import lease_terms

DONE = ("EXITED", "PREPARE_FAILED", "CLEANED", "LOST")
"""Observed states after which an agent has nothing to do for an allocation."""

_NOT_CLEANED = frozenset(before for before, _ in ALLOCATION_TRANSITIONS)

OLD_INSTANCES_KEPT = 8
CLONE_EVENT_EVERY = dt.timedelta(minutes=10)


class Cloned(Conflict):
    """Two agents with one identity. `node_id` says which."""

    def __init__(self, node: NodeRow, now: dt.datetime) -> None:
        super().__init__(
            "agent.cloned",
            f"Another agent has taken the place of this one as {node.name!r}, and is alive.",
            hint="Two agents share one credential: was this machine's disk copied? Give each "
            "machine its own MUSTER_AGENT_HOME and let it join with a join token.",
            retry_after_s=_seconds_left(node, now),
        )
        self.node_id = node.id


@dataclass(frozen=True, kw_only=True)
class RegisterCall:
    """One request."""

    principal: Principal
    request: RegisterRequest


def register(
    session: Session, calls: Sequence[RegisterCall], *, settings: Settings, now: dt.datetime
) -> list[RegisterReply | MusterError]:
    """Let agents join the cluster, or come back to it. Starts a new session of each node and ends any
    older one.

    With a join token the node gets a credential, returned this once; the same joining asked again
    (its answer was lost) uses up nothing. A join token takes over the name of a node only once that
    has been silent for as long as it takes to be LOST: until then the node's own credential is what
    proves who it is, and others are refused
    with 409. So is a second machine with the credential of a live node, and an agent process that a
    later one has replaced; a restarted agent on the same boot of the same machine is not. A request
    that arrives after a later one of the same process is answered 410.
    """
    held = _lock(session, calls)
    lock_nodes(session, _node_ids(session, calls))
    replies: dict[int, RegisterReply | MusterError] = {}
    # By name, for names of new nodes are unique, too.
    for place in sorted(range(len(calls)), key=lambda place: calls[place].request.name):
        try:
            with session.begin_nested():
                replies[place] = _register(session, calls[place], held, settings=settings, now=now)
        except MusterError as error:
            replies[place] = error
    return [replies[place] for place in range(len(calls))]


def _register(
    session: Session,
    call: RegisterCall,
    held: set[str],
    *,
    settings: Settings,
    now: dt.datetime,
) -> RegisterReply:
    """Register a node: a known one by its credential, a new one by its join token.

    held: allocations that were locked before the node.
    """
    principal, request = call.principal, call.request
    if request.protocol_version != PROTOCOL_VERSION:
        raise InvalidRequest(
            "agent.protocol_version",
            f"This server speaks protocol {PROTOCOL_VERSION}, the agent {request.protocol_version}.",
            hint="Install the same version of muster on both sides.",
        )
    node, credential = (
        _come_back(session, principal, request, now)
        if principal.kind == "agent"
        else _join(session, principal, request, settings=settings, now=now)
    )
    rebooted = bool(node.boot_id) and node.boot_id != request.boot_id
    is_first = node.session_epoch == 0
    _describe(session, node, request, rebooted=rebooted)
    node.session_epoch += 1
    node.registered_at = now
    session.flush()
    terms = lease_terms(session, settings)
    for name, value in heard_in_time(settings, terms, now).items():
        setattr(node, name, value)
    _update_slots(session, node, request, now)
    adopt, forget = _reconcile(session, node, request, held, rebooted=rebooted, now=now)
    if is_first and node.is_pilot:
        _note_pilot(session, node.name, now)
    _enter(session, node, is_first=is_first, rebooted=rebooted, now=now)
    touch(session, "cluster", f"node:{node.id}", "loops")
    return RegisterReply(
        node_id=node.id,
        session_epoch=node.session_epoch,
        credential=credential,
        heartbeat_s=terms.heartbeat_s,
        lease_s=terms.lease_s,
        adopt=adopt,
        forget=forget,
    )


def _note_pilot(session: Session, pilot_id: str, now: dt.datetime) -> None:
    """Record that the node of a pilot is in the cluster: it may be gone again before its batch system is
    asked next. Does nothing for one that no provider asked for."""
    session.execute(
        update(PilotRow)
        .where(PilotRow.id == pilot_id)
        .values(was_up=True, started_at=func.coalesce(PilotRow.started_at, now))
    )


def _lock(session: Session, calls: Sequence[RegisterCall]) -> set[str]:
    """Lock the allocations that these registrations may free, before their nodes, and return their
    IDs.

    An allocation created afterwards had not been delivered when they asked; the next poll handles
    it.
    """
    return lock_what_may_be_freed(session, _node_ids(session, calls), states=_NOT_CLEANED)


def _node_ids(session: Session, calls: Sequence[RegisterCall]) -> set[str]:
    """Return the IDs of the known nodes among the callers, by credential or by the name that a join
    request gives."""
    ids = {call.principal.node_id for call in calls if call.principal.node_id is not None}
    names = {call.request.name for call in calls if call.principal.kind != "agent"}
    if names:
        ids |= set(session.scalars(select(NodeRow.id).where(NodeRow.name.in_(names))))
    return ids


def note_clone(session: Session, node_id: str, now: dt.datetime) -> None:
    """Tell people of a refused clone, once in a while: it asks every few seconds."""
    if not was_told(session, "node.cloned", node_id=node_id, since=now - CLONE_EVENT_EVERY):
        node = session.get_one(NodeRow, node_id)
        add_event(
            session,
            "node.cloned",
            f"A second agent says that it is {node.name}; it was refused. "
            "Was the disk of that machine copied?",
            now=now,
            level="error",
            node_id=node_id,
        )
        touch(session, f"node:{node_id}")


# ---------------------------------------------------------------- who it is


def _come_back(
    session: Session, principal: Principal, request: RegisterRequest, now: dt.datetime
) -> tuple[NodeRow, None]:
    node = session.get(NodeRow, principal.node_id, with_for_update=True)
    if node is None:
        raise NotSignedIn("auth.not_signed_in", "This node was removed from the cluster.")
    _refuse_late(node, request)
    _refuse_clone(node, request, now)
    for name, value in credentials.taken_up(node, principal, now=now).items():
        setattr(node, name, value)
    return node, None


def _join(
    session: Session,
    principal: Principal,
    request: RegisterRequest,
    *,
    settings: Settings,
    now: dt.datetime,
) -> tuple[NodeRow, str]:
    if not request.name or len(request.name) > 128:
        raise InvalidRequest("agent.bad_name", "A node's name has 1 to 128 characters.")
    if principal.pool is not None and request.pool != principal.pool:
        raise InvalidRequest(
            "agent.wrong_pool",
            f"This join token is for the pool {principal.pool!r}, not {request.pool!r}.",
            hint=f"Set MUSTER_AGENT_POOL={principal.pool}, or make a join token for that pool.",
        )
    assert principal.join_token_id is not None
    node = session.scalar(select(NodeRow).where(NodeRow.name == request.name).with_for_update())
    if node is not None:
        _refuse_late(node, request)
    join_id = (request.join_id or request.instance_id)[:64]
    if node is None or not credentials.is_same_joining(node, join_id, principal.join_token_id):
        # First, so that a token that is used up learns nothing of the names there are.
        credentials.use_join_token(session, principal.join_token_id, now=now)
        if node is not None:
            _refuse_takeover(node, settings, now)
    if node is None:
        node = NodeRow(
            id=f"n{secrets.token_hex(8)}",
            name=request.name,
            pool=request.pool,
            state="JOINING",
            session_epoch=0,
            boot_id="",
            instance_id="",
            registration_no=0,
            old_instances=[],
            registered_at=now,
            last_seen_at=now,
            lease_expires_at=now,
        )
        session.add(node)
    else:
        _refuse_clone(node, request, now)
    secret = credentials.issue(node, now=now)
    node.join_id, node.join_token_id = join_id, principal.join_token_id
    return node, secret


def _refuse_late(node: NodeRow, request: RegisterRequest) -> None:
    """A request that was long under way, or arrives twice, after a later one of the same process:
    what it says of `running` would make us believe that what was started since had ended."""
    if request.instance_id == node.instance_id and 0 < request.number <= node.registration_no:
        raise Superseded(
            "agent.registration_superseded",
            f"Registration {request.number} of {node.name} arrived after a later one.",
            hint="Register again.",
        )


def _refuse_takeover(node: NodeRow, settings: Settings, now: dt.datetime) -> None:
    """Anybody with a join token can say a name and a boot id: only the credential tells the agent
    of a node from others. A machine that has lost it, or was given another address of the server,
    waits until the node has been silent for as long as it takes to be LOST: of a node that is the only
    one nobody says that it is LOST."""
    free_at = node.last_seen_at + dt.timedelta(seconds=settings.node_lost_s)
    if node.state == NodeState.LOST or free_at <= now:
        return
    raise Conflict(
        "agent.name_in_use",
        f"A live node is named {node.name!r} already, and a join token does not replace it.",
        hint="Give this machine another name (--name). If it is that machine and has lost its "
        f"credential, stop its other agent: it is let in {settings.node_lost_s:g} s after the node "
        "was last heard, or once you remove the node.",
        retry_after_s=max(1, round((free_at - now).total_seconds())),
    )


def _refuse_clone(node: NodeRow, request: RegisterRequest, now: dt.datetime) -> None:
    """A restarted agent replaces its former session. Another machine of that name may not while
    the node is alive, nor may a process that was replaced itself."""
    # SUSPECT: a lease has passed by the controller's clock, which nobody can set back.
    if node.state in (NodeState.SUSPECT, NodeState.LOST) or node.lease_expires_at <= now:
        return
    if node.boot_id != request.boot_id:
        raise Conflict(
            "agent.name_in_use",
            f"A live node is named {node.name!r} already, on another machine or boot.",
            hint="Give this one another name, or wait until the other's lease has expired.",
            retry_after_s=_seconds_left(node, now),
        )
    if request.instance_id in node.old_instances:
        raise Cloned(node, now)


def _seconds_left(node: NodeRow, now: dt.datetime) -> int:
    return max(1, round((node.lease_expires_at - now).total_seconds()))


def _describe(session: Session, node: NodeRow, request: RegisterRequest, *, rebooted: bool) -> None:
    inventory = request.inventory
    node.pool = request.pool
    node.labels = dict(request.labels)
    if node.instance_id and node.instance_id != request.instance_id:
        others = [i for i in node.old_instances if i != request.instance_id]
        node.old_instances = [*others, node.instance_id][-OLD_INSTANCES_KEPT:]
    _describe_pilot(node, request)
    node.boot_id = request.boot_id
    node.instance_id = request.instance_id
    node.registration_no = request.number
    node.hostname = inventory.hostname
    node.address = inventory.address
    node.agent_version = inventory.agent_version
    node.inventory = dataclasses.asdict(inventory)
    node.storage_id = inventory.storage_id[:64]
    if rebooted:
        health.clear(session, node)
        node.clock_offset_ms = node.clock_error_ms = None  # its boot clock began anew


def _describe_pilot(node: NodeRow, request: RegisterRequest) -> None:
    pilot = request.pilot
    node.is_pilot = pilot is not None
    node.provider_ref = pilot.provider_ref[:255] if pilot is not None else ""
    node.ends_at = None
    if pilot is not None and pilot.ends_at_ms is not None:
        try:
            node.ends_at = dt.datetime.fromtimestamp(pilot.ends_at_ms / 1000, dt.UTC)
        except (ValueError, OverflowError, OSError):
            raise InvalidRequest(
                "agent.bad_end", f"{pilot.ends_at_ms} is no Unix time in milliseconds."
            ) from None


# ---------------------------------------------------------------- what it has and runs


def _update_slots(
    session: Session, node: NodeRow, request: RegisterRequest, now: dt.datetime
) -> None:
    """Slots follow the inventory; one that is gone stays only while something holds it, and then goes
    when that frees it (allocations.clean)."""
    known = {
        row.idx: row
        for row in session.scalars(select(NodeSlotRow).where(NodeSlotRow.node_id == node.id))
    }
    reported = {slot.index: slot for slot in request.inventory.slots}
    former = match_slots(
        {idx: str(row.device.get("uuid", "")) for idx, row in known.items()},
        {index: slot.uuid for index, slot in reported.items()},
    )
    rows = {index: known.pop(idx) for index, idx in former.items()}
    spare = itertools.count(max([-1, *reported, *known]) + 1)
    for idx, row in known.items():
        if row.allocation_id is None:
            session.delete(row)
        else:
            row.is_gone = True
            rows[next(spare) if idx in reported else idx] = row
    _move_slots(session, rows)
    for index, slot in reported.items():
        if index not in rows:
            rows[index] = NodeSlotRow(
                node_id=node.id, idx=index, slot_type=slot.slot_type, free_since=now
            )
            session.add(rows[index])
        row = rows[index]
        row.slot_type = slot.slot_type
        row.device = dataclasses.asdict(slot)
        row.is_gone = False
    session.flush()
    hold_back(session, node)


def _move_slots(session: Session, rows: Mapping[int, NodeSlotRow]) -> None:
    """Give slots the indexes that are the keys of `rows`, also in the allocations that hold them."""
    moving = {index: row for index, row in rows.items() if row.idx != index}
    session.flush()
    if not moving:
        return
    held: dict[str, dict[int, int]] = defaultdict(dict)
    for index, row in moving.items():
        if row.allocation_id is not None:
            held[row.allocation_id][row.idx] = index
        row.idx = -1 - index  # Out of the way of the others.
    session.flush()
    for index, row in moving.items():
        row.idx = index
    for allocation in session.scalars(select(AllocationRow).where(AllocationRow.id.in_(held))):
        to = held[allocation.id]
        allocation.slots = [to.get(idx, idx) for idx in allocation.slots]
        allocation.spec = {**allocation.spec, "slots": allocation.slots}
    session.flush()


def _reconcile(
    session: Session,
    node: NodeRow,
    request: RegisterRequest,
    held: set[str],
    *,
    rebooted: bool,
    now: dt.datetime,
) -> tuple[list[AckState], list[str]]:
    """Compare what the agent found with what it should have; what to keep, what to forget."""
    rows = {
        row.id: row
        for row in session.scalars(
            select(AllocationRow)
            .where(AllocationRow.id.in_(held), AllocationRow.node_id == node.id)
            .order_by(AllocationRow.id)
            .execution_options(populate_existing=True)
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
        row = rows.get(running.allocation_id)
        if row is not None and running.num_records < row.acked_seq:
            # Its disk is one from before: what it would send next has been sent already, as
            # something else. It is forgotten there, and settled here like one without a trace.
            forget.append(running.allocation_id)
            continue
        rows.pop(running.allocation_id, None)
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
    if row.observed == AllocationState.LOST:
        clean(session, [row.id], before="LOST", now=now)
        return
    if row.observed == AllocationState.ASSIGNED:
        return  # not delivered yet: the next poll does
    # An agent without a trace of it would run it once more, should it poll before a loop has looked.
    row.desired = "forget"
    if row.observed in DONE:
        return
    info = ExitInfo(
        cause="node_rebooted" if rebooted else "shim_lost",
        message=f"{node.name} rebooted while it ran"
        if rebooted
        else f"the agent of {node.name} came back without any trace of it",
    )
    row.observed, row.state_since = AllocationState.EXITED, now
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
    if before in (NodeState.JOINING, NodeState.SUSPECT):
        node.state = NodeState.ONLINE
    elif before == NodeState.LOST:
        node.state = NodeState.RECONCILING
    node.state_reason, node.state_parts = "", None
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
