"""Deny by default: nobody reaches a route that the permission table does not let them.

Two layers that must agree. `Gate` runs before anything of the request's body is read: it finds
the operation, the caller and the permission. `confirm_operation` is a dependency of every route
and refuses when the route that was reached is not the one the gate decided about, so that a
difference between the gate's matching and the router's can only ever close a door.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hmac
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs

import structlog
from fastapi.routing import APIRoute, iter_route_contexts
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster_server import clock, parts
from muster_server.db.engine import Database
from muster_server.db.failures import is_disk_full, is_unavailable
from muster_server.db.sight import hiding
from muster_server.errors import Forbidden, NotSignedIn
from muster_server.middleware.meter import ROUTE
from muster_server.security.cookies import session_cookie_name
from muster_server.security.permissions import Permission, allows, concerns_projects
from muster_server.security.principal import Principal
from muster_server.security.tokens import hash_secret
from muster_server.services.core import access
from muster_server.services.core.accounts import identity
from muster_server.settings import Settings

from .refusals import note_refusal

log = structlog.get_logger(__name__)

PERMISSIONS_SHOWN: tuple[Permission, ...] = ("view", "submit", "admin")
OPERATION = "muster.operation"
"""Key in the scope under which the gate stores the operation that it permitted."""
MONITOR_KNOWN_S = 600.0
"""Seconds for which a caller that has read the metrics may go on while the database is away:
monitoring is most needed in an outage."""
MONITORS_MAX = 100
CONFIRMED = frozenset(
    {
        *("agent_lease", "agent_assignments", "agent_records", "agent_logs"),
        *("mlflow_log_metric", "mlflow_log_batch"),
    }
)
"""Operations that check the credential again, in the transaction of their work, so a recent caller
need not be looked up in the database first."""
NOT_VALID = "The token is not valid: mistyped, expired or revoked."
UNCONFIRMED = "muster.unconfirmed"
"""Key in the scope of the secret of a user whom such an operation has to look up: see `confirm_user`."""
NOTED_ELSEWHERE = frozenset({"change_password"})
"""Operations whose refusals are in the audit log already."""
CALLER_KNOWN_S = 60.0
CALLERS_MAX = 20_000


@dataclass(frozen=True)
class Operation:
    """A permission-checked call."""

    id: str
    permission: Permission
    kind: str
    """Kind of the route, `http` or `websocket`."""
    path: str
    beginning: str
    """Beginning of all paths that match."""
    pattern: re.Pattern[str]
    methods: frozenset[str]


class UnguardedRoute(RuntimeError):
    """A route exists that the permission table does not know. The server does not start."""


def operations_of(routes: Sequence[BaseRoute]) -> list[Operation]:
    """Return every route, in matching order, with its operation.

    Raises UnguardedRoute for a route without an entry, without a name, or of
    a kind that cannot be checked (a mounted application brings routes of its own).
    """
    found: list[Operation] = []
    needed = parts.permissions()
    for context in iter_route_contexts(routes):
        route: BaseRoute = context.original_route
        id = operation_id(route)
        if id is None:
            raise UnguardedRoute(f"route {context.path!r} has no operation id")
        if id not in needed:
            raise UnguardedRoute(
                f"route {context.path!r} ({id}) has no entry in "
                "muster_server/security/permissions.py"
            )
        is_websocket = isinstance(route, WebSocketRoute)
        found.append(
            Operation(
                id=id,
                permission=needed[id],
                kind="websocket" if is_websocket else "http",
                path=str(context.path),
                beginning=beginning(str(context.path)),
                pattern=context.path_regex,
                methods=frozenset() if is_websocket else frozenset(context.methods or ()),
            )
        )
    refuse_duplicates(found)
    return found


def beginning(path: str) -> str:
    """Return what every address begins with that the path of a route matches."""
    return path.partition("{")[0]


def operation_id(route: BaseRoute) -> str | None:
    """Return the id of the operation of a route: the name of its function, unless one is given."""
    if isinstance(route, APIRoute):
        return route.operation_id or route.name
    if isinstance(route, Route | WebSocketRoute):
        return route.name
    return None


def refuse_duplicates(operations: Iterable[Operation]) -> None:
    """Raise UnguardedRoute if two operations share an id."""
    seen: set[str] = set()
    for operation in operations:
        if operation.id in seen:
            raise UnguardedRoute(f"two routes share the operation id {operation.id!r}")
        seen.add(operation.id)


class Gate:
    """ASGI layer that authenticates callers and checks their permission."""

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self.app = app
        self._cookie = session_cookie_name(settings)
        self._idle = dt.timedelta(seconds=settings.session_idle_s)
        # Their hashes: a comparison takes as long whatever is presented.
        self._scim = [hash_secret(token) for token in settings.resolved_scim_tokens()]
        self._monitors: dict[str, tuple[Principal, float]] = {}
        """Principals of tokens that may read the metrics, by hash of the token, and how long each
        is trusted without the database."""
        self._callers: dict[str, tuple[Principal, float]] = {}
        """Principals, by hash of the credential, and until when each is let in to be CONFIRMED."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        operations = scope["app"].state.operations
        operation = _match(operations, scope)
        if operation is not None and scope["type"] == "http":
            scope[ROUTE] = operation.path
            scope, send = _head_as_get(operation, scope, send)
        if operation is not None and operation.permission == "public":
            # Public routes know their caller all the same when it is cheap to say: it is not,
            # so they do not. /auth/state is asked before anybody has signed in.
            scope[OPERATION] = operation.id
            await self.app(scope, receive, send)
            return
        is_confirmed = operation is not None and operation.id in CONFIRMED
        secret = _bearer(HTTPConnection(scope)) if is_confirmed else None
        principal = self._known(secret)
        is_known = principal is not None
        if principal is None:
            principal = await run_in_threadpool(self._who, HTTPConnection(scope), operation)
            self._remember(secret, principal)
        elif principal.kind == "user":
            scope[UNCONFIRMED] = secret
        if principal is None:
            await run_in_threadpool(_note_refused, HTTPConnection(scope))
            raise NotSignedIn(
                "auth.not_signed_in",
                _why_nobody(HTTPConnection(scope), operation),
            )
        if operation is not None:
            try:
                _require(principal, operation)
            except Forbidden:
                await run_in_threadpool(
                    _note_forbidden, HTTPConnection(scope), principal, operation
                )
                raise
            scope[OPERATION] = operation.id
        if operation is None and (allowed := _methods_at(operations, scope)):
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(allowed))})
        # Without an operation the router has nothing either, and answers 404.
        scope.setdefault("state", {})["principal"] = principal
        structlog.contextvars.bind_contextvars(actor=principal.actor)
        status = 0

        async def send_noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        with hiding(principal.hidden_projects, is_limited=principal.is_limited):
            await self.app(scope, receive, send_noting)
        if status == 401 and is_known and secret and principal.kind == "user":
            self._callers.pop(hash_secret(secret), None)
            await run_in_threadpool(_note_refused, HTTPConnection(scope))
        if status == 403 and operation is not None and operation.id not in NOTED_ELSEWHERE:
            await run_in_threadpool(_note_forbidden, HTTPConnection(scope), principal, operation)

    def _known(self, secret: str | None) -> Principal | None:
        if not secret:
            return None
        known, until = self._callers.get(hash_secret(secret), (None, 0.0))
        return known if time.monotonic() < until else None

    def _remember(self, secret: str | None, principal: Principal | None) -> None:
        # A credential that is being taken up changes what it is with its first use.
        if not secret or principal is None or principal.uses_next_credential:
            return
        if len(self._callers) >= CALLERS_MAX:
            self._callers.clear()
        self._callers[hash_secret(secret)] = (principal, time.monotonic() + CALLER_KNOWN_S)

    def _who(self, connection: HTTPConnection, operation: Operation | None) -> Principal | None:
        """Return the caller as `_identify` does; a known monitor also while the database is away."""
        if operation is None or operation.permission != "metrics":
            return self._identify(connection, operation)
        secret_hash = hash_secret(_bearer(connection) or "")
        try:
            principal = self._identify(connection, operation)
        except SQLAlchemyError as error:
            known, until = self._monitors.get(secret_hash, (None, 0.0))
            if known is None or time.monotonic() > until or not is_unavailable(error):
                raise
            return known
        if principal is not None and principal.token_id is not None:
            if len(self._monitors) >= MONITORS_MAX:
                self._monitors.clear()
            self._monitors[secret_hash] = (principal, time.monotonic() + MONITOR_KNOWN_S)
        else:
            self._monitors.pop(secret_hash, None)
        return principal

    def _identify(
        self, connection: HTTPConnection, operation: Operation | None
    ) -> Principal | None:
        if operation is not None and operation.permission == "provision":
            presented = hash_secret(_bearer(connection) or "")
            if any(hmac.compare_digest(presented, known) for known in self._scim):
                return Principal(kind="scim", name="provider", role="scim")
        database: Database = connection.app.state.database
        now = clock.now()
        if operation is not None and operation.id == "live":
            ticket = _take_ticket(connection)
            if ticket is not None:
                with database.transaction() as session:
                    ticketed = identity.principal_of_live_ticket(session, ticket, now=now)
                    return _with_sight(session, ticketed)
        bearer = _bearer(connection)
        cookie = connection.cookies.get(self._cookie)
        if bearer is None and not cookie:
            return None
        with database.read() as session:
            # An explicit token wins over a cookie the browser adds by itself, and is not
            # backed up by it: a caller that sends a bad token should hear about it.
            if bearer is not None:
                principal = identity.principal_of_bearer(session, bearer, now=now)
            else:
                principal = identity.principal_of_session(
                    session, cookie or "", now=now, idle=self._idle
                )
            stale = principal is not None and identity.use_is_stale(session, principal, now=now)
            principal = _with_sight(session, principal)
        if principal is not None and stale:
            try:
                with database.transaction() as session:
                    identity.note_use(session, principal, now=now)
            except SQLAlchemyError as error:
                if not is_disk_full(error):
                    raise
                # Reading needs no room: the use is noted once there is some.
        return principal


