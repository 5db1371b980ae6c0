"""Preflights in the tables: begun on demand or before a gang, carried out by agents stage by stage.

Agents are told with their desired set, and report each stage. The stages are domain/nodes/preflight.py;
whoever sees that one is over moves it on: the report that completes it, or the controller in time.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.wire import (
    Preflight,
    PreflightPeer,
    PreflightReport,
    PreflightStore,
    load,
)
from muster_server.db.engine import touch
from muster_server.db.models import NodeSlotRow, PreflightRow, TrialRow
from muster_server.domain.lifecycle import GangPreflight
from muster_server.domain.nodes.preflight import (
    NextStage,
    PreflightMember,
    PreflightView,
    Stage,
    Verdict,
    advance,
    is_of_network,
    misfits,
)
from muster_server.domain.states import NodeState
from muster_server.errors import Conflict, InvalidRequest, NotFound
from muster_server.schemas.base import Page
from muster_server.schemas.preflights import PreflightLink, PreflightNode, PreflightOut

from ..core import audit
from ..core.assignments import bump_assignments
from ..core.events import add_event
from ..core.paging import read_page
from ..core.writes import Outdated
from .management import get_row

State = Literal["running", "passed", "failed"]

MAX_OPEN = 16
"""Preflights on demand that may be under way at once."""
MAX_WORDS = 32
"""Problems and links kept of one report, each …"""
MAX_WORD_CHARS = 500
"""… cut to this."""
_OPEN = select(PreflightRow.id).where(PreflightRow.state == "running").order_by(PreflightRow.id)

# ---------------------------------------------------------------- beginning


def request(
    session: Session, names: Sequence[str], *, actor: str, now: dt.datetime
) -> PreflightOut:
    """Begin one on demand. Raises NotFound, Conflict and InvalidRequest."""
    if len(set(names)) != len(names):
        raise InvalidRequest("preflights.twice", "A node is named twice.", hint="Name each once.")
    nodes = [get_row(session, name) for name in names]
    for node in nodes:
        if node.state != NodeState.ONLINE:
            raise Conflict(
                "preflights.not_online",
                f"{node.name} is {node.state}: nothing can be tried on it.",
                hint="Leave it out, or wait until it is ONLINE.",
            )
    num_open = session.scalar(
        select(func.count())
        .select_from(PreflightRow)
        .where(PreflightRow.state == "running", PreflightRow.trial_id.is_(None))
    )
    if (num_open or 0) >= MAX_OPEN:
        raise Conflict(
            "preflights.too_many",
            f"{num_open} preflights are under way already.",
            hint="Wait until one of them has ended.",
        )
    row = begin(
        session,
        [(node.id, node.name, _free_devices(session, node.id)) for node in nodes],
        requested_by=actor,
        now=now,
    )
    audit.record(
        session,
        "preflight.requested",
        f"preflight:{row.id}",
        audit.Author(actor, now),
        {"nodes": [node.name for node in nodes]},
    )
    return _out(row)


def begin(
    session: Session,
    nodes: Iterable[tuple[str, str, list[int]]],
    *,
    requested_by: str,
    now: dt.datetime,
    python: str | None = None,
    trial_id: int | None = None,
    attempt_no: int | None = None,
) -> PreflightRow:
    """Create a preflight that is under way.

    nodes: (ID, name, CUDA devices to try) in the order of their ranks. python: the interpreter,
    None for the agents' own.
    """
    row = PreflightRow(
        state="running",
        stage="listen",
        stage_since=now,
        message="",
        token=secrets.token_hex(16),
        python=python,
        members=[
            {"node_id": node_id, "node_name": name, "rank": rank, "slots": slots, "reports": {}}
            for rank, (node_id, name, slots) in enumerate(nodes)
        ],
        requested_by=requested_by,
        trial_id=trial_id,
        attempt_no=attempt_no,
        created_at=now,
    )
    session.add(row)
    session.flush()
    _wake(session, row)
    return row


def _free_devices(session: Session, node_id: str) -> list[int]:
    return list(
        session.scalars(
            select(NodeSlotRow.idx)
            .where(
                NodeSlotRow.node_id == node_id,
                NodeSlotRow.slot_type == "cuda",
                NodeSlotRow.allocation_id.is_(None),
                NodeSlotRow.problem == "",
            )
            .order_by(NodeSlotRow.idx)
        )
    )


# ---------------------------------------------------------------- what agents hear and say


_UNDER_WAY = select(PreflightRow).where(PreflightRow.state == "running").order_by(PreflightRow.id)

_ANY_UNDER_WAY = select(PreflightRow.id).where(PreflightRow.state == "running").limit(1)


def wanted_of(session: Session, node_id: str) -> list[Preflight]:
    """Return the preflights under way that this node takes part in, with the stage of each."""
    wanted = []
    for row in session.scalars(_UNDER_WAY):
        mine = next((m for m in row.members if m["node_id"] == node_id), None)
        if mine is not None:
            wanted.append(_order(row, mine))
    return wanted


def are_under_way(session: Session) -> bool:
    """Return whether any preflight is under way."""
    return session.scalar(_ANY_UNDER_WAY) is not None


def take_report(session: Session, node_id: str, report: PreflightReport, now: dt.datetime) -> bool:
    """Note what a node found; whether it was news. Moves the preflight on when it was the last."""
    row = session.get(PreflightRow, report.id, with_for_update=True)
    if row is None or row.state != "running" or row.stage != report.stage:
        return False
    mine = next((m for m in row.members if m["node_id"] == node_id), None)
    if mine is None or report.stage in mine["reports"]:
        return False
    reports = {**mine["reports"], report.stage: dataclasses.asdict(_cut(report))}
    # A new list: a change inside of the old one would not be noticed.
    row.members = [{**m, "reports": reports} if m is mine else m for m in row.members]
    decision = advance(_view(row), now)
    if decision is not None:
        _move_on(session, row, decision, now)
    session.flush()
    touch(session, f"preflight:{row.id}")
    return True


def _order(row: PreflightRow, mine: Mapping[str, Any]) -> Preflight:
    peers = []
    store = None
    if row.stage != "listen":
        for member in row.members:
            listening = member["reports"]["listen"]
            peers.append(
                PreflightPeer(
                    rank=member["rank"],
                    node_name=member["node_name"],
                    host=listening["host"],
                    port=listening["port"],
                )
            )
    if row.stage == "reduce":
        host = row.members[0]["reports"]["listen"]["host"]
        store = PreflightStore(host=host, port=row.members[0]["reports"]["connect"]["store_port"])
    return Preflight(
        id=row.id,
        stage=cast(Stage, row.stage),
        rank=mine["rank"],
        token=row.token,
        python=row.python,
        slots=mine["slots"],
        peers=peers,
        store=store,
    )


def _cut(report: PreflightReport) -> PreflightReport:
    return dataclasses.replace(
        report,
        host=report.host[:255],
        torch_version=report.torch_version[:64],
        problems=[problem[:MAX_WORD_CHARS] for problem in report.problems[:MAX_WORDS]],
        links=[
            dataclasses.replace(link, message=link.message[:MAX_WORD_CHARS])
            for link in report.links[: MAX_WORDS * 2]
        ],
    )


# ---------------------------------------------------------------- moving on


def load_open(session: Session) -> tuple[PreflightView, ...]:
    ids = session.connection().scalars(_OPEN).all()
    return tuple(_view(session.get_one(PreflightRow, id)) for id in ids)


def outcome_of(row: PreflightRow) -> GangPreflight:
    """Return the state of a gang's preflight."""
    if row.state != "failed":
        return GangPreflight(state=row.state, message=row.message)
    view = _view(row)
    return GangPreflight(
        state=row.state,
        message=row.message,
        misfits=misfits(view),
        is_of_network=is_of_network(view),
    )


