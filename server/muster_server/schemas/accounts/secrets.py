"""Secrets, of which values go in and never come out."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field

from muster_server.domain.secrets import VALUE_BYTES_MAX

from ..base import Input, Output, SafeStr


class SecretIn(Input):
    value: Annotated[SafeStr, Field(max_length=VALUE_BYTES_MAX, repr=False)]
    """The value, at least 8 bytes. It is in no answer."""


class SecretOut(Output):
    name: str
    """Name of the environment variable that a job gets."""
    owner: Literal["user", "project"]
    owner_name: str
    """User or project that it belongs to."""
    version: int
    """Number of the value, from 1."""
    created_at: dt.datetime
    created_by: str
    changed_at: dt.datetime
    changed_by: str
    """When, and by whom, the present value was set."""
    last_used_at: dt.datetime | None
    """When it was last delivered to a job."""
