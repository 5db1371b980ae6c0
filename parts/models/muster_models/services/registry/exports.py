"""Exports of a version: what the jobs that made them have reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.document.inference import ExportFormat
from muster.wire import content_digest
from muster_models.domain.registry.contents import warning_of
from muster_models.schemas.registry import (
    ExportComparisonOut,
    ExportFileOut,
    ExportState,
    ModelExportJobOut,
    ModelExportOut,
)
from muster_server.db.models import ExperimentRow, ModelUseRow, ModelVersionRow, TrialRow
from muster_server.domain.states import TERMINAL_EXPERIMENT, ExperimentState
from muster_server.schemas.base import Page
from muster_server.services.core.paging import read_page


class _Reported(BaseModel):
    """A part of what a job reports. The job may be anybody's: nothing is taken as it is."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _ReportedFile(_Reported):
    path: Annotated[
        str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
    ]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size_bytes: Annotated[int, Field(ge=0, lt=2**53)]


class _Tolerance(_Reported):
    atol: float
    rtol: float


class _ReportedExport(_Reported):
    format: ExportFormat
    state: Literal["done", "failed"]
    message: Annotated[str, Field(max_length=2000)] = ""
    path: Annotated[str, Field(max_length=400)] = ""
    files: Annotated[list[_ReportedFile], Field(max_length=100)] = []
    verdict: Literal["equal", "within", "beyond", "not_compared"]
    compared_by: Annotated[str, Field(max_length=200)] = ""
    max_abs: float | None = None
    max_rel: float | None = None
    agreement: float | None = None
    tolerance: _Tolerance


class _Inputs(_Reported):
    source: Annotated[str, Field(max_length=1000)] = ""
    rows: Annotated[int, Field(ge=0, lt=2**53)] = 0
    sha256: Annotated[str, Field(max_length=64)] = ""


class _Result(_Reported):
    torch: Annotated[str, Field(max_length=100)] = ""
    inputs: _Inputs = _Inputs()
    exports: Annotated[list[_ReportedExport], Field(max_length=100)] = []


def of_version(
    session: Session, version: ModelVersionRow, *, cursor: str | None, limit: int
) -> Page[ModelExportJobOut]:
    """Return one page of the jobs that export a version, newest first."""
    rows, following = read_page(
        session,
        select(ModelUseRow)
        .join(ExperimentRow, ExperimentRow.id == ModelUseRow.experiment_id)
        .where(
            ModelUseRow.version_id == version.id,
            ModelUseRow.kind == "export",
            ExperimentRow.deleting_at.is_(None),
        ),
        ModelUseRow.id,
        cursor=cursor,
        limit=limit,
        newest_first=True,
    )
    return Page(items=_jobs(session, rows), next=following)


def has_made_some(use: ModelUseRow) -> bool:
    """Return whether the ended job of this use has reported an export that did not fail."""
    return any(export.state != "failed" for export in _result(use.result).exports)


def _jobs(session: Session, rows: Sequence[ModelUseRow]) -> list[ModelExportJobOut]:
    ids = {row.experiment_id for row in rows}
    experiments = {
        row.id: row
        for row in session.scalars(select(ExperimentRow).where(ExperimentRow.id.in_(ids)))
    }
    trials = dict(
        session.execute(
            select(TrialRow.experiment_id, TrialRow.id)
            .where(TrialRow.experiment_id.in_(ids))
            .order_by(TrialRow.no.desc())
        ).all()
    )
    return [_job(row, experiments[row.experiment_id], trials) for row in rows]


def _job(row: ModelUseRow, experiment: ExperimentRow, trials: dict[int, int]) -> ModelExportJobOut:
    result = _result(row.result)
    section = experiment.config.export
    reported = {export.format: export for export in result.exports}
    formats = section.formats if section is not None else tuple(reported)
    return ModelExportJobOut(
        experiment_id=experiment.id,
        experiment_state=experiment.state,
        trial_id=trials.get(experiment.id),
        torch=result.torch,
        inputs=result.inputs.source,
        inputs_sha256=result.inputs.sha256,
        exports=[_export(name, reported.get(name), experiment) for name in dict.fromkeys(formats)],
        created_at=row.created_at,
        result_at=row.result_at,
    )


def _result(reported: dict[str, Any] | None) -> _Result:
    """Return what a job has reported; nothing where it is not what a job of ours reports."""
    try:
        return _Result.model_validate(reported or {})
    except ValidationError:
        return _Result()


def _export(
    name: ExportFormat, reported: _ReportedExport | None, experiment: ExperimentRow
) -> ModelExportOut:
    has_ended = experiment.state in TERMINAL_EXPERIMENT
    state: ExportState = "queued" if experiment.state == ExperimentState.QUEUED else "running"
    if reported is None:
        return ModelExportOut(
            format=name,
            state="failed" if has_ended else state,
            message="the job ended before it was made" if has_ended else "",
        )
    if reported.state == "failed":
        state = "failed"
    elif has_ended:  # its files are among the outputs now
        state = "done"
    files = [ExportFileOut.from_row(file, warning=warning_of(file.path)) for file in reported.files]
    return ModelExportOut(
        format=name,
        state=state,
        message=reported.message,
        path=reported.path,
        files=files,
        size_bytes=sum(file.size_bytes for file in files),
        digest=content_digest({file.path: file.sha256 for file in files}) if files else "",
        comparison=ExportComparisonOut.from_row(
            reported, atol=reported.tolerance.atol, rtol=reported.tolerance.rtol
        ),
    )
