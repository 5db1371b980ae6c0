"""`muster-server`: the processes of the control plane, and what an operator does by hand.

Imports are inside the commands: `--help` and `health` should not wait for a database driver.
"""

from __future__ import annotations

import argparse
import datetime as dt
import errno
import os
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from muster import __version__, lifeline
from muster_server.errors import MusterError
from muster_server.settings import Settings, get_settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

EXIT_FAILED = 1
EXIT_SETTINGS = 2

SHUTDOWN_S = 10
"""How long running requests may take to end when the server is told to stop."""
HEALTH_TIMEOUT_S = 5


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace, Settings], int] = options.run
    try:
        settings = get_settings()
    except ValidationError as error:
        for problem in error.errors():
            name = "_".join(str(part) for part in problem["loc"]).upper()
            # A URL may hold a password, so it is not repeated.
            given = "" if name.endswith("URL") else f", but it is {problem['input']!r}"
            _say(f"MUSTER_{name}: {problem['msg']}{given}")
        return EXIT_SETTINGS
    try:
        return command(options, settings)
    except MusterError as error:
        _say(error.message + (f" {error.hint}" if error.hint else ""))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muster-server", description=__doc__.split("\n")[0])
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace, Settings], int], text: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    add("serve", _serve, "Serve the API and the dashboard.")
    add("controller", _controller, "Run the control loops; a second one stands by.")
    add("worker", _worker, "Run the Celery worker with its schedule.")
    add("migrate", _migrate, "Bring the database to this version's tables.")
    add("check", _check, "Print the settings, secrets masked, and try the database and Redis.")
    health = add("health", _health, "Exit with 0 when the server on this host is ready.")
    health.add_argument("--url", help="default: the configured host and port")
    setup = add("setup-token", _setup_token, "Print a one-time token that makes the first admin.")
    setup.add_argument("--quiet", action="store_true", help="the token alone")
    sign_in = add("sign-in-token", _sign_in_token, "Print a one-time sign-in link for a user.")
    sign_in.add_argument("--user", help="default: the first active administrator")
    token = add("create-token", _create_token, "Print a new API token of a user.")
    token.add_argument("--user", required=True)
    token.add_argument("--name", default="command line")
    token.add_argument("--role", choices=["admin", "member", "viewer"])
    token.add_argument("--expires-in-days", type=_positive, default=90)
    join = add("create-join-token", _create_join_token, "Print a token agents join with.")
    join.add_argument("--pool", default="default")
    join.add_argument("--uses", type=_positive, default=1)
    join.add_argument("--expires-in-s", type=_positive, default=600)
    join.add_argument("--out", type=Path, help="write it to this file (mode 0600) instead")
    secrets = add("init-secrets", _init_secrets, "Make the secrets of a compose stack, once.")
    secrets.add_argument("--postgres-dir", type=Path, required=True)
    secrets.add_argument("--redis-dir", type=Path, required=True)
    secrets.add_argument("--server-dir", type=Path, required=True)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


# ---------------------------------------------------------------- processes


