"""How many gangs of one kind fit beside each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from .fitting import fit, node_counts
from .nodes import may_use
from .offers import Offer
from .resources import NodeView, Request


def num_fitting(
    request: Request, nodes: Iterable[NodeView], slots: Mapping[str, int], *, at_most: int
) -> int:
    """Return how many gangs of `request` the nodes could hold in parallel, 0 to `at_most`.

    slots: node ID → number of usable slots of the request's type; a missing node has none. Nodes on
    which nothing may be placed, of other pools, or ruled out by labels or names hold none. An
    elastic gang counts with all of its slots. Gangs are placed one by one, each on as few nodes as
    possible.
    """
    request = replace(request, min_slots=None)
    areas: dict[str, dict[str, int]] = defaultdict(dict)
    for node in nodes:
        if node.pool == request.pool and node.unavailable is None and may_use(request, node):
            areas[_area(request, node)][node.id] = slots.get(node.id, 0)
    found = 0
    for area in areas.values():
        found += _in_area(request, area, at_most=at_most - found)
    return found


def _area(request: Request, node: NodeView) -> str:
    """Nodes of one area may share a gang."""
    if request.topology_key is None or request.topology_mode == "prefer":
        return ""
    value = node.labels.get(request.topology_key)
    return f"node {node.id}" if value is None else f"value {value}"


def _in_area(request: Request, area: Mapping[str, int], *, at_most: int) -> int:
    found = 0
    if 1 in node_counts(request, request.slots):
        # Like `fit`, one gang after the other, on a single node wherever one has room.
        found = sum(num // request.slots for num in area.values())
        area = {node: num % request.slots for node, num in area.items()}
    offer = Offer.of(area)
    while found < at_most and (shares := fit(request, offer)) is not None:
        for node, num in shares.items():
            offer.put(node, offer[node] - num)
        found += 1
    return min(found, at_most)
