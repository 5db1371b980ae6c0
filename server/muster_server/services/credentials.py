"""The credential of a node's agent: given for a join token, and replaced while it is in use.

A new credential is valid beside the old one until the agent has used it, so that an answer that is
lost on the way locks nobody out. Only hashes are kept, so a credential whose delivery is not certain
cannot be given again: another one takes its place.
"""

from __future__ import annotations

import datetime as dt

from sqlalchemy import update
from sqlalchemy.orm import Session

from muster_server.db.models import JoinTokenRow, NodeRow
from muster_server.errors import NotSignedIn
from muster_server.security.principal import Principal
from muster_server.security.tokens import hash_secret, mint

from .allocations import changed


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
    """Whether this asks again for what was given already, and that was never used."""
    return bool(join_id) and node.join_id == join_id and node.join_token_id == token_id


def issue(node: NodeRow, *, now: dt.datetime) -> str:
    """A new credential in place of every older one."""
    secret = mint("agt")
    node.credential_hash, node.next_credential_hash = hash_secret(secret), None
    node.credential_at = now
    return secret


def note_use(node: NodeRow, principal: Principal, *, now: dt.datetime) -> None:
    """The agent has its credential: a joining is over, and a replaced credential void."""
    node.join_id = ""
    if principal.uses_next_credential and node.next_credential_hash is not None:
        node.credential_hash, node.next_credential_hash = node.next_credential_hash, None
        node.credential_at = now


def replace_old(node: NodeRow, *, max_age_s: float, now: dt.datetime) -> str | None:
    """The next credential when the present one is older than `max_age_s`; else None."""
    issued_at = node.credential_at or node.registered_at
    if (now - issued_at).total_seconds() < max_age_s:
        return None
    secret = mint("agt")
    node.next_credential_hash = hash_secret(secret)
    return secret
