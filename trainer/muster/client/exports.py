"""Files that an agent makes available through the server."""

from __future__ import annotations

import time
from collections.abc import Callable

from .client import Client, Json

POLL_S = 0.5


def wait_for_export(
    client: Client, export: Json, *, on_wait: Callable[[str], None], poll_s: float = POLL_S
) -> Json:
    """Return an export once it is done or has failed. on_wait: called with what it waits for, whenever
    that changes. Raises ClientError."""
    waits_for = ""
    while export["state"] == "pending":
        if export["waits_for"] != waits_for:
            waits_for = export["waits_for"]
            on_wait(waits_for)
        time.sleep(poll_s)
        export = client.get(f"/exports/{export['id']}")
    return export
