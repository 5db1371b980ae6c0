"""Manifests of outputs: taken from agents, kept as the newest of each node of a trial, and read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import lru_cache

from sqlalchemy import select, update
from sqlalchemy.orm import Session, undefer

from muster.counting import counted
from muster.wire import OutputsRequest
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    ExperimentRow,
    FileDeletionRow,
    NodeRow,
    TrialOutputsRow,
    TrialRow,
)
from muster_server.domain.outputs.union import OutputEntry, unite

from ..checkpoints.lookup import OBJECT_STORE, store_of, trial_folder
from ..core.events import Level, add_event
from ..core.output_lists import decode_files, unpack_base64

MAX_PROBLEM_CHARS = 1000
UNION_CACHE_SIZE = 8
"""Trials whose files stay decoded, so that their next page costs no decoding."""
UNION_CACHE_FILES = 40_000
"""Most files of a trial, over all its nodes, that stay decoded; longer lists are decoded each time."""


def outputs_folder(experiment_id: int, trial_no: int) -> str:
    """Return the folder of a trial's outputs, relative to the storage."""
    return f"{trial_folder(experiment_id, trial_no)}/outputs"


# ---------------------------------------------------------------- taking


def take(session: Session, node: NodeRow, request: OutputsRequest, *, now: dt.datetime) -> bool:
    """Keep a manifest as the newest of its node rank; return whether it is that now.

    One whose number was taken before only tells whether something is missing by now. One of an older
    attempt or with a smaller number is not taken, nor one of an attempt that this node was no member
    of. Raises InvalidRequest and TooLarge.
    """
    summary = request.summary
    packed = unpack_base64(request.files)
    files = decode_files(packed)
    trial = _trial_of(session, node, request)
    if trial is None:
        return False
    row = session.scalar(
        select(TrialOutputsRow)
        .where(TrialOutputsRow.trial_id == trial.id, TrialOutputsRow.node_rank == summary.node_rank)
        .with_for_update()
    )
    had_problem = row.problem if row is not None else ""
    if row is not None and (
        summary.attempt_no < row.attempt_no
        or (summary.attempt_no == row.attempt_no and summary.seq < row.seq)
    ):
        return False
    is_deleted = row is not None and row.deleted_at is not None
    if row is not None and is_deleted and summary.attempt_no == row.attempt_no:
        return True  # Said again; what it lists was deleted since.
    if row is not None and not is_deleted and summary.seq <= row.seq:
        # The same files, and what has happened since: the storage is away, or is back.
        row.problem = summary.problem[:MAX_PROBLEM_CHARS]
        if summary.attempt_no == row.attempt_no:
            row.is_final = summary.is_final
        session.flush()
        _tell_problem(session, trial, row, had_problem=had_problem, now=now)
        touch(session, f"trial:{trial.id}")
        return True
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    store = store_of(experiment.config) if request.storage_url else ""
    had_left_out = row.num_left_out if row is not None else 0
    if row is None:
        row = TrialOutputsRow(trial_id=trial.id, node_rank=summary.node_rank)
        session.add(row)
    row.attempt_no, row.seq, row.is_final = summary.attempt_no, summary.seq, summary.is_final
    row.node_id, row.node_name = node.id, node.name
    row.storage_id = OBJECT_STORE if store else node.storage_id
    row.storage_url = store
    row.folder = outputs_folder(experiment.id, trial.no)
    kept = [file for file in files if file.state in ("kept", "growing")]
    row.num_files, row.size_bytes = len(kept), sum(file.size_bytes for file in kept)
    row.num_left_out = max(0, summary.num_left_out)
    row.left_out_bytes = max(0, summary.left_out_bytes)
    row.problem = summary.problem[:MAX_PROBLEM_CHARS]
    row.files = packed
    row.updated_at = now
    row.deleted_at, row.deleted_bytes = None, 0
    session.flush()
    _dismiss_deletion(session, row, now)
    _tell(session, trial, row, had_problem=had_problem, had_left_out=had_left_out, now=now)
    touch(session, f"trial:{trial.id}")
    return True


def _dismiss_deletion(session: Session, row: TrialOutputsRow, now: dt.datetime) -> None:
    """Give up a deletion of this folder that no agent has made yet: there are files again."""
    session.execute(
        update(FileDeletionRow)
        .where(
            FileDeletionRow.storage_id == row.storage_id,
            FileDeletionRow.path == row.folder,
            FileDeletionRow.state == "pending",
        )
        .values(state="dismissed", message="a later attempt wrote outputs again", ended_at=now)
    )


