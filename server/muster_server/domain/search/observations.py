"""What a search has observed of its trials, as models of it take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Observations:
    """What is known when a trial is to be proposed."""

    known: tuple[tuple[dict[str, Any], tuple[float, ...]], ...]
    """(hyperparameters, score per objective), lower is better, finite; in order of arrival."""
    pending: tuple[dict[str, Any], ...]
    """Hyperparameters of trials without a result yet."""