def _require(principal: Principal, operation: Operation) -> None:
    """Raise Forbidden unless the caller's role and token allow an operation."""
    _require_role(principal, operation.permission)
    if principal.is_limited and not concerns_projects(operation.id, operation.permission):
        raise access.limited_token()


def _require_role(principal: Principal, permission: Permission) -> None:
    if not allows(principal.role, permission):
        raise Forbidden(
            "auth.forbidden",
            f"This needs the permission {permission!r}, "
            f"which the role {principal.role!r} does not have.",
        )


def confirm_user(session: Session, secret: str, permission: Permission) -> Principal:
    """Return the user behind a token now, for an operation that concerns projects and was let in by
    what was known a moment ago.

    Call it in the transaction of the operation's work. Raises NotSignedIn and Forbidden.
    """
    now = clock.now()
    principal = _with_sight(session, identity.principal_of_bearer(session, secret, now=now))
    if principal is None:
        raise NotSignedIn("auth.not_signed_in", NOT_VALID)
    _require_role(principal, permission)
    return principal


def _with_sight(session: Session, principal: Principal | None) -> Principal | None:
    """Return the caller with what they may not see."""
    if principal is None or principal.user_id is None:
        return principal
    hidden = access.Sight(session).hidden_from(principal)
    return dataclasses.replace(principal, hidden_projects=hidden) if hidden else principal


