"""One worker: nothing is split and nothing is sent. What every other strategy is compared with."""

from __future__ import annotations

from muster.training.strategies.base import Strategy


class Single(Strategy):
    """The whole model on one worker."""
