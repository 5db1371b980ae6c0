"""Which outputs nobody may delete now: the one place that says so, for every clean-up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    AllocationRow,
    CheckpointRow,
    ExportRow,
    TrialOutputsRow,
    TrialRow,
)
from muster_server.domain.states import TERMINAL_TRIAL


def held_trials(session: Session, experiment_id: int) -> Mapping[int, str]:
    """Return the trials of an experiment whose outputs must stay, each with the reason.

    Held are trials that may still run, whose last files are not in the storage yet, of which a
    checkpoint is pinned, or that somebody downloads at this moment.
    """
    trials = session.execute(
        select(TrialRow.id, TrialRow.state).where(TrialRow.experiment_id == experiment_id)
    ).all()
    held = {row.id: "its trial may still run" for row in trials if row.state not in TERMINAL_TRIAL}
    for trial_id in _uncollected(session, experiment_id):
        held.setdefault(trial_id, "its last files have not been collected")
    of_experiment = TrialRow.experiment_id == experiment_id
    pinned = session.execute(
        select(CheckpointRow.trial_id, CheckpointRow.step)
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .where(of_experiment, CheckpointRow.pinned_at.is_not(None))
        .where(CheckpointRow.state == "complete")
        .order_by(CheckpointRow.step)
    )
    for trial_id, step in pinned:
        held.setdefault(trial_id, f"its checkpoint of step {step} is pinned")
    downloads = session.scalars(
        select(ExportRow.trial_id).where(
            ExportRow.experiment_id == experiment_id,
            ExportRow.checkpoint_id.is_(None),
            ExportRow.state == "pending",
        )
    )
    for trial_id in downloads:
        held.setdefault(trial_id, "a download of its files is under way")
    return held


def _uncollected(session: Session, experiment_id: int) -> list[int]:
    """Return the trials of which a node has not delivered the last files of the newest attempt: what
    it delivers later would otherwise refer to files that are gone."""
    members: dict[int, set[int]] = defaultdict(set)
    for trial_id, rank in session.execute(
        select(AllocationRow.trial_id, AllocationRow.node_rank)
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .where(
            TrialRow.experiment_id == experiment_id,
            AllocationRow.attempt_no == TrialRow.attempt_no,
        )
    ):
        members[trial_id].add(rank)
    not_final: list[int] = []
    for row in session.execute(
        select(
            TrialOutputsRow.trial_id,
            TrialOutputsRow.node_rank,
            TrialOutputsRow.attempt_no,
            TrialOutputsRow.is_final,
            TrialOutputsRow.storage_id,
            TrialRow.attempt_no.label("newest_no"),
        )
        .join(TrialRow, TrialRow.id == TrialOutputsRow.trial_id)
        .where(TrialRow.experiment_id == experiment_id)
    ):
        if not row.is_final or not row.storage_id:
            not_final.append(row.trial_id)
        elif row.attempt_no == row.newest_no:
            members[row.trial_id].discard(row.node_rank)
    return [*not_final, *(trial_id for trial_id, ranks in members.items() if ranks)]
