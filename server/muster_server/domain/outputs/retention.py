"""Which trials of an experiment keep their outputs, and why those of the others may go.

The outputs of a trial are kept or deleted as a whole. What somebody may still need is held whatever the
policy. Of the rest, the best of the search stay; what is older than the policy allows goes, and then the
oldest until what is left is no larger than it allows.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class OutputsPolicy:
    """What may stay; None for no limit."""

    older_than: dt.timedelta | None = None
    """Outputs whose last file was collected longer ago are deleted."""
    max_bytes: int | None = None
    """Most bytes that the outputs of the whole experiment may take."""
    keep_best: int = 0
    """Number of trials, the best by the search metric, whose outputs stay regardless of age and size."""

    def sentence(self) -> str:
        """Return what goes, as people read it; "everything is kept" without a limit."""
        limits = []
        if self.older_than is not None:
            days = self.older_than.total_seconds() / 86_400
            limits.append(f"outputs older than {days:g} d go")
        if self.max_bytes is not None:
            limits.append(f"the oldest go until {self.max_bytes:,} bytes are left")
        if not limits:
            return "everything is kept"
        best = f"; those of the best {self.keep_best} trials stay" if self.keep_best else ""
        return ", and ".join(limits) + best

    def may_exceed(self, *, oldest_at: dt.datetime, size_bytes: int, now: dt.datetime) -> bool:
        """Return whether `judge` may find something to delete. It finds nothing where this is False.

        oldest_at: time of the oldest collection of an experiment. size_bytes: size of all its outputs."""
        is_old = self.older_than is not None and now - oldest_at > self.older_than
        return is_old or (self.max_bytes is not None and size_bytes > self.max_bytes)


@dataclass(frozen=True, kw_only=True)
class TrialOutputsView:
    """The outputs of one trial, as they are in the storage."""

    trial_id: int
    trial_no: int
    num_files: int
    size_bytes: int
    written_at: dt.datetime
    """Time at which the last change was collected."""
    value: float | None = None
    """Best value of the search metric; a trial with None or NaN is not among the best."""
    held: str = ""
    """Why they stay whatever the policy; empty if nothing holds them."""


@dataclass(frozen=True, kw_only=True)
class OutputsVerdict:
    """Whether the outputs of a trial stay."""

    outputs: TrialOutputsView
    is_kept: bool
    reason: str


def judge(
    views: Sequence[TrialOutputsView],
    policy: OutputsPolicy,
    *,
    maximise: bool,
    now: dt.datetime,
) -> list[OutputsVerdict]:
    """Return one verdict for each trial, by its number."""
    why_kept = {view.trial_id: view.held for view in views if view.held}
    for view in _best(views, policy.keep_best, maximise=maximise):
        why_kept.setdefault(view.trial_id, f"of the best {policy.keep_best} trials")
    free = sorted(
        (view for view in views if view.trial_id not in why_kept),
        key=lambda view: (view.written_at, view.trial_no),
    )
    left_bytes = sum(view.size_bytes for view in views)
    why_gone: dict[int, str] = {}
    for view in free:
        age = now - view.written_at
        if policy.older_than is not None and age > policy.older_than:
            why_gone[view.trial_id] = f"{age.total_seconds() / 86_400:.1f} d old"
            left_bytes -= view.size_bytes
    for view in free:
        if policy.max_bytes is None or left_bytes <= policy.max_bytes:
            break
        if view.trial_id in why_gone or not view.size_bytes:
            continue
        why_gone[view.trial_id] = (
            f"the oldest while the experiment has more than {policy.max_bytes:,} bytes"
        )
        left_bytes -= view.size_bytes
    return [
        OutputsVerdict(
            outputs=view,
            is_kept=view.trial_id not in why_gone,
            reason=why_gone.get(view.trial_id) or why_kept.get(view.trial_id, "within the policy"),
        )
        for view in sorted(views, key=lambda view: view.trial_no)
    ]


def _best(
    views: Sequence[TrialOutputsView], num: int, *, maximise: bool
) -> Sequence[TrialOutputsView]:
    judged = [view for view in views if view.value is not None and not math.isnan(view.value)]
    sign = -1.0 if maximise else 1.0
    return sorted(judged, key=lambda view: (sign * (view.value or 0.0), -view.trial_no))[:num]
