"""Diagnoses: what limits the speed of a trial; see docs/guides/diagnose.md."""

from __future__ import annotations

from muster_server.schemas.analysis.diagnoses import ApplyIn, DiagnoseIn, DiagnosisOut
from muster_server.schemas.base import Page
from muster_server.services.insight import diagnoses

from ..http.deps import By, Config, Cursor, Id, Limit
from ..http.routing import Router, Snapshot, Write

router = Router(tags=["trials"])


@router.post("/trials/{trial_id}/diagnoses", status_code=201)
def diagnose_trial(
    trial_id: Id, body: DiagnoseIn, session: Write, by: By, settings: Config
) -> DiagnosisOut:
    """Find out what limits the speed of a trial. For a trial with the built-in trainer, short
    probes are launched as an experiment of the caller; poll the diagnosis until `state` is not
    `running`. A custom script is judged at once by its measurements."""
    return diagnoses.start(session, trial_id, body, by, settings=settings)


@router.get("/trials/{trial_id}/diagnoses")
def list_trial_diagnoses(
    trial_id: Id, session: Snapshot, cursor: Cursor = None, limit: Limit = 10
) -> Page[DiagnosisOut]:
    """List the diagnoses of a trial, newest first."""
    return diagnoses.list_of(session, trial_id, cursor=cursor, limit=limit)


@router.get("/diagnoses/{diagnosis_id}")
def get_diagnosis(diagnosis_id: Id, session: Snapshot) -> DiagnosisOut:
    """Return the verdict with its shares and advice; while it runs, the probes and their step
    times."""
    return diagnoses.get(session, diagnosis_id)


@router.post("/diagnoses/{diagnosis_id}:cancel", status_code=202)
def cancel_diagnosis(diagnosis_id: Id, session: Write, by: By) -> DiagnosisOut:
    """End the probes of a diagnosis. One that has ended stays as it is."""
    return diagnoses.cancel(session, diagnosis_id, by)


@router.post("/diagnoses/{diagnosis_id}:apply", status_code=201)
def apply_diagnosis(diagnosis_id: Id, body: ApplyIn, session: Write, by: By) -> DiagnosisOut:
    """Launch the training again with one piece of advice; `applied` then reports the outcome."""
    return diagnoses.apply(session, diagnosis_id, body.advice, by)
