"""Backup and restore: everything in the database, as one SQLite file.

A backup is a Muster database itself, of whatever kind the original was: SQLite copies itself,
PostgreSQL's rows are written into one. It can be looked at with any tool, restored into either
kind, and be brought to a newer version's tables. Files of checkpoints are not in it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from . import clock
from .check import reason_of
from .db.copying import copy_rows, follow, snapshot
from .db.engine import Database
from .db.failures import is_unavailable
from .db.migrations import current_revision, head_revision, known_revisions, upgrade
from .db.models import Base
from .db.tables import SchemaMismatch, migrate
from .domain.lifecycle import LifecyclePolicy
from .services.lifecycle.restoring import settle

VALUED = ("users", "experiments", "nodes")
"""Tables with valuable rows: a database that has any is not overwritten."""


T = TypeVar("T")
PATIENCE_S = 30.0
"""Seconds for which a backup waits for a database that restarts or has no connection left."""

SCHEDULED = re.compile(r"muster-\d{8}T\d{6}Z\.db")
"""Names of the backups that `back_up_into` makes, whose order is that of their times."""


class BackupError(Exception):
    """The reason why there is no backup, or nothing was restored: one sentence, and what to do."""


@dataclass(frozen=True)
class Contents:
    num_users: int
    num_experiments: int
    num_trials: int
    size_bytes: int
    """Size of the backup file."""
    num_interrupted: int = 0
    """Number of trials that ran when the backup was made, and go on in a new attempt."""


def back_up(database: Database, target: Path) -> Contents:
    """Write a backup that is consistent in itself, whoever writes meanwhile. Raises BackupError, and
    what SQLAlchemy raises when the database does not answer.

    `target` gets its name when it is complete and on disk; readable by its owner alone, because
    it holds hashes of passwords and tokens, and whatever people put into their experiments.
    """
    if target.exists():
        raise BackupError(f"{target} exists already. A backup is never written over: name another")
    source = Path(database.url.database or "") if database.is_sqlite else None
    if source is not None and not source.exists():
        raise BackupError(f"{source}: there is no such database")  # asking would make one
    revision = current_revision(database)
    if revision is None or revision not in known_revisions():
        raise BackupError(_not_ours("the database", revision))
    with _explained(target), _beside(target) as part:
        if source is not None:
            _vacuum_into(source, part)
        else:
            _copy_into_file(database, part, revision)
        contents = _contents(part)
        _publish(part, target)
    return contents


def back_up_into(
    database: Database, folder: Path, *, keep: int, now: dt.datetime
) -> tuple[Path, Contents]:
    """Write a backup with the time in its name into a folder, which is made if need be, and delete
    all but the newest `keep` (1 or more) of such backups there. Raises as `back_up` does, and then
    deletes nothing."""
    target = folder / f"muster-{now:%Y%m%dT%H%M%SZ}.db"
    with _explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    contents = back_up(database, target)
    with _explained(folder):
        for old in sorted(path for path in folder.iterdir() if SCHEDULED.fullmatch(path.name))[
            :-keep
        ]:
            old.unlink()
    return target, contents


def patiently(work: Callable[[], T], say: Callable[[str], None]) -> T:
    """Return what a function returns; try it again for PATIENCE_S while the database restarts or has no
    connection left, which `say` is told once."""
    until = time.monotonic() + PATIENCE_S
    has_said = False
    while True:
        try:
            return work()
        except DBAPIError as error:
            if not is_unavailable(error) or time.monotonic() > until:
                raise
            if not has_said:
                say(f"{reason_of(error)} (trying again for {PATIENCE_S:g} s)")
            has_said = True
        time.sleep(1)


def verify(backup: Path, policy: LifecyclePolicy) -> Contents:
    """Restore a backup into a scratch database, which is deleted. Raises BackupError for one that
    cannot be restored."""
    with tempfile.TemporaryDirectory(prefix="muster-verify-") as folder:
        return restore(backup, f"sqlite:///{folder}/muster.db", policy)


def restore(backup: Path, database_url: str, policy: LifecyclePolicy) -> Contents:
    """Make the database of a backup again where none is yet, with this version's tables.

    Nothing may run on it. Trials that ran are given up there, and go on from their latest
    checkpoints. Raises BackupError, and then the database is as it was.
    """
    if not backup.is_file():
        raise BackupError(f"{backup}: there is no such file")
    target = Database(database_url)
    try:
        if target.is_sqlite:
            return _restore_file(backup, Path(target.url.database or ""), policy)
        return _restore_rows(backup, target, policy)
    finally:
        target.dispose()


# ---------------------------------------------------------------- into a file


def _vacuum_into(source: Path, part: Path) -> None:
    """Copy a SQLite database in one read transaction, so that no writer is stopped and none is half
    in."""
    with contextlib.closing(sqlite3.connect(source)) as connection:
        connection.execute("VACUUM INTO ?", (str(part),))


def _copy_into_file(source: Database, part: Path, revision: str) -> None:
    target = Database(f"sqlite:///{part}")
    try:
        upgrade(target, revision)
        with (
            snapshot(source) as reading,
            target.engine.execution_options(muster_write=True).begin() as writing,
        ):
            is_ours = revision == head_revision()
            copy_rows(reading, writing, Base.metadata if is_ours else follow(reading, writing))
    finally:
        target.dispose()


# ---------------------------------------------------------------- out of a file


def _restore_file(backup: Path, target: Path, policy: LifecyclePolicy) -> Contents:
    # A log that another database left would be taken for this one's and mixed into it.
    for path in (target, *(target.with_name(target.name + s) for s in ("-wal", "-journal"))):
        if path.exists():
            raise BackupError(f"{path} exists already: stop Muster and move it away first")
    with _explained(target), _beside(target) as part:
        contents = _prepare(backup, part, policy)
        _publish(part, target)
    return contents


def _restore_rows(backup: Path, target: Database, policy: LifecyclePolicy) -> Contents:
    revision = current_revision(target)
    if revision is not None and revision not in known_revisions():
        raise BackupError(_not_ours("the database", revision))
    _migrate(target, "the database")
    with (
        tempfile.TemporaryDirectory(prefix="muster-restore-") as folder,
        _explained(Path(folder)),
        target.engine.begin() as writing,
    ):
        tables = {name: Base.metadata.tables[name] for name in VALUED}
        found = {n: writing.scalar(select(func.count()).select_from(t)) for n, t in tables.items()}
        if any(found.values()):
            held = ", ".join(f"{number} {name}" for name, number in found.items() if number)
            raise BackupError(f"there are {held} in the database: restore into a new one")
        part = Path(folder) / "backup.db"
        contents = _prepare(backup, part, policy)
        source = Database(f"sqlite:///{part}")
        try:
            with snapshot(source) as reading:
                copy_rows(reading, writing)
        finally:
            source.dispose()
    return contents


def _prepare(backup: Path, part: Path, policy: LifecyclePolicy) -> Contents:
    """Yield a copy with this version's tables, in which nothing seems to run."""
    _require_backup(backup)
    shutil.copyfile(backup, part)
    part.chmod(0o600)
    copy = Database(f"sqlite:///{part}")
    try:
        _migrate(copy, str(backup))
        with copy.transaction() as session:
            num_interrupted = settle(session, policy=policy, now=clock.now())
    finally:
        copy.dispose()
    return _contents(part, num_interrupted)


