"""Names of series where one job has several runs, one after another or side by side. Pure.

Whatever reports a name first has it as it is. The same name of any other run is a series of its own,
`run-2/loss`, so that no series is ever a mixture of two runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

RUNS_MAX: Final = 200
"""Runs that are told apart; the values of later ones are taken for those of the last."""
NAMES_MAX: Final = 20_000
"""Names whose steps are remembered."""


@dataclass
class _Steps:
    """Steps of a name in one run."""

    number: int
    """Number of the run, from 1."""
    first: int
    last: int
    is_reopened: bool = False
    """Whether something else writes them from now on: a run that begins with their first step is
    another one, even if that is their only step."""


class RunNames:
    """The runs of one process, which a library or the script itself tells apart by a key, or starts
    anew without a word: then the steps of a name begin again."""

    def __init__(self) -> None:
        self._num_runs = 0
        self._current: dict[Hashable, int] = {}
        """Key → number of its newest run."""
        self._steps: dict[tuple[Hashable, str], _Steps] = {}
        self._owners: dict[str, int] = {}
        """Name → number of the run that has it as it is."""

    def name(self, run: Hashable, name: str, step: int, *, is_late: bool = False) -> str:
        """Return the name of the series to which a value belongs.

        is_late: the value is older than others of its name, so that its step begins nothing."""
        current = self._current.get(run)
        if current is None:
            current = self._current[run] = self._new()
        steps = self._steps.get((run, name))
        if steps is None:
            if len(self._steps) >= NAMES_MAX:
                return name
            steps = self._steps[run, name] = _Steps(current, step, step)
        elif not is_late and (
            (step <= steps.first and (steps.first < steps.last or steps.is_reopened))
            or (steps.number < current and step <= steps.last)
        ):
            if steps.number == current:
                current = self._current[run] = self._new()
            steps.number, steps.first, steps.last = current, step, step
            steps.is_reopened = False
        else:
            steps.is_reopened = False
            steps.first, steps.last = min(steps.first, step), max(steps.last, step)
        owner = self._owners.setdefault(name, steps.number)
        return shown_name(name, owner, steps.number)

    @classmethod
    def restored(cls, saved: Mapping[str, Sequence[int]]) -> RunNames:
        """Return the names of a process with one run at a time, "", as `saved` has told them."""
        names = cls()
        for name, (owner, number, first, last) in saved.items():
            names._steps["", name] = _Steps(number, first, last)
            names._owners[name] = owner
            names._num_runs = max(names._num_runs, number)
        if saved:
            names._current[""] = names._num_runs
        return names

    def saved(self, name: str) -> list[int] | None:
        """Return what `restored` needs of a name of the run ""; None if there are too many."""
        steps = self._steps.get(("", name))
        if steps is None:
            return None
        return [self._owners[name], steps.number, steps.first, steps.last]

    def goes_back(self, run: Hashable, step: int) -> None:
        """Note that a run goes on from a step at which it has been before."""
        for (key, _), steps in self._steps.items():
            if key == run:
                steps.last = min(steps.last, max(step - 1, steps.first))
                steps.first = min(steps.first, step - 1)

    def is_reopened(self, run: Hashable) -> None:
        """Note that something else writes a run's values from now on: the same run that goes on, or
        another one that begins with its first step."""
        for (key, _), steps in self._steps.items():
            if key == run:
                steps.is_reopened = True

    def _new(self) -> int:
        self._num_runs = min(self._num_runs + 1, RUNS_MAX)
        return self._num_runs


def shown_name(name: str, owner: int, number: int) -> str:
    """Return the name of a run's series, where the run `owner` has the name as it is."""
    return name if owner == number else f"run-{number}/{name}"


class ProcessNames:
    """The processes that report for one rank. A process that begins a name anew is a run of its own; one
    that goes on beyond the first step of another, such as the next process after a restart, continues
    its series."""

    def __init__(self) -> None:
        self._firsts: dict[str, int] = {}
        """Name → its first step."""
        self._shown: dict[tuple[Hashable, str], str] = {}
        self._numbers: dict[Hashable, int] = {}
        self._used: set[int] = set()
        """Numbers of runs that a process has told apart by itself, or that are taken here."""

    def name(self, process: Hashable, name: str, steps: Sequence[int]) -> str:
        """Return the name of the series to which a process's values at these steps belong."""
        shown = self._shown.get((process, name))
        if shown is not None:
            return shown
        first = min(steps)
        if name not in self._firsts and len(self._firsts) < NAMES_MAX:
            self._firsts[name] = first
            self._note_number(name)
            shown = name
        elif first > self._firsts.get(name, -1):
            shown = name
        else:
            shown = f"run-{self._number(process)}/{name}"
        if len(self._shown) < NAMES_MAX:
            self._shown[process, name] = shown
        return shown

    def _number(self, process: Hashable) -> int:
        if process not in self._numbers:
            number = 2
            while number in self._used and number < RUNS_MAX:
                number += 1
            self._numbers[process] = number
            self._used.add(number)
        return self._numbers[process]

    def _note_number(self, name: str) -> None:
        head, _, rest = name.partition("/")
        digits = head.removeprefix("run-")
        if rest and digits != head and digits.isdecimal():
            self._used.add(int(digits[:6]))
