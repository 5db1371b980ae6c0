"""Samples that the ranks of trials were given: kept as reported, judged when asked."""

from __future__ import annotations

import dataclasses
from itertools import groupby

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from muster import wire
from muster_server.db.models import AttemptRow, TrialRow, WorkerRow
from muster_server.domain.checkpoints.continuation import (
    AttemptSamples,
    Continuation,
    trace,
    verdict,
)
from muster_server.domain.messages import AnyMessage
from muster_server.domain.states import TrialState
from muster_server.schemas.analysis.continuation import ContinuationOut, StretchOut
from muster_server.schemas.base import parts_out

from ..core.reporters import ReportingAllocation

ATTEMPTS_MAX = 100
"""Newest attempts that are read; what was before them is taken for granted."""


def record(session: Session, allocation: ReportingAllocation, reported: wire.SamplesRecord) -> None:
    """Keep the samples of a worker in place of what it told before."""
    session.execute(
        update(WorkerRow)
        .where(
            WorkerRow.allocation_id == allocation.id,
            WorkerRow.local_rank == reported.local_rank,
        )
        .values(samples=dataclasses.asdict(reported))
    )


def load(session: Session, trial: TrialRow) -> Continuation | None:
    """Return which samples the present state of a trial has used; None if none of its ranks tells."""
    return trace(read(session, trial), is_complete=trial.state is TrialState.COMPLETED)


def read(session: Session, trial: TrialRow) -> list[AttemptSamples]:
    """Return what the ranks of a trial have told of their samples, by attempt."""
    rows = session.execute(
        select(
            WorkerRow.attempt_no, AttemptRow.resume_step, AttemptRow.world_size, WorkerRow.samples
        )
        .join(
            AttemptRow,
            (AttemptRow.trial_id == WorkerRow.trial_id) & (AttemptRow.no == WorkerRow.attempt_no),
        )
        .where(
            WorkerRow.trial_id == trial.id, WorkerRow.attempt_no > trial.attempt_no - ATTEMPTS_MAX
        )
        .order_by(WorkerRow.attempt_no, WorkerRow.rank)
    ).all()
    attempts: list[AttemptSamples] = []
    for no, group in groupby(rows, key=lambda row: row.attempt_no):
        workers = list(group)
        told = [wire.load(wire.SamplesRecord, w.samples) for w in workers if w.samples]
        attempts.append(
            AttemptSamples(
                no=no,
                world_size=workers[0].world_size,
                resume_step=workers[0].resume_step,
                records=told,
            )
        )
    return attempts


def continuation_out(
    found: Continuation | None, curve: AnyMessage | None
) -> ContinuationOut | None:
    if found is None:
        return None
    said = verdict(found)
    return ContinuationOut(
        is_proven=found.is_proven,
        verdict=said.english,
        verdict_parts=parts_out(said),
        curve="" if curve is None else curve.english,
        curve_parts=parts_out(curve),
        num_samples=found.num_samples,
        num_epochs=found.num_epochs,
        num_used=found.num_used if found.doubt is None else None,
        num_repeated=found.num["repeated"],
        num_skipped=found.num["skipped"],
        num_unconfirmed=found.num["unconfirmed"],
        num_padded=found.num_padded,
        num_left_out=found.num_left_out,
        num_attempts=found.num_attempts,
        num_ranks=list(found.num_ranks),
        stretches=[StretchOut.from_row(s) for s in found.stretches if found.doubt is None],
    )
