"""Samples that the ranks of trials were given: kept as reported, judged when asked."""

from __future__ import annotations

import dataclasses
from itertools import groupby
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from muster import wire
from muster_server.db.models import AttemptRow, TrialRow, WorkerRow
from muster_server.domain.checkpoints.continuation import (
    AttemptSamples,
    Continuation,
    largest_difference,
    trace,
    verdict,
)
from muster_server.domain.messages import AnyMessage, Message
from muster_server.domain.states import TrialState
from muster_server.schemas.analysis.continuation import ContinuationOut, StretchOut
from muster_server.schemas.base import parts_out

from ..core.reporters import ReportingAllocation
from ..metrics.curves import groups_of, lowest_ranks
from ..metrics.series import read_groups

ATTEMPTS_MAX = 100
"""Newest attempts that are read; what was before them is taken for granted."""
CURVE = "train/loss"
"""Metric whose curve is compared with that of an uninterrupted trial."""
POINTS_MAX = 1000
"""Points of a curve that are compared; of a longer one means of as many steps as needed."""


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
    return trace(attempts, is_complete=trial.state is TrialState.COMPLETED)


def compare_curve(session: Session, trial: TrialRow) -> AnyMessage | None:
    """Say how far the loss of a completed trial that was interrupted is from that of one with the same inputs
    that was not; None where there is no such trial, or they share no step."""
    if trial.reuse_key is None or trial.attempt_no < 2 or trial.state is not TrialState.COMPLETED:
        return None
    other = session.scalar(
        select(TrialRow)
        .where(
            TrialRow.reuse_key == trial.reuse_key,
            TrialRow.state == TrialState.COMPLETED,
            TrialRow.attempt_no == 1,
            TrialRow.reused_from.is_(None),
        )
        .order_by(TrialRow.id.desc())
        .limit(1)
    )
    if other is None:
        return None
    groups = lowest_ranks(groups_of(session, [trial.id, other.id], [CURVE], None))
    curves = {
        group.trial_id: series
        for group, series in zip(
            groups, read_groups(session, groups, None, None, POINTS_MAX), strict=True
        )
    }
    if len(curves) < 2 or len({series.bucket_steps for series in curves.values()}) > 1:
        return None
    mine, theirs = (
        {at: value for at, value in zip(one.step, one.mean, strict=True) if value is not None}
        for one in (curves[trial.id], curves[other.id])
    )
    found = largest_difference(mine, theirs)
    if found is None:
        return None
    about: dict[str, Any] = {
        "metric": CURVE,
        "trial": f"{other.experiment_id}.{other.no}",
        "num": len(mine.keys() & theirs.keys()),
        "width": curves[trial.id].bucket_steps,
    }
    if found[1] == 0:
        return Message("continuation.same_curve", **about)
    return Message("continuation.other_curve", **about, step=found[0], difference=f"{found[1]:.3g}")


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
