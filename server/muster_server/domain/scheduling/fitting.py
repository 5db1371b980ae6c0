"""Which nodes could carry a gang, given how many slots each has to offer."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from muster.document.roles import RoleMember

from .offers import NodeT, Offer
from .resources import Request

Shares = dict[NodeT, int]
"""Node → slots of one gang there."""


def fit(
    request: Request,
    offer: Offer[NodeT],
    *,
    at_most: int | None = None,
    first: Collection[NodeT] = (),
) -> Shares[NodeT] | None:
    """Node → slots for the whole gang, or None when it does not fit.

    offer: slots of the request's type that may be taken, on nodes that the request may use.
    at_most: for an elastic request, a bound below its `slots`.
    first: nodes to take first where that costs no further node.

    An elastic request gets the most slots that fit. Even shares come first: the smallest number of
    nodes that divides the slots and finds enough nodes wins, on the nodes that keep the fewest
    slots free (best fit). Uneven shares only if the request allows them and no even ones give as
    many slots; then too the fewest nodes win.
    """
    most = request.slots if at_most is None else min(request.slots, at_most)
    least = request.least_slots
    if least > most or least > offer.total:
        return None
    if request.members:
        return _fit_members(request, offer, first)
    if least == most:
        return _fit_exactly(request, most, offer, first)
    size = max(_largest_even(request, most, offer), _largest_uneven(request, most, offer))
    return _fit_exactly(request, size, offer, first) if size >= least else None


def node_counts(request: Request, slots: int) -> tuple[int, ...]:
    """Return the numbers of nodes over which `slots` can be spread evenly, fewest first; none for a gang
    of roles, whose members decide."""
    if request.members:
        return ()
    if request.nodes is not None:
        return (request.nodes,) if slots % request.nodes == 0 else ()
    most = slots if request.max_nodes is None else min(slots, request.max_nodes)
    return tuple(n for n in _divisors(slots) if n <= most)


@functools.cache
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(n for n in range(1, number + 1) if number % n == 0)


def _fit_exactly(
    request: Request, slots: int, offer: Offer[NodeT], first: Collection[NodeT]
) -> Shares[NodeT] | None:
    for num_nodes in node_counts(request, slots):
        share = slots // num_nodes
        if offer.num_with(share) >= num_nodes:
            return dict.fromkeys(islice(_candidates(offer, share, first), num_nodes), share)
    return _fit_uneven(request, slots, offer) if request.uneven else None


def _candidates(offer: Offer[NodeT], share: int, first: Collection[NodeT]) -> Iterator[NodeT]:
    preferred = [node for node in sorted(first) if offer[node] >= share]
    yield from preferred
    yield from offer.tightest(share, skip=preferred)


def _largest_even(request: Request, most: int, offer: Offer[NodeT]) -> int:
    largest = 0
    for share in range(1, min(offer.largest, most) + 1):
        num_nodes = min(offer.num_with(share), most // share)
        if request.nodes is not None:
            num_nodes = request.nodes if num_nodes >= request.nodes else 0
        elif request.max_nodes is not None:
            num_nodes = min(num_nodes, request.max_nodes)
        largest = max(largest, share * num_nodes)
    return largest


def _largest_uneven(request: Request, most: int, offer: Offer[NodeT]) -> int:
    if not request.uneven or (request.nodes is not None and len(offer) < request.nodes):
        return 0
    num_nodes = request.nodes or request.max_nodes or len(offer)
    total = sum(offer[node] for node in islice(offer.roomiest(), num_nodes))
    return min(most, total) if request.nodes is None or most >= request.nodes else 0


def _fit_uneven(request: Request, slots: int, offer: Offer[NodeT]) -> Shares[NodeT] | None:
    """Return the roomiest nodes, as few as possible; the last one is the tightest that holds the
    rest."""
    exact, most = request.nodes, request.nodes or request.max_nodes or slots
    if slots < (exact or 1):
        return None
    chosen: list[NodeT] = []
    total = 0
    for node in islice(offer.roomiest(), most):
        chosen.append(node)
        total += offer[node]
        if total >= slots and (exact is None or len(chosen) == exact):
            break
    if total < slots or (exact is not None and len(chosen) < exact):
        return None
    shares: Shares[NodeT] = {}
    left = slots
    for position, node in enumerate(chosen):
        # Each node still to come needs at least one slot.
        shares[node] = min(offer[node], left - (len(chosen) - position - 1))
        left -= shares[node]
    last = chosen[-1]
    share = shares.pop(last)
    shares[next(offer.tightest(share, skip=shares))] = share
    return shares


def assign(members: Sequence[RoleMember], offer: Mapping[NodeT, int]) -> list[NodeT | None]:
    """Return the node of each member, in their order: the largest members first, each on the first node
    with as many slots left. None for a member that finds no node.

    What `fit` returns for a gang of roles, given here again, gives each member the node that it was
    counted for.
    """
    left = dict(offer)
    found: list[NodeT | None] = [None] * len(members)
    for number in sorted(range(len(members)), key=lambda n: (-members[n].slots, n)):
        slots = members[number].slots
        node = next((node for node, num in left.items() if num >= slots), None)
        if node is not None:
            left[node] -= slots
            found[number] = node
    return found


def first_without_node(members: Sequence[RoleMember], offer: Offer[NodeT]) -> RoleMember | None:
    """Return the first member for which no slots are left; None if all find some."""
    nodes = assign(members, {node: offer[node] for node in offer.roomiest()})
    return next((m for m, node in zip(members, nodes, strict=True) if node is None), None)


def least_nodes(request: Request, slots: int) -> int:
    """Return how many nodes with so many slots each a gang needs at least."""
    most = len(request.members)
    for num in range(1, most):
        if None not in assign(request.members, dict.fromkeys(range(num), slots)):
            return num
    return most or math.ceil(request.least_slots / slots)


def _fit_members(
    request: Request, offer: Offer[NodeT], first: Collection[NodeT]
) -> Shares[NodeT] | None:
    """Return where a gang of roles fits: on one node if one holds all, else on few, each member whole."""
    whole = next(_candidates(offer, request.slots, first), None)
    if whole is not None:
        return {whole: request.slots}
    offered = dict(islice(_preferred(offer, first), request.max_nodes))
    shares: Shares[NodeT] = dict.fromkeys(offered, 0)
    for member, node in zip(request.members, assign(request.members, offered), strict=True):
        if node is None:
            return None
        shares[node] += member.slots
    return {node: slots for node, slots in shares.items() if slots}


def _preferred(offer: Offer[NodeT], first: Collection[NodeT]) -> Iterator[tuple[NodeT, int]]:
    """Yield what nodes offer: those to take first, then those that offer most."""
    yield from ((node, offer[node]) for node in dict.fromkeys(first) if offer[node])
    yield from ((node, offer[node]) for node in offer.roomiest() if node not in first)
