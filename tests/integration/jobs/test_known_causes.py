"""Trainings whose loss of time is known: the service names the cause and how large it is.

`bench/known_causes.py` does so with all of them.
"""

from __future__ import annotations

import pytest

from muster.client import Client
from support.known_causes import CAUSES, Cause, judged

pytestmark = pytest.mark.torch

NUM_MEASUREMENTS = 3
"""What else the machine does disturbs the clocks of a training: one that was disturbed is done again, and
the summary of scripts/test lists it. A wrong verdict is wrong each time."""

QUICK = (
    "HandSleeps", "EvaluatesByHand", "SavesNowAndThen sdk", "IsAlwaysLate x2", "PausesNowAndThen x2",
)  # fmt: skip


@pytest.mark.parametrize("cause", [c for c in CAUSES if c.name in QUICK], ids=lambda c: c.name)
def test_the_cause_is_named_with_its_figure(
    client: Client, cause: Cause, request: pytest.FixtureRequest
) -> None:
    rows = []
    for _ in range(NUM_MEASUREMENTS):
        found = judged(client, cause)
        if found.is_right:
            return
        rows.append(found.row())
        request.node.user_properties.append(("unsteady", found.row()))
    pytest.fail("\n".join(rows))