def _match(operations: Iterable[Operation], scope: Scope) -> Operation | None:
    # scope["path"] is what the router matches, too; never the URL, which the Host header colours.
    path = scope["path"]
    kind = scope["type"]
    for operation in operations:
        if not path.startswith(operation.beginning):
            continue
        if operation.kind != kind or not operation.pattern.match(path):
            continue
        if kind == "websocket" or scope["method"] in operation.methods:
            return operation
        if scope["method"] == "HEAD" and "GET" in operation.methods:
            return operation
    return None


def _head_as_get(operation: Operation, scope: Scope, send: Send) -> tuple[Scope, Send]:
    """HEAD of whatever can be read: the route answers as for GET, and its body is dropped."""
    if scope["method"] != "HEAD" or "HEAD" in operation.methods:
        return scope, send

    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return {**scope, "method": "GET"}, send_head


def _methods_at(operations: Iterable[Operation], scope: Scope) -> set[str]:
    """Return the methods that the address of an HTTP request supports; empty if there are none."""
    allowed: set[str] = set()
    for operation in operations:
        if operation.kind == scope["type"] == "http" and operation.pattern.match(scope["path"]):
            # The page for every other address is not what somebody meant who found another route.
            if operation.id == "dashboard" and allowed:
                continue
            allowed |= operation.methods
    return allowed | {"HEAD"} if "GET" in allowed else allowed


