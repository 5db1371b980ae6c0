"""The first message of a user who opens a tunnel into a running job."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

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
