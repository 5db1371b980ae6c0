"""Which outputs nobody may delete now: the one place that says so, for every clean-up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    AllocationRow,
    CheckpointRow,
    ExportRow,
    TrialOutputsRow,
    TrialRow,
)
from muster_server.domain.states import TERMINAL_TRIAL

from ..checkpoints import holds


def held_trials(
    session: Session, experiment_id: int, *, trial_id: int | None = None
) -> Mapping[int, str]:
    """Return the trials of an experiment whose outputs must stay, each with the reason.

    trial_id: the only trial to look at; None for all.

    Held are trials that may still run, whose last files are not in the storage yet, of which a
    checkpoint is pinned, whose files a version of a model consists of, or that somebody downloads at
    this moment.
    """
    wanted = TrialRow.experiment_id == experiment_id
    if trial_id is not None:
        wanted = and_(wanted, TrialRow.id == trial_id)
    trials = session.execute(select(TrialRow.id, TrialRow.state).where(wanted)).all()
    held = {row.id: "its trial may still run" for row in trials if row.state not in TERMINAL_TRIAL}
    for uncollected_id in uncollected(session, wanted):
        held.setdefault(uncollected_id, "its last files have not been collected")
    pinned = session.execute(
        select(CheckpointRow.trial_id, CheckpointRow.step)
        .join(TrialRow, TrialRow.id == CheckpointRow.trial_id)
        .where(wanted, CheckpointRow.pinned_at.is_not(None))
        .where(CheckpointRow.state == "complete")
        .order_by(CheckpointRow.step)
    )
    for pinned_id, step in pinned:
        held.setdefault(pinned_id, f"its checkpoint of step {step} is pinned")
    for used_id, user in holds.held_outputs(session, wanted).items():
        held.setdefault(used_id, f"{user} consists of them")
    downloads = session.scalars(
        select(ExportRow.trial_id)
        .join(TrialRow, TrialRow.id == ExportRow.trial_id)
        .where(wanted, ExportRow.checkpoint_id.is_(None), ExportRow.state == "pending")
    )
    for downloaded_id in downloads:
        held.setdefault(downloaded_id, "a download of its files is under way")
    return held


def uncollected(session: Session, wanted: ColumnElement[bool]) -> list[int]:
    """Return the wanted trials of which a node has not delivered the last files of the newest attempt: what
    it delivers later would otherwise refer to files that are gone."""
    members: dict[int, set[int]] = defaultdict(set)
    for trial_id, rank in session.execute(
        select(AllocationRow.trial_id, AllocationRow.node_rank)
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .where(wanted, AllocationRow.attempt_no == TrialRow.attempt_no)
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
        .where(wanted)
    ):
        if not row.is_final or not row.storage_id:
            not_final.append(row.trial_id)
        elif row.attempt_no == row.newest_no:
            members[row.trial_id].discard(row.node_rank)
    return [*not_final, *(trial_id for trial_id, ranks in members.items() if ranks)]
