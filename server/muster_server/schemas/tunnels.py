"""The first message of a user who opens a tunnel into a running job, and sessions, which are jobs to be
entered."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from muster.document.session import SessionKind
from muster_server.domain.states import TrialState

from .base import Output, PartOut

Argument = Annotated[str, StringConstraints(max_length=4096)]


class TunnelIn(BaseModel):
    """What to open: a command, a shell, or a connection to a port."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["exec", "shell", "port"]
    argv: list[Argument] = Field(default_factory=list, max_length=256)
    """Command of `exec`."""
    port: int = Field(0, ge=0, le=65_535)
    """Port of `port`."""
    rank: int | None = Field(None, ge=0, le=1_000_000)
    """Rank on whose node it opens; null means the first node."""
    has_terminal: bool = False
    rows: int = Field(24, ge=1, le=1000)
    columns: int = Field(80, ge=1, le=1000)
    is_repeated: bool = False
    """Whether this user has a connection to that port open already."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if (self.kind == "exec") != bool(self.argv):
            raise ValueError("`argv` belongs to kind `exec`, and names a command")
        if (self.kind == "port") != bool(self.port):
            raise ValueError("`port` belongs to kind `port`, and is 1 to 65535")
        return self


class InteractiveSessionOut(Output):
    """A job that holds its slots for somebody who works in it."""

    experiment_id: int
    """Its number, by which commands name it."""
    name: str
    kind: SessionKind
    project: str
    owner: str | None
    """User who may enter it, besides administrators; null if the account was removed."""
    state: TrialState
    reason: str
    """Why it waits; empty while it runs."""
    reason_parts: list[PartOut]
    node: str | None
    """Node that it runs on; null before and after."""
    slots: int
    slot_type: Literal["cpu", "cuda"]
    idle: str
    """Time after which it ends when nothing goes on, as in the document."""
    is_in_use: bool | None
    """Whether somebody is connected or something computes; null before it has told."""
    ends_at: dt.datetime | None
    """When it ends unless somebody uses it; null while it is in use, and before it has told."""
    may_enter: bool
    """Whether the caller may enter it."""
    created_at: dt.datetime


class InteractiveSessionListOut(Output):
    items: list[InteractiveSessionOut]
    """The sessions that have not ended and that the caller sees, the newest first; at most 500."""
