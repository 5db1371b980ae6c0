"""A turn of a search: what its searcher makes of the events that it has not heard, in one call.

It depends on its arguments alone, so any process may work it out, and gets the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .events import Action, event_from_json
from .searcher import Searcher


@dataclass(frozen=True, kw_only=True)
class SearchTurn:
    """A search at rest, and the events that its searcher hears next."""

    state: dict[str, Any]
    closing: str = ""
    """Why the search ends before it hears them; "" if it goes on."""
    events: tuple[dict[str, Any], ...] = ()

    @property
    def is_slow(self) -> bool:
        """Whether its points come from a Gaussian process, which takes tenths of a second for each."""
        return not self.closing and self.state["spec"].get("sampler") == "gp"


@dataclass(frozen=True, kw_only=True)
class TurnTaken:
    """What became of a turn."""

    state: dict[str, Any]
    closing: Sequence[Action]
    heard: Sequence[Sequence[Action]]
    """Actions that follow from each event, in order."""
    without_model: str = ""
    """Why its points were drawn at random instead of by the model; "" if they were not."""


def take_turn(turn: SearchTurn, *, without_model: str = "") -> TurnTaken:
    """Let a searcher hear its events.

    without_model: why its points are drawn at random; "" to use its sampler. Raises ValueError and
    KeyError for a state or an event that cannot be read.
    """
    searcher = Searcher.from_state(turn.state)
    searcher.without_model = without_model
    closing = searcher.close(turn.closing) if turn.closing else []
    heard = [searcher.apply(event_from_json(event)) for event in turn.events]
    return TurnTaken(
        state=searcher.state(), closing=closing, heard=heard, without_model=without_model
    )
