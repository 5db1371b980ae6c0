"""Members of projects, and groups."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster_server.domain.access import ProjectRole

from ..base import Input, Output, SafeStr


class ProjectMemberIn(Input):
    role: ProjectRole = "member"
    """`viewer` sees the project, `member` submits to it and uses its secrets, `maintainer` also says who
    its members are."""


class ProjectMemberOut(Output):
    kind: Literal["user", "group"]
    name: str
    role: ProjectRole
    added_at: dt.datetime
    added_by: str


ProviderGroup = Annotated[SafeStr, Field(min_length=1, max_length=200)]


class GroupIn(Input):
    provider_group: ProviderGroup | None = None
    """Group of the OpenID provider that says who the members are; null: administrators do. What is left
    out stays as it is."""


class GroupOut(Output):
    name: str
    provider_group: str | None
    """Group of the OpenID provider that says who the members are; null if administrators do."""
    is_provisioned: bool
    """Whether the identity provider manages the group by SCIM."""
    num_members: int
    created_at: dt.datetime
    created_by: str


class GroupMemberOut(Output):
    username: str
    added_at: dt.datetime
    added_by: str
