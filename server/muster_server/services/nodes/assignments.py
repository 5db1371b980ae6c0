"""What nodes should have, read for a batch of long polls at a time.

A gang is started by one commit, and all its agents ask what has changed.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from sqlalchemy import BindParameter, ColumnElement, Table, Text, bindparam, select
from sqlalchemy import cast as cast_to
from sqlalchemy.orm import Session

from muster.wire import AllocationSpec, Assignment, AssignmentsReply, Rendezvous
from muster_server.db.models import AllocationRow, AttemptRow, FileDeletionRow, NodeRow
from muster_server.db.raw import AnyRow, columns_of
from muster_server.domain.states import NodeState
from muster_server.errors import MusterError
from muster_server.security.principal import Principal

from ..checkpoints import exports, file_deletions
from ..checkpoints.lookup import OBJECT_STORE
from ..runtime import tunnels
from . import layer_tables, preflights
from .sessions import Fence, NodeIdentity, refusal, superseded


@dataclass(frozen=True, kw_only=True)
class AssignmentsCall:
    """One request."""

    agent: Principal
    fence: Fence
    unless: int | None
    """No answer while this is the number of the node's set."""


@dataclass(slots=True)
class _PollingNode(NodeIdentity):
    assignments_index: int
    storage_id: str


_NODES = cast(Table, NodeRow.__table__)
_ALLOCATIONS = cast(Table, AllocationRow.__table__)
_ATTEMPTS = cast(Table, AttemptRow.__table__)
_DELETIONS = cast(Table, FileDeletionRow.__table__)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_READ_NODES = select(*columns_of(_NODES, _PollingNode)).where(_NODES.c.id.in_(_IDS))
_INDEXES = select(_NODES.c.id, _NODES.c.session_epoch, _NODES.c.assignments_index, _NODES.c.state)
_STORED = tuple(
    field.name
    for field in dataclasses.fields(Assignment)
    if field.name not in ("rendezvous", "addresses")
)
"""Fields of an assignment that are columns of its allocation, each under its name."""


def _column(name: str) -> ColumnElement[Any]:
    column = _ALLOCATIONS.c[name]
    # As text: the specification is handed on as it was stored.
    return cast_to(column, Text).label(name) if name == "spec" else column


_WANTED = (
    select(
        _ALLOCATIONS.c.node_id,
        *(_column(name) for name in _STORED),
        _ALLOCATIONS.c.attempt_id,
        _ALLOCATIONS.c.role,
        _ATTEMPTS.c.rendezvous_host,
        _ATTEMPTS.c.rendezvous_port,
        _ATTEMPTS.c.trial_id,
        _ATTEMPTS.c.no,
    )
    .join(_ATTEMPTS, _ATTEMPTS.c.id == _ALLOCATIONS.c.attempt_id)
    .where(
        _ALLOCATIONS.c.node_id.in_(_IDS),
        _ALLOCATIONS.c.desired != "forget",
        _ALLOCATIONS.c.observed.not_in(("CLEANED", "LOST")),
    )
    .order_by(_ALLOCATIONS.c.created_at, _ALLOCATIONS.c.id)
)
_ADDRESSES = (
    select(_ALLOCATIONS.c.attempt_id, _ALLOCATIONS.c.role, _ALLOCATIONS.c.address)
    .where(_ALLOCATIONS.c.attempt_id.in_(_IDS))
    .order_by(_ALLOCATIONS.c.role, _ALLOCATIONS.c.role_index)
)
_STORAGES_WITH_DELETIONS = (
    select(_DELETIONS.c.storage_id)
    .where(_DELETIONS.c.state == "pending", _DELETIONS.c.storage_id.in_(_IDS))
    .distinct()
)


def get_indexes(session: Session) -> dict[Fence, int]:
    """Return the number of the present set of each node, by its session."""
    return {
        Fence(row.id, row.session_epoch): row.assignments_index
        for row in session.execute(_INDEXES)
        if row.state != NodeState.LOST
    }


def answer(session: Session, calls: Sequence[AssignmentsCall]) -> list[bytes | MusterError | None]:
    """Return the complete set each node should have as JSON of a `wire.AssignmentsReply`, or None while
    its number is `unless`.

    Errors are NotSignedIn, and Superseded for an older session or a node that was given up as lost.
    """
    connection = session.connection()
    ids = sorted({call.fence.node_id for call in calls})
    # The numbers are read first: should a set change in between, the next poll returns at once.
    nodes = {row.id: _PollingNode(*row) for row in connection.execute(_READ_NODES, {"ids": ids})}
    judged = [_judge(call, nodes.get(call.fence.node_id)) for call in calls]
    wanted = {one.id: one for one in judged if isinstance(one, _PollingNode)}
    replies = _replies(session, list(wanted.values())) if wanted else {}
    return [replies[one.id] if isinstance(one, _PollingNode) else one for one in judged]


