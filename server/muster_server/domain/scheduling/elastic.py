"""Elastic trials grow into slots that stay idle.

Only into slots that have been free for `policy.grow_after_s`, on nodes that nobody who waits could
use, only trials that have been running for as long, and only by a quarter or to their full size:
each change costs a checkpoint and a start. So a size never follows what comes and goes quickly.
Shrinking is part of preemption: it happens for a more important trial and never by itself.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from muster_server.domain.messages import Message

from .decisions import Resize
from .group import SchedulingGroup
from .nodes import GroupNodes, NodeSection, fit_in
from .running import RunningKey
from .views import RunningTrial, SchedulerPolicy

LEAST_GROWTH = 1.25
"""New size over old size, unless the new size is all that the trial wants."""


def grow(
    group: SchedulingGroup,
    *,
    wanted: Iterable[NodeSection],
    asked: Collection[RunningKey],
    extra: Mapping[int, int],
    now: dt.datetime,
    policy: SchedulerPolicy,
) -> Iterator[Resize]:
    """Yield the trials that grow, most important first.

    wanted: nodes where waiting trials could run. asked: trials that are asked for slots in this
    pass. extra: project → slots it was given in this pass. Changes what the nodes offer.
    """
    since = now - dt.timedelta(seconds=policy.grow_after_s)
    trials = [
        trial
        for trial in (group.running.trials[key] for key in group.running.elastic)
        if trial.slots < trial.request.slots
        and trial.started_at <= since
        and not trial.yielding
        and trial.key not in asked
    ]
    if not trials:
        return
    with group.nodes.imagined():
        _offer_lasting(group.nodes, since, {n for s in wanted for n in s.ordinals.tolist()})
        grown: Counter[int] = Counter()
        for trial in sorted(trials, key=lambda t: (-t.priority, t.place, t.trial_id)):
            used = group.running.held[trial.project_id]
            used += extra.get(trial.project_id, 0) + grown[trial.project_id]
            size = _larger(group, trial, used, stays_s=policy.grow_after_s)
            if size is not None:
                grown[trial.project_id] += size - trial.slots
                yield Resize(
                    trial_id=trial.trial_id,
                    attempt_no=trial.attempt_no,
                    slots=size,
                    reason=Message(
                        "preempt.grow",
                        slots=trial.slots,
                        size=size,
                        seconds=policy.grow_after_s,
                    ),
                )


def _offer_lasting(nodes: GroupNodes, since: dt.datetime, wanted: Collection[int]) -> None:
    """Offer only what has been free since then, on nodes that nobody wants."""
    for n in list(nodes.whole.offer):
        # Trials placed in this pass have taken the first of the free slots.
        free = nodes[n].free_since[int(nodes.taken[n]) :]
        lasting = 0 if n in wanted else sum(1 for at in free if at is not None and at <= since)
        nodes.keep(n, nodes.raw(n) - min(lasting, nodes.raw(n)))


def _larger(
    group: SchedulingGroup, trial: RunningTrial, used: int, *, stays_s: float
) -> int | None:
    """Return the size to which `trial` grows, or None. What it then takes is no longer on offer.

    used: slots of its project's quota that are taken. stays_s: seconds for which a node must not be
    reserved for others, so that it is not left again at once.
    """
    request = trial.request
    if group.nodes.reserved:
        request = replace(request, min_runtime_s=max(stays_s, request.min_runtime_s))
    most = trial.request.slots
    if (quota := group.quotas.get(trial.project_id)) is not None:
        most = min(most, trial.slots + quota - used)
    if most <= trial.slots:
        return None
    own = group.shares_of(trial)
    for n, num in own.items():
        group.nodes.give(n, num)
    shares = fit_in(group.nodes, request, lambda section: section.offer, at_most=most)
    for n, num in own.items():
        group.nodes.give(n, -num)
    size = 0 if shares is None else sum(shares.values())
    if shares is None or size <= trial.slots:
        return None
    if size < trial.request.slots and size < LEAST_GROWTH * trial.slots:
        return None
    for n, num in shares.items():
        group.nodes.keep(n, max(0, num - own.get(n, 0)))
    return size
