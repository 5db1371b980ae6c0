"""Checkpoints that are on a node's disk alone, with the state `local`, until their node has stored them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import and_, func, select, update
from sqlalchemy.orm import Session

from muster.wire import LocalCheckpoint
from muster_server.db.engine import touch
from muster_server.db.models import AttemptRow, CheckpointRow, TrialRow
from muster_server.domain.checkpoints.local import LocalCopy, offer
from muster_server.domain.messages import Message

from .lookup import StartCheckpoint

LOCAL = "local"
"""State of a checkpoint that the storage does not have: nothing but the next attempt on its node uses it."""


def start_on(
    session: Session, trial_id: int, start: StartCheckpoint | None, nodes: Sequence[str]
) -> tuple[StartCheckpoint | None, list[LocalCheckpoint]]:
    """Return the checkpoint that an attempt on these nodes starts from if all is well, and what its node is
    to look for on its disk. What nobody starts from any more is given up.

    start: what it starts from otherwise.
    """
    own = start if start is not None and start.is_own else None
    found = session.execute(
        select(
            CheckpointRow,
            and_(
                CheckpointRow.attempt_no <= TrialRow.rolled_back_attempt,
                CheckpointRow.step > TrialRow.rolled_back_step,
            ),
        )
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .where(CheckpointRow.trial_id == trial_id, CheckpointRow.state == LOCAL)
    ).all()
    rows = {row.id: row for row, _ in found}
    chosen = offer(
        [
            LocalCopy(id=row.id, step=row.step, node_name=row.node_name, is_abandoned=is_abandoned)
            for row, is_abandoned in found
        ],
        nodes=nodes,
        stored_step=own.step if own is not None else None,
    )
    for dropped in chosen.dropped:
        rows[dropped].state = "deleted"
    wanted = [rows[id_] for id_ in chosen.wanted]
    here = [_spec(row, is_stored=False) for row in wanted]
    if own is not None and len(nodes) == 1:
        here.append(_spec(own.checkpoint, is_stored=True))
    if wanted:
        start = StartCheckpoint(wanted[0], path="", is_own=True)
    return start, here


def _spec(row: CheckpointRow, *, is_stored: bool) -> LocalCheckpoint:
    return LocalCheckpoint(
        attempt_no=row.attempt_no,
        step=row.step,
        path=row.path,
        files=dict(row.files),
        is_stored=is_stored,
    )


def stored(session: Session, row: CheckpointRow) -> None:
    """Give up the copies of earlier attempts that a checkpoint in the storage has made worthless."""
    session.execute(
        update(CheckpointRow)
        .where(
            CheckpointRow.trial_id == row.trial_id,
            CheckpointRow.state == LOCAL,
            CheckpointRow.attempt_no < row.attempt_no,
            CheckpointRow.step <= row.step,
        )
        .values(state="deleted")
    )


def fell_back(session: Session, trial: TrialRow, attempt_no: int, node: str, step: int) -> None:
    """Note that an attempt starts from an earlier checkpoint than it was given, because its node has passed
    over damaged ones on its disk. A step that the trial has no checkpoint of changes nothing."""
    attempt = session.scalar(
        select(AttemptRow).where(AttemptRow.trial_id == trial.id, AttemptRow.no == attempt_no)
    )
    found = session.scalar(
        select(CheckpointRow.id)
        .where(
            CheckpointRow.trial_id == trial.id,
            CheckpointRow.attempt_no < attempt_no,
            CheckpointRow.step == step,
            CheckpointRow.state.in_(("complete", LOCAL)),
        )
        .order_by(CheckpointRow.attempt_no.desc())
        .limit(1)
    )
    if attempt is None or step >= attempt.resume_step or (step and found is None):
        return
    attempt.resume_step = step
    attempt.resume_checkpoint_id = found if step else trial.source_checkpoint_id
    session.execute(
        update(CheckpointRow)
        .where(
            CheckpointRow.trial_id == trial.id,
            CheckpointRow.state == LOCAL,
            CheckpointRow.attempt_no < attempt_no,
            CheckpointRow.node_name == node,
            CheckpointRow.step > step,
        )
        .values(state="deleted")
    )


def folders_gone(session: Session, node: str, trial_ids: Collection[int]) -> None:
    """Give up what lies in work folders that a node deletes."""
    gone = session.scalars(
        update(CheckpointRow)
        .where(
            CheckpointRow.trial_id.in_(trial_ids),
            CheckpointRow.state == LOCAL,
            CheckpointRow.node_name == node,
        )
        .values(state="deleted")
        .returning(CheckpointRow.trial_id)
    )
    touch(session, *(f"trial:{trial_id}" for trial_id in set(gone)))


def notice(session: Session, trial: TrialRow) -> Message | None:
    """Return which steps would be lost with a node; None if the storage has the newest checkpoint."""
    saved = session.get(CheckpointRow, trial.latest_checkpoint_id or 0)
    begin = saved.step if saved is not None else 0
    found = session.execute(
        select(CheckpointRow.node_name, func.max(CheckpointRow.step))
        .where(
            CheckpointRow.trial_id == trial.id,
            CheckpointRow.state == LOCAL,
            CheckpointRow.step > begin,
        )
        .group_by(CheckpointRow.node_name)
        .order_by(func.max(CheckpointRow.step).desc())
        .limit(1)
    ).one_or_none()
    if found is None:
        return None
    return Message("checkpoints.only_on", first=begin + 1, last=found[1], node=found[0])
