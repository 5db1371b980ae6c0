"""Safeguards, taken out one at a time: histories that stay unbroken without them prove nothing.

A mutation replaces a piece of one function's source by another, in this process only. A piece that
is not there any more is an error: the safeguard was moved, and the mutation must follow it.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from muster_agent.jobs import allocations as agent_allocations
from muster_agent.shim import supervise
from muster_server.db import leases
from muster_server.domain.lifecycle import Hearing, avoidance, restarts
from muster_server.services.lifecycle import applying
from muster_server.services.nodes import record_writes, records
from muster_server.services.scheduling import allocations, placement


@dataclass(frozen=True)
class Mutation:
    name: str
    what: str
    """What is gone."""
    seed: int
    """A history in which that is noticed."""
    function: Callable[..., Any]
    before: str
    after: str


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "no_attempt_fence",
        "records of a superseded attempt, or of an allocation given up as lost, are taken",
        370,
        records._judge,
        "is_superseded=not is_current\n"
        "        or allocation.observed in (AllocationState.LOST, AllocationState.CLEANED),",
        "is_superseded=False,",
    ),
    Mutation(
        "no_dedup",
        "records that were applied already are applied again",
        7,
        records._judge,
        "in_order(request.records[:MAX_RECORDS], allocation.acked_seq)",
        "list(request.records[:MAX_RECORDS])",
    ),
    Mutation(
        "acknowledged_but_not_stored",
        "what is acknowledged changes nothing",
        10,
        record_writes.write,
        "connection.execute(_update_allocation(*names), rows)",
        "pass",
    ),
    Mutation(
        "two_leaders",
        "a controller's lease is given to whoever asks",
        5,
        leases.acquire,
        "elif row.expires_at <= now or (is_abandoned and row.holder != holder):",
        "else:\n        return Lease(name=name, holder=holder, epoch=row.epoch, "
        "acquired_at=row.acquired_at)\n    if row.holder != holder:",
    ),
    Mutation(
        "shim_ignores_its_deadline",
        "a shim cut off from the control plane goes on, although on_disconnect is stop",
        370,
        supervise.Shim._check_deadline,
        'if self.spec.on_disconnect == "stop" and',
        "if False and",
    ),
    Mutation(
        "orphans_left_alone",
        "what a dead shim leaves behind is not ended",
        0,
        agent_allocations.Allocation.declare_lost,
        "survivors = await self.end_everything(timeout_s=timeout_s)",
        "pass",
    ),
    Mutation(
        "wrong_resume_step",
        "an attempt does not say from which step it goes on",
        28,
        placement._attempt,
        '"resume_step": start.step if start is not None else 0,',
        '"resume_step": 0,',
    ),
    Mutation(
        "restarts_not_charged",
        "failures of the machinery cost nothing",
        5,
        restarts.decide_restart,
        "infra = failure.failures_infra + (retry_class is RetryClass.INFRA)",
        "infra = failure.failures_infra",
    ),
    Mutation(
        "misfits_not_avoided",
        "a trial goes back at once to the node that did not fit into its gang",
        17,
        avoidance.avoiding,
        "if a.until > now",
        "if False",
    ),
    Mutation(
        "silence_of_all_counts",
        "nodes are given up although nobody could hear any of them",
        26,
        Hearing.counted_s,
        "until = self.heard_at or self.now\n"
        "    since = max(node.last_seen_at, self.leader_since, self.since)",
        "until = self.now\n    since = max(node.last_seen_at, self.leader_since)",
    ),
    Mutation(
        "silent_change",
        "a trial changes its state without an event",
        5,
        applying._set_trial,
        'type="trial.state",',
        'type="trial.secret",',
    ),
    Mutation(
        "cleaned_without_freeing",
        "an allocation is cleaned, its slots stay taken",
        5,
        allocations.clean,
        'connection.execute(_FREE, {"ids": ids, "now": now})',
        "pass",
    ),
)


def find(name: str) -> Mutation:
    """Raises KeyError with the names there are."""
    found = {mutation.name: mutation for mutation in MUTATIONS}
    if name not in found:
        raise KeyError(f"no mutation {name!r}; there are: {', '.join(found)}")
    return found[name]


@contextmanager
def applied(name: str) -> Iterator[None]:
    """While it lasts this process runs without one safeguard. "" changes nothing."""
    if not name:
        yield
        return
    mutation = find(name)
    # Its code, not its name: others have imported it.
    function: Any = mutation.function
    original = function.__code__
    function.__code__ = _mutated(mutation).__code__
    try:
        yield
    finally:
        function.__code__ = original


def _mutated(mutation: Mutation) -> Callable[..., Any]:
    source = textwrap.dedent(inspect.getsource(mutation.function))
    before = mutation.before
    if source.count(before) != 1:
        raise ValueError(
            f"mutation {mutation.name}: {mutation.function.__qualname__} does not contain "
            f"{before!r} exactly once"
        )
    namespace = vars(sys.modules[mutation.function.__module__])
    made: dict[str, Any] = {}
    code = compile(
        "from __future__ import annotations\n" + source.replace(before, mutation.after),
        inspect.getsourcefile(mutation.function) or "",
        "exec",
    )
    exec(code, namespace, made)
    function: Callable[..., Any] = made[mutation.function.__name__]
    return function
