"""Which experiments a list or a bulk operation is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement

from muster_server.db.models import ExperimentRow, ProjectRow, UserRow
from muster_server.errors import FieldProblem, InvalidRequest

from .columns import where


@dataclass(frozen=True, kw_only=True)
class ExperimentFilter:
    """All conditions together; those left out let everything through."""

    states: Sequence[str] = ()
    project: str | None = None
    labels: Sequence[str] = ()
    """ "team=vision": with this value. "urgent": with any."""
    owner: str | None = None
    """Name of the user who owns the experiment; None matches any owner."""
    text: str | None = None
    """Part of the name, whatever its case."""
    archived: Literal["exclude", "include", "only"] = "exclude"
    where: Sequence[str] = ()
    """Conditions on columns: "metric.last.val/loss < 0.5" (domain.experiments.columns)."""

    @property
    def selects_everything(self) -> bool:
        """Whether it leaves out nothing but archived ones."""
        conditions = (self.states, self.project, self.labels, self.owner, self.text, self.where)
        return not any(conditions) and self.archived != "only"


def conditions(filters: ExperimentFilter) -> list[ColumnElement[bool]]:
    """For a query that joins experiments, projects and (outer) users. Deleted ones never match.

    Raises InvalidRequest for a label or a column that cannot be looked for.
    """
    found: list[ColumnElement[bool]] = [ExperimentRow.deleting_at.is_(None)]
    if filters.states:
        found.append(ExperimentRow.state.in_(filters.states))
    if filters.project is not None:
        found.append(ProjectRow.name == filters.project)
    if filters.owner is not None:
        found.append(UserRow.username == filters.owner)
    if filters.text:
        found.append(ExperimentRow.name.icontains(filters.text, autoescape=True))
    found += [_has_label(label) for label in filters.labels]
    found += where(filters.where)
    if filters.archived == "exclude":
        found.append(ExperimentRow.archived_at.is_(None))
    elif filters.archived == "only":
        found.append(ExperimentRow.archived_at.is_not(None))
    return found


def _has_label(label: str) -> ColumnElement[bool]:
    name, equals, value = label.partition("=")
    if not name or '"' in name or "\\" in name:
        raise InvalidRequest(
            "experiments.bad_label_filter",
            "A label is looked for as name=value, or as its name alone.",
            fields=[FieldProblem("label", "is no label to look for", "team=vision")],
        )
    stored: ColumnElement[str] = ExperimentRow.labels[name].as_string()
    return stored == value if equals else stored.is_not(None)
