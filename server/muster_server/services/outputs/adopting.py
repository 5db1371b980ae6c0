"""Checkpoints that scripts save under names of their own (`checkpoints.adopt`), told of by agents.

One is a row like any other, of kind `adopted`. Its files lie in a folder of their own for each content,
so a part of it is known by the name of that folder. Ranks of several nodes that save the same step give
one checkpoint of several parts.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Text, cast, func, select
from sqlalchemy.orm import Session, undefer

from muster.wire import (
    ADOPTED_AT_ONCE,
    AdoptedCheckpoint,
    OutputFile,
    OutputsRequest,
    encode_number,
)
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    CheckpointRow,
    EventRow,
    ExperimentRow,
    NodeRow,
    TrialOutputsRow,
    TrialRow,
)
from muster_server.errors import InvalidRequest

from ..checkpoints import cleaning, file_deletions
from ..checkpoints.lookup import ADOPTED, OBJECT_STORE, store_of, trial_folder
from ..core.events import add_event
from ..core.output_lists import decode_files, unpack_base64
from ..metrics.values import value_at

_FOLDER = re.compile(r"adopted-[0-9a-f]{32}")
MAX_NAME_CHARS = 1024


def take(session: Session, node: NodeRow, request: OutputsRequest, *, now: dt.datetime) -> None:
    """Keep what a node has adopted. Said twice, it changes nothing; what the node was no member of is
    ignored. Raises InvalidRequest and TooLarge."""
    if not request.adopted:
        return
    trial = session.get(TrialRow, request.summary.trial_id, with_for_update=True)
    if trial is None or trial.experiment_id != request.summary.experiment_id:
        return
    for one in request.adopted[:ADOPTED_AT_ONCE]:
        is_member = session.scalar(
            select(AllocationRow.id).where(
                AllocationRow.trial_id == trial.id,
                AllocationRow.attempt_no == one.attempt_no,
                AllocationRow.node_rank == one.node_rank,
                AllocationRow.node_id == node.id,
            )
        )
        if is_member is not None:
            _take(session, node, trial, one, is_in_store=bool(request.storage_url), now=now)
            session.flush()
    touch(session, f"trial:{trial.id}")


def _take(
    session: Session,
    node: NodeRow,
    trial: TrialRow,
    one: AdoptedCheckpoint,
    *,
    is_in_store: bool,
    now: dt.datetime,
) -> None:
    if one.problem:
        _tell(session, trial, one, f"{one.name} was not adopted: {one.problem}", now)
        return
    files = decode_files(unpack_base64(one.files))
    if not _FOLDER.fullmatch(one.folder) or not files:
        raise InvalidRequest("outputs.bad_list", f"{one.folder[:80]!r} is no adopted checkpoint.")
    experiment = session.get_one(ExperimentRow, trial.experiment_id)
    path = f"{trial_folder(experiment.id, trial.no)}/{one.folder}"
    part = {
        "node_rank": one.node_rank,
        "node_id": node.id,
        "node_name": node.name,
        "storage_id": OBJECT_STORE if is_in_store else node.storage_id,
        "storage_url": store_of(experiment.config) if is_in_store else "",
        "path": path,
        "name": one.name[:MAX_NAME_CHARS],
        "size_bytes": sum(file.size_bytes for file in files),
        "files": one.files,
    }
    row = _same(session, trial, path)
    if row is None:
        row = _row_for(session, experiment, trial, one, part, now)
        if row is None:
            return
    elif row.state != "complete":
        # The policy has deleted it; a node that has restored the work folder found it there again.
        row.state = "deleting"
        _forget(session, experiment, row, [part], now)
        return
    others = [p for p in row.parts if p["node_rank"] != one.node_rank]
    replaced = [p for p in row.parts if p["node_rank"] == one.node_rank and p != part]
    row.parts = sorted([*others, part], key=lambda p: p["node_rank"])
    _describe(session, experiment, trial, row)
    session.flush()
    paths = {p["path"] for p in row.parts}
    _forget(session, experiment, row, [p for p in replaced if p["path"] not in paths], now)
    newest = session.get(CheckpointRow, trial.latest_checkpoint_id or 0)
    is_newest = newest is None or row.step >= newest.step
    if is_newest and not trial.is_abandoned(attempt_no=row.attempt_no, step=row.step):
        trial.latest_checkpoint_id = row.id


def _same(session: Session, trial: TrialRow, path: str) -> CheckpointRow | None:
    """Return the checkpoint of a trial that has these very files."""
    return session.scalar(
        select(CheckpointRow)
        .options(undefer(CheckpointRow.parts))
        .where(
            CheckpointRow.trial_id == trial.id,
            CheckpointRow.kind == ADOPTED,
            cast(CheckpointRow.parts, Text).contains(f'"{path}"'),
        )
        .order_by(CheckpointRow.id.desc())
        .limit(1)
    )


def _row_for(
    session: Session,
    experiment: ExperimentRow,
    trial: TrialRow,
    one: AdoptedCheckpoint,
    part: dict[str, Any],
    now: dt.datetime,
) -> CheckpointRow | None:
    """Return the row of the step that an adopted checkpoint has, new if there is none; None, after a
    word to the user, if that step must stay what it is."""
    step = one.step if one.step is not None else trial.step
    row = session.scalar(
        select(CheckpointRow)
        .options(undefer(CheckpointRow.parts))
        .where(
            CheckpointRow.trial_id == trial.id,
            CheckpointRow.attempt_no == one.attempt_no,
            CheckpointRow.step == step,
        )
    )
    if row is None:
        row = CheckpointRow(
            trial_id=trial.id,
            attempt_no=one.attempt_no,
            step=step,
            kind=ADOPTED,
            parts=[],
            metrics={},
            epoch=None,
        )
        session.add(row)
    else:
        has_rank = any(p["node_rank"] == one.node_rank for p in row.parts)
        is_saved = row.kind != ADOPTED
        if is_saved or (row.pinned_at is not None and has_rank and row.state == "complete"):
            reason = (
                "the script has saved a checkpoint with Muster's SDK at this step"
                if is_saved
                else f"checkpoint {row.id} of this step is pinned"
            )
            _tell(session, trial, one, f"{one.name} of step {step:,} is not kept: {reason}", now)
            _forget(session, experiment, row, [part], now)
            return None
        if row.state != "complete":
            row.parts = []
    row.state, row.created_at = "complete", now
    return row


def _describe(
    session: Session, experiment: ExperimentRow, trial: TrialRow, row: CheckpointRow
) -> None:
    """Bring the columns of a checkpoint up to date with its parts."""
    first = row.parts[0]
    row.path, row.node_name, row.storage_id = (
        first["name"],
        first["node_name"],
        first["storage_id"],
    )
    digests: dict[str, str] = {}
    row.size_bytes = 0
    for part in row.parts:
        for file in files_of(part):
            if digests.get(file.path) == file.sha256:
                continue  # Every node has saved it.
            name = f"{file.path} @node{part['node_rank']}" if file.path in digests else file.path
            digests[name] = file.sha256
            row.size_bytes += file.size_bytes
    row.files = digests
    metric = experiment.metric_name
    value = value_at(session, trial.id, metric, row.step) if metric is not None else None
    if metric is not None and value is not None:
        row.metrics = {metric: encode_number(value)}


def files_of(part: dict[str, Any]) -> Sequence[OutputFile]:
    """Return the files of one part of an adopted checkpoint."""
    return decode_files(unpack_base64(part["files"]))


def _forget(
    session: Session,
    experiment: ExperimentRow,
    row: CheckpointRow,
    parts: Sequence[dict[str, Any]],
    now: dt.datetime,
) -> None:
    """Have the folders of parts deleted that are no longer, or not, part of a checkpoint."""
    for part in parts:
        cleaning.request_deletion(session, experiment, row, part, "muster", now)
    file_deletions.wake_nodes(session, {part["storage_id"] for part in parts})


def tell_if_none(session: Session, request: OutputsRequest, *, now: dt.datetime) -> None:
    """Add an event when the last files of an attempt have been collected and nothing ever matched the
    document's pattern."""
    summary = request.summary
    trial = session.get(TrialRow, summary.trial_id)
    if not summary.is_final or trial is None or trial.attempt_no != summary.attempt_no:
        return
    pattern = session.get_one(ExperimentRow, trial.experiment_id).config.checkpoints.adopt
    if pattern is None:
        return
    num_nodes, num_final = session.execute(
        select(AttemptRow.num_nodes, func.count(TrialOutputsRow.id))
        .outerjoin(
            TrialOutputsRow,
            (TrialOutputsRow.trial_id == AttemptRow.trial_id)
            & (TrialOutputsRow.attempt_no == AttemptRow.no)
            & TrialOutputsRow.is_final,
        )
        .where(AttemptRow.trial_id == trial.id, AttemptRow.no == summary.attempt_no)
        .group_by(AttemptRow.num_nodes)
    ).one()
    of_script = select(CheckpointRow.id).where(
        CheckpointRow.trial_id == trial.id, CheckpointRow.kind == ADOPTED
    )
    said = select(EventRow.id).where(
        EventRow.trial_id == trial.id,
        EventRow.type == "checkpoints.none_adopted",
        EventRow.attempt_no == summary.attempt_no,
    )
    if num_final < num_nodes or any(
        session.scalar(query.limit(1)) is not None for query in (of_script, said)
    ):
        return
    add_event(
        session,
        "checkpoints.none_adopted",
        f"No file matched `checkpoints.adopt: {pattern}`, so the trial has no checkpoint of its "
        f"script. `muster outputs list {trial.address}` lists the files that it wrote.",
        now=now,
        level="warning",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=summary.attempt_no,
    )


def _tell(
    session: Session, trial: TrialRow, one: AdoptedCheckpoint, message: str, now: dt.datetime
) -> None:
    add_event(
        session,
        "checkpoints.not_adopted",
        f"The checkpoint {message}.",
        now=now,
        level="warning",
        experiment_id=trial.experiment_id,
        trial_id=trial.id,
        attempt_no=one.attempt_no,
    )
