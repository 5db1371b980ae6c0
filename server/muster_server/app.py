"""The API server: routes, the layers around them, and what lives as long as the process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from operator import attrgetter

import anyio
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from muster import __version__
from muster_server import parts
from muster_server.api import (
    agents,
    ask_tell,
    blobs,
    catalog,
    checkpoints,
    cluster,
    experiments,
    exports,
    health,
    live,
    logs,
    mcp,
    media,
    metrics,
    mlflow,
    operations,
    outputs,
    preflights,
    projects,
    prometheus,
    reports,
    trials,
    tunnels,
)
from muster_server.api.accounts import (
    auth,
    device_logins,
    dismissals,
    invitations,
    members,
    notifications,
    openid,
    panels,
    saved_views,
    scim,
    second_factor,
    secrets,
    tokens,
    users,
)
from muster_server.api.agent_calls import AgentCalls
from muster_server.api.analysis import diagnoses, goodput, planner, profiles, scaling
from muster_server.api.calendar import maintenance, reservations, schedules
from muster_server.api.dashboard import dashboard_route
from muster_server.api.http import errors, openapi
from muster_server.api.http.guard import (
    Gate,
    Operation,
    beginning,
    operations_of,
    refuse_duplicates,
)
from muster_server.api.http.parameters import GUARDS, parameters_of
from muster_server.api.tunnels import Tunnels
from muster_server.db.batching import Batcher
from muster_server.db.engine import Database
from muster_server.live.hub import Hub
from muster_server.live.polls import PollWatch
from muster_server.live.stamps import Stamps
from muster_server.live.watch import ListenerWatch
from muster_server.middleware.browser import BrowserGuard
from muster_server.middleware.context import RequestContext, comes_by_the_thousand
from muster_server.middleware.headers import SecurityHeaders
from muster_server.middleware.limits import RequestLimits
from muster_server.middleware.meter import RequestMeter
from muster_server.middleware.prefix import PathPrefix
from muster_server.middleware.strict_json import StrictJson
from muster_server.security.openid import OpenidProvider
from muster_server.security.passwords import CONCURRENT_VERIFIES
from muster_server.security.rate_limits import SignInLimits
from muster_server.security.refusals import RefusalCounts
from muster_server.services.core.accounts.openid_checks import OpenidChecks
from muster_server.services.scheduling.placement_preview import Foresight
from muster_server.services.scheduling.snapshot import scheduler_policy
from muster_server.settings import Settings
from muster_server.tasks.names import QUEUE_KEY
from muster_server.telemetry.cluster import ClusterCollector, redis_list_length
from muster_server.telemetry.process import ServerTelemetry

COMPRESSED_FROM_BYTES = 4096
"""Size below which responses are not compressed, such as those of tokens and to agents."""
COMPRESSION_LEVEL = 1
"""Twelve curves of 1,000 buckets, 883 kB, go as 409 kB after 7 ms of the processor; with level 5 it was
393 kB after 35 ms, three times what reading them took."""
NOT_COMPRESSED = (
    *DEFAULT_EXCLUDED_CONTENT_TYPES,
    # Streams of files: their receiver waits for each part, or they are compressed inside.
    "application/octet-stream",
    "application/vnd.apache.parquet",
    "application/x-ndjson",
    "text/*",
)

_API_ROUTERS = (
    auth.router,
    openid.router,
    device_logins.router,
    invitations.router,
    second_factor.router,
    tokens.router,
    users.router,
    members.router,
    catalog.router,
    cluster.router,
    maintenance.router,
    reservations.router,
    experiments.router,
    exports.router,
    operations.router,
    reports.router,
    schedules.router,
    ask_tell.router,
    projects.router,
    secrets.router,
    trials.router,
    checkpoints.router,
    diagnoses.router,
    profiles.router,
    scaling.router,
    planner.router,
    goodput.router,
    metrics.router,
    logs.router,
    outputs.router,
    media.router,
    preflights.router,
    saved_views.router,
    dismissals.router,
    panels.router,
    notifications.router,
    blobs.router,
    live.router,
    tunnels.router,
)


class Compression(GZipMiddleware):
    """Compresses answers to people. Those that come by the thousand are short."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_short = scope["type"] == "http" and comes_by_the_thousand(scope["path"])
        call = self.app if is_short else super().__call__
        await call(scope, receive, send)


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Return the routes of every application of this process.

    Working out the schemas of a hundred routes takes 0.3 s of a core. A route keeps nothing of an
    application: what is an application's own is in `request.app.state`.
    """
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=GUARDS,
        responses=errors.ERROR_RESPONSES,
        generate_unique_id_function=attrgetter("name"),
    )
    # Found at once, and not by way of a router that includes them: they are asked for all day.
    app.router.routes.extend((mlflow.log_metric_route, mlflow.log_batch_route))
    app.router.routes.extend(agents.router.routes)
    app.include_router(health.router)
    app.include_router(prometheus.router)
    app.include_router(blobs.agent_router, prefix="/agent/v1")
    app.include_router(exports.agent_router, prefix="/agent/v1")
    app.include_router(tunnels.agent_router, prefix="/agent/v1")
    for router in _API_ROUTERS:
        app.include_router(router, prefix="/api/v1")
    for part in parts.installed():
        for router in part.routers():
            app.include_router(router, prefix="/api/v1")
        for router in part.agent_routers():
            app.include_router(router, prefix="/agent/v1")
    app.include_router(mlflow.router)
    app.include_router(scim.router)
    app.router.routes.append(mcp.route)
    app.include_router(openapi.router)
    for included in app.router.routes:
        _pass_over_early(included)
    return tuple(app.router.routes)


@cache
def _guards() -> tuple[list[Operation], dict[str, dict[str, bool]]]:
    """Return the operations of these routes, and the parameters that each of them knows."""
    return operations_of(_routes()), parameters_of(_routes())


def _pass_over_early(route: BaseRoute) -> None:
    """Have a router of several routes passed over where none of its paths begins like that of a request.

    FastAPI asks each of them, one after another: a fifth of what the server computed for a short request.
    """
    matches = route.matches
    beginnings = tuple({beginning(str(one.path)) for one in iter_route_contexts([route])})

    def matches_early(scope: Scope) -> tuple[Match, Scope]:
        # With a root path, the router strips it first.
        if scope.get("root_path") or scope["path"].startswith(beginnings):
            return matches(scope)
        return Match.NONE, {}

    route.matches = matches_early  # type: ignore[method-assign]


def create_app(settings: Settings) -> FastAPI:
    """Return the whole service as one ASGI application. Raises UnguardedRoute if a route has no
    permission."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        hub = Hub(settings.resolved_redis_url())
        database = Database(settings.resolved_database_url(), on_commit=hub.on_commit)
        app.state.database = database
        app.state.foresight = Foresight(database, scheduler_policy(settings))
        app.state.hub = hub
        app.state.live_sockets = {}
        app.state.tunnels = Tunnels()
        app.state.polls = polls = PollWatch(database, hub)
        app.state.listeners = listeners = ListenerWatch(database)
        writes = Batcher(database, name="agents-write", writes=True)
        reads = Batcher(database, name="agents-read", writes=False)
        app.state.agent_calls = AgentCalls(writes=writes, reads=reads, settings=settings)
        writes.start()
        reads.start()
        _watch(app, settings)
        stamps = Stamps(writes, settings.own_name, every_s=settings.heartbeat_s)
        await hub.start()
        polls.start()
        listeners.start()
        stamps.start()
        app.state.password_limiter = anyio.CapacityLimiter(CONCURRENT_VERIFIES)
        app.state.openid_limiter = anyio.CapacityLimiter(openid.CALLS_AT_ONCE)
        app.state.openid = provider = OpenidProvider(settings) if settings.oidc_issuer else None
        checks = OpenidChecks(database, provider, settings) if provider else None
        if checks is not None:
            checks.start()
        try:
            yield
        finally:
            if checks is not None:
                await checks.stop()
            if provider is not None:
                provider.close()
            await stamps.stop()
            await polls.stop()
            await listeners.stop()
            await run_in_threadpool(writes.stop)
            await run_in_threadpool(reads.stop)
            await hub.stop()
            database.dispose()

    app = FastAPI(
        title="Muster",
        version=__version__,
        lifespan=lifespan,
        # FastAPI's own pages load scripts from elsewhere and know no permissions.
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        # A redirect would send the caller to whatever the Host header says.
        redirect_slashes=False,
    )
    app.state.settings = settings
    app.state.telemetry = ServerTelemetry()
    app.state.sign_in_limits = SignInLimits(
        attempts_per_address=settings.sign_in_attempts_per_minute
    )
    app.state.refusals = RefusalCounts()
    errors.install(app)
    # The dashboard comes last: it answers to every other path.
    last = dashboard_route(prefix=settings.path_prefix())
    app.router.routes.extend([*_routes(), last])
    operations, app.state.parameters = _guards()
    app.state.operations = [*operations, *operations_of([last])]
    refuse_duplicates(app.state.operations)

    # The last one added is the outermost. Every answer is hardened and counted; a request is
    # named, and answered for whatever happens; its page of origin and its size are checked; its
    # sender is known and may do what is asked; and only then is its body read. Long lists and curves go
    # compressed. The prefix is gone before anything looks at a path.
    app.add_middleware(
        Compression,
        minimum_size=COMPRESSED_FROM_BYTES,
        compresslevel=COMPRESSION_LEVEL,
        exclude_content_types=NOT_COMPRESSED,
    )
    app.add_middleware(StrictJson)
    app.add_middleware(Gate, settings=settings)
    app.add_middleware(RequestLimits, settings=settings)
    app.add_middleware(BrowserGuard, settings=settings)
    app.add_middleware(RequestContext)
    app.add_middleware(RequestMeter, telemetry=app.state.telemetry)
    app.add_middleware(SecurityHeaders, settings=settings)
    if prefix := settings.path_prefix():
        app.add_middleware(PathPrefix, prefix=prefix)
    return app


def _watch(app: FastAPI, settings: Settings) -> None:
    """Let the telemetry look at what lives as long as the process."""
    state, redis_url = app.state, settings.resolved_redis_url()
    telemetry: ServerTelemetry = state.telemetry
    telemetry.watch_pool(state.database)
    telemetry.watch_connections(
        lambda: sum(state.live_sockets.values()),
        (lambda: state.hub.is_connected) if redis_url is not None else None,
    )
    queue_length = None
    if redis_url is not None:
        queue_length = redis_list_length(redis_url, QUEUE_KEY)
    telemetry.registry.register(ClusterCollector(state.database, queue_length))
