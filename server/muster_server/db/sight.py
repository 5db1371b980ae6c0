"""What a caller must not see is left out of everything that is read for them, here and nowhere else.

While `hiding` is in force, every query of mapped classes leaves out the hidden projects and whatever
belongs to them, so that routes, lists, counts, exports and searches find as little of it as of what
does not exist. Queries of tables without their classes, which agents and the scheduler use, see
everything, and so does what runs outside a request.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from sqlalchemy import BindParameter, ColumnElement, Table, and_, bindparam, event, or_, select
from sqlalchemy.orm import Mapper, ORMExecuteState, Session
from sqlalchemy.orm.interfaces import CriteriaOption
from sqlalchemy.orm.util import LoaderCriteriaOption

from .models import Base, ExperimentRow, ModelRow, ProjectRow, TrialRow

SEES_ALL = {"muster_sees_all": True}
"""Execution options of a query that decides about everybody's projects, such as whether a name is
taken. What it finds must not be shown."""
OWNERS = ("project_id", "owner_project_id", "project", "experiment_id", "trial_id", "model_id")
"""Columns that say what a row belongs to; `project` is the name of one."""

_hidden: ContextVar[frozenset[int]] = ContextVar("hidden_projects", default=frozenset())
_is_limited: ContextVar[bool] = ContextVar("is_limited", default=False)


@contextmanager
def hiding(project_ids: frozenset[int], *, is_limited: bool = False) -> Iterator[None]:
    """Hide these projects from what is read in this block, in the threads that it calls as well.

    is_limited: whether this is for a token of the remaining projects, for which no other can come to be.
    """
    tokens = _hidden.set(project_ids), _is_limited.set(is_limited)
    try:
        yield
    finally:
        _hidden.reset(tokens[0])
        _is_limited.reset(tokens[1])


def is_hidden(project_id: int) -> bool:
    """Return whether a project is hidden in this block."""
    return project_id in _hidden.get()


def may_create_projects() -> bool:
    """Return whether a project that does not exist may be created in this block."""
    return not _is_limited.get()


@event.listens_for(Session, "do_orm_execute")
def _leave_out(state: ORMExecuteState) -> None:
    if not _hidden.get() or not state.is_select or state.is_column_load:
        return
    if not state.is_relationship_load and not state.execution_options.get("muster_sees_all"):
        state.statement = state.statement.options(_SIGHT)


class _Rule(LoaderCriteriaOption):
    """Criteria of a class that hold for its aliases, too: SQLAlchemy adapts those of a WHERE clause,
    and leaves those of an outer join as they are."""

    def _resolve_where_criteria(self, ext_info: Any) -> ColumnElement[bool]:
        found = super()._resolve_where_criteria(ext_info)
        return ext_info._adapt_element(found) if ext_info.is_aliased_class else found


class _Sight(CriteriaOption):
    """All rules as one option of a statement. Which projects are hidden is a parameter, so a statement is
    compiled once for all callers."""

    inherit_cache = True
    _cache_key_traversal: list[Any] = []  # as its base declares it

    def process_compile_state(self, compile_state: Any) -> None:
        self.get_global_criteria(compile_state.global_attributes)

    def get_global_criteria(self, attributes: dict[str, Any]) -> None:
        for rule in _rules():
            rule.get_global_criteria(attributes)


_SIGHT = _Sight()


@functools.cache
def _rules() -> tuple[_Rule, ...]:
    """Return what leaves out the rows of hidden projects, for every class that has an owner."""
    return tuple(
        _Rule(mapper.class_, _visible(mapper.class_, owners), include_aliases=True)
        for mapper in Base.registry.mappers
        if (owners := _owners(mapper))
    )


def _owners(mapper: Mapper[Any]) -> tuple[str, ...]:
    """Return the attributes that say what a row of a class belongs to. One that every row has decides
    alone: a model's version is the model's, whatever made it."""
    if mapper.class_ is ProjectRow:
        return ("id",)
    owners = tuple(name for name in OWNERS if name in mapper.columns)
    required = tuple(name for name in owners if not mapper.columns[name].nullable)
    return required[:1] or owners


def _visible(cls: type[Base], owners: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition for rows that are not hidden."""
    found = [(name, getattr(cls, name)) for name in owners]
    return and_(*(or_(of.is_(None), ~_is_hidden(name, of)) for name, of in found))


def _is_hidden(name: str, owner: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return whether what an attribute of this name names belongs to a hidden project."""
    projects, experiments, trials, models = (
        cast(Table, row.__table__).alias()
        for row in (ProjectRow, ExperimentRow, TrialRow, ModelRow)
    )
    hidden: BindParameter[list[int]] = bindparam(
        "hidden_projects", callable_=lambda: sorted(_hidden.get()), expanding=True
    )
    match name:
        case "id" | "project_id" | "owner_project_id":
            return owner.in_(hidden)
        case "project":
            named = select(projects.c.id).where(projects.c.name == owner, projects.c.id.in_(hidden))
        case "model_id":
            named = select(models.c.id).where(models.c.id == owner, models.c.project_id.in_(hidden))
        case "experiment_id":
            named = select(experiments.c.id).where(
                experiments.c.id == owner, experiments.c.project_id.in_(hidden)
            )
        case _:
            # Not a join, which is adapted to the query around it and becomes ambiguous.
            named = select(trials.c.id).where(
                trials.c.id == owner,
                trials.c.experiment_id == experiments.c.id,
                experiments.c.project_id.in_(hidden),
            )
    return named.exists()
