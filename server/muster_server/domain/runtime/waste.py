"""Which running trials waste their slots, and what follows. Pure.

The rules of the pool and those of the document hold side by side, each with its own times, so a
document can ask for something earlier and never for something later.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from muster.document.running import WasteAction, WasteSection
from muster_server.domain.messages import AnyMessage, Message, sentences

EXEMPT_PHASES = frozenset({"no_grad", "checkpoint"})
"""Phases of a step in which a rank evaluates or saves."""
GAP_MAX = dt.timedelta(minutes=6)
"""Time between two samples of a node over which nothing is taken to be known. After some hours one is kept
every five minutes."""


@dataclass(frozen=True, kw_only=True)
class WasteFacts:
    """A running trial that waits for nobody to stop it and whose nodes are all heard."""

    trial_id: int
    attempt_no: int
    rules: Sequence[WasteSection]
    started_at: dt.datetime
    """Start of the processes of the attempt."""
    moved_at: dt.datetime | None
    """When the attempt last made a step or its ranks moved; None if it has made no step yet."""
    idle_since: Mapping[float, dt.datetime]
    """Percentage → since when each GPU has been used less than that; without those where one is used, or
    where that is not known."""
    is_exempt: bool
    """Whether a rank evaluates or saves."""
    noticed_at: dt.datetime | None
    """When its waste was noticed; None if it was not, or has ended."""
    kept_until: dt.datetime | None
    """Until when its owner keeps it running."""


@dataclass(frozen=True, kw_only=True)
class WasteDecision:
    """What to do about a trial. It holds for the attempt, the notice and the extension of `of` only."""

    of: WasteFacts
    kind: Literal["notice", "end", "clear"]
    text: AnyMessage
    """Why."""
    action: WasteAction = "notice"
    """What is done, or will be done at `acts_at`."""
    acts_at: dt.datetime | None = None
    """When the trial is stopped unless it goes on or is kept; None: it is not."""


@dataclass(frozen=True, kw_only=True)
class _Silence:
    """A reason to act, under one of the rules."""

    rule: WasteSection
    noticed_at: dt.datetime
    """When it is worth a notice."""
    text: Message


def decide(facts: WasteFacts, *, now: dt.datetime) -> WasteDecision | None:
    """Return what follows for a trial; None if nothing does."""
    is_kept = facts.kept_until is not None and now < facts.kept_until
    silences = [] if is_kept or facts.is_exempt else list(_silences(facts, now))
    reached = [silence for silence in silences if silence.noticed_at <= now]
    if not reached:
        if facts.noticed_at is None:
            return None
        return WasteDecision(of=facts, kind="clear", text=Message("waste.over"))
    noticed_at = facts.noticed_at or now
    # What is told in advance comes no sooner than its own time after the notice.
    acting = [
        (max(silence.noticed_at, noticed_at) + _minutes(silence.rule.act_after_min), silence)
        for silence in silences
        if silence.rule.action != "notice"
    ]
    acts_at, first = min(acting, key=lambda one: one[0], default=(None, None))
    if facts.noticed_at is not None:
        if acts_at is None or first is None or now < acts_at:
            return None
        return WasteDecision(
            of=facts, kind="end", text=first.text, action=first.rule.action, acts_at=acts_at
        )
    follows = None
    if acts_at is not None and first is not None:
        at = f"{acts_at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
        saves = first.rule.action == "checkpoint_and_stop"
        follows = Message("waste.saves", at=at) if saves else Message("waste.stops", at=at)
    return WasteDecision(
        of=facts,
        kind="notice",
        text=sentences(reached[0].text, follows),
        action=first.rule.action if first is not None else "notice",
        acts_at=acts_at,
    )


def _silences(facts: WasteFacts, now: dt.datetime) -> Iterator[_Silence]:
    for rule in facts.rules:
        earliest = facts.started_at + _minutes(rule.grace_min)
        if rule.no_step_for_min is not None and facts.moved_at is not None:
            yield _Silence(
                rule=rule,
                noticed_at=max(earliest, facts.moved_at + _minutes(rule.no_step_for_min)),
                text=Message("waste.no_step", minutes=_ago(facts.moved_at, now)),
            )
        pct = rule.device_below_percent
        if pct is not None and (since := facts.idle_since.get(pct)) is not None:
            yield _Silence(
                rule=rule,
                noticed_at=max(earliest, since + _minutes(rule.device_for_min)),
                text=Message("waste.idle", pct=pct, minutes=_ago(since, now)),
            )


def idle_since(
    newest_first: Sequence[tuple[dt.datetime, float | None]], below_pct: float, *, now: dt.datetime
) -> dt.datetime | None:
    """Return since when the busiest GPU of a node has been used less than `below_pct`.

    newest_first: (time, use of the busiest GPU in percent) of each sample, None where it was not measured.
    None if it is in use, or if nothing is known of the last minutes.
    """
    since, until = None, now
    for at, use in newest_first:
        if use is None or use >= below_pct or until - at > GAP_MAX:
            break
        since = until = at
    return since


def _ago(at: dt.datetime, now: dt.datetime) -> str:
    minutes = (now - at).total_seconds() / 60.0
    return f"{minutes:,.0f}" if minutes >= 10 else f"{minutes:.2g}"


def _minutes(minutes: float) -> dt.timedelta:
    return dt.timedelta(minutes=minutes)
