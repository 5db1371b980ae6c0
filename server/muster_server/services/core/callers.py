"""Who asks for a change, and the line of the audit trail that the change leaves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from muster_server.security.principal import Principal

from . import audit


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who asks for a change, from which address, and when."""

    principal: Principal
    now: dt.datetime
    remote_addr: str = ""
    bulk: str = ""
    """Digest of the bulk request it is part of."""
    via: str = ""
    """What made the call for the user: "mcp" for a tool of an assistant."""


def record(
    session: Session,
    action: str,
    subject: str,
    caller: Caller,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Add a line to the audit trail."""
    how = {"bulk": caller.bulk, "via": caller.via}
    audit.record(
        session,
        actor=caller.principal.actor,
        action=action,
        subject=subject,
        now=caller.now,
        remote_addr=caller.remote_addr,
        detail={**(detail or {}), **{name: value for name, value in how.items() if value}},
    )


def note(
    session: Session,
    action: str,
    experiment_id: int,
    caller: Caller,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Add a line about an experiment to the audit trail."""
    record(session, action, f"experiment:{experiment_id}", caller, detail)
