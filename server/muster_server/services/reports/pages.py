"""Reports as people keep them: created, changed, frozen, commented and deleted."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_server.db.models import (
    ExperimentRow,
    ProjectRow,
    ReportCommentRow,
    ReportRow,
    TrialRow,
    UserRow,
)
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.schemas.base import Page
from muster_server.schemas.reports import (
    Block,
    MarkdownBlock,
    ReportCommentOut,
    ReportContentOut,
    ReportDetail,
    ReportIn,
    ReportOut,
    ReportPatch,
    TableBlock,
)
from muster_server.security.principal import Principal

from ..core import access, lookup
from ..core.callers import Caller, record
from ..core.ownership import is_in_charge
from ..core.paging import read_page_of_tuples
from .content import CONTENT_BYTES_MAX, check_columns, is_cut, read_content

REPORTS_MAX = 1_000
"""Reports of a project."""
REPORT_BYTES_MAX = 512 * 1024
"""All blocks of a report, as JSON."""
COMMENTS_MAX = 500
"""Comments of a report."""

_BLOCKS = TypeAdapter(list[Block])


def list_reports(
    session: Session, *, project: str | None, cursor: str | None, limit: int
) -> Page[ReportOut]:
    """Return the reports that the caller sees, the newest first. Raises NotFound for the project."""
    query = _query()
    if project is not None:
        query = query.where(ReportRow.project_id == lookup.get_project(session, project).id)
    rows, following = read_page_of_tuples(
        session, query, ReportRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    items = [ReportOut.from_row(row, project=name, owner=owner) for row, name, owner in rows]
    return Page(items=items, next=following)


def create_report(session: Session, body: ReportIn, by: Caller) -> ReportRow:
    """Add a report to a project. Raises NotFound, Forbidden, InvalidRequest and Conflict."""
    project = lookup.get_project(session, body.project)
    access.require(session, project, "submit", by.principal)
    count = select(func.count(ReportRow.id)).where(ReportRow.project_id == project.id)
    num = session.scalar(count) or 0
    if num >= REPORTS_MAX:
        raise Conflict(
            "reports.too_many",
            f"Project {project.name} has {num:,} reports, the maximum.",
            hint="Delete some of them.",
        )
    row = ReportRow(
        project_id=project.id,
        owner_id=by.principal.user_id,
        title=body.title,
        blocks=_checked(session, project, body.blocks),
        version=1,
        created_at=by.now,
        changed_at=by.now,
    )
    session.add(row)
    session.flush()
    note(session, "created", row, by)
    return row


def get_detail(
    session: Session, report_id: int, principal: Principal, *, links_on: bool
) -> ReportDetail:
    """Return a report with its blocks. Raises NotFound."""
    row = get_report(session, report_id)
    _, name, owner = session.execute(_query().where(ReportRow.id == report_id)).one()
    return ReportDetail.from_row(
        row,
        project=name,
        owner=owner,
        blocks=blocks_of(row),
        may_change=_may(session, "submit", row, principal),
        may_manage=_may_manage(session, row, principal),
        links_on=links_on,
    )


def change_report(session: Session, report_id: int, body: ReportPatch, by: Caller) -> ReportRow:
    """Change its title or blocks. Raises NotFound, Forbidden, InvalidRequest, and Conflict when it is
    frozen or was changed since the version that the change is made to."""
    row = changeable(session, report_id, by.principal)
    _require_version(row, body.version)
    if row.frozen_at is not None:
        raise Conflict(
            "reports.frozen",
            f"Report {row.id} is frozen, so it cannot be changed.",
            hint="Unfreeze it first; it then shows current values again.",
        )
    row.title = body.title or row.title
    if body.blocks is not None:
        row.blocks = _checked(session, session.get_one(ProjectRow, row.project_id), body.blocks)
    _renew(row, by.now)
    note(session, "changed", row, by)
    return row


def delete_report(session: Session, report_id: int, by: Caller) -> None:
    """Delete a report with its comments and links. Raises NotFound and Forbidden."""
    row = manageable(session, report_id, by.principal)
    note(session, "deleted", row, by)
    session.delete(row)


def freeze(
    session: Session, report_id: int, version: int, content: ReportContentOut, by: Caller
) -> ReportRow:
    """Keep what a version of it shows. Frozen again, it takes the values of then.

    content: read before, and not in the transaction, which others wait for.
    Raises NotFound, Forbidden, and Conflict if that is too much to keep or no longer the version.
    """
    row = changeable(session, report_id, by.principal)
    _require_version(row, version)
    if is_cut(content):
        raise Conflict(
            "reports.too_large",
            f"Report {row.id} shows more than {CONTENT_BYTES_MAX // 2**20} MiB, the most that can be "
            "frozen.",
            hint="Show fewer runs, metrics or media, or split it into several reports.",
        )
    row.frozen = content.model_dump_json().encode()
    row.frozen_at = content.at
    _renew(row, by.now)
    note(session, "frozen", row, by)
    return row


def unfreeze(session: Session, report_id: int, by: Caller) -> ReportRow:
    """Show current values again; the kept ones are dropped. Raises NotFound and Forbidden."""
    row = changeable(session, report_id, by.principal)
    if row.frozen_at is not None:
        row.frozen = row.frozen_at = None
        _renew(row, by.now)
        note(session, "unfrozen", row, by)
    return row


def content_of(session: Session, row: ReportRow, now: dt.datetime) -> ReportContentOut:
    """Return what a report shows: what was kept if it is frozen, else the values of now."""
    if row.frozen is not None:
        return ReportContentOut.model_validate_json(row.frozen)
    return content_now(session, row, now)


def content_now(session: Session, row: ReportRow, now: dt.datetime) -> ReportContentOut:
    """Return what its blocks show of the values of now."""
    return read_content(session, row.project_id, blocks_of(row), now)


def list_comments(
    session: Session, report_id: int, principal: Principal, *, cursor: str | None, limit: int
) -> Page[ReportCommentOut]:
    """Return the comments of a report, the oldest first. Raises NotFound."""
    report = get_report(session, report_id)
    query = (
        select(ReportCommentRow, UserRow.username)
        .join(UserRow, UserRow.id == ReportCommentRow.author_id, isouter=True)
        .where(ReportCommentRow.report_id == report_id)
    )
    rows, following = read_page_of_tuples(
        session, query, ReportCommentRow.id, cursor=cursor, limit=limit
    )
    may_manage = _may_manage(session, report, principal)
    items = [
        ReportCommentOut.from_row(
            row, author=author, may_delete=may_manage or is_in_charge(principal, row.author_id)
        )
        for row, author in rows
    ]
    return Page(items=items, next=following)


def add_comment(session: Session, report_id: int, text: str, by: Caller) -> ReportCommentOut:
    """Comment a report, frozen or not. Raises NotFound, Forbidden and Conflict."""
    report = changeable(session, report_id, by.principal)
    count = select(func.count(ReportCommentRow.id)).where(ReportCommentRow.report_id == report_id)
    num = session.scalar(count) or 0
    if num >= COMMENTS_MAX:
        raise Conflict(
            "reports.too_many_comments",
            f"Report {report_id} has {num} comments, the maximum.",
            hint="Delete some of them.",
        )
    row = ReportCommentRow(
        report_id=report_id, author_id=by.principal.user_id, text=text, created_at=by.now
    )
    session.add(row)
    session.flush()
    note(session, "commented", report, by)
    author = session.get(UserRow, by.principal.user_id) if by.principal.user_id else None
    return ReportCommentOut.from_row(
        row, author=author.username if author else None, may_delete=True
    )


def delete_comment(session: Session, report_id: int, comment_id: int, by: Caller) -> None:
    """Delete a comment. Its author may, and who may delete the report. Raises NotFound and
    Forbidden."""
    report = get_report(session, report_id)
    row = session.get(ReportCommentRow, comment_id)
    if row is None or row.report_id != report_id:
        raise NotFound("reports.no_comment", f"Report {report_id} has no comment {comment_id}.")
    if not is_in_charge(by.principal, row.author_id):
        manageable(session, report_id, by.principal)
    note(session, "comment_deleted", report, by)
    session.delete(row)


# ---------------------------------------------------------------- parts


def get_report(session: Session, report_id: int, *, lock: bool = False) -> ReportRow:
    """Return a report that the caller sees. Raises NotFound."""
    query = select(ReportRow).where(ReportRow.id == report_id)
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise NotFound("reports.not_found", f"There is no report {report_id}.")
    return row


def changeable(session: Session, report_id: int, principal: Principal) -> ReportRow:
    """Return a report of a project that the caller may submit to, locked. Raises NotFound and
    Forbidden."""
    row = get_report(session, report_id, lock=True)
    access.require(session, session.get_one(ProjectRow, row.project_id), "submit", principal)
    return row


def manageable(
    session: Session, report_id: int, principal: Principal, *, lock: bool = True
) -> ReportRow:
    """Return a report that the caller may delete and make links to: its owner, and maintainers of the
    project. Raises NotFound and Forbidden."""
    row = get_report(session, report_id, lock=lock)
    if not _may_manage(session, row, principal):
        raise Forbidden(
            "reports.not_yours",
            f"Only who created report {report_id}, maintainers of its project and administrators may "
            "do this.",
            hint="Ask one of them.",
        )
    return row


def blocks_of(row: ReportRow) -> list[Block]:
    """Return the blocks of a report."""
    return _BLOCKS.validate_python(row.blocks)


def note(session: Session, action: str, row: ReportRow, by: Caller, **detail: Any) -> None:
    """Add a line about a report to the audit trail."""
    record(session, f"reports.{action}", f"report:{row.id}", by, {"title": row.title, **detail})


def _query() -> Any:
    return (
        select(ReportRow, ProjectRow.name, UserRow.username)
        .join(ProjectRow, ProjectRow.id == ReportRow.project_id)
        .join(UserRow, UserRow.id == ReportRow.owner_id, isouter=True)
    )


def _require_version(row: ReportRow, version: int) -> None:
    if version != row.version:
        raise Conflict(
            "reports.changed",
            f"Report {row.id} has version {row.version}, and the change was made to version {version}.",
            hint="Read it again and repeat the change.",
        )


def _renew(row: ReportRow, now: dt.datetime) -> None:
    row.version += 1
    row.changed_at = now


def _may(session: Session, action: Any, row: ReportRow, principal: Principal) -> bool:
    try:
        access.require(session, session.get_one(ProjectRow, row.project_id), action, principal)
    except (Forbidden, NotFound):
        return False
    return principal.role != "viewer"


def _may_manage(session: Session, row: ReportRow, principal: Principal) -> bool:
    is_own = is_in_charge(principal, row.owner_id) and _may(session, "submit", row, principal)
    return is_own or _may(session, "manage", row, principal)


def _checked(session: Session, project: ProjectRow, blocks: Sequence[Block]) -> list[Any]:
    """Return the blocks as JSON. Raises InvalidRequest, naming the field, for blocks that cannot work."""
    check_columns(blocks)
    problems: list[FieldProblem] = []
    for no, block in enumerate(blocks):
        if isinstance(block, MarkdownBlock):
            continue
        runs, path = block.runs, f"blocks.{no}.runs"
        if not (runs.experiments or runs.trials or runs.labels):
            problems.append(
                FieldProblem(path, "names no runs", "experiments, trials or labels is needed")
            )
        trials = list(runs.trials)
        if isinstance(block, TableBlock) and block.baseline is not None:
            trials.append(block.baseline)
        for kind, ids in (("experiment", runs.experiments), ("trial", trials)):
            if strangers := _elsewhere(session, project, kind, ids):
                problems.append(
                    FieldProblem(
                        f"{path}.{kind}s",
                        f"has {kind} {strangers[0]}, which is not in project {project.name}",
                        "a report shows runs of its own project",
                    )
                )
    if problems:
        raise InvalidRequest(
            "reports.bad_blocks", "The report cannot have these blocks.", fields=problems
        )
    found: list[Any] = _BLOCKS.dump_python(list(blocks), mode="json")
    size = len(json.dumps(found).encode())
    if size > REPORT_BYTES_MAX:
        raise InvalidRequest(
            "reports.bad_blocks",
            f"The blocks take {size / 1024:,.0f} KiB, at most {REPORT_BYTES_MAX // 1024} KiB are "
            "possible.",
            hint="Split the report.",
            fields=[FieldProblem("blocks", "is too large")],
        )
    return found


def _elsewhere(session: Session, project: ProjectRow, kind: str, ids: Sequence[int]) -> list[int]:
    """Return the ids of no experiment or trial of the project, in their order."""
    if kind == "experiment":
        query = select(ExperimentRow.id).where(ExperimentRow.id.in_(ids))
    else:
        query = select(TrialRow.id).join(ExperimentRow).where(TrialRow.id.in_(ids))
    inside = set(session.scalars(query.where(ExperimentRow.project_id == project.id)))
    return [one for one in ids if one not in inside]
