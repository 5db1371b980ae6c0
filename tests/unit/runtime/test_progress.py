"""The expected end of a running trial: from its own reports, or nothing."""

import datetime as dt

import pytest

from muster.document.codec import load
from muster.document.experiment import ExperimentConfig
from muster_server.domain.runtime.progress import Progress, expected_end, planned_length

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def ago(seconds):
    return NOW - dt.timedelta(seconds=seconds)


def progress(**changes):
    values = {
        "started_at": ago(100),
        "reported_at": NOW,
        "step": 50,
        "first_step": 0,
        "num_steps_planned": 200,
    }
    return Progress(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "left_s"),
    [
        ({}, 300),  # 50 steps in 100 s, 150 to go
        ({"first_step": 40}, 1500),  # it did 10 itself
        ({"reported_at": ago(10)}, 260),  # 50 in 90 s; 270 s after that report
        ({"step": 200}, 0),
        ({"step": 250}, 0),  # more than planned: any moment
        ({"num_steps_planned": None}, None),
        ({"num_steps_planned": None, "epoch": 0.5, "num_epochs_planned": 2.0}, 300),
        ({"num_steps_planned": None, "epoch": 0.0, "num_epochs_planned": 2.0}, None),
        ({"num_steps_planned": None, "epoch": 0.5}, None),
        ({"reported_at": None}, None),
        ({"started_at": ago(9)}, None),  # too short to tell
        ({"step": 4}, None),  # too few to tell
        ({"step": 44, "first_step": 40}, None),
        ({"started_at": ago(1000), "reported_at": ago(61)}, None),  # it has gone silent
        ({"started_at": ago(1061), "reported_at": ago(61), "step": 50}, 2939),  # slow steps
    ],
)
def test_expected_end(changes, left_s):
    if changes.get("started_at") == ago(1000):
        changes = {**changes, "step": 900, "num_steps_planned": 2000}
    end = expected_end(progress(**changes), now=NOW)
    if left_s is None:
        assert end is None
    else:
        assert (end - NOW).total_seconds() == pytest.approx(left_s)


def test_the_end_is_never_in_the_past():
    assert expected_end(progress(reported_at=ago(50), step=199), now=NOW) == NOW


@pytest.mark.parametrize(
    ("config", "planned"),
    [
        ({}, (None, None)),
        ({"trainer": {"epochs": 3, "steps": None}}, (None, 3)),
        ({"trainer": {"steps": 7}, "search": {"max_length": None}}, (7, None)),
        ({"search": {"max_length": {"epochs": 9, "steps": None}}}, (None, 9)),
    ],
)
def test_what_a_document_plans(config, planned):
    assert planned_length(load(ExperimentConfig, {"name": "x", **config})) == planned
