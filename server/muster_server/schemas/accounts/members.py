"""Members of projects, and groups."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from muster_server.domain.access import ProjectRole

from ..base import Input, Output


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


class GroupOut(Output):
    name: str
    num_members: int
    created_at: dt.datetime
    created_by: str


class GroupMemberOut(Output):
    username: str
    added_at: dt.datetime
    added_by: str
