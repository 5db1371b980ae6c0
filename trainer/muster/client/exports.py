"""Files that an agent makes available through the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .connection import Connection
from .waiting import Looks, waiting

if TYPE_CHECKING:
    from . import schema

POLL_S = 0.5


def looks_at_export(
    client: Connection,
    export: schema.ExportOut,
    *,
    on_wait: Callable[[str], None],
    poll_s: float = POLL_S,
) -> Looks[schema.ExportOut]:
    """Return an export once it is done or has failed. on_wait: called with what it waits for, whenever
    that changes. Raises ClientError."""
    waits_for = ""
    while export["state"] == "pending":
        if export["waits_for"] != waits_for:
            waits_for = export["waits_for"]
            on_wait(waits_for)
        yield poll_s
        export = client.get(f"/exports/{export['id']}")
    return export


wait_for_export = waiting(looks_at_export)
