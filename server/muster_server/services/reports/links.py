"""Links that show a report to people without an account, until they expire."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.models import ReportLinkRow, ReportRow
from muster_server.errors import Conflict, Forbidden, NotFound, NotSignedIn
from muster_server.schemas.reports import ReportLinkOut, SharedReportOut
from muster_server.security.tokens import hash_secret, mint

from ..core import audit
from ..core.callers import Caller
from .pages import content_of, manageable, note

LINKS_MAX = 20
"""Links of a report that have not expired."""


def list_links(session: Session, report_id: int, by: Caller) -> list[ReportLinkOut]:
    """Return the links that still work, the newest first. Raises NotFound and Forbidden."""
    manageable(session, report_id, by.principal, lock=False)
    query = (
        select(ReportLinkRow)
        .where(ReportLinkRow.report_id == report_id, ReportLinkRow.expires_at > by.now)
        .order_by(ReportLinkRow.id.desc())
    )
    return [ReportLinkOut.from_row(row) for row in session.scalars(query)]


def create_link(
    session: Session, report_id: int, days: int, by: Caller, *, links_on: bool
) -> tuple[ReportLinkRow, str]:
    """Return a new link and its secret, which nobody can ask for again. Raises NotFound, Forbidden
    and Conflict."""
    report = manageable(session, report_id, by.principal)
    if not links_on:
        raise Forbidden(
            "reports.links_off",
            "This server does not show reports to people without an account.",
            hint="An administrator can allow it with MUSTER_REPORT_LINKS=true.",
        )
    alive = (ReportLinkRow.report_id == report_id) & (ReportLinkRow.expires_at > by.now)
    num = session.scalar(select(func.count(ReportLinkRow.id)).where(alive)) or 0
    if num >= LINKS_MAX:
        raise Conflict(
            "reports.too_many_links",
            f"Report {report_id} has {num} links, the maximum.",
            hint="Delete one that is not needed.",
        )
    secret = mint("once")
    row = ReportLinkRow(
        report_id=report_id,
        secret_hash=hash_secret(secret),
        created_by=by.principal.name,
        created_at=by.now,
        expires_at=by.now + dt.timedelta(days=days),
    )
    session.add(row)
    session.flush()
    note(session, "link_created", report, by, expires_at=row.expires_at.isoformat())
    return row, secret


def delete_link(session: Session, report_id: int, link_id: int, by: Caller) -> None:
    """End a link at once. Raises NotFound and Forbidden."""
    report = manageable(session, report_id, by.principal)
    row = session.get(ReportLinkRow, link_id)
    if row is None or row.report_id != report_id:
        raise NotFound("reports.no_link", f"Report {report_id} has no link {link_id}.")
    note(session, "link_deleted", report, by)
    session.delete(row)


def open_link(
    session: Session, token: str, *, links_on: bool, remote_addr: str, now: dt.datetime
) -> tuple[int, dt.datetime]:
    """Return which report a link shows, and when it expires. Raises NotSignedIn for a secret that is none,
    has expired or was deleted, and for all while links are off."""
    link = session.scalar(
        select(ReportLinkRow).where(ReportLinkRow.secret_hash == hash_secret(token))
    )
    if link is None or link.expires_at <= now or not links_on:
        raise bad_link()
    report = session.get_one(ReportRow, link.report_id)
    link.last_used_at = now
    audit.record(
        session,
        "reports.link_opened",
        f"report:{report.id}",
        audit.Author(f"link:{link.id}", now, remote_addr),
        {"title": report.title},
    )
    return report.id, link.expires_at


def shared(
    session: Session, report_id: int, expires_at: dt.datetime, now: dt.datetime
) -> SharedReportOut:
    """Return what a report shows to whoever has a link. Raises NotSignedIn if it was deleted meanwhile."""
    report = session.get(ReportRow, report_id)
    if report is None:
        raise bad_link()
    return SharedReportOut(
        title=report.title,
        frozen_at=report.frozen_at,
        expires_at=expires_at,
        content=content_of(session, report, now),
    )


def bad_link() -> NotSignedIn:
    """Return the error of a link that shows nothing."""
    return NotSignedIn(
        "reports.bad_link",
        "This link is not valid: deleted, expired or mistyped.",
        hint="Ask for a new link.",
    )
