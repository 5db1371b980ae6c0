"""What is said about a script that runs without an error, and still not as intended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster_server.domain.runtime.notices import (
    STEPS_BEFORE_NOTICE,
    STEPS_BETWEEN_EXCHANGES,
    ScriptRun,
    script_notices,
)
from muster_server.domain.states import TrialState

NONE = frozenset({""})
WELL = ScriptRun(
    state=TrialState.RUNNING,
    launcher="torchrun",
    world_size=2,
    num_reporting=2,
    backends=frozenset({"gloo"}),
    step=100,
    metrics=("time/step_ms", "time/backward_ms", "train/loss"),
    max_comm_bytes=44.0,
)


@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ({}, []),
        ({"backends": NONE}, ["script.independent"]),
        ({"backends": NONE, "step": STEPS_BEFORE_NOTICE - 1}, []),
        ({"backends": NONE, "num_reporting": 1}, []),
        ({"backends": NONE, "launcher": "direct"}, []),
        ({"backends": NONE, "metrics": ("train/loss",)}, []),
        ({"backends": NONE, "metrics": ("time/step_ms", "train/loss")}, []),
        ({"max_comm_bytes": 0.0, "launcher": "direct"}, ["script.independent"]),
        ({"backends": NONE, "world_size": 1, "num_reporting": 1}, []),
        ({"max_comm_bytes": 0.0}, ["script.independent"]),
        ({"max_comm_bytes": 0.0, "step": STEPS_BETWEEN_EXCHANGES - 1}, []),
        ({"max_comm_bytes": None}, []),
        ({"max_comm_bytes": 0.0, "backends": frozenset({"nccl"})}, []),
        ({"max_comm_bytes": 0.0, "backends": frozenset({"", "gloo"})}, ["script.independent"]),
        ({"metrics": ("time/step_ms", "comm/bytes")}, ["script.no_loss"]),
        ({"metrics": (), "step": STEPS_BEFORE_NOTICE - 1}, []),
        ({"metrics": (), "step": 0}, []),
        ({"state": TrialState.COMPLETED, "step": 0, "metrics": ()}, ["script.no_step"]),
        ({"state": TrialState.FAILED, "step": 0, "metrics": ()}, []),
        ({"state": TrialState.COMPLETED, "step": 0, "metrics": (), "num_reporting": 0}, []),
        (
            {"backends": NONE, "metrics": ("time/step_ms", "time/backward_ms")},
            ["script.independent", "script.no_loss"],
        ),
    ],
)
def test_each_notice_is_said_when_it_holds_and_not_before(changes, codes):
    assert [notice.code for notice in script_notices(replace(WELL, **changes))] == codes


def test_what_to_write_into_the_script_is_in_the_text():
    (said,) = script_notices(replace(WELL, metrics=()))
    assert "muster.log({'train/loss': loss})" in said.english
