"""The `muster-server` command: the processes of the control plane, and an administrator's tasks."""

from __future__ import annotations

import argparse
import datetime as dt
import logging
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from . import longlived

# Imports of the server's parts are inside the commands: SQLAlchemy, FastAPI and Alembic take
# seconds on a busy machine, and `setup-token` needs only one of them.
if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from .backup import Contents
    from .db.engine import Database
    from .settings import Settings
    from .telemetry.process import ControllerTelemetry, WorkerTelemetry

OK, FAILED, USAGE = 0, 1, 2


class CommandError(Exception):
    """An error that ends the command with this text on standard error, and with this code."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


def main(arguments: Sequence[str] | None = None) -> None:
    args = _parser().parse_args(arguments)
    # Of torch and of numpy's BLAS: matrices of a search's model are too small for more, where threads
    # that wait for each other cost ten times as much and take every core of a shared machine.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        code = args.run(args)
    except CommandError as error:
        sys.stderr.write(f"muster-server: {error}\n")
        code = error.code
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        sys.stderr.write(f"muster-server: {_unexpected(error, args.run in _SERVICES)}\n")
        code = FAILED
    sys.exit(code)


def _unexpected(error: Exception, is_service: bool) -> str:
    """Return a sentence about an error that nothing foresees, and keep its traceback: a service's in its
    log, where what led to it is, any other in a file of its own."""
    if is_service:
        logging.getLogger(__name__).critical("ended by an error", exc_info=error)
        where = "The log above holds the traceback"
    else:
        fd, path = tempfile.mkstemp(prefix="muster-server-", suffix=".log")
        with os.fdopen(fd, "w") as file:
            file.writelines(traceback.format_exception(error))
        where = f"{path} holds the traceback"
    text = " ".join(str(error).split())[:500]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"unexpected error: {said}. {where}; please report it."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="muster-server", description=__doc__)
    parser.add_argument("--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(metavar="command")

    def command(
        name: str, run: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    parser.set_defaults(run=lambda args: _no_command(parser, args))
    command("serve", _serve, "run the API server and dashboard")
    command("controller", _controller, "run the controller (any number; one leads)")
    command("worker", _worker, "run the Celery worker")
    command("migrate", _migrate, "bring the database to this version's tables")
    sub = command("backup", _backup, "write all of the database to a file, also while it is in use")
    sub.add_argument(
        "file", type=Path, help="a new file, which becomes a SQLite database; - for standard output"
    )
    sub.add_argument(
        "--keep",
        type=int,
        metavar="N",
        help="FILE is a folder: write muster-TIME.db into it, and delete all but the N newest",
    )
    sub.add_argument("--every-h", type=float, metavar="H", help="go on, with one every H hours")
    sub = command("verify-backup", _verify_backup, "restore a backup into a scratch database")
    sub.add_argument("file", type=Path, help="what backup wrote; it stays as it is")
    sub = command("restore", _restore, "make the database of a backup again, where none is yet")
    sub.add_argument("file", type=Path, help="what backup wrote, of this version or an older one")
    command("check", _check, "show the settings and test the database and Redis")
    sub = command(
        "debug-dump",
        _debug_dump,
        "write an archive for a report: versions, settings, state and last logs, without secrets",
    )
    sub.add_argument(
        "file", type=Path, nargs="?", help="a new file; muster-debug-TIME.tar.gz unless named"
    )
    sub.add_argument(
        "--logs",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="a log, or a folder of logs; those of `muster up` beside its database unless given; repeatable",
    )
    health = command("health", _health, "ask the API server of this machine whether it is ready")
    health.add_argument("--timeout-s", type=float, default=5.0)
    health.add_argument("--port", type=int, help="of another process (MUSTER_CONTROLLER_PORT, …)")

    sub = command("setup-token", _setup_token, "print a link that makes the first administrator")
    sub.add_argument("--quiet", action="store_true", help="print the token alone")
    sub = command("sign-in-token", _sign_in_token, "print a link that signs somebody in once")
    sub.add_argument("--user", help="whom; an administrator when left out")
    sub.add_argument("--quiet", action="store_true", help="print the token alone")
    sub = command("create-token", _create_token, "print a new API token")
    sub.add_argument("--user", required=True, help="whose; made without a password when new")
    sub.add_argument("--name", default="cli", help="what it is for")
    sub.add_argument(
        "--role", choices=["admin", "member", "viewer", "predict", "metrics"], default="member"
    )
    sub.add_argument("--expires-in-days", type=int, default=90)
    sub = command("create-join-token", _create_join_token, "print a token with which agents join")
    sub.add_argument("--pool", default="default")
    sub.add_argument("--uses", type=int, default=1)
    sub.add_argument("--expires-in-s", type=int, default=600)
    sub.add_argument("--out", type=Path, help="write it to this file (0600) instead")
    sub = command("secrets", _secrets, "make a key for secrets, or encrypt them with the first one")
    sub.add_argument("action", choices=["new-key", "rotate"])
    sub.add_argument("--out", type=Path, help="write the key to this new file (0600)")
    sub = command("audit", _audit, "verify that the audit trail is as it was written, or sign it")
    sub.add_argument("action", choices=["verify", "sign"])
    sub.add_argument(
        "--head", metavar="NO:DIGEST", help="a seal that was noted elsewhere; it must still fit"
    )
    sub = command("init-secrets", _init_secrets, "make the secrets of a compose stack, once")
    for name in ("postgres", "redis", "server"):
        sub.add_argument(f"--{name}-dir", type=Path, required=True)
    return parser


def _no_command(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.version:
        from muster import __version__

        _print(__version__)
        return OK
    parser.print_help(sys.stderr)
    return USAGE


def _serve(_: argparse.Namespace) -> int:
    longlived.hold_off()
    settings = _settings()
    from . import serve
    from .telemetry import traces

    traces.start("muster-server")
    with _explained(settings):
        _refuse_missing_file(settings)
        try:
            serve.run(settings)
        except serve.NotReady as error:
            raise CommandError(str(error)) from None
    return OK


def _controller(_: argparse.Namespace) -> int:
    longlived.hold_off()
    settings = _settings()
    from .loops import runner
    from .services.core.liveness import stuck_after
    from .telemetry import traces
    from .telemetry.process import ControllerTelemetry

    traces.start("muster-controller")
    telemetry = ControllerTelemetry()
    stuck_s = stuck_after(settings.controller_interval_s).total_seconds()
    with (
        _explained(settings),
        _beside(settings, telemetry, lambda: telemetry.has_ticked_within(stuck_s)),
    ):
        runner.run(settings, telemetry)
    return OK


def _worker(_: argparse.Namespace) -> int:
    longlived.hold_off()
    settings = _settings()
    from .tasks import runner
    from .telemetry import traces
    from .telemetry.process import WorkerTelemetry

    traces.start("muster-worker")
    telemetry = WorkerTelemetry()
    try:
        with _explained(settings), _beside(settings, telemetry, lambda: telemetry.takes_jobs):
            runner.run(settings, telemetry)
    except ValueError as error:
        raise CommandError(str(error)) from None
    return OK


def _migrate(_: argparse.Namespace) -> int:
    settings = _settings()
    from .db.migrations import current_revision, head_revision
    from .db.tables import migrate

    with _explained(settings), _database(settings, makes_it=True) as database:
        before = current_revision(database)
        migrate(database)
        after = head_revision()
    _print(f"{before or 'empty'} → {after}" if before != after else f"{after}: up to date")
    return OK


def _backup(args: argparse.Namespace) -> int:
    if args.keep is not None and args.keep < 1:
        raise CommandError(f"--keep {args.keep}: must be at least 1")
    if args.every_h is None:
        return _back_up_once(args)
    if args.keep is None or not 0 < args.every_h <= 8760:
        raise CommandError(
            f"--every-h {args.every_h}: needs --keep, and must be above 0, 8760 at most"
        )
    while True:
        _back_up_once(args)
        time.sleep(args.every_h * 3600)


def _back_up_once(args: argparse.Namespace) -> int:
    settings = _settings()
    from . import clock
    from .backup import BackupError, back_up, back_up_into, patiently
    from .db.migrations import current_revision, head_revision
    from .domain.messages import count
    from .services.checkpoints.storages import files_elsewhere
    from .services.core.liveness import backup_made
    from .services.metrics import cooling

    file, is_piped = args.file, str(args.file) == "-"
    if is_piped and (args.keep is not None or sys.stdout.isatty()):
        raise CommandError("-: writes one backup into a pipe, such as `| gpg -e -r NAME > FILE`")
    elsewhere: list[str] = []

    def say(text: str) -> None:
        _print(text, to=sys.stderr)

    with (
        _explained(settings),
        _database(settings) as database,
        tempfile.TemporaryDirectory(prefix="muster-backup-") as folder,
    ):
        if is_piped:
            file = Path(folder) / "backup.db"
        try:
            if args.keep is None:
                done = patiently(lambda: back_up(database, file), say)
            else:
                folder_of_all = file
                file, done = patiently(
                    lambda: back_up_into(database, folder_of_all, keep=args.keep, now=clock.now()),
                    say,
                )
        except BackupError as error:
            raise CommandError(str(error)) from None
        if is_piped:
            with file.open("rb") as source:
                shutil.copyfileobj(source, sys.stdout.buffer)
            sys.stdout.flush()
        # A database that is yet to be migrated has other tables: its backup is not noted.
        if current_revision(database) == head_revision():
            with database.transaction() as session:
                backup_made(
                    session, file=str(args.file if is_piped else file.absolute()), now=clock.now()
                )
                elsewhere = files_elsewhere(session)
                num_files, size_bytes = cooling.stored(session)
            if num_files:
                place = settings.metric_cold_url or "the folder that MUSTER_METRIC_COLD_URL was"
                elsewhere.append(
                    f"{count(num_files, 'file')} of cold metrics, {size_bytes / 1e9:.1f} GB, in {place}"
                )
    name, to = ("backup", sys.stderr) if is_piped else (file, sys.stdout)
    _print(f"{name}: {_told(done)}, {done.size_bytes / 1e6:.1f} MB", to=to)
    for one in elsewhere:
        _print(f"not in it: {one}", to=to)
    return OK


def _verify_backup(args: argparse.Namespace) -> int:
    settings = _settings()
    from .backup import BackupError, verify
    from .loops.lifecycle import lifecycle_policy

    try:
        done = verify(args.file, lifecycle_policy(settings))
    except BackupError as error:
        raise CommandError(str(error)) from None
    _print(f"{args.file}: can be restored: {_told(done)}, {done.size_bytes / 1e6:.1f} MB")
    return OK


def _restore(args: argparse.Namespace) -> int:
    settings = _settings()
    from .backup import BackupError, restore
    from .loops.lifecycle import lifecycle_policy

    with _explained(settings):
        try:
            done = restore(args.file, settings.resolved_database_url(), lifecycle_policy(settings))
        except BackupError as error:
            raise CommandError(str(error)) from None
    _print(f"restored {_told(done)}")
    if done.num_interrupted:
        _print(f"trials that ran and go on from their latest checkpoints: {done.num_interrupted}")
    return OK


def _told(contents: Contents) -> str:
    from .domain.messages import count

    return (
        f"{count(contents.num_users, 'user')}, {count(contents.num_experiments, 'experiment')}, "
        f"{count(contents.num_trials, 'trial')}"
    )


def _check(_: argparse.Namespace) -> int:
    settings = _settings()
    from .check import check

    return OK if check(settings, _print) else FAILED


def _debug_dump(args: argparse.Namespace) -> int:
    settings = _settings()
    from . import clock
    from .debug_dump import write_dump

    now = clock.now()
    file = args.file or Path(f"muster-debug-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    try:
        names = write_dump(settings, file, args.logs, now)
    except OSError as error:
        raise CommandError(f"{error.filename or file}: {error.strerror}") from None
    _print(f"{file}: {', '.join(names)}")
    _print(
        "Secrets are taken out as far as Muster knows them. Look through the files before you send them."
    )
    return OK


def _health(args: argparse.Namespace) -> int:
    settings = _settings()
    import http.client

    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    port = settings.port if args.port is None else args.port
    connection = http.client.HTTPConnection(host, port, timeout=args.timeout_s)
    try:
        connection.request("GET", "/readyz", headers={"Host": "localhost"})
        reply = connection.getresponse()
        _print(reply.read().decode(errors="replace"))
    except (OSError, http.client.HTTPException) as error:
        raise CommandError(f"{host}:{port} does not answer: {error}") from None
    finally:
        connection.close()
    return OK if reply.status == 200 else FAILED


def _setup_token(args: argparse.Namespace) -> int:
    from .services.core.accounts import auth

    settings = _settings()
    with _transaction(settings) as (session, now):
        token = auth.create_setup_token(session, now=now)
    _print(token if args.quiet else f"{settings.browser_url()}/setup#token={token}")
    return OK


def _sign_in_token(args: argparse.Namespace) -> int:
    from .services.core.accounts import auth

    settings = _settings()
    with _transaction(settings) as (session, now):
        token = auth.create_sign_in_token(session, username=args.user, now=now)
    _print(token if args.quiet else f"{settings.browser_url()}/sign-in#once={token}")
    return OK


def _create_token(args: argparse.Namespace) -> int:
    from .services.core.accounts import auth, tokens, users
    from .services.core.audit import Author

    if not 1 <= args.expires_in_days <= 3650:
        raise CommandError(f"--expires-in-days {args.expires_in_days}: must be 1 to 3650")
    with _transaction(_settings()) as (session, now):
        user = auth.find_user(session, args.user)
        if user is None:
            user = users.create_user(
                session,
                username=args.user,
                password_hash=None,
                role="viewer" if args.role == "metrics" else args.role,
                by=Author("system", now),
            )
        _, secret = tokens.create_api_token(
            session,
            user=user,
            name=args.name,
            role=args.role,
            own_role="admin",
            lifetime=dt.timedelta(days=args.expires_in_days),
            by=Author("system", now),
        )
    _print(secret)
    return OK


def _create_join_token(args: argparse.Namespace) -> int:
    from pydantic import ValidationError

    from .schemas.accounts.auth import JoinTokenIn
    from .services.core.accounts import tokens
    from .services.core.audit import Author

    try:
        wanted = JoinTokenIn(pool=args.pool, uses=args.uses, expires_in_s=args.expires_in_s)
    except ValidationError as error:
        first = error.errors()[0]
        raise CommandError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}") from None
    with _transaction(_settings()) as (session, now):
        _, secret = tokens.create_join_token(
            session,
            pool=wanted.pool,
            uses=wanted.uses,
            lifetime=dt.timedelta(seconds=args.expires_in_s),
            created_by=None,
            by=Author("system", now),
        )
    if args.out is None:
        _print(secret)
    else:
        _write_private(args.out, secret)
    return OK


def _secrets(args: argparse.Namespace) -> int:
    if args.action == "new-key":
        return _new_key(args.out)
    from . import clock
    from .errors import Conflict
    from .security.encryption import key_ring
    from .services.secrets import audit_seals, store

    settings = _settings()
    try:
        keys = key_ring(settings)
    except Conflict as error:
        raise CommandError(f"{error.message} {error.hint}") from None
    num_rotated, unreadable = 0, list[str]()
    with _explained(settings), _database(settings) as database:
        for of in store.SEALED_ROWS:
            after_id, is_done = None, False
            while not is_done:
                with database.transaction() as session:
                    batch = store.rotate_batch(
                        session, keys, of=of, after_id=after_id, now=clock.now()
                    )
                num_rotated += batch.num_rotated
                unreadable += batch.unreadable
                after_id, is_done = batch.last_id, batch.last_id is None
        with database.transaction() as session:
            audit_seals.sign_again(session, keys, now=clock.now())
    _print(f"encrypted with key {keys.current_id}: {num_rotated}")
    if unreadable:
        raise CommandError(
            f"none of the keys decrypts {', '.join(unreadable[:20])}: set them again (second factors: "
            "muster user reset-second-factor NAME), or add their key to the file and repeat"
        )
    return OK


def _audit(args: argparse.Namespace) -> int:
    from .db.queries.metrics import begin_snapshot
    from .domain.audit_chain import Seal
    from .errors import Conflict
    from .security.encryption import key_ring, key_ring_or_none
    from .services.secrets import audit_seals

    noted = None
    if args.head:
        no, _, digest = args.head.partition(":")
        if not (no.isdecimal() and len(digest) == 64):
            raise CommandError(
                f"--head {args.head}: expected NO:DIGEST, as this command prints", USAGE
            )
        noted = Seal(no=int(no), digest=digest.lower())
    settings = _settings()
    if args.action == "sign":
        from . import clock

        try:
            keys = key_ring(settings)
            with (
                _explained(settings),
                _database(settings) as database,
                database.transaction() as session,
            ):
                audit_seals.sign_first(session, keys, noted=noted, now=clock.now())
        except (Conflict, ValueError) as error:
            raise CommandError(str(error)) from None
    with _explained(settings), _database(settings) as database, database.read() as session:
        begin_snapshot(session)
        base = audit_seals.base_of(session)
        verdict = audit_seals.verify(session, keys=key_ring_or_none(settings), noted=noted)
        num_unsealed = audit_seals.count_unsealed(session)
        is_signed = audit_seals.is_signed(session)
    if verdict.problem:
        raise CommandError(f"{verdict.problem} Records that fit before it: {verdict.last.no:,}.")
    num_fit = verdict.last.no - base.no
    _print(f"records that fit: {num_fit:,}; not sealed yet: {num_unsealed:,}")
    if base.no:
        _print(f"records 1 to {base.no:,} were removed by retention")
    if verdict.last.no:
        _print(f"newest seal: {verdict.last} (keep it elsewhere, and give it to --head next time)")
    if not is_signed:
        _print(
            "it is not signed: give the controller a key for secrets (MUSTER_SECRETS_KEY_FILE), then run "
            "muster-server audit sign"
        )
    return OK


def _new_key(out: Path | None) -> int:
    from .security.stack_secrets import new_key

    if out is None:
        _print(new_key())
    elif out.exists():
        raise CommandError(
            f"--out {out}: it exists already, and a key that is lost is lost for ever"
        )
    else:
        _write_private(out, new_key() + "\n")
    return OK


def _init_secrets(args: argparse.Namespace) -> int:
    from .security.stack_secrets import init_stack_secrets

    try:
        made = init_stack_secrets(args.postgres_dir, args.redis_dir, args.server_dir)
    except OSError as error:
        raise CommandError(f"cannot write the secrets: {error}") from None
    _print("made new secrets" if made else "kept the secrets that are there")
    return OK


# ---------------------------------------------------------------- shared


def _settings() -> Settings:
    from . import logging
    from .settings import WrongSettings, checked_settings

    try:
        settings = checked_settings()
    except WrongSettings as error:
        raise CommandError(str(error)) from None
    logging.configure(settings)
    return settings


@contextmanager
def _beside(
    settings: Settings,
    telemetry: ControllerTelemetry | WorkerTelemetry,
    is_working: Callable[[], bool],
) -> Iterator[None]:
    """Answer health and metrics of this process beside its work, where a port is configured."""
    name = f"{telemetry.process}_port"
    port: int | None = getattr(settings, name)
    if port is None:
        yield
        return
    from . import serve
    from .process_app import answering, create_process_app

    with _database(settings) as database:
        app = create_process_app(settings, telemetry, database, is_working)
        try:
            with answering(app, settings, port, f"MUSTER_{name.upper()}"):
                yield
        except serve.NotReady as error:
            raise CommandError(str(error)) from None


@contextmanager
def _database(settings: Settings, *, makes_it: bool = False) -> Iterator[Database]:
    """The database of the settings. Raises CommandError where its file is missing: SQLite would make
    an empty one there, in whatever folder the command was typed."""
    from .db.engine import Database

    _refuse_missing_file(settings, makes_it=makes_it)
    database = Database(settings.resolved_database_url())
    try:
        yield database
    finally:
        database.dispose()


def _refuse_missing_file(settings: Settings, *, makes_it: bool = False) -> None:
    from .check import missing_database

    missing = missing_database(settings.resolved_database_url(), makes_it=makes_it)
    if missing is not None:
        raise CommandError(missing)


@contextmanager
def _transaction(settings: Settings) -> Iterator[tuple[Session, dt.datetime]]:
    from . import clock
    from .db.tables import require_tables

    with _explained(settings), _database(settings) as database:
        require_tables(database)
        with database.transaction() as session:
            yield session, clock.now()


@contextmanager
def _explained(settings: Settings) -> Iterator[None]:
    """Turn what the database says into one line that names the setting."""
    from sqlalchemy.exc import ArgumentError, DBAPIError

    from .check import masked_url, reason_of
    from .db.tables import SchemaMismatch
    from .errors import SCHEMA_MISMATCH_EXIT, MusterError

    try:
        yield
    except MusterError as error:
        hint = f" {error.hint}" if error.hint else ""
        raise CommandError(f"{error.message}{hint}") from None
    except SchemaMismatch as error:
        raise CommandError(str(error), SCHEMA_MISMATCH_EXIT) from None
    except (DBAPIError, ArgumentError) as error:
        url = masked_url(settings.resolved_database_url())
        raise CommandError(f"MUSTER_DATABASE_URL={url}: {reason_of(error)}") from None


def _write_private(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise CommandError(f"--out {path}: {error.strerror}") from None


def _print(text: str, *, to: TextIO | None = None) -> None:
    to = to or sys.stdout
    to.write(text + "\n")
    to.flush()


_SERVICES = frozenset({_serve, _controller, _worker})
"""Commands that run until they are stopped, and have a log."""


if __name__ == "__main__":
    main()
