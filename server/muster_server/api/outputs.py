"""The files that jobs wrote: listed, shown and downloaded; see docs/guides/outputs.md."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Response

from muster.wire import OutputState
from muster_server import clock
from muster_server.api.http.deps import By, Config, Cursor, Db, Id
from muster_server.api.http.routing import Router, Snapshot, Write
from muster_server.domain.outputs.previews import TEXT
from muster_server.schemas.base import Page, SafeStr
from muster_server.schemas.exports import ExportOut
from muster_server.schemas.outputs import (
    OutputFileOut,
    OutputsCleaningOut,
    OutputsCleaningPlanOut,
    OutputsExportIn,
    OutputsExportOut,
    OutputsPolicyIn,
    OutputsPreviewIn,
    OutputsSummaryOut,
)
from muster_server.services.outputs import downloads, retention, views

router = Router(tags=["outputs"])

FilesLimit = Annotated[int, Query(ge=1, le=1000, description="Entries per page.")]
"""More than other lists allow: a page costs less than finding where it begins."""


@router.get("/trials/{trial_id}/outputs")
def list_outputs(
    trial_id: Id,
    db: Db,
    prefix: Annotated[SafeStr, Query(max_length=1024, description="Beginning of the paths.")] = "",
    glob: Annotated[
        SafeStr,
        Query(max_length=256, description="Pattern of the paths, such as `*.pt`; `*` matches `/`."),
    ] = "",
    states: Annotated[
        list[OutputState], Query(alias="state", max_length=4, description="Absent: all.")
    ] = [],  # noqa: B006
    sort: views.Sort = "path",
    order: Literal["asc", "desc"] = "asc",
    cursor: Cursor = None,
    limit: FilesLimit = 100,
) -> Page[OutputFileOut]:
    """List the files that a trial wrote, those of all its nodes as one folder, as they were
    collected last."""
    wanted = views.OutputFilter(prefix=prefix, glob=glob, states=frozenset(states))
    with db.snapshot() as session:
        return views.list_outputs(
            session,
            trial_id,
            wanted,
            sort=sort,
            descending=order == "desc",
            cursor=cursor,
            limit=limit,
        )


@router.get("/trials/{trial_id}/outputs/summary")
def get_outputs_summary(trial_id: Id, session: Snapshot, settings: Config) -> OutputsSummaryOut:
    """Return number and size of the files that a trial wrote, and whether something is missing."""
    return views.summary(session, trial_id, settings=settings)


@router.get("/experiments/{experiment_id}/outputs:plan")
def preview_outputs_cleaning(
    experiment_id: Id,
    db: Db,
    older_than_days: Annotated[float | None, Query(gt=0, le=36_500)] = None,
    max_bytes: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    keep_best: Annotated[int, Query(ge=0, le=100_000)] = 0,
) -> OutputsCleaningPlanOut:
    """Return which outputs of an experiment a policy keeps, and why, without deleting any.

    Without parameters: the policy of its document.
    """
    given = OutputsPolicyIn(
        older_than_days=older_than_days, max_bytes=max_bytes, keep_best=keep_best
    )
    policy = None if given == OutputsPolicyIn() else retention.policy_of(given)
    with db.read() as session:
        return retention.plan(session, experiment_id, policy, now=clock.now())


@router.post("/experiments/{experiment_id}/outputs:clean", status_code=202)
def clean_outputs(
    experiment_id: Id, body: OutputsPolicyIn, session: Write, by: By
) -> OutputsCleaningOut:
    """Delete the outputs of an experiment that a policy does not keep, once. They stay of a trial that
    may still run, has a pinned checkpoint, or has not been collected completely."""
    return retention.clean_now(session, experiment_id, retention.policy_of(body), by)


@router.post("/trials/{trial_id}/outputs:export", status_code=202)
def request_outputs_export(
    trial_id: Id, body: OutputsExportIn, session: Write, by: By, settings: Config
) -> OutputsExportOut:
    """Have outputs made into files to download, by an agent that has their storage. Existing and
    pending exports of the same files are returned."""
    return downloads.request(session, trial_id, body, by, settings=settings)


@router.post("/trials/{trial_id}/outputs:preview", status_code=202)
def request_outputs_preview(
    trial_id: Id, body: OutputsPreviewIn, session: Write, by: By, settings: Config
) -> ExportOut:
    """Have the beginning of a file fetched, to be shown: the first 1 MiB of text, or an image of at
    most 8 MiB."""
    return downloads.request_preview(session, trial_id, body.path, by, settings=settings)


@router.get(
    "/exports/{export_id}/preview",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}, "image/*": {}}}},
)
def get_outputs_preview(export_id: Id, db: Db) -> Response:
    """Return what was fetched to be shown: as plain text whatever its name says, or as an image. 409
    while it is not there."""
    with db.read() as session:
        content, media_type = downloads.read_preview(session, export_id)
    # The middleware adds nosniff and a policy with `sandbox`.
    assert media_type == TEXT or media_type.startswith("image/"), "nothing active is ever served"
    return Response(content, media_type=media_type, headers={"Content-Disposition": "inline"})
