"""Windows of torch's profiler: asked for by people, carried out by workers, kept for a while."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import groupby

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from muster.wire import ProfileRecord
from muster_server.db.engine import Database, touch
from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    ProfilePieceRow,
    ProfileRow,
    TrialRow,
    WorkerRow,
)
from muster_server.db.queries.metrics import insert_or_ignore
from muster_server.domain.messages import Message
from muster_server.domain.states import AllocationState
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from muster_server.schemas.analysis.profiles import ProfiledRankOut, ProfileIn, ProfileOut

from ..core.assignments import bump_assignments
from ..core.callers import Caller, note
from ..core.events import add_event
from ..core.lookup import get_trial
from ..core.ownership import require_charge
from ..core.reporters import ReportingAllocation
from ..core.texts import storable

KEEP_WINDOWS = 5
"""Number of windows kept per trial; older ones are deleted."""
KEEP_BYTES = 64 * 1024 * 1024
"""Maximum size of the traces kept per trial. Beyond it, older windows are deleted, but never the
newest."""
MAX_TRACE_BYTES = 8 * 1024 * 1024
"""Maximum size of one rank's trace, which its agent does not exceed."""
MAX_PROBLEM_CHARS = 500
GIVEN_UP_AFTER = dt.timedelta(seconds=600)
"""A rank that has not answered by then never will: its shim gives up earlier."""
_ENDED = "its worker ended before the window was complete"
_SILENT = "its node did not answer"

# ---------------------------------------------------------------- what people ask


def start(session: Session, trial_id: int, body: ProfileIn, by: Caller) -> ProfileOut:
    """Have the chosen ranks profiled for some steps.

    Raises NotFound, Forbidden for a trial of somebody else, Conflict when none runs or while
    another window is open, and InvalidRequest for ranks that it does not have, or whose script
    does not use the SDK.
    """
    trial = get_trial(session, trial_id, lock=True)
    require_charge(session, by.principal, session.get_one(ExperimentRow, trial.experiment_id))
    running = _running(session, trial)
    if not running:
        raise Conflict(
            "trials.not_running",
            f"Trial {trial.address} has no running workers ({trial.state}).",
            hint="A window of the profiler can be had while it is RUNNING.",
        )
    ranks = _chosen(session, trial, body.ranks)
    windows = list_of(session, trial_id, now=by.now)
    if windows and not windows[0].is_complete:
        raise Conflict(
            "profiles.running",
            f"Window {windows[0].no} of trial {trial.address} is still open.",
            hint="Wait for it: it is given up after ten minutes at the latest.",
        )
    last = session.scalar(select(func.max(ProfileRow.no)).where(ProfileRow.trial_id == trial_id))
    no = (last or 0) + 1
    for rank, node_name in ranks.items():
        session.add(
            ProfileRow(
                trial_id=trial_id,
                attempt_no=trial.attempt_no,
                no=no,
                rank=rank,
                node_name=node_name,
                num_steps=body.steps,
                requested_by=by.principal.name,
                asked_at=by.now,
            )
        )
    session.flush()
    _forget_old(session, trial_id, no)
    order = {"no": no, "ranks": sorted(ranks), "num_steps": body.steps}
    session.execute(
        update(AllocationRow).where(AllocationRow.id.in_(running)).values(profile=order)
    )
    bump_assignments(session, sorted(set(running.values())))
    add_event(
        session,
        "trial.profiled",
        f"{by.principal.name} asked for a window of the profiler: {body.steps} steps of rank "
        f"{', '.join(map(str, sorted(ranks)))}. These steps, and the writing of the trace after "
        "them, take longer than others.",
        now=by.now,
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=trial.attempt_no,
    )
    note(session, "trials.profiled", trial.experiment_id, by, {"trial": trial_id, "no": no})
    touch(session, f"trial:{trial_id}")
    return get(session, trial_id, no, now=by.now)


def _running(session: Session, trial: TrialRow) -> dict[str, str]:
    """Allocation → node, of those whose workers all live."""
    rows = session.execute(
        select(AllocationRow.id, AllocationRow.node_id).where(
            AllocationRow.trial_id == trial.id,
            AllocationRow.attempt_no == trial.attempt_no,
            AllocationRow.observed == AllocationState.RUNNING,
        )
    )
    return {row.id: row.node_id for row in rows}


