"""How far the ranks of trials are: kept as reported, judged when asked, stacks taken on demand."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from muster.wire import RAS_RANK, ProgressRecord, StacksRecord
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    ExperimentRow,
    NodeRow,
    StacksRow,
    TrialRow,
    WorkerRow,
)
from muster_server.domain.insight.step_traffic import ProcessGroup
from muster_server.domain.runtime.stuck import (
    Count,
    RankView,
    Stuck,
    StuckVerdict,
    decide_stuck,
    judge,
    judge_end,
)
from muster_server.domain.runtime.witnesses import Evidence, Witnesses, conclude
from muster_server.domain.states import AllocationState, AttemptState, NodeState
from muster_server.errors import Conflict
from muster_server.schemas.analysis.progress import (
    EvidenceOut,
    GroupCountOut,
    ProgressOut,
    RankProgressOut,
    RankStacksOut,
    StacksOut,
)
from muster_server.schemas.base import parts_out
from muster_server.schemas.cluster import StuckOut

from ..core import callers
from ..core.assignments import bump_assignments
from ..core.callers import Caller
from ..core.events import add_event
from ..core.lookup import get_trial
from ..core.ownership import require_charge
from ..core.reporters import ReportingAllocation
from ..core.texts import storable
from ..core.writes import changed
from .process_groups import process_groups

KEEP_STACKS = 5
"""Times per attempt of which the stacks are kept; older ones go."""
MIN_STUCK_AFTER_S = 60.0
"""The least that a document may say in restarts.stuck_after_s."""
STUCK_SHOWN_MAX = 20
"""Stuck trials that the overview lists; all are counted."""
MAX_TEXT_CHARS = 64 * 1024
MAX_PROBLEM_CHARS = 500

# ---------------------------------------------------------------- what agents report


def record(
    session: Session, allocation: ReportingAllocation, reported: ProgressRecord, now: dt.datetime
) -> None:
    """Keep how far the workers of an allocation are, and which of them have moved."""
    rows = session.scalars(select(WorkerRow).where(WorkerRow.allocation_id == allocation.id))
    told = {progress.local_rank: progress for progress in reported.workers}
    for row in rows:
        progress = told.get(row.local_rank)
        if progress is None:
            continue
        values = dataclasses.asdict(progress)
        if row.moved_at is None or _moving(values) != _moving(row.progress or {}):
            row.moved_at = now
        row.progress = values
    session.flush()


def _moving(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that change when a rank advances. That a process is stopped is not
    progress, nor is it that more is known of the collective in which a rank stands."""
    counts = [(g["group"], g["num_enqueued"], g["num_completed"]) for g in values.get("groups", [])]
    return {k: v for k, v in values.items() if k != "process"} | {"groups": counts}


def keep_stacks(
    session: Session, allocation: ReportingAllocation, reported: StacksRecord, now: dt.datetime
) -> None:
    """Keep where a worker was, and forget what is older than the last few times."""
    place = {
        "trial_id": allocation.trial_id,
        "attempt_no": allocation.attempt_no,
        "no": reported.no,
        "rank": reported.rank,
    }
    row = session.scalar(select(StacksRow).filter_by(**place))
    if row is None:
        row = StacksRow(**place)
        session.add(row)
    row.node_name = allocation.node_name
    row.text = storable(reported.text[-MAX_TEXT_CHARS:])
    row.problem = storable(reported.problem, MAX_PROBLEM_CHARS)
    row.is_cut = reported.is_cut or len(reported.text) > MAX_TEXT_CHARS
    row.at = now
    session.flush()
    session.execute(
        delete(StacksRow).where(
            StacksRow.trial_id == allocation.trial_id,
            (StacksRow.attempt_no < allocation.attempt_no)
            | (StacksRow.no <= reported.no - KEEP_STACKS),
        )
    )
    touch(session, f"trial:{allocation.trial_id}")


# ---------------------------------------------------------------- what people ask


