"""Deleting outputs by age and size: on request, and as the document of an experiment says.

What goes is decided in domain.outputs.retention. A decision takes effect at once: nobody can download
the files any more, and an event of each trial says how much went. The files are deleted afterwards by
an agent that has the storage (services.checkpoints.file_deletions).
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select, type_coerce
from sqlalchemy.orm import Session

from muster.byte_sizes import parse_size
from muster.counting import counted
from muster.document.experiment import ExperimentConfig
from muster_server.db.engine import touch
from muster_server.db.models import ExperimentRow, FileDeletionRow, TrialOutputsRow, TrialRow
from muster_server.db.models.base import Json
from muster_server.domain.outputs.retention import (
    OutputsPolicy,
    OutputsVerdict,
    TrialOutputsView,
    judge,
)
from muster_server.errors import InvalidRequest
from muster_server.schemas.outputs import (
    OutputsCleaningOut,
    OutputsCleaningPlanOut,
    OutputsPolicyIn,
    OutputsVerdictOut,
)

from ..checkpoints import file_deletions
from ..core.callers import Caller, note
from ..core.events import add_event
from ..core.lookup import get_experiment
from ..core.output_lists import encode_files
from ..core.ownership import require_charge
from .holding import held_trials

SHOWN_MAX = 1000
"""Trials named one by one in a plan."""
EXPERIMENTS_AT_ONCE = 50
"""Most experiments that one pass of the cleaning loop judges."""
TRIALS_AT_ONCE = 100
"""Most trials whose outputs one pass of the cleaning loop deletes; the others follow in the next ones."""


@dataclass(frozen=True)
class OutputsCleaning:
    """What the policy of an experiment's document leaves to be deleted."""

    experiment_id: int
    policy: OutputsPolicy
    dropped: tuple[OutputsVerdict, ...]

    @property
    def reason(self) -> str:
        num = len(self.dropped)
        of = counted(num, "trial")
        return f"the outputs of {of} go: {self.policy.sentence()}"


def policy_in(config: ExperimentConfig) -> OutputsPolicy | None:
    """Return the policy of a resolved document; None if it keeps everything."""
    keep = config.outputs.keep if config.outputs is not None else None
    if keep is None:
        return None
    return OutputsPolicy(
        older_than=dt.timedelta(days=keep.days) if keep.days is not None else None,
        max_bytes=parse_size(keep.max_size) if keep.max_size is not None else None,
        keep_best=keep.experiment_best,
    )


def policy_of(asked: OutputsPolicyIn) -> OutputsPolicy:
    """Return the policy that a request asks for. Raises InvalidRequest for one without a limit."""
    if asked.older_than_days is None and asked.max_bytes is None:
        raise InvalidRequest(
            "outputs.no_limit",
            "Neither older_than_days nor max_bytes is given: nothing says what is to be deleted.",
            hint="Give an age, a size, or both: `--older-than 30d --max-size 50GB`.",
        )
    age = dt.timedelta(days=asked.older_than_days) if asked.older_than_days is not None else None
    return OutputsPolicy(older_than=age, max_bytes=asked.max_bytes, keep_best=asked.keep_best)


def plan(
    session: Session, experiment_id: int, policy: OutputsPolicy | None, *, now: dt.datetime
) -> OutputsCleaningPlanOut:
    """Return what a policy would keep and delete, without deleting anything.

    policy: None for the one in the experiment's document. Raises NotFound.
    """
    experiment = get_experiment(session, experiment_id)
    policy = policy or policy_in(experiment.config) or OutputsPolicy()
    found = verdicts(session, experiment, policy, now=now)
    gone = [verdict for verdict in found if not verdict.is_kept]
    return OutputsCleaningPlanOut(
        experiment_id=experiment_id,
        policy=policy.sentence(),
        num_kept=len(found) - len(gone),
        num_dropped=len(gone),
        kept_bytes=sum(verdict.outputs.size_bytes for verdict in found if verdict.is_kept),
        freed_bytes=sum(verdict.outputs.size_bytes for verdict in gone),
        trials=[
            OutputsVerdictOut.from_row(
                verdict.outputs,
                collected_at=verdict.outputs.written_at,
                is_kept=verdict.is_kept,
                reason=verdict.reason,
            )
            for verdict in found[:SHOWN_MAX]
        ],
    )