def _serve(_: argparse.Namespace, settings: Settings) -> int:
    import uvicorn

    from muster_server.app import create_app
    from muster_server.logging import configure_logging

    configure_logging(settings)
    listener = _listen(settings)
    if listener is None:
        return EXIT_FAILED
    config = uvicorn.Config(
        create_app(settings),
        # h11 bounds the size of headers; the faster parser does not.
        http="h11",
        h11_max_incomplete_event_size=settings.header_max_bytes,
        ws="websockets-sansio",
        ws_max_size=64 * 1024,
        ws_per_message_deflate=False,
        proxy_headers=bool(settings.forwarded_allow_ips),
        forwarded_allow_ips=settings.forwarded_allow_ips or None,
        server_header=False,
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    server = uvicorn.Server(config)

    def end() -> None:
        server.should_exit = True
        timer = threading.Timer(SHUTDOWN_S + 5, lambda: os._exit(EXIT_FAILED))
        timer.daemon = True
        timer.start()

    lifeline.watch(end)
    _announce_setup(settings)
    with listener:
        server.run(sockets=[listener])
    return 0 if server.started else EXIT_FAILED


def _listen(settings: Settings) -> socket.socket | None:
    """The listening socket, or None after saying why there is none."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            _say(
                f"port {settings.port} on {settings.host} is in use; "
                "stop what uses it or set MUSTER_PORT to another port"
            )
        else:
            _say(f"cannot listen on {settings.host}:{settings.port}: {error.strerror}")
        return None
    return listener


def _announce_setup(settings: Settings) -> None:
    """Print a set-up link when there is no administrator and nobody was given one yet."""
    from sqlalchemy.exc import DBAPIError

    from muster_server.services import auth

    try:
        with _session(settings) as (session, now):
            if not auth.setup_required(session) or auth.has_setup_token(session, now=now):
                return
            token = auth.create_setup_token(session, now=now)
    except DBAPIError:
        return  # not reachable or not migrated yet: `setup-token` prints one later
    print(f"Set up Muster: {_public_url(settings)}/setup#token={token}", flush=True)  # noqa: T201


def _controller(_: argparse.Namespace, settings: Settings) -> int:
    from muster_server.logging import configure_logging
    from muster_server.loops.runner import run

    configure_logging(settings)
    run(settings)
    return 0


def _worker(_: argparse.Namespace, settings: Settings) -> int:
    if settings.resolved_redis_url() is None:
        _say("MUSTER_REDIS_URL is not set; the Celery worker needs Redis")
        return EXIT_SETTINGS
    from muster_server.logging import configure_logging
    from muster_server.tasks.runner import run

    configure_logging(settings)
    run(settings)
    return 0


def _migrate(_: argparse.Namespace, settings: Settings) -> int:
    from muster_server.db.engine import Database
    from muster_server.db.migrations import current_revision, head_revision, upgrade

    database = Database(settings.resolved_database_url())
    try:
        before = current_revision(database)
        upgrade(database)
    finally:
        database.dispose()
    head = head_revision()
    _say(f"the database is at {head}" + ("" if before == head else f" (was {before or 'empty'})"))
    return 0


# ---------------------------------------------------------------- looking


def _check(_: argparse.Namespace, settings: Settings) -> int:
    from sqlalchemy import make_url
    from sqlalchemy.exc import SQLAlchemyError

    from muster_server.db.engine import Database
    from muster_server.db.migrations import current_revision, head_revision

    for name in sorted(type(settings).model_fields):
        value = getattr(settings, name)
        if name == "database_url":
            value = make_url(value).render_as_string(hide_password=True)
        _print(f"MUSTER_{name.upper()}={value}")
    failed = False
    try:
        database = Database(settings.resolved_database_url())
        revision, head = current_revision(database), head_revision()
        database.dispose()
        if revision == head:
            _print(f"database: ok, at {head}")
        else:
            failed = True
            _print(f"database: at {revision or 'nothing'}, needs {head}: run muster-server migrate")
    except (SQLAlchemyError, OSError) as error:
        failed = True
        _print(f"database: {str(error).splitlines()[0]}")
    redis_url = settings.resolved_redis_url()
    if redis_url is None:
        _print("redis: not configured; live pages poll, and no Celery worker can run")
    else:
        import redis

        try:
            client = redis.Redis.from_url(redis_url, socket_timeout=2, socket_connect_timeout=2)
            client.ping()
            _print("redis: ok")
        except redis.RedisError as error:
            failed = True
            _print(f"redis: {error}")
    return EXIT_FAILED if failed else 0


def _health(options: argparse.Namespace, settings: Settings) -> int:
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    url = options.url or f"http://{host}:{settings.port}/readyz"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=HEALTH_TIMEOUT_S) as answer:
            return 0 if answer.status == 200 else EXIT_FAILED
    except (urllib.error.URLError, OSError) as error:
        _say(f"{url}: {error}")
        return EXIT_FAILED


# ---------------------------------------------------------------- tokens


@contextmanager
def _session(settings: Settings) -> Iterator[tuple[Session, dt.datetime]]:
    from muster_server import clock
    from muster_server.db.engine import Database

    database = Database(settings.resolved_database_url())
    try:
        with database.transaction() as session:
            yield session, clock.now()
    finally:
        database.dispose()


def _public_url(settings: Settings) -> str:
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    return (settings.public_url or f"http://{host}:{settings.port}").rstrip("/")


def _setup_token(options: argparse.Namespace, settings: Settings) -> int:
    from muster_server.services import auth

    with _session(settings) as (session, now):
        if not auth.setup_required(session):
            _say("an administrator exists already; use sign-in-token for a one-time sign-in")
            return EXIT_FAILED
        token = auth.create_setup_token(session, now=now)
    _print(token if options.quiet else f"{_public_url(settings)}/setup#token={token}")
    return 0


def _sign_in_token(options: argparse.Namespace, settings: Settings) -> int:
    from muster_server.services import auth

    with _session(settings) as (session, now):
        token = auth.create_sign_in_token(session, username=options.user, now=now)
    _print(f"{_public_url(settings)}/sign-in#once={token}")
    return 0


def _create_token(options: argparse.Namespace, settings: Settings) -> int:
    from muster_server.schemas.auth import Role
    from muster_server.services import auth, tokens

    with _session(settings) as (session, now):
        user = auth.find_user(session, options.user)
        if user is None or not user.is_active:
            _say(f"there is no active user {options.user!r}")
            return EXIT_FAILED
        _, secret = tokens.create_api_token(
            session,
            user=user,
            name=options.name,
            role=options.role,
            own_role=cast(Role, user.role),
            lifetime=dt.timedelta(days=options.expires_in_days),
            actor="system",
            now=now,
        )
    _print(secret)
    return 0


def _create_join_token(options: argparse.Namespace, settings: Settings) -> int:
    from muster_server.services import tokens

    with _session(settings) as (session, now):
        _, secret = tokens.create_join_token(
            session,
            pool=options.pool,
            uses=options.uses,
            lifetime=dt.timedelta(seconds=options.expires_in_s),
            created_by=None,
            actor="system",
            now=now,
        )
    if options.out is None:
        _print(secret)
        return 0
    temporary = options.out.with_name(options.out.name + ".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret + "\n")
    temporary.replace(options.out)
    return 0


def _init_secrets(options: argparse.Namespace, _: Settings) -> int:
    from muster_server.security.stack_secrets import init_stack_secrets

    made = init_stack_secrets(options.postgres_dir, options.redis_dir, options.server_dir)
    _say("new secrets were made" if made else "the secrets exist already")
    return 0


# ---------------------------------------------------------------- output


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _say(text: str) -> None:
    print(f"muster-server: {text}", file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
