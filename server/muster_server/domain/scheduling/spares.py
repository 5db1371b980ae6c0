"""Spares: whole free nodes that are held for trials that go on after they lost a node.

No other trial is placed on a spare, backfilled there, promised its slots, or grows into them. Spares
are made of what is free anyway: nobody is asked to make room for one.
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..nodes.availability import USED
from ..states import NodeState, Termination
from .fitting import Shares
from .nodes import GroupNodes, Ints

LONG_AGO = -np.inf
NODE_GONE = frozenset({Termination.NODE_LOST, Termination.NODE_REBOOTED})


def lost_member(
    termination: str | None, members: Iterable[tuple[Mapping[str, Any] | None, Collection[int]]]
) -> bool:
    """Return whether a failed attempt lost a node: that ended it, or a node of it takes no work since.

    members: of each allocation the node's `state`, `health` and `problems`, or None if it was removed,
    and the indexes of the slots that it held there. A node that is only cordoned, draining or in
    maintenance is not lost.
    """
    return termination in NODE_GONE or any(_is_lost(node, slots) for node, slots in members)


def _is_lost(node: Mapping[str, Any] | None, slots: Collection[int]) -> bool:
    if node is None or node["state"] != NodeState.ONLINE or node["health"] == "quarantined":
        return True
    return any(
        problem["blocks"]
        and problem["kind"] != USED
        and (problem.get("slot") is None or problem["slot"] in slots)
        for problem in node["problems"]
    )


def num_possible(nodes: GroupNodes, *, only_open: bool = True) -> int:
    """Return how many nodes could be spares if all were idle. only_open: count those that take work
    now."""
    return sum(
        1
        for n, node in enumerate(nodes.nodes)
        if _may_be_spare(nodes, n) and (not only_open or nodes.room(n) == node.total)
    )


def _may_be_spare(nodes: GroupNodes, n: int) -> bool:
    is_apart = n in nodes.owned or n in nodes.too_weak
    return not is_apart and not nodes.is_reserved_now(n)


class Spares:
    """The spares of one group in one pass: their slots are kept, as if they were promised."""

    def __init__(self, nodes: GroupNodes, promised: Ints | None = None) -> None:
        """Create it without spares. promised: `SlotTimes.promised`; None where nothing will be
        promised."""
        self.held: Shares[int] = {}
        """Node → slots kept there."""
        self._nodes = nodes
        self._promised = np.zeros(len(nodes), dtype=np.int64) if promised is None else promised
        sizes = Counter(nodes.totals.tolist())
        self._usual = max(sizes, key=lambda size: (sizes[size], size), default=0)
        """The most common number of slots of a node."""

    def hold(self, *, idle_before: dt.datetime | None = None) -> None:
        """Hold free nodes until there are enough spares, as far as there are any.

        idle_before: leave out nodes that came free later. What is free for longest comes first, so a
        spare stays one until it is used. Before that counts what makes a spare useful and its
        absence harmless: no failures, no maintenance to come, and of the nodes that can replace most
        others the smallest.
        """
        nodes = self._nodes
        if not nodes.num_spares:
            return
        missing = nodes.num_spares - sum(1 for n, num in self.held.items() if num == nodes[n].total)
        if missing <= 0:
            return
        raw = nodes.free - nodes.taken + nodes.given - nodes.kept
        limit = np.inf if idle_before is None else idle_before.timestamp()
        whole = [
            n
            for n in np.flatnonzero(raw == nodes.totals).tolist()
            if _may_be_spare(nodes, n) and (limit == np.inf or self._idle_since(n) <= limit)
        ]
        chosen = heapq.nsmallest(missing, whole, key=self._rank)
        self._keep({n: nodes[n].total for n in chosen})

    def release(self, shares: Shares[int]) -> bool:
        """Make the spares on which a gang is about to start ordinary nodes. Return whether there are
        any."""
        found = [n for n in shares if n in self.held]
        for n in found:
            self._drop(n)
        return bool(found)

    @contextmanager
    def offered(self, to_trial: bool) -> Iterator[None]:
        """Offer the spares inside the block, if `to_trial`; hold again what is left of them."""
        held = list(self.held) if to_trial else []
        for n in held:
            self._drop(n)
        try:
            yield
        finally:
            self._keep({n: num for n in held if (num := self._nodes.offered(n))})

    def _keep(self, shares: Shares[int]) -> None:
        for n, num in shares.items():
            self.held[n] = num
            self._nodes.keep(n, num)
            self._promised[n] += num

    def _drop(self, n: int) -> None:
        num = self.held.pop(n)
        self._nodes.keep(n, -num)
        self._promised[n] -= num

    def _rank(self, n: int) -> tuple[object, ...]:
        node = self._nodes[n]
        is_small = node.total < self._usual
        size = -node.total if is_small else node.total
        closes = node.closes_at is not None or bool(node.reservations)
        return node.strikes, closes, is_small, size, self._idle_since(n), n

    def _idle_since(self, n: int) -> float:
        """Return when the last slot of a node came free; infinity if some are not."""
        node = self._nodes[n]
        if len(node.free) < node.total:
            return np.inf
        return max(at.timestamp() if at is not None else LONG_AGO for at in node.free_since)
