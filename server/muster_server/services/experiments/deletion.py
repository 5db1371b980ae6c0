"""Deleting experiments: what it would free, the decision, and the clearing away piece by piece.

Deleting takes effect at once for everybody: the experiment is marked and cannot be found any more.
Its rows then go in short transactions, so that a search of a hundred thousand trials blocks
nobody; the controller goes on where a request or a crash has left off. Its files are deleted by
the agents (services.checkpoints.file_deletions).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, delete, func, select
from sqlalchemy.orm import Session, aliased

from muster_server.db.deleting import (
    DATA_WEIGHT,
    PIECE_WEIGHT,
    ROWS_FIRST,
    ROWS_LEAST,
    ROWS_MAX,
    Deleter,
)
from muster_server.db.engine import Database, touch
from muster_server.db.models import (
    AllocationRow,
    AttemptRow,
    Base,
    BlobRow,
    BudgetAlertRow,
    CheckpointRow,
    CronScheduleRow,
    EventRow,
    ExperimentRow,
    ExportRow,
    FileDeletionRow,
    LogChunkRow,
    LogStreamRow,
    MediaRow,
    MetricBatchRow,
    MetricBlockRow,
    MetricSeriesRow,
    MetricSpanRow,
    NodeRow,
    PredictionRow,
    PredictionShardRow,
    ProfilePieceRow,
    ProfileRow,
    RunArtifactChunkRow,
    RunArtifactRow,
    SearchEventRow,
    TrialOutputsRow,
    TrialRow,
    WorkerRow,
)
from muster_server.db.pace import Pace, paced
from muster_server.db.sight import SEES_ALL, is_hidden
from muster_server.domain.states import TERMINAL_TRIAL, AllocationState, NodeState
from muster_server.errors import Conflict, MusterError
from muster_server.schemas.operations import (
    DeletionOut,
    DeletionPlanOut,
    FreedOut,
    StorageShare,
)

from ..checkpoints import file_deletions, holds, pins
from ..checkpoints.lookup import OBJECT_STORE, experiment_folder, store_of
from ..core.callers import Caller, note
from ..core.lookup import get_experiment
from ..core.ownership import require_charge
from .operations import require_ended

TRIALS_PER_PIECE = 50
SERIES_AT_ONCE = 256
INLINE_S = 2.0
"""How long the request that deletes clears away by itself before it leaves the rest."""


# ---------------------------------------------------------------- before


def preview(session: Session, experiment_id: int) -> DeletionPlanOut:
    """Return what deleting an experiment would free, and whether it is possible. Raises
    NotFound."""
    experiment = get_experiment(session, experiment_id)
    code, reason = None, ""
    try:
        check(session, experiment)
    except MusterError as error:
        code, reason = error.code, error.message
    return DeletionPlanOut(
        experiment_id=experiment_id,
        possible=code is None,
        code=code,
        reason=reason,
        freed=freed_by(session, [experiment_id]),
    )


def check(session: Session, experiment: ExperimentRow) -> bool:
    """True. Raises Conflict while something of it runs, may run, is pinned, or is needed by another."""
    require_ended(experiment, "deleted")
    held = session.execute(
        select(AllocationRow.node_name, AllocationRow.observed)
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .where(
            TrialRow.experiment_id == experiment.id,
            AllocationRow.observed != AllocationState.CLEANED,
        )
        .order_by(AllocationRow.node_name)
        .limit(1)
    ).one_or_none()
    if held is not None:
        raise Conflict(
            "experiments.still_held",
            f"Experiment {experiment.id} may still run on {held.node_name}, which was lost.",
            hint="Wait until that node is back, or remove it from the cluster.",
        )
    num_pinned = pins.num_pinned(session, experiment.id)
    if num_pinned:
        raise Conflict(
            "experiments.pinned",
            f"Experiment {experiment.id} has {num_pinned} pinned checkpoints.",
            hint="Unpin them first: somebody wanted them to stay.",
        )
    holds.require_no_version(session, experiment.id)
    reused = _reused_by(session, experiment.id)
    if reused is not None:
        raise Conflict(
            "experiments.reused",
            f"{reused} takes the result of a trial of experiment {experiment.id}.",
            hint="Delete that one first: its curves and checkpoints are here.",
        )
    needed = _needed_by(session, experiment.id)
    if needed is not None:
        raise Conflict(
            "experiments.in_use",
            f"{needed} starts from a checkpoint of experiment {experiment.id} and has none of its own yet.",
            hint="Stop it, or wait for its first checkpoint.",
        )
    return True


def _needed_by(session: Session, experiment_id: int) -> str | None:
    """Return an experiment of which a trial that has not ended still starts from here, in words."""
    fork, source = aliased(TrialRow), aliased(TrialRow)
    return _named(
        session,
        select(fork.experiment_id, ExperimentRow.project_id)
        .join(ExperimentRow, ExperimentRow.id == fork.experiment_id)
        .join(CheckpointRow, CheckpointRow.id == fork.source_checkpoint_id)
        .join(source, source.id == CheckpointRow.trial_id)
        .where(
            source.experiment_id == experiment_id,
            fork.experiment_id != experiment_id,
            fork.state.not_in(TERMINAL_TRIAL),
            fork.latest_checkpoint_id.is_(None),
        ),
    )


def _reused_by(session: Session, experiment_id: int) -> str | None:
    """Return an experiment of which a trial takes the result of one of these, in words."""
    taker, source = aliased(TrialRow), aliased(TrialRow)
    return _named(
        session,
        select(taker.experiment_id, ExperimentRow.project_id)
        .join(ExperimentRow, ExperimentRow.id == taker.experiment_id)
        .join(source, source.id == taker.reused_from)
        .where(
            source.experiment_id == experiment_id,
            taker.experiment_id != experiment_id,
            ExperimentRow.deleting_at.is_(None),
        ),
    )


def _named(session: Session, query: Select[int, int]) -> str | None:
    """Return the first of these experiments in words; None if there is none."""
    found = session.execute(query.limit(1), execution_options=SEES_ALL).one_or_none()
    if found is None:
        return None
    hidden = is_hidden(found.project_id)
    return "An experiment that you do not see" if hidden else f"Experiment {found.experiment_id}"


def freed_by(session: Session, experiment_ids: Sequence[int]) -> FreedOut:
    """Return what these experiments hold in the database and in the nodes' storage."""
    trials = select(TrialRow.id).where(TrialRow.experiment_id.in_(experiment_ids))
    series = select(MetricSeriesRow.id).where(MetricSeriesRow.trial_id.in_(trials))
    streams = select(LogStreamRow.id).where(LogStreamRow.trial_id.in_(trials))
    batch_bytes = select(func.sum(func.length(MetricBatchRow.body))).where(
        MetricBatchRow.trial_id.in_(trials)
    )
    block_bytes = select(
        func.sum(func.length(MetricBlockRow.data) + func.length(MetricBlockRow.rollup))
    ).where(MetricBlockRow.series_id.in_(series))
    span_bytes = select(func.sum(func.length(MetricSpanRow.rollup))).where(
        MetricSpanRow.series_id.in_(series)
    )
    log_bytes = select(func.sum(func.length(LogChunkRow.data))).where(
        LogChunkRow.stream_id.in_(streams)
    )
    bundle_bytes = select(func.sum(BlobRow.size_bytes)).where(
        BlobRow.sha256.in_(_own_bundles(session, experiment_ids))
    )
    storages = _storages(session, experiment_ids)
    num_outputs, outputs_bytes = (
        _number(session, select(func.sum(column)).where(TrialOutputsRow.trial_id.in_(trials)))
        for column in (TrialOutputsRow.num_files, TrialOutputsRow.size_bytes)
    )
    return FreedOut(
        num_trials=_number(session, select(func.count()).select_from(trials.subquery())),
        num_series=_number(session, select(func.count()).select_from(series.subquery())),
        metric_bytes=sum(_number(session, q) for q in (batch_bytes, block_bytes, span_bytes)),
        num_log_streams=_number(session, select(func.count()).select_from(streams.subquery())),
        log_bytes=_number(session, log_bytes),
        num_checkpoints=sum(s.num_checkpoints for s in storages),
        checkpoint_bytes=sum(s.size_bytes for s in storages) - outputs_bytes,
        num_outputs=num_outputs,
        outputs_bytes=outputs_bytes,
        storages=storages,
        bundle_bytes=_number(session, bundle_bytes),
    )


