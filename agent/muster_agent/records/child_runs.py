"""Further runs of the script in one job, as the server keeps them: what their metrics begin with."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Final

from muster import wire

LABELS_MAX: Final = 1_000


class ChildRuns:
    """Reports each further run of a trial once."""

    def __init__(self, trial: str, record: Callable[[str, bool], None]) -> None:
        """Report the runs of one trial.

        trial: names it among all. record: takes the JSON text of a record, and whether it holds
        metrics."""
        self._trial = uuid.uuid5(uuid.NAMESPACE_URL, f"muster:{trial}")
        self._record = record
        self._labels: set[str] = set()

    def note(self, label: str) -> None:
        """Report a run whose metrics begin with a label, if it is new."""
        if label in self._labels or len(self._labels) >= LABELS_MAX:
            return
        self._labels.add(label)
        run = wire.TrackedRunRecord(
            run_id=uuid.uuid5(self._trial, f"run {label}").hex,
            name=label,
            label=label,
            folder="",
            parent_id="",
            status="RUNNING",
            started_ms=time.time_ns() // 1_000_000,
        )
        self._record(wire.dump(run), False)

    def note_of(self, series: str, name: str) -> None:
        """Report the run of a series, where it has another name than the metric."""
        if series != name:
            self.note(series.removesuffix(f"/{name}"))
