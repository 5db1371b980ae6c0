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

    @property
    def author(self) -> audit.Author:
        return audit.Author(self.principal.actor, self.now, self.remote_addr)


def record(
    session: Session,
    action: str,
    subject: str,
    caller: Caller,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Add a line to the audit trail."""
    how = {"bulk": caller.bulk, "via": caller.via}
    made = {**(detail or {}), **{name: value for name, value in how.items() if value}}
    audit.record(session, action, subject, caller.author, made)


def note(
    session: Session,
    action: str,
    experiment_id: int,
    caller: Caller,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Add a line about an experiment to the audit trail."""
    record(session, action, f"experiment:{experiment_id}", caller, detail)
