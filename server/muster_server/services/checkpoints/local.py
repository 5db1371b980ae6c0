"""Checkpoints that are on a node's disk alone, with the state `local`, until their node has stored them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import ColumnElement, and_, select, update
from sqlalchemy.orm import Session

from muster.wire import LocalCheckpoint
from muster_server.db.engine import touch
from muster_server.db.models import AllocationRow, AttemptRow, CheckpointRow, TrialRow
from muster_server.domain.checkpoints.local import LocalCopy, offer
from muster_server.domain.messages import Message, shortened

from .lookup import StartCheckpoint

LOCAL = "local"
"""State of a checkpoint that the storage does not have: nothing but the next attempt on its node uses it."""


def start_on(
    session: Session,
    trial_id: int,
    start: StartCheckpoint | None,
    nodes: Sequence[str],
    *,
    is_exchanged: bool,
) -> tuple[StartCheckpoint | None, list[LocalCheckpoint]]:
    """Return the checkpoint that an attempt on these nodes starts from if all is well, and what its nodes
    are to look for on their disks. What nobody starts from any more is given up.

    start: what it starts from otherwise. is_exchanged: see `offer`.
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
    saved_on = nodes_of(session, trial_id, rows.values())
    chosen = offer(
        [
            LocalCopy(id=row.id, step=row.step, nodes=saved_on[row.id], is_abandoned=is_abandoned)
            for row, is_abandoned in found
        ],
        nodes=nodes,
        stored_step=own.step if own is not None else None,
        is_exchanged=is_exchanged,
    )
    for dropped in chosen.dropped:
        rows[dropped].state = "deleted"
    wanted = [rows[id_] for id_ in chosen.wanted]
    here = [_spec(row, is_stored=False) for row in wanted]
    if own is not None and (len(nodes) == 1 or is_exchanged):
        here.append(_spec(own.checkpoint, is_stored=True))
    if wanted:
        start = StartCheckpoint(wanted[0], path="", is_own=True)
    return start, here


def nodes_of(
    session: Session, trial_id: int, rows: Iterable[CheckpointRow]
) -> dict[int, tuple[str, ...]]:
    """Return the nodes whose disks have local checkpoints of a trial, by checkpoint: those of the attempt
    that saved it, by node rank."""
    rows = list(rows)
    if not rows:
        return {}
    found: dict[int, list[str]] = {}
    for no, node in session.execute(
        select(AllocationRow.attempt_no, AllocationRow.node_name)
        .where(
            AllocationRow.trial_id == trial_id,
            AllocationRow.attempt_no.in_({row.attempt_no for row in rows}),
        )
        .order_by(AllocationRow.node_rank)
    ):
        found.setdefault(no, []).append(node)
    return {row.id: tuple(found.get(row.attempt_no, [row.node_name])) for row in rows}


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
    later = CheckpointRow.attempt_no < attempt_no, CheckpointRow.step > step
    _give_up(session, _on(session, node, [trial.id], *later))


def folders_gone(session: Session, node: str, trial_ids: Collection[int]) -> None:
    """Give up what lies in work folders that a node deletes."""
    gone = _on(session, node, trial_ids)
    _give_up(session, gone)
    touch(session, *(f"trial:{trial_id}" for trial_id in {row.trial_id for row in gone}))


def _on(
    session: Session, node: str, trial_ids: Collection[int], *where: ColumnElement[bool]
) -> list[CheckpointRow]:
    """Return the local checkpoints of trials that a node has, or has a part of."""
    rows = session.scalars(
        select(CheckpointRow).where(
            CheckpointRow.trial_id.in_(trial_ids), CheckpointRow.state == LOCAL, *where
        )
    ).all()
    return [
        row
        for trial_id in {row.trial_id for row in rows}
        for of_trial in [[row for row in rows if row.trial_id == trial_id]]
        for saved_on in [nodes_of(session, trial_id, of_trial)]
        for row in of_trial
        if node in saved_on[row.id]
    ]


def _give_up(session: Session, rows: Iterable[CheckpointRow]) -> None:
    for row in rows:
        row.state = "deleted"


def notice(session: Session, trial: TrialRow) -> Message | None:
    """Return which steps would be lost with a node; None if the storage has the newest checkpoint."""
    saved = session.get(CheckpointRow, trial.latest_checkpoint_id or 0)
    begin = saved.step if saved is not None else 0
    newest = session.scalar(
        select(CheckpointRow)
        .where(
            CheckpointRow.trial_id == trial.id,
            CheckpointRow.state == LOCAL,
            CheckpointRow.step > begin,
        )
        .order_by(CheckpointRow.step.desc(), CheckpointRow.attempt_no.desc())
        .limit(1)
    )
    if newest is None:
        return None
    first, last = begin + 1, newest.step
    nodes = nodes_of(session, trial.id, [newest])[newest.id]
    if len(nodes) > 1:
        return Message("checkpoints.only_in_parts", first=first, last=last, nodes=shortened(nodes))
    return Message("checkpoints.only_on", first=first, last=last, node=newest.node_name)
