"""Work waits as long as queueing theory says."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace

import pytest

JOBS = 60_000


def mean_wait_s(
    capacity: SimpleNamespace, load: float, *, is_random: bool, number: int = 1
) -> float:
    """Mean time in the queue of jobs of one second each, on average."""
    draw = random.Random(5)
    agenda = capacity.queues.Agenda()
    processors = capacity.queues.Processors(agenda, number)
    waits: list[float] = []

    def arrive(left: int) -> None:
        began, takes_s = agenda.now, draw.expovariate(1.0) if is_random else 1.0
        processors.work(takes_s, lambda: waits.append(agenda.now - began - takes_s))
        if left:
            agenda.after(draw.expovariate(load * number), lambda: arrive(left - 1))

    arrive(JOBS)
    agenda.run(math.inf)
    assert len(waits) == JOBS + 1
    assert processors.busy_s / agenda.now / number == pytest.approx(load, rel=0.03)
    return sum(waits) / len(waits)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_waits_are_those_of_queueing_theory(capacity: SimpleNamespace, load: float) -> None:
    m_m_1 = load / (1 - load)
    assert mean_wait_s(capacity, load, is_random=True) == pytest.approx(m_m_1, rel=0.1)
    assert mean_wait_s(capacity, load, is_random=False) == pytest.approx(m_m_1 / 2, rel=0.1)


def test_two_processors_wait_as_erlang_says(capacity: SimpleNamespace) -> None:
    load = 0.7
    waits = 2 * load**2 / (1 + load)  # that one has to wait: Erlang's C of two
    expected = waits / (2 * (1 - load))
    assert mean_wait_s(capacity, load, is_random=True, number=2) == pytest.approx(expected, rel=0.1)
