"""Statements of SQL in the traces of the server's processes."""

from __future__ import annotations

import re
import time
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import Engine

from muster.launch import traces
from muster_server.db.models import Base

_BEGAN = "muster_began_ns"
_TABLE = re.compile(r'\b(?:FROM|INTO|UPDATE)\s+"?(\w+)', re.IGNORECASE)


def start(service: str) -> None:
    """Trace this process and its statements, if a collector is named."""
    if not traces.start(service):
        return

    @event.listens_for(Engine, "before_cursor_execute")
    def before(connection: Connection, *_: Any) -> None:
        connection.info[_BEGAN] = time.time_ns()

    @event.listens_for(Engine, "after_cursor_execute")
    def after(connection: Connection, _: Any, statement: str, *__: Any) -> None:
        traces.add(name_of(statement), began_ns=connection.info[_BEGAN])


def name_of(statement: str) -> str:
    """Return the verb of a statement and the first of our tables in it: "SELECT trials"."""
    verb = re.match(r"\W*([A-Za-z]+)", statement)
    tables = [name for name in _TABLE.findall(statement) if name in Base.metadata.tables]
    return " ".join([verb[1].upper() if verb else "SQL", *tables[:1]])