def carry_out(
    session: Session,
    preflight_id: int,
    decision: NextStage | Verdict,
    *,
    stage: str,
    now: dt.datetime,
) -> None:
    """Apply the decision on a preflight in `stage`. Raises Outdated if it is no longer at that
    stage."""
    row = session.get(PreflightRow, preflight_id, with_for_update=True, populate_existing=True)
    if row is None or row.state != "running" or row.stage != stage:
        raise Outdated(f"preflight {preflight_id} is not at {stage} any more")
    _move_on(session, row, decision, now)


def _move_on(
    session: Session, row: PreflightRow, decision: NextStage | Verdict, now: dt.datetime
) -> None:
    if isinstance(decision, NextStage):
        row.stage, row.stage_since = decision.stage, now
        session.flush()
        _wake(session, row)
        return
    row.state = "passed" if decision.ok else "failed"
    row.message, row.ended_at = decision.reason, now
    session.flush()
    _wake(session, row)
    touch(session, "loops")
    names = ", ".join(m["node_name"] for m in row.members)
    if row.trial_id is not None:
        trial = session.get(TrialRow, row.trial_id)
        add_event(
            session,
            "attempt.preflight",
            f"The preflight of {names} {row.state}: {row.message}.",
            now=now,
            level="info" if decision.ok else "warning",
            experiment_id=trial.experiment_id if trial is not None else None,
            trial_id=row.trial_id,
            attempt_no=row.attempt_no,
        )
    for node_id in decision.node_ids:
        add_event(
            session,
            "node.preflight_failed",
            f"Preflight {row.id} of {names} failed: {row.message}.",
            now=now,
            level="warning",
            node_id=node_id,
            data={"preflight_id": row.id},
        )


