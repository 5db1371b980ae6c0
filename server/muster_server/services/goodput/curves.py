"""How far the curve of an interrupted training is from that of an uninterrupted one."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import TrialRow
from muster_server.domain.checkpoints.continuation import largest_difference
from muster_server.domain.messages import AnyMessage, Message
from muster_server.domain.states import TrialState

from ..metrics.curves import groups_of, lowest_ranks
from ..metrics.series import read_groups

CURVE = "train/loss"
"""Metric whose curve is compared with that of an uninterrupted trial."""
POINTS_MAX = 1000
"""Points of a curve that are compared; of a longer one means of as many steps as needed."""


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
    name, num = f"{other.experiment_id}.{other.no}", len(mine.keys() & theirs.keys())
    width = curves[trial.id].bucket_steps
    if found[1] == 0:
        return Message("continuation.same_curve", metric=CURVE, trial=name, num=num, width=width)
    return Message(
        "continuation.other_curve",
        metric=CURVE,
        trial=name,
        num=num,
        width=width,
        step=found[0],
        difference=f"{found[1]:.3g}",
    )