def _judge(call: AssignmentsCall, node: _PollingNode | None) -> _PollingNode | MusterError | None:
    """Return the node if its set is wanted, and None if that has not changed."""
    error = refusal(node, call.agent, call.fence.session_epoch)
    if error is not None or node is None:
        return error or superseded(None)
    if node.state == NodeState.LOST:
        return superseded(None)
    return node if node.assignments_index != call.unless else None


def _replies(session: Session, nodes: Sequence[_PollingNode]) -> dict[str, bytes]:
    assignments: dict[str, list[Assignment]] = defaultdict(list)
    ids = sorted(node.id for node in nodes)
    rows = session.connection().execute(_WANTED, {"ids": ids}).all()
    addresses = _addresses(session, rows)
    for row in rows:
        assignments[row.node_id].append(_assignment(row, addresses.get(row.attempt_id, {})))
    chores = _Chores(
        storages=_with_deletions(session, nodes),
        has_preflights=preflights.are_under_way(session),
        has_exports=exports.are_wanted(session),
        describing=layer_tables.nodes_asked(session, ids),
        tunneling=tunnels.nodes_asked(session, ids),
    )
    return {
        node.id: msgspec.json.encode(
            AssignmentsReply(
                index=node.assignments_index,
                assignments=assignments[node.id],
                **chores.of(session, node),
            )
        )
        for node in nodes
    }


def _addresses(session: Session, rows: Sequence[AnyRow]) -> dict[int, dict[str, str]]:
    """Return the addresses of the members of each role, by attempt, for gangs of roles that start."""
    ids = sorted({row.attempt_id for row in rows if row.role and row.desired != "prepare"})
    found: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    if ids:
        for row in session.connection().execute(_ADDRESSES, {"ids": ids}):
            found[row.attempt_id][row.role].append(row.address)
    return {
        attempt_id: {role: ",".join(each) for role, each in roles.items()}
        for attempt_id, roles in found.items()
    }


def _assignment(row: AnyRow, addresses: dict[str, str]) -> Assignment:
    stored = {name: getattr(row, name) for name in _STORED}
    # Encoded as it is, which the encoder knows and the type does not.
    spec = cast(AllocationSpec, msgspec.Raw(row.spec.encode()))
    return Assignment(
        **{**stored, "spec": spec, "rendezvous": _rendezvous_of(row), "addresses": addresses}
    )


def _rendezvous_of(row: AnyRow) -> Rendezvous | None:
    """Return where an attempt meets; its members hear of it from their start on."""
    if row.desired == "prepare" or not row.rendezvous_host or not row.rendezvous_port:
        return None
    return Rendezvous(
        host=row.rendezvous_host, port=row.rendezvous_port, run_id=f"{row.trial_id}.{row.no}"
    )


@dataclass(frozen=True, kw_only=True)
class _Chores:
    """Which nodes may have something to do besides their allocations: most have not, and are not asked
    about one by one."""

    storages: Set[str]
    """Storages of which files are to be deleted."""
    has_preflights: bool
    has_exports: bool
    describing: Set[str]
    """Ids of nodes that are to describe a model."""
    tunneling: Set[str]
    """Ids of nodes that are to open a tunnel."""

    def of(self, session: Session, node: _PollingNode) -> dict[str, list[Any]]:
        """Return fields of a `wire.AssignmentsReply`."""
        name, storage_id = node.name, node.storage_id
        found: dict[str, list[Any]] = {}
        if storage_id and self.storages & {storage_id, OBJECT_STORE}:
            found["deletions"] = file_deletions.wanted_of(session, name=name, storage_id=storage_id)
        if self.has_preflights:
            found["preflights"] = preflights.wanted_of(session, node.id)
        if self.has_exports:
            found["exports"] = exports.wanted_of(session, name=name, storage_id=storage_id)
        if node.id in self.describing:
            found["descriptions"] = layer_tables.wanted_of(session, node.id)
        if node.id in self.tunneling:
            found["tunnels"] = tunnels.wanted_of(session, node.id)
        return found


def _with_deletions(session: Session, nodes: Sequence[_PollingNode]) -> set[str]:
    storages = sorted({node.storage_id for node in nodes if node.storage_id})
    ids = [*storages, OBJECT_STORE]
    return set(session.connection().scalars(_STORAGES_WITH_DELETIONS, {"ids": ids}))
