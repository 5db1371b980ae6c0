"""What the sections of the document are made of.

Every field and default of the document is declared once, in the dataclasses of this package. The
server makes the models that check what users write from the same declarations
(`muster_server.schemas.document`), so bounds and marks stand in the annotations.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The values, lengths or texts that a field can have, by the names that pydantic gives them."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    def given(self) -> dict[str, Any]:
        """Return the bounds that there are."""
        return {
            f.name: bound
            for f in dataclasses.fields(self)
            if (bound := getattr(self, f.name)) is not None
        }


class Mark(enum.Enum):
    """What else the declaration of a field says."""

    ONE_LINE = "one line of visible characters"
    OWN_FUNCTION = "`module:function` of the user's own is possible as well"
    STRUCTURAL = "training cannot go on from a checkpoint that was made with another value"


MAX_SLOTS = 4096
MAX_NAMED_NODES = 256
MAX_NODE_LABELS = 32

Text = Annotated[str, Bounds(min_length=1, max_length=4096)]
LabelKey = Annotated[str, Bounds(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
LabelValue = Annotated[str, Bounds(max_length=256)]
NodeName = Annotated[str, Bounds(min_length=1, max_length=128)]
NAME = Bounds(min_length=1, max_length=200, pattern=r"\S")
DataName = Annotated[str, Bounds(max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
"""Name of a data set, which becomes part of a variable's name."""
IDENTIFIER = Bounds(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
"""Bounds of a name that is also written in documents and addresses."""
Positive = Annotated[int, Bounds(ge=1, le=2**53)]
Id = Annotated[int, Bounds(ge=1, lt=2**31)]
TRIAL_PATTERN = r"^[1-9][0-9]{0,8}(\.[1-9][0-9]{0,8})?$"
TrialAddress = Annotated[str, Bounds(pattern=TRIAL_PATTERN)]
"""A trial as people name it: "36.2" is trial 2 of experiment 36, "36" the only one of it."""


@dataclass(frozen=True, kw_only=True)
class Length:
    """A training length: steps or epochs, one of the two."""

    steps: Positive | None = None
    """Optimizer steps."""
    epochs: Positive | None = None
    """Passes over the training data."""

    def is_due(self, step: int, steps_per_epoch: int) -> bool:
        """Return whether the length, as a distance, is reached with `step` (1-based)."""
        distance = self.steps or (self.epochs or 0) * steps_per_epoch
        return distance > 0 and step % distance == 0
