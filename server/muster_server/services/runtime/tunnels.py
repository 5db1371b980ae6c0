"""Tunnels into running jobs: who may ask for one, and which of them a node should open."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from muster.wire import Tunnel, TunnelKind
from muster_server.db.models import AllocationRow, ExperimentRow, TunnelRow
from muster_server.domain.states import AllocationState
from muster_server.errors import Conflict, NotFound

from ..core.assignments import bump_assignments
from ..core.callers import Caller, note
from ..core.lookup import get_trial
from ..core.ownership import require_charge

AGENT_WAIT_S = 15.0
"""Seconds that an agent has to open a tunnel."""


def request(
    session: Session,
    trial_id: int,
    *,
    kind: TunnelKind,
    argv: Sequence[str],
    port: int,
    rank: int | None,
    has_terminal: bool,
    rows: int,
    columns: int,
    is_repeated: bool,
    caller: Caller,
) -> str:
    """Ask the node that runs a trial's rank for a tunnel; return the id of the tunnel.

    rank: None means the first node of the gang.
    is_repeated: a further connection to a port that this user has open already: it is not audited
        again.
    Raises NotFound, Forbidden for a trial of somebody else, and Conflict when the trial has no
    running process there.
    """
    trial = get_trial(session, trial_id)
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    require_charge(session, caller.principal, experiment)
    running = session.scalars(
        select(AllocationRow)
        .where(
            AllocationRow.trial_id == trial_id,
            AllocationRow.attempt_no == trial.attempt_no,
            AllocationRow.observed.in_((AllocationState.STARTING, AllocationState.RUNNING)),
        )
        .order_by(AllocationRow.node_rank)
    ).all()
    if not running:
        raise Conflict(
            "tunnels.not_running",
            f"Trial {trial.no} of experiment {experiment.id} is {trial.state}: it has no running "
            "processes.",
            hint="A tunnel opens while the job runs, and ends with it.",
        )
    allocation = running[0] if rank is None else _with_rank(running, rank)
    tunnel = Tunnel(
        id=uuid.uuid4().hex,
        allocation_id=allocation.id,
        kind=kind,
        argv=list(argv),
        port=port,
        rows=rows,
        columns=columns,
        has_terminal=has_terminal,
    )
    session.execute(delete(TunnelRow).where(TunnelRow.expires_at < caller.now))
    session.add(
        TunnelRow(
            id=tunnel.id,
            node_id=allocation.node_id,
            order=asdict(tunnel),
            expires_at=caller.now + dt.timedelta(seconds=AGENT_WAIT_S),
        )
    )
    if not is_repeated:
        detail = {"trial": trial.no, "node": allocation.node_name}
        detail |= {"port": port} if kind == "port" else {"command": list(argv)}
        note(session, f"trials.{kind}", experiment.id, caller, detail)
    bump_assignments(session, [allocation.node_id])
    return tunnel.id


def _with_rank(running: Sequence[AllocationRow], rank: int) -> AllocationRow:
    for allocation in running:
        if 0 <= rank - allocation.rank_offset < len(allocation.slots):
            return allocation
    last = max(a.rank_offset + len(a.slots) for a in running) - 1
    raise NotFound(
        "tunnels.no_such_rank",
        f"The trial has no running rank {rank}.",
        hint=f"Its ranks are 0 to {last}.",
    )


_ASKED = select(TunnelRow.node_id).where(TunnelRow.node_id.in_(bindparam("ids", expanding=True)))


def nodes_asked(session: Session, node_ids: Sequence[str]) -> set[str]:
    """Return those of the nodes that should open a tunnel."""
    return set(session.scalars(_ASKED, {"ids": list(node_ids)}))


def wanted_of(session: Session, node_id: str) -> list[Tunnel]:
    """Return the tunnels that a node should open now, oldest requests included: an agent opens
    each only once."""
    rows = session.scalars(select(TunnelRow).where(TunnelRow.node_id == node_id))
    return [Tunnel(**row.order) for row in rows]


def is_of(session: Session, tunnel_id: str, node_id: str) -> bool:
    """Return whether a node is asked for this tunnel."""
    row = session.get(TunnelRow, tunnel_id)
    return row is not None and row.node_id == node_id


def forget(session: Session, tunnel_id: str) -> None:
    """Stop asking for a tunnel: it is open, or nobody waits for it any more."""
    session.execute(delete(TunnelRow).where(TunnelRow.id == tunnel_id))
