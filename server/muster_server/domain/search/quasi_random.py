"""Quasi-random points: they fill a space more evenly than independent draws do.

Sobol' 1967 with Owen's scrambling, and Halton 1960 with scrambled digits, both from scipy.
"""

from __future__ import annotations

import functools
from typing import Literal

from scipy.stats import qmc

from .sampling import uniform

_AHEAD = 256


def point(kind: Literal["sobol", "halton"], seed: int, no: int, dimensions: int) -> list[float]:
    """Point `no` (1, 2, 3, …) of a sequence, in [0, 1)**dimensions: a function of the arguments."""
    if dimensions == 0:
        return []
    block, index = divmod(no - 1, _AHEAD)
    return list(_block(kind, seed, block, dimensions)[index])


@functools.lru_cache(maxsize=8)
def _block(
    kind: Literal["sobol", "halton"], seed: int, block: int, dimensions: int
) -> tuple[tuple[float, ...], ...]:
    own = int(uniform(seed, 0, kind) * 2**32)
    if kind == "sobol":
        engine = qmc.Sobol(dimensions, scramble=True, bits=30, rng=own)
    else:
        engine = qmc.Halton(dimensions, scramble=True, rng=own)
    if block:
        engine.fast_forward(block * _AHEAD)
    # Scrambled digits may round up to 1, which is not a quantile.
    return tuple(tuple(min(float(x), 1 - 2**-53) for x in row) for row in engine.random(_AHEAD))