def due(session: Session, *, after_id: int, now: dt.datetime) -> tuple[list[OutputsCleaning], int]:
    """Return what the policies of experiments require to be deleted now, and where to go on.

    after_id: the experiments after this one are looked at, in the order of their numbers. The second
    value is the last one that was judged where EXPERIMENTS_AT_ONCE or TRIALS_AT_ONCE ended the pass, of
    which trials may be left, and 0 where no experiment is left.
    """
    keep = type_coerce(ExperimentRow.config, Json)[("outputs", "keep", "experiment_best")]
    found = session.execute(
        select(
            TrialRow.experiment_id,
            func.min(TrialOutputsRow.updated_at).label("oldest_at"),
            func.sum(TrialOutputsRow.size_bytes).label("size_bytes"),
        )
        .join(TrialRow, TrialRow.id == TrialOutputsRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(
            TrialRow.experiment_id > after_id,
            TrialOutputsRow.deleted_at.is_(None),
            TrialOutputsRow.num_files > 0,
            ExperimentRow.deleting_at.is_(None),
            keep.as_integer().is_not(None),
        )
        .group_by(TrialRow.experiment_id)
        .order_by(TrialRow.experiment_id)
    ).all()
    cleanings: list[OutputsCleaning] = []
    num_judged, num_left = 0, TRIALS_AT_ONCE
    for row in found:
        experiment = session.get_one(ExperimentRow, row.experiment_id)
        policy = policy_in(experiment.config)
        assert policy is not None, "that is how it was found"
        if not policy.may_exceed(oldest_at=row.oldest_at, size_bytes=int(row.size_bytes), now=now):
            continue
        gone = [v for v in verdicts(session, experiment, policy, now=now) if not v.is_kept]
        if gone:
            cleanings.append(OutputsCleaning(experiment.id, policy, tuple(gone[:num_left])))
        num_judged, num_left = num_judged + 1, num_left - len(gone)
        if num_left <= 0 or num_judged == EXPERIMENTS_AT_ONCE:
            return cleanings, experiment.id
    return cleanings, 0


def clean(session: Session, cleaning: OutputsCleaning, *, by: str, now: dt.datetime) -> int:
    """Delete what a decision named, and what still need not be kept; return the bytes that went.

    by: who requested it, for the events."""
    experiment = session.get(ExperimentRow, cleaning.experiment_id, with_for_update=True)
    if experiment is None or experiment.deleting_at is not None:
        return 0
    wanted = {verdict.outputs.trial_id for verdict in cleaning.dropped}
    gone = [
        verdict
        for verdict in verdicts(session, experiment, cleaning.policy, now=now)
        if not verdict.is_kept and verdict.outputs.trial_id in wanted
    ]
    return _delete(session, experiment, gone, cleaning.policy, by=by, now=now)


def clean_now(
    session: Session, experiment_id: int, policy: OutputsPolicy, caller: Caller
) -> OutputsCleaningOut:
    """Delete what a policy does not keep, once. Raises NotFound, Forbidden."""
    experiment = get_experiment(session, experiment_id, lock=True)
    require_charge(session, caller.principal, experiment)
    found = verdicts(session, experiment, policy, now=caller.now)
    gone = [verdict for verdict in found if not verdict.is_kept]
    freed_bytes = _delete(
        session, experiment, gone, policy, by=caller.principal.actor, now=caller.now
    )
    note(
        session,
        "outputs.clean_requested",
        experiment_id,
        caller,
        {"num_trials": len(gone), "freed_bytes": freed_bytes},
    )
    return OutputsCleaningOut(
        experiment_id=experiment_id, num_deleted=len(gone), freed_bytes=freed_bytes
    )


def verdicts(
    session: Session, experiment: ExperimentRow, policy: OutputsPolicy, *, now: dt.datetime
) -> Sequence[OutputsVerdict]:
    """Return a policy's verdict on each trial of an experiment that has outputs in a storage."""
    held = held_trials(session, experiment.id)
    rows = session.execute(
        select(
            TrialRow.id,
            TrialRow.no,
            TrialRow.metric,
            func.sum(TrialOutputsRow.num_files).label("num_files"),
            func.sum(TrialOutputsRow.size_bytes).label("size_bytes"),
            func.max(TrialOutputsRow.updated_at).label("written_at"),
        )
        .join(TrialOutputsRow, TrialOutputsRow.trial_id == TrialRow.id)
        .where(
            TrialRow.experiment_id == experiment.id,
            TrialOutputsRow.deleted_at.is_(None),
            TrialOutputsRow.num_files > 0,
        )
        .group_by(TrialRow.id, TrialRow.no, TrialRow.metric)
    )
    views = [
        TrialOutputsView(
            trial_id=row.id,
            trial_no=row.no,
            num_files=int(row.num_files),
            size_bytes=int(row.size_bytes),
            written_at=row.written_at,
            value=row.metric,
            held=held.get(row.id, ""),
        )
        for row in rows
    ]
    return judge(views, policy, maximise=experiment.metric_goal == "max", now=now)


def _delete(
    session: Session,
    experiment: ExperimentRow,
    gone: Sequence[OutputsVerdict],
    policy: OutputsPolicy,
    *,
    by: str,
    now: dt.datetime,
) -> int:
    """Delete the outputs of trials; return their bytes. Their files go when an agent deletes them."""
    storages: set[str] = set()
    for verdict in gone:
        storages |= _delete_trial(session, experiment, verdict, policy, by=by, now=now)
    session.flush()
    file_deletions.wake_nodes(session, storages)
    if gone:
        touch(session, f"experiment:{experiment.id}")
    return sum(verdict.outputs.size_bytes for verdict in gone)


def _delete_trial(
    session: Session,
    experiment: ExperimentRow,
    verdict: OutputsVerdict,
    policy: OutputsPolicy,
    *,
    by: str,
    now: dt.datetime,
) -> set[str]:
    """Take the outputs of one trial away, say so, and request their files; the storages they are in."""
    view = verdict.outputs
    rows = session.scalars(
        select(TrialOutputsRow)
        .where(TrialOutputsRow.trial_id == view.trial_id)
        .order_by(TrialOutputsRow.node_rank)
        .with_for_update()
    ).all()
    by_place: dict[tuple[str, str, str], list[TrialOutputsRow]] = defaultdict(list)
    for row in rows:
        by_place[row.storage_id, row.storage_url, row.folder].append(row)
    for (storage_id, storage_url, folder), here in by_place.items():
        session.execute(
            delete(FileDeletionRow).where(
                FileDeletionRow.storage_id == storage_id, FileDeletionRow.path == folder
            )
        )
        session.add(
            FileDeletionRow(
                storage_id=storage_id,
                storage_url=storage_url,
                path=folder,
                experiment_id=experiment.id,
                experiment_name=experiment.name,
                checkpoint_id=None,
                node_name=here[0].node_name,
                size_bytes=sum(row.size_bytes for row in here),
                state="pending",
                message="",
                requested_by=by,
                requested_at=now,
            )
        )
    for row in rows:
        row.deleted_at, row.deleted_bytes = now, row.size_bytes
        row.files = encode_files([])
        row.num_files = row.size_bytes = row.num_left_out = row.left_out_bytes = 0
    files = counted(view.num_files, "file")
    add_event(
        session,
        "outputs.cleaned",
        f"Outputs are deleted: {files}, {view.size_bytes:,} bytes, {verdict.reason} "
        f"({policy.sentence()}); requested by {by}.",
        now=now,
        experiment_id=experiment.id,
        trial_id=view.trial_id,
        data={"num_files": view.num_files, "size_bytes": view.size_bytes},
    )
    touch(session, f"trial:{view.trial_id}")
    return {row.storage_id for row in rows}
