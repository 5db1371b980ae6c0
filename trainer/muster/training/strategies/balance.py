"""Cut a chain of layers into stages that take about equally long. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence


def balance(
    costs: Sequence[float], num_stages: int, *, entry: float = 0, exit: float = 0
) -> list[int]:
    """Return the number of layers of each stage, at least one each, so that the slowest stage is as
    fast as possible.

    This is dynamic programming over the last cut; of equally good results it returns the one that
    gives earlier stages more layers.

    costs: time of each layer, any unit, ≥ 0. entry, exit: what the first and the last stage do
    besides. Raises ValueError when there are fewer layers than stages.
    """
    if len(costs) < num_stages:
        raise ValueError(f"{len(costs)} layers are too few for {num_stages} stages")
    sums = [0.0]
    for cost in costs:
        sums.append(sums[-1] + cost)

    @functools.cache
    def best(num_layers: int, stages: int) -> tuple[float, tuple[int, ...]]:
        """(time of the slowest, sizes) of the first `num_layers` in `stages` stages."""
        last = exit if stages == num_stages else 0.0
        if stages == 1:
            return entry + sums[num_layers] + last, (num_layers,)
        found: tuple[float, tuple[int, ...]] | None = None
        for cut in range(num_layers - 1, stages - 2, -1):
            slowest, sizes = best(cut, stages - 1)
            slowest = max(slowest, sums[num_layers] - sums[cut] + last)
            if found is None or slowest < found[0]:
                found = (slowest, (*sizes, num_layers - cut))
        assert found is not None
        return found

    return list(best(len(costs), num_stages)[1])
