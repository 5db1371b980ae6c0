"""Models: creating, finding, changing and deleting them, and who may do so.

Everybody who is signed in sees every model. Members of a project create models in it, and register
versions of files that they may change the experiment of. Only the owner of a model and administrators move its aliases, change it and
delete it; whoever registered a version may also change its notes and tags, and delete it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from muster_models.domain.registry.contents import MODEL_NAME, MODEL_NAME_RULE
from muster_models.schemas.registry import ModelIn, ModelPatch
from muster_server.db.engine import touch
from muster_server.db.models import ModelAliasRow, ModelRow, ModelVersionRow
from muster_server.errors import Conflict, FieldProblem, Forbidden, InvalidRequest, NotFound
from muster_server.security.principal import Principal
from muster_server.services.core import access, callers
from muster_server.services.core.callers import Caller
from muster_server.services.core.lookup import get_project
from muster_server.services.core.ownership import is_by, is_in_charge, say_whose
from muster_server.services.quota.projects import DEFAULT_PROJECT, find_or_make

from .uses import require_unused

VERSIONS_MAX = 10_000
"""Most versions of one model, deleted ones included."""


def find_model(session: Session, name: str, *, lock: bool = False) -> ModelRow:
    """Return the model of this name, locked until the end of the transaction if asked. Raises
    NotFound."""
    query = select(ModelRow).where(ModelRow.name == name).execution_options(populate_existing=lock)
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise NotFound(
            "models.not_found",
            f"There is no model {name[:64]!r}.",
            hint="`muster model list` shows all models.",
        )
    return row


def find_version(session: Session, model: ModelRow, number: int) -> ModelVersionRow:
    """Raises NotFound."""
    row = session.scalar(
        select(ModelVersionRow).where(
            ModelVersionRow.model_id == model.id, ModelVersionRow.number == number
        )
    )
    if row is None:
        gone = number <= model.last_number
        raise NotFound(
            "models.no_version",
            f"Model {model.name} has no version {number}{' any more' if gone else ''}.",
            hint=f"`muster model show {model.name}` lists its versions.",
        )
    return row


def may_change(principal: Principal, model: ModelRow) -> bool:
    return is_in_charge(principal, model.owner_id)


def may_change_version(principal: Principal, model: ModelRow, version: ModelVersionRow) -> bool:
    return may_change(principal, model) or is_by(principal, version.created_by)


def require_model(session: Session, principal: Principal, model: ModelRow) -> None:
    """Raise Forbidden, naming the owner, unless the caller may change the model."""
    if may_change(principal, model):
        return
    whose = say_whose(session, model.owner_id)
    raise Forbidden(
        "models.not_yours",
        f"Model {model.name} {whose}; its owner and administrators may change it.",
        hint="Register your files as a model of your own.",
    )


def record(
    session: Session,
    caller: Caller,
    action: str,
    model: ModelRow,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Add a line about a model to the audit trail, and let pages that show it know."""
    callers.record(session, action, f"model:{model.name}", caller, detail)
    touch(session, "models", f"model:{model.name}")


def create_model(session: Session, body: ModelIn, caller: Caller) -> ModelRow:
    """Raises InvalidRequest for the name and the project, Forbidden if the caller may not submit to the
    project, and Conflict for a name that is taken."""
    require_name(body.name)
    require_project(session, body.project, caller)
    if session.scalar(select(ModelRow.id).where(ModelRow.name == body.name)) is not None:
        raise _taken(body.name)
    model = _new(session, body, caller)
    if model is None:
        raise _taken(body.name)
    return model


def require_project(session: Session, name: str, caller: Caller) -> None:
    """Raise Forbidden unless the caller may submit to a project, if there is one of this name."""
    who = caller.principal
    access.require_submit(session, name, user_id=who.user_id, role=who.role)


