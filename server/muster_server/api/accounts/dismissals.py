"""Routes of dismissals; see docs/guides/dashboard.md."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from muster_server import clock
from muster_server.api.http.deps import Me
from muster_server.api.http.routing import Read, Router, Write
from muster_server.schemas.accounts.dismissals import DismissalsOut
from muster_server.services.core import dismissals

router = Router(tags=["views"])

Key = Annotated[
    str,
    Path(
        max_length=dismissals.MAX_KEY_CHARS,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$",
        description="What is dismissed: its kind, its ID and when it happened.",
    ),
]


@router.get("/dismissals")
def list_dismissals(session: Read, me: Me) -> DismissalsOut:
    """List what you have dismissed from the overview, latest first."""
    return dismissals.list_dismissals(session, me)


@router.put("/dismissals/{key}", status_code=204)
def create_dismissal(key: Key, session: Write, me: Me) -> None:
    """Dismiss an entry of the overview, for you. After 90 days it is forgotten."""
    dismissals.dismiss(session, me, key, clock.now())


@router.delete("/dismissals/{key}", status_code=204)
def delete_dismissal(key: Key, session: Write, me: Me) -> None:
    """Show an entry that you had dismissed again."""
    dismissals.restore(session, me, key)
