"""Points that the shim itself takes in, and which route reports which metric of a job."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from muster import wire
from muster.sdk.metrics import MEASURED

NAMES_MAX = 10_000
"""Names whose route is remembered; the attempt stores fewer series."""


class MetricPoint(NamedTuple):
    """A value of a metric at a step."""

    name: str
    step: int
    time_ms: int
    """Unix time in milliseconds."""
    value: float


def metrics_record(
    points: Sequence[MetricPoint], *, rank: int, local_rank: int, epoch: float | None = None
) -> str:
    """Return the JSON text of a metrics record that holds the points, at least one."""
    columns: dict[str, list[MetricPoint]] = {}
    for point in points:
        columns.setdefault(point.name, []).append(point)
    record = {
        "type": "metrics",
        "local_rank": local_rank,
        "rank": rank,
        "step": max(point.step for point in points),
        "epoch": epoch,
        "num_steps_planned": None,
        "series": [
            {
                "name": name,
                "steps": [point.step for point in column],
                "times_ms": [point.time_ms for point in column],
                "values": [wire.encode_number(point.value) for point in column],
            }
            for name, column in columns.items()
        ],
    }
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


class Route(enum.IntEnum):
    """Ways by which values of a job come in, best first: the first of them that reports a name has
    it."""

    PROCESS = 0
    """The script, and its libraries in its own process."""
    TRACKING = 1
    """MLflow's client."""
    EVENT_FILES = 2
    LOG = 3


class NameRoutes:
    """Keeps each metric to one route, so that no value is recorded twice."""

    def __init__(self) -> None:
        self._routes: dict[str, Route] = {}
        self._spellings: set[str] = set()
        """Names that a better route than the log has, as they compare."""

    def allows(self, name: str, route: Route) -> bool:
        """Return whether a value may be recorded by a route, and note that it was if so.

        The log gets no name that another route spells a little differently: what prints `train loss`
        logs `train/loss`. A curve that it has begun goes on."""
        if name.startswith(MEASURED):
            return True  # Muster's own name, which the server keeps apart.
        known = self._routes.get(name)
        if known is not None and known < route:
            return False
        if known is None and route is Route.LOG and _spelling(name) in self._spellings:
            return False
        if known is not None or len(self._routes) < NAMES_MAX:
            if route is not Route.LOG and known is not route:
                self._spellings.add(_spelling(name))
            self._routes[name] = route
        return True

    def report(self, names: Iterable[str], route: Route) -> None:
        """Note that a route has reported these names."""
        for name in names:
            self.allows(name, route)


def _spelling(name: str) -> str:
    """Return a name as it compares: without case, spaces and marks."""
    return "".join(c for c in name.casefold() if c.isalnum())
