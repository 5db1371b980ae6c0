"""Routes of projects and pools; see docs/guides/managing.md#budgets."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from muster_server import clock
from muster_server.api.http.deps import By, Cursor, Limit
from muster_server.api.http.routing import Read, Router, Write
from muster_server.db.models import EventRow
from muster_server.schemas.base import Page
from muster_server.schemas.budgets import PoolIn, PoolOut, ProjectIn, ProjectOut, ProjectPatch
from muster_server.schemas.cluster import EventOut
from muster_server.schemas.providers import PilotOut, ProviderIn, ProviderOut
from muster_server.services.core import lookup
from muster_server.services.core.callers import record
from muster_server.services.core.event_views import list_events
from muster_server.services.providers import management as providers
from muster_server.services.quota import pools, projects

router = Router(tags=["projects"])

ProjectPath = Annotated[str, Path(max_length=128)]
PoolPath = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


@router.get("/projects")
def list_projects(session: Read, cursor: Cursor = None, limit: Limit = 50) -> Page[ProjectOut]:
    """List projects with what they have spent, by name."""
    return projects.list_projects(session, cursor=cursor, limit=limit, now=clock.now())


@router.post("/projects", status_code=201)
def create_project(body: ProjectIn, session: Write, by: By) -> ProjectOut:
    """Create a project. Submitting to a name that does not exist creates one as well."""
    now = clock.now()
    projects.create_project(session, body, actor=by.principal.name, now=now)
    record(session, "projects.created", f"project:{body.name}", by)
    session.flush()
    return projects.project_out(session, body.name, now)


@router.get("/projects/{name}")
def get_project(name: ProjectPath, session: Read) -> ProjectOut:
    """Return one project with its quotas, its budget and what it has spent."""
    return projects.project_out(session, name, clock.now())


@router.patch("/projects/{name}")
def update_project(name: ProjectPath, body: ProjectPatch, session: Write, by: By) -> ProjectOut:
    """Change weight, quotas or budget, or reset the count of spending."""
    now = clock.now()
    projects.update_project(session, name, body, actor=by.principal.name, now=now)
    changed = body.model_dump(mode="json", exclude_unset=True)
    record(session, "projects.changed", f"project:{name}", by, changed)
    session.flush()
    return projects.project_out(session, name, now)


@router.delete("/projects/{name}", status_code=204)
def delete_project(name: ProjectPath, session: Write, by: By) -> None:
    """Remove a project that has no experiments."""
    projects.delete_project(session, name)
    record(session, "projects.deleted", f"project:{name}", by)


@router.get("/projects/{name}/events")
def list_project_events(
    name: ProjectPath, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[EventOut]:
    """List the events of the project itself, newest first: changes and alerts of its budget."""
    about = EventRow.project_id == lookup.get_project(session, name).id
    return list_events(session, about, cursor=cursor, limit=limit)


@router.get("/pools")
def list_pools(session: Read, cursor: Cursor = None, limit: Limit = 50) -> Page[PoolOut]:
    """List pools with their price and what is in them, by name."""
    return pools.list_pools(session, cursor=cursor, limit=limit)


@router.put("/pools/{name}")
def set_pool(name: PoolPath, body: PoolIn, session: Write, by: By) -> PoolOut:
    """Set what a slot of the pool costs per hour, and how well its nodes must isolate jobs, for what
    is placed from now on."""
    pools.change_pool(session, name, body, clock.now())
    detail = body.model_dump(mode="json", exclude_none=True)
    record(session, "pools.changed", f"pool:{name}", by, detail)
    return pools.get_pool(session, name)


@router.delete("/pools/{name}", status_code=204)
def delete_pool(name: PoolPath, session: Write, by: By) -> None:
    """Delete the settings of a pool that has no nodes."""
    pools.delete_pool(session, name)
    record(session, "pools.deleted", f"pool:{name}", by)


@router.get("/pools/{name}/provider")
def get_pool_provider(name: PoolPath, session: Read) -> ProviderOut:
    """Return what submits pilots for a pool, and how it fares."""
    return providers.get_provider(session, name, now=clock.now())


@router.put("/pools/{name}/provider")
def set_pool_provider(name: PoolPath, body: ProviderIn, session: Write, by: By) -> ProviderOut:
    """Have pilots submitted to a batch system for what waits in the pool."""
    providers.set_provider(session, name, body, now=clock.now())
    detail = body.model_dump(mode="json")
    record(session, "pools.provider_set", f"pool:{name}", by, detail)
    return providers.get_provider(session, name, now=clock.now())


@router.delete("/pools/{name}/provider", status_code=204)
def delete_pool_provider(name: PoolPath, session: Write, by: By) -> None:
    """Submit no more pilots. Those that wait are canceled, those that run leave once they are idle."""
    providers.remove_provider(session, name, now=clock.now())
    record(session, "pools.provider_removed", f"pool:{name}", by)


@router.get("/pools/{name}/pilots")
def list_pilots(
    name: PoolPath, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[PilotOut]:
    """List the pilots of a pool, the newest first, those that have ended included."""
    return providers.list_pilots(session, name, cursor=cursor, limit=limit)
