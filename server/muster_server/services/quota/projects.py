"""Projects: whose experiments are, how much of the cluster they get, and what they may cost."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from muster.document.guards import GuardSection
from muster_server.db.engine import touch
from muster_server.db.models import (
    AllocationRow,
    BudgetAlertRow,
    DeploymentRow,
    EventRow,
    ExperimentRow,
    ModelRow,
    ProjectMemberRow,
    ProjectRow,
    SpendingRow,
    TrialRow,
)
from muster_server.db.sight import SEES_ALL
from muster_server.domain.guards.wording import explain
from muster_server.domain.messages import count, from_columns
from muster_server.domain.quota.budgets import Spending
from muster_server.domain.scheduling import ProjectView
from muster_server.domain.states import TERMINAL_EXPERIMENT, AllocationState
from muster_server.errors import Conflict, FieldProblem, InvalidRequest
from muster_server.schemas.base import Page, parts_out
from muster_server.schemas.budgets import ProjectIn, ProjectOut, ProjectPatch, QuotaIn, QuotaOut

from ..core import access
from ..core.events import add_event
from ..core.lookup import get_project
from ..core.paging import read_page
from ..documents.guards import read_guards
from . import budgets, spending

DEFAULT_PROJECT = "default"
"""Project of what names none; everybody may submit to it, unless an administrator closes it."""


def find_or_make(
    session: Session, name: str, now: dt.datetime, *, user_id: int | None = None
) -> int:
    """Return the id of the project of this name, which a submission makes when there is none.

    user_id: who becomes its maintainer then. Raises Forbidden if somebody else has just made it.
    """
    query = select(ProjectRow.id).where(ProjectRow.name == name)
    found = session.scalar(query)
    if found is not None:
        return found
    access.require_new(name)
    try:
        with session.begin_nested():
            project = ProjectRow(name=name, created_at=now)
            if name == DEFAULT_PROJECT:
                project.submission = "all"
            session.add(project)
    except IntegrityError:
        access.require_submit(session, name, user_id=user_id)
        return session.scalars(query).one()
    if name != DEFAULT_PROJECT and user_id is not None:
        session.add(
            ProjectMemberRow(
                project_id=project.id, user_id=user_id, role="maintainer", added_at=now,
                added_by="system",
            )
        )  # fmt: skip
    return project.id


def load_projects(session: Session) -> tuple[ProjectView, ...]:
    """Return what the scheduler needs to know about every project."""
    return tuple(
        ProjectView(
            id=row.id,
            name=row.name,
            weight=row.weight,
            quotas={(q["pool"], q["slot_type"]): int(q["slots"]) for q in row.quotas},
        )
        for row in session.execute(
            select(ProjectRow.id, ProjectRow.name, ProjectRow.weight, ProjectRow.quotas).order_by(
                ProjectRow.id
            )
        )
    )


def project_out(session: Session, name: str, now: dt.datetime) -> ProjectOut:
    """Raises NotFound."""
    return _show(session, [get_project(session, name)], now)[0]


def list_projects(
    session: Session, *, cursor: str | None, limit: int, now: dt.datetime
) -> Page[ProjectOut]:
    """Return one page of projects, by name."""
    rows, following = read_page(
        session, select(ProjectRow), ProjectRow.name, cursor=cursor, limit=limit
    )
    return Page(items=_show(session, rows, now), next=following)


def create_project(session: Session, body: ProjectIn, *, actor: str, now: dt.datetime) -> None:
    """Raises Conflict when there is one of that name, and InvalidRequest."""
    taken = select(ProjectRow.id).where(ProjectRow.name == body.name)
    if session.scalar(taken, execution_options=SEES_ALL) is not None:
        raise Conflict(
            "projects.name_taken",
            f"There is a project {body.name!r} already.",
            hint="Change it instead.",
        )
    project = ProjectRow(
        name=body.name,
        weight=body.weight,
        visibility=body.visibility,
        submission=body.submission,
        quotas=_quotas(body.quotas),
        budget=_budget(body, now),
        created_at=now,
    )
    session.add(project)
    session.flush()
    add_event(session, "project.created", f"Made by {actor}.", now=now, project_id=project.id)
    touch(session, f"project:{project.id}", "experiments", "loops")


_RETENTION = {
    "log_retention_days": "its logs are deleted",
    "metric_retention_days": "its long metrics are downsampled",
}


def update_project(
    session: Session, name: str, patch: ProjectPatch, *, actor: str, now: dt.datetime
) -> None:
    """Change what is given. Raises NotFound and InvalidRequest."""
    project = get_project(session, name, lock=True)
    given = patch.model_fields_set
    done: list[str] = []
    if patch.weight is not None and patch.weight != project.weight:
        project.weight = patch.weight
        done.append(f"its weight is {patch.weight:g}")
    if patch.visibility is not None and patch.visibility != project.visibility:
        project.visibility = patch.visibility
        whom = "everybody sees it" if patch.visibility == "all" else "only its members see it"
        done.append(whom)
    if patch.submission is not None and patch.submission != project.submission:
        project.submission = patch.submission
        whom = "everybody" if patch.submission == "all" else "its members"
        done.append(f"it takes submissions of {whom}")
    if patch.quotas is not None and (quotas := _quotas(patch.quotas)) != project.quotas:
        project.quotas = quotas
        done.append(_quotas_sentence(quotas))
    if "budget" in given:
        project.budget = _budget(patch, now)
        done.append("its budget was changed" if project.budget else "it has no budget any more")
    for field, what in _RETENTION.items():
        days = getattr(patch, field)
        if field in given and days != getattr(project, field):
            setattr(project, field, days)
            whose = (
                f"{count(days, 'day')} after the end of a trial" if days else "as the server says"
            )
            done.append(f"{what} {whose}")
    if "guards" in given and (text := _guards(patch.guards or "")) != project.guards:
        project.guards = text
        done.append("its guards were changed" if text else "it has no guards any more")
    if patch.restart_count:
        spent = _spent(session, [project], now)[project.id]
        total = _total(session, project, now)
        project.budget_since, project.budget_base = now, spending.as_base(total)
        session.execute(
            delete(BudgetAlertRow).where(BudgetAlertRow.subject == f"project:{project.id}")
        )
        done.append(f"its count begins anew, after {spent.slot_hours:.4g} slot-hours")
    if not done:
        return
    words = "; ".join(done)
    add_event(
        session,
        "project.changed",
        f"{words[0].upper()}{words[1:]}: set by {actor}.",
        now=now,
        project_id=project.id,
    )
    touch(session, f"project:{project.id}", "experiments", "loops")


def delete_project(session: Session, name: str) -> None:
    """Only one without experiments, models and deployments. Raises NotFound and Conflict."""
    project = get_project(session, name, lock=True)
    num = session.scalar(
        select(func.count())
        .select_from(ExperimentRow)
        .where(ExperimentRow.project_id == project.id)
    )
    if num:
        raise Conflict(
            "projects.in_use",
            f"Project {name!r} has {num:,} experiments.",
            hint="Delete them first; archived ones count too.",
        )
    num_models = session.scalar(
        select(func.count()).select_from(ModelRow).where(ModelRow.project_id == project.id)
    )
    if num_models:
        raise Conflict(
            "projects.in_use",
            f"Project {name!r} has {num_models:,} models.",
            hint="Delete them first: `muster model delete NAME`.",
        )
    deployment = session.scalar(
        select(DeploymentRow.name).where(DeploymentRow.project_id == project.id).limit(1)
    )
    if deployment is not None:
        raise Conflict(
            "projects.in_use",
            f"Project {name!r} has the deployment {deployment}.",
            hint=f"Delete it first: `muster deploy delete {deployment}`.",
        )
    # What deleted experiments of it spent belongs to nobody now; on SQLite its id may come again.
    session.execute(
        update(SpendingRow).where(SpendingRow.project_id == project.id).values(project_id=0)
    )
    session.execute(delete(BudgetAlertRow).where(BudgetAlertRow.subject == f"project:{project.id}"))
    session.execute(delete(EventRow).where(EventRow.project_id == project.id))
    session.delete(project)
    touch(session, "experiments", "loops")


# ---------------------------------------------------------------- helpers


def _quotas(given: Iterable[QuotaIn]) -> list[dict[str, Any]]:
    quotas = {(q.pool, q.slot_type): q.slots for q in given}
    given = list(given)
    if len(quotas) != len(given):
        raise InvalidRequest(
            "projects.quota_twice",
            "A pool and slot type has more than one quota.",
            fields=[FieldProblem("quotas", "has a pool and slot type twice", "keep one of them")],
        )
    return [
        {"pool": pool, "slot_type": slot_type, "slots": slots}
        for (pool, slot_type), slots in sorted(quotas.items())
    ]


def guards_of(project: ProjectRow) -> tuple[GuardSection, ...]:
    """Return the guards of what is submitted to a project. They were checked when they were set."""
    return read_guards(project.guards, None)[0] if project.guards else ()


def _guards(text: str) -> str:
    """Return guards as they are stored. Raises InvalidRequest."""
    if not text.strip():
        return ""
    _, problems = read_guards(text, None)
    if problems:
        raise InvalidRequest("guards.invalid", "The guards are not valid.", fields=problems)
    return text


def _quotas_sentence(quotas: Sequence[dict[str, Any]]) -> str:
    if not quotas:
        return "it has no quotas any more"
    parts = [f"{q['slots']} {q['slot_type']} slots in pool {q['pool']}" for q in quotas]
    return f"it may hold {', '.join(parts)}"


def _budget(body: ProjectIn | ProjectPatch, now: dt.datetime) -> dict[str, Any] | None:
    stored, problem = budgets.store(body.budget, now=now, moments_only=True)
    if problem is not None:
        raise InvalidRequest(
            "projects.invalid_budget", "The budget cannot work as written.", fields=[problem]
        )
    return stored


def _total(session: Session, project: ProjectRow, now: dt.datetime) -> Spending:
    found = spending.of_projects(session, ProjectRow.id == project.id, now)
    return found.get(project.id, Spending())


def _spent(session: Session, rows: Sequence[ProjectRow], now: dt.datetime) -> dict[int, Spending]:
    """Project → what it spent since its count began."""
    totals = spending.of_projects(session, ProjectRow.id.in_([row.id for row in rows]), now)
    return {row.id: spending.since(totals.get(row.id, Spending()), row.budget_base) for row in rows}


def _show(session: Session, rows: Sequence[ProjectRow], now: dt.datetime) -> list[ProjectOut]:
    about = ExperimentRow.project_id.in_([row.id for row in rows])
    counts = _counts(session, about)
    active = _counts(session, about, ExperimentRow.state.not_in(TERMINAL_EXPERIMENT))
    spent = _spent(session, rows, now)
    held = _held(session, about)
    return [
        ProjectOut.from_row(
            row,
            quotas=[
                QuotaOut(**q, slots_held=held.get((row.id, q["pool"], q["slot_type"]), 0))
                for q in row.quotas
            ],
            budget=budgets.budget_out(
                session,
                f"project:{row.id}",
                row.budget,
                spent[row.id],
                since=row.budget_since or row.created_at,
                exhausted=from_columns(row.exhausted_reason, row.exhausted_parts),
                now=now,
            ),
            spending=budgets.spending_out(spent[row.id]),
            counted_since=row.budget_since or row.created_at,
            guards=row.guards,
            guards_explained=[explain(guard) for guard in guards_of(row)],
            num_experiments=counts.get(row.id, 0),
            num_experiments_active=active.get(row.id, 0),
            exhausted_parts=parts_out(from_columns(row.exhausted_reason, row.exhausted_parts)),
        )
        for row in rows
    ]


def _counts(session: Session, *about: ColumnElement[bool]) -> dict[int, int]:
    return dict(
        session.execute(
            select(ExperimentRow.project_id, func.count())
            .where(*about, ExperimentRow.deleting_at.is_(None))
            .group_by(ExperimentRow.project_id)
        ).all()
    )


def _held(session: Session, about: ColumnElement[bool]) -> dict[tuple[int, str, str], int]:
    """(project, pool, slot type) → slots its trials hold now."""
    held: dict[tuple[int, str, str], int] = {}
    rows = session.execute(
        select(ExperimentRow.project_id, ExperimentRow.config, AllocationRow.slots)
        .join(TrialRow, TrialRow.id == AllocationRow.trial_id)
        .join(ExperimentRow, ExperimentRow.id == TrialRow.experiment_id)
        .where(
            AllocationRow.observed.not_in((AllocationState.CLEANED, AllocationState.LOST)), about
        )
    )
    for project_id, config, slots in rows:
        key = (project_id, config.resources.pool, config.resources.slot_type)
        held[key] = held.get(key, 0) + len(slots)
    return held
