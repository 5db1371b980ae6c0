"""When a search is over although trials are left: target reached, no better value, only failures."""

from __future__ import annotations

import math
from typing import Any

from muster.wire import decode_number, encode_number

from .events import TrialEnded
from .failures import FIRST_FAILURES, alike, sentence
from .rungs import score
from .spec import SearchSpec


class Ends:
    """Counter for the limits of a spec. Its methods return why the search is over, or None if it is
    not."""

    def __init__(self) -> None:
        self._best = math.inf
        """Best score so far; lower is better."""
        self._num_since_best = 0
        self._num_failures = 0
        self._cause = ""
        """Common cause of the failures so far, while no trial of the search has reported
        anything."""
        self._num_alike = 0

    def reported(self, spec: SearchSpec, no: int, value: float) -> str | None:
        """Trial `no` has reported a value."""
        mine = score(value, spec.goal)
        if mine < self._best:
            self._best, self._num_since_best = mine, 0
        self._num_failures = 0
        if spec.target is None or mine > score(spec.target, spec.goal):
            return None
        return f"trial {no} reached the target: {spec.metric} of {value:.6g}"

    def ended(self, spec: SearchSpec, event: TrialEnded) -> str | None:
        if event.value is not None and score(event.value, spec.goal) < self._best:
            self._best, self._num_since_best = score(event.value, spec.goal), 0
        elif event.outcome not in ("canceled", "invalid"):
            self._num_since_best += 1
        if event.outcome != "invalid":
            self._num_failures = self._num_failures + 1 if event.outcome == "failed" else 0
        why = self._first_alike(spec, event)
        if why is not None:
            return why
        if spec.max_failures is not None and self._num_failures >= spec.max_failures:
            return f"{self._num_failures} trials failed one after the other"
        if spec.patience is not None and self._num_since_best >= spec.patience:
            num = self._num_since_best
            return f"{num} trials in a row ended without a better {spec.metric}"
        return None

    def _first_alike(self, spec: SearchSpec, event: TrialEnded) -> str | None:
        """Return why the search is over if its first trials fail alike before any of them has
        reported; None otherwise."""
        if spec.independent:
            return None
        cause = alike(event.cause)
        if not cause or event.outcome != "failed":
            self._cause, self._num_alike = "", 0
            return None
        self._num_alike = self._num_alike + 1 if cause == self._cause else 1
        self._cause = cause
        limit = FIRST_FAILURES if spec.max_failures is None else spec.max_failures
        if self._num_alike < max(limit, 2):
            return None
        return (
            f"its first {self._num_alike} trials failed alike before any of them reported a value: "
            f"{sentence(event.cause)}. Correct that and submit again; search.max_failures lets a "
            "search go on for longer"
        )

    def begin_anew(self) -> None:
        """The search goes on after its end: what is in a row is counted from here."""
        self._num_failures = self._num_since_best = self._num_alike = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "best": encode_number(self._best),
            "since_best": self._num_since_best,
            "failures": self._num_failures,
            "cause": self._cause,
            "alike": self._num_alike,
        }

    def load(self, plain: dict[str, Any]) -> None:
        """Take over what `to_json` gave."""
        self._best = decode_number(plain.get("best", "Infinity"))
        self._num_since_best = plain.get("since_best", 0)
        self._num_failures = plain.get("failures", 0)
        self._cause = plain.get("cause", "")
        self._num_alike = plain.get("alike", 0)
