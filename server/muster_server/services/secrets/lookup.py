"""Which secret a name in a document means: the user's first, then the project's."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from muster.document.experiment import ExperimentConfig
from muster_server.db.models import ProjectRow, SecretRow
from muster_server.domain.messages import Message
from muster_server.errors import FieldProblem

from ..core import access
from .store import may_use_own

NAMED_MAX = 20
"""Most names that a message lists."""


def find_secrets(
    session: Session, *, user_id: int | None, project_id: int | None
) -> dict[str, SecretRow]:
    """Return every secret that an experiment of this user in this project can use, by name.

    A user who may not act, such as a deactivated one, has none of their own, and one who may not submit to the project none
    of its secrets.
    """
    if (
        user_id is not None
        and project_id is not None
        and not access.may(session, "submit", project_id, user_id)
    ):
        project_id = None
    if user_id is not None and not may_use_own(session, user_id):
        user_id = None
    owners = []
    if user_id is not None:
        owners.append(SecretRow.user_id == user_id)
    if project_id is not None:
        owners.append(SecretRow.project_id == project_id)
    if not owners:
        return {}
    found: dict[str, SecretRow] = {}
    for row in session.scalars(select(SecretRow).where(or_(*owners)).order_by(SecretRow.name)):
        if row.name not in found or row.user_id is not None:
            found[row.name] = row
    return found


def check_secrets(
    session: Session, config: ExperimentConfig, *, user_id: int | None
) -> FieldProblem | None:
    """Return what is wrong with the secrets that a document names; None if all of them exist."""
    wanted = config.environment.all_secrets
    if not wanted:
        return None
    project_id = session.scalar(select(ProjectRow.id).where(ProjectRow.name == config.project))
    found = find_secrets(session, user_id=user_id, project_id=project_id)
    missing = [name for name in wanted if name not in found]
    if not missing:
        return None
    is_login = missing == [config.environment.registry_login]
    return FieldProblem(
        "environment.registry_login" if is_login else "environment.secrets",
        Message("field.no_such_secret", names=", ".join(missing), project=config.project),
        f"{_existing(found)}; create one with `muster secret set {missing[0]}`",
    )


def _existing(found: dict[str, SecretRow]) -> str:
    if not found:
        return "you can use no secret yet"
    own = [name for name, row in found.items() if row.user_id is not None]
    shared = [name for name, row in found.items() if row.user_id is None]
    parts = [
        f"{whose}: {_listed(names)}"
        for whose, names in (("yours", own), ("project", shared))
        if names
    ]
    return "you can use " + "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
