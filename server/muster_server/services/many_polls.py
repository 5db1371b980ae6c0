"""What many agents should have, read at once for all whose long polls end in the same moment.

A gang is started by one commit, and all its agents ask what has changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from sqlalchemy import BindParameter, Table, Text, bindparam, select
from sqlalchemy import cast as cast_to
from sqlalchemy.orm import Session

from muster_server.db.models import AllocationRow, AttemptRow, FileDeletionRow, NodeRow
from muster_server.db.raw import AnyRow
from muster_server.db.together import ALONE, Alone
from muster_server.security.principal import Principal

from . import checkpoint_exports, identity, layer_tables, preflights
from .agents import Fence, rendezvous_of
from .checkpoints import OBJECT_STORE


@dataclass(frozen=True, kw_only=True)
class Poll:
    """One request."""

    agent: Principal
    fence: Fence
    unless: int | None
    """No answer while this is the number of its set."""


_N, _A, _AT, _D = (
    cast(Table, row.__table__) for row in (NodeRow, AllocationRow, AttemptRow, FileDeletionRow)
)
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_NODES = select(
    _N.c.id,
    _N.c.assignments_index,
    _N.c.session_epoch,
    _N.c.state,
    _N.c.storage_id,
    _N.c.credential_hash,
).where(_N.c.id.in_(_IDS))
_WANTED = (
    select(
        _A.c.node_id,
        # As text: it is handed on as it was stored.
        cast_to(_A.c.spec, Text).label("spec"),
        _A.c.desired,
        _A.c.stop_reason,
        _A.c.stop_grace_s,
        _A.c.stop_kind,
        _A.c.stacks_no,
        _A.c.profile,
        _AT.c.rendezvous_host,
        _AT.c.rendezvous_port,
        _AT.c.trial_id,
        _AT.c.no,
    )
    .join(_AT, _AT.c.id == _A.c.attempt_id)
    .where(
        _A.c.node_id.in_(_IDS),
        _A.c.desired != "forget",
        _A.c.observed.not_in(("CLEANED", "LOST")),
    )
    .order_by(_A.c.created_at, _A.c.id)
)
_DELETING = (
    select(_D.c.storage_id).where(_D.c.state == "pending", _D.c.storage_id.in_(_IDS)).distinct()
)


def answer(session: Session, polls: Sequence[Poll]) -> list[bytes | Alone | None]:
    """`agents.answer_poll` of every one as JSON, or ALONE where that may come to anything but the
    allocations of a session that is the present one: refused, files to delete, a preflight, an export,
    a model to be described."""
    connection = session.connection()
    ids = sorted({poll.fence.node_id for poll in polls})
    # The numbers are read first: should a set change in between, the next poll returns at once.
    nodes: dict[str, AnyRow] = {row.id: row for row in connection.execute(_NODES, {"ids": ids})}
    answers: list[bytes | Alone | None] = []
    asked: dict[int, AnyRow] = {}
    for place, poll in enumerate(polls):
        node = nodes.get(poll.fence.node_id)
        if node is None or not _is_usual(node, poll):
            answers.append(ALONE)
            continue
        answers.append(None)
        if node.assignments_index != poll.unless:
            asked[place] = node
    if not asked:
        return answers
    if preflights.are_under_way(session) or checkpoint_exports.are_wanted(session):
        return [ALONE if place in asked else one for place, one in enumerate(answers)]
    storages = sorted({node.storage_id for node in asked.values() if node.storage_id})
    deleting = set(connection.scalars(_DELETING, {"ids": [*storages, OBJECT_STORE]}))
    wanted: dict[str, list[dict[str, Any]]] = defaultdict(list)
    of_nodes = sorted({node.id for node in asked.values()})
    describing = layer_tables.nodes_asked(session, of_nodes)
    for row in connection.execute(_WANTED, {"ids": of_nodes}):
        wanted[row.node_id].append(_assignment(row))
    for place, node in asked.items():
        answers[place] = (
            ALONE
            if node.id in describing
            or (node.storage_id and deleting & {node.storage_id, OBJECT_STORE})
            else msgspec.json.encode(
                {
                    "index": node.assignments_index,
                    "assignments": wanted[node.id],
                    "deletions": (),
                    "preflights": (),
                    "exports": (),
                    "descriptions": (),
                }
            )
        )
    return answers


def _is_usual(node: AnyRow, poll: Poll) -> bool:
    return (
        not poll.agent.uses_next_credential
        and identity.is_hash_of(poll.agent, node.credential_hash)
        and node.session_epoch == poll.fence.session_epoch
        and node.state not in ("LOST", "REMOVED")
    )


def _assignment(row: AnyRow) -> dict[str, Any]:
    """wire.Assignment."""
    return {
        "spec": msgspec.Raw(row.spec.encode()),
        "desired": row.desired,
        "rendezvous": rendezvous_of(row),
        "stop_reason": row.stop_reason,
        "stop_grace_s": row.stop_grace_s,
        "stop_kind": row.stop_kind,
        "stacks_no": row.stacks_no,
        "profile": row.profile,
    }
