"""Numbers that order the queue, and room between them.

A place is a float, by default the time at which a trial was queued in seconds since 1970, so those
that come later stand behind. Moved trials get numbers in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

STEP_S = 1.0
"""Distance in seconds between places with room on one side."""
SPREAD_S = 1e-3
"""Distance in seconds between places at the end of the queue and renumbered ones."""


def places_between(
    before: float | None, after: float | None, num: int, *, now_s: float
) -> list[float] | None:
    """Return `num` ascending places between `before` and `after`, where None is the end of the
    queue on that side; None if floats leave no room for them.

    Behind the last one, places are not before the present, so that later trials stand behind.
    """
    if before is None and after is None:
        return [now_s - (num - i) * SPREAD_S for i in range(num)]
    if after is None:
        assert before is not None
        start = max(before, now_s - num * SPREAD_S)
        places = [start + (i + 1) * SPREAD_S for i in range(num)]
    elif before is None:
        places = [after - (num - i) * STEP_S for i in range(num)]
    else:
        step = (after - before) / (num + 1)
        places = [before + (i + 1) * step for i in range(num)]
    bounded = [*([] if before is None else [before]), *places, *([] if after is None else [after])]
    is_ascending = all(a < b for a, b in pairwise(bounded))
    return places if is_ascending else None


def spread(places: Sequence[float], num: int) -> list[float]:
    """`num` ascending places that end where the last of `places` is, for equals to be numbered
    anew: none of them stands behind somebody who comes later."""
    last = max(places)
    return [last - (num - 1 - i) * SPREAD_S for i in range(num)]
