"""Selection of the steps whose collectives are recorded, so that recording stays cheap. Pure.

Which ones follows from a step's number alone, so the ranks, which choose how many for themselves, record
the sparser's steps together. They lie at no fixed distance: one step in four would always or never be
the one in four that exchanges.
"""

from __future__ import annotations

BUDGET = 0.0025
"""Share of the training thread's time that recording collectives and evaluating them may take. The
measured cost is about two thirds of the real one."""
MAX_EVERY = 64
CHECK_EVERY_STEPS = 30
NUM_FIRST_STEPS = 3
"""Number of first steps whose cost is ignored, because connections and caches are set up in them.
"""
_SPARE = 0.75
"""Share of the budget below which twice as many steps are recorded."""


def is_chosen(no: int, every: int) -> bool:
    """Return whether step `no`, from 0, is one of those that are chosen once in `every` steps."""
    # Multiples of the golden ratio fill the unit interval evenly, whatever other period steps have.
    return (no * 0x9E3779B1 & 0xFFFFFFFF) * every < 1 << 32


class StepSampling:
    """Selects every step until the cost of recording is known."""

    def __init__(self) -> None:
        self.every = 1
        """Interval at which steps are recorded: a power of two, so that denser selections contain
        sparser ones."""
        self._num_since = -NUM_FIRST_STEPS
        # Sums in which what is older counts less.
        self._cost_ns = self._num_recorded = 0.0
        self._step_ns = self._num_steps = 0.0

    def is_recorded(self, no: int) -> bool:
        """Return whether step `no`, from 0, is recorded."""
        return is_chosen(no, self.every)

    def add(self, step_ns: int, cost_ns: int | None) -> None:
        """Add a step and the cost of recording it; None if it was not recorded. Every
        `CHECK_EVERY_STEPS` steps, `every` is chosen anew."""
        self._num_since += 1
        if self._num_since <= 0:
            return
        self._step_ns += step_ns
        self._num_steps += 1
        if cost_ns is not None:
            self._cost_ns += cost_ns
            self._num_recorded += 1
        if self._num_since >= CHECK_EVERY_STEPS:
            self._num_since = 0
            self._choose()

    def _choose(self) -> None:
        if self._num_recorded and self._step_ns:
            cost = self._cost_ns / self._num_recorded
            wanted = cost / (BUDGET * self._step_ns / self._num_steps)
            while self.every < wanted and self.every < MAX_EVERY:
                self.every *= 2
            while self.every > 1 and wanted <= _SPARE * self.every / 2:
                self.every //= 2
        self._cost_ns /= 2
        self._num_recorded /= 2
        self._step_ns /= 2
        self._num_steps /= 2