def _note_refused(connection: HTTPConnection) -> None:
    """Record that a token was presented and is not valid. A session that has ended is no refusal."""
    secret = _bearer(connection)
    if secret is None:
        return
    database: Database = connection.app.state.database
    with database.read() as session:
        subject, reason = identity.describe_refused(session, secret, now=clock.now())
    note_refusal(connection, "auth.token_refused", subject, reason=reason)


def _note_forbidden(connection: HTTPConnection, principal: Principal, operation: Operation) -> None:
    """Record that somebody who is known may not do what they asked for."""
    note_refusal(
        connection,
        "calls.refused",
        f"operation:{operation.id}",
        reason=connection.scope["path"][:200],
        actor=principal.actor,
    )


def _why_nobody(connection: HTTPConnection, operation: Operation | None) -> str:
    if operation is not None and operation.permission == "provision":
        return "SCIM takes the token of MUSTER_SCIM_TOKEN alone, and is off if the server has none."
    bearer = _bearer(connection)
    if bearer is None:
        return "Sign in, or send an API token as 'Authorization: Bearer mst_usr_…'."
    if not bearer:
        return "The Authorization header must be 'Bearer mst_usr_…', once."
    return NOT_VALID


def _bearer(connection: HTTPConnection) -> str | None:
    """Return the presented token; "" (valid for nobody) for a header of another form."""
    values = connection.headers.getlist("authorization")
    if not values:
        return None
    if len(values) > 1:
        return ""
    scheme, _, secret = values[0].partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _take_ticket(connection: HTTPConnection) -> str | None:
    """Return the ticket in the address, which is taken out of it: the server logs addresses.

    "" (valid for nobody) for an address that nobody writes by accident.
    """
    query = connection.scope.get("query_string", b"").decode("latin-1")
    connection.scope["query_string"] = b""
    try:
        values = parse_qs(query, max_num_fields=10).get("ticket", [])
    except ValueError:
        return ""
    if len(values) > 1:
        return ""
    return values[0] if values else None


async def confirm_operation(connection: HTTPConnection) -> None:
    """Refuse unless this very route is the one the gate let the caller through to."""
    reached = operation_id(connection.scope["route"])
    decided = connection.scope.get(OPERATION)
    if reached is None or reached != decided:
        log.error("guard_disagreement", reached=reached, decided=decided)
        raise Forbidden("auth.forbidden", "This address cannot be used.")


def permissions_of(role: str, *, is_limited: bool = False) -> Iterator[str]:
    """Yield the permissions a role holds, for the dashboard to show and hide what it offers.

    is_limited: whether it is the role of a token that is limited to projects.
    """
    for permission in PERMISSIONS_SHOWN:
        if allows(role, permission) and not (is_limited and permission == "admin"):
            yield permission
