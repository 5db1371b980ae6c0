"""What a searcher hears and what it answers. Both are stored as JSON beside each other."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from muster.wire import decode_number, encode_number

Outcome = Literal["completed", "stopped", "failed", "invalid", "canceled"]


@dataclass(frozen=True, kw_only=True)
class Started:
    """The search begins. Heard again, it changes nothing."""

    key: str = "started"


@dataclass(frozen=True, kw_only=True)
class Validated:
    """A trial reported the search metric after training for `units` of the search's unit."""

    trial_no: int
    units: float
    value: float
    """May be NaN or infinite: then the trial ranks last."""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class TrialEnded:
    """A trial is terminal, restarts included.

    completed: it ran to its own end. stopped: the searcher stopped it. failed: it failed for good.
    invalid: it said that its hyperparameters cannot work. canceled: a user stopped it, which says nothing about its hyperparameters.
    """

    trial_no: int
    outcome: Outcome
    value: float | None = None
    """Best finite value of the search metric; None if the trial reported none."""
    values: tuple[float, ...] | None = None
    """Last value of each objective, if there are several; None if the trial did not report all."""
    cause: str = ""
    """Reason of a trial that failed before any trial of its search had reported; "" for any
    other."""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Rested:
    """A trial has given up its slots, as it was asked to at a rung."""

    trial_no: int
    checkpoint_id: int | None
    """Newest checkpoint, from which the trial and its clones go on; None if it has none."""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Promoted:
    """A user promotes a trial that waits at its rung, whatever its rank."""

    trial_no: int
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Enqueued:
    """A user asks for a trial with these hyperparameters; it goes before those that are drawn."""

    hparams: dict[str, Any]
    point: str | None = None
    """Name that the user gives it."""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Warmed:
    """What earlier searches have found, before this one begins."""

    known: tuple[tuple[dict[str, Any], float], ...]
    """(hyperparameters, value of the metric) for the sampler; in order, finite."""
    first: tuple[tuple[dict[str, Any], str], ...]
    """(hyperparameters, name) of the points to try before those that are drawn."""
    key: str = "warmed"


@dataclass(frozen=True, kw_only=True)
class Closed:
    """No more points will come: existing trials run to their end, and then the search is over."""

    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Limited:
    """Change by a user of how many trials there are in all or in parallel. None leaves a number as
    it is."""

    trials: int | None = None
    concurrent: int | None = None
    follows: bool = False
    """Whether the search follows the room there is from now on; `concurrent` is then None."""
    key: str = ""


@dataclass(frozen=True, kw_only=True)
class Roomed:
    """How many trials fit into the slots that are free or held by this search has changed.

    Where the document says how many may be alive at once it changes nothing.
    """

    room: int
    """≥ 0."""
    key: str = ""


Event = (
    Started
    | Validated
    | TrialEnded
    | Rested
    | Promoted
    | Enqueued
    | Warmed
    | Closed
    | Limited
    | Roomed
)


@dataclass(frozen=True, kw_only=True)
class CreateTrial:
    no: int
    """1, 2, 3, … without gaps."""
    hparams: dict[str, Any]
    seed: int
    """0 .. 2**31-1."""
    max_units: int | None
    """Training length after which it is complete; None when the document names none."""
    reason: str
    parent_no: int | None = None
    """The trial it is a clone of."""
    checkpoint_id: int | None = None
    """Checkpoint of its parent that it starts from; None if it is not a clone."""
    generation: int = 0
    """Number of rungs its ancestors had passed before it was made; 0 if it began from nothing."""
    point: str | None = None
    """Name of the enqueued point that it tries; None if it tries none."""


@dataclass(frozen=True, kw_only=True)
class StopTrial:
    no: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class PauseTrial:
    """Let a trial save a checkpoint and give up its slots; it may be sent on later."""

    no: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class ResumeTrial:
    """Let a trial that waits at its rung go on, from its newest checkpoint."""

    no: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class ContinueTrial:
    """Let a trial that had ended go on, from its newest checkpoint."""

    no: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Finish:
    """The search creates and stops no more trials."""

    reason: str


Action = CreateTrial | StopTrial | PauseTrial | ResumeTrial | ContinueTrial | Finish

_EVENTS: dict[str, type[Event]] = {
    "started": Started,
    "validated": Validated,
    "trial_ended": TrialEnded,
    "rested": Rested,
    "promoted": Promoted,
    "enqueued": Enqueued,
    "warmed": Warmed,
    "closed": Closed,
    "limited": Limited,
    "roomed": Roomed,
}
_EVENT_NAMES = {cls: name for name, cls in _EVENTS.items()}
_ACTION_NAMES: dict[type[Action], str] = {
    CreateTrial: "create_trial",
    StopTrial: "stop_trial",
    PauseTrial: "pause_trial",
    ResumeTrial: "resume_trial",
    ContinueTrial: "continue_trial",
    Finish: "finish",
}


def event_to_json(event: Event) -> dict[str, Any]:
    """`event` as plain JSON (a value that is not finite becomes its name)."""
    plain = {"type": _EVENT_NAMES[type(event)], **dataclasses.asdict(event)}
    if isinstance(event, Validated):
        plain["value"] = encode_number(event.value)
    if isinstance(event, TrialEnded) and event.values is not None:
        plain["values"] = [encode_number(value) for value in event.values]
    return plain


def event_from_json(plain: dict[str, Any]) -> Event:
    """Return the event behind `event_to_json`. Raises KeyError or ValueError for anything else."""
    fields = dict(plain)
    cls = _EVENTS[fields.pop("type")]
    if cls is Validated:
        fields["value"] = decode_number(fields["value"])
    if cls is Warmed:
        fields |= {name: tuple((h, v) for h, v in fields[name]) for name in ("known", "first")}
    if fields.get("values") is not None:
        fields["values"] = tuple(decode_number(value) for value in fields["values"])
    return cls(**fields)


def action_to_json(action: Action) -> dict[str, Any]:
    return {"type": _ACTION_NAMES[type(action)], **dataclasses.asdict(action)}
