"""Diagnoses as REST shows them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster_server.db.models import DiagnosisRow, ExperimentRow, TrialRow
from muster_server.domain.insight.diagnosis import Diagnosis
from muster_server.domain.states import TrialState
from muster_server.schemas.analysis.diagnoses import AppliedOut, DiagnosisOut, ProbeOut

from .throughput import samples_per_s

_EMPTY: dict[str, Any] = {
    "verdict": None,
    "reason": "",
    "shares": {},
    "measured": [],
    "culprit_rank": None,
    "culprit_part": None,
    "efficiency": None,
    "spread": None,
    "advice": [],
    "notes": [],
}


def diagnosis_out(
    session: Session, row: DiagnosisRow, *, so_far: Diagnosis | None = None
) -> DiagnosisOut:
    """Return a diagnosis as the API shows it.

    so_far: preliminary result of a diagnosis that has not ended. Its verdict and advice are not
    shown.
    """
    trial = session.get_one(TrialRow, row.trial_id)
    result = row.result or _EMPTY
    if row.result is None and so_far is not None:
        early = asdict(so_far)
        result = {**_EMPTY, **{k: early[k] for k in ("measured", "spread", "efficiency")}}
    advice = [
        {**advice, "applied": _applied(session, row, advice["kind"])} for advice in result["advice"]
    ]
    return DiagnosisOut.model_validate(
        {
            **result,
            "advice": advice,
            "id": row.id,
            "trial_id": row.trial_id,
            "experiment_id": trial.experiment_id,
            "state": row.state,
            "method": "probes" if row.plan else "observed",
            "probes_id": row.probes_id,
            "probes": _probes(session, row),
            "steps": row.plan.get("steps"),
            "left_out": row.plan.get("left_out", []),
            "baseline_samples_per_s": row.baseline,
            "created_by": row.created_by,
            "created_at": row.created_at,
            "ended_at": row.ended_at,
        }
    )


def _probes(session: Session, row: DiagnosisRow) -> list[ProbeOut]:
    made: dict[str, TrialRow] = {}
    if row.probes_id is not None:
        query = select(TrialRow).where(TrialRow.experiment_id == row.probes_id)
        made = {str(t.hparams.get("probe")): t for t in session.scalars(query)}
    found = []
    for written in row.plan.get("probes", ()):
        probe, _, repeat = written.rpartition("/")
        trial = made.get(written)
        found.append(
            ProbeOut(
                probe=probe,
                repeat=int(repeat),
                trial_id=None if trial is None else trial.id,
                state=None if trial is None else trial.state,
                reason=""
                if trial is None
                else trial.pending_reason
                if trial.state == TrialState.QUEUED
                else trial.reason,
            )
        )
    return found


def _applied(session: Session, row: DiagnosisRow, kind: str) -> list[AppliedOut]:
    found = []
    for entry in row.applied:
        if entry["advice"] != kind:
            continue
        experiment = session.get(ExperimentRow, entry["experiment_id"])
        if experiment is None or experiment.deleting_at is not None:
            found.append(
                AppliedOut(
                    experiment_id=entry["experiment_id"],
                    trial_id=None,
                    state="deleted",
                    achieved=None,
                    num_steps=0,
                )
            )
            continue
        trial = session.scalar(select(TrialRow).where(TrialRow.experiment_id == experiment.id))
        rate = samples_per_s(session, trial) if trial is not None and row.baseline else None
        found.append(
            AppliedOut(
                experiment_id=experiment.id,
                trial_id=None if trial is None else trial.id,
                state=experiment.state,
                achieved=None
                if rate is None or not row.baseline
                else rate.value / row.baseline - 1,
                num_steps=0 if rate is None else rate.num_rows,
            )
        )
    return found
