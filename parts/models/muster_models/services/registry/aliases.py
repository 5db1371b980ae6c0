"""Aliases: names such as `production` that move from version to version, and who moved them why."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from muster_models.schemas.registry import ModelAliasMoveOut, ModelAliasOut
from muster_server.db.models import ModelAliasMoveRow, ModelAliasRow, ModelRow, ModelVersionRow
from muster_server.errors import Conflict, FieldProblem, InvalidRequest, NotFound
from muster_server.schemas.base import Page
from muster_server.services.core.callers import Caller
from muster_server.services.core.events import add_event
from muster_server.services.core.paging import read_page

from .models import find_model, find_version, record, renewed, require_model

ALIASES_MAX = 50
"""Most aliases of one model."""
RESERVED = frozenset({"latest"})


def of_model(session: Session, model_id: int) -> list[ModelAliasOut]:
    """Return the aliases of a model, by name."""
    rows = session.execute(
        select(ModelAliasRow, ModelVersionRow.number)
        .join(ModelVersionRow, ModelVersionRow.id == ModelAliasRow.version_id)
        .where(ModelAliasRow.model_id == model_id)
        .order_by(ModelAliasRow.name)
    )
    return [ModelAliasOut.from_row(row, version=number) for row, number in rows]


def version_of(session: Session, name: str, alias: str) -> tuple[ModelRow, ModelVersionRow]:
    """Return the version that an alias names now. Raises NotFound."""
    model = find_model(session, name)
    found = session.scalar(
        select(ModelVersionRow)
        .join(ModelAliasRow, ModelAliasRow.version_id == ModelVersionRow.id)
        .where(ModelAliasRow.model_id == model.id, ModelAliasRow.name == alias)
    )
    if found is None:
        known = [each.name for each in of_model(session, model.id)]
        hint = f"It has {', '.join(known)}." if known else "It has no alias yet."
        raise NotFound("models.no_alias", f"Model {name} has no alias {alias[:32]!r}.", hint=hint)
    return model, found


def set_alias(
    session: Session, name: str, alias: str, number: int, caller: Caller, *, reason: str
) -> ModelAliasOut:
    """Let an alias name a version. Raises NotFound, Forbidden, InvalidRequest and Conflict."""
    model = find_model(session, name, lock=True)
    require_model(session, caller.principal, model)
    version = find_version(session, model, number)
    return move(session, model, alias, version, caller, by=caller.principal.actor, reason=reason)


def move(
    session: Session,
    model: ModelRow,
    alias: str,
    version: ModelVersionRow,
    caller: Caller,
    *,
    by: str,
    reason: str,
) -> ModelAliasOut:
    """Move an alias of a model, which is locked. by: who or what moves it. Raises InvalidRequest and
    Conflict."""
    if alias in RESERVED:
        raise InvalidRequest(
            "models.reserved_alias",
            f"{alias!r} is no alias: the newest version is the one with the highest number.",
            fields=[FieldProblem("alias", "must be another name, such as candidate")],
        )
    if version.state != "ready":
        raise Conflict(
            "models.not_ready",
            f"Version {version.number} of model {model.name} is "
            + ("still being made." if version.state == "making" else f"failed: {version.message}."),
            hint="Wait until it is ready." if version.state == "making" else None,
        )
    row = session.get(ModelAliasRow, (model.id, alias))
    previous = None
    if row is not None:
        previous = session.get_one(ModelVersionRow, row.version_id).number
        if previous == version.number:
            return ModelAliasOut.from_row(row, version=previous)
        row.version_id = version.id
    else:
        num = session.scalar(
            select(func.count())
            .select_from(ModelAliasRow)
            .where(ModelAliasRow.model_id == model.id)
        )
        if (num or 0) >= ALIASES_MAX:
            raise Conflict(
                "models.too_many_aliases",
                f"Model {model.name} has {num} aliases, the maximum.",
                hint="Remove one that nobody uses.",
            )
        row = ModelAliasRow(model_id=model.id, name=alias, version_id=version.id)
        session.add(row)
    row.moved_at, row.moved_by, row.reason = caller.now, by[:160], reason[:500]
    _note(session, model, alias, version.number, previous, caller, by=by, reason=reason)
    if version.experiment_id is not None:
        add_event(
            session,
            "model.alias_moved",
            f"Version {version.number} of model {model.name} is {alias} now"
            f"{f', after version {previous}' if previous is not None else ''}, set by {by}"
            f"{f': {reason}' if reason else ''}.",
            now=caller.now,
            experiment_id=version.experiment_id,
            trial_id=version.trial_id,
            data={"model": model.name, "version": version.number, "alias": alias},
        )
    return ModelAliasOut.from_row(row, version=version.number)


def remove_alias(session: Session, name: str, alias: str, caller: Caller, *, reason: str) -> None:
    """Raises NotFound and Forbidden."""
    model = find_model(session, name, lock=True)
    require_model(session, caller.principal, model)
    version_of(session, name, alias)
    drop(session, model, alias, caller, reason=reason)


def drop(session: Session, model: ModelRow, alias: str, caller: Caller, *, reason: str) -> None:
    """Remove an alias of a model, which is locked and has it."""
    row = session.get_one(ModelAliasRow, (model.id, alias))
    previous = session.get_one(ModelVersionRow, row.version_id).number
    session.delete(row)
    by = caller.principal.actor
    _note(session, model, alias, None, previous, caller, by=by, reason=reason)


def history(
    session: Session, name: str, *, alias: str | None, cursor: str | None, limit: int
) -> Page[ModelAliasMoveOut]:
    """Return one page of the moves of a model's aliases, newest first. Raises NotFound."""
    model = find_model(session, name)
    query = select(ModelAliasMoveRow).where(ModelAliasMoveRow.model_id == model.id)
    if alias is not None:
        query = query.where(ModelAliasMoveRow.alias == alias)
    rows, following = read_page(
        session, query, ModelAliasMoveRow.id, cursor=cursor, limit=limit, newest_first=True
    )
    items = [ModelAliasMoveOut.from_row(row, version=row.number) for row in rows]
    return Page(items=items, next=following)


def _note(
    session: Session,
    model: ModelRow,
    alias: str,
    number: int | None,
    previous: int | None,
    caller: Caller,
    *,
    by: str,
    reason: str,
) -> None:
    session.add(
        ModelAliasMoveRow(
            model_id=model.id,
            alias=alias,
            number=number,
            previous=previous,
            at=caller.now,
            by=by[:160],
            reason=reason[:500],
        )
    )
    renewed(model, caller.now)
    session.flush()
    action = "models.alias_moved" if number is not None else "models.alias_removed"
    detail = {"alias": alias, "version": number, "previous": previous, "reason": reason[:500]}
    record(session, caller, action, model, detail)
