"""Runs the API server: uvicorn with limits, an orderly end, and the set-up token at first start."""

from __future__ import annotations

import socket
import sys

import structlog
import uvicorn
from fastapi import FastAPI

from muster.launch import lifeline

from . import clock, longlived
from .app import create_app
from .db.engine import Database
from .db.tables import require_tables
from .http_protocol import BoundedHttpProtocol
from .middleware.proxies import BehindProxies
from .services.core.accounts import auth
from .settings import Settings

log = structlog.get_logger(__name__)

GRACEFUL_SHUTDOWN_S = 5
"""Seconds that running requests get when the server is asked to stop; long polls end at once."""
BACKLOG = 2048
LIVE_MESSAGE_MAX_BYTES = 65_536


class NotReady(RuntimeError):
    """The server cannot start; the text says what to do."""


def run(settings: Settings) -> None:
    """Serve until SIGTERM, SIGINT or the end of `muster up`. Raises NotReady and SchemaMismatch."""
    offer_setup(settings)
    app = create_app(settings)
    config = server_config(app, settings, settings.port)
    server = uvicorn.Server(config)

    def end() -> None:
        server.should_exit = True

    lifeline.watch(end)
    with _listening(settings) as listening:
        address, port = listening.getsockname()[:2]
        longlived.settle()
        log.info("serving", address=address, port=port, url=settings.browser_url())
        server.run(sockets=[listening])


def _listening(settings: Settings) -> socket.socket:
    if settings.listen_fd is None:
        return listen_on(settings.host, settings.port, "MUSTER_PORT")
    try:
        return socket.socket(fileno=settings.listen_fd)
    except OSError as error:
        raise NotReady(
            f"MUSTER_LISTEN_FD={settings.listen_fd} is no open socket ({error.strerror})."
        ) from None


def server_config(app: FastAPI, settings: Settings, port: int) -> uvicorn.Config:
    """Return the configuration of every HTTP server of ours: bounded heads, no server header."""
    proxies = settings.forwarded_allow_ips
    return uvicorn.Config(
        BehindProxies(app, proxies) if proxies else app,
        host=settings.host,
        port=port,
        http=BoundedHttpProtocol,
        h11_max_incomplete_event_size=settings.header_max_bytes,
        ws="websockets-sansio",
        ws_max_size=LIVE_MESSAGE_MAX_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=20,
        ws_ping_timeout=20,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
    )


def listen_on(host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket. Raises NotReady, which names `setting`, if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise NotReady(
            f"MUSTER_HOST={host} {setting}={port}: "
            f"cannot listen there ({error.strerror}). Is another server running?"
        ) from None
    listening.listen(BACKLOG)
    listening.set_inheritable(True)
    return listening


def offer_setup(settings: Settings) -> None:
    """Check the tables, and print how to make the first administrator when there is none.

    The token is printed once: a restart within its lifetime does not make another one.
    Raises SchemaMismatch when the tables are not those of this version.
    """
    database = Database(settings.resolved_database_url())
    try:
        require_tables(database)
        now = clock.now()
        with database.read() as session:
            is_needed = auth.setup_required(session)
            is_waiting = auth.has_setup_token(session, now=now)
        if not is_needed:
            return
        if is_waiting:
            log.info("setup_needed", hint="muster-server setup-token prints a new token")
            return
        with database.transaction() as session:
            token = auth.create_setup_token(session, now=now)
        sys.stderr.write(
            "\n  There is no administrator yet. Within 30 minutes, open\n\n"
            f"      {settings.browser_url()}/setup#token={token}\n\n"
        )
        sys.stderr.flush()
    finally:
        database.dispose()
