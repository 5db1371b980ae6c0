"""How much of an attempt survived in later ones, and whether anything used it."""

from __future__ import annotations

import pytest

from muster_server.domain.goodput.survival import (
    LaterAttempt,
    Survived,
    is_abandoned,
    start_step,
    survived,
)
from muster_server.domain.states import TrialState


def later(start: int | None, *, has_rows: bool = True) -> LaterAttempt:
    return LaterAttempt(start_step=start, has_rows=has_rows)


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([], Survived()),
        ([later(80)], Survived(80)),
        ([later(80), later(40)], Survived(40)),
        ([later(0, has_rows=False), later(80)], Survived(80)),
        ([later(0, has_rows=False)], Survived(0)),
        ([later(None)], Survived(is_known=False)),
        ([later(80), later(None)], Survived(is_known=False)),
        ([later(None, has_rows=False), later(80)], Survived(80)),
    ],
)
def test_the_lowest_step_that_a_later_attempt_went_on_from_is_what_survived(
    attempts: list[LaterAttempt], expected: Survived
) -> None:
    assert survived(attempts) == expected


@pytest.mark.parametrize(
    ("resume", "logged", "is_built_in", "expected"),
    [
        (80, 1, False, 80),
        (0, 81, False, 80),
        (0, 0, False, None),
        (0, 1, False, None),
        (0, 1, True, 0),
        (0, None, True, 0),
        (0, None, False, None),
    ],
)
def test_where_an_attempt_goes_on_from_is_said_only_by_what_shows_it(
    resume: int, logged: int | None, is_built_in: bool, expected: int | None
) -> None:
    found = start_step(resume_step=resume, first_logged_step=logged, is_built_in=is_built_in)
    assert found == expected


@pytest.mark.parametrize("state", list(TrialState))
def test_work_is_abandoned_when_its_trial_ended_without_completing_and_nothing_used_it(
    state: TrialState,
) -> None:
    ended_early = state in (TrialState.FAILED, TrialState.CANCELED, TrialState.STOPPED_EARLY)
    assert is_abandoned(state, has_used_checkpoint=False) == ended_early
    assert not is_abandoned(state, has_used_checkpoint=True)