def _trial_of(session: Session, node: NodeRow, request: OutputsRequest) -> TrialRow | None:
    """Return the trial, if the node was that member of that attempt of it."""
    summary = request.summary
    is_member = session.scalar(
        select(AllocationRow.id).where(
            AllocationRow.trial_id == summary.trial_id,
            AllocationRow.attempt_no == summary.attempt_no,
            AllocationRow.node_rank == summary.node_rank,
            AllocationRow.node_id == node.id,
        )
    )
    if is_member is None:
        return None
    # Members of a gang report at once: each changes its own row, and the trial's only orders them.
    trial = session.get(TrialRow, summary.trial_id)
    is_meant = trial is not None and trial.experiment_id == summary.experiment_id
    return trial if is_meant else None


def _tell(
    session: Session,
    trial: TrialRow,
    row: TrialOutputsRow,
    *,
    had_problem: str,
    had_left_out: int,
    now: dt.datetime,
) -> None:
    """Add the events of a manifest: what is missing, what was left out, that all is there."""
    _tell_problem(session, trial, row, had_problem=had_problem, now=now)
    if row.num_left_out and (row.is_final or not had_left_out):
        files = counted(row.num_left_out, "file")
        _add(
            session,
            trial,
            row,
            "outputs.left_out",
            f"Outputs on {row.node_name}: {files} of {row.left_out_bytes:,} bytes left out; "
            f"`muster outputs list {trial.experiment_id}.{trial.no}` gives the reasons.",
            now=now,
            level="warning",
            size_bytes=row.left_out_bytes,
        )
    if row.is_final:
        files = counted(row.num_files, "file")
        _add(
            session,
            trial,
            row,
            "outputs.collected",
            f"Outputs on {row.node_name} collected: {files}, {row.size_bytes:,} bytes.",
            now=now,
            size_bytes=row.size_bytes,
        )
        _tell_conflicts(session, trial, row, now=now)


def _tell_problem(
    session: Session, trial: TrialRow, row: TrialOutputsRow, *, had_problem: str, now: dt.datetime
) -> None:
    """Add an event when something began to be missing, or is not missing any more."""
    if row.problem and row.problem != had_problem:
        message = f"Outputs on {row.node_name}: {row.problem}"
        _add(session, trial, row, "outputs.problem", message, now=now, level="warning")
    elif had_problem and not row.problem:
        message = f"Outputs on {row.node_name}: nothing is missing any more."
        _add(session, trial, row, "outputs.recovered", message, now=now)


def _add(
    session: Session,
    trial: TrialRow,
    row: TrialOutputsRow,
    type: str,
    message: str,
    *,
    now: dt.datetime,
    level: Level = "info",
    size_bytes: int = 0,
) -> None:
    add_event(
        session,
        type,
        message,
        now=now,
        level=level,
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=row.attempt_no,
        node_id=row.node_id,
        data={"size_bytes": size_bytes},
    )


def _tell_conflicts(
    session: Session, trial: TrialRow, row: TrialOutputsRow, *, now: dt.datetime
) -> None:
    """Add one event when the last node of an attempt is done and files of nodes differ."""
    rows = session.scalars(
        select(TrialOutputsRow).where(
            TrialOutputsRow.trial_id == trial.id, TrialOutputsRow.attempt_no == row.attempt_no
        )
    ).all()
    if len(rows) < 2 or not all(other.is_final for other in rows):
        return
    names = [entry.name for entry in read_union(rows) if entry.is_conflict]
    if not names:
        return
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if names[3:] else "")
    add_event(
        session,
        "outputs.conflict",
        f"Nodes wrote different content under the same name; all of it is kept: {shown}.",
        now=now,
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=row.attempt_no,
        data={"num": len(names)},
    )


# ---------------------------------------------------------------- reading


def rows_of(session: Session, trial_id: int, *, with_files: bool = False) -> list[TrialOutputsRow]:
    """Return the newest manifest of each node of a trial, by rank."""
    query = (
        select(TrialOutputsRow)
        .where(TrialOutputsRow.trial_id == trial_id)
        .order_by(TrialOutputsRow.node_rank)
    )
    return list(
        session.scalars(query.options(undefer(TrialOutputsRow.files)) if with_files else query)
    )


def read_union(rows: Sequence[TrialOutputsRow]) -> Sequence[OutputEntry]:
    """Return the files of several nodes of one trial as one list, by name."""
    manifests = tuple((row.node_rank, row.files) for row in rows)
    if sum(row.num_files for row in rows) > UNION_CACHE_FILES:
        return _unite.__wrapped__(manifests)
    return _unite(manifests)


@lru_cache(maxsize=UNION_CACHE_SIZE)
def _unite(manifests: tuple[tuple[int, bytes], ...]) -> tuple[OutputEntry, ...]:
    """Return the union of packed lists by rank. The content is the key: a new manifest is never
    answered with the files of an old one."""
    return tuple(unite({rank: decode_files(packed) for rank, packed in manifests}))
