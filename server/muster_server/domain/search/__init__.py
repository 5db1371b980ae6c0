"""Hyperparameter search: pure decisions from a stored state and one event at a time."""

from .events import (
    Action,
    ContinueTrial,
    CreateTrial,
    Event,
    Finish,
    Started,
    StopTrial,
    TrialEnded,
    Validated,
    action_to_json,
    event_from_json,
    event_to_json,
)
from .rungs import rung_units
from .searcher import Searcher, SearchSpec, initial_state, on_event

__all__ = [
    "Action",
    "ContinueTrial",
    "CreateTrial",
    "Event",
    "Finish",
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
