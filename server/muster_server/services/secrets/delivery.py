"""Delivery of secrets to the agent that starts a job."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import select
from sqlalchemy.orm import Session

from muster.wire import SecretsReply, SecretValue
from muster_server.db.models import AllocationRow, ExperimentRow, TrialRow
from muster_server.errors import Conflict
from muster_server.security.encryption import KeyRing

from ..core import audit
from .lookup import find_secrets
from .store import open_row, owner_mark


def deliver(
    session: Session, allocation: AllocationRow, *, node_name: str, keys: KeyRing, now: dt.datetime
) -> SecretsReply:
    """Return the secrets that the experiment of an allocation names, and note it in the audit trail.

    They are looked up with the rights of the experiment's owner, now. Raises Conflict when one of
    them does not exist or cannot be decrypted.
    """
    experiment = session.scalars(
        select(ExperimentRow)
        .join(TrialRow, TrialRow.experiment_id == ExperimentRow.id)
        .where(TrialRow.id == allocation.trial_id)
    ).one()
    names = list(experiment.config.environment.all_secrets)
    found = find_secrets(session, user_id=experiment.owner_id, project_id=experiment.project_id)
    missing = [name for name in names if name not in found]
    if missing:
        those = "secret" if len(missing) == 1 else "secrets"
        raise Conflict(
            "secrets.missing",
            f"The {those} {', '.join(missing)} in environment.secrets no longer exist"
            f"{'s' if len(missing) == 1 else ''} for the owner and the project of experiment "
            f"{experiment.id}: set it with `muster secret set {missing[0]}` and continue the "
            "experiment.",
        )
    values = []
    for name in names:
        row = found[name]
        values.append(
            SecretValue(
                name=name,
                owner=owner_mark(row),
                version=row.version,
                changed_at_ms=int(row.changed_at.timestamp() * 1000),
                value=open_row(row, keys),
            )
        )
        row.last_used_at = now
    audit.record(
        session,
        "secrets.delivered",
        f"allocation:{allocation.id}",
        audit.Author(f"node:{node_name}", now),
        {"experiment": experiment.id, "trial": allocation.trial_id, "names": names},
    )
    return SecretsReply(secrets=values)
