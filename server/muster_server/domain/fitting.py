"""Which nodes could carry a gang, given how many slots each has to offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .resources import Request

Rank = Callable[[str], tuple[object, ...]]
"""Sort key of a node id among nodes that would do; smallest is taken first."""


def fit(
    request: Request, offered: Mapping[str, int], *, prefer: Rank | None = None
) -> dict[str, int] | None:
    """Node id → slots for the whole gang, or None when it does not fit.

    offered: node id → slots of the request's type that may be taken there. Its order breaks the
        last ties.
    prefer: breaks ties before best fit does.

    Even shares come first: the smallest number of nodes that divides the slots and finds enough
    nodes wins, on the nodes that keep the fewest slots free (best fit). Uneven shares
    only if the request allows them and no even one exists; then too the fewest nodes win.
    """
    for num_nodes in _even_counts(request, len(offered)):
        chosen = fit_even(request, offered, num_nodes=num_nodes, prefer=prefer)
        if chosen is not None:
            return chosen
    return _fit_uneven(request, offered, prefer=prefer) if request.uneven else None


def fit_even(
    request: Request, offered: Mapping[str, int], *, num_nodes: int, prefer: Rank | None = None
) -> dict[str, int] | None:
    """The best `num_nodes` nodes that each take the same number of slots, or None."""
    if num_nodes < 1 or request.slots % num_nodes:
        return None
    share = request.slots // num_nodes
    able = [node for node, slots in offered.items() if slots >= share]
    if len(able) < num_nodes:
        return None
    able.sort(key=lambda node: (*(prefer(node) if prefer else ()), offered[node]))
    return dict.fromkeys(able[:num_nodes], share)


def even_options(
    request: Request, offered: Mapping[str, int], *, prefer: Rank | None = None
) -> list[dict[str, int]]:
    """Every even way to fit, one per possible number of nodes, fewest nodes first."""
    options = (
        fit_even(request, offered, num_nodes=n, prefer=prefer)
        for n in _even_counts(request, len(offered))
    )
    found = [option for option in options if option is not None]
    if not found and request.uneven:
        uneven = _fit_uneven(request, offered, prefer=prefer)
        return [uneven] if uneven else []
    return found


def _even_counts(request: Request, num_offered: int) -> list[int]:
    if request.nodes is not None:
        return [request.nodes]
    most = min(request.slots, num_offered, request.max_nodes or request.slots)
    return [n for n in range(1, most + 1) if request.slots % n == 0]


def _fit_uneven(
    request: Request, offered: Mapping[str, int], *, prefer: Rank | None
) -> dict[str, int] | None:
    useful = [node for node, slots in offered.items() if slots > 0]
    useful.sort(key=lambda node: (-offered[node], *(prefer(node) if prefer else ())))
    most = min(len(useful), request.slots, request.max_nodes or request.slots)
    counts = range(1, most + 1) if request.nodes is None else [request.nodes]
    for num_nodes in counts:
        if num_nodes > most:
            return None
        chosen = useful[:num_nodes]
        if sum(offered[node] for node in chosen) < request.slots:
            continue
        shares: dict[str, int] = {}
        left = request.slots
        for position, node in enumerate(chosen):
            # Each node still to come needs at least one slot.
            shares[node] = min(offered[node], left - (num_nodes - position - 1))
            left -= shares[node]
        return _tighten_last(shares, useful, offered)
    return None


def _tighten_last(
    shares: dict[str, int], useful: list[str], offered: Mapping[str, int]
) -> dict[str, int]:
    """Move the last, partly used share to the smallest node that can hold it."""
    last, share = list(shares.items())[-1]
    able = [n for n in useful if offered[n] >= share and (n == last or n not in shares)]
    best = min(able, key=lambda node: (offered[node], useful.index(node)))
    del shares[last]
    shares[best] = share
    return shares
