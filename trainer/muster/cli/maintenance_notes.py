"""What commands about maintenance windows and reservations share."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from muster.durations import duration_s

from .output import printable, say, usage_error

if TYPE_CHECKING:
    from muster.client import Client


def note_maintenance(client: Client, experiment_id: int | None = None) -> None:
    """Print a line for people about each active window.

    experiment_id: leave out those of other pools than the experiment's. None: print all.
    """
    from muster.client import ClientError

    try:
        windows: list[Any] = list(client.get("/maintenance")["items"])
        active = [w for w in windows if w["is_active"]]
        if active and experiment_id is not None:
            config: Any = client.get(f"/experiments/{experiment_id}")["config"]
            pool = config["resources"]["pool"]
            active = [w for w in active if w["nodes"] or not w["pools"] or pool in w["pools"]]
    except ClientError:
        return  # an older server, or one that is away: the command has done its work
    for window in active:
        say(
            f"Maintenance of {scope(window)}, {until(window)}: {printable(window['reason'])}. "
            "Nothing new starts there before it ends."
        )


def scope(window: Any) -> str:
    """Return what a window concerns: "the cluster", "pool gpu, node n1"."""
    names = [f"pool {name}" for name in window["pools"]]
    names += [f"node {name}" for name in window["nodes"]]
    return printable(", ".join(names)) or "the cluster"


def until(window: Any) -> str:
    """Return "until 2026-12-01 19:00 UTC", or who has to end the window."""
    if not window["ends_at"]:
        return f"until ended with `muster maintenance end {window['id']}`"
    return f"until {utc(window['ends_at'])}"


def utc(moment: str) -> str:
    """Return an ISO time as "2026-12-01 18:00 UTC"."""
    return f"{dt.datetime.fromisoformat(moment).astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"


def moment(option: str, text: str) -> str:
    """Return what an option names as the server reads it: a length of time as it is, a moment with its
    time zone, that of this machine if it names none. Raises CommandFailure."""
    if duration_s(text.strip()) is not None:
        return text.strip()
    try:
        found = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise usage_error(
            f"{option} {printable(text)!r} is no moment.",
            'write it as "2026-12-01 18:00", or with a time zone: 2026-12-01T18:00Z',
        ) from None
    return found.astimezone(dt.UTC).isoformat()
