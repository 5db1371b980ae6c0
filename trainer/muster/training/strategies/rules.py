"""What can be said about a strategy, and what can be combined. Pure: the server validates with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["ddp", "single"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The `strategy` section of an experiment document."""

    kind: Kind = "ddp"
    accumulate: int = 1
    """Micro-batches per optimizer step at full size."""
