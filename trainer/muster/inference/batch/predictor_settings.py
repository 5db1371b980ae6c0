"""What a computing process calls, for processes that do without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PredictorSettings:
    folder: str
    """Folder of the version."""
    function: str | None
    """`module:function` of the user's code; None for the model of the version."""
    column: str | None
    """Column with the inputs of that model."""
    key: str | None
    """Column that stands beside each prediction."""
