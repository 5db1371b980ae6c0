"""Who may do what in a project."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

ProjectRole = Literal["viewer", "member", "maintainer"]
"""What somebody may do in a project: `viewer` sees it, `member` submits to it and uses its secrets,
`maintainer` also says who its members are."""
Audience = Literal["all", "members"]
"""Everybody who is signed in, or only members of the project."""
Action = Literal["read", "submit", "manage"]
Refusal = Literal["hidden", "not_member", "not_maintainer"]
"""Why an action is refused. What is `hidden` must look as if it did not exist."""


@dataclass(frozen=True, kw_only=True)
class ProjectStanding:
    """All that decides what one caller may do in one project."""

    is_admin: bool
    """Whether the caller acts as an administrator, who may do everything."""
    is_beyond_token: bool
    """Whether the caller's token is limited to other projects. Whoever the caller is: a token is limited
    so that whoever gets hold of it learns nothing else."""
    roles: Collection[ProjectRole]
    """Roles of the caller's own and of the caller's groups; the highest one counts."""
    visibility: Audience
    """Who sees the project."""
    submission: Audience
    """Who submits to the project, if they see it."""


def refusal(standing: ProjectStanding, action: Action) -> Refusal | None:
    """Return why the caller may not do this in the project; None if they may."""
    roles = standing.roles
    if standing.is_beyond_token:
        return "hidden"
    if standing.is_admin or "maintainer" in roles:
        return None
    if standing.visibility == "members" and not roles:
        return "hidden"
    if action == "read":
        return None
    if action == "manage":
        return "not_maintainer"
    return None if "member" in roles or standing.submission == "all" else "not_member"
