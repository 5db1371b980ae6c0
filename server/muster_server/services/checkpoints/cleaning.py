"""Deleting checkpoints that the policy of their experiment does not keep.

What is kept is decided in domain.checkpoints.keeping. A checkpoint that is not takes effect at once:
nobody can choose it any more. Its files are deleted by an agent that has the storage
(services.checkpoints.file_deletions); the server cannot reach the storages of nodes, and asks nobody to.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, case, delete, func, select, type_coerce, update
from sqlalchemy.orm import Session, aliased

from muster.document.experiment import ExperimentConfig
from muster.wire import decode_number
from muster_server.db.engine import touch
from muster_server.db.models import CheckpointRow, ExperimentRow, FileDeletionRow, TrialRow
from muster_server.db.models.base import Json
from muster_server.db.sight import SEES_ALL
from muster_server.domain.checkpoints.keeping import CheckpointView, KeepPolicy, KeepVerdict, judge
from muster_server.domain.states import TERMINAL_TRIAL
from muster_server.schemas.operations import CheckpointVerdict, CleaningOut, CleaningPlanOut

from ..core.callers import Caller, note
from ..core.events import add_event
from ..core.lookup import get_experiment
from ..core.ownership import require_charge
from . import exports, file_deletions, holds
from .lookup import ADOPTED, OBJECT_STORE, store_of, trial_folder

SHOWN_MAX = 1000
"""Checkpoints named one by one in a plan."""

Change = tuple[int, int, int, int]
"""(newest checkpoint, how many are complete, how many of those of ended trials, how many pinned)."""


@dataclass(frozen=True)
class Cleaning:
    """What the policy of an experiment leaves to be deleted."""

    experiment_id: int
    keep: KeepPolicy
    dropped: tuple[KeepVerdict, ...]

    @property
    def reason(self) -> str:
        return f"{_go(len(self.dropped))}: {self.keep.sentence()}"


def _go(num: int) -> str:
    return "1 checkpoint goes" if num == 1 else f"{num:,} checkpoints go"


def keep_of(config: ExperimentConfig) -> KeepPolicy | None:
    """Return the policy of a resolved document; None: everything is kept."""
    keep = config.checkpoints.keep
    if keep is None:
        return None
    return KeepPolicy(last=keep.last, best=keep.best, experiment_best=keep.experiment_best)


# ---------------------------------------------------------------- the decision


def verdicts(session: Session, experiment: ExperimentRow, keep: KeepPolicy) -> list[KeepVerdict]:
    """Return a policy's verdict on each complete checkpoint of an experiment."""
    fork = aliased(TrialRow)
    needed = set(
        session.scalars(
            select(fork.source_checkpoint_id).where(
                fork.source_checkpoint_id.is_not(None),
                fork.state.not_in(TERMINAL_TRIAL),
                fork.latest_checkpoint_id.is_(None),
            ),
            execution_options=SEES_ALL,
        )
    )
    rows = session.execute(
        select(
            CheckpointRow.id,
            CheckpointRow.trial_id,
            CheckpointRow.step,
            CheckpointRow.attempt_no,
            CheckpointRow.metrics,
            CheckpointRow.pinned_at,
            TrialRow.state,
            and_(
                CheckpointRow.attempt_no <= TrialRow.rolled_back_attempt,
                CheckpointRow.step > TrialRow.rolled_back_step,
            ).label("is_abandoned"),
        )
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .where(TrialRow.experiment_id == experiment.id, CheckpointRow.state == "complete")
    )
    used = holds.held_checkpoints(session, experiment.id)
    views = [
        CheckpointView(
            id=row.id,
            trial_id=row.trial_id,
            step=row.step,
            attempt_no=row.attempt_no,
            value=decode_number(row.metrics[experiment.metric_name])
            if experiment.metric_name in row.metrics
            else None,
            trial_ended=row.state in TERMINAL_TRIAL,
            is_abandoned=row.is_abandoned,
            is_needed=row.id in needed,
            is_pinned=row.pinned_at is not None,
            used_by=used.get(row.id, ""),
        )
        for row in rows
    ]
    return judge(views, keep, maximise=experiment.metric_goal == "max")