def find_or_create(session: Session, name: str, project: str, caller: Caller) -> ModelRow:
    """Return the model of this name, locked, which is created if there is none. Raises
    InvalidRequest."""
    require_name(name)
    query = select(ModelRow.id).where(ModelRow.name == name)
    if session.scalar(query) is None:
        _new(session, ModelIn(name=name, project=project), caller)
    return find_model(session, name, lock=True)


def _new(session: Session, body: ModelIn, caller: Caller) -> ModelRow | None:
    """Create a model; None if somebody else was faster."""
    try:
        # As with a submission, the project that nobody has to name is made when it is needed.
        project_id = (
            find_or_make(session, DEFAULT_PROJECT, caller.now)
            if body.project == DEFAULT_PROJECT
            else get_project(session, body.project).id
        )
    except NotFound:
        raise InvalidRequest(
            "models.no_project",
            f"There is no project {body.project!r}.",
            fields=[FieldProblem("project", "must be the name of a project")],
        ) from None
    model = ModelRow(
        project_id=project_id,
        owner_id=caller.principal.user_id,
        name=body.name,
        description=body.description,
        tags=dict(body.tags),
        created_at=caller.now,
        created_by=caller.principal.actor,
        updated_at=caller.now,
    )
    try:
        with session.begin_nested():
            session.add(model)
    except IntegrityError:
        return None
    record(session, caller, "models.created", model, {"project": body.project})
    return model


def update_model(session: Session, name: str, patch: ModelPatch, caller: Caller) -> ModelRow:
    """Raises NotFound, Forbidden and Conflict."""
    model = find_model(session, name, lock=True)
    require_model(session, caller.principal, model)
    changed = patch.model_dump(exclude_none=True)
    if patch.name is not None and patch.name != model.name:
        if session.scalar(select(ModelRow.id).where(ModelRow.name == patch.name)) is not None:
            raise _taken(patch.name)
        record(session, caller, "models.renamed", model, {"to": patch.name})
        model.name = patch.name
    if patch.description is not None:
        model.description = patch.description
    if patch.tags is not None:
        model.tags = dict(patch.tags)
    model.updated_at = caller.now
    session.flush()
    record(session, caller, "models.changed", model, {"fields": sorted(changed)})
    return model


def delete_model(session: Session, name: str, caller: Caller, *, force: bool) -> None:
    """Delete a model with all its versions. Raises NotFound, Forbidden, and Conflict while an alias
    names a version, unless forced, and while a job uses one."""
    model = find_model(session, name, lock=True)
    require_model(session, caller.principal, model)
    aliases = session.scalars(
        select(ModelAliasRow.name)
        .where(ModelAliasRow.model_id == model.id)
        .order_by(ModelAliasRow.name)
    ).all()
    if aliases and not force:
        raise Conflict(
            "models.in_use",
            f"Model {name} is used: its aliases {', '.join(aliases)} name versions of it.",
            hint="Remove the aliases first, or force it.",
        )
    require_unused(session, ModelVersionRow.model_id == model.id)
    record(
        session,
        caller,
        "models.deleted",
        model,
        {"num_versions": model.last_number, "aliases": list(aliases), "force": force},
    )
    session.execute(delete(ModelAliasRow).where(ModelAliasRow.model_id == model.id))
    session.execute(delete(ModelVersionRow).where(ModelVersionRow.model_id == model.id))
    session.execute(delete(ModelRow).where(ModelRow.id == model.id))


def renewed(model: ModelRow, now: dt.datetime) -> None:
    model.updated_at = now


def require_name(name: str) -> None:
    """Raise InvalidRequest for what cannot be the name of a model."""
    if not re.fullmatch(MODEL_NAME, name):
        raise InvalidRequest(
            "models.bad_name",
            f"{name[:100]!r} cannot be the name of a model.",
            hint=f"A name {MODEL_NAME_RULE}.",
            fields=[FieldProblem("name", MODEL_NAME_RULE)],
        )


def _taken(name: str) -> Conflict:
    return Conflict(
        "models.name_taken",
        f"There is a model {name!r} already.",
        hint="Register versions of it, or choose another name.",
    )
