"""What a ledger says in words, and what would have saved time. Pure."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster_server.domain.messages import AnyMessage, Message, sentences

from .ledger import LOST, TimeClass, allocated_s

_NAMED = 2
_LEAST_NAMED = 0.01
_UNKNOWN = 0.5
_WORTH = 0.01
_PER_HOUR = 3600.0
WEEK = dt.timedelta(days=7)
_SUMMED_AT = dt.timedelta(hours=6)
"""Time after the end of a week at which all of it has been counted."""
_LOSSES_TOLD = 3


def headline(totals: Mapping[str, float], *, num_restarts: int | None) -> AnyMessage | None:
    """Return where most of the time went that moved no training forward; None without any time.

    totals: slot-seconds by class. num_restarts: attempts after the first one; None for many trials.
    """
    whole = allocated_s(totals)
    if whole <= 0:
        return None
    lost = {kind: totals.get(kind, 0.0) / whole for kind in LOST}
    named = sorted((k for k in LOST if lost[k] >= _LEAST_NAMED), key=lambda k: -lost[k])[:_NAMED]
    unknown = totals.get(TimeClass.UNMEASURED, 0.0) / whole
    if unknown > _UNKNOWN:
        return Message("goodput.unmeasured", pct=_pct(unknown))
    if not named:
        return Message("goodput.nothing_lost", pct=_pct(sum(lost.values())))
    found = Message("goodput.lost", pct=_pct(sum(lost.values())))
    return sentences(found, *(_cause(kind, lost[kind], num_restarts) for kind in named))


_CAUSES: Mapping[TimeClass, Callable[[str], Message]] = {
    TimeClass.PREPARING: lambda pct: Message("goodput.preparing", pct=pct),
    TimeClass.STARTING: lambda pct: Message("goodput.starting", pct=pct),
    TimeClass.RESTORING: lambda pct: Message("goodput.restoring", pct=pct),
    TimeClass.SAVING: lambda pct: Message("goodput.saving", pct=pct),
    TimeClass.REPEATED: lambda pct: Message("goodput.repeated", pct=pct),
    TimeClass.STALLED: lambda pct: Message("goodput.stalled", pct=pct),
    TimeClass.UNDETECTED: lambda pct: Message("goodput.undetected", pct=pct),
    TimeClass.FINISHING: lambda pct: Message("goodput.finishing", pct=pct),
    TimeClass.STOPPING: lambda pct: Message("goodput.stopping", pct=pct),
    TimeClass.IDLE: lambda pct: Message("goodput.idle", pct=pct),
    TimeClass.ABANDONED: lambda pct: Message("goodput.abandoned", pct=pct),
}


def _cause(kind: TimeClass, share: float, num_restarts: int | None) -> Message:
    if kind == TimeClass.REPEATED and num_restarts:
        return Message("goodput.repeated_after", pct=_pct(share), num=num_restarts)
    return _CAUSES[kind](_pct(share))


def _pct(share: float) -> str:
    """Return a percentage with two significant digits, so that a small loss is not shown as 0."""
    pct = 100.0 * share
    return f"{pct:.0f}" if pct >= 10 or pct == 0 else f"{pct:.2g}"


# ---------------------------------------------------------------- a week


def due_week(now: dt.datetime) -> dt.datetime:
    """Return the last Monday, 06:00 UTC, from which the week before can be summed up."""
    shifted = now.astimezone(dt.UTC) - _SUMMED_AT
    monday = shifted.date() - dt.timedelta(days=shifted.weekday())
    return dt.datetime.combine(monday, dt.time(), dt.UTC) + _SUMMED_AT


def weekly_text(totals: Mapping[str, float], due_at: dt.datetime) -> str | None:
    """Return what the runs of a person held and lost in the week before `due_at`; None if no slot was held.

    totals: slot-seconds by class.
    """
    whole = allocated_s(totals)
    if whole <= 0:
        return None
    first, last = (due_at - WEEK).date(), due_at.date() - dt.timedelta(days=1)
    text = (
        f"From {first} to {last}, your runs held {whole / _PER_HOUR:,.3g} slot-hours, "
        f"{_pct(totals.get(TimeClass.PRODUCTIVE, 0.0) / whole)}% of them productive."
    )
    losses = sorted((k for k in LOST if totals.get(k, 0.0) > 0), key=lambda k: -totals[k])
    named = ", ".join(f"{k} {_pct(totals[k] / whole)}%" for k in losses[:_LOSSES_TOLD])
    return f"{text} Largest losses: {named}." if named else text


# ---------------------------------------------------------------- how often to save


@dataclass(frozen=True, kw_only=True)
class SavingFacts:
    """What one training and its pool have shown of saving and failing."""

    save_s: float
    """Seconds that training waited for one checkpoint."""
    interval_s: float
    """Productive seconds between two checkpoints."""
    step_s: float
    """Seconds per step."""
    num_slots: int
    pool_slot_s: float
    """Slot-seconds held in the pool in the time looked at."""
    pool_failures: int
    """Attempts there that a failure ended, other than one of the script's own making."""


@dataclass(frozen=True, kw_only=True)
class SaveInterval:
    """The checkpoint interval that loses least."""

    steps: int
    interval_s: float
    lost_share: float
    """Share of the time that saving and repeating take at this interval, 0 to 1."""
    lost_share_now: float
    """Share that they take at the interval of this training."""
    failure_every_s: float
    """Mean time between failures of as many slots as the training has."""
    reason: Message


def best_save_interval(facts: SavingFacts) -> SaveInterval | None:
    """Return the checkpoint interval that loses least, √(2 · save cost · time between failures).

    J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (9), 1974.
    None if nothing has failed in the pool, or if it would save less than 1 % of the time.
    """
    if not facts.pool_failures or facts.save_s <= 0 or facts.step_s <= 0 or facts.interval_s <= 0:
        return None
    between_s = facts.pool_slot_s / facts.pool_failures / max(facts.num_slots, 1)
    best_s = math.sqrt(2.0 * facts.save_s * between_s)
    steps = max(1, round(best_s / facts.step_s))
    interval_s = steps * facts.step_s

    def lost(every_s: float) -> float:
        return min(1.0, facts.save_s / (every_s + facts.save_s) + every_s / (2.0 * between_s))

    best, current = lost(interval_s), lost(facts.interval_s)
    if current - best < _WORTH:
        return None
    reason = Message(
        "goodput.save_interval",
        steps=steps,
        pct=_pct(best),
        current_pct=_pct(current),
        save_s=f"{facts.save_s:.2g}",
        hours=f"{between_s / _PER_HOUR:.2g}",
    )
    return SaveInterval(
        steps=steps,
        interval_s=interval_s,
        lost_share=best,
        lost_share_now=current,
        failure_every_s=between_s,
        reason=reason,
    )