def due(session: Session, seen: dict[int, Change]) -> list[Cleaning]:
    """Return what the retention policies of all experiments require to be deleted now.

    seen: state of each experiment when it was last examined. Experiments that have not changed
    since are skipped. Updated in place.
    """
    policy = type_coerce(ExperimentRow.config, Json)[("checkpoints", "keep", "last")].as_integer()
    found = session.execute(
        select(
            TrialRow.experiment_id,
            func.max(CheckpointRow.id),
            func.count(),
            func.sum(case((TrialRow.state.in_(TERMINAL_TRIAL), 1), else_=0)),
            func.count(CheckpointRow.pinned_at),
        )
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(
            CheckpointRow.state == "complete",
            ExperimentRow.deleting_at.is_(None),
            policy.is_not(None),
        )
        .group_by(TrialRow.experiment_id)
    ).all()
    now = {row[0]: (int(row[1]), int(row[2]), int(row[3]), int(row[4])) for row in found}
    changed = [
        experiment_id for experiment_id, what in now.items() if seen.get(experiment_id) != what
    ]
    seen.clear()
    seen.update(now)
    cleanings = []
    for experiment_id in sorted(changed):
        experiment = session.get_one(ExperimentRow, experiment_id)
        keep = keep_of(experiment.config)
        assert keep is not None, "that is how it was found"
        dropped = tuple(v for v in verdicts(session, experiment, keep) if not v.is_kept)
        if dropped:
            cleanings.append(Cleaning(experiment_id, keep, dropped))
    return cleanings


# ---------------------------------------------------------------- what follows


def clean(session: Session, cleaning: Cleaning, *, by: str, now: dt.datetime) -> int:
    """Delete what is not kept, and still need not be; how many went."""
    experiment = session.get(ExperimentRow, cleaning.experiment_id, with_for_update=True)
    if experiment is None or experiment.deleting_at is not None:
        return 0
    wanted = {v.checkpoint.id for v in cleaning.dropped}
    going = [
        v
        for v in verdicts(session, experiment, cleaning.keep)
        if not v.is_kept and v.checkpoint.id in wanted
    ]
    if not going:
        return 0
    numbers = {
        row.id: row.no
        for row in session.execute(
            select(TrialRow.id, TrialRow.no).where(TrialRow.experiment_id == experiment.id)
        )
    }
    storages: set[str] = set()
    size_bytes = 0
    for verdict in going:
        row = session.get_one(CheckpointRow, verdict.checkpoint.id)
        is_replaced = verdict.is_replaced and row.kind != ADOPTED  # That has a folder of its own.
        if is_replaced or not row.storage_id:
            # Nobody can be asked for files of a node that never said which storage it has.
            row.state = "deleted"
            continue
        row.state = "deleting"
        size_bytes += row.size_bytes
        for place in _places(experiment, row, numbers[row.trial_id]):
            storages.add(place["storage_id"])
            request_deletion(session, experiment, row, place, by, now)
    session.flush()
    exports.give_up(session, [v.checkpoint.id for v in going], now)
    file_deletions.wake_nodes(session, storages)
    add_event(
        session,
        "checkpoints.cleaned",
        f"{_go(len(going))}, {size_bytes:,} bytes; {cleaning.keep.sentence()}.",
        now=now,
        experiment_id=experiment.id,
        data={"checkpoints": sorted(v.checkpoint.id for v in going)[:SHOWN_MAX]},
    )
    touch(session, f"experiment:{experiment.id}")
    return len(going)


def _places(
    experiment: ExperimentRow, row: CheckpointRow, trial_no: int
) -> Sequence[Mapping[str, Any]]:
    """Return the folders of a checkpoint, each with its storage, the node that wrote it, and its size."""
    if row.kind == ADOPTED:
        return list({(p["storage_id"], p["path"]): p for p in row.parts}.values())
    place = {
        "path": f"{trial_folder(experiment.id, trial_no)}/{row.path}",
        "storage_id": row.storage_id,
        "storage_url": store_of(experiment.config) if row.storage_id == OBJECT_STORE else "",
        "node_name": row.node_name,
        "size_bytes": row.size_bytes,
    }
    return [place]