def trial_progress(session: Session, trial_id: int, *, now: dt.datetime) -> ProgressOut:
    """Return the progress of the ranks of the current attempt. Raises NotFound."""
    trial = get_trial(session, trial_id)
    views = _views(session, trial)
    evidence: tuple[Evidence, ...] = ()
    if views:
        found, evidence = _judge(session, trial, views, now=now)
    else:
        ended = [_view(worker, NodeState.ONLINE) for worker in _ended(session, trial)]
        over = StuckVerdict(state="over", still_s=None, blamed=(), reason="No rank is alive.")
        found = judge_end(ended, process_groups(session, trial.id, trial.attempt_no)) or over
        if found is not over:
            views = ended
            found, evidence = conclude(found, views, _witnesses(session, trial, views))
    return ProgressOut(
        trial_id=trial_id,
        attempt_no=trial.attempt_no,
        state=found.state,
        still_s=found.still_s,
        blamed=list(found.blamed),
        reason=found.reason,
        evidence=[
            EvidenceOut(witness=one.witness, text=one.text.english, text_parts=parts_out(one.text))
            for one in evidence
        ],
        ranks=[_rank_out(view) for view in views],
    )


def request_stacks(session: Session, trial_id: int, by: Caller) -> None:
    """Have every rank asked where it is. Raises NotFound, Forbidden for a trial of somebody else,
    and Conflict when none runs."""
    trial = get_trial(session, trial_id, lock=True)
    require_charge(session, by.principal, session.get_one(ExperimentRow, trial.experiment_id))
    if not ask_for_stacks(session, trial):
        raise Conflict(
            "trials.not_running",
            f"Trial {trial.address} has no running workers ({trial.state}).",
            hint="Stacks can be had while it is RUNNING.",
        )
    callers.record(session, "trials.stacks_requested", f"trial:{trial_id}", by)


def trial_stacks(
    session: Session, trial_id: int, *, attempt_no: int | None, no: int | None
) -> StacksOut:
    """Return the stacks of an attempt that were collected at one time.

    attempt_no: None for the current attempt. no: number of the collection, None for the last.
    Raises NotFound.
    """
    trial = get_trial(session, trial_id)
    attempt = trial.attempt_no if attempt_no is None else attempt_no
    mine = (StacksRow.trial_id == trial_id, StacksRow.attempt_no == attempt)
    kept = list(
        session.scalars(select(StacksRow.no).where(*mine).distinct().order_by(StacksRow.no))
    )
    last = session.scalar(
        select(func.max(AllocationRow.stacks_no)).where(
            AllocationRow.trial_id == trial_id, AllocationRow.attempt_no == attempt
        )
    )
    chosen = no if no is not None else (last or 0)
    rows = session.scalars(select(StacksRow).where(*mine, StacksRow.no == chosen))
    return StacksOut(
        trial_id=trial_id,
        attempt_no=attempt,
        no=chosen,
        kept=kept,
        num_expected=_num_expected(session, trial) if attempt == trial.attempt_no else 0,
        ranks=[RankStacksOut.from_row(row) for row in sorted(rows, key=lambda r: r.rank)],
    )


def _num_expected(session: Session, trial: TrialRow) -> int:
    """Return how many answers will come: one of each worker, and of a node on which none is known
    that of its launcher."""
    running = session.scalars(
        select(AllocationRow.id).where(
            AllocationRow.trial_id == trial.id,
            AllocationRow.attempt_no == trial.attempt_no,
            AllocationRow.observed == AllocationState.RUNNING,
        )
    )
    workers = [worker.allocation_id for worker, _ in _living(session, trial)]
    return len(workers) + len(set(running) - set(workers))


def ask_for_stacks(session: Session, trial: TrialRow) -> bool:
    """Have every rank asked where it is. False: none runs."""
    running = (
        AllocationRow.trial_id == trial.id,
        AllocationRow.attempt_no == trial.attempt_no,
        AllocationRow.observed == AllocationState.RUNNING,
    )
    nodes = list(session.scalars(select(AllocationRow.node_id).where(*running)))
    if not nodes:
        return False
    # One number for all of them, though one may have started later than the others.
    last = session.scalar(select(func.max(AllocationRow.stacks_no)).where(*running)) or 0
    session.execute(update(AllocationRow).where(*running).values(stacks_no=last + 1))
    bump_assignments(session, nodes)
    return True


