"""Hyperparameter search: pure decisions from a stored state and one event at a time."""

from .events import (
    Action,
    Closed,
    ContinueTrial,
    CreateTrial,
    Enqueued,
    Event,
    Finish,
    Limited,
    PauseTrial,
    Promoted,
    Rested,
    ResumeTrial,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
    action_to_json,
    event_from_json,
    event_to_json,
)
from .rungs import Bracket, rung_units
from .searcher import Searcher, initial_state, on_event
from .spec import SearchSpec

__all__ = [
    "Action",
    "Bracket",
    "Closed",
    "ContinueTrial",
    "CreateTrial",
    "Enqueued",
    "Event",
    "Finish",
    "Limited",
    "PauseTrial",
    "Promoted",
    "Rested",
    "ResumeTrial",
    "SearchSpec",
    "Searcher",
    "Started",
    "StopTrial",
    "TrialEnded",
    "Validated",
    "action_to_json",
    "event_from_json",
    "event_to_json",
    "initial_state",
    "on_event",
    "rung_units",
]
