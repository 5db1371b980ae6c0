"""Panels that people add to the charts of an experiment, or of every experiment of a project."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow, PanelRow, ProjectRow, UserRow
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.schemas.accounts.panels import PanelIn, PanelOut, PanelPatch
from muster_server.schemas.base import Page
from muster_server.security.principal import Principal

from . import lookup
from .ownership import is_in_charge

MAX_PANELS = 100
"""Maximum number of panels of an experiment, and of a project."""


def list_panels(
    session: Session, principal: Principal, *, project: str | None, experiment_id: int | None
) -> Page[PanelOut]:
    """Return the panels of an experiment and of its project, or of a project alone.

    Those of the experiment come first, each list by position. At most 2 * MAX_PANELS, so one page
    holds them all. Raises NotFound for an experiment and InvalidRequest for a project that does not
    exist.
    """
    if experiment_id is not None:
        experiment = lookup.get_experiment(session, experiment_id)
        of_project = PanelRow.project_id == experiment.project_id
        where = or_(
            PanelRow.experiment_id == experiment_id, of_project & PanelRow.experiment_id.is_(None)
        )
    else:
        where = (PanelRow.project_id == _project(session, project)) & (
            PanelRow.experiment_id.is_(None)
        )
    order = (PanelRow.experiment_id.is_(None), PanelRow.position, PanelRow.id)
    rows = session.execute(_query().where(where).order_by(*order))
    return Page(items=[_out(principal, *row) for row in rows], next=None)


def create_panel(
    session: Session, principal: Principal, body: PanelIn, now: dt.datetime
) -> PanelOut:
    """Add a panel behind the others.

    Raises InvalidRequest, Conflict if there are too many, and NotFound for the experiment.
    """
    if body.experiment_id is not None:
        project_id = lookup.get_experiment(session, body.experiment_id).project_id
    else:
        project_id = _project(session, body.project)
    _require_content(body.kind, body.expressions, body.x, body.text)
    num = _count(session, project_id, body.experiment_id)
    if num >= MAX_PANELS:
        raise Conflict(
            "panels.too_many",
            f"There are {num} panels here, the maximum.",
            hint="Delete some of them.",
        )
    row = PanelRow(
        project_id=project_id,
        experiment_id=body.experiment_id,
        owner_id=principal.user_id,
        position=num,
        title=body.title,
        kind=body.kind,
        expressions=list(body.expressions),
        x=body.x,
        text=body.text,
        created_at=now,
        changed_at=now,
    )
    session.add(row)
    session.flush()
    return _one(session, principal, row.id)


def update_panel(
    session: Session, principal: Principal, panel_id: int, body: PanelPatch, now: dt.datetime
) -> PanelOut:
    """Change a panel. Raises NotFound, Forbidden and InvalidRequest."""
    row = _changeable(session, principal, panel_id)
    for field in ("title", "kind", "text"):
        given = getattr(body, field)
        if given is not None:
            setattr(row, field, given)
    if body.expressions is not None:
        row.expressions = list(body.expressions)
    if "x" in body.model_fields_set:
        row.x = body.x
    _require_content(row.kind, row.expressions, row.x, row.text)
    if body.position is not None:
        _move(session, row, body.position)
    row.changed_at = now
    session.flush()
    return _one(session, principal, panel_id)


def delete_panel(session: Session, principal: Principal, panel_id: int) -> None:
    """Delete a panel; those behind it move up. Raises NotFound and Forbidden."""
    row = _changeable(session, principal, panel_id)
    siblings = [one for one in _siblings(session, row) if one is not row]
    session.delete(row)
    _number(siblings)


# ---------------------------------------------------------------- parts


def _query() -> Any:
    return (
        select(PanelRow, ProjectRow.name, UserRow.username, ExperimentRow.owner_id)
        .join(ProjectRow, ProjectRow.id == PanelRow.project_id)
        .join(UserRow, UserRow.id == PanelRow.owner_id, isouter=True)
        .join(ExperimentRow, ExperimentRow.id == PanelRow.experiment_id, isouter=True)
    )


def _one(session: Session, principal: Principal, panel_id: int) -> PanelOut:
    return _out(principal, *session.execute(_query().where(PanelRow.id == panel_id)).one())


def _out(
    principal: Principal,
    row: PanelRow,
    project: str,
    owner: str | None,
    experiment_owner_id: int | None,
) -> PanelOut:
    may_change = _may_change(principal, row, experiment_owner_id)
    return PanelOut.from_row(row, project=project, owner=owner, may_change=may_change)


def _may_change(principal: Principal, row: PanelRow, experiment_owner_id: int | None) -> bool:
    if principal.role == "viewer":
        return False
    return is_in_charge(principal, row.owner_id) or (
        row.experiment_id is not None and is_in_charge(principal, experiment_owner_id)
    )


def _changeable(session: Session, principal: Principal, panel_id: int) -> PanelRow:
    row = session.get(PanelRow, panel_id, with_for_update=True)
    if row is None:
        raise NotFound("panels.not_found", f"There is no panel {panel_id}.")
    experiment = session.get(ExperimentRow, row.experiment_id) if row.experiment_id else None
    if not _may_change(principal, row, experiment.owner_id if experiment else None):
        raise Forbidden(
            "panels.not_yours",
            "The user who added a panel, the owner of its experiment and administrators may change "
            "it.",
            hint="Add a panel of your own.",
        )
    return row


def _project(session: Session, name: str | None) -> int:
    if name is None:
        raise InvalidRequest(
            "panels.no_project",
            "A panel belongs to an experiment or to a project.",
            fields=[FieldProblem("project", "or experiment_id is needed", "default")],
        )
    found = session.scalar(select(ProjectRow.id).where(ProjectRow.name == name))
    if found is None:
        raise InvalidRequest(
            "panels.no_project",
            "There is no such project to add a panel to.",
            fields=[FieldProblem("project", "is no project", "default")],
        )
    return found


def _require_content(kind: str, expressions: list[str], x: str | None, text: str) -> None:
    if kind == "mark":
        # Numbers up to here are exact in a browser.
        if x is None or not (x.isascii() and x.isdecimal() and int(x) < 2**53):
            raise InvalidRequest(
                "panels.incomplete",
                "A mark needs the step at which it stands.",
                fields=[FieldProblem("x", f"is no step: {(x or '')[:40]!r}", "1200")],
            )
        return
    if kind == "markdown" and not text.strip():
        raise InvalidRequest(
            "panels.incomplete",
            "A Markdown panel needs a text.",
            fields=[FieldProblem("text", "is empty", "## Notes")],
        )
    if kind != "markdown" and not expressions:
        raise InvalidRequest(
            "panels.incomplete",
            f"A panel of kind {kind!r} needs something to show.",
            fields=[FieldProblem("expressions", "is empty", "train/loss")],
        )


def _of(project_id: int, experiment_id: int | None) -> Any:
    same = PanelRow.project_id == project_id
    if experiment_id is None:
        return same & PanelRow.experiment_id.is_(None)
    return same & (PanelRow.experiment_id == experiment_id)


def _count(session: Session, project_id: int, experiment_id: int | None) -> int:
    counted = select(func.count()).select_from(PanelRow).where(_of(project_id, experiment_id))
    return session.scalar(counted) or 0


def _siblings(session: Session, row: PanelRow) -> list[PanelRow]:
    query = select(PanelRow).where(_of(row.project_id, row.experiment_id))
    return list(session.scalars(query.order_by(PanelRow.position, PanelRow.id)))


def _move(session: Session, row: PanelRow, position: int) -> None:
    others = [one for one in _siblings(session, row) if one is not row]
    others.insert(min(position, len(others)), row)
    _number(others)


def _number(rows: list[PanelRow]) -> None:
    for position, row in enumerate(rows):
        row.position = position
