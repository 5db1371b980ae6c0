"""The HTTP port of a controller or a Celery worker: health and metrics.

The same guard, limits and answers as the API server has, with three routes. It runs in a thread
beside the work, only where a port is configured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Response

from muster import __version__
from muster_server.api import health, prometheus
from muster_server.api.http import errors
from muster_server.api.http.guard import Gate, confirm_operation, operations_of
from muster_server.api.http.parameters import parameters_of, refuse_unknown_parameters
from muster_server.db.engine import Database
from muster_server.db.state import state_of
from muster_server.middleware.browser import BrowserGuard
from muster_server.middleware.context import RequestContext
from muster_server.middleware.headers import SecurityHeaders
from muster_server.middleware.limits import RequestLimits
from muster_server.schemas.health import ProcessReady
from muster_server.serve import listen_on, server_config
from muster_server.settings import Settings
from muster_server.telemetry.process import ControllerTelemetry, WorkerTelemetry

log = structlog.get_logger(__name__)

START_TIMEOUT_S = 10.0


def create_process_app(
    settings: Settings,
    telemetry: ControllerTelemetry | WorkerTelemetry,
    database: Database,
    is_working: Callable[[], bool],
) -> FastAPI:
    """`/healthz`, `/readyz` and `/metrics` of a process that is not an API server."""
    app = FastAPI(
        title=f"Muster {telemetry.process}",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(confirm_operation), Depends(refuse_unknown_parameters)],
    )
    app.state.settings = settings
    app.state.database = database
    app.state.telemetry = telemetry
    errors.install(app)
    router = APIRouter()

    @router.get("/readyz")
    def readyz(response: Response) -> ProcessReady:
        state, working = state_of(database), is_working()
        redis_state = health.redis_state(settings)
        is_ready = state == "ok" and working
        if telemetry.process == "worker" and redis_state != "ok":
            is_ready = False  # its jobs come from there
        if not is_ready:
            response.status_code = 503
        return ProcessReady(
            status="ready" if is_ready else "not_ready",
            process="controller" if telemetry.process == "controller" else "worker",
            database=state,
            redis=redis_state,
            working=working,
        )

    router.get("/healthz")(health.healthz)
    router.include_router(prometheus.router)
    app.include_router(router)
    app.state.operations = operations_of(app.routes)
    app.state.parameters = parameters_of(app.routes)
    app.add_middleware(Gate, settings=settings)
    app.add_middleware(RequestLimits, settings=settings)
    app.add_middleware(BrowserGuard, settings=settings)
    app.add_middleware(RequestContext)
    app.add_middleware(SecurityHeaders, settings=settings)
    return app


@contextmanager
def answering(app: FastAPI, settings: Settings, port: int, setting: str) -> Iterator[int]:
    """Serve `app` from a thread until the end of the block; yields the port.

    port: 0 takes any free one. setting: what names it, for the message. Raises serve.NotReady when
    nobody can listen there.
    """
    with listen_on(settings.host, port, setting) as listening:
        server = uvicorn.Server(server_config(app, settings, port))
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [listening]}, name="process-app", daemon=True
        )
        thread.start()
        port = int(listening.getsockname()[1])
        log.info("answering", process=app.title, host=settings.host, port=port)
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(START_TIMEOUT_S)