def _number(session: Session, query: Select[Any]) -> int:
    """Return a count or sum; 0 for a sum over nothing."""
    return int(session.scalar(query) or 0)


def _own_bundles(session: Session, experiment_ids: Sequence[int]) -> list[str]:
    """Code bundles that only these experiments use."""
    mine = set(
        session.scalars(
            select(ExperimentRow.blob_sha256).where(
                ExperimentRow.id.in_(experiment_ids), ExperimentRow.blob_sha256.is_not(None)
            )
        )
    )
    others = set(
        session.scalars(
            select(ExperimentRow.blob_sha256)
            .where(ExperimentRow.id.not_in(experiment_ids), ExperimentRow.blob_sha256.in_(mine))
            .union(select(CronScheduleRow.blob_sha256).where(CronScheduleRow.blob_sha256.in_(mine)))
        )
    )
    return sorted(sha256 for sha256 in mine - others if sha256 is not None)


@dataclass
class _Folder:
    nodes: set[str] = field(default_factory=set)
    num_checkpoints: int = 0
    size_bytes: int = 0

    def add(self, other: _Folder) -> None:
        self.nodes |= other.nodes
        self.num_checkpoints += other.num_checkpoints
        self.size_bytes += other.size_bytes


def _storages(session: Session, experiment_ids: Sequence[int]) -> list[StorageShare]:
    folders: dict[str, _Folder] = defaultdict(_Folder)
    for (_, storage_id), folder in _folders(session, experiment_ids).items():
        folders[storage_id].add(folder)
    online = set(
        session.scalars(select(NodeRow.storage_id).where(NodeRow.state == NodeState.ONLINE))
    )
    if online:  # any of them can be asked
        online.add(OBJECT_STORE)
    return [
        StorageShare(
            storage_id=storage_id,
            nodes=sorted(folder.nodes),
            is_reachable=bool(storage_id) and storage_id in online,
            num_checkpoints=folder.num_checkpoints,
            size_bytes=folder.size_bytes,
        )
        for storage_id, folder in sorted(folders.items())
    ]


