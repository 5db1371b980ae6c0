"""Guards of a project beside those of a document."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from muster.document.guards import GUARDS_MAX, GuardSection

CONDITIONS = ("not_finite", "spike", "plateau", "above", "below", "below_median")
"""Conditions on a metric."""
ALONE = ("no_step_for_min", "straggler")
"""Conditions that need no metric."""


def conditions_of(guard: GuardSection) -> tuple[str, ...]:
    """Return the names of the conditions that are given; one, if the guard is valid."""
    return tuple(n for n in (*CONDITIONS, *ALONE) if getattr(guard, n) not in (None, False))


def with_defaults(
    own: Sequence[GuardSection], defaults: Sequence[GuardSection], hparams: Collection[str]
) -> tuple[GuardSection, ...]:
    """Return a document's guards, and behind them the defaults with other conditions, as far as there
    is room.

    hparams: names of the experiment's hyperparameters; a default changes no others.
    """
    taken = {(guard.metric, conditions_of(guard)) for guard in own}
    more = [
        replace(guard, set_={name: v for name, v in guard.set_.items() if name in hparams})
        for guard in defaults
        if (guard.metric, conditions_of(guard)) not in taken
    ]
    return (*own, *more)[:GUARDS_MAX]
