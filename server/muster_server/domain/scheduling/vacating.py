"""Trials leave nodes that are reserved for others, in time for the start.

Each is asked its own stop grace and LEAVE_MARGIN_S before. An elastic trial that fits on what is left
comes back there, as large as it can; any other saves a checkpoint and waits in the queue. As with
maintenance, `preemptible: false` and a guaranteed minimum of run time protect from other trials and not
from this.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from muster_server.domain.messages import Message, shortened
from muster_server.domain.nodes.reservations import LEAVE_MARGIN_S

from .decisions import Preempt, Resize
from .group import SchedulingGroup
from .nodes import fit_in
from .running import RunningKey
from .views import RunningTrial


def vacate(group: SchedulingGroup, *, now: dt.datetime) -> Iterator[Preempt | Resize]:
    """Yield the trials that are asked for their slots, the most important first. Leaves what the nodes
    offer as it was."""
    leaving = _leaving(group, now)
    if not leaving:
        return
    trials = sorted(
        (group.running.trials[key] for key in leaving),
        key=lambda t: (-t.priority, t.place, t.trial_id),
    )
    with group.nodes.imagined():
        for trial in trials:
            yield _ask(group, trial, leaving[trial.key], now)


def _leaving(group: SchedulingGroup, now: dt.datetime) -> dict[RunningKey, list[int]]:
    """Return who has to leave now, each with the nodes that are taken from it."""
    found: dict[RunningKey, list[int]] = {}
    for n in sorted(group.nodes.reserved):
        node = group.nodes[n]
        for trial in group.running.on_node.get(node.id, {}).values():
            by = now.timestamp() + trial.request.grace_s + LEAVE_MARGIN_S
            is_asked = trial.yielding or trial.is_ending
            if not is_asked and node.reservation_before(trial.request, by) is not None:
                found.setdefault(trial.key, []).append(n)
    return found


def _ask(
    group: SchedulingGroup, trial: RunningTrial, taken: list[int], now: dt.datetime
) -> Preempt | Resize:
    by = now.timestamp() + trial.request.grace_s + LEAVE_MARGIN_S
    first = group.nodes[taken[0]].reservation_before(trial.request, by)
    assert first is not None, "no node is taken from it"
    names = shortened([group.nodes[n].name for n in taken])
    size = _size_elsewhere(group, trial) if trial.request.elastic else None
    if size is None:
        return Preempt(
            trial_id=trial.trial_id,
            attempt_no=trial.attempt_no,
            for_trial_id=None,
            for_reservation=first.id,
            reason=Message("preempt.reserved", number=first.id, nodes=names, whom=first.label),
        )
    return Resize(
        trial_id=trial.trial_id,
        attempt_no=trial.attempt_no,
        slots=size,
        for_reservation=first.id,
        reason=Message(
            "preempt.moved",
            size=size,
            slots=trial.slots,
            number=first.id,
            nodes=names,
            whom=first.label,
        ),
    )


def _size_elsewhere(group: SchedulingGroup, trial: RunningTrial) -> int | None:
    """Return the size with which it fits on other nodes; None if it does not. What it then takes is no
    longer on offer."""
    own = group.shares_of(trial)
    for n, num in own.items():
        group.nodes.give(n, num)
    shares = fit_in(group.nodes, trial.request, lambda s: s.offer, at_most=trial.slots)
    for n, num in (shares or {}).items():
        group.nodes.give(n, -num)
    if shares is None:
        for n, num in own.items():
            group.nodes.give(n, -num)
        return None
    return sum(shares.values())
