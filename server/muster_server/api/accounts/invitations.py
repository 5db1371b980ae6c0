"""Inviting people, and accepting an invitation."""

from __future__ import annotations

from fastapi import Request, Response, status

from muster_server import clock
from muster_server.errors import NotSignedIn
from muster_server.schemas.accounts.auth import (
    InvitationAcceptedIn,
    InvitationCreated,
    InvitationIn,
    InvitationOut,
    InvitationTokenIn,
    MeOut,
)
from muster_server.security import passwords
from muster_server.security.cookies import set_session_cookie
from muster_server.services.core.accounts import auth, invitations

from ..http.deps import By, Config, Db, Id, RemoteAddr
from ..http.refusals import note_refusal
from ..http.routing import Router, Write
from .auth import password_work, sign_in_limits, start
from .tokens import lifetime
from .users import users_out

router = Router(tags=["users"])


@router.post("/users:invite", status_code=status.HTTP_201_CREATED)
def invite_user(body: InvitationIn, session: Write, config: Config, by: By) -> InvitationCreated:
    """Add a person, and create the link with which they choose their password.

    The link works once. For somebody who has never signed in it replaces the one before.
    """
    user, invitation, secret = invitations.invite(
        session,
        body.username,
        by,
        role=body.role,
        projects=body.projects,
        lifetime=lifetime(body.expires_in_days, "days"),
    )
    session.flush()
    (shown,) = users_out(session, [user])
    return InvitationCreated(
        user=shown,
        url=f"{config.browser_url()}/invitation#invitation={secret}",
        expires_at=invitation.expires_at,
        this_machine_only=config.is_for_this_machine_alone(),
    )


@router.delete("/users/{user_id}/invitation", status_code=status.HTTP_204_NO_CONTENT)
def revoke_invitation(user_id: Id, session: Write, by: By) -> None:
    """End the open link of a user, who stays and can be invited again."""
    invitations.revoke(session, user_id, by)


@router.post("/auth/invitation:check", tags=["auth"])
def check_invitation(
    body: InvitationTokenIn, request: Request, db: Db, addr: RemoteAddr
) -> InvitationOut:
    """Return whom an invitation is for, without using it."""
    sign_in_limits(request).count(addr)
    return _find(body.token, request, db)


@router.post("/auth/invitation", tags=["auth"])
async def accept_invitation(
    body: InvitationAcceptedIn,
    request: Request,
    response: Response,
    db: Db,
    config: Config,
    addr: RemoteAddr,
) -> MeOut:
    """Set the password of the invited user and sign in. Uses the invitation up."""
    sign_in_limits(request).count(addr)

    def work() -> tuple[MeOut, str]:
        # The token comes first: hashing is not for strangers.
        username = _find(body.token, request, db).username
        problem = passwords.password_problem(body.password, username=username)
        if problem is not None:
            raise auth.weak_password(problem)
        password_hash = passwords.hash_password(body.password)
        now = clock.now()
        with db.transaction() as session:
            user = invitations.accept(
                session, body.token, password_hash=password_hash, remote_addr=addr, now=now
            )
            return start(session, user, request, config, now)

    me, secret = await password_work(request, work)
    set_session_cookie(response, secret, config)
    return me


def _find(token: str, request: Request, db: Db) -> InvitationOut:
    try:
        with db.read() as session:
            user, invitation = invitations.find(session, token, now=clock.now())
            return InvitationOut(username=user.username, expires_at=invitation.expires_at)
    except NotSignedIn:
        note_refusal(request, "auth.link_refused", "invitation")
        raise
