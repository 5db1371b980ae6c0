"""Who may do what with an experiment, beyond what a role allows at all.

Everybody who is signed in may look at every experiment of the projects that they see. Members of a project may submit to it, and
fork what they can see. Only its owner, while a member of its project, and administrators may change
one: pause, resume, stop, kill, continue, archive and delete it, and edit its name, notes, labels,
priority and budget. One whose owner was removed is for administrators. What somebody has asked for about an experiment of another, an export or a
diagnosis, they may also take back. Projects and pools are changed by administrators.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy.orm import Session

from muster_server.db.models import ExperimentRow, ProjectRow, UserRow
from muster_server.errors import Forbidden
from muster_server.security.principal import Principal

from . import access


class OwnedExperiment(NamedTuple):
    """What decides about an experiment, read without the rest of it."""

    id: int
    project_id: int
    owner_id: int | None


def is_in_charge(principal: Principal, owner_id: int | None) -> bool:
    """Return whether a caller may change an experiment of this owner."""
    if principal.role == "admin":
        return True
    return principal.user_id is not None and principal.user_id == owner_id


def is_by(principal: Principal, actor: str) -> bool:
    """Return whether `actor` names this user, with any session or token."""
    return actor == f"user:{principal.name}" or actor.endswith(f" ({principal.name})")


def say_whose(session: Session, owner_id: int | None) -> str:
    """Return the words for whose something is, to stand behind its name."""
    owner = session.get(UserRow, owner_id) if owner_id else None
    return f"belongs to {owner.username}" if owner is not None else "has no owner any more"


def require_charge(
    session: Session,
    principal: Principal,
    experiment: ExperimentRow | OwnedExperiment,
    *,
    is_end: bool = False,
) -> None:
    """Raises Forbidden, naming the owner or the project, unless the caller may change this
    experiment.

    is_end: whether it is stopped or killed, which its owner may do after leaving the project, too.
    """
    if is_in_charge(principal, experiment.owner_id):
        if is_end:
            return
        project = session.get_one(ProjectRow, experiment.project_id)
        access.require(session, project, "submit", principal)
        return
    whose = say_whose(session, experiment.owner_id)
    raise Forbidden(
        "experiments.not_yours",
        f"Experiment {experiment.id} {whose}; its owner and administrators may change it.",
        hint="Fork it to work on a copy of your own.",
    )
