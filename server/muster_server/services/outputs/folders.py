"""Work folders that lie on nodes, and which of them may go."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster.wire import WorkFolder, WorkFoldersReply, WorkFoldersRequest
from muster_server.db.models import (
    AllocationRow,
    AuditRow,
    EventRow,
    ExperimentRow,
    NodeRow,
    TrialOutputsRow,
    TrialRow,
)
from muster_server.domain.outputs.cleaning import DeleteWorkFolder, FolderOwner, deletable
from muster_server.domain.states import TERMINAL_TRIAL, AllocationState
from muster_server.settings import Settings

from ..checkpoints import local
from ..core.events import add_event

FOLDERS_AT_ONCE = 500
"""Work folders of one report that are looked at; the others come with a later one."""


def judge(
    session: Session,
    node: NodeRow,
    request: WorkFoldersRequest,
    *,
    settings: Settings,
    now: dt.datetime,
) -> WorkFoldersReply:
    """Return the trials whose work folders the node may delete, and say so in their events."""
    folders = request.folders[:FOLDERS_AT_ONCE]
    owners = _owners(session, node, folders)
    unknown = [folder for folder in folders if folder.trial_id not in owners]
    found = deletable(
        folders,
        owners,
        deleted=_deleted(session, unknown),
        keep=dt.timedelta(hours=settings.work_folder_hours),
        now=now,
    )
    experiments = {folder.trial_id: folder.experiment_id for folder in folders}
    for deletion in found:
        if deletion.trial_id in owners:
            _tell(session, node, deletion, experiments[deletion.trial_id], now)
    local.folders_gone(session, node.name, [deletion.trial_id for deletion in found])
    return WorkFoldersReply(delete=[deletion.trial_id for deletion in found])


def _owners(
    session: Session, node: NodeRow, folders: Sequence[WorkFolder]
) -> dict[int, FolderOwner]:
    """Return the trials that are there, by id; a folder of another experiment is not theirs."""
    experiment_of = {folder.trial_id: folder.experiment_id for folder in folders}
    trials = session.execute(
        select(
            TrialRow.id,
            TrialRow.experiment_id,
            TrialRow.state,
            TrialRow.ended_at,
            TrialRow.attempt_no,
        )
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(TrialRow.id.in_(experiment_of), ExperimentRow.deleting_at.is_(None))
    ).all()
    trials = [trial for trial in trials if experiment_of[trial.id] == trial.experiment_id]
    ids = [trial.id for trial in trials]
    here = select(AllocationRow.trial_id, func.max(AllocationRow.attempt_no)).where(
        AllocationRow.trial_id.in_(ids), AllocationRow.node_id == node.id
    )
    newest_here = {
        row.trial_id: row[1] for row in session.execute(here.group_by(AllocationRow.trial_id))
    }
    in_use = set(
        session.scalars(
            select(AllocationRow.trial_id).where(
                AllocationRow.trial_id.in_(ids),
                AllocationRow.node_id == node.id,
                AllocationRow.observed != AllocationState.CLEANED,
            )
        )
    )
    finals: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for trial_id, attempt_no, is_final in session.execute(
        select(
            TrialOutputsRow.trial_id, TrialOutputsRow.attempt_no, TrialOutputsRow.is_final
        ).where(TrialOutputsRow.trial_id.in_(ids))
    ):
        finals[trial_id].append((attempt_no, is_final))
    return {
        trial.id: FolderOwner(
            ended_at=trial.ended_at if trial.state in TERMINAL_TRIAL else None,
            newest_attempt_no=trial.attempt_no,
            collected_attempt_no=_collected(finals[trial.id]),
            is_in_use_here=trial.id in in_use,
            ran_here=newest_here.get(trial.id) == trial.attempt_no,
        )
        for trial in trials
    }


def _collected(manifests: Sequence[tuple[int, bool]]) -> int:
    """Return the newest attempt, if all its manifests that are here are final; else 0."""
    newest = max((attempt_no for attempt_no, _ in manifests), default=0)
    of_newest = [is_final for attempt_no, is_final in manifests if attempt_no == newest]
    return newest if of_newest and all(of_newest) else 0


def _deleted(session: Session, folders: Sequence[WorkFolder]) -> Collection[int]:
    """Return the trials of experiments that somebody deleted together with their files."""
    subjects = {f"experiment:{folder.experiment_id}": folder.experiment_id for folder in folders}
    if not subjects:
        return ()
    there = set(
        session.scalars(
            select(ExperimentRow.id).where(
                ExperimentRow.id.in_(subjects.values()), ExperimentRow.deleting_at.is_(None)
            )
        )
    )
    deleted = {
        subjects[subject]
        for subject, detail in session.execute(
            select(AuditRow.subject, AuditRow.detail).where(
                AuditRow.action == "experiments.deleted", AuditRow.subject.in_(subjects)
            )
        )
        if not detail.get("keep_files")
    } - there
    return {folder.trial_id for folder in folders if folder.experiment_id in deleted}


def _tell(
    session: Session,
    node: NodeRow,
    deletion: DeleteWorkFolder,
    experiment_id: int,
    now: dt.datetime,
) -> None:
    """Add an event, once per folder: an agent asks again until it has deleted it."""
    type_ = "outputs.work_folder_deleted"
    is_told = session.scalar(
        select(EventRow.id)
        .where(
            EventRow.trial_id == deletion.trial_id,
            EventRow.node_id == node.id,
            EventRow.type == type_,
            EventRow.attempt_no == deletion.attempt_no,
        )
        .limit(1)
    )
    if is_told is not None:
        return
    add_event(
        session,
        type_,
        f"{node.name} deletes its work folder of {deletion.size_bytes:,} bytes: {deletion.reason}.",
        now=now,
        experiment_id=experiment_id,
        trial_id=deletion.trial_id,
        attempt_no=deletion.attempt_no,
        node_id=node.id,
        data={"size_bytes": deletion.size_bytes},
    )
