"""What is said about a script that runs without an error, and still not as intended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_server.domain.runtime.notices import STEPS_BEFORE_NOTICE, ScriptRun, script_notices
from muster_server.domain.states import TrialState

WELL = ScriptRun(
    state=TrialState.RUNNING,
    world_size=2,
    num_reporting=2,
    has_process_group=True,
    step=100,
    metrics=("time/step_ms", "train/loss"),
)


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, []),
        ({"has_process_group": False}, ["script.independent"]),
        ({"has_process_group": False, "step": STEPS_BEFORE_NOTICE - 1}, []),
        ({"has_process_group": False, "num_reporting": 1}, []),
        ({"has_process_group": False, "world_size": 1, "num_reporting": 1}, []),
        ({"metrics": ("time/step_ms", "comm/bytes")}, ["script.no_loss"]),
        ({"metrics": (), "step": STEPS_BEFORE_NOTICE - 1}, []),
        ({"metrics": (), "step": 0}, []),
        ({"state": TrialState.COMPLETED, "step": 0, "metrics": ()}, ["script.no_step"]),
        ({"state": TrialState.FAILED, "step": 0, "metrics": ()}, []),
        ({"state": TrialState.COMPLETED, "step": 0, "metrics": (), "num_reporting": 0}, []),
        (
            {"has_process_group": False, "metrics": ("time/step_ms",)},
            ["script.independent", "script.no_loss"],
        ),
    ],
)
def test_each_notice_is_said_when_it_holds_and_not_before(changes, codes):
    assert [notice.code for notice in script_notices(replace(WELL, **changes))] == codes


def test_what_to_write_into_the_script_is_in_the_text():
    (said,) = script_notices(replace(WELL, metrics=()))
    assert 'muster.log({"train/loss": loss})' in said.english