def _chosen(session: Session, trial: TrialRow, ranks: Sequence[int]) -> dict[int, str]:
    """Rank → the name of its node. Raises InvalidRequest."""
    workers = {
        worker.rank: worker
        for worker in session.scalars(
            select(WorkerRow).where(
                WorkerRow.trial_id == trial.id,
                WorkerRow.attempt_no == trial.attempt_no,
                WorkerRow.ended_at.is_(None),
            )
        )
    }
    problems = []
    for index, rank in enumerate(ranks):
        if rank in ranks[:index]:
            problems.append(FieldProblem(f"ranks[{index}]", Message("field.rank_twice", rank=rank)))
        elif rank not in workers:
            known = f"0 to {max(workers)}" if workers else "none yet"
            problems.append(
                FieldProblem(
                    f"ranks[{index}]",
                    Message("field.no_such_rank", rank=rank),
                    f"its ranks: {known}",
                )
            )
        elif not workers[rank].reports:
            problems.append(
                FieldProblem(
                    f"ranks[{index}]",
                    f"rank {rank} reports nothing: its script has not called muster.init(), and no "
                    "optimizer of torch has made a step in it",
                    "Call muster.init() in the script: the profiler runs inside the process.",
                )
            )
    if problems:
        raise InvalidRequest(
            "profiles.impossible", "These ranks cannot be profiled.", fields=problems
        )
    return {rank: workers[rank].node_name for rank in ranks}


def list_of(session: Session, trial_id: int, *, now: dt.datetime) -> list[ProfileOut]:
    """Return the windows of a trial that are kept, the newest first. Raises NotFound."""
    trial = get_trial(session, trial_id)
    rows = list(
        session.scalars(
            select(ProfileRow)
            .where(ProfileRow.trial_id == trial_id)
            .order_by(ProfileRow.no.desc(), ProfileRow.rank)
        )
    )
    if all(row.ended_at is not None for row in rows):
        living: set[int] = set()
    else:
        living = _living(session, trial)
    return [
        _out(list(of_window), trial, living, now)
        for _, of_window in groupby(rows, key=lambda row: row.no)
    ]


def get(session: Session, trial_id: int, no: int, *, now: dt.datetime) -> ProfileOut:
    """Raises NotFound."""
    for window in list_of(session, trial_id, now=now):
        if window.no == no:
            return window
    raise _not_found(get_trial(session, trial_id), no)


def find_trace(session: Session, trial_id: int, no: int, rank: int) -> int:
    """Return the id of a complete trace. Raises NotFound, with what is known about why there is
    none."""
    trial = get_trial(session, trial_id)
    row = session.scalar(select(ProfileRow).filter_by(trial_id=trial_id, no=no, rank=rank))
    if row is None:
        raise _not_found(trial, no, rank)
    if row.ended_at is None or row.problem:
        why = row.problem or "it is not complete"
        raise NotFound(
            "profiles.no_trace",
            f"Window {no} of trial {trial.address} has no trace of rank {rank}: {why}.",
        )
    return row.id


def find_traces(session: Session, trial_id: int, no: int, *, now: dt.datetime) -> dict[int, int]:
    """Return rank → the id of its trace, of those of a window that are complete. Raises NotFound if there
    are none."""
    ready = [one.rank for one in get(session, trial_id, no, now=now).ranks if one.state == "ready"]
    if not ready:
        raise NotFound(
            "profiles.no_trace",
            f"Window {no} of trial {get_trial(session, trial_id).address} has no complete trace.",
        )
    return {rank: find_trace(session, trial_id, no, rank) for rank in ready}


def stream(database: Database, profile_id: int) -> Iterator[bytes]:
    """Yield the trace piece by piece, each read in a transaction of its own."""
    index = 0
    while True:
        with database.read() as session:
            piece = session.get(ProfilePieceRow, (profile_id, index))
            data = None if piece is None else piece.data
        if data is None:
            return
        yield data
        index += 1


def _not_found(trial: TrialRow, no: int, rank: int | None = None) -> NotFound:
    of_rank = "" if rank is None else f" of rank {rank}"
    return NotFound(
        "profiles.not_found",
        f"Trial {trial.address} has no window {no}{of_rank}. The last {KEEP_WINDOWS} are kept.",
    )


