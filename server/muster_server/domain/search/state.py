"""What a searcher knows of its search, and how that is stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from muster.wire import decode_number, encode_number

from .asha import WaitingAtRungs
from .median_stopping import ValueCurve
from .population import Population
from .proposals import SearchHistory
from .ranking import Standings, curve_from_json, curve_to_json
from .rungs import score
from .spec import SearchSpec
from .termination import Ends

STATE_VERSION = 1


@dataclass
class Live:
    """A trial that runs, or waits to run."""

    next_rung: int = 0
    """Counted through all brackets; the end of its bracket when it has passed them all."""
    is_stopping: bool = False
    end: int = 0
    """The first rung after those of its bracket."""
    curve: ValueCurve = field(default_factory=ValueCurve)
    """median alone."""

    @property
    def is_on_its_way(self) -> bool:
        """Whether it is to be judged at another rung."""
        return not self.is_stopping and self.next_rung < self.end


class SearchState:
    """Everything that decisions rest on. It decides nothing itself."""

    def __init__(self, spec: SearchSpec) -> None:
        self.spec = spec
        self.num_created = 0
        self.room = 0
        """Trials that fit, as it was last told."""
        self.is_finished = False
        self.finish_reason = ""
        self.standings = Standings(spec)
        self.live: dict[int, Live] = {}
        self.again: list[int] = []
        """Ended trials that are to go on as soon as there is room for them."""
        self.trials_waiting = WaitingAtRungs(spec, self.standings.ladders)
        self.held: dict[int, list[tuple[float, float]]] = {}
        """(units, value) of what a waiting trial reported beyond its rung, in order: it trains on
        until it has heard that it is to pause."""
        self.enqueued: list[tuple[dict[str, Any], str | None]] = []
        """(hyperparameters, what who asked calls them) of points that were not tried yet."""
        self.num_replaced = 0
        """Trials that took the place of one with invalid hyperparameters."""
        self.is_closed = False
        """A user wants no more trials than there are."""
        self.ends = Ends()
        self.history = SearchHistory()
        self.population = Population()

    @property
    def at_once(self) -> int:
        """How many trials may be alive, those that rest at a rung left out."""
        return self.spec.at_once(self.room)

    def state(self) -> dict[str, Any]:
        """Return everything, as JSON."""
        return {
            "version": STATE_VERSION,
            "spec": self.spec.to_json(),
            "created": self.num_created,
            "room": self.room,
            "again": list(self.again),
            "live": {
                str(no): [t.next_rung, t.is_stopping, t.end, *curve_to_json(t.curve)]
                for no, t in self.live.items()
            },
            **self.standings.to_json(),
            "waiting": {str(no): rung for no, rung in self.trials_waiting.at.items()},
            "held": {
                str(no): [[units, encode_number(value)] for units, value in held]
                for no, held in self.held.items()
            },
            "sent_on": list(self.trials_waiting.sent_on),
            "left": list(self.trials_waiting.left),
            "closed": list(self.trials_waiting.closed),
            "promoted": list(self.trials_waiting.promoted),
            "enqueued": [hparams for hparams, _ in self.enqueued],
            "points": [point for _, point in self.enqueued],
            "replaced": self.num_replaced,
            "is_closed": self.is_closed,
            **self.ends.to_json(),
            "history": self.history.to_json() if self.spec.learns else None,
            "population": self.population.to_json() if self.spec.explore else None,
            "finished": self.is_finished,
            "finish_reason": self.finish_reason,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take over what `state` gave, of the same spec."""
        self.num_created = state["created"]
        self.room = state.get("room", 0)
        self.is_finished = state["finished"]
        self.finish_reason = state["finish_reason"]
        self.again = list(state.get("again", ()))
        # Sorted, because the database may hand the keys back in any order.
        for no in sorted(state["live"], key=int):
            next_rung, is_stopping, *rest = state["live"][no]
            end = rest[0] if rest else len(self.spec.rungs)
            curve = curve_from_json(rest[1:])
            self.live[int(no)] = Live(next_rung, is_stopping, end, curve)
        self.standings.load(state, num_created=self.num_created)
        for no in sorted(state.get("waiting", ()), key=int):
            rung = state["waiting"][no]
            value = self.standings.value(rung, int(no))
            self.trials_waiting.add(int(no), rung, score(value, self.spec.goal))
        for no, held in state.get("held", {}).items():
            # States of before hold one report for each trial.
            several = held if isinstance(held[0], list) else [held]
            self.held[int(no)] = [(units, decode_number(value)) for units, value in several]
        if "sent_on" in state:
            self.trials_waiting.sent_on = list(state["sent_on"])
            self.trials_waiting.left = list(state["left"])
            self.trials_waiting.closed = list(state["closed"])
            self.trials_waiting.promoted = list(state.get("promoted", ()))
        enqueued = state.get("enqueued", ())
        names = state.get("points") or [None] * len(enqueued)
        self.enqueued = list(zip(enqueued, names, strict=True))
        self.num_replaced = state.get("replaced", 0)
        self.is_closed = state.get("is_closed", False)
        self.ends.load(state)
        if state.get("history") is not None:
            self.history = SearchHistory.from_json(state["history"])
        if state.get("population") is not None:
            self.population.load(state["population"])