def _folders(session: Session, experiment_ids: Sequence[int]) -> dict[tuple[int, str], _Folder]:
    """(experiment, storage) → what of it lies there. Every node that prepared for it has a folder.

    The storage is "" where a checkpoint's node never said which one it has, or is gone.
    """
    folders: dict[tuple[int, str], _Folder] = defaultdict(_Folder)
    mine = TrialRow.experiment_id.in_(experiment_ids)
    rows = session.execute(
        select(
            TrialRow.experiment_id,
            func.coalesce(func.nullif(CheckpointRow.storage_id, ""), NodeRow.storage_id, ""),
            CheckpointRow.node_name,
            func.count(),
            func.sum(CheckpointRow.size_bytes),
        )
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .outerjoin(NodeRow, NodeRow.name == CheckpointRow.node_name)
        .where(mine, CheckpointRow.state != "deleted")
        .group_by(
            TrialRow.experiment_id,
            CheckpointRow.storage_id,
            NodeRow.storage_id,
            CheckpointRow.node_name,
        )
    )
    for experiment_id, storage_id, node_name, num, size_bytes in rows:
        folders[experiment_id, storage_id].add(_Folder({node_name}, num, int(size_bytes or 0)))
    outputs = session.execute(
        select(
            TrialRow.experiment_id,
            TrialOutputsRow.storage_id,
            TrialOutputsRow.node_name,
            func.sum(TrialOutputsRow.size_bytes),
        )
        .join(TrialRow, TrialRow.id == TrialOutputsRow.trial_id)
        .where(mine)
        .group_by(TrialRow.experiment_id, TrialOutputsRow.storage_id, TrialOutputsRow.node_name)
    )
    for experiment_id, storage_id, node_name, size_bytes in outputs:
        folders[experiment_id, storage_id].add(_Folder({node_name}, 0, int(size_bytes or 0)))
    in_store = {
        row.id
        for row in session.execute(
            select(ExperimentRow.id, ExperimentRow.config).where(
                ExperimentRow.id.in_(experiment_ids)
            )
        )
        if store_of(row.config)
    }
    prepared = session.execute(
        select(TrialRow.experiment_id, NodeRow.storage_id, NodeRow.name)
        .join(AllocationRow, AllocationRow.trial_id == TrialRow.id)
        .join(NodeRow, NodeRow.id == AllocationRow.node_id)
        .where(mine, NodeRow.storage_id != "")
        .distinct()
    )
    for experiment_id, storage_id, node_name in prepared:
        if experiment_id in in_store:  # half of a checkpoint may be there, and nothing elsewhere
            storage_id = OBJECT_STORE
        folders[experiment_id, storage_id].add(_Folder({node_name}))
    return dict(folders)


