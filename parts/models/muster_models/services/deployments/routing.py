"""What the router is to know, read from the database, and what it shows, written there."""

from __future__ import annotations

import datetime as dt
import re
import socket
from collections.abc import Mapping, Sequence
from functools import lru_cache

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from muster_models.domain.deployments.routing import (
    RoutedServer,
    Routes,
    SeenServer,
    backend_name,
    name_digest,
    seen_by_entry,
    server_name,
)
from muster_server.db.engine import touch
from muster_server.db.models import (
    ApiTokenRow,
    DeploymentReplicaRow,
    DeploymentRow,
    TrialRow,
    UserRow,
)
from muster_server.domain.states import TrialState
from muster_server.security.permissions import allows
from muster_server.security.principal import Principal
from muster_server.services.core import access
from muster_server.services.core.accounts.identity import lower_role

TOKENS_MAX = 100_000
"""Tokens that the router knows; of more, the newest."""
_SERVER = re.compile(r"r(\d{1,18})x(\d{1,9})")


def has_deployments(session: Session) -> bool:
    """Return whether any deployment runs."""
    query = select(DeploymentRow.id).where(DeploymentRow.backend.is_not(None)).limit(1)
    return session.scalar(query) is not None


def load_routes(session: Session, now: dt.datetime) -> Routes:
    """Return all that the router is to know now."""
    deployments = session.scalars(
        select(DeploymentRow).where(DeploymentRow.backend.is_not(None))
    ).all()
    backends = {row.id: backend_name(row.backend or 0) for row in deployments}
    servers = []
    for replica in session.scalars(
        select(DeploymentReplicaRow)
        .join(TrialRow, TrialRow.experiment_id == DeploymentReplicaRow.experiment_id)
        .where(
            DeploymentReplicaRow.phase.in_(("starting", "serving", "draining")),
            DeploymentReplicaRow.attempt_no > 0,
            DeploymentReplicaRow.attempt_no == TrialRow.attempt_no,
            TrialRow.state == TrialState.RUNNING,
        )
        .order_by(DeploymentReplicaRow.id)
    ):
        host = _numeric(replica.host)
        if host is not None and replica.deployment_id in backends:
            servers.append(
                RoutedServer(
                    backend=backends[replica.deployment_id],
                    name=server_name(replica.id, replica.attempt_no),
                    host=host,
                    port=replica.port,
                    drains=replica.phase == "draining",
                )
            )
    tokens = _tokens(session, now)
    hidden, seen_by = _hidden(session, deployments, tokens)
    return Routes(
        names={name_digest(row.name): backends[row.id] for row in deployments},
        keys={backends[row.id]: row.key for row in deployments},
        tokens=frozenset(token for token, _ in tokens),
        hidden=hidden,
        limited=frozenset(token for token, principal in tokens if principal.is_limited),
        seen_by=seen_by,
        servers=tuple(servers),
    )


def _hidden(
    session: Session,
    deployments: Sequence[DeploymentRow],
    tokens: Sequence[tuple[str, Principal]],
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the backends of hidden deployments, and the entries of who sees them all the same, and of
    what limited tokens see."""
    sight = access.Sight(session)
    hidden = [row for row in deployments if row.project_id in sight.closed]
    if not hidden and not any(principal.is_limited for _, principal in tokens):
        return frozenset(), frozenset()
    sight.read_all_limits()
    hidden_from: dict[Principal, frozenset[int]] = {}
    seen_by = set()
    for token, principal in tokens:
        if principal not in hidden_from:
            hidden_from[principal] = sight.hidden_from(principal)
        seen_by |= {
            seen_by_entry(token, backend_name(row.backend or 0))
            for row in (deployments if principal.is_limited else hidden)
            if row.project_id not in hidden_from[principal]
        }
    return frozenset(backend_name(row.backend or 0) for row in hidden), frozenset(seen_by)


def _tokens(session: Session, now: dt.datetime) -> list[tuple[str, Principal]]:
    """Return the SHA-256 of the tokens that may use deployments now, and who uses them."""
    rows = session.execute(
        select(
            ApiTokenRow.secret_hash,
            ApiTokenRow.role,
            UserRow.role,
            UserRow.id,
            ApiTokenRow.id,
            ApiTokenRow.is_limited,
        )
        .join(UserRow, UserRow.id == ApiTokenRow.user_id)
        .where(
            UserRow.may_act,
            ApiTokenRow.revoked_at.is_(None),
            or_(ApiTokenRow.expires_at.is_(None), ApiTokenRow.expires_at > now),
        )
        .order_by(ApiTokenRow.id.desc())
        .limit(TOKENS_MAX)
    )
    return [
        (
            digest,
            Principal(
                kind="user",
                name="",
                role=lower,
                user_id=user_id,
                token_id=token_id if is_limited else None,
                is_limited=is_limited,
            ),
        )
        for digest, role, user_role, user_id, token_id, is_limited in rows
        if allows(lower := lower_role(role, user_role), "infer")
    ]


@lru_cache(maxsize=1_024)
def _numeric(host: str) -> str | None:
    """Return the IP address of a host; None if it has none."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return None


def note_seen(session: Session, seen: Sequence[SeenServer]) -> None:
    """Write what the router shows of each replica, where it is new."""
    by_replica: dict[tuple[int, int], SeenServer] = {}
    for one in seen:
        found = _SERVER.fullmatch(one.name)
        if found:
            by_replica[int(found[1]), int(found[2])] = one
    rows = session.scalars(
        select(DeploymentReplicaRow).where(DeploymentReplicaRow.phase != "ended")
    ).all()
    is_changed = False
    for row in rows:
        now = by_replica.get((row.id, row.attempt_no))
        values: Mapping[str, object] = (
            {"status": "", "num_sessions": 0}
            if now is None
            else {
                "status": now.status[:24],
                "num_sessions": now.num_sessions,
                "num_requests": now.num_requests,
                "num_errors": now.num_errors,
            }
        )
        before = {name: getattr(row, name) for name in values}
        if before != values:
            is_changed |= before["status"] != values["status"] or not values["num_sessions"]
            session.execute(
                update(DeploymentReplicaRow)
                # A process that has just reported itself has an address of its own.
                .where(
                    DeploymentReplicaRow.id == row.id,
                    DeploymentReplicaRow.attempt_no == row.attempt_no,
                )
                .values(**values)
                .execution_options(synchronize_session=False)
            )
    if is_changed:
        touch(session, "deployments", "loops")