def _living(session: Session, trial: TrialRow) -> set[int]:
    """Ranks of the current attempt that live."""
    return set(
        session.scalars(
            select(WorkerRow.rank).where(
                WorkerRow.trial_id == trial.id,
                WorkerRow.attempt_no == trial.attempt_no,
                WorkerRow.ended_at.is_(None),
            )
        )
    )


def _out(rows: list[ProfileRow], trial: TrialRow, living: set[int], now: dt.datetime) -> ProfileOut:
    ranks = [_rank_out(row, trial, living, now) for row in rows]
    first = rows[0]
    return ProfileOut.from_row(
        first,
        is_complete=all(rank.state != "waiting" for rank in ranks),
        ranks=ranks,
    )


def _rank_out(
    row: ProfileRow, trial: TrialRow, living: set[int], now: dt.datetime
) -> ProfiledRankOut:
    problem = row.problem
    if row.ended_at is None:
        if row.attempt_no != trial.attempt_no or row.rank not in living:
            problem = _ENDED
        elif now > row.asked_at + GIVEN_UP_AFTER:
            problem = _SILENT
    return ProfiledRankOut.from_row(
        row,
        state="failed" if problem else "waiting" if row.ended_at is None else "ready",
        problem=problem,
    )


# ---------------------------------------------------------------- what agents report


def keep(
    session: Session, allocation: ReportingAllocation, reported: ProfileRecord, now: dt.datetime
) -> None:
    """Store a piece of a trace, or why there is none. What nobody waits for is forgotten."""
    row = session.scalar(
        select(ProfileRow).filter_by(
            trial_id=allocation.trial_id, no=reported.no, rank=reported.rank
        )
    )
    if row is None or row.ended_at is not None or row.attempt_no != allocation.attempt_no:
        return
    if reported.problem:
        _end(row, now, problem=reported.problem)
    else:
        _take(session, row, reported, now)
    session.flush()
    touch(session, f"trial:{allocation.trial_id}")


def _take(session: Session, row: ProfileRow, reported: ProfileRecord, now: dt.datetime) -> None:
    try:
        data = base64.b64decode(reported.data, validate=True)
    except (binascii.Error, ValueError):
        _end(row, now, problem="a piece of the trace was damaged on its way")
        return
    if not 0 < reported.size_bytes <= MAX_TRACE_BYTES or not data:
        _end(row, now, problem="its node sent a trace of an impossible size")
        return
    session.execute(
        insert_or_ignore(session, ProfilePieceRow),
        {"profile_id": row.id, "idx": reported.index, "data": data},
    )
    row.received_bytes += len(data)
    row.size_bytes = reported.size_bytes
    row.first_step, row.last_step = reported.first_step, reported.last_step
    if row.received_bytes > reported.size_bytes:
        _end(row, now, problem="its node sent a trace of an impossible size")
    elif row.received_bytes == reported.size_bytes:
        _end(row, now)


def _end(row: ProfileRow, now: dt.datetime, *, problem: str = "") -> None:
    row.ended_at = now
    row.problem = storable(problem, MAX_PROBLEM_CHARS)


def _forget_old(session: Session, trial_id: int, newest: int) -> None:
    """Windows beyond the last few, or beyond what their traces may take together."""
    rows = session.execute(
        select(ProfileRow.no, func.sum(ProfileRow.received_bytes).label("size"))
        .where(ProfileRow.trial_id == trial_id)
        .group_by(ProfileRow.no)
    )
    sizes = {row.no: int(row.size or 0) for row in rows}
    total = 0
    gone = []
    for place, no in enumerate(sorted(sizes, reverse=True)):
        total += sizes[no]
        if no != newest and (place >= KEEP_WINDOWS or total > KEEP_BYTES):
            gone.append(no)
    if gone:
        old = (ProfileRow.trial_id == trial_id, ProfileRow.no.in_(gone))
        session.execute(
            delete(ProfilePieceRow).where(
                ProfilePieceRow.profile_id.in_(select(ProfileRow.id).where(*old))
            )
        )
        session.execute(delete(ProfileRow).where(*old))