def _living(session: Session, trial: TrialRow) -> list[tuple[WorkerRow, str]]:
    """Workers of the current attempt that live, with the states of their nodes, by rank."""
    rows = session.execute(
        select(WorkerRow, NodeRow.state)
        .join(AllocationRow, AllocationRow.id == WorkerRow.allocation_id)
        .outerjoin(NodeRow, NodeRow.id == AllocationRow.node_id)
        .where(
            WorkerRow.trial_id == trial.id,
            WorkerRow.attempt_no == trial.attempt_no,
            WorkerRow.ended_at.is_(None),
            AllocationRow.observed.in_(
                (AllocationState.STARTING, AllocationState.RUNNING, AllocationState.STOPPING)
            ),
        )
        .order_by(WorkerRow.rank)
    )
    return [(worker, state or "") for worker, state in rows]


def _ended(session: Session, trial: TrialRow) -> Sequence[WorkerRow]:
    """Workers of the current attempt that have ended, by rank."""
    return session.scalars(
        select(WorkerRow)
        .where(WorkerRow.trial_id == trial.id, WorkerRow.attempt_no == trial.attempt_no)
        .order_by(WorkerRow.rank)
    ).all()


def _views(session: Session, trial: TrialRow) -> list[RankView]:
    return [_view(worker, node_state) for worker, node_state in _living(session, trial)]


def _view(worker: WorkerRow, node_state: str) -> RankView:
    said = worker.progress or {}
    return RankView(
        rank=worker.rank,
        node_name=worker.node_name,
        is_heard=node_state == NodeState.ONLINE,
        reports=bool(said.get("reports")),
        process=str(said.get("process", "")),
        moved_at=worker.moved_at or worker.started_at,
        step=said.get("step"),
        phase=str(said.get("phase", "")),
        counts={
            g["group"]: Count(
                kind=g["kind"],
                num_enqueued=g["num_enqueued"],
                num_completed=g["num_completed"],
                source=g.get("source", ""),
            )
            for g in said.get("groups", [])
        },
        waits_for=said.get("waits_for"),
        waits_kind=str(said.get("waits_kind", "")),
    )


def _judge(
    session: Session, trial: TrialRow, views: list[RankView], *, now: dt.datetime
) -> tuple[StuckVerdict, tuple[Evidence, ...]]:
    groups: list[ProcessGroup] = process_groups(session, trial.id, trial.attempt_no)
    verdict = judge(views, groups, now=now)
    if verdict.state != "still":
        return verdict, ()
    return conclude(verdict, views, _witnesses(session, trial, views))


def _witnesses(session: Session, trial: TrialRow, views: Sequence[RankView]) -> Witnesses:
    """Return what has been seen of an attempt since its ranks moved last."""
    since = max(view.moved_at for view in views)
    mine = (StacksRow.trial_id == trial.id, StacksRow.attempt_no == trial.attempt_no)
    last = select(func.max(StacksRow.no)).where(*mine).scalar_subquery()
    taken = session.scalars(
        select(StacksRow).where(*mine, StacksRow.no == last, StacksRow.at > since)
    )
    stacks = {row.rank: row.text for row in taken}
    nccl = stacks.pop(RAS_RANK, "")
    return Witnesses(nccl=nccl, stacks=stacks, devices=_devices(session, trial))


def _devices(session: Session, trial: TrialRow) -> dict[int, float]:
    """Return how busy the GPU of each living rank was at the newest heartbeat of its node."""
    rows = session.execute(
        select(WorkerRow.rank, WorkerRow.slot, AllocationRow.spec, NodeRow.usage)
        .join(AllocationRow, AllocationRow.id == WorkerRow.allocation_id)
        .join(NodeRow, NodeRow.id == AllocationRow.node_id)
        .where(
            WorkerRow.trial_id == trial.id,
            WorkerRow.attempt_no == trial.attempt_no,
            WorkerRow.ended_at.is_(None),
        )
    )
    found: dict[int, float] = {}
    for rank, slot, spec, usage in rows:
        for gpu in (usage or {}).get("gpus") or ():
            is_own = spec.get("slot_type") != "cpu" and gpu.get("index") == slot
            if is_own and gpu.get("use_pct") is not None:
                found[rank] = float(gpu["use_pct"])
    return found


def _rank_out(view: RankView) -> RankProgressOut:
    return RankProgressOut.from_row(
        view,
        groups=[
            GroupCountOut(group=name, **dataclasses.asdict(count))
            for name, count in view.counts.items()
        ],
    )


# ---------------------------------------------------------------- what nobody asked


