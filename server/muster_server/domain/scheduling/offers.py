"""How many slots each of some nodes has to offer, kept so that looking for a fit stays cheap.

A pass over ten thousand nodes asks thousands of times "are there n nodes with at least k slots each,
and which are the tightest?". Nodes are kept in order of what they offer, so the answer takes a look
at the different amounts (a handful), not at the nodes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

NodeT = TypeVar("NodeT", int, str)
"""Nodes are told apart, and the last ties broken, by an ordinal or a name."""


class Offer(Generic[NodeT]):
    """Slots on offer per node. A node that offers none is not in it.

    Among nodes that would do, those with fewer strikes come first, then those that offer fewer
    slots (best fit), then the smaller node.
    """

    __slots__ = ("_levels", "_order", "_slots", "total")

    def __init__(self) -> None:
        self._slots: dict[NodeT, tuple[int, int]] = {}
        self._levels: dict[tuple[int, int], list[NodeT]] = {}
        """(strikes, slots) → the nodes of that level, ascending."""
        self._order: list[tuple[int, int]] = []
        """The levels that have nodes, ascending."""
        self.total = 0
        """All slots on offer."""

    @classmethod
    def of(cls, slots: Mapping[NodeT, int]) -> Offer[NodeT]:
        return cls.build((node, num, 0) for node, num in slots.items())

    @classmethod
    def build(cls, items: Iterable[tuple[NodeT, int, int]]) -> Offer[NodeT]:
        """Build an offer from (node, slots, strikes) tuples, which is faster than repeated `put`
        calls."""
        offer = cls()
        levels: dict[tuple[int, int], list[NodeT]] = defaultdict(list)
        for node, slots, strikes in items:
            if slots > 0:
                levels[strikes, slots].append(node)
                offer._slots[node] = (strikes, slots)
                offer.total += slots
        for nodes in levels.values():
            nodes.sort()
        offer._levels = dict(levels)
        offer._order = sorted(levels)
        return offer

    def __len__(self) -> int:
        """Return the number of nodes that offer anything."""
        return len(self._slots)

    def __iter__(self) -> Iterator[NodeT]:
        return iter(self._slots)

    def __getitem__(self, node: NodeT) -> int:
        """Return the slots on offer on a node; 0 for a node that is not in it."""
        level = self._slots.get(node)
        return 0 if level is None else level[1]

    def put(self, node: NodeT, slots: int, strikes: int = 0) -> None:
        """Set the number of slots that `node` offers; none if `slots` is 0 or less."""
        old = self._slots.pop(node, None)
        if old is not None:
            nodes = self._levels[old]
            del nodes[bisect_left(nodes, node)]
            if not nodes:
                del self._levels[old]
                del self._order[bisect_left(self._order, old)]
            self.total -= old[1]
        if slots > 0:
            level = (strikes, slots)
            self._slots[node] = level
            known = self._levels.get(level)
            if known is None:
                self._levels[level] = [node]
                insort(self._order, level)
            else:
                insort(known, node)
            self.total += slots

    @property
    def largest(self) -> int:
        """The most slots a single node offers; 0 when none does."""
        return max((slots for _, slots in self._order), default=0)

    def num_with(self, slots: int) -> int:
        """Return the number of nodes that offer at least `slots` slots."""
        return sum(len(self._levels[level]) for level in self._order if level[1] >= slots)

    def tightest(self, slots: int, *, skip: Collection[NodeT] = ()) -> Iterator[NodeT]:
        """Yield the nodes that offer at least `slots`, the one to take first coming first."""
        for level in self._order:
            if level[1] >= slots:
                for node in self._levels[level]:
                    if node not in skip:
                        yield node

    def roomiest(self) -> Iterator[NodeT]:
        """Yield all nodes, those that offer most first, then by strikes and node."""
        for level in sorted(self._order, key=lambda level: (-level[1], level[0])):
            yield from self._levels[level]

    def items(self) -> Iterator[tuple[NodeT, int]]:
        for node, (_, slots) in self._slots.items():
            yield node, slots
