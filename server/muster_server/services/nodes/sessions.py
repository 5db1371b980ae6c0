"""Sessions of nodes: a registration begins one, and every call of an older one is answered 410.

Sessions begin in services/nodes/registration.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session, load_only

from muster_server.db.models import AllocationRow, NodeRow, TrialRow
from muster_server.domain.lifecycle import heartbeat_interval_s
from muster_server.domain.states import AllocationState, NodeState
from muster_server.errors import Conflict, MusterError, NotFound, NotSignedIn, Superseded
from muster_server.security.principal import Principal
from muster_server.settings import Settings

from ..core.accounts import identity

# Built once: putting a statement together takes longer than a database needs to answer it.
_NODE = (
    select(NodeRow)
    .where(NodeRow.id == bindparam("node_id"))
    .options(load_only(NodeRow.name, NodeRow.state, NodeRow.session_epoch, NodeRow.storage_id))
)
_NUM_NODES = select(func.count()).select_from(NodeRow)


@dataclass(frozen=True)
class Fence:
    """The session in which an agent speaks."""

    node_id: str
    session_epoch: int


@dataclass(frozen=True, kw_only=True)
class LeaseTerms:
    heartbeat_s: float
    """Time from one heartbeat to the next."""
    lease_s: float
    """Time for which a lease holds, counted by the agent from before it asked."""


def lease_terms(session: Session, settings: Settings) -> LeaseTerms:
    """Return what every node is told, which depends on how many there are."""
    num_nodes = session.scalar(_NUM_NODES) or 0
    interval_s = heartbeat_interval_s(num_nodes, least_s=settings.heartbeat_s)
    return LeaseTerms(heartbeat_s=interval_s, lease_s=settings.node_suspect_missed * interval_s)


def require_session(session: Session, node_id: str, session_epoch: int) -> NodeRow:
    """Return the node, if that is its present session. Raises Superseded (410) otherwise.

    What calls of agents do not look at, its inventory above all, is read when it is asked for.
    """
    node = session.scalar(_NODE, {"node_id": node_id})
    if node is None or node.session_epoch != session_epoch:
        raise superseded(node.name if node is not None else None)
    return node


_OVER = frozenset({AllocationState.LOST, AllocationState.CLEANED, AllocationState.PREPARE_FAILED})


def require_allocation(
    session: Session, allocation_id: str, node_id: str, session_epoch: int, attempt_no: int
) -> tuple[NodeRow, AllocationRow]:
    """Return the node and its allocation, for what is only given out for a job that runs.

    Raises Superseded for an older session of the node, NotFound for an allocation that is not this
    node's, and Conflict for one that is over or whose trial has a newer attempt.
    """
    node = require_session(session, node_id, session_epoch)
    allocation = session.get(AllocationRow, allocation_id)
    if allocation is None or allocation.node_id != node_id or allocation.attempt_no != attempt_no:
        raise NotFound("agent.unknown_allocation", f"No allocation {allocation_id[:64]!r} here.")
    present = session.scalar(select(TrialRow.attempt_no).where(TrialRow.id == allocation.trial_id))
    if present != attempt_no or allocation.observed in _OVER:
        raise Conflict(
            "agent.allocation_over",
            "This allocation is over: nothing is given out for it any more.",
        )
    return node, allocation


def superseded(name: str | None) -> Superseded:
    """Return the error for a session of the node of that name that is not its present one."""
    return Superseded(
        "agent.session_superseded",
        f"{name or 'This node'} has a newer session, or was given up as lost.",
        hint="Register again.",
    )


@dataclass(slots=True)
class NodeIdentity:
    """What is stored of a node, as far as it says who may speak for it. Fields are columns."""

    id: str
    name: str
    state: str
    session_epoch: int
    credential_hash: str


def refusal(node: NodeIdentity | None, agent: Principal, session_epoch: int) -> MusterError | None:
    """Return why a call of an agent is refused: NotSignedIn for a credential that is not its node's any
    more, Superseded for an older session; None where it is not.

    The caller was let in by what was known a moment ago; this decides in the transaction that does
    the work.
    """
    is_known = node is not None and node.state != NodeState.REMOVED
    try:
        identity.confirm_hash(agent, node.credential_hash if node and is_known else None)
    except NotSignedIn as error:
        return error
    if node is None or node.session_epoch != session_epoch:
        return superseded(node.name if node is not None else None)
    return None
