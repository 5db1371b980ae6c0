"""Batch inference: inputs and shards as rank 0 found them, leases and commits as workers report them.

Why shards go through the record stream and the desired set, and through nothing new: a record is durable
in the spool before the agent sends it, arrives in order and once, and is fenced by node session and
attempt number already. What goes down is a column of the allocation, re-sent until the shim has it. So
neither a lost message, nor a restart of agent or server, needs a rule of its own, workers need no network,
and two nodes need no storage in common. The price is a latency of a few tenths of a second, which workers
do not see: they hold the next shards while they compute.

The commit of a shard is one row that changes under the token of its lease. A part file without such a row
counts for nothing.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, func, insert, or_, select, tuple_, update
from sqlalchemy.orm import Session

from muster import wire
from muster.document.inference import PredictSection
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    ExperimentRow,
    PredictionRow,
    PredictionShardRow,
    TrialRow,
)
from muster_server.db.rows import from_row
from muster_server.domain.nodes.reports import ReportedAllocation
from muster_server.domain.predictions import leasing
from muster_server.schemas.analysis.predictions import PredictionProgressOut

from ..core.assignments import bump_assignments
from ..core.events import add_event
from ..core.texts import storable
from ..core.writes import changed
from ..outputs import manifests

DONE_MAX = 64
"""Commits of one record that are applied; a worker repeats the others."""
INSERT_ROWS = 500
"""Shards that one statement inserts: few enough for the variables of SQLite."""
_MAX_NUMBER = 2**53
_PART = re.compile(r"muster-outputs/predictions/part-(\d{5})-(\d{1,9})\.jsonl")
_Shard = PredictionShardRow


def record_plan(
    session: Session, allocation: ReportedAllocation, plan: wire.ShardPlanRecord, now: dt.datetime
) -> None:
    """Keep inputs and shards, unless there are some. Those that cannot be kept end the job."""
    trial = session.get_one(TrialRow, allocation.trial_id)
    if _section(session, trial) is None or session.get(PredictionRow, trial.id) is not None:
        return
    wrong = _problem(plan)
    row = PredictionRow(
        trial_id=trial.id,
        attempt_no=allocation.attempt_no,
        # Nothing is done yet, so that no node could lack anything.
        nodes_heard=list(range(session.get_one(AttemptRow, allocation.attempt_id).num_nodes)),
        inputs=[] if wrong else [_plain_input(file) for file in plan.inputs],
        num_shards=0 if wrong else len(plan.input_nos),
        num_rows=0 if wrong else sum(plan.nums_rows),
        problem=wrong,
        created_at=now,
        updated_at=now,
    )
    session.add(row)
    session.flush()
    shards = [
        {
            "trial_id": trial.id,
            "no": no,
            "input_no": plan.input_nos[no],
            "first_row": plan.first_rows[no],
            "num_rows": plan.nums_rows[no],
            "start_at": plan.starts[no],
            "end_at": plan.ends[no],
            "state": "free",
            "token": 0,
            "attempt_no": 0,
            "num_predicted": 0,
            "num_errors": 0,
            "size_bytes": 0,
            "sha256": "",
            "seen_attempt_no": 0,
        }
        for no in range(row.num_shards)
    ]
    for first in range(0, len(shards), INSERT_ROWS):
        session.execute(insert(_Shard), shards[first : first + INSERT_ROWS])
    text = f"{row.num_rows:,} rows of {len(row.inputs):,} inputs in {row.num_shards:,} shards"
    add_event(
        session,
        "trial.message",
        wrong or f"Batch inference: {text}.",
        now=now,
        level="error" if wrong else "info",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=allocation.attempt_no,
    )
    touch(session, f"trial:{trial.id}")


def record(
    session: Session, allocation: ReportedAllocation, report: wire.ShardsRecord, now: dt.datetime
) -> None:
    """Apply what a worker has done, and give it what it computes next."""
    trial = session.get_one(TrialRow, allocation.trial_id)
    section = _section(session, trial)
    if section is None:
        return
    current = session.get_one(AllocationRow, allocation.id)
    row = session.get(PredictionRow, trial.id, with_for_update=True)
    if row is None:
        _order(session, current, wire.ShardOrders(no=0, wants_plan=True))
        return
    attempt = session.get_one(AttemptRow, allocation.attempt_id)
    if row.attempt_no != allocation.attempt_no:
        row.attempt_no, row.nodes_heard = allocation.attempt_no, []
    if report.parts is not None and allocation.node_rank not in row.nodes_heard:
        _hear_node(session, row, allocation, attempt.num_nodes, report.parts)
    refused: list[list[int]] = []
    if not row.problem:
        changes = _lease(session, row, allocation, attempt, report, section, now)
        refused = [[commit.no, commit.token] for commit in changes.refused]
        if changes.committed:
            # An attempt that commits shards makes progress, as one that saves checkpoints does.
            trial.no_progress = 0
            row.problem = leasing.explain_errors(
                row.num_errors, row.num_rows, max_errors=section.max_errors
            )
    row.updated_at = now
    session.flush()
    _order(session, current, _orders(session, row, current, attempt, report, refused))
    touch(session, f"trial:{trial.id}")


def get_progress(session: Session, trial_id: int) -> PredictionProgressOut | None:
    """Return how far the batch inference of a trial is; None if it is none, or has not begun."""
    row = session.get(PredictionRow, trial_id)
    return None if row is None else PredictionProgressOut.from_row(row)


# ---------------------------------------------------------------- leases


def _section(session: Session, trial: TrialRow) -> PredictSection | None:
    return session.get_one(ExperimentRow, trial.experiment_id).config.predict


def _lease(
    session: Session,
    row: PredictionRow,
    allocation: ReportedAllocation,
    attempt: AttemptRow,
    report: wire.ShardsRecord,
    section: PredictSection,
    now: dt.datetime,
) -> leasing.Leasing:
    done = {(one.no, one.token): one for one in report.done[:DONE_MAX]}
    changes = leasing.decide(
        leasing.WorkerReport(
            owner=leasing.ShardOwner(allocation_id=allocation.id, rank=report.rank),
            attempt_no=allocation.attempt_no,
            done=[leasing.Commit(no=no, token=token) for no, token in done],
            rows_per_s=max(0.0, report.rows_per_s),
            takes_none=report.takes_none,
        ),
        _views(session, row.trial_id, [no for no, _ in done]),
        num_free=session.scalar(
            select(func.count()).where(_Shard.trial_id == row.trial_id, _Shard.state == "free")
        )
        or 0,
        num_workers=attempt.world_size,
        now=now,
    )
    until = now + dt.timedelta(seconds=section.lease_s)
    for commit in changes.committed:
        one = done[commit.no, commit.token]
        num_errors = min(max(0, one.num_errors), _MAX_NUMBER)
        taken = _update(
            session,
            row.trial_id,
            and_(_Shard.no == commit.no, _Shard.token == commit.token, _Shard.state == "leased"),
            state="done",
            lease_until=None,
            num_predicted=min(max(0, one.num_rows), _MAX_NUMBER),
            num_errors=num_errors,
            size_bytes=min(max(0, one.size_bytes), _MAX_NUMBER),
            sha256=one.sha256[:64],
        )
        assert taken == 1, "the row of the job is locked"
    if changes.committed:
        _count(session, row)
    if changes.renewed:
        _update(session, row.trial_id, _Shard.no.in_(changes.renewed), lease_until=until)
    if changes.freed:
        _update(session, row.trial_id, _Shard.no.in_(changes.freed), **_FREE)
    for lease in changes.leased:
        _update(
            session,
            row.trial_id,
            and_(_Shard.no == lease.no, _Shard.token == lease.token - 1, _Shard.state != "done"),
            state="leased",
            token=lease.token,
            attempt_no=allocation.attempt_no,
            allocation_id=allocation.id,
            rank=report.rank,
            lease_until=until,
        )
    return changes


_FREE: dict[str, Any] = {
    "state": "free",
    "allocation_id": None,
    "rank": None,
    "lease_until": None,
}


def _update(session: Session, trial_id: int, condition: ColumnElement[bool], **values: Any) -> int:
    """Change shards; return how many."""
    return changed(
        session,
        update(_Shard)
        .where(_Shard.trial_id == trial_id, condition)
        .values(**values)
        .execution_options(synchronize_session=False),
    )


def _views(session: Session, trial_id: int, named: Sequence[int]) -> list[leasing.ShardView]:
    """Return what a decision needs: the shards that are named or leased, and the first free ones."""
    columns = (
        _Shard.no,
        _Shard.num_rows,
        _Shard.state,
        _Shard.token,
        _Shard.attempt_no,
        _Shard.allocation_id,
        _Shard.rank,
        _Shard.lease_until,
    )
    query = select(*columns).where(_Shard.trial_id == trial_id)
    held = session.execute(
        query.where(or_(_Shard.state == "leased", _Shard.no.in_(list(named))))
    ).all()
    free = session.execute(
        query.where(_Shard.state == "free").order_by(_Shard.no).limit(leasing.HELD_MAX)
    ).all()
    rows = {found.no: found for found in (*held, *free)}
    return [
        leasing.ShardView(
            no=no,
            num_rows=found.num_rows,
            state=found.state,
            token=found.token,
            attempt_no=found.attempt_no,
            owner=None
            if found.allocation_id is None
            else leasing.ShardOwner(allocation_id=found.allocation_id, rank=found.rank or 0),
            until=found.lease_until,
        )
        for no, found in sorted(rows.items())
    ]


def _count(session: Session, row: PredictionRow) -> None:
    found = session.execute(
        select(
            func.count(),
            func.coalesce(func.sum(_Shard.num_predicted), 0),
            func.coalesce(func.sum(_Shard.num_errors), 0),
        ).where(_Shard.trial_id == row.trial_id, _Shard.state == "done")
    ).one()
    row.num_done, row.num_errors = int(found[0]), int(found[2])
    row.rows_done = int(found[1]) + row.num_errors


# ---------------------------------------------------------------- parts


def _hear_node(
    session: Session,
    row: PredictionRow,
    allocation: ReportedAllocation,
    num_nodes: int,
    parts: Sequence[Sequence[int]],
) -> None:
    """Note which parts lie on a node. When all nodes have said so, the shards whose part is nowhere
    are free again: a node was lost before its outputs were collected."""
    named = [(part[0], part[1]) for part in parts[: 2 * wire.SHARDS_MAX] if len(part) == 2]
    for first in range(0, len(named), INSERT_ROWS):
        some = named[first : first + INSERT_ROWS]
        _update(
            session,
            row.trial_id,
            and_(_Shard.state == "done", tuple_(_Shard.no, _Shard.token).in_(some)),
            seen_attempt_no=allocation.attempt_no,
        )
    row.nodes_heard = [*row.nodes_heard, allocation.node_rank]
    if len(row.nodes_heard) < num_nodes:
        return
    doubtful = session.execute(
        select(_Shard.no, _Shard.token, _Shard.num_rows, _Shard.attempt_no).where(
            _Shard.trial_id == row.trial_id,
            _Shard.state == "done",
            _Shard.attempt_no < allocation.attempt_no,
            _Shard.seen_attempt_no < allocation.attempt_no,
        )
    ).all()
    if not doubtful:
        return
    missing = leasing.find_missing(
        [
            leasing.ShardView(
                no=found.no,
                num_rows=found.num_rows,
                state="done",
                token=found.token,
                attempt_no=found.attempt_no,
                owner=None,
                until=None,
            )
            for found in doubtful
        ],
        attempt_no=allocation.attempt_no,
        present=_collected(session, row.trial_id, num_nodes),
    )
    for first in range(0, len(missing), INSERT_ROWS):
        _update(session, row.trial_id, _Shard.no.in_(missing[first : first + INSERT_ROWS]), **_FREE)
    _count(session, row)


def _collected(session: Session, trial_id: int, num_nodes: int) -> set[tuple[int, int]]:
    """Return the parts in the storage of node ranks that the attempt does not have: nobody replaces
    what is listed there while it runs."""
    rows = [
        found
        for found in manifests.rows_of(session, trial_id, with_files=True)
        if found.node_rank >= num_nodes and found.seq > 0 and found.deleted_at is None
    ]
    return {
        (int(part[1]), int(part[2]))
        for entry in manifests.read_union(rows)
        if entry.is_kept and (part := _PART.fullmatch(entry.file.path))
    }


# ---------------------------------------------------------------- orders


def _orders(
    session: Session,
    row: PredictionRow,
    allocation: AllocationRow,
    attempt: AttemptRow,
    report: wire.ShardsRecord,
    refused: Sequence[list[int]],
) -> wire.ShardOrders:
    before = allocation.shards or {}
    grants = session.execute(
        select(_Shard)
        .where(
            _Shard.trial_id == row.trial_id,
            _Shard.state == "leased",
            _Shard.allocation_id == allocation.id,
        )
        .order_by(_Shard.rank, _Shard.no)
        .execution_options(populate_existing=True)
    ).scalars()
    granted = [
        from_row(
            wire.ShardGrant, shard, rank=shard.rank or 0, start=shard.start_at, end=shard.end_at
        )
        for shard in grants
    ]
    is_heard = len(row.nodes_heard) >= attempt.num_nodes
    is_complete = not row.problem and is_heard and row.num_done == row.num_shards
    parts_from, parts = before.get("parts_from", 0), before.get("parts", [])
    if is_complete and allocation.node_rank == 0:
        if report.rank == 0:
            parts_from = max(0, report.parts_from)
        parts = _parts(session, row.trial_id, parts_from)
    return wire.ShardOrders(
        no=before.get("no", 0),
        inputs={
            str(no): wire.load(wire.InputFile, row.inputs[no])
            for no in sorted({grant.input_no for grant in granted})
        },
        grants=granted,
        refused=[*before.get("refused", []), *refused][-wire.REFUSED_MAX :],
        num_shards=row.num_shards,
        num_done=row.num_done,
        num_rows=row.num_rows,
        rows_done=row.rows_done,
        num_errors=row.num_errors,
        is_complete=is_complete,
        parts_from=parts_from,
        parts=parts,
        problem=row.problem,
    )


def _parts(session: Session, trial_id: int, first: int) -> list[wire.CommittedPart]:
    rows = session.execute(
        select(
            _Shard.token,
            _Shard.num_predicted,
            _Shard.num_errors,
            _Shard.size_bytes,
            _Shard.sha256,
        )
        .where(_Shard.trial_id == trial_id, _Shard.no >= first)
        .order_by(_Shard.no)
        .limit(wire.PARTS_PER_PAGE)
    )
    return [
        wire.CommittedPart(
            token=row.token,
            num_rows=row.num_predicted,
            num_errors=row.num_errors,
            size_bytes=row.size_bytes,
            sha256=row.sha256,
        )
        for row in rows
    ]


def _order(session: Session, allocation: AllocationRow, orders: wire.ShardOrders) -> None:
    """Give an allocation these orders, with the next number, if they say anything new."""
    before = allocation.shards or {"no": 0}
    plain = dataclasses.asdict(dataclasses.replace(orders, no=before["no"]))
    if plain == before:
        return
    allocation.shards = {**plain, "no": before["no"] + 1}
    session.flush()
    bump_assignments(session, [allocation.node_id])


# ---------------------------------------------------------------- plans


def _problem(plan: wire.ShardPlanRecord) -> str:
    """Return what is wrong with a plan; "" if nothing is."""
    columns = (plan.input_nos, plan.first_rows, plan.nums_rows, plan.starts, plan.ends)
    num = len(plan.input_nos)
    if any(len(column) != num for column in columns):
        return "The plan of the shards is broken: its columns differ in length."
    if not 0 < num <= wire.SHARDS_MAX:
        return (
            f"{num:,} shards are not between 1 and {wire.SHARDS_MAX:,}: raise predict.shard_rows."
        )
    if not 0 < len(plan.inputs) <= wire.INPUTS_MAX:
        return f"{len(plan.inputs):,} inputs are not between 1 and {wire.INPUTS_MAX:,}."
    if not all(0 <= number < len(plan.inputs) for number in plan.input_nos):
        return "The plan of the shards names inputs that it does not have."
    if not all(0 <= number <= _MAX_NUMBER for column in columns for number in column):
        return "The plan of the shards has numbers that are out of range."
    return ""


def _plain_input(file: wire.InputFile) -> dict[str, Any]:
    plain = dataclasses.asdict(file)
    return {**plain, "path": storable(file.path, 4096), "digest": file.digest[:64]}
