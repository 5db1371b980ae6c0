"""What a ledger says in words, and the checkpoint interval that loses least."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from muster_server.domain.goodput.summary import SavingFacts, best_save_interval, headline

FACTS = SavingFacts(
    save_s=10.0,
    interval_s=7200.0,
    step_s=0.5,
    num_slots=8,
    pool_slot_s=8 * 30 * 24 * 3600.0,
    pool_failures=120,
)
"""Eight slots fail every six hours."""


@pytest.mark.parametrize(
    ("totals", "restarts", "expected"),
    [
        ({}, 0, None),
        ({"productive": 1000.0}, 0, "0% of the slot time was lost."),
        ({"productive": 996.0, "stopping": 4.0}, 0, "0.4% of the slot time was lost."),
        (
            {"productive": 690.0, "repeated": 220.0, "starting": 60.0, "stopping": 30.0},
            3,
            "31% of the slot time moved no training forward. 22% were steps that had to be repeated "
            "after 3 restarts. 6% passed before the first step: imports, rendezvous, loading and "
            "compiling.",
        ),
        (
            {"productive": 780.0, "repeated": 220.0},
            None,
            "22% of the slot time moved no training forward. 22% were steps that had to be repeated "
            "after a restart.",
        ),
        (
            {"productive": 100.0, "undetected": 300.0},
            0,
            # A running attempt as well, of which no failure is known.
            "75% of the slot time moved no training forward. 75% passed in silence after the last step.",
        ),
        (
            {"unmeasured": 600.0, "abandoned": 400.0},
            0,
            "Unknown: 60% of the slot time has no measured steps. Steps are measured with PyTorch, or "
            "with `muster.log`.",
        ),
    ],
)
def test_a_sentence_names_the_largest_losses(
    totals: dict[str, float], restarts: int | None, expected: str | None
) -> None:
    found = headline(totals, num_restarts=restarts)
    assert (found.english if found else None) == expected


def test_the_best_interval_is_youngs_and_loses_less_than_its_neighbours() -> None:
    found = best_save_interval(FACTS)
    assert found is not None
    assert found.failure_every_s == pytest.approx(6 * 3600)
    assert found.interval_s == pytest.approx(math.sqrt(2 * 10 * 6 * 3600), rel=1e-3)
    assert found.steps == round(found.interval_s / 0.5)
    for factor in (0.5, 2.0):
        other = best_save_interval(replace(FACTS, interval_s=found.interval_s * factor))
        assert other is None or other.lost_share < other.lost_share_now
    assert found.lost_share < found.lost_share_now
    assert found.lost_share_now == pytest.approx(10 / 7210 + 7200 / (2 * 6 * 3600))
    assert found.reason.english == (
        "A checkpoint every 1,315 steps would lose 3% of the time instead of 17%: a save takes 10 s, and "
        "as many slots of this pool fail every 6 h."
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"pool_failures": 0},
        {"save_s": 0.0},
        {"step_s": 0.0},
        {"interval_s": 0.0},
        {"interval_s": 660.0},
    ],
)
def test_no_interval_is_advised_without_failures_and_without_a_gain(
    changed: dict[str, float],
) -> None:
    assert best_save_interval(replace(FACTS, **changed)) is None  # type: ignore[arg-type]
