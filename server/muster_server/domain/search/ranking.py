"""Who has reached which rung, with which value: the brackets of a search and where trials stand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muster.wire import Number, decode_number, encode_number

from .asha import first_rungs
from .median_stopping import Medians, ValueCurve
from .rungs import Ladder, quota, score
from .spec import SearchSpec

EPSILON = 1e-6
"""Epochs arrive as floats: 3 epochs of 7 steps may be reported as 2.9999999."""


@dataclass(frozen=True)
class RungEntry:
    trial_no: int
    value: float | None
    """Value at the rung; None if the trial failed before it reached the rung."""
    goes_on: bool | None
    """Whether the trial continues; None if nothing was decided (last rung, failed, or still
    waiting)."""


class Standings:
    """Rungs are numbered through all brackets, bracket after bracket."""

    def __init__(self, spec: SearchSpec) -> None:
        self.spec = spec
        self.units = spec.rungs
        self.rungs: list[list[RungEntry]] = [[] for _ in self.units]
        """Per rung, in order of arrival."""
        self.ladders = [Ladder() for _ in self.units]
        self.firsts = first_rungs(spec.brackets)
        self.in_bracket = [0] * len(spec.brackets)
        """Trials created per bracket."""
        self._medians = Medians(len(self.units))
        self._places: list[dict[int, int]] = [{} for _ in self.units]
        """Per rung, trial number → index of its entry."""

    # ------------------------------------------------------------ entries

    def enter(
        self, rung: int, trial_no: int, value: float | None, curve: ValueCurve | None = None
    ) -> bool | None:
        """Put a trial on a rung; whether it goes on (None: nothing to decide, or not yet)."""
        ladder = self.ladders[rung]
        median = self._medians.median(rung) if len(ladder) >= self.spec.min_trials else None
        rank = ladder.add(score(value, self.spec.goal), trial_no)
        goes_on: bool | None = None
        if self.spec.rule == "median" and curve is not None and value is not None:
            self._medians.add(rung, curve.mean)
        if value is not None and not self.is_last(rung):
            if self.spec.rule == "stopping":
                goes_on = math.isfinite(value) and rank < quota(len(ladder), self.spec.divisor)
            elif not math.isfinite(value):
                goes_on = False
            elif self.spec.rule == "median":
                assert curve is not None
                goes_on = median is None or curve.best <= median
        self._add(rung, RungEntry(trial_no, value, goes_on))
        return goes_on

    def settle(self, rung: int, trial_no: int, *, goes_on: bool) -> None:
        """Write down how it went on with a trial that waited at a rung."""
        at = self._places[rung][trial_no]
        self.rungs[rung][at] = RungEntry(trial_no, self.rungs[rung][at].value, goes_on)

    def value(self, rung: int, trial_no: int) -> float:
        """Return the value a trial reported at a rung that it has reached; raise KeyError
        otherwise."""
        value = self.rungs[rung][self._places[rung][trial_no]].value
        if value is None:
            raise KeyError(f"trial {trial_no} failed before rung {rung}")
        return value

    def ranking(self, rung: int) -> list[RungEntry]:
        """Return the entries of a rung, best first, ties in order of trial number."""
        return sorted(self.rungs[rung], key=lambda e: (score(e.value, self.spec.goal), e.trial_no))

    def cutoff(self, rung: int, *, kept: int) -> float | None:
        """Return the metric the next arrival must reach to go on; see `Searcher.cutoff`.

        kept: of those who wait there, how many may go on now (promotion, synchronous).
        """
        if self.is_last(rung):
            return None
        if self.spec.rule == "median":
            needed = None
            if len(self.ladders[rung]) >= self.spec.min_trials:
                needed = self._medians.median(rung)
            if needed is not None and not math.isfinite(needed):
                needed = None
        elif self.spec.rule == "stopping":
            needed = self.ladders[rung].next_cutoff_score(self.spec.divisor)
        else:
            needed = self.ladders[rung].cutoff_score(kept)
        if needed is None:
            return None
        return -needed if self.spec.goal == "max" else needed

    # ------------------------------------------------------------ brackets

    def next_bracket(self) -> int | None:
        """Return the bracket of the next trial: the one furthest behind its share, the first of
        several; None without brackets."""
        brackets = self.spec.brackets
        if not brackets:
            return None
        return min(
            range(len(brackets)), key=lambda i: (self.in_bracket[i] + 1) / brackets[i].trials
        )

    def span(self, bracket: int | None) -> tuple[int, int]:
        """(first rung, the one after the last) of a bracket; (0, 0) where there is none."""
        if bracket is None:
            return 0, 0
        first = self.firsts[bracket]
        return first, first + len(self.spec.brackets[bracket].rungs)

    def bracket_of(self, no: int) -> int | None:
        """Return the bracket in which a trial was seen, or the first if it was not; None without
        brackets."""
        if not self.spec.brackets:
            return None
        for bracket, first in enumerate(self.firsts):
            if no in self._places[first]:
                return bracket
        return 0

    def rungs_reached(self, no: int, bracket: int | None) -> int:
        """Return the rung after those at which a trial of this bracket has been judged."""
        first, end = self.span(bracket)
        for rung in range(first, end):
            place = self._places[rung].get(no)
            if place is None or self.rungs[rung][place].value is None:
                return rung
        return end

    def place(self, rung: int) -> tuple[int, int]:
        """(bracket, index within it) of a rung, both from 0."""
        bracket = max(i for i, first in enumerate(self.firsts) if first <= rung)
        return bracket, rung - self.firsts[bracket]

    def is_last(self, rung: int) -> bool:
        bracket, index = self.place(rung)
        return index + 1 == len(self.spec.brackets[bracket].rungs)

    # ------------------------------------------------------------ words

    def where(self, rung: int) -> str:
        bracket, index = self.place(rung)
        brackets = self.spec.brackets
        of = f" of bracket {bracket + 1}" if len(brackets) > 1 else ""
        return (
            f"rung {index + 1} of {len(brackets[bracket].rungs)}{of} "
            f"({self.units[rung]} {self.spec.unit})"
        )

    def why(self, rung: int, value: float, *, kept: int) -> str:
        """Return why a trial with this value does not continue from a rung; `kept` is as for
        `cutoff`."""
        where = self.where(rung)
        if not math.isfinite(value):
            return f"{self.spec.metric} was {encode_number(value)} at {where}"
        if self.spec.rule == "median":
            return f"the best {self.spec.metric} up to {where} was worse than the median of others"
        seen = len(self.rungs[rung])
        if self.spec.rule != "synchronous":
            kept = quota(seen, self.spec.divisor)
        return (
            f"{self.spec.metric} of {value:.6g} at {where} was not among the best {kept} of {seen}"
        )

    # ------------------------------------------------------------ stored

    def to_json(self) -> dict[str, Any]:
        return {
            "rungs": [
                [[e.trial_no, _encode(e.value), e.goes_on] for e in entries]
                for entries in self.rungs
            ],
            "means": [[encode_number(m) for m in means] for means in self._medians.means],
            "in_bracket": list(self.in_bracket),
        }

    def load(self, plain: dict[str, Any], *, num_created: int) -> None:
        """Take over what `to_json` gave; num_created: for states without `in_bracket`."""
        for rung, entries in enumerate(plain["rungs"]):
            for no, value, goes_on in entries:
                entry = RungEntry(no, _decode(value), goes_on)
                self._add(rung, entry)
                self.ladders[rung].add(score(entry.value, self.spec.goal), no)
        if "means" in plain:
            self._medians.means = [[decode_number(m) for m in ms] for ms in plain["means"]]
        created = [num_created] * len(self.spec.brackets)
        self.in_bracket = list(plain.get("in_bracket", created))

    def _add(self, rung: int, entry: RungEntry) -> None:
        self._places[rung][entry.trial_no] = len(self.rungs[rung])
        self.rungs[rung].append(entry)


def _encode(value: float | None) -> Number | None:
    return None if value is None else encode_number(value)


def _decode(value: Number | None) -> float | None:
    return None if value is None else decode_number(value)


def curve_to_json(curve: ValueCurve) -> Sequence[Number]:
    if curve.num == 0:
        return ()
    return (curve.num, encode_number(curve.sum), encode_number(curve.best))


def curve_from_json(plain: Sequence[Number]) -> ValueCurve:
    if not plain:
        return ValueCurve()
    num, total, best = plain
    return ValueCurve(int(num), decode_number(total), decode_number(best))
