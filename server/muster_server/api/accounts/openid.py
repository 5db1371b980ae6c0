"""Signing in at an OpenID provider; see docs/guides/sign-in.md."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlencode

import anyio.to_thread
import structlog
from fastapi import APIRouter, Query, Request
from sqlalchemy.exc import IntegrityError
from starlette.responses import RedirectResponse, Response

from muster_server import clock
from muster_server.domain.admission import NotAdmitted, Person, admit
from muster_server.errors import NotFound, TooManyRequests, Unavailable
from muster_server.schemas.accounts.auth import ProviderPage
from muster_server.security.cookies import (
    openid_cookie_name,
    set_openid_cookie,
    set_session_cookie,
)
from muster_server.security.encryption import key_ring_or_none
from muster_server.security.openid import NotBelieved, OpenidProvider, ProviderAway
from muster_server.services.core.accounts import auth, openid
from muster_server.settings import Settings

from ..http.deps import Config, Db, Me, RemoteAddr
from ..http.refusals import note_refusal
from .auth import new_session, sign_in_limits

log = structlog.get_logger(__name__)
router = APIRouter(tags=["auth"])

T = TypeVar("T")
Problem = Literal["canceled", "away", "failed", "refused", openid.Problem]
"""Why a sign-in at the provider failed, as the sign-in page is told. The audit trail has the details."""

CALLS_AT_ONCE = 8
"""Sign-ins that may wait for the provider at a time, so that a slow one holds up nothing else."""
CALLS_QUEUE_MAX = 50
TARGET_MAX = 500
CODE_MAX = 2048


@router.get("/auth/oidc/start", response_class=RedirectResponse, status_code=303)
async def start_openid(
    request: Request,
    db: Db,
    config: Config,
    addr: RemoteAddr,
    to: Annotated[str, Query(max_length=TARGET_MAX)] = "/",
) -> Response:
    """Begin a sign-in: redirect the browser to the OpenID provider.

    to: Page of the dashboard to show afterwards.
    """
    provider = _provider(request)
    sign_in_limits(request).count(addr)
    try:
        cookie, url = await _begin(request, db, config, provider, to=to, user_id=None)
    except ProviderAway as error:
        log.warning("openid_provider_away", error=str(error))
        return _sign_in_page("away", to)
    response = RedirectResponse(url, 303)
    set_openid_cookie(response, cookie, config)
    return response


@router.post("/auth/oidc/connect")
async def connect_openid(
    request: Request, response: Response, db: Db, config: Config, me: Me
) -> ProviderPage:
    """Return the page of the OpenID provider on which you connect your account with the one there. Needs a
    session: a token connects nobody."""
    if me.session_hash is None:
        raise auth.needs_browser()
    try:
        cookie, url = await _begin(
            request, db, config, _provider(request), to="/settings", user_id=me.user_id
        )
    except ProviderAway as error:
        raise _unavailable(error) from None
    set_openid_cookie(response, cookie, config)
    return ProviderPage(url=url)


@router.get("/auth/oidc/callback", response_class=RedirectResponse, status_code=303)
async def finish_openid(request: Request, db: Db, config: Config, addr: RemoteAddr) -> Response:
    """Take the browser back from the OpenID provider, and start a session."""
    provider = _provider(request)
    answer = dict(request.query_params)
    # The server logs addresses, and this one holds a code.
    request.scope["query_string"] = b""
    state = answer.get("state", "")[:CODE_MAX]
    cookie = request.cookies.get(openid_cookie_name(config), "")
    to = _target(state)

    def work() -> Response:
        now = clock.now()
        with db.transaction() as session:
            attempt = openid.Attempt(cookie=cookie, state=state)
            connects = openid.take(session, attempt, now=now)
        if "error" in answer:
            raise NotBelieved(f"the provider says {answer['error'][:100]!r}")
        if answer.get("iss", provider.issuer) != provider.issuer:  # RFC 9207
            raise NotBelieved("the answer is another provider's")
        found = provider.exchange(
            answer.get("code", "")[:CODE_MAX], verifier=attempt.verifier, nonce=attempt.nonce
        )
        person = admit(found.claims, openid.rules_of(config))
        try:
            return enter(person, found.refresh_token, connects)
        except IntegrityError:  # somebody's first sign-in, in two tabs at a time
            return enter(person, found.refresh_token, connects)

    def enter(person: Person, refresh_token: str | None, connects: int | None) -> Response:
        now, response = clock.now(), RedirectResponse(to, 303)
        with db.transaction() as session:
            user, identity = openid.sign_in(
                session,
                person,
                issuer=provider.issuer,
                connects=connects,
                decides_role=openid.rules_of(config).decides_roles,
                remote_addr=addr,
                now=now,
            )
            if connects is None:
                secret = new_session(session, user.id, request, config, now)
                session.flush()
                keys = key_ring_or_none(config)
                openid.bind(session, secret, identity, refresh_token, keys=keys, now=now)
                set_session_cookie(response, secret, config)
        return response

    problem: Problem
    try:
        response = await _called(request, work)
    except ProviderAway as error:
        problem, reason = "away", str(error)
    except NotBelieved as error:
        problem = "canceled" if answer.get("error") == "access_denied" else "failed"
        reason = str(error)
    except NotAdmitted as error:
        problem, reason = "refused", str(error)
    except openid.CannotSignIn as error:
        # Some providers forget the state when somebody says no.
        problem = "canceled" if answer.get("error") == "access_denied" else error.problem
        reason = str(error)
    else:
        return response
    log.info("openid_sign_in_failed", problem=problem, reason=reason)
    await anyio.to_thread.run_sync(
        lambda: note_refusal(request, "auth.openid_refused", f"openid:{problem}", reason=reason)
    )
    return _sign_in_page(problem, to)


@router.post("/auth/oidc/logout")
async def logout_openid(request: Request, me: Me) -> ProviderPage:
    """Return the page of the OpenID provider on which you end your session there, too. End the one here
    afterwards."""
    try:
        url = await _called(request, _provider(request).logout_url)
    except ProviderAway as error:
        raise _unavailable(error) from None
    if url is None:
        raise NotFound("auth.no_logout", "The provider has no page that ends a session.")
    return ProviderPage(url=url)


async def _begin(
    request: Request,
    db: Db,
    config: Settings,
    provider: OpenidProvider,
    *,
    to: str,
    user_id: int | None,
) -> tuple[str, str]:
    """Return the browser's half of a new sign-in, and the provider's page. Raises ProviderAway."""
    # Sign-ins that begin in several tabs share it.
    cookie = request.cookies.get(openid_cookie_name(config))

    def work() -> tuple[str, str]:
        with db.transaction() as session:
            attempt = openid.begin(
                session, cookie=cookie, target=_encoded(to), user_id=user_id, now=clock.now()
            )
        return attempt.cookie, provider.authorization_url(
            state=attempt.state, nonce=attempt.nonce, verifier=attempt.verifier
        )

    return await _called(request, work)


async def _called(request: Request, work: Callable[[], T]) -> T:
    """Run `work` in one of the few threads that wait for the provider."""
    limiter: anyio.CapacityLimiter = request.app.state.openid_limiter
    if limiter.statistics().tasks_waiting >= CALLS_QUEUE_MAX:
        raise TooManyRequests(
            "auth.busy", "Too many people are signing in right now.", retry_after_s=2
        )
    return await anyio.to_thread.run_sync(work, limiter=limiter)


def _provider(request: Request) -> OpenidProvider:
    provider: OpenidProvider | None = request.app.state.openid
    if provider is None:
        raise NotFound(
            "auth.no_provider",
            "This server has no OpenID provider.",
            hint="An administrator sets MUSTER_OIDC_ISSUER; see the guide on signing in.",
        )
    return provider


def _unavailable(error: ProviderAway) -> Unavailable:
    log.warning("openid_provider_away", error=str(error))
    return Unavailable(
        "auth.provider_away", "The OpenID provider cannot be reached.", retry_after_s=10
    )


def _sign_in_page(problem: Problem, to: str) -> Response:
    query = {"problem": problem, **({"to": to} if to != "/" else {})}
    return RedirectResponse(f"/sign-in?{urlencode(query)}", 303)


def _encoded(to: str) -> str:
    return base64.urlsafe_b64encode(to.encode()).decode().rstrip("=")


def _target(state: str) -> str:
    """Return the page to go to that a state holds; the overview for none, and for one elsewhere."""
    text = state.partition(".")[2]
    try:
        to = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return "/"
    is_here = to.startswith("/") and not to.startswith(("//", "/\\"))
    return to if is_here and to.isprintable() else "/"