def _wake(session: Session, row: PreflightRow) -> None:
    bump_assignments(session, [m["node_id"] for m in row.members])


def _view(row: PreflightRow) -> PreflightView:
    return PreflightView(
        id=row.id,
        stage=cast(Stage, row.stage),
        stage_since=row.stage_since,
        members=tuple(
            PreflightMember(
                node_id=m["node_id"],
                node_name=m["node_name"],
                rank=m["rank"],
                reports={s: load(PreflightReport, r) for s, r in m["reports"].items()},
            )
            for m in row.members
        ),
    )


# ---------------------------------------------------------------- for people


def get_preflight(session: Session, preflight_id: int) -> PreflightOut:
    """Raises NotFound."""
    row = session.get(PreflightRow, preflight_id)
    if row is None:
        raise NotFound("preflights.not_found", f"There is no preflight {preflight_id}.")
    return _out(row)


def list_preflights(session: Session, *, cursor: str | None, limit: int) -> Page[PreflightOut]:
    """Newest first."""
    query = select(PreflightRow)
    rows, following = read_page(
        session, query, PreflightRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    items = [_out(row) for row in rows]
    return Page(items=items, next=following)


def _out(row: PreflightRow) -> PreflightOut:
    view = _view(row)
    reduces = [m.reports["reduce"].reduce_ms for m in view.members if "reduce" in m.reports]
    passed = [ms for ms in reduces if ms is not None]
    return PreflightOut.from_row(
        row,
        nodes=[_node_out(member) for member in view.members],
        links=[link for member in view.members for link in _links_out(view, member)],
        allreduce_ms=max(passed) if row.state == "passed" and passed else None,
    )


def _node_out(member: PreflightMember) -> PreflightNode:
    listening = member.reports.get("listen")
    connected = member.reports.get("connect")
    return PreflightNode(
        node_id=member.node_id,
        node_name=member.node_name,
        rank=member.rank,
        address=f"{listening.host}:{listening.port}" if listening and listening.port else "",
        torch_version=connected.torch_version if connected else "",
        problems=[problem for report in member.reports.values() for problem in report.problems],
    )


def _links_out(view: PreflightView, member: PreflightMember) -> list[PreflightLink]:
    connects = {x.rank: x for x in _links(member, "connect")}
    reduces = {x.rank: x for x in _links(member, "reduce")}
    names = {m.rank: m.node_name for m in view.members}
    return [
        PreflightLink(
            from_node=member.node_name,
            to_node=names[rank],
            message=link.message or (reduces[rank].message if rank in reduces else ""),
            round_trip_ms=link.ms,
            allreduce_ms=reduces[rank].ms if rank in reduces else None,
        )
        for rank, link in connects.items()
        if rank in names
    ]


def _links(member: PreflightMember, stage: str) -> Sequence[Any]:
    report = member.reports.get(stage)
    return report.links if report is not None else ()
