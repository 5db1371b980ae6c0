"""Probes: short trainings with something left out, to see by the difference what it costs. No torch.

A probe is an ordinary trial whose hyperparameter `probe` says what is different. It validates
nothing, saves nothing and begins from nothing: only how long its steps take counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["as_is", "no_sync", "synthetic", "alone", "bucket"]

_WRITTEN = re.compile(
    r"(?P<kind>as_is|no_sync|synthetic|alone)/\d{1,3}|bucket:(?P<mb>\d+(\.\d+)?)/\d{1,3}", re.ASCII
)
EXPECTED = "as_is/1, no_sync/1, synthetic/1, alone/1 or bucket:4/1; the last number is the repeat"


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What a probe does otherwise than the training it stands for."""

    kind: Kind
    """Changes to the training. as_is: nothing. no_sync: workers exchange no gradients or parameters, and no rank waits for
    another. synthetic: the first batch over and over, out of memory. alone: rank 0 trains on its
    share by itself while the others wait. bucket: gradients in buckets of another size."""
    bucket_mb: float | None = None
    """Size of the buckets of gradients, for the kind "bucket"; None for the others."""

    @property
    def is_coupled(self) -> bool:
        """Whether ranks do a step together."""
        return self.kind not in ("no_sync", "alone")


def parse(text: str) -> Probe | None:
    """Return the probe that a text such as "no_sync/2" names, or None if it names none."""
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    if found["mb"] is not None:
        size = float(found["mb"])
        return Probe(kind="bucket", bucket_mb=size) if size > 0 else None
    kind: Kind = found["kind"]  # type: ignore[assignment]  # one of those in the expression
    return Probe(kind=kind)
