"""The credential of a node's agent: given for a join token, and replaced while it is in use.

A new credential is valid beside the old one until the agent has used it, so that an answer that is
lost on the way locks nobody out. Only hashes are kept, so a credential whose delivery is not certain
cannot be given again: another one takes its place, but not before `DELIVERY_S` have passed. Until then
the agent may be about to use the one it was given, and the heartbeat that asks may be a late copy.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Protocol

from sqlalchemy import update
from sqlalchemy.orm import Session

from muster_server.db.models import JoinTokenRow, NodeRow
from muster_server.errors import NotSignedIn
from muster_server.security.principal import Principal
from muster_server.security.tokens import hash_secret, mint

from ..core.writes import changed

DELIVERY_S = 600.0
"""How long a credential that was given and never used is kept before another one takes its place. Far
longer than a heartbeat can be on its way; meanwhile the agent goes on with the one it has."""


class Presented(Protocol):
    """What is stored of a node about its credential."""

    @property
    def join_id(self) -> str: ...
    @property
    def next_credential_hash(self) -> str | None: ...
    @property
    def credential_at(self) -> dt.datetime | None: ...
    @property
    def registered_at(self) -> dt.datetime: ...


def use_join_token(session: Session, token_id: int, *, now: dt.datetime) -> None:
    """Count one use. Raises NotSignedIn when nothing is left of it."""
    used = changed(
        session,
        update(JoinTokenRow)
        .where(
            JoinTokenRow.id == token_id,
            JoinTokenRow.uses_left > 0,
            JoinTokenRow.revoked_at.is_(None),
            JoinTokenRow.expires_at > now,
        )
        .values(uses_left=JoinTokenRow.uses_left - 1),
    )
    if not used:
        raise NotSignedIn("auth.not_signed_in", "This join token has expired or is used up.")


def is_same_joining(node: NodeRow, join_id: str, token_id: int) -> bool:
    """Return whether this repeats a join request whose credential was never used."""
    return bool(join_id) and node.join_id == join_id and node.join_token_id == token_id


def issue(node: NodeRow, *, now: dt.datetime) -> str:
    """Return a new credential in place of every older one."""
    secret = mint("agt")
    node.credential_hash, node.next_credential_hash = hash_secret(secret), None
    node.credential_at = now
    return secret


def taken_up(node: Presented, principal: Principal, *, now: dt.datetime) -> dict[str, Any]:
    """Return the columns of a node that change because its agent has its credential: a joining is over,
    and a replaced credential void."""
    values: dict[str, Any] = {}
    if node.join_id:
        values["join_id"] = ""
    if principal.uses_next_credential and node.next_credential_hash is not None:
        values |= {
            "credential_hash": node.next_credential_hash,
            "next_credential_hash": None,
            "credential_at": now,
        }
    return values


def taken_up_or_replaced(
    node: Presented,
    principal: Principal,
    *,
    may_replace: bool,
    max_age_s: float,
    now: dt.datetime,
) -> tuple[str | None, dict[str, Any]]:
    """Return the next credential, where the present one is older than `max_age_s`, and the columns of the
    node that change. None where one was given less than `DELIVERY_S` ago."""
    values = taken_up(node, principal, now=now)
    given_at = values.get("credential_at", node.credential_at or node.registered_at)
    is_given = values.get("next_credential_hash", node.next_credential_hash) is not None
    least_age_s = DELIVERY_S if is_given else max_age_s
    if not may_replace or (now - given_at).total_seconds() < least_age_s:
        return None, values
    secret = mint("agt")
    return secret, {**values, "next_credential_hash": hash_secret(secret), "credential_at": now}