# ---------------------------------------------------------------- the decision


def begin(
    session: Session, experiment_id: int, caller: Caller, *, keep_files: bool = False
) -> DeletionOut:
    """Delete it for everybody; its rows and files follow. Raises NotFound, Forbidden, Conflict."""
    experiment = get_experiment(session, experiment_id, lock=True)
    require_charge(session, caller.principal, experiment)
    check(session, experiment)
    requested: list[FileDeletionRow] = []
    if not keep_files:
        requested = [
            FileDeletionRow(
                storage_id=storage_id,
                storage_url=store_of(experiment.config) if storage_id == OBJECT_STORE else "",
                path=experiment_folder(experiment_id),
                experiment_id=experiment_id,
                experiment_name=experiment.name,
                node_name=min(folder.nodes),
                size_bytes=folder.size_bytes,
                state="pending",
                message="",
                requested_by=caller.principal.actor,
                requested_at=caller.now,
            )
            for (_, storage_id), folder in _folders(session, [experiment_id]).items()
            if storage_id
        ]
        session.add_all(requested)
    experiment.deleting_at = caller.now
    session.flush()
    session.execute(delete(ExportRow).where(ExportRow.experiment_id == experiment_id))
    for sha256 in _own_bundles(session, [experiment_id]):
        session.execute(delete(BlobRow).where(BlobRow.sha256 == sha256))
    file_deletions.wake_nodes(session, {row.storage_id for row in requested})
    note(
        session,
        "experiments.deleted",
        experiment_id,
        caller,
        {"name": experiment.name, "keep_files": keep_files},
    )
    touch(session, "experiments", f"experiment:{experiment_id}", "cluster", "loops")
    return DeletionOut(
        experiment_id=experiment_id,
        complete=False,
        file_deletions=[row.id for row in requested],
    )


# ---------------------------------------------------------------- clearing away


def clear(database: Database, *, only: int | None = None, for_s: float = INLINE_S) -> bool:
    """Clear away what was deleted (`only`: of one experiment), for about so long.

    Several may do it at once, and any of them may die on the way. True: nothing is left.
    """
    wanted = select(ExperimentRow.id).where(ExperimentRow.deleting_at.is_not(None))
    if only is not None:
        wanted = wanted.where(ExperimentRow.id == only)
    wanted = wanted.order_by(ExperimentRow.id).limit(1)
    deadline = time.monotonic() + for_s
    pace = Pace(ROWS_MAX, first=ROWS_FIRST, least=ROWS_LEAST)
    while True:
        with database.read() as session:
            if session.scalar(wanted) is None:
                return True
        with paced(database, pace) as session:
            # One that another process is at, at this moment, is left to it.
            experiment_id = session.scalar(wanted.with_for_update(skip_locked=True))
            if experiment_id is None:
                return False
            _clear_piece(session, experiment_id, pace.size)
        if time.monotonic() > deadline:
            return False