def _migrate(database: Database, what: str) -> None:
    try:
        migrate(database)
    except SchemaMismatch as error:
        raise BackupError(f"{what}: {error}") from None


def _require_backup(backup: Path) -> None:
    """Raise BackupError for a file that is no backup, is damaged, or is of a newer version."""
    try:
        with contextlib.closing(
            sqlite3.connect(f"{backup.absolute().as_uri()}?mode=ro", uri=True)
        ) as file:
            (state,) = file.execute("PRAGMA quick_check(1)").fetchone()
            (revision,) = file.execute("SELECT version_num FROM alembic_version").fetchone()
    except (sqlite3.Error, TypeError):
        raise BackupError(f"{backup} is no backup of Muster") from None
    if state != "ok":
        raise BackupError(f"{backup} is damaged: {state}")
    if revision not in known_revisions():
        raise BackupError(_not_ours(str(backup), revision))


# ---------------------------------------------------------------- files


def _contents(part: Path, num_interrupted: int = 0) -> Contents:
    with contextlib.closing(sqlite3.connect(part)) as file:
        users, experiments, trials = (
            int(file.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608
            for table in ("users", "experiments", "trials")
        )
    return Contents(users, experiments, trials, part.stat().st_size, num_interrupted)


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Yield a name in the same folder for an incomplete file; it is deleted at the end."""
    part = target.with_name(f".{target.name}.part")
    leftovers = [part.with_name(part.name + suffix) for suffix in ("", "-wal", "-shm", "-journal")]
    try:
        for path in leftovers:
            path.unlink(missing_ok=True)
        part.touch(mode=0o600)
        yield part
    finally:
        for path in leftovers:
            path.unlink(missing_ok=True)


def _publish(part: Path, target: Path) -> None:
    """Write the file to disk first, then rename it, so that whoever finds the name finds all of it."""
    _sync(part)
    part.rename(target)
    _sync(target.absolute().parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupError(f"{error.filename or path}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise BackupError(f"{path}: {error}") from None


def _not_ours(what: str, revision: str | None) -> str:
    if revision is None:
        return f"{what} has no tables: there is nothing to back up"
    return (
        f"{what} has the tables of {revision}, which this version does not know (the newest is "
        f"{head_revision()}): use the version of Muster that made it, or a newer one"
    )