@dataclass(frozen=True, kw_only=True)
class StuckAttempt:
    trial_id: int
    attempt_no: int
    decided: Stuck


def find_stuck(session: Session, *, after_s: float, now: dt.datetime) -> list[StuckAttempt]:
    """Attempts that run, of whose ranks none has moved for `after_s` or for what their document
    says, and for which something follows from that."""
    moved_at = func.max(WorkerRow.moved_at)
    quiet = session.execute(
        select(AttemptRow.trial_id, AttemptRow.no, AttemptRow.stuck_at)
        .join(
            WorkerRow,
            (WorkerRow.trial_id == AttemptRow.trial_id) & (WorkerRow.attempt_no == AttemptRow.no),
        )
        .where(AttemptRow.state == AttemptState.RUNNING, AttemptRow.stuck_reason == "")
        .group_by(AttemptRow.trial_id, AttemptRow.no, AttemptRow.stuck_at)
        .having(moved_at <= now - dt.timedelta(seconds=min(after_s, MIN_STUCK_AFTER_S)))
    )
    found = []
    for trial_id, attempt_no, noted_at in quiet.all():
        trial = session.get_one(TrialRow, trial_id)
        config = session.get_one(ExperimentRow, trial.experiment_id).config
        end_after_s = config.restarts.stuck_after_s
        if noted_at is not None and end_after_s is None:
            continue
        views = _views(session, trial)
        if not all(view.is_heard for view in views):
            continue  # of a node that is not heard nobody knows whether its ranks move
        decided = decide_stuck(
            _judge(session, trial, views, now=now)[0],
            noted_at=noted_at,
            say_after_s=after_s,
            end_after_s=end_after_s,
            now=now,
        )
        if decided is not None:
            found.append(StuckAttempt(trial_id=trial_id, attempt_no=attempt_no, decided=decided))
    return found


def list_stuck(session: Session) -> tuple[list[StuckOut], int]:
    """(running trials that were noticed to be stuck and have not moved since, the first noticed
    first, STUCK_SHOWN_MAX of them at most; how many there are)."""
    moved = (
        select(func.max(WorkerRow.moved_at))
        .where(
            WorkerRow.trial_id == AttemptRow.trial_id,
            WorkerRow.attempt_no == AttemptRow.no,
        )
        .scalar_subquery()
    )
    rows = session.execute(
        select(
            TrialRow.id,
            TrialRow.no,
            TrialRow.experiment_id,
            ExperimentRow.name,
            AttemptRow.stuck_at,
            moved.label("moved_at"),
            func.count().over().label("num"),
        )
        .select_from(AttemptRow)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(
            AttemptRow.state == AttemptState.RUNNING,
            AttemptRow.stuck_at.is_not(None),
            moved <= AttemptRow.stuck_at,
        )
        .order_by(AttemptRow.stuck_at, TrialRow.id)
        .limit(STUCK_SHOWN_MAX)
    ).all()
    shown = [
        StuckOut(
            trial_id=row.id,
            trial_no=row.no,
            experiment_id=row.experiment_id,
            experiment_name=row.name,
            stuck_at=row.stuck_at,
            moved_at=row.moved_at,
        )
        for row in rows
    ]
    return shown, rows[0].num if rows else 0


def note_stuck(session: Session, stuck: StuckAttempt, *, now: dt.datetime) -> bool:
    """Say it in the trial's events and have its stacks taken, or have the attempt ended. False: it
    was done already."""
    current = (
        AttemptRow.trial_id == stuck.trial_id,
        AttemptRow.no == stuck.attempt_no,
        AttemptRow.state == AttemptState.RUNNING,
    )
    if stuck.decided.is_over:
        unless_ended = update(AttemptRow).where(*current, AttemptRow.stuck_reason == "")
        return bool(changed(session, unless_ended.values(stuck_reason=stuck.decided.reason)))
    if not changed(
        session,
        update(AttemptRow).where(*current, AttemptRow.stuck_at.is_(None)).values(stuck_at=now),
    ):
        return False
    trial = session.get_one(TrialRow, stuck.trial_id)
    ask_for_stacks(session, trial)
    add_event(
        session,
        "trial.stuck",
        stuck.decided.reason,
        now=now,
        level="warning",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=stuck.attempt_no,
    )
    touch(session, f"trial:{trial.id}")
    return True