def request_deletion(
    session: Session,
    experiment: ExperimentRow,
    row: CheckpointRow,
    place: Mapping[str, Any],
    by: str,
    now: dt.datetime,
) -> None:
    """Have one folder of a checkpoint deleted.

    place: its `path`, `storage_id`, `storage_url`, `node_name` and `size_bytes`."""
    # The same step may have been saved, deleted, and saved again by a later attempt.
    session.execute(
        delete(FileDeletionRow).where(
            FileDeletionRow.storage_id == place["storage_id"],
            FileDeletionRow.path == place["path"],
        )
    )
    session.add(
        FileDeletionRow(
            storage_id=place["storage_id"],
            storage_url=place["storage_url"],
            path=place["path"],
            experiment_id=experiment.id,
            experiment_name=experiment.name,
            checkpoint_id=row.id,
            node_name=place["node_name"],
            size_bytes=place["size_bytes"],
            state="pending",
            message="",
            requested_by=by,
            requested_at=now,
        )
    )


def saved_again(session: Session, trial: TrialRow, row: CheckpointRow) -> None:
    """A checkpoint was registered: what was to be deleted of its folder before, is not any more."""
    path = f"{trial_folder(trial.experiment_id, trial.no)}/{row.path}"
    session.execute(
        update(FileDeletionRow)
        .where(
            FileDeletionRow.storage_id == row.storage_id,
            FileDeletionRow.path == path,
            FileDeletionRow.state == "pending",
        )
        .values(state="dismissed", message="the same step was saved again", ended_at=row.created_at)
    )


# ---------------------------------------------------------------- for people


def plan(session: Session, experiment_id: int, keep: KeepPolicy | None) -> CleaningPlanOut:
    """Return what a policy would keep and delete, without deleting anything.

    keep: the policy; None for the one in the experiment's document. Raises NotFound.
    """
    experiment = get_experiment(session, experiment_id)
    return _plan(session, experiment, keep if keep is not None else keep_of(experiment.config))


def clean_now(
    session: Session, experiment_id: int, keep: KeepPolicy, caller: Caller
) -> CleaningOut:
    """Delete what a policy does not keep, once. Raises NotFound, Forbidden."""
    experiment = get_experiment(session, experiment_id, lock=True)
    require_charge(session, caller.principal, experiment)
    dropped = tuple(v for v in verdicts(session, experiment, keep) if not v.is_kept)
    cleaning = Cleaning(experiment_id, keep, dropped)
    num = clean(session, cleaning, by=caller.principal.actor, now=caller.now)
    note(session, "checkpoints.clean_requested", experiment_id, caller, {"num_checkpoints": num})
    return CleaningOut(experiment_id=experiment_id, num_deleted=num)


def _plan(session: Session, experiment: ExperimentRow, keep: KeepPolicy | None) -> CleaningPlanOut:
    found: Sequence[KeepVerdict] = verdicts(session, experiment, keep) if keep is not None else ()
    sizes = {
        row.id: row
        for row in session.execute(
            select(CheckpointRow.id, CheckpointRow.size_bytes, CheckpointRow.path, TrialRow.no)
            .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
            .where(TrialRow.experiment_id == experiment.id, CheckpointRow.state == "complete")
        )
    }
    dropped = [v for v in found if not v.is_kept]
    return CleaningPlanOut(
        experiment_id=experiment.id,
        policy=keep.sentence() if keep is not None else "everything is kept",
        metric=experiment.metric_name,
        num_kept=len(sizes) - len(dropped),
        num_dropped=len(dropped),
        freed_bytes=sum(sizes[v.checkpoint.id].size_bytes for v in dropped if not v.is_replaced),
        checkpoints=[
            CheckpointVerdict(
                id=v.checkpoint.id,
                trial_id=v.checkpoint.trial_id,
                trial_no=sizes[v.checkpoint.id].no,
                step=v.checkpoint.step,
                size_bytes=sizes[v.checkpoint.id].size_bytes,
                value=v.checkpoint.value,
                is_kept=v.is_kept,
                reason=v.reason,
            )
            for v in found[:SHOWN_MAX]
        ],
    )