def _clear_piece(session: Session, experiment_id: int, limit: int) -> None:
    """Some rows of what some trials recorded, then the trials, and when there are none, the
    experiment itself."""
    trials = list(
        session.scalars(
            select(TrialRow.id)
            .where(TrialRow.experiment_id == experiment_id)
            .order_by(TrialRow.id)
            .limit(TRIALS_PER_PIECE)
        )
    )
    deleter = Deleter(session, limit)
    if trials:
        if _delete_series(session, deleter, trials):
            all(deleter.delete(row, where, weight=w) for row, where, w in _rows_of(trials))
        return
    if (
        deleter.delete(EventRow, EventRow.experiment_id == experiment_id)
        and deleter.delete(SearchEventRow, SearchEventRow.experiment_id == experiment_id)
        and deleter.delete(BudgetAlertRow, BudgetAlertRow.subject == f"experiment:{experiment_id}")
    ):
        session.execute(delete(ExperimentRow).where(ExperimentRow.id == experiment_id))
        touch(session, "experiments", f"experiment:{experiment_id}")


def _delete_series(session: Session, deleter: Deleter, trials: Sequence[int]) -> bool:
    """Delete series with their points, some at a time: looking for blocks of all of them would take
    as long for the last block as for the first. False: some are left."""
    some = (
        select(MetricSeriesRow.id).where(MetricSeriesRow.trial_id.in_(trials)).limit(SERIES_AT_ONCE)
    )
    while ids := session.scalars(some).all():
        if not (
            deleter.delete(MetricSpanRow, MetricSpanRow.series_id.in_(ids), weight=DATA_WEIGHT)
            and deleter.delete(
                MetricBlockRow, MetricBlockRow.series_id.in_(ids), weight=DATA_WEIGHT
            )
            and deleter.delete(MetricSeriesRow, MetricSeriesRow.id.in_(ids))
        ):
            return False
    return True


def _rows_of(trials: Sequence[int]) -> list[tuple[type[Base], Any, int]]:
    """(table, which of its rows, weight of each) of all else that trials recorded, and of themselves,
    in the order of deletion: what would cascade comes before what it hangs on."""
    streams = select(LogStreamRow.id).where(LogStreamRow.trial_id.in_(trials))
    profiles = select(ProfileRow.id).where(ProfileRow.trial_id.in_(trials))
    artifacts = select(RunArtifactRow.id).where(RunArtifactRow.trial_id.in_(trials))
    attempts = select(AttemptRow.id).where(AttemptRow.trial_id.in_(trials))
    allocations = select(AllocationRow.id).where(AllocationRow.attempt_id.in_(attempts))
    return [
        # These have no foreign key.
        (MetricBatchRow, MetricBatchRow.trial_id.in_(trials), DATA_WEIGHT),
        (EventRow, EventRow.trial_id.in_(trials), 1),
        (LogChunkRow, LogChunkRow.stream_id.in_(streams), DATA_WEIGHT),
        (LogStreamRow, LogStreamRow.trial_id.in_(trials), 1),
        (ProfilePieceRow, ProfilePieceRow.profile_id.in_(profiles), PIECE_WEIGHT),
        (ProfileRow, ProfileRow.trial_id.in_(trials), 1),
        (PredictionShardRow, PredictionShardRow.trial_id.in_(trials), 1),
        (PredictionRow, PredictionRow.trial_id.in_(trials), 1),
        (MediaRow, MediaRow.trial_id.in_(trials), DATA_WEIGHT),
        (CheckpointRow, CheckpointRow.trial_id.in_(trials), 1),
        (TrialOutputsRow, TrialOutputsRow.trial_id.in_(trials), PIECE_WEIGHT),
        (RunArtifactChunkRow, RunArtifactChunkRow.artifact_id.in_(artifacts), PIECE_WEIGHT),
        (RunArtifactRow, RunArtifactRow.trial_id.in_(trials), 1),
        (WorkerRow, WorkerRow.allocation_id.in_(allocations), 1),
        (AllocationRow, AllocationRow.attempt_id.in_(attempts), 1),
        (AttemptRow, AttemptRow.trial_id.in_(trials), 1),
        (TrialRow, TrialRow.id.in_(trials), DATA_WEIGHT),
    ]
