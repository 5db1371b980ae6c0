"""Deployments: versions of models that answer requests; see docs/guides/deployments.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from muster_models.schemas.deployments import (
    DEPLOYMENT_NAME,
    AddressOut,
    DeploymentIn,
    DeploymentItem,
    DeploymentOut,
    DeploymentUpdateIn,
    RollbackIn,
    ScaleIn,
)
from muster_models.services.deployments import management, views
from muster_server.api.http.deps import By, Config, Cursor, Limit, Me
from muster_server.api.http.routing import Read, Router, Snapshot, Write
from muster_server.schemas.base import Page

router = Router(tags=["deployments"])

Deployment = Annotated[str, Path(pattern=DEPLOYMENT_NAME, description="Name of the deployment.")]


@router.get("/deployments")
def list_deployments(
    session: Snapshot, me: Me, settings: Config, cursor: Cursor = None, limit: Limit = 50
) -> Page[DeploymentItem]:
    """List deployments by name."""
    return views.list_deployments(session, me, settings, cursor=cursor, limit=limit)


@router.post("/deployments", status_code=202)
def create_deployment(
    body: DeploymentIn, session: Write, by: By, settings: Config
) -> DeploymentOut:
    """Deploy a version of a model. 503 if the server has no router."""
    row = management.create_deployment(session, body, by, settings=settings)
    return views.deployment_out(session, by.principal, settings, row.name)


@router.get("/deployments/{name}")
def get_deployment(name: Deployment, session: Snapshot, me: Me, settings: Config) -> DeploymentOut:
    """Return a deployment with its revisions and replicas."""
    return views.deployment_out(session, me, settings, name)


@router.get("/deployments/{name}/address")
def get_deployment_address(name: Deployment, session: Read, settings: Config) -> AddressOut:
    """Return where a deployment answers requests. 409 while it does not."""
    return views.address_of(session, settings, name)


@router.post("/deployments/{name}:update", status_code=202)
def update_deployment(
    name: Deployment, body: DeploymentUpdateIn, session: Write, by: By, settings: Config
) -> DeploymentOut:
    """Roll out another version: replicas are replaced one by one, and requests answered meanwhile."""
    management.update_deployment(session, name, body, by)
    return views.deployment_out(session, by.principal, settings, name)


@router.post("/deployments/{name}:rollback", status_code=202)
def roll_back_deployment(
    name: Deployment, body: RollbackIn, session: Write, by: By, settings: Config
) -> DeploymentOut:
    """Roll out the version that served before, or that of a revision."""
    management.roll_back(session, name, body, by)
    return views.deployment_out(session, by.principal, settings, name)


@router.post("/deployments/{name}:scale", status_code=202)
def scale_deployment(
    name: Deployment, body: ScaleIn, session: Write, by: By, settings: Config
) -> DeploymentOut:
    """Change the number of replicas."""
    management.scale(session, name, body, by)
    return views.deployment_out(session, by.principal, settings, name)


@router.post("/deployments/{name}:stop", status_code=202)
def stop_deployment(name: Deployment, session: Write, by: By, settings: Config) -> DeploymentOut:
    """Stop a deployment: its replicas answer what they have begun, and end."""
    management.stop(session, name, by)
    return views.deployment_out(session, by.principal, settings, name)


@router.delete("/deployments/{name}", status_code=204)
def delete_deployment(name: Deployment, session: Write, by: By) -> None:
    """Delete a stopped deployment with its history."""
    management.delete_deployment(session, name, by)
