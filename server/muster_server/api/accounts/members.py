"""Routes of groups and of the members of projects; see docs/guides/projects.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from muster_server.schemas.accounts.members import (
    GroupIn,
    GroupMemberOut,
    GroupOut,
    ProjectMemberIn,
    ProjectMemberOut,
)
from muster_server.schemas.base import Page
from muster_server.services.core.accounts import members

from ..http.deps import By, Cursor, Limit
from ..http.routing import Read, Router, Write

router = Router(tags=["members"])

ProjectPath = Annotated[str, Path(max_length=128)]
NamePath = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


@router.get("/projects/{project}/members")
def list_project_members(
    project: ProjectPath, session: Read, by: By, cursor: Cursor = None, limit: Limit = 50
) -> Page[ProjectMemberOut]:
    """List the users and groups that are members of a project, with their roles."""
    return members.list_members(session, project, by, cursor=cursor, limit=limit)


@router.put("/projects/{project}/members/users/{username}")
def set_project_user(
    project: ProjectPath, username: NamePath, body: ProjectMemberIn, session: Write, by: By
) -> ProjectMemberOut:
    """Add a user to a project, or change the user's role there."""
    return members.set_member(session, project, "user", username, body.role, by)


@router.delete("/projects/{project}/members/users/{username}", status_code=204)
def remove_project_user(project: ProjectPath, username: NamePath, session: Write, by: By) -> None:
    """Remove a user from a project. What the user has submitted runs on, and from its next attempt on
    without the project's secrets."""
    members.remove_member(session, project, "user", username, by)


@router.put("/projects/{project}/members/groups/{group}")
def set_project_group(
    project: ProjectPath, group: NamePath, body: ProjectMemberIn, session: Write, by: By
) -> ProjectMemberOut:
    """Give all members of a group a role in a project."""
    return members.set_member(session, project, "group", group, body.role, by)


@router.delete("/projects/{project}/members/groups/{group}", status_code=204)
def remove_project_group(project: ProjectPath, group: NamePath, session: Write, by: By) -> None:
    """Remove a group from a project."""
    members.remove_member(session, project, "group", group, by)


@router.get("/groups")
def list_groups(session: Read, cursor: Cursor = None, limit: Limit = 50) -> Page[GroupOut]:
    """List groups of users by name."""
    return members.list_groups(session, cursor=cursor, limit=limit)


@router.put("/groups/{name}")
def set_group(name: NamePath, session: Write, by: By, body: GroupIn | None = None) -> GroupOut:
    """Create a group, if there is none of this name, or change who says who its members are."""
    group = members.set_group(session, name, by)
    if body is not None and "provider_group" in body.model_fields_set:
        group = members.fill_group(session, name, body.provider_group, by)
    return group


@router.delete("/groups/{name}", status_code=204)
def delete_group(name: NamePath, session: Write, by: By) -> None:
    """Delete a group. Its members lose what they may do by it."""
    members.delete_group(session, name, by)


@router.get("/groups/{name}/members")
def list_group_members(
    name: NamePath, session: Read, cursor: Cursor = None, limit: Limit = 50
) -> Page[GroupMemberOut]:
    """List the members of a group."""
    return members.list_group_members(session, name, cursor=cursor, limit=limit)


@router.put("/groups/{name}/members/{username}", status_code=204)
def add_group_member(name: NamePath, username: NamePath, session: Write, by: By) -> None:
    """Add a user to a group."""
    members.add_to_group(session, name, username, by)


@router.delete("/groups/{name}/members/{username}", status_code=204)
def remove_group_member(name: NamePath, username: NamePath, session: Write, by: By) -> None:
    """Remove a user from a group."""
    members.remove_from_group(session, name, username, by)
