"""Steps of pipelines as their workers noted them: kept, and put together for a trial's page."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from muster.wire import ScheduleRecord
from muster_server.db.engine import touch
from muster_server.db.models import ProcessGroupRow, ScheduleRow
from muster_server.domain.runtime.pipelines import (
    MAX_SHOWN,
    PipelineOperation,
    WorkerTimeline,
    on_one_clock,
    problem,
)
from muster_server.errors import NotFound
from muster_server.schemas.analysis.pipelines import (
    PipelineLaneOut,
    PipelineOperationOut,
    PipelineStepOut,
)
from muster_server.services.core.events import add_event
from muster_server.services.core.lookup import get_trial
from muster_server.services.core.reporters import ReportingAllocation

STEPS_KEPT = 2
"""Number of newest steps kept per worker. Workers report one after another, so while they do, the
step before is the newest that all of them have."""
MAX_STEP = 2**53
MAX_WORKERS = 256
"""Maximum number of workers shown of one pipeline."""
_US = 1e-6


def record(
    session: Session, allocation: ReportingAllocation, reported: ScheduleRecord, now: dt.datetime
) -> None:
    """Keep what a worker noted. What cannot be kept is told in the trial's events."""
    r = reported
    wrong = problem(r.kinds, r.stages, r.micro_batches, r.starts_us, r.ends_us)
    if wrong is None and not (0 <= r.step <= MAX_STEP and 0 <= r.num_left_out <= MAX_STEP):
        wrong = "its step is not between 0 and 2^53"
    if wrong is not None:
        add_event(
            session,
            "trial.message",
            f"The schedule of a step that rank {r.rank} noted was not kept: {wrong}.",
            now=now,
            level="warning",
            trial_id=allocation.trial_id,
            attempt_no=allocation.attempt_no,
        )
        return
    of_rank = (
        ScheduleRow.trial_id == allocation.trial_id,
        ScheduleRow.attempt_no == allocation.attempt_no,
        ScheduleRow.rank == r.rank,
    )
    rows = list(session.scalars(select(ScheduleRow).where(*of_rank).order_by(ScheduleRow.id)))
    for old in [row for row in rows if row.step == r.step] or rows[: len(rows) - STEPS_KEPT + 1]:
        session.execute(delete(ScheduleRow).where(ScheduleRow.id == old.id))
    session.add(
        ScheduleRow(
            trial_id=allocation.trial_id,
            attempt_no=allocation.attempt_no,
            rank=r.rank,
            step=r.step,
            operations=[
                list(operation)
                for operation in zip(
                    r.kinds, r.stages, r.micro_batches, r.starts_us, r.ends_us, strict=True
                )
            ],
            num_left_out=r.num_left_out,
            at=now,
        )
    )
    session.flush()
    touch(session, f"trial:{allocation.trial_id}")


def noted_step(
    session: Session, trial_id: int, *, attempt_no: int | None, pipeline: int
) -> PipelineStepOut:
    """Return the newest step of one of the trial's pipelines that all of its workers have noted, of
    an attempt (the current one when None). Nothing noted gives no lanes. Raises NotFound, also for
    a pipeline that is not there."""
    trial = get_trial(session, trial_id)
    attempt = trial.attempt_no if attempt_no is None else attempt_no
    having = _ranks_and_steps(session, trial_id, attempt)
    found = _pipelines(session, trial_id, attempt, set(having))
    if pipeline and pipeline >= len(found):
        raise NotFound(
            "trials.no_pipeline",
            f"There is no pipeline {pipeline}: {len(found)} have noted a step, numbered from 0.",
        )
    ranks = found[pipeline] if found else []
    common = set.intersection(*(having[rank] for rank in ranks)) if ranks else set()
    empty = PipelineStepOut(
        trial_id=trial_id, attempt_no=attempt, num_pipelines=len(found), pipeline=pipeline,
        step=None, at=None, total_ms=None, idle_share=None, lanes=[],
    )  # fmt: skip
    if not common:
        return empty
    step = max(common)
    rows = {
        row.rank: row
        for row in session.scalars(
            select(ScheduleRow).where(
                ScheduleRow.trial_id == trial_id,
                ScheduleRow.attempt_no == attempt,
                ScheduleRow.step == step,
                ScheduleRow.rank.in_(ranks),
            )
        )
    }
    room = MAX_SHOWN // len(ranks)
    noted = on_one_clock([_lane(rows[rank], room) for rank in ranks])
    if noted is None:
        return empty
    return empty.model_copy(
        update={
            "step": step,
            "at": max(row.at for row in rows.values()),
            "total_ms": noted.total_s * 1e3,
            "idle_share": noted.idle_share,
            "lanes": [_lane_out(lane) for lane in noted.lanes],
        }
    )


def _ranks_and_steps(session: Session, trial_id: int, attempt: int) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    query = select(ScheduleRow.rank, ScheduleRow.step).where(
        ScheduleRow.trial_id == trial_id, ScheduleRow.attempt_no == attempt
    )
    for rank, step in session.execute(query):
        found.setdefault(rank, set()).add(step)
    return found


def _pipelines(session: Session, trial_id: int, attempt: int, having: set[int]) -> list[list[int]]:
    """Return the ranks of each pipeline, from the first worker to the last, as far as they have
    noted a step; all of them are one where no group is known to be one."""
    groups = session.scalars(
        select(ProcessGroupRow)
        .where(
            ProcessGroupRow.trial_id == trial_id,
            ProcessGroupRow.attempt_no == attempt,
            ProcessGroupRow.kind == "pp",
        )
        .order_by(ProcessGroupRow.id)
    )
    found = sorted([rank for rank in group.ranks if rank in having] for group in groups)
    found = [ranks for ranks in found if ranks] or ([sorted(having)] if having else [])
    return [ranks[:MAX_WORKERS] for ranks in found]


def _lane(row: ScheduleRow, room: int) -> WorkerTimeline:
    operations = tuple(
        PipelineOperation(
            kind=kind, stage=stage, micro_batch=micro, start_s=start * _US, end_s=end * _US
        )
        for kind, stage, micro, start, end in row.operations[:room]
    )  # fmt: skip
    left_out = row.num_left_out + max(len(row.operations) - room, 0)
    return WorkerTimeline(rank=row.rank, operations=operations, num_left_out=left_out)


def _lane_out(lane: WorkerTimeline) -> PipelineLaneOut:
    return PipelineLaneOut(
        rank=lane.rank,
        num_left_out=lane.num_left_out,
        error_ms=None if lane.error_s is None else lane.error_s * 1e3,
        operations=[
            PipelineOperationOut(
                kind=o.kind, stage=o.stage, micro_batch=o.micro_batch,
                start_ms=o.start_s * 1e3, end_ms=o.end_s * 1e3,
            )
            for o in lane.operations
        ],
    )  # fmt: skip
