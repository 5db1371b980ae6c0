"""The caller's API tokens, and join tokens for agents."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from fastapi import status
from sqlalchemy.orm import Session

from muster_server import clock
from muster_server.db.models import ApiTokenRow, UserRow
from muster_server.domain.accounts import expires_soon
from muster_server.errors import NotFound
from muster_server.schemas.accounts.auth import (
    JoinTokenCreated,
    JoinTokenIn,
    JoinTokenOut,
    TokenCreated,
    TokenIn,
    TokenOut,
    TokenRole,
)
from muster_server.schemas.base import Page
from muster_server.services.core.accounts import tokens
from muster_server.services.core.accounts.identity import lower_role
from muster_server.services.core.callers import Caller
from muster_server.settings import Settings

from ..http.deps import By, Config, Cursor, Db, Id, Limit, Me
from ..http.routing import Read, Router, Write

router = Router(tags=["tokens"])


@router.get("/tokens", summary="Your API tokens")
def list_tokens(db: Db, me: Me, cursor: Cursor = None, limit: Limit = 50) -> Page[TokenOut]:
    assert me.user_id is not None
    with db.read() as session:
        rows, following = tokens.list_api_tokens(
            session, user_id=me.user_id, cursor=cursor, limit=limit
        )
        return Page(items=tokens_out(session, rows), next=following)


@router.post(
    "/tokens",
    summary="Make an API token",
    status_code=status.HTTP_201_CREATED,
)
def create_token(body: TokenIn, session: Write, by: By) -> TokenCreated:
    """Create an API token. The secret is in this response and nowhere else. With a token you
    can create one that ranks no higher, lasts no longer and is limited to no other projects; it ends
    when that one ends or is revoked."""
    user = session.get(UserRow, by.principal.user_id)
    if user is None:
        raise NotFound("users.not_found", "This user was removed.")
    own_role = lower_role(by.principal.role, user.role)
    return make_token(session, user, body, own_role=own_role, by=by)


@router.delete(
    "/tokens/{token_id}",
    summary="Revoke an API token",
    status_code=status.HTTP_204_NO_CONTENT,
)
def revoke_token(token_id: Id, db: Db, by: By) -> None:
    """Revoke your own token, or anybody's as an administrator. It stops working at once, and so
    does all that was made with it. A token revokes none that ranks above it or sees more projects."""
    me = by.principal
    with db.transaction() as session:
        tokens.revoke_api_token(
            session,
            token_id,
            user_id=None if me.role == "admin" and not me.is_limited else me.user_id,
            limited_by=me.token_id if me.is_limited else None,
            own_role="admin" if me.token_id is None else lower_role(me.role, me.role),
            by=by.author,
        )


@router.get("/join-tokens", summary="The join tokens that still work")
def list_join_tokens(session: Read, cursor: Cursor = None, limit: Limit = 50) -> Page[JoinTokenOut]:
    rows, following = tokens.list_join_tokens(session, cursor=cursor, limit=limit, now=clock.now())
    return Page(items=[JoinTokenOut.from_row(row) for row in rows], next=following)


@router.post(
    "/join-tokens",
    summary="Make a token with which agents join",
    status_code=status.HTTP_201_CREATED,
)
def create_join_token(
    body: JoinTokenIn, session: Write, by: By, config: Config
) -> JoinTokenCreated:
    """Create a join token, which an agent exchanges for a credential of its own at its first start.
    Made with an API token, it ends with that one, and agents that joined with it stay."""
    row, secret = tokens.create_join_token(
        session,
        pool=body.pool,
        uses=body.uses,
        lifetime=lifetime(body.expires_in_s, "seconds"),
        created_by=by.principal.user_id,
        parent_id=by.principal.token_id,
        by=by.author,
    )
    return JoinTokenCreated(
        **JoinTokenOut.from_row(row).model_dump(),
        secret=secret,
        command=_command(config, secret),
        server_url=config.browser_url(),
        this_machine_only=config.is_for_this_machine_alone(),
    )


@router.delete(
    "/join-tokens/{token_id}",
    summary="Revoke a join token",
    status_code=status.HTTP_204_NO_CONTENT,
)
def revoke_join_token(token_id: Id, session: Write, by: By) -> None:
    """Revoke a join token. Agents that have joined with it stay: remove their nodes to end those."""
    tokens.revoke_join_token(session, token_id, by.author)


def lifetime(amount: int | None, unit: str) -> dt.timedelta | None:
    return None if amount is None else dt.timedelta(**{unit: amount})


def _command(config: Settings, secret: str) -> str:
    # In the environment, not in the arguments: those every user of the machine can read.
    return (
        f"MUSTER_AGENT_SERVER_URL={config.browser_url()} "
        f"MUSTER_AGENT_JOIN_TOKEN={secret} muster-agent run"
    )


def tokens_out(session: Session, rows: Sequence[ApiTokenRow]) -> list[TokenOut]:
    """Return API tokens as they are shown."""
    projects, now = tokens.projects_of(session, rows), clock.now()
    return [
        TokenOut.from_row(
            row,
            role=lower_role(row.role, row.role),
            projects=projects[row.id],
            expires_soon=expires_soon(row.expires_at, now),
        )
        for row in rows
    ]


def make_token(
    session: Session,
    user: UserRow,
    body: TokenIn,
    *,
    own_role: TokenRole,
    by: Caller,
) -> TokenCreated:
    """Create a token of a user as the caller asks for it. own_role: role that it may have at most."""
    row, secret = tokens.create_api_token(
        session,
        user=user,
        name=body.name,
        role=body.role,
        own_role=own_role,
        lifetime=lifetime(body.expires_in_days, "days"),
        parent_id=by.principal.token_id,
        projects=body.projects,
        by=by.author,
    )
    return token_created(session, row, secret)


def token_created(session: Session, row: ApiTokenRow, secret: str) -> TokenCreated:
    """Return a new API token with its secret, for the only time."""
    return TokenCreated(**tokens_out(session, [row])[0].model_dump(), secret=secret)
