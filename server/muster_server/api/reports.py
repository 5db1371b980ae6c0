"""Reports; see docs/guides/reports.md."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request, Response

from muster_server import clock
from muster_server.api.http.deps import By, Config, Cursor, Db, Id, Limit, Me, RemoteAddr
from muster_server.api.http.routing import Read, Router, Snapshot, Write
from muster_server.errors import NotSignedIn
from muster_server.schemas.base import Page
from muster_server.schemas.reports import (
    ReportCommentIn,
    ReportCommentOut,
    ReportContentOut,
    ReportDetail,
    ReportIn,
    ReportLinkCreated,
    ReportLinkIn,
    ReportLinkOut,
    ReportOut,
    ReportPatch,
    ReportTokenIn,
    SharedReportOut,
)
from muster_server.services.reports import exporting, links, pages

from .accounts.auth import sign_in_limits
from .http.refusals import note_refusal

router = Router(tags=["reports"])


@router.get("/reports")
def list_reports(
    session: Read,
    project: Annotated[str | None, Query(min_length=1, max_length=128)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[ReportOut]:
    """List reports, the newest first."""
    return pages.list_reports(session, project=project, cursor=cursor, limit=limit)


@router.post("/reports", status_code=201)
def create_report(body: ReportIn, session: Write, by: By, config: Config) -> ReportDetail:
    """Create a report over runs of a project."""
    row = pages.create_report(session, body, by)
    return pages.get_detail(session, row.id, by.principal, links_on=config.report_links)


@router.get("/reports/{report_id}")
def get_report(report_id: Id, session: Read, me: Me, config: Config) -> ReportDetail:
    """Return a report with its blocks, without what they show."""
    return pages.get_detail(session, report_id, me, links_on=config.report_links)


@router.patch("/reports/{report_id}")
def update_report(
    report_id: Id, body: ReportPatch, session: Write, by: By, config: Config
) -> ReportDetail:
    """Change the title or the blocks of a report. 409 if somebody else has changed it meanwhile."""
    pages.change_report(session, report_id, body, by)
    session.flush()
    return pages.get_detail(session, report_id, by.principal, links_on=config.report_links)


@router.delete("/reports/{report_id}", status_code=204)
def delete_report(report_id: Id, session: Write, by: By) -> None:
    """Delete a report with its comments and links. The runs stay."""
    pages.delete_report(session, report_id, by)


@router.get("/reports/{report_id}/content")
def get_report_content(report_id: Id, session: Snapshot) -> ReportContentOut:
    """Return what the blocks show: the values that were kept if the report is frozen, else the
    current ones."""
    return pages.content_of(session, pages.get_report(session, report_id), clock.now())


@router.post("/reports/{report_id}:freeze")
def freeze_report(report_id: Id, db: Db, by: By, config: Config) -> ReportDetail:
    """Keep the values that the report shows now, whatever becomes of the runs."""
    with db.snapshot() as session:
        row = pages.get_report(session, report_id)
        version, content = row.version, pages.content_now(session, row, by.now)
    with db.transaction() as session:
        pages.freeze(session, report_id, version, content, by)
        session.flush()
        return pages.get_detail(session, report_id, by.principal, links_on=config.report_links)


@router.post("/reports/{report_id}:unfreeze")
def unfreeze_report(report_id: Id, session: Write, by: By, config: Config) -> ReportDetail:
    """Show current values again, and drop those that were kept."""
    pages.unfreeze(session, report_id, by)
    session.flush()
    return pages.get_detail(session, report_id, by.principal, links_on=config.report_links)


@router.get(
    "/reports/{report_id}/export",
    response_class=Response,
    responses={200: {"content": {form: {} for form in exporting.MEDIA_TYPES.values()}}},
)
def export_report(
    report_id: Id,
    db: Db,
    config: Config,
    format: Annotated[
        Literal["md", "html", "latex", "csv"],
        Query(description="latex and csv have the tables alone."),
    ] = "md",
) -> Response:
    """Download a report as one file: Markdown, HTML that loads and runs nothing, its tables in LaTeX
    for booktabs, or its tables as CSV."""
    with db.snapshot() as session:
        row = pages.get_report(session, report_id)
        content = pages.content_of(session, row, clock.now())
        text = exporting.export(row.title, content, format, config.browser_url())
    ending = "tex" if format == "latex" else format
    return Response(
        text,
        media_type=exporting.MEDIA_TYPES[format],
        headers={"Content-Disposition": f'attachment; filename="report-{report_id}.{ending}"'},
    )


@router.get("/reports/{report_id}/comments")
def list_report_comments(
    report_id: Id, session: Read, me: Me, cursor: Cursor = None, limit: Limit = 100
) -> Page[ReportCommentOut]:
    """List the comments of a report, the oldest first."""
    return pages.list_comments(session, report_id, me, cursor=cursor, limit=limit)


@router.post("/reports/{report_id}/comments", status_code=201)
def create_report_comment(
    report_id: Id, body: ReportCommentIn, session: Write, by: By
) -> ReportCommentOut:
    """Comment a report, in Markdown."""
    return pages.add_comment(session, report_id, body.text, by)


@router.delete("/reports/{report_id}/comments/{comment_id}", status_code=204)
def delete_report_comment(report_id: Id, comment_id: Id, session: Write, by: By) -> None:
    """Delete a comment."""
    pages.delete_comment(session, report_id, comment_id, by)


@router.get("/reports/{report_id}/links")
def list_report_links(report_id: Id, session: Read, by: By) -> list[ReportLinkOut]:
    """List the links to a report that still work, without their secrets."""
    return links.list_links(session, report_id, by)


@router.post("/reports/{report_id}/links", status_code=201)
def create_report_link(
    report_id: Id, body: ReportLinkIn, session: Write, by: By, config: Config
) -> ReportLinkCreated:
    """Create a link that shows the report to whoever has it, without an account, until it expires.
    The server must have MUSTER_REPORT_LINKS."""
    row, secret = links.create_link(session, report_id, body.days, by, links_on=config.report_links)
    return ReportLinkCreated.from_row(
        row, url=f"{config.browser_url()}/shared-report#report={secret}"
    )


@router.delete("/reports/{report_id}/links/{link_id}", status_code=204)
def delete_report_link(report_id: Id, link_id: Id, session: Write, by: By) -> None:
    """End a link at once."""
    links.delete_link(session, report_id, link_id, by)


@router.post("/shared-report")
def open_report_link(
    body: ReportTokenIn, request: Request, db: Db, config: Config, addr: RemoteAddr
) -> SharedReportOut:
    """Return what the report of a link shows. Attempts are limited like those to sign in."""
    sign_in_limits(request).count(addr)
    now = clock.now()
    try:
        with db.transaction() as session:
            report_id, expires_at = links.open_link(
                session, body.token, links_on=config.report_links, remote_addr=addr, now=now
            )
        with db.snapshot() as session:
            return links.shared(session, report_id, expires_at, now)
    except NotSignedIn:
        note_refusal(request, "auth.link_refused", "report")
        raise
