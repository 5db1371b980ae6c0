"""The API server: routes, the layers around them, and what lives as long as the process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import anyio
from fastapi import Depends, FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import BaseRoute

from muster import __version__
from muster_server.api import (
    agents,
    auth,
    blobs,
    checkpoints,
    cluster,
    description,
    diagnoses,
    driving,
    errors,
    experiments,
    exports,
    health,
    live,
    logs,
    operations,
    plans,
    preflights,
    profiles,
    projects,
    prometheus,
    scaling,
    series,
    tokens,
    trials,
    users,
    views,
)
from muster_server.api.agent_lane import AgentLane
from muster_server.api.dashboard import dashboard_route
from muster_server.api.guard import Gate, confirm_operation, operations_of
from muster_server.api.parameters import parameters_of, refuse_unknown_parameters
from muster_server.db.engine import Database
from muster_server.db.together import Together
from muster_server.live.hub import Hub
from muster_server.live.polls import PollWatch
from muster_server.live.stamps import Stamps
from muster_server.live.watch import ListenerWatch
from muster_server.middleware.browser import BrowserGuard
from muster_server.middleware.context import RequestContext
from muster_server.middleware.headers import SecurityHeaders
from muster_server.middleware.limits import RequestLimits
from muster_server.middleware.meter import RequestMeter
from muster_server.middleware.strict_json import StrictJson
from muster_server.security.passwords import CONCURRENT_VERIFIES
from muster_server.security.rate_limits import SignInLimits
from muster_server.services.foresight import Foresight
from muster_server.services.scheduling import scheduler_policy
from muster_server.settings import Settings
from muster_server.tasks.names import QUEUE_KEY
from muster_server.telemetry.cluster import ClusterCollector, redis_list_length
from muster_server.telemetry.process import ServerTelemetry

COMPRESSED_FROM_BYTES = 4096
"""Smaller answers go as they are: of tokens and of what an agent asks for, for example."""
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
    tokens.router,
    users.router,
    cluster.router,
    experiments.router,
    exports.router,
    operations.router,
    driving.router,
    projects.router,
    trials.router,
    checkpoints.router,
    diagnoses.router,
    profiles.router,
    scaling.router,
    plans.router,
    series.router,
    logs.router,
    preflights.router,
    views.router,
    blobs.router,
    live.router,
)


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """What every application of this process answers to.

    Working out the schemas of a hundred routes takes 0.3 s of a core. A route keeps nothing of an
    application: what is an application's own is in `request.app.state`.
    """
    app = FastAPI(
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(confirm_operation), Depends(refuse_unknown_parameters)],
        responses=errors.ERROR_RESPONSES,
    )
    app.include_router(health.router)
    app.include_router(prometheus.router)
    app.include_router(agents.router, prefix="/agent/v1")
    app.include_router(blobs.agent_router, prefix="/agent/v1")
    app.include_router(exports.agent_router, prefix="/agent/v1")
    for router in _API_ROUTERS:
        app.include_router(router, prefix="/api/v1")
    app.include_router(description.router)
    return tuple(app.router.routes)


def create_app(settings: Settings) -> FastAPI:
    """The whole service as one ASGI application. Raises UnguardedRoute when a route has no permission."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        hub = Hub(settings.resolved_redis_url())
        database = Database(settings.resolved_database_url(), on_commit=hub.on_commit)
        app.state.database = database
        app.state.foresight = Foresight(database, scheduler_policy(settings))
        app.state.hub = hub
        app.state.live_sockets = {}
        app.state.polls = polls = PollWatch(database, hub)
        app.state.listeners = listeners = ListenerWatch(database)
        app.state.writes = writes = Together(database, name="agents-write", writes=True)
        app.state.reads = reads = Together(database, name="agents-read", writes=False)
        app.state.renew_many = agents.renewer(settings)
        app.state.register_many = agents.registrar(settings)
        writes.start()
        reads.start()
        _watch(app, settings)
        stamps = Stamps(writes, settings.own_name, every_s=settings.heartbeat_s)
        await hub.start()
        polls.start()
        listeners.start()
        stamps.start()
        app.state.password_limiter = anyio.CapacityLimiter(CONCURRENT_VERIFIES)
        try:
            yield
        finally:
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
    errors.install(app)
    # The dashboard comes last: it answers to every other path.
    app.router.routes.extend([*_routes(), dashboard_route()])
    app.state.operations = operations_of(app)
    app.state.parameters = parameters_of(app)

    # The last one added is the outermost. Every answer is hardened and counted; a request is
    # named, and answered for whatever happens; its page of origin and its size are checked; its
    # sender is known and may do what is asked; and only then is its body read. What agents say all day
    # is answered before the framework looks for its route once more. Long lists and curves go compressed.
    app.add_middleware(
        GZipMiddleware,
        minimum_size=COMPRESSED_FROM_BYTES,
        compresslevel=COMPRESSION_LEVEL,
        exclude_content_types=NOT_COMPRESSED,
    )
    app.add_middleware(AgentLane)
    app.add_middleware(StrictJson)
    app.add_middleware(Gate, settings=settings)
    app.add_middleware(RequestLimits, settings=settings)
    app.add_middleware(BrowserGuard, settings=settings)
    app.add_middleware(RequestContext)
    app.add_middleware(RequestMeter, telemetry=app.state.telemetry)
    app.add_middleware(SecurityHeaders, settings=settings)
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
