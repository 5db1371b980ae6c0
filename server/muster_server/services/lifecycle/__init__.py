"""The lifecycle's two ends: the present state out of the tables, decided steps back into them."""

from __future__ import annotations

from .applying import apply_step
from .loading import load_lifecycle_snapshot

__all__ = ["apply_step", "load_lifecycle_snapshot"]
