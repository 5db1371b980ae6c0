"""Parts of Muster that an installation can do without; the core imports none of them.

A part is a distribution of the same version with one entry point in the group `muster.parts`, which names
an `OptionalPart`. Its tables belong to the core.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from muster import __version__

if TYPE_CHECKING:
    import threading

    from fastapi import APIRouter
    from sqlalchemy.orm import Session

    from muster_server.db.engine import Database
    from muster_server.db.leases import Lease
    from muster_server.loops.base import Pass
    from muster_server.security.permissions import Permission
    from muster_server.services.core.callers import Caller
    from muster_server.services.nodes.records import RecordsCall, StoredRecords
    from muster_server.settings import Settings

GROUP = "muster.parts"
NO_REGISTRY = "This server has no model registry: the package muster-models is not installed."

Sweep = Callable[["Session", dt.datetime, int], int]
"""Deletes what is of no use, at most so many rows; returns how many it has deleted."""
Worker = Callable[["threading.Event"], None]
"""Works in a thread of the controller until the event is set."""


class OptionalPart:
    """What a part adds. Each method is called by the process that needs it, and imports what that takes."""

    name: str
    """Name in the API and the dashboard, and of the entry point."""
    permissions: Mapping[str, Permission] = {}
    """Operation of the part → right that a caller needs, as in security/permissions.py."""

    has_router: bool = False
    """Whether one of its threads writes what the router of `muster up` is told. Without it the router would
    go on with the addresses and tokens of an earlier run."""
    modules: Sequence[str] = ()
    """Modules that the processes of the server import, for those that `muster up` forks."""

    def routers(self) -> Sequence[APIRouter]:
        """Return the routes below /api/v1."""
        return ()

    def agent_routers(self) -> Sequence[APIRouter]:
        """Return the routes below /agent/v1."""
        return ()

    def loops(self, database: Database, settings: Settings) -> Sequence[Pass]:
        """Return what the controller works through."""
        return ()

    def workers(
        self, database: Database, lease: Callable[[], Lease | None], settings: Settings
    ) -> Mapping[str, Worker]:
        """Return threads of the controller by name; `lease` returns its lease while it leads."""
        return {}

    def sweeps(self) -> Sequence[Sweep]:
        """Return what the periodic sweep deletes."""
        return ()

    def answered(
        self, session: Session, call: RecordsCall, stored: StoredRecords, now: dt.datetime
    ) -> StoredRecords:
        """Return the reply to an agent's records, which are stored, with what the part answers to them."""
        return stored

    def mlflow_answer(
        self,
        session: Session,
        caller: Caller,
        settings: Settings,
        method: str,
        path: str,
        body: Mapping[str, Any],
    ) -> dict[str, Any] | None:
        """Return the answer to a request of MLflow's registry API; None if it is another part's."""
        return None

    def mlflow_file(
        self, database: Database, caller: Caller, path: str, settings: Settings
    ) -> tuple[int, Iterator[bytes]] | None:
        """Return size and content of a file of MLflow's registry; None if it is another part's."""
        return None


@cache
def installed() -> tuple[OptionalPart, ...]:
    """Return the parts that are installed, by name. Exits where one is of another version."""
    found: list[OptionalPart] = []
    for one in entry_points(group=GROUP):
        if one.dist is not None and one.dist.version != __version__:
            raise SystemExit(
                f"error: {one.dist.name} {one.dist.version} does not fit Muster {__version__}: "
                "install both from the same release"
            )
        found.append(one.load())
    return tuple(sorted(found, key=lambda part: part.name))


def has_part(name: str) -> bool:
    return any(part.name == name for part in installed())


def permissions() -> Mapping[str, Permission]:
    """Return the one table of who may call what, with the operations of the parts."""
    from muster_server.security.permissions import PERMISSIONS

    table: dict[str, Permission] = {}
    for part in installed():
        table |= part.permissions
    return table | dict(PERMISSIONS)  # no part changes what the core says of its own
