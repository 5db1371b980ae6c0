"""Routes of secrets; see docs/guides/secrets.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from muster_server.api.http.deps import By, Config, Cursor, Limit
from muster_server.api.http.routing import Read, Router, Write
from muster_server.schemas.accounts.secrets import SecretIn, SecretOut
from muster_server.schemas.base import Page
from muster_server.security.encryption import key_ring
from muster_server.services.core import access
from muster_server.services.core.lookup import get_project
from muster_server.services.core.owners import project_as_owner
from muster_server.services.secrets import store

router = Router(tags=["secrets"])

ProjectPath = Annotated[str, Path(max_length=128)]
SecretPath = Annotated[str, Path(max_length=256)]


@router.get("/secrets")
def list_secrets(
    session: Read, by: By, cursor: Cursor = None, limit: Limit = 50
) -> Page[SecretOut]:
    """List your own secrets by name. Their values are in no answer."""
    owner = store.require_user(by)
    return store.list_secrets(session, owner, cursor=cursor, limit=limit)


@router.put("/secrets/{name}")
def set_secret(
    name: SecretPath, body: SecretIn, session: Write, by: By, config: Config
) -> SecretOut:
    """Create a secret of your own, or replace its value. Jobs that run keep the former value."""
    owner = store.require_user(by)
    return store.set_secret(session, owner, name, body.value, keys=key_ring(config), caller=by)


@router.delete("/secrets/{name}", status_code=204)
def delete_secret(name: SecretPath, session: Write, by: By) -> None:
    """Delete a secret of your own. What names it cannot start any more."""
    store.delete_secret(session, store.require_user(by), name, caller=by)


@router.get("/projects/{project}/secrets")
def list_project_secrets(
    project: ProjectPath, session: Read, by: By, cursor: Cursor = None, limit: Limit = 50
) -> Page[SecretOut]:
    """List the secrets of a project by name, for its members. Their values are in no answer."""
    access.require(session, get_project(session, project), "submit", by.principal)
    owner = project_as_owner(session, project)
    return store.list_secrets(session, owner, cursor=cursor, limit=limit)


@router.put("/projects/{project}/secrets/{name}")
def set_project_secret(
    project: ProjectPath, name: SecretPath, body: SecretIn, session: Write, by: By, config: Config
) -> SecretOut:
    """Create a secret of a project, or replace its value, as one of its maintainers or an
    administrator. Every experiment of the project can use it."""
    access.require(session, get_project(session, project), "manage", by.principal)
    owner = project_as_owner(session, project)
    return store.set_secret(session, owner, name, body.value, keys=key_ring(config), caller=by)


@router.delete("/projects/{project}/secrets/{name}", status_code=204)
def delete_project_secret(project: ProjectPath, name: SecretPath, session: Write, by: By) -> None:
    """Delete a secret of a project, as one of its maintainers or an administrator. What names it
    cannot start any more."""
    access.require(session, get_project(session, project), "manage", by.principal)
    owner = project_as_owner(session, project)
    store.delete_secret(session, owner, name, caller=by)
